/* tt.h: the public C interface of torch_tpu's core: a tensor program runtime over any PJRT plugin, free of torch and
 * Python.
 *
 * The idea: an operator call (tt_call) is packed as data; its bytes, less the values that may change at run time, are
 * its key; the key finds a plan (tt_plan), which is a compiled executable plus the recipe of its operands and results.
 * A miss lowers the call through one table of rules to StableHLO, compiles it once, and keeps it, in memory and on
 * disk.
 *
 * Conventions. A fallible function returns a tt_code (or a pointer, NULL on failure) and fills *err, which the caller
 * owns and may put on its stack. "new": the caller gets a reference and releases it. "borrowed": valid while its owner
 * is. Sizes, strides and offsets are in elements unless a name says bytes. Functions may be called from any thread
 * unless they say otherwise. Nothing here aborts the process for a user's mistake or a plugin's error. */
#ifndef TT_H
#define TT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TT_API __attribute__((visibility("default")))
enum { TT_MAX_RANK = 32 };

/* ---- errors: PJRT's sixteen codes; the shim maps each to one Python exception ---- */
typedef enum tt_code {
  TT_OK, TT_CANCELLED, TT_UNKNOWN, TT_INVALID_ARGUMENT, TT_DEADLINE_EXCEEDED, TT_NOT_FOUND, TT_ALREADY_EXISTS,
  TT_PERMISSION_DENIED, TT_RESOURCE_EXHAUSTED, TT_FAILED_PRECONDITION, TT_ABORTED, TT_OUT_OF_RANGE, TT_UNIMPLEMENTED,
  TT_INTERNAL, TT_UNAVAILABLE, TT_DATA_LOSS, TT_UNAUTHENTICATED
} tt_code;

typedef struct tt_error {
  tt_code code;
  char where[256]; /* the operator or the PJRT function that failed, "" if unknown; may name the user's line as well */
  char message[1472];  /* one line, no trailing newline; longer texts end in "..." */
} tt_error;

/* Fills *err (which may be NULL) and returns code, so that callers can write `return tt_fail(err, ...)`. */
TT_API tt_code tt_fail(tt_error *err, tt_code code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
TT_API const char *tt_code_name(tt_code code); /* "INVALID_ARGUMENT"; static */

/* ---- element types ---- */
typedef enum tt_dtype {
  TT_BOOL, TT_U8, TT_U16, TT_U32, TT_U64, TT_I8, TT_I16, TT_I32, TT_I64, TT_F16, TT_BF16, TT_F32, TT_F64, TT_C64,
  TT_C128, TT_F8E4M3FN, TT_F8E5M2, TT_F8E4M3FNUZ, TT_F8E5M2FNUZ, TT_F8E8M0FNU, TT_F4E2M1FN,
  TT_F4X2, /* two float4_e2m1fn in a byte: moved and viewed, never computed with */
  TT_DTYPES,
  TT_NO_DTYPE = 255
} tt_dtype;
TT_API const char *tt_dtype_name(tt_dtype t); /* torch's name, "float32"; static */
TT_API const char *tt_dtype_hlo(tt_dtype t);  /* StableHLO's name, "f32"; static */
TT_API unsigned tt_dtype_bits(tt_dtype t); /* storage bits of one element: 8 for bool, 4 for packed f4, 128 for c128 */

/* ---- plugins, clients, devices ---- */
typedef struct tt_plugin tt_plugin; /* lives for ever once loaded; any thread */
typedef struct tt_client tt_client; /* one per process is usual; any thread */

/* Loads the PJRT plugin at path and initialises it; a second load of the same path returns the first. Borrowed. */
TT_API tt_plugin *tt_plugin_load(const char *path, tt_error *err);
TT_API const char *tt_plugin_path(const tt_plugin *p);
/* identifies the very file: API version, size, build id; for cache keys */
TT_API const char *tt_plugin_build(const tt_plugin *p);

/* Creates a client with n_devices devices where the plugin lets one choose (CPU plugins), or its own number if 0. New.
 */
TT_API tt_client *tt_client_create(tt_plugin *p, int n_devices, tt_error *err);
TT_API void tt_client_destroy(tt_client *c); /* accepts NULL; waits for running work */
TT_API tt_plugin *tt_client_plugin(const tt_client *c);
TT_API const char *tt_client_platform(const tt_client *c); /* "cpu", "tpu"; borrowed */
TT_API int tt_client_device_count(const tt_client *c);
TT_API const char *tt_client_device_kind(const tt_client *c, int device); /* "TPU v6 lite", "cpu"; borrowed */
/* Bytes the plugin reports for a device: limit (0 if unknown) and in use (-1 if unknown). */
TT_API void tt_client_device_memory(const tt_client *c, int device, int64_t *limit, int64_t *in_use);
/* Returns when all work submitted to the device has ended; its failure, if any, is reported once, with the op's name.
 */
TT_API tt_code tt_client_synchronize(tt_client *c, int device, tt_error *err);

/* ---- buffers: immutable dense arrays on a device, reference counted ---- */
typedef struct tt_buffer tt_buffer;
/* Copies dense row-major host data to the device. Returns when data may be changed or freed again. New. */
TT_API tt_buffer *tt_buffer_from_host(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims,
                                      const void *data, tt_error *err);
/* As above without a wait: the data must stay as it is until done(arg) is called, once, from any thread, also on
 * failure. */
TT_API tt_buffer *tt_buffer_from_host_async(tt_client *c, int device, tt_dtype dtype, int rank, const int64_t *dims,
                                            const void *data, void (*done)(void *arg), void *arg, tt_error *err);
/* Waits for the buffer and copies it, dense row-major, to dst. */
TT_API tt_code tt_buffer_to_host(tt_buffer *b, void *dst, size_t dst_bytes, tt_error *err);
TT_API tt_code tt_buffer_await(tt_buffer *b, tt_error *err);
TT_API tt_buffer *tt_buffer_retain(tt_buffer *b);
TT_API void tt_buffer_release(tt_buffer *b); /* accepts NULL */

/* ---- events ---- */
typedef struct tt_event tt_event;
/* An event that is done when all work submitted to the device so far has ended. New. */
TT_API tt_event *tt_event_record(tt_client *c, int device, tt_error *err);
TT_API bool tt_event_done(tt_event *e);
TT_API tt_code tt_event_await(tt_event *e, tt_error *err);
/* When the event was found done, in nanoseconds of CLOCK_MONOTONIC; 0 while it is not. Taken by a completion callback.
 */
TT_API int64_t tt_event_time(tt_event *e);
TT_API void tt_event_destroy(tt_event *e);

/* ---- storages: what tensors alias. A storage owns one dense base buffer, in the shape of the tensor that made it ----
 */
typedef struct tt_storage tt_storage;
/* A storage of bytes bytes with undefined contents (read as zeros). New. */
TT_API tt_storage *tt_storage_create(tt_client *c, int device, size_t bytes, tt_error *err);
/* Says what base shape an undefined storage will have: dtype and row-major dims. No effect once it has contents. */
TT_API void tt_storage_hint(tt_storage *s, tt_dtype dtype, int rank, const int64_t *dims);
TT_API tt_storage *tt_storage_retain(tt_storage *s);
TT_API void tt_storage_release(tt_storage *s); /* accepts NULL */
/* stable, unique, never mapped: for comparing, not for reading. NULL if 0 bytes */
TT_API void *tt_storage_address(const tt_storage *s);
/* the live storage that holds address, or NULL. Borrowed */
TT_API tt_storage *tt_storage_from_address(const void *address);
TT_API size_t tt_storage_bytes(const tt_storage *s);
TT_API int tt_storage_device(const tt_storage *s);
/* its contents are a value of a program being traced: not readable */
TT_API bool tt_storage_is_traced(const tt_storage *s);
/* Replaces the contents by buffer, taking ownership of the reference; its bytes must be the storage's, or more, of
 * which the first are the storage's. */
TT_API tt_code tt_storage_set(tt_storage *s, tt_buffer *buffer, tt_error *err);
/* Copies the contents, dense row-major in the base's shape, to dst (undefined: zeros). bytes: as tt_storage_bytes. */
TT_API tt_code tt_storage_to_host(tt_storage *s, void *dst, size_t bytes, tt_error *err);
/* Says that only the first bytes of the base are the storage's. Before anybody else has seen it. */
TT_API void tt_storage_trim(tt_storage *s, size_t bytes);
/* Changes the size, keeping the common prefix of bytes; what is added is undefined. The address changes. */
TT_API tt_code tt_storage_resize(tt_storage *s, size_t bytes, tt_error *err);

/* ---- tensors, arguments, calls ---- */
typedef struct tt_tensor {
  tt_storage *storage;   /* borrowed, not NULL */
  const int64_t *sizes;  /* borrowed, rank entries */
  const int64_t *strides;
  int64_t offset;
  uint8_t dtype, rank;
  bool wrapped;          /* torch's wrapped number: loses to tensors in type promotion */
} tt_tensor;

TT_API bool tt_tensor_is_whole(const tt_tensor *t); /* it is its storage's base itself: same dtype, dims, row-major */

typedef enum tt_tag {
  TT_ARG_NONE,
  TT_ARG_TENSOR,    /* .tensor */
  TT_ARG_SCALAR,    /* .number: a value, by default a run-time operand; .dtype one of bool, i64, f64, c128 */
  TT_ARG_HOST,      /* .number: a 0-dim host tensor of .dtype; .wrapped as in tt_tensor; a run-time operand */
  TT_ARG_INT,       /* .number.i: static, as are the next four: part of the key */
  TT_ARG_BOOL,      /* .number.i */
  TT_ARG_DTYPE,     /* .dtype */
  TT_ARG_STRING,    /* .string */
  TT_ARG_LIST,      /* .list: count elements */
  TT_ARG_GENERATOR  /* .generator */
} tt_tag;

typedef struct tt_generator tt_generator; /* counter-based random state: (seed, offset). Own lock. */
typedef union tt_number { int64_t i; double f; double c[2]; uint8_t bits[16]; } tt_number;

typedef struct tt_arg {
  uint8_t tag, dtype;
  bool wrapped;
  uint32_t count;
  union {
    const tt_tensor *tensor;
    tt_number number; /* u64 and i64 in .i, every other real type in .f, complex in .c, bool in .i */
    const char *string;
    const struct tt_arg *list;
    tt_generator *generator;
  };
} tt_arg;

typedef struct tt_op tt_op; /* a row of the lowering table */
/* Finds the row of a base operator, "add.Tensor" or "mm", or NULL. */
TT_API const tt_op *tt_op_find(const char *name);

/* An operator overload as it is called: the row that lowers it and what its schema says. Made once, lives for ever. */
typedef struct tt_variant {
  const tt_op *op;
  const char *name;      /* with overload, "add_.Tensor": for messages, counters */
  uint32_t id;           /* unique in the process; part of the key */
  uint8_t n_args, n_results;
  bool foreach;          /* the row is applied to the i-th elements of its list arguments, for every i */
  bool graph;            /* a captured graph: numbers in 0-dim host tensors are run-time operands */
  uint64_t written;      /* bit i: argument i (or, in a list, each of its elements) is written by the call */
  int8_t alias[16];      /* result k is argument alias[k] itself; -1: a new tensor */
  void *user;            /* the tt_decompose_fn's, for rows without a C rule (op->rule == NULL) */
} tt_variant;
TT_API uint32_t tt_variant_new_id(void);

/* What a call has to return, from torch's Meta kernels or, in plain C, from the caller. */
typedef struct tt_output {
  bool defined;          /* false: torch returns an undefined tensor here */
  uint8_t dtype, rank;
  const int64_t *sizes, *strides; /* borrowed for the call */
} tt_output;

/* Strict: a call is submitted when it is made. Debug: it also waits for its results, and conditions on values (indices
 * in range ...) raise as they do on the CPU. Fuse: calls may be put off, to run as one program. */
typedef enum tt_mode { TT_MODE_STRICT, TT_MODE_DEBUG, TT_MODE_FUSE } tt_mode;
enum { TT_MODES = 3, TT_MODE_MASK = 3, TT_MODE_NONFINITE = 4, TT_SETTINGS = 8, TT_MODE_UNSET = 255 };
/* Settings are a mode, with TT_MODE_NONFINITE added: in Debug mode the call fails that makes the first nan or infinity.
 * The process has some, at first those of the environment; a thread may have its own for a while. */
TT_API void tt_mode_set(unsigned settings);       /* the process's */
TT_API unsigned tt_mode_settings(void); /* of the calling thread: its own, those it inherits, else the process's */
TT_API tt_mode tt_get_mode(void);                 /* their mode */
/* Gives the calling thread settings of its own; returns what it had, for tt_mode_leave: TT_MODE_UNSET if none. */
TT_API unsigned tt_mode_enter(unsigned settings);
TT_API void tt_mode_leave(unsigned before);
/* inherited() is asked in threads without own settings while any thread has some; TT_MODE_UNSET: the process's hold. */
TT_API void tt_mode_set_inherited(unsigned (*inherited)(void));
TT_API tt_code tt_mode_from_env(unsigned *settings, tt_error *err); /* what the environment says: docs/environment.md */
/* Set by tt_call_begin. DEBUG: conditions are checked. NONFINITE: also of what is computed. Parts of the key. WAIT: the
 * call waits for its results; no part of it. */
enum { TT_CALL_DEBUG = 8, TT_CALL_NONFINITE = 16, TT_CALL_WAIT = 64 };

enum { TT_CALL_ARGS = 24, TT_CALL_SLOTS = 24, TT_CALL_WORDS = 160, TT_CALL_SYMBOLS = 4 };

/* How an output of a bucketed plan follows from the call's symbols: dim i has addend[i] elements, and as many more as
 * symbol symbols[i] - 1 says (0: none). */
typedef struct tt_shape {
  uint8_t symbols[TT_MAX_RANK];
  uint32_t padded;         /* bit b: dim b of the base has tt_bucket(n, least) places */
  uint8_t least;
  int64_t addend[TT_MAX_RANK];
  int64_t sizes[TT_MAX_RANK], strides[TT_MAX_RANK]; /* of the program's output */
} tt_shape;


/* One call. Fill variant, client, device, args, flags; the rest belongs to the core. On the caller's stack. */
typedef struct tt_call {
  const tt_variant *variant;
  tt_client *client;
  int device;
  uint32_t
      flags; /* bits 0-1: float32 matmul precision, 0 highest 1 high 2 medium; bit 2: deterministic; TT_CALL_DEBUG */
  const tt_arg *args;      /* variant->n_args of them, borrowed until the call returns */
  const char
      *place; /* what failures name in place of the operator: it and its line. Borrowed for ever; NULL: the operator */
  /* Private: distinct storages in order of first use, the key, run-time values. Spill to the heap when large. */
  uint32_t n_slots, n_words, cap_slots, cap_words;
  bool shares; /* two of its tensors are of one storage */
  bool unbucketed; /* its sizes are static whatever the operands are */
  bool grows;  /* its result will be appended to: padded */
  uint8_t n_symbols; /* set by tt_call_begin: not 0 where padded operands make it a bucketed call (below) */
  int64_t symbols[TT_CALL_SYMBOLS]; /* the distinct sizes that vary */
  uint8_t least[TT_CALL_SYMBOLS];   /* and of what capacity they are at least */
  const tt_shape *shapes; /* of the outputs of a bucketed call: for tt_plan_build */
  tt_storage **slots;
  uint64_t *words;
  uint64_t hash;
  tt_storage *slots_inline[TT_CALL_SLOTS];
  uint64_t words_inline[TT_CALL_WORDS];
} tt_call;

typedef struct tt_plan tt_plan; /* lives for ever; any thread */

/* Packs the key of *call. Must precede the functions below; tt_call_end releases what it spilled. */
TT_API tt_code tt_call_begin(tt_call *call, tt_error *err);
TT_API void tt_call_end(tt_call *call);
TT_API void tt_call_describe(const tt_call *call, char *out, size_t room); /* "add.Tensor(float32[3], float32[3])" */
/* The plan for the call if it is known: no lock, no allocation. Borrowed; NULL on a miss. */
TT_API const tt_plan *tt_plan_find(const tt_call *call);
/* Lowers and compiles the call. outputs: the new tensors it returns, in order, lists flattened, results that are
 * arguments themselves (variant->alias) left out; output k of a plan counts in the same way. Threads that ask for the
 * same key at once wait for the first; other keys compile at the same time. Borrowed. UNIMPLEMENTED: it has no
 * lowering. */
TT_API const tt_plan *tt_plan_build(const tt_call *call, const tt_output *outputs, int n_outputs, tt_error *err);
/* Runs the plan: results[k], for each output k, gets a new storage (NULL where the output is not defined), and written
 * arguments get their new contents. On failure nothing has changed. */
TT_API tt_code tt_plan_run(const tt_plan *plan, const tt_call *call, tt_storage **results, tt_error *err);
TT_API const tt_output *tt_plan_output(const tt_plan *plan, int k); /* borrowed for ever */
TT_API int tt_plan_output_count(const tt_plan *plan);

/* ---- sizes that vary ----
 * A storage may be padded: its buffer has room for tt_bucket(n, least) where its base says n. A call on such storages
 * whose row allows it is bucketed: tt_call_begin sets n_symbols, and its plan serves all sizes up to the same
 * capacities. To build one, ask torch what the call returns with the sizes at capacity, and once for each symbol with
 * that one less (tt_call_tensor_at gives its tensors so), then tt_call_shapes. tt_call_unbucket makes it an ordinary
 * call. */
TT_API int64_t tt_bucket(int64_t n, int least); /* the capacity for n: a power of two, 2^least at least */
TT_API bool tt_storage_is_padded(const tt_storage *s);
/* A tensor of the call with its sizes (rank entries each) at capacity, symbol less (-1: none) one below it. */
TT_API void tt_call_tensor_at(tt_call *call, const tt_tensor *t, int less, int64_t *sizes, int64_t *strides,
                              int64_t *offset);
/* Fills shapes and makes outputs, which are those at capacity, the program's; less[s]: those with symbol s one less.
 * False: sizes or strides do not follow from the symbols in a way that is understood. */
TT_API bool tt_call_shapes(const tt_call *call, tt_output *outputs, const tt_output *const *less, int n_outputs,
                           tt_shape *shapes);
/* Keys it anew as a call of static sizes; refused: and the next calls of its key at once. */
TT_API tt_code tt_call_unbucket(tt_call *call, bool refused, tt_error *err);
/* What output k of a bucketed plan is in this call: sizes and strides, rank entries each. */
TT_API void tt_plan_shape(const tt_plan *plan, const tt_call *call, int k, int64_t *sizes, int64_t *strides);

/* ---- traces: several calls as one program ----
 * While a trace is on top of a thread, calls whose operands are traced storages add to its program and nothing runs. */
typedef struct tt_trace tt_trace;
TT_API tt_trace *tt_trace_current(void); /* of this thread, or NULL */
/* Adds the call to the current trace; outputs and results as in tt_plan_build and tt_plan_run, their contents are
 * values of the trace. */
TT_API tt_code tt_trace_call(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs,
                             tt_storage **results, tt_error *err);
/* Puts dense row-major host data into the program as a constant; returns a traced storage. New. */
TT_API tt_storage *tt_trace_constant(tt_trace *t, tt_dtype dtype, int rank, const int64_t *dims, const void *data,
                                     tt_error *err);

/* Loops and branches of the current trace. part is called once for each of their parts (0: a loop's condition or the
 * branch taken where the predicate is true, 1: the other) with its arguments, dense storages of the carried tensors'
 * sizes (a branch has none), and fills results as tt_decompose_fn does. results: new, dense, of the carried tensors'
 * sizes. */
typedef tt_code tt_trace_part(void *user, int part, tt_storage *const *args, int n_args, tt_tensor *results,
                              int n_results, tt_error *err);
TT_API tt_code tt_trace_while(tt_trace *t, int n, const tt_tensor *carried, tt_trace_part *part, void *user,
                              tt_storage **results, tt_error *err);
TT_API tt_code tt_trace_if(tt_trace *t, const tt_tensor *predicate, int n, const tt_output *outputs,
                           tt_trace_part *part, void *user, tt_storage **results, tt_error *err);
/* x[index], and x with row at index, along its first dim; index: one integer, clamped. New. */
TT_API tt_storage *tt_trace_row(tt_trace *t, const tt_tensor *x, const tt_tensor *index, tt_error *err);
TT_API tt_storage *tt_trace_with_row(tt_trace *t, const tt_tensor *x, const tt_tensor *row, const tt_tensor *index,
                                     tt_error *err);
/* The random state at this point as i64[2], new; and draws from such a state from here on, or, NULL, from the program's
 * own. */
TT_API tt_storage *tt_trace_random_state(tt_trace *t, tt_error *err);
TT_API tt_code tt_trace_set_random_state(tt_trace *t, const tt_tensor *state, tt_error *err);

TT_API void *tt_trace_alloc(tt_trace *t, size_t bytes); /* zeroed; lives as long as the trace */

/* How calls without a C rule are lowered: the shim's function, which traces a Python decomposition or a captured graph.
 * args have traced storages in place of the caller's: dense copies of what the call's tensors hold, with their sizes
 * and dense strides of the same order. It fills results, one for each output: new references in .storage (NULL:
 * undefined), sizes and strides from tt_trace_alloc. Written arguments are written in their traced storages. */
typedef tt_code tt_decompose_fn(tt_trace *t, const tt_variant *v, const tt_arg *args, tt_tensor *results, int n,
                                tt_error *err);
TT_API void tt_set_decompose(tt_decompose_fn *fn);

TT_API const tt_op *tt_op_without_rule(void); /* the row of every operator that is lowered by decomposition */

/* ---- DeferAndFuse: calls are recorded in a window of their device and run together ----
 * In this mode tt_plan_run records. A window is flushed when a host read, a strict call or an upload needs what it is
 * to fill, when it is full, when another thread goes on with it, and by tt_flush. One that repeats (the same plans,
 * wired in the same way, with the same results still wanted) is one executable; what nobody wants any more is not
 * computed. An error comes at the flush, and again at each read of what could not be computed. */
typedef enum tt_flush_reason {
  TT_FLUSH_READ, TT_FLUSH_FULL, TT_FLUSH_HANDED, TT_FLUSH_ASKED, TT_FLUSH_REASONS
} tt_flush_reason;
TT_API tt_code tt_flush(int device, tt_error *err); /* submits what is recorded; -1: of all devices */
/* some window is: the caller should call tt_flush_full soon, where it may take long */
TT_API bool tt_window_full(void);
TT_API tt_code tt_flush_full(tt_error *err);
/* Another thread recorded in the device's window: the caller, who is about to run a plan, should call tt_flush_handed
 * first, where it may take long. That runs a window of many records: so forward runs while backward is recorded, and
 * backward while the optimizer's step is. */
TT_API bool tt_window_handed(int device);
TT_API void tt_flush_handed(int device);
/* waits until no program is being compiled in the background; stop: none begins any more, at once */
TT_API void tt_fuse_wait(bool stop);
/* How flushes went since the process began: windows and records by reason, windows run as one program. */
typedef struct tt_fuse_counters {
  int64_t windows[TT_FLUSH_REASONS], records[TT_FLUSH_REASONS], fused, replayed;
} tt_fuse_counters;
TT_API void tt_fuse_counters_get(tt_fuse_counters *out);

/* ---- random state ---- */
TT_API tt_generator *tt_generator_create(uint64_t seed, tt_error *err); /* new */
TT_API void tt_generator_destroy(tt_generator *g);
TT_API tt_generator *tt_generator_default(int device); /* what calls without a generator draw from; lives for ever */
TT_API void tt_generator_get(tt_generator *g, uint64_t *seed, uint64_t *offset);
/* Takes n draws: the state before them; the offset moves on by n. */
TT_API void tt_generator_draw(tt_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset);
TT_API void tt_generator_set(tt_generator *g, uint64_t seed, uint64_t offset);

/* ---- counters ---- */
typedef struct tt_counters {
  int64_t compiles, cache_hits_plan, cache_hits_memory, cache_hits_disk, cache_hits_shared, cache_misses, cache_rejects,
      executions, bytes_to_device, bytes_from_device, scalar_uploads, live_storages, live_buffers, live_bytes,
      peak_bytes;
} tt_counters;
TT_API void tt_counters_get(tt_counters *out);
TT_API void tt_counters_reset_peak(void);
/* Refuses storages that would take the live bytes of the device beyond the limit, with RESOURCE_EXHAUSTED; 0: no limit
 * but the device's. */
TT_API void tt_set_memory_limit(int device, int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
