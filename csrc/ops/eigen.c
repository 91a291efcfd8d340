/* eigen.c: eigenvalues and eigenvectors of Hermitian matrices.
 *
 * Jacobi's method with all pairs of a round-robin step turned at once (jacobi.h): A becomes J^H A J, the vectors V
 * become V J. A sweep ends with all off-diagonal elements smaller; once they are small the next sweep squares them. Odd
 * sizes get a row and column of zeros, which no turn touches. Only the triangle that UPLO names is read, as in LAPACK.
 * What is not finite gives NaN: the device cannot raise what torch raises on the CPU. */
#include <math.h>

#include "ops/jacobi.h"
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"

enum { MOST_SWEEPS = 40 };

/* One step. State: step, A, and the vectors as rows if they are wanted. */
static void one_step(hlo_module *m, const hlo *s, hlo *r, void *user) {
  bool vectors = *(bool *)user;
  hlo a = s[1];
  r[0] = plus(m, s[0], 1);
  if (!a) return;
  int64_t n = a->dims[1], k = n / 2;
  hlo d = tt_real_part(m, tt_matrix_diagonal(m, a)), app = tt_upper_half(m, d, 1), aqq = tt_lower_half(m, d, 1);
  hlo apq = tt_matrix_diagonal(m, tt_lower_half(m, tt_upper_half(m, a, 1), 2));
  tt_turns t = tt_jacobi_turns(m, app, aqq, apq), adjoint = t;
  adjoint.sin = tt_matrix_conj(m, t.sin);
  if (vectors) r[2] = tt_jacobi_turn(m, s[2], 1, t);
  a = tt_jacobi_turn(m, tt_jacobi_turn(m, a, 1, adjoint), 2, t);
  /* What is known exactly is put in place: the diagonal, and zeros where the pairs met. */
  hlo change = mul(m, t.tangent, absolute(m, apq));
  d = hlo_convert(m, tt_jacobi_seat(m, sub(m, app, change), add(m, aqq, change), 1), (tt_dtype)a->dtype);
  hlo pair = hlo_iota(m, TT_I32, 1, &k, 0);
  pair = tt_jacobi_seat(m, pair, pair, 0);
  hlo met = hlo_compare(m, "EQ", hlo_broadcast(m, pair, 3, a->dims, (int[]){1}),
                        hlo_broadcast(m, pair, 3, a->dims, (int[]){2}));
  a = choose(m, met, hlo_full_like(m, a, 0), a);
  r[1] = choose(m, tt_matrix_where(m, a, "EQ", 0), hlo_broadcast(m, d, 3, a->dims, (int[]){0, 1}), a);
}
/* State: sweeps, A, the limit below which the squares outside the diagonal may be left, and the vectors. */
static void one_sweep(hlo_module *m, const hlo *s, hlo *r, void *user) {
  bool vectors = *(bool *)user;
  hlo in[3] = {hlo_int(m, TT_I32, 0), s[1], vectors ? s[3] : NULL}, out[3] = {0};
  hlo_while(m, 2 + vectors, in, tt_rounds_left, one_step, user, out);
  r[0] = plus(m, s[0], 1), r[1] = out[1], r[2] = s[2];
  if (vectors) r[3] = out[2];
}
static void unfinished(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  hlo a = s[1];
  if (!a) return;
  hlo outside = choose(m, tt_matrix_where(m, a, "EQ", 0), hlo_full_like(m, a, 0), a);
  hlo rest = tt_sum_last(m, tt_square(m, outside), 2);
  r[0] = both(m, is_below(m, s[0], MOST_SWEEPS), any(m, hlo_compare(m, "GT", rest, s[2])));
}

void rule_eigh(tt_ctx *c) { /* (A, UPLO, compute_v) */
  hlo_module *m = c->m;
  hlo a = tt_matrices(m, tt_in_own(c, 0));
  bool vectors = tt_bool(c, 2);
  if (!a) return;
  tt_dtype t = (tt_dtype)a->dtype, real = tt_real_of(t);
  int64_t batch = a->dims[0], n = a->dims[1], padded = n + n % 2;
  for (int k = 0; k < 2; k++) c->result[k] = hlo_full(m, k ? t : real, c->want[k].rank, c->want[k].dims, 0);
  if (hlo_numel(a) == 0) return;
  const char *triangle = tt_str(c, 1);
  a = tt_matrix_mirrored(m, a, *triangle == 'U' || *triangle == 'u', true);
  hlo size = tt_size_of(m, a);
  a = quo(m, a, hlo_convert(m, hlo_broadcast(m, size, 3, a->dims, (int[]){0}), t));
  a = hlo_pad(m, a, constant_like(m, a, 0), (int64_t[]){0, 0, 0}, (int64_t[]){0, n % 2, n % 2}, NULL);
  hlo limit = times(m, tt_sum_last(m, tt_square(m, a), 2), pow(tt_epsilon(t) / 8, 2));
  hlo identity = tt_matrix_identity(m, t, batch, padded, n);
  hlo in[4] = {hlo_int(m, TT_I32, 0), a, limit, identity}, out[4] = {0};
  hlo_while(m, 3 + vectors, in, unfinished, one_sweep, &vectors, out);
  hlo values = tt_real_part(m, tt_matrix_diagonal(m, out[1]));
  if (!values) return;
  hlo extra = hlo_compare(m, "EQ", hlo_iota(m, TT_I32, 2, values->dims, 1), hlo_int(m, TT_I32, n));
  values = choose_number(m, extra, INFINITY, values); /* comes out last */
  hlo found = tt_rows_by(m, vectors ? tt_orthonormal_again(m, out[3]) : NULL, values, false, &values);
  values = hlo_slice_dim(m, values, 1, 0, n, 1);
  values = mul(m, values, hlo_broadcast(m, size, 2, values ? values->dims : NULL, (int[]){0}));
  c->result[0] = hlo_reshape(m, values, c->want[0].rank, c->want[0].dims);
  if (!found) return;
  found = tt_matrix_transpose(m, hlo_slice_dim(m, found, 1, 0, n, 1));
  c->result[1] = hlo_reshape(m, found, c->want[1].rank, c->want[1].dims);
}
