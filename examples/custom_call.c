/* custom_call.c: a function in C that programs on the CPU call: the running maximum along the rows of a matrix.
 *
 *   gcc -shared -fPIC -I "$(python -c 'import jax; print(jax.ffi.include_dir())')" examples/custom_call.c -o rows.so
 *
 * and in Python
 *
 *   torch_tpu.kernels.custom_call("running_max", ctypes.CDLL("./rows.so").running_max)
 *   op = torch_tpu.kernels.stablehlo_op("mine::running_max", {"cpu": """module {
 *     func.func public @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
 *       %0 = stablehlo.custom_call @running_max(%x) {api_version = 4 : i32} : (tensor<4x3xf32>) -> tensor<4x3xf32>
 *       return %0 : tensor<4x3xf32>
 *     } }"""})
 *
 * A C program registers it by tt_custom_call_register() (csrc/tt_custom_call.h). */
#include <xla/ffi/api/c_api.h>

static XLA_FFI_Error *refuse(const XLA_FFI_Api *api, const char *message) {
  XLA_FFI_Error_Create_Args args = {
      .struct_size = sizeof args, .message = message, .errc = XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error *running_max(XLA_FFI_CallFrame *frame) {
  /* First it is asked which version of the interface it is written for: one that the plugin has, which leaves others out
   * without a word. What is used here has been there from the start. */
  for (XLA_FFI_Extension_Base *e = frame->extension_start; e; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *told = ((XLA_FFI_Metadata_Extension *)e)->metadata;
      told->api_version.major_version = XLA_FFI_API_MAJOR;
      told->api_version.minor_version = frame->api->api_version.minor_version;
      return NULL;
    }
  if (frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  if (frame->args.size != 1 || frame->rets.size != 1) return refuse(frame->api, "running_max: expected one operand");
  const XLA_FFI_Buffer *x = frame->args.args[0], *y = frame->rets.rets[0];
  if (x->dtype != XLA_FFI_DataType_F32 || x->rank != 2)
    return refuse(frame->api, "running_max: expected a float32 matrix");
  const float *from = x->data;
  float *to = y->data;
  for (int64_t i = 0; i < x->dims[0]; i++)
    for (int64_t j = 0; j < x->dims[1]; j++, from++, to++) *to = j && to[-1] > *from ? to[-1] : *from;
  return NULL;
}
