/* resample.c: linear maps along one dim, from tables of what each place reads.
 *
 * A tap whose places are evenly spaced is a strided slice, any other a gather; a map is a sum of taps, so that what is
 * not read (an infinity, a NaN) is not multiplied by zero. Two shapes that are common get less: equal blocks are a
 * reduction, equal repeats a broadcast. A map of very many taps is a product with its matrix, which does spread
 * infinities. */
#include <string.h>
#include "ops/index.h"
#include "ops/resample.h"

enum { MANY_TAPS = 24 };

tt_line *tt_line_create(hlo_module *m, int64_t in, int64_t out, int taps) {
  tt_line *line = hlo_alloc(m, sizeof *line);
  size_t n = (size_t)(out > 0 ? out : 1) * (size_t)(taps > 0 ? taps : 1);
  int64_t *at = hlo_alloc(m, n * sizeof *at);
  double *weight = hlo_alloc(m, n * sizeof *weight);
  if (!line || !at || !weight) return NULL;
  for (size_t i = 0; i < n; i++) at[i] = -1, weight[i] = 1;
  *line = (tt_line){in, out, taps, at, weight};
  return line;
}

tt_line *tt_line_transpose(hlo_module *m, const tt_line *line) {
  if (!line) return NULL;
  int64_t *count = hlo_alloc(m, (size_t)(line->in + 1) * sizeof *count), n = line->taps * line->out;
  if (!count) return NULL;
  int taps = 0;
  for (int64_t i = 0; i < n; i++)
    if (line->at[i] >= 0 && ++count[line->at[i]] > taps) taps = (int)count[line->at[i]];
  tt_line *t = tt_line_create(m, line->out, line->in, taps);
  if (!t) return NULL;
  memset(count, 0, (size_t)(line->in + 1) * sizeof *count);
  for (int64_t o = 0; o < line->out; o++) /* in order of o, which keeps the taps of equal rank evenly spaced */
    for (int k = 0; k < line->taps; k++) {
      int64_t from = line->at[k * line->out + o];
      if (from < 0) continue;
      int64_t slot = count[from]++ * t->out + from;
      t->at[slot] = o;
      t->weight[slot] = line->weight[k * line->out + o];
    }
  return t;
}

/* Are the places base, base + step, ..., those outside of [0, len) being the ones that read nothing? */
static bool evenly_spaced(int64_t n, const int64_t *at, int64_t len, int64_t *base, int64_t *step) {
  int64_t first = 0, second;
  while (first < n && at[first] < 0) first++;
  if (first == n) return false;
  for (second = first + 1; second < n && at[second] < 0;) second++;
  *step = second < n ? (at[second] - at[first]) / (second - first) : n > 1 ? len : 1;
  *base = at[first] - first * *step;
  if (*step < 1) return false;
  for (int64_t o = 0; o < n; o++) {
    int64_t place = *base + o * *step;
    if (place != at[o] && (at[o] >= 0 || (place >= 0 && place < len))) return false;
  }
  return true;
}

static hlo vector(hlo_module *m, int64_t n, const int64_t *values) {
  int32_t *narrow = hlo_alloc(m, (size_t)n * sizeof *narrow);
  if (!narrow) return NULL;
  for (int64_t i = 0; i < n; i++) narrow[i] = (int32_t)(values[i] < 0 ? 0 : values[i]);
  return hlo_array(m, TT_I32, 1, &n, narrow);
}

hlo tt_line_tap(hlo_module *m, hlo x, int dim, int64_t n, const int64_t *at, hlo fill) {
  if (!x || !fill) return NULL;
  int64_t len = x->dims[dim], base, step, dims[TT_MAX_RANK];
  bool none = true, all = true;
  for (int64_t o = 0; o < n; o++) none &= at[o] < 0, all &= at[o] >= 0;
  for (int i = 0; i < x->rank; i++) dims[i] = i == dim ? n : x->dims[i];
  if (none || len == 0) return hlo_broadcast(m, fill, x->rank, dims, NULL);
  if (evenly_spaced(n, at, len, &base, &step)) {
    int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0}, last = base + (n - 1) * step;
    low[dim] = base < 0 ? -base : 0;
    high[dim] = last >= len ? last - len + 1 : 0;
    return hlo_slice_dim(m, hlo_pad(m, x, fill, low, high, NULL), dim, base + low[dim], last + low[dim] + 1, step);
  }
  hlo read = tt_gather_dim(m, x, dim, vector(m, n, at));
  if (all || !read) return read;
  bool *valid = hlo_alloc(m, (size_t)n * sizeof *valid);
  if (!valid) return NULL;
  for (int64_t o = 0; o < n; o++) valid[o] = at[o] >= 0;
  return hlo_select(m, hlo_broadcast(m, hlo_array(m, TT_BOOL, 1, &n, valid), read->rank, read->dims, &dim), read, fill);
}

static bool even_weights(int64_t n, const int64_t *at, const double *weight, double *value) {
  bool seen = false;
  *value = 1;
  for (int64_t i = 0; i < n; i++) {
    if (at[i] < 0) continue;
    if (seen && weight[i] != *value) return false;
    *value = weight[i];
    seen = true;
  }
  return true;
}

static hlo weighted(hlo_module *m, hlo x, int dim, int64_t n, const int64_t *at, const double *weight) {
  double value;
  if (!x) return NULL;
  if (even_weights(n, at, weight, &value)) return value == 1 ? x : hlo_binary_scalar(m, "multiply", x, value);
  hlo factors;
  if (x->dtype == TT_F64) {
    factors = hlo_array(m, TT_F64, 1, &n, weight);
  } else {
    float *narrow = hlo_alloc(m, (size_t)n * sizeof *narrow);
    if (!narrow) return NULL;
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)weight[i];
    factors = hlo_convert(m, hlo_array(m, TT_F32, 1, &n, narrow), (tt_dtype)x->dtype);
  }
  return hlo_binary(m, "multiply", x, hlo_broadcast(m, factors, x->rank, x->dims, &dim));
}

static bool equal_blocks(const tt_line *l) { /* place o reads o * taps, .., o * taps + taps - 1 */
  if (l->in != l->out * l->taps) return false;
  for (int k = 0; k < l->taps; k++)
    for (int64_t o = 0; o < l->out; o++)
      if (l->at[k * l->out + o] != o * l->taps + k) return false;
  return true;
}

static bool equal_repeats(const tt_line *l) { /* place o reads o / r */
  if (l->taps != 1 || l->in < 1 || l->out % l->in) return false;
  for (int64_t o = 0; o < l->out; o++)
    if (l->at[o] != o / (l->out / l->in)) return false;
  return true;
}

/* dim of x as two: [outer, inner]. */
static hlo split_dim(hlo_module *m, hlo x, int dim, int64_t outer, int64_t inner) {
  int64_t dims[TT_MAX_RANK + 1];
  if (!x) return NULL;
  for (int i = 0; i <= x->rank; i++)
    dims[i] = i < dim ? x->dims[i] : i == dim ? outer : i == dim + 1 ? inner : x->dims[i - 1];
  return hlo_reshape(m, x, x->rank + 1, dims);
}

static hlo by_matrix(hlo_module *m, hlo x, int dim, const tt_line *l) {
  int64_t dims[2] = {l->in, l->out};
  double *wide = hlo_alloc(m, (size_t)(l->in * l->out) * sizeof *wide);
  float *narrow = hlo_alloc(m, (size_t)(l->in * l->out) * sizeof *narrow);
  if (!wide || !narrow) return NULL;
  for (int64_t i = 0; i < l->taps * l->out; i++)
    if (l->at[i] >= 0) wide[l->at[i] * l->out + i % l->out] += l->weight[i];
  for (int64_t i = 0; i < l->in * l->out; i++) narrow[i] = (float)wide[i];
  hlo matrix = x->dtype == TT_F64 ? hlo_array(m, TT_F64, 2, dims, wide)
                                  : hlo_convert(m, hlo_array(m, TT_F32, 2, dims, narrow), (tt_dtype)x->dtype);
  int zero = 0, perm[TT_MAX_RANK];
  hlo y = hlo_dot(m, x, matrix, &(hlo_dot_dims){.n_contract = 1, .lhs_contract = &dim, .rhs_contract = &zero}, 0,
                  (tt_dtype)x->dtype);
  for (int i = 0; i < x->rank; i++) perm[i] = i < dim ? i : i == dim ? x->rank - 1 : i - 1;
  return hlo_transpose(m, y, perm);
}

hlo tt_line_apply(hlo_module *m, hlo x, int dim, const tt_line *l) {
  if (!x || !l) return NULL;
  hlo zero = hlo_int(m, x->dtype, 0), sum = NULL;
  double value;
  bool even = even_weights(l->taps * l->out, l->at, l->weight, &value);
  if (even && equal_repeats(l)) {
    int64_t times = l->out / l->in, dims[TT_MAX_RANK + 1];
    int where[TT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) where[i] = i <= dim ? i : i + 1;
    for (int i = 0; i <= x->rank; i++) dims[i] = i <= dim ? x->dims[i] : i == dim + 1 ? times : x->dims[i - 1];
    hlo y = value == 1 ? x : hlo_binary_scalar(m, "multiply", x, value);
    if (times > 1) y = hlo_broadcast(m, y, x->rank + 1, dims, where);
    for (int i = 0; i < x->rank; i++) dims[i] = i == dim ? l->out : x->dims[i];
    return hlo_reshape(m, y, x->rank, dims);
  }
  if (even && equal_blocks(l)) {
    int inner = dim + 1;
    hlo y = hlo_reduce(m, "add", split_dim(m, x, dim, l->out, l->taps), zero, 1, &inner);
    return value == 1 ? y : hlo_binary_scalar(m, "multiply", y, value);
  }
  if (l->taps > MANY_TAPS && tt_is_float(x->dtype)) return by_matrix(m, x, dim, l);
  for (int k = 0; k < l->taps; k++) {
    const int64_t *at = l->at + k * l->out;
    hlo part = weighted(m, tt_line_tap(m, x, dim, l->out, at, zero), dim, l->out, at, l->weight + k * l->out);
    sum = sum ? hlo_binary(m, "add", sum, part) : part;
  }
  if (sum) return sum;
  int64_t dims[TT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = i == dim ? l->out : x->dims[i];
  return hlo_full(m, x->dtype, x->rank, dims, 0);
}
