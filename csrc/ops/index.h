/* index.h: gathers, scatters and running reductions in torch's terms, shared by the rules that index, sort and draw.
 *
 * All accept NULL values and give NULL then. Indices may be of any integer dtype. */
#ifndef TT_OPS_INDEX_H
#define TT_OPS_INDEX_H
#include "ops/op.h"

/* What counts n places cheapest. */
static inline tt_dtype tt_place_dtype(int64_t n) { return n < INT32_MAX ? TT_I32 : TT_I64; }
/* A tensor without dims is, to the indexing ops, one of a single place. */
hlo tt_at_least_1d(hlo_module *m, hlo x);
/* Indices into n places, in the dtype that is cheapest to compute with: i32 where n allows. Those out of range stay
 * out of range (-1 or n) unless clamp pulls them in; wrap takes -n .. -1 as counted from the end. */
hlo tt_index_prepare(hlo_module *m, hlo index, int64_t n, bool wrap, bool clamp);
/* x with dim replaced by index's dims: result[a.., i.., b..] = x[a.., index[i..], b..]. Clamps. */
hlo tt_gather_dim(hlo_module *m, hlo x, int dim, hlo index);
/* torch.gather: result[.., i, ..] = x[.., index[.., i, ..], ..], in index's dims. Clamps. */
hlo tt_gather_along(hlo_module *m, hlo x, int dim, hlo index);
/* x with updates (index's dims) combined in at the places that torch.scatter means; out of range writes nothing. */
hlo tt_scatter_along(hlo_module *m, const char *op, hlo x, int dim, hlo index, hlo updates);
/* Rows of x along dim combined with those of updates: x[.., index[i], ..] op= updates[.., i, ..]. index has rank 1. */
hlo tt_scatter_dim(hlo_module *m, const char *op, hlo x, int dim, hlo index, hlo updates);
/* x moved by some places towards the end of dim (by < 0: its start), with fill in those that become free. */
hlo tt_moved(hlo_module *m, hlo x, int dim, int64_t by, hlo fill);
/* Inclusive running op ("add", "maximum", ...) along dim, in log2(n) steps; identity has rank 0. */
hlo tt_running(hlo_module *m, const char *op, hlo x, int dim, hlo identity);
/* Where sorted (last dim, leading dims as values' or none) takes each of values: the first place whose element is not
 * below it (right: is above it). i32. */
hlo tt_search_sorted(hlo_module *m, hlo sorted, hlo values, bool right);
/* For each place, how many true ones of mask stand before it in row-major order; i32 (i64 past 2^31), mask's dims. */
hlo tt_rank_in_mask(hlo_module *m, hlo mask);
/* Stable, in torch's order (NaN last in what ascends), along dim: the elements and where each was, i32 if that fits. */
void tt_sorted(hlo_module *m, hlo x, int dim, bool descending, hlo *values, hlo *places);
/* x[i, :, j] with the index tensors of list argument list: what they address and the dims of what is read or written.
 * false where the list cannot be used (the error then stands in the module, as for masks). */
typedef struct tt_index_plan {
  int n_dims, dims[TT_MAX_RANK];          /* the indexed dims of x */
  int batch_rank;                         /* the index tensors' common dims */
  int64_t batch[TT_MAX_RANK];
  int rank, n_window, window[TT_MAX_RANK]; /* of the result; window: where x's other dims stand in it */
  int64_t result[TT_MAX_RANK];
  hlo at;                                 /* [batch.., n_dims]; NULL if nothing is indexed */
} tt_index_plan;
bool tt_index_list(tt_ctx *c, int list, hlo x, bool clamp, tt_index_plan *p);
/* Debug mode: that the index tensors of a list are in range of argument 0's dims. */
void tt_require_list(tt_ctx *c, int list);
/* How many elements of want; the rules give full zeros where that is 0, since StableHLO's gathers refuse empty dims. */
int64_t tt_want_numel(const tt_want *w);
hlo tt_want_zeros(tt_ctx *c, int k); /* zeros of the dims and dtype wanted of result k */
#endif
