/* values.c: runs what the golden files cannot show: that constants, casts and control flow give the right numbers on a
 * plugin.
 *
 * usage: values PLUGIN. Constants of every dtype are compared with what the plugin's own conversion from f64 gives,
 * results of loops, branches, bitcasts and sorts with numbers worked out by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hlo/hlo.h"
#include "pjrt/pjrt.h"

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
enum { MAX_RESULTS = 512 };

static tt_client *client;
static int passed, failed;

static void check(bool ok, const char *what, const char *why) {
  if (ok) passed++;
  else failed++, printf("FAIL %s: %s\n", what, why);
}

/* Runs the module on one f64 vector; result k, of any dims, was converted to f64 and is put at out[k], up to 8 numbers.
 */
static bool run(hlo_module *m, int n, const hlo *results, int64_t n_in, const double *in, double out[][8],
                const char *what) {
  static tt_type types[MAX_RESULTS];
  static tt_buffer *buffers[MAX_RESULTS];
  tt_error err = {0};
  size_t length;
  const char *text = hlo_finish(m, n, results, NULL, &length, &err);
  tt_executable *e = text ? tt_executable_compile(client, text, length, &err) : NULL;
  tt_buffer *arg = e ? tt_buffer_from_host(client, 0, TT_F64, 1, &n_in, in, &err) : NULL;
  for (int k = 0; text && k < n; k++)
    types[k] = (tt_type){results[k]->dtype, results[k]->rank, 8 * hlo_numel(results[k]), results[k]->dims};
  bool ok = arg && tt_executable_run(e, 0, what, 1, &arg, (bool[]){false}, n, types, buffers, &err) == TT_OK;
  for (int k = 0; ok && k < n; k++) {
    ok = tt_buffer_to_host(buffers[k], out[k], (size_t)types[k].bytes, &err) == TT_OK;
    tt_buffer_release(buffers[k]);
  }
  tt_buffer_release(arg);
  if (e) tt_executable_release(e);
  if (!ok) check(false, what, err.message);
  return ok;
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

static void constants(void) {
  static const tt_dtype dtypes[] = {TT_F16,        TT_BF16,       TT_F32, TT_F64, TT_F8E4M3FN, TT_F8E5M2,
                                    TT_F8E4M3FNUZ, TT_F8E5M2FNUZ, TT_C64, TT_I32, TT_I64,      TT_BOOL};
  static const double numbers[] = {0,    -0.0,  1,        -1,           0.1,    -2.5,        3.14159265358979,
                                   17,   19,    1e-3,     6e-8,         1.5e-5, 0.001953125, 447,
                                   240,  57344, 65504,    65520,        1e5,    1e10,        -1e10,
                                   1e30, 1e-30, 16777217, 0.0009765625, 1.0 / 3};
  enum { N = sizeof numbers / sizeof *numbers, T = sizeof dtypes / sizeof *dtypes };
  static double out[MAX_RESULTS][8];
  tt_error err = {0};
  hlo_module *m = hlo_module_create(&err);
  hlo x = hlo_parameter(m, TT_F64, DIMS(N)), results[MAX_RESULTS];
  int n = 0;
  for (int t = 0; t < T; t++)
    for (int k = 0; k < N; k++) {
      if (dtypes[t] == TT_I32 && fabs(numbers[k]) > 2e9) continue; /* what a cast makes of these is not defined */
      hlo element = hlo_reshape(m, hlo_slice_dim(m, x, 0, k, k + 1, 1), 0, NULL);
      hlo both[] = {hlo_reshape(m, hlo_convert(m, hlo_float(m, dtypes[t], numbers[k]), TT_F64), DIMS(1)),
                    hlo_reshape(m, hlo_convert(m, hlo_convert(m, element, dtypes[t]), TT_F64), DIMS(1))};
      results[n++] = hlo_concat(m, 2, both, 0);
    }
  if (run(m, n, results, N, numbers, out, "constants")) {
    n = 0;
    for (int t = 0; t < T; t++)
      for (int k = 0; k < N; k++) {
        if (dtypes[t] == TT_I32 && fabs(numbers[k]) > 2e9) continue;
        char why[160];
        snprintf(why, sizeof why, "%s of %.17g: expected %.17g, got %.17g", tt_dtype_name(dtypes[t]), numbers[k],
                 out[n][1], out[n][0]);
        check(same(out[n][0], out[n][1]), "constant", why);
        n++;
      }
  }
  hlo_module_destroy(m);
}

static void below(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_compare(m, "LT", a[0], hlo_int(m, TT_I32, 5));
}

static void step(hlo_module *m, const hlo *a, hlo *r, void *user) {
  r[0] = hlo_binary_scalar(m, "add", a[0], 1);
  r[1] = hlo_binary(m, "add", a[1], *(hlo *)user);
}

static void doubled(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)a;
  r[0] = hlo_binary_scalar(m, "multiply", *(hlo *)user, 2);
}

static void negated(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)a;
  r[0] = hlo_unary(m, "negate", *(hlo *)user);
}

static void greater(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_compare(m, "GT", a[0], a[1]);
}

static void compositions(void) {
  static const double in[] = {3, 1, 2};
  static const struct { const char *what; int n; double want[8]; } rows[] = {
    {"while, with a value from outside", 3, {18, 6, 12}},
    {"if true", 3, {6, 2, 4}},
    {"if false", 3, {-3, -1, -2}},
    {"sort by the first", 3, {0, 2, 1}},
    {"top_k", 2, {3, 2}},
    {"limits of i8", 2, {-128, 127}},
    {"array of bool", 3, {1, 0, 1}},
    {"array of complex, its imaginary parts", 2, {2, 4}},
    {"bitcast of complex to float", 4, {3, 1, 5, 1}},
    {"bitcast of bytes to i32", 1, {0x04030201}},
    {"scatter drops what is out of range", 3, {3, 10, 2}},
    {"random bits: other states, other bits", 1, {1}},
    {"random bits of u8 fit", 1, {1}},
    {"cast of NaN to bool", 1, {1}},
    {"reduction over no dims", 3, {4, 2, 3}},
  };
  static double out[MAX_RESULTS][8];
  tt_error err = {0};
  hlo_module *m = hlo_module_create(&err);
  hlo x = hlo_parameter(m, TT_F64, DIMS(3)), f = hlo_convert(m, x, TT_F32), r[2], results[32],
      last = hlo_int(m, TT_I32, 0);
  int n = 0;
  hlo yes =
      hlo_compare(m, "GT", hlo_reduce(m, "add", x, hlo_float(m, TT_F64, 0), 1, (int[]){0}), hlo_float(m, TT_F64, 0));
  hlo_while(m, 2, (hlo[]){last, x}, below, step, &x, r);
  results[n++] = r[1];
  hlo_if(m, yes, doubled, negated, &x, 1, r);
  results[n++] = r[0];
  hlo_if(m, hlo_unary(m, "not", yes), doubled, negated, &x, 1, r);
  results[n++] = r[0];
  hlo_sort(m, 2, (hlo[]){x, hlo_iota(m, TT_I32, DIMS(3), 0)}, 0, true, greater, NULL, r);
  results[n++] = r[1];
  hlo_top_k(m, f, 2, &r[0], &r[1]);
  results[n++] = r[0];
  hlo limits[] = {hlo_reshape(m, hlo_lowest(m, TT_I8), DIMS(1)), hlo_reshape(m, hlo_highest(m, TT_I8), DIMS(1))};
  results[n++] = hlo_concat(m, 2, limits, 0);
  results[n++] = hlo_array(m, TT_BOOL, DIMS(3), (uint8_t[]){1, 0, 1});
  results[n++] = hlo_unary(m, "imag", hlo_array(m, TT_C64, DIMS(2), (float[]){1, 2, 3, 4}));
  hlo two = hlo_slice_dim(m, f, 0, 0, 2, 1);
  hlo pairs = hlo_complex_of(m, two, hlo_array(m, TT_F32, DIMS(2), (float[]){1, 1}));
  results[n++] = hlo_binary(m, "add", hlo_flatten(m, hlo_bitcast(m, pairs, TT_F32)),
                            hlo_array(m, TT_F32, DIMS(4), (float[]){0, 0, 4, 0}));
  results[n++] = hlo_reshape(m, hlo_bitcast(m, hlo_array(m, TT_U8, DIMS(4), (uint8_t[]){1, 2, 3, 4}), TT_I32), DIMS(1));
  hlo_scatter_dims d = {
      .n_inserted = 1, .n_scatter = 1, .index_vector_dim = 1, .inserted = (int[]){0}, .scatter_to_operand = (int[]){0}};
  results[n++] = hlo_scatter(m, "replace", x, hlo_array(m, TT_I64, DIMS(3), (int64_t[]){1, 3, -1}),
                             hlo_full(m, TT_F64, DIMS(3), 10), &d);
  hlo state = hlo_array(m, TT_U64, DIMS(2), (uint64_t[]){1, 2}), next, a, b;
  a = hlo_random_bits(m, state, TT_U64, 0, NULL, &next);
  b = hlo_random_bits(m, next, TT_U64, 0, NULL, NULL);
  results[n++] = hlo_reshape(m, hlo_compare(m, "NE", a, b), DIMS(1));
  a = hlo_convert(m, hlo_random_bits(m, state, TT_U8, DIMS(50), NULL), TT_I32);
  b = hlo_reduce(m, "maximum", a, last, 1, (int[]){0});
  results[n++] = hlo_reshape(m,
                             hlo_binary(m, "and", hlo_compare(m, "GT", b, hlo_int(m, TT_I32, 127)),
                                        hlo_compare(m, "LT", b, hlo_int(m, TT_I32, 256))),
                             DIMS(1));
  results[n++] = hlo_reshape(m, hlo_convert(m, hlo_float(m, TT_F32, NAN), TT_BOOL), DIMS(1));
  results[n++] = hlo_reduce(m, "add", x, hlo_float(m, TT_F64, 1), 0, NULL);
  for (int k = 0; k < n; k++) results[k] = hlo_convert(m, results[k], TT_F64);
  if (run(m, n, results, 3, in, out, "compositions")) {
    for (int k = 0; k < n; k++) {
      bool ok = true;
      for (int i = 0; i < rows[k].n; i++) ok = ok && out[k][i] == rows[k].want[i];
      char why[160];
      snprintf(why, sizeof why, "expected %g, %g, %g ... got %g, %g, %g", rows[k].want[0], rows[k].want[1],
               rows[k].want[2], out[k][0], out[k][1], out[k][2]);
      check(ok, rows[k].what, why);
    }
  }
  hlo_module_destroy(m);
}

/* What is written for a TPU gives what the plugin's own operation gives: a dilated, grouped, strided convolution of
 * volumes. */
static void for_tpu(void) {
  static double out[2][8];
  const double in[] = {0};
  for (int tpu = 0; tpu < 2; tpu++) {
    tt_error err = {0};
    hlo_module *m = hlo_module_create(&err);
    if (tpu) hlo_lower_for_tpu(m);
    hlo zero = hlo_convert(m, hlo_parameter(m, TT_F64, DIMS(1)), TT_F32);
    hlo x = hlo_reshape(m, hlo_iota(m, TT_F32, DIMS(4 * 4 * 5 * 6 * 7), 0), DIMS(4, 4, 5, 6, 7));
    hlo kernel = hlo_reshape(m, hlo_iota(m, TT_F32, DIMS(4 * 2 * 2 * 3 * 2), 0), DIMS(4, 2, 2, 3, 2));
    x = hlo_unary(m, "sine", hlo_binary(m, "add", x, hlo_reshape(m, zero, 0, NULL)));
    int layout[] = {0, 1, 2, 3, 4}, last[] = {0, 4, 1, 2, 3};
    hlo_conv_dims d = {.n_spatial = 3,
                       .input = layout,
                       .kernel = layout,
                       .output = last,
                       .stride = (int64_t[]){2, 1, 2},
                       .low = (int64_t[]){1, -1, 2},
                       .high = (int64_t[]){2, 0, 3},
                       .lhs_dilation = (int64_t[]){1, 2, 1},
                       .rhs_dilation = (int64_t[]){2, 1, 3},
                       .reversal = (bool[]){false, true, true},
                       .feature_groups = 2,
                       .batch_groups = 1};
    hlo y = hlo_convolution(m, x, hlo_unary(m, "cosine", kernel), &d, 0, TT_F32);
    d.feature_groups = 1, d.batch_groups = 2;
    int order[] = {1, 0, 2, 3, 4};
    d.kernel = order; /* as a gradient to the weight has it */
    hlo z = hlo_convolution(m, hlo_slice_dim(m, x, 1, 0, 4, 1), hlo_unary(m, "sine", kernel), &d, 0, TT_F32), r[8];
    hlo ys[] = {y, z};
    for (int i = 0; i < 2; i++) {
      hlo v = hlo_flatten(m, ys[i]);
      /* tells places from each other */
      hlo weight = v ? hlo_unary(m, "cosine", hlo_iota(m, TT_F32, 1, v->dims, 0)) : NULL;
      r[2 * i] = hlo_reduce(m, "add", hlo_binary(m, "multiply", v, weight), hlo_float(m, TT_F32, 0), 1, (int[]){0});
      r[2 * i + 1] = hlo_reduce(m, "maximum", v, hlo_lowest(m, TT_F32), 1, (int[]){0});
    }
    for (int i = 0; i < 4; i++) r[i] = hlo_reshape(m, hlo_convert(m, r[i], TT_F64), DIMS(1));
    hlo all = hlo_concat(m, 4, r, 0);
    if (!run(m, 1, &all, 1, in, &out[tpu], "convolutions for a TPU")) return hlo_module_destroy(m);
    hlo_module_destroy(m);
  }
  for (int i = 0; i < 4; i++)
    check(fabs(out[0][i] - out[1][i]) < 1e-3, "convolutions for a TPU", "other values than the plugin's own");
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: values PLUGIN\n"), 2;
  tt_error err = {0};
  tt_plugin *plugin = tt_plugin_load(argv[1], &err);
  client = plugin ? tt_client_create(plugin, 1, &err) : NULL;
  if (!client) return fprintf(stderr, "%s: %s\n", argv[1], err.message), 1;
  constants();
  compositions();
  for_tpu();
  tt_client_destroy(client);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
