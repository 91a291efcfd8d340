/* places.c: a convolution as a loop over the kernel's places, with one product of matrices in it.
 *
 * For TPUs: libtpu has no convolution of 64-bit integers, and takes minutes to compile one of volumes whose kernel is
 * dilated. At each place of the kernel the operand's elements that it meets are a strided slice; groups, of features or
 * of the batch, are the batch dim of the product. */
#include "hlo/module.h"

bool hlo_wants_places(const hlo_module *m, const hlo_conv_dims *d, tt_dtype t) {
  bool dilated = false;
  for (int i = 0; d->rhs_dilation && i < d->n_spatial; i++) dilated = dilated || d->rhs_dilation[i] > 1;
  return hlo_wide_integer(m, t) || (m->for_tpu && d->n_spatial == 3 && dilated);
}

typedef struct places { /* x [batch, group, feature, spatial], kernel [group, output, feature, place] */
  hlo x, kernel;
  int n, precision;
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
    starts[3 + i] =
        hlo_binary(m, "multiply", hlo_binary(m, "remainder", left, size), hlo_int(m, TT_I32, p->dilation[i]));
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
  r[1] = hlo_binary(m, "add", a[1], hlo_dot(m, window, weight, &d, p->precision, (tt_dtype)a[1]->dtype));
}

hlo hlo_convolution_by_places(hlo_module *m, hlo x, hlo kernel, const hlo_conv_dims *d, int precision, tt_dtype t,
                              const int64_t *dims) {
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
  places p = {.n = n, .precision = precision, .count = 1};
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
