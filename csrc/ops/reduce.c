/* reduce.c: sums, products, extremes, counts, moments and norms over dims.
 *
 * A reduction drops dims and the result is reshaped to what is wanted, which settles keepdim. Half floats are summed in
 * f32. Positions of extremes come from two plain reductions, the extreme and then the first place that equals it,
 * because a reduction over (value, index) pairs is slow on every backend. NaN is the largest and the smallest. */
#include <math.h>
#include <string.h>
#include "ops/math.h"
#include "ops/rules.h"

static hlo wanted(tt_ctx *c, int k, hlo x) { return x ? hlo_reshape(c->m, x, c->want[k].rank, c->want[k].dims) : NULL; }

static int all_dims(hlo x, int *dims) {
  int n = x ? x->rank : 0;
  for (int i = 0; i < n; i++) dims[i] = i;
  return n;
}

/* The dims that argument i names; -1: all. */
static int pick_dims(tt_ctx *c, int i, hlo x, int *dims) {
  if (!x) return 0;
  return i < 0 ? all_dims(x, dims) : tt_dims(c, i, x->rank, dims);
}

static int64_t count_of(hlo x, int n, const int *dims) {
  int64_t count = 1;
  for (int i = 0; x && i < n; i++) count *= x->dims[dims[i]];
  return count;
}

static hlo total(hlo_module *m, hlo x, int n, const int *dims) {
  return n ? hlo_reduce(m, "add", x, constant_like(m, x, 0), n, dims) : x;
}

/* A reduced value against the dims it came from. */
static hlo spread(hlo_module *m, hlo reduced, hlo x, int n, const int *dims) {
  int at[TT_MAX_RANK], k = 0;
  if (!reduced || !x) return NULL;
  for (int d = 0; d < x->rank; d++) {
    bool gone = false;
    for (int i = 0; i < n; i++) gone |= dims[i] == d;
    if (!gone) at[k++] = d;
  }
  return hlo_broadcast(m, reduced, x->rank, x->dims, at);
}

static hlo extreme(hlo_module *m, hlo x, bool most, int n, const int *dims) {
  if (!x || !n) return x;
  tt_dtype t = (tt_dtype)x->dtype;
  if (!count_of(x, n, dims))
    return hlo_fail(m, TT_UNIMPLEMENTED, "the extreme of no elements");
  if (tt_is_complex(t)) return hlo_fail(m, TT_UNIMPLEMENTED, "complex numbers have no order");
  if (t == TT_BOOL) return hlo_reduce(m, most ? "or" : "and", x, hlo_int(m, TT_BOOL, !most), n, dims);
  return hlo_reduce(m, most ? "maximum" : "minimum", x, most ? hlo_lowest(m, t) : hlo_highest(m, t), n, dims);
}

/* hlo: "-" all dims; a digit: the argument that names them. */
static int dims_argument(const tt_ctx *c) { return *c->op->hlo == '-' ? -1 : *c->op->hlo - '0'; }

/* ---- sums and the like; the row's dims, then what is done: "s" sum, "m" mean, "p" product, "n" nansum ---- */
void rule_sum(tt_ctx *c) {
  hlo_module *m = c->m;
  int dims[TT_MAX_RANK];
  char what = c->op->hlo[1];
  hlo x = tt_in(c, 0);
  int n = pick_dims(c, dims_argument(c), x, dims);
  tt_dtype own = (tt_dtype)tt_in_dtype(c, 0);
  if (what == 'n' && tt_is_float(own)) x = choose_number(m, is_nan(m, x), 0, x);
  hlo r = what == 'p' && n ? hlo_reduce(m, "multiply", x, constant_like(m, x, 1), n, dims)
          : what == 'p'    ? x
                           : total(m, x, n, dims);
  if (what == 'm' && r) r = quo(m, r, hlo_count(m, x, n, dims, (tt_dtype)r->dtype));
  c->result[0] = wanted(c, 0, r);
}

void rule_hash(tt_ctx *c) { /* (self, dim, keepdim, mode): the bits of the widest dtype of the kind, by exclusive or */
  hlo_module *m = c->m;
  int dims[TT_MAX_RANK];
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  tt_dtype t = (tt_dtype)x->dtype, wide = tt_is_float(t) ? TT_F64 : tt_is_signed(t) ? TT_I64 : TT_U64;
  if (tt_is_complex(t)) {
    hlo_fail(m, TT_UNIMPLEMENTED, "complex numbers have no hash");
    return;
  }
  x = hlo_bitcast(m, hlo_convert(m, x, wide), TT_U64);
  int n = pick_dims(c, 1, x, dims);
  c->result[0] = wanted(c, 0, n ? hlo_reduce(m, "xor", x, hlo_int(m, TT_U64, 0), n, dims) : x);
}

void rule_count_nonzero(tt_ctx *c) {
  int dims[TT_MAX_RANK];
  hlo x = hlo_convert(c->m, tt_in_as(c, 0, TT_BOOL), TT_I64);
  int n = pick_dims(c, 1, x, dims);
  c->result[0] = wanted(c, 0, total(c->m, x, n, dims));
}

void rule_any_all(tt_ctx *c) { /* hlo: dims, then "or" or "and" */
  int dims[TT_MAX_RANK];
  const char *op = c->op->hlo + 1;
  hlo x = tt_in_as(c, 0, TT_BOOL);
  int n = pick_dims(c, dims_argument(c), x, dims);
  const tt_want *w = &c->want[0]; /* any.dims takes [] for no dims and None for all; what is wanted tells them apart */
  if (x && !tt_has(c, 1) && w->rank == x->rank && !memcmp(w->dims, x->dims, x->rank * sizeof *x->dims)) n = 0;
  c->result[0] = wanted(c, 0, n ? hlo_reduce(c->m, op, x, hlo_int(c->m, TT_BOOL, *op == 'a'), n, dims) : x);
}

/* ---- extremes ---- */
void rule_extreme(tt_ctx *c) { /* hlo: dims, then "max", "min" or "both" */
  int dims[TT_MAX_RANK];
  hlo x = tt_in_own(c, 0);
  int n = pick_dims(c, dims_argument(c), x, dims);
  const char *what = c->op->hlo + 1;
  if (*what == 'b') c->result[1] = wanted(c, 1, extreme(c->m, x, true, n, dims));
  c->result[0] = wanted(c, 0, extreme(c->m, x, !strcmp(what, "max"), n, dims));
}

static hlo first_place(hlo_module *m, hlo x, hlo best, int dim) {
  if (!x || !best) return NULL;
  hlo at = hlo_compare(m, "EQ", x, spread(m, best, x, 1, &dim));
  if (tt_is_float((tt_dtype)x->dtype)) at = either(m, at, is_nan(m, x)); /* where there is one, the extreme is NaN */
  int64_t size = x->dims[dim];
  tt_dtype t = size < INT32_MAX ? TT_I32 : TT_I64;
  hlo place = choose(m, at, hlo_iota(m, t, x->rank, x->dims, dim), hlo_int(m, t, size));
  return hlo_reduce(m, "minimum", place, hlo_highest(m, t), 1, &dim);
}

void rule_extreme_dim(tt_ctx *c) { /* (self, dim, keepdim) -> values, indices; hlo "max" "min" */
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  int dim = tt_dim(c, 1, x->rank, 0);
  if (x->rank == 0) {
    c->result[0] = x;
    c->result[1] = hlo_int(m, TT_I64, 0);
    return;
  }
  hlo best = extreme(m, x, c->op->hlo[1] == 'a', 1, &dim);
  c->result[0] = wanted(c, 0, best);
  c->result[1] = wanted(c, 1, first_place(m, x, best, dim));
}

void rule_arg_extreme(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  int dim = tt_dim(c, 1, x->rank, 0);
  if (!tt_has(c, 1) || x->rank == 0) {
    x = hlo_flatten(m, x);
    dim = 0;
  }
  c->result[0] = wanted(c, 0, first_place(m, x, extreme(m, x, c->op->hlo[1] == 'a', 1, &dim), dim));
}

/* ---- moments: (self, dim, correction, keepdim); hlo: "var" "std", then "+" to give the mean too ---- */
static hlo square_distance(hlo_module *m, hlo x, hlo mean, int n, const int *dims) {
  hlo d = sub(m, x, spread(m, mean, x, n, dims));
  return total(m, mul(m, d, d), n, dims);
}

void rule_var(tt_ctx *c) {
  hlo_module *m = c->m;
  int dims[TT_MAX_RANK];
  hlo x = tt_in(c, 0);
  if (!x) return;
  int n = tt_dims(c, 1, x->rank, dims);
  double count = (double)count_of(x, n, dims), left = count - tt_number_of(c, 2, 1);
  hlo mean = quo(m, total(m, x, n, dims), hlo_count(m, x, n, dims, (tt_dtype)c->dtype)), r;
  if (tt_is_complex((tt_dtype)c->dtype))
    r = add(m, square_distance(m, hlo_unary(m, "real", x), hlo_unary(m, "real", mean), n, dims),
            square_distance(m, hlo_unary(m, "imag", x), hlo_unary(m, "imag", mean), n, dims));
  else
    r = square_distance(m, x, mean, n, dims);
  hlo few = hlo_is_sized(x) && r ? plus(m, hlo_count(m, x, n, dims, (tt_dtype)r->dtype), -tt_number_of(c, 2, 1)) : NULL;
  r = quo(m, r, few ? larger(m, few, hlo_int(m, few->dtype, 0)) : constant_like(m, r, left > 0 ? left : 0));
  c->result[0] = wanted(c, 0, *c->op->hlo == 's' ? root(m, r) : r);
  if (c->op->hlo[3]) c->result[1] = wanted(c, 1, mean);
}

/* ---- norms ---- */
static hlo norm_of(hlo_module *m, hlo x, double p, int n, const int *dims) {
  if (!x) return NULL;
  hlo size = absolute(m, x);
  if (!n)
    return p == 0 && size ? hlo_convert(m, hlo_compare(m, "NE", size, constant_like(m, size, 0)), (tt_dtype)size->dtype)
                          : size;
  if (p == INFINITY) return hlo_reduce(m, "maximum", size, constant_like(m, size, 0), n, dims);
  if (p == -INFINITY) return extreme(m, size, false, n, dims);
  if (p == 0)
    return total(
        m, hlo_convert(m, hlo_compare(m, "NE", size, constant_like(m, size, 0)), size ? (tt_dtype)size->dtype : TT_F32),
        n, dims);
  if (p == 1) return total(m, size, n, dims);
  if (p == 2) return root(m, total(m, mul(m, size, size), n, dims));
  hlo sum = total(m, hlo_binary(m, "power", size, hlo_full_like(m, size, p)), n, dims);
  return sum ? hlo_binary(m, "power", sum, hlo_full_like(m, sum, 1 / p)) : NULL;
}

static tt_dtype wide_float(tt_dtype t) { return t == TT_F16 || t == TT_BF16 ? TT_F32 : t; }

void rule_norm(tt_ctx *c) { /* (self, p, ...); hlo: dims, then the argument that may name a dtype, or "-" */
  int dims[TT_MAX_RANK];
  tt_dtype t = (tt_dtype)tt_in_dtype(c, 0);
  if (c->op->hlo[1] != '-') t = (tt_dtype)tt_dtype_arg(c, c->op->hlo[1] - '0', t);
  hlo x = tt_in_as(c, 0, wide_float(t));
  int n = pick_dims(c, dims_argument(c), x, dims);
  c->result[0] = wanted(c, 0, norm_of(c->m, x, tt_number_of(c, 1, 2), n, dims));
}

void rule_dist(tt_ctx *c) {
  int dims[TT_MAX_RANK];
  hlo a = tt_in(c, 0), b = tt_in(c, 1);
  if (!a || !b) return;
  hlo wide = a->rank >= b->rank ? a : b;
  int64_t to[TT_MAX_RANK];
  for (int i = 0; i < wide->rank; i++) {
    int64_t u = i < wide->rank - a->rank ? 1 : a->dims[i - (wide->rank - a->rank)];
    int64_t v = i < wide->rank - b->rank ? 1 : b->dims[i - (wide->rank - b->rank)];
    to[i] = u == 1 ? v : u;
  }
  hlo d = sub(c->m, hlo_broadcast_to(c->m, a, wide->rank, to), hlo_broadcast_to(c->m, b, wide->rank, to));
  int n = all_dims(d, dims);
  c->result[0] = norm_of(c->m, d, tt_number_of(c, 2, 2), n, dims);
}

void rule_renorm(tt_ctx *c) { /* (self, p, dim, maxnorm) */
  hlo_module *m = c->m;
  int dims[TT_MAX_RANK], n = 0;
  hlo x = tt_in(c, 0);
  if (!x) return;
  int keep = tt_dim(c, 2, x->rank, 0);
  for (int i = 0; i < x->rank; i++)
    if (i != keep) dims[n++] = i;
  hlo norm = norm_of(m, x, tt_number_of(c, 1, 2), n, dims);
  double most = tt_number_of(c, 3, 0);
  hlo factor = choose(m, is_above(m, norm, most), over(m, most, plus(m, norm, 1e-7)), constant_like(m, norm, 1));
  c->result[0] = mul(m, x, hlo_convert(m, spread(m, factor, x, n, dims), (tt_dtype)c->dtype));
}

void rule_logsumexp(tt_ctx *c) {
  hlo_module *m = c->m;
  int dims[TT_MAX_RANK];
  hlo x = tt_in(c, 0);
  int n = pick_dims(c, 1, x, dims);
  bool complex = tt_is_complex((tt_dtype)c->dtype);
  hlo top = extreme(m, complex ? hlo_unary(m, "real", x) : x, true, n, dims);
  top = choose_number(m, is(m, absolute(m, top), INFINITY), 0, top);
  top = hlo_convert(m, top, (tt_dtype)c->dtype);
  hlo sum = total(m, exponential(m, sub(m, x, spread(m, top, x, n, dims))), n, dims);
  c->result[0] = wanted(c, 0, add(m, logarithm(m, sum), top));
}
