/* join.c: compiled graphs that follow one another become one program, in Strict mode too.
 *
 * A training step under torch.compile is several graphs (forward, backward, the optimizer's) and often eager operators
 * between them (clipping gradients). They are recorded in the window that DeferAndFuse has: a graph opens it whose
 * results another graph has taken before, and what touches values that it has read or is to fill follows. What is
 * independent of it runs at once, as ever. The window ends where somebody reads, and before a graph that it holds
 * already: a new step. Where a window ends twice in the same place it ends there from then on, without waiting for the
 * reader; a graph that is a window by itself is not recorded at all. Now and then an end is forgotten and found anew,
 * since loops change. Nothing is recorded where calls wait or are checked (Debug mode), nor of graphs with compiler
 * options of their own. */
#include <string.h>
#include "graph/window.h"

enum { ENDS = 1024, TRUSTED = 256 /* windows, before the end is looked for again */ };

typedef struct tt_end {
  uint32_t first;         /* the id of the operator that the window began with */
  uint32_t records;       /* how long it is; 0: not known */
  uint32_t last, windows; /* how long the last one was, and how many there were */
  bool opens;             /* another graph has taken what it made */
} tt_end;

static tt_end ends[ENDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint open; /* windows that are being joined */

static uint32_t operator_of(const tt_plan *p) { return (uint32_t)p->words[0]; }

static tt_end *end_of(uint32_t first) { /* under the lock */
  tt_end *e = &ends[first % ENDS];
  if (e->first != first) *e = (tt_end){.first = first};
  return e;
}

/* ---- what graphs that ran by themselves have made: storages carry the graph's id where a window's serial would stand
 * ---- */
static const uint64_t mark = (uint64_t)1 << 63;

void tt_join_made(const tt_plan *p, tt_storage **results) {
  for (uint32_t k = 0; k < p->n_outputs; k++)
    if (results[k]) results[k]->filling = mark | operator_of(p); /* nobody has seen it yet */
}

static void note_makers(const tt_call *call) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < call->n_slots; i++) {
    uint64_t by = call->slots[i]->filling;
    if (!(by & mark) || (uint32_t)by == last) continue;
    last = (uint32_t)by;
    pthread_mutex_lock(&lock);
    end_of(last)->opens = true;
    pthread_mutex_unlock(&lock);
  }
}

/* How long the window that begins with p will be; 0: unknown. 1: it is not to be recorded. */
static uint32_t length_of(const tt_plan *p) {
  pthread_mutex_lock(&lock);
  tt_end *e = end_of(operator_of(p));
  uint32_t n = e->opens ? e->records : 1;
  if (n == 1 && ++e->windows % TRUSTED == 0) e->records = e->last = 0;
  pthread_mutex_unlock(&lock);
  return n;
}

void tt_join_ended(tt_window *w) {
  if (!w->joining) return;
  w->joining = false;
  atomic_fetch_sub_explicit(&open, 1, memory_order_relaxed);
  if (!w->records.n) return;
  pthread_mutex_lock(&lock);
  tt_end *e = end_of(operator_of(w->records.at[0].plan));
  if (e->last == w->records.n) e->records = e->last;
  e->last = w->records.n;
  if (++e->windows % TRUSTED == 0) e->records = e->last = 0;
  pthread_mutex_unlock(&lock);
}

static bool begin(tt_window *w, const tt_plan *p) {
  uint32_t length = length_of(p);
  if (length == 1) return false;
  w->joining = true;
  w->end = length;
  atomic_fetch_add_explicit(&open, 1, memory_order_relaxed);
  return true;
}

static bool allowed(void) {
  static atomic_int known;
  int is = atomic_load_explicit(&known, memory_order_relaxed);
  if (!is) atomic_store_explicit(&known, is = tt_env_int("TORCH_TPU_JOIN", 1) ? 1 : -1, memory_order_relaxed);
  return is > 0;
}

/* Whether the call has to do with what the window is to fill, or has read. */
static bool touches(const tt_window *w, const tt_call *call) {
  for (uint32_t i = 0; i < call->n_slots; i++) {
    tt_storage *s = call->slots[i];
    if (atomic_load_explicit(&s->window, memory_order_relaxed) == w || s->filling == w->serial) return true;
  }
  return false;
}

bool tt_join_holds(const tt_window *w, const tt_plan *p) {
  for (uint32_t r = 0; r < w->records.n; r++)
    if (operator_of(w->records.at[r].plan) == operator_of(p)) return true;
  return false;
}

bool tt_join_takes(const tt_plan *p, const tt_call *call) {
  bool graph = call->variant->graph;
  if (!graph && !atomic_load_explicit(&open, memory_order_relaxed)) return false;
  if (!p->n_results || call->flags & (TT_CALL_DEBUG | TT_CALL_WAIT) || !allowed()) return false;
  tt_window *w = tt_window_of(call->device);
  pthread_mutex_lock(&w->lock);
  bool takes, empty = !w->records.n && !w->pending.n;
  if (graph) note_makers(call);
  if (empty && w->joining) tt_join_ended(w); /* its first record failed */
  if (!empty && !w->joining) takes = false;  /* a window of another thread's mode */
  else if (empty) takes = graph && begin(w, p);
  else if (!touches(w, call)) takes = false;
  else if (graph && tt_join_holds(w, p)) {
    tt_error err; /* what fails is told by who reads what it was to fill */
    tt_window_flush(w, TT_FLUSH_FULL, &err);
    takes = begin(w, p);
  } else {
    takes = true;
  }
  pthread_mutex_unlock(&w->lock);
  return takes;
}
