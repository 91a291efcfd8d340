/* finite.c: who made the first NaN: Debug mode's check of what a call computes.
 *
 * A program gets a condition for each floating-point tensor that it makes or writes: no nan, unless an operand holds
 * one, and no infinity, unless an operand holds one or a nan. So the call that fails is the one that made the first of
 * them, and masks of -inf, numbers given as inf and the like pass. A whole base counts as an operand, also what a view
 * leaves out. */
#include <math.h>
#include <stdio.h>
#include "graph/graph.h"
#include "ops/ctx.h"

typedef struct kinds { hlo nan, infinity; } kinds; /* bool, of the value's dims or of rank 0; NULL: nowhere */

static hlo either(hlo_module *m, hlo a, hlo b) { return !a ? b : !b ? a : hlo_binary(m, "or", a, b); }

static bool can_hold(tt_dtype t) { return tt_is_float(t) || tt_is_complex(t); }

static kinds look(hlo_module *m, hlo v) {
  if (tt_is_complex((tt_dtype)v->dtype)) {
    hlo re = hlo_unary(m, "real", v), im = hlo_unary(m, "imag", v);
    if (!re || !im) return (kinds){0};
    kinds a = look(m, re), b = look(m, im);
    return (kinds){either(m, a.nan, b.nan), either(m, a.infinity, b.infinity)};
  }
  tt_dtype wide = tt_scalar_carrier((tt_dtype)v->dtype);
  if (wide != v->dtype) v = hlo_convert(m, v, wide);
  return (kinds){hlo_compare(m, "NE", v, v),
                 hlo_compare(m, "EQ", hlo_unary(m, "abs", v), hlo_float(m, wide, INFINITY))};
}

static hlo anywhere(hlo_module *m, hlo mask) {
  int zero = 0;
  return hlo_reduce(m, "or", hlo_flatten(m, mask), hlo_int(m, TT_BOOL, 0), 1, &zero);
}

static kinds look_at_operands(tt_trace *t) {
  kinds all = {0};
  for (uint32_t i = 0; i < t->n_operands && !hlo_failed(t->m); i++) {
    hlo v = t->operand_values[i];
    if (!can_hold((tt_dtype)v->dtype) || hlo_numel(v) == 0) continue;
    kinds k = look(t->m, v);
    if (!k.nan || !k.infinity) return all; /* out of memory: sticks in the module */
    all.nan = either(t->m, all.nan, anywhere(t->m, k.nan));
    all.infinity = either(t->m, all.infinity, anywhere(t->m, k.infinity));
  }
  return all;
}

static void require(tt_trace *t, hlo bad, hlo excuse, const char *what, hlo value, const char *name) {
  enum { LONGEST = 400 };
  char *message = hlo_alloc(t->m, LONGEST), shape[200];
  int64_t n = hlo_numel(value);
  if (!message || !bad) return;
  hlo ok = hlo_flatten(t->m, hlo_unary(t->m, "not", bad));
  if (excuse) ok = hlo_binary(t->m, "or", ok, excuse);
  tt_describe_shape(shape, sizeof shape, (tt_dtype)value->dtype, value->rank, value->dims);
  snprintf(message, LONGEST, "%s made %s at element {} of %s %s, and no operand holds %s", t->call->variant->name, what,
           name, shape, *what == 'n' ? "any" : "any or nan");
  hlo pair = tt_condition(t->m, ok, hlo_iota(t->m, TT_I64, 1, &n, 0));
  tt_trace_require(t, pair, TT_FAILED_PRECONDITION, message);
}

static void require_finite(tt_trace *t, hlo v, kinds operands, const char *name) {
  if (!v || !can_hold((tt_dtype)v->dtype) || hlo_numel(v) == 0 || hlo_failed(t->m)) return;
  kinds k = look(t->m, v);
  require(t, k.nan, operands.nan, "nan", v, name);
  require(t, k.infinity, either(t->m, operands.nan, operands.infinity), "infinity", v, name);
}

/* A number of the call that is part of its program. */
static bool given(const tt_arg *args, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (args[i].tag == TT_ARG_LIST && given(args[i].list, args[i].count)) return true;
    if (args[i].tag != TT_ARG_SCALAR && args[i].tag != TT_ARG_HOST) continue;
    if (tt_is_float((tt_dtype)args[i].dtype) && !isfinite(args[i].number.f)) return true;
    if (tt_is_complex((tt_dtype)args[i].dtype) && !(isfinite(args[i].number.c[0]) && isfinite(args[i].number.c[1])))
      return true;
  }
  return false;
}

void tt_trace_require_finite(tt_trace *t, const tt_output *outputs, int n_outputs, hlo *values) {
  const tt_op *op = t->call->variant->op;
  if ((!op->rule || op->flags & OP_STATIC_SCALARS) && given(t->call->args, t->call->variant->n_args)) return;
  kinds operands = look_at_operands(t);
  char name[40];
  for (int k = 0; k < n_outputs; k++) {
    snprintf(name, sizeof name, n_outputs > 1 ? "result %d," : "its result,", k);
    if (outputs[k].defined) require_finite(t, values[k], operands, name);
  }
  for (uint32_t i = 0; i < t->call->n_slots; i++)
    if (t->slot_written[i]) require_finite(t, t->slot_values[i], operands, "what it writes,");
}
