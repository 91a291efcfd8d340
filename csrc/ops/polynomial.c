/* polynomial.c: orthogonal polynomials of degree n at x, where both are tensors: Chebyshev's of four kinds on [-1, 1]
 * and shifted to [0, 1], Hermite's of two kinds, Laguerre's, Legendre's.
 *
 * One loop runs the three-term recurrence (DLMF 18.9) over the whole tensor until the largest degree; an element stays
 * as it is once its own degree is reached. Where torch CPU has a closed form (Chebyshev's cosines inside the interval,
 * the values at its ends) it is used too, and such an element does not keep the loop going. A negative degree gives 0.
 */
#include <math.h>
#include <string.h>
#include "ops/math.h"
#include "ops/rules.h"

typedef struct family {
  const char *name;
  hlo (*second)(hlo_module *m, hlo x);                                     /* of degree 1 */
  hlo (*next)(hlo_module *m, hlo x, hlo k, hlo before, hlo last);          /* of degree k + 1 */
  int closed_above; /* degrees that have a closed form inside; -1: none */
  int most_f32, most_f64;                                                  /* beyond this degree NaN; 0: no limit */
} family;

static hlo twice(hlo_module *m, hlo x) { return add(m, x, x); }
static hlo same(hlo_module *m, hlo x) { (void)m; return x; }
static hlo twice_less(hlo_module *m, hlo x) { return plus(m, add(m, x, x), -1); }
static hlo twice_more(hlo_module *m, hlo x) { return plus(m, add(m, x, x), 1); }
static hlo one_less(hlo_module *m, hlo x) { return sub(m, constant_like(m, x, 1), x); }

static hlo next_chebyshev(hlo_module *m, hlo x, hlo k, hlo before, hlo last) {
  (void)k;
  return sub(m, mul(m, twice(m, x), last), before);
}
static hlo next_hermite_h(hlo_module *m, hlo x, hlo k, hlo before, hlo last) {
  return sub(m, mul(m, twice(m, x), last), mul(m, twice(m, k), before));
}
static hlo next_hermite_he(hlo_module *m, hlo x, hlo k, hlo before, hlo last) {
  return sub(m, mul(m, x, last), mul(m, k, before));
}
static hlo next_laguerre(hlo_module *m, hlo x, hlo k, hlo before, hlo last) {
  hlo factor = add(m, one_less(m, x), twice(m, k));
  return quo(m, sub(m, mul(m, factor, last), mul(m, k, before)), plus(m, k, 1));
}
static hlo next_legendre(hlo_module *m, hlo x, hlo k, hlo before, hlo last) {
  hlo factor = mul(m, x, plus(m, twice(m, k), 1));
  return quo(m, sub(m, mul(m, factor, last), mul(m, k, before)), plus(m, k, 1));
}

static const family families[] = {
  {"t", same, next_chebyshev, 6, 0, 0},        {"u", twice, next_chebyshev, 8, 0, 0},
  {"v", twice_less, next_chebyshev, 8, 0, 0},  {"w", twice_more, next_chebyshev, 8, 0, 0},
  {"h", twice, next_hermite_h, -1, 128, 512},  {"he", same, next_hermite_he, -1, 128, 512},
  {"l", one_less, next_laguerre, -1, 0, 0},    {"p", same, next_legendre, -1, 0, 0},
};

/* ---- the recurrence: state k, n, x, the last two polynomials ---- */
static void some_left(hlo_module *m, const hlo *s, hlo *r, void *user) {
  (void)user;
  r[0] = any(m, both(m, hlo_compare(m, "LT", s[0], s[1]), not(m, is_nan(m, s[4]))));
}
static void next_degree(hlo_module *m, const hlo *s, hlo *r, void *user) {
  const family *f = user;
  if (!s[2]) return;
  hlo going = hlo_compare(m, "LT", s[0], s[1]), k = hlo_convert(m, s[0], (tt_dtype)s[2]->dtype);
  k = hlo_broadcast_to(m, k, s[2]->rank, s[2]->dims);
  r[0] = plus(m, s[0], 1);
  r[1] = s[1];
  r[2] = s[2];
  r[3] = choose(m, going, s[4], s[3]);
  r[4] = choose(m, going, f->next(m, s[2], k, s[3], s[4]), s[4]);
}

/* ---- closed forms ---- */
/* Values at x = 1 and, with the sign of the degree's parity, at -1. */
static hlo chebyshev_end(hlo_module *m, const family *f, bool upper, hlo degree, hlo sign) {
  hlo r = constant_like(m, degree, 1);
  if (*f->name == 'u') r = plus(m, degree, 1);
  else if (*f->name == (upper ? 'w' : 'v')) r = plus(m, twice(m, degree), 1);
  return upper ? r : mul(m, sign, r);
}

static hlo chebyshev_inside(hlo_module *m, const family *f, hlo x, hlo degree, hlo sign) {
  hlo angle = hlo_unary(m, "chlo.acos", x), half = times(m, angle, 0.5);
  if (*f->name == 't') return hlo_unary(m, "cosine", mul(m, degree, angle));
  bool sine = *f->name != 'v';
  hlo wave = mul(m, plus(m, degree, *f->name == 'u' ? 1 : 0.5), angle), by = *f->name == 'u' ? angle : half;
  hlo top = hlo_unary(m, sine ? "sine" : "cosine", wave), bottom = hlo_unary(m, sine ? "sine" : "cosine", by);
  /* So near to an end that the angle is that end's. */
  hlo end =
      choose(m, is_above(m, x, 0), chebyshev_end(m, f, true, degree, sign), chebyshev_end(m, f, false, degree, sign));
  return choose(m, is(m, bottom, 0), end, quo(m, top, bottom));
}

void rule_polynomial(tt_ctx *c) { /* (x, n); hlo: the family, with "shifted " before it */
  hlo_module *m = c->m;
  const char *name = c->op->hlo;
  bool shifted = !strncmp(name, "shifted ", 8);
  const family *f = families;
  while (strcmp(f->name, name + (shifted ? 8 : 0))) f++;
  hlo x = tt_in_wide(c, 0), given = tt_in_wide(c, 1);
  if (!x || !given) return;
  if (shifted) x = plus(m, twice(m, x), -1);
  /* Degrees as C converts them: towards zero; what no int64 holds becomes the most negative. */
  hlo held = hlo_compare(m, "LT", absolute(m, given), constant_like(m, given, 9223372036854775808.0));
  hlo n = choose(m, held, hlo_convert(m, choose_number(m, not(m, held), 0, given), TT_I64), hlo_int(m, TT_I64, -1));
  hlo degree = hlo_convert(m, n, (tt_dtype)x->dtype), one = constant_like(m, x, 1);
  hlo even = is(m, hlo_binary(m, "and", n, hlo_int(m, TT_I64, 1)), 0);
  hlo sign = choose(m, even, hlo_full_like(m, x, 1), neg(m, one));
  hlo at_end = is(m, absolute(m, x), 1), known = is_below(m, n, 1), closed = NULL;
  if (f->next == next_chebyshev) {
    closed = both(m, is_above(m, n, f->closed_above), is_below(m, absolute(m, x), 1));
    known = either(m, known, either(m, closed, at_end));
  } else if (*f->name == 'l') {
    known = either(m, known, is(m, x, 0));
  } else if (*f->name == 'p') {
    known = either(m, known, at_end);
  }
  hlo limit = NULL;
  if (f->most_f32) {
    limit = is_above(m, n, x->dtype == TT_F64 ? f->most_f64 : f->most_f32);
    known = either(m, known, limit);
  }
  hlo state[5] = {hlo_int(m, TT_I64, 1), choose(m, known, hlo_int(m, TT_I64, 1), n), x, hlo_full_like(m, x, 1),
                  f->second(m, x)};
  hlo last[5] = {0};
  hlo_while(m, 5, state, some_left, next_degree, (void *)f, last);
  hlo r = last[4];
  if (closed) {
    r = choose(m, closed, chebyshev_inside(m, f, x, degree, sign), r);
    hlo low = chebyshev_end(m, f, false, degree, sign), high = chebyshev_end(m, f, true, degree, sign);
    r = choose(m, at_end, choose(m, is_above(m, x, 0), high, low), r);
  } else if (*f->name == 'l') {
    r = choose_number(m, is(m, x, 0), 1, r);
  } else if (*f->name == 'p') {
    r = choose(m, at_end, choose(m, is_above(m, x, 0), one, sign), r);
  }
  r = choose_number(m, is(m, n, 0), 1, r);
  if (limit) r = choose_number(m, limit, NAN, r);
  c->result[0] = choose_number(m, is_below(m, n, 0), 0, r);
}
