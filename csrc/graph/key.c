/* key.c: a call as words: all that its program depends on, and nothing that may change from call to call.
 *
 * Storages become numbers in order of first use, so that the pattern of aliasing is part of the key and addresses are
 * not. Offsets that the program takes at run time and scalars that are values stay out. Two calls with equal words have
 * the same program. Runs for every operator: no allocation unless the call is large. */
#include <string.h>
#include "graph/graph.h"
#include "ops/ctx.h"
#include "ops/rules.h"

/* Room for n more words. */
static bool room(tt_call *c, uint32_t n) {
  if (c->n_words + n <= c->cap_words) return true;
  uint32_t capacity = 2 * (c->n_words + n);
  bool inside = c->words == c->words_inline;
  uint64_t *words = tt_realloc(inside ? NULL : c->words, capacity * sizeof *words);
  if (!words) return false;
  if (inside) memcpy(words, c->words_inline, c->n_words * sizeof *words);
  c->words = words;
  c->cap_words = capacity;
  return true;
}

static void put(tt_call *c, uint64_t w) { c->words[c->n_words++] = w; }

/* Calls on lists of hundreds of parameters: an open-addressed table of slot numbers behind the slots. */
static uint32_t *index_of(tt_call *c) { return (uint32_t *)(c->slots + c->cap_slots); }
static uint32_t spread(const tt_storage *s) { return (uint32_t)(((uintptr_t)s >> 4) * 0x9E3779B97F4A7C15ull >> 32); }

static void index_put(tt_call *c, uint32_t slot) {
  uint32_t mask = 2 * c->cap_slots - 1, *index = index_of(c);
  uint32_t at = spread(c->slots[slot]) & mask;
  while (index[at]) at = (at + 1) & mask;
  index[at] = slot + 1;
}

static bool grow_slots(tt_call *c) {
  bool inside = c->slots == c->slots_inline;
  uint32_t capacity = inside ? 64 : 2 * c->cap_slots; /* a power of two */
  tt_storage **slots = tt_alloc(capacity * sizeof *slots + 2 * capacity * sizeof(uint32_t));
  if (!slots) return false;
  memcpy(slots, c->slots, c->n_slots * sizeof *slots);
  if (!inside) tt_free(c->slots);
  c->slots = slots;
  c->cap_slots = capacity;
  for (uint32_t i = 0; i < c->n_slots; i++) index_put(c, i);
  return true;
}

/* The slot of s, made if it is new; -1 without memory. */
static int64_t slot_of(tt_call *c, tt_storage *s, bool *first) {
  *first = false;
  if (c->slots == c->slots_inline) {
    for (uint32_t i = 0; i < c->n_slots; i++)
      if (c->slots[i] == s) return i;
  } else {
    uint32_t mask = 2 * c->cap_slots - 1, *index = index_of(c);
    for (uint32_t at = spread(s) & mask; index[at]; at = (at + 1) & mask)
      if (c->slots[index[at] - 1] == s) return index[at] - 1;
  }
  if (c->n_slots == c->cap_slots && !grow_slots(c)) return -1;
  *first = true;
  c->slots[c->n_slots] = s;
  if (c->slots != c->slots_inline) index_put(c, c->n_slots);
  return c->n_slots++;
}

/* A tensor of a padded storage in a bucketed call: the view that it is at capacity, and which of its dims vary. */
static bool put_bucketed(tt_call *c, const tt_tensor *t, int64_t slot, bool first) {
  const tt_storage *s = t->storage;
  tt_scaled v;
  int64_t base[TT_MAX_RANK];
  if (!tt_bucket_view(c, t, NULL, base, &v)) {
    c->unbucketed = true; /* the caller begins anew */
    return true;
  }
  tt_view view = {t->dtype, t->rank, v.sizes, v.strides, v.offset};
  tt_view_class class = tt_view_classify(&view, s->dtype, s->rank, base);
  put(c, TT_ARG_TENSOR | (uint64_t)t->dtype << 8 | (uint64_t)t->rank << 16 | (uint64_t)t->wrapped << 24 |
             (uint64_t)class << 25 | (uint64_t)first << 28 | 1ull << 31 | (uint64_t)slot << 32);
  for (int i = 0; i < t->rank; i++) put(c, (uint64_t)v.sizes[i]);
  for (int i = 0; i < t->rank; i++) put(c, (uint64_t)v.strides[i]);
  for (int i = 0; i < t->rank; i++) put(c, v.symbols[i]);
  put(c, s->dtype | (uint64_t)s->rank << 8 | (uint64_t)s->padded << 32);
  for (int i = 0; i < s->rank; i++) put(c, (uint64_t)base[i]);
  return true;
}

static bool put_tensor(tt_call *c, const tt_tensor *t) {
  tt_storage *s = t->storage;
  bool first;
  int64_t slot = slot_of(c, s, &first);
  if (slot < 0 || !room(c, 4 + 5u * t->rank + 2u * s->rank)) return false;
  c->shares |= !first;
  if (s->padded && !c->unbucketed && tt_bucket_allows(c)) return put_bucketed(c, t, slot, first);
  bool undefined = tt_storage_undefined(s);
  if (undefined) tt_storage_hint_from(t);
  tt_view_class class = TT_VIEW_WHOLE;
  if (!tt_tensor_is_whole(t)) {
    tt_view v = {t->dtype, t->rank, t->sizes, t->strides, t->offset};
    class = tt_view_classify(&v, s->dtype, s->rank, s->dims);
  }
  put(c, TT_ARG_TENSOR | (uint64_t)t->dtype << 8 | (uint64_t)t->rank << 16 | (uint64_t)t->wrapped << 24 |
             (uint64_t)class << 25 | (uint64_t)first << 28 | (uint64_t)undefined << 29 |
             (uint64_t)(s->padded != 0) << 30 | (uint64_t)slot << 32);
  if (s->padded) { /* what a buffer that is longer than its base is */
    int64_t physical[TT_MAX_RANK];
    tt_storage_physical(s, physical);
    put(c, s->padded);
    for (int i = 0; i < s->rank; i++) put(c, (uint64_t)physical[i]);
  }
  for (int i = 0; i < t->rank; i++) put(c, (uint64_t)t->sizes[i]);
  if (class == TT_VIEW_WHOLE) return true; /* the sizes are the base's dims */
  for (int i = 0; i < t->rank; i++) put(c, (uint64_t)t->strides[i]);
  if (first) {
    put(c, s->dtype | (uint64_t)s->rank << 8);
    for (int i = 0; i < s->rank; i++) put(c, (uint64_t)s->dims[i]);
  }
  return true;
}

static bool put_arg(tt_call *c, const tt_arg *a) {
  if (a->tag == TT_ARG_TENSOR) return put_tensor(c, a->tensor);
  if (!room(c, 3)) return false;
  uint64_t head = a->tag | (uint64_t)a->dtype << 8 | (uint64_t)a->wrapped << 24;
  const tt_op *op = c->variant->op;
  switch (a->tag) {
    case TT_ARG_SCALAR: case TT_ARG_HOST:
      if (c->variant->graph ? a->tag == TT_ARG_SCALAR
                            : !op->rule || op->flags & OP_STATIC_SCALARS || tt_scalar_is_one(a)) {
        put(c, head | 1u << 25);
        put(c, (uint64_t)a->number.i);
        if (tt_is_complex(a->dtype)) memcpy(&c->words[c->n_words++], a->number.bits + 8, 8);
      } else {
        put(c, head);
      }
      return true;
    case TT_ARG_INT: case TT_ARG_BOOL:
      put(c, head);
      put(c, (uint64_t)a->number.i);
      return true;
    case TT_ARG_STRING: {
      size_t n = strlen(a->string);
      if (!room(c, (uint32_t)(n / 8 + 3))) return false;
      put(c, head | (uint64_t)n << 32);
      for (size_t i = 0; i < n; i += 8) {
        uint64_t w = 0;
        memcpy(&w, a->string + i, n - i < 8 ? n - i : 8);
        put(c, w);
      }
      return true;
    }
    case TT_ARG_LIST:
      put(c, head | (uint64_t)a->count << 32);
      for (uint32_t i = 0; i < a->count; i++)
        if (!put_arg(c, &a->list[i])) return false;
      return true;
    default:
      put(c, head);
      return true;
  }
}

/* Offsets are not in the key, yet whether a written tensor partly overlaps another decides if torch takes the call. */
static bool overlaps_partly(const tt_tensor *a, const tt_tensor *b) {
  if (a->storage != b->storage || a->offset == b->offset) return false; /* the same place: strides tell the rest */
  return a->offset < b->offset + tt_view_extent(b->rank, b->sizes, b->strides) &&
         b->offset < a->offset + tt_view_extent(a->rank, a->sizes, a->strides);
}

static bool put_overlaps(tt_call *c) {
  uint64_t bits = 0;
  for (int i = 0; i < c->variant->n_args; i++) {
    if (!(c->variant->written >> i & 1) || c->args[i].tag != TT_ARG_TENSOR) continue;
    for (int k = 0; k < c->variant->n_args; k++) {
      const tt_arg *a = &c->args[k];
      if (a->tag == TT_ARG_TENSOR) bits = bits << 1 | overlaps_partly(c->args[i].tensor, a->tensor);
      if (a->tag != TT_ARG_LIST) continue;
      for (uint32_t e = 0; e < a->count; e++)
        if (a->list[e].tag == TT_ARG_TENSOR) bits |= overlaps_partly(c->args[i].tensor, a->list[e].tensor);
    }
  }
  if (!room(c, 1)) return false;
  put(c, bits);
  return true;
}

/* The capacity of a concatenation, which the sizes of its operands do not tell. */
static bool put_growth(tt_call *c) {
  if (!room(c, 1)) return false;
  c->grows = !c->n_symbols && tt_bucket_grows(c);
  uint8_t least = 0;
  for (int k = 0; k < c->n_symbols; k++) least = c->least[k] > least ? c->least[k] : least;
  if (c->n_symbols) put(c, (uint64_t)tt_bucket(tt_bucket_joined(c, NULL), least));
  else if (c->grows) put(c, UINT64_MAX);
  return true;
}

static bool writes_padded(const tt_call *c) {
  for (int i = 0; i < c->variant->n_args; i++)
    if (c->variant->written >> i & 1 && c->args[i].tag == TT_ARG_TENSOR && c->args[i].tensor->storage->padded)
      return true;
  return false;
}

static tt_code begin(tt_call *c, tt_error *err) {
  c->n_slots = c->n_words = 0;
  c->shares = false;
  c->n_symbols = 0;
  bool unbucketed = c->unbucketed;
  c->slots = c->slots_inline;
  c->cap_slots = TT_CALL_SLOTS;
  c->words = c->words_inline;
  c->cap_words = TT_CALL_WORDS;
  tt_epoch_enter(); /* plans that are found stay until tt_call_end */
  c->flags |= tt_mode_flags();
  put(c, c->variant->id | (uint64_t)(c->flags & ~(uint32_t)TT_CALL_WAIT) << 32 | (uint64_t)tt_default_dtype << 40 |
             (uint64_t)c->device << 48);
  bool range = tt_range_moves(c->variant->op, c->args);
  /* and where it starts is an operand */
  if (range) put(c, (uint64_t)c->args[1].number.i - (uint64_t)c->args[0].number.i);
  for (int i = range ? 2 : 0; i < c->variant->n_args; i++)
    if (!put_arg(c, &c->args[i])) {
      tt_call_end(c);
      return tt_no_memory(err, 0);
    }
  if (c->shares && c->variant->written && !put_overlaps(c)) {
    tt_call_end(c);
    return tt_no_memory(err, 0);
  }
  if (c->n_symbols && c->variant->written && writes_padded(c)) c->unbucketed = true;
  if (c->unbucketed != unbucketed) { /* a tensor cannot take part */
    tt_call_end(c);
    return begin(c, err);
  }
  c->grows = false;
  if (c->variant->op->rule == rule_cat && !put_growth(c)) {
    tt_call_end(c);
    return tt_no_memory(err, 0);
  }
  c->hash = tt_hash_words(c->words, c->n_words);
  if (c->n_symbols && tt_bucket_refused(c->hash)) return tt_call_unbucket(c, false, err);
  return TT_OK;
}

tt_code tt_call_begin(tt_call *c, tt_error *err) {
  c->unbucketed = false;
  return begin(c, err);
}

tt_code tt_call_unbucket(tt_call *c, bool refused, tt_error *err) {
  if (refused) tt_bucket_refuse(c->hash);
  tt_call_end(c);
  c->unbucketed = true;
  return begin(c, err);
}

void tt_call_end(tt_call *c) {
  if (!c->cap_words) return; /* ended */
  if (c->slots != c->slots_inline) tt_free(c->slots);
  if (c->words != c->words_inline) tt_free(c->words);
  c->slots = c->slots_inline;
  c->words = c->words_inline;
  c->cap_words = 0;
  tt_epoch_leave();
}

uint32_t tt_variant_new_id(void) {
  static atomic_uint last;
  return atomic_fetch_add(&last, 1) + 1;
}
