/* buffer.c: reference-counted device arrays.
 *
 * Records come from a pool, so that an operator's result costs no malloc, and are taken before the work that fills them
 * is submitted, so that nothing can fail after it. A buffer given to an execution that reuses its memory is spent: it
 * can only be released. Refuses to touch PJRT from a forked child: what is released there is left to the parent. */
#include <sched.h>
#include <string.h>
#include "pjrt/call.h"

/* ---- the pool. Any thread; the lock is held for a few instructions ---- */
static struct { atomic_flag lock; tt_buffer *first; } pool = {ATOMIC_FLAG_INIT, NULL};

static void pool_lock(void) {
  for (int spins = 0; atomic_flag_test_and_set_explicit(&pool.lock, memory_order_acquire); spins++)
    if (spins > 64) sched_yield(); /* one core may hold the thread that has the lock */
}
static void pool_unlock(void) { atomic_flag_clear_explicit(&pool.lock, memory_order_release); }

tt_code tt_buffer_reserve(int n, tt_buffer **records, tt_error *err) {
  int have = 0;
  pool_lock();
  for (; have < n && pool.first; have++) {
    records[have] = pool.first;
    pool.first = records[have]->next;
  }
  pool_unlock();
  for (; have < n; have++)
    if (!(records[have] = tt_alloc(sizeof **records))) {
      tt_buffer_unreserve(have, records);
      return tt_no_memory(err, sizeof **records);
    }
  return TT_OK;
}

void tt_buffer_unreserve(int n, tt_buffer **records) {
  pool_lock();
  for (int i = 0; i < n; i++) {
    records[i]->next = pool.first;
    pool.first = records[i];
  }
  pool_unlock();
  for (int i = 0; i < n; i++) records[i] = NULL;
}

void tt_buffer_pool_clear(void) {
  pool_lock();
  tt_buffer *b = pool.first;
  pool.first = NULL;
  pool_unlock();
  for (tt_buffer *next; b; b = next) {
    next = b->next;
    tt_free(b);
  }
}

/* ---- records ---- */
void tt_buffer_init(tt_buffer *b, tt_client *c, int device, PJRT_Buffer *raw, const tt_type *type, const char *name) {
  atomic_init(&b->refs, 1);
  b->spent = false;
  b->until = 0;
  b->device = device;
  b->client = c;
  b->buffer = raw;
  b->name = name;
  b->type = *type;
  if (type->dims != b->own) { /* a plan's, which may go before the buffer does */
    for (int i = 0; i < type->rank; i++) b->own[i] = type->dims[i];
    b->type.dims = b->own;
  }
  tt_count_live(device, 1, type->bytes);
}

void tt_buffer_spend(tt_buffer *b, uint64_t until) {
  b->spent = true;
  b->until = until;
  tt_count_live(b->device, 0, -b->type.bytes);
}

bool tt_buffer_unique(const tt_buffer *b) { return atomic_load_explicit(&b->refs, memory_order_acquire) == 1; }
size_t tt_buffer_bytes(const tt_buffer *b) { return (size_t)b->type.bytes; }
uint8_t tt_buffer_dtype(const tt_buffer *b) { return b->type.dtype; }
int tt_buffer_device(const tt_buffer *b) { return b->device; }
int tt_buffer_rank(const tt_buffer *b) { return b->type.rank; }
const int64_t *tt_buffer_dims(const tt_buffer *b) { return b->type.dims; }

tt_buffer *tt_buffer_retain(tt_buffer *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return b;
}

void tt_buffer_destroy(tt_buffer *b) {
  PJRT_ARGS(PJRT_Buffer_Destroy_Args, destroy, .buffer = b->buffer);
  PJRT_DROP(b->client->plugin, PJRT_Buffer_Destroy, &destroy);
  tt_buffer_unreserve(1, &(tt_buffer *){b});
}

void tt_buffer_release(tt_buffer *b) {
  if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  if (tt_forked()) return; /* a lock of the parent's may be held here for ever */
  tt_count_live(b->device, -1, b->spent ? 0 : -b->type.bytes);
  if (b->until) tt_inflight_bury(b);
  else tt_buffer_destroy(b);
}

/* ---- uploads ---- */
static const uint8_t pjrt_types[TT_DTYPES] = {
    [TT_BOOL] = PJRT_Buffer_Type_PRED,
    [TT_U8] = PJRT_Buffer_Type_U8,
    [TT_U16] = PJRT_Buffer_Type_U16,
    [TT_U32] = PJRT_Buffer_Type_U32,
    [TT_U64] = PJRT_Buffer_Type_U64,
    [TT_I8] = PJRT_Buffer_Type_S8,
    [TT_I16] = PJRT_Buffer_Type_S16,
    [TT_I32] = PJRT_Buffer_Type_S32,
    [TT_I64] = PJRT_Buffer_Type_S64,
    [TT_F16] = PJRT_Buffer_Type_F16,
    [TT_BF16] = PJRT_Buffer_Type_BF16,
    [TT_F32] = PJRT_Buffer_Type_F32,
    [TT_F64] = PJRT_Buffer_Type_F64,
    [TT_C64] = PJRT_Buffer_Type_C64,
    [TT_C128] = PJRT_Buffer_Type_C128,
    [TT_F8E4M3FN] = PJRT_Buffer_Type_F8E4M3FN,
    [TT_F8E5M2] = PJRT_Buffer_Type_F8E5M2,
    [TT_F8E4M3FNUZ] = PJRT_Buffer_Type_F8E4M3FNUZ,
    [TT_F8E5M2FNUZ] = PJRT_Buffer_Type_F8E5M2FNUZ,
    [TT_F8E8M0FNU] = PJRT_Buffer_Type_F8E8M0FNU,
    [TT_F4E2M1FN] = PJRT_Buffer_Type_F4E2M1FN,
    [TT_F4X2] = PJRT_Buffer_Type_U8,
};

static tt_buffer *upload(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims, const void *data,
                         PJRT_HostBufferSemantics semantics, PJRT_Event **done, tt_error *err) {
  if (device < 0 || device >= c->n_devices || (unsigned)dtype >= TT_DTYPES || rank < 0 || rank > TT_MAX_RANK) {
    tt_fail(err, TT_INVALID_ARGUMENT, "",
            "expected a device below %d, a dtype and a rank up to %d, got device %d, dtype %d, rank %d", c->n_devices,
            TT_MAX_RANK, device, (int)dtype, rank);
    return NULL;
  }
  tt_buffer *b;
  if (tt_buffer_reserve(1, &b, err)) return NULL;
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= b->own[i] = dims[i];
  tt_type type = {(uint8_t)dtype, (uint8_t)rank, (n * tt_dtype_bits(dtype) + 7) / 8, b->own};
  PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args, .client = c->client, .data = data,
            .type = (PJRT_Buffer_Type)pjrt_types[dtype], .dims = dims, .num_dims = (size_t)rank,
            .host_buffer_semantics = semantics, .device = c->devices[device]);
  if (PJRT_CALL(c->plugin, PJRT_Client_BufferFromHostBuffer, &args, err)) {
    tt_buffer_unreserve(1, &b);
    return NULL;
  }
  *done = args.done_with_host_buffer;
  tt_buffer_init(b, c, device, args.buffer, &type, NULL);
  if (semantics != PJRT_HostBufferSemantics_kImmutableZeroCopy) tt_tally(bytes_to_device, type.bytes);
  return b;
}

/* Waits for e and drops it. Where waiting failed it is done again: memory that a copy uses must not be given back
 * early. */
static tt_code await(tt_plugin *p, PJRT_Event *e, tt_error *err) {
  if (!e) return TT_OK;
  tt_error ignored;
  PJRT_ARGS(PJRT_Event_Await_Args, wait, .event = e);
  tt_code code = PJRT_CALL(p, PJRT_Event_Await, &wait, err);
  if (code) (void)PJRT_CALL(p, PJRT_Event_Await, &wait, &ignored);
  tt_event_drop(p, e);
  return code;
}

tt_buffer *tt_buffer_from_host(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims,
                               const void *data, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_Event *done = NULL;
  tt_buffer *b =
      upload(c, device, dtype, rank, dims, data, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, &done, err);
  if (b && await(c->plugin, done, err)) {
    tt_buffer_release(b);
    return NULL;
  }
  return b;
}

struct upload_done { void (*done)(void *); void *arg; tt_plugin *plugin; PJRT_Event *event; };

static void on_uploaded(PJRT_Error *e, void *user) {
  struct upload_done *u = user;
  tt_pjrt_ignore(u->plugin->api, e); /* the buffer itself carries the failure */
  u->done(u->arg);
  tt_event_drop(u->plugin, u->event);
  tt_free(u);
}

/* Lets synchronize and recorded events wait for the buffer as they do for executions. */
static void follow(tt_buffer *b) {
  tt_error ignored;
  PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, ready, .buffer = b->buffer);
  if (!PJRT_CALL(b->client->plugin, PJRT_Buffer_ReadyEvent, &ready, &ignored))
    tt_inflight_add(b->client, b->device, ready.event, "copy to device");
}

static tt_buffer *upload_until_done(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims,
                                    const void *data, PJRT_HostBufferSemantics semantics, void (*done)(void *),
                                    void *arg, tt_error *err) {
  tt_error local, ignored;
  if (!err) err = &local;
  struct upload_done *u = tt_alloc(sizeof *u);
  PJRT_Event *event = NULL;
  if (!u) tt_no_memory(err, sizeof *u);
  tt_buffer *b = u ? upload(c, device, dtype, rank, dims, data, semantics, &event, err) : NULL;
  if (b) follow(b);
  if (!event) { /* nothing reads the data any more */
    tt_free(u);
    done(arg);
    return b;
  }
  *u = (struct upload_done){done, arg, c->plugin, event};
  PJRT_ARGS(PJRT_Event_OnReady_Args, ready, .event = event, .callback = on_uploaded, .user_arg = u);
  if (PJRT_CALL(c->plugin, PJRT_Event_OnReady, &ready, err)) {
    if (semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy) { /* it needs the data as long as it lives */
      tt_buffer_release(b);
      b = NULL;
    }
    await(c->plugin, event, &ignored);
    tt_free(u);
    done(arg);
  }
  return b;
}

tt_buffer *tt_buffer_from_host_async(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims,
                                     const void *data, void (*done)(void *), void *arg, tt_error *err) {
  return upload_until_done(c, device, dtype, rank, dims, data,
                           PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, done, arg, err);
}

tt_buffer *tt_buffer_of_host(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims, void *data,
                             void (*done)(void *), void *arg, tt_error *err) {
  /* what XLA's CPU client wants of memory that it takes as it is */
  bool shares = c->is_cpu && (uintptr_t)data % 64 == 0;
  return upload_until_done(c, device, dtype, rank, dims, data, shares ? PJRT_HostBufferSemantics_kImmutableZeroCopy
                           : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes, done, arg, err);
}

/* ---- reading ---- */
static tt_code readable(const tt_buffer *b, tt_error *err) {
  return b->spent ? tt_fail(err, TT_FAILED_PRECONDITION, "", "the buffer's memory was given to a program") : TT_OK;
}

/* A plugin's failure while reading is most often that of the work which should have made the contents. */
static tt_code blame(tt_buffer *b, tt_code code, tt_error *err) {
  if (code && !tt_forked()) tt_inflight_blame(b->client, b->device, b->name, err);
  return code ? err->code : TT_OK;
}

tt_code tt_buffer_to_host(tt_buffer *b, void *dst, size_t dst_bytes, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (readable(b, err)) return err->code;
  if (dst_bytes != (size_t)b->type.bytes)
    return tt_fail(err, TT_INVALID_ARGUMENT, "", "expected %lld bytes, got %zu", (long long)b->type.bytes, dst_bytes);
  /* Row-major, whatever layout the device keeps: TPU buffers are tiled. */
  int64_t order[TT_MAX_RANK];
  for (int i = 0; i < b->type.rank; i++) order[i] = b->type.rank - 1 - i;
  PJRT_Buffer_MemoryLayout layout = {.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE,
      .type = PJRT_Buffer_MemoryLayout_Type_Tiled,
      .tiled = {.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, .minor_to_major = order,
                .minor_to_major_size = b->type.rank}};
  PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args, .src = b->buffer, .dst = dst, .dst_size = dst_bytes,
            .host_layout = b->client->is_cpu ? NULL : &layout);
  tt_plugin *p = b->client->plugin;
  tt_code code = PJRT_CALL(p, PJRT_Buffer_ToHostBuffer, &args, err);
  if (!code) code = await(p, args.event, err);
  if (!code) tt_tally(bytes_from_device, dst_bytes);
  return blame(b, code, err);
}

tt_code tt_buffer_await(tt_buffer *b, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (readable(b, err)) return err->code;
  PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, ready, .buffer = b->buffer);
  tt_code code = PJRT_CALL(b->client->plugin, PJRT_Buffer_ReadyEvent, &ready, err);
  if (!code) code = await(b->client->plugin, ready.event, err);
  return blame(b, code, err);
}

void *tt_buffer_host_address(tt_buffer *b) {
  tt_error ignored;
  if (!b->client->is_cpu || !PJRT_HAS(b->client->plugin, PJRT_Buffer_UnsafePointer) || tt_buffer_await(b, &ignored))
    return NULL;
  PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, args, .buffer = b->buffer);
  return PJRT_CALL(b->client->plugin, PJRT_Buffer_UnsafePointer, &args, &ignored)
             ? NULL
             : (void *)(uintptr_t)args.buffer_pointer;
}
