/* call.c: entering and leaving PJRT: presence, forks, injected faults, errors.
 *
 * One gate word stands between us and the plugin: while it is 0, which is always but after a fork or in a test that
 * injects faults, a call costs one load more than the plugin's own. Refuses to keep a PJRT_Error: each is destroyed
 * here. */
#include <pthread.h>
#include "pjrt/call.h"

enum { FORKED = 1, FAULTS = 2 };
atomic_int tt_pjrt_gate;

/* A child may start anew if its parent had not begun: plugins start threads, which do not survive a fork. */
static atomic_bool begun;
void tt_pjrt_begin(void) { atomic_store(&begun, true); }

static void in_child(void) {
  if (atomic_load(&begun)) atomic_fetch_or(&tt_pjrt_gate, FORKED);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

bool tt_forked(void) { return atomic_load_explicit(&tt_pjrt_gate, memory_order_relaxed) & FORKED; }

#ifdef TT_FAULTS
static _Atomic int64_t countdown = -1;
static atomic_bool hit;
void tt_fault_pjrt(int64_t n) {
  atomic_store(&hit, false);
  atomic_store(&countdown, n);
  if (n >= 0) atomic_fetch_or(&tt_pjrt_gate, FAULTS);
  else atomic_fetch_and(&tt_pjrt_gate, ~FAULTS);
}
bool tt_fault_pjrt_hit(void) { return atomic_load(&hit); }
#endif

tt_code tt_fork_check(tt_error *err) {
  if (!tt_forked()) return TT_OK;
  return tt_fail(err, TT_FAILED_PRECONDITION, "",
                 "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you must use the "
                 "'spawn' start method");
}

bool tt_pjrt_look(const PJRT_Api *api, bool present, const char *name, tt_error *err) {
  if (tt_fork_check(err)) return false;
  if (!present) {
    tt_fail(err, TT_UNIMPLEMENTED, name, "the plugin (PJRT API %d.%d) has no %s", api->pjrt_api_version.major_version,
            api->pjrt_api_version.minor_version, name);
    return false;
  }
#ifdef TT_FAULTS
  if (atomic_load(&countdown) >= 0 && atomic_fetch_sub(&countdown, 1) == 0) {
    atomic_store(&hit, true);
    tt_fail(err, TT_INTERNAL, name, "injected fault");
    return false;
  }
#endif
  return true;
}

void tt_pjrt_ignore(const PJRT_Api *api, PJRT_Error *e) {
  if (!e) return;
  PJRT_ARGS(PJRT_Error_Destroy_Args, destroy, .error = e);
  api->PJRT_Error_Destroy(&destroy);
}

tt_code tt_pjrt_convert(const PJRT_Api *api, PJRT_Error *e, const char *name, tt_error *err) {
  PJRT_ARGS(PJRT_Error_GetCode_Args, code, .error = e);
  PJRT_ARGS(PJRT_Error_Message_Args, message, .error = e);
  PJRT_Error *nested = api->PJRT_Error_GetCode(&code);
  api->PJRT_Error_Message(&message);
  bool known = !nested && code.code > 0 && (int)code.code <= (int)TT_UNAUTHENTICATED;
  tt_fail(err, known ? (tt_code)code.code : TT_UNKNOWN, name, "%.*s", (int)message.message_size, message.message);
  tt_pjrt_ignore(api, e);
  tt_pjrt_ignore(api, nested);
  return err->code;
}
