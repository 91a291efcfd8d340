/* matrix.c: forms and parts of matrices, and counted loops over them: the words that factorisations are written in.
 *
 * Places that a loop computes are values, so parts are taken and put by dynamic slices; what a loop must not touch it
 * masks by position. Knows no algorithm. */
#include <string.h>
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/math.h"

hlo tt_matrices(hlo_module *m, hlo x) {
  if (!x) return NULL;
  int64_t batch = 1;
  for (int i = 0; i < x->rank - 2; i++) batch *= x->dims[i];
  return hlo_reshape(m, x, 3, (int64_t[]){batch, x->dims[x->rank - 2], x->dims[x->rank - 1]});
}

/* Half precision and integers (but int32, which pivots are), which the CPU's kernels refuse: they do it in torch's
 * words. */
static bool is_lapack(tt_ctx *c, int i) {
  tt_dtype t = (tt_dtype)tt_in_dtype(c, i);
  if (t == TT_F32 || t == TT_F64 || t == TT_I32 || tt_is_complex(t)) return true;
  hlo_fail(c->m, TT_UNIMPLEMENTED, "\"%s\" not implemented for '%s'", c->op->name, tt_dtype_name(t));
  return false;
}

hlo tt_matrix_argument(tt_ctx *c, int i) { return is_lapack(c, i) ? tt_matrices(c->m, tt_in_own(c, i)) : NULL; }

hlo tt_matrix_operand(tt_ctx *c, int i, int inner, const tt_want *want, int want_inner) {
  hlo x = is_lapack(c, i) ? tt_in_own(c, i) : NULL;
  if (!x) return NULL;
  int64_t dims[TT_MAX_RANK], all[3] = {1};
  int rank = 0;
  for (; rank < want->rank - want_inner; rank++) all[0] *= dims[rank] = want->dims[rank];
  for (int k = 0; k < inner; k++) all[1 + k] = dims[rank++] = x->dims[x->rank - inner + k];
  return hlo_reshape(c->m, hlo_broadcast_to(c->m, x, rank, dims), 1 + inner, all);
}

hlo tt_matrix_conj(hlo_module *m, hlo x) {
  if (!x || !tt_is_complex((tt_dtype)x->dtype)) return x;
  return hlo_complex_of(m, hlo_unary(m, "real", x), neg(m, hlo_unary(m, "imag", x)));
}

hlo tt_matrix_transpose(hlo_module *m, hlo x) { return hlo_transpose(m, x, (int[]){0, 2, 1}); }
hlo tt_matrix_adjoint(hlo_module *m, hlo x) { return tt_matrix_transpose(m, tt_matrix_conj(m, x)); }

static hlo product(hlo_module *m, hlo a, int contracted, hlo b) {
  if (!a || !b) return NULL;
  hlo_dot_dims d = {1, 1, (int[]){0}, (int[]){0}, &contracted, (int[]){1}};
  return hlo_dot(m, a, b, &d, 0, (tt_dtype)a->dtype);
}

hlo tt_matrix_product(hlo_module *m, hlo a, hlo b) { return product(m, a, 2, b); }
hlo tt_matrix_product_adjoint(hlo_module *m, hlo a, hlo b) { return product(m, tt_matrix_conj(m, a), 1, b); }

hlo tt_matrix_position(hlo_module *m, hlo x, int dim) { return x ? hlo_iota(m, TT_I32, x->rank, x->dims, dim) : NULL; }

hlo tt_matrix_where(hlo_module *m, hlo x, const char *direction, int64_t k) {
  hlo apart = sub(m, tt_matrix_position(m, x, 2), tt_matrix_position(m, x, 1));
  return hlo_compare(m, direction, apart, hlo_int(m, TT_I32, k));
}

hlo tt_matrix_triangle(hlo_module *m, hlo x, bool lower, int64_t k) {
  return choose(m, tt_matrix_where(m, x, lower ? "LE" : "GE", k), x, constant_like(m, x, 0));
}

hlo tt_matrix_mirrored(hlo_module *m, hlo x, bool upper, bool hermitian) {
  if (!x) return NULL;
  tt_dtype t = (tt_dtype)x->dtype;
  hlo other = hermitian ? tt_matrix_adjoint(m, x) : tt_matrix_transpose(m, x);
  hlo y = choose(m, tt_matrix_where(m, x, upper ? "GE" : "LE", 0), x, other);
  if (!hermitian || !tt_is_complex(t)) return y;
  return tt_matrix_with_diagonal(m, y, hlo_convert(m, hlo_unary(m, "real", tt_matrix_diagonal(m, x)), t));
}

hlo tt_matrix_identity(hlo_module *m, tt_dtype t, int64_t batch, int64_t rows, int64_t columns) {
  hlo zeros = hlo_full(m, t, 3, (int64_t[]){batch, rows, columns}, 0);
  return hlo_convert(m, tt_matrix_where(m, zeros, "EQ", 0), t);
}

hlo tt_matrix_diagonal(hlo_module *m, hlo x) {
  if (!x) return NULL;
  int64_t k = x->dims[1] < x->dims[2] ? x->dims[1] : x->dims[2];
  x = tt_matrix_block(m, x, k, k);
  hlo kept = choose(m, tt_matrix_where(m, x, "EQ", 0), x, constant_like(m, x, 0));
  return hlo_reduce(m, "add", kept, constant_like(m, x, 0), 1, (int[]){1});
}

hlo tt_matrix_with_diagonal(hlo_module *m, hlo x, hlo d) {
  if (!x || !d) return NULL;
  if (d->rank) {
    bool wide = x->dims[1] <= x->dims[2];
    d = wide ? hlo_unsqueeze(m, d, 2) : hlo_unsqueeze(m, d, 1);
    d = tt_matrix_spread(m, d, x->dims[1], x->dims[2]);
  }
  return choose(m, tt_matrix_where(m, x, "EQ", 0), d, x);
}

hlo tt_matrix_spread(hlo_module *m, hlo x, int64_t rows, int64_t columns) {
  if (!x) return NULL;
  while (x && x->rank < 3) x = hlo_unsqueeze(m, x, x->rank);
  return x ? hlo_broadcast_to(m, x, 3, (int64_t[]){x->dims[0], rows, columns}) : NULL;
}

hlo tt_matrix_block(hlo_module *m, hlo x, int64_t rows, int64_t columns) {
  if (!x) return NULL;
  int64_t zeros[3] = {0}, high[3] = {0, rows - x->dims[1], columns - x->dims[2]};
  return hlo_pad(m, x, constant_like(m, x, 0), zeros, high, NULL);
}

static void starts_at(hlo_module *m, int dim, hlo at, hlo starts[3]) {
  for (int i = 0; i < 3; i++) starts[i] = i == dim ? at : hlo_int(m, TT_I32, 0);
}

hlo tt_matrix_take(hlo_module *m, hlo x, int dim, hlo at, int64_t n) {
  if (!x) return NULL;
  hlo starts[3];
  starts_at(m, dim, at, starts);
  return hlo_dynamic_slice(m, x, starts, (int64_t[]){x->dims[0], dim == 1 ? n : x->dims[1], dim == 2 ? n : x->dims[2]});
}

hlo tt_matrix_put(hlo_module *m, hlo x, int dim, hlo at, hlo part) {
  hlo starts[3];
  starts_at(m, dim, at, starts);
  return hlo_dynamic_update_slice(m, x, part, starts);
}

hlo tt_matrix_permute_rows(hlo_module *m, hlo x, hlo order) {
  if (!x || !order) return NULL;
  int64_t batch = x->dims[0], rows = x->dims[1], columns = x->dims[2], taken = order->dims[1];
  hlo first = hlo_iota(m, TT_I32, 2, order->dims, 0); /* the rows of all matrices, one below the other */
  hlo at = hlo_flatten(m, add(m, order, hlo_binary(m, "multiply", first, hlo_int(m, TT_I32, rows))));
  hlo all = hlo_reshape(m, x, 2, (int64_t[]){batch * rows, columns});
  return hlo_reshape(m, tt_gather_dim(m, all, 0, at), 3, (int64_t[]){batch, taken, columns});
}

hlo tt_matrix_sum(hlo_module *m, hlo x, int dim) {
  return hlo_unsqueeze(m, hlo_reduce(m, "add", x, constant_like(m, x, 0), 1, &dim), dim);
}

hlo tt_matrix_max(hlo_module *m, hlo x, int dim) {
  return x ? hlo_unsqueeze(m, hlo_reduce(m, "maximum", x, hlo_lowest(m, (tt_dtype)x->dtype), 1, &dim), dim) : NULL;
}

hlo tt_matrix_abs1(hlo_module *m, hlo x) {
  if (!x || !tt_is_complex((tt_dtype)x->dtype)) return absolute(m, x);
  return add(m, absolute(m, hlo_unary(m, "real", x)), absolute(m, hlo_unary(m, "imag", x)));
}

hlo tt_matrix_row_at(hlo_module *m, hlo x, hlo p) {
  if (!x || !p) return NULL;
  if (p->rank == 0) return tt_matrix_take(m, x, 1, p, 1);
  hlo there = hlo_compare(m, "EQ", tt_matrix_position(m, x, 1), tt_matrix_spread(m, p, x->dims[1], x->dims[2]));
  return tt_matrix_sum(m, choose(m, there, x, constant_like(m, x, 0)), 1);
}

hlo tt_matrix_exchange(hlo_module *m, hlo x, hlo p, hlo q) {
  if (!x || !p || !q) return NULL;
  hlo row = tt_matrix_position(m, x, 1), places[2] = {p, q}, rows[2];
  for (int i = 0; i < 2; i++) {
    rows[i] = tt_matrix_spread(m, tt_matrix_row_at(m, x, places[i]), x->dims[1], x->dims[2]);
    if (places[i]->rank) places[i] = tt_matrix_spread(m, places[i], x->dims[1], x->dims[2]);
  }
  hlo y = choose(m, hlo_compare(m, "EQ", row, places[1]), rows[0], x);
  return choose(m, hlo_compare(m, "EQ", row, places[0]), rows[1], y);
}

hlo tt_matrix_largest(hlo_module *m, hlo size, hlo allowed) {
  if (!size) return NULL;
  hlo row = tt_matrix_position(m, size, 1), none = hlo_int(m, TT_I32, INT32_MAX);
  size = choose(m, is_nan(m, size), hlo_highest(m, (tt_dtype)size->dtype), size);
  size = choose(m, allowed, size, constant_like(m, size, -1));
  hlo hit = hlo_compare(m, "EQ", size, tt_matrix_spread(m, tt_matrix_max(m, size, 1), size->dims[1], 1));
  hlo first = hlo_reduce(m, "minimum", choose(m, hit, row, none), none, 1, (int[]){1});
  return hlo_unsqueeze(m, first, 1);
}

/* ---- loops ---- */
typedef struct loop { tt_loop_body *body; void *user; } loop;

static void goes_on(hlo_module *m, const hlo *args, hlo *results, void *user) {
  results[0] = hlo_compare(m, "LT", args[0], args[1]);
  (void)user;
}

static void step(hlo_module *m, const hlo *args, hlo *results, void *user) {
  const loop *l = user;
  l->body(m, args[0], args + 2, results + 2, l->user);
  results[0] = add(m, args[0], hlo_int(m, TT_I32, 1));
  results[1] = args[1];
}

enum { MAX_VALUES = 14 };

void tt_loop(hlo_module *m, hlo from, hlo to, int n, const hlo *inits, tt_loop_body *body, void *user, hlo *results) {
  if (n > MAX_VALUES) {
    hlo_fail(m, TT_INTERNAL, "a loop over more than %d values", (int)MAX_VALUES);
    n = 0;
  }
  loop l = {body, user};
  hlo all[MAX_VALUES + 2] = {from, to}, given[MAX_VALUES + 2]; /* inits may be results */
  memcpy(all + 2, inits, (size_t)n * sizeof *inits);
  hlo_while(m, n + 2, all, goes_on, step, &l, given);
  memcpy(results, given + 2, (size_t)n * sizeof *results);
}
