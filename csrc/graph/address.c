/* address.c: addresses for storages that have no memory here.
 *
 * Libraries compare data_ptr() to find tied weights and overlapping views, so a storage needs an address that is
 * stable, unique and never readable: a stray read faults instead of returning garbage. One large range is reserved
 * without access; each size class, a power of two, owns an equal part of it, so that an address leads to its owner by a
 * shift. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include "graph/graph.h"

enum { FIRST_CLASS = 6, LAST_CLASS = 40, CLASSES = LAST_CLASS - FIRST_CLASS + 1 };

static struct {
  pthread_mutex_t lock;
  uintptr_t start;
  unsigned region_shift; /* log2 of the bytes one class owns */
  struct region {
    tt_storage **owners;     /* of each block up to n_blocks; NULL: free */
    uint32_t *free;
    size_t n_blocks, n_free, capacity;
  } regions[CLASSES];
} space = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool reserve(void) {
  /* 2^41 bytes for each class; less where the process may not reserve so much. */
  for (unsigned shift = 41; shift >= 30; shift--) {
    void *p = mmap(NULL, (size_t)CLASSES << shift, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
      space.start = (uintptr_t)p;
      space.region_shift = shift;
      return true;
    }
  }
  return false;
}

static unsigned class_of(size_t bytes) {
  unsigned c = FIRST_CLASS;
  while (c < LAST_CLASS && ((size_t)1 << c) < bytes) c++;
  return c - FIRST_CLASS;
}

static bool grow(struct region *r) {
  size_t capacity = r->capacity ? 2 * r->capacity : 64;
  tt_storage **owners = tt_realloc(r->owners, capacity * sizeof *owners);
  if (!owners) return false;
  r->owners = owners;
  uint32_t *list = tt_realloc(r->free, capacity * sizeof *list);
  if (!list) return false;
  r->free = list;
  r->capacity = capacity;
  return true;
}

static bool is_full(unsigned c) {
  const struct region *r = &space.regions[c];
  return !r->n_free && (r->n_blocks + 1) << (c + FIRST_CLASS) > (size_t)1 << space.region_shift;
}

void *tt_address_take(size_t bytes, tt_storage *owner, tt_error *err) {
  if (!bytes) return NULL;
  unsigned c = class_of(bytes);
  void *address = NULL;
  pthread_mutex_lock(&space.lock);
  bool reserved = space.start || reserve();
  while (reserved && c < CLASSES - 1 && is_full(c)) c++; /* a block that is too large will do */
  unsigned shift = c + FIRST_CLASS;
  struct region *r = &space.regions[c];
  if (!reserved) {
    tt_fail(err, TT_RESOURCE_EXHAUSTED, "", "cannot reserve address space for device tensors");
  } else if (((size_t)1 << shift) < bytes || is_full(c)) {
    tt_fail(err, TT_RESOURCE_EXHAUSTED, "", "out of device addresses for a storage of %zu bytes", bytes);
  } else if (!r->n_free && r->n_blocks == r->capacity && !grow(r)) {
    tt_no_memory(err, 2 * r->capacity * sizeof(void *));
  } else {
    size_t block = r->n_free ? r->free[--r->n_free] : r->n_blocks++;
    r->owners[block] = owner;
    address = (void *)(space.start + ((uintptr_t)c << space.region_shift) + (block << shift));
  }
  pthread_mutex_unlock(&space.lock);
  return address;
}

/* The region and block of an address, or false if it is none of ours. Under the lock. */
static bool locate(const void *address, struct region **r, size_t *block) {
  uintptr_t a = (uintptr_t)address;
  if (!space.start || a < space.start || a - space.start >= (uintptr_t)CLASSES << space.region_shift) return false;
  unsigned c = (unsigned)((a - space.start) >> space.region_shift);
  *r = &space.regions[c];
  *block = (a - space.start - ((uintptr_t)c << space.region_shift)) >> (c + FIRST_CLASS);
  return *block < (*r)->n_blocks;
}

void tt_address_give(void *address) {
  struct region *r;
  size_t block;
  if (!address) return;
  pthread_mutex_lock(&space.lock);
  if (locate(address, &r, &block)) {
    r->owners[block] = NULL;
    r->free[r->n_free++] = (uint32_t)block;
  }
  pthread_mutex_unlock(&space.lock);
}

void tt_address_each(void (*each)(void *user, tt_storage *s), void *user) {
  pthread_mutex_lock(&space.lock);
  for (int c = CLASSES - 1; c >= 0; c--) /* large ones first */
    for (size_t i = 0; i < space.regions[c].n_blocks; i++)
      if (space.regions[c].owners[i]) each(user, space.regions[c].owners[i]);
  pthread_mutex_unlock(&space.lock);
}

tt_storage *tt_storage_from_address(const void *address) {
  struct region *r;
  size_t block;
  pthread_mutex_lock(&space.lock);
  tt_storage *owner = locate(address, &r, &block) ? r->owners[block] : NULL;
  pthread_mutex_unlock(&space.lock);
  return owner;
}
