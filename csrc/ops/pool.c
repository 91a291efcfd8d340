/* pool.c: rules of pooling in two and three dims (torch makes one dim of two), of adaptive pooling, and of their
 * gradients.
 *
 * Everything is separable: maxima are taken dim by dim from the last, carrying the flat place of each, so that a window
 * costs the sum of its sides and not their product. Strictly greater wins, so the first maximum stays; a NaN always
 * wins, as in torch. Averages divide by counts known while lowering. A maximum's gradient is laid down window place by
 * window place where windows are small, and scattered otherwise. Refuses nothing: Meta kernels have checked the
 * windows. */
#include <stdio.h>
#include <string.h>
#include "ops/index.h"
#include "ops/resample.h"
#include "ops/rules.h"

enum { MAX_SPATIAL = 3, FEW_PLACES = 36 };

typedef struct windows {
  int n, first; /* spatial dims, and which dim is the first of them */
  int64_t size[MAX_SPATIAL], stride[MAX_SPATIAL], padding[MAX_SPATIAL], dilation[MAX_SPATIAL];
} windows;

static void read_each(tt_ctx *c, int i, int n, int64_t *out) { /* one int stands for all dims */
  if (tt_ints(c, i, out, MAX_SPATIAL) == 1)
    for (int k = 1; k < n; k++) out[k] = out[0];
}

/* (.., kernel_size, stride, padding[, dilation]) from argument at; hlo begins with the number of dims. */
static windows windows_of(tt_ctx *c, int at, int rank, bool dilated) {
  windows w = {.n = c->op->hlo[0] - '0', .dilation = {1, 1, 1}};
  w.first = rank - w.n;
  read_each(c, at, w.n, w.size);
  memcpy(w.stride, w.size, sizeof w.stride);
  if (tt_has(c, at + 1)) read_each(c, at + 1, w.n, w.stride);
  read_each(c, at + 2, w.n, w.padding);
  if (dilated) read_each(c, at + 3, w.n, w.dilation);
  return w;
}

static bool give_blanks(tt_ctx *c) { /* where nothing is to be computed */
  bool blank = tt_want_numel(&c->want[0]) == 0;
  for (int k = 0; blank && k < c->n_results; k++)
    if (c->want[k].defined) c->result[k] = tt_want_zeros(c, k);
  return blank;
}

/* ---- averages ---- */
/* How many places of the operand (and of its margins, if they count) each window of dim i holds. */
static hlo counts(hlo_module *m, const windows *w, int i, int64_t in, int64_t out, bool margins, int rank,
                  const int64_t *dims) {
  int64_t *n = hlo_alloc(m, (size_t)(out ? out : 1) * sizeof *n);
  int dim = w->first + i;
  if (!n) return NULL;
  for (int64_t o = 0; o < out; o++) {
    int64_t start = o * w->stride[i] - w->padding[i], end = start + w->size[i];
    if (margins && end > in + w->padding[i]) end = in + w->padding[i];
    if (!margins && end > in) end = in;
    if (!margins && start < 0) start = 0;
    n[o] = end - start;
  }
  bool same = true;
  for (int64_t o = 1; o < out; o++) same &= n[o] == n[0];
  if (same) return hlo_int(m, TT_I64, n[0]);
  return hlo_broadcast(m, hlo_array(m, TT_I64, 1, &out, n), rank, dims, &dim);
}

/* x / counts */
static hlo averaged(tt_ctx *c, hlo x, const windows *w, const int64_t *in, const int64_t *out, int count_arg) {
  hlo_module *m = c->m;
  if (!x) return NULL;
  hlo divisor = NULL;
  if (tt_has(c, count_arg + 1)) {
    divisor = hlo_int(m, TT_I64, tt_int(c, count_arg + 1, 1));
  } else {
    for (int i = 0; i < w->n; i++) {
      hlo n = counts(m, w, i, in[w->first + i], out[w->first + i], tt_bool(c, count_arg), x->rank, out);
      divisor = divisor ? hlo_binary(m, "multiply", divisor, n) : n;
    }
  }
  return hlo_binary(m, "divide", x, hlo_convert(m, divisor, (tt_dtype)x->dtype));
}

/* (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
void rule_avg_pool(tt_ctx *c) {
  hlo x = tt_in(c, 0);
  if (!x || give_blanks(c)) return;
  windows w = windows_of(c, 1, x->rank, false);
  const int64_t *out = c->want[0].dims;
  int64_t size[TT_MAX_RANK], stride[TT_MAX_RANK], low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0};
  for (int i = 0; i < x->rank; i++) size[i] = stride[i] = 1;
  for (int i = 0; i < w.n; i++) {
    int d = w.first + i;
    size[d] = w.size[i], stride[d] = w.stride[i], low[d] = w.padding[i];
    high[d] = (out[d] - 1) * stride[d] + size[d] - x->dims[d] - low[d];
    if (high[d] < 0) high[d] = 0; /* what a stride leaves over: the count of windows stays */
  }
  hlo sum = hlo_reduce_window(c->m, "add", x, hlo_int(c->m, x->dtype, 0),
                              &(hlo_window){.size = size, .stride = stride, .low = low, .high = high});
  c->result[0] = averaged(c, sum, &w, x->dims, out, 5);
}

/* (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
void rule_avg_pool_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0);
  if (!grad || give_blanks(c)) return;
  windows w = windows_of(c, 2, grad->rank, false);
  const int64_t *in = c->want[0].dims;
  int64_t size[TT_MAX_RANK], low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0}, interior[TT_MAX_RANK] = {0};
  grad = averaged(c, grad, &w, in, grad->dims, 6);
  if (!grad) return;
  for (int i = 0; i < grad->rank; i++) size[i] = 1;
  for (int i = 0; i < w.n; i++) {
    int d = w.first + i;
    size[d] = w.size[i], interior[d] = w.stride[i] - 1, low[d] = w.size[i] - 1 - w.padding[i];
    high[d] = in[d] - (grad->dims[d] - 1) * w.stride[i] - 1 + w.padding[i];
  }
  hlo zero = hlo_int(m, grad->dtype, 0);
  c->result[0] =
      hlo_reduce_window(m, "add", hlo_pad(m, grad, zero, low, high, interior), zero, &(hlo_window){.size = size});
}

/* ---- adaptive windows: o holds floor(o * in / out) .. ceil((o + 1) * in / out) - 1 ---- */
static tt_line *adaptive_line(hlo_module *m, int64_t in, int64_t out) {
  int64_t taps = 0;
  for (int64_t o = 0; o < out; o++) {
    int64_t n = ((o + 1) * in + out - 1) / out - o * in / out;
    if (n > taps) taps = n;
  }
  tt_line *l = tt_line_create(m, in, out, (int)taps);
  for (int64_t o = 0; l && o < out; o++) {
    int64_t start = o * in / out, n = ((o + 1) * in + out - 1) / out - start;
    for (int64_t k = 0; k < n; k++) l->at[k * out + o] = start + k, l->weight[k * out + o] = 1 / (double)n;
  }
  return l;
}

/* (self, output_size), backward (grad_output, self); hlo "2", "3" and " back" */
void rule_adaptive_avg_pool(tt_ctx *c) {
  hlo_module *m = c->m;
  bool back = strstr(c->op->hlo, "back") != NULL;
  hlo x = tt_in(c, 0);
  if (x && !tt_is_float((tt_dtype)x->dtype) && !tt_is_complex((tt_dtype)x->dtype))
    hlo_fail(m, TT_UNIMPLEMENTED, "means of %s", tt_dtype_name((tt_dtype)x->dtype));
  if (!x || give_blanks(c)) return;
  int n = c->op->hlo[0] - '0', rank = x->rank;
  const int64_t *dims = c->want[0].dims;
  for (int d = rank - n; x && d < rank; d++)
    x = back ? tt_line_apply(m, x, d, tt_line_transpose(m, adaptive_line(m, dims[d], x->dims[d])))
             : tt_line_apply(m, x, d, adaptive_line(m, x->dims[d], dims[d]));
  c->result[0] = x;
}

/* ---- maxima ---- */
static tt_line *window_line(hlo_module *m, const windows *w, int i, int64_t in, int64_t out) {
  tt_line *l = tt_line_create(m, in, out, (int)w->size[i]);
  for (int64_t k = 0; l && k < w->size[i]; k++)
    for (int64_t o = 0; o < out; o++) {
      int64_t place = o * w->stride[i] - w->padding[i] + k * w->dilation[i];
      l->at[k * out + o] = place >= 0 && place < in ? place : -1;
    }
  return l;
}

/* place: flat in the dims from the current one on; negative: a margin. It has one place in the dims that it does not
 * depend on, which keeps it out of gathers: xla-cpu-pjrt reads a gather of a constant that was broadcast wrongly. */
typedef struct maximum { hlo value, place; } maximum;

static int64_t outside(tt_dtype place) { return place == TT_I32 ? -((int64_t)1 << 30) : -((int64_t)1 << 62); }

/* Maxima of one dim's windows; scale is what a step along it adds to the flat place. */
static maximum maximum_along(hlo_module *m, maximum x, int dim, const tt_line *l, int64_t scale, tt_dtype t,
                             bool *margins) {
  maximum best = {NULL, NULL};
  if (!x.value || !l) return best;
  hlo lowest = hlo_lowest(m, x.value->dtype), out_of_it = hlo_int(m, t, outside(t));
  int64_t *steps = hlo_alloc(m, (size_t)(l->out ? l->out : 1) * sizeof *steps);
  if (!steps) return best;
  for (int64_t i = 0; i < l->taps * l->out; i++) *margins |= l->at[i] < 0;
  int64_t along[TT_MAX_RANK];
  for (int i = 0; i < x.value->rank; i++) along[i] = i == dim ? l->out : 1;
  bool known = x.place && x.place->dims[dim] == 1;
  for (int k = 0; k < l->taps; k++) {
    const int64_t *at = l->at + k * l->out;
    maximum next = {.value = tt_line_tap(m, x.value, dim, l->out, at, lowest)};
    if (!next.value) return (maximum){NULL, NULL};
    for (int64_t o = 0; o < l->out; o++) steps[o] = at[o] >= 0 ? at[o] * scale : x.place && !known ? 0 : outside(t);
    hlo step = hlo_reshape(m, hlo_convert(m, hlo_array(m, TT_I64, 1, &l->out, steps), t), next.value->rank, along);
    if (x.place || l->taps > 1) step = hlo_broadcast_to(m, step, next.value->rank, next.value->dims);
    next.place = !x.place ? step
                 : known  ? hlo_binary(m, "add", hlo_broadcast_to(m, x.place, next.value->rank, next.value->dims), step)
                          : hlo_binary(m, "add", tt_line_tap(m, x.place, dim, l->out, at, out_of_it), step);
    if (!best.value) {
      best = next;
      continue;
    }
    hlo better = hlo_compare(m, "GT", next.value, best.value);
    if (tt_is_float(next.value->dtype))
      better = hlo_binary(m, "or", better, hlo_compare(m, "NE", next.value, next.value));
    if (*margins) better = hlo_binary(m, "or", better, hlo_compare(m, "LT", best.place, hlo_int(m, t, 0)));
    best.value = hlo_select(m, better, next.value, best.value);
    best.place = hlo_select(m, better, next.place, best.place);
  }
  return best;
}

/* hlo "2" or "3": (self, kernel_size, stride, padding, dilation, ceil_mode); with " adaptive": (self, output_size) */
void rule_max_pool(tt_ctx *c) {
  hlo_module *m = c->m;
  bool adaptive = strstr(c->op->hlo, "adaptive") != NULL, margins = false;
  maximum x = {tt_in(c, 0), NULL};
  if (!x.value || give_blanks(c)) return;
  int rank = x.value->rank, n = c->op->hlo[0] - '0';
  windows w = {.n = n};
  if (!adaptive) w = windows_of(c, 1, rank, true);
  const int64_t *in = tt_in_dims(c, 0), *out = c->want[0].dims;
  int64_t plane = 1;
  for (int d = rank - n; d < rank; d++) plane *= in[d];
  tt_dtype t = plane < (int64_t)1 << 30 ? TT_I32 : TT_I64;
  int64_t scale = 1;
  for (int i = n - 1; i >= 0; i--) {
    int d = rank - n + i;
    tt_line *l = adaptive ? adaptive_line(m, in[d], out[d]) : window_line(m, &w, i, in[d], out[d]);
    x = maximum_along(m, x, d, l, scale, t, &margins);
    scale *= in[d];
  }
  c->result[0] = x.value;
  c->result[1] = hlo_broadcast_to(m, x.place, rank, out);
}

/* What grad and places (flat in the last n dims of want) add up to, by a scatter. */
static hlo scattered(tt_ctx *c, const char *op, hlo grad, hlo places, int n) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  if (!grad || !places) return NULL;
  int64_t rows = 1, plane = 1, windows = 1;
  for (int d = 0; d < w->rank; d++) *(d < w->rank - n ? &rows : &plane) *= w->dims[d];
  for (int d = w->rank - n; d < w->rank; d++) windows *= grad->dims[d];
  int64_t from[2] = {rows, windows}, to[2] = {rows, plane};
  hlo x = tt_scatter_along(m, op, hlo_full(m, grad->dtype, 2, to, 0), 1, hlo_reshape(m, places, 2, from),
                           hlo_reshape(m, grad, 2, from));
  return hlo_reshape(m, x, w->rank, w->dims);
}

/* The same window place by window place: for each, the windows that chose it, spread out to where it lies. */
static hlo laid_down(tt_ctx *c, hlo grad, hlo places, const windows *w) {
  hlo_module *m = c->m;
  const int64_t *in = c->want[0].dims;
  if (!grad || !places) return NULL;
  hlo zero = hlo_int(m, grad->dtype, 0), sum = NULL;
  int64_t total = 1;
  for (int i = 0; i < w->n; i++) total *= w->size[i];
  for (int64_t p = 0; p < total; p++) {
    int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0}, interior[TT_MAX_RANK] = {0}, rest = p, scale = 1, base = 0;
    hlo flat = NULL;
    for (int i = w->n - 1; i >= 0; i--) {
      int d = w->first + i;
      low[d] = rest % w->size[i] * w->dilation[i] - w->padding[i];
      interior[d] = w->stride[i] - 1;
      high[d] = in[d] - low[d] - (grad->dims[d] - 1) * w->stride[i] - 1;
      base += low[d] * scale;
      hlo along = hlo_iota(m, (tt_dtype)places->dtype, grad->rank, grad->dims, d);
      along = hlo_binary(m, "multiply", along, hlo_int(m, (tt_dtype)places->dtype, w->stride[i] * scale));
      flat = flat ? hlo_binary(m, "add", flat, along) : along;
      rest /= w->size[i], scale *= in[d];
    }
    flat = hlo_binary(m, "add", flat, hlo_int(m, (tt_dtype)places->dtype, base));
    hlo part = hlo_pad(m, hlo_select(m, hlo_compare(m, "EQ", places, flat), grad, zero), zero, low, high, interior);
    sum = sum ? hlo_binary(m, "add", sum, part) : part;
  }
  return sum;
}

/* (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices), adaptive (grad_output, self,
 * indices) */
void rule_max_pool_backward(tt_ctx *c) {
  hlo grad = tt_in(c, 0);
  if (!grad || give_blanks(c)) return;
  bool adaptive = strstr(c->op->hlo, "adaptive") != NULL;
  int n = c->op->hlo[0] - '0';
  int64_t plane = 1, total = 1;
  for (int d = grad->rank - n; d < grad->rank; d++) plane *= c->want[0].dims[d];
  hlo places = tt_in_as(c, adaptive ? 2 : 7, plane < INT32_MAX ? TT_I32 : TT_I64);
  if (adaptive) {
    c->result[0] = scattered(c, "add", grad, places, n);
    return;
  }
  windows w = windows_of(c, 2, grad->rank, true);
  for (int i = 0; i < n; i++) total *= w.size[i];
  c->result[0] = total <= FEW_PLACES ? laid_down(c, grad, places, &w) : scattered(c, "add", grad, places, n);
}

void rule_max_unpool(tt_ctx *c) { /* (self, indices, output_size, ..): each element goes where it came from */
  if (give_blanks(c)) return;
  int n = c->op->hlo[0] - '0';
  const tt_want *w = &c->want[0];
  int64_t plane = 1;
  char volumes[72] = "";
  for (int d = w->rank - n; d < w->rank; d++) {
    size_t used = strlen(volumes);
    plane *= w->dims[d];
    snprintf(volumes + used, sizeof volumes - used, "%s%lld", used ? "x" : "", (long long)w->dims[d]);
  }
  hlo places = tt_in_as(c, 1, TT_I64);
  tt_require_index(c, places, plane, false, TT_INVALID_ARGUMENT,
                   "Found an invalid max index: {} (output volumes are of size %s)", volumes);
  c->result[0] = scattered(c, "replace", tt_in(c, 0), places, n);
}
