/* pjrt.h: what the graph layer needs from PJRT besides tt.h: executables, donation, completion. Knows no StableHLO. */
#ifndef TT_PJRT_H
#define TT_PJRT_H
#include "base/base.h"

/* ---- buffers ---- */
/* True if the caller holds the only reference, so that the memory may be given away. */
bool tt_buffer_unique(const tt_buffer *b);
size_t tt_buffer_bytes(const tt_buffer *b);
uint8_t tt_buffer_dtype(const tt_buffer *b);
int tt_buffer_rank(const tt_buffer *b);
const int64_t *tt_buffer_dims(const tt_buffer *b);

int tt_buffer_device(const tt_buffer *b);
/* Where b's contents lie in the host's memory, row-major, once they are computed; good while b is held. NULL: they are
 * not there, or could not be computed (who reads b hears of it). */
void *tt_buffer_host_address(tt_buffer *b);
/* As tt_buffer_from_host_async, of memory that nobody else has any more: it becomes the buffer's own, without a copy,
 * where the device's memory is the host's. done(arg) is called once it is not needed. */
tt_buffer *tt_buffer_of_host(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims, void *data,
                             void (*done)(void *), void *arg, tt_error *err);
void tt_buffer_pool_clear(void); /* frees pooled records: for leak checks */

/* ---- memory of a device: what buffers take, without those that the core keeps for itself. Any thread ---- */
typedef struct tt_memory {
  /* peak: since the start or reset_peak, with what programs took besides */
  int64_t live_buffers, live_bytes, peak_bytes;
  int64_t made_buffers, made_bytes;             /* all that were ever made */
  int64_t retries, refusals; /* requests made again after freeing what could be, and those refused in the end */
  int64_t limit;                                /* of tt_set_memory_limit; 0: none */
} tt_memory;
void tt_memory_get(int device, tt_memory *out);
void tt_memory_reset_peak(int device);
void tt_memory_count(int device, int retries, int refusals);
int64_t tt_memory_limit(int device);

/* What a result buffer is: kept in the plan, so that PJRT is not asked. Borrowed by the buffer: must outlive it. */
typedef struct tt_type { uint8_t dtype, rank; int64_t bytes; const int64_t *dims; } tt_type;

/* ---- executables: any thread; owned by the cache ---- */
typedef struct tt_executable tt_executable;
/* Whether programs are written for a TPU: the plugin's platform, or what TORCH_TPU_TARGET says. */
bool tt_client_lowers_for_tpu(const tt_client *c);
/* this thread's programs are, from here on, whatever the plugin: for texts that do not run here */
void tt_lower_for_tpu(bool yes);
/* Compiles StableHLO text. Options are those of the plugin's platform (tt_compile_options). New. */
tt_executable *tt_executable_compile(tt_client *c, const char *text, size_t length, tt_error *err);
/* The serialized CompileOptionsProto the client compiles with; borrowed: part of cache keys. */
const void *tt_compile_options(tt_client *c, size_t *length);
/* Options besides for what this thread compiles from here on, "name=value,name=value" (borrowed; NULL: none). Returns
 * those before. What cannot be read is the caller's to refuse. */
const char *tt_options_own(const char *list);
bool tt_options_owned(void); /* whether there are any */
/* What decides, besides its text, which code a program becomes: borrowed from whom it is of. */
typedef struct tt_process {
  const char *build, *kind; /* of the plugin, and of its devices; NULL: this host's CPU */
  const void *options;
  size_t length; /* of the options */
} tt_process;
tt_process tt_client_process(tt_client *c); /* until this thread's options change */
tt_code tt_executable_serialize(tt_executable *e, tt_buf *out, tt_error *err);
tt_executable *tt_executable_deserialize(tt_client *c, const void *data, size_t length, tt_error *err); /* new */
void tt_executable_release(tt_executable *e);
void **tt_executable_tag(tt_executable *e); /* its owner's, for what it likes; NULL at first */

int64_t tt_executables_live(void); /* how many this process has loaded and not released */
/* Runs e on one device. Parameters compiled as donated (donate[p] true) give their memory away if p's buffer is unique;
 * then that tt_buffer is spent: reading it is an error, releasing it is right. results[k], of types[k], are new. name
 * is the operator, borrowed for ever, carried by asynchronous failures. Takes no lock that a compile holds. */
tt_code tt_executable_run(tt_executable *e, int device, const char *name, int n_args, tt_buffer *const *args,
                          const bool *donate, int n_results, const tt_type *types, tt_buffer **results, tt_error *err);

/* ---- topologies: machines that are not here, as libtpu knows them by name ("v5e:2x2", "v6e:16x16", "tpu7x:16x16x32")
 * ---- */
typedef struct tt_topology tt_topology; /* any thread */
typedef struct tt_topology_device {
  int id, process;
  int coords[3];   /* of its chip in the slice; what the plugin does not say is 0 */
  int core;        /* which device of its chip */
  int cores;       /* that work as this device: 2 where a chip's two are one device */
  char kind[64];   /* "TPU v6 lite" */
} tt_topology_device;
tt_topology *tt_topology_create(tt_plugin *p, const char *name, tt_error *err); /* new */
void tt_topology_destroy(tt_topology *t);
int tt_topology_device_count(const tt_topology *t);
tt_code tt_topology_device_get(const tt_topology *t, int i, tt_topology_device *out, tt_error *err);

/* ---- programs compiled for a topology: nothing here can run them ---- */
typedef struct tt_aot tt_aot; /* any thread */
/* Compiles text for the first `devices` of the topology, each of which is a replica: it runs the program on data of its
 * own; options: "name=value,name=value" for XLA, or NULL. New. */
tt_aot *tt_aot_compile(tt_topology *t, const char *text, size_t length, int devices, const char *options,
                       tt_error *err);
void tt_aot_destroy(tt_aot *a);
tt_process tt_aot_process(const tt_aot *a); /* that can load it */
/* Bytes of one device's memory, by what they hold. alias: of arguments that results take over; peak: the most at one
 * time, arguments and results with it, 0 where the plugin does not say. */
typedef struct tt_aot_memory { int64_t code, argument, output, alias, temporary, peak; } tt_aot_memory;
tt_code tt_aot_memory_get(tt_aot *a, tt_aot_memory *out, tt_error *err);
/* The plugin's own cost analysis, a number at a time: "flops", "bytes accessed" ... */
tt_code tt_aot_costs(tt_aot *a, void (*visit)(void *user, const char *name, size_t length, double value), void *user,
                     tt_error *err);
tt_code tt_aot_serialize(tt_aot *a, tt_buf *out, tt_error *err);
/* The optimized program, a serialized HloModuleProto or text, as *format says (borrowed for ever). */
tt_code tt_aot_optimized(tt_aot *a, tt_buf *out, const char **format, tt_error *err);

#ifdef TT_FAULTS
void tt_fault_pjrt(int64_t n); /* the n-th PJRT call from now fails once with INTERNAL (0: the next); -1: none */
bool tt_fault_pjrt_hit(void);  /* whether it did */
#endif

/* True in a child forked after a client was made: PJRT must not be called there. */
bool tt_forked(void);
tt_code tt_fork_check(tt_error *err); /* FAILED_PRECONDITION there, else OK */

/* Nanoseconds of one bare PJRT execution (add of two f32[8,8]), over n of them: for benchmarks. -1 on failure. */
double tt_floor_execute(tt_client *c, int n, tt_error *err);
#endif
