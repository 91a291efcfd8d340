/* cache.c: program text to executable: memory, then disk, then the compiler.
 *
 * The key is a digest of everything that decides the machine code: the text but for its locations, the plugin's build,
 * the compile options and the kind of device: of a CPU its features, else the kind's name, which topologies know of
 * machines that are not here, so what is compiled for those lies where they look for it (tt_cache_fill). Threads that
 * want the same program wait for the first one; others compile at the same time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#else
#include <sys/auxv.h>
#endif
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "graph/cache.h"
#include "graph/disk.h"
#include "graph/explain.h"
#include "pjrt/counters.h"

enum { BUCKETS = 4096 };
_Thread_local const tt_call *tt_cache_asker;

struct entry {
  struct entry *next;
  tt_digest key;
  tt_client *client;
  tt_executable *executable; /* NULL: being made */
  uint32_t uses;             /* by who got it and did not drop it */
};
static struct entry *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;

/* What code for the host's CPU depends on. */
static tt_digest cpu_features(tt_digest d) {
#if defined(__x86_64__)
  unsigned r[4];
  for (unsigned leaf = 0; leaf <= 7; leaf += leaf == 1 ? 6 : 1) {
    memset(r, 0, sizeof r);
    __get_cpuid_count(leaf, 0, &r[0], &r[1], &r[2], &r[3]);
    if (leaf == 1) r[1] &= 0x0000ff00; /* without the number of the core that happens to run this */
    d = tt_digest_bytes(d, r, sizeof r);
  }
#else
  unsigned long bits[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  d = tt_digest_bytes(d, bits, sizeof bits);
#endif
  return d;
}

/* Of a program, whatever lines of the user's its own lines come from: in another folder it is the same. */
static tt_digest digest_text(tt_digest d, const char *text, size_t length) {
  static const char location[] = " loc(\"";
  const char *end = text + length, *at = text, *found;
  tt_buf plain = {0};
  while ((found = memmem(at, (size_t)(end - at), location, sizeof location - 1))) {
    const char *line = memchr(found, '\n', (size_t)(end - found));
    bool whole = line && line[-1] == ')'; /* else it is of something else */
    const char *until = whole ? found : found + 1;
    tt_buf_append(&plain, at, (size_t)(until - at));
    at = whole ? line : until;
  }
  if (at != text) tt_buf_append(&plain, at, (size_t)(end - at));
  bool own = at != text && !plain.failed;
  d = own ? tt_digest_bytes(d, plain.data, plain.length) : tt_digest_bytes(d, text, length);
  tt_buf_deinit(&plain);
  return d;
}

static tt_digest key_of(tt_process p, const char *text, size_t length) {
  static const char format[] = "torch_tpu executable 1";
  tt_digest d = {{0, 0}};
  d = tt_digest_bytes(d, format, sizeof format);
  d = tt_digest_bytes(d, p.build, strlen(p.build));
  d = tt_digest_bytes(d, p.options, p.length);
  d = p.kind ? tt_digest_bytes(d, p.kind, strlen(p.kind)) : cpu_features(d);
  return digest_text(d, text, length);
}

tt_digest tt_cache_key(tt_client *c, const char *text, size_t length) {
  return key_of(tt_client_process(c), text, length);
}

tt_code tt_cache_fill(tt_aot *a, const char *text, size_t length, tt_digest *key, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (!tt_disk_folder(false) && !tt_disk_folder(true))
    return tt_fail(err, TT_FAILED_PRECONDITION, "", "there is no cache folder to fill: see TORCH_TPU_CACHE_DIR");
  tt_buf data = {0};
  *key = key_of(tt_aot_process(a), text, length);
  tt_code code = tt_aot_serialize(a, &data, err);
  if (!code && !tt_disk_write(*key, data.data, data.length))
    code = tt_fail(err, TT_FAILED_PRECONDITION, "", "the program could not be written to the cache folder");
  tt_buf_deinit(&data);
  return code;
}

static tt_executable *from_disk(tt_client *c, tt_digest key) {
  tt_buf data = {0};
  tt_error err = {0};
  tt_executable *e = NULL;
  if (tt_disk_read(key, &data)) {
    e = tt_executable_deserialize(c, data.data, data.length, &err);
    if (e) tt_tally(cache_hits_disk, 1);
    else if (err.code != TT_RESOURCE_EXHAUSTED && err.code != TT_UNIMPLEMENTED) tt_disk_reject(key);
  }
  tt_buf_deinit(&data);
  return e;
}

static void to_disk(tt_executable *e, tt_digest key) {
  tt_buf data = {0};
  tt_error err = {0};
  if (!tt_executable_serialize(e, &data, &err)) tt_disk_write(key, data.data, data.length);
  else tt_log("not cached on disk: %s", err.message); /* the plugin cannot serialize it */
  tt_buf_deinit(&data);
}

static bool may_compile(void) {
  const char *only = tt_env("TORCH_TPU_CACHE_ONLY");
  return !only || !strcmp(only, "0");
}

static tt_executable *make(tt_client *c, tt_digest key, const char *text, size_t length, tt_error *err) {
  tt_disk_dump(key, text, length);
  tt_executable *e = from_disk(c, key);
  if (e) return e;
  tt_tally(cache_misses, 1);
  if (!may_compile()) {
    const char *own = tt_disk_folder(false), *shared = tt_disk_folder(true);
    tt_fail(err, TT_NOT_FOUND, "",
            "TORCH_TPU_CACHE_ONLY is set and the program %016llx%016llx is not in the cache: looked in %s%s%s",
            (unsigned long long)key.h[0], (unsigned long long)key.h[1], own ? own : "no folder", shared ? " and " : "",
            shared ? shared : "");
    return NULL;
  }
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  e = tt_executable_compile(c, text, length, err);
  clock_gettime(CLOCK_MONOTONIC, &b);
  if (tt_log_level)
    tt_log("compiled %016llx in %.1f ms%s%s", (unsigned long long)key.h[0],
           (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6, e ? "" : ": ",
           e ? "" : err->message);
  if (e) to_disk(e, key);
  if (e) {
    tt_disk_note(key, tt_cache_asker ? tt_cache_asker->variant->name : "window");
    tt_explain_compile(tt_cache_asker, (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
  }
  return e;
}

static struct entry **find(tt_client *c, tt_digest key) {
  struct entry **at = &buckets[key.h[0] % BUCKETS];
  while (*at && ((*at)->client != c || memcmp(&(*at)->key, &key, sizeof key))) at = &(*at)->next;
  return at;
}

/* ---- texts for who asks to see them ---- */
static _Thread_local struct { bool on, only; tt_buf texts; } shown;

void tt_cache_show(bool on, bool only) {
  shown.on = on;
  shown.only = only;
  tt_buf_deinit(&shown.texts);
  shown.texts = (tt_buf){0};
}
const char *tt_cache_shown(size_t *length) {
  *length = shown.texts.length;
  return shown.texts.data;
}

tt_executable *tt_cache_get(tt_client *c, const char *text, size_t length, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (shown.on) {
    tt_buf_append(&shown.texts, text, length);
    tt_buf_append(&shown.texts, "", 1);
    if (shown.only) return tt_fail(err, TT_ABORTED, "", "the program was asked for, not its result"), NULL;
  }
  if (tt_fork_check(err)) return NULL; /* the lock may be held here for ever by a thread of the parent */
  tt_digest key = tt_cache_key(c, text, length);
  pthread_mutex_lock(&lock);
  struct entry **at;
  while ((at = find(c, key)), *at && !(*at)->executable) pthread_cond_wait(&made, &lock);
  if (*at) {
    tt_executable *e = (*at)->executable;
    (*at)->uses++;
    pthread_mutex_unlock(&lock);
    tt_tally(cache_hits_memory, 1);
    return e;
  }
  struct entry *mine = tt_alloc(sizeof *mine);
  if (!mine) {
    pthread_mutex_unlock(&lock);
    tt_no_memory(err, sizeof *mine);
    return NULL;
  }
  *mine = (struct entry){buckets[key.h[0] % BUCKETS], key, c, NULL, 1};
  buckets[key.h[0] % BUCKETS] = mine;
  pthread_mutex_unlock(&lock);

  tt_executable *e = make(c, key, text, length, err);

  pthread_mutex_lock(&lock);
  mine->executable = e;
  if (e) *tt_executable_tag(e) = mine;
  if (!e) { /* the next one who asks tries again */
    *find(c, key) = mine->next;
    tt_free(mine);
  }
  pthread_cond_broadcast(&made);
  pthread_mutex_unlock(&lock);
  return e;
}

void tt_cache_drop(tt_executable *e) {
  if (!e) return;
  pthread_mutex_lock(&lock);
  struct entry *mine = *tt_executable_tag(e);
  bool last = --mine->uses == 0;
  if (last) *find(mine->client, mine->key) = mine->next;
  pthread_mutex_unlock(&lock);
  if (!last) return;
  tt_executable_release(e);
  tt_free(mine);
}

void tt_cache_clear(tt_client *c) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++)
    for (struct entry **at = &buckets[i]; *at;) {
      struct entry *e = *at;
      if (e->client != c || !e->executable) {
        at = &e->next;
        continue;
      }
      *at = e->next;
      tt_executable_release(e->executable);
      tt_free(e);
    }
  pthread_mutex_unlock(&lock);
}
