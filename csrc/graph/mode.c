/* mode.c: Strict or Debug, and what Debug mode looks at.
 *
 * In Debug mode a call is done when it returns, so that an error comes at the line that made it, and conditions on
 * values that rules state (tt_require) are part of its program: a pair of numbers each, whether the condition fails and
 * the element that fails it, in one small result that the run reads back. A plan with conditions gives no operand's
 * memory away, so that a call that fails leaves everything as it was. The mode is part of the key: in Strict mode none
 * of this is in any program. */
#include <string.h>
#include "graph/graph.h"

static atomic_int mode = TT_MODE_STRICT;
void tt_set_mode(tt_mode m) { atomic_store_explicit(&mode, (int)m, memory_order_relaxed); }
tt_mode tt_get_mode(void) { return (tt_mode)atomic_load_explicit(&mode, memory_order_relaxed); }

tt_code tt_mode_from_env(tt_error *err) {
  const char *name = tt_env("TORCH_TPU_MODE");
  if (!name || !strcmp(name, "strict")) return TT_OK;
  if (strcmp(name, "debug"))
    return tt_fail(err, TT_INVALID_ARGUMENT, "", "TORCH_TPU_MODE: expected strict or debug, got %s", name);
  tt_set_mode(TT_MODE_DEBUG);
  return TT_OK;
}

void tt_trace_require(tt_trace *t, hlo pair, tt_code code, const char *message) {
  tt_requirement *r = hlo_alloc(t->m, sizeof *r);
  if (!r || !pair) return;
  *r = (tt_requirement){.code = code, .message = message, .pair = pair};
  tt_requirement **at = &t->requirements;
  while (*at) at = &(*at)->next;
  *at = r;
  t->n_requirements++;
}

hlo tt_trace_requirements(tt_trace *t) {
  hlo *pairs = hlo_alloc(t->m, (t->n_requirements + 1) * sizeof *pairs);
  uint32_t n = 0;
  if (!pairs) return NULL;
  for (tt_requirement *r = t->requirements; r; r = r->next) pairs[n++] = r->pair;
  return hlo_concat(t->m, (int)n, pairs, 0);
}

static tt_code broken(const tt_requirement *r, int64_t about, tt_error *err) {
  const char *mark = strstr(r->message, "{}");
  if (!mark) return tt_fail(err, r->code, "", "%s", r->message);
  return tt_fail(err, r->code, "", "%.*s%lld%s", (int)(mark - r->message), r->message, (long long)about, mark + 2);
}

tt_code tt_requirements_look(const tt_plan *p, tt_buffer *b, tt_error *err) {
  int64_t few[32], *values = few;
  size_t bytes = p->n_requirements * 2 * sizeof *values;
  if (bytes > sizeof few && !(values = tt_alloc(bytes))) return tt_no_memory(err, bytes);
  tt_code code = tt_buffer_to_host(b, values, bytes, err);
  for (uint32_t i = 0; i < p->n_requirements && !code; i++)
    if (values[2 * i]) code = broken(&p->requirements[i], values[2 * i + 1], err);
  if (values != few) tt_free(values);
  return code;
}
