/* scatter.c: rules that write by index: scatter, index_add, index_put, put, masked_scatter, gradients of lookups.
 *
 * Each becomes one StableHLO scatter over self, or a select where a mask says which places change. Updates are
 * combined in the compute dtype (f32 for f16 and bf16) and rounded once. Indices out of range write nothing. What a
 * boolean mask selects is found with a running count, so that no shape depends on data; masks mixed with index
 * tensors are refused. */
#include <string.h>
#include "ops/index.h"
#include "ops/rules.h"

static hlo as_wanted(tt_ctx *c, hlo x) { return hlo_reshape(c->m, x, c->want[0].rank, c->want[0].dims); }

/* The part of x that index's dims cover: torch.scatter reads no more of its source. */
static hlo covered(hlo_module *m, hlo x, hlo index) {
  static const int64_t zeros[TT_MAX_RANK];
  return x && index ? hlo_slice(m, x, zeros, index->dims, NULL) : NULL;
}

typedef enum reduction { REPLACE, SUM, PROD, MEAN, MAX, MIN } reduction;
static const char *const combine[] = {"replace", "add", "multiply", "add", "maximum", "minimum"};

static reduction reduction_named(tt_ctx *c, const char *name) {
  static const struct { const char *name; reduction r; } names[] = {
    {"", REPLACE}, {"add", SUM}, {"sum", SUM}, {"multiply", PROD},
    {"prod", PROD}, {"mean", MEAN}, {"amax", MAX}, {"amin", MIN}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i].name)) return names[i].r;
  hlo_fail(c->m, TT_INVALID_ARGUMENT, "reduce argument must be either sum, prod, mean, amax or amin, got %s", name);
  return REPLACE;
}

typedef hlo scatter_fn(hlo_module *m, const char *op, hlo x, int dim, hlo index, hlo updates);

static hlo neutral(hlo_module *m, reduction r, uint8_t t) {
  switch (r) {
    case PROD: return hlo_int(m, t, 1);
    case MAX: return hlo_lowest(m, t);
    case MIN: return hlo_highest(m, t);
    default: return hlo_int(m, t, 0);
  }
}

/* x with updates combined in; without include_self what is written to counts only the updates. */
static hlo scatter_reduced(hlo_module *m, scatter_fn *scatter, reduction r, hlo x, int dim, hlo index, hlo updates,
                           bool include_self) {
  if (!x || !updates) return NULL;
  hlo start = x, hit = NULL, count = NULL;
  if (!include_self) {
    hlo none = hlo_full(m, TT_BOOL, x->rank, x->dims, 0);
    hit = scatter(m, "replace", none, dim, index, hlo_full(m, TT_BOOL, updates->rank, updates->dims, 1));
    start = hlo_select(m, hit, neutral(m, r, x->dtype), x);
  }
  hlo y = scatter(m, combine[r], start, dim, index, updates);
  if (r != MEAN || !y) return y;
  tt_dtype t = x->dtype;
  hlo from = hlo_full(m, TT_I32, x->rank, x->dims, include_self ? 1 : 0);
  count = scatter(m, "add", from, dim, index, hlo_full(m, TT_I32, updates->rank, updates->dims, 1));
  count = hlo_binary(m, "maximum", count, hlo_int(m, TT_I32, 1));
  hlo n = hlo_convert(m, count, t);
  if (!tt_is_integral(t)) return hlo_binary(m, "divide", y, n);
  hlo quotient = hlo_binary(m, "divide", y, n), rest = hlo_binary(m, "remainder", y, n); /* rounded down */
  hlo down = hlo_compare(m, "LT", rest, hlo_int(m, t, 0));
  return hlo_select(m, down, hlo_binary_scalar(m, "subtract", quotient, 1), quotient);
}

static void require_in_dim(tt_ctx *c, hlo x, int dim, hlo index, tt_code code, const char *by) {
  if (x)
    tt_require_index(c, index, x->dims[dim], false, code, "%sindex {} is out of bounds for dimension %d with size %lld",
                     by, dim, (long long)x->dims[dim]);
}

static void require_in_self(tt_ctx *c, hlo x, int dim, hlo index) {
  if (x) tt_require_index(c, index, x->dims[dim], false, TT_OUT_OF_RANGE, "index out of range in self");
}

/* ---- scatter: (self, dim, index, src or value, reduce) ---- */
void rule_scatter(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_at_least_1d(m, tt_in(c, 0)), index = tt_at_least_1d(m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  const char *form = c->op->hlo; /* "src", "value": the last argument; with "+reduce" a string follows it */
  reduction r = !strcmp(form, "add") ? SUM : strstr(form, "reduce") ? reduction_named(c, tt_str(c, 4)) : REPLACE;
  if (!x || !index) return;
  hlo updates;
  if (form[0] == 'v')
    updates = hlo_broadcast(m, tt_in(c, 3), index->rank, index->dims, NULL);
  else
    updates = covered(m, tt_at_least_1d(m, tt_in(c, 3)), index);
  require_in_dim(c, x, dim, index, TT_INVALID_ARGUMENT, "");
  bool include_self = strcmp(form, "src+reduce+self") || tt_bool(c, 5);
  c->result[0] = as_wanted(c, scatter_reduced(m, tt_scatter_along, r, x, dim, index, updates, include_self));
}

/* ---- rows along a dim: (self, dim, index, source, ...) ---- */
static hlo source_rows(tt_ctx *c, hlo x, int dim, hlo index, int i) {
  if (!x || !index) return NULL;
  int64_t dims[TT_MAX_RANK];
  for (int k = 0; k < x->rank; k++) dims[k] = k == dim ? index->dims[0] : x->dims[k];
  return hlo_reshape(c->m, tt_in(c, i), x->rank, dims); /* a source of no dims may stand for one of size 1 */
}

/* Checked by the CPU's kernels, and by no Meta kernel. */
static void want_source_of_own_dtype(tt_ctx *c) {
  tt_dtype self = (tt_dtype)tt_in_dtype(c, 0), source = (tt_dtype)tt_in_dtype(c, 3);
  if (self != source)
    hlo_fail(c->m, TT_INVALID_ARGUMENT, "%s_(): self (%s) and source (%s) must have the same scalar type", c->op->name,
             tt_dtype_name(self), tt_dtype_name(source));
}

void rule_index_add(tt_ctx *c) {
  hlo_module *m = c->m;
  want_source_of_own_dtype(c);
  hlo x = tt_at_least_1d(m, tt_in(c, 0)), index = tt_at_least_1d(m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  hlo rows = source_rows(c, x, dim, index, 3);
  if (c->op->hlo[0] != 'a') require_in_dim(c, x, dim, index, TT_OUT_OF_RANGE, "index_copy_(): ");
  else if (x && x->rank == 1) require_in_self(c, x, dim, index);
  else require_in_dim(c, x, dim, index, TT_INVALID_ARGUMENT, "");
  if (c->op->hlo[0] == 'a') { /* add with alpha, else copy */
    hlo alpha = tt_in(c, 4);
    rows = hlo_binary(m, rows && rows->dtype == TT_BOOL ? "and" : "multiply", rows, alpha);
    c->result[0] = as_wanted(c, tt_scatter_dim(m, "add", x, dim, index, rows));
  } else {
    c->result[0] = as_wanted(c, tt_scatter_dim(m, "replace", x, dim, index, rows));
  }
}

void rule_index_fill(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_at_least_1d(m, tt_in(c, 0)), index = tt_at_least_1d(m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  if (!x || !index) return;
  tt_require_index(c, index, x->dims[dim], true, TT_OUT_OF_RANGE,
                   "index {} is out of bounds for dimension %d with size %lld", dim, (long long)x->dims[dim]);
  index = tt_index_prepare(m, index, x->dims[dim], true, false);
  /* Which places along dim are hit, then one select: cheaper than scattering whole rows of the same value. */
  int64_t n = x->dims[dim], k = hlo_numel(index);
  hlo none = hlo_full(m, TT_BOOL, 1, &n, 0);
  hlo hit = tt_scatter_dim(m, "replace", none, 0, index, hlo_full(m, TT_BOOL, 1, &k, 1));
  hit = hlo_broadcast(m, hit, x->rank, x->dims, &dim);
  c->result[0] = as_wanted(c, hlo_select(m, hit, tt_in_as(c, 3, x->dtype), x));
}

void rule_index_reduce(tt_ctx *c) {
  want_source_of_own_dtype(c);
  hlo x = tt_at_least_1d(c->m, tt_in(c, 0)), index = tt_at_least_1d(c->m, tt_in_own(c, 2));
  int dim = tt_dim(c, 1, tt_in_rank(c, 0), 0);
  reduction r = reduction_named(c, tt_str(c, 4));
  require_in_self(c, x, dim, index);
  hlo rows = source_rows(c, x, dim, index, 3);
  c->result[0] = as_wanted(c, scatter_reduced(c->m, tt_scatter_dim, r, x, dim, index, rows, tt_bool(c, 5)));
}

/* ---- masks ---- */
hlo tt_rank_in_mask(hlo_module *m, hlo mask) {
  if (!mask) return NULL;
  tt_dtype t = hlo_numel(mask) < INT32_MAX ? TT_I32 : TT_I64;
  hlo ones = hlo_convert(m, hlo_flatten(m, mask), t);
  hlo count = tt_running(m, "add", ones, 0, hlo_int(m, t, 0));
  return hlo_reshape(m, hlo_binary(m, "subtract", count, ones), mask->rank, mask->dims);
}

void rule_masked_scatter(tt_ctx *c) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  hlo x = hlo_broadcast_to(m, tt_in(c, 0), w->rank, w->dims);
  hlo mask = hlo_broadcast_to(m, hlo_convert(m, tt_in_own(c, 1), TT_BOOL), w->rank, w->dims);
  hlo source = hlo_flatten(m, tt_in_as(c, 2, w->dtype));
  if (!source) return;
  if (tt_debug(c) && mask && hlo_numel(mask)) {
    int dims[TT_MAX_RANK];
    for (int i = 0; i < mask->rank; i++) dims[i] = i;
    hlo count = hlo_reduce(m, "add", hlo_convert(m, mask, TT_I64), hlo_int(m, TT_I64, 0), mask->rank, dims);
    tt_require(c, hlo_compare(m, "LE", count, hlo_int(m, TT_I64, hlo_numel(source))), NULL, TT_INVALID_ARGUMENT,
               "Number of elements of source < number of ones in mask");
  }
  hlo chosen = hlo_numel(source) == 0 ? x : tt_gather_dim(m, source, 0, tt_rank_in_mask(m, mask));
  c->result[0] = hlo_select(m, mask, chosen, x);
}

void rule_masked_scatter_backward(tt_ctx *c) { /* (grad_output, mask, sizes): what the mask selects, then zeros */
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0);
  if (!grad) return;
  hlo mask = hlo_broadcast_to(m, hlo_convert(m, tt_in_own(c, 1), TT_BOOL), grad->rank, grad->dims);
  int64_t n = tt_want_numel(&c->want[0]);
  hlo rank = tt_rank_in_mask(m, mask);
  if (!rank) return;
  hlo place = hlo_select(m, mask, rank, hlo_int(m, rank->dtype, n < INT32_MAX || rank->dtype == TT_I64 ? n : -1));
  c->result[0] = as_wanted(c, tt_scatter_dim(m, "replace", hlo_full(m, grad->dtype, 1, &n, 0), 0, hlo_flatten(m, place),
                                             hlo_flatten(m, grad)));
}

/* self[.., mask, ..] = values (or +=), the only index being a mask whose first dim is x's dim at. */
static hlo put_masked(tt_ctx *c, hlo x, hlo mask, int at, hlo values, bool accumulate) {
  hlo_module *m = c->m;
  if (!x || !mask || !values) return NULL;
  int after = x->rank - at - mask->rank; /* dims of x behind the mask's */
  mask = hlo_convert(m, mask, TT_BOOL);
  int64_t dims[TT_MAX_RANK];
  int where[TT_MAX_RANK];
  for (int k = 0; k < mask->rank; k++) where[k] = at + k;
  hlo wide = hlo_broadcast(m, mask, x->rank, x->dims, where);
  int count_at = values->rank - 1 - after; /* where values has the selected ones, if it has them */
  if (count_at >= 0 && values->dims[count_at] != 1)
    values = tt_gather_dim(m, values, count_at, tt_rank_in_mask(m, mask));
  else if (count_at >= 0) {
    int rank = 0;
    for (int k = 0; k < count_at; k++) dims[rank++] = values->dims[k];
    for (int k = 0; k < mask->rank; k++) dims[rank++] = 1;
    for (int k = count_at + 1; k < values->rank; k++) dims[rank++] = values->dims[k];
    values = hlo_reshape(m, values, rank, dims);
  }
  if (hlo_numel(x) == 0 || hlo_numel(values) == 0) return x;
  values = hlo_broadcast_to(m, values, x->rank, x->dims);
  if (accumulate) values = hlo_binary(m, x->dtype == TT_BOOL ? "or" : "add", x, values);
  return hlo_select(m, wide, values, x);
}

/* ---- index_put: (self, indices, values, accumulate) ---- */
static hlo put_list(tt_ctx *c, hlo x, int list, hlo values, bool accumulate, bool clamp) {
  hlo_module *m = c->m;
  int n_masks = 0, n_given = 0, mask_at = 0;
  for (int i = 0; i < tt_count(c, list); i++) {
    if (!tt_elem_has(c, list, i)) continue;
    hlo e = tt_elem(c, list, i);
    n_given++;
    if (e && (e->dtype == TT_BOOL || e->dtype == TT_U8)) n_masks++, mask_at = i;
  }
  if (n_masks == 1 && n_given == 1) return put_masked(c, x, tt_elem(c, list, mask_at), mask_at, values, accumulate);
  tt_index_plan p;
  if (!tt_index_list(c, list, x, clamp, &p)) return NULL;
  values = hlo_broadcast_to(m, values, p.rank, p.result);
  if (!values || hlo_numel(values) == 0 || hlo_numel(x) == 0) return x;
  if (p.n_dims == 0) return accumulate ? hlo_binary(m, x->dtype == TT_BOOL ? "or" : "add", x, values) : values;
  const char *op = !accumulate ? "replace" : x->dtype == TT_BOOL ? "or" : "add";
  return hlo_scatter(m, op, x, p.at, values, &(hlo_scatter_dims){
    .n_update_window = p.n_window, .update_window = p.window, .n_inserted = p.n_dims, .inserted = p.dims,
    .n_scatter = p.n_dims, .scatter_to_operand = p.dims, .index_vector_dim = p.batch_rank});
}

/* What repeated additions are summed in: as torch, f16 and bf16 are rounded once. */
static tt_dtype sum_dtype(uint8_t t) { return t == TT_F16 || t == TT_BF16 ? TT_F32 : t; }

void rule_index_put(tt_ctx *c) {
  int given = 0;
  for (int i = 0; i < tt_count(c, 1); i++) given += tt_elem_has(c, 1, i);
  if (given > tt_in_rank(c, 0) + tt_count(c, 1) * (tt_in_rank(c, 0) == 0) || tt_in_dtype(c, 2) != c->want[0].dtype) {
    hlo_fail(c->m, TT_UNIMPLEMENTED, "indices or a dtype that torch refuses"); /* in its own words, on the host */
    return;
  }
  bool accumulate = tt_bool(c, 3);
  tt_require_list(c, 1);
  tt_dtype t = accumulate ? sum_dtype(c->want[0].dtype) : c->want[0].dtype;
  c->result[0] = put_list(c, tt_in_as(c, 0, t), 1, tt_in_as(c, 2, t), accumulate, false);
}

void rule_masked_index_put(tt_ctx *c) { /* (self, mask, indices, values): adds values where mask is true */
  tt_dtype t = sum_dtype(c->want[0].dtype);
  hlo x = tt_in_as(c, 0, t), values = tt_in_as(c, 3, t);
  if (!x || !values) return;
  hlo mask = hlo_broadcast_to(c->m, hlo_convert(c->m, tt_in_own(c, 1), TT_BOOL), values->rank, values->dims);
  c->result[0] = put_list(c, x, 2, hlo_select(c->m, mask, values, hlo_int(c->m, values->dtype, 0)), true, true);
}

void rule_put(tt_ctx *c) { /* (self, index, source, accumulate): over self's elements in row-major order */
  hlo_module *m = c->m;
  bool accumulate = tt_bool(c, 3);
  tt_dtype t = accumulate ? sum_dtype(c->want[0].dtype) : c->want[0].dtype;
  hlo x = hlo_flatten(m, tt_in_as(c, 0, t)), source = hlo_flatten(m, tt_in_as(c, 2, t));
  tt_require_index(c, tt_in_own(c, 1), hlo_numel(x), true, TT_OUT_OF_RANGE,
                   "out of range: tried to access index {} on a tensor of %lld elements.", (long long)hlo_numel(x));
  hlo index = tt_index_prepare(m, hlo_flatten(m, tt_in_own(c, 1)), hlo_numel(x), true, false);
  c->result[0] = as_wanted(c, tt_scatter_dim(m, accumulate ? "add" : "replace", x, 0, index, source));
}

/* ---- embedding_dense_backward: (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) ---- */
void rule_embedding_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), index = hlo_flatten(m, tt_in_own(c, 1));
  if (!grad || !index) return;
  int64_t weights = tt_int(c, 2, 0), padding = tt_int(c, 3, -1), n = hlo_numel(index);
  int64_t rows[2] = {n, grad->dims[grad->rank - 1]}, whole[2] = {weights, rows[1]};
  hlo updates = hlo_reshape(m, grad, 2, rows);
  if (padding >= 0) /* its row gets nothing: it is sent out of range */
    index = hlo_select(m, hlo_compare(m, "NE", index, hlo_int(m, index->dtype, padding)), index,
                       hlo_int(m, index->dtype, -1));
  if (tt_bool(c, 4) && n > 0 && weights > 0) {
    hlo count = tt_scatter_dim(m, "add", hlo_full(m, TT_I32, 1, &weights, 0), 0, index, hlo_full(m, TT_I32, 1, &n, 1));
    hlo times = hlo_binary(m, "maximum", tt_gather_dim(m, count, 0, index), hlo_int(m, TT_I32, 1));
    int zero = 0;
    updates = hlo_binary(m, "divide", updates, hlo_broadcast(m, hlo_convert(m, times, grad->dtype), 2, rows, &zero));
  }
  c->result[0] = tt_scatter_dim(m, "add", hlo_full(m, grad->dtype, 2, whole, 0), 0, index, updates);
}
