/* window.c: DeferAndFuse: calls are written down, and run together when somebody looks.
 *
 * One window a device, under its lock, for all threads. A call that is recorded gets its results at once, storages that
 * are pending; numbers and random states are taken now, so that a later draw or a changed offset is in order. What a
 * record reads is known by value: an input's buffer is held from the moment it is read, so nothing that happens to its
 * storage later changes what was meant.
 *
 * Forward is recorded by one thread, backward by autograd's and the optimizer's step by the first again. Where results
 * are so small that recording takes as long as running, what one thread has recorded runs while the next goes on: a step
 * of a small GPT, 1.7 ms of recording and 1.6 of running, takes 2.6 as three programs and 3.3 as one. Where they are
 * large, one program takes less memory, as it lets go of activations one by one. */
#include <sched.h>
#include <string.h>
#include "graph/window.h"
#include "pjrt/counters.h"

enum { DEVICES = 64, LIMIT = 1024 /* records */ };
static const int64_t most_bytes = (int64_t)4 << 30; /* of results in one window */

static struct tt_window windows[DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool full;
static _Atomic uint64_t last_serial;
static tt_fuse_counters counts; /* each under its window's lock; sums may be torn between windows, never wrong in one */

static void make_windows(void) {
  for (int i = 0; i < DEVICES; i++) pthread_mutex_init(&windows[i].lock, NULL);
}

tt_window *tt_window_of(int device) {
  pthread_once(&once, make_windows);
  return &windows[(unsigned)device % DEVICES];
}

/* ---- lists ---- */
static bool grow(void *list, size_t size, uint32_t n) { /* room for n more */
  TT_LIST(void) *l = list;
  if (l->n + n <= l->cap) return true;
  uint32_t cap = 2 * (l->n + n) + 64;
  void *at = tt_realloc(l->at, cap * size);
  if (!at) return false;
  l->at = at;
  l->cap = cap;
  return true;
}
#define ROOM(list, n) grow(&(list), sizeof *(list).at, (n))

static void mix(uint64_t *h, uint64_t v) {
  *h = (*h ^ v) * 0x9E3779B97F4A7C15ull;
  *h ^= *h >> 29;
}

/* Why a storage that is lost has nothing: the flush that was to fill it failed, or it never was here. */
static void tell_loss(const tt_window *w, tt_error *err) {
  if (w->failure.code) *err = w->failure;
  else tt_fail(err, TT_FAILED_PRECONDITION, "", "the contents of a tensor are not on this machine");
}

/* ---- values ---- */
enum { LENT = NO_VALUE - 1 };

/* What s stands for at this point of the window; LENT if that is to be waited for, NO_VALUE, with err set, if it has
 * nothing. */
static uint32_t value_of(tt_window *w, tt_storage *s, tt_error *err) {
  tt_window *in = atomic_load_explicit(&s->window, memory_order_relaxed);
  if (in == w) return w->pending.at[s->place].value;
  bool lent;
  tt_buffer *b = tt_storage_try_take(s, false, &lent);
  if (!b && lent) return LENT;
  if (!b) {
    if (s->lost) tell_loss(w, err);
    else tt_fail(err, TT_FAILED_PRECONDITION, "", "another thread emptied an operand at the same time");
    return NO_VALUE;
  }
  if (s->filling == w->serial && s->place < w->values.n && w->values.at[s->place].buffer == b) {
    tt_buffer_release(b);
    return s->place;
  }
  s->filling = w->serial;
  s->place = w->values.n;
  w->values.at[w->values.n++] = (tt_value){.buffer = b};
  return s->place;
}

/* From now on s stands for value, whose buffer will have padded dims. */
static void defer(tt_window *w, tt_storage *s, uint32_t value, uint32_t padded) {
  if (atomic_load_explicit(&s->window, memory_order_relaxed) == w) {
    w->pending.at[s->place].value = value;
    if (s->padded != padded) s->padded = padded;
    return;
  }
  uint32_t origin =
      s->filling == w->serial && s->buffer && w->values.at[s->place].buffer == s->buffer ? s->place : NO_VALUE;
  w->pending.at[w->pending.n] =
      (tt_pending){.storage = tt_storage_retain(s), .value = value, .origin = origin, .padded = s->padded};
  if (s->padded != padded) s->padded = padded; /* calls look at it without the lock */
  s->place = w->pending.n++;
  s->filling = 0;
  s->hinted = true;
  s->lost = false;
  atomic_store_explicit(&s->window, w, memory_order_release);
}

static _Thread_local char here; /* its address is the thread's name */

static bool filled(const tt_window *w) {
  uint32_t limit = w->joining ? w->end : w->cut;
  return w->records.n >= (limit ? limit : LIMIT) || w->bytes > most_bytes;
}

static void begin(tt_window *w, const tt_call *call) {
  w->client = call->client;
  w->device = call->device;
  w->serial = atomic_fetch_add(&last_serial, 1) + 1;
  w->hash = w->skeleton = 0;
  w->bytes = 0;
}

/* Takes back values that a record which failed had added; nothing else has changed yet. */
static void drop_values(tt_window *w, uint32_t from) {
  while (w->values.n > from) tt_buffer_release(w->values.at[--w->values.n].buffer);
}

tt_code tt_window_record(const tt_plan *p, const tt_call *call, tt_storage **results, tt_error *err) {
  tt_window *w = tt_window_of(call->device);
  if (tt_fork_check(err)) return err->code;
  if (tt_plan_make_results(p, call, results, err)) goto failed;
again:
  pthread_mutex_lock(&w->lock);
  /* a graph is as long as many operators, so several of one are a loop */
  if (call->variant->graph && tt_join_holds(w, p)) {
    tt_error ignored;                                /* what fails is told by who reads what it was to fill */
    tt_window_flush(w, TT_FLUSH_FULL, &ignored);
  }
  if (!w->records.n && !w->pending.n) begin(w, call);
  uint32_t n = p->n_operands + p->n_results, values = w->values.n, wires = w->wires.n, numbers = w->numbers.n;
  if (!ROOM(w->records, 1) || !ROOM(w->wires, n) || !ROOM(w->values, n) || !ROOM(w->pending, p->n_results) ||
      !ROOM(w->numbers, p->n_operands)) {
    tt_no_memory(err, 0);
    goto unlock;
  }
  for (uint32_t i = 0; i < p->n_operands; i++) {
    const tt_operand *o = &p->operands[i];
    if (!tt_operand_is_value(o)) continue;
    uint32_t v = value_of(w, tt_operand_storage(call, o), err);
    if (v >= LENT) {
      w->wires.n = wires;
      drop_values(w, values);
      if (v == NO_VALUE) goto unlock;
      pthread_mutex_unlock(&w->lock); /* who has it may need the window to end: wait with nothing in hand */
      tt_buffer_release(tt_storage_take_reference(tt_operand_storage(call, o)));
      goto again;
    }
    w->wires.at[w->wires.n++] = v;
  }
  uint64_t seed = 0, offset = 0;
  if (p->uses_random) tt_generator_draw(tt_plan_generator(p, call), p->random_total, &seed, &offset);
  for (uint32_t i = 0; i < p->n_operands; i++)
    if (!tt_operand_is_value(&p->operands[i]))
      w->numbers.at[w->numbers.n++] = tt_operand_number(call, &p->operands[i], seed, offset);
  w->records.at[w->records.n++] = (tt_record){.plan = p,
                                              .name = call->place ? call->place : p->name,
                                              .wires = wires,
                                              .numbers = numbers,
                                              .first_result = w->values.n};
  mix(&w->hash, (uintptr_t)p);
  mix(&w->skeleton, call->variant->id);
  for (uint32_t i = wires; i < w->wires.n; i++) mix(&w->hash, w->wires.at[i]);
  for (uint32_t i = 0; i < p->n_results; i++) {
    const tt_destination *d = &p->destinations[i];
    if (d->is_slot) defer(w, call->slots[d->index], w->values.n, 0);
    else defer(w, results[d->index], w->values.n, p->shapes ? p->shapes[d->index].padded : 0);
    w->values.at[w->values.n++] = (tt_value){.type = &p->types[i]};
    w->bytes += p->types[i].bytes;
  }
  atomic_store_explicit(&w->thread, w->joining ? NULL : &here, memory_order_relaxed);
  if (filled(w)) atomic_store(&full, true);
  pthread_mutex_unlock(&w->lock);
  return TT_OK;

unlock:
  pthread_mutex_unlock(&w->lock);
failed:
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    tt_storage_release(results[k]);
    results[k] = NULL;
  }
  return err->code;
}

bool tt_window_share(tt_storage *to, tt_storage *from) {
  tt_window *w = atomic_load_explicit(&from->window, memory_order_acquire);
  if (!w) return false;
  pthread_mutex_lock(&w->lock);
  bool still = atomic_load_explicit(&from->window, memory_order_relaxed) == w, shared = still && ROOM(w->pending, 1);
  if (shared) {
    tt_storage_base(to, from->dtype, from->rank, from->dims);
    defer(w, to, w->pending.at[from->place].value, 0);
    mix(&w->hash, w->pending.at[from->place].value);
  }
  pthread_mutex_unlock(&w->lock);
  return shared;
}

void tt_window_forget(tt_storage *s) {
  tt_window *w = atomic_load_explicit(&s->window, memory_order_acquire);
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  bool still = atomic_load_explicit(&s->window, memory_order_relaxed) == w;
  if (still) {
    w->pending.at[s->place].storage = NULL;
    atomic_store_explicit(&s->window, NULL, memory_order_release);
  }
  pthread_mutex_unlock(&w->lock);
  if (still) tt_storage_release(s);
}

/* ---- flushing ---- */
/* Who is still wanted, and so which records are needed. */
static void mark(tt_window *w) {
  for (uint32_t i = 0; i < w->pending.n; i++) {
    tt_pending *p = &w->pending.at[i];
    p->alive = p->storage && atomic_load_explicit(&p->storage->refs, memory_order_acquire) > 1;
    if (p->alive) w->values.at[p->value].uses++;
  }
  for (uint32_t r = w->records.n; r-- > 0;) {
    tt_record *record = &w->records.at[r];
    const tt_plan *p = record->plan;
    for (uint32_t i = 0; i < p->n_results; i++) record->needed |= w->values.at[record->first_result + i].uses != 0;
    if (!record->needed) continue;
    uint32_t wire = record->wires;
    for (uint32_t i = 0; i < p->n_operands; i++)
      if (tt_operand_is_value(&p->operands[i])) w->values.at[w->wires.at[wire++]].uses++;
  }
}

/* A pending storage lets go of the buffer that its value replaces, so that a program may reuse the memory; the window
 * has it still, as the value it came from. */
static void let_go(tt_window *w) {
  for (uint32_t i = 0; i < w->pending.n; i++) {
    tt_pending *p = &w->pending.at[i];
    if (p->alive) tt_storage_let_go(p->storage);
  }
}

/* Every pending storage gets its buffer; on failure what it had before the window, or nothing. */
static void settle(tt_window *w, bool failed) {
  for (uint32_t i = 0; i < w->pending.n; i++) {
    tt_pending *p = &w->pending.at[i];
    tt_storage *s = p->storage;
    if (!s) continue;
    tt_buffer *b = w->values.at[p->value].buffer;
    uint32_t padded = b ? s->padded : p->padded;
    if (p->alive && !b && p->origin != NO_VALUE) b = w->values.at[p->origin].buffer;
    if (p->alive && b) tt_storage_put_padded(s, tt_buffer_retain(b), padded);
    else if (p->alive && failed) s->lost = true;
    atomic_store_explicit(&s->window, NULL, memory_order_release);
    tt_storage_release(s);
  }
}

/* Where the next window ends. A loop that is read from now and then is cut as one that never is, if the window holds it
 * twice or windows of it were full. True if this one is full and was not cut that way yet. */
static bool choose_cut(tt_window *w, tt_flush_reason reason) {
  uint32_t before = w->cut, period = w->period;
  bool is_full = reason == TT_FLUSH_FULL;
  tt_period_note(w);
  uint32_t cut = is_full || w->fulls || w->records.n > LARGE ? tt_period_cut(w, LIMIT) : 0;
  if (is_full || (w->fulls && cut && w->period == period)) w->cut = cut;
  else if (w->fulls) w->period = period; /* that of the loop, not of all that led to the read */
  else w->cut = 2 * w->period <= w->records.n ? cut : 0;
  w->fulls = is_full ? w->fulls + 1 : 0;
  return is_full && w->cut != before;
}

tt_code tt_window_flush(tt_window *w, tt_flush_reason reason, tt_error *err) {
  err->code = TT_OK;
  if (!w->pending.n && !w->records.n) return TT_OK;
  counts.windows[reason]++;
  counts.records[reason] += w->records.n;
  bool passing = !w->joining && choose_cut(w, reason);
  mark(w);
  tt_program *p = tt_program_for(w, passing);
  let_go(w);
  tt_code code = p ? tt_program_run(p, w, err) : tt_window_replay(w, err);
  *(p ? &counts.fused : &counts.replayed) += 1;
  if (code) w->failure = *err;
  settle(w, code != TT_OK);
  drop_values(w, 0);
  tt_join_ended(w);
  atomic_store_explicit(&w->thread, NULL, memory_order_relaxed);
  w->records.n = w->wires.n = w->pending.n = w->numbers.n = 0;
  return code;
}

static tt_code flush_one(tt_window *w, tt_flush_reason reason, tt_error *err) {
  pthread_mutex_lock(&w->lock);
  tt_code code = tt_window_flush(w, reason, err);
  pthread_mutex_unlock(&w->lock);
  return code;
}

void tt_storage_settle(tt_storage *s) {
  tt_window *w = atomic_load_explicit(&s->window, memory_order_acquire);
  tt_error err;
  if (w) flush_one(w, TT_FLUSH_READ, &err); /* a failure is told by who reads the storage */
}

tt_code tt_flush(int device, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (device >= 0) return flush_one(tt_window_of(device), TT_FLUSH_ASKED, err);
  tt_error first = {0};
  for (int i = 0; i < DEVICES; i++)
    if (flush_one(tt_window_of(i), TT_FLUSH_ASKED, err) && !first.code) first = *err;
  *err = first;
  return first.code;
}

/* Whether another thread's records are better run now. A record takes 3 us to make, in which time a CPU moves 64 KiB of
 * memory, about, and a TPU 2 MiB. */
static bool worth_handing(const tt_window *w) {
  int64_t moved = tt_client_lowers_for_tpu(w->client) ? 2 << 20 : 64 << 10;
  return w->records.n > 16 && w->bytes < w->records.n * moved;
}

bool tt_window_handed(int device) {
  const char *thread = atomic_load_explicit(&windows[(unsigned)device % DEVICES].thread, memory_order_relaxed);
  return thread && thread != &here && tt_get_mode() == TT_MODE_FUSE;
}

void tt_flush_handed(int device) {
  tt_window *w = tt_window_of(device);
  tt_error ignored; /* a failure is told by who reads what the window was to fill */
  pthread_mutex_lock(&w->lock);
  if (tt_window_handed(device) && worth_handing(w)) tt_window_flush(w, TT_FLUSH_HANDED, &ignored);
  pthread_mutex_unlock(&w->lock);
}

bool tt_window_full(void) { return atomic_load_explicit(&full, memory_order_relaxed); }

tt_code tt_flush_full(tt_error *err) {
  err->code = TT_OK;
  if (!atomic_exchange(&full, false)) return TT_OK;
  for (int i = 0; i < DEVICES && !err->code; i++) {
    tt_window *w = tt_window_of(i);
    pthread_mutex_lock(&w->lock);
    if (filled(w)) tt_window_flush(w, TT_FLUSH_FULL, err);
    pthread_mutex_unlock(&w->lock);
  }
  return err->code;
}

tt_code tt_window_failure(int device, tt_error *err) {
  tt_error local;
  tt_window *w = tt_window_of(device);
  if (!err) err = &local;
  pthread_mutex_lock(&w->lock);
  tell_loss(w, err);
  pthread_mutex_unlock(&w->lock);
  return err->code;
}

bool tt_windows_let_go(void) {
  for (int i = 0; i < DEVICES; i++) {
    tt_window *w = tt_window_of(i);
    if (pthread_mutex_trylock(&w->lock)) return false; /* it may be compiling */
    for (uint32_t r = 0; r < w->records.n; r++) ((tt_plan *)w->records.at[r].plan)->held = true;
    pthread_mutex_unlock(&w->lock);
  }
  tt_programs_let_go();
  return true;
}

void tt_windows_clear(void) {
  tt_programs_clear();
  for (int i = 0; i < DEVICES; i++) {
    tt_window *w = tt_window_of(i);
    pthread_mutex_lock(&w->lock);
    void *lists[] = {w->records.at, w->wires.at, w->values.at, w->pending.at, w->numbers.at, w->history};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) tt_free(lists[k]);
    memset(&w->records, 0, offsetof(tt_window, hash) - offsetof(tt_window, records));
    w->history = NULL;
    w->n_history = 0;
    pthread_mutex_unlock(&w->lock);
  }
}

void tt_fuse_counters_get(tt_fuse_counters *out) { *out = counts; }
