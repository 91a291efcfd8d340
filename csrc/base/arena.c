/* arena.c: many small blocks with one lifetime.
 *
 * Blocks are taken from chunks that double in size up to a limit; a request larger than a chunk gets its own. Nothing
 * is given back one by one: the whole arena goes at once. Refuses to be used by two threads at a time. */
#include "base/base.h"

enum { FIRST = 4096, LARGEST = 1 << 20, ALIGN = 16 };
struct tt_arena_block {
  struct tt_arena_block *next;
  size_t used, size;
  _Alignas(ALIGN) char bytes[];
};

void *tt_arena_alloc(tt_arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  struct tt_arena_block *b = a->blocks;
  if (!b || b->size - b->used < bytes) {
    size_t size = !b ? FIRST : b->size < LARGEST ? b->size * 2 : LARGEST;
    if (size < bytes) size = bytes;
    struct tt_arena_block *fresh = tt_alloc(sizeof *fresh + size);
    if (!fresh) return NULL;
    fresh->size = size;
    fresh->next = b;
    a->blocks = b = fresh;
  }
  void *p = b->bytes + b->used;
  b->used += bytes;
  return p;
}

void tt_arena_deinit(tt_arena *a) {
  struct tt_arena_block *b = a->blocks;
  a->blocks = NULL;
  while (b) {
    struct tt_arena_block *next = b->next;
    tt_free(b);
    b = next;
  }
}
