/* elementwise.c: arithmetic, comparison, logic, selection and copies, element by element.
 *
 * A rule takes operands already promoted, broadcasts them to the dims of the result and computes torch CPU's values:
 * NaN is kept, integers wrap, division rounds as torch says. Integer division by zero, an error on a CPU and in Debug
 * mode, gives -1 here, and a remainder of the dividend. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "ops/math.h"
#include "ops/rules.h"

static hlo wide_as(tt_ctx *c, int i, tt_dtype t) {
  hlo x = tt_in_as(c, i, t);
  return x ? hlo_broadcast_to(c->m, x, c->want[0].rank, c->want[0].dims) : NULL;
}

/* Numbers are rounded to the promoted dtype before they are computed with in a wider one, as tensors have been. */
static hlo rounded(tt_ctx *c, int i) {
  hlo x = tt_in_as(c, i, (tt_dtype)c->promoted);
  x = x ? hlo_convert(c->m, x, (tt_dtype)c->dtype) : NULL;
  return x ? hlo_broadcast_to(c->m, x, c->want[0].rank, c->want[0].dims) : NULL;
}

static bool is_whole_dtype(tt_dtype t) { return t == TT_BOOL || tt_is_integral(t); }
static hlo parts(hlo_module *m, hlo x, hlo *imag) {
  *imag = hlo_unary(m, "imag", x);
  return hlo_unary(m, "real", x);
}

/* ---- one operand ---- */

void rule_unary(tt_ctx *c) { c->result[0] = hlo_unary(c->m, c->op->hlo, tt_in(c, 0)); }

void rule_abs(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  c->result[0] = x && (tt_is_signed((tt_dtype)x->dtype)) ? absolute(c->m, x) : x;
}

/* floor, ceil, round, trunc: integers are what they are. */
static hlo truncate(hlo_module *m, hlo x) {
  if (!x || is_whole_dtype((tt_dtype)x->dtype)) return x;
  return choose(m, is_below(m, x, 0), hlo_unary(m, "ceil", x), hlo_unary(m, "floor", x));
}
void rule_rounding(tt_ctx *c) { /* hlo: the op, or "trunc" or "frac" */
  hlo x = tt_in(c, 0);
  const char *op = c->op->hlo;
  if (!strcmp(op, "trunc")) c->result[0] = truncate(c->m, x);
  else if (!strcmp(op, "frac")) c->result[0] = sub(c->m, x, truncate(c->m, x));
  else c->result[0] = is_whole_dtype((tt_dtype)c->dtype) ? x : hlo_unary(c->m, op, x);
}

void rule_round_decimals(tt_ctx *c) {
  hlo_module *m = c->m;
  int64_t d = tt_int(c, 1, 0);
  double ten = pow(10, (double)(d < 0 ? -d : d));
  hlo x = tt_in(c, 0), by = constant_like(m, x, ten);
  x = hlo_unary(m, "round_nearest_even", d < 0 ? quo(m, x, by) : mul(m, x, by));
  c->result[0] = d < 0 ? mul(m, x, by) : quo(m, x, by);
}

void rule_sign(tt_ctx *c) { /* sgn too: x / |x| for complex; 0 for NaN */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  tt_dtype t = (tt_dtype)c->dtype;
  if (tt_is_complex(t)) {
    hlo size = absolute(m, x);
    c->result[0] = choose_number(m, is(m, size, 0), 0, quo(m, x, hlo_convert(m, size, t)));
  } else if (t == TT_BOOL) {
    c->result[0] = x;
  } else if (!tt_is_signed(t)) {
    c->result[0] = hlo_compare(m, "NE", x, constant_like(m, x, 0));
  } else {
    hlo negative = hlo_convert(m, is_below(m, x, 0), t), positive = hlo_convert(m, is_above(m, x, 0), t);
    c->result[0] = sub(m, positive, negative);
  }
}

static hlo sign_bit(hlo_module *m, hlo x) {
  if (!x) return NULL;
  tt_dtype t = (tt_dtype)x->dtype;
  if (!tt_is_signed(t)) return hlo_full(m, TT_BOOL, x->rank, x->dims, 0);
  if (tt_is_float(t)) {
    unsigned bits = tt_dtype_bits(t);
    x = hlo_bitcast(m, x, bits == 64 ? TT_I64 : bits == 32 ? TT_I32 : bits == 16 ? TT_I16 : TT_I8);
  }
  return is_below(m, x, 0);
}
void rule_signbit(tt_ctx *c) { c->result[0] = sign_bit(c->m, tt_in(c, 0)); }

void rule_is_special(tt_ctx *c) { /* hlo: "nan" "inf" "+inf" "-inf" */
  hlo_module *m = c->m;
  const char *what = c->op->hlo;
  hlo x = tt_in(c, 0), y = NULL;
  if (is_whole_dtype((tt_dtype)c->dtype)) {
    c->result[0] = hlo_full(m, TT_BOOL, c->want[0].rank, c->want[0].dims, 0);
    return;
  }
  if (tt_is_complex((tt_dtype)c->dtype)) x = parts(m, x, &y);
  for (int k = 0; k < (y ? 2 : 1); k++) {
    hlo v = k ? y : x;
    hlo p = *what == 'n'   ? is_nan(m, v)
            : *what == 'i' ? is(m, absolute(m, v), INFINITY)
                           : is(m, v, *what == '-' ? -INFINITY : INFINITY);
    c->result[0] = k ? either(m, c->result[0], p) : p;
  }
}

void rule_logical_not(tt_ctx *c) { c->result[0] = not(c->m, tt_in_as(c, 0, TT_BOOL)); }

void rule_conj(tt_ctx *c) {
  hlo im, x = tt_in(c, 0);
  if (tt_is_complex((tt_dtype)c->dtype)) {
    x = parts(c->m, x, &im);
    x = hlo_complex_of(c->m, x, neg(c->m, im));
  }
  c->result[0] = x;
}

void rule_angle(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0), im;
  if (tt_is_complex((tt_dtype)c->dtype)) {
    x = parts(m, x, &im);
    c->result[0] = hlo_binary(m, "atan2", im, x);
  } else {
    hlo a = choose(m, is_below(m, x, 0), constant_like(m, x, 3.14159265358979323846), hlo_full_like(m, x, 0));
    c->result[0] = choose(m, is_nan(m, x), x, a);
  }
}

static double largest_of(tt_dtype t) {
  switch (t) {
    case TT_F16: return 65504;
    case TT_BF16: return 0x1.fep127;
    case TT_F64: case TT_C128: return DBL_MAX;
    default: return FLT_MAX;
  }
}

void rule_nan_to_num(tt_ctx *c) {
  hlo_module *m = c->m;
  tt_dtype t = (tt_dtype)c->dtype, real = tt_real_of(t);
  hlo x = tt_in(c, 0), y[2] = {x, NULL};
  if (is_whole_dtype(t)) {
    c->result[0] = x;
    return;
  }
  if (tt_is_complex(t)) y[0] = parts(m, x, &y[1]);
  for (int k = 0; k < 2 && y[k]; k++) {
    hlo v = y[k];
    double most = largest_of(t);
    y[k] = choose(m, is_nan(m, v), tt_has(c, 1) ? tt_in_as(c, 1, real) : hlo_float(m, real, 0), v);
    y[k] = choose(m, is(m, v, INFINITY), tt_has(c, 2) ? tt_in_as(c, 2, real) : hlo_float(m, real, most), y[k]);
    y[k] = choose(m, is(m, v, -INFINITY), tt_has(c, 3) ? tt_in_as(c, 3, real) : hlo_float(m, real, -most), y[k]);
  }
  c->result[0] = y[1] ? hlo_complex_of(m, y[0], y[1]) : y[0];
}

void rule_frexp(tt_ctx *c) {
  hlo_module *m = c->m;
  tt_dtype t = (tt_dtype)c->dtype, bits = t == TT_F64 ? TT_I64 : TT_I32;
  int digits = t == TT_F64 ? 52 : 23, bias = t == TT_F64 ? 1022 : 126;
  int64_t field = t == TT_F64 ? 2047 : 255;
  hlo x = tt_in(c, 0), size = absolute(m, x);
  hlo none = either(m, is(m, x, 0), not(m, hlo_unary(m, "is_finite", x)));
  hlo small = is_below(m, size, t == TT_F64 ? DBL_MIN : FLT_MIN); /* subnormal: scaled up first */
  hlo i = hlo_bitcast(m, choose(m, small, times(m, x, ldexp(1, digits + 2)), x), bits);
  hlo e = both(m, hlo_binary(m, "shift_right_logical", i, hlo_int(m, bits, digits)), hlo_int(m, bits, field));
  hlo mantissa = either(m, both(m, i, hlo_int(m, bits, ~(field << digits))), hlo_int(m, bits, (int64_t)bias << digits));
  e = sub(m, sub(m, e, hlo_int(m, bits, bias)), choose(m, small, hlo_int(m, bits, digits + 2), hlo_full_like(m, e, 0)));
  c->result[0] = choose(m, none, x, hlo_bitcast(m, mantissa, t));
  c->result[1] = choose_number(m, none, 0, e);
}

/* ---- two operands ---- */

static void require_divisor(tt_ctx *c, hlo b) {
  if (tt_debug(c) && b && tt_is_integral((tt_dtype)b->dtype))
    tt_require(c, hlo_compare(c->m, "NE", b, constant_like(c->m, b, 0)), NULL, TT_INVALID_ARGUMENT,
               "ZeroDivisionError");
}

void rule_binary(tt_ctx *c) {
  hlo a = rounded(c, 0), b = rounded(c, 1);
  if (!strcmp(c->op->hlo, "remainder")) require_divisor(c, b);
  c->result[0] = hlo_binary(c->m, c->op->hlo, a, b);
}

void rule_compare(tt_ctx *c) {
  if (tt_is_complex((tt_dtype)c->dtype) && c->op->hlo[1] != 'Q' && strcmp(c->op->hlo, "NE")) {
    hlo_fail(c->m, TT_UNIMPLEMENTED, "complex numbers have no order");
    return;
  }
  c->result[0] = hlo_compare(c->m, c->op->hlo, tt_in_wide(c, 0), tt_in_wide(c, 1));
}

void rule_logical(tt_ctx *c) {
  c->result[0] = hlo_binary(c->m, c->op->hlo, wide_as(c, 0, TT_BOOL), wide_as(c, 1, TT_BOOL));
}

/* Shifts by less than 0 or by the width or more: zero to the left, the sign to the right. StableHLO does so too. */
void rule_shift(tt_ctx *c) { /* hlo: "left" "right" */
  const char *right = tt_is_signed((tt_dtype)c->dtype) ? "shift_right_arithmetic" : "shift_right_logical";
  c->result[0] = hlo_binary(c->m, *c->op->hlo == 'l' ? "shift_left" : right, tt_in_wide(c, 0), tt_in_wide(c, 1));
}

void rule_add(tt_ctx *c) { /* (self, other, alpha); hlo: "add", "subtract", or "reverse" for other - alpha * self */
  hlo_module *m = c->m;
  bool reverse = *c->op->hlo == 'r';
  hlo a = tt_in_wide(c, reverse), b = tt_in_wide(c, !reverse);
  if (!tt_in_is_one(c, 2)) b = mul(m, b, tt_in(c, 2));
  c->result[0] = hlo_binary(m, reverse ? "subtract" : c->op->hlo, a, b);
}

void rule_arithmetic(tt_ctx *c) { c->result[0] = hlo_binary(c->m, c->op->hlo, tt_in_wide(c, 0), tt_in_wide(c, 1)); }

/* Whether a remainder has to be moved to the divisor's sign. */
static hlo wrong_side(hlo_module *m, hlo rest, hlo b) {
  hlo differs = hlo_compare(m, "NE", is_below(m, rest, 0), is_below(m, b, 0));
  return both(m, hlo_compare(m, "NE", rest, constant_like(m, rest, 0)), differs);
}

static hlo floor_quotient(hlo_module *m, hlo a, hlo b, tt_dtype t) {
  if (!tt_is_signed(t)) return quo(m, a, b);
  if (tt_is_integral(t)) {
    hlo q = quo(m, a, b), left = sub(m, a, mul(m, q, b)); /* one division: of 64 bits it is long on TPUs */
    return choose(m, wrong_side(m, left, b), plus(m, q, -1), q);
  }
  hlo rest = hlo_binary(m, "remainder", a, b);
  hlo exact = quo(m, a, b), q = quo(m, sub(m, a, rest), b);
  q = choose(m, wrong_side(m, rest, b), plus(m, q, -1), q);
  hlo down = hlo_unary(m, "floor", q);
  down = choose(m, is_above(m, sub(m, q, down), 0.5), plus(m, down, 1), down);
  down = choose(m, is(m, q, 0), mul(m, exact, constant_like(m, exact, 0)), down); /* a zero of the quotient's sign */
  return choose(m, is(m, b, 0), exact, down);
}

void rule_divide(tt_ctx *c) { /* (self, other, rounding_mode); hlo: "mode", or which one it is */
  hlo_module *m = c->m;
  const char *mode = *c->op->hlo == 'm' ? tt_str(c, 2) : c->op->hlo;
  tt_dtype t = (tt_dtype)c->dtype;
  if (*mode == 'f' || *mode == 't') require_divisor(c, tt_in_wide(c, 1));
  if (*mode == 'f') {
    c->result[0] = floor_quotient(m, tt_in_wide(c, 0), tt_in_wide(c, 1), t);
  } else if (*mode == 't') {
    c->result[0] = truncate(m, quo(m, tt_in_wide(c, 0), tt_in_wide(c, 1)));
  } else {
    if (is_whole_dtype(t)) t = tt_default_dtype;
    c->result[0] = quo(m, wide_as(c, 0, t), wide_as(c, 1, t));
  }
}

void rule_remainder(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo a = rounded(c, 0), b = rounded(c, 1), rest = hlo_binary(m, "remainder", a, b);
  require_divisor(c, b);
  c->result[0] = tt_is_signed((tt_dtype)c->dtype) ? choose(m, wrong_side(m, rest, b), add(m, rest, b), rest) : rest;
}

/* Integers by squaring: StableHLO's power is not the same everywhere for negative exponents, which give 0, 1 or -1. */
static hlo integer_power(hlo_module *m, hlo a, hlo b, tt_dtype t) {
  hlo one = constant_like(m, a, 1), result = hlo_full_like(m, a, 1), square = a;
  int bits = (int)tt_dtype_bits(t) - tt_is_signed(t);
  for (int i = 0; i < bits; i++) {
    hlo bit = both(m, hlo_binary(m, "shift_right_logical", b, constant_like(m, b, i)), one);
    result = choose(m, is(m, bit, 1), mul(m, result, square), result);
    if (i + 1 < bits) square = mul(m, square, square);
  }
  if (!tt_is_signed(t)) return result;
  hlo odd = is(m, both(m, b, one), 1), unit = choose(m, odd, a, mul(m, a, a));
  hlo inverse = choose_number(m, is_above(m, absolute(m, a), 1), 0, unit);
  return choose(m, is_below(m, b, 0), inverse, result);
}

static hlo general_power(hlo_module *m, hlo a, hlo b, tt_dtype t) {
  if (t == TT_BOOL) return either(m, a, not(m, b));
  if (tt_is_integral(t)) return integer_power(m, a, b, t);
  hlo r = hlo_binary(m, "power", a, b);
  return tt_is_complex(t) ? choose_number(m, is(m, b, 0), 1, r) : r;
}

void rule_pow(tt_ctx *c) { c->result[0] = general_power(c->m, tt_in_wide(c, 0), tt_in_wide(c, 1), (tt_dtype)c->dtype); }

void rule_pow_number(tt_ctx *c) { /* the exponent is static: the usual ones are roots and products */
  hlo_module *m = c->m;
  tt_dtype t = (tt_dtype)c->dtype;
  hlo x = tt_in_wide(c, 0);
  double p = tt_number_of(c, 1, 1);
  bool complex_exponent = tt_is_complex((tt_dtype)tt_in_dtype(c, 1));
  if (is_whole_dtype(t) && p < 0) { /* torch takes no such powers */
    hlo_fail(m, TT_UNIMPLEMENTED, "an integer to a negative integer power");
    return;
  }
  if (complex_exponent || t == TT_BOOL) c->result[0] = general_power(m, x, wide_as(c, 1, t), t);
  else if (p == 0) c->result[0] = x ? hlo_full_like(m, x, 1) : NULL;
  else if (p == 1) c->result[0] = x;
  else if (p == 2) c->result[0] = mul(m, x, x);
  else if (p == 3) c->result[0] = mul(m, mul(m, x, x), x);
  else if (is_whole_dtype(t) && p > 0 && p < 64) {
    hlo r = NULL, square = x;
    for (int e = (int)p; e; e >>= 1, square = e ? mul(m, square, square) : square)
      if (e & 1) r = r ? mul(m, r, square) : square;
    c->result[0] = r;
  } else if (is_whole_dtype(t)) c->result[0] = general_power(m, x, wide_as(c, 1, t), t);
  else if (p == 0.5) c->result[0] = root(m, x);
  else if (p == -0.5 && !tt_is_complex(t)) c->result[0] = hlo_unary(m, "rsqrt", x);
  else if (p == -1) c->result[0] = over(m, 1, x);
  else if (p == -2) c->result[0] = over(m, 1, mul(m, x, x));
  else c->result[0] = general_power(m, x, wide_as(c, 1, t), t);
}

void rule_fmax(tt_ctx *c) { /* hlo "maximum" or "minimum"; a NaN loses */
  hlo_module *m = c->m;
  hlo a = rounded(c, 0), b = rounded(c, 1), r = hlo_binary(m, c->op->hlo, a, b);
  c->result[0] = is_whole_dtype((tt_dtype)c->dtype) ? r : choose(m, is_nan(m, a), b, choose(m, is_nan(m, b), a, r));
}

void rule_hypot(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo a = absolute(m, rounded(c, 0)), b = absolute(m, rounded(c, 1));
  hlo high = larger(m, a, b), ratio = quo(m, smaller(m, a, b), high);
  hlo r = mul(m, high, root(m, plus(m, mul(m, ratio, ratio), 1)));
  r = choose_number(m, is(m, high, 0), 0, r);
  c->result[0] = choose_number(m, either(m, is(m, a, INFINITY), is(m, b, INFINITY)), INFINITY, r);
}

void rule_copysign(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo size = absolute(m, tt_in_wide(c, 0));
  c->result[0] = choose(m, sign_bit(m, tt_in_wide(c, 1)), neg(m, size), size);
}

void rule_ldexp(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo e = tt_in_wide(c, 1);
  c->result[0] = mul(m, tt_in_wide(c, 0), e ? hlo_binary(m, "power", hlo_full_like(m, e, 2), e) : NULL);
}

static void gcd_goes_on(hlo_module *m, const hlo *x, hlo *r, void *user) {
  int dims[TT_MAX_RANK];
  (void)user;
  if (!x[1]) return;
  for (int i = 0; i < x[1]->rank; i++) dims[i] = i;
  hlo more = hlo_compare(m, "NE", x[1], constant_like(m, x[1], 0));
  r[0] = hlo_reduce(m, "or", more, hlo_int(m, TT_BOOL, 0), x[1]->rank, dims);
}
static void gcd_step(hlo_module *m, const hlo *x, hlo *r, void *user) {
  (void)user;
  hlo done = is(m, x[1], 0), divisor = choose_number(m, done, 1, x[1]);
  r[0] = choose(m, done, x[0], x[1]);
  r[1] = choose_number(m, done, 0, hlo_binary(m, "remainder", x[0], divisor));
}
void rule_gcd(tt_ctx *c) { /* hlo "gcd" or "lcm" */
  hlo_module *m = c->m;
  bool sign = tt_is_signed((tt_dtype)c->dtype);
  hlo a = tt_in_wide(c, 0), b = tt_in_wide(c, 1), x[2] = {sign ? absolute(m, a) : a, sign ? absolute(m, b) : b},
      r[2] = {0};
  hlo_while(m, 2, x, gcd_goes_on, gcd_step, NULL, r);
  c->result[0] = r[0];
  if (*c->op->hlo == 'g') return;
  hlo nothing = is(m, r[0], 0), multiple = mul(m, quo(m, a, choose_number(m, nothing, 1, r[0])), b);
  c->result[0] = choose_number(m, nothing, 0, sign ? absolute(m, multiple) : multiple);
}

void rule_logaddexp(tt_ctx *c) { /* hlo: the base, "e" or "2" */
  hlo_module *m = c->m;
  double scale = *c->op->hlo == '2' ? 0.69314718055994530942 : 1;
  hlo a = rounded(c, 0), b = rounded(c, 1);
  if (tt_is_complex((tt_dtype)c->dtype)) {
    hlo above = hlo_compare(m, "GE", hlo_unary(m, "real", a), hlo_unary(m, "real", b));
    hlo high = choose(m, above, a, b), low = choose(m, above, b, a);
    c->result[0] = add(m, high, hlo_unary(m, "log_plus_one", exponential(m, sub(m, low, high))));
    return;
  }
  hlo gap = neg(m, absolute(m, sub(m, a, b)));
  hlo tail = hlo_unary(m, "log_plus_one", exponential(m, scale == 1 ? gap : times(m, gap, scale)));
  hlo r = add(m, larger(m, a, b), scale == 1 ? tail : times(m, tail, 1 / scale));
  c->result[0] =
      choose(m, hlo_compare(m, "EQ", a, b), scale == 1 ? plus(m, a, 0.69314718055994530942) : plus(m, a, 1), r);
}

void rule_heaviside(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_wide(c, 0);
  c->result[0] = choose(m, is(m, x, 0), tt_in_wide(c, 1), hlo_convert(m, is_above(m, x, 0), (tt_dtype)c->dtype));
}

void rule_xlogy(tt_ctx *c) { /* hlo: "log" or "log_plus_one" */
  hlo_module *m = c->m;
  hlo x = rounded(c, 0), y = rounded(c, 1);
  hlo r = choose_number(m, is(m, x, 0), 0, mul(m, x, hlo_unary(m, c->op->hlo, y)));
  c->result[0] = choose(m, is_nan(m, y), y, r);
}

void rule_complex(tt_ctx *c) { /* hlo: "complex" from parts, "polar" from size and angle */
  hlo_module *m = c->m;
  tt_dtype t = tt_real_of((tt_dtype)c->want[0].dtype);
  hlo a = wide_as(c, 0, t), b = wide_as(c, 1, t);
  if (*c->op->hlo == 'p')
    c->result[0] = hlo_complex_of(m, mul(m, a, hlo_unary(m, "cosine", b)), mul(m, a, hlo_unary(m, "sine", b)));
  else c->result[0] = hlo_complex_of(m, a, b);
}

/* ---- three operands ---- */

void rule_lerp(tt_ctx *c) { /* from the nearer end, so that both ends are exact */
  hlo_module *m = c->m;
  hlo a = tt_in_wide(c, 0), b = tt_in_wide(c, 1), w = tt_in_wide(c, 2), span = sub(m, b, a);
  hlo size = tt_is_complex((tt_dtype)c->dtype) ? absolute(m, w) : w;
  hlo near = tt_is_complex((tt_dtype)c->dtype) ? is_below(m, size, 0.5) : is_below(m, absolute(m, w), 0.5);
  c->result[0] =
      choose(m, near, add(m, a, mul(m, w, span)), sub(m, b, mul(m, span, sub(m, constant_like(m, w, 1), w))));
}

void rule_addc(tt_ctx *c) { /* (self, tensor1, tensor2, value); hlo: how the two are combined */
  hlo_module *m = c->m;
  hlo a = tt_in_wide(c, 1);
  if (!tt_in_is_one(c, 3)) a = mul(m, a, tt_in(c, 3));
  c->result[0] = add(m, tt_in_wide(c, 0), hlo_binary(m, c->op->hlo, a, tt_in_wide(c, 2)));
}

void rule_where(tt_ctx *c) { c->result[0] = choose(c->m, wide_as(c, 0, TT_BOOL), tt_in_wide(c, 1), tt_in_wide(c, 2)); }

void rule_masked_fill(tt_ctx *c) {
  c->result[0] = choose(c->m, wide_as(c, 1, TT_BOOL), tt_in_wide(c, 2), tt_in_wide(c, 0));
}

/* (self, min, max); hlo: "both", or "min" or "max" for one bound at 1. NaN stays, and wins as a bound */
void rule_clamp(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_wide(c, 0);
  if (c->op->hlo[1] != 'a' && tt_has(c, 1)) x = larger(m, x, tt_in_wide(c, 1));
  if (c->op->hlo[1] == 'a') x = smaller(m, x, tt_in_wide(c, 1));
  if (*c->op->hlo == 'b' && tt_has(c, 2)) x = smaller(m, x, tt_in_wide(c, 2));
  c->result[0] = x;
}

/* ---- copies and constants ---- */

void rule_copy(tt_ctx *c) { /* hlo: the argument that holds the value; the caller converts it */
  hlo x = tt_in_own(c, *c->op->hlo - '0');
  c->result[0] = x ? hlo_broadcast_to(c->m, x, c->want[0].rank, c->want[0].dims) : NULL;
}

void rule_fill(tt_ctx *c) { c->result[0] = wide_as(c, *c->op->hlo - '0', (tt_dtype)c->want[0].dtype); }

void rule_number(tt_ctx *c) { /* hlo: "0" or "1" */
  const tt_want *w = &c->want[0];
  c->result[0] = hlo_full(c->m, (tt_dtype)w->dtype, w->rank, w->dims, *c->op->hlo - '0');
}
