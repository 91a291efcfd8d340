/* fft.c: discrete Fourier transforms, complex to complex, real to half of a spectrum, and back.
 *
 * StableHLO transforms at most three last dims at once and divides inverses by their length: dims are brought to the
 * end, in groups, and what torch's norm asks for is one factor. A transform of length 1 is its operand. */
#include <math.h>
#include "ops/index.h"
#include "ops/math.h"
#include "ops/rules.h"

enum { GROUP = 3, FACTOR_NONE = 0, FACTOR_ROOT = 1 /* and 2: one over the number of points */ };

/* One transform along up to GROUP dims; length: of the real or complex side that is not halved. */
static hlo along(hlo_module *m, hlo x, const char *type, int n, const int *dims, const int64_t *length) {
  int perm[TT_MAX_RANK], back[TT_MAX_RANK], k = 0;
  bool moved[TT_MAX_RANK] = {false};
  if (!x) return NULL;
  for (int i = 0; i < n; i++) moved[dims[i]] = true;
  for (int d = 0; d < x->rank; d++)
    if (!moved[d]) perm[k++] = d;
  for (int i = 0; i < n; i++) perm[k++] = dims[i];
  for (int d = 0; d < x->rank; d++) back[perm[d]] = d;
  return hlo_transpose(m, hlo_fft(m, hlo_transpose(m, x, perm), type, n, length), back);
}

/* Complex to complex along any number of dims, none of them named twice. */
static hlo along_all(hlo_module *m, hlo x, const char *type, int n, const int64_t *dims) {
  int group[GROUP], k = 0;
  int64_t length[GROUP];
  for (int i = 0; x && i < n; i++) {
    if (x->dims[dims[i]] > 1) {
      group[k] = (int)dims[i];
      length[k++] = x->dims[dims[i]];
    }
    if (k && (k == GROUP || i == n - 1)) {
      x = along(m, x, type, k, group, length);
      k = 0;
    }
  }
  return x;
}

static int dims_of(tt_ctx *c, int rank, int64_t *dims) {
  int n = tt_ints(c, 1, dims, TT_MAX_RANK);
  for (int i = 0; i < n; i++) dims[i] += dims[i] < 0 ? rank : 0;
  return n;
}

/* What torch multiplies a plain sum over so many points by, times already, which StableHLO has divided by. */
static double factor(tt_ctx *c, double points, double already) {
  int64_t norm = tt_int(c, 2, FACTOR_NONE);
  return already * (norm == FACTOR_NONE ? 1 : norm == FACTOR_ROOT ? 1 / sqrt(points) : 1 / points);
}

static double points_of(hlo x, int n, const int64_t *dims) {
  double points = 1;
  for (int i = 0; x && i < n; i++) points *= (double)x->dims[dims[i]];
  return points;
}

static hlo times_real(hlo_module *m, hlo x, double v) { return v == 1 ? x : scaled(m, x, v); }
static bool is_empty(const tt_want *w) {
  for (int i = 0; i < w->rank; i++)
    if (w->dims[i] == 0) return true;
  return false;
}

void rule_fft_c2c(tt_ctx *c) { /* (self, dim, normalization, forward) */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  int64_t dims[TT_MAX_RANK];
  if (!x || is_empty(&c->want[0])) {
    c->result[0] = x;
    return;
  }
  int n = dims_of(c, x->rank, dims);
  double points = points_of(x, n, dims);
  bool forward = tt_bool(c, 3);
  x = along_all(m, x, forward ? "FFT" : "IFFT", n, dims);
  c->result[0] = times_real(m, x, factor(c, points, forward ? 1 : points));
}

void rule_fft_r2c(tt_ctx *c) { /* (self, dim, normalization, onesided): the last of dim is halved */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  int64_t dims[TT_MAX_RANK];
  if (!x || is_empty(&c->want[0])) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int n = dims_of(c, x->rank, dims), last = (int)dims[n - 1];
  int64_t length = x->dims[last];
  x = times_real(m, x, factor(c, points_of(x, n, dims), 1));
  if (length == 1 || !tt_bool(c, 3)) {
    c->result[0] = along_all(m, hlo_convert(m, x, c->want[0].dtype), "FFT", n, dims);
    return;
  }
  x = along(m, x, "RFFT", 1, &last, &length);
  c->result[0] = along_all(m, x, "FFT", n - 1, dims);
}

void rule_fft_c2r(tt_ctx *c) { /* (self, dim, normalization, last_dim_size): the last of dim is half a spectrum */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  int64_t dims[TT_MAX_RANK], length = tt_int(c, 3, 1);
  if (!x || is_empty(&c->want[0])) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int n = dims_of(c, x->rank, dims), last = (int)dims[n - 1];
  double points = points_of(x, n - 1, dims) * (double)length;
  x = along_all(m, hlo_slice_dim(m, x, last, 0, length / 2 + 1, 1), "IFFT", n - 1, dims);
  x = length == 1 ? hlo_unary(m, "real", x) : along(m, x, "IRFFT", 1, &last, &length);
  c->result[0] = times_real(m, x, factor(c, points, points));
}
