/* ctc.c: rules of the connectionist temporal classification loss (Graves et al., 2006) and of its gradient.
 *
 * A target of S labels is read as its 2 S + 1 states, blanks between labels. The forward and the backward recursion are
 * one loop over time each, over all samples and states at once, in logarithms; lengths are run-time values, so that one
 * program serves all batches of a shape. What lies beyond a sample's lengths is probability zero. The gradient uses
 * posteriors, which are at most one, so they are summed over the states of a class as they are. Targets come as rows
 * [batch, S]. */
#include <math.h>
#include "ops/index.h"
#include "ops/math.h"
#include "ops/rules.h"

typedef struct states {
  int64_t time, batch, n;      /* n: 2 S + 1 */
  hlo label;                   /* [batch, n], the class of each state */
  hlo skips;                   /* [batch, n], may be entered from two states before */
  hlo emitted;                 /* [time, batch, n], log probabilities */
  hlo last;                    /* [batch, n] i32 2 * target length, everywhere */
  hlo end;                     /* [batch, n] i32 input length - 1, everywhere */
  hlo place;                   /* [batch, n] i32, which state */
} states;

enum { STEP, CURRENT, ALL, EMITTED, SKIPS, LAST, END, CARRIED };

static const int BATCH = 0;

static hlo zero_probability(hlo_module *m, hlo x) { return constant_like(m, x, -HUGE_VAL); }

/* log(exp a + exp b + exp c), none of them NaN unless an operand is: minus infinity is probability zero. */
static hlo log_sum(hlo_module *m, hlo a, hlo b, hlo c) {
  hlo top = larger(m, larger(m, a, b), c);
  top = choose_number(m, is(m, top, -HUGE_VAL), 0, top);
  hlo sum =
      add(m, add(m, exponential(m, sub(m, a, top)), exponential(m, sub(m, b, top))), exponential(m, sub(m, c, top)));
  return add(m, logarithm(m, sum), top);
}

static hlo row_of(hlo_module *m, hlo all, hlo step) { /* [batch, n] of [time, batch, n] */
  if (!all) return NULL;
  hlo zero = hlo_int(m, TT_I32, 0), at[3] = {step, zero, zero};
  return hlo_squeeze_dim(m, hlo_dynamic_slice(m, all, at, (int64_t[]){1, all->dims[1], all->dims[2]}), 0);
}

static hlo with_row(hlo_module *m, hlo all, hlo step, hlo row) {
  hlo zero = hlo_int(m, TT_I32, 0), at[3] = {step, zero, zero};
  return hlo_dynamic_update_slice(m, all, hlo_unsqueeze(m, row, 0), at);
}

static void keep_rest(const hlo *args, hlo *results) {
  for (int i = EMITTED; i < CARRIED; i++) results[i] = args[i];
}

static void time_left(hlo_module *m, const hlo *args, hlo *results, void *user) {
  results[0] = hlo_compare(m, "LT", args[STEP], hlo_int(m, TT_I32, *(const int64_t *)user));
}

static void one_forward(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)user;
  hlo a = args[CURRENT], none = zero_probability(m, a);
  hlo two = hlo_select(m, args[SKIPS], tt_moved(m, a, 1, 2, none), none);
  hlo next = add(m, log_sum(m, a, tt_moved(m, a, 1, 1, none), two), row_of(m, args[EMITTED], args[STEP]));
  keep_rest(args, results);
  results[CURRENT] = next;
  results[ALL] = with_row(m, args[ALL], args[STEP], next);
  results[STEP] = hlo_binary(m, "add", args[STEP], hlo_int(m, TT_I32, 1));
}

/* Steps count up, time goes down: a sample begins at its own last time. */
static void one_backward(hlo_module *m, const hlo *args, hlo *results, void *user) {
  hlo b = args[CURRENT], none = zero_probability(m, b), last = args[LAST];
  if (!b) return;
  hlo time = hlo_binary(m, "subtract", hlo_int(m, TT_I32, *(const int64_t *)user - 1), args[STEP]);
  hlo emitted = row_of(m, args[EMITTED], time), now = hlo_broadcast(m, time, 2, b->dims, NULL);
  hlo from = tt_moved(m, hlo_select(m, args[SKIPS], b, none), 1, -2, none);
  hlo next = add(m, log_sum(m, b, tt_moved(m, b, 1, -1, none), from), emitted);
  hlo place = hlo_iota(m, TT_I32, 2, b->dims, 1);
  hlo final = either(m, hlo_compare(m, "EQ", place, last),
                     hlo_compare(m, "EQ", place, hlo_binary_scalar(m, "subtract", last, 1)));
  next = hlo_select(m, hlo_compare(m, "EQ", now, args[END]), hlo_select(m, final, emitted, none), next);
  next = hlo_select(m, hlo_compare(m, "GT", now, args[END]), none, next);
  keep_rest(args, results);
  results[CURRENT] = next;
  results[ALL] = with_row(m, args[ALL], time, next);
  results[STEP] = hlo_binary(m, "add", args[STEP], hlo_int(m, TT_I32, 1));
}

/* (.., log_probs, targets, input_lengths, target_lengths) from argument at on. */
static bool states_of(tt_ctx *c, int at, int blank_at, states *s) {
  hlo_module *m = c->m;
  hlo x = tt_in(c, at), targets = tt_in_own(c, at + 1), inputs = tt_in_as(c, at + 2, TT_I32),
      lengths = tt_in_as(c, at + 3, TT_I32);
  if (!x || !targets || !inputs || !lengths) return false;
  if (targets->rank != 2) {
    hlo_fail(m, TT_UNIMPLEMENTED, "ctc_loss: targets are rows here, got %d dims", targets->rank);
    return false;
  }
  s->time = x->dims[0], s->batch = x->dims[1], s->n = 2 * targets->dims[1] + 1;
  int64_t dims[2] = {s->batch, s->n}, wide[3] = {s->time, s->batch, s->n};
  if (tt_debug(c) && targets && lengths) {
    hlo place = hlo_iota(m, TT_I32, 2, targets->dims, 1);
    hlo used = hlo_compare(m, "LT", place, hlo_broadcast(m, lengths, 2, targets->dims, &BATCH));
    hlo inside = both(m, hlo_compare(m, "GE", targets, hlo_int(m, targets->dtype, 0)),
                      hlo_compare(m, "LT", targets, hlo_int(m, targets->dtype, x->dims[2])));
    tt_require(c, either(m, inside, not(m, used)), targets, TT_OUT_OF_RANGE, "Target {} is out of bounds.");
  }
  targets = tt_index_prepare(m, targets, x->dims[2], false, true);
  hlo blank = hlo_int(m, targets ? (tt_dtype)targets->dtype : TT_I32, tt_int(c, blank_at, 0));
  s->label = hlo_pad(m, targets, blank, (int64_t[]){0, 1}, (int64_t[]){0, 1}, (int64_t[]){0, 1});
  if (s->n == 1) s->label = hlo_broadcast(m, blank, 2, dims, NULL);
  s->skips = hlo_compare(m, "NE", s->label, tt_moved(m, s->label, 1, 2, blank));
  s->emitted = tt_gather_along(m, x, 2, hlo_broadcast(m, s->label, 3, wide, (int[]){1, 2}));
  s->last = hlo_broadcast(m, hlo_binary_scalar(m, "multiply", lengths, 2), 2, dims, &BATCH);
  s->end = hlo_broadcast(m, hlo_binary_scalar(m, "subtract", inputs, 1), 2, dims, &BATCH);
  s->place = hlo_iota(m, TT_I32, 2, dims, 1);
  return s->label && s->emitted;
}

/* Runs body from step first on; [time, batch, n] of what it left at each time. */
static hlo recursion(hlo_module *m, states *s, hlo start, int64_t first, hlo_body *body) {
  if (!start) return NULL;
  hlo all = hlo_full(m, (tt_dtype)start->dtype, 3, (int64_t[]){s->time, s->batch, s->n}, -HUGE_VAL);
  if (first) all = with_row(m, all, hlo_int(m, TT_I32, 0), start);
  hlo in[CARRIED] = {hlo_int(m, TT_I32, first), start, all, s->emitted, s->skips, s->last, s->end},
      out[CARRIED] = {NULL};
  hlo_while(m, CARRIED, in, time_left, body, &s->time, out);
  return out[ALL];
}

/* (log_probs [T, B, C], targets [B, S], input_lengths, target_lengths, blank, zero_infinity) -> loss [B], log_alpha [B,
 * T, 2 S + 1] */
void rule_ctc_loss(tt_ctx *c) {
  hlo_module *m = c->m;
  states s;
  if (!states_of(c, 0, 4, &s)) return;
  int64_t start[2] = {0, 0}, dims[2] = {s.batch, s.n};
  if (s.time == 0 || s.batch == 0) {
    for (int k = 0; k < 2; k++)
      c->result[k] = hlo_full(m, c->dtype, c->want[k].rank, c->want[k].dims, k ? 0 : HUGE_VAL);
    if (s.batch == 0) return;
    hlo none = hlo_compare(m, "EQ", tt_in_as(c, 3, TT_I32), hlo_int(m, TT_I32, 0));
    c->result[0] = choose_number(m, none, 0, c->result[0]);
    return;
  }
  hlo first = hlo_squeeze_dim(m, hlo_slice(m, s.emitted, (int64_t[]){0, 0, 0}, (int64_t[]){1, s.batch, s.n}, NULL), 0);
  hlo two = hlo_int(m, TT_I32, 2), none = zero_probability(m, first);
  hlo open = both(m, hlo_compare(m, "LT", s.place, two), hlo_compare(m, "LE", s.place, s.last));
  hlo alpha = recursion(m, &s, hlo_select(m, open, first, none), 1, one_forward);
  /* Of each sample: the state after the last label, and the last label, at its last time. */
  hlo at_end = hlo_compare(m, "EQ", hlo_iota(m, TT_I32, 3, (int64_t[]){s.time, s.batch, s.n}, 0),
                           hlo_broadcast(m, s.end, 3, (int64_t[]){s.time, s.batch, s.n}, (int[]){1, 2}));
  int time = 0, state = 1;
  hlo final = hlo_reduce(m, "maximum", hlo_select(m, at_end, alpha, none), none, 1, &time);
  hlo label = hlo_compare(m, "EQ", s.place, hlo_binary_scalar(m, "subtract", s.last, 1));
  hlo a = hlo_reduce(m, "maximum", hlo_select(m, hlo_compare(m, "EQ", s.place, s.last), final, none), none, 1, &state);
  hlo b = hlo_reduce(m, "maximum", hlo_select(m, label, final, none), none, 1, &state);
  hlo loss = neg(m, log_sum(m, a, b, hlo_broadcast(m, none, 1, dims, NULL)));
  hlo first_length = hlo_squeeze_dim(m, hlo_slice(m, s.last, start, (int64_t[]){s.batch, 1}, NULL), 1);
  hlo end = hlo_squeeze_dim(m, hlo_slice(m, s.end, start, (int64_t[]){s.batch, 1}, NULL), 1);
  hlo nothing = both(m, hlo_compare(m, "LT", end, hlo_int(m, TT_I32, 0)),
                     hlo_compare(m, "EQ", first_length, hlo_int(m, TT_I32, 0)));
  c->result[0] = choose_number(m, nothing, 0, loss);
  c->result[1] = hlo_transpose(m, alpha, (int[]){1, 0, 2});
}

/* (grad [B], log_probs, targets, input_lengths, target_lengths, loss [B], log_alpha [B, T, 2 S + 1], blank,
 * zero_infinity) */
void rule_ctc_loss_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  states s;
  if (!states_of(c, 1, 7, &s)) return;
  if (tt_want_numel(w) == 0) {
    c->result[0] = hlo_full(m, c->dtype, w->rank, w->dims, 0);
    return;
  }
  int64_t wide[3] = {s.time, s.batch, s.n};
  int batch[1] = {1}, rows[2] = {1, 2};
  hlo x = tt_in(c, 1), grad = tt_in(c, 0), loss = tt_in(c, 5), alpha = hlo_transpose(m, tt_in(c, 6), (int[]){1, 0, 2});
  if (!x || !loss || !alpha) return;
  hlo none = hlo_full(m, (tt_dtype)x->dtype, 2, wide + 1, -HUGE_VAL);
  hlo beta = recursion(m, &s, none, 0, one_backward);
  hlo used =
      both(m, hlo_compare(m, "LE", hlo_broadcast(m, s.place, 3, wide, rows), hlo_broadcast(m, s.last, 3, wide, rows)),
           hlo_compare(m, "LE", hlo_iota(m, TT_I32, 3, wide, 0), hlo_broadcast(m, s.end, 3, wide, rows)));
  hlo posterior =
      exponential(m, sub(m, add(m, add(m, alpha, beta), hlo_broadcast(m, loss, 3, wide, batch)), s.emitted));
  posterior = hlo_select(m, used, posterior, constant_like(m, posterior, 0));
  hlo sum = tt_scatter_along(m, "add", hlo_full(m, (tt_dtype)x->dtype, 3, w->dims, 0), 2,
                             hlo_broadcast(m, s.label, 3, wide, rows), posterior);
  /* A class without a state has exp(-inf + loss - x): NaN where either is infinite. */
  hlo lost = add(m, sub(m, loss, loss), constant_like(m, loss, 0));
  hlo losses = hlo_broadcast(m, lost, 3, w->dims, batch);
  sum = add(m, sum, choose_number(m, is(m, x, -HUGE_VAL), NAN, losses));
  hlo g = mul(m, sub(m, exponential(m, x), sum), hlo_broadcast(m, grad, 3, w->dims, batch));
  hlo ends = hlo_slice(m, s.end, (int64_t[]){0, 0}, (int64_t[]){s.batch, 1}, NULL);
  hlo outside = hlo_compare(m, "GT", hlo_iota(m, TT_I32, 3, w->dims, 0),
                            hlo_broadcast(m, hlo_squeeze_dim(m, ends, 1), 3, w->dims, batch));
  if (tt_bool(c, 8)) outside = either(m, outside, hlo_broadcast(m, is(m, loss, HUGE_VAL), 3, w->dims, batch));
  c->result[0] = choose_number(m, outside, 0, g);
}
