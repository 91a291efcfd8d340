/* collective.c: operations between the replicas of a program, each of which holds a part of the data.
 *
 * A program names its replicas by number. Groups partition all of them, and each replica works with those of its group,
 * in the group's order; so every group is listed, not only that of one replica. Sizes are those of one replica's
 * tensors. */
#include "hlo/module.h"

static bool check_groups(hlo_module *m, const char *op, const hlo_groups *g) {
  if (g->count > 0 && g->size > 0) return true;
  hlo_fail(m, TT_INTERNAL, "hlo %s: expected a group or more, got %lld of %lld", op, (long long)g->count,
           (long long)g->size);
  return false;
}

static void put_groups(hlo_module *m, const hlo_groups *g) {
  hlo_put(m, "replica_groups = dense<[");
  for (int64_t i = 0; i < g->count; i++) hlo_put_list(m, i ? ", " : "", (int)g->size, g->ids + i * g->size);
  hlo_put(m, "]> : ");
  hlo_put_type(m, TT_I64, 2, (int64_t[]){g->count, g->size});
}

static void put_dim(hlo_module *m, const char *name, int64_t dim) {
  hlo_put(m, name);
  hlo_put(m, " = ");
  hlo_put_int(m, dim);
  hlo_put(m, " : i64, ");
}

/* An operation whose body reduces; dim < 0: it has none. */
static hlo reducing(hlo_module *m, const char *name, const char *op, hlo x, int dim, hlo r, const hlo_groups *g) {
  if (!r || !hlo_ordered(m, op, x)) return NULL;
  hlo_type types[] = {{(tt_dtype)x->dtype, 0, NULL}, {(tt_dtype)x->dtype, 0, NULL}};
  hlo given;
  hlo_open_generic(m, name, 1, &r, 1, &x);
  hlo_put(m, " (");
  if (!hlo_region(m, true, 2, types, hlo_binary_body, (void *)op, 1, &given)) return NULL;
  hlo_put(m, ") {");
  put_groups(m, g);
  if (dim >= 0) {
    hlo_put(m, ", scatter_dimension = ");
    hlo_put_int(m, dim);
    hlo_put(m, " : i64");
  }
  hlo_put(m, "}");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}

/* x's dims, with dim times and then divided by a group's size. */
static hlo resized(hlo_module *m, const char *op, hlo x, int larger, int smaller, const hlo_groups *g) {
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  if (larger >= 0) dims[larger] *= g->size;
  if (smaller >= 0) {
    if (dims[smaller] % g->size)
      return hlo_fail(m, TT_INTERNAL, "hlo %s: dim %d of size %lld is not divisible by %lld", op, smaller,
                      (long long)dims[smaller], (long long)g->size);
    dims[smaller] /= g->size;
  }
  return hlo_new(m, x->dtype, x->rank, dims);
}

hlo hlo_all_reduce(hlo_module *m, const char *op, hlo x, const hlo_groups *g) {
  if (!hlo_ready(m, "all_reduce", 1, &x) || !check_groups(m, "all_reduce", g)) return NULL;
  return reducing(m, "all_reduce", op, x, -1, hlo_new(m, x->dtype, x->rank, x->dims), g);
}

hlo hlo_reduce_scatter(hlo_module *m, const char *op, hlo x, int dim, const hlo_groups *g) {
  if (!hlo_ready(m, "reduce_scatter", 1, &x) || !check_groups(m, "reduce_scatter", g)) return NULL;
  if (!hlo_check_dim(m, "reduce_scatter", dim, x->rank)) return NULL;
  return reducing(m, "reduce_scatter", op, x, dim, resized(m, "reduce_scatter", x, -1, dim, g), g);
}

/* An operation without a body. */
static hlo moving(hlo_module *m, const char *name, hlo x, hlo r, const hlo_groups *g, const char *const *names,
                  const int64_t *values) {
  if (!r) return NULL;
  hlo_open_generic(m, name, 1, &r, 1, &x);
  hlo_put(m, " {");
  for (int i = 0; names[i]; i++) put_dim(m, names[i], values[i]);
  put_groups(m, g);
  hlo_put(m, "}");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}

hlo hlo_all_gather(hlo_module *m, hlo x, int dim, const hlo_groups *g) {
  if (!hlo_ready(m, "all_gather", 1, &x) || !check_groups(m, "all_gather", g)) return NULL;
  if (!hlo_check_dim(m, "all_gather", dim, x->rank)) return NULL;
  return moving(m, "all_gather", x, resized(m, "all_gather", x, dim, -1, g), g,
                (const char *[]){"all_gather_dim", NULL}, (int64_t[]){dim});
}

hlo hlo_all_to_all(hlo_module *m, hlo x, int split, int concat, const hlo_groups *g) {
  if (!hlo_ready(m, "all_to_all", 1, &x) || !check_groups(m, "all_to_all", g)) return NULL;
  if (!hlo_check_dim(m, "all_to_all", split, x->rank) || !hlo_check_dim(m, "all_to_all", concat, x->rank)) return NULL;
  return moving(m, "all_to_all", x, resized(m, "all_to_all", x, concat, split, g), g,
                (const char *[]){"split_dimension", "concat_dimension", "split_count", NULL},
                (int64_t[]){split, concat, g->size});
}

hlo hlo_collective_broadcast(hlo_module *m, hlo x, const hlo_groups *g) {
  if (!hlo_ready(m, "collective_broadcast", 1, &x) || !check_groups(m, "collective_broadcast", g)) return NULL;
  return moving(m, "collective_broadcast", x, hlo_new(m, x->dtype, x->rank, x->dims), g, (const char *[]){NULL}, NULL);
}

hlo hlo_collective_permute(hlo_module *m, hlo x, int n, const int64_t *from, const int64_t *to) {
  if (!hlo_ready(m, "collective_permute", 1, &x)) return NULL;
  if (n < 1) return hlo_fail(m, TT_INTERNAL, "hlo collective_permute: no pairs");
  hlo r = hlo_new(m, x->dtype, x->rank, x->dims);
  if (!r) return NULL;
  hlo_open_generic(m, "collective_permute", 1, &r, 1, &x);
  hlo_put_pairs(m, " {source_target_pairs = ", n, from, to);
  hlo_put(m, "}");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}
