/* buf.c: byte buffers that grow.
 *
 * A failed append is remembered and makes all later ones do nothing, so that code which writes text has one check at
 * its end. A zero byte always follows the contents, not counted in length. Refuses to shrink. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"

/* Room for n more bytes and the closing zero. */
static bool reserve(tt_buf *b, size_t n) {
  if (b->failed) return false;
  if (n >= SIZE_MAX / 4 - b->length) return !(b->failed = true);
  size_t wanted = b->length + n + 1;
  if (wanted <= b->capacity) return true;
  size_t capacity = b->capacity ? b->capacity * 2 : 256;
  if (capacity < wanted) capacity = wanted;
  char *data = tt_realloc(b->data, capacity);
  if (!data) return !(b->failed = true);
  b->data = data;
  b->capacity = capacity;
  return true;
}

void tt_buf_room(tt_buf *b, size_t n) { (void)reserve(b, n); }

void tt_buf_append(tt_buf *b, const void *data, size_t n) {
  if (!reserve(b, n)) return;
  if (n) memcpy(b->data + b->length, data, n);
  b->length += n;
  b->data[b->length] = 0;
}

void tt_buf_text(tt_buf *b, const char *text) { tt_buf_append(b, text, strlen(text)); }

void tt_buf_printf(tt_buf *b, const char *format, ...) {
  va_list ap, again;
  if (!reserve(b, 120)) return; /* most lines fit at once */
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(b->data + b->length, b->capacity - b->length, format, ap);
  va_end(ap);
  if (n < 0) {
    b->failed = true;
  } else if ((size_t)n < b->capacity - b->length) {
    b->length += (size_t)n;
  } else if (reserve(b, (size_t)n)) {
    vsnprintf(b->data + b->length, b->capacity - b->length, format, again);
    b->length += (size_t)n;
  }
  va_end(again);
}

void tt_buf_deinit(tt_buf *b) {
  tt_free(b->data);
  *b = (tt_buf){0};
}
