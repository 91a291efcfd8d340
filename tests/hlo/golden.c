/* golden.c: compares the printed text of every case with its golden file, and the errors of wrong calls with their
 * messages.
 *
 * usage: golden FOLDER [--update]. Update rewrites the files of FOLDER: read the difference like code. No plugin is
 * used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cases.h"

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static int passed, failed;

static void check(bool ok, const char *what, const char *why) {
  if (ok) passed++;
  else failed++, printf("FAIL %s: %s\n", what, why);
}

static char *read_file(const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  char *data = malloc((size_t)n + 1);
  *length = data ? fread(data, 1, (size_t)n, f) : 0;
  fclose(f);
  return data;
}

static void golden(const char *folder, const hlo_case *c, bool update) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s.mlir", folder, c->name);
  tt_error err = {0};
  hlo_module *m;
  size_t length = 0, golden_length = 0;
  const char *text = hlo_case_text(c, &m, &length, &err);
  if (!text) {
    check(false, c->name, err.message);
  } else if (update) {
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(text, 1, length, f) == length;
    if (f) ok = !fclose(f) && ok;
    check(ok, c->name, "cannot write its golden file");
  } else {
    char *want = read_file(path, &golden_length);
    check(want && golden_length == length && !memcmp(want, text, length), c->name,
          want ? "the text differs from its golden file" : "no golden file; run with --update");
    free(want);
  }
  hlo_module_destroy(m);
}

/* ---- wrong calls ---- */

static hlo escaped;
static void let_escape(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  escaped = r[0] = hlo_binary(m, "add", a[0], a[1]);
}
static void take_from_outside(hlo_module *m, const hlo *a, hlo *r, void *user) {
  r[0] = hlo_binary(m, "add", a[0], user);
}
static void wrong_type(hlo_module *m, const hlo *a, hlo *r, void *user) {
  (void)user;
  r[0] = hlo_convert(m, a[0], TT_I32);
}
static void forget(hlo_module *m, const hlo *a, hlo *r, void *user) { (void)m, (void)a, (void)r, (void)user; }

static void bad_add(hlo_module *m, hlo x) { hlo_binary(m, "add", x, hlo_parameter(m, TT_F32, DIMS(3, 2))); }
static void bad_dtype(hlo_module *m, hlo x) { hlo_binary(m, "add", x, hlo_parameter(m, TT_I64, DIMS(2, 3))); }
static void bad_bits(hlo_module *m, hlo x) { hlo_binary(m, "and", x, x); }
static void bad_real(hlo_module *m, hlo x) { hlo_unary(m, "sine", hlo_convert(m, x, TT_I32)); }
static void bad_convolution(hlo_module *m, hlo x) {
  (void)x;
  hlo_conv_dims d = {.n_spatial = 1,
                     .feature_groups = 1,
                     .batch_groups = 1,
                     .input = (int[]){0, 1, 2},
                     .kernel = (int[]){0, 1, 2},
                     .output = (int[]){0, 1, 2}};
  hlo_convolution(m, hlo_parameter(m, TT_F32, DIMS(1, 2, 5)), hlo_parameter(m, TT_F64, DIMS(3, 2, 2)), &d, 0, TT_F32);
}
static void bad_null(hlo_module *m, hlo x) { hlo_binary(m, "add", x, NULL); }
static void bad_reshape(hlo_module *m, hlo x) { hlo_reshape(m, x, DIMS(7)); }
static void bad_slice(hlo_module *m, hlo x) { hlo_slice_dim(m, x, 1, 0, 4, 1); }
static void bad_dim(hlo_module *m, hlo x) { hlo_reduce(m, "add", x, hlo_float(m, TT_F32, 0), 1, (int[]){2}); }
static void bad_escape(hlo_module *m, hlo x) {
  hlo r, zero = hlo_float(m, TT_F32, 0);
  hlo_reduce_n(m, 1, &x, &zero, 1, (int[]){0}, let_escape, NULL, &r);
  hlo_unary(m, "negate", escaped);
}
static void bad_outside(hlo_module *m, hlo x) {
  hlo r, zero = hlo_float(m, TT_F32, 0);
  hlo_reduce_n(m, 1, &x, &zero, 1, (int[]){0}, take_from_outside, (void *)zero, &r);
}
static void bad_body(hlo_module *m, hlo x) {
  hlo r, zero = hlo_float(m, TT_F32, 0);
  hlo_reduce_n(m, 1, &x, &zero, 1, (int[]){0}, wrong_type, NULL, &r);
}
static void bad_no_result(hlo_module *m, hlo x) {
  hlo r, zero = hlo_float(m, TT_F32, 0);
  hlo_reduce_n(m, 1, &x, &zero, 1, (int[]){0}, forget, NULL, &r);
}
static void bad_first_wins(hlo_module *m, hlo x) {
  hlo_fail(m, TT_UNIMPLEMENTED, "sum of %d parts", 3);
  hlo_binary(m, "add", x, NULL);
}

static const struct {
  const char *name;
  void (*build)(hlo_module *m, hlo x);
  tt_code code;
  const char *message;
} wrong[] = {
    {"wrong dims", bad_add, TT_INTERNAL, "hlo add: expected f32[2,3], got f32[3,2]"},
    {"wrong dtype", bad_dtype, TT_INTERNAL, "hlo add: expected f32[2,3], got i64[2,3]"},
    {"bits of floats", bad_bits, TT_INTERNAL, "hlo and: not defined for f32"},
    {"sine of integers", bad_real, TT_INTERNAL, "hlo sine: not defined for i32"},
    {"convolution of two dtypes", bad_convolution, TT_INTERNAL, "hlo convolution: expected f32[1,2,5], got f64[3,2,2]"},
    {"missing operand", bad_null, TT_INTERNAL, "hlo add: operand 1 is missing"},
    {"wrong number of elements", bad_reshape, TT_INTERNAL, "hlo reshape: expected f32[2,3], got f32[7]"},
    {"slice out of range", bad_slice, TT_INTERNAL, "hlo slice: [0:4:1] is out of range for dim 1 of size 3"},
    {"dim out of range", bad_dim, TT_INTERNAL, "hlo reduce: dim 2 is out of range for rank 2"},
    {"value leaves its region", bad_escape, TT_INTERNAL, "hlo negate: operand 0 belongs to another region"},
    {"value enters a reduction", bad_outside, TT_INTERNAL, "hlo add: operand 1 belongs to another region"},
    {"body of another type", bad_body, TT_INTERNAL,
     "hlo reduce: result 0 of its body is of another type than its operand"},
    {"body without result", bad_no_result, TT_INTERNAL, "hlo return of a body: operand 0 is missing"},
    {"the first error wins", bad_first_wins, TT_UNIMPLEMENTED, "sum of 3 parts"},
};

static void wrong_calls(void) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tt_error err = {0};
    hlo_module *m = hlo_module_create(&err);
    hlo x = hlo_parameter(m, TT_F32, DIMS(2, 3));
    wrong[i].build(m, x);
    const char *text = hlo_finish(m, 1, &x, NULL, NULL, &err);
    check(!text && err.code == wrong[i].code && !strcmp(err.message, wrong[i].message), wrong[i].name,
          text ? "no error" : err.message);
    hlo_module_destroy(m);
  }
}

/* Ten thousand operations: the time must stay linear and short. */
static void large(void) {
  tt_error err = {0};
  hlo_module *m = hlo_module_create(&err);
  hlo x = hlo_parameter(m, TT_F32, DIMS(8, 8)), y = x;
  for (int i = 0; i < 10000; i++) y = hlo_binary_scalar(m, i % 2 ? "add" : "multiply", y, i % 100);
  size_t length;
  check(hlo_finish(m, 1, &y, NULL, &length, &err) != NULL && length > 1000000, "large module", err.message);
  hlo_module_destroy(m);
}

/* Every case with its first, second, third ... allocation failing: an error, or the right text, and nothing left. */
static void faults(void) {
#ifdef TT_FAULTS
  for (int i = 0; i < hlo_case_count; i++) {
    bool ok = true, hit = true;
    for (int n = 0; hit && ok; n++) {
      tt_error err = {0};
      hlo_module *m = NULL;
      int64_t before = tt_alloc_live();
      tt_fault_allocation(n);
      const char *text = hlo_case_text(&hlo_cases[i], &m, NULL, &err);
      hit = tt_fault_hit();
      tt_fault_allocation(-1);
      ok = hit ? !text && err.code == TT_RESOURCE_EXHAUSTED : text != NULL;
      hlo_module_destroy(m);
      ok = ok && tt_alloc_live() == before;
    }
    check(ok, hlo_cases[i].name, "a failed allocation is not reported as one, or leaks");
  }
#endif
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: golden FOLDER [--update]\n"), 2;
  bool update = argc > 2 && !strcmp(argv[2], "--update");
  for (int i = 0; i < hlo_case_count; i++) golden(argv[1], &hlo_cases[i], update);
  wrong_calls();
  large();
  faults();
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
