/* pad.c: padding by constants, reflections and edges, sliding windows as copies, and the gradients of all of them.
 *
 * Each dim is treated by itself, so that the program grows with the number of dims and not with the number of places. A
 * gradient is the transposed walk: parts of what was padded are added back where they came from. */
#include "ops/index.h"
#include "ops/resample.h"
#include "ops/rules.h"

static hlo zero_of(hlo x, hlo_module *m) { return x ? hlo_int(m, x->dtype, 0) : NULL; }

/* x with low and high places more (fewer, where negative) along dim, interior ones between each two. */
static hlo padded(hlo_module *m, hlo x, hlo value, int dim, int64_t low, int64_t high, int64_t interior) {
  int64_t lows[TT_MAX_RANK] = {0}, highs[TT_MAX_RANK] = {0}, interiors[TT_MAX_RANK] = {0};
  lows[dim] = low, highs[dim] = high, interiors[dim] = interior;
  return hlo_pad(m, x, value, lows, highs, interiors);
}

static bool nothing_wanted(tt_ctx *c) {
  for (int i = 0; i < c->want[0].rank; i++)
    if (c->want[0].dims[i] == 0) return true;
  return false;
}

void rule_constant_pad(tt_ctx *c) { /* (self, pad, value): pairs from the last dim backwards */
  hlo x = tt_in(c, 0);
  int64_t pairs[2 * TT_MAX_RANK], low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0};
  int n = tt_ints(c, 1, pairs, 2 * TT_MAX_RANK);
  if (!x) return;
  for (int i = 0; i < n / 2; i++) low[x->rank - 1 - i] = pairs[2 * i], high[x->rank - 1 - i] = pairs[2 * i + 1];
  c->result[0] = hlo_pad(c->m, x, tt_in_as(c, 2, x->dtype), low, high, NULL);
}

/* ---- one dim padded by its own elements ---- */
static int64_t positive(int64_t v) { return v > 0 ? v : 0; }

static hlo crop(hlo_module *m, hlo x, int dim, int64_t low, int64_t high) {
  return padded(m, x, zero_of(x, m), dim, low < 0 ? low : 0, high < 0 ? high : 0, 0);
}

static hlo reflect(hlo_module *m, hlo x, int dim, int64_t low, int64_t high) {
  x = crop(m, x, dim, low, high);
  if (!x) return NULL;
  int64_t n = x->dims[dim];
  hlo parts[3];
  int k = 0;
  if (low > 0) parts[k++] = hlo_reverse(m, hlo_slice_dim(m, x, dim, 1, low + 1, 1), 1, &dim);
  parts[k++] = x;
  if (high > 0) parts[k++] = hlo_reverse(m, hlo_slice_dim(m, x, dim, n - 1 - high, n - 1, 1), 1, &dim);
  return hlo_concat(m, k, parts, dim);
}

static hlo replicate(hlo_module *m, hlo x, int dim, int64_t low, int64_t high) {
  x = crop(m, x, dim, low, high);
  if (!x) return NULL;
  int64_t n = x->dims[dim], dims[TT_MAX_RANK];
  hlo parts[3];
  int k = 0;
  for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[dim] = positive(low);
  if (low > 0) parts[k++] = hlo_broadcast_to(m, hlo_slice_dim(m, x, dim, 0, 1, 1), x->rank, dims);
  parts[k++] = x;
  dims[dim] = positive(high);
  if (high > 0) parts[k++] = hlo_broadcast_to(m, hlo_slice_dim(m, x, dim, n - 1, n, 1), x->rank, dims);
  return hlo_concat(m, k, parts, dim);
}

/* Where the padded dim reads, place by place: for the rare case that a margin shows what was cropped on the other side.
 */
static tt_line *walk(hlo_module *m, int64_t n, int64_t low, int64_t high, bool reflected) {
  tt_line *l = tt_line_create(m, n, n + low + high, 1);
  for (int64_t o = 0; l && o < l->out; o++) {
    int64_t at = o - low;
    if (reflected) at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
    l->at[o] = at < 0 ? 0 : at >= n ? n - 1 : at;
  }
  return l;
}

static bool shows_cropped(int64_t kept, int64_t low, int64_t high, bool reflected) {
  return kept < 1 || (reflected && (low >= kept || high >= kept));
}

/* The gradient of reflect and replicate: the middle, and both margins folded back onto it. */
static hlo fold_back(hlo_module *m, hlo grad, int dim, int64_t low, int64_t high, bool reflected) {
  if (!grad) return NULL;
  hlo zero = zero_of(grad, m);
  int64_t left = positive(low), right = positive(high), kept = grad->dims[dim] - left - right;
  if (shows_cropped(kept, low, high, reflected))
    return tt_line_apply(m, grad, dim,
                         tt_line_transpose(m, walk(m, grad->dims[dim] - low - high, low, high, reflected)));
  hlo sum = hlo_slice_dim(m, grad, dim, left, left + kept, 1);
  for (int side = 0; side < 2; side++) {
    int64_t size = side ? right : left;
    if (size == 0) continue;
    hlo margin = hlo_slice_dim(m, grad, dim, side ? left + kept : 0, side ? left + kept + right : left, 1);
    int64_t at, width;
    if (reflected) {
      margin = hlo_reverse(m, margin, 1, &dim);
      width = size, at = side ? kept - 1 - size : 1;
    } else {
      margin = hlo_unsqueeze(m, hlo_reduce(m, "add", margin, zero, 1, &dim), dim);
      width = 1, at = side ? kept - 1 : 0;
    }
    sum = hlo_binary(m, "add", sum, padded(m, margin, zero, dim, at, kept - at - width, 0));
  }
  return padded(m, sum, zero, dim, low < 0 ? -low : 0, high < 0 ? -high : 0, 0);
}

void rule_edge_pad(tt_ctx *c) { /* (self, padding); hlo "reflect" or "replicate" */
  hlo x = tt_in(c, 0);
  int64_t pairs[6];
  int n = tt_ints(c, 1, pairs, 6), rank = tt_in_rank(c, 0);
  if (nothing_wanted(c)) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  bool reflected = c->op->hlo[2] == 'f';
  for (int i = 0; x && i < n / 2; i++) {
    int dim = rank - 1 - i;
    int64_t low = pairs[2 * i], high = pairs[2 * i + 1], kept = x->dims[dim] - positive(-low) - positive(-high);
    if (shows_cropped(kept, low, high, reflected))
      x = tt_line_apply(c->m, x, dim, walk(c->m, x->dims[dim], low, high, reflected));
    else x = (reflected ? reflect : replicate)(c->m, x, dim, low, high);
  }
  c->result[0] = x;
}

void rule_edge_pad_backward(tt_ctx *c) { /* (grad_output, self, padding) */
  hlo x = tt_in(c, 0);
  int64_t pairs[6];
  int n = tt_ints(c, 2, pairs, 6), rank = tt_in_rank(c, 0);
  if (nothing_wanted(c)) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  bool reflected = c->op->hlo[2] == 'f';
  for (int i = 0; i < n / 2; i++)
    x = fold_back(c->m, x, rank - 1 - i, pairs[2 * i], pairs[2 * i + 1], reflected);
  c->result[0] = x;
}

/* ---- windows that slide along a dim ---- */
/* dim becomes [size, count]: window w holds, at k, what stood at w * step + k * dilation. */
static hlo windows(hlo_module *m, hlo x, int dim, int64_t size, int64_t count, int64_t step, int64_t dilation) {
  if (!x) return NULL;
  hlo *parts = hlo_alloc(m, (size_t)(size + 1) * sizeof *parts);
  if (!parts) return NULL;
  for (int64_t k = 0; k < size; k++) {
    int64_t start = k * dilation;
    parts[k] = hlo_unsqueeze(m, hlo_slice_dim(m, x, dim, start, start + (count - 1) * step + 1, step), dim);
  }
  return hlo_concat(m, (int)size, parts, dim);
}

/* The transpose of windows: [size, count] at dim, dim + 1 added up into n places. */
static hlo from_windows(hlo_module *m, hlo x, int dim, int64_t n, int64_t step, int64_t dilation) {
  if (!x) return NULL;
  int64_t size = x->dims[dim], count = x->dims[dim + 1];
  hlo sum = NULL;
  for (int64_t k = 0; k < size; k++) {
    hlo part = hlo_squeeze_dim(m, hlo_slice_dim(m, x, dim, k, k + 1, 1), dim);
    int64_t start = k * dilation;
    part = padded(m, part, zero_of(part, m), dim, start, n - start - (count - 1) * step - 1, step - 1);
    sum = sum ? hlo_binary(m, "add", sum, part) : part;
  }
  return sum;
}

typedef struct geometry { int64_t kernel[2], dilation[2], padding[2], stride[2], blocks[2], padded[2]; } geometry;

static void read_pair(tt_ctx *c, int i, int64_t *pair) {
  if (tt_ints(c, i, pair, 2) == 1) pair[1] = pair[0];
}

static geometry geometry_of(tt_ctx *c, int first, const int64_t *image) {
  geometry g = {0};
  read_pair(c, first, g.kernel);
  read_pair(c, first + 1, g.dilation);
  read_pair(c, first + 2, g.padding);
  read_pair(c, first + 3, g.stride);
  for (int i = 0; i < 2; i++) {
    g.padded[i] = image[i] + 2 * g.padding[i];
    g.blocks[i] = g.stride[i] > 0 ? (g.padded[i] - g.dilation[i] * (g.kernel[i] - 1) - 1) / g.stride[i] + 1 : 0;
  }
  return g;
}

void rule_im2col(tt_ctx *c) { /* (self, kernel_size, dilation, padding, stride): C, H, W -> C kh kw, blocks */
  hlo x = tt_in(c, 0);
  if (!x) return;
  if (nothing_wanted(c)) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int height = x->rank - 2;
  geometry g = geometry_of(c, 1, x->dims + height);
  hlo zero = zero_of(x, c->m);
  x = padded(c->m, x, zero, height, g.padding[0], g.padding[0], 0);
  x = padded(c->m, x, zero, height + 1, g.padding[1], g.padding[1], 0);
  x = windows(c->m, x, height, g.kernel[0], g.blocks[0], g.stride[0], g.dilation[0]);
  x = windows(c->m, x, height + 2, g.kernel[1], g.blocks[1], g.stride[1], g.dilation[1]); /* .. C kh bh kw bw */
  if (!x) return;
  int perm[TT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) perm[i] = i;
  perm[height + 1] = height + 2, perm[height + 2] = height + 1;
  c->result[0] = hlo_reshape(c->m, hlo_transpose(c->m, x, perm), c->want[0].rank, c->want[0].dims);
}

void rule_col2im(tt_ctx *c) { /* (self, output_size, kernel_size, dilation, padding, stride) */
  hlo x = tt_in(c, 0);
  const tt_want *w = &c->want[0];
  if (!x) return;
  if (nothing_wanted(c) || hlo_numel(x) == 0) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int height = w->rank - 2, perm[TT_MAX_RANK];
  geometry g = geometry_of(c, 2, w->dims + height);
  int64_t dims[TT_MAX_RANK];
  for (int i = 0; i < height; i++) dims[i] = w->dims[i];
  for (int i = 0; i < height + 4; i++) perm[i] = i;
  for (int i = 0; i < 2; i++) dims[height + i] = g.kernel[i], dims[height + 2 + i] = g.blocks[i];
  perm[height + 1] = height + 2, perm[height + 2] = height + 1;
  x = hlo_transpose(c->m, hlo_reshape(c->m, x, height + 4, dims), perm);
  x = from_windows(c->m, x, height + 2, g.padded[1], g.stride[1], g.dilation[1]);
  x = from_windows(c->m, x, height, g.padded[0], g.stride[0], g.dilation[0]);
  for (int i = 0; i < 2; i++) x = padded(c->m, x, zero_of(x, c->m), height + i, -g.padding[i], -g.padding[i], 0);
  c->result[0] = x;
}

void rule_unfold_copy(tt_ctx *c) { /* (self, dimension, size, step): windows along a dim, their places as a last dim */
  hlo x = tt_in(c, 0);
  int64_t one = 1, size = tt_int(c, 2, 1), step = tt_int(c, 3, 1);
  if (!x) return;
  if (nothing_wanted(c)) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int dim = x->rank ? tt_dim(c, 1, x->rank, 0) : 0, perm[TT_MAX_RANK], n = 0;
  bool scalar = x->rank == 0;
  if (scalar) x = hlo_reshape(c->m, x, 1, &one);
  int64_t count = (x->dims[dim] - size) / step + 1;
  x = windows(c->m, x, dim, size, count, step, 1);
  if (!x) return;
  for (int i = 0; i < x->rank; i++)
    if (i != dim) perm[n++] = i;
  perm[n] = dim;
  c->result[0] = hlo_reshape(c->m, hlo_transpose(c->m, x, perm), c->want[0].rank, c->want[0].dims);
}

/* (grad_in, input_sizes, dim, size, step). Windows are cut into pieces of step places; piece p of all windows in a row
 * is one run of places, so size / step additions do, however long the windows are. */
void rule_unfold_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  hlo grad = tt_in(c, 0);
  if (!grad) return;
  if (nothing_wanted(c) || hlo_numel(grad) == 0) {
    c->result[0] = tt_want_zeros(c, 0);
    return;
  }
  int rank = w->rank, dim = rank ? tt_dim(c, 2, rank, 0) : 0, perm[TT_MAX_RANK + 1], n = 0;
  int64_t size = tt_int(c, 3, 1), step = tt_int(c, 4, 1);
  if (rank == 0) {
    c->result[0] = hlo_reshape(m, grad, 0, NULL);
    return;
  }
  int64_t whole[TT_MAX_RANK + 1];
  for (int i = 0; i < rank; i++) {
    perm[n++] = i;
    if (i == dim) perm[n++] = rank;
    whole[i] = i == dim ? grad->dims[dim] : w->dims[i];
  }
  whole[rank] = grad->dims[rank];
  grad = hlo_broadcast_to(m, grad, rank + 1, whole); /* torch's decomposition of istft gives a window for all rows */
  hlo x = hlo_transpose(m, grad, perm), zero = zero_of(grad, m); /* .., count, size, .. */
  if (!x) return;
  int64_t count = x->dims[dim], pieces = (size + step - 1) / step, length = w->dims[dim], dims[TT_MAX_RANK];
  x = padded(m, x, zero, dim + 1, 0, pieces * step - size, 0);
  for (int i = 0; i < rank; i++) dims[i] = i == dim ? count * step : w->dims[i];
  hlo sum = NULL;
  for (int64_t p = 0; p < pieces; p++) {
    hlo run = hlo_reshape(m, hlo_slice_dim(m, x, dim + 1, p * step, (p + 1) * step, 1), rank, dims);
    run = padded(m, run, zero, dim, p * step, length - (p + count) * step, 0);
    sum = sum ? hlo_binary(m, "add", sum, run) : run;
  }
  c->result[0] = sum;
}
