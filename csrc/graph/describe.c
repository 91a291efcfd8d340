/* describe.c: a call in words, for messages: "index.Tensor(float32[3], [int64[2]])".
 *
 * Tensors are told by dtype and sizes, other arguments are left out. Cuts what does not fit. */
#include <stdarg.h>
#include <stdio.h>
#include "graph/graph.h"

struct text { char *at; size_t room; };

static void add(struct text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(t->at, t->room, format, args);
  va_end(args);
  if (n < 0) return;
  size_t used = (size_t)n < t->room ? (size_t)n : t->room - 1;
  t->at += used;
  t->room -= used;
}

static void add_shape(struct text *t, tt_dtype dtype, int rank, const int64_t *dims) {
  add(t, "%s[", tt_dtype_name(dtype));
  for (int i = 0; i < rank; i++) add(t, i ? ", %lld" : "%lld", (long long)dims[i]);
  add(t, "]");
}

static void add_args(struct text *t, const tt_arg *args, uint32_t n) {
  bool first = true;
  for (uint32_t i = 0; i < n && t->room > 1; i++) {
    if (args[i].tag != TT_ARG_TENSOR && args[i].tag != TT_ARG_LIST) continue;
    if (args[i].tag == TT_ARG_LIST && (!args[i].count || args[i].list[0].tag != TT_ARG_TENSOR)) continue;
    if (!first) add(t, ", ");
    first = false;
    if (args[i].tag == TT_ARG_TENSOR) {
      add_shape(t, (tt_dtype)args[i].tensor->dtype, args[i].tensor->rank, args[i].tensor->sizes);
    } else {
      add(t, "[");
      add_args(t, args[i].list, args[i].count);
      add(t, "]");
    }
  }
}

void tt_describe_shape(char *out, size_t room, tt_dtype dtype, int rank, const int64_t *dims) {
  struct text t = {out, room};
  add_shape(&t, dtype, rank, dims);
}

void tt_call_describe(const tt_call *call, char *out, size_t room) {
  struct text t = {out, room};
  add(&t, "%s(", call->variant->name);
  add_args(&t, call->args, call->variant->n_args);
  add(&t, ")");
}
