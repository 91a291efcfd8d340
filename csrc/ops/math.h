/* math.h: short words for what formulas are made of. Rules that compute include it; nothing here knows a tensor's
 * meaning. */
#ifndef TT_OPS_MATH_H
#define TT_OPS_MATH_H
#include "ops/op.h"

static inline hlo add(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "add", a, b); }
static inline hlo sub(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "subtract", a, b); }
static inline hlo mul(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }
static inline hlo quo(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "divide", a, b); }
static inline hlo larger(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "maximum", a, b); }
static inline hlo smaller(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "minimum", a, b); }
static inline hlo either(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "or", a, b); }
static inline hlo both(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "and", a, b); }
static inline hlo not(hlo_module *m, hlo a) { return hlo_unary(m, "not", a); }
static inline hlo neg(hlo_module *m, hlo a) { return hlo_unary(m, "negate", a); }
static inline hlo exponential(hlo_module *m, hlo a) { return hlo_unary(m, "exponential", a); }
static inline hlo logarithm(hlo_module *m, hlo a) { return hlo_unary(m, "log", a); }
static inline hlo absolute(hlo_module *m, hlo a) { return hlo_unary(m, "abs", a); }
static inline hlo root(hlo_module *m, hlo a) { return hlo_unary(m, "sqrt", a); }
static inline hlo plus(hlo_module *m, hlo a, double v) { return hlo_binary_scalar(m, "add", a, v); }
static inline hlo times(hlo_module *m, hlo a, double v) { return hlo_binary_scalar(m, "multiply", a, v); }
/* rank 0 */
static inline hlo constant_like(hlo_module *m, hlo x, double v) {
  return x ? hlo_float(m, (tt_dtype)x->dtype, v) : NULL;
}
static inline hlo over(hlo_module *m, double v, hlo a) { return quo(m, constant_like(m, a, v), a); }
static inline hlo is_below(hlo_module *m, hlo a, double v) { return hlo_compare(m, "LT", a, constant_like(m, a, v)); }
static inline hlo is_above(hlo_module *m, hlo a, double v) { return hlo_compare(m, "GT", a, constant_like(m, a, v)); }
static inline hlo is(hlo_module *m, hlo a, double v) { return hlo_compare(m, "EQ", a, constant_like(m, a, v)); }
static inline hlo is_nan(hlo_module *m, hlo a) { return hlo_compare(m, "NE", a, a); }
static inline hlo choose(hlo_module *m, hlo p, hlo a, hlo b) { return hlo_select(m, p, a, b); }
static inline hlo choose_number(hlo_module *m, hlo p, double v, hlo b) {
  return hlo_select(m, p, constant_like(m, b, v), b);
}
/* Of complex numbers each part by itself: inf times a complex constant would have NaN parts. */
static inline hlo scaled(hlo_module *m, hlo x, double v) {
  if (!x || !tt_is_complex((tt_dtype)x->dtype)) return times(m, x, v);
  return hlo_complex_of(m, times(m, hlo_unary(m, "real", x), v), times(m, hlo_unary(m, "imag", x), v));
}
static inline hlo any(hlo_module *m, hlo p) {
  int dims[TT_MAX_RANK];
  for (int i = 0; p && i < p->rank; i++) dims[i] = i;
  return p && p->rank ? hlo_reduce(m, "or", p, hlo_int(m, TT_BOOL, 0), p->rank, dims) : p;
}
#endif
