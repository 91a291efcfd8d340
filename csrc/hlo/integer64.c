/* integer64.c: what TPUs do not do with 64-bit integers, by what they do: quotients, matrix products, convolutions.
 *
 * libtpu refuses the products and takes up to a minute to compile one quotient, for it writes out all 64 steps of a long
 * division. A quotient here is a loop that takes off estimates in f32, each of 16 bits and never too large, so it is exact
 * whatever the estimates' rounding; a product of matrices is elementwise products and their sums, which XLA fuses; a
 * convolution is a loop over the kernel's places with a product of matrices in it. All wrap modulo 2^64. */
#include "hlo/module.h"

bool hlo_wide_integer(const hlo_module *m, tt_dtype t) { return m->for_tpu && (t == TT_I64 || t == TT_U64); }

/* ---- quotients ---- */
typedef struct division { hlo divisor, approximate; } division;

static void some_left(hlo_module *m, const hlo *a, hlo *r, void *user) { /* (quotient, rest) */
  const division *d = user;
  int dims[HLO_MAX_RANK];
  for (int i = 0; a[1] && i < a[1]->rank; i++) dims[i] = i;
  hlo left = hlo_compare(m, "GE", a[1], d->divisor);
  r[0] = left ? hlo_reduce(m, "or", left, hlo_int(m, TT_BOOL, 0), left->rank, dims) : NULL;
}

static void take_off(hlo_module *m, const hlo *a, hlo *r, void *user) {
  const division *d = user;
  hlo share = hlo_binary(m, "divide", hlo_convert(m, a[1], TT_F32), d->approximate); /* less what three roundings may add */
  hlo estimate = hlo_convert(m, hlo_binary_scalar(m, "multiply", share, 1 - 0x1p-16), TT_U64);
  estimate = hlo_binary(m, "maximum", estimate, hlo_int(m, TT_U64, 1));
  estimate = hlo_select(m, hlo_compare(m, "GE", a[1], d->divisor), estimate, hlo_int(m, TT_U64, 0));
  r[0] = hlo_binary(m, "add", a[0], estimate);
  r[1] = hlo_binary(m, "subtract", a[1], hlo_binary(m, "multiply", estimate, d->divisor));
}

static hlo magnitude(hlo_module *m, hlo x) { /* of the lowest number too: 2^63 */
  return x->dtype == TT_U64 ? x : hlo_bitcast(m, hlo_unary(m, "abs", x), TT_U64);
}

/* As XLA divides: towards zero, -1 by zero (all ones without a sign), the lowest number by -1 itself. */
hlo hlo_quotient64(hlo_module *m, hlo a, hlo b) {
  if (!hlo_ready(m, "divide", 2, (hlo[]){a, b})) return NULL;
  tt_dtype t = (tt_dtype)a->dtype;
  hlo zero = hlo_int(m, t, 0), r[2], none = hlo_compare(m, "EQ", b, zero);
  division d = {.divisor = hlo_select(m, none, hlo_int(m, TT_U64, 1), magnitude(m, b))};
  d.approximate = d.divisor ? hlo_convert(m, d.divisor, TT_F32) : NULL;
  hlo_while(m, 2, (hlo[]){hlo_full(m, TT_U64, a->rank, a->dims, 0), magnitude(m, a)}, some_left, take_off, &d, r);
  hlo q = r[0] ? hlo_bitcast(m, r[0], t) : NULL;
  if (t == TT_I64) {
    hlo opposite = hlo_compare(m, "NE", hlo_compare(m, "LT", a, zero), hlo_compare(m, "LT", b, zero));
    q = hlo_select(m, opposite, hlo_unary(m, "negate", q), q);
  }
  return hlo_select(m, none, hlo_unary(m, "not", zero), q);
}

/* ---- products of matrices ---- */

/* x with its batch dims first, its contracted dims last, repeated over wide's dims; free dims go to [at, at + how many). */
static hlo spread(hlo_module *m, hlo x, int n_batch, const int *batch, int n_contract, const int *contract, int at, int rank,
                  const int64_t *wide) {
  int perm[HLO_MAX_RANK], where[HLO_MAX_RANK], n = 0;
  bool used[HLO_MAX_RANK] = {false};
  for (int i = 0; i < n_contract; i++) used[contract[i]] = true;
  for (int i = 0; i < n_batch; i++) {
    used[batch[i]] = true;
    where[n] = i;
    perm[n++] = batch[i];
  }
  for (int i = 0; i < x->rank; i++) {
    if (used[i]) continue;
    where[n] = at++;
    perm[n++] = i;
  }
  for (int i = 0; i < n_contract; i++) {
    where[n] = rank - n_contract + i;
    perm[n++] = contract[i];
  }
  return hlo_broadcast(m, hlo_transpose(m, x, perm), rank, wide, where);
}

hlo hlo_dot64(hlo_module *m, hlo a, hlo b, const hlo_dot_dims *d, tt_dtype t, int rank, const int64_t *dims) {
  int64_t wide[HLO_MAX_RANK];
  int all = rank + d->n_contract, sums[HLO_MAX_RANK];
  if (all > HLO_MAX_RANK) return hlo_fail(m, TT_INTERNAL, "hlo dot: rank %d is out of range", all);
  memcpy(wide, dims, (size_t)rank * sizeof *wide);
  for (int i = 0; i < d->n_contract; i++) {
    wide[rank + i] = a->dims[d->lhs_contract[i]];
    sums[i] = rank + i;
  }
  int free_of_a = a->rank - d->n_contract; /* batch dims with them */
  hlo left = spread(m, hlo_convert(m, a, t), d->n_batch, d->lhs_batch, d->n_contract, d->lhs_contract, d->n_batch, all, wide);
  hlo right = spread(m, hlo_convert(m, b, t), d->n_batch, d->rhs_batch, d->n_contract, d->rhs_contract, free_of_a, all, wide);
  return hlo_reduce(m, "add", hlo_binary(m, "multiply", left, right), hlo_int(m, t, 0), d->n_contract, sums);
}

/* ---- convolutions ---- */
typedef struct places { /* x [batch, group, feature, spatial], kernel [group, output, feature, place] */
  hlo x, kernel;
  int n;
  int64_t size[HLO_MAX_RANK], dilation[HLO_MAX_RANK], stride[HLO_MAX_RANK], span[HLO_MAX_RANK], count;
} places;

static void more_places(hlo_module *m, const hlo *a, hlo *r, void *user) { /* (place, sum) */
  r[0] = hlo_compare(m, "LT", a[0], hlo_int(m, TT_I32, ((const places *)user)->count));
}

static void add_place(hlo_module *m, const hlo *a, hlo *r, void *user) {
  const places *p = user;
  hlo zero = hlo_int(m, TT_I32, 0), starts[HLO_MAX_RANK], left = a[0];
  int64_t sizes[HLO_MAX_RANK], ones[HLO_MAX_RANK], none[HLO_MAX_RANK] = {0};
  for (int i = 0; i < 3; i++) {
    starts[i] = zero;
    sizes[i] = p->x->dims[i];
    ones[i] = 1;
  }
  for (int i = p->n - 1; i >= 0; i--) { /* the last dim's place is the fastest */
    hlo size = hlo_int(m, TT_I32, p->size[i]);
    starts[3 + i] = hlo_binary(m, "multiply", hlo_binary(m, "remainder", left, size), hlo_int(m, TT_I32, p->dilation[i]));
    left = hlo_binary(m, "divide", left, size);
    sizes[3 + i] = p->span[i];
    ones[3 + i] = p->stride[i];
  }
  hlo window = hlo_slice(m, hlo_dynamic_slice(m, p->x, starts, sizes), none, sizes, ones);
  hlo at[4] = {zero, zero, zero, a[0]};
  int64_t column[4] = {p->kernel->dims[0], p->kernel->dims[1], p->kernel->dims[2], 1};
  hlo weight = hlo_squeeze_dim(m, hlo_dynamic_slice(m, p->kernel, at, column), 3);
  int one = 1, zero_dim = 0, two = 2;
  hlo_dot_dims d = {1, 1, &one, &zero_dim, &two, &two};
  r[0] = hlo_binary(m, "add", a[0], hlo_int(m, TT_I32, 1));
  r[1] = hlo_binary(m, "add", a[1], hlo_dot(m, window, weight, &d, 0, (tt_dtype)a[1]->dtype));
}

hlo hlo_convolution64(hlo_module *m, hlo x, hlo kernel, const hlo_conv_dims *d, tt_dtype t, const int64_t *dims) {
  int n = d->n_spatial, rank = n + 2, back[HLO_MAX_RANK];
  int64_t groups = d->feature_groups, batches = d->batch_groups, shape[HLO_MAX_RANK], numel = 1;
  for (int i = 0; i < rank; i++) numel *= dims[i];
  x = hlo_transpose(m, hlo_convert(m, x, t), d->input); /* batch and feature first */
  kernel = hlo_transpose(m, hlo_convert(m, kernel, t), d->kernel);
  if (!x || !kernel) return NULL;
  if (numel == 0 || hlo_numel(x) == 0 || hlo_numel(kernel) == 0) return hlo_full(m, t, rank, dims, 0);
  if (batches > 1) { /* the groups of the batch see other outputs, as groups of features do */
    shape[0] = batches;
    shape[1] = x->dims[0] / batches;
    memcpy(shape + 2, x->dims + 1, (size_t)(n + 1) * sizeof *shape);
    int perm[HLO_MAX_RANK] = {1, 0};
    for (int i = 2; i < rank + 1; i++) perm[i] = i;
    x = hlo_transpose(m, hlo_reshape(m, x, rank + 1, shape), perm);
    if (!x) return NULL;
    shape[0] = x->dims[0];
    shape[1] = batches * x->dims[2];
    memcpy(shape + 2, x->dims + 3, (size_t)n * sizeof *shape);
    x = hlo_reshape(m, x, rank, shape);
    groups *= batches;
  }
  places p = {.n = n, .count = 1};
  int64_t low[HLO_MAX_RANK] = {0}, high[HLO_MAX_RANK] = {0}, interior[HLO_MAX_RANK] = {0};
  int reversed[HLO_MAX_RANK], n_reversed = 0;
  for (int i = 0; i < n; i++) {
    low[2 + i] = d->low ? d->low[i] : 0;
    high[2 + i] = d->high ? d->high[i] : 0;
    interior[2 + i] = d->lhs_dilation ? d->lhs_dilation[i] - 1 : 0;
    if (d->reversal && d->reversal[i]) reversed[n_reversed++] = 2 + i;
    p.count *= p.size[i] = kernel->dims[2 + i];
    p.dilation[i] = d->rhs_dilation ? d->rhs_dilation[i] : 1;
    p.stride[i] = d->stride ? d->stride[i] : 1;
    p.span[i] = (dims[d->output[2 + i]] - 1) * p.stride[i] + 1;
  }
  x = hlo_pad(m, x, hlo_int(m, t, 0), low, high, interior);
  kernel = hlo_reverse(m, kernel, n_reversed, reversed);
  if (!x || !kernel) return NULL;
  int64_t outputs = kernel->dims[0] / groups, features = kernel->dims[1];
  shape[0] = x->dims[0];
  shape[1] = groups;
  shape[2] = features;
  memcpy(shape + 3, x->dims + 2, (size_t)n * sizeof *shape);
  p.x = hlo_reshape(m, x, rank + 1, shape);
  p.kernel = hlo_reshape(m, kernel, 4, (int64_t[]){groups, outputs, features, p.count});
  /* The sum is [group, batch, spatial, output]: what the product of matrices gives. */
  shape[0] = groups;
  shape[1] = dims[d->output[0]];
  for (int i = 0; i < n; i++) shape[2 + i] = dims[d->output[2 + i]];
  shape[rank] = outputs;
  hlo r[2];
  hlo_while(m, 2, (hlo[]){hlo_int(m, TT_I32, 0), hlo_full(m, t, rank + 1, shape, 0)}, more_places, add_place, &p, r);
  int perm[HLO_MAX_RANK] = {1, 0, rank};
  for (int i = 0; i < n; i++) perm[3 + i] = 2 + i;
  hlo sum = hlo_transpose(m, r[1], perm); /* [batch, group, output, spatial] */
  int64_t result[HLO_MAX_RANK] = {dims[d->output[0]], groups * outputs};
  memcpy(result + 2, shape + 2, (size_t)n * sizeof *result);
  for (int i = 0; i < rank; i++) back[d->output[i]] = i;
  return hlo_transpose(m, hlo_reshape(m, sum, rank, result), back);
}
