/* constant.c: constants and iotas.
 *
 * A float is rounded to its dtype here, once, and printed so that nothing is rounded again: short binary fractions as
 * decimals, everything else as its bits. No number goes through printf or strtod, whose decimal point depends on the
 * user's locale. Arrays are printed as their bytes. */
#include <math.h>

#include "hlo/module.h"

/* ---- encoding ---- */

typedef struct format { int mantissa, bias; uint32_t max, inf, nan; bool negative_zero; } format;

/* Floats narrower than f32: max is the largest finite magnitude's bits; what is larger becomes inf. */
static bool find_format(tt_dtype t, format *f) {
  switch (t) {
    case TT_F16: *f = (format){10, 15, 0x7BFF, 0x7C00, 0x7E00, true}; return true;
    case TT_BF16: *f = (format){7, 127, 0x7F7F, 0x7F80, 0x7FC0, true}; return true;
    case TT_F8E4M3FN: *f = (format){3, 7, 0x7E, 0x7E, 0x7F, true}; return true; /* torch saturates: infinity too */
    case TT_F8E5M2: *f = (format){2, 15, 0x7B, 0x7C, 0x7E, true}; return true;
    case TT_F8E4M3FNUZ: *f = (format){3, 8, 0x7F, 0x80, 0x80, false}; return true;
    case TT_F8E5M2FNUZ: *f = (format){2, 16, 0x7F, 0x80, 0x80, false}; return true;
    case TT_F4E2M1FN: *f = (format){1, 1, 0x7, 0x7, 0x0, true}; return true;
    default: return false;
  }
}

/* The bits of v in t, rounded to the nearest, ties to even; *rounded is the value they stand for. */
static uint64_t encode(tt_dtype t, double v, double *rounded) {
  *rounded = v;
  if (t == TT_F64) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
  }
  float single = (float)v; /* torch, too, goes through float to whatever is narrower */
  *rounded = single;
  if (t == TT_F32) {
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
  }
  if (t == TT_F8E8M0FNU) { /* an exponent and nothing else: no sign, no zero */
    if (!(single > 0) || isinf(single)) return *rounded = NAN, 0xFF;
    int e = (int)rint(log2(single));
    e = e < -127 ? -127 : e > 127 ? 127 : e;
    *rounded = ldexp(1, e);
    return (uint64_t)(e + 127);
  }
  format f;
  if (!find_format(t, &f)) return 0;
  if (isnan(single)) return *rounded = NAN, f.nan;
  uint32_t sign = signbit(single) ? 1u : 0u;
  uint32_t bits = f.max + 1;
  double magnitude = fabs((double)single);
  if (!isinf(magnitude)) {
    int e = 1 - f.bias;
    if (magnitude > 0 && ilogb(magnitude) > e) e = ilogb(magnitude);
    double q = rint(ldexp(magnitude, f.mantissa - e)); /* with the hidden bit, which adds one to the exponent below */
    bits = ((uint32_t)(e + f.bias - 1) << f.mantissa) + (uint32_t)q;
    *rounded = ldexp(sign ? -q : q, e - f.mantissa);
  }
  if (bits > f.max) {
    bits = f.inf;
    double most = t == TT_F4E2M1FN ? 6 : t == TT_F8E4M3FN ? 448 : f.inf == f.nan ? NAN : INFINITY;
    *rounded = sign ? -most : most;
  }
  if (!bits && !f.negative_zero) return 0;
  unsigned width = tt_dtype_bits(t);
  return f.inf == 0x80 && bits == 0x80 ? 0x80 : bits | (uint64_t)sign << (width - 1);
}

static tt_dtype part_of(tt_dtype t) { return t == TT_C64 ? TT_F32 : t == TT_C128 ? TT_F64 : t; }

static bool is_floating(tt_dtype t) { return (t >= TT_F16 && t <= TT_F64) || (t >= TT_F8E4M3FN && t <= TT_F4E2M1FN); }

/* ---- printing ---- */

static void put_float(hlo_module *m, tt_dtype t, double v) {
  double r;
  uint64_t bits = encode(t, v, &r);
  double scaled = fabs(r);
  int k = 0;
  while (k < 12 && scaled != floor(scaled)) scaled *= 2, k++;
  /* Up to 2^40 / 2^12 decimals are short and exact; zeros with a sign, infinities and NaN are bits. */
  if (scaled < 1e12 && scaled == floor(scaled) && !(r == 0 && signbit(r))) {
    uint64_t n = (uint64_t)scaled, mask = ((uint64_t)1 << k) - 1, fraction = n & mask;
    if (r < 0) hlo_put(m, "-");
    hlo_put_int(m, (int64_t)(n >> k));
    hlo_put(m, ".");
    do {
      fraction *= 10;
      hlo_put_int(m, (int64_t)(fraction >> k));
      fraction &= mask;
    } while (fraction);
    return;
  }
  char text[20] = "0x";
  unsigned digits = (tt_dtype_bits(t) + 3) / 4;
  for (unsigned i = 0; i < digits; i++) text[2 + i] = "0123456789ABCDEF"[bits >> 4 * (digits - 1 - i) & 15];
  hlo_put(m, text);
}

static void put_unsigned(hlo_module *m, uint64_t v) {
  if (v > INT64_MAX) {
    hlo_put_int(m, (int64_t)(v / 10));
    v %= 10;
  }
  hlo_put_int(m, (int64_t)v);
}

/* An integer as t holds it: two's complement, wrapped to t's width. */
static void put_integer(hlo_module *m, tt_dtype t, int64_t v) {
  switch (t) {
    case TT_BOOL: hlo_put(m, v ? "true" : "false"); break;
    case TT_F4X2:
    case TT_U8: hlo_put_int(m, (uint8_t)v); break;
    case TT_U16: hlo_put_int(m, (uint16_t)v); break;
    case TT_U32: hlo_put_int(m, (uint32_t)v); break;
    case TT_U64: put_unsigned(m, (uint64_t)v); break;
    case TT_I8: hlo_put_int(m, (int8_t)v); break;
    case TT_I16: hlo_put_int(m, (int16_t)v); break;
    case TT_I32: hlo_put_int(m, (int32_t)v); break;
    default: hlo_put_int(m, v);
  }
}

/* ---- splats ---- */

static size_t begin_dense(hlo_module *m) {
  size_t start = hlo_intern_begin(m);
  hlo_put(m, "stablehlo.constant dense<");
  return start;
}

static hlo end_dense(hlo_module *m, size_t start, tt_dtype t, int rank, const int64_t *dims) {
  hlo_put(m, "> : ");
  hlo_put_type(m, t, rank, dims);
  return hlo_intern_end(m, start, t, rank, dims);
}

static hlo splat_integer(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, int64_t v) {
  if (!hlo_ready(m, "constant", 0, NULL)) return NULL;
  size_t start = begin_dense(m);
  put_integer(m, t, v);
  return end_dense(m, start, t, rank, dims);
}

static hlo splat(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, double re, double im) {
  if (!hlo_ready(m, "constant", 0, NULL)) return NULL;
  if (t != part_of(t)) {
    size_t start = begin_dense(m);
    hlo_put(m, "(");
    put_float(m, part_of(t), re);
    hlo_put(m, ", ");
    put_float(m, part_of(t), im);
    hlo_put(m, ")");
    return end_dense(m, start, t, rank, dims);
  }
  if (is_floating(t)) {
    size_t start = begin_dense(m);
    put_float(m, t, re);
    return end_dense(m, start, t, rank, dims);
  }
  int64_t i;
  if (t == TT_BOOL) i = re != 0;
  else if (isnan(re)) i = 0;
  else if (re >= 9223372036854775808.0)
    i = t != TT_U64 ? INT64_MAX : re >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)re;
  else i = re <= -9223372036854775808.0 ? INT64_MIN : (int64_t)re;
  return splat_integer(m, t, rank, dims, i);
}

hlo hlo_float(hlo_module *m, tt_dtype t, double v) { return splat(m, t, 0, NULL, v, 0); }

hlo hlo_int(hlo_module *m, tt_dtype t, int64_t v) {
  if (t == TT_BOOL) return splat_integer(m, t, 0, NULL, v != 0);
  if (t != part_of(t) || t == TT_F64) return splat(m, t, 0, NULL, (double)v, 0);
  if (is_floating(t)) return splat(m, t, 0, NULL, (float)v, 0); /* one rounding from the integer, as a cast has */
  return splat_integer(m, t, 0, NULL, v);
}

hlo hlo_complex(hlo_module *m, tt_dtype t, double re, double im) { return splat(m, t, 0, NULL, re, im); }

hlo hlo_full(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, double v) {
  return splat(m, t, rank, dims, v, 0);
}

hlo hlo_full_like(hlo_module *m, hlo x, double v) {
  if (!hlo_ready(m, "full_like", 1, &x)) return NULL;
  return splat(m, x->dtype, x->rank, x->dims, v, 0);
}

hlo hlo_lowest(hlo_module *m, tt_dtype t) {
  switch (t) {
    case TT_I8: return hlo_int(m, t, INT8_MIN);
    case TT_I16: return hlo_int(m, t, INT16_MIN);
    case TT_I32: return hlo_int(m, t, INT32_MIN);
    case TT_I64: return hlo_int(m, t, INT64_MIN);
    case TT_F8E4M3FN: return hlo_float(m, t, -448); /* these have no infinity */
    case TT_F8E4M3FNUZ: return hlo_float(m, t, -240);
    case TT_F8E5M2FNUZ: return hlo_float(m, t, -57344);
    case TT_F4E2M1FN: return hlo_float(m, t, -6);
    case TT_F8E8M0FNU: return hlo_float(m, t, ldexp(1, -127));
    case TT_C64:
    case TT_C128: return hlo_fail(m, TT_UNIMPLEMENTED, "hlo lowest: complex numbers have no order");
    default: return is_floating(t) ? hlo_float(m, t, -INFINITY) : hlo_int(m, t, 0);
  }
}

hlo hlo_highest(hlo_module *m, tt_dtype t) {
  switch (t) {
    case TT_I8: return hlo_int(m, t, INT8_MAX);
    case TT_I16: return hlo_int(m, t, INT16_MAX);
    case TT_I32: return hlo_int(m, t, INT32_MAX);
    case TT_I64: return hlo_int(m, t, INT64_MAX);
    case TT_F8E4M3FN: return hlo_float(m, t, 448);
    case TT_F8E4M3FNUZ: return hlo_float(m, t, 240);
    case TT_F8E5M2FNUZ: return hlo_float(m, t, 57344);
    case TT_F4E2M1FN: return hlo_float(m, t, 6);
    case TT_F8E8M0FNU: return hlo_float(m, t, ldexp(1, 127));
    case TT_C64:
    case TT_C128: return hlo_fail(m, TT_UNIMPLEMENTED, "hlo highest: complex numbers have no order");
    default: return is_floating(t) ? hlo_float(m, t, INFINITY) : hlo_int(m, t, -1);
  }
}

/* ---- arrays ---- */

static void put_bytes(hlo_module *m, const uint8_t *data, size_t n) {
  char text[2048];
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    text[k++] = "0123456789ABCDEF"[data[i] >> 4];
    text[k++] = "0123456789ABCDEF"[data[i] & 15];
    if (k == sizeof text || i + 1 == n) tt_buf_append(&m->text, text, k), k = 0;
  }
}

hlo hlo_array(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, const void *data) {
  if (!hlo_ready(m, "constant", 0, NULL)) return NULL;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  if (n == 0) return hlo_full(m, t, rank, dims, 0);
  /* i1 and f4 are packed differently from one version of MLIR to the next: they go in as bytes. */
  if (t == TT_BOOL) return hlo_convert(m, hlo_array(m, TT_U8, rank, dims, data), t);
  if (t == TT_F4E2M1FN) return hlo_fail(m, TT_UNIMPLEMENTED, "hlo constant: arrays of float4 are not supported");
  size_t width = tt_dtype_bits(t) / 8;
  const uint8_t *bytes = data;
  bool equal = memcmp(bytes, bytes + width, (size_t)(n - 1) * width) == 0; /* then one element stands for all */
  size_t start = begin_dense(m);
  hlo_put(m, "\"0x");
  put_bytes(m, bytes, equal ? width : (size_t)n * width);
  hlo_put(m, "\"");
  return end_dense(m, start, t, rank, dims);
}

hlo hlo_iota(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, int dim) {
  if (!hlo_ready(m, "iota", 0, NULL) || !hlo_check_dim(m, "iota", dim, rank)) return NULL;
  bool plain = (t >= TT_U8 && t <= TT_I64) || (t >= TT_F16 && t <= TT_F64);
  if (!plain) return hlo_convert(m, hlo_iota(m, TT_I32, rank, dims, dim), t);
  size_t start = hlo_intern_begin(m);
  hlo_put(m, "stablehlo.iota dim = ");
  hlo_put_int(m, dim);
  hlo_put(m, " : ");
  hlo_put_type(m, t, rank, dims);
  return hlo_intern_end(m, start, t, rank, dims);
}
