/* mode.c: Strict, Debug or Fuse, and what Debug mode looks at.
 *
 * The process has a mode, and a thread inside a context has its own, which the threads that work for it (autograd's)
 * inherit: the shim, which knows for whom a thread works, is asked.
 *
 * In Debug mode a call is done when it returns, so that an error comes at the line that made it, and conditions on
 * values that rules state (tt_require) are part of its program: a pair of numbers each, whether the condition fails and
 * the element that fails it, in one small result that the run reads back. A plan with conditions gives no operand's
 * memory away, so that a call that fails leaves everything as it was. Checking is part of the key: without it none of
 * this is in any program. TORCH_TPU_ENABLE_DEBUG_CHECKS checks in every mode, TORCH_TPU_LAUNCH_BLOCKING waits in every
 * mode: either alone is less than Debug. */
#include <string.h>
#include "graph/graph.h"

static atomic_uint process = TT_MODE_UNSET;  /* until it is set or first asked for: the environment may still change */
static atomic_int contexts;                  /* threads' own settings, nested ones counted */
static _Thread_local unsigned own = TT_MODE_UNSET;
static unsigned (*inherited)(void);

void tt_mode_set(unsigned settings) { atomic_store_explicit(&process, settings, memory_order_relaxed); }
void tt_mode_set_inherited(unsigned (*fn)(void)) { inherited = fn; }

unsigned tt_mode_enter(unsigned settings) {
  unsigned before = own;
  own = settings;
  atomic_fetch_add(&contexts, 1);
  return before;
}

void tt_mode_leave(unsigned before) {
  own = before;
  atomic_fetch_sub(&contexts, 1);
}

static bool says_yes(const char *variable) {
  const char *value = tt_env(variable);
  return value && strcmp(value, "0");
}

tt_code tt_mode_from_env(unsigned *settings, tt_error *err) {
  static const char *const names[TT_MODES] = {
      [TT_MODE_STRICT] = "strict", [TT_MODE_DEBUG] = "debug", [TT_MODE_FUSE] = "fuse"};
  const char *name = tt_env("TORCH_TPU_EAGER_MODE");
  *settings = says_yes("TORCH_TPU_DEFER_AND_FUSE") ? TT_MODE_FUSE : TT_MODE_STRICT;
  for (unsigned m = 0; name && m < TT_MODES; m++)
    if (!strcmp(name, names[m])) {
      *settings = m | (says_yes("TORCH_TPU_CHECK_NONFINITE") ? TT_MODE_NONFINITE : 0);
      return TT_OK;
    }
  return name ? tt_fail(err, TT_INVALID_ARGUMENT, "", "TORCH_TPU_EAGER_MODE: expected strict, debug or fuse, got %s",
                        name)
              : TT_OK;
}

unsigned tt_mode_settings(void) {
  unsigned settings = own;
  if (settings == TT_MODE_UNSET && atomic_load_explicit(&contexts, memory_order_relaxed) && inherited)
    settings = inherited();
  if (settings == TT_MODE_UNSET) settings = atomic_load_explicit(&process, memory_order_relaxed);
  if (settings != TT_MODE_UNSET) return settings;
  tt_mode_from_env(&settings, NULL); /* who made the client has raised what is wrong with it */
  unsigned unset = TT_MODE_UNSET;
  atomic_compare_exchange_strong(&process, &unset, settings);
  return settings;
}

uint32_t tt_mode_flags(void) {
  static atomic_uint switches = TT_MODE_UNSET; /* what the environment turns on in every mode */
  unsigned always = atomic_load_explicit(&switches, memory_order_relaxed);
  if (always == TT_MODE_UNSET) {
    always = (says_yes("TORCH_TPU_ENABLE_DEBUG_CHECKS") ? TT_CALL_DEBUG : 0) |
             (says_yes("TORCH_TPU_LAUNCH_BLOCKING") ? TT_CALL_WAIT : 0);
    atomic_store_explicit(&switches, always, memory_order_relaxed);
  }
  unsigned settings = tt_mode_settings();
  if ((settings & TT_MODE_MASK) != TT_MODE_DEBUG) return always;
  return always | TT_CALL_DEBUG | TT_CALL_WAIT | (settings & TT_MODE_NONFINITE ? TT_CALL_NONFINITE : 0);
}

tt_mode tt_get_mode(void) { return (tt_mode)(tt_mode_settings() & TT_MODE_MASK); }

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
