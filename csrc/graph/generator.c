/* generator.c: random state as (seed, offset): each draw reads both and moves the offset past what it used, so the same
 * seed gives the same numbers on every plugin and in every mode, and 16 bytes save it all. */
#include <pthread.h>
#include "base/base.h"

struct tt_generator {
  pthread_mutex_t lock;
  uint64_t seed, offset;
};

tt_generator *tt_generator_create(uint64_t seed, tt_error *err) {
  tt_generator *g = tt_alloc(sizeof *g);
  if (!g) {
    tt_no_memory(err, sizeof *g);
    return NULL;
  }
  pthread_mutex_init(&g->lock, NULL);
  g->seed = seed;
  return g;
}

void tt_generator_destroy(tt_generator *g) {
  if (!g) return;
  pthread_mutex_destroy(&g->lock);
  tt_free(g);
}

void tt_generator_get(tt_generator *g, uint64_t *seed, uint64_t *offset) {
  pthread_mutex_lock(&g->lock);
  *seed = g->seed;
  *offset = g->offset;
  pthread_mutex_unlock(&g->lock);
}

void tt_generator_set(tt_generator *g, uint64_t seed, uint64_t offset) {
  pthread_mutex_lock(&g->lock);
  g->seed = seed;
  g->offset = offset;
  pthread_mutex_unlock(&g->lock);
}

void tt_generator_draw(tt_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset) {
  pthread_mutex_lock(&g->lock);
  *seed = g->seed;
  *offset = g->offset;
  g->offset += n;
  pthread_mutex_unlock(&g->lock);
}

enum { DEVICES = 256 };
static struct tt_generator defaults[DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_defaults(void) {
  for (int i = 0; i < DEVICES; i++) {
    pthread_mutex_init(&defaults[i].lock, NULL);
    defaults[i].seed = 67280421310721ull; /* torch's own default seed: unseeded runs repeat, as on the CPU */
  }
}

tt_generator *tt_generator_default(int device) {
  pthread_once(&once, make_defaults);
  return &defaults[(unsigned)device % DEVICES];
}
