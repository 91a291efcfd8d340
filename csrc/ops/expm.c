/* expm.c: the exponential of square matrices, by scaling and squaring.
 *
 * A matrix is halved until its 1-norm is at most 1, which is exact; there 20 terms of Taylor's series have a rest of
 * 2e-20, and cost seven products when powers beyond the fourth are shared (Paterson & Stockmeyer); then it is squared
 * as often as it was halved. Each matrix of a batch keeps its own count. */
#include "ops/linalg.h"
#include "ops/math.h"
#include "ops/rules.h"

enum { MOST_HALVINGS = 1100, POWERS = 4, BLOCKS = 5 };

/* State: turn, matrices, their norms, how often each was halved. */
static void too_large(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  hlo large = is_above(m, s[2], 1);
  large = large ? hlo_reduce(m, "or", large, hlo_int(m, TT_BOOL, 0), 1, (int[]){0}) : NULL;
  r[0] = both(m, is_below(m, s[0], MOST_HALVINGS), large);
}
static void halve(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  if (!s[1] || !s[2]) return;
  hlo large = is_above(m, s[2], 1), factor = choose_number(m, large, 0.5, hlo_full_like(m, s[2], 1));
  r[0] = plus(m, s[0], 1);
  r[1] = mul(m, s[1], hlo_convert(m, tt_matrix_spread(m, factor, s[1]->dims[1], s[1]->dims[2]), (tt_dtype)s[1]->dtype));
  r[2] = mul(m, s[2], factor);
  r[3] = add(m, s[3], hlo_convert(m, large, TT_I32));
}

/* State: turn, powers, how often each is to be squared. */
static void squares_left(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_compare(m, "LT", s[0], hlo_reduce(m, "maximum", s[2], hlo_int(m, TT_I32, 0), 1, (int[]){0}));
}
static void square(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  if (!s[1]) return;
  hlo wanted = tt_matrix_spread(m, hlo_compare(m, "LT", s[0], s[2]), s[1]->dims[1], s[1]->dims[2]);
  r[0] = plus(m, s[0], 1);
  r[1] = choose(m, wanted, tt_matrix_product(m, s[1], s[1]), s[1]);
  r[2] = s[2];
}

static hlo series(hlo_module *m, hlo a) {
  if (!a) return NULL;
  hlo power[POWERS + 1] = {tt_matrix_identity(m, (tt_dtype)a->dtype, a->dims[0], a->dims[1], a->dims[1]), a};
  for (int i = 2; i <= POWERS; i++) power[i] = tt_matrix_product(m, power[i - 1], a);
  double coefficient[POWERS * BLOCKS + 1] = {1};
  for (int i = 1; i <= POWERS * BLOCKS; i++) coefficient[i] = coefficient[i - 1] / i;
  hlo sum = times(m, power[0], coefficient[POWERS * BLOCKS]);
  for (int block = BLOCKS - 1; block >= 0; block--) {
    sum = tt_matrix_product(m, sum, power[POWERS]);
    for (int i = POWERS - 1; i >= 0; i--) sum = add(m, sum, times(m, power[i], coefficient[POWERS * block + i]));
  }
  return sum;
}

void rule_matrix_exp(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo a = tt_matrices(m, tt_in(c, 0));
  if (!a) return;
  hlo e = a;
  if (hlo_numel(a) != 0 && a->dims[1] == 1) {
    e = exponential(m, a);
  } else if (hlo_numel(a) != 0) {
    hlo sums = tt_matrix_sum(m, absolute(m, a), 1), norm = tt_matrix_max(m, sums, 2);
    if (!norm) return;
    norm = hlo_flatten(m, norm);
    hlo zero = hlo_int(m, TT_I32, 0), count = hlo_full(m, TT_I32, 1, a->dims, 0);
    hlo large[4] = {zero, a, norm, count}, small[4] = {0}, last[3] = {0};
    hlo_while(m, 4, large, too_large, halve, NULL, small);
    hlo first[3] = {zero, series(m, small[1]), small[3]};
    hlo_while(m, 3, first, squares_left, square, NULL, last);
    e = last[1];
  }
  c->result[0] = hlo_reshape(m, e, c->want[0].rank, c->want[0].dims);
}
