/* replay.c: a window's records one after another, each by its own executable, as Strict mode would have run them.
 *
 * For windows seen for the first time, those that never repeat, and those whose program is being compiled. A value is
 * let go by its last reader, so that memory is reused as it would have been; records that nobody needs are left out. */
#include "graph/window.h"
#include "pjrt/counters.h"

enum { INLINE = 64 };

static tt_code replay_one(tt_window *w, const tt_record *r, tt_buffer **args, tt_buffer **outs, tt_error *err) {
  const tt_plan *p = r->plan;
  uint32_t n = 0, wire = r->wires, number = r->numbers;
  tt_executable *e = tt_plan_executable(p, w->client, err);
  for (; e && n < p->n_operands; n++) {
    const tt_operand *o = &p->operands[n];
    if (!tt_operand_is_value(o)) {
      if (!(args[n] = tt_number_buffer(w->client, w->device, o, w->numbers.at[number++], err))) break;
      continue;
    }
    tt_value *v = &w->values.at[w->wires.at[wire++]];
    args[n] = v->buffer;
    if (--v->uses) tt_buffer_retain(v->buffer);
    else v->buffer = NULL;
  }
  tt_code code = !e || n < p->n_operands ? err->code
                                         : tt_executable_run(e, w->device, r->name, (int)n, args, p->donate,
                                                             (int)p->n_results, p->types, outs, err);
  while (n > 0) tt_buffer_release(args[--n]);
  if (code) return code;
  tt_tally(executions, 1);
  for (uint32_t i = 0; i < p->n_results; i++) {
    tt_value *v = &w->values.at[r->first_result + i];
    if (v->uses) v->buffer = outs[i];
    else tt_buffer_release(outs[i]);
  }
  return TT_OK;
}

tt_code tt_window_replay(tt_window *w, tt_error *err) {
  for (uint32_t i = 0; i < w->records.n; i++) {
    const tt_record *r = &w->records.at[i];
    if (!r->needed) continue;
    tt_buffer *args_inline[INLINE], *outs_inline[INLINE], **args = args_inline, **outs = outs_inline, **heap = NULL;
    if (r->plan->n_operands > INLINE || r->plan->n_results > INLINE) {
      heap = tt_alloc((r->plan->n_operands + r->plan->n_results) * sizeof *heap);
      if (!heap) return tt_no_memory(err, 0);
      args = heap;
      outs = heap + r->plan->n_operands;
    }
    tt_code code = replay_one(w, r, args, outs, err);
    tt_free(heap);
    if (code) return code;
  }
  return TT_OK;
}
