/* view.h: strided views over a dense base, as StableHLO.
 *
 * A storage holds one dense base of some shape; a tensor is sizes, strides and an offset over it, in elements. Reading
 * emits reshape, slice, transpose, broadcast and reverse where they express the view, else a gather; writing emits a
 * dynamic_update_slice or a scatter. The offset may be a run-time value, so that x[i] is one program for every i. */
#ifndef TT_VIEW_H
#define TT_VIEW_H
#include "hlo/hlo.h"

typedef struct tt_view {
  uint8_t dtype, rank;            /* the tensor's, which may differ from the base's after view(dtype) */
  const int64_t *sizes, *strides; /* borrowed */
  int64_t offset;
} tt_view;

/* How a view lies in its base. What the class depends on is all that may enter a key besides sizes, strides and base.
 */
typedef enum tt_view_class {
  TT_VIEW_WHOLE,    /* the base itself: same dims, contiguous, offset 0 */
  TT_VIEW_COVER,    /* each element once: reshape/transpose of the whole base, offset 0 */
  TT_VIEW_FIXED,    /* needs the offset only as the constant 0 (broadcast, leading part ... of the base) */
  TT_VIEW_BOX,      /* a strided box in the base; where it starts is the offset, a run-time value */
  TT_VIEW_ANY       /* gather and scatter; the offset is a run-time value */
} tt_view_class;

tt_view_class tt_view_classify(const tt_view *v, tt_dtype base_dtype, int base_rank, const int64_t *base_dims);
bool tt_view_needs_offset(tt_view_class c); /* BOX and ANY */

/* The view's elements as a value of the view's dtype and sizes. offset: a rank-0 i64 value, or NULL to use v->offset as
 * a constant. */
hlo tt_view_read(hlo_module *m, hlo base, const tt_view *v, hlo offset);
/* The base with the view's elements replaced by value (of v's dtype and sizes). Where elements overlap any one may win.
 */
hlo tt_view_write(hlo_module *m, hlo base, const tt_view *v, hlo offset, hlo value);
/* True if sizes and strides describe dense memory (each element once, no gaps); then perm gives dims by decreasing
 * stride. */
bool tt_strides_dense(int rank, const int64_t *sizes, const int64_t *strides, int *perm);
void tt_strides_contiguous(int rank, const int64_t *sizes, int64_t *strides);
/* 1 + the largest element index the view touches, less its offset; 0 if empty. */
int64_t tt_view_extent(int rank, const int64_t *sizes, const int64_t *strides);
#endif
