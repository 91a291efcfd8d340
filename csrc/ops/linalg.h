/* linalg.h: matrices as values, and factorisations of them, shared by the rules of linear algebra.
 *
 * A matrix here is a value of rank 3, [batch, rows, columns]: tt_matrices makes one of any operand, hlo_reshape takes
 * it back. Elements are f32, f64, c64 or c128. All accept NULL and give NULL then. Products are of the highest
 * precision: a factorisation in bf16 passes is none. Loops over columns are loops of the program, so that its text does
 * not grow with the matrix. Empty matrices are the rules' business. */
#ifndef TT_OPS_LINALG_H
#define TT_OPS_LINALG_H
#include "ops/op.h"

/* ---- matrix.c: forms and parts ---- */
hlo tt_matrices(hlo_module *m, hlo x);                     /* [.., r, c] -> [batch, r, c] */
/* Operand i as matrices: UNIMPLEMENTED where LAPACK has no such dtype. */
hlo tt_matrix_argument(tt_ctx *c, int i);
/* Operand i, its dims before the last inner ones broadcast to those of want before its want_inner: [batch, inner..]. */
hlo tt_matrix_operand(tt_ctx *c, int i, int inner, const tt_want *want, int want_inner);
hlo tt_matrix_conj(hlo_module *m, hlo x);                  /* real: x itself */
hlo tt_matrix_transpose(hlo_module *m, hlo x);
hlo tt_matrix_adjoint(hlo_module *m, hlo x);
hlo tt_matrix_product(hlo_module *m, hlo a, hlo b);        /* batch by batch */
hlo tt_matrix_product_adjoint(hlo_module *m, hlo a, hlo b); /* a^H b */
hlo tt_matrix_identity(hlo_module *m, tt_dtype t, int64_t batch, int64_t rows, int64_t columns);
hlo tt_matrix_position(hlo_module *m, hlo x, int dim);     /* i32: the place of each element along dim */
/* Where column - row stands in that relation ("LE", "GE", "EQ" ...) to k: bool, x's dims. */
hlo tt_matrix_where(hlo_module *m, hlo x, const char *direction, int64_t k);
hlo tt_matrix_triangle(hlo_module *m, hlo x, bool lower, int64_t k); /* zero outside it; k moves its diagonal */
/* Symmetric or Hermitian (with a real diagonal), as one triangle of square x has it. */
hlo tt_matrix_mirrored(hlo_module *m, hlo x, bool upper, bool hermitian);
hlo tt_matrix_diagonal(hlo_module *m, hlo x);              /* [batch, min(r, c)] */
/* x with its diagonal replaced by d, which is [batch, min(r, c)] or of rank 0. */
hlo tt_matrix_with_diagonal(hlo_module *m, hlo x, hlo d);
/* x repeated along the dims where it has size 1: [b, r, 1], [b, 1, c], [b, 1, 1] or less than rank 3, batch first. */
hlo tt_matrix_spread(hlo_module *m, hlo x, int64_t rows, int64_t columns);
hlo tt_matrix_block(hlo_module *m, hlo x, int64_t rows, int64_t columns); /* the leading part, or padded with zeros */
/* Columns (dim 2) or rows (dim 1) from a place that is a value, a rank-0 i32: n of them. */
hlo tt_matrix_take(hlo_module *m, hlo x, int dim, hlo at, int64_t n);
hlo tt_matrix_put(hlo_module *m, hlo x, int dim, hlo at, hlo part);
hlo tt_matrix_permute_rows(hlo_module *m, hlo x, hlo order); /* result row i is row order[b, i] (i32, [batch, r]) */
hlo tt_matrix_row_at(hlo_module *m, hlo x, hlo p); /* [batch, 1, c]; p: rank 0, or [batch, 1, 1]: each batch its own */
hlo tt_matrix_exchange(hlo_module *m, hlo x, hlo p, hlo q); /* rows p and q change places */
/* Where the real x [batch, r, 1] is largest, of the places allowed: the first of several, NaN above all. [batch, 1, 1]
 */
hlo tt_matrix_largest(hlo_module *m, hlo x, hlo allowed);
hlo tt_matrix_sum(hlo_module *m, hlo x, int dim);          /* that dim is kept, with size 1 */
hlo tt_matrix_max(hlo_module *m, hlo x, int dim);          /* of real x; the same */
hlo tt_matrix_abs1(hlo_module *m, hlo x);                  /* |re| + |im|: how LAPACK compares complex numbers */

/* for (i = from; i < to; i++) body(i, values): from and to are rank-0 i32. results are the new values. */
typedef void tt_loop_body(hlo_module *m, hlo i, const hlo *values, hlo *results, void *user);
void tt_loop(hlo_module *m, hlo from, hlo to, int n, const hlo *inits, tt_loop_body *body, void *user, hlo *results);

/* ---- factor.c: factorisations in LAPACK's conventions ---- */
/* a x = b with the lower or upper triangle of a; unit: ones for its diagonal. The rest of a is not read. */
hlo tt_matrix_triangular_solve(hlo_module *m, hlo a, hlo b, bool lower, bool unit);
hlo tt_matrix_cholesky(hlo_module *m, hlo a);              /* l of a Hermitian a = l l^H; NaN where there is none */
/* getrf. order: the rows of x in the order of those of L U (i32, [batch, r]); pivots count from 0 (i32, [batch, k]);
 * info is 0 or the first k with u[k, k] = 0, counted from 1 (i32, [batch]). */
typedef struct tt_lu { hlo lu, order, pivots, info; } tt_lu;
tt_lu tt_matrix_lu(hlo_module *m, hlo x);
hlo tt_order_of_pivots(hlo_module *m, hlo pivots, int64_t rows); /* pivots from 0, [batch, k] -> order */
hlo tt_order_inverse(hlo_module *m, hlo order);             /* undoes it: where each row stands in it */
/* getrs, all right-hand sides at once: a x = b; adjoint: a^H x = b. */
hlo tt_matrix_lu_solve(hlo_module *m, hlo lu, hlo order, hlo b, bool adjoint);
/* larfg: I - tau w w^H, adjoint, takes x, of which what is at place at and below counts, to beta there and zeros below
 * it. w is 1 at that place and 0 above it; [batch, r, 1], the others [batch, 1, 1]. beta is real, but for what needs no
 * turn. */
typedef struct tt_reflector { hlo w, tau, beta; } tt_reflector;
tt_reflector tt_reflector_of(hlo_module *m, hlo x, hlo at);
/* geqrf: reflectors below the diagonal, r on and above it; tau is [batch, min(r, c)]. */
typedef struct tt_qr { hlo packed, tau; } tt_qr;
tt_qr tt_matrix_qr(hlo_module *m, hlo x);
/* gebrd's left factor: as with tt_matrix_qr, x turned by the adjoint of packed's reflectors is zero below row c, but
 * columns are turned between the steps, so that what completes the basis is another. Above the reflectors packed means
 * nothing. rows > c. */
tt_qr tt_matrix_bidiagonal(hlo_module *m, hlo x);
/* unmqr from the left: the product of I - tau v v^H over the columns of packed, times x; adjoint: its adjoint. */
hlo tt_matrix_reflect(hlo_module *m, hlo packed, hlo tau, hlo x, bool adjoint);
#endif
