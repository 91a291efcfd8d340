/* random.c: rules that draw random numbers: uniform, normal, dropout, integers, permutations, and samples by
 * inversion.
 *
 * All start from uniform bits that the generator's counter gives, so that a seed means the same numbers on every
 * plugin. Real numbers are made in f32 (f64 for f64 and complex128) and rounded to the tensor's dtype. Two kinds of
 * uniform numbers: half-open [0, 1) in steps of 2^-24 (2^-53), and open (0, 1) whose middle is symmetric, for
 * logarithms and inverse error functions. Numbers that need rejection are drawn in sample.c. */
#include <math.h>
#include <string.h>
#include "ops/index.h"
#include "ops/random.h"
#include "ops/rules.h"

typedef struct shape { int rank; const int64_t *dims; } shape;

static shape wanted(tt_ctx *c, int k) { return (shape){c->want[k].rank, c->want[k].dims}; }

/* What numbers of dtype t are made in. */
static tt_dtype draw_dtype(tt_dtype t) { return t == TT_F64 || t == TT_C128 ? TT_F64 : TT_F32; }

hlo tt_uniform_of_bits(hlo_module *m, hlo bits, tt_dtype t, bool open) {
  if (!bits) return NULL;
  bool wide = t == TT_F64;
  tt_dtype u = wide ? TT_U64 : TT_U32;
  int digits = (wide ? 53 : 24) - (open ? 1 : 0);
  hlo k = hlo_binary(m, "shift_right_logical", bits, hlo_int(m, u, (wide ? 64 : 32) - digits));
  /* Signed integers convert in one instruction; all values are positive and exact. */
  hlo x = hlo_convert(m, hlo_bitcast(m, k, wide ? TT_I64 : TT_I32), t);
  if (open) x = hlo_binary_scalar(m, "add", x, 0.5);
  return hlo_binary_scalar(m, "multiply", x, ldexp(1, -digits));
}

static hlo draw(tt_ctx *c, int generator, tt_dtype t, shape s, bool open) {
  return tt_uniform_of_bits(c->m, tt_random_bits(c, generator, t == TT_F64 ? TT_U64 : TT_U32, s.rank, s.dims), t, open);
}

/* Standard normal numbers: the inverse of the distribution function at a uniform number. */
static hlo draw_normal(tt_ctx *c, int generator, tt_dtype t, shape s) {
  hlo_module *m = c->m;
  hlo u = draw(c, generator, t, s, true);
  u = hlo_binary_scalar(m, "subtract", hlo_binary_scalar(m, "multiply", u, 2), 1); /* exact: odd multiples of 2^-23 */
  return hlo_binary_scalar(m, "multiply", hlo_unary(m, "chlo.erf_inv", u), sqrt(2));
}

/* Complex numbers of two draws: their dims with 2 in front. */
static shape doubled(shape s, int64_t *dims) {
  dims[0] = 2;
  for (int i = 0; i < s.rank; i++) dims[i + 1] = s.dims[i];
  return (shape){s.rank + 1, dims};
}

static hlo join(hlo_module *m, hlo x) {
  hlo re = hlo_slice_dim(m, x, 0, 0, 1, 1), im = hlo_slice_dim(m, x, 0, 1, 2, 1);
  return hlo_complex_of(m, hlo_squeeze_dim(m, re, 0), hlo_squeeze_dim(m, im, 0));
}

/* ---- uniform(self, from, to, generator) ---- */
void rule_uniform(tt_ctx *c) {
  hlo_module *m = c->m;
  tt_dtype want = c->want[0].dtype, real = tt_real_of(want), t = draw_dtype(want);
  int64_t dims[TT_MAX_RANK + 1];
  shape s = tt_is_complex(want) ? doubled(wanted(c, 0), dims) : wanted(c, 0);
  hlo from = tt_in_as(c, 1, t), to = tt_in_as(c, 2, t);
  hlo x = hlo_binary(m, "multiply", draw(c, 3, t, s, false), hlo_binary(m, "subtract", to, from));
  x = hlo_convert(m, hlo_binary(m, "add", x, from), real);
  from = hlo_convert(m, from, real), to = hlo_convert(m, to, real);
  x = hlo_select(m, hlo_compare(m, "GE", x, to), from, x); /* rounding may reach to, which is not in the range */
  c->result[0] = tt_is_complex(want) ? join(m, x) : x;
}

/* ---- normal: (self, mean, std, generator), or with hlo "mean" (mean, std, generator), tensors or numbers ---- */
void rule_normal(tt_ctx *c) {
  hlo_module *m = c->m;
  int first = c->op->hlo[0] == 'm' ? 0 : 1;
  tt_dtype want = c->want[0].dtype, t = draw_dtype(want);
  shape s = wanted(c, 0);
  int64_t dims[TT_MAX_RANK + 1];
  hlo x;
  if (tt_is_complex(want))
    x = hlo_binary_scalar(m, "multiply", join(m, draw_normal(c, first + 2, t, doubled(s, dims))), sqrt(0.5));
  else
    x = draw_normal(c, first + 2, t, s);
  tt_dtype arithmetic = tt_is_complex(want) ? want : t;
  hlo mean = hlo_broadcast_to(m, tt_in_as(c, first, arithmetic), s.rank, s.dims);
  hlo std = hlo_broadcast_to(m, tt_in_as(c, first + 1, arithmetic), s.rank, s.dims);
  if (tt_debug(c) && std)
    tt_require(c, hlo_compare(m, "GE", std, hlo_float(m, (tt_dtype)std->dtype, 0)), NULL, TT_INVALID_ARGUMENT,
               "normal expects all elements of std >= 0.0");
  x = hlo_binary(m, "add", hlo_binary(m, "multiply", x, std), mean);
  c->result[0] = c->op->hlo[0] == 'l' ? hlo_unary(m, "exponential", x) : x; /* "log": log_normal */
}

/* 0 <= x <= most: not NaN. */
static hlo within(hlo_module *m, hlo x, double most) {
  if (!x) return NULL;
  hlo low = hlo_float(m, (tt_dtype)x->dtype, 0), high = hlo_float(m, (tt_dtype)x->dtype, most);
  return hlo_binary(m, "and", hlo_compare(m, "GE", x, low), hlo_compare(m, "LE", x, high));
}

/* ---- bernoulli: hlo is the position of p; the generator is the last argument ---- */
void rule_bernoulli(tt_ctx *c) {
  hlo_module *m = c->m;
  int at = c->op->hlo[0] - '0';
  shape s = wanted(c, 0);
  /* A number's bits past f32's do not matter against 2^24 steps; a tensor's are kept. */
  tt_dtype t = tt_in_dtype(c, at) == TT_F64 && c->op->hlo[1] == 't' ? TT_F64 : TT_F32;
  hlo p = hlo_broadcast_to(m, tt_in_as(c, at, t), s.rank, s.dims);
  if (tt_debug(c) && c->op->hlo[1] == 't')
    tt_require(
        c, within(m, p, 1), NULL, TT_INVALID_ARGUMENT,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, "
        "please report an enhancement request to PyTorch.)");
  c->result[0] = hlo_compare(m, "LT", draw(c, at + 1, t, s, false), p);
}

/* ---- native_dropout(input, p, train) -> (output, mask) ---- */
void rule_dropout(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!x) return;
  shape s = {x->rank, x->dims};
  if (tt_has(c, 2) && !tt_bool(c, 2)) {
    c->result[0] = x;
    c->result[1] = hlo_full(m, TT_BOOL, s.rank, s.dims, 1);
    return;
  }
  hlo one = hlo_float(m, TT_F32, 1), zero = hlo_float(m, TT_F32, 0);
  hlo keep = hlo_binary(m, "subtract", one, tt_in_as(c, 1, TT_F32));
  hlo scale = hlo_select(m, hlo_compare(m, "EQ", keep, zero), zero, hlo_binary(m, "divide", one, keep));
  hlo mask = hlo_compare(m, "LT", draw(c, -1, TT_F32, s, false), keep);
  hlo factor = hlo_select(m, mask, hlo_convert(m, scale, x->dtype), hlo_int(m, x->dtype, 0));
  c->result[0] = hlo_binary(m, "multiply", x, factor);
  c->result[1] = mask;
}

void rule_dropout_backward(tt_ctx *c) { /* (grad_output, mask, scale) */
  hlo grad = tt_in(c, 0);
  if (!grad) return;
  hlo mask = hlo_broadcast_to(c->m, tt_in_as(c, 1, grad->dtype), grad->rank, grad->dims);
  c->result[0] = hlo_binary(c->m, "multiply", grad, hlo_binary(c->m, "multiply", mask, tt_in_as(c, 2, grad->dtype)));
}

/* ---- integers: hlo "" (self), "to" (self, to), "from" (self, from, to), each with a generator behind ---- */
/* The greatest that random_ gives a dtype: all integers up to it are exact in it. */
static uint64_t greatest(tt_dtype t) {
  switch (t) {
    case TT_BOOL: return 1;
    case TT_U8: return UINT8_MAX;
    case TT_U16: return UINT16_MAX;
    case TT_U32: return UINT32_MAX;
    case TT_U64: return UINT64_MAX;
    case TT_I8: return INT8_MAX;
    case TT_I16: return INT16_MAX;
    case TT_I32: return INT32_MAX;
    case TT_F16: return 1 << 11;
    case TT_BF16: return 1 << 8;
    case TT_F32: return 1 << 24;
    case TT_F64: return 1ull << 53;
    default: return INT64_MAX;
  }
}

void rule_random(tt_ctx *c) {
  hlo_module *m = c->m;
  const char *form = c->op->hlo;
  tt_dtype t = c->want[0].dtype;
  int64_t from = 0;
  uint64_t last = greatest(t); /* of the closed range */
  int generator = 1;
  if (!strcmp(form, "to")) {
    last = (uint64_t)tt_int(c, 1, 1) - 1, generator = 2;
  } else if (!strcmp(form, "from")) {
    from = tt_int(c, 1, 0), generator = 3;
    if (tt_has(c, 2)) last = (uint64_t)tt_int(c, 2, 1) - 1;
    else if (t == TT_U64) last = INT64_MAX;
  }
  if (*form && (tt_has(c, 2) || *form == 't') && tt_int(c, *form == 't' ? 1 : 2, 1) <= from) {
    hlo_fail(m, TT_UNIMPLEMENTED, "an empty range of numbers"); /* torch's words come from its own kernel */
    return;
  }
  uint64_t range = last - (uint64_t)from + 1; /* 0: all of 2^64 */
  shape s = wanted(c, 0);
  bool narrow = range != 0 && range <= 1ull << 32;
  tt_dtype u = narrow ? TT_U32 : TT_U64;
  hlo bits = tt_random_bits(c, generator, u, s.rank, s.dims);
  if (range != 0 && range != 1ull << 32) {
    bool power = (range & (range - 1)) == 0;
    bits = hlo_binary(m, power ? "and" : "remainder", bits, hlo_int(m, u, (int64_t)(power ? range - 1 : range)));
  }
  hlo x;
  if (narrow && from >= 0 && last <= UINT32_MAX) { /* stays in 32 bits */
    x = hlo_binary(m, "add", bits, hlo_int(m, TT_U32, from));
    if (last <= INT32_MAX) x = hlo_bitcast(m, x, TT_I32);
  } else {
    x = hlo_binary(m, "add", hlo_convert(m, bits, TT_U64), hlo_int(m, TT_U64, from));
    if (t != TT_U64) x = hlo_bitcast(m, x, TT_I64);
  }
  c->result[0] = hlo_convert(m, x, t);
}

/* ---- randperm: hlo is the position of the generator ---- */
static void pairs_ascend(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo first = hlo_compare(m, "LT", args[0], args[1]), tie = hlo_compare(m, "EQ", args[0], args[1]);
  results[0] = hlo_binary(m, "or", first, hlo_binary(m, "and", tie, hlo_compare(m, "LT", args[2], args[3])));
}

void rule_randperm(tt_ctx *c) {
  hlo_module *m = c->m;
  shape s = wanted(c, 0);
  if (s.rank != 1 || s.dims[0] == 0) {
    c->result[0] = hlo_full(m, c->want[0].dtype, s.rank, s.dims, 0);
    return;
  }
  /* Two draws of 32 bits order the numbers: ties would bias a permutation, and 64-bit keys are slow on TPUs. */
  int generator = c->op->hlo[0] - '0';
  hlo in[3], out[3] = {0};
  for (int i = 0; i < 2; i++) in[i] = tt_random_bits(c, generator, TT_U32, 1, s.dims);
  in[2] = hlo_iota(m, s.dims[0] < INT32_MAX ? TT_I32 : TT_I64, 1, s.dims, 0);
  hlo_sort(m, 3, in, 0, false, pairs_ascend, NULL, out);
  c->result[0] = out[2];
}

/* ---- by inversion: (self, parameters.., generator) ---- */
void rule_exponential(tt_ctx *c) {
  tt_dtype t = draw_dtype(c->want[0].dtype);
  hlo u = hlo_unary(c->m, "log", draw(c, 2, t, wanted(c, 0), true));
  c->result[0] = hlo_binary(c->m, "divide", hlo_unary(c->m, "negate", u), tt_in_as(c, 1, t));
}

void rule_geometric(tt_ctx *c) {
  hlo_module *m = c->m;
  tt_dtype t = draw_dtype(c->want[0].dtype);
  hlo u = hlo_unary(m, "log", draw(c, 2, t, wanted(c, 0), true));
  hlo q = hlo_unary(m, "log_plus_one", hlo_unary(m, "negate", tt_in_as(c, 1, t)));
  c->result[0] = hlo_binary(m, "maximum", hlo_unary(m, "ceil", hlo_binary(m, "divide", u, q)), hlo_float(m, t, 1));
}

void rule_cauchy(tt_ctx *c) {
  hlo_module *m = c->m;
  tt_dtype t = draw_dtype(c->want[0].dtype);
  hlo turn = hlo_binary_scalar(m, "subtract", draw(c, 3, t, wanted(c, 0), true), 0.5);
  turn = hlo_binary_scalar(m, "multiply", turn, acos(-1));
  hlo tan = hlo_binary(m, "divide", hlo_unary(m, "sine", turn), hlo_unary(m, "cosine", turn));
  c->result[0] = hlo_binary(m, "add", hlo_binary(m, "multiply", tan, tt_in_as(c, 2, t)), tt_in_as(c, 1, t));
}

/* ---- multinomial(self, num_samples, replacement, generator) ---- */
static void falls(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  results[0] = hlo_compare(m, "GT", args[0], args[1]);
}

/* torch looks at all chances first where it draws without a search, else as it meets them. */
static void require_chances(tt_ctx *c, hlo p, bool at_once) {
  hlo_module *m = c->m;
  if (!tt_debug(c) || !p || hlo_numel(p) == 0) return;
  int last = p->rank - 1;
  hlo zero = hlo_float(m, (tt_dtype)p->dtype, 0), finite = hlo_unary(m, "is_finite", p),
      positive = hlo_compare(m, "GE", p, zero);
  if (at_once) {
    tt_require(c, hlo_binary(m, "and", finite, positive), NULL, TT_INVALID_ARGUMENT,
               "probability tensor contains either `inf`, `nan` or element < 0");
  } else {
    hlo unordered = hlo_compare(m, "NE", p, p);
    tt_require(c, hlo_binary(m, "or", positive, unordered), NULL, TT_INVALID_ARGUMENT,
               "invalid multinomial distribution (encountering probability entry < 0)");
    tt_require(c, finite, NULL, TT_INVALID_ARGUMENT,
               "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  }
  hlo total = hlo_reduce(m, "add", p, zero, 1, &last);
  tt_require(c, hlo_compare(m, "GT", total, zero), NULL, TT_INVALID_ARGUMENT,
             "invalid multinomial distribution (sum of probabilities <= 0)");
}

void rule_multinomial(tt_ctx *c) {
  hlo_module *m = c->m;
  int64_t samples = tt_int(c, 1, 1);
  tt_dtype t = draw_dtype(c->want[0].dtype == TT_F64 || tt_in_dtype(c, 0) == TT_F64 ? TT_F64 : TT_F32);
  hlo p = tt_in_as(c, 0, t);
  if (!p) return;
  int last = p->rank - 1;
  int64_t n = p->dims[last];
  require_chances(c, p, samples == 1 || !tt_bool(c, 2));
  if (tt_want_numel(&c->want[0]) == 0) {
    c->result[0] = hlo_full(m, TT_I64, c->want[0].rank, c->want[0].dims, 0);
    return;
  }
  if (!tt_bool(c, 2)) {
    /* The order of exponential clocks with rates p is a draw without replacement; what has no chance comes last. */
    hlo clock = hlo_unary(m, "negate", hlo_unary(m, "log", draw(c, 3, t, (shape){p->rank, p->dims}, true)));
    hlo in[2] = {hlo_binary(m, "divide", p, clock), hlo_iota(m, TT_I32, p->rank, p->dims, last)}, out[2] = {0};
    hlo_sort(m, 2, in, last, true, falls, NULL, out);
    c->result[0] = hlo_slice_dim(m, out[1], last, 0, samples, 1);
    return;
  }
  /* With replacement: the first place with a chance whose running sum passes a uniform part of the total. */
  hlo zero = hlo_float(m, t, 0);
  hlo running = tt_running(m, "add", p, last, zero);
  hlo total = hlo_slice_dim(m, running, last, n - 1, n, 1);
  shape s = wanted(c, 0);
  hlo u = draw(c, 3, t, s, true);
  u = hlo_binary(m, "multiply", u, hlo_broadcast_to(m, total, s.rank, s.dims));
  int64_t dims[3]; /* (row,) sample, place */
  for (int i = 0; i < last; i++) dims[i] = p->dims[i];
  dims[last] = samples, dims[last + 1] = n;
  int sample[2] = {0, 1}, where[2] = {0, 2};
  if (!last) where[0] = 1;
  int rank = last + 2, at = last + 1;
  hlo sums = hlo_broadcast(m, running, rank, dims, where);
  hlo passed = hlo_compare(m, "GT", sums, hlo_broadcast(m, u, rank, dims, sample));
  hlo chance = hlo_broadcast(m, hlo_compare(m, "GT", p, zero), rank, dims, where);
  hlo i = hlo_iota(m, TT_I32, rank, dims, at), none = hlo_int(m, TT_I32, n);
  hlo first = hlo_select(m, hlo_binary(m, "and", passed, chance), i, none);
  first = hlo_reduce(m, "minimum", first, none, 1, &at);
  /* Rounding may let none pass: then the last with a chance. */
  hlo likely = hlo_select(m, chance, i, hlo_int(m, TT_I32, 0));
  likely = hlo_reduce(m, "maximum", likely, hlo_int(m, TT_I32, 0), 1, &at);
  c->result[0] = hlo_binary(m, "minimum", first, likely);
}

/* ---- rrelu_with_noise(self, noise, lower, upper, training, generator); hlo "functional" returns the noise ---- */
void rule_rrelu_with_noise(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!x) return;
  tt_dtype t = x->dtype;
  hlo lower = tt_in_as(c, 2, t), upper = tt_in_as(c, 3, t), zero = hlo_int(m, t, 0);
  bool functional = c->op->hlo[0] == 'f';
  if (!tt_bool(c, 4)) {
    hlo slope = hlo_binary_scalar(m, "multiply", hlo_binary(m, "add", lower, upper), 0.5);
    c->result[0] = hlo_select(m, hlo_compare(m, "GT", x, zero), x, hlo_binary(m, "multiply", x, slope));
    if (functional) c->result[1] = tt_in_as(c, 1, c->want[1].dtype);
    return;
  }
  hlo r = hlo_convert(m, draw(c, 5, draw_dtype(t), (shape){x->rank, x->dims}, false), t);
  r = hlo_binary(m, "add", hlo_binary(m, "multiply", r, hlo_binary(m, "subtract", upper, lower)), lower);
  hlo below = hlo_compare(m, "LE", x, zero);
  c->result[0] = hlo_select(m, below, hlo_binary(m, "multiply", x, r), x);
  hlo noise = hlo_select(m, below, r, hlo_int(m, t, 1));
  if (functional)
    c->result[1] = noise;
  else
    tt_write(c, 1, noise);
}
