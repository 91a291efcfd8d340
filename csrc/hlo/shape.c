/* shape.c: operations that move elements and compute none: reshape, transpose, broadcast, slices, pad, concatenate,
 * reverse.
 *
 * Each returns its operand when it would change nothing, so callers need not ask. Result dims are computed here from
 * the arguments; what does not fit is an error of the rule that asked, never of the plugin. */
#include "hlo/module.h"

static int64_t product(int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  return n;
}

static bool equal_dims(hlo x, int rank, const int64_t *dims) {
  if (x->rank != rank) return false;
  for (int i = 0; i < rank; i++)
    if (x->dims[i] != dims[i]) return false;
  return true;
}

/* `%r = stablehlo.op %x, ...` up to where the attributes begin. */
static hlo open_new(hlo_module *m, const char *op, tt_dtype t, int rank, const int64_t *dims, int n, const hlo *xs) {
  hlo r = hlo_new(m, t, rank, dims);
  if (!r) return NULL;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.");
  hlo_put(m, op);
  hlo_put(m, " ");
  hlo_put_values(m, n, xs);
  return r;
}

/* What x moves, if it is a reshape (or with transposed a transpose) of a module that shares, and this scope may use it.
 */
static hlo moved_by(const hlo_module *m, hlo x, bool transposed) {
  const hlo_node *node = (const hlo_node *)x;
  return node->moved && !hlo_is_sized(x) && node->scope == m->scope->id && transposed == (node->perm != NULL)
             ? node->moved
             : NULL;
}

static hlo set_moved(hlo_module *m, hlo r, hlo x, const int *perm) {
  hlo_node *node = (hlo_node *)r;
  if (!r || r == x || !m->shares || hlo_is_sized(r) || hlo_is_sized(x) || node->scope != ((const hlo_node *)x)->scope)
    return r;
  int *own = perm ? hlo_alloc(m, (size_t)x->rank * sizeof *own) : NULL;
  if (perm && !own) return NULL;
  if (perm) memcpy(own, perm, (size_t)x->rank * sizeof *own);
  node->moved = x;
  node->perm = own;
  return r;
}

hlo hlo_reshape(hlo_module *m, hlo x, int rank, const int64_t *dims) {
  if (!hlo_ready_sized(m, "reshape", 1, &x)) return NULL;
  if (equal_dims(x, rank, dims)) return x;
  hlo before = moved_by(m, x, false);
  if (before) return hlo_reshape(m, before, rank, dims);
  size_t line = m->text.length;
  hlo r = open_new(m, "reshape", x->dtype, rank, dims, 1, &x);
  if (!r) return NULL;
  if (product(rank, dims) != hlo_numel(x)) return hlo_mismatch(m, "reshape", x, r);
  if (!hlo_reshape_symbols(m, x, r)) return NULL;
  hlo_put_signature(m, 1, &x, 1, &r);
  return set_moved(m, hlo_shared(m, line, r), x, NULL);
}

hlo hlo_flatten(hlo_module *m, hlo x) {
  int64_t n = hlo_numel(x);
  return hlo_reshape(m, x, 1, &n);
}

hlo hlo_transpose(hlo_module *m, hlo x, const int *perm) {
  if (!hlo_ready_sized(m, "transpose", 1, &x)) return NULL;
  int64_t dims[HLO_MAX_RANK];
  uint8_t symbols[HLO_MAX_RANK];
  bool seen[HLO_MAX_RANK] = {false}, identity = true;
  for (int i = 0; i < x->rank; i++) {
    if (!hlo_check_dim(m, "transpose", perm[i], x->rank)) return NULL;
    if (seen[perm[i]]) return hlo_fail(m, TT_INTERNAL, "hlo transpose: dim %d is named twice", perm[i]);
    seen[perm[i]] = true;
    identity = identity && perm[i] == i;
    dims[i] = x->dims[perm[i]];
    symbols[i] = x->symbols ? x->symbols[perm[i]] : 0;
  }
  if (identity) return x;
  hlo before = moved_by(m, x, true);
  if (before) {
    int both[HLO_MAX_RANK];
    for (int i = 0; i < x->rank; i++) both[i] = ((const hlo_node *)x)->perm[perm[i]];
    return hlo_transpose(m, before, both);
  }
  size_t line = m->text.length;
  hlo r = open_new(m, "transpose", x->dtype, x->rank, dims, 1, &x);
  if (!r || !hlo_set_symbols(m, r, symbols)) return NULL;
  hlo_put_list32(m, ", dims = ", x->rank, perm);
  hlo_put_signature(m, 1, &x, 1, &r);
  return set_moved(m, hlo_shared(m, line, r), x, perm);
}

hlo hlo_broadcast(hlo_module *m, hlo x, int rank, const int64_t *dims, const int *where) {
  if (!hlo_ready_sized(m, "broadcast", 1, &x)) return NULL;
  uint8_t symbols[HLO_MAX_RANK] = {0};
  bool identity = true;
  for (int i = 0; i < x->rank; i++) {
    if (!hlo_check_dim(m, "broadcast", where[i], rank)) return NULL;
    if (i && where[i] <= where[i - 1]) return hlo_fail(m, TT_INTERNAL, "hlo broadcast: dims are not in order");
    if (x->dims[i] != 1 && x->dims[i] != dims[where[i]])
      return hlo_fail(m, TT_INTERNAL, "hlo broadcast: expected dim %d of size %lld or 1, got %lld", i,
                      (long long)dims[where[i]], (long long)x->dims[i]);
    identity = identity && where[i] == i;
    if (x->symbols) symbols[where[i]] = x->symbols[i];
  }
  if (identity && equal_dims(x, rank, dims)) return x;
  size_t line = m->text.length;
  hlo r = open_new(m, "broadcast_in_dim", x->dtype, rank, dims, 1, &x);
  if (!r || !hlo_set_symbols(m, r, symbols)) return NULL;
  hlo_put_list32(m, ", dims = ", x->rank, where);
  hlo_put_signature(m, 1, &x, 1, &r);
  return hlo_shared(m, line, r);
}

hlo hlo_broadcast_to(hlo_module *m, hlo x, int rank, const int64_t *dims) {
  if (!hlo_ready_sized(m, "broadcast", 1, &x)) return NULL;
  if (x->rank > rank) return hlo_fail(m, TT_INTERNAL, "hlo broadcast: rank %d does not fit in rank %d", x->rank, rank);
  int where[HLO_MAX_RANK];
  for (int i = 0; i < x->rank; i++) where[i] = rank - x->rank + i;
  return hlo_broadcast(m, x, rank, dims, where);
}

/* A marked dim is taken whole or not at all: of a part it is not known how much counts. */
static bool whole_where_sized(hlo_module *m, const char *op, hlo x, const int64_t *dims) {
  for (int i = 0; x->symbols && i < x->rank; i++)
    if (x->symbols[i] && dims[i] != x->dims[i]) return hlo_refuse_sized(m, op);
  return true;
}

hlo hlo_slice(hlo_module *m, hlo x, const int64_t *start, const int64_t *limit, const int64_t *stride) {
  if (!hlo_ready_sized(m, "slice", 1, &x)) return NULL;
  int64_t dims[HLO_MAX_RANK];
  for (int i = 0; i < x->rank; i++) {
    int64_t step = stride ? stride[i] : 1;
    if (start[i] < 0 || limit[i] < start[i] || limit[i] > x->dims[i] || step < 1)
      return hlo_fail(m, TT_INTERNAL, "hlo slice: [%lld:%lld:%lld] is out of range for dim %d of size %lld",
                      (long long)start[i], (long long)limit[i], (long long)step, i, (long long)x->dims[i]);
    dims[i] = (limit[i] - start[i] + step - 1) / step;
  }
  if (equal_dims(x, x->rank, dims)) return x; /* all of each dim: no other slice is as large */
  if (!whole_where_sized(m, "slice", x, dims)) return NULL;
  hlo r = open_new(m, "slice", x->dtype, x->rank, dims, 1, &x);
  if (!hlo_carry(m, "slice", r, 1, &x)) return NULL;
  for (int i = 0; i < x->rank; i++) {
    hlo_put(m, i ? ", " : " [");
    hlo_put_int(m, start[i]);
    hlo_put(m, ":");
    hlo_put_int(m, limit[i]);
    if (!stride || stride[i] == 1) continue;
    hlo_put(m, ":");
    hlo_put_int(m, stride[i]);
  }
  hlo_put(m, "]");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}

hlo hlo_slice_dim(hlo_module *m, hlo x, int dim, int64_t start, int64_t limit, int64_t stride) {
  if (!hlo_ready_sized(m, "slice", 1, &x) || !hlo_check_dim(m, "slice", dim, x->rank)) return NULL;
  int64_t from[HLO_MAX_RANK] = {0}, to[HLO_MAX_RANK], step[HLO_MAX_RANK];
  for (int i = 0; i < x->rank; i++) to[i] = x->dims[i], step[i] = 1;
  from[dim] = start;
  to[dim] = limit;
  step[dim] = stride;
  return hlo_slice(m, x, from, to, step);
}

static bool check_starts(hlo_module *m, const char *op, int n, const hlo *starts) {
  for (int i = 0; i < n; i++) {
    if (starts[i]->rank || starts[i]->dtype < TT_U8 || starts[i]->dtype > TT_I64 ||
        starts[i]->dtype != starts[0]->dtype) {
      hlo_fail(m, TT_INTERNAL, "hlo %s: starts are not rank-0 integers of one dtype", op);
      return false;
    }
  }
  return true;
}

hlo hlo_dynamic_slice(hlo_module *m, hlo x, const hlo *starts, const int64_t *sizes) {
  if (!hlo_ready_sized(m, "dynamic_slice", 1, &x) || !hlo_ready(m, "dynamic_slice", x->rank, starts)) return NULL;
  if (!check_starts(m, "dynamic_slice", x->rank, starts)) return NULL;
  for (int i = 0; i < x->rank; i++)
    if (sizes[i] < 0 || sizes[i] > x->dims[i])
      return hlo_fail(m, TT_INTERNAL, "hlo dynamic_slice: size %lld is out of range for dim %d of size %lld",
                      (long long)sizes[i], i, (long long)x->dims[i]);
  if (equal_dims(x, x->rank, sizes)) return x; /* starts are clamped to 0 */
  hlo xs[HLO_MAX_RANK + 1] = {x};
  memcpy(xs + 1, starts, x->rank * sizeof *xs);
  if (!whole_where_sized(m, "dynamic_slice", x, sizes)) return NULL;
  hlo r = open_new(m, "dynamic_slice", x->dtype, x->rank, sizes, x->rank + 1, xs);
  if (!hlo_carry(m, "dynamic_slice", r, 1, &x)) return NULL;
  hlo_put_list(m, ", sizes = ", x->rank, sizes);
  hlo_put_signature(m, x->rank + 1, xs, 1, &r);
  return r;
}

hlo hlo_dynamic_update_slice(hlo_module *m, hlo x, hlo update, const hlo *starts) {
  hlo xs[HLO_MAX_RANK + 2] = {x, update};
  if (!hlo_ready(m, "dynamic_update_slice", 2, xs) || !hlo_ready(m, "dynamic_update_slice", x->rank, starts))
    return NULL;
  if (!check_starts(m, "dynamic_update_slice", x->rank, starts)) return NULL;
  bool fits = x->rank == update->rank && x->dtype == update->dtype;
  for (int i = 0; fits && i < x->rank; i++) fits = update->dims[i] <= x->dims[i];
  if (!fits) return hlo_mismatch(m, "dynamic_update_slice", x, update);
  if (hlo_same_dims(x, update)) return update;
  memcpy(xs + 2, starts, x->rank * sizeof *xs);
  hlo r = open_new(m, "dynamic_update_slice", x->dtype, x->rank, x->dims, x->rank + 2, xs);
  if (!r) return NULL;
  hlo_put_signature(m, x->rank + 2, xs, 1, &r);
  return r;
}

hlo hlo_pad(hlo_module *m, hlo x, hlo value, const int64_t *low, const int64_t *high, const int64_t *interior) {
  hlo xs[] = {x, value};
  if (!hlo_ready_sized(m, "pad", 2, xs)) return NULL;
  if (value->rank || value->dtype != x->dtype) return hlo_mismatch(m, "pad", x, value);
  int64_t dims[HLO_MAX_RANK], zeros[HLO_MAX_RANK] = {0};
  bool identity = true;
  if (!interior) interior = zeros;
  for (int i = 0; i < x->rank; i++) {
    if (interior[i] < 0) return hlo_fail(m, TT_INTERNAL, "hlo pad: interior padding of dim %d is negative", i);
    int64_t inner = x->dims[i] > 1 ? (x->dims[i] - 1) * interior[i] : 0;
    dims[i] = low[i] + x->dims[i] + inner + high[i];
    identity = identity && !low[i] && !high[i] && !inner;
    /* Moved towards the end of its dim, what counts still comes first. */
    if (x->symbols && x->symbols[i] &&
        (low[i] < 0 || low[i] + high[i] || inner || (low[i] && hlo_is_composite(x->symbols[i]))))
      return hlo_refuse_sized(m, "pad"), NULL;
  }
  if (identity) return x;
  hlo r = open_new(m, "pad", x->dtype, x->rank, dims, 2, xs);
  if (!hlo_carry(m, "pad", r, 1, &x)) return NULL;
  hlo_put_list(m, ", low = ", x->rank, low);
  hlo_put_list(m, ", high = ", x->rank, high);
  hlo_put_list(m, ", interior = ", x->rank, interior);
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}

hlo hlo_concat(hlo_module *m, int n, const hlo *xs, int dim) {
  if (!hlo_ready_sized(m, "concatenate", n, xs)) return NULL;
  if (n < 1) return hlo_fail(m, TT_INTERNAL, "hlo concatenate: no operands");
  if (!hlo_check_dim(m, "concatenate", dim, xs[0]->rank)) return NULL;
  if (n == 1) return xs[0];
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, xs[0]->dims, xs[0]->rank * sizeof *dims);
  for (int k = 1; k < n; k++) {
    bool fits = xs[k]->rank == xs[0]->rank && xs[k]->dtype == xs[0]->dtype;
    for (int i = 0; fits && i < xs[0]->rank; i++) fits = i == dim || xs[k]->dims[i] == xs[0]->dims[i];
    if (!fits) return hlo_mismatch(m, "concatenate", xs[0], xs[k]);
    dims[dim] += xs[k]->dims[dim];
  }
  hlo r = open_new(m, "concatenate", xs[0]->dtype, xs[0]->rank, dims, n, xs);
  if (!hlo_carry(m, "concatenate", r, n, xs)) return NULL;
  if (r->symbols && r->symbols[dim]) return hlo_refuse_sized(m, "concatenate"), NULL;
  hlo_put(m, ", dim = ");
  hlo_put_int(m, dim);
  hlo_put_signature(m, n, xs, 1, &r);
  return r;
}

hlo hlo_reverse(hlo_module *m, hlo x, int n, const int *dims) {
  if (!hlo_ready(m, "reverse", 1, &x)) return NULL;
  for (int i = 0; i < n; i++)
    if (!hlo_check_dim(m, "reverse", dims[i], x->rank)) return NULL;
  if (n == 0) return x;
  hlo r = open_new(m, "reverse", x->dtype, x->rank, x->dims, 1, &x);
  if (!r) return NULL;
  hlo_put_list32(m, ", dims = ", n, dims);
  hlo_put(m, " : ");
  hlo_put_type_of(m, r);
  hlo_put(m, "\n");
  return r;
}

hlo hlo_squeeze_dim(hlo_module *m, hlo x, int dim) {
  if (!hlo_ready_sized(m, "squeeze", 1, &x) || !hlo_check_dim(m, "squeeze", dim, x->rank)) return NULL;
  if (x->dims[dim] != 1)
    return hlo_fail(m, TT_INTERNAL, "hlo squeeze: expected dim %d of size 1, got %lld", dim, (long long)x->dims[dim]);
  int64_t dims[HLO_MAX_RANK];
  for (int i = 0, k = 0; i < x->rank; i++)
    if (i != dim) dims[k++] = x->dims[i];
  return hlo_reshape(m, x, x->rank - 1, dims);
}

hlo hlo_unsqueeze(hlo_module *m, hlo x, int dim) {
  if (!hlo_ready_sized(m, "unsqueeze", 1, &x) || !hlo_check_dim(m, "unsqueeze", dim, x->rank + 1)) return NULL;
  int64_t dims[HLO_MAX_RANK + 1];
  for (int i = 0, k = 0; i <= x->rank; i++) dims[i] = i == dim ? 1 : x->dims[k++];
  return hlo_reshape(m, x, x->rank + 1, dims);
}
