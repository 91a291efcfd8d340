/* jacobi.c: turns of pairs of rows, round-robin seats, and small words for batches of matrices.
 *
 * All sizes are static and no step is written more than once, so a program's length does not depend on the matrices'
 * size. */
#include "ops/jacobi.h"

#include <float.h>

#include "ops/linalg.h"
#include "ops/math.h"

double tt_epsilon(tt_dtype t) { return tt_real_of(t) == TT_F64 ? DBL_EPSILON : FLT_EPSILON; }

hlo tt_real_part(hlo_module *m, hlo x) {
  return x && tt_is_complex((tt_dtype)x->dtype) ? hlo_unary(m, "real", x) : x;
}

hlo tt_square(hlo_module *m, hlo x) {
  if (!x || !tt_is_complex((tt_dtype)x->dtype)) return mul(m, x, x);
  hlo a = hlo_unary(m, "real", x), b = hlo_unary(m, "imag", x);
  return add(m, mul(m, a, a), mul(m, b, b));
}

hlo tt_sum_last(hlo_module *m, hlo x, int n_dims) {
  if (!x) return NULL;
  int dims[TT_MAX_RANK];
  for (int i = 0; i < n_dims; i++) dims[i] = x->rank - n_dims + i;
  return hlo_reduce(m, "add", x, constant_like(m, x, 0), n_dims, dims);
}

void tt_rounds_left(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = s[1] ? hlo_compare(m, "LT", s[0], hlo_int(m, TT_I32, s[1]->dims[1] - 1)) : NULL;
}

hlo tt_size_of(hlo_module *m, hlo x) {
  if (!x) return NULL;
  hlo part = absolute(m, tt_real_part(m, x));
  if (tt_is_complex((tt_dtype)x->dtype)) part = larger(m, part, absolute(m, hlo_unary(m, "imag", x)));
  hlo size = hlo_reduce(m, "maximum", part, constant_like(m, part, 0), x->rank - 1, (int[]){1, 2});
  return choose_number(m, is(m, size, 0), 1, size);
}

hlo tt_orthonormal_again(hlo_module *m, hlo rows) {
  if (!rows) return NULL;
  hlo products = tt_matrix_product(m, rows, tt_matrix_adjoint(m, rows));
  return sub(m, times(m, rows, 1.5), times(m, tt_matrix_product(m, products, rows), 0.5));
}

static void ascends(hlo_module *m, const hlo *a, hlo *r, void *user) {
  r[0] = hlo_compare(m, *(bool *)user ? "GT" : "LT", a[0], a[1]);
}

hlo tt_rows_by(hlo_module *m, hlo rows, hlo values, bool descending, hlo *sorted) {
  if (!values) return NULL;
  hlo in[2] = {values, hlo_iota(m, TT_I32, 2, values->dims, 1)}, out[2] = {0};
  hlo_sort(m, 2, in, 1, true, ascends, &descending, out);
  *sorted = out[0];
  return tt_matrix_permute_rows(m, rows, out[1]);
}

hlo tt_upper_half(hlo_module *m, hlo x, int dim) { return x ? hlo_slice_dim(m, x, dim, 0, x->dims[dim] / 2, 1) : NULL; }
hlo tt_lower_half(hlo_module *m, hlo x, int dim) {
  return x ? hlo_slice_dim(m, x, dim, x->dims[dim] / 2, x->dims[dim], 1) : NULL;
}

tt_turns tt_jacobi_turns(hlo_module *m, hlo app, hlo aqq, hlo apq) {
  if (!apq) return (tt_turns){0};
  hlo size = absolute(m, apq), none = is(m, size, 0), safe = choose_number(m, none, 1, size);
  hlo slope = quo(m, sub(m, aqq, app), times(m, safe, 2)), steep = absolute(m, slope);
  hlo t = over(m, 1, add(m, steep, root(m, plus(m, mul(m, slope, slope), 1))));
  t = choose(m, is_below(m, slope, 0), neg(m, t), t);
  t = choose_number(m, none, 0, t);
  hlo cosine = over(m, 1, root(m, plus(m, mul(m, t, t), 1))), sine = mul(m, t, cosine);
  tt_dtype dtype = (tt_dtype)apq->dtype;
  if (!tt_is_complex(dtype)) return (tt_turns){cosine, mul(m, sine, quo(m, apq, safe)), t};
  hlo part = quo(m, sine, safe);
  hlo phased = hlo_complex_of(m, mul(m, part, hlo_unary(m, "real", apq)), mul(m, part, hlo_unary(m, "imag", apq)));
  return (tt_turns){hlo_convert(m, cosine, dtype), phased, t};
}

hlo tt_jacobi_seat(hlo_module *m, hlo upper, hlo lower, int dim) {
  if (!upper || !lower) return NULL;
  int64_t k = upper->dims[dim];
  if (k == 1) return hlo_concat(m, 2, (hlo[]){upper, lower}, dim);
  hlo parts[5] = {hlo_slice_dim(m, upper, dim, 0, 1, 1), hlo_slice_dim(m, lower, dim, 0, 1, 1),
                  hlo_slice_dim(m, upper, dim, 1, k - 1, 1), hlo_slice_dim(m, lower, dim, 1, k, 1),
                  hlo_slice_dim(m, upper, dim, k - 1, k, 1)};
  if (k > 2) return hlo_concat(m, 5, parts, dim);
  return hlo_concat(m, 4, (hlo[]){parts[0], parts[1], parts[3], parts[4]}, dim);
}

hlo tt_jacobi_turn(hlo_module *m, hlo x, int dim, tt_turns t) {
  hlo upper = tt_upper_half(m, x, dim), lower = tt_lower_half(m, x, dim);
  if (!upper) return NULL;
  int where[2] = {0, dim};
  hlo c = hlo_broadcast(m, t.cos, x->rank, upper->dims, where),
      s = hlo_broadcast(m, t.sin, x->rank, upper->dims, where);
  hlo p = sub(m, mul(m, c, upper), mul(m, tt_matrix_conj(m, s), lower));
  return tt_jacobi_seat(m, p, add(m, mul(m, s, upper), mul(m, c, lower)), dim);
}
