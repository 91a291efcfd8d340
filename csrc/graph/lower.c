/* lower.c: one call onto a growing program: operands read through their views, the row's rule, results written back.
 *
 * Eager plans, traced decompositions and captured graphs all come through here. At depth 0 operands are the call's own
 * storages, and offsets and numbers are run-time operands; deeper they are values of the trace, and numbers constants.
 */
#include <string.h>
#include "graph/graph.h"
#include "ops/ctx.h"

/* ---- where an argument stands in the outermost call: found by address ---- */
static bool locate_tensor(const tt_call *call, const tt_tensor *x, tt_operand *o) {
  for (int i = 0; i < call->variant->n_args; i++) {
    const tt_arg *a = &call->args[i];
    o->arg = i;
    o->element = -1;
    if (a->tag == TT_ARG_TENSOR && a->tensor == x) return true;
    if (a->tag != TT_ARG_LIST) continue;
    for (uint32_t e = 0; e < a->count; e++)
      if (a->list[e].tag == TT_ARG_TENSOR && a->list[e].tensor == x) {
        o->element = (int32_t)e;
        return true;
      }
  }
  return false;
}

static bool locate_arg(const tt_trace *t, const tt_arg *x, tt_operand *o) {
  if (t->copies && x >= t->copies && x < t->copies + t->n_copies) x = t->origins[x - t->copies];
  const tt_call *call = t->call;
  for (int i = 0; i < call->variant->n_args; i++) {
    const tt_arg *a = &call->args[i];
    o->arg = i;
    o->element = -1;
    if (a == x) return true;
    if (a->tag == TT_ARG_LIST && x >= a->list && x < a->list + a->count) {
      o->element = (int32_t)(x - a->list);
      return true;
    }
  }
  return false;
}

/* ---- operands ---- */
hlo tt_trace_operand(tt_trace *t, tt_operand o, tt_dtype dtype, int rank, const int64_t *dims) {
  if (t->n_operands == t->cap_operands) {
    uint32_t capacity = t->cap_operands ? 2 * t->cap_operands : 16;
    tt_operand *operands = tt_realloc(t->operands, capacity * sizeof *operands);
    if (!operands) return hlo_fail(t->m, TT_RESOURCE_EXHAUSTED, "out of host memory");
    t->operands = operands;
    hlo *values = tt_realloc(t->operand_values, capacity * sizeof *values);
    if (!values) return hlo_fail(t->m, TT_RESOURCE_EXHAUSTED, "out of host memory");
    t->operand_values = values;
    t->cap_operands = capacity;
  }
  hlo v = hlo_parameter(t->m, dtype, rank, dims);
  if (!v) return NULL;
  t->operands[t->n_operands] = o;
  t->operand_values[t->n_operands++] = v;
  return v;
}

static bool same_place(const tt_operand *a, const tt_operand *b) {
  return a->source == b->source && a->dtype == b->dtype && a->arg == b->arg && a->element == b->element;
}

hlo tt_trace_number_operand(tt_trace *t, tt_operand o) {
  for (uint32_t i = 0; i < t->n_operands; i++)
    if (same_place(&t->operands[i], &o)) return t->operand_values[i];
  return tt_trace_operand(t, o, o.dtype, 0, NULL);
}

/* A buffer as an operand, without the places that do not count. */
static hlo buffer_operand(tt_trace *t, tt_operand o, const tt_storage *s) {
  int64_t physical[TT_MAX_RANK], zeros[TT_MAX_RANK] = {0};
  tt_storage_physical(s, physical);
  hlo v = tt_trace_operand(t, o, s->dtype, s->rank, physical);
  return !s->padded || (!t->depth && t->call->n_symbols) ? v : hlo_slice(t->m, v, zeros, s->dims, NULL);
}

static hlo undefined_base(tt_trace *t, const tt_storage *s) { return hlo_full(t->m, s->dtype, s->rank, s->dims, 0); }

static int64_t find_slot(const tt_call *call, const tt_storage *s) {
  for (uint32_t i = 0; i < call->n_slots; i++)
    if (call->slots[i] == s) return i;
  return -1;
}

/* What the storage holds at this point of the program, in the shape of its base. */
static hlo storage_value(tt_trace *t, tt_storage *s) {
  if (s->trace == t) {
    if (!s->traced) s->traced = undefined_base(t, s);
    return s->traced;
  }
  if (tt_storage_is_traced(s))
    return hlo_fail(t->m, TT_FAILED_PRECONDITION, "a tensor made in another trace was used after it had ended");
  int64_t slot = t->depth ? -1 : find_slot(t->call, s);
  if (slot < 0) { /* a device tensor that a decomposition or a graph holds on to */
    for (uint32_t i = 0; i < t->n_operands; i++)
      if (t->operands[i].source == FROM_CAPTURE && t->operands[i].capture == s) return t->operand_values[i];
    if (tt_storage_undefined(s)) return undefined_base(t, s);
    tt_error err = {0}; /* it may be written, and then has no such places: it must look the same before */
    if (tt_storage_unpad(s, &err)) return hlo_fail(t->m, err.code, "%s", err.message);
    hlo v = tt_trace_operand(t, (tt_operand){.source = FROM_CAPTURE, .capture = s}, s->dtype, s->rank, s->dims);
    if (v) tt_storage_retain(s);
    return v;
  }
  if (!t->slot_values[slot]) {
    if (tt_storage_undefined(s)) return t->slot_values[slot] = undefined_base(t, s);
    t->slot_operands[slot] = (int32_t)t->n_operands;
    t->slot_values[slot] =
        buffer_operand(t, (tt_operand){.source = FROM_SLOT, .slot = (uint32_t)slot}, s);
    if (!t->slot_values[slot]) t->slot_operands[slot] = -1;
  }
  return t->slot_values[slot];
}

/* The offset of a view as an operand, or NULL where it is a constant. */
static hlo offset_operand(tt_trace *t, const tt_tensor *x, tt_view_class class) {
  tt_operand o = {.source = FROM_OFFSET, .dtype = TT_I64};
  if (t->depth || !tt_view_needs_offset(class) || !locate_tensor(t->call, x, &o)) return NULL;
  return tt_trace_number_operand(t, o);
}

hlo tt_trace_read(tt_trace *t, const tt_tensor *x) {
  const tt_storage *s = x->storage;
  tt_storage_hint_from(x);
  hlo base = storage_value(t, x->storage);
  if (!base) return NULL;
  tt_view v = {x->dtype, x->rank, x->sizes, x->strides, x->offset};
  tt_view_class class = tt_view_classify(&v, s->dtype, s->rank, base->dims);
  hlo value = tt_view_read(t->m, base, &v, offset_operand(t, x, class));
  for (int i = 0; value && value->symbols && i < value->rank; i++) {
    t->read_sized |= value->symbols[i] != 0;
    t->read_composite |= hlo_is_composite(value->symbols[i]);
  }
  return s->padded && !t->depth && t->call->n_symbols ? tt_bucket_marked(t, x, value) : value;
}

void tt_trace_write(tt_trace *t, const tt_tensor *x, hlo value) {
  tt_storage *s = x->storage;
  tt_storage_hint_from(x);
  tt_view v = {x->dtype, x->rank, x->sizes, x->strides, x->offset};
  tt_view_class class = tt_view_classify(&v, s->dtype, s->rank, s->dims);
  hlo base;
  if (class == TT_VIEW_WHOLE || class == TT_VIEW_COVER) { /* nothing of the old base is left: do not ask for it */
    hlo_value *shape = hlo_alloc(t->m, sizeof *shape);
    int64_t *dims = hlo_alloc(t->m, (s->rank + 1u) * sizeof *dims);
    if (!shape || !dims) return;
    memcpy(dims, s->dims, s->rank * sizeof *dims);
    *shape = (hlo_value){.id = UINT32_MAX, .dtype = s->dtype, .rank = s->rank, .dims = dims};
    base = shape;
  } else {
    base = storage_value(t, s);
  }
  if (!base || !value) return;
  if (!t->depth && hlo_is_sized(value)) {
    hlo_fail(t->m, TT_UNIMPLEMENTED, "what is written is not known to vary");
    return;
  }
  /* torch.empty in the trace */
  if (t->depth && tt_storage_undefined(s) && !tt_storage_is_traced(s) && tt_trace_adopt(t, s, NULL)) {
    hlo_fail(t->m, TT_RESOURCE_EXHAUSTED, "out of host memory");
    return;
  }
  hlo written = tt_view_write(t->m, base, &v, offset_operand(t, x, class), value);
  if (!written || written->id == UINT32_MAX) return;
  if (s->trace == t) {
    s->traced = written;
    s->traced_written = true;
    return;
  }
  int64_t slot = t->depth ? -1 : find_slot(t->call, s);
  if (slot < 0) {
    hlo_fail(t->m, TT_UNIMPLEMENTED, "a traced program writes a device tensor that is not one of its arguments");
    return;
  }
  t->slot_values[slot] = written;
  t->slot_written[slot] = true;
}

/* ---- what rules ask for (ops/ctx.h) ---- */
static hlo env_read(void *user, const tt_tensor *x) { return tt_trace_read(user, x); }
static void env_write(void *user, const tt_tensor *x, hlo v) { tt_trace_write(user, x, v); }

static void env_require(void *user, hlo pair, tt_code code, const char *message) {
  tt_trace_require(user, pair, code, message);
}

static hlo constant(hlo_module *m, const tt_arg *a, tt_dtype t) {
  if (tt_is_complex(a->dtype))
    return hlo_convert(m, hlo_complex(m, tt_is_complex(t) ? t : TT_C128, a->number.c[0], a->number.c[1]), t);
  if (tt_is_float(a->dtype)) return hlo_float(m, t, tt_scalar_carrier(t) == TT_F32 ? (float)a->number.f : a->number.f);
  return hlo_int(m, t, a->number.i);
}

static hlo env_scalar(void *user, const tt_arg *a, tt_dtype dtype) {
  tt_trace *t = user;
  if (tt_is_complex(a->dtype) && !tt_is_complex(dtype))
    return hlo_fail(t->m, TT_INVALID_ARGUMENT, "value cannot be converted to type %s without overflow",
                    tt_dtype_name(dtype));
  tt_dtype carrier = tt_scalar_carrier(dtype);
  tt_operand o = {.source = FROM_SCALAR, .dtype = carrier};
  const tt_op *op = t->call->variant->op;
  bool moves = a == t->call->args && tt_range_moves(op, t->call->args);
  bool fixed = op->flags & OP_STATIC_SCALARS || tt_scalar_is_one(a);
  if (t->depth || !op->rule || (fixed && !moves) || !locate_arg(t, a, &o)) return constant(t->m, a, dtype);
  return hlo_convert(t->m, tt_trace_number_operand(t, o), dtype);
}

hlo tt_trace_number(tt_trace *t, const tt_arg *a) {
  tt_operand o = {.source = FROM_SCALAR, .dtype = tt_scalar_carrier(a->dtype)};
  if (!locate_arg(t, a, &o)) return hlo_fail(t->m, TT_INTERNAL, "a number that is not an argument of the call");
  return hlo_convert(t->m, tt_trace_number_operand(t, o), a->dtype);
}

/* A state further on by n draws. */
static hlo advanced(tt_trace *t, hlo state, uint64_t n) {
  if (!n || !state) return state;
  int64_t dims[1] = {2};
  uint64_t step[2] = {0, n};
  return hlo_binary(t->m, "add", state, hlo_array(t->m, TT_U64, 1, dims, step));
}

hlo tt_trace_draw(tt_trace *t, tt_generator *g, int64_t n) {
  if (t->regions) return hlo_fail(t->m, TT_UNIMPLEMENTED, "random numbers in a loop or a branch of a traced program");
  if (t->random_given) {
    uint64_t before = t->random_given_total;
    t->random_given_total += (uint64_t)n;
    return advanced(t, t->random_given, before);
  }
  tt_operand o = {.source = FROM_RANDOM, .dtype = TT_U64};
  /* A generator that is an argument is taken from each call, also where it is the default one this time. */
  for (int i = 0; g && i < t->call->variant->n_args; i++)
    o.from_call |= t->call->args[i].tag == TT_ARG_GENERATOR && t->call->args[i].generator == g;
  if (g && !o.from_call && g != tt_generator_default(t->call->device)) {
    return hlo_fail(t->m, TT_UNIMPLEMENTED, "a traced program draws from a generator that is not its argument");
  }
  if (t->random && o.from_call != t->randoms_from_call)
    return hlo_fail(t->m, TT_UNIMPLEMENTED, "a program draws from two generators");
  int64_t dims[1] = {2};
  if (!t->random) t->random = tt_trace_operand(t, o, TT_U64, 1, dims);
  uint64_t before = t->random_total;
  t->randoms_from_call = o.from_call;
  t->random_total += (uint64_t)n;
  return advanced(t, t->random, before);
}

static hlo env_random_state(void *user, tt_generator *g, int64_t n) { return tt_trace_draw(user, g, n); }

/* ---- calls ---- */
static tt_want want_of_tensor(const tt_tensor *x) {
  return (tt_want){.defined = true, .written = true, .dtype = x->dtype, .rank = x->rank, .dims = x->sizes};
}

/* Applies the row to args; result k goes to into[k] where that is not NULL, else to *values++. */
static void apply(tt_trace *t, const tt_call *call, const tt_arg *args, int n_results, const tt_tensor *const *into,
                  const tt_output *outputs, hlo *values) {
  struct tt_ctx_env env = {t, env_read, env_scalar, env_random_state, env_write,
                            t->call->flags & TT_CALL_DEBUG ? env_require : NULL};
  tt_ctx *c = hlo_alloc(t->m, sizeof *c);
  if (!c) return;
  c->m = t->m;
  c->op = call->variant->op;
  c->n_args = tt_operand_count(call->variant);
  c->args = args;
  c->env = &env;
  c->precision = (int)(call->flags & 3);
  c->n_results = n_results;
  int next = 0;
  for (int k = 0; k < n_results; k++) {
    if (into[k]) c->want[k] = want_of_tensor(into[k]);
    else {
      const tt_output *o = &outputs[next++];
      c->want[k] = (tt_want){.defined = o->defined, .dtype = o->dtype, .rank = o->rank, .dims = o->sizes};
    }
  }
  tt_rule_apply(c);
  next = 0;
  for (int k = 0; k < n_results; k++) {
    if (into[k]) tt_trace_write(t, into[k], c->result[k]);
    else values[next++] = c->result[k];
  }
}

/* One row for each element of the lists; a written list takes the results, else they are new tensors. */
static void apply_foreach(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, hlo *values) {
  const tt_variant *v = call->variant;
  int count = 0, written = -1;
  for (int i = v->n_args - 1; i >= 0; i--) {
    if (call->args[i].tag == TT_ARG_LIST) count = (int)call->args[i].count;
    if (v->written >> i & 1) written = i;
  }
  tt_arg *copies = hlo_alloc(t->m, (v->n_args + 1u) * sizeof *copies);
  const tt_arg **origins = hlo_alloc(t->m, (v->n_args + 1u) * sizeof *origins);
  if (!copies || !origins) return;
  t->copies = copies;
  t->origins = origins;
  t->n_copies = v->n_args;
  for (int e = 0; e < count && !hlo_failed(t->m); e++) {
    for (int i = 0; i < v->n_args; i++) {
      origins[i] = call->args[i].tag == TT_ARG_LIST ? &call->args[i].list[e] : &call->args[i];
      copies[i] = *origins[i];
    }
    const tt_tensor *into[1] = {written < 0 ? NULL : copies[written].tensor};
    if (written < 0 && e >= n_outputs) break;
    apply(t, call, copies, 1, into, outputs + (written < 0 ? e : 0), written < 0 ? values + e : NULL);
  }
  t->copies = NULL;
}

/* What has read, in a captured graph, values that count only in part has to be written for it. */
static void check_sized(tt_trace *t, const tt_op *op, int composed) {
  if (t->read_sized && t->depth && !tt_rule_is_sized(op->rule))
    hlo_fail(t->m, TT_UNIMPLEMENTED, "%s is not done for sizes known at run time", op->name);
  if ((t->read_composite || hlo_composed(t->m) != composed) && tt_rule_asks_places(op->rule))
    hlo_fail(t->m, TT_UNIMPLEMENTED, "%s of a dim made of several is not done for sizes known at run time", op->name);
}

tt_code tt_lower_call(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, hlo *values,
                      tt_error *err) {
  const tt_variant *v = call->variant;
  int composed = hlo_composed(t->m);
  t->read_sized = t->read_composite = false;
  const tt_tensor *into[TT_MAX_RESULTS] = {0};
  int n_results = 0;
  if (!v->op->rule) {
    tt_trace_decompose(t, call, outputs, n_outputs, values);
  } else if (v->foreach) {
    apply_foreach(t, call, outputs, n_outputs, values);
  } else {
    int fresh = 0;
    for (int k = 0; k < v->n_results && k < TT_MAX_RESULTS; k++, n_results++) {
      if (v->alias[k] >= 0) into[k] = call->args[v->alias[k]].tensor;
      else fresh++;
    }
    for (; fresh < n_outputs && n_results < TT_MAX_RESULTS; n_results++) fresh++; /* a list of new tensors */
    if (fresh != n_outputs)
      hlo_fail(t->m, TT_UNIMPLEMENTED, "more than %d results", (int)TT_MAX_RESULTS);
    else
      apply(t, call, call->args, n_results, into, outputs, values);
  }
  if (v->op->rule) check_sized(t, v->op, composed);
  for (int k = 0; k < n_outputs && !hlo_failed(t->m); k++)
    if (outputs[k].defined && !values[k]) hlo_fail(t->m, TT_INTERNAL, "the rule gave no result %d", k);
  if (!hlo_failed(t->m)) return TT_OK;
  tt_error local;
  if (!err) err = &local;
  hlo_get_error(t->m, err);
  if (!err->where[0]) strncpy(err->where, v->name, sizeof err->where - 1);
  return err->code;
}
