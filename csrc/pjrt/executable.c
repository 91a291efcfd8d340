/* executable.c: compiled programs: compile, run, serialize.
 *
 * The run is the hot path: stack arrays, records of results taken from a pool before anything is submitted, so that
 * nothing can fail afterwards, and one completion event, which tells when the work has ended and how (event.c says what
 * it costs). Refuses to ask PJRT what a result is: the plan knows. */
#include <stdio.h>
#include <string.h>
#include "pjrt/call.h"

/* XLA's CPU client runs a program inside Execute if it is cheap, which is a fact of the program, and its operands are
 * ready. So one that had ended on return often enough will do so whenever nothing is under way on its device; then the
 * completion event is left out, but for one run in SAMPLE, lest the guess go wrong unseen. */
enum { PROVEN = 32, SAMPLE = 32 };

struct tt_executable {
  tt_client *client;
  PJRT_LoadedExecutable *loaded;
  void *tag;
  int64_t temporary; /* bytes that a run takes beside arguments and results; 0 where the plugin does not tell */
  atomic_uint ended_at_once;   /* runs in a row; only on CPU clients */
};

static _Atomic int64_t live;
int64_t tt_executables_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }

/* What a loaded executable was made from; NULL with err. To be dropped. */
static PJRT_Executable *executable_of(tt_plugin *p, PJRT_LoadedExecutable *loaded, tt_error *err) {
  PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get, .loaded_executable = loaded);
  return PJRT_CALL(p, PJRT_LoadedExecutable_GetExecutable, &get, err) ? NULL : get.executable;
}

static void drop(tt_plugin *p, PJRT_Executable *e) {
  PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy, .executable = e);
  PJRT_DROP(p, PJRT_Executable_Destroy, &destroy);
}

tt_code tt_executable_memory(tt_plugin *p, PJRT_Executable *e, tt_aot_memory *out, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, m, .executable = e);
  if (PJRT_CALL(p, PJRT_Executable_GetCompiledMemoryStats, &m, err)) return err->code;
  *out = (tt_aot_memory){.code = m.generated_code_size_in_bytes,
                         .argument = m.argument_size_in_bytes,
                         .output = m.output_size_in_bytes,
                         .alias = m.alias_size_in_bytes,
                         .temporary = m.temp_size_in_bytes,
                         .peak = m.peak_memory_in_bytes};
  return TT_OK;
}

static int64_t temporary_bytes(tt_plugin *p, PJRT_LoadedExecutable *loaded) {
  tt_error ignored;
  PJRT_Executable *e = executable_of(p, loaded, &ignored);
  if (!e) return 0;
  tt_aot_memory m = {0};
  tt_executable_memory(p, e, &m, &ignored);
  drop(p, e);
  return m.temporary;
}

static tt_executable *adopt(tt_client *c, PJRT_LoadedExecutable *loaded, tt_error *err) {
  tt_executable *e = tt_alloc(sizeof *e);
  if (e) {
    e->client = c;
    e->loaded = loaded;
    e->tag = NULL;
    e->temporary = temporary_bytes(c->plugin, loaded);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return e;
  }
  PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, destroy, .executable = loaded);
  PJRT_DROP(c->plugin, PJRT_LoadedExecutable_Destroy, &destroy);
  tt_no_memory(err, sizeof *e);
  return NULL;
}

tt_executable *tt_executable_compile(tt_client *c, const char *text, size_t length, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)text, .code_size = length,
                          .format = "mlir", .format_size = 4};
  size_t n;
  const void *options = tt_compile_options(c, &n);
  PJRT_ARGS(PJRT_Client_Compile_Args, args, .client = c->client, .program = &program,
            .compile_options = (char *)options, .compile_options_size = n);
  if (PJRT_CALL(c->plugin, PJRT_Client_Compile, &args, err)) return NULL;
  tt_tally(compiles, 1);
  return adopt(c, args.executable, err);
}

tt_code tt_executable_write(tt_plugin *p, PJRT_Executable *e, tt_buf *out, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_Executable_Serialize_Args, args, .executable = e);
  if (PJRT_CALL(p, PJRT_Executable_Serialize, &args, err)) return err->code;
  tt_buf_append(out, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return out->failed ? tt_no_memory(err, args.serialized_bytes_size) : TT_OK;
}

tt_code tt_executable_serialize(tt_executable *e, tt_buf *out, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  tt_plugin *p = e->client->plugin;
  PJRT_Executable *made = executable_of(p, e->loaded, err);
  if (!made) return err->code;
  tt_code code = tt_executable_write(p, made, out, err);
  drop(p, made);
  return code;
}

tt_executable *tt_executable_deserialize(tt_client *c, const void *data, size_t length, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args, .client = c->client, .serialized_executable = data,
            .serialized_executable_size = length);
  if (PJRT_CALL(c->plugin, PJRT_Executable_DeserializeAndLoad, &args, err)) return NULL;
  return adopt(c, args.loaded_executable, err);
}

void tt_executable_release(tt_executable *e) {
  if (!e) return;
  PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, destroy, .executable = e->loaded);
  PJRT_DROP(e->client->plugin, PJRT_LoadedExecutable_Destroy, &destroy);
  atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
  tt_free(e);
}

void **tt_executable_tag(tt_executable *e) { return &e->tag; }

enum { INLINE = 64 };

tt_code tt_executable_run(tt_executable *e, int device, const char *name, int n_args, tt_buffer *const *args,
                          const bool *donate, int n_results, const tt_type *types, tt_buffer **results, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  tt_client *c = e->client;
  PJRT_Buffer *in_stack[INLINE], *out_stack[INLINE], **in = in_stack, **out = out_stack;
  int64_t kept_stack[INLINE], *kept = kept_stack; /* compiled as donated, but held by somebody else too */
  void *heap = NULL;
  if (n_args > INLINE || n_results > INLINE) {
    size_t bytes = (size_t)(n_args + n_results) * sizeof *in + (size_t)n_args * sizeof *kept;
    if (!(heap = tt_alloc(bytes))) return tt_no_memory(err, bytes);
    in = heap;
    out = in + n_args;
    kept = (int64_t *)(out + n_results);
  }
  tt_code code = TT_OK;
  size_t n_kept = 0, n_given = 0;
  for (int i = 0; i < n_args; i++) {
    tt_buffer *b = args[i];
    in[i] = b->buffer;
    if (__builtin_expect(b->spent, 0))
      code = tt_fail(err, TT_FAILED_PRECONDITION, name, "operand %d's memory was given to a program", i);
    if (!donate[i]) continue;
    if (tt_buffer_unique(b)) n_given++;
    else kept[n_kept++] = i;
  }
  if (!code) code = tt_buffer_reserve(n_results, results, err);
  if (code) {
    tt_free(heap);
    return code;
  }
  PJRT_Buffer *const *in_list = in;
  PJRT_Buffer **out_list = out;
  PJRT_Event *done = NULL;
  unsigned streak = atomic_load_explicit(&e->ended_at_once, memory_order_relaxed);
  bool told = streak < PROVEN || streak % SAMPLE == 0 || !tt_inflight_none(c, device);
  PJRT_ARGS(PJRT_ExecuteOptions, options, .non_donatable_input_indices = kept,
            .num_non_donatable_input_indices = n_kept);
  PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, run, .executable = e->loaded, .options = &options,
            .argument_lists = &in_list, .num_devices = 1, .num_args = (size_t)n_args, .output_lists = &out_list,
            .device_complete_events = told ? &done : NULL, .execute_device = c->devices[device]);
  code = PJRT_CALL(c->plugin, PJRT_LoadedExecutable_Execute, &run, err);
  if (code) {
    snprintf(err->where, sizeof err->where, "%s", name);
    tt_buffer_unreserve(n_results, results);
    tt_free(heap);
    return code;
  }
  if (tt_log_level > 1) tt_log("%s on device %d", name, device);
  uint64_t place = told && done ? tt_inflight_add(c, device, done, name) : 0;
  bool at_once = !told || (done && !place);
  if (n_given)
    for (int i = 0, k = 0; i < n_args; i++) {
      if (!donate[i]) continue;
      if (k < (int)n_kept && kept[k] == i) k++;
      else tt_buffer_spend(args[i], place);
    }
  for (int k = 0; k < n_results; k++) tt_buffer_init(results[k], c, device, out[k], &types[k], name);
  if (e->temporary) tt_count_temporary(device, e->temporary);
  if (c->is_cpu) atomic_store_explicit(&e->ended_at_once, at_once ? streak + 1 : 0, memory_order_relaxed);
  tt_free(heap);
  return TT_OK;
}
