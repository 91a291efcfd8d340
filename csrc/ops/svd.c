/* svd.c: singular values and vectors by one-sided Jacobi turns.
 *
 * The columns of T (A, its adjoint where A is wide; the triangle of its QR where that is smaller) are turned in pairs
 * (jacobi.h) until all are orthogonal to working precision, each to its own length: T V = G, with the singular values
 * as lengths (Hestenes; Demmel & Veselic, "Jacobi's method is more accurate than QR", 1992). Then a QR of G, longest
 * column first, gives the left vectors: it makes up those of columns that are zero. What is not finite gives NaN: the
 * device cannot raise what torch raises on the CPU. */
#include <math.h>

#include "ops/index.h"
#include "ops/jacobi.h"
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"

enum { MOST_SWEEPS = 40 };

/* of rows that are turned; what follows in a row is carried along */
typedef struct task { int64_t length; double tolerance; } task;

/* State: step, rows, whether a pair was turned in this sweep. */
static void one_step(hlo_module *m, const hlo *s, hlo *r, void *user) {
  const task *job = user;
  hlo columns = s[1] ? hlo_slice_dim(m, s[1], 2, 0, job->length, 1) : NULL;
  hlo p = tt_upper_half(m, columns, 1), q = tt_lower_half(m, columns, 1);
  hlo pp = tt_sum_last(m, tt_square(m, p), 1), qq = tt_sum_last(m, tt_square(m, q), 1);
  hlo pq = tt_sum_last(m, mul(m, tt_matrix_conj(m, p), q), 1);
  hlo apart = hlo_compare(m, "GT", absolute(m, pq), times(m, mul(m, root(m, pp), root(m, qq)), job->tolerance));
  pq = choose(m, apart, pq, constant_like(m, pq, 0));
  r[0] = plus(m, s[0], 1);
  r[1] = tt_jacobi_turn(m, s[1], 1, tt_jacobi_turns(m, pp, qq, pq));
  r[2] = either(m, s[2], any(m, apart));
}
/* State: sweeps, rows, whether a pair was turned in the last. */
static void one_sweep(hlo_module *m, const hlo *s, hlo *r, void *user) {
  hlo in[3] = {hlo_int(m, TT_I32, 0), s[1], hlo_int(m, TT_BOOL, 0)}, out[3] = {0};
  hlo_while(m, 3, in, tt_rounds_left, one_step, user, out);
  r[0] = plus(m, s[0], 1), r[1] = out[1], r[2] = out[2];
}
static void unfinished(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = both(m, is_below(m, s[0], MOST_SWEEPS), s[2]);
}

/* The n by n unitary matrix whose columns point as g's, which are orthogonal and in order of length. */
static hlo directions(hlo_module *m, hlo g) {
  if (!g) return NULL;
  tt_dtype t = (tt_dtype)g->dtype;
  tt_qr f = tt_matrix_qr(m, g);
  hlo q = tt_matrix_reflect(m, f.packed, f.tau, tt_matrix_identity(m, t, g->dims[0], g->dims[1], g->dims[1]), false);
  hlo d = tt_matrix_diagonal(m, f.packed), size = hlo_convert(m, absolute(m, d), t);
  hlo phase = choose_number(m, is(m, size, 0), 1, quo(m, d, size));
  return q ? mul(m, q, hlo_broadcast(m, phase, 3, q->dims, (int[]){0, 2})) : NULL;
}

/* Result k: matrices or vectors. */
static void give(tt_ctx *c, int k, hlo x) { c->result[k] = hlo_reshape(c->m, x, c->want[k].rank, c->want[k].dims); }

/* Without columns or rows there is nothing but the bases that full_matrices asks for. */
static void give_bases(tt_ctx *c) {
  for (int k = 0; k < 3; k += 2) {
    const tt_want *w = &c->want[k];
    if (w->rank < 2 || hlo_numel(c->result[k]) == 0) continue;
    int64_t n = w->dims[w->rank - 1];
    give(c, k, tt_matrix_identity(c->m, (tt_dtype)w->dtype, hlo_numel(c->result[k]) / (n * n), n, n));
  }
}

void rule_svd(tt_ctx *c) { /* (A, full_matrices, compute_uv, driver) */
  hlo_module *m = c->m;
  hlo a = tt_matrices(m, tt_in_own(c, 0));
  bool full = tt_bool(c, 1), vectors = tt_bool(c, 2);
  if (!a) return;
  tt_dtype t = (tt_dtype)a->dtype;
  for (int k = 0; k < 3; k++) c->result[k] = tt_want_zeros(c, k);
  if (hlo_numel(a) == 0) {
    give_bases(c);
    return;
  }
  bool wide = a->dims[1] < a->dims[2];
  int64_t batch = a->dims[0], n = a->dims[wide ? 1 : 2], length = a->dims[wide ? 2 : 1], odd = n % 2;
  hlo size = tt_size_of(m, a);
  hlo tall = quo(m, a, hlo_convert(m, tt_matrix_spread(m, size, a->dims[1], a->dims[2]), t));
  if (wide) tall = tt_matrix_adjoint(m, tall);
  tt_qr outer = {0}; /* of what is taller than wide, only the square part of what it is turned to is worked on */
  if (length > n) {
    /* gesdd takes a QR of what is much taller than wide; what it does otherwise shows in the basis that completes U or
     * V. The bounds are those of torch's CPU builds. */
    bool much = tt_is_complex(t) ? length >= n * 17 / 9 : !wide && length >= n * 3 / 2;
    bool completed = full && vectors && !much;
    outer = completed ? tt_matrix_bidiagonal(m, tall) : tt_matrix_qr(m, tall);
    tall = completed ? tt_matrix_block(m, tt_matrix_reflect(m, outer.packed, outer.tau, tall, true), n, n)
                     : tt_matrix_triangle(m, tt_matrix_block(m, outer.packed, n, n), false, 0);
  }
  hlo rows = tt_matrix_block(m, tt_matrix_transpose(m, tall), n + odd, n);
  if (vectors) rows = hlo_concat(m, 2, (hlo[]){rows, tt_matrix_identity(m, t, batch, n + odd, n)}, 2);
  task job = {n, tt_epsilon(t) * sqrt((double)n)};
  hlo in[3] = {hlo_int(m, TT_I32, 0), rows, hlo_int(m, TT_BOOL, 1)}, out[3] = {0};
  hlo_while(m, 3, in, unfinished, one_sweep, &job, out);
  if (!out[1]) return;
  hlo g = hlo_slice_dim(m, out[1], 2, 0, n, 1), values = root(m, tt_sum_last(m, tt_square(m, g), 1));
  hlo v = vectors ? tt_orthonormal_again(m, hlo_slice_dim(m, out[1], 2, n, 2 * n, 1)) : NULL;
  rows = tt_rows_by(m, v ? hlo_concat(m, 2, (hlo[]){g, v}, 2) : NULL, values, true, &values);
  values = hlo_slice_dim(m, values, 1, 0, n, 1); /* without the row that made n even: it is zero, and last */
  give(c, 1, mul(m, values, hlo_broadcast(m, size, 2, (int64_t[]){batch, n}, (int[]){0})));
  if (!vectors) return;
  rows = hlo_slice_dim(m, rows, 1, 0, n, 1);
  hlo right = hlo_slice_dim(m, rows, 2, n, 2 * n, 1); /* V's columns, as rows */
  hlo left = directions(m, tt_matrix_transpose(m, hlo_slice_dim(m, rows, 2, 0, n, 1)));
  if (length > n) {
    int64_t count = full ? length : n;
    hlo base = tt_matrix_identity(m, t, batch, length, count); /* with left as its first block, in Q's terms */
    hlo inside = both(m, hlo_compare(m, "LT", tt_matrix_position(m, base, 1), hlo_int(m, TT_I32, n)),
                      hlo_compare(m, "LT", tt_matrix_position(m, base, 2), hlo_int(m, TT_I32, n)));
    base = choose(m, inside, tt_matrix_block(m, left, length, count), base);
    left = tt_matrix_reflect(m, outer.packed, outer.tau, base, false);
  }
  give(c, 0, wide ? tt_matrix_transpose(m, right) : left);
  give(c, 2, wide ? tt_matrix_adjoint(m, left) : tt_matrix_conj(m, right));
}
