/* ldl.c: L D L^T and L D L^H of symmetric and Hermitian matrices with diagonal pivoting, and systems given by them.
 *
 * Bunch and Kaufman's partial pivoting (Math. Comp. 31, 1977) in the form of LAPACK's sytf2 and hetf2 with uplo = 'L':
 * 1 by 1 or 2 by 2 pivots, whose rows and columns are exchanged in what is left only. Matrices of a batch choose
 * differently, so each carries its own place in the loop, and what it holds at a place is picked by masks. */
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"

static hlo whole(hlo_module *m, int64_t i) { return hlo_int(m, TT_I32, i); }
static hlo equal(hlo_module *m, hlo a, hlo b) { return hlo_compare(m, "EQ", a, b); }
static hlo at_least(hlo_module *m, hlo a, hlo b) { return hlo_compare(m, "GE", a, b); }
static hlo nothing(hlo_module *m, hlo x) { return constant_like(m, x, 0); }

/* [batch, 1, 1] to [batch, n, 1] and to [batch, n, n] of a square x. */
static hlo tall(hlo_module *m, hlo v, hlo x) { return x ? tt_matrix_spread(m, v, x->dims[1], 1) : NULL; }
static hlo wide(hlo_module *m, hlo v, hlo x) { return x ? tt_matrix_spread(m, v, x->dims[1], x->dims[2]) : NULL; }

/* Column k ([batch, 1, 1]) of each matrix. */
static hlo column_at(hlo_module *m, hlo x, hlo k) {
  hlo there = equal(m, tt_matrix_position(m, x, 2), wide(m, k, x));
  return tt_matrix_sum(m, choose(m, there, x, nothing(m, x)), 2);
}

static hlo mirrored(hlo_module *m, hlo x, bool hermitian) { return hermitian ? tt_matrix_conj(m, x) : x; }

/* How large a pivot is: of a Hermitian matrix it is real. */
static hlo pivot_size(hlo_module *m, hlo d, bool hermitian) {
  return hermitian ? absolute(m, hlo_unary(m, "real", d)) : tt_matrix_abs1(m, d);
}

enum { LEFT, FACTOR, PIVOTS, PLACE, INFO, VALUES };

static void ldl_step(hlo_module *m, hlo i, const hlo *in, hlo *out, void *user) {
  bool hermitian = *(const bool *)user;
  const double alpha = 0.64038820320220756872; /* (1 + sqrt(17)) / 8 */
  hlo x = in[LEFT], k = in[PLACE];
  (void)i;
  if (!x || !k) return;
  int64_t n = x->dims[1];
  hlo runs = hlo_compare(m, "LT", k, whole(m, n)), next = plus(m, k, 1);
  /* Which pivot. */
  hlo column = column_at(m, x, k), row = tt_matrix_position(m, column, 1);
  hlo size = pivot_size(m, tt_matrix_row_at(m, column, k), hermitian);
  hlo below = hlo_compare(m, "GT", row, tall(m, k, x)), sizes = tt_matrix_abs1(m, column);
  hlo other = tt_matrix_largest(m, sizes, below);
  hlo most = tt_matrix_max(m, choose(m, below, sizes, nothing(m, sizes)), 1);
  hlo its = column_at(m, x, other), its_sizes = tt_matrix_abs1(m, its);
  hlo itself = equal(m, row, tall(m, other, x));
  hlo its_most = tt_matrix_max(m, choose(m, itself, nothing(m, its_sizes), its_sizes), 1);
  hlo its_pivot = pivot_size(m, tt_matrix_row_at(m, its, other), hermitian);
  hlo is_zero = either(m, is(m, larger(m, size, most), 0), is_nan(m, size));
  hlo stays = either(m, is_zero, at_least(m, size, times(m, most, alpha)));
  stays = either(m, stays, at_least(m, size, mul(m, times(m, most, alpha), quo(m, most, its_most))));
  hlo single = either(m, stays, at_least(m, its_pivot, times(m, its_most, alpha)));
  hlo from = choose(m, single, k, next), to = choose(m, stays, from, other);
  /* Exchange, and eliminate one or two columns. */
  x = tt_matrix_exchange(m, x, from, to);
  x = tt_matrix_transpose(m, tt_matrix_exchange(m, tt_matrix_transpose(m, x), from, to));
  hlo first = column_at(m, x, k), second = column_at(m, x, next);
  hlo a = tt_matrix_row_at(m, first, k), b = tt_matrix_row_at(m, first, next), d = tt_matrix_row_at(m, second, next);
  if (!a) return;
  if (hermitian) {
    a = hlo_convert(m, hlo_unary(m, "real", a), (tt_dtype)a->dtype);
    d = hlo_convert(m, hlo_unary(m, "real", d), (tt_dtype)a->dtype);
  }
  hlo one = hlo_full_like(m, a, 1), safe_a = choose(m, is_zero, one, a);
  hlo safe_b = choose(m, single, one, b), mirror = mirrored(m, safe_b, hermitian);
  hlo u = quo(m, d, safe_b), v = quo(m, a, mirror);
  hlo denominator = choose(m, single, one, sub(m, mul(m, u, v), one));
  hlo double_first = quo(m, sub(m, mul(m, first, tall(m, u, x)), second), tall(m, mul(m, denominator, mirror), x));
  hlo double_second = quo(m, sub(m, mul(m, second, tall(m, v, x)), first), tall(m, mul(m, denominator, safe_b), x));
  hlo l1 = choose(m, tall(m, single, x), quo(m, first, tall(m, safe_a, x)), double_first), l2 = double_second;
  hlo last = choose(m, single, k, next), rest = hlo_compare(m, "GT", row, tall(m, last, x));
  hlo zero = nothing(m, x), is_double = tall(m, not(m, single), x);
  hlo l1_rest = choose(m, rest, l1, zero), l2_rest = choose(m, both(m, rest, is_double), l2, zero);
  hlo c1 = choose(m, rest, first, zero), c2 = choose(m, both(m, rest, is_double), second, zero);
  hlo pairs = add(m, mul(m, wide(m, l1_rest, x), wide(m, tt_matrix_transpose(m, mirrored(m, c1, hermitian)), x)),
                  mul(m, wide(m, l2_rest, x), wide(m, tt_matrix_transpose(m, mirrored(m, c2, hermitian)), x)));
  hlo reduced = choose(m, wide(m, is_zero, x), x, sub(m, x, pairs));
  hlo remains = both(m, wide(m, rest, x), wide(m, tt_matrix_transpose(m, rest), x));
  hlo runs_wide = wide(m, runs, x);
  out[LEFT] = choose(m, runs_wide, choose(m, remains, reduced, zero), in[LEFT]);
  /* What is stored: the pivot and the columns below it. */
  hlo on_k = equal(m, row, tall(m, k, x)), on_next = equal(m, row, tall(m, next, x));
  hlo column1 = choose(m, on_k, tall(m, a, x), choose(m, both(m, is_double, on_next), tall(m, b, x), choose(m, tall(m,
      is_zero, x), choose(m, rest, first, zero), l1_rest)));
  hlo column2 = choose(m, on_next, tall(m, d, x), l2_rest);
  hlo f = in[FACTOR], place = tt_matrix_position(m, f, 2);
  hlo g = choose(m, equal(m, place, wide(m, k, x)), wide(m, column1, x), f);
  g = choose(m, both(m, wide(m, is_double, x), equal(m, place, wide(m, next, x))), wide(m, column2, x), g);
  out[FACTOR] = choose(m, runs_wide, g, f);
  hlo mark = choose(m, single, plus(m, to, 1), neg(m, plus(m, to, 1)));
  hlo marked = either(m, on_k, both(m, is_double, on_next));
  out[PIVOTS] = choose(m, both(m, tall(m, runs, x), marked), tall(m, mark, x), in[PIVOTS]);
  out[PLACE] = choose(m, runs, plus(m, last, 1), k);
  out[INFO] = choose(m, both(m, both(m, runs, is_zero), is(m, in[INFO], 0)), next, in[INFO]);
}

void rule_ldl_factor(tt_ctx *c) { /* (self, hermitian, check_errors) -> (ld, pivots, info) */
  hlo_module *m = c->m;
  for (int k = 0; k < 3; k++) c->result[k] = tt_want_zeros(c, k);
  hlo x = tt_matrix_argument(c, 0);
  if (!x || hlo_numel(x) == 0) return;
  bool hermitian = tt_bool(c, 1) && tt_is_complex((tt_dtype)x->dtype);
  hlo lower = tt_matrix_triangle(m, x, true, 0);
  x = tt_matrix_mirrored(m, x, false, hermitian);
  if (!x) return;
  int64_t batch = x->dims[0], n = x->dims[1];
  hlo none = hlo_full(m, TT_I32, 3, (int64_t[]){batch, 1, 1}, 0), out[VALUES];
  hlo in[VALUES] = {x, lower, hlo_full(m, TT_I32, 3, (int64_t[]){batch, n, 1}, 0), none, none};
  tt_loop(m, whole(m, 0), whole(m, n), VALUES, in, ldl_step, &hermitian, out);
  static const int from[3] = {FACTOR, PIVOTS, INFO};
  for (int k = 0; k < 3; k++) c->result[k] = hlo_reshape(m, out[from[k]], c->want[k].rank, c->want[k].dims);
}

/* ---- systems ---- */

/* sytrf exchanges rows of what is left only; this exchanges those of the columns before as well, so that
 * P A P^T = L D L^T with one order of rows. pair counts down while the second row of a 2 by 2 pivot is passed. */
enum { ROWS, ORDER, PAIR, UNPACKED };

static void exchange_step(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  hlo pivot = tt_matrix_take(m, *(const hlo *)user, 1, j, 1), x = in[ROWS];
  if (!pivot || !x) return;
  hlo starts_pair = both(m, is_below(m, pivot, 0), is(m, in[PAIR], 0)), passes = is_above(m, in[PAIR], 0);
  hlo here = hlo_broadcast(m, j, 3, pivot->dims, NULL), from = choose(m, starts_pair, plus(m, here, 1), here);
  hlo to = choose(m, passes, from, plus(m, choose(m, is_below(m, pivot, 0), neg(m, pivot), pivot), -1));
  hlo exchanged = tt_matrix_exchange(m, x, from, to);
  out[ROWS] = choose(m, hlo_compare(m, "LT", tt_matrix_position(m, x, 2), j), exchanged, x);
  out[ORDER] = tt_matrix_exchange(m, in[ORDER], from, to);
  out[PAIR] = hlo_convert(m, starts_pair, TT_I32);
}

/* x moved down by one row (up if back), with zeros in the row that becomes free. */
static hlo moved(hlo_module *m, hlo x, bool back) {
  return tt_moved(m, x, 1, back ? -1 : 1, nothing(m, x));
}

/* x with D x = y: by 1 by 1 blocks, or 2 by 2 where off, which stands in their first row, is marked. */
static hlo block_solve(hlo_module *m, hlo d, hlo off, hlo is_first, hlo y, bool hermitian) {
  if (!y || !d) return NULL;
  hlo is_second = hlo_compare(m, "NE", moved(m, hlo_convert(m, is_first, TT_I32), false), whole(m, 0));
  hlo one = hlo_full_like(m, d, 1), b = choose(m, is_first, off, one), mirror = mirrored(m, b, hermitian);
  hlo next = moved(m, d, true), u = quo(m, next, mirror), v = quo(m, d, b);
  hlo denominator = sub(m, mul(m, u, v), one);
  hlo rows = tt_matrix_spread(m, u, y->dims[1], y->dims[2]);
  hlo upper = quo(m, sub(m, mul(m, rows, y), moved(m, y, true)), tt_matrix_spread(m, mul(m, denominator, b),
      y->dims[1], y->dims[2]));
  rows = tt_matrix_spread(m, v, y->dims[1], y->dims[2]);
  hlo lower = quo(m, sub(m, mul(m, rows, moved(m, y, true)), y), tt_matrix_spread(m, mul(m, denominator, mirror),
      y->dims[1], y->dims[2]));
  hlo alone = quo(m, y, tt_matrix_spread(m, d, y->dims[1], y->dims[2]));
  hlo x = choose(m, tt_matrix_spread(m, is_first, y->dims[1], y->dims[2]), upper, alone);
  return choose(m, tt_matrix_spread(m, is_second, y->dims[1], y->dims[2]), moved(m, lower, false), x);
}

void rule_ldl_solve(tt_ctx *c) { /* (ld, pivots, b, hermitian) */
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  if (tt_want_numel(w) == 0) {
    c->result[0] = hlo_full(m, w->dtype, w->rank, w->dims, 0);
    return;
  }
  hlo ld = tt_matrix_operand(c, 0, 2, w, 2), pivots = hlo_convert(m, hlo_unsqueeze(m, tt_matrix_operand(c, 1, 1, w,
      2), 2), TT_I32);
  hlo b = tt_matrix_operand(c, 2, 2, w, 2);
  if (!ld || !pivots) return;
  bool hermitian = tt_bool(c, 3) && tt_is_complex((tt_dtype)ld->dtype);
  int64_t batch = ld->dims[0], n = ld->dims[1];
  hlo in[UNPACKED] = {ld, hlo_iota(m, TT_I32, 3, (int64_t[]){batch, n, 1}, 1), hlo_full(m, TT_I32, 3,
      (int64_t[]){batch, 1, 1}, 0)};
  /* Where 2 by 2 pivots begin: of a run of negative pivots every other one. */
  hlo negative = is_below(m, pivots, 0), position = tt_matrix_position(m, pivots, 1);
  hlo before = choose(m, negative, whole(m, -1), position); /* the last place that is no part of a pair */
  before = tt_running(m, "maximum", before, 1, whole(m, -1));
  hlo odd = hlo_binary(m, "and", sub(m, position, before), whole(m, 1));
  hlo is_first = both(m, negative, is(m, odd, 1));
  hlo d = hlo_unsqueeze(m, tt_matrix_diagonal(m, ld), 2);
  hlo off = choose(m, tt_matrix_where(m, ld, "EQ", -1), ld, nothing(m, ld));
  off = tt_matrix_transpose(m, tt_matrix_sum(m, off, 1)); /* [batch, n, 1]: beside each diagonal element */
  hlo beside = both(m, tt_matrix_where(m, ld, "EQ", -1), tt_matrix_spread(m, tt_matrix_transpose(m, is_first), n, n));
  in[ROWS] = choose(m, beside, nothing(m, ld), ld);
  hlo out[UNPACKED];
  tt_loop(m, whole(m, 0), whole(m, n), UNPACKED, in, exchange_step, &pivots, out);
  hlo l = out[ROWS], order = hlo_squeeze_dim(m, out[ORDER], 2);
  hlo y = tt_matrix_triangular_solve(m, l, tt_matrix_permute_rows(m, b, order), true, true);
  if (hermitian && d) d = hlo_convert(m, hlo_unary(m, "real", d), (tt_dtype)d->dtype);
  y = block_solve(m, d, off, is_first, y, hermitian);
  y = tt_matrix_triangular_solve(m, tt_matrix_transpose(m, mirrored(m, l, hermitian)), y, false, true);
  c->result[0] = hlo_reshape(m, tt_matrix_permute_rows(m, y, tt_order_inverse(m, order)), w->rank, w->dims);
}
