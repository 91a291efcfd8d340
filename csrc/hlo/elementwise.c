/* elementwise.c: unary, binary, compare, select, clamp, and the conversions between dtypes.
 *
 * Operands have equal types, but rank-0 ones are broadcast: that is what rules write all the time. Conversions are
 * torch's casts; bitcasts reinterpret memory as view(dtype) does, also where StableHLO has no bitcast (bool, complex).
 * Nothing is promoted here. */
#include "hlo/module.h"

static tt_dtype real_of(tt_dtype t) { return t == TT_C64 ? TT_F32 : t == TT_C128 ? TT_F64 : t; }
static bool is_complex(tt_dtype t) { return t == TT_C64 || t == TT_C128; }
static bool is_floating(tt_dtype t) { return (t >= TT_F16 && t <= TT_F64) || (t >= TT_F8E4M3FN && t <= TT_F4E2M1FN); }

/* Whether an operation is defined for a dtype. A plugin would refuse the program, but only when it is compiled, which
 * may be long after the call. */
static bool defined_for(const char *op, tt_dtype t) {
  static const char *const of_bits[] = {"and", "or", "xor", "not", /* these take bools too */
                                        "shift_left", "shift_right_logical", "shift_right_arithmetic", "popcnt",
                                        "count_leading_zeros"};
  static const char *const of_reals[] = {"exponential",
                                         "exponential_minus_one",
                                         "log",
                                         "log_plus_one",
                                         "logistic",
                                         "sqrt",
                                         "rsqrt",
                                         "cbrt",
                                         "sine",
                                         "cosine",
                                         "tan",
                                         "tanh",
                                         "floor",
                                         "ceil",
                                         "round_nearest_even",
                                         "round_nearest_afz",
                                         "atan2"};
  bool inexact = is_floating(t) || is_complex(t);
  for (size_t i = 0; i < sizeof of_bits / sizeof *of_bits; i++)
    if (!strcmp(op, of_bits[i])) return !inexact && (i < 4 || t != TT_BOOL);
  for (size_t i = 0; i < sizeof of_reals / sizeof *of_reals; i++)
    if (!strcmp(op, of_reals[i])) return inexact;
  return inexact || strncmp(op, "chlo.", 5);
}

/* `%r = stablehlo.op %a, %b : type`: for operations whose operands and result are of one type. */
static hlo same_type(hlo_module *m, const char *op, int n, const hlo *xs) {
  if (!defined_for(op, (tt_dtype)xs[0]->dtype))
    return hlo_fail(m, TT_INTERNAL, "hlo %s: not defined for %s", op, tt_dtype_hlo(xs[0]->dtype));
  hlo r = hlo_new(m, xs[0]->dtype, xs[0]->rank, xs[0]->dims);
  if (!hlo_carry(m, op, r, n, xs)) return NULL;
  size_t start = m->text.length;
  if (strchr(op, '.')) {
    hlo_open_generic(m, op, 1, &r, n, xs);
    hlo_put_signature(m, n, xs, 1, &r);
    return hlo_shared(m, start, r);
  }
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.");
  hlo_put(m, op);
  hlo_put(m, " ");
  hlo_put_values(m, n, xs);
  hlo_put(m, " : ");
  hlo_put_type_of(m, r);
  hlo_put(m, "\n");
  return hlo_shared(m, start, r);
}

static hlo generic(hlo_module *m, const char *op, tt_dtype t, int rank, const int64_t *dims, int n, const hlo *xs) {
  hlo r = hlo_new(m, t, rank, dims);
  if (!hlo_carry(m, op, r, n, xs)) return NULL;
  size_t start = m->text.length;
  hlo_open_generic(m, op, 1, &r, n, xs);
  hlo_put_signature(m, n, xs, 1, &r);
  return hlo_shared(m, start, r);
}

/* Broadcasts rank-0 operands to the dims of the others. False if dims disagree or an error stands. */
static bool align(hlo_module *m, const char *op, int n, hlo *xs) {
  if (!hlo_ready_sized(m, op, n, xs)) return false;
  hlo wide = xs[0];
  for (int i = 1; i < n; i++)
    if (xs[i]->rank > wide->rank) wide = xs[i];
  for (int i = 0; i < n; i++) {
    if (xs[i]->rank == 0 && wide->rank > 0) xs[i] = hlo_broadcast(m, xs[i], wide->rank, wide->dims, NULL);
    else if (!hlo_same_dims(xs[i], wide)) hlo_mismatch(m, op, wide, xs[i]);
  }
  return !hlo_failed(m);
}

hlo hlo_unary(hlo_module *m, const char *op, hlo x) {
  if (!hlo_ready_sized(m, op, 1, &x)) return NULL;
  static const char *const predicates[] = {"is_finite", "chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf"};
  for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++)
    if (!strcmp(op, predicates[i])) return generic(m, op, TT_BOOL, x->rank, x->dims, 1, &x);
  bool real = !strcmp(op, "real"), imag = !strcmp(op, "imag");
  if (is_complex(x->dtype) && (real || imag || !strcmp(op, "abs")))
    return generic(m, op, real_of(x->dtype), x->rank, x->dims, 1, &x);
  if (real) return x;
  if (imag) return hlo_full_like(m, x, 0);
  return same_type(m, op, 1, &x);
}

bool hlo_ordered(hlo_module *m, const char *op, hlo x) {
  static const char *const of_ordered[] = {"maximum", "minimum", "atan2", "remainder", "clamp", "LT", "LE", "GT", "GE"};
  for (size_t i = 0; is_complex((tt_dtype)x->dtype) && i < sizeof of_ordered / sizeof *of_ordered; i++)
    if (!strcmp(op, of_ordered[i])) hlo_fail(m, TT_UNIMPLEMENTED, "%s is not defined for complex numbers", op);
  return !hlo_failed(m);
}

/* The quotient of a and b, as given and as wide as each other: a remainder that follows takes the same. */
static hlo quotient64(hlo_module *m, hlo a, hlo b, const hlo *xs) {
  if (m->divided.a != a || m->divided.b != b || m->divided.scope != m->scope->id) {
    m->divided.quotient = hlo_quotient64(m, xs[0], xs[1]);
    m->divided.a = a;
    m->divided.b = b;
    m->divided.scope = m->scope->id;
  }
  return m->divided.quotient;
}

hlo hlo_binary(hlo_module *m, const char *op, hlo a, hlo b) {
  hlo xs[] = {a, b};
  if (!align(m, op, 2, xs) || !hlo_agree(m, op, xs[0], xs[1]) || !hlo_ordered(m, op, xs[0])) return NULL;
  if (hlo_wide_integer(m, (tt_dtype)xs[0]->dtype)) {
    if (!strcmp(op, "divide")) return quotient64(m, a, b, xs);
    if (!strcmp(op, "remainder"))
      return hlo_binary(m, "subtract", xs[0], hlo_binary(m, "multiply", quotient64(m, a, b, xs), xs[1]));
  }
  return same_type(m, op, 2, xs);
}

hlo hlo_binary_scalar(hlo_module *m, const char *op, hlo x, double v) {
  if (!hlo_ready_sized(m, op, 1, &x)) return NULL;
  return hlo_binary(m, op, x, hlo_float(m, x->dtype, v));
}

hlo hlo_compare(hlo_module *m, const char *direction, hlo a, hlo b) {
  hlo xs[] = {a, b};
  if (!align(m, "compare", 2, xs) || !hlo_agree(m, "compare", xs[0], xs[1]) || !hlo_ordered(m, direction, xs[0]))
    return NULL;
  hlo r = hlo_new(m, TT_BOOL, xs[0]->rank, xs[0]->dims);
  if (!hlo_carry(m, "compare", r, 2, xs)) return NULL;
  size_t start = m->text.length;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.compare ");
  hlo_put(m, direction);
  hlo_put(m, ", ");
  hlo_put_values(m, 2, xs);
  hlo_put_signature(m, 2, xs, 1, &r);
  return hlo_shared(m, start, r);
}

hlo hlo_select(hlo_module *m, hlo pred, hlo on_true, hlo on_false) {
  hlo xs[] = {pred, on_true, on_false};
  if (!align(m, "select", 3, xs) || !hlo_agree(m, "select", xs[1], xs[2])) return NULL;
  if (pred->dtype != TT_BOOL)
    return hlo_fail(m, TT_INTERNAL, "hlo select: expected a predicate of i1, got %s", tt_dtype_hlo(pred->dtype));
  hlo r = hlo_new(m, on_true->dtype, xs[1]->rank, xs[1]->dims);
  if (!hlo_carry(m, "select", r, 3, xs)) return NULL;
  size_t start = m->text.length;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.select ");
  hlo_put_values(m, 3, xs);
  hlo_put(m, " : ");
  hlo_put_type_of(m, xs[0]);
  hlo_put(m, ", ");
  hlo_put_type_of(m, r);
  hlo_put(m, "\n");
  return hlo_shared(m, start, r);
}

hlo hlo_clamp(hlo_module *m, hlo lo, hlo x, hlo hi) {
  hlo xs[] = {lo, x, hi};
  if (!align(m, "clamp", 3, xs) || !hlo_agree(m, "clamp", xs[1], xs[0]) || !hlo_agree(m, "clamp", xs[1], xs[2]) ||
      !hlo_ordered(m, "clamp", xs[1]))
    return NULL;
  return same_type(m, "clamp", 3, xs);
}

hlo hlo_complex_of(hlo_module *m, hlo re, hlo im) {
  hlo xs[] = {re, im};
  if (!align(m, "complex", 2, xs) || !hlo_agree(m, "complex", xs[0], xs[1])) return NULL;
  if (re->dtype != TT_F32 && re->dtype != TT_F64)
    return hlo_fail(m, TT_INTERNAL, "hlo complex: expected parts of f32 or f64, got %s", tt_dtype_hlo(re->dtype));
  return generic(m, "complex", re->dtype == TT_F32 ? TT_C64 : TT_C128, xs[0]->rank, xs[0]->dims, 2, xs);
}

static hlo plain_convert(hlo_module *m, hlo x, tt_dtype t) {
  if (!x || x->dtype == t) return x;
  hlo r = hlo_new(m, t, x->rank, x->dims);
  if (!hlo_carry(m, "convert", r, 1, &x)) return NULL;
  size_t start = m->text.length;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.convert ");
  hlo_put_value(m, x);
  hlo_put_signature(m, 1, &x, 1, &r);
  return hlo_shared(m, start, r);
}

/* float8_e8m0fnu has no sign and no 0: torch keeps the exponent, and the lowest one for 0. */
static hlo exponent_of(hlo_module *m, hlo x) {
  if (!x) return NULL;
  hlo bits = hlo_bitcast(m, plain_convert(m, hlo_unary(m, "abs", x), TT_F8E8M0FNU), TT_U8);
  hlo none = hlo_compare(m, "EQ", x, hlo_float(m, TT_F32, 0));
  return hlo_bitcast(m, hlo_select(m, none, hlo_int(m, TT_U8, 0), bits), TT_F8E8M0FNU);
}

/* torch casts floats to uint8 by way of int64, so that -1 is 255. The low byte of what no int32 holds is 0 in f32. */
static hlo byte_of(hlo_module *m, hlo x) {
  if (x->dtype == TT_F64) return plain_convert(m, plain_convert(m, x, TT_I64), TT_U8);
  hlo wide = x->dtype == TT_F32 ? x : plain_convert(m, x, TT_F32);
  if (!wide) return NULL;
  hlo held = hlo_compare(m, "LT", hlo_unary(m, "abs", wide), hlo_float(m, TT_F32, 0x1p31));
  return plain_convert(m, plain_convert(m, hlo_select(m, held, wide, hlo_float(m, TT_F32, 0)), TT_I32), TT_U8);
}

hlo hlo_convert(hlo_module *m, hlo x, tt_dtype t) {
  if (!hlo_ready_sized(m, "convert", 1, &x)) return NULL;
  if (x->dtype == t) return x;
  if (x->dtype == TT_F4X2 || t == TT_F4X2)
    return hlo_fail(m, TT_UNIMPLEMENTED, "%s is packed and not converted to %s", tt_dtype_name((tt_dtype)x->dtype),
                    tt_dtype_name(t));
  if (t == TT_BOOL) return hlo_compare(m, "NE", x, hlo_float(m, x->dtype, 0));
  if (is_complex(x->dtype) && !is_complex(t)) return hlo_convert(m, hlo_unary(m, "real", x), t);
  if (is_complex(t) && !is_complex(x->dtype)) {
    hlo re = hlo_convert(m, x, real_of(t));
    return re ? hlo_complex_of(m, re, hlo_full_like(m, re, 0)) : NULL;
  }
  /* torch casts to and from the narrow floats through float32; so does this wherever that is not exact anyway. */
  bool narrow_from = x->dtype >= TT_F8E4M3FN, narrow_to = t >= TT_F8E4M3FN, half_to = t == TT_F16 || t == TT_BF16;
  if (t == TT_F8E4M3FN && is_floating((tt_dtype)x->dtype)) { /* torch saturates: infinity too */
    hlo wide = x->dtype == TT_F32 ? x : plain_convert(m, x, TT_F32);
    return plain_convert(m, hlo_clamp(m, hlo_float(m, TT_F32, -448), wide, hlo_float(m, TT_F32, 448)), t);
  }
  if (t == TT_U8 && is_floating((tt_dtype)x->dtype)) return byte_of(m, x);
  if (t == TT_F8E8M0FNU) return exponent_of(m, plain_convert(m, x, TT_F32));
  bool long_from = x->dtype == TT_F64 || (x->dtype >= TT_U32 && x->dtype <= TT_I64);
  if ((narrow_from && (narrow_to || !is_floating(t))) || (narrow_to && !is_floating((tt_dtype)x->dtype)) ||
      ((narrow_to || half_to) && long_from))
    return plain_convert(m, plain_convert(m, x, TT_F32), t);
  return plain_convert(m, x, t);
}

/* ---- bitcasts ---- */

/* [..., k, r] with the last two dims merged, or the last dim split so that the new last one is of size r. */
static hlo merge_last(hlo_module *m, hlo x) {
  if (!x) return NULL;
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 2] *= dims[x->rank - 1];
  return hlo_reshape(m, x, x->rank - 1, dims);
}

static hlo split_last(hlo_module *m, hlo x, int64_t r) {
  if (!x) return NULL;
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank - 1] /= r;
  dims[x->rank] = r;
  return hlo_reshape(m, x, x->rank + 1, dims);
}

static hlo pairs_of_complex(hlo_module *m, hlo x) {
  hlo parts[] = {hlo_unsqueeze(m, hlo_unary(m, "real", x), x->rank),
                 hlo_unsqueeze(m, hlo_unary(m, "imag", x), x->rank)};
  return hlo_concat(m, 2, parts, x->rank);
}

static hlo complex_of_pairs(hlo_module *m, hlo x) {
  if (!x) return NULL;
  int last = x->rank - 1;
  hlo re = hlo_squeeze_dim(m, hlo_slice_dim(m, x, last, 0, 1, 1), last);
  hlo im = hlo_squeeze_dim(m, hlo_slice_dim(m, x, last, 1, 2, 1), last);
  return hlo_complex_of(m, re, im);
}

hlo hlo_bitcast(hlo_module *m, hlo x, tt_dtype t) {
  if (!hlo_ready(m, "bitcast", 1, &x)) return NULL;
  if (x->dtype == t) return x;
  /* A bool is stored as a byte, 0 or 1. */
  if (x->dtype == TT_BOOL) return hlo_bitcast(m, hlo_convert(m, x, TT_U8), t);
  if (t == TT_BOOL) return hlo_convert(m, hlo_bitcast(m, x, TT_U8), t);
  int64_t from = tt_dtype_bits(x->dtype), to = tt_dtype_bits(t), last = x->rank ? x->dims[x->rank - 1] : 0;
  if (to > from && (to % from || last != to / from))
    return hlo_fail(m, TT_INTERNAL, "hlo bitcast: expected a last dim of %lld to get %s from %s, got %lld",
                    (long long)(to / from), tt_dtype_hlo(t), tt_dtype_hlo(x->dtype), (long long)last);
  /* Complex numbers are pairs of floats; what remains is a bitcast between floats and the other dtype. */
  if (is_complex(x->dtype)) {
    hlo pairs = pairs_of_complex(m, x); /* [..., 2] of from/2 bits */
    if (to <= from / 2) return to == from / 2 ? hlo_bitcast(m, pairs, t) : merge_last(m, hlo_bitcast(m, pairs, t));
    if (to == from && !is_complex(t)) return hlo_bitcast(m, pairs, t);
    return hlo_bitcast(m, merge_last(m, pairs), t); /* c64 to c128 */
  }
  if (is_complex(t)) {
    if (to <= from) return complex_of_pairs(m, hlo_bitcast(m, x, real_of(t)));
    if (to / from == 2) return complex_of_pairs(m, hlo_bitcast(m, x, real_of(t)));
    return complex_of_pairs(m, hlo_bitcast(m, split_last(m, x, to / from / 2), real_of(t)));
  }
  int64_t dims[HLO_MAX_RANK];
  int rank = x->rank;
  memcpy(dims, x->dims, (size_t)rank * sizeof *dims);
  if (from > to) dims[rank++] = from / to;
  if (from < to) rank--;
  return generic(m, "bitcast_convert", t, rank, dims, 1, &x);
}
