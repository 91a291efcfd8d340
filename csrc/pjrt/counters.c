/* counters.c: the counters as plain structs; live memory by device. */
#include "pjrt/counters.h"
#include "pjrt/pjrt.h"

struct tt_counts tt_counts;

enum { DEVICES = 64 };
static struct { _Atomic int64_t buffers, bytes, peak, made, made_bytes, retries, refusals, limit; } memory[DEVICES];

static void note_peak(int d, int64_t bytes) {
  int64_t peak = atomic_load_explicit(&memory[d].peak, memory_order_relaxed);
  while (bytes > peak && !atomic_compare_exchange_weak(&memory[d].peak, &peak, bytes)) {}
}

void tt_count_live(int device, int64_t buffers, int64_t bytes) {
  int d = device & (DEVICES - 1);
  atomic_fetch_add_explicit(&memory[d].buffers, buffers, memory_order_relaxed);
  int64_t live = atomic_fetch_add_explicit(&memory[d].bytes, bytes, memory_order_relaxed) + bytes;
  if (bytes <= 0) return;
  atomic_fetch_add_explicit(&memory[d].made, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&memory[d].made_bytes, bytes, memory_order_relaxed);
  note_peak(d, live);
}

void tt_count_temporary(int device, int64_t bytes) {
  int d = device & (DEVICES - 1);
  note_peak(d, atomic_load_explicit(&memory[d].bytes, memory_order_relaxed) + bytes);
}

void tt_memory_get(int device, tt_memory *out) {
  int d = device & (DEVICES - 1);
  *out = (tt_memory){atomic_load(&memory[d].buffers), atomic_load(&memory[d].bytes), atomic_load(&memory[d].peak),
                     atomic_load(&memory[d].made), atomic_load(&memory[d].made_bytes), atomic_load(&memory[d].retries),
                     atomic_load(&memory[d].refusals), atomic_load(&memory[d].limit)};
}

void tt_memory_reset_peak(int device) {
  atomic_store(&memory[device & (DEVICES - 1)].peak, atomic_load(&memory[device & (DEVICES - 1)].bytes));
}
void tt_memory_count(int device, int retries, int refusals) {
  atomic_fetch_add(&memory[device & (DEVICES - 1)].retries, retries);
  atomic_fetch_add(&memory[device & (DEVICES - 1)].refusals, refusals);
}
void tt_set_memory_limit(int device, int64_t bytes) { atomic_store(&memory[device & (DEVICES - 1)].limit, bytes); }
int64_t tt_memory_limit(int device) {
  return atomic_load_explicit(&memory[device & (DEVICES - 1)].limit, memory_order_relaxed);
}

void tt_counters_get(tt_counters *out) {
#define COPY(field) out->field = atomic_load_explicit(&tt_counts.field, memory_order_relaxed)
  COPY(compiles); COPY(cache_hits_plan); COPY(cache_hits_memory); COPY(cache_hits_disk); COPY(cache_hits_shared);
  COPY(cache_misses); COPY(cache_rejects);
  COPY(executions); COPY(bytes_to_device); COPY(bytes_from_device); COPY(scalar_uploads); COPY(live_storages);
#undef COPY
  out->live_buffers = out->live_bytes = out->peak_bytes = 0;
  for (int d = 0; d < DEVICES; d++) {
    out->live_buffers += atomic_load_explicit(&memory[d].buffers, memory_order_relaxed);
    out->live_bytes += atomic_load_explicit(&memory[d].bytes, memory_order_relaxed);
    out->peak_bytes += atomic_load_explicit(&memory[d].peak, memory_order_relaxed);
  }
}

void tt_counters_reset_peak(void) {
  for (int d = 0; d < DEVICES; d++) tt_memory_reset_peak(d);
}
