/* aot.c: programs compiled ahead of time, for a topology instead of a client, and what the compiler tells of them.
 *
 * Such a program cannot run here. Where the machine is, the same bytes load as any cached executable does. */
#include <stdio.h>
#include <string.h>
#include "pjrt/topology.h"

struct tt_aot {
  tt_plugin *plugin;
  PJRT_Executable *executable;
  tt_buf options; /* it was compiled with */
  char kind[64];  /* of the devices it is for */
};

tt_aot *tt_aot_compile(tt_topology *t, const char *text, size_t length, int devices, const char *options,
                       tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (devices < 1 || devices > t->n_devices) {
    tt_fail(err, TT_INVALID_ARGUMENT, "", "expected 1 to %d devices, as many as the topology has, got %d", t->n_devices,
            devices);
    return NULL;
  }
  tt_buf written = {0};
  if (tt_options_for(devices, options, &written, err)) {
    tt_buf_deinit(&written);
    return NULL;
  }
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE, .code = (char *)text, .code_size = length,
                          .format = "mlir", .format_size = 4};
  PJRT_ARGS(PJRT_Compile_Args, args, .topology = t->topology, .program = &program, .compile_options = written.data,
            .compile_options_size = written.length);
  tt_topology_device first;
  if (tt_topology_device_get(t, 0, &first, err) || PJRT_CALL(t->plugin, PJRT_Compile, &args, err)) {
    tt_buf_deinit(&written);
    return NULL;
  }
  tt_aot *a = tt_alloc(sizeof *a);
  if (a) {
    *a = (tt_aot){t->plugin, args.executable, written, {0}};
    snprintf(a->kind, sizeof a->kind, "%s", first.kind);
    return a;
  }
  tt_buf_deinit(&written);
  PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy, .executable = args.executable);
  PJRT_DROP(t->plugin, PJRT_Executable_Destroy, &destroy);
  tt_no_memory(err, sizeof *a);
  return NULL;
}

void tt_aot_destroy(tt_aot *a) {
  if (!a) return;
  PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy, .executable = a->executable);
  PJRT_DROP(a->plugin, PJRT_Executable_Destroy, &destroy);
  tt_buf_deinit(&a->options);
  tt_free(a);
}

tt_process tt_aot_process(const tt_aot *a) {
  return (tt_process){tt_plugin_build(a->plugin), a->kind, a->options.data, a->options.length};
}

tt_code tt_aot_memory_get(tt_aot *a, tt_aot_memory *out, tt_error *err) {
  return tt_executable_memory(a->plugin, a->executable, out, err);
}

tt_code tt_aot_costs(tt_aot *a, void (*visit)(void *user, const char *name, size_t length, double value), void *user,
                     tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args, .executable = a->executable);
  if (PJRT_CALL(a->plugin, PJRT_Executable_GetCostAnalysis, &args, err)) return err->code;
  for (size_t i = 0; i < args.num_properties; i++) {
    const PJRT_NamedValue *v = &args.properties[i];
    if (v->type == PJRT_NamedValue_kFloat) visit(user, v->name, v->name_size, v->float_value);
    if (v->type == PJRT_NamedValue_kInt64) visit(user, v->name, v->name_size, (double)v->int64_value);
  }
  return TT_OK;
}

tt_code tt_aot_serialize(tt_aot *a, tt_buf *out, tt_error *err) {
  return tt_executable_write(a->plugin, a->executable, out, err);
}

tt_code tt_aot_optimized(tt_aot *a, tt_buf *out, const char **format, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE};
  PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, args, .executable = a->executable, .program = &program);
  if (PJRT_CALL(a->plugin, PJRT_Executable_OptimizedProgram, &args, err)) return err->code; /* tells the size */
  tt_buf_room(out, program.code_size);
  if (out->failed) return tt_no_memory(err, program.code_size);
  program.code = out->data + out->length;
  if (PJRT_CALL(a->plugin, PJRT_Executable_OptimizedProgram, &args, err)) return err->code;
  out->length += program.code_size;
  *format = program.format_size == 4 && !memcmp(program.format, "mlir", 4) ? "mlir" : "hlo";
  return TT_OK;
}
