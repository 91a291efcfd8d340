/* test.h: the runner of the core's tests.
 *
 * TEST(name) { ... } is a test; it registers itself. A failed EXPECT says where and ends the test. FAULT_LOOP runs a
 * body with allocation 0, 1, 2 ... failing, then PJRT call 0, 1, 2 ..., until none is reached: it may succeed, or fail
 * with the code such a failure has, and must leave no block of memory and no PJRT object behind. */
#ifndef TEST_H
#define TEST_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pjrt/pjrt.h"
#include "../fake_pjrt/fake_pjrt.h"

typedef struct test { const char *name; void (*run)(void); struct test *next; } test;
void test_register(test *t);
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_skip(const char *reason);

#define TEST(NAME)                                                              \
  static void NAME(void);                                                       \
  __attribute__((constructor)) static void register_##NAME(void) {              \
    static test t = {#NAME, NAME, NULL};                                        \
    test_register(&t);                                                          \
  }                                                                             \
  static void NAME(void)

#define EXPECT(condition)                                       \
  do {                                                          \
    if (!(condition)) {                                         \
      test_fail(__FILE__, __LINE__, "expected %s", #condition); \
      return;                                                   \
    }                                                           \
  } while (0)
#define EXPECT_INT(a, b)                                                                                       \
  do {                                                                                                         \
    long long a_ = (long long)(a), b_ = (long long)(b);                                                        \
    if (a_ != b_) {                                                                                            \
      test_fail(__FILE__, __LINE__, "expected %s == %s, got %lld and %lld", #a, #b, a_, b_);                   \
      return;                                                                                                  \
    }                                                                                                          \
  } while (0)
#define EXPECT_TEXT(a, b)                                                                                      \
  do {                                                                                                         \
    const char *a_ = (a), *b_ = (b);                                                                           \
    if (strcmp(a_, b_)) {                                                                                      \
      test_fail(__FILE__, __LINE__, "expected %s to be '%s', got '%s'", #a, b_, a_);                           \
      return;                                                                                                  \
    }                                                                                                          \
  } while (0)
/* The call gives TT_OK; else its error is shown. */
#define EXPECT_OK(call, err)                                                                                   \
  do {                                                                                                         \
    if ((call) != TT_OK) {                                                                                     \
      test_fail(__FILE__, __LINE__, "%s: %s: %s: %s", #call, tt_code_name((err).code), (err).where, (err).message); \
      return;                                                                                                  \
    }                                                                                                          \
  } while (0)
/* The call gives a pointer; else its error is shown. */
#define EXPECT_MADE(call, err)                                                                                 \
  do {                                                                                                         \
    if (!(call)) {                                                                                             \
      test_fail(__FILE__, __LINE__, "%s: %s: %s: %s", #call, tt_code_name((err).code), (err).where, (err).message); \
      return;                                                                                                  \
    }                                                                                                          \
  } while (0)

/* ---- plugins ---- */
tt_plugin *test_fake(void);               /* the fake plugin, set back to its usual behaviour */
const char *test_fake_path(void);
struct fake_control *test_control(void);  /* its switches */
const char *test_real_path(void);         /* of a real plugin, from TORCH_TPU_PLUGIN, or NULL */

/* ---- fault loops ---- */
typedef tt_code test_body(tt_error *err);
void test_fault_loop(const char *file, int line, const char *name, test_body *body);
#define FAULT_LOOP(body) test_fault_loop(__FILE__, __LINE__, #body, body)
void test_let_go(tt_client *c);           /* empties what the core keeps for a client; then destroys it */
bool test_failed(void);                   /* whether the running test has failed */
#endif
