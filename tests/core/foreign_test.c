/* foreign_test.c: functions that others wrote in StableHLO as parts of programs, and in C as custom calls. */
#include "hlo/foreign.h"
#include "test.h"
#include "tt_custom_call.h"

static const char text[] = "  func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                           "    %0 = stablehlo.add %x, %x : tensor<2xf32>\n"
                           "    return %0 : tensor<2xf32>\n"
                           "  }\n";
static const int64_t two = 2;

/* How often a text is in another. */
static int times(const char *all, const char *part) {
  int n = 0;
  for (const char *p = all; (p = strstr(p, part)); p++) n++;
  return n;
}

static tt_code twice(tt_error *err) { return hlo_foreign_register("twice", "twice", text, strlen(text), err); }

/* A program that calls it twice, and is a part of another that calls it as well: printed once. */
static tt_code nested(tt_error *err) {
  hlo_module *inner = hlo_module_create(err), *outer = inner ? hlo_module_create(err) : NULL;
  const hlo_type type = {TT_F32, 1, &two};
  const hlo_foreign *f = hlo_foreign_find("twice");
  const char *made = NULL;
  size_t length;
  if (outer) {
    hlo x = hlo_parameter(inner, TT_F32, 1, &two), y = NULL, z = NULL;
    hlo_call_foreign(inner, f, 1, &x, 1, &type, &y);
    hlo_call_foreign(inner, f, 1, &y, 1, &type, &z);
    const char *part = hlo_function(inner, 1, &z, &length, err);
    if (part) {
      int number = hlo_add_function(outer, part, length);
      uint32_t count;
      const hlo_foreign *const *used = hlo_foreign_used(inner, &count);
      for (uint32_t i = 0; i < count; i++) hlo_use_foreign(outer, used[i]);
      x = hlo_parameter(outer, TT_F32, 1, &two);
      hlo_call(outer, number, 1, &x, 1, &type, &y);
      hlo_call_foreign(outer, f, 1, &y, 1, &type, &z);
      made = hlo_finish(outer, 1, &z, (int[]){-1}, &length, err);
    }
    if (made && (times(made, "@twice(%x") != 1 || times(made, "callee = @twice") != 3))
      test_fail(__FILE__, __LINE__, "expected one function and three calls of it in\n%s", made);
  }
  hlo_module_destroy(outer);
  hlo_module_destroy(inner);
  return made ? TT_OK : err->code;
}

TEST(test_foreign_functions) {
  tt_error err = {0};
  EXPECT(!hlo_foreign_find("nobody's"));
  EXPECT_OK(twice(&err), err);
  const hlo_foreign *f = hlo_foreign_find("twice");
  EXPECT(f);
  EXPECT_OK(hlo_foreign_register("twice", "other", "another text", 12, &err), err); /* it keeps what it has */
  EXPECT(hlo_foreign_find("twice") == f);
  EXPECT_OK(nested(&err), err);
}

TEST(test_faults_of_foreign_functions) {
  tt_error err = {0};
  EXPECT_OK(twice(&err), err);
  FAULT_LOOP(nested);
#ifdef TT_FAULTS
  tt_fault_allocation(0); /* what is registered stays for ever: no loop */
  EXPECT_INT(hlo_foreign_register("late", "twice", text, strlen(text), &err), TT_RESOURCE_EXHAUSTED);
  tt_fault_allocation(-1);
  EXPECT(!hlo_foreign_find("late"));
#endif
}

/* ---- custom calls ---- */
static void handler(void) {}

static tt_code registered(tt_error *err) {
  setenv("FAKE_PJRT_PLATFORM", "cpu", 1);
  tt_client *c = tt_client_create(test_fake(), 0, err);
  tt_code code = c ? tt_custom_call_register(c, "mine", (void *)handler, err) : err->code;
  test_let_go(c);
  unsetenv("FAKE_PJRT_PLATFORM");
  return code;
}

TEST(test_custom_calls) {
  tt_error err = {0};
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_INT(tt_custom_call_register(c, "mine", (void *)handler, &err), TT_UNIMPLEMENTED);
  EXPECT(strstr(err.message, "run on the CPU, and the device is a fake"));
  test_let_go(c);
  setenv("FAKE_PJRT_PLATFORM", "cpu", 1);
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  int before = atomic_load(&test_control()->handlers);
  EXPECT_OK(tt_custom_call_register(c, "mine", (void *)handler, &err), err);
  EXPECT_INT(atomic_load(&test_control()->handlers), before + 1);
  EXPECT_INT(tt_custom_call_register(c, "", (void *)handler, &err), TT_INVALID_ARGUMENT);
  EXPECT_INT(tt_custom_call_register(c, "mine", NULL, &err), TT_INVALID_ARGUMENT);
  test_let_go(c);
  unsetenv("FAKE_PJRT_PLATFORM");
}

TEST(test_faults_of_custom_calls) { FAULT_LOOP(registered); }
