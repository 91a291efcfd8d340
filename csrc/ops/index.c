/* index.c: gathers, scatters and running reductions in torch's terms, and the rules that read by index.
 *
 * torch counts dims and wraps negative indices; StableHLO wants index vectors over the dims that they start in.
 * Everything here comes down to one of two forms: whole slices along a dim (embedding, index_select) or single
 * elements addressed by all their coordinates (gather, scatter). Indices are brought to i32 where a dim allows it,
 * since 64-bit integers are emulated on TPUs. Never reads outside: StableHLO clamps. Boolean masks have a result
 * size that depends on data; the shim makes places of them (shim/dynamic.cpp). */
#include <math.h>
#include <string.h>
#include "ops/index.h"
#include "ops/rules.h"

int64_t tt_want_numel(const tt_want *w) {
  int64_t n = 1;
  for (int i = 0; i < w->rank; i++) n *= w->dims[i];
  return n;
}

hlo tt_want_zeros(tt_ctx *c, int k) {
  return hlo_full(c->m, c->want[k].dtype, c->want[k].rank, c->want[k].dims, 0);
}

hlo tt_at_least_1d(hlo_module *m, hlo x) {
  int64_t one = 1;
  return x && x->rank == 0 ? hlo_reshape(m, x, 1, &one) : x;
}

hlo tt_index_prepare(hlo_module *m, hlo index, int64_t n, bool wrap, bool clamp) {
  if (!index) return NULL;
  bool narrow = n < INT32_MAX;
  if (tt_dtype_bits(index->dtype) < 32) index = hlo_convert(m, index, TT_I32);
  tt_dtype t = index->dtype;
  if (wrap) {
    hlo negative = hlo_compare(m, "LT", index, hlo_int(m, t, 0));
    if (narrow || t == TT_I64) index = hlo_select(m, negative, hlo_binary(m, "add", index, hlo_int(m, t, n)), index);
  }
  if (clamp)
    index = hlo_clamp(m, hlo_int(m, t, 0), index, hlo_int(m, t, n > 0 ? n - 1 : 0));
  else if (narrow && t == TT_I64) /* what is out of range must not come back into it when narrowed */
    index = hlo_clamp(m, hlo_int(m, t, -1), index, hlo_int(m, t, n));
  return hlo_convert(m, index, narrow ? TT_I32 : TT_I64);
}

hlo tt_gather_dim(hlo_module *m, hlo x, int dim, hlo index) {
  if (!x || !index) return NULL;
  int64_t sizes[TT_MAX_RANK];
  int offset[TT_MAX_RANK], n_offset = 0;
  for (int i = 0; i < x->rank; i++) {
    sizes[i] = i == dim ? 1 : x->dims[i];
    if (i != dim) offset[n_offset++] = i < dim ? i : i - 1 + index->rank;
  }
  if (hlo_numel(index) == 0 || hlo_numel(x) == 0) {
    int64_t dims[2 * TT_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < dim; i++) dims[rank++] = x->dims[i];
    for (int i = 0; i < index->rank; i++) dims[rank++] = index->dims[i];
    for (int i = dim + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
    return hlo_full(m, x->dtype, rank, dims, 0);
  }
  index = tt_index_prepare(m, index, x->dims[dim], false, true);
  return hlo_gather(m, x, index, &(hlo_gather_dims){
    .n_offset = n_offset, .offset = offset, .n_collapsed = 1, .collapsed = &dim, .n_start = 1, .start_index_map = &dim,
    .index_vector_dim = index ? index->rank : 0, .slice_sizes = sizes});
}

/* The coordinates of elements: index along dim, their own position along the other dims, as [index dims.., used]. Dims
 * where x has one place need none. */
static hlo coordinates(hlo_module *m, hlo x, int dim, hlo index, int *used, int *n_used) {
  hlo parts[TT_MAX_RANK];
  *n_used = 0;
  for (int i = 0; i < x->rank; i++) {
    if (i != dim && x->dims[i] == 1) continue;
    hlo at = i == dim ? index : hlo_iota(m, index->dtype, index->rank, index->dims, i);
    parts[*n_used] = hlo_unsqueeze(m, at, index->rank);
    used[(*n_used)++] = i;
  }
  return hlo_concat(m, *n_used, parts, index->rank);
}

hlo tt_gather_along(hlo_module *m, hlo x, int dim, hlo index) {
  if (!x || !index) return NULL;
  if (hlo_numel(index) == 0 || hlo_numel(x) == 0) return hlo_full(m, x->dtype, index->rank, index->dims, 0);
  int64_t sizes[TT_MAX_RANK], kept[TT_MAX_RANK];
  int all[TT_MAX_RANK], used[TT_MAX_RANK], n_used;
  for (int i = 0; i < x->rank; i++) sizes[i] = 1, all[i] = i;
  index = tt_index_prepare(m, index, x->dims[dim], false, true);
  if (!index) return NULL;
  hlo at = coordinates(m, x, dim, index, used, &n_used);
  for (int i = 0; i < n_used; i++) kept[i] = x->dims[used[i]];
  x = hlo_reshape(m, x, n_used, kept); /* libtpu 0.0.52 dies of a gather that names one dim of several */
  return hlo_gather(m, x, at, &(hlo_gather_dims){
    .n_collapsed = n_used, .collapsed = all, .n_start = n_used, .start_index_map = all,
    .index_vector_dim = index->rank, .slice_sizes = sizes});
}

/* add and its like over bool are or and and: what a sum of truths means to torch. */
static const char *op_for(const char *op, uint8_t dtype) {
  if (dtype != TT_BOOL) return op;
  if (!strcmp(op, "add") || !strcmp(op, "maximum")) return "or";
  if (!strcmp(op, "multiply") || !strcmp(op, "minimum")) return "and";
  return op;
}

hlo tt_scatter_along(hlo_module *m, const char *op, hlo x, int dim, hlo index, hlo updates) {
  if (!x || !index || !updates) return NULL;
  if (hlo_numel(index) == 0 || hlo_numel(x) == 0) return x;
  int all[TT_MAX_RANK], used[TT_MAX_RANK], n_used;
  for (int i = 0; i < x->rank; i++) all[i] = i;
  index = tt_index_prepare(m, index, x->dims[dim], false, false);
  if (!index) return NULL;
  hlo at = coordinates(m, x, dim, index, used, &n_used);
  return hlo_scatter(m, op_for(op, x->dtype), x, at, updates, &(hlo_scatter_dims){
    .n_inserted = x->rank, .inserted = all, .n_scatter = n_used, .scatter_to_operand = used,
    .index_vector_dim = index->rank});
}

hlo tt_scatter_dim(hlo_module *m, const char *op, hlo x, int dim, hlo index, hlo updates) {
  if (!x || !index || !updates) return NULL;
  if (hlo_numel(updates) == 0 || hlo_numel(x) == 0) return x;
  int window[TT_MAX_RANK], n = 0;
  for (int i = 0; i < x->rank; i++)
    if (i != dim) window[n++] = i;
  index = tt_index_prepare(m, index, x->dims[dim], false, false);
  return hlo_scatter(m, op_for(op, x->dtype), x, index, updates, &(hlo_scatter_dims){
    .n_update_window = n, .update_window = window, .n_inserted = 1, .inserted = &dim, .n_scatter = 1,
    .scatter_to_operand = &dim, .index_vector_dim = 1});
}

hlo tt_moved(hlo_module *m, hlo x, int dim, int64_t by, hlo fill) {
  if (!x) return NULL;
  if (by >= x->dims[dim] || -by >= x->dims[dim]) return hlo_broadcast(m, fill, x->rank, x->dims, NULL);
  int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0};
  low[dim] = by, high[dim] = -by;
  return hlo_pad(m, x, fill, low, high, NULL);
}

hlo tt_running(hlo_module *m, const char *op, hlo x, int dim, hlo identity) {
  for (int64_t step = 1; x && step < x->dims[dim]; step *= 2)
    x = hlo_binary(m, op, tt_moved(m, x, dim, step, identity), x);
  return x;
}

/* ---- sorted sequences ---- */
enum { SCAN_UP_TO = 128 }; /* shorter sequences are compared whole: one fused pass beats a chain of gathers */

hlo tt_search_sorted(hlo_module *m, hlo sorted, hlo values, bool right) {
  if (!sorted || !values) return NULL;
  int last = sorted->rank - 1;
  int64_t n = sorted->dims[last];
  const char *stop = right ? "GT" : "GE";
  int rank = values->rank;
  if (n == 0 || hlo_numel(values) == 0) return hlo_full(m, TT_I32, rank, values->dims, 0);
  if (n <= SCAN_UP_TO) {
    int64_t dims[TT_MAX_RANK + 1];
    int sorted_at[TT_MAX_RANK], values_at[TT_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = values->dims[i], values_at[i] = i;
    dims[rank] = n;
    for (int i = 0; i < last; i++) sorted_at[i] = i;
    sorted_at[last] = rank;
    hlo wide = hlo_broadcast(m, sorted, rank + 1, dims, sorted_at);
    hlo stops = hlo_compare(m, stop, wide, hlo_broadcast(m, values, rank + 1, dims, values_at));
    hlo none = hlo_int(m, TT_I32, n);
    hlo place = hlo_select(m, stops, hlo_iota(m, TT_I32, rank + 1, dims, rank), none);
    return hlo_reduce(m, "minimum", place, none, 1, &rank);
  }
  tt_dtype t = n < INT32_MAX ? TT_I32 : TT_I64;
  hlo low = hlo_full(m, t, rank, values->dims, 0);
  hlo high = hlo_full(m, t, rank, values->dims, (double)n);
  for (int64_t left = n; left > 0; left /= 2) { /* the classic bisection, as many steps as the longest needs */
    hlo open = hlo_compare(m, "LT", low, high);
    hlo half = hlo_binary(m, "shift_right_arithmetic", hlo_binary(m, "subtract", high, low), hlo_int(m, t, 1));
    hlo middle = hlo_binary(m, "add", low, half);
    hlo at = sorted->rank == 1 ? tt_gather_dim(m, sorted, 0, middle) : tt_gather_along(m, sorted, last, middle);
    hlo stops = hlo_compare(m, stop, at, values);
    high = hlo_select(m, hlo_binary(m, "and", open, stops), middle, high);
    low = hlo_select(m, hlo_binary(m, "and", open, hlo_unary(m, "not", stops)),
                     hlo_binary(m, "add", middle, hlo_int(m, t, 1)), low);
  }
  return low;
}

/* hlo says which argument is the sorted sequence: searchsorted takes it first, bucketize second. */
void rule_search_sorted(tt_ctx *c) {
  int sequence = c->op->hlo[0] == '1', right_at = 3;
  bool right = tt_bool(c, right_at);
  hlo sorted = tt_in(c, sequence), values = tt_in(c, !sequence);
  if (!sequence) {
    if (!strcmp(tt_str(c, 4), "right")) right = true;
    if (tt_has(c, 5) && sorted) sorted = tt_gather_along(c->m, sorted, sorted->rank - 1, tt_in_own(c, 5));
  }
  if (!sorted || !values) return;
  if (values->rank == 0) { /* a single value may be sought in a sequence of rank 1 only */
    int64_t one = 1;
    hlo found = tt_search_sorted(c->m, sorted, hlo_reshape(c->m, values, 1, &one), right);
    c->result[0] = hlo_reshape(c->m, found, 0, NULL);
    return;
  }
  c->result[0] = tt_search_sorted(c->m, sorted, values, right);
}

void rule_isin(tt_ctx *c) {
  hlo elements = tt_in(c, 0), tests = hlo_flatten(c->m, tt_in(c, 1));
  bool invert = tt_bool(c, 3);
  if (!elements || !tests) return;
  int rank = elements->rank, at[TT_MAX_RANK];
  int64_t dims[TT_MAX_RANK + 1];
  for (int i = 0; i < rank; i++) dims[i] = elements->dims[i], at[i] = i;
  dims[rank] = hlo_numel(tests);
  hlo equal = hlo_compare(c->m, "EQ", hlo_broadcast(c->m, elements, rank + 1, dims, at),
                          hlo_broadcast(c->m, tests, rank + 1, dims, &rank));
  hlo found = hlo_reduce(c->m, "or", equal, hlo_int(c->m, TT_BOOL, 0), 1, &rank);
  c->result[0] = invert ? hlo_unary(c->m, "not", found) : found;
}

/* ---- reads ---- */
static const char in_self[] = "index out of range in self",
                  in_dim[] = "index {} is out of bounds for dimension %d with size %lld",
                  in_data[] = "INDICES element is out of DATA bounds, id={} axis_dim=%lld",
                  in_elements[] = "out of range: tried to access index {} on a tensor of %lld elements.";

void rule_index_select(tt_ctx *c) {
  hlo x = tt_at_least_1d(c->m, tt_in(c, 0)), index = tt_at_least_1d(c->m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  if (x && dim == 0) tt_require_index(c, index, x->dims[0], false, TT_OUT_OF_RANGE, in_self);
  else if (x) tt_require_index(c, index, x->dims[dim], false, TT_INVALID_ARGUMENT, in_data, (long long)x->dims[dim]);
  if (index && index->rank > 1) {
    hlo_fail(c->m, TT_UNIMPLEMENTED, "index_select by an index of %d dims", index->rank);
    return;
  }
  if (tt_want_numel(&c->want[0]) == 0) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  c->result[0] = hlo_reshape(c->m, tt_gather_dim(c->m, x, dim, index), c->want[0].rank, c->want[0].dims);
}

void rule_embedding(tt_ctx *c) {
  tt_require_index(c, tt_in_own(c, 1), tt_in_dims(c, 0)[0], false, TT_OUT_OF_RANGE, in_self);
  c->result[0] = tt_want_numel(&c->want[0]) == 0 ? tt_want_zeros(c, 0)
                                                  : tt_gather_dim(c->m, tt_in(c, 0), 0, tt_in_own(c, 1));
}

void rule_gather(tt_ctx *c) {
  hlo x = tt_at_least_1d(c->m, tt_in(c, 0)), index = tt_at_least_1d(c->m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  if (x) tt_require_index(c, index, x->dims[dim], false, TT_INVALID_ARGUMENT, in_dim, dim, (long long)x->dims[dim]);
  c->result[0] = hlo_reshape(c->m, tt_gather_along(c->m, x, dim, index), c->want[0].rank, c->want[0].dims);
}

void rule_take(tt_ctx *c) {
  hlo x = hlo_flatten(c->m, tt_in(c, 0));
  tt_require_index(c, tt_in_own(c, 1), hlo_numel(x), true, TT_OUT_OF_RANGE, in_elements, (long long)hlo_numel(x));
  hlo index = tt_index_prepare(c->m, tt_in_own(c, 1), hlo_numel(x), true, true);
  c->result[0] = tt_gather_dim(c->m, x, 0, index);
}

/* ---- x[i, :, j]: lists of index tensors ---- */
void tt_require_list(tt_ctx *c, int list) { /* torch counts the dims that are indexed */
  for (int i = 0, k = 0; tt_debug(c) && i < tt_count(c, list) && i < tt_in_rank(c, 0); i++) {
    if (!tt_elem_has(c, list, i)) continue;
    hlo e = tt_elem(c, list, i);
    int64_t n = tt_in_dims(c, 0)[i];
    if (e && e->dtype != TT_BOOL && e->dtype != TT_U8)
      tt_require_index(c, e, n, true, TT_OUT_OF_RANGE, in_dim, k++, (long long)n);
  }
}

bool tt_index_list(tt_ctx *c, int list, hlo x, bool clamp, tt_index_plan *p) {
  *p = (tt_index_plan){0};
  if (!x) return false;
  int n = tt_count(c, list);
  hlo index[TT_MAX_RANK];
  for (int i = 0; i < n && i < x->rank; i++) {
    if (!tt_elem_has(c, list, i)) continue;
    hlo e = tt_elem(c, list, i);
    if (!e) return false;
    if (e->dtype == TT_BOOL || e->dtype == TT_U8) {
      hlo_fail(c->m, TT_UNIMPLEMENTED, "expected integer index tensors, got a mask, whose result depends on data");
      return false;
    }
    if (e->rank > p->batch_rank) { /* align what was there at the last dim */
      for (int k = p->batch_rank - 1; k >= 0; k--) p->batch[k + e->rank - p->batch_rank] = p->batch[k];
      for (int k = 0; k < e->rank - p->batch_rank; k++) p->batch[k] = 1;
      p->batch_rank = e->rank;
    }
    for (int k = 0; k < e->rank; k++) {
      int64_t *to = &p->batch[k + p->batch_rank - e->rank];
      if (*to == 1) *to = e->dims[k];
    }
    index[p->n_dims] = e;
    p->dims[p->n_dims++] = i;
  }
  bool adjacent = p->n_dims == 0 || p->dims[p->n_dims - 1] - p->dims[0] == p->n_dims - 1;
  int batch_at = adjacent && p->n_dims ? p->dims[0] : 0;
  bool wide = false;
  for (int k = 0; k < p->n_dims; k++) wide |= x->dims[p->dims[k]] >= INT32_MAX;
  for (int i = 0; i < batch_at; i++) p->result[p->rank++] = x->dims[i], p->window[p->n_window++] = i;
  for (int k = 0; k < p->batch_rank; k++) p->result[p->rank++] = p->batch[k];
  for (int i = batch_at; i < x->rank; i++) {
    bool indexed = false;
    for (int k = 0; k < p->n_dims; k++) indexed |= p->dims[k] == i;
    if (indexed) continue;
    p->window[p->n_window++] = p->rank;
    p->result[p->rank++] = x->dims[i];
  }
  hlo parts[TT_MAX_RANK];
  for (int k = 0; k < p->n_dims; k++) {
    hlo e = tt_index_prepare(c->m, index[k], x->dims[p->dims[k]], true, clamp);
    e = hlo_broadcast_to(c->m, hlo_convert(c->m, e, wide ? TT_I64 : TT_I32), p->batch_rank, p->batch);
    parts[k] = hlo_unsqueeze(c->m, e, p->batch_rank);
  }
  if (p->n_dims) p->at = hlo_concat(c->m, p->n_dims, parts, p->batch_rank);
  return true;
}

static hlo read_list(tt_ctx *c, hlo x, int list) {
  tt_index_plan p;
  if (!tt_index_list(c, list, x, true, &p)) return NULL;
  if (p.n_dims == 0) return x;
  int64_t sizes[TT_MAX_RANK], numel = hlo_numel(x);
  for (int i = 0; i < p.rank; i++) numel *= p.result[i];
  if (numel == 0) return hlo_full(c->m, x->dtype, p.rank, p.result, 0);
  for (int i = 0; i < x->rank; i++) sizes[i] = x->dims[i];
  for (int k = 0; k < p.n_dims; k++) sizes[p.dims[k]] = 1;
  return hlo_gather(c->m, x, p.at, &(hlo_gather_dims){
    .n_offset = p.n_window, .offset = p.window, .n_collapsed = p.n_dims, .collapsed = p.dims, .n_start = p.n_dims,
    .start_index_map = p.dims, .index_vector_dim = p.batch_rank, .slice_sizes = sizes});
}

void rule_index(tt_ctx *c) {
  tt_require_list(c, 1);
  c->result[0] = read_list(c, tt_in(c, 0), 1);
}

void rule_masked_index(tt_ctx *c) { /* (self, mask, indices, fill) */
  hlo x = tt_in(c, 0), read = read_list(c, x, 2);
  if (!read) return;
  hlo mask = hlo_broadcast_to(c->m, hlo_convert(c->m, tt_in_own(c, 1), TT_BOOL), read->rank, read->dims);
  c->result[0] = hlo_select(c->m, mask, read, tt_in_as(c, 3, read->dtype));
}

/* That the data's own range, numbers of rank 0, has ends. Which of its ends is none is told, not the range itself. */
static void require_range(tt_ctx *c, hlo low, hlo high) {
  hlo_module *m = c->m;
  hlo finite = hlo_binary(m, "and", hlo_unary(m, "is_finite", low), hlo_unary(m, "is_finite", high));
  tt_require(c, finite, NULL, TT_INVALID_ARGUMENT, "torch.histc: range of the data is not finite");
}

/* An end of a range of integers, cut. It has to fit in the elements' dtype. */
static hlo histc_end(hlo_module *m, tt_dtype t, double end) {
  int bits = (int)tt_dtype_bits(t), is_signed = tt_is_signed(t);
  double limit = ldexp(1, bits - is_signed);
  end = trunc(end);
  if (end >= limit || end < (is_signed ? -limit : 0))
    return hlo_fail(m, TT_INVALID_ARGUMENT, "value cannot be converted to type %s without overflow", tt_dtype_name(t));
  return hlo_int(m, TT_I64, (int64_t)end);
}

/* ---- histc(self, bins, min, max): elements by bins of equal width; the last includes its right edge ----
   Integers as on CUDA (the CPU has none): in 64 bits, counts in the dtype of the elements. */
void rule_histc(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = hlo_flatten(m, tt_in(c, 0));
  int64_t bins = tt_int(c, 1, 100);
  double lowest = tt_number_of(c, 2, 0), highest = tt_number_of(c, 3, 0);
  if (!x) return;
  if (!isfinite(lowest) || !isfinite(highest)) {
    hlo_fail(m, TT_INVALID_ARGUMENT, "torch.histc: range of [%g, %g] is not finite", lowest, highest);
    return;
  }
  tt_dtype t = x->dtype, own = t;
  hlo low, high;
  if (tt_is_float(t)) {
    low = hlo_float(m, t, lowest), high = hlo_float(m, t, highest);
  } else {
    low = histc_end(m, t, lowest), high = histc_end(m, t, highest);
    x = hlo_convert(m, x, t = TT_I64);
  }
  if (lowest == highest && hlo_numel(x) > 0) { /* the data's own range */
    int zero = 0;
    low = hlo_reduce(m, "minimum", x, hlo_highest(m, t), 1, &zero);
    high = hlo_reduce(m, "maximum", x, hlo_lowest(m, t), 1, &zero);
    if (tt_is_float(t)) require_range(c, low, high);
  }
  hlo flat = hlo_compare(m, "EQ", low, high);
  low = hlo_select(m, flat, hlo_binary_scalar(m, "subtract", low, 1), low);
  high = hlo_select(m, flat, hlo_binary_scalar(m, "add", high, 1), high);
  /* By one quotient, each step rounded to the dtype as on the CPU: edges are not compared with. */
  hlo part = hlo_binary_scalar(m, "multiply", hlo_binary(m, "subtract", x, low), (double)bins);
  part = hlo_binary(m, "divide", part, hlo_binary(m, "subtract", high, low));
  hlo inside = hlo_binary(m, "and", hlo_compare(m, "GE", x, low), hlo_compare(m, "LE", x, high));
  hlo bin = hlo_convert(m, hlo_select(m, inside, part, hlo_full_like(m, x, 0)), TT_I32);
  bin = hlo_binary(m, "minimum", bin, hlo_int(m, TT_I32, bins - 1));
  bin = hlo_select(m, inside, bin, hlo_int(m, TT_I32, bins));
  c->result[0] = tt_scatter_dim(m, "add", hlo_full(m, own, 1, &bins, 0), 0, bin,
                               hlo_convert(m, hlo_full_like(m, x, 1), own));
}
