/* foreign.c: functions that others wrote, by key, and calls of them.
 *
 * The table only grows, as the kernels of a process do: entries stay where they are, so that plans may hold them. */
#include "hlo/foreign.h"
#include <pthread.h>
#include <string.h>
#include "hlo/module.h"

struct hlo_foreign {
  hlo_foreign *next;
  const char *key, *entry, *text; /* behind the struct */
  size_t length;
};

enum { BUCKETS = 256 };
static hlo_foreign *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static hlo_foreign **bucket_of(const char *key) {
  tt_digest d = tt_digest_bytes((tt_digest){{0, 0}}, key, strlen(key));
  return &buckets[d.h[0] % BUCKETS];
}

static hlo_foreign *find(hlo_foreign *f, const char *key) {
  while (f && strcmp(f->key, key)) f = f->next;
  return f;
}

const hlo_foreign *hlo_foreign_find(const char *key) {
  hlo_foreign **bucket = bucket_of(key);
  pthread_mutex_lock(&lock);
  const hlo_foreign *f = find(*bucket, key);
  pthread_mutex_unlock(&lock);
  return f;
}

tt_code hlo_foreign_register(const char *key, const char *entry, const char *text, size_t length, tt_error *err) {
  hlo_foreign **bucket = bucket_of(key);
  size_t n_key = strlen(key) + 1, n_entry = strlen(entry) + 1;
  tt_code code = TT_OK;
  pthread_mutex_lock(&lock);
  if (!find(*bucket, key)) {
    hlo_foreign *f = tt_alloc(sizeof *f + n_key + n_entry + length + 1);
    if (f) {
      char *p = (char *)(f + 1);
      *f = (hlo_foreign){*bucket, memcpy(p, key, n_key), memcpy(p + n_key, entry, n_entry),
                         memcpy(p + n_key + n_entry, text, length), length};
      *bucket = f;
    } else {
      code = tt_no_memory(err, length);
    }
  }
  pthread_mutex_unlock(&lock);
  return code;
}

void hlo_use_foreign(hlo_module *m, const hlo_foreign *f) {
  for (uint32_t i = 0; i < m->n_foreign; i++)
    if (m->foreign[i] == f) return;
  if (m->n_foreign == m->cap_foreign) {
    uint32_t cap = m->cap_foreign ? 2 * m->cap_foreign : 4;
    const hlo_foreign **list = hlo_alloc(m, cap * sizeof *list);
    if (!list) return;
    if (m->n_foreign) memcpy(list, m->foreign, m->n_foreign * sizeof *list);
    m->foreign = list;
    m->cap_foreign = cap;
  }
  m->foreign[m->n_foreign++] = f;
}

const hlo_foreign *const *hlo_foreign_used(const hlo_module *m, uint32_t *count) {
  *count = m->n_foreign;
  return m->foreign;
}

void hlo_put_foreign(hlo_module *m) {
  for (uint32_t i = 0; i < m->n_foreign; i++) tt_buf_append(&m->text, m->foreign[i]->text, m->foreign[i]->length);
}

void hlo_call_foreign(hlo_module *m, const hlo_foreign *f, int n, const hlo *xs, int n_results, const hlo_type *types,
                      hlo *results) {
  hlo_use_foreign(m, f);
  hlo_call_named(m, f->entry, n, xs, n_results, types, results);
}
