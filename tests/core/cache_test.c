/* cache_test.c: compiled programs in memory and on disk: shared, damaged, foreign, evicted, interrupted. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "graph/cache.h"
#include "hlo/share.h"
#include "graph/disk.h"
#include "test.h"

static const char *folder(void) { return getenv("TORCH_TPU_CACHE_DIR"); }

static int entries(char *one, size_t room) { /* how many; the path of the last one */
  DIR *d = opendir(folder());
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    const char *dot = strrchr(e->d_name, '.');
    if (!dot || strcmp(dot, ".ttx")) continue;
    n++;
    if (one) snprintf(one, room, "%s/%s", folder(), e->d_name);
  }
  if (d) closedir(d);
  return n;
}
static void empty_folder(void) {
  char path[600];
  while (entries(path, sizeof path)) unlink(path);
}

static void program(char *text, size_t room, int id) {
  snprintf(text, room, "module @tt { // %d\n  func.func public @main(%%a: tensor<4xf32>) -> (tensor<4xf32>) {\n}}", id);
}

static tt_executable *get(tt_client *c, int id, tt_error *err) {
  char text[200];
  program(text, sizeof text, id);
  return tt_cache_get(c, text, strlen(text), err);
}

static tt_counters counters(void) {
  tt_counters k;
  tt_counters_get(&k);
  return k;
}

TEST(test_cache_compiles_once) {
  tt_error err;
  tt_client *c;
  empty_folder();
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  tt_counters before = counters();
  tt_executable *a, *b;
  EXPECT_MADE(a = get(c, 1, &err), err);
  EXPECT_MADE(b = get(c, 1, &err), err);
  EXPECT(a == b);
  EXPECT_MADE(b = get(c, 2, &err), err);
  EXPECT(a != b && entries(NULL, 0) == 2);
  EXPECT_INT(counters().compiles - before.compiles, 2);
  EXPECT_INT(counters().cache_hits_memory - before.cache_hits_memory, 1);
  test_let_go(c);
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(a = get(c, 1, &err), err);
  EXPECT_INT(counters().compiles - before.compiles, 2);
  EXPECT_INT(counters().cache_hits_disk - before.cache_hits_disk, 1);
  test_let_go(c);
}

TEST(test_locations_are_no_part_of_a_key) {
  tt_error err = {0};
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  const char *keyed[2] = {NULL, NULL};
  hlo_module *modules[2];
  const char *files[2] = {NULL, "/a \"folder\\/x.py"};
  for (int i = 0; i < 2; i++) {
    EXPECT_MADE(modules[i] = hlo_module_create(&err), err);
    int64_t dims[1] = {4};
    hlo x = hlo_parameter(modules[i], TT_F32, 1, dims);
    hlo_place(modules[i], files[i], 7);
    x = hlo_binary(modules[i], "add", x, x);
    hlo_place(modules[i], NULL, 0);
    EXPECT_MADE(keyed[i] = hlo_finish(modules[i], 1, &x, NULL, NULL, &err), err);
  }
  EXPECT(!strstr(keyed[0], "loc("));
  EXPECT(strstr(keyed[1], " loc(\"/a ?folder?/x.py\":7:0)\n") != NULL);
  tt_digest plain = tt_cache_key(c, keyed[0], strlen(keyed[0]));
  tt_digest located = tt_cache_key(c, keyed[1], strlen(keyed[1]));
  EXPECT(plain.h[0] == located.h[0] && plain.h[1] == located.h[1]);
  for (int i = 0; i < 2; i++) hlo_module_destroy(modules[i]);
  test_let_go(c);
}

TEST(test_cache_entry_is_private) {
  tt_error err;
  tt_client *c;
  char path[600];
  struct stat st;
  empty_folder();
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(get(c, 3, &err), err);
  EXPECT_INT(entries(path, sizeof path), 1);
  EXPECT(!stat(path, &st));
  EXPECT_INT(st.st_mode & 0777, 0600);
  test_let_go(c);
}

/* Every way in which an entry can be bad: it is dropped, counted, and compiled anew. */
static void flip(const char *path, off_t at) {
  int fd = open(path, O_RDWR);
  char byte = 0;
  if (pread(fd, &byte, 1, at) == 1) byte ^= 4;
  if (pwrite(fd, &byte, 1, at) != 1) test_fail(__FILE__, __LINE__, "cannot write");
  close(fd);
}

TEST(test_cache_drops_bad_entries) {
  tt_error err;
  for (int way = 0; way < 8; way++) {
    tt_client *c;
    char path[600], other[700];
    struct stat st;
    empty_folder();
    *other = 0;
    EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
    EXPECT_MADE(get(c, 4, &err), err);
    test_let_go(c);
    EXPECT_INT(entries(path, sizeof path), 1);
    EXPECT(!stat(path, &st));
    switch (way) {
      case 0: flip(path, st.st_size - 3); break;         /* contents */
      case 1: flip(path, 0); break;                      /* magic */
      case 2: flip(path, 30); break;                     /* key */
      case 3: EXPECT(!truncate(path, st.st_size - 1)); break;
      case 4: EXPECT(!truncate(path, 5)); break;
      case 5: EXPECT(!chmod(path, 0620)); break;         /* somebody else may have written it */
      case 6:                                            /* a link to what may be somebody else's */
        snprintf(other, sizeof other, "%s/elsewhere", folder());
        EXPECT(!rename(path, other) && !symlink(other, path));
        break;
      case 7: break; /* the plugin refuses it, below */
    }
    EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
    if (way == 7) atomic_store(&test_control()->fail_load, 1);
    tt_counters before = counters();
    EXPECT_MADE(get(c, 4, &err), err);
    if (counters().compiles - before.compiles != 1 || counters().cache_rejects - before.cache_rejects != 1) {
      test_fail(__FILE__, __LINE__, "way %d: %lld compiles, %lld rejects", way,
                (long long)(counters().compiles - before.compiles),
                (long long)(counters().cache_rejects - before.cache_rejects));
      return;
    }
    test_let_go(c);
    EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err); /* the new entry is good */
    before = counters();
    EXPECT_MADE(get(c, 4, &err), err);
    EXPECT_INT(counters().cache_hits_disk - before.cache_hits_disk, 1);
    test_let_go(c);
    if (*other) unlink(other);
  }
}

TEST(test_cache_failed_compile_is_tried_again) {
  tt_error err;
  tt_client *c;
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  atomic_store(&test_control()->fail_compile, 1);
  EXPECT(!get(c, 5, &err) && err.code == TT_INVALID_ARGUMENT);
  EXPECT_MADE(get(c, 5, &err), err);
  test_let_go(c);
}

TEST(test_cache_works_in_a_folder_that_cannot_be_written) {
  tt_error err;
  tt_client *c;
  char aside[600];
  snprintf(aside, sizeof aside, "%s.aside", folder());
  EXPECT(!rename(folder(), aside)); /* as good as read-only, also for root */
  c = tt_client_create(test_fake(), 0, &err);
  tt_executable *e = c ? get(c, 6, &err) : NULL;
  EXPECT(!rename(aside, folder()));
  EXPECT_MADE(e, err);
  test_let_go(c);
}

struct getter { tt_client *client; int id; tt_executable *got; };
static void *get_one(void *user) {
  struct getter *g = user;
  tt_error err;
  g->got = get(g->client, g->id, &err);
  return NULL;
}

TEST(test_cache_threads_share_one_compile) {
  tt_error err;
  tt_client *c;
  empty_folder();
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  atomic_store(&test_control()->slow_us, 50000);
  tt_counters before = counters();
  struct getter getters[6];
  pthread_t threads[6];
  for (int i = 0; i < 6; i++) {
    getters[i] = (struct getter){c, 100 + i / 3, NULL};
    pthread_create(&threads[i], NULL, get_one, &getters[i]);
  }
  for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
  EXPECT_INT(counters().compiles - before.compiles, 2);
  for (int i = 0; i < 6; i++) EXPECT(getters[i].got && getters[i].got == getters[i / 3 * 3].got);
  test_let_go(c);
}

/* ---- the files themselves ---- */
static tt_digest key_of(uint64_t n) { return (tt_digest){{n, ~n}}; }

static bool reads_as(tt_digest key, char fill, size_t size) { /* the entry is whole, of one byte */
  tt_buf b = {0};
  bool good = tt_disk_read(key, &b) && b.length == size;
  for (size_t i = 0; good && i < size; i++) good = b.data[i] == (fill ? fill : b.data[0]);
  tt_buf_deinit(&b);
  return good;
}

TEST(test_disk_evicts_what_was_not_used) {
  enum { SIZE = 1000, ENTRIES = 300, BOUND = 40000 };
  char data[SIZE] = {0};
  empty_folder();
  setenv("TORCH_TPU_CACHE_BYTES", "40000", 1);
  tt_disk_write(key_of(1), data, SIZE);
  for (uint64_t i = 2; i <= ENTRIES; i++) {
    tt_disk_write(key_of(i), data, SIZE);
    EXPECT(reads_as(key_of(1), 0, SIZE)); /* used all the time: stays */
  }
  unsetenv("TORCH_TPU_CACHE_BYTES");
  int left = entries(NULL, 0);
  EXPECT(left < BOUND / SIZE + 64 && left > 20);
  empty_folder();
}

TEST(test_disk_writer_killed_at_any_moment) {
  enum { SIZE = 400000, ROUNDS = 12 };
  char *data = malloc(SIZE);
  EXPECT(data);
  memset(data, 'k', SIZE);
  empty_folder();
  int64_t rejects = counters().cache_rejects;
  int found = 0;
  for (int i = 0; i < ROUNDS; i++) {
    pid_t child = fork();
    if (child == 0)
      for (uint64_t n = 0;; n++) tt_disk_write(key_of(n % 3), data, SIZE);
    for (int wait = 0; wait < 2000 && !entries(NULL, 0); wait++) usleep(1000); /* it has begun */
    usleep(200 + 700 * (unsigned)i);
    EXPECT(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    for (uint64_t n = 0; n < 3; n++) found += reads_as(key_of(n), 'k', SIZE);
  }
  EXPECT_INT(counters().cache_rejects, rejects);
  EXPECT(found > 0);
  free(data);
  empty_folder();
}

TEST(test_disk_processes_write_at_once) {
  enum { SIZE = 50000, WRITERS = 3 };
  char data[SIZE];
  pid_t children[WRITERS];
  empty_folder();
  int64_t rejects = counters().cache_rejects;
  for (int w = 0; w < WRITERS; w++) {
    children[w] = fork();
    if (children[w]) continue;
    memset(data, 'a' + w, SIZE);
    for (int i = 0; i < 150; i++) tt_disk_write(key_of(7), data, SIZE);
    _exit(0);
  }
  int found = 0, status, running = WRITERS;
  while (running) {
    found += reads_as(key_of(7), 0, SIZE);
    if (waitpid(-1, &status, WNOHANG) > 0) running--;
  }
  EXPECT(found > 0 && reads_as(key_of(7), 0, SIZE));
  EXPECT_INT(counters().cache_rejects, rejects);
  empty_folder();
}

TEST(test_dump_writes_the_text) {
  tt_error err;
  tt_client *c;
  char to[600], path[1300], text[200], back[200] = {0};
  snprintf(to, sizeof to, "%s/dump", folder());
  setenv("TORCH_TPU_DUMP", to, 1);
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  EXPECT_MADE(get(c, 8, &err), err);
  unsetenv("TORCH_TPU_DUMP");
  test_let_go(c);
  DIR *d = opendir(to);
  EXPECT(d);
  int n = 0;
  for (struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, ".mlir")) n++, snprintf(path, sizeof path, "%s/%s", to, e->d_name);
  closedir(d);
  EXPECT_INT(n, 1);
  int fd = open(path, O_RDONLY);
  EXPECT(read(fd, back, sizeof back - 1) > 0);
  close(fd);
  program(text, sizeof text, 8);
  EXPECT_TEXT(back, text);
  unlink(path);
  rmdir(to);
}

/* What a topology's compiler has made is what a process on such a machine finds: compiled, packed, sent, run. */
TEST(test_cache_is_filled_for_absent_machines) {
  tt_error err;
  tt_topology *t;
  tt_aot *a;
  tt_client *c;
  tt_digest key, other, looked;
  char text[200];
  empty_folder();
  program(text, sizeof text, 11);
  EXPECT_MADE(t = tt_topology_create(test_fake(), "fake:2x2", &err), err);
  EXPECT_MADE(a = tt_aot_compile(t, text, strlen(text), 1, NULL, &err), err);
  EXPECT_OK(tt_cache_fill(a, text, strlen(text), &key, &err), err);
  tt_aot_destroy(a);
  EXPECT_INT(entries(NULL, 0), 1);
  EXPECT_MADE(c = tt_client_create(test_fake(), 0, &err), err);
  looked = tt_cache_key(c, text, strlen(text));
  EXPECT(!memcmp(&key, &looked, sizeof key));
  setenv("TORCH_TPU_CACHE_ONLY", "1", 1);
  EXPECT_MADE(get(c, 11, &err), err);
  EXPECT(!get(c, 12, &err) && err.code == TT_NOT_FOUND);
  unsetenv("TORCH_TPU_CACHE_ONLY");
  /* options of its own are part of the name on both sides */
  EXPECT_MADE(a = tt_aot_compile(t, text, strlen(text), 1, "xla_some=1", &err), err);
  EXPECT_OK(tt_cache_fill(a, text, strlen(text), &other, &err), err);
  tt_options_own("xla_some=1");
  looked = tt_cache_key(c, text, strlen(text));
  tt_options_own(NULL);
  EXPECT(memcmp(&key, &other, sizeof key) && !memcmp(&other, &looked, sizeof key));
  tt_aot_destroy(a);
  tt_topology_destroy(t);
  test_let_go(c);
  empty_folder();
}

static tt_code filled(tt_error *err) {
  char text[200];
  tt_digest key;
  program(text, sizeof text, 12);
  tt_topology *t = tt_topology_create(test_fake(), "fake:2x2", err);
  tt_aot *a = t ? tt_aot_compile(t, text, strlen(text), 1, NULL, err) : NULL;
  tt_code code = a ? tt_cache_fill(a, text, strlen(text), &key, err) : err->code;
  tt_aot_destroy(a);
  tt_topology_destroy(t);
  return code;
}
TEST(test_faults_of_filling) { FAULT_LOOP(filled); }

static tt_code through_the_cache(tt_error *err) {
  tt_client *c = tt_client_create(test_fake(), 0, err);
  bool good = c && get(c, 9, err);
  test_let_go(c);
  c = good ? tt_client_create(test_fake(), 0, err) : NULL;
  good = c && get(c, 9, err); /* from disk */
  test_let_go(c);
  return good ? TT_OK : err->code;
}
TEST(test_faults_of_the_cache) { FAULT_LOOP(through_the_cache); }
