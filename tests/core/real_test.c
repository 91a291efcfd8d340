/* real_test.c: what only a real plugin can show, on the one that TORCH_TPU_PLUGIN names: values, options, devices,
 * failures.
 *
 * Refuses to test lowering: the programs here are written by hand. */
#include <math.h>
#include <unistd.h>
#include "test.h"

static const int64_t four[1] = {4};
static const tt_type type = {TT_F32, 1, 16, four};
static const bool none[2] = {false, false}, first[2] = {true, false};
static const char maximum[] =
    "module @tt { func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n"
    "%0 = stablehlo.maximum %a, %b : tensor<4xf32>\n return %0 : tensor<4xf32> } }";
static const char give[] = "module @tt { func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: "
                           "tensor<4xf32>) -> tensor<4xf32> {\n"
                           "%0 = stablehlo.add %a, %b : tensor<4xf32>\n return %0 : tensor<4xf32> } }";

static tt_client *client(int n_devices, tt_error *err) {
  if (!test_real_path()) {
    test_skip("TORCH_TPU_PLUGIN names no plugin");
    return NULL;
  }
  tt_plugin *p = tt_plugin_load(test_real_path(), err);
  tt_client *c = p ? tt_client_create(p, n_devices, err) : NULL;
  if (!c) test_fail(__FILE__, __LINE__, "%s: %s", err->where, err->message);
  return c;
}

TEST(test_real_plugin_runs_and_keeps_nan_on_every_device) {
  tt_error err;
  tt_client *c = client(3, &err);
  if (!c) return;
  tt_executable *e, *f;
  tt_buf data = {0};
  EXPECT_MADE(e = tt_executable_compile(c, maximum, strlen(maximum), &err), err);
  EXPECT_OK(tt_executable_serialize(e, &data, &err), err);
  EXPECT_MADE(f = tt_executable_deserialize(c, data.data, data.length, &err), err);
  tt_buf_deinit(&data);
  for (int i = 0; i < 2 * tt_client_device_count(c); i++) {
    int device = i / 2;
    float x[4] = {1, NAN, -3, 0}, y[4] = {0, 5, NAN, -1}, back[4];
    tt_buffer *args[2], *r;
    EXPECT_MADE(args[0] = tt_buffer_from_host(c, device, TT_F32, 1, four, x, &err), err);
    EXPECT_MADE(args[1] = tt_buffer_from_host(c, device, TT_F32, 1, four, y, &err), err);
    EXPECT_OK(tt_executable_run(i % 2 ? f : e, device, "maximum", 2, args, none, 1, &type, &r, &err), err);
    EXPECT_OK(tt_buffer_to_host(r, back, 16, &err), err);
    EXPECT(back[0] == 1 && isnan(back[1]) && isnan(back[2]) && back[3] == 0);
    EXPECT_OK(tt_client_synchronize(c, device, &err), err);
    tt_buffer_release(args[0]);
    tt_buffer_release(args[1]);
    tt_buffer_release(r);
  }
  tt_executable_release(e);
  tt_executable_release(f);
  test_let_go(c);
}

TEST(test_real_plugin_donates) {
  tt_error err;
  tt_client *c = client(1, &err);
  if (!c) return;
  tt_executable *e;
  EXPECT_MADE(e = tt_executable_compile(c, give, strlen(give), &err), err);
  float x[4] = {1, 2, 3, 4}, back[4];
  tt_buffer *args[2], *r;
  EXPECT_MADE(args[0] = tt_buffer_from_host(c, 0, TT_F32, 1, four, x, &err), err);
  EXPECT_MADE(args[1] = tt_buffer_from_host(c, 0, TT_F32, 1, four, x, &err), err);
  tt_buffer_retain(args[0]);
  EXPECT_OK(tt_executable_run(e, 0, "add_", 2, args, first, 1, &type, &r, &err), err); /* held twice: kept */
  tt_buffer_release(r);
  tt_buffer_release(args[0]);
  EXPECT_OK(tt_buffer_to_host(args[0], back, 16, &err), err);
  EXPECT(back[3] == 4);
  for (int i = 0; i < 100; i++) { /* past the point where completion events are left out */
    EXPECT_OK(tt_executable_run(e, 0, "add_", 2, args, first, 1, &type, &r, &err), err);
    EXPECT_INT(tt_buffer_to_host(args[0], back, 16, &err), TT_FAILED_PRECONDITION);
    tt_buffer_release(args[0]);
    args[0] = r;
  }
  EXPECT_OK(tt_buffer_to_host(r, back, 16, &err), err);
  EXPECT(back[3] == 404);
  tt_buffer_release(args[0]);
  tt_buffer_release(args[1]);
  tt_executable_release(e);
  test_let_go(c);
}

TEST(test_real_plugin_reports_bad_programs) {
  tt_error err;
  tt_client *c = client(1, &err);
  if (!c) return;
  EXPECT(!tt_executable_compile(c, "module {", 8, &err) && err.code != TT_OK && err.message[0]);
  EXPECT(!tt_executable_deserialize(c, "nonsense", 8, &err) && err.code != TT_OK);
  test_let_go(c);
}

TEST(test_real_plugin_counts_bytes) {
  tt_error err;
  tt_client *c = client(1, &err);
  if (!c) return;
  tt_counters before, during, after;
  float x[4] = {1, 2, 3, 4};
  tt_counters_get(&before);
  tt_buffer *b;
  EXPECT_MADE(b = tt_buffer_from_host(c, 0, TT_F32, 1, four, x, &err), err);
  tt_counters_get(&during);
  tt_buffer_release(b);
  tt_counters_get(&after);
  EXPECT_INT(during.live_bytes - before.live_bytes, 16);
  EXPECT_INT(after.live_buffers, before.live_buffers);
  EXPECT(after.peak_bytes >= during.live_bytes);
  test_let_go(c);
}

/* Without a TPU, libtpu's client must end in one line, soon, and its compiler must work. TT_LIBTPU names the file. */
TEST(test_libtpu_without_a_tpu) {
  const char *path = getenv("TT_LIBTPU");
  tt_error err;
  if (!path) {
    test_skip("TT_LIBTPU names no file");
    return;
  }
  tt_plugin *p;
  tt_topology *t;
  EXPECT_MADE(p = tt_plugin_load(path, &err), err);
  if (access("/dev/accel0", F_OK) && access("/dev/vfio/0", F_OK)) {
    EXPECT(!tt_client_create(p, 0, &err) && err.code != TT_OK && err.message[0] && strlen(err.message) < 300);
    printf("  %s\n", err.message);
  }
  EXPECT_MADE(t = tt_topology_create(p, "v5e:2x2", &err), err);
  EXPECT_INT(tt_topology_device_count(t), 4);
  tt_aot *a;
  tt_aot_memory m;
  EXPECT_MADE(a = tt_aot_compile(t, maximum, strlen(maximum), 1, NULL, &err), err);
  EXPECT_OK(tt_aot_memory_get(a, &m, &err), err);
  EXPECT(m.argument > 0 && m.output > 0 && m.code > 0);
  tt_aot_destroy(a);
  EXPECT(!tt_aot_compile(t, "module {", 8, 1, NULL, &err) && err.message[0]);
  tt_topology_destroy(t);
  EXPECT(!tt_topology_create(p, "v99x:2x2", &err) && err.message[0]);
}
