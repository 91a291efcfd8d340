/* disk.c: the executable cache's files.
 *
 * An entry is written under a temporary name and renamed, so a reader sees a whole entry or none, whoever dies when.
 * Its header tells version, key and the payload's digest. Only regular files of this user that nobody else may write
 * are read: an executable is code. Reading marks the file as used; the least recently used go when the folder is full.
 *
 * There are two folders. One is this machine's. The other is a root that machines share, wherever it is mounted, if the
 * user names one: what is not in the first is looked for there, and copied; what is compiled goes to both. Who names a
 * root trusts those who write it, so its files may be another user's, but none that everybody may write. Keys tell
 * plugins, options and CPUs apart, so unlike machines may share a root. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkostemps */
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "graph/disk.h"
#include "pjrt/counters.h"

enum { VERSION = 1, EVICT_EVERY = 64 };

struct header {
  char magic[8];
  uint64_t version, length;
  tt_digest key, payload;
};
static const char magic[8] = "TTEXEC\n";
static const tt_digest unseeded;

/* ---- the folders ---- */
struct root { char folder[3072]; bool shared; };
static struct root own, common = {.shared = true}; /* folder "": not used */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool make_folders(char *path, mode_t mode) {
  for (char *p = path + 1;; p++) {
    if (*p && *p != '/') continue;
    char end = *p;
    *p = 0;
    bool made = !mkdir(path, mode) || errno == EEXIST;
    *p = end;
    if (!made) return false;
    if (!end) return true;
  }
}

static bool trusted(const struct root *r, const struct stat *st) {
  return r->shared ? !(st->st_mode & S_IWOTH) : st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

static void find_folders(void) {
  const char *off = tt_env("TORCH_TPU_CACHE"), *named = tt_env("TORCH_TPU_CACHE_DIR"),
             *root = tt_env("TORCH_TPU_CACHE_SHARED");
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (off && !strcmp(off, "0")) return;
  if (named) snprintf(own.folder, sizeof own.folder, "%s", named);
  else if (cache && *cache) snprintf(own.folder, sizeof own.folder, "%s/torch_tpu", cache);
  else if (home && *home) snprintf(own.folder, sizeof own.folder, "%s/.cache/torch_tpu", home);
  struct stat st;
  if (*own.folder &&
      (!make_folders(own.folder, 0700) || lstat(own.folder, &st) || !S_ISDIR(st.st_mode) || !trusted(&own, &st))) {
    tt_log("no executable cache: %s is not a folder that only this user may write", own.folder);
    *own.folder = 0;
  }
  if (!root) return;
  snprintf(common.folder, sizeof common.folder, "%s", root);
  make_folders(common.folder, 0755); /* or it may only be read, or be mounted later: each use sees */
}

static const struct root *local(void) {
  pthread_once(&once, find_folders);
  return &own;
}
static const struct root *shared(void) {
  pthread_once(&once, find_folders);
  return &common;
}
const char *tt_disk_folder(bool of_all) {
  const struct root *r = of_all ? shared() : local();
  return *r->folder ? r->folder : NULL;
}

static void path_of(const struct root *r, tt_digest key, char *path, size_t room) {
  snprintf(path, room, "%s/%016llx%016llx.ttx", r->folder, (unsigned long long)key.h[0], (unsigned long long)key.h[1]);
}

/* ---- reading ---- */
static bool read_all(int fd, void *data, size_t n) {
  for (char *p = data; n;) {
    ssize_t got = read(fd, p, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    n -= (size_t)got;
  }
  return true;
}

/* *damaged tells a bad entry from a lack of memory, which is no reason to drop a good one. */
static bool read_entry(int fd, size_t size, tt_digest key, tt_buf *out, bool *damaged) {
  struct header h;
  *damaged = true;
  if (size < sizeof h || !read_all(fd, &h, sizeof h)) return false;
  if (memcmp(h.magic, magic, sizeof magic) || h.version != VERSION || h.length != size - sizeof h ||
      memcmp(&h.key, &key, sizeof key))
    return false;
  char *data = tt_alloc(h.length + 1);
  *damaged = data != NULL;
  if (!data) return false;
  tt_digest d = unseeded;
  bool good = read_all(fd, data, h.length);
  if (good) d = tt_digest_bytes(unseeded, data, h.length);
  good = good && !memcmp(&d, &h.payload, sizeof d);
  if (good) tt_buf_append(out, data, h.length);
  *damaged = !good;
  tt_free(data);
  return good && !out->failed;
}

static void reject(const struct root *r, tt_digest key) {
  char path[4096];
  path_of(r, key, path, sizeof path);
  tt_tally(cache_rejects, 1);
  tt_log("dropped a cache entry that cannot be used: %s", path);
  unlink(path);
}
void tt_disk_reject(tt_digest key) {
  if (*local()->folder) reject(local(), key);
}

static bool read_from(const struct root *r, tt_digest key, tt_buf *out) {
  char path[4096];
  if (!*r->folder) return false;
  path_of(r, key, path, sizeof path);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ELOOP) tt_tally(cache_rejects, 1);
    return false;
  }
  struct stat st;
  bool ours = !fstat(fd, &st) && S_ISREG(st.st_mode) && trusted(r, &st);
  bool damaged = true, good = ours && read_entry(fd, (size_t)st.st_size, key, out, &damaged);
  if (good) futimens(fd, NULL);
  else if (damaged) reject(r, key);
  close(fd);
  return good;
}

static bool write_to(const struct root *r, tt_digest key, const void *data, size_t length);

bool tt_disk_read(tt_digest key, tt_buf *out) {
  if (read_from(local(), key, out)) return true;
  if (!read_from(shared(), key, out)) return false;
  tt_tally(cache_hits_shared, 1);
  write_to(local(), key, out->data, out->length);
  return true;
}

bool tt_disk_check(const char *path) {
  struct header h = {0};
  struct stat st;
  tt_buf data = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  bool damaged, good = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && read_all(fd, &h, sizeof h) &&
                       !lseek(fd, 0, SEEK_SET) && read_entry(fd, (size_t)st.st_size, h.key, &data, &damaged);
  if (fd >= 0) close(fd);
  tt_buf_deinit(&data);
  char name[64];
  snprintf(name, sizeof name, "/%016llx%016llx.ttx", (unsigned long long)h.key.h[0], (unsigned long long)h.key.h[1]);
  const char *slash = strrchr(path, '/');
  return good && slash && !strcmp(slash, name);
}

/* ---- writing ---- */
static bool write_all(int fd, const void *data, size_t n) {
  for (const char *p = data; n;) {
    ssize_t put = write(fd, p, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    p += put;
    n -= (size_t)put;
  }
  return true;
}

struct file { char name[64]; off_t size; struct timespec used; };

static int older_first(const void *a, const void *b) {
  const struct file *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Removes the least recently used entries until the folder holds three quarters of its bound, and what writers that
 * died an hour ago left behind. One process at a time; the others do without. */
static void evict(const char *folder, int64_t bound) {
  char path[4096];
  snprintf(path, sizeof path, "%s/lock", folder);
  int guard = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  DIR *dir = guard >= 0 && !flock(guard, LOCK_EX | LOCK_NB) ? opendir(folder) : NULL;
  struct file *files = NULL;
  size_t n = 0, room = 0;
  int64_t total = 0;
  time_t now = time(NULL);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    struct stat st;
    const char *dot = strrchr(e->d_name, '.');
    if (!dot || strlen(e->d_name) >= sizeof files->name || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
      continue;
    if (!strcmp(dot, ".tmp") && now - st.st_mtime > 3600) unlinkat(dirfd(dir), e->d_name, 0);
    if (strcmp(dot, ".ttx")) continue;
    if (n == room) {
      struct file *more = tt_realloc(files, (room = room ? 2 * room : 256) * sizeof *files);
      if (!more) break;
      files = more;
    }
    strcpy(files[n].name, e->d_name);
    files[n].size = st.st_size;
    files[n++].used = st.st_mtim;
    total += st.st_size;
  }
  if (total > bound) {
    qsort(files, n, sizeof *files, older_first);
    for (size_t i = 0; i < n && total > bound / 4 * 3; i++)
      if (!unlinkat(dirfd(dir), files[i].name, 0)) total -= files[i].size;
  }
  tt_free(files);
  if (dir) closedir(dir);
  if (guard >= 0) close(guard);
}

static bool write_to(const struct root *r, tt_digest key, const void *data, size_t length) {
  static _Atomic unsigned serial;
  char path[4096], temporary[4200];
  if (!*r->folder) return false;
  path_of(r, key, path, sizeof path);
  /* processes of several machines may share a folder */
  snprintf(temporary, sizeof temporary, "%s/XXXXXX.tmp", r->folder);
  struct header h = {
      .version = VERSION, .length = length, .key = key, .payload = tt_digest_bytes(unseeded, data, length)};
  memcpy(h.magic, magic, sizeof magic);
  int fd = mkostemps(temporary, 4, O_CLOEXEC); /* mode 0600 */
  bool good =
      fd >= 0 && write_all(fd, &h, sizeof h) && write_all(fd, data, length) && (!r->shared || !fchmod(fd, 0644));
  if (fd >= 0) good = !close(fd) && good;
  if (!good || rename(temporary, path)) {
    tt_log("cannot write the cache entry %s: %s", path, strerror(errno));
    if (fd >= 0) unlink(temporary);
    return false;
  }
  if (!r->shared && atomic_fetch_add(&serial, 1) % EVICT_EVERY == 0)
    evict(r->folder, tt_env_int("TORCH_TPU_CACHE_BYTES", 4ll << 30));
  return true;
}

bool tt_disk_write(tt_digest key, const void *data, size_t length) {
  bool here = write_to(local(), key, data, length), for_all = write_to(shared(), key, data, length);
  return here || for_all;
}

/* One line of less than a page, appended at once: lines of several processes do not mix. */
void tt_disk_note(tt_digest key, const char *name) {
  enum { MOST = 8 << 20 };
  char path[4096], line[256];
  struct stat st;
  int n = snprintf(line, sizeof line, "%016llx%016llx %.200s\n", (unsigned long long)key.h[0],
                   (unsigned long long)key.h[1], name);
  for (const struct root *r = local(); r; r = r == local() ? shared() : NULL) {
    if (!*r->folder) continue;
    snprintf(path, sizeof path, "%s/names", r->folder);
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW, r->shared ? 0644 : 0600);
    if (fd < 0) continue;
    if (!fstat(fd, &st) && st.st_size > MOST && ftruncate(fd, 0))
      tt_log("cannot shorten %s: %s", path, strerror(errno));
    if (!write_all(fd, line, (size_t)n)) tt_log("cannot write %s: %s", path, strerror(errno));
    close(fd);
  }
}

void tt_disk_dump(tt_digest key, const char *text, size_t length) {
  const char *to = tt_env("TORCH_TPU_DUMP");
  char path[4096];
  if (!to) return;
  snprintf(path, sizeof path, "%s/%016llx%016llx.mlir", to, (unsigned long long)key.h[0], (unsigned long long)key.h[1]);
  mkdir(to, 0700);
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    if (errno != EEXIST) tt_log("cannot write %s: %s", path, strerror(errno));
    return;
  }
  if (!write_all(fd, text, length)) tt_log("cannot write %s: %s", path, strerror(errno));
  close(fd);
}
