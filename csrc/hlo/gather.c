/* gather.c: gather and scatter: reads and writes at computed places.
 *
 * Dimension numbers are StableHLO's own; result and update dims follow from them and are checked here. Places out of
 * range are clamped by a gather and dropped by a scatter: callers that want something else compute it. */
#include "hlo/module.h"

static bool contains(int n, const int *list, int v) {
  for (int i = 0; i < n; i++)
    if (list[i] == v) return true;
  return false;
}

/* ", name = [..]" inside #stablehlo.gather<...>, nothing if the list is empty. */
static void put_numbers(hlo_module *m, const char *name, int n, const int *v) {
  if (n == 0) return;
  hlo_put(m, name);
  hlo_put_list32(m, " = ", n, v);
  hlo_put(m, ", ");
}

/* The dims of indices without the one that holds index vectors. Returns how many, or -1. */
static int batch_dims(hlo_module *m, const char *op, hlo indices, int index_vector_dim, int n_index, int64_t *out) {
  int n = 0;
  if (indices->dtype < TT_U8 || indices->dtype > TT_I64)
    return hlo_fail(m, TT_INTERNAL, "hlo %s: expected integer indices, got %s", op, tt_dtype_hlo(indices->dtype)), -1;
  if (!hlo_check_dim(m, op, index_vector_dim, indices->rank + 1)) return -1;
  int64_t length = index_vector_dim < indices->rank ? indices->dims[index_vector_dim] : 1;
  if (length != n_index)
    return hlo_fail(m, TT_INTERNAL, "hlo %s: expected index vectors of %d, got %lld", op, n_index, (long long)length),
           -1;
  for (int i = 0; i < indices->rank; i++)
    if (i != index_vector_dim) out[n++] = indices->dims[i];
  return n;
}

hlo hlo_gather(hlo_module *m, hlo x, hlo indices, const hlo_gather_dims *d) {
  hlo xs[] = {x, indices};
  if (!hlo_ready_sized(m, "gather", 2, xs)) return NULL;
  uint8_t symbols[2 * HLO_MAX_RANK] = {0}, of_batch[HLO_MAX_RANK], of_offset[HLO_MAX_RANK];
  for (int i = 0, k = 0; i < indices->rank; i++)
    if (i != d->index_vector_dim) of_batch[k++] = indices->symbols ? indices->symbols[i] : 0;
    else if (indices->symbols && indices->symbols[i]) return hlo_refuse_sized(m, "gather"), NULL;
  int64_t batch[HLO_MAX_RANK], offset[HLO_MAX_RANK], dims[2 * HLO_MAX_RANK];
  int n_batch = batch_dims(m, "gather", indices, d->index_vector_dim, d->n_start, batch), n_offset = 0;
  if (n_batch < 0) return NULL;
  for (int i = 0; i < x->rank; i++) {
    bool collapsed = contains(d->n_collapsed, d->collapsed, i);
    if (d->slice_sizes[i] < 0 || d->slice_sizes[i] > x->dims[i] || (collapsed && d->slice_sizes[i] != 1))
      return hlo_fail(m, TT_INTERNAL, "hlo gather: slice size %lld does not fit dim %d of size %lld",
                      (long long)d->slice_sizes[i], i, (long long)x->dims[i]);
    /* A marked dim is taken whole: places in it would be clamped to its capacity. */
    uint8_t symbol = x->symbols ? x->symbols[i] : 0;
    if (symbol && (collapsed || d->slice_sizes[i] != x->dims[i])) return hlo_refuse_sized(m, "gather"), NULL;
    if (!collapsed) of_offset[n_offset] = symbol, offset[n_offset++] = d->slice_sizes[i];
  }
  for (int i = 0; i < d->n_start; i++)
    if (!hlo_check_dim(m, "gather", d->start_index_map[i], x->rank)) return NULL;
  int rank = n_batch + n_offset;
  if (n_offset != d->n_offset || rank > HLO_MAX_RANK)
    return hlo_fail(m, TT_INTERNAL, "hlo gather: expected %d offset dims, got %d", n_offset, d->n_offset);
  for (int i = 0, b = 0, o = 0; i < rank; i++) {
    bool is_offset = contains(d->n_offset, d->offset, i);
    if (is_offset ? o == n_offset : b == n_batch)
      return hlo_fail(m, TT_INTERNAL, "hlo gather: offset dims are out of range");
    symbols[i] = is_offset ? of_offset[o] : of_batch[b];
    dims[i] = is_offset ? offset[o++] : batch[b++];
  }
  hlo r = hlo_new(m, x->dtype, rank, dims);
  if (!r || !hlo_set_symbols(m, r, symbols)) return NULL;
  hlo_open_generic(m, "gather", 1, &r, 2, xs);
  hlo_put(m, " {dimension_numbers = #stablehlo.gather<");
  put_numbers(m, "offset_dims", d->n_offset, d->offset);
  put_numbers(m, "collapsed_slice_dims", d->n_collapsed, d->collapsed);
  put_numbers(m, "start_index_map", d->n_start, d->start_index_map);
  hlo_put(m, "index_vector_dim = ");
  hlo_put_int(m, d->index_vector_dim);
  hlo_put(m, d->sorted ? ">, indices_are_sorted = true" : ">, indices_are_sorted = false");
  hlo_put_array(m, ", slice_sizes = ", x->rank, d->slice_sizes, 1);
  hlo_put(m, "}");
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}

static void replace_body(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)m, (void)user;
  results[0] = args[1];
}

/* Sends what does not count, along the dims that indices and updates share, to places out of range: nothing is written
 * there. updates: without its marks. */
static bool leave_out(hlo_module *m, hlo *indices, hlo *updates, const hlo_scatter_dims *d) {
  uint8_t symbols[HLO_MAX_RANK] = {0}, none[HLO_MAX_RANK] = {0};
  int dims[HLO_MAX_RANK], n = 0;
  if (!hlo_is_sized(*indices) && !hlo_is_sized(*updates)) return true;
  if ((*indices)->dtype < TT_I8) return hlo_refuse_sized(m, "scatter");
  for (int i = 0, k = 0; i < (*updates)->rank; i++) {
    uint8_t symbol = (*updates)->symbols ? (*updates)->symbols[i] : 0;
    bool window = contains(d->n_update_window, d->update_window, i);
    if (window && symbol) return hlo_refuse_sized(m, "scatter");
    if (window) continue;
    if (k == d->index_vector_dim) k++;
    if ((*indices)->symbols) symbols[k] = (*indices)->symbols[k];
    if (!hlo_add_symbol(m, "scatter", &symbols[k], symbol)) return false;
    if (symbols[k]) dims[n++] = k;
    k++;
  }
  *indices = hlo_mask(m, hlo_mark(m, *indices, symbols), n, dims, hlo_int(m, (tt_dtype)(*indices)->dtype, -1));
  *indices = *indices ? hlo_mark(m, *indices, none) : NULL;
  *updates = hlo_mark(m, *updates, none);
  return *indices && *updates;
}

hlo hlo_scatter(hlo_module *m, const char *op, hlo x, hlo indices, hlo updates, const hlo_scatter_dims *d) {
  hlo xs[] = {x, indices, updates}, given;
  if (!hlo_ready_sized(m, "scatter", 3, xs) || !leave_out(m, &indices, &updates, d)) return NULL;
  xs[1] = indices, xs[2] = updates;
  if (!hlo_ready(m, "scatter", 3, xs)) return NULL;
  int64_t batch[HLO_MAX_RANK];
  int n_batch = batch_dims(m, "scatter", indices, d->index_vector_dim, d->n_scatter, batch);
  if (n_batch < 0) return NULL;
  for (int i = 0; i < d->n_scatter; i++)
    if (!hlo_check_dim(m, "scatter", d->scatter_to_operand[i], x->rank)) return NULL;
  bool fits = updates->dtype == x->dtype && updates->rank == n_batch + d->n_update_window &&
              d->n_update_window + d->n_inserted == x->rank;
  for (int i = 0, b = 0, o = 0; fits && i < updates->rank; i++) {
    if (!contains(d->n_update_window, d->update_window, i)) {
      fits = b < n_batch && updates->dims[i] == batch[b++];
      continue;
    }
    while (o < x->rank && contains(d->n_inserted, d->inserted, o)) o++;
    fits = o < x->rank && updates->dims[i] <= x->dims[o++];
  }
  if (!fits) return hlo_mismatch(m, "scatter", x, updates);
  hlo r = hlo_new(m, x->dtype, x->rank, x->dims);
  if (!r) return NULL;
  hlo_type types[] = {{(tt_dtype)x->dtype, 0, NULL}, {(tt_dtype)x->dtype, 0, NULL}};
  hlo_open_generic(m, "scatter", 1, &r, 3, xs);
  hlo_put(m, " (");
  bool replace = !strcmp(op, "replace");
  if (!hlo_region(m, true, 2, types, replace ? replace_body : hlo_binary_body, (void *)op, 1, &given)) return NULL;
  hlo_put(m, ") {scatter_dimension_numbers = #stablehlo.scatter<");
  put_numbers(m, "update_window_dims", d->n_update_window, d->update_window);
  put_numbers(m, "inserted_window_dims", d->n_inserted, d->inserted);
  put_numbers(m, "scatter_dims_to_operand_dims", d->n_scatter, d->scatter_to_operand);
  hlo_put(m, "index_vector_dim = ");
  hlo_put_int(m, d->index_vector_dim);
  hlo_put(m, d->sorted ? ">, indices_are_sorted = true" : ">, indices_are_sorted = false");
  hlo_put(m, d->unique ? ", unique_indices = true}" : ", unique_indices = false}");
  hlo_put_signature(m, 3, xs, 1, &r);
  return r;
}
