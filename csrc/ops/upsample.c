/* upsample.c: rules of interpolation (nearest, linear, cubic, antialiased) in one to three dims, and of their
 * gradients.
 *
 * Each dim is one linear map (resample.h) with the places and weights that torch CPU computes, in float unless the data
 * is double: scales are part of the key. A gradient is the map transposed. uint8 images are computed in torch's fixed
 * point, one dim after the other: weights are integers of as many bits as 16 hold, and all sums are exact in float. */
#include <math.h>
#include <string.h>
#include "ops/index.h"
#include "ops/resample.h"
#include "ops/rules.h"

typedef struct axis {
  int64_t in, out;
  bool align, wide;
  double scale; /* of the result to the operand; 0: not given */
} axis;

/* torch's arithmetic is float's or double's; every step is rounded to it. */
static double rounded(const axis *a, double v) { return a->wide ? v : (double)(float)v; }

static double ratio(const axis *a) { /* how far one step of the result goes in the operand */
  if (a->align) return a->out > 1 ? rounded(a, rounded(a, (double)(a->in - 1)) / (double)(a->out - 1)) : 0;
  return rounded(a, a->scale > 0 ? 1 / a->scale : (double)a->in / (double)a->out);
}

static double source(const axis *a, double step, int64_t o, bool cubic) {
  if (a->align) return rounded(a, step * (double)o);
  double s = rounded(a, rounded(a, step * ((double)o + 0.5)) - 0.5);
  return s < 0 && !cubic ? 0 : s;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* shortcut: equal and doubled sizes are taken as such whatever the scale says. */
static tt_line *nearest(hlo_module *m, const axis *a, bool exact, bool shortcut) {
  tt_line *l = tt_line_create(m, a->in, a->out, 1);
  axis single = *a;
  single.wide = false;
  double step = ratio(&single);
  for (int64_t o = 0; l && o < a->out; o++) {
    int64_t i =
        exact ? (int64_t)floorf((float)((double)o + 0.5) * (float)step) : (int64_t)floorf((float)o * (float)step);
    if (shortcut && a->in == a->out) i = o;
    if (shortcut && a->out == 2 * a->in) i = o >> 1;
    l->at[o] = clamp(i, 0, a->in - 1);
  }
  return l;
}

static tt_line *linear(hlo_module *m, const axis *a) {
  tt_line *l = tt_line_create(m, a->in, a->out, a->in == a->out ? 1 : 2);
  double step = ratio(a);
  for (int64_t o = 0; l && o < a->out; o++) {
    if (a->in == a->out) {
      l->at[o] = o;
      continue;
    }
    double s = source(a, step, o, false);
    int64_t i = clamp((int64_t)floor(s), 0, a->in - 1);
    double above = rounded(a, s - (double)i);
    above = above < 0 ? 0 : above > 1 ? 1 : above;
    l->at[o] = i, l->weight[o] = rounded(a, 1 - above);
    if (i + 1 < a->in) l->at[a->out + o] = i + 1, l->weight[a->out + o] = above;
    else l->weight[o] = 1;
  }
  return l;
}

static double cubic_near(double x, double a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
static double cubic_far(double x, double a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

static tt_line *cubic(hlo_module *m, const axis *a) {
  tt_line *l = tt_line_create(m, a->in, a->out, 4);
  double step = ratio(a), curve = -0.75;
  for (int64_t o = 0; l && o < a->out; o++) {
    double s = source(a, step, o, true), f = floor(s), t = rounded(a, s - f);
    double w[4] = {cubic_far(t + 1, curve), cubic_near(t, curve), cubic_near(1 - t, curve), cubic_far(2 - t, curve)};
    for (int k = 0; k < 4; k++) {
      l->at[k * a->out + o] = clamp((int64_t)f - 1 + k, 0, a->in - 1);
      l->weight[k * a->out + o] = w[k];
    }
  }
  return l;
}

static double filter(double x, bool is_cubic) {
  x = fabs(x);
  if (!is_cubic) return x < 1 ? 1 - x : 0;
  return x < 1 ? cubic_near(x, -0.5) : x < 2 ? cubic_far(x, -0.5) : 0;
}

static tt_line *antialiased(hlo_module *m, const axis *a, bool is_cubic) {
  double step = ratio(a), stretch = step >= 1 ? step : 1, support = (is_cubic ? 2 : 1) * stretch;
  int taps = (int)ceil(support) * 2 + 1;
  tt_line *l = tt_line_create(m, a->in, a->out, taps);
  for (int64_t o = 0; l && o < a->out; o++) {
    double center = step * ((double)o + 0.5), total = 0;
    int64_t low = (int64_t)(center - support + 0.5), high = (int64_t)(center + support + 0.5);
    if (low < 0) low = 0;
    if (high > a->in) high = a->in;
    int64_t n = clamp(high - low, 0, taps);
    for (int64_t k = 0; k < n; k++) total += filter(((double)(k + low) - center + 0.5) / stretch, is_cubic);
    for (int64_t k = 0; k < n; k++) {
      l->at[k * a->out + o] = low + k;
      l->weight[k * a->out + o] =
          filter(((double)(k + low) - center + 0.5) / stretch, is_cubic) / (total != 0 ? total : 1);
    }
  }
  return l;
}

static tt_line *unchanged(hlo_module *m, int64_t n) {
  tt_line *l = tt_line_create(m, n, n, 1);
  for (int64_t o = 0; l && o < n; o++) l->at[o] = o;
  return l;
}

/* torch CPU leaves dims of equal size alone where a scale that is not quite 1 would say otherwise, but not everywhere:
 * in antialiased results, in gradients of cubic ones when all dims are equal (same), in nearest ones but for 1 and 3
 * dims forward. */
static tt_line *line_of(hlo_module *m, const char *kind, const axis *a, int n, bool same) {
  bool back = strstr(kind, "back") != NULL, is_cubic = strstr(kind, "cubic") != NULL,
       smooth = strstr(kind, "smooth") != NULL;
  if (strstr(kind, "nearest")) return nearest(m, a, false, back || n == 2);
  if (strstr(kind, "exact")) return nearest(m, a, true, false);
  if (smooth && !back && a->in == a->out) return unchanged(m, a->in);
  if (smooth) return antialiased(m, a, is_cubic);
  if (is_cubic && back && same) return unchanged(m, a->in);
  return is_cubic ? cubic(m, a) : linear(m, a);
}

/* Makes the weights integers, those of one place (at an edge) as one; how many bits they were shifted by. */
static int fixed_point(tt_line *l) {
  double most = 0;
  int bits = 0;
  for (int64_t i = 0; l && i < l->taps * l->out; i++)
    for (int64_t j = i % l->out; j < i; j += l->out)
      if (l->at[i] >= 0 && l->at[j] == l->at[i]) l->weight[j] += l->weight[i], l->at[i] = -1;
  for (int64_t i = 0; l && i < l->taps * l->out; i++)
    if (l->at[i] >= 0 && l->weight[i] > most) most = l->weight[i];
  while (bits < 22 && (int64_t)(0.5 + most * (double)(1 << (bits + 1))) < 1 << 15) bits++;
  for (int64_t i = 0; l && i < l->taps * l->out; i++) {
    double v = l->weight[i] * (double)(1 << bits);
    l->weight[i] = trunc(v < 0 ? v - 0.5 : v + 0.5);
  }
  return bits;
}

static hlo shifted_to_bytes(hlo_module *m, hlo x, int bits) {
  hlo half = hlo_binary_scalar(m, "add", x, ldexp(1, bits - 1));
  return hlo_clamp(m, hlo_float(m, TT_F32, 0),
                   hlo_unary(m, "floor", hlo_binary_scalar(m, "multiply", half, ldexp(1, -bits))),
                   hlo_float(m, TT_F32, 255));
}

/* (self, output_size[, align_corners], scale..), backward (grad_output, output_size, input_size[, align_corners],
 * scale..). hlo: nearest, exact, linear or cubic; "smooth" is antialiased; "back" is the gradient. */
void rule_upsample(tt_ctx *c) {
  hlo_module *m = c->m;
  const char *kind = c->op->hlo;
  const tt_want *w = &c->want[0];
  bool back = strstr(kind, "back") != NULL, whole = strstr(kind, "nearest") || strstr(kind, "exact");
  hlo x = tt_in(c, 0);
  if (!x) return;
  bool bytes = !whole && !back && x->dtype == TT_U8;
  if (bytes) x = hlo_convert(m, x, TT_F32);
  if (!x) return;
  if (!whole && !tt_is_float(x->dtype)) {
    hlo_fail(m, TT_UNIMPLEMENTED, "%s: interpolation of %s is not lowered", c->op->name,
             tt_dtype_name((tt_dtype)x->dtype));
    return;
  }
  if (tt_want_numel(w) == 0) {
    c->result[0] = hlo_full(m, x->dtype, w->rank, w->dims, 0);
    return;
  }
  int n = tt_count(c, 1), at = back ? 3 : 2;
  bool align = !whole && tt_bool(c, at);
  if (!whole) at++;
  bool same = true;
  for (int d = x->rank - n; d < x->rank; d++) same &= x->dims[d] == w->dims[d];
  for (int i = n - 1; i >= 0; i--) {
    int dim = x->rank - n + i;
    axis a = {.in = back ? w->dims[dim] : x->dims[dim], .out = back ? x->dims[dim] : w->dims[dim], .align = align,
              .wide = x->dtype == TT_F64, .scale = tt_number_of(c, at + i, 0)};
    tt_line *l = line_of(m, kind, &a, n, same);
    int bits = bytes ? fixed_point(l) : 0;
    x = tt_line_apply(m, x, dim, back ? tt_line_transpose(m, l) : l);
    if (bytes) x = shifted_to_bytes(m, x, bits);
    if (!x) return;
  }
  c->result[0] = x;
}
