/* window_test.c: DeferAndFuse on the fake plugin: what is run when, what a failure leaves, what is given back.
 *
 * The fake gives every result the sum of all operands of its type, so a chain of adds over distinct operands has the
 * same values as one program and one by one. */
#include <pthread.h>
#include "graph/graph.h"
#include "test.h"

static const int64_t sizes[1] = {4}, strides[1] = {1};

static void rule_add(tt_ctx *c) { c->result[0] = hlo_binary(c->m, "add", tt_in(c, 0), tt_in(c, 1)); }
static void rule_copy(tt_ctx *c) { c->result[0] = tt_in(c, 1); }
static const tt_op copy_row = {"copy_", rule_copy, "", PROMOTE_DEFAULT, 0, "other"};
static const tt_op row = {"add.Tensor", rule_add, "", PROMOTE_DEFAULT, 0, "self + other"};

static tt_code call_of(tt_client *c, const tt_variant *v, tt_storage *a, tt_storage *b, tt_storage **result,
                       tt_error *err) {
  tt_tensor self = {.storage = a, .sizes = sizes, .strides = strides, .dtype = TT_F32, .rank = 1}, other = self;
  other.storage = b;
  tt_arg args[2] = {{.tag = TT_ARG_TENSOR, .tensor = &self}, {.tag = TT_ARG_TENSOR, .tensor = &other}};
  tt_call call = {.variant = v, .client = c, .args = args};
  tt_output output = {true, TT_F32, 1, sizes, strides};
  tt_code code = tt_call_begin(&call, err);
  if (code) return code;
  const tt_plan *p = tt_plan_find(&call);
  if (!p) p = tt_plan_build(&call, &output, result ? 1 : 0, err);
  code = p ? tt_plan_run(p, &call, result, err) : err->code;
  tt_call_end(&call);
  return code;
}

/* a + b, or a += b where result is NULL, as one of `kinds` operators that differ in name only; from KINDS on as graphs.
 */
enum { KINDS = 3, GRAPH = KINDS };
static tt_code add(tt_client *c, int kind, tt_storage *a, tt_storage *b, tt_storage **result, tt_error *err) {
  static tt_variant variants[2 * (KINDS + 2)];
  tt_variant *v = &variants[2 * kind + !result];
  if (!v->id) {
    *v = (tt_variant){.op = &row,
                      .name = result ? "add" : "add_",
                      .id = tt_variant_new_id(),
                      .n_args = 2,
                      .n_results = 1,
                      .written = !result,
                      .graph = kind >= GRAPH};
    memset(v->alias, -1, sizeof v->alias);
    v->alias[0] = result ? -1 : 0;
  }
  return call_of(c, v, a, b, result, err);
}

static tt_storage *storage_of(tt_client *c, float v, tt_error *err) {
  float data[4] = {v, v, v, v};
  tt_storage *s = tt_storage_create(c, 0, sizeof data, err);
  tt_buffer *b = s ? tt_buffer_from_host(c, 0, TT_F32, 1, sizes, data, err) : NULL;
  if (b && !tt_storage_set(s, b, err)) return s;
  tt_buffer_release(b);
  tt_storage_release(s);
  return NULL;
}

static float first_of(tt_storage *s) {
  float back[4];
  tt_error err;
  return tt_storage_to_host(s, back, sizeof back, &err) ? -1 : back[0];
}

static int64_t executions(void) {
  tt_counters c;
  tt_counters_get(&c);
  return c.executions;
}

/* (a + b) + c, the sum in the middle forgotten. */
static tt_code chain(tt_client *c, tt_error *err) {
  tt_storage *x[3] = {0}, *t = NULL, *r = NULL;
  float back[4] = {0};
  tt_mode_set(TT_MODE_FUSE);
  tt_code code = TT_OK;
  for (int i = 0; i < 3 && !code; i++)
    if (!(x[i] = storage_of(c, (float)(1 << i), err))) code = err->code;
  if (!code) code = add(c, 0, x[0], x[1], &t, err);
  if (!code) code = add(c, 0, t, x[2], &r, err);
  tt_storage_release(t);
  if (!code) code = tt_storage_to_host(r, back, sizeof back, err);
  if (!code && back[0] != 7) test_fail(__FILE__, __LINE__, "1 + 2 + 4 is %g", (double)back[0]);
  tt_storage_release(r);
  for (int i = 0; i < 3; i++) tt_storage_release(x[i]);
  tt_mode_set(TT_MODE_STRICT);
  tt_error ignored;
  tt_flush(-1, &ignored);
  return code;
}

static tt_code twice(tt_error *err) {
  tt_client *c = tt_client_create(test_fake(), 0, err);
  tt_code code = c ? chain(c, err) : err->code;
  if (!code) code = chain(c, err);
  test_let_go(c);
  return code;
}

TEST(test_windows_survive_faults) { FAULT_LOOP(twice); }

TEST(test_new_plans_are_one_program_at_once) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_counters before, after;
  tt_counters_get(&before);
  for (int i = 0; i < 3; i++) EXPECT_OK(chain(c, &err), err);
  tt_counters_get(&after);
  EXPECT_INT(after.executions - before.executions, 3);
  EXPECT_INT(after.compiles + after.cache_hits_disk - before.compiles - before.cache_hits_disk, 1);
  EXPECT_INT(after.live_storages, before.live_storages);
  test_let_go(c);
}

TEST(test_compiled_plans_run_by_themselves_until_their_program_is_ready) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  EXPECT_OK(add(c, 0, a, b, &r, &err), err); /* strict: compiled */
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  int64_t start = executions();
  EXPECT_OK(chain(c, &err), err);
  EXPECT_INT(executions() - start, 2); /* first sight: as they are */
  EXPECT_OK(chain(c, &err), err);
  EXPECT_INT(executions() - start, 4); /* second: its program is being made */
  tt_fuse_wait(false);
  EXPECT_OK(chain(c, &err), err);
  EXPECT_INT(executions() - start, 5);
  test_let_go(c);
}

TEST(test_what_nobody_wants_is_not_run) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  int64_t start = executions();
  for (int i = 0; i < 5; i++) {
    EXPECT_OK(add(c, 0, a, b, &r, &err), err);
    tt_storage_release(r);
  }
  EXPECT_OK(tt_flush(0, &err), err);
  EXPECT_INT(executions() - start, 0);
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  tt_storage_release(b);
  test_let_go(c);
}

TEST(test_inputs_are_read_when_recorded_and_contents_replaced_are_forgotten) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  float nine[4] = {9, 9, 9, 9};
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  EXPECT_OK(add(c, 0, a, b, &r, &err), err);
  /* not seen by the add */
  EXPECT_OK(tt_storage_set(a, tt_buffer_from_host(c, 0, TT_F32, 1, sizes, nine, &err), &err), err);
  EXPECT_OK(add(c, 1, b, b, NULL, &err), err);
  /* nobody sees the 4 */
  EXPECT_OK(tt_storage_set(b, tt_buffer_from_host(c, 0, TT_F32, 1, sizes, nine, &err), &err), err);
  EXPECT(first_of(r) == 3 && first_of(a) == 9 && first_of(b) == 9);
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  test_let_go(c);
}

TEST(test_strict_calls_see_what_windows_are_to_fill) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r, *s;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  EXPECT_OK(add(c, 0, a, b, &r, &err), err);
  tt_mode_set(TT_MODE_STRICT);
  EXPECT_OK(add(c, 0, r, b, &s, &err), err);
  EXPECT(first_of(s) == 5);
  EXPECT_OK(add(c, 0, r, b, NULL, &err), err);
  EXPECT(first_of(r) == 5);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  tt_storage_release(s);
  test_let_go(c);
}

/* a = b: a is not read. */
static tt_code overwrite(tt_client *c, tt_storage *a, tt_storage *b, tt_error *err) {
  static tt_variant v;
  if (!v.id)
    v = (tt_variant){
        .op = &copy_row, .name = "copy_", .id = tt_variant_new_id(), .n_args = 2, .n_results = 1, .written = 1};
  return call_of(c, &v, a, b, NULL, err);
}

TEST(test_what_a_strict_call_overwrites_is_not_filled_by_a_window) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  EXPECT_OK(add(c, 0, a, b, &r, &err), err);
  EXPECT_OK(add(c, 1, a, b, NULL, &err), err);
  tt_mode_set(TT_MODE_STRICT);
  EXPECT_OK(overwrite(c, r, b, &err), err);
  EXPECT(first_of(a) == 3 && first_of(r) == 2);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  test_let_go(c);
}

TEST(test_a_window_that_fails_says_so_at_every_read_and_keeps_what_was) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  float back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  EXPECT_OK(add(c, 0, a, b, &r, &err), err);
  EXPECT_OK(add(c, 1, a, b, NULL, &err), err);
  atomic_store(&test_control()->fail_execute, 1);
  for (int i = 0; i < 2; i++) EXPECT_INT(tt_storage_to_host(r, back, sizeof back, &err), TT_RESOURCE_EXHAUSTED);
  EXPECT(first_of(a) == 1); /* as before the window */
  EXPECT_OK(add(c, 1, a, b, NULL, &err), err);
  EXPECT(first_of(a) == 3);
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  tt_storage_release(b);
  tt_storage_release(r);
  test_let_go(c);
}

TEST(test_what_is_absent_cannot_be_read_in_any_mode) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b, *r;
  float back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = tt_storage_create(c, 0, sizeof back, &err), err);
  tt_storage_base(b, TT_F32, 1, sizes);
  tt_storage_mark_absent(b);
  for (int fuse = 0; fuse < 2; fuse++) {
    tt_mode_set(fuse ? TT_MODE_FUSE : TT_MODE_STRICT);
    EXPECT(add(c, 0, a, b, &r, &err) != TT_OK && !r);
    EXPECT(add(c, 1, a, b, NULL, &err) != TT_OK);
    EXPECT(tt_storage_to_host(b, back, sizeof back, &err) != TT_OK);
    EXPECT(first_of(a) == 1);
  }
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  tt_storage_release(b);
  test_let_go(c);
}

TEST(test_loops_without_reads_are_cut_where_they_repeat) {
  tt_error err;
  tt_client *c;
  tt_storage *a, *b;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 1, &err), err);
  EXPECT_MADE(b = storage_of(c, 0, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  tt_fuse_counters before, after;
  int64_t start = 0;
  for (int i = 0; i < 9000; i++) {
    if (i == 6000) {
      tt_fuse_wait(false);
      start = executions();
      tt_fuse_counters_get(&before);
    }
    EXPECT_OK(add(c, i % KINDS, a, b, NULL, &err), err);
    if (tt_window_full()) EXPECT_OK(tt_flush_full(&err), err);
  }
  tt_fuse_counters_get(&after);
  int64_t windows = after.windows[TT_FLUSH_FULL] - before.windows[TT_FLUSH_FULL];
  EXPECT(windows >= 10 && windows < 14);
  EXPECT_INT(executions() - start, windows);
  EXPECT(first_of(a) == 1);
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  tt_storage_release(b);
  test_let_go(c);
}

/* Forward on one thread, backward on another. */
static void *take_over(void *unused) {
  (void)unused;
  static bool handed;
  if ((handed = tt_window_handed(0))) tt_flush_handed(0);
  return &handed;
}

TEST(test_a_window_of_many_small_records_is_run_where_another_thread_goes_on) {
  tt_error err;
  tt_client *c;
  tt_storage *a;
  pthread_t thread;
  tt_fuse_counters before, after;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  for (int n = 8; n <= 24; n += 16) { /* few are kept, many are run */
    void *handed = NULL;
    for (int i = 0; i < n; i++) EXPECT_OK(add(c, 0, a, a, NULL, &err), err);
    EXPECT(!tt_window_handed(0));
    tt_fuse_counters_get(&before);
    pthread_create(&thread, NULL, take_over, NULL);
    pthread_join(thread, &handed);
    tt_fuse_counters_get(&after);
    EXPECT(*(bool *)handed);
    EXPECT_INT(after.windows[TT_FLUSH_HANDED] - before.windows[TT_FLUSH_HANDED], n == 24);
    EXPECT_OK(tt_flush(0, &err), err);
  }
  tt_mode_set(TT_MODE_STRICT);
  tt_storage_release(a);
  test_let_go(c);
}

/* Threads that record into one window, read, and let go, all at once. */
typedef struct worker { tt_client *client; tt_storage *shared; int good; } worker;
static void *record_and_read(void *user) {
  worker *me = user;
  tt_error err;
  for (int i = 0; i < 200; i++) {
    tt_storage *own = storage_of(me->client, 1, &err), *r = NULL, *s = NULL;
    if (!own || add(me->client, i % KINDS, own, me->shared, &r, &err) ||
        add(me->client, 0, r, me->shared, NULL, &err) || (i % 3 == 0 && add(me->client, 1, r, own, &s, &err)))
      return NULL;
    me->good += i % 5 || first_of(r) > 0; /* the fake adds up what the other threads read too */
    tt_storage_release(own);
    if (s && first_of(s) < 0) return NULL;
    tt_storage_release(s);
    tt_storage_release(r);
  }
  return NULL;
}

TEST(test_threads_share_a_window) {
  tt_error err;
  tt_client *c;
  tt_storage *shared;
  pthread_t threads[4];
  worker workers[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(shared = storage_of(c, 2, &err), err);
  for (int k = 0; k < 2 * KINDS; k++) { /* the operators exist before threads make them */
    tt_storage *r = NULL;
    EXPECT_OK(add(c, k / 2, shared, shared, k % 2 ? NULL : &r, &err), err);
    tt_storage_release(r);
  }
  tt_storage_release(shared);
  EXPECT_MADE(shared = storage_of(c, 2, &err), err);
  tt_mode_set(TT_MODE_FUSE);
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){c, shared, 0};
    pthread_create(&threads[i], NULL, record_and_read, &workers[i]);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  tt_mode_set(TT_MODE_STRICT);
  EXPECT_OK(tt_flush(-1, &err), err);
  for (int i = 0; i < 4; i++) EXPECT_INT(workers[i].good, 200);
  tt_storage_release(shared);
  test_let_go(c);
}

/* Two graphs, the second on the first's result, and an operator on the second's, step for step in Strict mode. */
TEST(test_compiled_graphs_that_follow_one_another_are_one_program) {
  tt_error err;
  tt_client *c;
  tt_storage *x[4], *made[3];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  for (int i = 0; i < 4; i++) EXPECT_MADE(x[i] = storage_of(c, (float)(1 << i), &err), err);
  for (int step = 0; step < 8; step++) {
    int64_t before = executions();
    EXPECT_OK(add(c, GRAPH, x[0], x[1], &made[0], &err), err);
    EXPECT_OK(add(c, GRAPH + 1, made[0], x[2], &made[1], &err), err);
    EXPECT_INT(executions() - before, step ? 0 : 2); /* at first nothing is known of them */
    EXPECT_OK(add(c, 0, made[1], x[3], &made[2], &err), err);
    if (tt_window_full()) EXPECT_OK(tt_flush_full(&err), err);
    if (step > 3) EXPECT_INT(executions() - before, 1); /* where it ended before, without a reader */
    EXPECT(first_of(made[2]) == 15);
    tt_fuse_wait(false);
    for (int i = 0; i < 3; i++) tt_storage_release(made[i]);
  }
  for (int i = 0; i < 4; i++) tt_storage_release(x[i]);
  test_let_go(c);
}

TEST(test_a_loop_of_graphs_is_not_one_program) {
  tt_error err;
  tt_client *c;
  tt_storage *x[3];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  for (int i = 0; i < 3; i++) EXPECT_MADE(x[i] = storage_of(c, (float)(1 << i), &err), err);
  tt_mode_set(TT_MODE_FUSE);
  for (int step = 0; step < 4; step++) {
    int64_t before = executions();
    EXPECT_OK(add(c, GRAPH, x[0], x[1], NULL, &err), err);
    EXPECT_INT(executions() - before, step ? 1 : 0); /* the step before; nobody reads */
    EXPECT_OK(add(c, GRAPH + 1, x[0], x[2], NULL, &err), err);
    EXPECT_INT(executions() - before, step ? 1 : 0);
  }
  EXPECT(first_of(x[0]) == 1 + 4 * (2 + 4));
  tt_mode_set(TT_MODE_STRICT);
  for (int i = 0; i < 3; i++) tt_storage_release(x[i]);
  test_let_go(c);
}
