/* optim.c: rules of fused optimizer steps and of gradient scaling: one program for all parameters of a group.
 *
 * Every tensor is computed in its parameter's dtype, halves in float. Learning rates, betas and steps are run-time
 * operands, so that no schedule compiles twice; flags are static. Where gradients were found infinite the step leaves
 * everything as it was, by a select: nothing waits for the device. Bias corrections are computed in the parameter's
 * dtype, not always in double as torch CPU does. Refuses nothing. */
#include "ops/op.h"
#include "ops/rules.h"

static hlo add(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "add", a, b); }
static hlo subtract(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "subtract", a, b); }
static hlo multiply(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }
static hlo divide(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "divide", a, b); }
static hlo root(hlo_module *m, hlo x) { return hlo_unary(m, "sqrt", x); }
static hlo one_minus(hlo_module *m, hlo x) { return x ? subtract(m, hlo_int(m, x->dtype, 1), x) : NULL; }

/* Also of a tensor of dims [1]. */
static hlo scalar(tt_ctx *c, int i, tt_dtype t) { return hlo_reshape(c->m, tt_in_as(c, i, t), 0, NULL); }

/* What all fused steps begin with. */
typedef struct step {
  int e;               /* which of the parameters */
  tt_dtype t;
  hlo skip;            /* NULL: never */
  hlo param, grad;
} step;

static tt_dtype compute_dtype(hlo x) {
  return !x || x->dtype == TT_F16 || x->dtype == TT_BF16 ? TT_F32 : (tt_dtype)x->dtype;
}

/* Writes element e of list i, or its old value where the step is skipped. */
static void keep_or_write(tt_ctx *c, const step *s, int i, hlo v) {
  if (s->skip) v = hlo_select(c->m, s->skip, tt_elem_as(c, i, s->e, s->t), v);
  tt_write_elem(c, i, s->e, v);
}

/* grad_scale and found_inf are arguments scale_arg and the next. */
static step step_begin(tt_ctx *c, int e, int scale_arg, bool maximize) {
  hlo_module *m = c->m;
  step s = {.e = e};
  s.t = compute_dtype(tt_elem(c, 0, e));
  if (tt_has(c, scale_arg + 1)) s.skip = hlo_compare(m, "EQ", scalar(c, scale_arg + 1, TT_F32), hlo_int(m, TT_F32, 1));
  s.param = tt_elem_as(c, 0, e, s.t);
  s.grad = tt_elem_as(c, 1, e, s.t);
  if (tt_has(c, scale_arg)) { /* the gradient itself is left unscaled, for whoever reads it next */
    s.grad = divide(m, s.grad, scalar(c, scale_arg, s.t));
    keep_or_write(c, &s, 1, s.grad);
  }
  if (maximize) s.grad = hlo_unary(m, "negate", s.grad);
  return s;
}

/* grad + decay * param; a decay of 0 takes nothing from param, not even a NaN. */
static hlo decayed(hlo_module *m, hlo grad, hlo param, hlo decay) {
  if (!decay) return NULL;
  hlo off = hlo_compare(m, "EQ", decay, hlo_int(m, decay->dtype, 0));
  return hlo_select(m, off, grad, add(m, grad, multiply(m, param, decay)));
}

static hlo bias_correction(hlo_module *m, hlo beta, hlo steps) {
  return one_minus(m, hlo_binary(m, "power", beta, steps));
}

/* (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
 * maximize, grad_scale, found_inf). hlo: "" or "w" for AdamW, which decays the parameter and not the gradient. */
void rule_fused_adam(tt_ctx *c) {
  hlo_module *m = c->m;
  bool decoupled = *c->op->hlo, amsgrad = tt_bool(c, 11), maximize = tt_bool(c, 12);
  for (int e = 0; e < tt_count(c, 0); e++) {
    step s = step_begin(c, e, 13, maximize);
    hlo lr = scalar(c, 6, s.t), beta1 = scalar(c, 7, s.t), beta2 = scalar(c, 8, s.t), decay = scalar(c, 9, s.t);
    hlo steps = hlo_reshape(m, tt_elem_as(c, 5, e, s.t), 0, NULL), param = s.param, grad = s.grad;
    if (decoupled) param = subtract(m, param, multiply(m, param, multiply(m, lr, decay)));
    else grad = decayed(m, grad, param, decay);
    hlo average = tt_elem_as(c, 2, e, s.t), square = tt_elem_as(c, 3, e, s.t);
    average = add(m, average, multiply(m, subtract(m, grad, average), one_minus(m, beta1)));
    square = add(m, multiply(m, square, beta2), multiply(m, multiply(m, grad, grad), one_minus(m, beta2)));
    hlo top = square;
    if (amsgrad) top = hlo_binary(m, "maximum", tt_elem_as(c, 4, e, s.t), square);
    hlo spread = divide(m, root(m, top), root(m, bias_correction(m, beta2, steps)));
    hlo rate = divide(m, lr, bias_correction(m, beta1, steps));
    param = subtract(m, param, divide(m, multiply(m, average, rate), add(m, spread, scalar(c, 10, s.t))));
    keep_or_write(c, &s, 0, param);
    keep_or_write(c, &s, 2, average);
    keep_or_write(c, &s, 3, square);
    if (amsgrad) keep_or_write(c, &s, 4, top);
  }
}

/* (self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
 * grad_scale, found_inf); no buffers: no momentum */
void rule_fused_sgd(tt_ctx *c) {
  hlo_module *m = c->m;
  bool momentum = tt_has(c, 2), nesterov = tt_bool(c, 7), maximize = tt_bool(c, 8), first = tt_bool(c, 9);
  for (int e = 0; e < tt_count(c, 0); e++) {
    step s = step_begin(c, e, 10, maximize);
    hlo grad = decayed(m, s.grad, s.param, scalar(c, 3, s.t));
    if (momentum) {
      hlo share = scalar(c, 4, s.t), buffer = grad;
      if (!first) {
        hlo kept = multiply(m, tt_elem_as(c, 2, e, s.t), share);
        buffer = add(m, kept, multiply(m, grad, one_minus(m, scalar(c, 6, s.t))));
      }
      keep_or_write(c, &s, 2, buffer);
      grad = nesterov ? add(m, grad, multiply(m, buffer, share)) : buffer;
    }
    keep_or_write(c, &s, 0, subtract(m, s.param, multiply(m, grad, scalar(c, 5, s.t))));
  }
}

/* (self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf) */
void rule_fused_adagrad(tt_ctx *c) {
  hlo_module *m = c->m;
  bool maximize = tt_bool(c, 8);
  for (int e = 0; e < tt_count(c, 0); e++) {
    step s = step_begin(c, e, 9, maximize);
    hlo grad = decayed(m, s.grad, s.param, scalar(c, 6, s.t));
    hlo before = hlo_binary_scalar(m, "subtract", hlo_reshape(m, tt_elem_as(c, 3, e, s.t), 0, NULL), 1);
    hlo rate = divide(m, scalar(c, 4, s.t), hlo_binary_scalar(m, "add", multiply(m, before, scalar(c, 5, s.t)), 1));
    hlo sum = add(m, tt_elem_as(c, 2, e, s.t), multiply(m, grad, grad));
    keep_or_write(c, &s, 2, sum);
    hlo move = divide(m, multiply(m, grad, rate), add(m, root(m, sum), scalar(c, 7, s.t)));
    keep_or_write(c, &s, 0, subtract(m, s.param, move));
  }
}

/* ---- gradient scaling ---- */
/* (self, found_inf, inv_scale): unscales the gradients, says whether any was not finite. */
void rule_amp_unscale(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo finite = hlo_int(m, TT_BOOL, 1), found = tt_in_own(c, 1);
  for (int e = 0; e < tt_count(c, 0); e++) {
    hlo own = tt_elem(c, 0, e);
    tt_dtype t = compute_dtype(own);
    if (!own || !found) return;
    int dims[TT_MAX_RANK];
    for (int i = 0; i < own->rank; i++) dims[i] = i;
    hlo all = hlo_reduce(m, "and", hlo_unary(m, "is_finite", own), hlo_int(m, TT_BOOL, 1), own->rank, dims);
    finite = hlo_binary(m, "and", finite, all);
    tt_write_elem(c, 0, e, multiply(m, hlo_convert(m, own, t), scalar(c, 2, t)));
  }
  if (found) tt_write(c, 1, hlo_select(m, finite, found, hlo_full_like(m, found, 1)));
}

/* (self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval) */
void rule_amp_update_scale(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo scale = tt_in_own(c, 0), tracker = tt_in_own(c, 1), found = scalar(c, 2, TT_F32);
  if (!scale || !tracker) return;
  hlo shrink = hlo_compare(m, "NE", found, hlo_int(m, TT_F32, 0)), count = hlo_binary_scalar(m, "add", tracker, 1);
  hlo due = hlo_compare(m, "EQ", count, hlo_int(m, tracker->dtype, tt_int(c, 5, 1)));
  hlo larger = multiply(m, scale, scalar(c, 3, (tt_dtype)scale->dtype));
  larger = hlo_select(m, hlo_unary(m, "is_finite", larger), larger, scale);
  hlo grown = hlo_select(m, hlo_reshape(m, due, scale->rank, scale->dims), larger, scale);
  hlo none = hlo_full_like(m, tracker, 0);
  c->result[0] = hlo_select(m, shrink, multiply(m, scale, scalar(c, 4, (tt_dtype)scale->dtype)), grown);
  tt_write(c, 1, hlo_select(m, shrink, none, hlo_select(m, due, none, count)));
}
