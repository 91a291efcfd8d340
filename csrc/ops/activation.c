/* activation.c: activation functions and their derivatives.
 *
 * Half floats are computed in f32 and rounded once. At the corners the derivative is torch's: the comparison that is
 * written is the one that torch uses. */
#include <math.h>
#include <string.h>
#include "ops/math.h"
#include "ops/rules.h"

static hlo sigmoid(hlo_module *m, hlo x) { return hlo_unary(m, "logistic", x); }
static hlo tanh_of(hlo_module *m, hlo x) { return hlo_unary(m, "tanh", x); }
static hlo zero_like(hlo_module *m, hlo x) { return constant_like(m, x, 0); }
static hlo log1p_of(hlo_module *m, hlo x) { return hlo_unary(m, "log_plus_one", x); }
/* log(1 + e^x) without overflow */
static hlo softplus(hlo_module *m, hlo x) {
  return add(m, larger(m, x, zero_like(m, x)), log1p_of(m, exponential(m, neg(m, absolute(m, x)))));
}
static hlo one_less(hlo_module *m, hlo x) { return sub(m, constant_like(m, x, 1), x); }
static hlo inside(hlo_module *m, hlo x, hlo low, hlo high, bool closed) {
  return both(m, hlo_compare(m, closed ? "GE" : "GT", x, low), hlo_compare(m, closed ? "LE" : "LT", x, high));
}

void rule_relu(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = larger(c->m, x, zero_like(c->m, x));
}

/* ---- gelu: x P(x), exactly or by tanh ---- */
void rule_gelu(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), p;
  if (!strcmp(tt_str(c, 1), "tanh")) {
    hlo cube = mul(m, mul(m, x, x), x);
    p = tanh_of(m, times(m, add(m, x, times(m, cube, 0.044715)), 0.79788456080286535588));
  } else {
    p = hlo_unary(m, "chlo.erf", times(m, x, 0.70710678118654752440));
  }
  c->result[0] = mul(m, times(m, x, 0.5), plus(m, p, 1));
}

void rule_gelu_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1), square = mul(m, x, x), d;
  if (!strcmp(tt_str(c, 2), "tanh")) {
    double beta = 0.79788456080286535588, kappa = 0.044715;
    hlo t = tanh_of(m, times(m, add(m, x, times(m, mul(m, square, x), kappa)), beta));
    hlo inner = times(m, plus(m, times(m, square, 3 * kappa), 1), beta);
    hlo right = mul(m, mul(m, times(m, x, 0.5), one_less(m, mul(m, t, t))), inner);
    d = add(m, times(m, plus(m, t, 1), 0.5), right);
  } else {
    hlo cdf = times(m, plus(m, hlo_unary(m, "chlo.erf", times(m, x, 0.70710678118654752440)), 1), 0.5);
    hlo pdf = times(m, exponential(m, times(m, square, -0.5)), 0.39894228040143267794);
    d = add(m, cdf, mul(m, x, pdf));
  }
  c->result[0] = mul(m, g, d);
}

/* ---- silu, mish ---- */
void rule_silu(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = mul(c->m, x, sigmoid(c->m, x));
}
void rule_silu_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1), s = sigmoid(m, x);
  c->result[0] = mul(m, mul(m, g, s), plus(m, mul(m, x, one_less(m, s)), 1));
}
void rule_mish(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = mul(c->m, x, tanh_of(c->m, softplus(c->m, x)));
}
void rule_mish_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1), s = sigmoid(m, x), t = tanh_of(m, softplus(m, x));
  c->result[0] = mul(m, g, add(m, t, mul(m, mul(m, x, s), one_less(m, mul(m, t, t)))));
}

/* ---- pieces of lines ---- */
void rule_hardtanh(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo low = tt_has(c, 1) ? tt_in(c, 1) : hlo_int(m, (tt_dtype)c->dtype, -1);
  hlo high = tt_has(c, 2) ? tt_in(c, 2) : hlo_int(m, (tt_dtype)c->dtype, 1);
  c->result[0] = smaller(m, larger(m, tt_in(c, 0), low), high);
}
void rule_hardtanh_backward(tt_ctx *c) {
  hlo g = tt_in(c, 0), x = tt_in(c, 1);
  hlo in = inside(c->m, x, tt_in(c, 2), tt_in(c, 3), false);
  c->result[0] = choose(c->m, in, g, zero_like(c->m, g));
}

static hlo ramp(hlo_module *m, hlo x) { /* min(max(x + 3, 0), 6) */
  return smaller(m, larger(m, plus(m, x, 3), zero_like(m, x)), constant_like(m, x, 6));
}
void rule_hardsigmoid(tt_ctx *c) { c->result[0] = times(c->m, ramp(c->m, tt_in(c, 0)), 1.0 / 6); }
void rule_hardsigmoid_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1);
  hlo in = inside(m, x, constant_like(m, x, -3), constant_like(m, x, 3), false);
  c->result[0] = choose(m, in, times(m, g, 1.0 / 6), zero_like(m, g));
}
void rule_hardswish(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = times(c->m, mul(c->m, x, ramp(c->m, x)), 1.0 / 6);
}
void rule_hardswish_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1), three = constant_like(m, x, 3);
  hlo middle = choose(m, hlo_compare(m, "GE", x, three), g, mul(m, g, plus(m, times(m, x, 1.0 / 3), 0.5)));
  c->result[0] = choose_number(m, hlo_compare(m, "LE", x, constant_like(m, x, -3)), 0, middle);
}

static hlo number_or(tt_ctx *c, int i, double otherwise) {
  return tt_has(c, i) ? tt_in(c, i) : hlo_float(c->m, (tt_dtype)c->dtype, otherwise);
}

void rule_leaky_relu(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = choose(c->m, is_above(c->m, x, 0), x, mul(c->m, x, number_or(c, 1, 0.01)));
}
void rule_leaky_relu_backward(tt_ctx *c) { /* also where the result is given for self: the signs are the same */
  hlo g = tt_in(c, 0);
  c->result[0] = choose(c->m, is_above(c->m, tt_in(c, 1), 0), g, mul(c->m, g, tt_in(c, 2)));
}
void rule_rrelu_backward(tt_ctx *c) { /* (grad, self, noise, lower, upper, training, self_is_result) */
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0);
  double low = tt_number_of(c, 3, 0), high = tt_number_of(c, 4, 0);
  if (tt_bool(c, 5) && high - low > 1e-6) c->result[0] = mul(m, g, tt_in(c, 2));
  else c->result[0] = choose(m, is_above(m, tt_in(c, 1), 0), g, times(m, g, (low + high) / 2));
}
void rule_prelu(tt_ctx *c) {
  hlo x = tt_in_wide(c, 0);
  c->result[0] = choose(c->m, is_above(c->m, x, 0), x, mul(c->m, tt_in_wide(c, 1), x));
}
void rule_prelu_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in_wide(c, 0), x = tt_in_wide(c, 1), positive = is_above(m, x, 0);
  c->result[0] = choose(m, positive, g, mul(m, tt_in_wide(c, 2), g));
  c->result[1] = choose_number(m, positive, 0, mul(m, x, g));
}

void rule_threshold(tt_ctx *c) { /* hlo: "backward" gives 0 below, and takes (grad, self, threshold) */
  hlo_module *m = c->m;
  bool backward = *c->op->hlo == 'b';
  hlo kept = tt_in_wide(c, 0), x = tt_in_wide(c, backward);
  hlo below = hlo_compare(m, "LE", x, tt_in(c, backward + 1));
  c->result[0] = backward ? choose_number(m, below, 0, kept) : choose(m, below, tt_in(c, 2), kept);
}

/* hlo: "soft" moves what it keeps towards 0, "hard" does not, "backward" keeps the gradient */
void rule_shrink(tt_ctx *c) {
  hlo_module *m = c->m;
  char what = *c->op->hlo;
  hlo x = tt_in(c, what == 'b'), lambda = what == 'b' ? tt_in(c, 2) : number_or(c, 1, 0.5);
  hlo in = inside(m, x, neg(m, lambda), lambda, true);
  if (what == 's') {
    hlo up = hlo_compare(m, "GT", x, lambda), shrunk = choose(m, up, sub(m, x, lambda), add(m, x, lambda));
    c->result[0] = choose_number(m, in, 0, shrunk);
  } else if (what == 'h') {
    c->result[0] = choose_number(m, in, 0, x);
  } else {
    hlo out = either(m, hlo_compare(m, "LT", x, neg(m, lambda)), hlo_compare(m, "GT", x, lambda)), g = tt_in(c, 0);
    c->result[0] = choose(m, out, g, zero_like(m, g)); /* NaN: none */
  }
}

/* ---- elu: (self, alpha, scale, input_scale) ---- */
void rule_elu(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), alpha = number_or(c, 1, 1), scale = number_or(c, 2, 1), inner = number_or(c, 3, 1);
  hlo below = mul(m, hlo_unary(m, "exponential_minus_one", mul(m, x, inner)), mul(m, alpha, scale));
  c->result[0] = choose(m, is_below(m, x, 0), below, mul(m, x, scale));
}
void rule_elu_backward(tt_ctx *c) { /* (grad, alpha, scale, input_scale, is_result, self_or_result) */
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), alpha = tt_in(c, 1), scale = tt_in(c, 2), inner = tt_in(c, 3), x = tt_in(c, 5),
      coefficient = mul(m, alpha, scale);
  hlo slope = tt_bool(c, 4) ? mul(m, inner, add(m, x, coefficient))
                            : mul(m, mul(m, inner, coefficient), exponential(m, mul(m, x, inner)));
  c->result[0] = choose(m, is_above(m, x, 0), mul(m, g, scale), mul(m, g, slope));
}
void rule_celu(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), alpha = number_or(c, 1, 1);
  hlo below = mul(m, hlo_unary(m, "exponential_minus_one", quo(m, x, alpha)), alpha);
  c->result[0] = choose(m, is_below(m, x, 0), below, x);
}

void rule_softplus(tt_ctx *c) { /* (self, beta, threshold) */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), beta = number_or(c, 1, 1), z = mul(m, x, beta);
  hlo r = quo(m, log1p_of(m, exponential(m, z)), beta);
  c->result[0] = choose(m, hlo_compare(m, "GT", z, number_or(c, 2, 20)), x, r);
}
void rule_softplus_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), z = mul(m, tt_in(c, 1), tt_in(c, 2));
  c->result[0] = choose(m, hlo_compare(m, "GT", z, tt_in(c, 3)), g, mul(m, g, sigmoid(m, z)));
}

/* ---- glu: halves along a dim ---- */
void rule_glu(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!x) return;
  int dim = tt_dim(c, 1, x->rank, x->rank - 1);
  int64_t half = x->dims[dim] / 2;
  c->result[0] = mul(m, hlo_slice_dim(m, x, dim, 0, half, 1), sigmoid(m, hlo_slice_dim(m, x, dim, half, 2 * half, 1)));
}
void rule_glu_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1);
  if (!x) return;
  int dim = tt_dim(c, 2, x->rank, x->rank - 1);
  int64_t half = x->dims[dim] / 2;
  hlo a = hlo_slice_dim(m, x, dim, 0, half, 1), s = sigmoid(m, hlo_slice_dim(m, x, dim, half, 2 * half, 1));
  hlo first = mul(m, g, s), halves[2] = {first, mul(m, mul(m, first, a), one_less(m, s))};
  c->result[0] = hlo_concat(m, 2, halves, dim);
}

/* ---- sigmoid, tanh, their logs and inverses ---- */
void rule_log_sigmoid(tt_ctx *c) { /* the buffer, which the derivative below does not need, is what its size asks for */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), e = exponential(m, neg(m, absolute(m, x)));
  c->result[0] = sub(m, smaller(m, x, zero_like(m, x)), log1p_of(m, e));
  const tt_want *w = &c->want[1];
  if (!w->defined || !e) return;
  bool full = w->rank == e->rank && !memcmp(w->dims, e->dims, e->rank * sizeof *e->dims);
  c->result[1] = full ? e : hlo_full(m, (tt_dtype)w->dtype, w->rank, w->dims, 0);
}
void rule_log_sigmoid_backward(tt_ctx *c) {
  c->result[0] = mul(c->m, tt_in(c, 0), sigmoid(c->m, neg(c->m, tt_in(c, 1))));
}

static hlo conjugate(hlo_module *m, hlo x, tt_dtype t) {
  return tt_is_complex(t) ? hlo_complex_of(m, hlo_unary(m, "real", x), neg(m, hlo_unary(m, "imag", x))) : x;
}
void rule_sigmoid_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), y = tt_in(c, 1);
  c->result[0] = mul(m, g, conjugate(m, mul(m, one_less(m, y), y), (tt_dtype)c->dtype));
}
void rule_tanh_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), y = tt_in(c, 1);
  c->result[0] = mul(m, g, conjugate(m, one_less(m, mul(m, y, y)), (tt_dtype)c->dtype));
}

void rule_logit(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (tt_has(c, 1)) {
    hlo eps = tt_in(c, 1);
    x = smaller(m, larger(m, x, eps), one_less(m, eps));
  }
  c->result[0] = logarithm(m, quo(m, x, one_less(m, x)));
}
void rule_logit_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo g = tt_in(c, 0), x = tt_in(c, 1), eps = tt_has(c, 2) ? tt_in(c, 2) : zero_like(m, x);
  hlo in = inside(m, x, eps, one_less(m, eps), true);
  c->result[0] = choose(m, in, quo(m, g, mul(m, x, one_less(m, x))), constant_like(m, x, tt_has(c, 2) ? 0 : NAN));
}
