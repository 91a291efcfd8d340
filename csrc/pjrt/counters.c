/* counters.c: the counters as a plain struct. */
#include "pjrt/counters.h"

struct tt_counts tt_counts;

void tt_counters_get(tt_counters *out) {
#define COPY(field) out->field = atomic_load_explicit(&tt_counts.field, memory_order_relaxed)
  COPY(compiles); COPY(cache_hits_plan); COPY(cache_hits_memory); COPY(cache_hits_disk); COPY(cache_hits_shared);
  COPY(cache_misses); COPY(cache_rejects);
  COPY(executions); COPY(bytes_to_device); COPY(bytes_from_device); COPY(scalar_uploads);
  COPY(live_storages); COPY(live_buffers); COPY(live_bytes); COPY(peak_bytes);
#undef COPY
}

void tt_counters_reset_peak(void) { atomic_store(&tt_counts.peak_bytes, atomic_load(&tt_counts.live_bytes)); }
