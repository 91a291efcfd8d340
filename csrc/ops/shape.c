/* shape.c: rules that only move elements: joining, repeating, turning, triangles and diagonals, copies of views, and
 * the gradients of views.
 *
 * No element is computed, so every dtype is served in its own. Sizes are static, so most rules are a few pads, slices,
 * reshapes and selects that XLA fuses; none gathers. Views themselves are not lowered here: they cost nothing in
 * torch and are read by whoever consumes them. Refuses as_strided forms: a rule does not know its operands' strides. */
#include <string.h>
#include "ops/index.h"
#include "ops/op.h"
#include "ops/rules.h"

typedef struct place { int64_t low[TT_MAX_RANK], high[TT_MAX_RANK], interior[TT_MAX_RANK]; } place; /* of a pad */

static hlo zero_of(hlo_module *m, uint8_t t) { return hlo_int(m, t, 0); }

static hlo pad(hlo_module *m, hlo x, hlo value, const place *p) {
  return hlo_pad(m, x, value, p->low, p->high, p->interior);
}

static hlo as_wanted(tt_ctx *c, hlo x) { return hlo_reshape(c->m, x, c->want[0].rank, c->want[0].dims); }

static int64_t clamped(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

static int wrapped(int64_t dim, int rank) { return (int)(dim < 0 ? dim + rank : dim); }

/* ---- joining ---- */
void rule_cat(tt_ctx *c) {
  const tt_want *w = &c->want[0];
  int n = tt_count(c, 0), kept = 0, dim = tt_dim(c, 1, w->rank, 0);
  bool sized = false;
  hlo *xs = hlo_alloc(c->m, (size_t)(n + 1) * sizeof *xs);
  if (!xs) return;
  for (int e = 0; e < n; e++) {
    hlo x = tt_elem_as(c, 0, e, w->dtype);
    if (!x) return;
    if (x->rank == 1 && x->dims[0] == 0 && w->rank != 1) continue; /* torch lets such be left out, whatever the rank */
    sized |= x->symbols && x->symbols[dim];
    xs[kept++] = x;
  }
  if (sized) c->result[0] = hlo_concat_sized(c->m, kept, xs, dim, w->dims[dim]);
  else c->result[0] = kept ? hlo_concat(c->m, kept, xs, dim) : tt_want_zeros(c, 0);
}

void rule_stack(tt_ctx *c) {
  const tt_want *w = &c->want[0];
  int n = tt_count(c, 0), dim = tt_dim(c, 1, w->rank, 0);
  hlo *xs = hlo_alloc(c->m, (size_t)(n + 1) * sizeof *xs);
  if (!xs) return;
  for (int e = 0; e < n; e++) xs[e] = hlo_unsqueeze(c->m, tt_elem_as(c, 0, e, w->dtype), dim);
  c->result[0] = hlo_concat(c->m, n, xs, dim);
}

void rule_block_diag(tt_ctx *c) { /* tensors of rank 0 to 2 along the diagonal */
  const tt_want *w = &c->want[0];
  int64_t at[2] = {0, 0};
  hlo result = NULL;
  for (int e = 0; e < tt_count(c, 0); e++) {
    hlo x = tt_elem_as(c, 0, e, w->dtype);
    if (!x) return;
    int64_t dims[2] = {x->rank > 1 ? x->dims[0] : 1, x->rank ? x->dims[x->rank - 1] : 1};
    int64_t low[2] = {at[0], at[1]}, high[2];
    for (int i = 0; i < 2; i++) at[i] += dims[i], high[i] = w->dims[i] - at[i];
    x = hlo_pad(c->m, hlo_reshape(c->m, x, 2, dims), zero_of(c->m, w->dtype), low, high, NULL);
    if (!result) {
      result = x;
      continue;
    }
    /* Blocks do not meet: what is taken is what lies in this block's rows and columns. */
    hlo row = hlo_iota(c->m, TT_I64, 2, w->dims, 0), column = hlo_iota(c->m, TT_I64, 2, w->dims, 1);
    hlo inside = hlo_binary(c->m, "and", hlo_compare(c->m, "GE", row, hlo_int(c->m, TT_I64, low[0])),
                            hlo_compare(c->m, "GE", column, hlo_int(c->m, TT_I64, low[1])));
    result = hlo_select(c->m, inside, x, result);
  }
  c->result[0] = result ? result : tt_want_zeros(c, 0);
}

/* ---- repeating and turning ---- */
void rule_flip(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  int64_t given[TT_MAX_RANK];
  int dims[TT_MAX_RANK], n = tt_ints(c, 1, given, TT_MAX_RANK);
  for (int i = 0; i < n; i++) dims[i] = wrapped(given[i], tt_in_rank(c, 0));
  c->result[0] = n && x && x->rank ? hlo_reverse(c->m, x, n, dims) : x;
}

static hlo rolled(hlo_module *m, hlo x, int dim, int64_t shift) {
  if (!x || x->dims[dim] == 0) return x;
  int64_t n = x->dims[dim];
  shift = (shift % n + n) % n;
  if (shift == 0) return x;
  hlo parts[2] = {hlo_slice_dim(m, x, dim, n - shift, n, 1), hlo_slice_dim(m, x, dim, 0, n - shift, 1)};
  return hlo_concat(m, 2, parts, dim);
}

void rule_roll(tt_ctx *c) { /* (self, shifts, dims); without dims over the elements in row-major order */
  int64_t shifts[TT_MAX_RANK], dims[TT_MAX_RANK];
  int n_shifts = tt_ints(c, 1, shifts, TT_MAX_RANK), n = tt_ints(c, 2, dims, TT_MAX_RANK);
  hlo x = tt_in(c, 0);
  if (n == 0 && n_shifts)
    x = as_wanted(c, rolled(c->m, hlo_flatten(c->m, x), 0, shifts[0]));
  else if (x && x->rank)
    for (int i = 0; i < n; i++) x = rolled(c->m, x, wrapped(dims[i], tt_in_rank(c, 0)), shifts[i]);
  c->result[0] = x;
}

void rule_repeat(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  int64_t repeats[TT_MAX_RANK], dims[2 * TT_MAX_RANK];
  int n = tt_ints(c, 1, repeats, TT_MAX_RANK), where[TT_MAX_RANK], rank = 0;
  if (!x) return;
  for (int i = 0; i < n; i++) { /* each repeat is a dim of its own in front of the dim it repeats */
    int at = i - (n - x->rank);
    if (repeats[i] != 1 || at < 0) dims[rank++] = repeats[i];
    if (at >= 0) where[at] = rank, dims[rank++] = x->dims[at];
  }
  c->result[0] = as_wanted(c, hlo_broadcast(c->m, x, rank, dims, where));
}

static hlo swapped(hlo_module *m, hlo x, int a, int b) {
  int perm[TT_MAX_RANK];
  if (!x) return NULL;
  for (int i = 0; i < x->rank; i++) perm[i] = i == a ? b : i == b ? a : i;
  return hlo_transpose(m, x, perm);
}

void rule_rot90(tt_ctx *c) { /* (self, k, dims) */
  hlo x = tt_in(c, 0);
  int64_t plane[2] = {0, 1};
  tt_ints(c, 2, plane, 2);
  int a = wrapped(plane[0], tt_in_rank(c, 0)), b = wrapped(plane[1], tt_in_rank(c, 0));
  int64_t quarter = (tt_int(c, 1, 1) % 4 + 4) % 4;
  if (quarter == 1) x = swapped(c->m, hlo_reverse(c->m, x, 1, &b), a, b);
  if (quarter == 2) x = hlo_reverse(c->m, x, 2, (int[]){a < b ? a : b, a < b ? b : a});
  if (quarter == 3) x = swapped(c->m, hlo_reverse(c->m, x, 1, &a), a, b);
  c->result[0] = x;
}

/* ---- pixel_shuffle, pixel_unshuffle, channel_shuffle: (self, factor), the last three or two dims regrouped ---- */
void rule_shuffle(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  int64_t f = tt_int(c, 1, 1), dims[TT_MAX_RANK + 2];
  if (!x) return;
  char form = c->op->hlo[0]; /* 'p' pixel, 'u' its inverse, 'c' channel */
  int lead = form == 'c' ? 1 : x->rank - 3, rank = lead, perm[TT_MAX_RANK + 2];
  for (int i = 0; i < x->rank + 2; i++) perm[i] = i;
  for (int i = 0; i < lead; i++) dims[i] = x->dims[i];
  const int64_t *d = x->dims + lead;
  if (hlo_numel(x) == 0) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  if (form == 'c') {
    dims[rank++] = f, dims[rank++] = d[0] / f;
    for (int i = 1; i < x->rank - lead; i++) dims[rank++] = d[i];
    perm[lead] = lead + 1, perm[lead + 1] = lead;
  } else if (form == 'p') { /* c f f h w -> c h f w f */
    int64_t split[] = {d[0] / (f * f), f, f, d[1], d[2]};
    int order[] = {0, 3, 1, 4, 2};
    for (int i = 0; i < 5; i++) perm[lead + i] = lead + order[i], dims[rank++] = split[i];
  } else { /* c h f w f -> c f f h w */
    int64_t split[] = {d[0], d[1] / f, f, d[2] / f, f};
    int order[] = {0, 2, 4, 1, 3};
    for (int i = 0; i < 5; i++) perm[lead + i] = lead + order[i], dims[rank++] = split[i];
  }
  c->result[0] = as_wanted(c, hlo_transpose(c->m, hlo_reshape(c->m, x, rank, dims), perm));
}

/* ---- triangles and diagonals ---- */
/* Compares column + shift with row, over dims: what triangles and diagonals are made of. */
static hlo offset_compare(hlo_module *m, const char *direction, int rank, const int64_t *dims, int row, int column,
                          int64_t shift) {
  int64_t span = dims[row] + dims[column];
  tt_dtype t = span < INT32_MAX / 2 ? TT_I32 : TT_I64;
  hlo i = hlo_iota(m, t, rank, dims, row), j = hlo_iota(m, t, rank, dims, column);
  return hlo_compare(m, direction, hlo_binary(m, "add", j, hlo_int(m, t, clamped(shift, -span, span))), i);
}

void rule_triangle(tt_ctx *c) { /* (self, diagonal); hlo: "LE" keeps what is on and below it, "GE" on and above */
  hlo x = tt_in(c, 0);
  if (!x) return;
  hlo kept = offset_compare(c->m, c->op->hlo, x->rank, x->dims, x->rank - 2, x->rank - 1, -tt_int(c, 1, 0));
  c->result[0] = hlo_select(c->m, kept, x, zero_of(c->m, x->dtype));
}

void rule_trace(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  if (!x) return;
  hlo kept = offset_compare(c->m, "EQ", 2, x->dims, 0, 1, 0), zero = zero_of(c->m, x->dtype);
  const char *op = x->dtype == TT_BOOL ? "or" : "add";
  c->result[0] = hlo_reduce(c->m, op, hlo_select(c->m, kept, x, zero), zero, 2, (int[]){0, 1});
}

/* The diagonal of x over dims a and b as the last dim, without a gather: a k by k square padded to k by k + 1, after
 * being flattened, has it in column 0. */
static hlo diagonal(hlo_module *m, hlo x, int64_t offset, int a, int b) {
  if (!x) return NULL;
  int perm[TT_MAX_RANK], n = 0;
  int64_t dims[TT_MAX_RANK];
  for (int i = 0; i < x->rank; i++)
    if (i != a && i != b) dims[n] = x->dims[i], perm[n++] = i;
  perm[n] = a, perm[n + 1] = b;
  int64_t top = offset < 0 ? -offset : 0, left = offset > 0 ? offset : 0;
  int64_t rows = x->dims[a] - top, columns = x->dims[b] - left, k = rows < columns ? rows : columns;
  dims[n] = k > 0 ? k : 0;
  if (k <= 0 || hlo_numel(x) == 0) return hlo_full(m, x->dtype, n + 1, dims, 0);
  x = hlo_transpose(m, x, perm);
  x = hlo_slice_dim(m, hlo_slice_dim(m, x, n, top, top + k, 1), n + 1, left, left + k, 1);
  place p = {0};
  dims[n] = k * k;
  p.high[n] = k;
  x = pad(m, hlo_reshape(m, x, n + 1, dims), zero_of(m, x ? x->dtype : TT_F32), &p);
  dims[n] = k, dims[n + 1] = k + 1;
  return hlo_squeeze_dim(m, hlo_slice_dim(m, hlo_reshape(m, x, n + 2, dims), n + 1, 0, 1, 1), n + 1);
}

/* base with its diagonal over dims a and b replaced by values, which have it as the last dim. */
static hlo with_diagonal(hlo_module *m, hlo base, hlo values, int64_t offset, int a, int b) {
  if (!base || !values) return NULL;
  if (hlo_numel(values) == 0 || hlo_numel(base) == 0) return base;
  int along = offset >= 0 ? a : b, where[TT_MAX_RANK], n = 0; /* the dim whose index is that of the diagonal */
  for (int i = 0; i < base->rank; i++)
    if (i != a && i != b) where[n++] = i;
  where[n] = along;
  place p = {0};
  p.high[n] = base->dims[along] - values->dims[n];
  values = pad(m, values, zero_of(m, base->dtype), &p);
  /* values' last dim may come before others in base: broadcast wants increasing places, so it is moved first. */
  int order[TT_MAX_RANK], sorted[TT_MAX_RANK], at = 0;
  for (int i = 0; i < base->rank; i++)
    for (int k = 0; k <= n; k++)
      if (where[k] == i) order[at] = k, sorted[at++] = i;
  hlo wide = hlo_broadcast(m, hlo_transpose(m, values, order), base->rank, base->dims, sorted);
  return hlo_select(m, offset_compare(m, "EQ", base->rank, base->dims, a, b, -offset), wide, base);
}

void rule_diagonal_copy(tt_ctx *c) { /* (self, offset, dim1, dim2) */
  int rank = tt_in_rank(c, 0);
  c->result[0] = diagonal(c->m, tt_in(c, 0), tt_int(c, 1, 0), tt_dim(c, 2, rank, 0), tt_dim(c, 3, rank, 1));
}

/* hlo is where the offset stands: diag_embed(values, 1..), diagonal_backward(values, sizes, 2..) and, with "s",
 * diagonal_scatter(base, values, 2..). */
void rule_with_diagonal(tt_ctx *c) {
  int at = c->op->hlo[0] - '0', rank = c->want[0].rank;
  bool scatter = c->op->hlo[1] == 's';
  hlo base = scatter ? tt_in(c, 0) : tt_want_zeros(c, 0), values = tt_in_as(c, scatter ? 1 : 0, c->want[0].dtype);
  int a = tt_dim(c, at + 1, rank, 0), b = tt_dim(c, at + 2, rank, 1);
  c->result[0] = with_diagonal(c->m, base, values, tt_int(c, at, 0), a, b);
}

/* ---- parts of a dim ---- */
typedef struct span { int64_t start, step, count; } span;

/* torch's start, end and step over n places. */
static span span_of(int64_t start, int64_t end, int64_t step, int64_t n) {
  if (start < 0) start += n;
  if (end < 0) end += n;
  start = clamped(start, 0, n);
  end = clamped(end, start, n);
  return (span){start, step, (end - start + step - 1) / step};
}

/* value as that part of a dim of n places, fill elsewhere. */
static hlo spread(hlo_module *m, hlo value, hlo fill, int dim, span s, int64_t n) {
  place p = {0};
  p.low[dim] = s.start;
  p.interior[dim] = s.count ? s.step - 1 : 0;
  p.high[dim] = n - s.start - (s.count ? (s.count - 1) * s.step + 1 : 0);
  return pad(m, value, fill, &p);
}

/* (self, src, dim, index) or (self, src, dim, start, end, step) */
void rule_part_scatter(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), source = tt_in_as(c, 1, c->want[0].dtype);
  if (!x || !source) return;
  int dim = tt_dim(c, 2, x->rank, 0);
  int64_t n = x->dims[dim], start = tt_int(c, 3, 0);
  bool select = c->op->hlo[1] == 'e';
  if (start < 0 && select) start += n;
  span s = select ? (span){start, 1, 1} : span_of(start, tt_int(c, 4, INT64_MAX), tt_int(c, 5, 1), n);
  if (select) source = hlo_unsqueeze(m, source, dim);
  if (hlo_numel(x) == 0 || s.count == 0) {
    c->result[0] = x;
    return;
  }
  hlo starts[TT_MAX_RANK];
  if (s.step == 1) {
    for (int i = 0; i < x->rank; i++) starts[i] = hlo_int(m, TT_I64, i == dim ? s.start : 0);
    c->result[0] = hlo_dynamic_update_slice(m, x, source, starts);
    return;
  }
  int64_t ones[TT_MAX_RANK]; /* a mask along dim alone */
  for (int i = 0; i < x->rank; i++) ones[i] = i == dim ? s.count : 1;
  hlo mask = spread(m, hlo_full(m, TT_BOOL, x->rank, ones, 1), hlo_int(m, TT_BOOL, 0), dim, s, n);
  mask = hlo_broadcast_to(m, mask, x->rank, x->dims);
  c->result[0] = hlo_select(m, mask, spread(m, source, zero_of(m, x->dtype), dim, s, n), x);
}

/* ---- copies of views ---- */
void rule_reshape(tt_ctx *c) { c->result[0] = as_wanted(c, tt_in(c, 0)); }

void rule_expand_copy(tt_ctx *c) {
  c->result[0] = hlo_broadcast_to(c->m, tt_in(c, 0), c->want[0].rank, c->want[0].dims);
}

void rule_permute_copy(tt_ctx *c) { /* hlo: "permute" (self, dims), "transpose" (self, dim0, dim1), "t" (self) */
  hlo x = tt_in(c, 0);
  int rank = tt_in_rank(c, 0), perm[TT_MAX_RANK];
  int64_t dims[TT_MAX_RANK];
  if (!x) return;
  if (c->op->hlo[0] == 'p') {
    tt_ints(c, 1, dims, TT_MAX_RANK);
    for (int i = 0; i < rank; i++) perm[i] = wrapped(dims[i], rank);
    c->result[0] = hlo_transpose(c->m, x, perm);
  } else if (rank < 2) {
    c->result[0] = x;
  } else {
    bool t = !strcmp(c->op->hlo, "t");
    c->result[0] = swapped(c->m, x, t ? 0 : tt_dim(c, 1, rank, 0), t ? 1 : tt_dim(c, 2, rank, 1));
  }
}

/* hlo: "slice" (self, dim, start, end, step), "select" (self, dim, index), "narrow" (self, dim, start, length) */
void rule_part_copy(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  if (!x) return;
  int dim = tt_dim(c, 1, x->rank, 0);
  int64_t n = x->dims[dim], start = tt_int(c, 2, 0);
  if (c->op->hlo[0] == 's' && c->op->hlo[1] == 'l') {
    span s = span_of(start, tt_int(c, 3, INT64_MAX), tt_int(c, 4, 1), n);
    int64_t end = s.count ? s.start + (s.count - 1) * s.step + 1 : s.start;
    c->result[0] = hlo_slice_dim(c->m, x, dim, s.start, end, s.step);
    return;
  }
  if (start < 0) start += n;
  int64_t length = c->op->hlo[0] == 'n' ? tt_int(c, 3, 0) : 1;
  c->result[0] = as_wanted(c, hlo_slice_dim(c->m, x, dim, start, start + length, 1));
}

/* Consecutive parts of a dim as separate results: (self, sizes, dim), (self, size, dim) or (self, dim), dropping it.
 * The out form returns nothing and has the parts as its last argument. */
void rule_split_copy(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  if (!x) return;
  bool unbind = c->op->hlo[0] == 'u';
  int dim_arg = unbind ? 1 : 2, dim = tt_dim(c, dim_arg, x->rank, 0);
  int count = c->n_results ? c->n_results : tt_count(c, dim_arg + 1);
  int64_t *sizes = hlo_alloc(c->m, (size_t)(count + 1) * sizeof *sizes), start = 0, each = 1;
  if (!sizes) return;
  if (c->op->hlo[0] == 's') tt_ints(c, 1, sizes, count); /* "sizes"; "each" and "unbind" have equal ones */
  else if (!unbind) each = tt_int(c, 1, 1);
  for (int k = 0; k < count; k++) {
    int64_t size = c->op->hlo[0] == 's' ? sizes[k] : each;
    int64_t end = clamped(start + size, 0, x->dims[dim]);
    hlo part = hlo_slice_dim(c->m, x, dim, start, end, 1);
    if (unbind) part = hlo_squeeze_dim(c->m, part, dim);
    start = end;
    if (c->n_results) c->result[k] = part;
    else tt_write_elem(c, dim_arg + 1, k, part);
  }
}

/* _chunk_cat(tensors, dim, num_chunks): each is cut along dim into equal chunks, padded with zeros; all chunks stand
 * side by side. */
void rule_chunk_cat(tt_ctx *c) {
  const tt_want *w = &c->want[0];
  int n = tt_count(c, 0), dim = tt_dim(c, 1, w->rank - 1, 0);
  int64_t chunks = tt_int(c, 2, 1);
  hlo *xs = hlo_alloc(c->m, (size_t)(n + 1) * sizeof *xs);
  if (!xs) return;
  for (int e = 0; e < n; e++) {
    hlo x = tt_elem_as(c, 0, e, w->dtype);
    if (!x) return;
    int64_t size = (x->dims[dim] + chunks - 1) / chunks, dims[TT_MAX_RANK], rest = size;
    place p = {0};
    p.high[dim] = size * chunks - x->dims[dim];
    for (int i = 0; i < dim; i++) dims[i] = x->dims[i];
    for (int i = dim + 1; i < x->rank; i++) rest *= x->dims[i];
    dims[dim] = chunks, dims[dim + 1] = rest;
    xs[e] = hlo_reshape(c->m, pad(c->m, x, zero_of(c->m, w->dtype), &p), dim + 2, dims);
  }
  c->result[0] = hlo_concat(c->m, n, xs, dim + 1);
}
