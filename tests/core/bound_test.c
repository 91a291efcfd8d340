/* bound_test.c: no more plans than TORCH_TPU_PLANS says: which go, when, and that none goes while somebody has it. */
#include <pthread.h>
#include <stdlib.h>
#include "graph/graph.h"
#include "test.h"

static void rule_add(tt_ctx *c) { c->result[0] = hlo_binary(c->m, "add", tt_in(c, 0), tt_in(c, 1)); }
static const tt_op row = {"add.Tensor", rule_add, "", PROMOTE_DEFAULT, 0, "self + other"};
static tt_variant variant;

static tt_storage *storage_of(tt_client *c, int64_t n, tt_error *err) {
  float data[512];
  for (int64_t i = 0; i < n; i++) data[i] = 1;
  tt_storage *s = tt_storage_create(c, 0, (size_t)n * sizeof *data, err);
  tt_buffer *b = s ? tt_buffer_from_host(c, 0, TT_F32, 1, &n, data, err) : NULL;
  if (b && !tt_storage_set(s, b, err)) return s;
  tt_buffer_release(b);
  tt_storage_release(s);
  return NULL;
}

/* a + b of n elements: a plan for each n. */
static tt_storage *sum(tt_client *c, int64_t n, tt_storage *a, tt_storage *b, tt_error *err) {
  int64_t stride = 1;
  tt_tensor self = {.storage = a, .sizes = &n, .strides = &stride, .dtype = TT_F32, .rank = 1}, other = self;
  other.storage = b;
  tt_arg args[2] = {{.tag = TT_ARG_TENSOR, .tensor = &self}, {.tag = TT_ARG_TENSOR, .tensor = &other}};
  tt_call call = {.variant = &variant, .client = c, .args = args};
  tt_output output = {true, TT_F32, 1, &n, &stride};
  tt_storage *r = NULL;
  if (tt_call_begin(&call, err)) return NULL;
  const tt_plan *p = tt_plan_find(&call);
  if (!p) p = tt_plan_build(&call, &output, 1, err);
  if (p && (tt_plan_run(p, &call, &r, err) || tt_plan_output(p, 0)->sizes[0] != n)) r = NULL;
  tt_call_end(&call);
  return r;
}

/* The sum of two tensors of ones, read; -1 on failure. */
static float once(tt_client *c, int64_t n) {
  tt_error err;
  float back[512] = {0};
  tt_storage *a = storage_of(c, n, &err), *b = storage_of(c, n, &err), *r = a && b ? sum(c, n, a, b, &err) : NULL;
  bool good = r && !tt_storage_to_host(r, back, (size_t)n * sizeof *back, &err);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  return good ? back[n - 1] : -1;
}

static tt_client *begin(const char *most, tt_error *err) {
  if (!variant.id) {
    variant = (tt_variant){.op = &row, .name = "add", .id = tt_variant_new_id(), .n_args = 2, .n_results = 1};
    memset(variant.alias, -1, sizeof variant.alias);
  }
  setenv("TORCH_TPU_PLANS", most, 1);
  return tt_client_create(test_fake(), 0, err);
}

static void end(tt_client *c) {
  test_let_go(c);
  unsetenv("TORCH_TPU_PLANS");
}

static int64_t compiles(void) {
  tt_counters c;
  tt_counters_get(&c);
  return c.compiles + c.cache_hits_disk;
}

TEST(test_plans_are_bounded_and_those_in_use_stay) {
  tt_error err;
  tt_client *c;
  int64_t kept, before, dropped;
  EXPECT_MADE(c = begin("20", &err), err);
  tt_plans_count(&kept, &before);
  for (int64_t n = 1; n <= 200; n++) {
    EXPECT(once(c, n) == 2);
    EXPECT(once(c, 1) == 2);
    tt_plans_count(&kept, &dropped);
    EXPECT(kept <= 30); /* some wait for the call that took them out to end */
  }
  EXPECT(dropped - before >= 170);
  int64_t start = compiles();
  EXPECT(once(c, 1) == 2);
  EXPECT(once(c, 200) == 2);
  EXPECT_INT(compiles() - start, 0);
  EXPECT(once(c, 2) == 2); /* its executable went with it */
  EXPECT_INT(compiles() - start, 1);
  end(c);
}

TEST(test_a_window_keeps_its_plans) {
  tt_error err;
  tt_client *c;
  int64_t kept, dropped;
  EXPECT_MADE(c = begin("8", &err), err);
  tt_storage *a, *b, *r;
  EXPECT_MADE(a = storage_of(c, 300, &err), err);
  EXPECT_MADE(b = storage_of(c, 300, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  EXPECT_MADE(r = sum(c, 300, a, b, &err), err); /* recorded, and not found again */
  tt_mode_set(TT_MODE_STRICT);
  for (int64_t n = 1; n <= 100; n++) EXPECT(once(c, n) == 2);
  tt_plans_count(&kept, &dropped);
  EXPECT(kept <= 14);
  float back[512];
  EXPECT_OK(tt_storage_to_host(r, back, 300 * sizeof *back, &err), err);
  EXPECT(back[299] == 2);
  for (int64_t n = 1; n <= 100; n++) EXPECT(once(c, n) == 2); /* what it was a result of is gone */
  EXPECT_OK(tt_storage_to_host(r, back, 300 * sizeof *back, &err), err);
  EXPECT(back[299] == 2);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  end(c);
}

typedef struct worker { tt_client *client; int first; int good; } worker;
static void *work(void *user) {
  worker *me = user;
  for (int i = 0; i < 300; i++) {
    tt_mode_set(i % 7 < 2 ? TT_MODE_FUSE : TT_MODE_STRICT);
    me->good += once(me->client, 1 + (i % 5 ? i % 4 : (i + me->first) % 64)) > 0;
  }
  return NULL;
}

TEST(test_threads_lose_no_plan_that_they_run) {
  tt_error err;
  tt_client *c;
  pthread_t threads[4];
  worker workers[4];
  EXPECT_MADE(c = begin("12", &err), err);
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){c, 16 * i, 0};
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  tt_mode_set(TT_MODE_STRICT);
  for (int i = 0; i < 4; i++) EXPECT_INT(workers[i].good, 300);
  int64_t kept, dropped;
  tt_plans_count(&kept, &dropped);
  EXPECT(kept <= 64 && dropped > 0);
  end(c);
}
