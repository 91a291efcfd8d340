/* storage.c: what tensors alias: one dense base buffer and the shape it is kept in.
 *
 * Buffers are immutable; writing makes a new base and swaps it in under the storage's lock, so every alias sees it and
 * a reader on another thread gets either. Records come from a pool: a tensor made and dropped costs no malloc. */
#include <sched.h>
#include <string.h>
#include <time.h>
#include "graph/graph.h"
#include "pjrt/counters.h"

static struct {
  atomic_flag lock;
  tt_storage *first;
} pool = {ATOMIC_FLAG_INIT, NULL};

static void lock(atomic_flag *l) {
  for (int spins = 0; atomic_flag_test_and_set_explicit(l, memory_order_acquire); spins++)
    if (spins > 64) sched_yield(); /* one core may hold the thread that has the lock */
}
static void unlock(atomic_flag *l) { atomic_flag_clear_explicit(l, memory_order_release); }

static tt_storage *record(void) {
  lock(&pool.lock);
  tt_storage *s = pool.first;
  if (s) pool.first = s->next;
  unlock(&pool.lock);
  return s ? s : tt_alloc(sizeof *s);
}

/* Storages are made before the buffers that fill them, so this sees each request first. */
static bool over_limit(int device, size_t bytes, tt_error *err) {
  int64_t limit = tt_memory_limit(device);
  if (!limit) return false;
  tt_memory m;
  tt_memory_get(device, &m);
  if (m.live_bytes + (int64_t)bytes <= limit) return false;
  tt_fail(err, TT_RESOURCE_EXHAUSTED, "",
          "TPU out of memory. Tried to allocate %.2f MiB on tpu:%d, of which this process may use %.2f MiB",
          (double)bytes / 1048576, device, (double)limit / 1048576);
  return true;
}

tt_storage *tt_storage_create(tt_client *c, int device, size_t bytes, tt_error *err) {
  if (over_limit(device, bytes, err)) return NULL;
  tt_storage *s = record();
  if (!s) {
    tt_no_memory(err, sizeof *s);
    return NULL;
  }
  atomic_init(&s->refs, 1);
  atomic_flag_clear(&s->lock);
  s->client = c;
  s->device = device;
  s->bytes = bytes;
  s->dtype = TT_U8;
  s->rank = 1;
  s->dims[0] = (int64_t)bytes;
  s->hinted = s->escaped = s->lost = s->traced_written = false;
  atomic_init(&s->window, NULL);
  s->filling = 0;
  atomic_init(&s->buffer, NULL);
  s->padded = 0;
  s->lent = false;
  s->trace = NULL;
  s->traced = NULL;
  s->made = NULL;
  s->address = tt_address_take(bytes, s, err);
  if (bytes && !s->address) {
    tt_free(s);
    return NULL;
  }
  tt_tally(live_storages, 1);
  return s;
}

tt_storage *tt_storage_retain(tt_storage *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void tt_storage_release(tt_storage *s) {
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  tt_buffer_release(s->buffer);
  tt_address_give(s->address);
  tt_tally(live_storages, -1);
  lock(&pool.lock);
  s->next = pool.first;
  pool.first = s;
  unlock(&pool.lock);
}

void tt_storage_pool_clear(void) {
  lock(&pool.lock);
  tt_storage *s = pool.first;
  pool.first = NULL;
  unlock(&pool.lock);
  while (s) {
    tt_storage *next = s->next;
    tt_free(s);
    s = next;
  }
}

void tt_storage_base(tt_storage *s, tt_dtype dtype, int rank, const int64_t *dims) {
  s->dtype = dtype;
  s->rank = (uint8_t)rank;
  s->padded = 0;
  if (rank) memcpy(s->dims, dims, (size_t)rank * sizeof *dims);
  s->hinted = true;
}

void tt_storage_hint(tt_storage *s, tt_dtype dtype, int rank, const int64_t *dims) {
  int64_t bits = tt_dtype_bits(dtype);
  for (int i = 0; i < rank; i++) bits *= dims[i];
  if (s->buffer || s->trace || rank > TT_MAX_RANK || (size_t)(bits + 7) / 8 != s->bytes) return;
  tt_storage_base(s, dtype, rank, dims);
}

void tt_storage_hint_from(const tt_tensor *t) {
  int order[TT_MAX_RANK];
  int64_t dims[TT_MAX_RANK];
  if (t->storage->hinted || !tt_strides_dense(t->rank, t->sizes, t->strides, order)) return;
  for (int i = 0; i < t->rank; i++) dims[i] = t->sizes[order[i]];
  tt_storage_hint(t->storage, t->dtype, t->rank, dims);
}

void *tt_storage_address(const tt_storage *s) { return s->address; }
size_t tt_storage_bytes(const tt_storage *s) { return s->bytes; }
int tt_storage_device(const tt_storage *s) { return s->device; }
bool tt_storage_is_traced(const tt_storage *s) { return s->trace || s->escaped; }

static tt_buffer *buffer_of(tt_storage *s) { return atomic_load_explicit(&s->buffer, memory_order_relaxed); }
static void set_buffer(tt_storage *s, tt_buffer *b) { atomic_store_explicit(&s->buffer, b, memory_order_relaxed); }
static bool in_window(tt_storage *s) { return atomic_load_explicit(&s->window, memory_order_acquire) != NULL; }

bool tt_storage_pending(tt_storage *s) { return in_window(s); }

tt_buffer *tt_storage_try_take(tt_storage *s, bool donate, bool *lent) {
  lock(&s->lock);
  tt_buffer *b = in_window(s) ? NULL : buffer_of(s);
  *lent = s->lent || in_window(s);
  if (b && donate) {
    set_buffer(s, NULL);
    s->lent = true;
  } else if (b) {
    tt_buffer_retain(b);
  }
  unlock(&s->lock);
  return b;
}

tt_buffer *tt_storage_take_reference(tt_storage *s) {
  bool lent;
  for (int spins = 0;; spins++) {
    tt_buffer *b = tt_storage_try_take(s, false, &lent);
    if (b || !lent) return b;
    if (in_window(s)) tt_storage_settle(s);
    else if (spins < 1000) sched_yield(); /* until a program that writes it is submitted ... */
    else nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* ... or a collective has ended */
  }
}

void tt_storage_let_go(tt_storage *s) {
  lock(&s->lock);
  tt_buffer *b = buffer_of(s);
  set_buffer(s, NULL);
  unlock(&s->lock);
  tt_buffer_release(b);
}

bool tt_storage_look(tt_storage *s, tt_holder *out) {
  lock(&s->lock);
  bool filled = s->buffer || s->lent;
  *out = (tt_holder){.address = s->address, .bytes = s->bytes, .made = s->made, .dtype = s->dtype, .rank = s->rank};
  memcpy(out->dims, s->dims, s->rank * sizeof *s->dims);
  unlock(&s->lock);
  return filled;
}

bool tt_storage_undefined(tt_storage *s) {
  if (buffer_of(s) || s->trace || in_window(s)) return false;
  lock(&s->lock);
  bool undefined = !buffer_of(s) && !s->lent && !s->trace && !s->lost && !in_window(s);
  unlock(&s->lock);
  return undefined;
}

void tt_storage_mark_absent(tt_storage *s) {
  lock(&s->lock);
  s->lost = true;
  unlock(&s->lock);
}

void tt_storage_put(tt_storage *s, tt_buffer *b) { tt_storage_put_padded(s, b, 0); }

void tt_storage_put_padded(tt_storage *s, tt_buffer *b, uint32_t padded) {
  lock(&s->lock);
  tt_buffer *old = buffer_of(s);
  set_buffer(s, b);
  s->lent = s->lost = false;
  s->hinted = true;
  if (s->padded != padded) s->padded = padded; /* calls look at it without the lock */
  unlock(&s->lock);
  tt_buffer_release(old);
}

tt_code tt_storage_set(tt_storage *s, tt_buffer *b, tt_error *err) {
  tt_code code = TT_OK;
  if (tt_storage_is_traced(s))
    code = tt_fail(err, TT_FAILED_PRECONDITION, "", "a value being traced cannot be replaced");
  else if (tt_buffer_bytes(b) < s->bytes)
    code =
        tt_fail(err, TT_INVALID_ARGUMENT, "", "expected a buffer of %zu bytes, got %zu", s->bytes, tt_buffer_bytes(b));
  if (code) {
    tt_buffer_release(b);
    return code;
  }
  if (in_window(s)) tt_window_forget(s);
  tt_storage_base(s, tt_buffer_dtype(b), tt_buffer_rank(b), tt_buffer_dims(b));
  tt_storage_put(s, b);
  return TT_OK;
}

/* Copies what counts of src, whose buffer has dims to, to dense dst. */
static void copy_counted(char *dst, const char *src, size_t width, int rank, const int64_t *dims, const int64_t *to) {
  size_t inner = width, inner_to = width; /* the last dims that are as they were are one piece */
  while (rank > 0 && dims[rank - 1] == to[rank - 1]) inner *= (size_t)dims[--rank];
  inner_to = inner;
  if (rank > 0) inner *= (size_t)dims[rank - 1], inner_to *= (size_t)to[--rank];
  int64_t at[TT_MAX_RANK] = {0};
  for (;;) {
    size_t place = 0;
    for (int i = 0; i < rank; i++) place = place * (size_t)to[i] + (size_t)at[i];
    memcpy(dst, src + place * inner_to, inner);
    dst += inner;
    int i = rank - 1;
    while (i >= 0 && ++at[i] == dims[i]) at[i--] = 0;
    if (i < 0) return;
  }
}

tt_code tt_storage_to_host(tt_storage *s, void *dst, size_t bytes, tt_error *err) {
  if (s->escaped)
    return tt_fail(err, TT_FAILED_PRECONDITION, "", "a tensor made while tracing was used after the trace had ended");
  if (s->trace)
    return tt_fail(err, TT_FAILED_PRECONDITION, "", "the values of a tensor being traced are not known yet");
  if (bytes != s->bytes) return tt_fail(err, TT_INVALID_ARGUMENT, "", "expected %zu bytes, got %zu", s->bytes, bytes);
  tt_buffer *b = tt_storage_take_reference(s);
  if (!b && s->lost) return tt_window_failure(s->device, err);
  if (!b) {
    if (bytes) memset(dst, 0, bytes);
    return TT_OK;
  }
  size_t whole = tt_buffer_bytes(b);
  void *to = bytes && whole > bytes ? tt_alloc(whole) : dst;
  tt_code code = !to ? tt_no_memory(err, whole) : bytes ? tt_buffer_to_host(b, to, whole, err) : TT_OK;
  tt_buffer_release(b);
  if (to == dst) return code;
  int64_t physical[TT_MAX_RANK];
  tt_storage_physical(s, physical);
  if (!code && s->padded) copy_counted(dst, to, tt_dtype_bits(s->dtype) / 8, s->rank, s->dims, physical);
  else if (!code) memcpy(dst, to, bytes);
  tt_free(to);
  return code;
}

tt_code tt_storage_unpad(tt_storage *s, tt_error *err) {
  if (!s->padded) return TT_OK;
  char *host = tt_alloc(s->bytes);
  if (!host) return tt_no_memory(err, s->bytes);
  tt_code code = tt_storage_to_host(s, host, s->bytes, err);
  tt_buffer *b = code ? NULL : tt_buffer_from_host(s->client, s->device, s->dtype, s->rank, s->dims, host, err);
  tt_free(host);
  if (!b) return code ? code : err ? err->code : TT_INTERNAL;
  tt_storage_put(s, b);
  return TT_OK;
}

void tt_storage_trim(tt_storage *s, size_t bytes) {
  if (bytes < s->bytes) s->bytes = bytes;
}

/* Through the host: resizing a storage that has contents is rare, and its program would serve once. */
tt_code tt_storage_resize(tt_storage *s, size_t bytes, tt_error *err) {
  if (tt_storage_is_traced(s)) return tt_fail(err, TT_UNIMPLEMENTED, "", "a tensor being traced cannot be resized");
  if (bytes == s->bytes) return TT_OK;
  if (in_window(s)) tt_storage_settle(s);
  tt_buffer *fresh = NULL;
  int64_t width = tt_dtype_bits(s->dtype) / 8;
  bool typed = width && bytes % (size_t)width == 0;
  tt_dtype dtype = typed ? s->dtype : TT_U8;
  int64_t dims[1] = {(int64_t)bytes / (typed ? width : 1)};
  if (s->buffer && bytes) {
    size_t larger = bytes > s->bytes ? bytes : s->bytes;
    char *host = tt_alloc(larger);
    if (!host) return tt_no_memory(err, larger);
    tt_code code = tt_storage_to_host(s, host, s->bytes, err);
    if (!code && !(fresh = tt_buffer_from_host(s->client, s->device, dtype, 1, dims, host, err)))
      code = err ? err->code : TT_INTERNAL;
    tt_free(host);
    if (code) return code;
  }
  void *address = tt_address_take(bytes, s, err);
  if (bytes && !address) {
    tt_buffer_release(fresh);
    return err ? err->code : TT_RESOURCE_EXHAUSTED;
  }
  tt_address_give(s->address);
  s->address = address;
  s->bytes = bytes;
  tt_storage_base(s, dtype, 1, dims);
  s->hinted = fresh != NULL;
  tt_storage_put(s, fresh);
  s->hinted = fresh != NULL;
  return TT_OK;
}

bool tt_tensor_is_whole(const tt_tensor *t) {
  const tt_storage *s = t->storage;
  if (t->offset || t->dtype != s->dtype || t->rank != s->rank) return false;
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->sizes[i] != s->dims[i] || (t->sizes[i] != 1 && t->strides[i] != stride)) return false;
    stride *= t->sizes[i] ? t->sizes[i] : 1; /* as torch counts strides of empty tensors */
  }
  return true;
}
