/* run.c: a plan and a call become one PJRT execution.
 *
 * The hot path: gathers operand buffers, executes, puts results in storages. Storages that the call writes give their
 * buffer to the program when nobody else holds it, and get it back if the run fails, so a failure loses nothing. */
#include <sched.h>
#include <string.h>
#include "graph/graph.h"
#include "pjrt/counters.h"

enum { INLINE = 32 };

static const tt_arg *arg_at(const tt_call *call, const tt_operand *o) {
  const tt_arg *a = &call->args[o->arg];
  return o->element < 0 ? a : &a->list[o->element];
}

/* Where the view begins: in a bucketed call, in the base at capacity. */
static int64_t offset_of(const tt_call *call, const tt_tensor *t) {
  if (!call->n_symbols) return t->offset;
  tt_scaled v;
  int64_t base[TT_MAX_RANK];
  tt_bucket_view((tt_call *)(uintptr_t)call, t, NULL, base, &v); /* its symbols are known: nothing is added */
  return v.offset;
}

tt_scalar tt_operand_number(const tt_call *call, const tt_operand *o, uint64_t seed, uint64_t offset) {
  if (o->source == FROM_RANDOM) {
    uint64_t state[2] = {seed, offset};
    tt_scalar s = {.dtype = TT_U64};
    memcpy(s.bits, state, sizeof state);
    return s;
  }
  if (o->source == FROM_SCALAR) return tt_scalar_encode(arg_at(call, o), o->dtype);
  tt_arg a = {.tag = TT_ARG_SCALAR, .dtype = TT_I64};
  a.number.i = o->source == FROM_SIZE ? call->symbols[o->arg] : offset_of(call, arg_at(call, o)->tensor);
  return tt_scalar_encode(&a, (tt_dtype)o->dtype);
}

tt_buffer *tt_number_buffer(tt_client *c, int device, const tt_operand *o, tt_scalar number, tt_error *err) {
  if (o->source != FROM_RANDOM) return tt_scalar_buffer(c, device, number, err);
  int64_t dims[1] = {2};
  return tt_buffer_from_host(c, device, TT_U64, 1, dims, number.bits, err);
}

static tt_buffer *operand(const tt_plan *p, const tt_call *call, const tt_operand *o, bool donate, uint64_t seed,
                          uint64_t offset, bool *lent, tt_error *err) {
  tt_storage *s = tt_operand_storage(call, o);
  if (!s) return tt_number_buffer(call->client, call->device, o, tt_operand_number(call, o, seed, offset), err);
  tt_buffer *b = tt_storage_try_take(s, donate, lent);
  if (!b && !*lent && s->lost) tt_window_failure(call->device, err);
  else if (!b && !*lent)
    tt_fail(err, TT_FAILED_PRECONDITION, p->name, "another thread emptied an operand at the same time");
  return b;
}

tt_generator *tt_plan_generator(const tt_plan *p, const tt_call *call) {
  if (p->randoms_from_call)
    for (int i = 0; i < call->variant->n_args; i++)
      if (call->args[i].tag == TT_ARG_GENERATOR) return call->args[i].generator;
  return tt_generator_default(call->device);
}

tt_code tt_plan_make_results(const tt_plan *p, const tt_call *call, tt_storage **results, tt_error *err) {
  for (uint32_t k = 0; k < p->n_outputs; k++) results[k] = NULL;
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    if (!p->outputs[k].defined) continue;
    if (p->shapes) {
      if (!(results[k] = tt_bucket_storage(p, call, k, err))) return err->code;
      continue;
    }
    const tt_type *base = &p->bases[k];
    results[k] = tt_storage_create(call->client, call->device, (size_t)base->bytes, err);
    if (!results[k]) return err->code;
    tt_storage_base(results[k], base->dtype, base->rank, base->dims);
    results[k]->made = call->place ? call->place : p->name;
  }
  return TT_OK;
}

/* True if it is this very call that has operand n's buffer: a tensor that a traced program holds on to, and writes. */
static bool lent_here(const tt_plan *p, const tt_call *call, uint32_t n) {
  const tt_storage *s = tt_operand_storage(call, &p->operands[n]);
  for (uint32_t i = 0; i < n; i++)
    if (p->donate[i] && call->slots[p->operands[i].slot] == s) return true;
  return false;
}

static void give_back(const tt_plan *p, const tt_call *call, tt_buffer **args, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (p->donate[i]) tt_storage_put(call->slots[p->operands[i].slot], args[i]);
    else tt_buffer_release(args[i]);
  }
}

tt_code tt_plan_run(const tt_plan *p, const tt_call *call, tt_storage **results, tt_error *err) {
  tt_buffer *args_inline[INLINE], *outs_inline[INLINE], **args = args_inline, **outs = outs_inline, **heap = NULL;
  uint32_t n = 0;
  tt_error local;
  if (!err) err = &local;
  err->code = TT_OK;
  if (p->function && (tt_get_mode() == TT_MODE_FUSE || tt_join_takes(p, call)))
    return tt_window_record(p, call, results, err);
  if (p->n_operands > INLINE || p->n_results > INLINE) {
    heap = tt_alloc((p->n_operands + p->n_results) * sizeof *heap);
    if (!heap) return tt_no_memory(err, (p->n_operands + p->n_results) * sizeof *heap);
    args = heap;
    outs = heap + p->n_operands;
  }
  tt_executable *executable = p->n_results ? tt_plan_executable(p, call->client, err) : NULL;
  if (tt_plan_make_results(p, call, results, err) || err->code) goto failed;
  uint64_t seed = 0, offset = 0;
  if (p->uses_random) tt_generator_draw(tt_plan_generator(p, call), p->random_total, &seed, &offset);
  while (n < p->n_operands) {
    bool lent = false;
    if ((args[n] = operand(p, call, &p->operands[n], p->donate[n], seed, offset, &lent, err))) {
      n++;
      continue;
    }
    if (lent && lent_here(p, call, n))
      tt_fail(err, TT_UNIMPLEMENTED, p->name, "the program holds on to a tensor that it also writes");
    if (!lent || err->code) goto failed;
    /* a window or another thread is to fill an operand: wait for it with nothing in hand */
    give_back(p, call, args, n);
    for (n = 0; n < p->n_operands; n++)
      if (tt_operand_storage(call, &p->operands[n])) tt_storage_settle(tt_operand_storage(call, &p->operands[n]));
    n = 0;
    sched_yield();
  }
  if (executable && tt_executable_run(executable, call->device, call->place ? call->place : p->name, (int)n, args,
                                      p->donate, (int)p->n_results, p->types, outs, err))
    goto failed;
  tt_tally(executions, executable != NULL);
  uint32_t n_results = p->n_results;
  if (p->n_requirements) { /* the last result says whether the others may be seen */
    tt_code code = tt_requirements_look(p, outs[--n_results], err);
    tt_buffer_release(outs[n_results]);
    for (uint32_t i = 0; code && i < n_results; i++) tt_buffer_release(outs[i]);
    if (code) goto failed;
  }
  for (uint32_t i = 0; i < n_results; i++) {
    const tt_destination *d = &p->destinations[i];
    tt_storage *s = d->is_slot ? call->slots[d->index] : results[d->index];
    tt_window_forget(s); /* of what is written without being read, a window may still have older contents */
    tt_storage_put_padded(s, outs[i], p->shapes && !d->is_slot ? p->shapes[d->index].padded : 0);
  }
  for (uint32_t i = 0; i < n; i++) tt_buffer_release(args[i]);
  n = 0;
  if (call->variant->graph) tt_join_made(p, results);
  if (!(call->flags & TT_CALL_WAIT) || !tt_client_synchronize(call->client, call->device, err)) {
    tt_free(heap);
    return TT_OK;
  }

failed:
  give_back(p, call, args, n);
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    tt_storage_release(results[k]);
    results[k] = NULL;
  }
  tt_free(heap);
  return err->code ? err->code : TT_INTERNAL;
}

const tt_output *tt_plan_output(const tt_plan *p, int k) { return &p->outputs[k]; }
int tt_plan_output_count(const tt_plan *p) { return (int)p->n_outputs; }
