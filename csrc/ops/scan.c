/* scan.c: running sums, products, extremes and log-sums along a dim.
 *
 * Each is an associative combination of neighbours at distance 1, 2, 4 ...: log2(n) passes over the whole, no loop over
 * elements. What lies before the start is an identity, or is told apart by its position. */
#include <math.h>
#include <string.h>
#include "ops/index.h"
#include "ops/math.h"
#include "ops/rules.h"

static bool is_trivial(hlo x) { return !x || x->rank == 0 || hlo_numel(x) == 0; }

void rule_running(tt_ctx *c) { /* (self, dim, dtype); hlo "add" or "multiply" */
  hlo x = tt_in(c, 0);
  c->result[0] = is_trivial(x) ? x : tt_running(c->m, c->op->hlo, x, tt_dim(c, 1, x->rank, 0),
                                                constant_like(c->m, x, *c->op->hlo == 'm'));
}

/* cummax and cummin: of equal values the later counts; a NaN is kept, and a later NaN replaces it. hlo: the direction,
 * then "w" where values and indices (arguments 1 and 2) are written instead of returned. */
void rule_running_extreme(tt_ctx *c) {
  hlo_module *m = c->m;
  char direction[3] = {c->op->hlo[0], c->op->hlo[1], 0};
  bool writes = c->op->hlo[2] == 'w';
  hlo x = tt_in_own(c, 0);
  if (!x) return;
  hlo place = hlo_full(m, TT_I64, x->rank, x->dims, 0);
  if (!is_trivial(x)) {
    int dim = tt_dim(c, writes ? 3 : 1, x->rank, 0);
    tt_dtype t = x->dims[dim] < INT32_MAX ? TT_I32 : TT_I64;
    hlo position = hlo_iota(m, t, x->rank, x->dims, dim);
    place = position;
    for (int64_t step = 1; x && step < x->dims[dim]; step *= 2) {
      hlo before = tt_moved(m, x, dim, step, constant_like(m, x, 0));
      hlo where = tt_moved(m, place, dim, step, hlo_int(m, t, 0));
      hlo take = hlo_compare(m, direction, x, before);
      if (tt_is_float((tt_dtype)x->dtype)) take = either(m, is_nan(m, x), both(m, take, not(m, is_nan(m, before))));
      take = either(m, take, hlo_compare(m, "LT", position, hlo_int(m, t, step))); /* nothing lies before */
      x = choose(m, take, x, before);
      place = choose(m, take, place, where);
    }
  }
  if (writes) {
    tt_write(c, 1, x);
    tt_write(c, 2, place);
  } else {
    c->result[0] = x;
    c->result[1] = place;
  }
}

static hlo log_add(hlo_module *m, hlo a, hlo b) { /* of complex numbers */
  hlo u = hlo_unary(m, "real", a), v = hlo_unary(m, "real", b);
  hlo above = hlo_compare(m, "GE", u, v), high = choose(m, above, a, b), low = choose(m, above, b, a);
  hlo r = add(m, high, hlo_unary(m, "log_plus_one", exponential(m, sub(m, low, high))));
  hlo same = both(m, hlo_compare(m, "EQ", u, v), is(m, absolute(m, u), INFINITY));
  return choose(m, same, a, choose(m, is_nan(m, u), a, r));
}

/* Of complex numbers the imaginary part tells how often the running sum went round 0, which depends on the order: one
 * place after the other, as the CPU goes. Carried: position, x, the last sum, all sums. */
typedef struct walk { int dim, rank; int64_t n, size[TT_MAX_RANK]; } walk;

static void walk_goes_on(hlo_module *m, const hlo *in, hlo *r, void *user) {
  r[0] = is_below(m, in[0], (double)((walk *)user)->n);
}

static void walk_step(hlo_module *m, const hlo *in, hlo *r, void *user) {
  const walk *w = user;
  hlo starts[TT_MAX_RANK];
  for (int i = 0; i < w->rank; i++) starts[i] = i == w->dim ? in[0] : hlo_int(m, TT_I32, 0);
  r[0] = plus(m, in[0], 1);
  r[1] = in[1];
  r[2] = log_add(m, hlo_dynamic_slice(m, in[1], starts, w->size), in[2]);
  r[3] = hlo_dynamic_update_slice(m, in[3], r[2], starts);
}

/* The greatest so far, and the sum of what the others are to it: one logarithm and one rounding at the end. Sums of f32
 * are f64, as on the CPU: gradients are differences of exponentials of these, which show the last digit. */
static hlo real_log_sums(hlo_module *m, hlo x, int dim, tt_dtype wide) {
  if (!x) return NULL;
  tt_dtype t = (tt_dtype)x->dtype;
  hlo most = x, sum = hlo_full(m, wide, x->rank, x->dims, 1);
  for (int64_t step = 1; step < x->dims[dim]; step *= 2) {
    hlo before = tt_moved(m, most, dim, step, hlo_float(m, t, -INFINITY));
    hlo other = tt_moved(m, sum, dim, step, hlo_float(m, wide, 0)), above = hlo_compare(m, "GE", most, before);
    hlo apart = sub(m, hlo_convert(m, most, wide), hlo_convert(m, before, wide));
    hlo part = exponential(m, neg(m, absolute(m, choose_number(m, hlo_compare(m, "EQ", most, before), 0, apart))));
    sum = choose(m, above, add(m, sum, mul(m, other, part)), add(m, mul(m, sum, part), other));
    most = larger(m, most, before);
  }
  return hlo_convert(m, add(m, hlo_convert(m, most, wide), logarithm(m, sum)), t);
}

void rule_running_logsumexp(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  if (!is_trivial(x) && tt_is_complex((tt_dtype)x->dtype)) {
    walk w = {.dim = tt_dim(c, 1, x->rank, 0), .rank = x->rank};
    w.n = x->dims[w.dim];
    memcpy(w.size, x->dims, x->rank * sizeof *w.size);
    w.size[w.dim] = 1;
    hlo nothing = hlo_complex(m, (tt_dtype)x->dtype, -INFINITY, 0), end[4];
    hlo start[] = {hlo_int(m, TT_I32, 0), x, hlo_broadcast_to(m, nothing, x->rank, w.size), hlo_full_like(m, x, 0)};
    hlo_while(m, 4, start, walk_goes_on, walk_step, &w, end);
    x = end[3];
  } else if (!is_trivial(x)) {
    x = real_log_sums(m, x, tt_dim(c, 1, x->rank, 0), c->promoted == TT_F32 ? TT_F64 : (tt_dtype)x->dtype);
  }
  c->result[0] = x;
}
