/* counters.h: what the process has done so far, as relaxed atomics. Any thread. */
#ifndef TT_COUNTERS_H
#define TT_COUNTERS_H
#include <stdatomic.h>
#include "tt.h"

extern struct tt_counts {
  _Atomic int64_t compiles, cache_hits_plan, cache_hits_memory, cache_hits_disk, cache_hits_shared, cache_misses,
      cache_rejects, executions, bytes_to_device, bytes_from_device, scalar_uploads, live_storages;
} tt_counts;
#define tt_tally(field, n) atomic_fetch_add_explicit(&tt_counts.field, (int64_t)(n), memory_order_relaxed)

/* Live buffers of a device: so many more (or fewer), of so many bytes. */
void tt_count_live(int device, int64_t buffers, int64_t bytes);
void tt_count_temporary(int device, int64_t bytes); /* a program took them beside what lives, for as long as it ran */
#endif
