/* epoch.c: when something that threads find without a lock, and that was taken out of what they search, may be freed.
 *
 * A thread that is inside has the epoch at which it came in; epochs begin when something is taken out. Who came in
 * later cannot have found it, so it may go once nobody is left who came in before. Coming in costs one exchange of the
 * thread's own cache line, and nobody ever waits. */
#include <pthread.h>
#include "graph/graph.h"

typedef struct tt_reader {
  _Atomic uint64_t inside;    /* the epoch; 0: outside */
  uint32_t depth;             /* calls within calls */
  bool known;
  struct tt_reader *next, **at;
} tt_reader;

static _Thread_local tt_reader me;
static tt_reader *readers; /* each in its thread's own storage, until the thread ends */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t epoch = 1;
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(void *reader) {
  tt_reader *r = reader;
  pthread_mutex_lock(&lock);
  *r->at = r->next;
  if (r->next) r->next->at = r->at;
  pthread_mutex_unlock(&lock);
}

static void make_key(void) { pthread_key_create(&at_end, forget); }

static void introduce(void) {
  pthread_once(&once, make_key);
  pthread_mutex_lock(&lock);
  me.next = readers;
  me.at = &readers;
  if (readers) readers->at = &me.next;
  readers = &me;
  pthread_mutex_unlock(&lock);
  pthread_setspecific(at_end, &me);
  me.known = true;
}

void tt_epoch_enter(void) {
  if (me.depth++) return;
  if (__builtin_expect(!me.known, 0)) introduce();
  atomic_exchange(&me.inside, atomic_load(&epoch));
}

void tt_epoch_leave(void) {
  if (!--me.depth) atomic_store_explicit(&me.inside, 0, memory_order_release);
}

uint64_t tt_epoch_next(void) { return atomic_fetch_add(&epoch, 1) + 1; }

bool tt_epoch_passed(uint64_t e) {
  bool passed = true;
  pthread_mutex_lock(&lock);
  for (tt_reader *r = readers; r && passed; r = r->next) {
    uint64_t inside = atomic_load(&r->inside);
    passed = !inside || inside >= e;
  }
  pthread_mutex_unlock(&lock);
  return passed;
}
