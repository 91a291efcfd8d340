/* jacobi.h: what the Jacobi methods for eigenvalues (eigen.c) and singular values (svd.c) share.
 *
 * Vectors are the rows of [batch, 2k, length]. In a step row i of the upper half meets row i of the lower half and all
 * k pairs turn at once; then the rows change seats as in a round-robin tournament, so that 2k - 1 steps, a sweep, let
 * every row meet every other and bring all back to where they were. */
#ifndef TT_OPS_JACOBI_H
#define TT_OPS_JACOBI_H
#include "ops/op.h"

/* Turns of the pairs (p, q): p' = cos p - conj(sin) q, q' = sin p + cos q. [batch, k] each. */
typedef struct tt_turns {
  hlo cos, sin, tangent; /* the tangent is real: of the angle, whose sign is sin's phase */
} tt_turns;
/* The turns that make [[app, apq], [conj(apq), aqq]] diagonal, by the smaller angle (Golub & Van Loan, section 8.5);
 * app and aqq are real. */
tt_turns tt_jacobi_turns(hlo_module *m, hlo app, hlo aqq, hlo apq);
/* x[batch, ...] with the pairs along dim turned, and seats changed. */
hlo tt_jacobi_turn(hlo_module *m, hlo x, int dim, tt_turns t);
/* Upper and lower halves along dim, after a change of seats. */
hlo tt_jacobi_seat(hlo_module *m, hlo upper, hlo lower, int dim);
hlo tt_upper_half(hlo_module *m, hlo x, int dim);
hlo tt_lower_half(hlo_module *m, hlo x, int dim);

hlo tt_real_part(hlo_module *m, hlo x);  /* of reals: themselves */
hlo tt_square(hlo_module *m, hlo x);     /* |x|^2, real */
hlo tt_sum_last(hlo_module *m, hlo x, int n_dims); /* over the last n_dims */
/* The condition of a sweep's loop, whose state is the round and then the rows: every pair of rows meets in one fewer
 * rounds. */
void tt_rounds_left(hlo_module *m, const hlo *s, hlo *r, void *user);
/* The largest |x| of each matrix [batch], 1 where that is 0: what to divide by so that squares neither overflow nor
 * vanish. */
hlo tt_size_of(hlo_module *m, hlo x);
/* rows[batch, n, length] in the order of values[batch, n]; *sorted gets the values. */
hlo tt_rows_by(hlo_module *m, hlo rows, hlo values, bool descending, hlo *sorted);
/* Rows[batch, n, length] that are orthonormal but for the rounding of many turns, made so again: a step of Newton and
 * Schulz. */
hlo tt_orthonormal_again(hlo_module *m, hlo rows);
double tt_epsilon(tt_dtype t);           /* the distance of 1 to the next number, of the real dtype under t */
#endif
