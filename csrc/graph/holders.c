/* holders.c: who holds a device's memory: for out-of-memory messages and snapshots.
 *
 * The table of addresses knows every storage. A record is filled under its storage's lock, so that it is of one moment;
 * another thread may release the storage right after. */
#include <string.h>
#include "graph/graph.h"

struct search { int device; tt_holder *out; size_t room, found; };

/* Keeps out sorted, the largest first; what does not fit falls off its end. */
static void insert(struct search *s, const tt_holder *h) {
  size_t filled = s->found < s->room ? s->found : s->room, at = filled;
  while (at && s->out[at - 1].bytes < h->bytes) at--;
  s->found++;
  if (at == s->room) return;
  size_t moved = filled - at - (filled == s->room);
  memmove(s->out + at + 1, s->out + at, moved * sizeof *s->out);
  s->out[at] = *h;
}

static void visit(void *user, tt_storage *s) {
  struct search *search = user;
  tt_holder h;
  if (s->device != search->device || !atomic_load_explicit(&s->refs, memory_order_relaxed)) return;
  if (!tt_storage_look(s, &h)) return;
  insert(search, &h);
}

size_t tt_holders(int device, tt_holder *out, size_t room) {
  struct search s = {device, out, room, 0};
  tt_address_each(visit, &s);
  return s.found;
}
