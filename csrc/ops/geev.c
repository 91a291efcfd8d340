/* geev.c: eigenvalues and eigenvectors of square matrices without symmetry.
 *
 * They are read off the Schur form (schur.h). The 2 by 2 blocks of a real form give pairs that are conjugate to the
 * last bit, the one above the real axis first; complex rotations then take the blocks apart. Eigenvectors of the
 * triangle come by back substitution, all at once, a row after the other, and are scaled as LAPACK's geev does: length
 * 1, and the largest element real where the value is not. Where the iteration fails, as on what is not finite, there is
 * NaN: the device cannot raise. */
#include <float.h>
#include <math.h>

#include "ops/index.h"
#include "ops/jacobi.h"
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"
#include "ops/schur.h"

/* Eigenvalues [batch, n] of a real form; and where a block starts. */
typedef struct values { hlo re, im, block; } values;
static values values_of(hlo_module *m, hlo form) {
  tt_bands t = tt_matrix_bands(m, form);
  hlo zero = constant_like(m, t.on, 0);
  hlo a = t.on, b = tt_ahead(m, t.above, 1), c = tt_ahead(m, t.below, 1), d = tt_ahead(m, t.on, 1);
  hlo block = hlo_compare(m, "NE", c, zero), half = times(m, sub(m, a, d), 0.5);
  /* Scaled, so that no product under- or overflows. */
  hlo size = larger(m, absolute(m, half), larger(m, absolute(m, b), absolute(m, c)));
  size = choose_number(m, is(m, size, 0), 1, size);
  hlo p = quo(m, half, size), inner = add(m, mul(m, p, p), mul(m, quo(m, b, size), quo(m, c, size)));
  hlo away = mul(m, size, root(m, absolute(m, inner))), pair = is_below(m, inner, 0);
  hlo z = add(m, half, choose(m, is_below(m, half, 0), neg(m, away), away));
  hlo safe = choose_number(m, is(m, z, 0), 1, z);
  hlo first = add(m, d, z), second = sub(m, d, mul(m, b, quo(m, c, safe))), bare = is(m, b, 0);
  first = choose(m, bare, d, first), second = choose(m, bare, a, second);
  hlo mean = add(m, d, half);
  first = choose(m, pair, mean, first), second = choose(m, pair, mean, second);
  hlo im = choose(m, both(m, block, pair), away, zero);
  hlo after = hlo_compare(m, "NE", t.below, zero);
  hlo re = choose(m, block, first, choose(m, after, tt_ahead(m, second, -1), t.on));
  return (values){re, sub(m, im, tt_ahead(m, im, -1)), block};
}

/* ---- from a real form to a triangular one. State: form, basis; user: the eigenvalues ---- */
typedef struct split { hlo value, block; } split;

static void split_block(hlo_module *m, hlo k, const hlo *in, hlo *out, void *user) {
  const split *s = user;
  hlo rows = tt_matrix_take(m, in[0], 1, k, 2), pair = tt_matrix_take(m, rows, 2, k, 2);
  if (!pair) return;
  hlo c = hlo_slice_dim(m, hlo_slice_dim(m, pair, 1, 1, 2, 1), 2, 0, 1, 1),
      d = hlo_slice_dim(m, hlo_slice_dim(m, pair, 1, 1, 2, 1), 2, 1, 2, 1);
  hlo value = hlo_unsqueeze(
      m, hlo_dynamic_slice(m, s->value, (hlo[]){hlo_int(m, TT_I32, 0), k}, (int64_t[]){in[0]->dims[0], 1}), 2);
  hlo block = hlo_unsqueeze(
      m, hlo_dynamic_slice(m, s->block, (hlo[]){hlo_int(m, TT_I32, 0), k}, (int64_t[]){in[0]->dims[0], 1}), 2);
  hlo x = sub(m, value, d), length = root(m, add(m, tt_square(m, x), tt_square(m, c)));
  length = hlo_convert(m, choose_number(m, is(m, length, 0), 1, length), (tt_dtype)pair->dtype);
  x = choose(m, block, quo(m, x, length), constant_like(m, x, 1)); /* (x, y) is the block's first eigenvector */
  hlo y = choose(m, block, quo(m, c, length), constant_like(m, x, 0));
  hlo first = hlo_concat(m, 2, (hlo[]){x, y}, 1),
      second = hlo_concat(m, 2, (hlo[]){neg(m, tt_matrix_conj(m, y)), tt_matrix_conj(m, x)}, 1);
  hlo g = hlo_concat(m, 2, (hlo[]){first, second}, 2);
  hlo form = tt_matrix_put(m, in[0], 1, k, tt_matrix_product_adjoint(m, g, rows));
  out[0] = tt_matrix_put(m, form, 2, k, tt_matrix_product(m, tt_matrix_take(m, form, 2, k, 2), g));
  out[1] = tt_matrix_put(m, in[1], 2, k, tt_matrix_product(m, tt_matrix_take(m, in[1], 2, k, 2), g));
}

/* ---- eigenvectors of a triangle. State: X; row i of T X = X diag(values), from the last row up ---- */
typedef struct triangle { hlo form, value; double ulp, tiny, large; } triangle;

static void row_up(hlo_module *m, hlo turn, const hlo *in, hlo *out, void *user) {
  const triangle *t = user;
  hlo x = in[0];
  if (!x) return;
  int64_t n = x->dims[2];
  hlo i = sub(m, hlo_int(m, TT_I32, n - 2), turn), row = tt_matrix_take(m, t->form, 1, i, 1);
  hlo here = tt_matrix_take(m, row, 2, i, 1), place = tt_matrix_position(m, row, 2),
      beyond = hlo_compare(m, "GT", place, i);
  hlo sum = tt_matrix_product(m, choose(m, beyond, row, constant_like(m, row, 0)), x); /* [batch, 1, n] */
  hlo value = hlo_unsqueeze(m, t->value, 1), gap = sub(m, value, tt_matrix_spread(m, here, 1, n));
  hlo least = larger(m, times(m, tt_matrix_abs1(m, value), t->ulp), constant_like(m, tt_real_part(m, value), t->tiny));
  hlo close = hlo_compare(m, "LT", tt_matrix_abs1(m, gap), least);
  gap = choose(m, close, hlo_convert(m, least, gap ? (tt_dtype)gap->dtype : TT_F32), gap);
  hlo next = choose(m, beyond, quo(m, sum, gap), tt_matrix_take(m, x, 1, i, 1));
  hlo size = tt_matrix_abs1(m, next);
  hlo factor = choose(m, is_above(m, size, t->large), over(m, 1, size), hlo_full_like(m, size, 1));
  factor = hlo_convert(m, factor, (tt_dtype)x->dtype);
  x = tt_matrix_put(m, x, 1, i, next);
  out[0] = mul(m, x, tt_matrix_spread(m, factor, n, n));
}

/* Columns of length 1; those of complex values turned so that their largest element is real. */
static hlo normalised(hlo_module *m, hlo v, hlo turned) {
  if (!v) return NULL;
  int64_t n = v->dims[1];
  tt_dtype t = (tt_dtype)v->dtype;
  hlo largest = tt_matrix_max(m, tt_matrix_abs1(m, v), 1); /* so that squares do not overflow */
  v = quo(m, v, hlo_convert(m, tt_matrix_spread(m, choose_number(m, is(m, largest, 0), 1, largest), n, n), t));
  hlo squares = tt_square(m, v), length = root(m, tt_matrix_sum(m, squares, 1));
  v = quo(m, v, hlo_convert(m, tt_matrix_spread(m, length, n, n), t));
  hlo row = tt_matrix_position(m, v, 1),
      top = hlo_compare(m, "EQ", squares, tt_matrix_spread(m, tt_matrix_max(m, squares, 1), n, n));
  hlo first = choose(m, top, row, hlo_int(m, TT_I32, INT32_MAX));
  first = hlo_unsqueeze(m, hlo_reduce(m, "minimum", first, hlo_int(m, TT_I32, INT32_MAX), 1, (int[]){1}), 1);
  hlo at = hlo_compare(m, "EQ", row, tt_matrix_spread(m, first, n, n));
  hlo head = tt_matrix_sum(m, choose(m, at, v, constant_like(m, v, 0)), 1), size = absolute(m, head);
  hlo phase = quo(m, tt_matrix_conj(m, head), hlo_convert(m, choose_number(m, is(m, size, 0), 1, size), t));
  hlo turn = mul(m, v, tt_matrix_spread(m, phase, n, n));
  turn = choose(m, at, hlo_convert(m, tt_real_part(m, turn), t), turn);
  return choose(m, tt_matrix_spread(m, hlo_unsqueeze(m, turned, 1), n, n), turn, v);
}

static hlo vectors_of(hlo_module *m, tt_schur s, hlo value, values v, bool real) {
  if (!s.form || !value) return NULL;
  tt_dtype t = (tt_dtype)value->dtype;
  int64_t batch = s.form->dims[0], n = s.form->dims[1];
  hlo pair[2] = {hlo_convert(m, s.form, t), hlo_convert(m, s.basis, t)};
  split blocks = {value, v.block};
  if (real && n > 1) tt_loop(m, hlo_int(m, TT_I32, 0), hlo_int(m, TT_I32, n - 1), 2, pair, split_block, &blocks, pair);
  bool wide = t == TT_C128;
  triangle job = {tt_matrix_with_diagonal(m, pair[0], value), value, tt_epsilon(t),
                  (wide ? DBL_MIN : FLT_MIN) * (double)n / tt_epsilon(t), wide ? 1e100 : 1e10};
  hlo x = tt_matrix_identity(m, t, batch, n, n);
  if (n > 1) tt_loop(m, hlo_int(m, TT_I32, 0), hlo_int(m, TT_I32, n - 1), 1, &x, row_up, &job, &x);
  x = tt_matrix_product(m, pair[1], x);
  if (!real) return normalised(m, x, hlo_full(m, TT_BOOL, 2, value->dims, 1));
  hlo zero = constant_like(m, v.im, 0), is_pair = hlo_compare(m, "NE", v.im, zero);
  x = normalised(m, x, is_pair);
  if (!x) return NULL;
  /* Real values have real vectors, and the second of a pair has the first's conjugate. */
  hlo before = tt_moved(m, x, 2, 1, constant_like(m, x, 0));
  hlo second = tt_matrix_spread(m, hlo_unsqueeze(m, hlo_compare(m, "LT", v.im, zero), 1), n, n);
  is_pair = tt_matrix_spread(m, hlo_unsqueeze(m, is_pair, 1), n, n);
  return choose(m, second, tt_matrix_conj(m, before), choose(m, is_pair, x, hlo_convert(m, tt_real_part(m, x), t)));
}

void rule_eig(tt_ctx *c) { /* (self); hlo: "" or "values" */
  hlo_module *m = c->m;
  hlo a = tt_matrices(m, tt_in_own(c, 0));
  if (!a) return;
  tt_dtype t = (tt_dtype)c->want[0].dtype;
  bool vectors = !*c->op->hlo, real = !tt_is_complex((tt_dtype)a->dtype);
  for (int k = 0; k < 1 + vectors; k++) c->result[k] = hlo_full(m, t, c->want[k].rank, c->want[k].dims, 0);
  if (hlo_numel(a) == 0) return;
  hlo size = tt_size_of(m, a); /* squares of what is left stay within the dtype's range */
  a = quo(m, a, hlo_convert(m, hlo_broadcast(m, size, 3, a->dims, (int[]){0}), (tt_dtype)a->dtype));
  tt_schur s = tt_matrix_schur(m, a, vectors);
  values v = {0};
  hlo value = NULL;
  if (real) v = values_of(m, s.form), value = hlo_complex_of(m, v.re, v.im);
  else value = tt_matrix_diagonal(m, s.form);
  if (!value) return;
  hlo found = vectors ? vectors_of(m, s, value, v, real) : NULL;
  if (s.failed) {
    hlo nan = hlo_complex(m, t, NAN, NAN);
    value = choose(m, hlo_broadcast(m, s.failed, 2, value->dims, (int[]){0}), nan, value);
    if (found) found = choose(m, tt_matrix_spread(m, s.failed, a->dims[1], a->dims[1]), nan, found);
  }
  value = mul(m, value, hlo_convert(m, hlo_broadcast(m, size, 2, value->dims, (int[]){0}), t));
  c->result[0] = hlo_reshape(m, value, c->want[0].rank, c->want[0].dims);
  if (found) c->result[1] = hlo_reshape(m, found, c->want[1].rank, c->want[1].dims);
}
