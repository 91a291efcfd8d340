/* plugin.c: finds out what a PJRT plugin is: loads it once, initialises it, and names its very build.
 *
 * Plugins log to stderr while they start; the log level is set before, and what they write all the same during
 * initialisation is dropped, so that importing a library prints nothing. Nothing is ever unloaded: plugins have
 * threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "pjrt/call.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tt_plugin *plugins;

/* ---- the build: the linker's build id, or a digest of samples of the file where it has none ---- */
struct search { const char *path; char *hex; size_t room; };

static int find_build_id(struct dl_phdr_info *info, size_t size, void *user) {
  struct search *s = user;
  (void)size;
  if (!info->dlpi_name || strcmp(info->dlpi_name, s->path)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[i];
    if (h->p_type != PT_NOTE) continue;
    const char *p = (const char *)info->dlpi_addr + h->p_vaddr, *end = p + h->p_memsz;
    while (p + sizeof(ElfW(Nhdr)) <= end) {
      const ElfW(Nhdr) *n = (const void *)p;
      const char *name = p + sizeof *n, *id = name + ((n->n_namesz + 3u) & ~3u);
      if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
        for (uint32_t k = 0; k < n->n_descsz && 2 * k + 3 < s->room; k++)
          sprintf(s->hex + 2 * k, "%02x", (unsigned char)id[k]);
        return 1;
      }
      p = id + ((n->n_descsz + 3u) & ~3u);
    }
  }
  return 0;
}

static void sample_file(const char *path, char *hex, size_t room) {
  enum { SAMPLES = 64, SAMPLE = 4096 };
  static char block[SAMPLE];
  tt_digest d = {{0, 0}};
  struct stat st = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && !fstat(fd, &st))
    for (int i = 0; i < SAMPLES; i++) {
      ssize_t n = pread(fd, block, SAMPLE, st.st_size / SAMPLES * i);
      if (n > 0) d = tt_digest_bytes(d, block, (size_t)n);
    }
  if (fd >= 0) close(fd);
  snprintf(hex, room, "%016llx%016llx%llx", (unsigned long long)d.h[0], (unsigned long long)d.h[1],
           (long long)st.st_size);
}

/* ---- quiet starts ---- */
bool tt_plugin_is_cpu(const char *path) {
  const char *slash = strrchr(path, '/');
  return strstr(slash ? slash + 1 : path, "cpu") != NULL;
}

/* The log level silences XLA's CPU plugins. libtpu writes some lines in spite of it, and more where there is no TPU. */
int tt_quiet_begin(const char *path) {
  if (tt_log_level > 1 || tt_plugin_is_cpu(path)) return -1;
  fflush(stderr);
  int saved = dup(2), sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (saved >= 0 && sink >= 0) dup2(sink, 2);
  if (sink >= 0) close(sink);
  return saved;
}

void tt_quiet_end(int saved) {
  if (saved < 0) return;
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
}

/* libtpu asks a metadata server for minutes unless told that there are no chips; a machine with chips has these files.
 */
static void prepare_environment(void) {
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
  setenv("TPU_STDERR_LOG_LEVEL", "3", 0);
  setenv("TPU_MIN_LOG_LEVEL", "3", 0);
  if (!access("/dev/accel0", F_OK) || !access("/dev/vfio/0", F_OK)) return;
  setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  setenv("TPU_LOG_DIR", "disabled", 0);
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0); /* there is no chip to quarrel about: several processes may compile */
}

static tt_plugin *load(const char *path, tt_error *err) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    tt_fail(err, TT_NOT_FOUND, "dlopen", "cannot load the PJRT plugin: %s", dlerror());
    return NULL;
  }
  const PJRT_Api *(*get)(void);
  *(void **)&get = dlsym(library, "GetPjrtApi");
  const PJRT_Api *api = get ? get() : NULL;
  if (!api) {
    tt_fail(err, TT_INVALID_ARGUMENT, "GetPjrtApi", "%s is not a PJRT plugin", path);
    return NULL;
  }
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    tt_fail(err, TT_FAILED_PRECONDITION, "GetPjrtApi", "expected PJRT API major version %d, got %d", PJRT_API_MAJOR,
            api->pjrt_api_version.major_version);
    return NULL;
  }
  tt_plugin *p = tt_alloc(sizeof *p);
  char *name = tt_alloc(strlen(path) + 1);
  PJRT_Api *table = tt_alloc(sizeof *table);
  if (!p || !name || !table) {
    tt_no_memory(err, sizeof *p + sizeof *table);
    goto failed;
  }
  /* What an older plugin does not have stays NULL in our copy; what a newer one has besides is not ours to call. */
  memcpy(table, api, api->struct_size < sizeof *table ? api->struct_size : sizeof *table);
  p->api = table;
  p->path = strcpy(name, path);
  PJRT_ARGS(PJRT_Plugin_Initialize_Args, init, 0);
  if (PJRT_CALL(p, PJRT_Plugin_Initialize, &init, err)) goto failed;
  int n = snprintf(p->build, sizeof p->build, "%d.%d-", api->pjrt_api_version.major_version,
                   api->pjrt_api_version.minor_version);
  struct search s = {path, p->build + n, sizeof p->build - (size_t)n};
  if (!dl_iterate_phdr(find_build_id, &s)) sample_file(path, s.hex, s.room);
  return p;

failed:
  tt_free(table);
  tt_free(name);
  tt_free(p);
  return NULL;
}

tt_plugin *tt_plugin_load(const char *path, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  pthread_mutex_lock(&lock);
  tt_plugin *p = plugins;
  while (p && strcmp(p->path, path)) p = p->next;
  if (!p) {
    prepare_environment();
    int saved = tt_quiet_begin(path);
    p = load(path, err);
    tt_quiet_end(saved);
    if (p) {
      p->next = plugins;
      plugins = p;
    }
  }
  pthread_mutex_unlock(&lock);
  return p;
}

const char *tt_plugin_path(const tt_plugin *p) { return p->path; }
const char *tt_plugin_build(const tt_plugin *p) { return p->build; }
