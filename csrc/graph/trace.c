/* trace.c: several calls as one program: what decompositions and captured graphs are lowered by.
 *
 * The arguments of the outermost call are handed to the decompose function as shadows: tensors over traced storages
 * that start as dense copies of what the call's tensors hold. Whatever runs on this thread meanwhile adds to the
 * program. */
#include <string.h>
#include "graph/graph.h"
#include "hlo/share.h"

static _Thread_local tt_trace *current;
static tt_decompose_fn *decompose_fn;
static const tt_op without_rule = {.name = "", .hlo = "", .synopsis = "lowered by decomposition"};

tt_trace *tt_trace_current(void) { return current; }
void tt_set_decompose(tt_decompose_fn *fn) { decompose_fn = fn; }
const tt_op *tt_op_without_rule(void) { return &without_rule; }

tt_code tt_trace_init(tt_trace *t, const tt_call *call, tt_error *err) {
  memset(t, 0, sizeof *t);
  t->call = call;
  if (!(t->m = hlo_module_create(err))) return err ? err->code : TT_RESOURCE_EXHAUSTED;
  if (tt_client_lowers_for_tpu(call->client)) hlo_lower_for_tpu(t->m);
  if (call->variant->graph) hlo_share_lines(t->m);
  t->slot_values = hlo_alloc(t->m, (call->n_slots + 1) * sizeof *t->slot_values);
  t->slot_operands = hlo_alloc(t->m, (call->n_slots + 1) * sizeof *t->slot_operands);
  t->slot_written = hlo_alloc(t->m, (call->n_slots + 1) * sizeof *t->slot_written);
  if (!t->slot_values || !t->slot_operands || !t->slot_written) {
    tt_trace_deinit(t);
    return tt_no_memory(err, call->n_slots * sizeof *t->slot_values);
  }
  for (uint32_t i = 0; i < call->n_slots; i++) t->slot_operands[i] = -1;
  return TT_OK;
}

void tt_trace_deinit(tt_trace *t) {
  for (uint32_t i = 0; i < t->n_made; i++) {
    tt_storage *s = t->made[i];
    s->trace = NULL;
    s->traced = NULL;
    s->escaped = true; /* seen only by who kept it beyond the trace */
    tt_storage_release(s);
  }
  for (uint32_t i = 0; i < t->n_operands; i++)
    if (t->operands[i].source == FROM_CAPTURE) tt_storage_release(t->operands[i].capture);
  tt_free(t->made);
  tt_free(t->operands);
  tt_free(t->operand_values);
  hlo_module_destroy(t->m);
}

tt_code tt_trace_adopt(tt_trace *t, tt_storage *s, tt_error *err) {
  if (t->n_made == t->cap_made) {
    uint32_t capacity = t->cap_made ? 2 * t->cap_made : 32;
    tt_storage **made = tt_realloc(t->made, capacity * sizeof *made);
    if (!made) return tt_no_memory(err, capacity * sizeof *made);
    t->made = made;
    t->cap_made = capacity;
  }
  s->trace = t;
  s->traced = NULL;
  t->made[t->n_made++] = tt_storage_retain(s);
  return TT_OK;
}

tt_storage *tt_trace_storage(tt_trace *t, hlo value, tt_error *err) {
  size_t bytes = (size_t)hlo_numel(value) * tt_dtype_bits(value->dtype) / 8;
  tt_storage *s = tt_storage_create(t->call->client, t->call->device, bytes, err);
  if (!s) return NULL;
  if (tt_trace_adopt(t, s, err)) {
    tt_storage_release(s);
    return NULL;
  }
  tt_storage_base(s, value->dtype, value->rank, value->dims);
  s->traced = value;
  return s;
}

void *tt_trace_alloc(tt_trace *t, size_t bytes) { return hlo_alloc(t->m, bytes); }

static tt_code module_error(tt_trace *t, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  hlo_get_error(t->m, err);
  return err->code ? err->code : TT_INTERNAL;
}

tt_code tt_trace_call(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, tt_storage **results,
                      tt_error *err) {
  for (int k = 0; k < n_outputs; k++) results[k] = NULL;
  hlo *values = hlo_alloc(t->m, (size_t)(n_outputs + 1) * sizeof *values);
  if (!values) return module_error(t, err);
  tt_code code = tt_lower_call(t, call, outputs, n_outputs, values, err);
  for (int k = 0; k < n_outputs && !code; k++) {
    if (!outputs[k].defined) continue;
    hlo base = tt_output_to_base(t->m, &outputs[k], values[k]);
    if (!base) code = module_error(t, err);
    else if (!(results[k] = tt_trace_storage(t, base, err))) code = err ? err->code : TT_RESOURCE_EXHAUSTED;
  }
  if (code)
    for (int k = 0; k < n_outputs; k++) {
      tt_storage_release(results[k]);
      results[k] = NULL;
    }
  return code;
}

tt_storage *tt_trace_constant(tt_trace *t, tt_dtype dtype, int rank, const int64_t *dims, const void *data,
                              tt_error *err) {
  hlo v = hlo_array(t->m, dtype, rank, dims, data);
  if (v) return tt_trace_storage(t, v, err);
  module_error(t, err);
  return NULL;
}

/* ---- decomposition ---- */
typedef struct shadow { const tt_tensor *of; tt_tensor *tensor; } shadow;

static tt_tensor *make_shadow(tt_trace *t, const tt_tensor *x) {
  tt_tensor *s = hlo_alloc(t->m, sizeof *s);
  int64_t *strides = hlo_alloc(t->m, (x->rank + 1u) * sizeof *strides);
  int64_t *sizes = hlo_alloc(t->m, (x->rank + 1u) * sizeof *sizes);
  if (!s || !strides || !sizes) return NULL;
  memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
  int perm[TT_MAX_RANK];
  if (tt_strides_dense(x->rank, x->sizes, x->strides, perm)) memcpy(strides, x->strides, x->rank * sizeof *strides);
  else tt_strides_contiguous(x->rank, x->sizes, strides);
  tt_output shape = {.defined = true, .dtype = x->dtype, .rank = x->rank, .sizes = sizes, .strides = strides};
  hlo base = tt_output_to_base(t->m, &shape, tt_trace_read(t, x));
  if (!base) return NULL;
  tt_error err;
  *s = (tt_tensor){tt_trace_storage(t, base, &err), sizes, strides, 0, x->dtype, x->rank, x->wrapped};
  if (!s->storage) {
    hlo_fail(t->m, err.code, "%s", err.message);
    return NULL;
  }
  return s;
}

/* A 0-dim host tensor of a captured graph: a device tensor to what is traced, a number of each call to the program. */
static tt_tensor *make_number(tt_trace *t, const tt_arg *a) {
  tt_tensor *s = hlo_alloc(t->m, sizeof *s);
  hlo value = tt_trace_number(t, a);
  if (!s || !value) return NULL;
  tt_error err;
  *s = (tt_tensor){.storage = tt_trace_storage(t, value, &err), .dtype = a->dtype, .wrapped = a->wrapped};
  if (s->storage) return s;
  hlo_fail(t->m, err.code, "%s", err.message);
  return NULL;
}

static bool shadow_args(tt_trace *t, const tt_arg *args, int n, tt_arg *out, shadow *shadows, int *n_shadows) {
  for (int i = 0; i < n; i++) {
    out[i] = args[i];
    if (args[i].tag == TT_ARG_LIST) {
      tt_arg *list = hlo_alloc(t->m, (args[i].count + 1) * sizeof *list);
      if (!list || !shadow_args(t, args[i].list, (int)args[i].count, list, shadows, n_shadows)) return false;
      out[i].list = list;
    }
    bool number = t->call->variant->graph && args[i].tag == TT_ARG_HOST;
    if (args[i].tag != TT_ARG_TENSOR && !number) continue;
    /* One for each argument, also where two are the same view: offsets are not part of the key, so the next call's
     * differ. */
    shadow *s = &shadows[*n_shadows];
    *s = number ? (shadow){NULL, make_number(t, &args[i])} : (shadow){args[i].tensor, make_shadow(t, args[i].tensor)};
    if (!s->tensor) return false;
    ++*n_shadows;
    out[i].tag = TT_ARG_TENSOR;
    out[i].tensor = s->tensor;
  }
  return true;
}

static int count_tensors(const tt_arg *args, int n) {
  int count = 0;
  for (int i = 0; i < n; i++)
    count += args[i].tag == TT_ARG_LIST ? count_tensors(args[i].list, (int)args[i].count)
                                        : args[i].tag == TT_ARG_TENSOR || args[i].tag == TT_ARG_HOST;
  return count;
}

static void run_decompose(tt_trace *t, const tt_variant *v, const tt_arg *args, tt_tensor *results, int n) {
  tt_error err = {0};
  tt_trace *before = current;
  current = t;
  t->depth++;
  tt_code code = decompose_fn ? decompose_fn(t, v, args, results, n, &err)
                              : tt_fail(&err, TT_UNIMPLEMENTED, v->name, "no lowering");
  t->depth--;
  current = before;
  if (code) hlo_fail(t->m, code, "%s", err.message);
}

/* A decomposition takes sizes for numbers. */
static bool any_sized(const tt_arg *args, int n) {
  for (int i = 0; i < n; i++) {
    if (args[i].tag == TT_ARG_LIST && any_sized(args[i].list, (int)args[i].count)) return true;
    if (args[i].tag == TT_ARG_TENSOR && args[i].tensor->storage->trace && hlo_is_sized(args[i].tensor->storage->traced))
      return true;
  }
  return false;
}

void tt_trace_decompose(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, hlo *values) {
  const tt_variant *v = call->variant;
  int n = v->n_args, n_shadows = 0;
  tt_tensor *results = hlo_alloc(t->m, (size_t)(n_outputs + 1) * sizeof *results);
  tt_arg *args = hlo_alloc(t->m, (size_t)(n + 1) * sizeof *args);
  shadow *shadows = hlo_alloc(t->m, (size_t)(count_tensors(call->args, n) + 1) * sizeof *shadows);
  if (!results || !args || !shadows) return;
  if (t->depth && any_sized(call->args, n)) {
    hlo_fail(t->m, TT_UNIMPLEMENTED, "%s is not done for sizes known at run time", v->name);
  } else if (t->depth) { /* the arguments are values of this trace already */
    run_decompose(t, v, call->args, results, n_outputs);
  } else if (shadow_args(t, call->args, n, args, shadows, &n_shadows)) {
    run_decompose(t, v, args, results, n_outputs);
  }
  for (int k = 0; k < n_outputs; k++) {
    if (outputs[k].defined && results[k].storage && !hlo_failed(t->m)) {
      t->depth++; /* results are the trace's, not the call's */
      uint8_t rank = results[k].rank;
      bool same = rank == outputs[k].rank &&
                  (!rank || !memcmp(results[k].sizes, outputs[k].sizes, rank * sizeof *results[k].sizes));
      values[k] =
          same ? hlo_convert(t->m, tt_trace_read(t, &results[k]), outputs[k].dtype)
               : hlo_fail(t->m, TT_UNIMPLEMENTED, "result %d of the decomposition has other sizes than torch says", k);
      t->depth--;
    }
    tt_storage_release(results[k].storage);
  }
  for (int i = 0; i < n_shadows; i++) {
    tt_tensor *s = shadows[i].tensor;
    if (shadows[i].of && s->storage->traced_written && !hlo_failed(t->m)) {
      t->depth++;
      hlo value = tt_trace_read(t, s);
      t->depth--;
      tt_trace_write(t, shadows[i].of, value);
    }
    tt_storage_release(s->storage);
  }
}
