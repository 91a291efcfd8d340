/* norm.c: rules of softmax and of layer, batch, group and RMS normalisation, forward and backward.
 *
 * All are one idea: moments over some dims, spread back over the operand. Rows ask for OP_COMPUTE_F32, so that halves
 * are reduced in float and rounded once. The variance is taken in two passes, which loses nothing to cancellation.
 * Running statistics are written to the arguments that hold them, whether or not the schema says so. Refuses nothing:
 * what torch rejects its Meta kernels have rejected. */
#include <string.h>
#include "ops/index.h"
#include "ops/op.h"
#include "ops/rules.h"

/* The dims that a normalisation reduces, and those it keeps. */
typedef struct axes { int n_reduced, reduced[TT_MAX_RANK], n_kept, kept[TT_MAX_RANK]; int64_t count; } axes;

static axes axes_of(hlo x, int first, int last, bool reduce_inside) { /* inside: dims first .. last - 1 */
  axes a = {.count = 1};
  for (int i = 0; x && i < x->rank; i++) {
    if ((i >= first && i < last) == reduce_inside) a.reduced[a.n_reduced++] = i, a.count *= x->dims[i];
    else a.kept[a.n_kept++] = i;
  }
  return a;
}

static hlo sum(hlo_module *m, hlo x, const axes *a) {
  return x ? hlo_reduce(m, "add", x, hlo_int(m, x->dtype, 0), a->n_reduced, a->reduced) : NULL;
}

static hlo mean(hlo_module *m, hlo x, const axes *a) {
  return x ? hlo_binary(m, "divide", sum(m, x, a), hlo_count(m, x, a->n_reduced, a->reduced, (tt_dtype)x->dtype))
           : NULL;
}

static hlo spread(hlo_module *m, hlo v, hlo like, const axes *a) { /* over the reduced dims */
  return v && like ? hlo_broadcast(m, v, like->rank, like->dims, a->kept) : NULL;
}

/* v has the reduced dims: over the kept ones. */
static hlo spread_inside(hlo_module *m, hlo v, hlo like, const axes *a) {
  return v && like ? hlo_broadcast(m, v, like->rank, like->dims, a->reduced) : NULL;
}

static hlo add(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "add", a, b); }
static hlo subtract(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "subtract", a, b); }
static hlo multiply(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }

static hlo inverse_deviation(hlo_module *m, hlo variance, hlo eps) {
  return hlo_unary(m, "rsqrt", add(m, variance, eps));
}

static hlo as_dims(hlo_module *m, hlo x, const tt_want *w) { return hlo_reshape(m, x, w->rank, w->dims); }

/* ---- softmax ---- */
static axes softmax_axes(tt_ctx *c, hlo x, int dim_arg) {
  int dim = tt_dim(c, dim_arg, x ? x->rank : 0, 0);
  return axes_of(x, dim, dim + 1, true);
}

void rule_softmax(tt_ctx *c) { /* (self, dim, half_to_float or dtype); hlo: "", "log", or "safe": 0 where all is -inf */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!x) return;
  axes a = softmax_axes(c, x, 1);
  bool safe = *c->op->hlo == 's', in_log = *c->op->hlo == 'l';
  hlo lowest = hlo_lowest(m, x->dtype), top = hlo_reduce(m, "maximum", x, lowest, a.n_reduced, a.reduced);
  /* Rows are guarded, not elements: an elementwise choice would stay in memory beside its operand until the backward.
   */
  hlo none = safe ? hlo_compare(m, "EQ", top, lowest) : NULL;
  if (safe) top = hlo_select(m, none, hlo_int(m, x->dtype, 0), top);
  hlo shifted = subtract(m, x, spread(m, top, x, &a)), power = hlo_unary(m, "exponential", shifted);
  hlo total = sum(m, power, &a);
  if (safe) total = hlo_select(m, none, hlo_int(m, x->dtype, 1), total);
  c->result[0] = in_log ? subtract(m, shifted, spread(m, hlo_unary(m, "log", total), x, &a))
                        : hlo_binary(m, "divide", power, spread(m, total, x, &a));
}

void rule_softmax_backward(tt_ctx *c) { /* (grad_output, output, dim, input_dtype); hlo: "" or "log" */
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), y = tt_in(c, 1);
  axes a = softmax_axes(c, y, 2);
  if (*c->op->hlo) {
    c->result[0] = subtract(m, grad, multiply(m, hlo_unary(m, "exponential", y), spread(m, sum(m, grad, &a), y, &a)));
  } else {
    hlo total = sum(m, multiply(m, grad, y), &a);
    c->result[0] = multiply(m, y, subtract(m, grad, spread(m, total, y, &a)));
  }
}

/* ---- what the normalisations share ---- */
typedef struct moments { hlo mean, rstd, variance; } moments;

static moments moments_of(hlo_module *m, hlo x, const axes *a, hlo eps) {
  moments s = {.mean = mean(m, x, a)};
  hlo off = subtract(m, x, spread(m, s.mean, x, a));
  s.variance = mean(m, multiply(m, off, off), a);
  s.rstd = inverse_deviation(m, s.variance, eps);
  return s;
}

static hlo normalized(hlo_module *m, hlo x, const axes *a, hlo center, hlo rstd) {
  return multiply(m, subtract(m, x, spread(m, center, x, a)), spread(m, rstd, x, a));
}

/* The gradient of normalized(x) given that of its value, through the moments too. */
static hlo normalized_backward(hlo_module *m, hlo grad, hlo unit, const axes *a, hlo rstd) {
  hlo level = spread(m, mean(m, grad, a), grad, a), slope = spread(m, mean(m, multiply(m, grad, unit), a), grad, a);
  return multiply(m, subtract(m, subtract(m, grad, level), multiply(m, unit, slope)), spread(m, rstd, grad, a));
}

/* ---- layer norm ---- */
void rule_layer_norm(tt_ctx *c) { /* (input, normalized_shape, weight, bias, eps) */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!x) return;
  axes a = axes_of(x, x->rank - tt_count(c, 1), x->rank, true);
  moments s = moments_of(m, x, &a, tt_in(c, 4));
  hlo y = normalized(m, x, &a, s.mean, s.rstd);
  if (tt_has(c, 2)) y = multiply(m, y, spread_inside(m, tt_in(c, 2), x, &a));
  if (tt_has(c, 3)) y = add(m, y, spread_inside(m, tt_in(c, 3), x, &a));
  c->result[0] = y;
  c->result[1] = as_dims(m, s.mean, &c->want[1]);
  c->result[2] = as_dims(m, s.rstd, &c->want[2]);
}

/* A saved statistic in the kept dims alone, without the ones that torch gives it. */
static hlo saved(tt_ctx *c, int i, hlo x, const axes *a) {
  int64_t dims[TT_MAX_RANK];
  for (int k = 0; x && k < a->n_kept; k++) dims[k] = x->dims[a->kept[k]];
  return hlo_reshape(c->m, tt_in(c, i), a->n_kept, dims);
}

static hlo sum_kept(hlo_module *m, hlo x, const axes *a) {
  return x ? hlo_reduce(m, "add", x, hlo_int(m, x->dtype, 0), a->n_kept, a->kept) : NULL;
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
void rule_layer_norm_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), x = tt_in(c, 1);
  if (!grad || !x) return;
  axes a = axes_of(x, x->rank - tt_count(c, 2), x->rank, true);
  hlo rstd = saved(c, 4, x, &a), unit = normalized(m, x, &a, saved(c, 3, x, &a), rstd);
  if (c->want[0].defined) {
    hlo inner = tt_has(c, 5) ? multiply(m, grad, spread_inside(m, tt_in(c, 5), x, &a)) : grad;
    c->result[0] = normalized_backward(m, inner, unit, &a, rstd);
  }
  if (c->want[1].defined) c->result[1] = sum_kept(m, multiply(m, grad, unit), &a);
  if (c->want[2].defined) c->result[2] = sum_kept(m, grad, &a);
}

void rule_rms_norm_backward(tt_ctx *c) { /* (grad_out, input, normalized_shape, rstd, weight, output_mask) */
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), x = tt_in(c, 1);
  if (!grad || !x) return;
  axes a = axes_of(x, x->rank - tt_count(c, 2), x->rank, true);
  hlo rstd = spread(m, saved(c, 3, x, &a), x, &a), unit = multiply(m, x, rstd);
  if (c->want[0].defined) {
    hlo inner = tt_has(c, 4) ? multiply(m, grad, spread_inside(m, tt_in(c, 4), x, &a)) : grad;
    hlo slope = spread(m, mean(m, multiply(m, inner, unit), &a), x, &a);
    c->result[0] = multiply(m, subtract(m, inner, multiply(m, unit, slope)), rstd);
  }
  if (c->want[1].defined) c->result[1] = sum_kept(m, multiply(m, grad, unit), &a);
}

/* ---- batch norm: moments over all dims but 1 ---- */
static hlo affine(tt_ctx *c, hlo y, const axes *a, int weight) { /* bias follows the weight */
  if (tt_has(c, weight)) y = multiply(c->m, y, spread(c->m, tt_in(c, weight), y, a));
  if (tt_has(c, weight + 1)) y = add(c->m, y, spread(c->m, tt_in(c, weight + 1), y, a));
  return y;
}

static hlo blend(hlo_module *m, hlo old, hlo fresh, hlo momentum) {
  hlo rest = momentum ? subtract(m, hlo_int(m, momentum->dtype, 1), momentum) : NULL;
  return add(m, multiply(m, fresh, momentum), multiply(m, old, rest));
}

/* A statistic as result k; torch CPU gives none where it was not computed, which is a tensor of no elements. */
static void give_statistic(tt_ctx *c, int k, hlo v) {
  const tt_want *w = &c->want[k];
  if (k >= c->n_results || !w->defined) return;
  bool none = w->rank == 1 && w->dims[0] == 0 && hlo_numel(v) != 0;
  c->result[k] = none ? hlo_full(c->m, w->dtype, w->rank, w->dims, 0) : v;
}

/* (input, weight, bias[, running_mean, running_var][, training], momentum, eps). hlo is what is in brackets: "stats
 * training", "training", "stats"; without training it trains. With " new", the last two results are the new running
 * statistics. A fourth result is the reserve of cuDNN, which nothing here needs. */
void rule_batch_norm(tt_ctx *c) {
  hlo_module *m = c->m;
  bool stats = strstr(c->op->hlo, "stats") != NULL, told = strstr(c->op->hlo, "training") != NULL;
  int training_arg = stats ? 5 : 3, momentum_arg = training_arg + told;
  bool training = told ? tt_bool(c, training_arg) : true;
  hlo x = tt_in(c, 0), eps = tt_in(c, momentum_arg + 1);
  if (!x) return;
  axes a = axes_of(x, 1, 2, false);
  moments s;
  if (training || !stats) {
    s = moments_of(m, x, &a, eps);
  } else {
    s = (moments){.mean = tt_in(c, 3), .variance = tt_in(c, 4)};
    s.rstd = inverse_deviation(m, s.variance, eps);
  }
  c->result[0] = affine(c, normalized(m, x, &a, s.mean, s.rstd), &a, 1);
  give_statistic(c, 1, s.mean);
  give_statistic(c, 2, s.rstd);
  bool fresh = strstr(c->op->hlo, "new") != NULL;
  int reserve = fresh ? c->n_results - 3 : c->n_results - 1;
  if (reserve == 3) c->result[3] = tt_want_zeros(c, 3);
  if (!stats) return;
  for (int i = 0; i < 2; i++) {
    if (!tt_has(c, 3 + i)) continue;
    hlo value = i ? s.variance : s.mean, old = tt_in(c, 3 + i);
    if (i && training) { /* the running variance is the unbiased one */
      value = hlo_binary_scalar(m, "multiply", value, (double)a.count);
      value = hlo_binary_scalar(m, "divide", value, (double)(a.count - 1));
    }
    value = training ? blend(m, old, value, tt_in(c, momentum_arg)) : old;
    if (fresh) c->result[c->n_results - 2 + i] = value;
    else if (training) tt_write(c, 3 + i, value);
  }
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask) */
void rule_batch_norm_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), x = tt_in(c, 1);
  if (!grad || !x) return;
  axes a = axes_of(x, 1, 2, false);
  bool train = tt_bool(c, 7);
  hlo center = train ? tt_in(c, 5) : tt_in(c, 3);
  hlo rstd = train ? tt_in(c, 6) : inverse_deviation(m, tt_in(c, 4), tt_in(c, 8));
  hlo unit = normalized(m, x, &a, center, rstd);
  if (c->want[0].defined) {
    hlo inner = tt_has(c, 2) ? multiply(m, grad, spread(m, tt_in(c, 2), x, &a)) : grad;
    c->result[0] = train ? normalized_backward(m, inner, unit, &a, rstd) : multiply(m, inner, spread(m, rstd, x, &a));
  }
  if (c->want[1].defined) c->result[1] = sum(m, multiply(m, grad, unit), &a);
  if (c->want[2].defined) c->result[2] = sum(m, grad, &a);
}

/* ---- group norm: x seen as [N, groups, C / groups, HxW], moments over the last two ---- */
typedef struct grouping { int64_t dims[4]; } grouping;

static grouping grouping_of(tt_ctx *c, int at) { /* (.., N, C, HxW, group, ..) from argument at */
  int64_t n = tt_int(c, at, 1), channels = tt_int(c, at + 1, 1), area = tt_int(c, at + 2, 1);
  int64_t groups = tt_int(c, at + 3, 1);
  return (grouping){{n, groups, channels / groups, area}};
}

static hlo per_channel(hlo_module *m, hlo v, hlo like) { /* [C] over [N, G, C / G, HxW] */
  if (!v || !like) return NULL;
  return hlo_broadcast(m, hlo_reshape(m, v, 2, like->dims + 1), 4, like->dims, (int[]){1, 2});
}

void rule_group_norm(tt_ctx *c) { /* (input, weight, bias, N, C, HxW, group, eps) */
  hlo_module *m = c->m;
  grouping g = grouping_of(c, 3);
  hlo x = hlo_reshape(m, tt_in(c, 0), 4, g.dims);
  axes a = axes_of(x, 2, 4, true);
  moments s = moments_of(m, x, &a, tt_in(c, 7));
  hlo y = normalized(m, x, &a, s.mean, s.rstd);
  if (tt_has(c, 1)) y = multiply(m, y, per_channel(m, tt_in(c, 1), x));
  if (tt_has(c, 2)) y = add(m, y, per_channel(m, tt_in(c, 2), x));
  c->result[0] = as_dims(m, y, &c->want[0]);
  c->result[1] = s.mean;
  c->result[2] = s.rstd;
}

void rule_group_norm_backward(tt_ctx *c) { /* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask) */
  hlo_module *m = c->m;
  grouping g = grouping_of(c, 5);
  hlo grad = hlo_reshape(m, tt_in(c, 0), 4, g.dims), x = hlo_reshape(m, tt_in(c, 1), 4, g.dims);
  axes a = axes_of(x, 2, 4, true), channel = {.n_reduced = 2, .reduced = {0, 3}};
  hlo center = hlo_reshape(m, tt_in(c, 2), 2, g.dims), rstd = hlo_reshape(m, tt_in(c, 3), 2, g.dims);
  hlo unit = normalized(m, x, &a, center, rstd);
  if (c->want[0].defined) {
    hlo inner = tt_has(c, 4) ? multiply(m, grad, per_channel(m, tt_in(c, 4), x)) : grad;
    c->result[0] = as_dims(m, normalized_backward(m, inner, unit, &a, rstd), &c->want[0]);
  }
  if (c->want[1].defined) c->result[1] = as_dims(m, sum(m, multiply(m, grad, unit), &channel), &c->want[1]);
  if (c->want[2].defined) c->result[2] = as_dims(m, sum(m, grad, &channel), &c->want[2]);
}
