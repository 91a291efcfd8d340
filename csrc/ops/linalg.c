/* linalg.c: rules of factorisations, and of solves, inverses and determinants by them.
 *
 * Operands are broadcast over their batch dims, made values of rank 3, worked on (factor.c), and given back in the dims
 * wanted. Singular matrices give what LAPACK gives and an info; raising is the caller's business. */
#include <string.h>
#include <math.h>

#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"

static bool is_wanted(tt_ctx *c, int k) { return c->want[k].defined && tt_want_numel(&c->want[k]) > 0; }

/* Result k; where it is empty there was nothing to compute. */
static void give(tt_ctx *c, int k, hlo v) {
  const tt_want *w = &c->want[k];
  if (!w->defined) return;
  c->result[k] = is_wanted(c, k) ? hlo_reshape(c->m, v, w->rank, w->dims) : hlo_full(c->m, w->dtype, w->rank, w->dims,
      0);
}

static void give_zeros(tt_ctx *c, int from) {
  for (int k = from; k < c->n_results; k++)
    c->result[k] = tt_want_zeros(c, k);
}

static hlo vectors(hlo_module *m, hlo x) { /* [.., k] -> [batch, k] */
  if (!x) return NULL;
  int64_t k = x->dims[x->rank - 1], batch = 1;
  for (int i = 0; i < x->rank - 1; i++) batch *= x->dims[i];
  return hlo_reshape(m, x, 2, (int64_t[]){batch, k});
}

/* ---- Cholesky ---- */

/* potf2's step j: which minors are positive is told by the pivots; values: the matrix, what is left of it, and info. */
static void cholesky_column(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  hlo x = in[0], rest = in[1], info = in[2];
  if (!x) return;
  tt_dtype t = (tt_dtype)x->dtype;
  hlo column = tt_matrix_take(m, rest, 2, j, 1), d = hlo_unary(m, "real", tt_matrix_take(m, column, 1, j, 1));
  hlo is_fine = both(m, is(m, info, 0), is_above(m, d, 0));
  info = choose(m, either(m, is_fine, hlo_compare(m, "NE", info, hlo_int(m, TT_I32, 0))), info, plus(m, j, 1));
  hlo pivot = hlo_convert(m, root(m, choose(m, is_fine, d, constant_like(m, d, 1))), t);
  (void)user;
  hlo row = tt_matrix_position(m, column, 1);
  hlo l = quo(m, column, tt_matrix_spread(m, pivot, x->dims[1], 1));
  hlo endless = is(m, d, INFINITY); /* LAPACK multiplies by a reciprocal of what it scaled: nothing below is a number */
  l = choose(m, tt_matrix_spread(m, endless, x->dims[1], 1), constant_like(m, l, NAN), l);
  l = choose(m, hlo_compare(m, "EQ", row, j), tt_matrix_spread(m, pivot, x->dims[1], 1), l);
  l = choose(m, both(m, tt_matrix_spread(m, is_fine, x->dims[1], 1), hlo_compare(m, "GE", row, j)), l,
      constant_like(m, l, 0));
  hlo kept = choose(m, tt_matrix_spread(m, is_fine, x->dims[1], 1), l, tt_matrix_take(m, x, 2, j, 1));
  out[0] = tt_matrix_put(m, x, 2, j, kept);
  out[1] = sub(m, rest, mul(m, tt_matrix_spread(m, l, x->dims[1], x->dims[2]),
                            tt_matrix_spread(m, tt_matrix_adjoint(m, l), x->dims[1], x->dims[2])));
  out[2] = info;
}

typedef struct cholesky_operands { hlo x, factor; } cholesky_operands; /* x is Hermitian in full */

static void cholesky_failed(hlo_module *m, const hlo *args, hlo *results, void *user) {
  const cholesky_operands *o = user;
  (void)args;
  if (!o->x) return;
  hlo in[3] = {o->x, o->x, hlo_full(m, TT_I32, 3, (int64_t[]){o->x->dims[0], 1, 1}, 0)}, out[3];
  tt_loop(m, hlo_int(m, TT_I32, 0), hlo_int(m, TT_I32, o->x->dims[1]), 3, in, cholesky_column, NULL, out);
  results[0] = out[0];
  results[1] = out[2];
}

static void cholesky_done(hlo_module *m, const hlo *args, hlo *results, void *user) {
  const cholesky_operands *o = user;
  (void)args;
  results[0] = o->factor;
  results[1] = o->x ? hlo_full(m, TT_I32, 3, (int64_t[]){o->x->dims[0], 1, 1}, 0) : NULL;
}

void rule_cholesky(tt_ctx *c) { /* (self, upper, check_errors) -> (l, info) */
  hlo_module *m = c->m;
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  bool upper = tt_bool(c, 1);
  hlo x = tt_matrix_argument(c, 0);
  if (upper) x = tt_matrix_adjoint(m, x);
  if (!x) return;
  x = tt_matrix_mirrored(m, x, false, true);
  cholesky_operands o = {x, tt_matrix_cholesky(m, x)};
  hlo d = hlo_unary(m, "real", tt_matrix_diagonal(m, o.factor));
  if (!d) return;
  hlo place = hlo_iota(m, TT_I32, 2, d->dims, 1);
  hlo endless = both(m, is(m, d, INFINITY), hlo_compare(m, "LT", place, hlo_int(m, TT_I32, d->dims[1] - 1)));
  hlo finite = hlo_compare(m, "EQ", o.factor, o.factor), yes = hlo_int(m, TT_BOOL, 1), results[2];
  hlo all = hlo_reduce(m, "and", finite, yes, 3, (int[]){0, 1, 2});
  all = both(m, all, not(m, any(m, endless))); /* below an infinite pivot nothing can be factored */
  hlo_if(m, all, cholesky_done, cholesky_failed, &o, 2, results);
  hlo l = tt_matrix_triangle(m, results[0], true, 0);
  give(c, 0, upper ? tt_matrix_adjoint(m, l) : l);
  give(c, 1, results[1]);
}

/* x with a a^H x = b, or a^H a x = b for an upper a. */
static hlo cholesky_solved(hlo_module *m, hlo a, hlo b, bool upper) {
  hlo mirror = tt_matrix_adjoint(m, a), lower = upper ? mirror : a;
  return tt_matrix_triangular_solve(m, upper ? a : mirror, tt_matrix_triangular_solve(m, lower, b, true, false),
      false, false);
}

void rule_cholesky_inverse(tt_ctx *c) { /* (self, upper) */
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  hlo a = tt_matrix_argument(c, 0);
  if (!a) return;
  hlo identity = tt_matrix_identity(c->m, (tt_dtype)a->dtype, a->dims[0], a->dims[1], a->dims[2]);
  give(c, 0, cholesky_solved(c->m, a, identity, tt_bool(c, 1)));
}

void rule_cholesky_solve(tt_ctx *c) { /* (self, a, upper) */
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  give(c, 0, cholesky_solved(c->m, tt_matrix_operand(c, 1, 2, &c->want[0], 2), tt_matrix_operand(c, 0, 2, &c->want[0],
      2), tt_bool(c, 2)));
}

/* ---- triangular systems ---- */
void rule_solve_triangular(tt_ctx *c) { /* (a, b, upper, left, unitriangular) */
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  hlo_module *m = c->m;
  hlo a = tt_matrix_operand(c, 0, 2, &c->want[0], 2), b = tt_matrix_operand(c, 1, 2, &c->want[0], 2);
  bool lower = !tt_bool(c, 2), unit = tt_bool(c, 4);
  if (tt_bool(c, 3)) {
    give(c, 0, tt_matrix_triangular_solve(m, a, b, lower, unit));
  } else { /* x a = b */
    hlo x = tt_matrix_triangular_solve(m, tt_matrix_transpose(m, a), tt_matrix_transpose(m, b), !lower, unit);
    give(c, 0, tt_matrix_transpose(m, x));
  }
}

void rule_triangular_solve(tt_ctx *c) { /* (b, a, upper, transpose, unitriangular) -> (x, a) */
  give_zeros(c, 0);
  if (is_wanted(c, 1)) give(c, 1, tt_matrix_operand(c, 1, 2, &c->want[1], 2));
  if (!is_wanted(c, 0)) return;
  hlo a = tt_matrix_operand(c, 1, 2, &c->want[0], 2), b = tt_matrix_operand(c, 0, 2, &c->want[0], 2);
  bool transpose = tt_bool(c, 3), lower = !tt_bool(c, 2) != transpose;
  give(c, 0, tt_matrix_triangular_solve(c->m, transpose ? tt_matrix_transpose(c->m, a) : a, b, lower, tt_bool(c, 4)));
}

/* ---- QR ---- */
void rule_qr(tt_ctx *c) { /* (a, mode) -> (q, r) */
  hlo_module *m = c->m;
  hlo a = tt_matrix_argument(c, 0);
  if (!a) return;
  give_zeros(c, 0);
  const tt_want *q = &c->want[0], *r = &c->want[1];
  bool has_q = is_wanted(c, 0) && strcmp(tt_str(c, 1), "r");
  hlo identity = has_q ? tt_matrix_identity(m, (tt_dtype)a->dtype, a->dims[0], a->dims[1], q->dims[q->rank - 1]) : NULL;
  if (hlo_numel(a) == 0) {
    if (has_q) give(c, 0, identity);
    return;
  }
  tt_qr f = tt_matrix_qr(m, a);
  if (has_q) give(c, 0, tt_matrix_reflect(m, f.packed, f.tau, identity, false));
  if (is_wanted(c, 1))
    give(c, 1, tt_matrix_triangle(m, tt_matrix_block(m, f.packed, r->dims[r->rank - 2], a->dims[2]), false, 0));
}

void rule_geqrf(tt_ctx *c) { /* (self) -> (a, tau) */
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  tt_qr f = tt_matrix_qr(c->m, tt_matrix_argument(c, 0));
  give(c, 0, f.packed);
  give(c, 1, f.tau);
}

void rule_householder_product(tt_ctx *c) { /* (input, tau) */
  hlo_module *m = c->m;
  hlo a = tt_matrix_argument(c, 0), tau = vectors(m, tt_in_own(c, 1));
  if (!a || !tau) return;
  hlo identity = tt_matrix_identity(m, (tt_dtype)a->dtype, a->dims[0], a->dims[1], a->dims[2]);
  give(c, 0, hlo_numel(tau) && is_wanted(c, 0) ? tt_matrix_reflect(m, a, tau, identity, false) : identity);
}

void rule_ormqr(tt_ctx *c) { /* (self, tau, other, left, transpose) */
  hlo_module *m = c->m;
  hlo a = tt_matrix_argument(c, 0), tau = vectors(m, tt_in_own(c, 1)), x = tt_matrix_argument(c, 2);
  bool left = tt_bool(c, 3), adjoint = tt_bool(c, 4);
  if (!tau) return;
  if (hlo_numel(tau) && is_wanted(c, 0)) {
    if (!left) x = tt_matrix_adjoint(m, x);
    x = tt_matrix_reflect(m, a, tau, x, adjoint == left);
    if (!left) x = tt_matrix_adjoint(m, x);
  }
  give(c, 0, x);
}

/* ---- LU ---- */
static bool pivots(tt_ctx *c) {
  if (tt_bool(c, 1)) return true;
  hlo_fail(c->m, TT_INVALID_ARGUMENT, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  return false;
}

static hlo counted_from_1(hlo_module *m, hlo p) { return plus(m, p, 1); }

void rule_lu_factor(tt_ctx *c) { /* (a, pivot, check_errors) -> (lu, pivots, info) */
  if (!pivots(c)) return;
  give_zeros(c, 0);
  if (!is_wanted(c, 0)) return;
  tt_lu f = tt_matrix_lu(c->m, tt_matrix_argument(c, 0));
  give(c, 0, f.lu);
  give(c, 1, counted_from_1(c->m, f.pivots));
  give(c, 2, f.info);
}

/* p, l and u of what is factored: results 0 to 2, where they are wanted. */
static void unpack(tt_ctx *c, hlo lu, hlo order) {
  hlo_module *m = c->m;
  if (!lu) return;
  int64_t rows = lu->dims[1], columns = lu->dims[2], k = rows < columns ? rows : columns;
  if (is_wanted(c, 0)) {
    if (!order) order = hlo_iota(m, TT_I32, 2, (int64_t[]){lu->dims[0], rows}, 1);
    hlo wide = hlo_broadcast(m, order, 3, (int64_t[]){lu->dims[0], rows, rows}, (int[]){0, 2});
    give(c, 0, hlo_convert(m, hlo_compare(m, "EQ", tt_matrix_position(m, wide, 1), wide), (tt_dtype)lu->dtype));
  }
  if (is_wanted(c, 1))
    give(c, 1, tt_matrix_with_diagonal(m, tt_matrix_triangle(m, tt_matrix_block(m, lu, rows, k), true, -1),
        constant_like(m, lu, 1)));
  if (is_wanted(c, 2)) give(c, 2, tt_matrix_triangle(m, tt_matrix_block(m, lu, k, columns), false, 0));
}

void rule_lu(tt_ctx *c) { /* (a, pivot) -> (p, l, u) */
  if (!pivots(c)) return;
  give_zeros(c, 0);
  hlo a = tt_matrix_argument(c, 0);
  if (hlo_numel(a) == 0) {
    unpack(c, a, NULL);
    return;
  }
  tt_lu f = tt_matrix_lu(c->m, a);
  unpack(c, f.lu, f.order);
}

static hlo order_of(tt_ctx *c, hlo p, int64_t rows) {
  return tt_order_of_pivots(c->m, hlo_convert(c->m, plus(c->m, p, -1), TT_I32), rows);
}

void rule_lu_unpack(tt_ctx *c) { /* (lu, pivots, unpack_data, unpack_pivots) -> (p, l, u) */
  give_zeros(c, 0);
  hlo lu = tt_matrix_argument(c, 0), p = vectors(c->m, tt_in_own(c, 1));
  if (!lu || !p) return;
  unpack(c, lu, is_wanted(c, 0) && hlo_numel(p) ? order_of(c, p, lu->dims[1]) : NULL);
}

/* x with a x = b, or x a = b. */
static hlo lu_solved(hlo_module *m, hlo lu, hlo order, hlo b, bool left, bool adjoint) {
  if (left) return tt_matrix_lu_solve(m, lu, order, b, adjoint);
  return tt_matrix_adjoint(m, tt_matrix_lu_solve(m, lu, order, tt_matrix_adjoint(m, b), !adjoint));
}

void rule_lu_solve(tt_ctx *c) { /* (lu, pivots, b, left, adjoint) */
  if (!is_wanted(c, 0)) {
    give_zeros(c, 0);
    return;
  }
  const tt_want *w = &c->want[0];
  hlo lu = tt_matrix_operand(c, 0, 2, w, 2), p = tt_matrix_operand(c, 1, 1, w, 2), b = tt_matrix_operand(c, 2, 2, w, 2);
  if (lu) give(c, 0, lu_solved(c->m, lu, order_of(c, p, lu->dims[1]), b, tt_bool(c, 3), tt_bool(c, 4)));
}

void rule_solve(tt_ctx *c) { /* (a, b, left, check_errors) -> (x, lu, pivots, info) */
  hlo_module *m = c->m;
  give_zeros(c, 0);
  if (!is_wanted(c, 1)) return;
  tt_lu f = tt_matrix_lu(m, tt_matrix_argument(c, 0));
  give(c, 1, f.lu);
  give(c, 2, counted_from_1(m, f.pivots));
  give(c, 3, f.info);
  if (!is_wanted(c, 0) || !f.lu) return;
  /* b is a vector where it has a's batch dims and one more. */
  int rank = tt_in_rank(c, 0), b_rank = tt_in_rank(c, 1);
  bool vector = b_rank == 1 || (b_rank == rank - 1 && !memcmp(tt_in_dims(c, 1), tt_in_dims(c, 0),
      (size_t)b_rank * sizeof(int64_t)));
  const tt_want *w = &c->want[0];
  tt_want batch = {.defined = true, .rank = (uint8_t)(w->rank - (vector ? 1 : 2)), .dims = w->dims};
  hlo b = tt_matrix_operand(c, 1, vector ? 1 : 2, &batch, 0);
  if (vector) b = hlo_unsqueeze(m, b, 2);
  int64_t dims[TT_MAX_RANK];
  memcpy(dims, w->dims, batch.rank * sizeof *dims);
  const int64_t *own = tt_in_dims(c, 0);
  int64_t n = own[rank - 1];
  hlo lu = f.lu, order = f.order;
  if (b && b->dims[0] != lu->dims[0]) { /* the matrices' batch dims, then all of them */
    int64_t full[TT_MAX_RANK];
    memcpy(full, own, (size_t)(rank - 2) * sizeof *full);
    full[rank - 2] = full[rank - 1] = n;
    dims[batch.rank] = dims[batch.rank + 1] = n;
    lu = tt_matrices(m, hlo_broadcast_to(m, hlo_reshape(m, lu, rank, full), batch.rank + 2, dims));
    order = vectors(m, hlo_broadcast_to(m, hlo_reshape(m, order, rank - 1, full), batch.rank + 1, dims));
  }
  give(c, 0, lu_solved(m, lu, order, b, tt_bool(c, 2), false));
}

void rule_inverse(tt_ctx *c) { /* (a, check_errors) -> (inverse, info) */
  hlo_module *m = c->m;
  give_zeros(c, 0);
  if (!is_wanted(c, 0)) return;
  tt_lu f = tt_matrix_lu(m, tt_matrix_argument(c, 0));
  if (!f.lu) return;
  hlo identity = tt_matrix_identity(m, (tt_dtype)f.lu->dtype, f.lu->dims[0], f.lu->dims[1], f.lu->dims[2]);
  give(c, 0, tt_matrix_lu_solve(m, f.lu, f.order, identity, false));
  give(c, 1, f.info);
}

/* ---- determinants ---- */

/* -1 where an odd number of rows was exchanged, else 1: [batch], in t. */
static hlo sign_of_pivots(hlo_module *m, hlo p, tt_dtype t) {
  if (!p) return NULL;
  hlo moved = hlo_compare(m, "NE", p, hlo_iota(m, TT_I32, 2, p->dims, 1));
  hlo odd = hlo_reduce(m, "xor", moved, hlo_int(m, TT_BOOL, 0), 1, (int[]){1});
  return choose(m, odd, hlo_float(m, t, -1), hlo_float(m, t, 1));
}

static hlo product_of(hlo_module *m, hlo d) { return hlo_reduce(m, "multiply", d, constant_like(m, d, 1), 1,
    (int[]){1}); }

static hlo ones_of(tt_ctx *c, int k) { return hlo_full(c->m, c->want[k].dtype, c->want[k].rank, c->want[k].dims, 1); }

/* Operand 0 as torch's determinants factor it, whose gradients use the factors: a real row-major matrix as its
 * transpose. */
static tt_lu factored(tt_ctx *c) {
  hlo a = tt_matrix_argument(c, 0);
  if (!a) return (tt_lu){0};
  bool transposed = tt_in_contiguous(c, 0) && !tt_is_complex((tt_dtype)a->dtype);
  return tt_matrix_lu(c->m, transposed ? tt_matrix_transpose(c->m, a) : a);
}

void rule_det(tt_ctx *c) { /* (a) -> (det, lu, pivots) */
  hlo_module *m = c->m;
  give_zeros(c, 1);
  c->result[0] = ones_of(c, 0);
  if (!is_wanted(c, 1)) return;
  tt_lu f = factored(c);
  hlo d = tt_matrix_diagonal(m, f.lu);
  if (!d) return;
  give(c, 0, mul(m, product_of(m, d), sign_of_pivots(m, f.pivots, (tt_dtype)d->dtype)));
  give(c, 1, f.lu);
  give(c, 2, counted_from_1(m, f.pivots));
}

void rule_slogdet(tt_ctx *c) { /* (a) -> (sign, logabsdet, lu, pivots) */
  hlo_module *m = c->m;
  give_zeros(c, 1);
  c->result[0] = ones_of(c, 0);
  if (!is_wanted(c, 2)) return;
  tt_lu f = factored(c);
  hlo d = tt_matrix_diagonal(m, f.lu), size = absolute(m, d);
  if (!d) return;
  hlo sign = hlo_unary(m, "sign", d);
  give(c, 0, mul(m, product_of(m, sign), sign_of_pivots(m, f.pivots, (tt_dtype)d->dtype)));
  give(c, 1, hlo_reduce(m, "add", logarithm(m, size), constant_like(m, size, 0), 1, (int[]){1}));
  give(c, 2, f.lu);
  give(c, 3, counted_from_1(m, f.pivots));
}
