/* classify.c: works out how a view lies in its base.
 *
 * Going from the innermost dim outwards, a run either fits in the current base dim, or fills it and goes on in the
 * next, or steps over it; where it does none of these the dim is merged with the next one, and where a second run
 * begins inside a dim the dim is split there. What cannot be split so is TT_VIEW_ANY. No value is made here. */
#include <string.h>

#include "view/layout.h"

/* ---- strides ---- */

void tt_strides_contiguous(int rank, const int64_t *sizes, int64_t *strides) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= sizes[i] > 1 ? sizes[i] : 1;
  }
}

int64_t tt_view_extent(int rank, const int64_t *sizes, const int64_t *strides) {
  int64_t last = 0;
  for (int i = 0; i < rank; i++) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

bool tt_strides_dense(int rank, const int64_t *sizes, const int64_t *strides, int *perm) {
  /* Dims of size 1 keep their places; the others are sorted among themselves by decreasing stride. */
  int large[TT_MAX_RANK], n = 0;
  for (int i = 0; i < rank; i++) perm[i] = i;
  for (int i = 0; i < rank; i++) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    int k = n++;
    for (; k > 0 && strides[large[k - 1]] < strides[i]; k--) large[k] = large[k - 1];
    large[k] = i;
  }
  for (int i = 0, k = 0; i < rank; i++)
    if (sizes[i] != 1) perm[i] = large[k++];
  int64_t expected = 1;
  for (int k = n - 1; k >= 0; k--) {
    if (strides[large[k]] != expected) return false;
    expected *= sizes[large[k]];
  }
  return true;
}

/* ---- the base in the view's dtype ---- */

static void retyped_dims(view_layout *l, tt_dtype t, tt_dtype base_dtype, int rank, const int64_t *dims) {
  int64_t from = tt_dtype_bits(base_dtype), to = tt_dtype_bits(t), numel = 1;
  for (int i = 0; i < rank; i++) numel *= dims[i];
  l->base_rank = rank;
  if (rank) memcpy(l->base_dims, dims, (size_t)rank * sizeof *dims);
  if (from >= to) {
    if (from > to) l->base_dims[l->base_rank++] = from / to;
  } else if (rank && dims[rank - 1] % (to / from) == 0) {
    l->base_dims[rank - 1] /= to / from;
    if (l->base_dims[rank - 1] == 1) l->base_rank--; /* view_as_complex drops the pair's dim */
  } else {
    int64_t n = (numel + to / from - 1) / (to / from);
    l->base_rank = 1;
    l->base_dims[0] = n;
    l->added = n * (to / from) - numel;
  }
  l->base_numel = 1;
  for (int i = 0; i < l->base_rank; i++) l->base_numel *= l->base_dims[i];
}

/* ---- runs ---- */

static void find_runs(view_layout *l, const tt_view *v) {
  for (int i = 0; i < v->rank; i++) {
    if (v->sizes[i] == 0) l->empty = true;
    if (v->sizes[i] <= 1) continue;
    if (v->strides[i] == 0) {
      l->repeats = true;
      continue;
    }
    int k = l->n_dims++;
    for (; k > 0 && v->strides[l->dims[k - 1]] < v->strides[i]; k--) l->dims[k] = l->dims[k - 1];
    l->dims[k] = i;
  }
  for (int k = 0; k < l->n_dims; k++) {
    int64_t size = v->sizes[l->dims[k]], stride = v->strides[l->dims[k]];
    view_run *outer = l->n_runs ? &l->runs[l->n_runs - 1] : NULL;
    if (outer && outer->stride == stride * size) *outer = (view_run){outer->size * size, stride};
    else l->runs[l->n_runs++] = (view_run){size, stride};
  }
  l->nested = true;
  int64_t extent = 1;
  for (int j = l->n_runs - 1; j >= 0; j--) {
    if (l->runs[j].stride < extent) l->nested = false;
    extent += (l->runs[j].size - 1) * l->runs[j].stride;
  }
}

/* ---- the box ---- */

typedef struct cursor {
  const view_layout *l;
  int next;               /* the base's dim outside the current one */
  int64_t extent, stride; /* the current dim; extent 0: there is none left */
} cursor;

static void advance(cursor *c) {
  c->stride *= c->extent;
  c->extent = 0;
  while (c->next >= 0 && !c->extent) {
    int64_t dim = c->l->base_dims[c->next--];
    if (dim > 1) c->extent = dim;
  }
}

static bool merge(cursor *c) {
  while (c->next >= 0) {
    int64_t dim = c->l->base_dims[c->next--];
    c->extent *= dim;
    if (dim > 1) return true;
  }
  return false;
}

static void push(view_layout *l, const cursor *c, int64_t extent, int64_t size, int64_t step) {
  l->box[l->n_box++] = (view_box_dim){.extent = extent, .stride = c->stride, .size = size, .step = step,
                                      .moves = extent - step * (size - 1) > 1};
}

/* Fills the box from the inner dim to the outer. False if the runs do not lie so. */
static bool refine(view_layout *l) {
  cursor c = {.l = l, .next = l->base_rank - 1, .extent = 1, .stride = 1};
  advance(&c);
  for (int j = l->n_runs - 1; j >= 0;) {
    view_run *run = &l->runs[j];
    int64_t size = run->size, outside = j ? l->runs[j - 1].stride : INT64_MAX;
    /* A run that fills its dim and goes on is cut; what is left of it is remembered by what it began with. */
    for (int64_t stride = run->stride;;) {
      if (!c.extent || stride % c.stride) return false;
      int64_t step = stride / c.stride;
      if (step >= c.extent) { /* the dim has one place of the view */
        if (step % c.extent) {
          if (!merge(&c)) return false;
          continue;
        }
        push(l, &c, c.extent, 1, 1);
        advance(&c);
        continue;
      }
      if (step * (size - 1) >= c.extent) {
        int64_t inside = c.extent / step;
        if (c.extent % step == 0 && size % inside == 0) {
          push(l, &c, c.extent, inside, step);
          size /= inside;
          stride = c.stride * c.extent;
          advance(&c);
        } else if (!merge(&c)) {
          return false;
        }
        continue;
      }
      if (outside / c.stride >= c.extent) {
        push(l, &c, c.extent, size, step);
        advance(&c);
      } else { /* the next run begins inside this dim */
        int64_t inner = outside / c.stride;
        if (outside % c.stride || c.extent % inner || step * (size - 1) >= inner) return false;
        push(l, &c, inner, size, step);
        c.extent /= inner;
        c.stride *= inner;
      }
      break;
    }
    j--;
  }
  for (; c.extent; advance(&c)) push(l, &c, c.extent, 1, 1);
  for (int i = 0, k = l->n_box - 1; i < k; i++, k--) {
    view_box_dim d = l->box[i];
    l->box[i] = l->box[k];
    l->box[k] = d;
  }
  return true;
}

/* ---- the class ---- */

static bool is_whole(const tt_view *v, tt_dtype base_dtype, int base_rank, const int64_t *base_dims) {
  if (v->dtype != base_dtype || v->rank != base_rank || v->offset) return false;
  int64_t stride = 1;
  bool empty = false, contiguous = true;
  for (int i = v->rank - 1; i >= 0; i--) {
    if (v->sizes[i] != base_dims[i]) return false;
    if (v->sizes[i] == 0) empty = true;
    if (v->sizes[i] != 1 && v->strides[i] != stride) contiguous = false;
    stride *= v->sizes[i];
  }
  return contiguous || empty;
}

void tt_view_layout_make(view_layout *l, const tt_view *v, tt_dtype base_dtype, int base_rank,
                         const int64_t *base_dims) {
  memset(l, 0, offsetof(view_layout, box));
  retyped_dims(l, (tt_dtype)v->dtype, base_dtype, base_rank, base_dims);
  find_runs(l, v);
  if (is_whole(v, base_dtype, base_rank, base_dims)) {
    l->kind = TT_VIEW_WHOLE;
    return;
  }
  if (l->empty) {
    l->kind = TT_VIEW_FIXED;
    return;
  }
  l->kind = TT_VIEW_ANY;
  if (!l->nested || v->offset < 0 || v->offset >= l->base_numel || !refine(l)) return;
  bool covers = !l->repeats && !l->added, moves = false;
  for (int i = 0; i < l->n_box; i++) {
    view_box_dim *d = &l->box[i];
    d->start = v->offset / d->stride % d->extent;
    if (d->start + d->step * (d->size - 1) >= d->extent) return;
    covers = covers && d->size == d->extent;
    moves = moves || d->moves;
  }
  l->kind = moves ? TT_VIEW_BOX : covers ? TT_VIEW_COVER : TT_VIEW_FIXED;
}

tt_view_class tt_view_classify(const tt_view *v, tt_dtype base_dtype, int base_rank, const int64_t *base_dims) {
  view_layout l;
  tt_view_layout_make(&l, v, base_dtype, base_rank, base_dims);
  return l.kind;
}

bool tt_view_needs_offset(tt_view_class c) { return c == TT_VIEW_BOX || c == TT_VIEW_ANY; }
