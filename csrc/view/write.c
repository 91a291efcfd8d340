/* write.c: a base with a view's elements replaced: reading backwards.
 *
 * A view that covers the base gives it all its elements, and the old ones are not read. A box is put into its place;
 * where it has steps, the elements between are kept by a mask. Other views without overlap are put into the flat base
 * run by run; only overlapping ones are scattered. Where a dim repeats elements, the first of its values is the one
 * written. */
#include <string.h>

#include "view/layout.h"

/* The value's elements once each, in the order of decreasing strides, in any shape; in the view's own order if
 * in_order. */
static hlo collect(hlo_module *m, const view_layout *l, const tt_view *v, bool in_order, hlo value) {
  int perm[TT_MAX_RANK], inverse[TT_MAX_RANK];
  int64_t zeros[TT_MAX_RANK] = {0}, limit[TT_MAX_RANK], sizes[TT_MAX_RANK];
  for (int i = 0; i < v->rank; i++) limit[i] = v->strides[i] == 0 ? 1 : v->sizes[i];
  value = hlo_slice(m, value, zeros, limit, NULL);
  bool identity = tt_view_order(l, perm);
  if (identity && !in_order) return value;
  for (int i = 0; i < l->n_dims; i++) {
    inverse[perm[i]] = i;
    sizes[i] = v->sizes[l->dims[perm[i]]];
  }
  value = hlo_reshape(m, value, l->n_dims, sizes);
  return in_order ? value : hlo_transpose(m, value, inverse);
}

/* old where a dim's index is no multiple of its step, else value; old has (n - 1) * step + 1 elements per dim. */
static hlo interleave(hlo_module *m, hlo old, hlo value, int rank, const int64_t *step) {
  int64_t zeros[VIEW_BOX_RANK] = {0}, between[VIEW_BOX_RANK];
  hlo mask = NULL;
  for (int i = 0; i < rank; i++) {
    between[i] = step[i] - 1;
    if (step[i] == 1 || !old || old->dims[i] == 1) continue;
    hlo along = hlo_iota(m, old->dims[i] <= INT32_MAX ? TT_I32 : TT_I64, old->rank, old->dims, i);
    hlo here =
        hlo_compare(m, "EQ", hlo_binary_scalar(m, "remainder", along, (double)step[i]), hlo_full_like(m, along, 0));
    mask = mask ? hlo_binary(m, "and", mask, here) : here;
  }
  if (!mask) return value;
  hlo spread = hlo_pad(m, value, hlo_float(m, (tt_dtype)old->dtype, 0), zeros, zeros, between);
  return hlo_select(m, mask, spread, old);
}

static hlo write_box(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x, hlo value) {
  int64_t extents[VIEW_BOX_RANK], sizes[VIEW_BOX_RANK], step[VIEW_BOX_RANK];
  hlo starts[VIEW_BOX_RANK];
  bool steps = false;
  for (int i = 0; i < l->n_box; i++) {
    extents[i] = l->box[i].extent;
    sizes[i] = l->box[i].size;
    step[i] = l->box[i].step;
    steps = steps || step[i] > 1;
  }
  x = hlo_reshape(m, x, l->n_box, extents);
  value = hlo_reshape(m, value, l->n_box, sizes);
  if (steps) value = interleave(m, tt_view_cut(m, l, v, offset, x), value, l->n_box, step);
  tt_view_starts(m, l, v, offset, starts);
  return hlo_dynamic_update_slice(m, x, value, starts);
}

/* The old contents are taken apart as reading does, and put together again around the value. */
static hlo write_flat(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x, hlo value) {
  int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0}, dims[TT_MAX_RANK + 1], lengths[TT_MAX_RANK + 1], left = 1;
  int64_t steps[TT_MAX_RANK];
  hlo outside[TT_MAX_RANK]; /* at each run, what lies between its elements */
  int last = l->n_runs - 1;
  for (int j = 0; j <= last; j++) left += (l->runs[j].size - 1) * l->runs[j].stride;
  x = hlo_flatten(m, x);
  hlo part = tt_view_cut_flat(m, l, v, offset, x, left);
  for (int j = 0; j < last; j++) {
    int64_t size = l->runs[j].size, stride = l->runs[j].stride, inner = left - (size - 1) * stride;
    high[j] = size * stride - left;
    part = hlo_pad(m, part, hlo_float(m, (tt_dtype)v->dtype, 0), low, high, NULL);
    high[j] = 0;
    dims[j] = size;
    dims[j + 1] = stride;
    part = hlo_reshape(m, part, j + 2, dims);
    outside[j] = inner < stride ? hlo_slice_dim(m, part, j + 1, inner, stride, 1) : NULL;
    part = hlo_slice_dim(m, part, j + 1, 0, inner, 1);
    lengths[j] = left;
    left = inner;
  }
  for (int j = 0; j <= last; j++) dims[j] = l->runs[j].size, steps[j] = 1;
  value = hlo_reshape(m, value, l->n_runs, dims);
  if (last >= 0) {
    steps[last] = l->runs[last].stride;
    value = interleave(m, part, value, l->n_runs, steps);
  }
  for (int j = last - 1; j >= 0; j--) {
    if (outside[j]) value = hlo_concat(m, 2, (hlo[]){value, outside[j]}, j + 1);
    dims[j] = l->runs[j].size * l->runs[j].stride;
    value = hlo_slice_dim(m, hlo_reshape(m, value, j + 1, dims), j, 0, lengths[j], 1);
    dims[j] = l->runs[j].size;
  }
  hlo start = tt_view_offset(m, l, v, offset);
  return hlo_dynamic_update_slice(m, x, hlo_flatten(m, value), &start);
}

static hlo write_scatter(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x, hlo value) {
  hlo_scatter_dims d = {.n_inserted = 1, .n_scatter = 1, .index_vector_dim = l->n_dims, .inserted = (int[]){0},
                        .scatter_to_operand = (int[]){0}};
  return hlo_scatter(m, "replace", hlo_flatten(m, x), tt_view_places(m, l, v, offset), value, &d);
}

hlo tt_view_write(hlo_module *m, hlo base, const tt_view *v, hlo offset, hlo value) {
  if (!base || !value || hlo_failed(m)) return NULL;
  bool fits = value->dtype == v->dtype && value->rank == v->rank;
  for (int i = 0; fits && i < v->rank; i++) fits = value->dims[i] == v->sizes[i];
  if (!fits)
    return hlo_fail(m, TT_INTERNAL,
                    "view write: the value is not of the view's dtype and sizes (%s of rank %d, got %s of rank %d)",
                    tt_dtype_hlo((tt_dtype)v->dtype), v->rank, tt_dtype_hlo((tt_dtype)value->dtype), value->rank);
  view_layout l;
  tt_view_layout_make(&l, v, (tt_dtype)base->dtype, base->rank, base->dims);
  if (l.kind == TT_VIEW_WHOLE) return value;
  if (l.empty) return base;
  bool scattered = l.kind == TT_VIEW_ANY && !l.nested;
  value = collect(m, &l, v, scattered, value);
  if (l.kind == TT_VIEW_COVER) return tt_view_untype(m, &l, hlo_reshape(m, value, l.base_rank, l.base_dims), base);
  hlo x = tt_view_retype(m, &l, base, (tt_dtype)v->dtype);
  if (l.kind != TT_VIEW_ANY) x = write_box(m, &l, v, offset, x, value);
  else if (l.nested) x = write_flat(m, &l, v, offset, x, value);
  else x = write_scatter(m, &l, v, offset, x, value);
  return tt_view_untype(m, &l, hlo_reshape(m, x, l.base_rank, l.base_dims), base);
}
