/* compact.c: operators whose result size depends on data, as programs of static shapes: padded results and a count.
 *
 * What is chosen moves to the front in its order: a running count says where each goes, one scatter takes it there. A
 * result has room for everything that could be chosen; past the count it holds nothing of meaning. Where torch lays
 * out a result so that its variable dim is not the outermost in memory, the elements are put in that very order, by
 * division by the count, so that the result is always the beginning of its base. shim/dynamic.cpp reads the count and
 * gives the tensor its sizes. */
#include "ops/index.h"
#include "ops/rules.h"

/* x != 0, also of complex numbers, flat. */
static hlo truth(hlo_module *m, hlo x) {
  x = hlo_flatten(m, x);
  if (!x || x->dtype == TT_BOOL) return x;
  return hlo_compare(m, "NE", x, hlo_full_like(m, x, 0));
}

static hlo count_of(hlo_module *m, hlo mask) {
  int zero = 0;
  return hlo_reduce(m, "add", hlo_convert(m, mask, TT_I64), hlo_int(m, TT_I64, 0), 1, &zero);
}

/* Where mask (of rank 1) is true, in order; as long as mask. */
static hlo places(hlo_module *m, hlo mask) {
  hlo rank = tt_rank_in_mask(m, mask);
  if (!rank) return NULL;
  int64_t n = hlo_numel(mask);
  hlo to = hlo_select(m, mask, rank, hlo_int(m, rank->dtype, n));
  hlo at = hlo_iota(m, rank->dtype, 1, &n, 0);
  return tt_scatter_dim(m, "replace", hlo_full_like(m, at, 0), 0, to, at);
}

/* The count as a divisor of places of dtype t. */
static hlo divisor(hlo_module *m, hlo count, tt_dtype t) {
  return hlo_convert(m, hlo_binary(m, "maximum", count, hlo_int(m, TT_I64, 1)), t);
}

static hlo by_number(hlo_module *m, const char *op, hlo x, int64_t n) {
  return x ? hlo_binary(m, op, x, hlo_int(m, (tt_dtype)x->dtype, n)) : NULL;
}

/* ---- nonzero(self): coordinates, a column after the other as torch has them in memory; the count ---- */
static hlo coordinate(hlo_module *m, hlo place, int rank, const int64_t *dims, int d) {
  int64_t inner = 1;
  for (int i = d + 1; i < rank; i++) inner *= dims[i];
  place = inner == 1 ? place : by_number(m, "divide", place, inner);
  return d == 0 ? place : by_number(m, "remainder", place, dims[d]);
}

void rule_nonzero(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0), mask = truth(m, x), at = places(m, mask);
  if (!at) return;
  c->result[1] = count_of(m, mask);
  int64_t n = hlo_numel(mask) * x->rank;
  tt_dtype t = tt_place_dtype(n);
  if (x->rank > 1) {
    hlo j = hlo_iota(m, t, 1, &n, 0), count = divisor(m, c->result[1], t);
    hlo column = hlo_binary(m, "divide", j, count);
    at = hlo_convert(m, tt_gather_dim(m, at, 0, hlo_binary(m, "remainder", j, count)), t);
    hlo of = coordinate(m, at, x->rank, x->dims, 0);
    for (int d = 1; d < x->rank; d++)
      of = hlo_select(m, hlo_compare(m, "EQ", column, hlo_int(m, t, d)), coordinate(m, at, x->rank, x->dims, d), of);
    at = of;
  }
  c->result[0] = hlo_convert(m, at, TT_I64);
}

void rule_nonzero_static(tt_ctx *c) { /* (self, size, fill_value): the first coordinates, then fill_value */
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0), mask = truth(m, x);
  const tt_want *w = &c->want[0];
  if (!x || tt_want_numel(w) == 0 || hlo_numel(x) == 0) {
    c->result[0] = hlo_broadcast_to(m, hlo_int(m, TT_I64, tt_int(c, 2, -1)), w->rank, w->dims);
    return;
  }
  hlo k = hlo_iota(m, tt_place_dtype(w->dims[0]), w->rank, w->dims, 0), at = tt_gather_dim(m, places(m, mask), 0, k);
  hlo d = hlo_iota(m, TT_I32, w->rank, w->dims, 1), of = coordinate(m, at, x->rank, x->dims, 0);
  for (int i = 1; i < x->rank; i++)
    of = hlo_select(m, hlo_compare(m, "EQ", d, hlo_int(m, TT_I32, i)), coordinate(m, at, x->rank, x->dims, i), of);
  hlo there = hlo_compare(m, "LT", hlo_convert(m, k, TT_I64), count_of(m, mask));
  c->result[0] = hlo_select(m, there, hlo_convert(m, of, TT_I64), hlo_int(m, TT_I64, tt_int(c, 2, -1)));
}

/* x, as [before, n, after], at the places chosen of the middle dim: [n, after] where nothing is before, else flat, each
 * of the outer elements followed by the next right behind its count. */
static hlo chosen(hlo_module *m, hlo x, hlo at, hlo count) {
  if (!x || !at) return NULL;
  int64_t outer = x->dims[0], n = x->dims[1], inner = x->dims[2];
  if (outer == 1) return tt_gather_dim(m, hlo_squeeze_dim(m, x, 0), 0, at);
  int64_t numel = hlo_numel(x);
  tt_dtype t = tt_place_dtype(numel);
  hlo j = hlo_iota(m, t, 1, &numel, 0), of = divisor(m, count, t);
  hlo row = by_number(m, "divide", j, inner);
  hlo k = tt_gather_dim(m, at, 0, hlo_binary(m, "remainder", row, of));
  hlo from = hlo_binary(m, "add", by_number(m, "multiply", hlo_binary(m, "divide", row, of), n), hlo_convert(m, k, t));
  from = hlo_binary(m, "add", by_number(m, "multiply", from, inner), by_number(m, "remainder", j, inner));
  return tt_gather_dim(m, hlo_flatten(m, x), 0, from);
}

/* ---- (self, mask, at, order): self[.., mask, ..], the mask over the dims from at on; order: the result's dims as they
 * lie in memory, outer to inner ---- */
void rule_masked_select(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0), mask = tt_in_own(c, 1);
  if (!x || !mask) return;
  int first = (int)tt_int(c, 2, 0), rank = x->rank - mask->rank + 1, order[TT_MAX_RANK], at = 0;
  int64_t dims[TT_MAX_RANK + 1], three[3] = {1, hlo_numel(mask), 1}, given[TT_MAX_RANK + 1];
  for (int i = 0; i < rank; i++)
    dims[i] = i < first ? x->dims[i] : i == first ? three[1] : x->dims[i + mask->rank - 1];
  tt_ints(c, 3, given, rank);
  for (int i = 0; i < rank; i++) {
    order[i] = (int)given[i];
    if (order[i] == first) at = i;
  }
  for (int i = 0; i < rank; i++)
    if (i != at) three[i < at ? 0 : 2] *= dims[order[i]];
  mask = truth(m, mask);
  c->result[1] = count_of(m, mask);
  x = hlo_reshape(m, hlo_transpose(m, hlo_reshape(m, x, rank, dims), order), 3, three);
  hlo y = chosen(m, x, places(m, mask), c->result[1]);
  c->result[0] = hlo_reshape(m, y, c->want[0].rank, c->want[0].dims);
}

/* ---- unique ---- */
enum { COLUMN, ORDER, ROWS, CARRIED };

static void columns_left(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  results[0] = hlo_compare(m, "GE", args[COLUMN], hlo_int(m, TT_I32, 0));
}

/* Sorts by one column more: the last first, each stably, so that the first decides. */
static void sort_by_column(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo rows = args[ROWS];
  if (!rows) return;
  hlo starts[2] = {hlo_int(m, TT_I32, 0), args[COLUMN]}, key, by;
  int64_t sizes[2] = {rows->dims[0], 1};
  hlo column = hlo_flatten(m, hlo_dynamic_slice(m, rows, starts, sizes));
  tt_sorted(m, tt_gather_dim(m, column, 0, args[ORDER]), 0, false, &key, &by);
  results[COLUMN] = hlo_binary_scalar(m, "subtract", args[COLUMN], 1);
  results[ORDER] = tt_gather_dim(m, args[ORDER], 0, by);
  results[ROWS] = rows;
}

static hlo order_of_rows(hlo_module *m, hlo rows) {
  int64_t n = rows->dims[0];
  hlo column, by;
  if (rows->dims[1] == 1) {
    tt_sorted(m, hlo_flatten(m, rows), 0, false, &column, &by);
    return by;
  }
  hlo in[CARRIED] = {hlo_int(m, TT_I32, rows->dims[1] - 1), hlo_iota(m, tt_place_dtype(n), 1, &n, 0), rows},
      out[CARRIED] = {0};
  hlo_while(m, CARRIED, in, columns_left, sort_by_column, NULL, out);
  return out[ORDER];
}

/* (self, dim or None, inverse, counts) -> values with the dim first, count, inverse, counts; hlo "sort": equal ones
 * anywhere are one, else equal neighbours. */
void rule_unique(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  int64_t shape[2] = {hlo_numel(x), 1};
  int perm[TT_MAX_RANK], dim = -1, one = 1, zero = 0;
  if (tt_has(c, 1)) {
    dim = tt_dim(c, 1, x->rank, 0);
    perm[0] = dim;
    for (int i = 0, k = 1; i < x->rank; i++)
      if (i != dim) perm[k++] = i;
    shape[0] = x->dims[dim];
    shape[1] = hlo_numel(x) / shape[0];
    x = hlo_transpose(m, x, perm);
  }
  hlo rows = hlo_reshape(m, x, 2, shape), order = NULL;
  if (c->op->hlo[0] == 's') {
    order = order_of_rows(m, rows);
    rows = tt_gather_dim(m, rows, 0, order);
  }
  int64_t n = shape[0];
  tt_dtype t = tt_place_dtype(n);
  hlo before = hlo_slice_dim(m, rows, 0, 0, n - 1, 1), after = hlo_slice_dim(m, rows, 0, 1, n, 1);
  hlo parts[2] = {hlo_full(m, TT_BOOL, 1, (int64_t[]){1}, 1),
                  hlo_reduce(m, "or", hlo_compare(m, "NE", before, after), hlo_int(m, TT_BOOL, 0), 1, &one)};
  hlo starts = n == 1 ? parts[0] : hlo_concat(m, 2, parts, 0);
  hlo group = by_number(m, "subtract", tt_running(m, "add", hlo_convert(m, starts, t), zero, hlo_int(m, t, 0)), 1);
  hlo values = tt_gather_dim(m, rows, 0, places(m, starts));
  c->result[0] = hlo_reshape(m, values, c->want[0].rank, c->want[0].dims);
  c->result[1] = count_of(m, starts);
  hlo inverse = order ? tt_scatter_dim(m, "replace", hlo_full_like(m, group, 0), 0, order, group) : group;
  if (c->want[2].defined)
    c->result[2] = hlo_reshape(m, hlo_convert(m, inverse, TT_I64), c->want[2].rank, c->want[2].dims);
  if (c->want[3].defined)
    c->result[3] = tt_scatter_dim(m, "add", hlo_full(m, TT_I64, 1, &n, 0), 0, group, hlo_full(m, TT_I64, 1, &n, 1));
}

/* ---- results as long as a sum or a maximum says, which is known before: (.., size), a bound of it ---- */
void rule_repeat_interleave(tt_ctx *c) { /* (repeats, size): place i, repeats[i] times */
  hlo_module *m = c->m;
  hlo repeats = tt_in_own(c, 0);
  if (!repeats) return;
  int64_t size = tt_int(c, 1, 0);
  tt_dtype t = tt_place_dtype(size);
  hlo ends = tt_running(m, "add", hlo_convert(m, repeats, t), 0, hlo_int(m, t, 0));
  c->result[0] = tt_search_sorted(m, ends, hlo_iota(m, t, 1, &size, 0), true);
}

void rule_bincount(tt_ctx *c) { /* (self, weights, size) */
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  tt_dtype t = c->want[0].dtype;
  int64_t size = tt_int(c, 2, 0);
  hlo weights = tt_has(c, 1) ? tt_in_as(c, 1, t) : hlo_full(m, t, 1, x->dims, 1);
  c->result[0] = tt_scatter_dim(m, "add", hlo_full(m, t, 1, &size, 0), 0, x, weights);
}
