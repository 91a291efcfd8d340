/* conv.c: rules of convolutions, plain and transposed, and of their gradients.
 *
 * Three contractions do everything: correlate (a window slides over x), spread (its transpose: what a transposed
 * convolution computes, and the gradient of a plain one to its input) and weigh (the gradient to the weight); a
 * transposed convolution is a plain one with the roles of input and result exchanged. Lengths come from the dims
 * wanted, so that output_padding and what a stride leaves over need no cases. Halves are accumulated in float. Refuses
 * nothing: torch has batched the input and checked the shapes. */
#include <string.h>
#include "ops/op.h"
#include "ops/rules.h"

enum { MAX_SPATIAL = TT_MAX_RANK - 2 };

typedef struct geometry {
  int n; /* spatial dims */
  int64_t stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL], groups;
  bool transposed;
} geometry;

static tt_dtype accumulator(tt_dtype t) { return t == TT_F16 || t == TT_BF16 ? TT_F32 : t; }

static void read_each(tt_ctx *c, int i, int n, int64_t *out) { /* one int stands for all dims */
  int given = tt_ints(c, i, out, MAX_SPATIAL);
  for (int k = given > 0 ? given : 1; given == 1 && k < n; k++) out[k] = out[0];
}

/* (.., stride, padding, dilation, transposed, output_padding, groups) */
static geometry geometry_of(tt_ctx *c, int at, int rank) {
  geometry g = {.n = rank - 2, .transposed = tt_bool(c, at + 3), .groups = tt_int(c, at + 5, 1)};
  read_each(c, at, g.n, g.stride);
  read_each(c, at + 1, g.n, g.padding);
  read_each(c, at + 2, g.n, g.dilation);
  int64_t more[MAX_SPATIAL] = {0};
  if (g.transposed && tt_has(c, at + 4)) read_each(c, at + 4, g.n, more);
  for (int i = 0; i < g.n; i++) /* the host's kernel says what is wrong, in torch's words */
    if (g.padding[i] < 0 || (more[i] && more[i] >= g.stride[i] && more[i] >= g.dilation[i]))
      hlo_fail(c->m, TT_UNIMPLEMENTED, "a padding that torch refuses");
  return g;
}

static hlo zeros(tt_ctx *c, tt_dtype t, int rank, const int64_t *dims) { return hlo_full(c->m, t, rank, dims, 0); }

static bool any_empty(int n, const hlo *xs) {
  for (int i = 0; i < n; i++)
    if (hlo_numel(xs[i]) == 0) return true;
  return false;
}

static void identity(int *layout, int n) {
  for (int i = 0; i < n + 2; i++) layout[i] = i;
}

/* x [N, G * I, ..] and weight [O, I, ..] to [N, O, ..] of these dims. */
static hlo correlate(tt_ctx *c, hlo x, hlo weight, const geometry *g, const int64_t *dims) {
  if (!x || !weight) return NULL;
  tt_dtype t = accumulator((tt_dtype)x->dtype);
  if (any_empty(2, (hlo[]){x, weight})) return zeros(c, t, x->rank, dims);
  int layout[TT_MAX_RANK];
  int64_t high[MAX_SPATIAL];
  identity(layout, g->n);
  for (int i = 0; i < g->n; i++) {
    high[i] = (dims[2 + i] - 1) * g->stride[i] + g->dilation[i] * (weight->dims[2 + i] - 1) + 1 - x->dims[2 + i] -
              g->padding[i];
    /* what the stride leaves over */
    if (high[i] < g->padding[i] && high[i] + g->stride[i] > g->padding[i]) high[i] = g->padding[i];
  }
  hlo_conv_dims d = {.n_spatial = g->n,
                     .input = layout,
                     .kernel = layout,
                     .output = layout,
                     .stride = g->stride,
                     .low = g->padding,
                     .high = high,
                     .rhs_dilation = g->dilation,
                     .feature_groups = g->groups,
                     .batch_groups = 1};
  return hlo_convolution(c->m, x, weight, &d, c->precision, t);
}

/* x [N, O, ..] and weight [O, I, ..] to [N, G * I, ..] of these dims: the transpose of correlate. */
static hlo spread(tt_ctx *c, hlo x, hlo weight, const geometry *g, const int64_t *dims) {
  hlo_module *m = c->m;
  if (!x || !weight) return NULL;
  tt_dtype t = accumulator((tt_dtype)x->dtype);
  if (any_empty(2, (hlo[]){x, weight})) return zeros(c, t, x->rank, dims);
  int rank = x->rank, layout[TT_MAX_RANK], kernel[TT_MAX_RANK], perm[TT_MAX_RANK + 1], spatial[MAX_SPATIAL];
  int64_t low[MAX_SPATIAL], high[MAX_SPATIAL], split[TT_MAX_RANK + 1];
  identity(layout, g->n);
  identity(kernel, g->n);
  kernel[0] = 1, kernel[1] = 0;
  for (int i = 0; i < g->n; i++) {
    spatial[i] = 2 + i;
    low[i] = g->dilation[i] * (weight->dims[2 + i] - 1) - g->padding[i];
    high[i] = dims[2 + i] - (x->dims[2 + i] - 1) * g->stride[i] - 1 + g->padding[i];
  }
  weight = hlo_reverse(m, weight, g->n, spatial);
  if (g->groups > 1 && weight) { /* [G * O, I, ..] -> [O, G * I, ..] */
    split[0] = g->groups, split[1] = weight->dims[0] / g->groups;
    for (int i = 1; i < rank; i++) split[1 + i] = weight->dims[i];
    for (int i = 0; i <= rank; i++) perm[i] = i;
    perm[0] = 1, perm[1] = 0;
    weight = hlo_transpose(m, hlo_reshape(m, weight, rank + 1, split), perm);
    split[0] = split[1], split[1] = g->groups * split[2];
    for (int i = 2; i < rank; i++) split[i] = split[i + 1];
    weight = hlo_reshape(m, weight, rank, split);
  }
  hlo_conv_dims d = {.n_spatial = g->n,
                     .input = layout,
                     .kernel = kernel,
                     .output = layout,
                     .low = low,
                     .high = high,
                     .lhs_dilation = g->stride,
                     .rhs_dilation = g->dilation,
                     .feature_groups = g->groups,
                     .batch_groups = 1};
  return hlo_convolution(m, x, weight, &d, c->precision, t);
}

/* The gradient of correlate to its weight, of these dims: the batch is contracted, channels take its place. */
static hlo weigh(tt_ctx *c, hlo x, hlo grad, const geometry *g, const int64_t *dims) {
  if (!x || !grad) return NULL;
  tt_dtype t = accumulator((tt_dtype)x->dtype);
  if (any_empty(2, (hlo[]){x, grad})) return zeros(c, t, x->rank, dims);
  int swapped[TT_MAX_RANK];
  int64_t high[MAX_SPATIAL];
  identity(swapped, g->n);
  swapped[0] = 1, swapped[1] = 0;
  for (int i = 0; i < g->n; i++)
    high[i] = (dims[2 + i] - 1) * g->dilation[i] + (grad->dims[2 + i] - 1) * g->stride[i] + 1 - x->dims[2 + i] -
              g->padding[i];
  hlo_conv_dims d = {.n_spatial = g->n,
                     .input = swapped,
                     .kernel = swapped,
                     .output = swapped,
                     .stride = g->dilation,
                     .low = g->padding,
                     .high = high,
                     .rhs_dilation = g->stride,
                     .feature_groups = 1,
                     .batch_groups = g->groups};
  return hlo_convolution(c->m, x, grad, &d, c->precision, t);
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
void rule_convolution(tt_ctx *c) {
  hlo x = tt_in_own(c, 0), weight = tt_in_own(c, 1);
  if (!x) return;
  geometry g = geometry_of(c, 3, x->rank);
  hlo y = (g.transposed ? spread : correlate)(c, x, weight, &g, c->want[0].dims);
  if (tt_has(c, 2) && y) {
    int channel = 1;
    y = hlo_binary(c->m, "add", y, hlo_broadcast(c->m, tt_in_as(c, 2, (tt_dtype)y->dtype), y->rank, y->dims, &channel));
  }
  c->result[0] = y;
}

/* (grad_output, input, weight[, bias_sizes], stride, padding, dilation, transposed, output_padding, groups,
 * output_mask) */
void rule_convolution_backward(tt_ctx *c) {
  hlo grad = tt_in_own(c, 0);
  if (!grad) return;
  geometry g = geometry_of(c, c->n_args - 7, grad->rank);
  const tt_want *w = c->want;
  if (w[0].defined) c->result[0] = (g.transposed ? correlate : spread)(c, grad, tt_in_own(c, 2), &g, w[0].dims);
  if (w[1].defined) {
    hlo x = tt_in_own(c, 1);
    c->result[1] = g.transposed ? weigh(c, grad, x, &g, w[1].dims) : weigh(c, x, grad, &g, w[1].dims);
  }
  if (w[2].defined) {
    int dims[TT_MAX_RANK] = {0};
    for (int i = 0; i < g.n; i++) dims[1 + i] = 2 + i;
    tt_dtype t = accumulator((tt_dtype)grad->dtype);
    c->result[2] = hlo_reduce(c->m, "add", hlo_convert(c->m, grad, t), hlo_int(c->m, t, 0), 1 + g.n, dims);
  }
}

void rule_conv_tbc(tt_ctx *c) { /* (self [T, B, I], weight [k, I, O], bias, pad) */
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  int64_t pad = tt_int(c, 3, 0);
  tt_dtype t = accumulator((tt_dtype)x->dtype);
  int image[] = {1, 2, 0}, kernel[] = {2, 1, 0}, channel = 2;
  hlo_conv_dims d = {.n_spatial = 1,
                     .input = image,
                     .kernel = kernel,
                     .output = image,
                     .low = &pad,
                     .high = &pad,
                     .feature_groups = 1,
                     .batch_groups = 1};
  hlo y =
      hlo_numel(x) ? hlo_convolution(c->m, x, tt_in_own(c, 1), &d, c->precision, t) : zeros(c, t, 3, c->want[0].dims);
  if (y) c->result[0] = hlo_binary(c->m, "add", y, hlo_broadcast(c->m, tt_in_as(c, 2, t), 3, y->dims, &channel));
}
