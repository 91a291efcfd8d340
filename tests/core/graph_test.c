/* graph_test.c: calls through keys, plans and runs, on the fake plugin: what is asked of memory and PJRT, and what is
 * left.
 *
 * The fake adds operands of equal type, so a row that adds is right there, whatever its rule emits. The row is the
 * test's own: the lowering table has tests of its own. */
#include <pthread.h>
#include "graph/cache.h"
#include "graph/graph.h"
#include "test.h"

static const int64_t sizes[2] = {3, 4}, strides[2] = {4, 1};

static void rule_add(tt_ctx *c) {
  hlo b = tt_in(c, 1);
  if (!tt_in_is_one(c, 2)) b = hlo_binary(c->m, "multiply", b, tt_in(c, 2));
  c->result[0] = hlo_binary(c->m, "add", tt_in(c, 0), b);
}
static const tt_op row = {"add.Tensor", rule_add, "", PROMOTE_DEFAULT, 0, "self + alpha * other"};

/* The overloads used here: 0 add.Tensor, 1 add_.Tensor. */
static tt_variant variants[2];
static void make_variants(void) {
  static const char *const names[2] = {"add.Tensor", "add_.Tensor"};
  for (int i = 0; i < 2; i++) {
    variants[i] = (tt_variant){.op = &row, .name = names[i], .id = tt_variant_new_id(), .n_args = 3, .n_results = 1,
                               .written = (uint64_t)i};
    memset(variants[i].alias, -1, sizeof variants[i].alias);
    variants[i].alias[0] = i ? 0 : -1;
  }
}
static const tt_variant *variant_of(bool in_place) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_variants);
  return &variants[in_place];
}

static const char *place; /* of the calls to come */

/* self + alpha * other for two whole [3, 4] float32 tensors; in place if result is NULL. */
static tt_code add(tt_client *c, int device, tt_storage *a, tt_storage *b, double alpha, tt_storage **result,
                   tt_error *err) {
  const tt_variant *v = variant_of(!result);
  tt_tensor self = {.storage = a, .sizes = sizes, .strides = strides, .dtype = TT_F32, .rank = 2}, other = self;
  other.storage = b;
  tt_arg args[3] = {{.tag = TT_ARG_TENSOR, .tensor = &self}, {.tag = TT_ARG_TENSOR, .tensor = &other},
                    {.tag = TT_ARG_SCALAR, .dtype = TT_F64, .number.f = alpha}};
  if (alpha == 1) args[2] = (tt_arg){.tag = TT_ARG_SCALAR, .dtype = TT_I64, .number.i = 1};
  tt_call call = {.variant = v, .client = c, .device = device, .args = args, .place = place};
  tt_output output = {true, TT_F32, 2, sizes, strides};
  tt_code code = tt_call_begin(&call, err);
  if (code) return code;
  const tt_plan *p = tt_plan_find(&call);
  if (!p) p = tt_plan_build(&call, &output, result ? 1 : 0, err);
  code = p ? tt_plan_run(p, &call, result, err) : err->code;
  tt_call_end(&call);
  return code;
}

static tt_storage *storage_of(tt_client *c, int device, float v, tt_error *err) {
  float data[12];
  for (int i = 0; i < 12; i++) data[i] = v + (float)i;
  tt_storage *s = tt_storage_create(c, device, sizeof data, err);
  tt_buffer *b = s ? tt_buffer_from_host(c, device, TT_F32, 2, sizes, data, err) : NULL;
  if (b && !tt_storage_set(s, b, err)) return s;
  tt_buffer_release(b);
  tt_storage_release(s);
  return NULL;
}

static tt_code adds(tt_client *c, tt_error *err) {
  tt_storage *a = storage_of(c, 0, 1, err), *b = a ? storage_of(c, 0, 2, err) : NULL, *r = NULL;
  float back[12] = {0};
  bool good = b && !add(c, 0, a, b, 1, &r, err) && !tt_storage_to_host(r, back, sizeof back, err);
  if (good && back[11] != 25) test_fail(__FILE__, __LINE__, "12 + 13 is %g", (double)back[11]);
  good = good && !add(c, 0, a, b, 1, NULL, err) && !add(c, 0, a, b, 0.5, NULL, err) &&
         !tt_storage_to_host(a, back, sizeof back, err);
  tt_storage_release(r);
  tt_storage_release(b);
  tt_storage_release(a);
  return good ? TT_OK : err->code ? err->code : TT_DATA_LOSS;
}

TEST(test_calls_in_and_out_of_place) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_counters before, after;
  tt_counters_get(&before);
  for (int i = 0; i < 3; i++) EXPECT_OK(adds(c, &err), err);
  tt_counters_get(&after);
  EXPECT_INT(after.compiles + after.cache_hits_disk - before.compiles - before.cache_hits_disk, 3);
  EXPECT_INT(after.live_storages, before.live_storages);
  test_let_go(c);
}

#ifdef TT_FAULTS
/* The hot path: once a call, its results and its numbers have been seen, one execution for each call and nothing asked
 * of malloc. */
TEST(test_hit_allocates_nothing_and_executes_once) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_storage *a, *b, *r = NULL;
  EXPECT_MADE(a = storage_of(c, 0, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 0, 2, &err), err);
  for (int warm = 1; warm >= 0; warm--) {
    int executions = atomic_load(&test_control()->executions);
    if (!warm) tt_fault_allocation(0);
    for (int i = 0; i < 50; i++) {
      tt_code code = add(c, 0, a, b, 1, &r, &err);
      if (!code) tt_storage_release(r);
      if (!code) code = add(c, 0, a, b, 1, NULL, &err);
      if (!code) code = add(c, 0, a, b, 0.5, NULL, &err);
      if (code) tt_fault_allocation(-1);
      EXPECT_OK(code, err);
    }
    bool allocated = tt_fault_hit();
    tt_fault_allocation(-1);
    EXPECT(warm || !allocated);
    EXPECT_INT(atomic_load(&test_control()->executions) - executions, 150);
  }
  tt_storage_release(a);
  tt_storage_release(b);
  test_let_go(c);
}
#endif

TEST(test_call_that_fails_changes_nothing) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_storage *a, *b;
  float back[12];
  EXPECT_MADE(a = storage_of(c, 0, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 0, 2, &err), err);
  atomic_store(&test_control()->fail_execute, 1);
  EXPECT_INT(add(c, 0, a, b, 1, NULL, &err), TT_RESOURCE_EXHAUSTED);
  EXPECT_TEXT(err.where, "add_.Tensor");
  EXPECT_OK(tt_storage_to_host(a, back, sizeof back, &err), err);
  EXPECT(back[0] == 1 && back[11] == 12);
  EXPECT_OK(add(c, 0, a, b, 1, NULL, &err), err);
  EXPECT_OK(tt_storage_to_host(a, back, sizeof back, &err), err);
  EXPECT(back[0] == 3 && back[11] == 25);
  tt_storage_release(a);
  tt_storage_release(b);
  test_let_go(c);
}

TEST(test_storage_resize_keeps_the_common_part) {
  tt_error err;
  tt_client *c;
  float back[24];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_storage *a;
  EXPECT_MADE(a = storage_of(c, 1, 1, &err), err);
  void *address = tt_storage_address(a);
  EXPECT(tt_storage_from_address((char *)address + 47) == a);
  EXPECT_OK(tt_storage_resize(a, 96, &err), err);
  EXPECT(tt_storage_bytes(a) == 96 && tt_storage_from_address(tt_storage_address(a)) == a);
  EXPECT_OK(tt_storage_to_host(a, back, 96, &err), err);
  EXPECT(back[0] == 1 && back[11] == 12);
  EXPECT_OK(tt_storage_resize(a, 0, &err), err);
  EXPECT(tt_storage_address(a) == NULL);
  tt_storage_release(a);
  test_let_go(c);
}

struct adder { tt_client *client; int device; bool good; };
static void *add_many(void *user) {
  struct adder *r = user;
  tt_error err;
  r->good = true;
  for (int i = 0; r->good && i < 60; i++) {
    tt_storage *a = storage_of(r->client, r->device, (float)i, &err),
               *b = a ? storage_of(r->client, r->device, 1, &err) : NULL, *s = NULL;
    float back[12];
    r->good = b && !add(r->client, r->device, a, b, 1, &s, &err) && !add(r->client, r->device, s, b, 1, NULL, &err) &&
              !tt_storage_to_host(s, back, sizeof back, &err) && back[0] == (float)(i + 2);
    tt_storage_release(s);
    tt_storage_release(b);
    tt_storage_release(a);
  }
  return NULL;
}

TEST(test_threads_call_at_once) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  for (int async = 0; async < 2; async++) {
    atomic_store(&test_control()->async, async);
    pthread_t threads[4];
    struct adder adders[4];
    for (int i = 0; i < 4; i++) {
      adders[i] = (struct adder){c, i % 2, false};
      pthread_create(&threads[i], NULL, add_many, &adders[i]);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) EXPECT(adders[i].good);
  }
  test_let_go(c);
}

/* ---- faults ---- */
static tt_code calls(tt_error *err) {
  tt_client *c = tt_client_create(test_fake(), 0, err);
  tt_code code = c ? adds(c, err) : err->code;
  test_let_go(c);
  return code;
}
static tt_code resizes(tt_error *err) {
  tt_client *c = tt_client_create(test_fake(), 0, err);
  tt_storage *s = c ? storage_of(c, 0, 1, err) : NULL;
  tt_code code = s ? tt_storage_resize(s, 100, err) : err->code;
  tt_storage_release(s);
  test_let_go(c);
  return code;
}
TEST(test_faults_of_calls) { FAULT_LOOP(calls); }
TEST(test_faults_of_resizing) { FAULT_LOOP(resizes); }

TEST(test_a_later_failure_names_the_place) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  for (int named = 0; named < 2; named++) {
    tt_storage *a, *b, *r;
    EXPECT_MADE(a = storage_of(c, 0, 1, &err), err);
    EXPECT_MADE(b = storage_of(c, 0, 2, &err), err);
    atomic_store(&test_control()->async, 1);
    atomic_store(&test_control()->fail_async, 1);
    place = named ? "add.Tensor at train.py:7 in step" : NULL;
    EXPECT_OK(add(c, 0, a, b, 1, &r, &err), err);
    place = NULL;
    EXPECT_INT(tt_client_synchronize(c, 0, &err), TT_INTERNAL);
    EXPECT_TEXT(err.where, named ? "add.Tensor at train.py:7 in step" : "add.Tensor");
    tt_storage_release(a);
    tt_storage_release(b);
    tt_storage_release(r);
  }
  test_let_go(c);
}

TEST(test_calls_are_described) {
  char text[200];
  int64_t dims[2] = {2, 3};
  tt_storage *s = (tt_storage *)dims; /* not looked at */
  tt_tensor t = {.storage = s, .sizes = dims, .strides = dims, .dtype = TT_BF16, .rank = 2},
            scalar = {.storage = s, .dtype = TT_I64};
  tt_arg list[2] = {{.tag = TT_ARG_TENSOR, .tensor = &scalar}, {.tag = TT_ARG_TENSOR, .tensor = &t}};
  tt_arg args[3] = {{.tag = TT_ARG_TENSOR, .tensor = &t},
                    {.tag = TT_ARG_INT, .number.i = 4},
                    {.tag = TT_ARG_LIST, .count = 2, .list = list}};
  tt_variant v = {.name = "op", .n_args = 3};
  tt_call call = {.variant = &v, .args = args};
  tt_call_describe(&call, text, sizeof text);
  EXPECT_TEXT(text, "op(bfloat16[2, 3], [int64[], bfloat16[2, 3]])");
  tt_call_describe(&call, text, 12);
  EXPECT_TEXT(text, "op(bfloat16");
}
