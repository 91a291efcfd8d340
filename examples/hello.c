/* hello.c: adds two tensors on a device, in plain C, through the same path as a PyTorch call.
 *
 *   ./hello path/to/plugin.so        (or with the path in TORCH_TPU_PLUGIN)
 *
 * A call is data: an operator, its arguments, and what it returns. Its key finds a plan, or lowers and compiles one. */
#include <stdio.h>
#include <stdlib.h>
#include "tt.h"

static int complain(const tt_error *err) {
  fprintf(stderr, "%s: %s: %s\n", tt_code_name(err->code), err->where, err->message);
  return 1;
}

/* A storage with six floats in the shape [2, 3]. */
static tt_storage *storage_of(tt_client *client, const float *values, const int64_t *sizes, tt_error *err) {
  tt_storage *s = tt_storage_create(client, 0, 6 * sizeof *values, err);
  tt_buffer *b = s ? tt_buffer_from_host(client, 0, TT_F32, 2, sizes, values, err) : NULL;
  if (b && !tt_storage_set(s, b, err)) return s;
  tt_buffer_release(b);
  tt_storage_release(s);
  return NULL;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : getenv("TORCH_TPU_PLUGIN");
  if (!path) return fprintf(stderr, "usage: %s PLUGIN.so\n", argv[0]), 2;
  tt_error err = {0};
  tt_plugin *plugin = tt_plugin_load(path, &err);
  tt_client *client = plugin ? tt_client_create(plugin, 1, &err) : NULL;
  if (!client) return complain(&err);

  const int64_t sizes[2] = {2, 3}, strides[2] = {3, 1};
  const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {10, 20, 30, 40, 50, 60};
  tt_storage *a = storage_of(client, x, sizes, &err), *b = a ? storage_of(client, y, sizes, &err) : NULL, *sum = NULL;
  if (!b) return complain(&err);

  /* torch.add(self, other, alpha=0.5): the schema has three arguments and one result, a new tensor. */
  tt_variant add = {.op = tt_op_find("add.Tensor"),
                    .name = "add.Tensor",
                    .id = tt_variant_new_id(),
                    .n_args = 3,
                    .n_results = 1,
                    .alias = {-1}};
  if (!add.op) return fprintf(stderr, "add.Tensor has no row\n"), 1;
  tt_tensor self = {.storage = a, .sizes = sizes, .strides = strides, .dtype = TT_F32, .rank = 2};
  tt_tensor other = {.storage = b, .sizes = sizes, .strides = strides, .dtype = TT_F32, .rank = 2};
  tt_arg args[3] = {{.tag = TT_ARG_TENSOR, .tensor = &self}, {.tag = TT_ARG_TENSOR, .tensor = &other},
                    {.tag = TT_ARG_SCALAR, .dtype = TT_F64, .number.f = 0.5}};
  tt_output result = {.defined = true, .dtype = TT_F32, .rank = 2, .sizes = sizes, .strides = strides};

  tt_call call = {.variant = &add, .client = client, .device = 0, .args = args};
  if (tt_call_begin(&call, &err)) return complain(&err);
  const tt_plan *plan = tt_plan_find(&call);
  if (!plan) plan = tt_plan_build(&call, &result, 1, &err);
  if (!plan || tt_plan_run(plan, &call, &sum, &err)) return complain(&err);
  tt_call_end(&call);

  float out[6];
  if (tt_storage_to_host(sum, out, sizeof out, &err)) return complain(&err);
  printf("on %s:", tt_client_platform(client));
  for (int i = 0; i < 6; i++) printf(" %g", (double)out[i]);
  printf("\n");
  tt_storage_release(sum);
  tt_storage_release(b);
  tt_storage_release(a);
  return 0;
}
