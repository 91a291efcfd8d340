/* special.c: functions that StableHLO has no operation for: scaled logarithms, Bessel functions, gamma and its
 * relatives.
 *
 * Bessel functions, erfcx and the normal quantile are Chebyshev series (special_tables.h) on a few intervals, all
 * computed and selected from; in f32 the terms that f32 cannot see are left out. The incomplete gamma functions loop,
 * over the whole tensor, until every element has converged. Not here: orthogonal polynomials (polynomial.c). */
#include <float.h>
#include <math.h>
#include <string.h>
#include "ops/math.h"
#include "ops/rules.h"
#include "ops/special_tables.h"

static const double PI = 3.14159265358979323846, LN2 = 0.69314718055994530942;

/* ---- formulas of one operand, by name ---- */
static hlo chebyshev(hlo_module *m, hlo t, const double *table, int n) {
  if (!t) return NULL;
  if (t->dtype != TT_F64) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(table[i]));
    while (n > 2 && fabs(table[n - 1]) < 1e-9 * most) n--;
  }
  hlo twice = times(m, t, 2), b = hlo_full_like(m, t, table[n - 1]), previous = hlo_full_like(m, t, 0);
  for (int i = n - 2; i > 0; i--) {
    hlo next = plus(m, sub(m, mul(m, twice, b), previous), table[i]);
    previous = b;
    b = next;
  }
  return plus(m, sub(m, mul(m, t, b), previous), table[0]);
}
/* x from [low, high] to [-1, 1], then the series. */
static hlo series_of(hlo_module *m, hlo x, double low, double high, const double *table, int n) {
  double scale = 2 / (high - low);
  return chebyshev(m, plus(m, times(m, x, scale), -low * scale - 1), table, n);
}
#define SERIES(x, low, high, table) series_of(m, x, low, high, table, (int)(sizeof table / sizeof *table))

static hlo bessel_ie(hlo_module *m, hlo x, int order) { /* e^-|x| I(x) */
  hlo size = absolute(m, x), inverse = over(m, 8, size);
  hlo low = order ? mul(m, SERIES(size, 0, 8, i1_small), size) : SERIES(size, 0, 8, i0_small);
  hlo high =
      mul(m, order ? SERIES(inverse, 0, 1, i1_large) : SERIES(inverse, 0, 1, i0_large), hlo_unary(m, "rsqrt", size));
  hlo r = choose(m, hlo_compare(m, "LE", size, constant_like(m, size, 8)), low, high);
  return order ? choose(m, is_below(m, x, 0), neg(m, r), r) : r;
}

static hlo bessel_k(hlo_module *m, hlo x, int order, bool scaled) {
  hlo square = mul(m, x, x), log_half = logarithm(m, times(m, x, 0.5)), inverse = over(m, 2, x), low;
  if (order) {
    hlo i1 = SERIES(square, 0, 4, i1_series);
    low = quo(m, add(m, SERIES(square, 0, 4, k1_small), mul(m, square, mul(m, log_half, i1))), x);
  } else {
    low = sub(m, SERIES(square, 0, 4, k0_small), mul(m, log_half, SERIES(square, 0, 4, i0_series)));
  }
  hlo high =
      mul(m, order ? SERIES(inverse, 0, 1, k1_large) : SERIES(inverse, 0, 1, k0_large), hlo_unary(m, "rsqrt", x));
  if (scaled) low = mul(m, low, exponential(m, x));
  else high = mul(m, high, exponential(m, neg(m, x)));
  hlo r = choose(m, hlo_compare(m, "LE", x, constant_like(m, x, 2)), low, high);
  return choose_number(m, is(m, x, 0), INFINITY, choose_number(m, is_below(m, x, 0), NAN, r));
}

static hlo bessel_jy(hlo_module *m, hlo x, int order, bool second) {
  hlo size = second ? x : absolute(m, x), square = mul(m, x, x), inverse = over(m, 8, size),
      t = mul(m, inverse, inverse);
  hlo j = order ? mul(m, size, SERIES(square, 0, 64, j1_small)) : SERIES(square, 0, 64, j0_small), low = j;
  if (second) {
    hlo log_part = times(m, mul(m, logarithm(m, size), j), 2 / PI);
    if (order) low = add(m, log_part, quo(m, plus(m, SERIES(square, 0, 64, y1_small), -2 / PI), size));
    else low = add(m, log_part, SERIES(square, 0, 64, y0_small));
  }
  hlo p = order ? SERIES(t, 0, 1, p1) : SERIES(t, 0, 1, p0),
      q = mul(m, order ? SERIES(t, 0, 1, q1) : SERIES(t, 0, 1, q0), inverse);
  hlo phase = plus(m, size, -PI / 4 - order * PI / 2), sine = hlo_unary(m, "sine", phase),
      cosine = hlo_unary(m, "cosine", phase);
  hlo wave = second ? add(m, mul(m, p, sine), mul(m, q, cosine)) : sub(m, mul(m, p, cosine), mul(m, q, sine));
  hlo high = mul(m, wave, root(m, over(m, 2 / PI, size)));
  hlo r = choose(m, hlo_compare(m, "LE", size, constant_like(m, size, 8)), low, high);
  if (second) return choose_number(m, is(m, x, 0), -INFINITY, choose_number(m, is_below(m, x, 0), NAN, r));
  return order ? choose(m, is_below(m, x, 0), neg(m, r), r) : r;
}

/* DLMF 9.7: a decaying exponential to the right, a wave to the left, each times a series in 1 / z. */
static hlo airy_of(hlo_module *m, hlo x) {
  const double at_two = 4 * 1.41421356237309504880 / 3, root_pi = 1.77245385090551602730;
  hlo size = absolute(m, x), z = times(m, mul(m, size, root(m, size)), 2.0 / 3), inverse = over(m, at_two, z);
  hlo scale = times(m, root(m, root(m, size)), root_pi), square = mul(m, inverse, inverse), angle = plus(m, z, PI / 4);
  hlo right = quo(m, mul(m, SERIES(inverse, 0, 1, airy_large), exponential(m, neg(m, z))), times(m, scale, 2));
  hlo sine = mul(m, SERIES(square, 0, 1, airy_sine), hlo_unary(m, "sine", angle));
  hlo cosine = mul(m, mul(m, SERIES(square, 0, 1, airy_cosine), inverse), hlo_unary(m, "cosine", angle));
  hlo left = quo(m, sub(m, sine, cosine), scale);
  hlo r = choose(m, is_below(m, size, 2), SERIES(x, -2, 2, airy_middle), choose(m, is_above(m, x, 0), right, left));
  r = choose_number(m, is_above(m, x, 103.892), 0, r); /* where torch stops */
  return choose_number(m, is(m, size, INFINITY), NAN, r);
}

static hlo erfcx_of(hlo_module *m, hlo x) {
  hlo size = absolute(m, x), t = quo(m, plus(m, size, -3.75), plus(m, size, 3.75));
  t = choose_number(m, is(m, size, INFINITY), 1, t);
  hlo r = quo(m, SERIES(t, -1, 1, erfcx), plus(m, times(m, size, 2), 1));
  return choose(m, is_below(m, x, 0), sub(m, times(m, exponential(m, mul(m, x, x)), 2), r), r);
}

static hlo log_ndtr_of(hlo_module *m, hlo x) {
  double half = 0.70710678118654752440;
  hlo t = times(m, x, half);
  hlo left = sub(m, logarithm(m, times(m, erfcx_of(m, neg(m, t)), 0.5)), mul(m, t, t));
  hlo right = hlo_unary(m, "log_plus_one", times(m, hlo_unary(m, "chlo.erfc", t), -0.5));
  return choose(m, is_below(m, x, -1), left, right);
}

static hlo ndtri_of(hlo_module *m, hlo p) { /* from the nearer tail, which keeps small p exact */
  hlo upper = is_above(m, p, 0.5), tail = choose(m, upper, sub(m, constant_like(m, p, 1), p), p);
  hlo x = root(m, times(m, logarithm(m, tail), -2));
  hlo correction = choose(m, is_below(m, x, 8), SERIES(x, 2, 8, ndtri_near), SERIES(over(m, 8, x), 0.2, 1, ndtri_far));
  hlo middle = times(m, hlo_unary(m, "chlo.erf_inv", plus(m, times(m, tail, 2), -1)), 1.41421356237309504880);
  hlo r = choose(m, is_below(m, x, 2), middle, sub(m, correction, x));
  r = choose_number(m, is(m, tail, 0), -INFINITY, r);
  r = choose(m, upper, neg(m, r), r);
  return choose_number(m, either(m, is_below(m, p, 0), is_above(m, p, 1)), NAN, r);
}

static hlo entropy(hlo_module *m, hlo x) {
  hlo r = neg(m, mul(m, x, logarithm(m, x)));
  r = choose_number(m, is(m, x, 0), 0, r);
  return choose_number(m, is_below(m, x, 0), -INFINITY, r);
}

static hlo sine_over(hlo_module *m, hlo x) {
  return choose_number(m, is(m, x, 0), 1, quo(m, hlo_unary(m, "sine", x), x));
}

static hlo digamma_of(hlo_module *m, hlo x) { /* at 0 the pole's side is the zero's sign */
  return choose(m, is(m, x, 0), over(m, -1, x), hlo_unary(m, "chlo.digamma", x));
}

static hlo exp2_of(hlo_module *m, hlo x) {
  if (!x || tt_is_complex((tt_dtype)x->dtype)) return exponential(m, times(m, x, LN2));
  return hlo_binary(m, "power", hlo_full_like(m, x, 2), x);
}

void rule_special(tt_ctx *c) {
  hlo_module *m = c->m;
  const char *what = c->op->hlo;
  hlo x = tt_in(c, 0), r = NULL;
  if (!strcmp(what, "reciprocal")) r = over(m, 1, x);
  else if (!strcmp(what, "exp2")) r = exp2_of(m, x);
  else if (!strcmp(what, "log2")) r = scaled(m, logarithm(m, x), 1 / LN2);
  else if (!strcmp(what, "log10")) r = scaled(m, logarithm(m, x), 0.43429448190325182765);
  else if (!strcmp(what, "deg2rad")) r = times(m, x, PI / 180);
  else if (!strcmp(what, "rad2deg")) r = times(m, x, 180 / PI);
  else if (!strcmp(what, "sinc")) r = sine_over(m, times(m, x, PI));
  else if (!strcmp(what, "spherical_j0")) r = choose_number(m, is(m, absolute(m, x), INFINITY), 0, sine_over(m, x));
  else if (!strcmp(what, "digamma")) r = digamma_of(m, x);
  else if (!strcmp(what, "entr")) r = entropy(m, x);
  else if (!strcmp(what, "erfcx")) r = erfcx_of(m, x);
  else if (!strcmp(what, "airy_ai")) r = airy_of(m, x);
  else if (!strcmp(what, "ndtri")) r = ndtri_of(m, x);
  else if (!strcmp(what, "log_ndtr")) r = log_ndtr_of(m, x);
  else if (!strcmp(what, "i0e") || !strcmp(what, "i1e")) r = bessel_ie(m, x, what[1] == '1');
  else if (!strcmp(what, "i0") || !strcmp(what, "i1"))
    r = mul(m, exponential(m, absolute(m, x)), bessel_ie(m, x, what[1] == '1'));
  else if (*what == 'j' || *what == 'y') r = bessel_jy(m, x, what[1] == '1', *what == 'y');
  else if (*what == 'k') r = bessel_k(m, x, what[1] == '1', what[2] == 'e');
  else hlo_fail(m, TT_INTERNAL, "%s: no formula %s", c->op->name, what);
  c->result[0] = r;
}

/* ---- zeta, polygamma, mvlgamma ---- */
static hlo wide_like(hlo_module *m, hlo x, const tt_want *w) {
  return x ? hlo_broadcast_to(m, x, w->rank, w->dims) : NULL;
}

enum { MOST_TERMS = 2000 };

/* The series' terms below zero, one for each turn: state k, x, q, sum. */
static void more_below_zero(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = both(m, is_below(m, s[0], MOST_TERMS), any(m, is_below(m, s[2], 0)));
}
static void term_below_zero(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  hlo low = is_below(m, s[2], 0);
  r[0] = plus(m, s[0], 1);
  r[1] = s[1];
  r[2] = choose(m, low, plus(m, s[2], 1), s[2]);
  r[3] = choose(m, low, add(m, s[3], hlo_binary(m, "power", s[2], neg(m, s[1]))), s[3]);
}

static hlo zeta_of(hlo_module *m, hlo x, hlo q) { /* chlo's takes nine terms and an integral that wants q above zero */
  hlo whole = hlo_compare(m, "EQ", q, hlo_unary(m, "floor", q)), low = is_below(m, q, 0);
  hlo pole = both(m, hlo_compare(m, "LE", q, constant_like(m, q, 0)), whole);
  hlo power_is_real = hlo_compare(m, "EQ", x, hlo_unary(m, "floor", x));
  hlo valid = both(m, power_is_real, is_above(m, x, 1));
  hlo state[4] = {hlo_int(m, TT_I32, 0), x, choose(m, valid, q, constant_like(m, q, 1)), hlo_full_like(m, q, 0)},
      end[4] = {0};
  if (!state[2]) return NULL;
  hlo_while(m, 4, state, more_below_zero, term_below_zero, NULL, end);
  hlo r = choose(m, low, add(m, end[3], hlo_binary(m, "chlo.zeta", x, end[2])), hlo_binary(m, "chlo.zeta", x, q));
  r = choose_number(m, both(m, low, not(m, power_is_real)), NAN, r);
  r = choose_number(m, both(m, pole, is_above(m, x, 1)), INFINITY, r);
  r = choose_number(m, is_below(m, x, 1), NAN, r);
  return choose_number(m, is(m, x, 1), INFINITY, r);
}

void rule_zeta(tt_ctx *c) { c->result[0] = zeta_of(c->m, tt_in_wide(c, 0), tt_in_wide(c, 1)); }

void rule_polygamma(tt_ctx *c) { /* (n, self) */
  hlo_module *m = c->m;
  int64_t n = tt_int(c, 0, 0);
  hlo x = tt_in(c, 1);
  if (n == 0) c->result[0] = digamma_of(m, x);
  else
    c->result[0] = times(m, zeta_of(m, x ? hlo_full_like(m, x, (double)n + 1) : NULL, x),
                         (n % 2 ? 1 : -1) * tgamma((double)n + 1));
}

void rule_mvlgamma(tt_ctx *c) { /* torch refuses self <= (p - 1) / 2; here it is the formula's value */
  hlo_module *m = c->m;
  int64_t p = tt_int(c, 1, 1);
  hlo x = tt_in(c, 0), sum = x ? hlo_full_like(m, x, (double)(p * (p - 1)) * 0.25 * log(PI)) : NULL;
  for (int64_t j = 0; j < p; j++) sum = add(m, sum, hlo_unary(m, "chlo.lgamma", plus(m, x, -0.5 * (double)j)));
  c->result[0] = sum;
}

/* ---- incomplete gamma: a series where x <= max(a, 1), a continued fraction elsewhere ---- */
static hlo epsilon(hlo_module *m, hlo x) {
  return constant_like(m, x, x && x->dtype == TT_F64 ? DBL_EPSILON / 2 : FLT_EPSILON / 2);
}
static hlo unfinished(hlo_module *m, hlo k, hlo change) {
  return both(m, is_below(m, k, MOST_TERMS), any(m, hlo_compare(m, "GT", absolute(m, change), epsilon(m, change))));
}

/* state: k, a, x, term, sum */
static void more_terms(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = unfinished(m, s[0], quo(m, s[3], s[4]));
}
static void next_term(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = plus(m, s[0], 1);
  r[1] = s[1];
  r[2] = s[2];
  r[3] = mul(m, s[3], quo(m, s[2], add(m, s[1], hlo_convert(m, r[0], s[1] ? (tt_dtype)s[1]->dtype : TT_F32))));
  r[4] = add(m, s[4], r[3]);
}
/* state of Lentz's method: i, a, b, c, d, h, change */
static void more_levels(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = unfinished(m, s[0], s[6]);
}
static hlo not_zero(hlo_module *m, hlo x) {
  return choose_number(m, is_below(m, absolute(m, x), 1e-30), 1e-30, x);
}
static void next_level(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  if (!s[1]) return;
  r[0] = plus(m, s[0], 1);
  hlo i = hlo_convert(m, r[0], (tt_dtype)s[1]->dtype), an = mul(m, i, sub(m, s[1], i));
  r[1] = s[1];
  r[2] = plus(m, s[2], 2);
  r[3] = not_zero(m, add(m, r[2], quo(m, an, s[3])));
  r[4] = over(m, 1, not_zero(m, add(m, mul(m, an, s[4]), r[2])));
  hlo factor = mul(m, r[3], r[4]);
  r[5] = mul(m, s[5], factor);
  r[6] = plus(m, factor, -1);
}

void rule_igamma(tt_ctx *c) { /* hlo: "lower" (igamma) or "upper" (igammac) */
  hlo_module *m = c->m;
  bool upper = *c->op->hlo == 'u';
  hlo a = tt_in_wide(c, 0), x = tt_in_wide(c, 1), zero = hlo_int(m, TT_I32, 0);
  if (!a || !x) return;
  hlo in_series = hlo_compare(m, "LE", x, larger(m, a, constant_like(m, a, 1)));
  /* Where an element takes the other way, and for arguments out of the domain, numbers that converge at once. */
  hlo valid = both(m, both(m, is_above(m, a, 0), is_above(m, x, 0)),
                   both(m, is_below(m, a, INFINITY), is_below(m, x, INFINITY)));
  hlo first = both(m, in_series, valid), second = both(m, not(m, in_series), valid);
  hlo sa = choose(m, first, a, constant_like(m, a, 1)), sx = choose(m, first, x, constant_like(m, a, 0.5));
  hlo one = hlo_full_like(m, a, 1), series[5] = {zero, sa, sx, one, one}, terms[5] = {0};
  hlo_while(m, 5, series, more_terms, next_term, NULL, terms);
  hlo log_factor = sub(m, sub(m, mul(m, sa, logarithm(m, sx)), sx), hlo_unary(m, "chlo.lgamma", plus(m, sa, 1)));
  hlo low = mul(m, exponential(m, log_factor), terms[4]);
  hlo fa = choose(m, second, a, constant_like(m, a, 1)), fx = choose(m, second, x, constant_like(m, a, 2));
  hlo b = plus(m, sub(m, fx, fa), 1), d = over(m, 1, not_zero(m, b));
  hlo levels[7] = {zero, fa, b, hlo_full_like(m, a, 1e30), d, d, one}, fraction[7] = {0};
  hlo_while(m, 7, levels, more_levels, next_level, NULL, fraction);
  log_factor = sub(m, sub(m, mul(m, fa, logarithm(m, fx)), fx), hlo_unary(m, "chlo.lgamma", fa));
  hlo high = mul(m, exponential(m, log_factor), fraction[5]);
  hlo inner = choose(m, in_series, upper ? sub(m, one, low) : low, upper ? high : sub(m, one, high));
  double at_zero = upper, at_infinity = !upper;
  hlo infinite_a = is(m, a, INFINITY), infinite_x = is(m, x, INFINITY);
  hlo r = choose_number(m, is(m, x, 0), at_zero, inner);
  r = choose_number(m, either(m, infinite_x, both(m, is(m, a, 0), is_above(m, x, 0))), at_infinity, r);
  r = choose_number(m, infinite_a, at_zero, r);
  hlo bad = either(m, either(m, is_below(m, a, 0), is_below(m, x, 0)), either(m, is_nan(m, a), is_nan(m, x)));
  bad = either(m, bad, either(m, both(m, infinite_a, infinite_x), both(m, is(m, a, 0), is(m, x, 0))));
  c->result[0] = wide_like(m, choose_number(m, bad, NAN, r), &c->want[0]);
}
