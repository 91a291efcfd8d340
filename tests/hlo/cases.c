/* cases.c: small modules that together use every builder of hlo.h, with odd sizes, empty dims and rank 0 among them.
 *
 * Each is built the same way every time: its text is compared with a golden file and compiled on real plugins.
 * Values are tested elsewhere: here it is what is printed. */
#include "cases.h"

#include <math.h>
#include <string.h>

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static hlo put(hlo_case_result *o, hlo x) { return o->results[o->n++] = x; }

static void unary(hlo_module *m, hlo_case_result *o) {
  static const char *const ops[] = {"abs",
                                    "cbrt",
                                    "ceil",
                                    "cosine",
                                    "exponential",
                                    "exponential_minus_one",
                                    "floor",
                                    "log",
                                    "log_plus_one",
                                    "logistic",
                                    "negate",
                                    "round_nearest_afz",
                                    "round_nearest_even",
                                    "rsqrt",
                                    "sign",
                                    "sine",
                                    "sqrt",
                                    "tan",
                                    "tanh"};
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3)), z = hlo_parameter(m, TT_C64, DIMS(3)),
      i = hlo_parameter(m, TT_I32, 0, NULL);
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) put(o, hlo_unary(m, ops[k], x));
  put(o, hlo_unary(m, "is_finite", x));
  put(o, hlo_unary(m, "real", z));
  put(o, hlo_unary(m, "imag", z));
  put(o, hlo_unary(m, "abs", z));
  put(o, hlo_unary(m, "exponential", z));
  put(o, hlo_unary(m, "imag", x));
  put(o, hlo_unary(m, "not", i));
  put(o, hlo_unary(m, "popcnt", i));
  put(o, hlo_unary(m, "count_leading_zeros", i));
}

static void chlo(hlo_module *m, hlo_case_result *o) {
  static const char *const ops[] = {"chlo.erf",     "chlo.erfc",       "chlo.erf_inv", "chlo.lgamma",
                                    "chlo.digamma", "chlo.bessel_i1e", "chlo.acos",    "chlo.acosh",
                                    "chlo.asin",    "chlo.asinh",      "chlo.atan",    "chlo.atanh",
                                    "chlo.cosh",    "chlo.sinh",       "chlo.tan",     "chlo.is_inf"};
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3)), y = hlo_parameter(m, TT_F32, DIMS(2, 3));
  for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) put(o, hlo_unary(m, ops[k], x));
  put(o, hlo_binary(m, "chlo.next_after", x, y));
  put(o, hlo_binary(m, "chlo.polygamma", x, y));
  put(o, hlo_binary(m, "chlo.zeta", x, y));
}

static void binary(hlo_module *m, hlo_case_result *o) {
  static const char *const floats[] = {"add",      "atan2", "divide",    "maximum", "minimum",
                                       "multiply", "power", "remainder", "subtract"};
  static const char *const ints[] = {"add",
                                     "and",
                                     "divide",
                                     "maximum",
                                     "multiply",
                                     "or",
                                     "power",
                                     "remainder",
                                     "shift_left",
                                     "shift_right_arithmetic",
                                     "shift_right_logical",
                                     "subtract",
                                     "xor"};
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3)), y = hlo_parameter(m, TT_F32, DIMS(2, 3)),
      s = hlo_parameter(m, TT_F32, 0, NULL);
  hlo i = hlo_parameter(m, TT_I64, DIMS(5)), j = hlo_parameter(m, TT_I64, DIMS(5));
  for (size_t k = 0; k < sizeof floats / sizeof *floats; k++) put(o, hlo_binary(m, floats[k], x, y));
  for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) put(o, hlo_binary(m, ints[k], i, j));
  put(o, hlo_binary(m, "add", x, s));
  put(o, hlo_binary(m, "subtract", s, x));
  put(o, hlo_binary_scalar(m, "multiply", x, 0.5));
  put(o, hlo_binary_scalar(m, "add", i, 3));
}

static void compare(hlo_module *m, hlo_case_result *o) {
  static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3)), y = hlo_parameter(m, TT_F32, DIMS(2, 3)),
      s = hlo_parameter(m, TT_F32, 0, NULL);
  hlo u = hlo_parameter(m, TT_U8, DIMS(4)), b = hlo_parameter(m, TT_BOOL, DIMS(4)),
      z = hlo_parameter(m, TT_C64, DIMS(4));
  hlo p = NULL;
  for (int k = 0; k < 6; k++) p = put(o, hlo_compare(m, directions[k], x, y));
  put(o, hlo_compare(m, "LT", x, s));
  put(o, hlo_compare(m, "LT", u, u));
  put(o, hlo_compare(m, "EQ", b, b));
  put(o, hlo_compare(m, "EQ", z, z));
  put(o, hlo_select(m, p, x, y));
  put(o, hlo_select(m, p, s, y));
  put(o, hlo_select(m, p, s, s));
  put(o, hlo_select(m, hlo_compare(m, "LT", s, s), x, y));
  put(o, hlo_clamp(m, s, x, s));
  put(o, hlo_clamp(m, x, s, y));
  put(o, hlo_complex_of(m, x, s));
}

/* Each dtype to some others. f8 and f4 narrower than what all plugins have stand in a module of their own. */
static void convert(hlo_module *m, hlo_case_result *o) {
  static const tt_dtype all[] = {TT_BOOL, TT_U8,  TT_U16,  TT_U32, TT_U64, TT_I8,  TT_I16, TT_I32,
                                 TT_I64,  TT_F16, TT_BF16, TT_F32, TT_F64, TT_C64, TT_C128};
  static const tt_dtype to[] = {TT_BOOL, TT_I64, TT_F32, TT_C64};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    hlo x = hlo_parameter(m, all[i], DIMS(3));
    for (size_t k = 0; k < 4; k++) put(o, hlo_convert(m, x, to[k]));
  }
}

static void convert_narrow(hlo_module *m, hlo_case_result *o) {
  static const tt_dtype narrow[] = {TT_F8E4M3FN, TT_F8E5M2, TT_F8E4M3FNUZ, TT_F8E5M2FNUZ};
  static const tt_dtype to[] = {TT_BOOL, TT_I32, TT_F32, TT_BF16, TT_F8E5M2, TT_C64};
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
    hlo x = hlo_parameter(m, narrow[i], DIMS(3));
    for (size_t k = 0; k < sizeof to / sizeof *to; k++) put(o, hlo_convert(m, x, to[k]));
    put(o, hlo_convert(m, hlo_parameter(m, TT_F32, DIMS(3)), narrow[i]));
    put(o, hlo_convert(m, hlo_parameter(m, TT_I32, DIMS(3)), narrow[i]));
  }
}

static void convert_microscaling(hlo_module *m, hlo_case_result *o) {
  put(o, hlo_convert(m, hlo_parameter(m, TT_F8E8M0FNU, DIMS(4)), TT_F32));
  put(o, hlo_convert(m, hlo_parameter(m, TT_F4E2M1FN, DIMS(4)), TT_F32));
  put(o, hlo_convert(m, hlo_parameter(m, TT_F32, DIMS(4)), TT_F8E8M0FNU));
  put(o, hlo_convert(m, hlo_parameter(m, TT_F32, DIMS(4)), TT_F4E2M1FN));
  put(o, hlo_float(m, TT_F8E8M0FNU, 4));
  put(o, hlo_float(m, TT_F4E2M1FN, -1.5));
}

static void bitcast(hlo_module *m, hlo_case_result *o) {
  hlo f = hlo_parameter(m, TT_F32, DIMS(2, 4)), z = hlo_parameter(m, TT_C64, DIMS(3)),
      b = hlo_parameter(m, TT_BOOL, DIMS(4));
  hlo d = hlo_parameter(m, TT_F64, DIMS(3)), p = hlo_parameter(m, TT_F32, DIMS(3, 2)),
      q = hlo_parameter(m, TT_C64, DIMS(3, 2));
  hlo bytes = hlo_parameter(m, TT_U8, DIMS(3, 8));
  put(o, hlo_bitcast(m, f, TT_I32));
  put(o, hlo_bitcast(m, f, TT_U8));
  put(o, hlo_bitcast(m, p, TT_F64));
  put(o, hlo_bitcast(m, p, TT_C64));
  put(o, hlo_bitcast(m, z, TT_F32));
  put(o, hlo_bitcast(m, z, TT_I16));
  put(o, hlo_bitcast(m, z, TT_I64));
  put(o, hlo_bitcast(m, d, TT_C64));
  put(o, hlo_bitcast(m, q, TT_C128));
  put(o, hlo_bitcast(m, bytes, TT_C64));
  put(o, hlo_bitcast(m, b, TT_U8));
  put(o, hlo_bitcast(m, hlo_bitcast(m, b, TT_I8), TT_BOOL));
}

static void constants(hlo_module *m, hlo_case_result *o) {
  put(o, hlo_float(m, TT_F32, 1));
  put(o, hlo_float(m, TT_F32, 0.1));
  put(o, hlo_float(m, TT_F32, -0.0));
  put(o, hlo_float(m, TT_F32, NAN));
  put(o, hlo_float(m, TT_F32, -INFINITY));
  put(o, hlo_float(m, TT_F32, 1e30));
  put(o, hlo_float(m, TT_F64, 0.1));
  put(o, hlo_float(m, TT_F64, 1.0 / 1024));
  put(o, hlo_float(m, TT_BF16, 3.14159));
  put(o, hlo_float(m, TT_F16, 65520)); /* rounds to infinity */
  put(o, hlo_float(m, TT_F16, 6e-8));  /* the smallest subnormal */
  put(o, hlo_float(m, TT_F8E4M3FN, 17)); /* a tie, to even: 16 */
  put(o, hlo_float(m, TT_F8E5M2, 1e9));
  put(o, hlo_float(m, TT_I32, -7.9));
  put(o, hlo_float(m, TT_BOOL, 2));
  put(o, hlo_float(m, TT_U64, 1.8e19));
  put(o, hlo_float(m, TT_C64, 2));
  put(o, hlo_complex(m, TT_C128, 0.1, -INFINITY));
  put(o, hlo_int(m, TT_I64, INT64_MIN));
  put(o, hlo_int(m, TT_U64, -1));
  put(o, hlo_int(m, TT_U8, 300));
  put(o, hlo_int(m, TT_F32, 16777217));
  put(o, hlo_int(m, TT_I32, 7));
  put(o, hlo_int(m, TT_I32, 7)); /* the same value */
  put(o, hlo_full(m, TT_F32, DIMS(2, 3), 7));
  put(o, hlo_full(m, TT_F32, DIMS(2, 0), 7));
  put(o, hlo_full_like(m, hlo_full(m, TT_I8, DIMS(3), 1), -1));
  put(o, hlo_array(m, TT_F32, DIMS(2, 2), (float[]){1, 2, 3, 4}));
  put(o, hlo_array(m, TT_I16, DIMS(3), (int16_t[]){5, 5, 5}));
  put(o, hlo_array(m, TT_BOOL, DIMS(3), (uint8_t[]){1, 0, 1}));
  put(o, hlo_array(m, TT_C64, DIMS(2), (float[]){1, 2, 3, 4}));
  put(o, hlo_array(m, TT_F64, 0, NULL, (double[]){0.1}));
  put(o, hlo_array(m, TT_U64, DIMS(0), NULL));
  put(o, hlo_iota(m, TT_I32, DIMS(2, 3), 1));
  put(o, hlo_iota(m, TT_I32, DIMS(2, 3), 1)); /* the same value */
  put(o, hlo_iota(m, TT_F32, DIMS(2, 3), 0));
  put(o, hlo_iota(m, TT_C64, DIMS(3), 0));
}

static void limits(hlo_module *m, hlo_case_result *o) {
  static const tt_dtype all[] = {TT_BOOL, TT_U8,       TT_U16,    TT_U32,        TT_U64,       TT_I8,
                                 TT_I16,  TT_I32,      TT_I64,    TT_F16,        TT_BF16,      TT_F32,
                                 TT_F64,  TT_F8E4M3FN, TT_F8E5M2, TT_F8E4M3FNUZ, TT_F8E5M2FNUZ};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    put(o, hlo_lowest(m, all[i]));
    put(o, hlo_highest(m, all[i]));
  }
}

static void shape(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3, 4)), s = hlo_parameter(m, TT_F32, 0, NULL),
      e = hlo_parameter(m, TT_F32, DIMS(0, 3));
  hlo i = hlo_parameter(m, TT_I32, 0, NULL), zero = hlo_int(m, TT_I32, 0);
  put(o, hlo_reshape(m, x, DIMS(4, 6)));
  put(o, hlo_reshape(m, s, DIMS(1, 1)));
  put(o, hlo_reshape(m, e, DIMS(5, 0)));
  put(o, hlo_flatten(m, x));
  put(o, hlo_transpose(m, x, (int[]){2, 0, 1}));
  put(o, hlo_broadcast(m, x, DIMS(2, 5, 3, 4), (int[]){0, 2, 3}));
  put(o, hlo_broadcast_to(m, s, DIMS(2, 3)));
  put(o, hlo_broadcast_to(m, hlo_slice_dim(m, x, 1, 1, 2, 1), DIMS(7, 2, 3, 4)));
  put(o, hlo_slice(m, x, (int64_t[]){0, 1, 0}, (int64_t[]){2, 3, 4}, (int64_t[]){1, 1, 2}));
  put(o, hlo_dynamic_slice(m, x, (hlo[]){zero, i, zero}, (int64_t[]){2, 1, 4}));
  put(o, hlo_dynamic_update_slice(m, x, hlo_full(m, TT_F32, DIMS(1, 1, 4), 9), (hlo[]){i, i, zero}));
  put(o, hlo_pad(m, x, s, (int64_t[]){1, 0, -1}, (int64_t[]){0, 2, 0}, (int64_t[]){0, 1, 0}));
  put(o, hlo_pad(m, e, s, (int64_t[]){1, 0}, (int64_t[]){1, 0}, NULL));
  put(o, hlo_concat(m, 3, (hlo[]){x, x, hlo_slice_dim(m, x, 1, 0, 1, 1)}, 1));
  put(o, hlo_reverse(m, x, 2, (int[]){0, 2}));
  put(o, hlo_squeeze_dim(m, hlo_unsqueeze(m, s, 0), 0));
  put(o, hlo_unsqueeze(m, x, 3));
  /* None of these changes anything: all are x. */
  put(o, hlo_slice_dim(m, hlo_transpose(m, hlo_reshape(m, x, DIMS(2, 3, 4)), (int[]){0, 1, 2}), 1, 0, 3, 1));
}

static void argmax_body(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  hlo better = hlo_compare(m, "GT", a[2], a[0]);
  r[0] = hlo_select(m, better, a[2], a[0]);
  r[1] = hlo_select(m, better, a[3], a[1]);
}

/* Its constant is made inside the body, though the same stands outside. */
static void scaled_add(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_binary(m, "add", a[0], hlo_binary_scalar(m, "multiply", a[1], 2));
}

static void reduce(hlo_module *m, hlo_case_result *o) {
  static const char *const ops[] = {"add", "multiply", "maximum", "minimum"};
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3, 4)), b = hlo_parameter(m, TT_BOOL, DIMS(2, 3)),
      zero = hlo_float(m, TT_F32, 0);
  for (int k = 0; k < 4; k++) put(o, hlo_reduce(m, ops[k], x, zero, 2, (int[]){0, 2}));
  put(o, hlo_reduce(m, "or", b, hlo_int(m, TT_BOOL, 0), 1, (int[]){1}));
  put(o, hlo_reduce(m, "and", b, hlo_int(m, TT_BOOL, 1), 2, (int[]){0, 1}));
  put(o, hlo_reduce(m, "xor", b, hlo_int(m, TT_BOOL, 0), 1, (int[]){0}));
  put(o, hlo_reduce(m, "add", hlo_parameter(m, TT_F32, DIMS(3, 0)), zero, 1, (int[]){1}));
  hlo xs[] = {x, hlo_iota(m, TT_I64, DIMS(2, 3, 4), 1)}, r[2];
  hlo_reduce_n(m, 2, xs, (hlo[]){hlo_lowest(m, TT_F32), hlo_int(m, TT_I64, 0)}, 1, (int[]){1}, argmax_body, NULL, r);
  put(o, r[0]);
  put(o, r[1]);
  hlo two = hlo_float(m, TT_F32, 2);
  hlo_reduce_n(m, 1, &x, &two, 1, (int[]){0}, scaled_add, NULL, r);
  put(o, r[0]);
}

static void windows(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(1, 1, 7, 8)), low = hlo_lowest(m, TT_F32), zero = hlo_float(m, TT_F32, 0);
  int64_t size[] = {1, 1, 2, 3}, stride[] = {1, 1, 2, 2}, dilation[] = {1, 1, 2, 1}, pad[] = {0, 0, 1, 1};
  hlo_window w = {size, stride, NULL, NULL, pad, pad}, dilated = {size, stride, dilation, NULL, pad, NULL},
             base = {size, NULL, NULL, dilation, NULL, NULL};
  hlo y = put(o, hlo_reduce_window(m, "maximum", x, low, &w));
  put(o, hlo_reduce_window(m, "add", x, zero, &dilated));
  put(o, hlo_reduce_window(m, "add", x, zero, &base));
  put(o, hlo_select_and_scatter(m, x, y, zero, "GE", &w));
  hlo xs[] = {x, hlo_iota(m, TT_I32, DIMS(1, 1, 7, 8), 3)}, r[2];
  hlo_reduce_window_n(m, 2, xs, (hlo[]){low, hlo_int(m, TT_I32, 0)}, &w, argmax_body, NULL, r);
  put(o, r[0]);
  put(o, r[1]);
}

static void less(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_compare(m, "LT", a[0], a[1]);
}

static void sort(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(3, 5)), e = hlo_parameter(m, TT_F32, DIMS(3, 0)), r[2];
  hlo_sort(m, 2, (hlo[]){x, hlo_iota(m, TT_I64, DIMS(3, 5), 1)}, 1, true, less, NULL, r);
  put(o, r[0]);
  put(o, r[1]);
  hlo_sort(m, 1, &e, 1, false, less, NULL, r);
  put(o, r[0]);
}

static void top_k(hlo_module *m, hlo_case_result *o) {
  hlo v, i;
  hlo_top_k(m, hlo_parameter(m, TT_F32, DIMS(3, 7)), 2, &v, &i);
  put(o, v);
  put(o, i);
  hlo_top_k(m, hlo_parameter(m, TT_I64, DIMS(5)), 5, &v, &i);
  put(o, v);
  put(o, i);
}

static void below_ten(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_compare(m, "LT", a[0], hlo_int(m, TT_I32, 10));
}

static void count_and_add(hlo_module *m, const hlo *a, hlo *r, void *user) {
  r[0] = hlo_binary_scalar(m, "add", a[0], 1);
  r[1] = hlo_binary(m, "add", a[1], *(hlo *)user); /* a value from outside */
}

static void twice(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)a;
  r[0] = hlo_binary_scalar(m, "multiply", *(hlo *)user, 2);
}

static void itself(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)m, (void)a;
  r[0] = *(hlo *)user;
}

static void control(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(3)), p = hlo_parameter(m, TT_BOOL, 0, NULL), r[2];
  hlo_while(m, 2, (hlo[]){hlo_int(m, TT_I32, 0), x}, below_ten, count_and_add, &x, r);
  put(o, r[0]);
  put(o, r[1]);
  hlo_if(m, p, twice, itself, &x, 1, r);
  put(o, r[0]);
}

static void gather(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(5, 4)), i = hlo_parameter(m, TT_I64, DIMS(2, 3)),
      v = hlo_parameter(m, TT_I32, DIMS(7, 2));
  hlo_gather_dims rows = {.n_offset = 1,
                          .n_collapsed = 1,
                          .n_start = 1,
                          .index_vector_dim = 2,
                          .offset = (int[]){2},
                          .collapsed = (int[]){0},
                          .start_index_map = (int[]){0},
                          .slice_sizes = (int64_t[]){1, 4}};
  put(o, hlo_gather(m, x, i, &rows));
  hlo_gather_dims points = {.n_collapsed = 2,
                            .n_start = 2,
                            .index_vector_dim = 1,
                            .collapsed = (int[]){0, 1},
                            .start_index_map = (int[]){0, 1},
                            .slice_sizes = (int64_t[]){1, 1}};
  hlo picked = put(o, hlo_gather(m, x, v, &points));
  hlo_scatter_dims back = {.n_inserted = 2,
                           .n_scatter = 2,
                           .index_vector_dim = 1,
                           .inserted = (int[]){0, 1},
                           .scatter_to_operand = (int[]){0, 1}};
  put(o, hlo_scatter(m, "add", x, v, picked, &back));
  put(o, hlo_scatter(m, "replace", x, v, picked, &back));
  put(o, hlo_scatter(m, "maximum", x, v, picked, &back));
  hlo_scatter_dims whole = {.n_update_window = 1,
                            .n_inserted = 1,
                            .n_scatter = 1,
                            .index_vector_dim = 2,
                            .update_window = (int[]){2},
                            .inserted = (int[]){0},
                            .scatter_to_operand = (int[]){0},
                            .sorted = true,
                            .unique = true};
  put(o, hlo_scatter(m, "add", x, i, hlo_full(m, TT_F32, DIMS(2, 3, 4), 1), &whole));
}

static void dot(hlo_module *m, hlo_case_result *o) {
  hlo a = hlo_parameter(m, TT_F32, DIMS(5, 2, 3)), b = hlo_parameter(m, TT_F32, DIMS(5, 3, 4));
  hlo h = hlo_parameter(m, TT_BF16, DIMS(2, 3)), i = hlo_parameter(m, TT_I32, DIMS(3)),
      e = hlo_parameter(m, TT_F32, DIMS(2, 0));
  hlo_dot_dims batched = {1, 1, (int[]){0}, (int[]){0}, (int[]){2}, (int[]){1}},
               plain = {0, 1, NULL, NULL, (int[]){1}, (int[]){1}};
  hlo_dot_dims inner = {0, 1, NULL, NULL, (int[]){0}, (int[]){0}}, outer = {0, 0, NULL, NULL, NULL, NULL};
  for (int precision = 0; precision < 3; precision++) put(o, hlo_dot(m, a, b, &batched, precision, TT_F32));
  put(o, hlo_dot(m, h, h, &plain, 0, TT_F32));
  put(o, hlo_dot(m, i, i, &inner, 0, TT_I32));
  put(o, hlo_dot(m, i, i, &outer, 0, TT_I32));
  put(o, hlo_dot(m, e, e, &plain, 0, TT_F32));
}

static void convolution(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(2, 4, 7, 9)), w = hlo_parameter(m, TT_F32, DIMS(6, 2, 3, 3));
  int order[] = {0, 1, 2, 3}, swapped[] = {1, 0, 2, 3};
  int64_t stride[] = {2, 1}, pad[] = {1, 0}, dilation[] = {1, 2}, one[] = {1, 1};
  bool reversal[] = {true, true};
  hlo_conv_dims d = {2, order, order, order, stride, pad, pad, NULL, dilation, NULL, 2, 1};
  put(o, hlo_convolution(m, x, w, &d, 0, TT_F32));
  hlo y = hlo_parameter(m, TT_F32, DIMS(2, 6, 3, 3));
  hlo_conv_dims t = {2, order, swapped, order, NULL, one, one, stride, NULL, reversal, 1, 1};
  put(o, hlo_convolution(m, y, w, &t, 2, TT_F32));
  hlo line = hlo_parameter(m, TT_BF16, DIMS(1, 3, 5));
  hlo_conv_dims one_dim = {1, order, order, order, NULL, NULL, NULL, NULL, NULL, NULL, 1, 1};
  put(o, hlo_convolution(m, line, hlo_parameter(m, TT_BF16, DIMS(2, 3, 2)), &one_dim, 0, TT_BF16));
}

static void random_bits(hlo_module *m, hlo_case_result *o) {
  hlo state = hlo_parameter(m, TT_U64, DIMS(2));
  put(o, hlo_random_bits(m, state, TT_U8, DIMS(3), &state));
  put(o, hlo_random_bits(m, state, TT_U32, DIMS(2, 3), &state));
  put(o, hlo_random_bits(m, state, TT_U64, 0, NULL, &state));
  put(o, hlo_random_bits(m, state, TT_U16, DIMS(0, 3), NULL));
  put(o, state);
}

static void linalg(hlo_module *m, hlo_case_result *o) {
  hlo a = hlo_parameter(m, TT_F32, DIMS(2, 3, 3)), b = hlo_parameter(m, TT_F32, DIMS(2, 3, 4));
  hlo l = put(o, hlo_cholesky(m, a, true));
  put(o, hlo_cholesky(m, a, false));
  put(o, hlo_triangular_solve(m, l, b, true, true, false, "NO_TRANSPOSE"));
  put(o, hlo_triangular_solve(m, l, hlo_transpose(m, b, (int[]){0, 2, 1}), false, true, true, "TRANSPOSE"));
}

static void fft(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(3, 8)), z = hlo_parameter(m, TT_C64, DIMS(3, 8));
  int64_t two[] = {3, 8};
  put(o, hlo_fft(m, z, "FFT", 1, two + 1));
  put(o, hlo_fft(m, z, "IFFT", 2, two));
  hlo half = put(o, hlo_fft(m, x, "RFFT", 1, two + 1));
  put(o, hlo_fft(m, half, "IRFFT", 1, two + 1));
}

static void custom_call(hlo_module *m, hlo_case_result *o) {
  hlo a = hlo_parameter(m, TT_F32, DIMS(4, 3)), r[2];
  hlo_type types[] = {{TT_F32, 2, (int64_t[]){4, 3}}, {TT_F32, 1, (int64_t[]){3}}};
  hlo_custom_call(m, "Qr", 1, &a, "", 2, types, r);
  put(o, r[0]);
  put(o, r[1]);
}

static void donation(hlo_module *m, hlo_case_result *o) {
  hlo a = hlo_parameter(m, TT_F32, DIMS(8, 8)), b = hlo_parameter(m, TT_F32, DIMS(8, 8)),
      c = hlo_parameter(m, TT_I32, 0, NULL);
  put(o, hlo_binary(m, "add", b, hlo_convert(m, c, TT_F32)));
  put(o, hlo_binary(m, "multiply", a, b));
  memcpy(o->donated, (int[]){1, 0, -1}, 3 * sizeof(int));
  o->donates = true;
}

static void for_tpu(hlo_module *m, hlo_case_result *o) {
  hlo_lower_for_tpu(m);
  hlo a = hlo_parameter(m, TT_I64, DIMS(2, 3)), b = hlo_parameter(m, TT_I64, DIMS(2, 3)),
      n = hlo_parameter(m, TT_U64, 0, NULL);
  put(o, hlo_binary(m, "divide", a, b));
  put(o, hlo_binary(m, "remainder", a, b)); /* takes the quotient above */
  put(o, hlo_binary(m, "divide", hlo_convert(m, a, TT_U64), n));
  put(o, hlo_binary(m, "divide", hlo_convert(m, a, TT_I32), hlo_convert(m, b, TT_I32)));
  int one = 1;
  put(o, hlo_dot(m, a, b, &(hlo_dot_dims){.n_contract = 1, .lhs_contract = &one, .rhs_contract = &one}, 0, TT_I64));
  hlo x = hlo_parameter(m, TT_I64, DIMS(1, 4, 6)), kernel = hlo_parameter(m, TT_I64, DIMS(2, 2, 3));
  hlo_conv_dims d = {.n_spatial = 1,
                     .input = (int[]){0, 1, 2},
                     .kernel = (int[]){0, 1, 2},
                     .output = (int[]){0, 1, 2},
                     .stride = (int64_t[]){2},
                     .low = (int64_t[]){1},
                     .high = (int64_t[]){1},
                     .feature_groups = 2,
                     .batch_groups = 1};
  put(o, hlo_convolution(m, x, kernel, &d, 0, TT_I64));
  hlo volume = hlo_parameter(m, TT_F32, DIMS(1, 1, 11, 12, 13)), small = hlo_parameter(m, TT_F32, DIMS(1, 1, 4, 4, 4));
  int places[] = {0, 1, 2, 3, 4};
  int64_t four[] = {4, 4, 4}, three[] = {3, 3, 3};
  d = (hlo_conv_dims){.n_spatial = 3, .input = places, .kernel = places, .output = places, .low = four, .high = four,
                      .rhs_dilation = three, .feature_groups = 1, .batch_groups = 1};
  put(o, hlo_convolution(m, volume, small, &d, 0, TT_F32));
  hlo z = hlo_parameter(m, TT_F64, DIMS(2, 6));
  put(o, hlo_fft(m, z, "RFFT", 1, (int64_t[]){6}));
}

/* Of one group of one replica, which is what compiles on one device; the Python tests have more. */
static void collectives(hlo_module *m, hlo_case_result *o) {
  hlo x = hlo_parameter(m, TT_F32, DIMS(6, 4)), b = hlo_parameter(m, TT_BOOL, DIMS(3)), both[] = {x, b};
  hlo_groups g = {1, 1, (int64_t[]){0}};
  put(o, hlo_all_reduce(m, "add", x, &g));
  put(o, hlo_all_reduce(m, "and", b, &g));
  put(o, hlo_reduce_scatter(m, "maximum", x, 1, &g));
  put(o, hlo_all_gather(m, x, 0, &g));
  put(o, hlo_all_to_all(m, x, 0, 1, &g));
  put(o, hlo_collective_permute(m, x, 1, (int64_t[]){0}, (int64_t[]){0}));
  hlo_optimization_barrier(m, 2, both, o->results + o->n);
  o->n += 2;
}

static void nothing(hlo_module *m, hlo_case_result *o) {
  hlo_parameter(m, TT_F32, DIMS(3));
  (void)o;
}

static void parameters_as_results(hlo_module *m, hlo_case_result *o) {
  hlo a = hlo_parameter(m, TT_F32, DIMS(3)), b = hlo_parameter(m, TT_BOOL, 0, NULL);
  put(o, b);
  put(o, a);
  put(o, a);
}

const hlo_case hlo_cases[] = {
  {"binary", binary},
  {"bitcast", bitcast},
  {"chlo", chlo},
  {"collectives", collectives},
  {"compare", compare},
  {"constants", constants},
  {"control", control},
  {"convert", convert},
  {"convert_microscaling", convert_microscaling},
  {"convert_narrow", convert_narrow},
  {"convolution", convolution},
  {"custom_call", custom_call},
  {"donation", donation},
  {"dot", dot},
  {"fft", fft},
  {"for_tpu", for_tpu},
  {"gather", gather},
  {"limits", limits},
  {"linalg", linalg},
  {"nothing", nothing},
  {"parameters_as_results", parameters_as_results},
  {"random_bits", random_bits},
  {"reduce", reduce},
  {"shape", shape},
  {"sort", sort},
  {"top_k", top_k},
  {"unary", unary},
  {"view_read", case_view_read},
  {"view_read_moving", case_view_read_moving},
  {"view_write", case_view_write},
  {"view_write_moving", case_view_write_moving},
  {"windows", windows},
};
const int hlo_case_count = sizeof hlo_cases / sizeof *hlo_cases;

const char *hlo_case_text(const hlo_case *c, hlo_module **m, size_t *length, tt_error *err) {
  hlo_case_result out = {0};
  *m = hlo_module_create(err);
  if (!*m) return NULL;
  c->build(*m, &out);
  return hlo_finish(*m, out.n, out.results, out.donates ? out.donated : NULL, length, err);
}
