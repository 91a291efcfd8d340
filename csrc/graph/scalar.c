/* scalar.c: numbers as device buffers.
 *
 * A learning rate, a slice's offset, an alpha: each is an operand of one element, so that a new value never compiles
 * again. Uploading costs more than running a small program, so buffers are kept by value in a direct-mapped table. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "graph/graph.h"
#include "pjrt/counters.h"

tt_dtype tt_scalar_carrier(tt_dtype t) {
  switch (t) {
    case TT_F16:
    case TT_BF16:
    case TT_F8E4M3FN:
    case TT_F8E5M2:
    case TT_F8E4M3FNUZ:
    case TT_F8E5M2FNUZ:
    case TT_F8E8M0FNU:
    case TT_F4E2M1FN: return TT_F32;
    default: return t;
  }
}

static double as_double(const tt_arg *a) {
  switch (a->dtype) {
    case TT_BOOL: case TT_U8: case TT_U16: case TT_U32: case TT_I8: case TT_I16: case TT_I32: case TT_I64:
      return (double)a->number.i;
    case TT_U64: return (double)(uint64_t)a->number.i;
    case TT_C64: case TT_C128: return a->number.c[0];
    default: return a->number.f;
  }
}

/* Integers keep all 64 bits; a float becomes one as a C cast does, without its undefined cases. */
static int64_t as_integer(const tt_arg *a) {
  if (tt_is_complex(a->dtype) || tt_is_float(a->dtype)) {
    double d = as_double(a);
    if (isnan(d)) return 0;
    if (d >= 9223372036854775808.0) return d < 18446744073709551616.0 ? (int64_t)(uint64_t)d : INT64_MAX;
    return d <= -9223372036854775808.0 ? INT64_MIN : (int64_t)d;
  }
  return a->number.i;
}

tt_scalar tt_scalar_encode(const tt_arg *a, tt_dtype carrier) {
  tt_scalar s = {.dtype = carrier};
  double d = as_double(a), imaginary = tt_is_complex(a->dtype) ? a->number.c[1] : 0;
  float f[2] = {(float)d, (float)imaginary};
  int64_t i = as_integer(a);
  switch (carrier) {
    case TT_BOOL: s.bits[0] = d != 0 || imaginary != 0; break;
    case TT_F32: memcpy(s.bits, f, 4); break;
    case TT_F64: memcpy(s.bits, &d, 8); break;
    case TT_C64: memcpy(s.bits, f, 8); break;
    case TT_C128: memcpy(s.bits, &d, 8); memcpy(s.bits + 8, &imaginary, 8); break;
    default: memcpy(s.bits, &i, tt_dtype_bits(carrier) / 8); break; /* little-endian: narrowing wraps */
  }
  return s;
}

void tt_count_kept(const tt_buffer *b, int sign) {
  if (!b) return;
  tt_count_live(tt_buffer_device(b), -sign, -sign * (int64_t)tt_buffer_bytes(b));
}

/* ---- the table ---- */
enum { ENTRIES = 4096, STRIPES = 64 };
static struct entry { tt_client *client; tt_buffer *buffer; int device; tt_scalar scalar; } table[ENTRIES];
static pthread_mutex_t locks[STRIPES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void make_locks(void) { for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&locks[i], NULL); }

tt_buffer *tt_scalar_buffer(tt_client *c, int device, tt_scalar s, tt_error *err) {
  uint64_t words[3] = {s.dtype | (uint64_t)(unsigned)device << 8};
  memcpy(words + 1, s.bits, 16);
  uint64_t h = tt_hash_words(words, 3);
  struct entry *e = &table[h % ENTRIES];
  pthread_once(&once, make_locks);
  pthread_mutex_t *lock = &locks[h % STRIPES]; /* STRIPES divides ENTRIES: one lock for each entry */
  pthread_mutex_lock(lock);
  if (e->buffer && e->client == c && e->device == device && !memcmp(&e->scalar, &s, sizeof s)) {
    tt_buffer *b = tt_buffer_retain(e->buffer);
    pthread_mutex_unlock(lock);
    return b;
  }
  pthread_mutex_unlock(lock);
  tt_buffer *b = tt_buffer_from_host(c, device, s.dtype, 0, NULL, s.bits, err);
  if (!b) return NULL;
  tt_tally(scalar_uploads, 1);
  tt_buffer *old = NULL;
  pthread_mutex_lock(lock);
  old = e->buffer;
  tt_count_kept(e->buffer, -1);
  *e = (struct entry){c, tt_buffer_retain(b), device, s};
  tt_count_kept(e->buffer, 1);
  pthread_mutex_unlock(lock);
  tt_buffer_release(old);
  return b;
}

void tt_scalars_clear(tt_client *c) {
  pthread_once(&once, make_locks);
  for (int i = 0; i < ENTRIES; i++) {
    tt_buffer *old = NULL;
    pthread_mutex_lock(&locks[i % STRIPES]);
    if (table[i].client == c) {
      old = table[i].buffer;
      tt_count_kept(table[i].buffer, -1);
      table[i] = (struct entry){0};
    }
    pthread_mutex_unlock(&locks[i % STRIPES]);
    tt_buffer_release(old);
  }
}
