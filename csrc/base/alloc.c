/* alloc.c: the only place that calls malloc, so that a test can make any one allocation fail.
 *
 * With TT_FAULTS live blocks are counted and a countdown makes the n-th allocation return NULL, once. Without it these
 * are the C library's own functions. Refuses to abort: callers see NULL. Any thread. */
#include <stdatomic.h>
#include <stdlib.h>
#include "base/base.h"

#ifdef TT_FAULTS
static atomic_llong live;
static atomic_llong countdown = -1;
static atomic_bool hit;

static bool fails(void) {
  if (atomic_load_explicit(&countdown, memory_order_relaxed) < 0) return false;
  if (atomic_fetch_sub(&countdown, 1) != 0) return false;
  atomic_store(&hit, true);
  return true;
}
void tt_fault_allocation(int64_t n) {
  atomic_store(&hit, false);
  atomic_store(&countdown, n);
}
bool tt_fault_hit(void) { return atomic_load(&hit); }
int64_t tt_alloc_live(void) { return atomic_load(&live); }
#define COUNT(p, n) ((p) ? (void)atomic_fetch_add(&live, (n)) : (void)0)
#else
static bool fails(void) { return false; }
int64_t tt_alloc_live(void) { return 0; }
#define COUNT(p, n) ((void)0)
#endif

void *tt_alloc(size_t bytes) {
  if (fails()) return NULL;
  void *p = calloc(1, bytes ? bytes : 1);
  COUNT(p, 1);
  return p;
}

void *tt_realloc(void *p, size_t bytes) {
  if (fails()) return NULL;
  void *q = realloc(p, bytes ? bytes : 1);
  if (!p) COUNT(q, 1);
  return q;
}

void tt_free(void *p) {
  COUNT(p, -1);
  free(p);
}
