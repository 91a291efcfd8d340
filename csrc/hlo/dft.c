/* dft.c: discrete Fourier transforms out of matrix products, for TPUs, which have none of 64-bit numbers.
 *
 * A length with a divisor f of moderate size is f transforms of the rest (Cooley and Tukey 1965): one product with the
 * f x f matrix of roots of unity, a factor for each element, and the transform of what is left. A length that has only
 * large prime factors is a convolution with a chirp (Bluestein 1970), whose own transforms have a power of two as
 * length: so nothing ever takes memory of length squared, which libtpu's own transform of a large prime does. Roots are
 * computed in f64, their exponents as integers below the length. Complex numbers are pairs of floats throughout. */
#include "hlo/module.h"

enum { LARGEST_MATRIX = 128, LARGEST_PRIME = 1024 };

typedef struct pair { hlo re, im; } pair;

static hlo product_of(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }

static pair times(hlo_module *m, pair a, pair b) {
  return (pair){hlo_binary(m, "subtract", product_of(m, a.re, b.re), product_of(m, a.im, b.im)),
                hlo_binary(m, "add", product_of(m, a.re, b.im), product_of(m, a.im, b.re))};
}

/* exp(sign 2 pi i e / n) of integers e, as pairs of t. */
static pair roots(hlo_module *m, hlo e, int64_t n, int sign, tt_dtype t) {
  hlo angle =
      hlo_binary_scalar(m, "multiply", hlo_convert(m, e, TT_F64), sign * 2 * 3.14159265358979323846 / (double)n);
  return (pair){hlo_convert(m, hlo_unary(m, "cosine", angle), t), hlo_convert(m, hlo_unary(m, "sine", angle), t)};
}

/* j k for all j below rows and k below columns, over the last two of rank dims. */
static hlo exponents(hlo_module *m, int64_t rows, int64_t columns) {
  int64_t dims[2] = {rows, columns};
  return hlo_binary(m, "multiply", hlo_iota(m, TT_I32, 2, dims, 0), hlo_iota(m, TT_I32, 2, dims, 1));
}

static pair reshaped(hlo_module *m, pair x, int rank, const int64_t *dims) {
  return (pair){hlo_reshape(m, x.re, rank, dims), hlo_reshape(m, x.im, rank, dims)};
}

static pair turned(hlo_module *m, pair x, const int *perm) {
  return (pair){hlo_transpose(m, x.re, perm), hlo_transpose(m, x.im, perm)};
}

static int64_t divisor_of(int64_t n) { /* 0: only large primes */
  if (n <= LARGEST_MATRIX) return n;
  for (int64_t f = LARGEST_MATRIX; f > 1; f--)
    if (n % f == 0) return f;
  for (int64_t f = LARGEST_MATRIX + 1; f <= LARGEST_PRIME; f++)
    if (n % f == 0) return f;
  return 0;
}

bool hlo_dft_is_large(int64_t n) {
  for (int64_t f = divisor_of(n); n > 1 && f > 1; f = divisor_of(n)) n /= f;
  return n > 1;
}

static pair transform(hlo_module *m, pair x, int sign); /* of the last of two dims */

/* x [rows, f, rest] to [rows, rest, f]: the transform along the middle. */
static pair by_matrix(hlo_module *m, pair x, int64_t f, int sign) {
  tt_dtype t = (tt_dtype)x.re->dtype;
  int64_t rows = x.re->dims[0];
  hlo e = hlo_binary(m, "remainder", exponents(m, f, f), hlo_int(m, TT_I32, f));
  pair w = roots(m, e, f, sign, t);
  hlo both = hlo_concat(m, 2, (hlo[]){x.re, x.im}, 0);
  int one = 1, zero = 0;
  hlo_dot_dims d = {0, 1, NULL, NULL, &one, &zero};
  hlo c = hlo_dot(m, both, w.re, &d, 0, t), s = hlo_dot(m, both, w.im, &d, 0, t);
  hlo re_c = hlo_slice_dim(m, c, 0, 0, rows, 1), im_c = hlo_slice_dim(m, c, 0, rows, 2 * rows, 1);
  hlo re_s = hlo_slice_dim(m, s, 0, 0, rows, 1), im_s = hlo_slice_dim(m, s, 0, rows, 2 * rows, 1);
  return (pair){hlo_binary(m, "subtract", re_c, im_s), hlo_binary(m, "add", re_s, im_c)};
}

static pair by_divisor(hlo_module *m, pair x, int64_t f, int sign) {
  int64_t rows = x.re->dims[0], n = x.re->dims[1], rest = n / f;
  pair y = by_matrix(m, reshaped(m, x, 3, (int64_t[]){rows, f, rest}), f, sign);
  if (rest > 1 && y.re) {
    pair w = roots(m, exponents(m, rest, f), n, sign, (tt_dtype)y.re->dtype);
    hlo re = hlo_broadcast_to(m, w.re, 3, y.re->dims), im = hlo_broadcast_to(m, w.im, 3, y.re->dims);
    y = turned(m, times(m, y, (pair){re, im}), (int[]){0, 2, 1});
    y = transform(m, reshaped(m, y, 2, (int64_t[]){rows * f, rest}), sign);
    y = turned(m, reshaped(m, y, 3, (int64_t[]){rows, f, rest}), (int[]){0, 2, 1});
  }
  return reshaped(m, y, 2, (int64_t[]){rows, n});
}

/* exp(sign pi i j^2 / n) of j = min(k, length - k) for k below length, 0 where that is n or more. */
static pair chirp(hlo_module *m, int64_t n, int64_t length, int sign, tt_dtype t) {
  hlo k = hlo_iota(m, TT_I64, 1, &length, 0), zero = hlo_float(m, t, 0);
  hlo j = hlo_binary(m, "minimum", k, hlo_binary(m, "subtract", hlo_int(m, TT_I64, length), k));
  hlo square = hlo_binary(m, "remainder", hlo_binary(m, "multiply", j, j), hlo_int(m, TT_I64, 2 * n));
  hlo used = hlo_compare(m, "LT", j, hlo_int(m, TT_I64, n));
  pair w = roots(m, square, 2 * n, sign, t);
  return (pair){hlo_select(m, used, w.re, zero), hlo_select(m, used, w.im, zero)};
}

static hlo longer(hlo_module *m, hlo x, int64_t by) {
  return hlo_pad(m, x, hlo_float(m, (tt_dtype)x->dtype, 0), (int64_t[]){0, 0}, (int64_t[]){0, by}, NULL);
}

/* j k = (j^2 + k^2 - (k - j)^2) / 2: a convolution between two products with the chirp. */
static pair by_chirp(hlo_module *m, pair x, int sign) {
  tt_dtype t = (tt_dtype)x.re->dtype;
  int64_t rows = x.re->dims[0], n = x.re->dims[1], length = 1;
  while (length < 2 * n - 1) length *= 2;
  pair around = chirp(m, n, length, -sign, t), own;
  own.re = hlo_slice_dim(m, around.re, 0, 0, n, 1);
  own.im = hlo_slice_dim(m, around.im, 0, 0, n, 1);
  own.re = hlo_broadcast_to(m, own.re, 2, x.re->dims);
  own.im = hlo_broadcast_to(m, hlo_unary(m, "negate", own.im), 2, x.re->dims);
  pair a = times(m, x, own);
  if (!a.re || !a.im) return (pair){NULL, NULL};
  a = transform(m, (pair){longer(m, a.re, length - n), longer(m, a.im, length - n)}, sign);
  pair b = transform(m, reshaped(m, around, 2, (int64_t[]){1, length}), sign);
  int64_t dims[2] = {rows, length};
  b = (pair){hlo_broadcast_to(m, hlo_reshape(m, b.re, 1, &length), 2, dims),
             hlo_broadcast_to(m, hlo_reshape(m, b.im, 1, &length), 2, dims)};
  pair y = transform(m, times(m, a, b), -sign);
  y = (pair){hlo_slice_dim(m, y.re, 1, 0, n, 1), hlo_slice_dim(m, y.im, 1, 0, n, 1)};
  y = times(m, y, own);
  return (pair){hlo_binary_scalar(m, "divide", y.re, (double)length),
                hlo_binary_scalar(m, "divide", y.im, (double)length)};
}

static pair transform(hlo_module *m, pair x, int sign) {
  if (!x.re || !x.im || hlo_failed(m)) return (pair){NULL, NULL};
  if (x.re->dims[1] <= 1) return x;
  int64_t f = divisor_of(x.re->dims[1]);
  return f ? by_divisor(m, x, f, sign) : by_chirp(m, x, sign);
}

/* Along one dim of complex x. */
static hlo along(hlo_module *m, hlo x, int dim, int sign) {
  if (!x) return NULL;
  int perm[HLO_MAX_RANK] = {0}, last = x->rank - 1, n = 0;
  int64_t dims[HLO_MAX_RANK], length = x->dims[dim];
  for (int i = 0; i <= last; i++) perm[i] = i == dim ? last : i == last ? dim : i; /* its own inverse */
  hlo y = hlo_transpose(m, x, perm);
  if (!y) return NULL;
  for (; n <= last; n++) dims[n] = y->dims[n];
  pair p = {hlo_unary(m, "real", y), hlo_unary(m, "imag", y)};
  p = transform(m, reshaped(m, p, 2, (int64_t[]){hlo_numel(x) / length, length}), sign);
  return hlo_transpose(m, hlo_reshape(m, hlo_complex_of(m, p.re, p.im), n, dims), perm);
}

/* All of a spectrum of n points whose first half is given along the last dim: the rest mirrors it, conjugated. */
static hlo both_halves(hlo_module *m, hlo x, int64_t n) {
  int last = x->rank - 1;
  hlo re = hlo_unary(m, "real", x), im = hlo_unary(m, "imag", x);
  int64_t mirrored = (n - 1) / 2;
  hlo tail_re = hlo_reverse(m, hlo_slice_dim(m, re, last, 1, 1 + mirrored, 1), 1, &last);
  hlo tail_im = hlo_unary(m, "negate", hlo_reverse(m, hlo_slice_dim(m, im, last, 1, 1 + mirrored, 1), 1, &last));
  return hlo_complex_of(m, hlo_concat(m, 2, (hlo[]){re, tail_re}, last), hlo_concat(m, 2, (hlo[]){im, tail_im}, last));
}

hlo hlo_dft(hlo_module *m, hlo x, const char *type, int n, const int64_t *length) {
  bool inverse = strchr(type, 'I') != NULL, to_real = !strcmp(type, "IRFFT"), halves = !strcmp(type, "RFFT");
  int sign = inverse ? 1 : -1, last = x->rank - 1;
  double points = 1;
  if (halves) x = hlo_convert(m, x, x->dtype == TT_F32 ? TT_C64 : TT_C128);
  for (int i = n - 1; x && i >= 0; i--) {
    if (i == n - 1 && to_real) continue;
    x = along(m, x, x->rank - n + i, sign);
    if (x && i == n - 1 && halves) x = hlo_slice_dim(m, x, last, 0, length[i] / 2 + 1, 1);
  }
  for (int i = 0; i < n; i++) points *= (double)length[i];
  if (x && to_real) {
    x = hlo_unary(m, "real", along(m, both_halves(m, x, length[n - 1]), last, sign));
    return x ? hlo_binary_scalar(m, "divide", x, points) : NULL;
  }
  if (!x || !inverse) return x;
  return hlo_complex_of(m, hlo_binary_scalar(m, "divide", hlo_unary(m, "real", x), points),
                        hlo_binary_scalar(m, "divide", hlo_unary(m, "imag", x), points));
}
