/* read.c: a view's elements as a value, and what writing shares with reading.
 *
 * A box is cut out of the base in the base's own refined shape; other views whose elements do not overlap are cut out
 * of the flat base, run by run, padding each run to its stride; the rest is gathered. Then come transpose, reshape and
 * broadcast to the view's dims. Nothing is emitted that changes nothing. */
#include <string.h>

#include "view/layout.h"

/* ---- dtypes ---- */

hlo tt_view_retype(hlo_module *m, const view_layout *l, hlo base, tt_dtype t) {
  if (!base || base->dtype == t) return base;
  int64_t from = tt_dtype_bits((tt_dtype)base->dtype), to = tt_dtype_bits(t), ratio = to > from ? to / from : 1;
  if (ratio == 1) return hlo_bitcast(m, base, t);
  if (l->added) {
    hlo zero = hlo_float(m, (tt_dtype)base->dtype, 0);
    base = hlo_pad(m, hlo_flatten(m, base), zero, (int64_t[]){0}, &l->added, NULL);
  }
  int64_t dims[VIEW_BASE_RANK + 1];
  memcpy(dims, l->base_dims, (size_t)l->base_rank * sizeof *dims);
  dims[l->base_rank] = ratio;
  return hlo_bitcast(m, hlo_reshape(m, base, l->base_rank + 1, dims), t);
}

hlo tt_view_untype(hlo_module *m, const view_layout *l, hlo x, hlo base) {
  if (!x || !base || x->dtype == base->dtype) return x;
  x = hlo_bitcast(m, x, (tt_dtype)base->dtype);
  if (l->added) x = hlo_slice_dim(m, hlo_flatten(m, x), 0, 0, hlo_numel(base), 1);
  return hlo_reshape(m, x, base->rank, base->dims);
}

/* ---- places ---- */

static tt_dtype index_dtype(const view_layout *l) { return l->base_numel <= INT32_MAX ? TT_I32 : TT_I64; }

hlo tt_view_offset(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset) {
  return offset ? hlo_convert(m, offset, index_dtype(l)) : hlo_int(m, index_dtype(l), v->offset);
}

static hlo by_constant(hlo_module *m, const char *op, hlo x, int64_t n) {
  return x ? hlo_binary(m, op, x, hlo_int(m, (tt_dtype)x->dtype, n)) : NULL;
}

void tt_view_starts(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo *starts) {
  hlo o = NULL;
  bool first = true;
  for (int i = 0; i < l->n_box; i++) {
    const view_box_dim *d = &l->box[i];
    if (!d->moves || !offset) {
      starts[i] = hlo_int(m, index_dtype(l), d->start);
      continue;
    }
    if (!o) o = tt_view_offset(m, l, v, offset);
    starts[i] = d->stride > 1 ? by_constant(m, "divide", o, d->stride) : o;
    if (!first)
      starts[i] = by_constant(m, "remainder", starts[i], d->extent); /* no dim outside moves: it is in range */
    first = false;
  }
}

hlo tt_view_places(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset) {
  int64_t sizes[TT_MAX_RANK], strides[TT_MAX_RANK];
  int perm[TT_MAX_RANK];
  tt_view_order(l, perm);
  for (int i = 0; i < l->n_dims; i++) {
    sizes[i] = v->sizes[l->dims[perm[i]]];
    strides[i] = v->strides[l->dims[perm[i]]];
  }
  hlo sum = offset || v->offset ? tt_view_offset(m, l, v, offset) : NULL;
  for (int i = 0; i < l->n_dims; i++) {
    hlo along = hlo_iota(m, index_dtype(l), l->n_dims, sizes, i);
    if (strides[i] != 1) along = by_constant(m, "multiply", along, strides[i]);
    sum = sum ? hlo_binary(m, "add", along, sum) : along;
  }
  return sum;
}

bool tt_view_order(const view_layout *l, int *perm) {
  bool identity = true;
  for (int i = 0; i < l->n_dims; i++) { /* the i-th smallest of l->dims */
    for (int k = 0; k < l->n_dims; k++) {
      int smaller = 0;
      for (int j = 0; j < l->n_dims; j++) smaller += l->dims[j] < l->dims[k];
      if (smaller == i) perm[i] = k;
    }
    identity = identity && perm[i] == i;
  }
  return identity;
}

/* ---- cuts ---- */

hlo tt_view_cut(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x) {
  int64_t start[VIEW_BOX_RANK], limit[VIEW_BOX_RANK], size[VIEW_BOX_RANK];
  for (int i = 0; i < l->n_box; i++) {
    const view_box_dim *d = &l->box[i];
    size[i] = d->step * (d->size - 1) + 1;
    start[i] = d->start;
    limit[i] = d->start + size[i];
  }
  if (l->kind != TT_VIEW_BOX || !offset) return hlo_slice(m, x, start, limit, NULL);
  hlo starts[VIEW_BOX_RANK];
  tt_view_starts(m, l, v, offset, starts);
  return hlo_dynamic_slice(m, x, starts, size);
}

hlo tt_view_cut_flat(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x, int64_t n) {
  x = hlo_flatten(m, x);
  if (!offset) return hlo_slice_dim(m, x, 0, v->offset, v->offset + n, 1);
  hlo start = tt_view_offset(m, l, v, offset);
  return hlo_dynamic_slice(m, x, &start, &n);
}

static hlo read_box(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x) {
  int64_t extents[VIEW_BOX_RANK], start[VIEW_BOX_RANK], limit[VIEW_BOX_RANK], step[VIEW_BOX_RANK];
  bool fixed = l->kind != TT_VIEW_BOX || !offset;
  for (int i = 0; i < l->n_box; i++) {
    const view_box_dim *d = &l->box[i];
    extents[i] = d->extent;
    start[i] = fixed ? d->start : 0;
    limit[i] = start[i] + d->step * (d->size - 1) + 1;
    step[i] = d->step;
  }
  x = hlo_reshape(m, x, l->n_box, extents);
  if (!fixed) x = tt_view_cut(m, l, v, offset, x);
  return hlo_slice(m, x, start, limit, step);
}

/* One run after the other, from the outer: [..., what is left] becomes [..., size, stride], cut to what is left then.
 */
static hlo read_flat(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x) {
  int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0}, dims[TT_MAX_RANK + 1], left = 1;
  for (int j = 0; j < l->n_runs; j++) left += (l->runs[j].size - 1) * l->runs[j].stride;
  x = tt_view_cut_flat(m, l, v, offset, x, left);
  for (int j = 0; j < l->n_runs; j++) {
    int64_t size = l->runs[j].size, stride = l->runs[j].stride, inner = left - (size - 1) * stride;
    if (j == l->n_runs - 1) return hlo_slice_dim(m, x, j, 0, left, stride);
    high[j] = size * stride - left;
    x = hlo_pad(m, x, hlo_float(m, (tt_dtype)v->dtype, 0), low, high, NULL);
    high[j] = 0;
    dims[j] = size;
    dims[j + 1] = stride;
    x = hlo_slice_dim(m, hlo_reshape(m, x, j + 2, dims), j + 1, 0, inner, 1);
    left = inner;
  }
  return x;
}

static hlo read_gather(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x) {
  hlo_gather_dims d = {.n_collapsed = 1, .n_start = 1, .index_vector_dim = l->n_dims, .collapsed = (int[]){0},
                       .start_index_map = (int[]){0}, .slice_sizes = (int64_t[]){1}};
  return hlo_gather(m, hlo_flatten(m, x), tt_view_places(m, l, v, offset), &d);
}

/* From the order of decreasing strides (in_order: from the view's own) to the view's dims. */
static hlo arrange(hlo_module *m, const view_layout *l, const tt_view *v, bool in_order, hlo x) {
  int perm[TT_MAX_RANK], where[TT_MAX_RANK];
  int64_t sizes[TT_MAX_RANK] = {0};
  bool identity = tt_view_order(l, perm) || in_order;
  if (identity && !l->repeats) return hlo_reshape(m, x, v->rank, v->sizes);
  if (!in_order) {
    for (int k = 0; k < l->n_dims; k++) sizes[k] = v->sizes[l->dims[k]];
    x = hlo_reshape(m, x, l->n_dims, sizes);
    if (!identity) x = hlo_transpose(m, x, perm);
  }
  if (!l->repeats) return hlo_reshape(m, x, v->rank, v->sizes);
  for (int i = 0; i < l->n_dims; i++) where[i] = l->dims[perm[i]];
  return hlo_broadcast(m, x, v->rank, v->sizes, where);
}

hlo tt_view_read(hlo_module *m, hlo base, const tt_view *v, hlo offset) {
  if (!base || hlo_failed(m)) return NULL;
  view_layout l;
  tt_view_layout_make(&l, v, (tt_dtype)base->dtype, base->rank, base->dims);
  if (l.kind == TT_VIEW_WHOLE) return base;
  if (l.empty) return hlo_full(m, (tt_dtype)v->dtype, v->rank, v->sizes, 0);
  hlo x = tt_view_retype(m, &l, base, (tt_dtype)v->dtype);
  if (l.kind == TT_VIEW_COVER) return arrange(m, &l, v, false, x);
  if (l.kind != TT_VIEW_ANY) return arrange(m, &l, v, false, read_box(m, &l, v, offset, x));
  if (l.nested) return arrange(m, &l, v, false, read_flat(m, &l, v, offset, x));
  return arrange(m, &l, v, true, read_gather(m, &l, v, offset, x));
}
