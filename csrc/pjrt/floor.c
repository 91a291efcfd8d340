/* floor.c: what the bare PJRT call costs here: the floor that bench/ measures operators against.
 *
 * One executable, add of two f32[8,8], run n times with nothing around it: no records, no events, no plan. */
#include <time.h>
#include "pjrt/call.h"

static const char program[] =
    "module @floor { func.func public @main(%0: tensor<8x8xf32>, %1: tensor<8x8xf32>) -> tensor<8x8xf32> {\n"
    "  %2 = stablehlo.add %0, %1 : tensor<8x8xf32>\n  return %2 : tensor<8x8xf32> } }\n";

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

double tt_floor_execute(tt_client *c, int n, tt_error *err) {
  tt_plugin *p = c->plugin;
  PJRT_Program source = {.struct_size = PJRT_Program_STRUCT_SIZE,
                         .code = (char *)program,
                         .code_size = sizeof program - 1,
                         .format = "mlir",
                         .format_size = 4};
  PJRT_ARGS(PJRT_Client_Compile_Args, compile, .client = c->client, .program = &source, .compile_options = c->options,
            .compile_options_size = c->options_length);
  if (PJRT_CALL(p, PJRT_Client_Compile, &compile, err)) return -1;
  float data[64] = {0};
  int64_t dims[2] = {8, 8};
  double ns = -1;
  tt_buffer *a = tt_buffer_from_host(c, 0, TT_F32, 2, dims, data, err);
  tt_buffer *b = a ? tt_buffer_from_host(c, 0, TT_F32, 2, dims, data, err) : NULL;
  if (b && !tt_buffer_await(a, err) && !tt_buffer_await(b, err)) {
    PJRT_Buffer *in[2] = {a->buffer, b->buffer}, *out[1] = {NULL}, *const *in_list = in, **out_list = out;
    PJRT_ARGS(PJRT_ExecuteOptions, options, .launch_id = 0);
    PJRT_ARGS(PJRT_LoadedExecutable_Execute_Args, run, .executable = compile.executable, .options = &options,
              .argument_lists = &in_list, .num_devices = 1, .num_args = 2, .output_lists = &out_list,
              .execute_device = c->devices[0]);
    PJRT_ARGS(PJRT_Buffer_Destroy_Args, destroy, .buffer = NULL);
    int64_t start = now();
    int done = 0;
    for (; done < n && !PJRT_CALL(p, PJRT_LoadedExecutable_Execute, &run, err); done++) {
      destroy.buffer = out[0];
      PJRT_DROP(p, PJRT_Buffer_Destroy, &destroy);
    }
    if (done == n && n > 0) ns = (double)(now() - start) / n;
  }
  tt_buffer_release(a);
  tt_buffer_release(b);
  PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, drop, .executable = compile.executable);
  PJRT_DROP(p, PJRT_LoadedExecutable_Destroy, &drop);
  return ns;
}
