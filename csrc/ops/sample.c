/* sample.c: numbers that need rejection: poisson, binomial and gamma.
 *
 * One loop serves all elements: each turn draws anew for all and settles those that accept, until all have. The loop
 * has a stream of random numbers of its own, whose seed is drawn from the generator, so that however many turns it
 * takes the generator moves on by the same. The methods are exact (Knuth; Hoermann's transformed rejections PTRS and
 * BTRS, 1993; Devroye's sum of waiting times, 1986; Marsaglia and Tsang, 2000), as far as the arithmetic goes: f64
 * where differences of large logarithms decide. Elements without a distribution (NaN, infinite or negative parameters)
 * are settled from the start, so that the loop always ends. */
#include <math.h>
#include "ops/random.h"
#include "ops/rules.h"

/* What goes round: the random state, which elements are open, two numbers of the method, its parameter. */
enum { STATE, OPEN, VALUE, WORK, PARAMETER, CARRIED };

static void some_open(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo open = args[OPEN];
  int dims[TT_MAX_RANK];
  if (!open) return;
  for (int i = 0; i < open->rank; i++) dims[i] = i;
  results[0] = hlo_reduce(m, "or", open, hlo_int(m, TT_BOOL, 0), open->rank, dims);
}

/* Uniform numbers in the open (0, 1), of x's dtype and dims. */
static hlo uniform(hlo_module *m, hlo x, hlo *state) {
  if (!x) return NULL;
  tt_dtype bits = x->dtype == TT_F64 ? TT_U64 : TT_U32;
  return tt_uniform_of_bits(m, hlo_random_bits(m, *state, bits, x->rank, x->dims, state), x->dtype, true);
}

static hlo plus(hlo_module *m, hlo a, double b) { return hlo_binary_scalar(m, "add", a, b); }
static hlo times(hlo_module *m, hlo a, double b) { return hlo_binary_scalar(m, "multiply", a, b); }
static hlo add(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "add", a, b); }
static hlo sub(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "subtract", a, b); }
static hlo mul(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }
static hlo over(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "divide", a, b); }
static hlo both(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "and", a, b); }
static hlo either(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "or", a, b); }
static hlo negation(hlo_module *m, hlo a) { return hlo_unary(m, "not", a); }
static hlo logarithm(hlo_module *m, hlo a) { return hlo_unary(m, "log", a); }
static hlo than(hlo_module *m, const char *direction, hlo a, double b) {
  return a ? hlo_compare(m, direction, a, hlo_float(m, a->dtype, b)) : NULL;
}
static hlo number(hlo_module *m, hlo like, double v) { return like ? hlo_float(m, like->dtype, v) : NULL; }
static hlo quotient(hlo_module *m, double a, hlo b) { return b ? over(m, hlo_full_like(m, b, a), b) : NULL; }

static hlo loop(tt_ctx *c, int generator, hlo parameter, hlo open, double value, double work, hlo_body *turn) {
  hlo_module *m = c->m;
  if (!parameter || !open) return NULL;
  if (hlo_numel(parameter) == 0) return parameter;
  int64_t one = 1;
  hlo words[2] = {tt_random_bits(c, generator, TT_U64, 1, &one), hlo_full(m, TT_U64, 1, &one, 0)};
  hlo state = hlo_concat(m, 2, words, 0);
  tt_dtype t = (tt_dtype)parameter->dtype;
  hlo in[CARRIED] = {state, open, hlo_full(m, t, open->rank, open->dims, value),
                     hlo_full(m, t, open->rank, open->dims, work), parameter};
  hlo out[CARRIED] = {0};
  hlo_while(m, CARRIED, in, some_open, turn, NULL, out);
  return out[VALUE];
}

/* ---- poisson ---- */
enum { BY_PRODUCTS_BELOW = 10 };

static void poisson_turn(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo state = args[STATE], open = args[OPEN], value = args[VALUE], product = args[WORK], rate = args[PARAMETER];
  hlo u = uniform(m, rate, &state), v = uniform(m, rate, &state);
  hlo small = than(m, "LT", rate, BY_PRODUCTS_BELOW);
  /* Small rates: how many uniform numbers can be multiplied before the product falls below exp(-rate). */
  product = mul(m, product, u);
  hlo on = hlo_compare(m, "GT", product, hlo_unary(m, "exponential", hlo_unary(m, "negate", rate)));
  hlo counted = hlo_select(m, on, plus(m, value, 1), value);
  /* Others: a uniform number is bent into a candidate k, kept with the ratio of the densities. */
  hlo large = hlo_binary(m, "maximum", rate, number(m, rate, BY_PRODUCTS_BELOW)), log_rate = logarithm(m, large);
  hlo b = plus(m, times(m, hlo_unary(m, "sqrt", large), 2.53), 0.931), a = plus(m, times(m, b, 0.02483), -0.059);
  hlo inverse_alpha = plus(m, quotient(m, 1.1328, plus(m, b, -3.4)), 1.1239);
  hlo quick = plus(m, quotient(m, -3.6224, plus(m, b, -2)), 0.9277);
  hlo centred = plus(m, u, -0.5);
  hlo room = sub(m, number(m, u, 0.5), hlo_unary(m, "abs", centred));
  hlo k = plus(m, add(m, mul(m, add(m, over(m, times(m, a, 2), room), b), centred), large), 0.43);
  k = hlo_unary(m, "floor", k);
  hlo at_once = both(m, than(m, "GE", room, 0.07), hlo_compare(m, "LE", v, quick));
  hlo out = either(m, than(m, "LT", k, 0), both(m, than(m, "LT", room, 0.013), hlo_compare(m, "GT", v, room)));
  hlo density = sub(m, sub(m, mul(m, k, log_rate), large), hlo_unary(m, "chlo.lgamma", plus(m, k, 1)));
  hlo hat = sub(m, add(m, logarithm(m, v), logarithm(m, inverse_alpha)),
                logarithm(m, add(m, over(m, a, mul(m, room, room)), b)));
  hlo accepted = either(m, at_once, both(m, negation(m, out), hlo_compare(m, "LE", hat, density)));
  results[STATE] = state;
  results[VALUE] = hlo_select(m, open, hlo_select(m, small, counted, k), value);
  results[OPEN] = both(m, open, hlo_select(m, small, on, negation(m, accepted)));
  results[WORK] = product;
  results[PARAMETER] = rate;
}

void rule_poisson(tt_ctx *c) { /* (self, generator) */
  hlo_module *m = c->m;
  hlo rate = tt_in_as(c, 0, TT_F64);
  if (tt_debug(c))
    tt_require(c, than(m, "GE", rate, 0), NULL, TT_INVALID_ARGUMENT,
               "invalid Poisson rate, expected rate to be non-negative");
  hlo open = both(m, than(m, "GT", rate, 0), than(m, "LT", rate, HUGE_VAL));
  hlo value = loop(c, 1, rate, open, 0, 1, poisson_turn);
  hlo none = rate ? hlo_compare(m, "NE", rate, rate) : NULL; /* NaN stays NaN */
  c->result[0] = hlo_select(m, either(m, none, than(m, "EQ", rate, HUGE_VAL)), rate, value);
}

/* ---- binomial; the parameter is [2, ...]: counts, and probabilities up to one half ---- */
static hlo part_of(hlo_module *m, hlo pair, int64_t i) {
  return pair ? hlo_squeeze_dim(m, hlo_slice_dim(m, pair, 0, i, i + 1, 1), 0) : NULL;
}
/* log(k! (n - k)!), of two k by one lgamma: in f64 it is the largest part of the program. */
static void log_factorials(hlo_module *m, hlo n, hlo k1, hlo k2, hlo *sum1, hlo *sum2) {
  hlo parts[4] = {k1, sub(m, n, k1), k2, sub(m, n, k2)};
  for (int i = 0; i < 4; i++) parts[i] = parts[i] ? hlo_unsqueeze(m, parts[i], 0) : NULL;
  hlo logs = hlo_unary(m, "chlo.lgamma", plus(m, hlo_concat(m, 4, parts, 0), 1));
  *sum1 = add(m, part_of(m, logs, 0), part_of(m, logs, 1));
  *sum2 = add(m, part_of(m, logs, 2), part_of(m, logs, 3));
}

static void binomial_turn(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo state = args[STATE], open = args[OPEN], value = args[VALUE], sum = args[WORK];
  hlo n = part_of(m, args[PARAMETER], 0), p = part_of(m, args[PARAMETER], 1), q = sub(m, number(m, p, 1), p);
  hlo u = uniform(m, n, &state), v = uniform(m, n, &state), mean = mul(m, n, p);
  hlo small = than(m, "LT", mean, BY_PRODUCTS_BELOW);
  /* Small means: how many waiting times for a success fit into the trials. */
  hlo wait = over(m, logarithm(m, u), hlo_unary(m, "log_plus_one", hlo_unary(m, "negate", p)));
  sum = add(m, sum, hlo_unary(m, "ceil", wait));
  hlo on = hlo_compare(m, "LE", sum, n), counted = hlo_select(m, on, plus(m, value, 1), value);
  /* Others: as for poisson, by the ratio of the probabilities of k and of the most likely number. */
  hlo deviation = hlo_unary(m, "sqrt", hlo_binary(m, "maximum", mul(m, mean, q), number(m, mean, 1)));
  hlo b = plus(m, times(m, deviation, 2.53), 1.15),
      a = plus(m, add(m, times(m, b, 0.0248), times(m, p, 0.01)), -0.0873);
  hlo alpha = mul(m, plus(m, quotient(m, 5.1, b), 2.83), deviation), quick = plus(m, quotient(m, -4.2, b), 0.92);
  hlo centred = plus(m, u, -0.5), room = sub(m, number(m, u, 0.5), hlo_unary(m, "abs", centred));
  hlo k = plus(m, add(m, mul(m, add(m, over(m, times(m, a, 2), room), b), centred), mean), 0.5);
  k = hlo_unary(m, "floor", k);
  hlo at_once = both(m, than(m, "GE", room, 0.07), hlo_compare(m, "LE", v, quick));
  hlo within = both(m, than(m, "GE", k, 0), hlo_compare(m, "LE", k, n));
  hlo mode = hlo_unary(m, "floor", mul(m, plus(m, n, 1), p));
  hlo of_mode, of_k;
  log_factorials(m, n, mode, k, &of_mode, &of_k);
  hlo ratio = add(m, sub(m, of_mode, of_k), mul(m, sub(m, k, mode), logarithm(m, over(m, p, q))));
  hlo hat = logarithm(m, over(m, mul(m, v, alpha), add(m, over(m, a, mul(m, room, room)), b)));
  hlo accepted = either(m, at_once, both(m, within, hlo_compare(m, "LE", hat, ratio)));
  results[STATE] = state;
  results[VALUE] = hlo_select(m, open, hlo_select(m, small, counted, k), value);
  results[OPEN] = both(m, open, hlo_select(m, small, on, negation(m, accepted)));
  results[WORK] = sum;
  results[PARAMETER] = args[PARAMETER];
}

void rule_binomial(tt_ctx *c) { /* (count, prob, generator) */
  hlo_module *m = c->m;
  hlo n = tt_in_as(c, 0, TT_F64), p = tt_in_as(c, 1, TT_F64);
  n = hlo_broadcast_to(m, n, c->want[0].rank, c->want[0].dims),
  p = hlo_broadcast_to(m, p, c->want[0].rank, c->want[0].dims);
  if (!n || !p) return;
  hlo flipped = than(m, "GT", p, 0.5), least = hlo_select(m, flipped, sub(m, number(m, p, 1), p), p);
  hlo open = both(m, both(m, than(m, "GT", n, 0), than(m, "LT", n, HUGE_VAL)), than(m, "GT", least, 0));
  hlo pair[2] = {hlo_unsqueeze(m, n, 0), hlo_unsqueeze(m, hlo_select(m, open, least, number(m, p, 0.5)), 0)};
  hlo value = loop(c, 2, hlo_concat(m, 2, pair, 0), open, 0, 0, binomial_turn);
  if (hlo_numel(n) == 0) value = n;
  value = hlo_select(m, flipped, sub(m, n, value), value);
  value = hlo_select(m, than(m, "GE", p, 1), n, value);
  value = hlo_select(m, either(m, than(m, "LE", n, 0), than(m, "LE", p, 0)), number(m, n, 0), value);
  hlo none = either(m, hlo_compare(m, "NE", n, n), hlo_compare(m, "NE", p, p));
  c->result[0] = hlo_select(m, none, number(m, n, NAN), value);
}

/* ---- gamma ---- */
static void gamma_turn(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo state = args[STATE], open = args[OPEN], d = args[PARAMETER];
  hlo z = plus(m, times(m, uniform(m, d, &state), 2), -1);
  hlo x = times(m, hlo_unary(m, "chlo.erf_inv", z), sqrt(2)), u = uniform(m, d, &state); /* x: a normal number */
  hlo y = plus(m, mul(m, x, hlo_unary(m, "rsqrt", times(m, d, 9))), 1), v = mul(m, y, mul(m, y, y)), xx = mul(m, x, x);
  hlo at_once = hlo_compare(m, "LT", u, plus(m, times(m, mul(m, xx, xx), -0.0331), 1));
  hlo bound = add(m, times(m, xx, 0.5), mul(m, d, add(m, plus(m, hlo_unary(m, "negate", v), 1), logarithm(m, v))));
  hlo accepted = both(m, than(m, "GT", y, 0), either(m, at_once, hlo_compare(m, "LT", logarithm(m, u), bound)));
  results[STATE] = state;
  results[VALUE] = hlo_select(m, open, mul(m, d, v), args[VALUE]);
  results[OPEN] = both(m, open, negation(m, accepted));
  results[WORK] = args[WORK];
  results[PARAMETER] = d;
}

void rule_standard_gamma(tt_ctx *c) { /* (self, generator) */
  hlo_module *m = c->m;
  uint8_t want = c->want[0].dtype;
  tt_dtype t = want == TT_F64 ? TT_F64 : TT_F32;
  hlo alpha = tt_in_as(c, 0, t);
  if (!alpha) return;
  hlo valid = both(m, than(m, "GT", alpha, 0), than(m, "LT", alpha, HUGE_VAL)), small = than(m, "LT", alpha, 1);
  /* Below 1: a number for alpha + 1 times the alpha-th root of a uniform number. */
  hlo bits = tt_random_bits(c, 1, t == TT_F64 ? TT_U64 : TT_U32, alpha->rank, alpha->dims);
  hlo u = tt_uniform_of_bits(m, bits, t, true);
  hlo root = hlo_select(m, small, hlo_unary(m, "exponential", over(m, logarithm(m, u), alpha)), number(m, alpha, 1));
  hlo d = plus(m, hlo_select(m, small, plus(m, alpha, 1), alpha), -1.0 / 3);
  hlo value = mul(m, loop(c, 1, d, valid, 0, 0, gamma_turn), root);
  double least = want == TT_F64 ? 0x1p-1022 : want == TT_F16 ? 0x1p-14 : 0x1p-126; /* torch never returns 0 */
  value = hlo_binary(m, "maximum", value, number(m, value, least));
  hlo invalid = either(m, than(m, "LT", alpha, 0), hlo_compare(m, "NE", alpha, alpha));
  value = hlo_select(m, invalid, number(m, value, NAN), value);
  c->result[0] = hlo_select(m, than(m, "EQ", alpha, HUGE_VAL), alpha, value);
}
