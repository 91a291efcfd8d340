/* main.c: runs the tests whose names contain an argument, or all; ends with "N passed, N failed".
 *
 * Keeps compiled programs in a folder of its own, removed at the end. The fake plugin is fake_pjrt.so beside the
 * binary, or TT_FAKE_PLUGIN. Refuses to hide: a skipped test is told with its reason. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>
#include "graph/cache.h"
#include "graph/explain.h"
#include "graph/graph.h"
#include "test.h"

static test *tests, **last = &tests;
static bool failed, skipped;

void test_register(test *t) {
  *last = t;
  last = &t->next;
}
bool test_failed(void) { return failed; }

void test_fail(const char *file, int line, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  printf("  %s:%d: ", file, line);
  vprintf(format, ap);
  printf("\n");
  va_end(ap);
  failed = true;
}

void test_skip(const char *reason) {
  printf("  skipped: %s\n", reason);
  skipped = true;
}

/* ---- plugins ---- */
const char *test_fake_path(void) {
  static char path[4096];
  const char *given = getenv("TT_FAKE_PLUGIN");
  if (given) return given;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
  if (n < 0) n = 0;
  path[n] = 0;
  char *slash = strrchr(path, '/');
  strcpy(slash ? slash + 1 : path, "fake_pjrt.so");
  return path;
}

const char *test_real_path(void) {
  const char *path = getenv("TORCH_TPU_PLUGIN");
  return path && *path ? path : NULL;
}

struct fake_control *test_control(void) {
  static struct fake_control *control;
  if (control) return control;
  void *library = dlopen(test_fake_path(), RTLD_NOW | RTLD_LOCAL);
  control = library ? dlsym(library, "fake_control") : NULL;
  if (control) return control;
  printf("the fake plugin cannot be loaded: %s\n", dlerror());
  exit(2);
}

tt_plugin *test_fake(void) {
  struct fake_control *c = test_control();
  atomic_store(&c->async, 0);
  atomic_store(&c->slow_us, 0);
  atomic_store(&c->reversed, 0);
  atomic_store(&c->fail_execute, 0);
  atomic_store(&c->fail_async, 0);
  atomic_store(&c->fail_compile, 0);
  atomic_store(&c->fail_load, 0);
  tt_error err;
  tt_plugin *p = tt_plugin_load(test_fake_path(), &err);
  if (p) return p;
  printf("the fake plugin cannot be loaded: %s\n", err.message);
  exit(2);
}

/* ---- fault loops ---- */
void test_let_go(tt_client *c) {
  if (c) {
    tt_windows_clear();
    tt_plans_clear();
    tt_scalars_clear(c);
    tt_cache_clear(c);
    tt_explain_clear();
    tt_client_destroy(c);
  }
  tt_storage_pool_clear();
  tt_buffer_pool_clear();
}

static char folder[256];
static void clear_folder(void) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
  if (d) closedir(d);
}

#ifdef TT_FAULTS
static void set_fault(int kind, int64_t n) {
  if (kind) tt_fault_pjrt(n);
  else tt_fault_allocation(n);
}

void test_fault_loop(const char *file, int line, const char *name, test_body *body) {
  static const char *const kinds[] = {"allocation", "PJRT call"};
  struct fake_control *control = test_control();
  tt_error err;
  test_fake();
  test_let_go(NULL);
  for (int kind = 0; kind < 2; kind++)
    for (int n = 0;; n++) {
      clear_folder();
      int64_t blocks = tt_alloc_live();
      int objects = atomic_load(&control->live);
      err = (tt_error){0};
      set_fault(kind, n);
      tt_code code = body(&err);
      bool hit = kind ? tt_fault_pjrt_hit() : tt_fault_hit();
      set_fault(kind, -1);
      test_let_go(NULL);
      tt_code expected = kind ? TT_INTERNAL : TT_RESOURCE_EXHAUSTED;
      if (code != TT_OK && (code != expected || !hit))
        test_fail(file, line, "%s with %s %d failing: %s: %s: %s", name, kinds[kind], n, tt_code_name(code), err.where,
                  err.message);
      if (code != TT_OK && (err.code != code || !err.message[0]))
        test_fail(file, line, "%s with %s %d failing: the error is not filled in", name, kinds[kind], n);
      if (tt_alloc_live() != blocks)
        test_fail(file, line, "%s with %s %d failing leaves %lld blocks", name, kinds[kind], n,
                  (long long)(tt_alloc_live() - blocks));
      if (atomic_load(&control->live) != objects)
        test_fail(file, line, "%s with %s %d failing leaves %d PJRT objects", name, kinds[kind], n,
                  atomic_load(&control->live) - objects);
      if (failed || !hit) {
        printf("  %s: %d faults of kind %s\n", name, n, kinds[kind]);
        break;
      }
      if (n > 5000) {
        test_fail(file, line, "%s has no end of faults", name);
        break;
      }
    }
}
#else
void test_fault_loop(const char *file, int line, const char *name, test_body *body) {
  (void)file, (void)line, (void)name, (void)body;
  test_skip("faults are injected only in a build with TT_FAULTS");
}
#endif

int main(int argc, char **argv) {
  int passed = 0, failures = 0, skips = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  snprintf(folder, sizeof folder, "%s/tt_tests.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  if (!mkdtemp(folder)) return perror(folder), 2;
  setenv("TORCH_TPU_CACHE_DIR", folder, 1);
  unsetenv("TORCH_TPU_CACHE");
  for (test *t = tests; t; t = t->next) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; i++) wanted |= strstr(t->name, argv[i]) != NULL;
    if (!wanted) continue;
    printf("%s\n", t->name);
    failed = skipped = false;
    t->run();
    struct fake_control *control = test_control();
    if (atomic_exchange(&control->broken, 0)) test_fail(t->name, 0, "the fake plugin was misused");
    if (failed) failures++, printf("  FAILED\n");
    else if (skipped) skips++;
    else passed++;
  }
  clear_folder();
  rmdir(folder);
  if (skips) printf("%d skipped\n", skips);
  printf("%d passed, %d failed\n", passed, failures);
  return failures != 0;
}
