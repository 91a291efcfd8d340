/* sizes.h: sizes that vary in captured graphs: symbols and marks of the values of a trace, and tensors at capacity. */
#ifndef TT_SIZES_H
#define TT_SIZES_H
#include "tt.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- while a graph is traced. Errors stick in the trace's program and are returned ---- */
/* Makes number, of one element, what a new symbol stands for. The symbol: 1 and up; 0 with an error. */
int tt_trace_symbol(tt_trace *t, const tt_tensor *number, tt_error *err);
/* A symbol for a dim made of n others, row-major: of extents places each, of which the first so many count as
 * symbols[i] says (0: all). 0 if all of it counts, -1 with an error. */
int tt_trace_composite(tt_trace *t, int n, const int64_t *extents, const int64_t *symbols, tt_error *err);
/* The other way: what the symbol of a dim is made of. Returns how many; room for 8. */
int tt_trace_factors(tt_trace *t, int64_t dim, int symbol, int64_t *extents, int64_t *symbols);
/* x's value as a dense row-major storage of its own, with the marks that it has, or with those of marks (rank entries,
 * not NULL) in their place. New. */
tt_storage *tt_trace_marked(tt_trace *t, const tt_tensor *x, const int64_t *marks, tt_error *err);
/* The marks of x's dims, rank entries. */
tt_code tt_trace_marks(tt_trace *t, const tt_tensor *x, int64_t *marks, tt_error *err);
/* As tt_trace_marked, with fill in place of what does not count along dims, which are not marked any more. New. */
tt_storage *tt_trace_filled(tt_trace *t, const tt_tensor *x, int n, const int64_t *dims, double fill,
                            tt_error *err);

/* ---- tensors that are not traced ---- */
/* What a dim of a tensor is made of in a padded base: places of which the first n count. One factor: n is the dim's
 * size. */
typedef struct tt_places { int n; int64_t places[8], used[8]; } tt_places;
/* x as a view of its base's buffer in which dim i has sizes[i] places: its strides and offset there, and what each dim
 * is made of. False: it is no such view. */
bool tt_tensor_at_capacity(const tt_tensor *x, const int64_t *sizes, int64_t *strides, int64_t *offset,
                           tt_places *made_of);
/* A storage that holds the whole buffer of s, with a base as long as it. New; NULL with an error, or if s is undefined.
 */
tt_storage *tt_storage_whole(tt_storage *s, tt_error *err);
/* A storage that holds the buffer of s, but says that its base has dims only: as many, none larger, and of a power of
 * two where smaller. New. */
tt_storage *tt_storage_cut(tt_storage *s, const int64_t *dims, tt_error *err);
/* Gives to what from holds: contents, base and padding, of the same bytes. */
tt_code tt_storage_take_over(tt_storage *to, tt_storage *from, tt_error *err);

#ifdef __cplusplus
}
#endif
#endif
