/* sort.c: sort, topk, kthvalue, median, mode: order statistics by one stable sort that carries positions along.
 *
 * The order is torch's: NaN is greater than everything and equal to itself, -0 equals 0, and equal elements keep the
 * order they had, also when descending; so "stable" is always honoured, and ties fall where torch's stable sort puts
 * them. Positions are i32 inside where they fit and int64 outside. Refuses no dtype that torch can compare. */
#include "ops/index.h"
#include "ops/rules.h"

typedef struct pair { hlo value, place; } pair; /* elements and where each was along the dim */

static hlo is_nan(hlo_module *m, hlo x) {
  if (!x) return NULL;
  return tt_is_float(x->dtype) ? hlo_compare(m, "NE", x, x) : hlo_full(m, TT_BOOL, x->rank, x->dims, 0);
}

static void precedes(hlo_module *m, const hlo *args, hlo *results, void *user) {
  bool descending = *(const bool *)user;
  hlo a = args[0], b = args[1];
  results[0] = hlo_compare(m, descending ? "GT" : "LT", a, b);
  if (!a || !tt_is_float(a->dtype)) return;
  hlo late = descending ? a : b, early = descending ? b : a; /* NaN is the greatest: late in what ascends */
  hlo apart = hlo_binary(m, "and", hlo_compare(m, "NE", late, late), hlo_compare(m, "EQ", early, early));
  results[0] = hlo_binary(m, "or", results[0], apart);
}

static pair sorted(hlo_module *m, hlo x, int dim, bool descending) {
  if (!x) return (pair){0};
  hlo in[2] = {x, hlo_iota(m, tt_place_dtype(x->dims[dim]), x->rank, x->dims, dim)}, out[2] = {0};
  if (hlo_numel(x) == 0) return (pair){in[0], in[1]};
  hlo_sort(m, 2, in, dim, true, precedes, &descending, out);
  return (pair){out[0], out[1]};
}

void tt_sorted(hlo_module *m, hlo x, int dim, bool descending, hlo *values, hlo *places) {
  pair p = sorted(m, x, dim, descending);
  *values = p.value;
  *places = p.place;
}

/* Operand 0, with a dim to sort along even if torch's tensor has none. */
static hlo operand(tt_ctx *c, int dim_arg, int *dim) {
  int64_t one = 1;
  int rank = tt_in_rank(c, 0);
  *dim = rank == 0 ? 0 : tt_dim(c, dim_arg, rank, rank - 1);
  hlo x = tt_in(c, 0);
  return x && x->rank == 0 ? hlo_reshape(c->m, x, 1, &one) : x;
}

static void give(tt_ctx *c, pair p) {
  c->result[0] = hlo_reshape(c->m, p.value, c->want[0].rank, c->want[0].dims);
  c->result[1] = hlo_reshape(c->m, hlo_convert(c->m, p.place, TT_I64), c->want[1].rank, c->want[1].dims);
}

/* Place at (static) along dim, the dim kept with size 1. */
static pair picked(hlo_module *m, pair s, int dim, int64_t at) {
  return (pair){hlo_slice_dim(m, s.value, dim, at, at + 1, 1), hlo_slice_dim(m, s.place, dim, at, at + 1, 1)};
}

/* The same at places that are values: at has size 1 along dim. */
static pair picked_at(hlo_module *m, pair s, int dim, hlo at) {
  return (pair){tt_gather_along(m, s.value, dim, at), tt_gather_along(m, s.place, dim, at)};
}

static hlo reduced(hlo_module *m, const char *op, hlo x, hlo init, int dim) { /* keeps the dim */
  return hlo_unsqueeze(m, hlo_reduce(m, op, x, init, 1, &dim), dim);
}

void rule_sort(tt_ctx *c) { /* hlo: the position of dim; descending follows it */
  int dim, at = c->op->hlo[0] - '0';
  hlo x = operand(c, at, &dim);
  give(c, sorted(c->m, x, dim, tt_bool(c, at + 1)));
}

void rule_topk(tt_ctx *c) { /* (self, k, dim, largest, sorted) */
  int dim;
  hlo x = operand(c, 2, &dim);
  if (!x) return;
  int64_t n = x->dims[dim], k = tt_in_rank(c, 0) ? tt_int(c, 1, 1) : 1; /* without dims: the element, whatever k */
  if (k < 0 || k > n) {
    hlo_fail(c->m, TT_INVALID_ARGUMENT, "selected index k out of range");
    return;
  }
  pair s = sorted(c->m, x, dim, tt_bool(c, 3));
  give(c, (pair){hlo_slice_dim(c->m, s.value, dim, 0, k, 1), hlo_slice_dim(c->m, s.place, dim, 0, k, 1)});
}

void rule_kthvalue(tt_ctx *c) { /* (self, k, dim, keepdim) */
  int dim;
  hlo x = operand(c, 2, &dim);
  if (!x) return;
  int64_t k = tt_int(c, 1, 1), n = x->dims[dim];
  if (k < 1 || k > n) {
    hlo_fail(c->m, TT_INVALID_ARGUMENT, "kthvalue(): selected number k out of range for dimension %d", dim);
    return;
  }
  give(c, picked(c->m, sorted(c->m, x, dim, false), dim, k - 1));
}

/* ---- medians: the lower of two middles. NaN wins in median (the first one) and does not count in nanmedian ---- */
static pair median(hlo_module *m, hlo x, int dim, bool skip_nan) {
  if (!x) return (pair){0};
  int64_t n = x->dims[dim];
  pair s = sorted(m, x, dim, false);
  pair middle = picked(m, s, dim, (n - 1) / 2);
  if (!tt_is_float(x->dtype) || !middle.place) return middle;
  tt_dtype t = middle.place->dtype;
  hlo zero = hlo_int(m, t, 0);
  hlo nans = reduced(m, "add", hlo_convert(m, is_nan(m, x), t), zero, dim);
  hlo valid = hlo_binary(m, "subtract", hlo_int(m, t, n), nans);
  if (skip_nan) {
    hlo half = hlo_binary(m, "shift_right_arithmetic", hlo_binary_scalar(m, "subtract", valid, 1), hlo_int(m, t, 1));
    return picked_at(m, s, dim, hlo_binary(m, "maximum", half, zero));
  }
  hlo first = hlo_select(m, is_nan(m, x), hlo_iota(m, t, x->rank, x->dims, dim), hlo_int(m, t, n));
  first = reduced(m, "minimum", first, hlo_int(m, t, n), dim);
  hlo any = hlo_compare(m, "GT", nans, zero);
  return (pair){hlo_select(m, any, hlo_float(m, x->dtype, __builtin_nan("")), middle.value),
                hlo_select(m, any, first, middle.place)};
}

void rule_median(tt_ctx *c) { /* (self): over all elements; hlo "nan" skips NaN */
  hlo x = hlo_flatten(c->m, tt_in(c, 0));
  if (!x) return;
  if (hlo_numel(x) == 0) /* torch converts NaN: undefined for integers, where the usual machine gives the least */
    c->result[0] = tt_is_float(x->dtype) ? hlo_float(c->m, x->dtype, __builtin_nan("")) : hlo_lowest(c->m, x->dtype);
  else
    c->result[0] = hlo_reshape(c->m, median(c->m, x, 0, c->op->hlo[0] == 'n').value, 0, NULL);
}

static void give_empty(tt_ctx *c) {
  for (int k = 0; k < 2; k++)
    c->result[k] = tt_want_zeros(c, k);
}

void rule_median_dim(tt_ctx *c) { /* (self, dim, keepdim) */
  int dim;
  hlo x = operand(c, 1, &dim);
  if (x && hlo_numel(x) == 0)
    give_empty(c);
  else
    give(c, median(c->m, x, dim, c->op->hlo[0] == 'n'));
}

/* ---- mode(self, dim, keepdim): the most frequent element, the smallest of several, its last place ---- */
void rule_mode(tt_ctx *c) {
  hlo_module *m = c->m;
  int dim;
  hlo x = operand(c, 1, &dim);
  if (!x) return;
  if (hlo_numel(x) == 0) {
    give_empty(c);
    return;
  }
  int64_t n = x->dims[dim];
  pair s = sorted(m, x, dim, false);
  if (!s.value) return;
  tt_dtype t = tt_place_dtype(n);
  hlo at = hlo_iota(m, t, x->rank, x->dims, dim);
  /* A run starts where an element differs from the one before; NaNs differ from each other, as in torch. */
  hlo parts[2] = {hlo_slice_dim(m, s.value, dim, 0, 1, 1), hlo_slice_dim(m, s.value, dim, 0, n - 1, 1)};
  hlo before = hlo_concat(m, 2, parts, dim);
  hlo starts = hlo_compare(m, "NE", s.value, before);
  hlo zero = hlo_int(m, t, 0);
  hlo start = tt_running(m, "maximum", hlo_select(m, starts, at, zero), dim, zero);
  hlo length = hlo_binary(m, "subtract", at, start); /* less one; largest at the end of the longest run */
  hlo longest = reduced(m, "maximum", length, zero, dim);
  hlo is_longest = hlo_compare(m, "EQ", length, hlo_broadcast_to(m, longest, x->rank, x->dims));
  hlo none = hlo_int(m, t, n);
  hlo end = reduced(m, "minimum", hlo_select(m, is_longest, at, none), none, dim);
  give(c, picked_at(m, s, dim, end));
}
