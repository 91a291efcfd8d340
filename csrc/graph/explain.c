/* explain.c: why programs were compiled: the keys of calls that asked for them, in words, in a ring.
 *
 * A compile takes milliseconds, so each is remembered; nothing here runs on a hit. Who prints compares a key with
 * earlier ones of the same operator (torch_tpu/_explain.py). */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "graph/explain.h"
#include "graph/graph.h"

enum { LIMIT = 2048, LONGEST = 2048 };
/* text: operator, place and parts, each with its 0 */
static struct compile { char *text; double milliseconds; } ring[LIMIT];
static uint64_t made;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add_tensor(tt_buf *b, const tt_tensor *t) {
  char shape[300];
  int order[TT_MAX_RANK];
  tt_describe_shape(shape, sizeof shape, (tt_dtype)t->dtype, t->rank, t->sizes);
  tt_buf_text(b, shape);
  int64_t dense[TT_MAX_RANK];
  tt_strides_contiguous(t->rank, t->sizes, dense);
  if (memcmp(dense, t->strides, t->rank * sizeof *dense)) {
    tt_buf_text(b, tt_strides_dense(t->rank, t->sizes, t->strides, order) ? " in the order of strides ["
                                                                          : " with strides [");
    for (int i = 0; i < t->rank; i++) tt_buf_printf(b, i ? ", %lld" : "%lld", (long long)t->strides[i]);
    tt_buf_text(b, "]");
  }
  if (!tt_tensor_is_whole(t)) tt_buf_text(b, ", a view");
}

static void add_arg(tt_buf *b, const tt_call *call, const tt_arg *a) {
  const tt_op *op = call->variant->op;
  switch (a->tag) {
    case TT_ARG_TENSOR: add_tensor(b, a->tensor); break;
    case TT_ARG_SCALAR: case TT_ARG_HOST:
      if (op->rule && !(op->flags & OP_STATIC_SCALARS)) tt_buf_printf(b, "any %s", tt_dtype_name((tt_dtype)a->dtype));
      else if (a->dtype == TT_F64) tt_buf_printf(b, "%g", a->number.f);
      else tt_buf_printf(b, "%lld", (long long)a->number.i);
      break;
    case TT_ARG_INT: tt_buf_printf(b, "%lld", (long long)a->number.i); break;
    case TT_ARG_BOOL: tt_buf_text(b, a->number.i ? "True" : "False"); break;
    case TT_ARG_DTYPE: tt_buf_text(b, tt_dtype_name((tt_dtype)a->dtype)); break;
    case TT_ARG_STRING: tt_buf_text(b, a->string); break;
    case TT_ARG_LIST:
      tt_buf_text(b, "[");
      for (uint32_t i = 0; i < a->count && b->length < LONGEST; i++) {
        if (i) tt_buf_text(b, ", ");
        add_arg(b, call, &a->list[i]);
      }
      tt_buf_text(b, "]");
      break;
    default: tt_buf_text(b, "None");
  }
}

void tt_explain_compile(const tt_call *call, double milliseconds) {
  tt_buf b = {0};
  const char *name = call ? call->variant->name : "window", *place = call && call->place ? call->place : "";
  tt_buf_append(&b, name, strlen(name) + 1);
  tt_buf_append(&b, place, strlen(place) + 1);
  if (call) {
    tt_buf_printf(&b, "mode: %s",
                  call->flags & TT_CALL_NONFINITE ? "debug, non-finite"
                  : call->flags & TT_CALL_DEBUG   ? "debug"
                                                  : "strict");
    tt_buf_printf(&b, "\nprecision: %u", call->flags & 3u);
    for (int i = 0; i < call->variant->n_args && b.length < LONGEST; i++) {
      tt_buf_printf(&b, "\nargument %d: ", i);
      add_arg(&b, call, &call->args[i]);
    }
  }
  tt_buf_append(&b, "", 1);
  if (b.failed) {
    tt_buf_deinit(&b);
    return;
  }
  pthread_mutex_lock(&lock);
  struct compile *c = &ring[made++ % LIMIT];
  char *old = c->text;
  *c = (struct compile){b.data, milliseconds};
  pthread_mutex_unlock(&lock);
  tt_free(old);
}

void tt_explain_each(void (*each)(void *user, const char *op, const char *parts, const char *place,
                                  double milliseconds),
                     void *user) {
  pthread_mutex_lock(&lock);
  for (uint64_t i = made > LIMIT ? made - LIMIT : 0; i < made; i++) {
    const char *op = ring[i % LIMIT].text, *place = op + strlen(op) + 1;
    each(user, op, place + strlen(place) + 1, place, ring[i % LIMIT].milliseconds);
  }
  pthread_mutex_unlock(&lock);
}

void tt_explain_clear(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < LIMIT; i++) {
    tt_free(ring[i].text);
    ring[i].text = NULL;
  }
  made = 0;
  pthread_mutex_unlock(&lock);
}
