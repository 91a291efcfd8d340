/* pjrt_test.c: buffers, executables, completion and failures, on the fake plugin. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "test.h"

static const char add[] =
    "module @tt {\n  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) {\n}}";
static const char give[] = "module @tt {\n  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, "
                           "%b: tensor<4xf32>) -> (tensor<4xf32>) {\n}}";
static const int64_t four[1] = {4};
static const tt_type type = {TT_F32, 1, 16, four};
static const bool none[2] = {false, false}, first[2] = {true, false};

static tt_buffer *upload(tt_client *c, int device, float v, tt_error *err) {
  float data[4] = {v, v + 1, v + 2, v + 3};
  return tt_buffer_from_host(c, device, TT_F32, 1, four, data, err);
}

TEST(test_client_tells_about_itself) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_TEXT(tt_client_platform(c), "fake");
  EXPECT_INT(tt_client_device_count(c), 2);
  EXPECT_TEXT(tt_client_device_kind(c, 1), "fake device");
  int64_t limit, in_use;
  tt_client_device_memory(c, 1, &limit, &in_use);
  EXPECT(limit == 1 << 30 && in_use == 1001);
  EXPECT(strlen(tt_plugin_build(tt_client_plugin(c))) > 8);
  test_let_go(c);
}

TEST(test_plugin_that_is_none) {
  tt_error err;
  EXPECT(!tt_plugin_load("/nowhere/plugin.so", &err) && err.code == TT_NOT_FOUND);
  EXPECT(!tt_plugin_load("libm.so.6", &err) && err.code == TT_INVALID_ARGUMENT);
}

TEST(test_old_plugin_lacks_entries) {
  char path[512];
  tt_error err;
  snprintf(path, sizeof path, "%s/old_plugin.so", getenv("TORCH_TPU_CACHE_DIR"));
  EXPECT(!symlink(test_fake_path(), path));
  setenv("FAKE_PJRT_SHORT", "1", 1);
  tt_plugin *p = tt_plugin_load(path, &err);
  unsetenv("FAKE_PJRT_SHORT");
  unlink(path);
  EXPECT_MADE(p, err);
  EXPECT(!tt_topology_create(p, "fake:1", &err) && err.code == TT_UNIMPLEMENTED);
  EXPECT(strstr(err.message, "0.1"));
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(p, 0, &err), err);
  test_let_go(c);
}

TEST(test_buffer_round_trip_of_every_dtype) {
  tt_error err;
  unsigned char data[512], back[512];
  for (int i = 0; i < 512; i++) data[i] = (unsigned char)(i * 7);
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  for (int t = 0; t <= TT_C128; t++) {
    int64_t dims[2] = {3, 5};
    size_t bytes = 15 * tt_dtype_bits((tt_dtype)t) / 8;
    tt_buffer *b;
    EXPECT_MADE(b = tt_buffer_from_host(c, t % 2, (tt_dtype)t, 2, dims, data, &err), err);
    dims[0] = 0; /* the buffer has its own */
    EXPECT(tt_buffer_dims(b)[0] == 3 && tt_buffer_rank(b) == 2 && tt_buffer_dtype(b) == t &&
           tt_buffer_bytes(b) == bytes);
    EXPECT_OK(tt_buffer_await(b, &err), err);
    EXPECT_OK(tt_buffer_to_host(b, back, bytes, &err), err);
    EXPECT(!memcmp(back, data, bytes));
    EXPECT_INT(tt_buffer_to_host(b, back, bytes + 1, &err), TT_INVALID_ARGUMENT);
    tt_buffer_release(b);
  }
  EXPECT(!tt_buffer_from_host(c, 2, TT_F32, 0, NULL, data, &err) && err.code == TT_INVALID_ARGUMENT);
  test_let_go(c);
}

TEST(test_buffer_without_elements) {
  tt_error err;
  tt_client *c;
  tt_buffer *b;
  int64_t dims[2] = {0, 5};
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(b = tt_buffer_from_host(c, 0, TT_F32, 2, dims, NULL, &err), err);
  char nothing;
  EXPECT_OK(tt_buffer_to_host(b, &nothing, 0, &err), err);
  tt_buffer_release(b);
  test_let_go(c);
}

static void count(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }

TEST(test_async_upload_is_followed) {
  tt_error err;
  tt_client *c;
  tt_buffer *b;
  atomic_int done = 0;
  float data[4] = {1, 2, 3, 4}, back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  atomic_store(&test_control()->async, 1);
  atomic_store(&test_control()->slow_us, 20000);
  EXPECT_MADE(b = tt_buffer_from_host_async(c, 0, TT_F32, 1, four, data, count, &done, &err), err);
  EXPECT_INT(atomic_load(&done), 0);
  EXPECT_OK(tt_client_synchronize(c, 0, &err), err);
  EXPECT_OK(tt_buffer_to_host(b, back, 16, &err), err);
  EXPECT_INT(atomic_load(&done), 1);
  EXPECT(back[3] == 4);
  tt_buffer_release(b);
  test_let_go(c);
}

TEST(test_async_upload_failure_calls_done) {
  tt_error err;
  tt_client *c;
  atomic_int done = 0;
  float data[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT(!tt_buffer_from_host_async(c, 0, TT_F4E2M1FN, 1, four, data, count, &done, &err));
  EXPECT(err.code == TT_UNIMPLEMENTED && atomic_load(&done) == 1);
  test_let_go(c);
}

TEST(test_run_adds_on_both_devices) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  for (int device = 0; device < 2; device++)
    for (int async = 0; async < 2; async++) {
      atomic_store(&test_control()->async, async);
      float back[4];
      tt_buffer *args[2], *r;
      EXPECT_MADE(args[0] = upload(c, device, 1, &err), err);
      EXPECT_MADE(args[1] = upload(c, device, 10, &err), err);
      EXPECT_OK(tt_executable_run(e, device, "add.Tensor", 2, args, none, 1, &type, &r, &err), err);
      EXPECT_OK(tt_buffer_to_host(r, back, 16, &err), err);
      EXPECT(back[0] == 11 && back[3] == 17);
      tt_buffer_release(args[0]);
      tt_buffer_release(args[1]);
      tt_buffer_release(r);
    }
  EXPECT_INT(atomic_load(&test_control()->executions) > 0, 1);
  tt_executable_release(e);
  test_let_go(c);
}

/* Destroying it earlier would wait for the work before, as XLA's CPU plugins do. */
TEST(test_a_spent_buffer_is_destroyed_with_the_work_that_took_it) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, give, strlen(give), &err), err);
  tt_buffer *args[2], *r;
  EXPECT_MADE(args[0] = upload(c, 0, 1, &err), err);
  EXPECT_MADE(args[1] = upload(c, 0, 1, &err), err);
  atomic_store(&test_control()->async, 1);
  atomic_store(&test_control()->slow_us, 200000);
  EXPECT_OK(tt_executable_run(e, 0, "add_.Tensor", 2, args, first, 1, &type, &r, &err), err);
  int64_t live = atomic_load(&test_control()->live);
  tt_buffer_release(args[0]);
  EXPECT_INT(atomic_load(&test_control()->live), live);
  EXPECT_OK(tt_client_synchronize(c, 0, &err), err);
  EXPECT(atomic_load(&test_control()->live) < live);
  tt_buffer_release(args[1]);
  tt_buffer_release(r);
  tt_executable_release(e);
  test_let_go(c);
}

TEST(test_donation_spends_the_only_reference) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  float back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, give, strlen(give), &err), err);
  tt_buffer *args[2], *r, *again;
  EXPECT_MADE(args[0] = upload(c, 0, 1, &err), err);
  EXPECT_MADE(args[1] = upload(c, 0, 1, &err), err);
  tt_buffer_retain(args[0]); /* held twice: kept */
  EXPECT_OK(tt_executable_run(e, 0, "add_.Tensor", 2, args, first, 1, &type, &r, &err), err);
  tt_buffer_release(r);
  EXPECT_OK(tt_buffer_to_host(args[0], back, 16, &err), err);
  tt_buffer_release(args[0]);
  EXPECT(tt_buffer_unique(args[0]));
  atomic_store(&test_control()->fail_execute, 1); /* a run that fails takes nothing */
  EXPECT_INT(tt_executable_run(e, 0, "add_.Tensor", 2, args, first, 1, &type, &r, &err), TT_RESOURCE_EXHAUSTED);
  EXPECT_TEXT(err.where, "add_.Tensor");
  EXPECT_OK(tt_buffer_to_host(args[0], back, 16, &err), err);
  EXPECT_OK(tt_executable_run(e, 0, "add_.Tensor", 2, args, first, 1, &type, &r, &err), err);
  EXPECT_INT(tt_buffer_to_host(args[0], back, 16, &err), TT_FAILED_PRECONDITION);
  EXPECT_INT(tt_executable_run(e, 0, "add_.Tensor", 2, args, first, 1, &type, &again, &err), TT_FAILED_PRECONDITION);
  EXPECT_OK(tt_buffer_to_host(r, back, 16, &err), err);
  EXPECT(back[0] == 2);
  tt_buffer_release(args[0]);
  tt_buffer_release(args[1]);
  tt_buffer_release(r);
  tt_executable_release(e);
  test_let_go(c);
}

TEST(test_async_failure_names_its_operator_once) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  float back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  for (int async = 0; async < 2; async++)
    for (int read = 0; read < 2; read++) {
      atomic_store(&test_control()->async, async);
      tt_buffer *args[2], *r, *s;
      EXPECT_MADE(args[0] = args[1] = upload(c, 1, 1, &err), err);
      atomic_store(&test_control()->fail_async, 1);
      EXPECT_OK(tt_executable_run(e, 1, "exp", 2, args, none, 1, &type, &r, &err), err);
      EXPECT_OK(tt_executable_run(e, 1, "log", 2, (tt_buffer *[]){r, r}, none, 1, &type, &s, &err), err);
      if (read) EXPECT_INT(tt_buffer_to_host(s, back, 16, &err), TT_INTERNAL); /* log fails because of exp */
      else EXPECT_INT(tt_client_synchronize(c, 1, &err), TT_INTERNAL);
      EXPECT_TEXT(err.where, "exp");
      EXPECT_TEXT(err.message, "the fake device failed in the middle");
      if (!read) EXPECT_OK(tt_client_synchronize(c, 1, &err), err);
      EXPECT_OK(tt_client_synchronize(c, 0, &err), err);
      tt_buffer_release(args[0]);
      tt_buffer_release(r);
      tt_buffer_release(s);
      tt_client_synchronize(c, 1, NULL);
    }
  tt_executable_release(e);
  test_let_go(c);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

TEST(test_events_tell_when_work_ended) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  tt_event *idle;
  EXPECT_MADE(idle = tt_event_record(c, 0, &err), err);
  EXPECT(tt_event_done(idle) && tt_event_time(idle) > 0);
  for (int reversed = 0; reversed < 2; reversed++) {
    atomic_store(&test_control()->async, 1);
    atomic_store(&test_control()->slow_us, 30000);
    atomic_store(&test_control()->reversed, reversed);
    tt_buffer *args[2], *r;
    EXPECT_MADE(args[0] = args[1] = upload(c, 0, 1, &err), err);
    int64_t start = now();
    for (int i = 0; i < 4; i++) {
      EXPECT_OK(tt_executable_run(e, 0, "add", 2, args, none, 1, &type, &r, &err), err);
      tt_buffer_release(r); /* dropped results are waited for all the same */
    }
    tt_event *half, *all;
    EXPECT_MADE(half = tt_event_record(c, 0, &err), err);
    for (int i = 0; i < 2; i++) {
      EXPECT_OK(tt_executable_run(e, 0, "add", 2, args, none, 1, &type, &r, &err), err);
      tt_buffer_release(r);
    }
    EXPECT_MADE(all = tt_event_record(c, 0, &err), err);
    EXPECT(!tt_event_done(all) && tt_event_time(all) == 0);
    usleep(400000); /* both ended long before anybody looks */
    EXPECT(tt_event_done(half) && tt_event_done(all));
    EXPECT_OK(tt_event_await(half, &err), err);
    EXPECT_OK(tt_event_await(all, &err), err);
    int64_t a = tt_event_time(half) - start, b = tt_event_time(all) - start;
    EXPECT(a > (reversed ? 30 : 100) * 1000000ll && a < 380 * 1000000ll && b >= a && b < 390 * 1000000ll);
    tt_event_destroy(half);
    tt_event_destroy(all);
    tt_buffer_release(args[0]);
  }
  tt_event_destroy(idle);
  tt_executable_release(e);
  test_let_go(c);
}

TEST(test_event_may_be_destroyed_before_its_time) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  atomic_store(&test_control()->async, 1);
  atomic_store(&test_control()->slow_us, 10000);
  tt_buffer *args[2], *r;
  EXPECT_MADE(args[0] = args[1] = upload(c, 0, 1, &err), err);
  EXPECT_OK(tt_executable_run(e, 0, "add", 2, args, none, 1, &type, &r, &err), err);
  tt_event_destroy(tt_event_record(c, 0, &err));
  tt_event_destroy(NULL);
  tt_buffer_release(args[0]);
  tt_buffer_release(r);
  tt_executable_release(e);
  test_let_go(c); /* waits */
}

TEST(test_more_work_than_the_ring_holds) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  float back[4];
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  atomic_store(&test_control()->async, 1);
  tt_buffer *x, *zero, *r;
  EXPECT_MADE(x = upload(c, 0, 0, &err), err);
  float zeros[4] = {1, 1, 1, 1};
  EXPECT_MADE(zero = tt_buffer_from_host(c, 0, TT_F32, 1, four, zeros, &err), err);
  for (int i = 0; i < 700; i++) {
    EXPECT_OK(tt_executable_run(e, 0, "add", 2, (tt_buffer *[]){x, zero}, none, 1, &type, &r, &err), err);
    tt_buffer_release(x);
    x = r;
  }
  EXPECT_OK(tt_client_synchronize(c, 0, &err), err);
  EXPECT_OK(tt_buffer_to_host(x, back, 16, &err), err);
  EXPECT(back[0] == 700);
  tt_buffer_release(x);
  tt_buffer_release(zero);
  tt_executable_release(e);
  test_let_go(c);
}

struct runner { tt_client *client; tt_executable *executable; int device; bool good; };
static void *run_many(void *user) {
  struct runner *r = user;
  tt_error err;
  r->good = false;
  for (int i = 0; i < 100; i++) {
    tt_buffer *args[2], *out;
    float back[4];
    if (!(args[0] = args[1] = upload(r->client, r->device, (float)i, &err))) return NULL;
    if (tt_executable_run(r->executable, r->device, "add", 2, args, none, 1, &type, &out, &err)) return NULL;
    tt_buffer_release(args[0]);
    if (i % 10 == 0 && tt_client_synchronize(r->client, r->device, &err)) return NULL;
    tt_event *e = tt_event_record(r->client, r->device, &err);
    if (!e || tt_event_await(e, &err) || !tt_event_time(e)) return NULL;
    tt_event_destroy(e);
    if (tt_buffer_to_host(out, back, 16, &err) || back[1] != 2 * (float)(i + 1)) return NULL;
    tt_buffer_release(out);
  }
  r->good = true;
  return NULL;
}

TEST(test_threads_run_at_once) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  for (int async = 0; async < 2; async++) {
    atomic_store(&test_control()->async, async);
    pthread_t threads[4];
    struct runner runners[4];
    for (int i = 0; i < 4; i++) {
      runners[i] = (struct runner){c, e, i % 2, false};
      pthread_create(&threads[i], NULL, run_many, &runners[i]);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) EXPECT(runners[i].good);
  }
  tt_executable_release(e);
  test_let_go(c);
}

TEST(test_forked_child_may_only_let_go) {
  tt_error err;
  tt_client *c;
  tt_executable *e;
  tt_buffer *b;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(e = tt_executable_compile(c, add, strlen(add), &err), err);
  EXPECT_MADE(b = upload(c, 0, 1, &err), err);
  int objects = atomic_load(&test_control()->live), status;
  pid_t child = fork();
  if (child == 0) {
    float back[4];
    tt_buffer *r;
    bool good =
        tt_forked() && tt_buffer_to_host(b, back, 16, &err) == TT_FAILED_PRECONDITION &&
        strstr(err.message, "Cannot re-initialize TPU in forked subprocess") &&
        tt_client_synchronize(c, 0, &err) == TT_FAILED_PRECONDITION && !tt_event_record(c, 0, &err) &&
        tt_executable_run(e, 0, "add", 2, (tt_buffer *[]){b, b}, none, 1, &type, &r, &err) == TT_FAILED_PRECONDITION &&
        !upload(c, 0, 1, &err) && err.code == TT_FAILED_PRECONDITION;
    tt_buffer_release(b);
    tt_executable_release(e);
    tt_client_destroy(c);
    _exit(good && atomic_load(&test_control()->live) == objects ? 0 : 1);
  }
  EXPECT(child > 0 && waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(!tt_forked());
  tt_buffer_release(b);
  tt_executable_release(e);
  test_let_go(c);
}

static void count_cost(void *user, const char *name, size_t length, double value) {
  if (length == 5 && !memcmp(name, "flops", 5) && value == 1.5) ++*(int *)user;
}

TEST(test_topology_compiles_for_absent_machines) {
  tt_error err;
  tt_topology *t;
  tt_aot *a;
  EXPECT_MADE(t = tt_topology_create(test_fake(), "fake:2x2", &err), err);
  EXPECT_INT(tt_topology_device_count(t), 2);
  tt_topology_device d;
  EXPECT_OK(tt_topology_device_get(t, 1, &d, &err), err);
  EXPECT(d.id == 1 && d.process == 7 && d.coords[0] == 4 && d.coords[2] == 6 && d.core == 1 && d.cores == 1 &&
         d.kind[0]);
  EXPECT_INT(tt_topology_device_get(t, 2, &d, &err), TT_OUT_OF_RANGE);
  EXPECT_MADE(a = tt_aot_compile(t, add, strlen(add), 2, "xla_some=1", &err), err);
  tt_aot_memory m;
  EXPECT_OK(tt_aot_memory_get(a, &m, &err), err);
  EXPECT(m.argument == 16 && m.output == 8 && m.alias == 4 && m.temporary == 2 && m.peak == 26);
  EXPECT_INT(m.code, (int64_t)strlen(add));
  int costs = 0;
  EXPECT_OK(tt_aot_costs(a, count_cost, &costs, &err), err);
  EXPECT_INT(costs, 1);
  tt_buf bytes = {0};
  const char *format = NULL;
  EXPECT_OK(tt_aot_optimized(a, &bytes, &format, &err), err);
  EXPECT(!strcmp(format, "hlo") && bytes.length == strlen(add) && !memcmp(bytes.data, add, bytes.length));
  bytes.length = 0;
  EXPECT_OK(tt_aot_serialize(a, &bytes, &err), err);
  EXPECT(bytes.length == strlen(add) + 4);
  tt_buf_deinit(&bytes);
  tt_aot_destroy(a);
  EXPECT(!tt_aot_compile(t, "nonsense", 8, 1, NULL, &err) && err.code == TT_INVALID_ARGUMENT);
  EXPECT(!tt_aot_compile(t, add, strlen(add), 3, NULL, &err) && err.code == TT_INVALID_ARGUMENT);
  EXPECT(!tt_aot_compile(t, add, strlen(add), 1, "no value", &err) && err.code == TT_INVALID_ARGUMENT);
  tt_topology_destroy(t);
  EXPECT(!tt_topology_create(test_fake(), "v9:1", &err) && err.code == TT_INVALID_ARGUMENT);
}

TEST(test_options_of_the_user_are_passed_on) {
  tt_error err;
  size_t plain, more;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_compile_options(c, &plain);
  test_let_go(c);
  setenv("TORCH_TPU_XLA_OPTIONS", "a_flag=true,a_number=12,a_text=x", 1);
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  const char *bytes = tt_compile_options(c, &more);
  EXPECT(bytes && more > plain && memmem(bytes, more, "a_number", 8) && memmem(bytes, more, "\x18\x0c", 2));
  test_let_go(c);
  setenv("TORCH_TPU_XLA_OPTIONS", "novalue", 1);
  EXPECT(!tt_client_create(test_fake(), 0, &err) && err.code == TT_INVALID_ARGUMENT);
  unsetenv("TORCH_TPU_XLA_OPTIONS");
  test_let_go(NULL);
}

/* ---- faults ---- */
static tt_code everything(bool async, tt_error *err) {
  tt_buffer *a = NULL, *b = NULL, *r = NULL;
  tt_executable *e = NULL, *f = NULL;
  tt_event *event = NULL;
  tt_buf data = {0};
  float back[4];
  atomic_int done = 0;
  static float host[4] = {5, 6, 7, 8};
  atomic_store(&test_control()->async, async);
  tt_client *c = tt_client_create(test_fake(), 0, err);
  atomic_store(&test_control()->async, async);
  bool good = c && (e = tt_executable_compile(c, give, strlen(give), err)) && !tt_executable_serialize(e, &data, err) &&
              (f = tt_executable_deserialize(c, data.data, data.length, err)) && (a = upload(c, 0, 1, err));
  int uploads = 0;
  if (good) uploads = 1, good = (b = tt_buffer_from_host_async(c, 0, TT_F32, 1, four, host, count, &done, err)) != NULL;
  good = good && !tt_executable_run(f, 0, "add_", 2, (tt_buffer *[]){a, b}, first, 1, &type, &r, err) &&
         (event = tt_event_record(c, 0, err)) && !tt_event_await(event, err) && !tt_buffer_await(r, err) &&
         !tt_buffer_to_host(r, back, 16, err) && !tt_client_synchronize(c, 0, err);
  if (good && back[0] != 6) test_fail(__FILE__, __LINE__, "1 + 5 is %g", (double)back[0]);
  tt_event_destroy(event);
  tt_buffer_release(r);
  tt_buffer_release(b);
  tt_buffer_release(a);
  tt_executable_release(f);
  tt_executable_release(e);
  tt_buf_deinit(&data);
  test_let_go(c); /* waits for the upload */
  if (atomic_load(&done) != uploads) test_fail(__FILE__, __LINE__, "done was called %d times", atomic_load(&done));
  return good ? TT_OK : err->code ? err->code : TT_DATA_LOSS;
}
static tt_code inside_calls(tt_error *err) { return everything(false, err); }
static tt_code on_threads(tt_error *err) { return everything(true, err); }
static tt_code topologies(tt_error *err) {
  tt_topology *t = tt_topology_create(test_fake(), "fake:2", err);
  tt_aot *a = t ? tt_aot_compile(t, add, strlen(add), 2, "xla_some=1", err) : NULL;
  tt_aot_memory m;
  tt_topology_device d;
  int costs = 0;
  const char *format;
  tt_buf bytes = {0};
  bool good = a && !tt_topology_device_get(t, 0, &d, err) && !tt_aot_memory_get(a, &m, err) &&
              !tt_aot_costs(a, count_cost, &costs, err) && !tt_aot_serialize(a, &bytes, err) &&
              !tt_aot_optimized(a, &bytes, &format, err);
  tt_buf_deinit(&bytes);
  tt_aot_destroy(a);
  tt_topology_destroy(t);
  return good ? TT_OK : err->code;
}
TEST(test_faults_of_pjrt) { FAULT_LOOP(inside_calls); }
TEST(test_faults_of_pjrt_on_threads) { FAULT_LOOP(on_threads); }
TEST(test_faults_of_topologies) { FAULT_LOOP(topologies); }
