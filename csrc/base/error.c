/* error.c: the one error type, and the names of its codes.
 *
 * An error is a plain struct of the caller, so no path can leak one. Messages are one line whatever they were made
 * from, for they end up in exceptions and logs. The text is formatted before *err is touched, so it may quote *err
 * itself. Refuses to allocate: it must work when memory has run out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"

static const char *const names[] = {
  [TT_OK] = "OK", [TT_CANCELLED] = "CANCELLED", [TT_UNKNOWN] = "UNKNOWN", [TT_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
  [TT_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED", [TT_NOT_FOUND] = "NOT_FOUND", [TT_ALREADY_EXISTS] = "ALREADY_EXISTS",
  [TT_PERMISSION_DENIED] = "PERMISSION_DENIED", [TT_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
  [TT_FAILED_PRECONDITION] = "FAILED_PRECONDITION", [TT_ABORTED] = "ABORTED", [TT_OUT_OF_RANGE] = "OUT_OF_RANGE",
  [TT_UNIMPLEMENTED] = "UNIMPLEMENTED", [TT_INTERNAL] = "INTERNAL", [TT_UNAVAILABLE] = "UNAVAILABLE",
  [TT_DATA_LOSS] = "DATA_LOSS", [TT_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

const char *tt_code_name(tt_code code) {
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "UNKNOWN";
}

/* Line breaks become one space, together with the blanks around them; trailing blanks go. */
static size_t one_line(char *s) {
  size_t n = 0;
  for (size_t i = 0; s[i];) {
    size_t blanks = strspn(s + i, " \n\r\t"), spaces = strspn(s + i, " ");
    if (!blanks) {
      s[n++] = s[i++];
      continue;
    }
    i += blanks;
    if (n == 0) continue;
    for (size_t k = blanks > spaces ? 1 : blanks; k > 0; k--) s[n++] = ' ';
  }
  while (n && s[n - 1] == ' ') n--;
  s[n] = 0;
  return n;
}

tt_code tt_fail(tt_error *err, tt_code code, const char *where, const char *format, ...) {
  if (!err) return code;
  char text[sizeof err->message], place[sizeof err->where];
  va_list ap;
  va_start(ap, format);
  int wanted = vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  one_line(text);
  if (wanted >= (int)sizeof text) memcpy(text + sizeof text - 4, "...", 4);
  snprintf(place, sizeof place, "%s", where ? where : "");
  err->code = code;
  memcpy(err->where, place, sizeof place);
  snprintf(err->message, sizeof err->message, "%s", text);
  return code;
}

tt_code tt_no_memory(tt_error *err, size_t bytes) {
  return tt_fail(err, TT_RESOURCE_EXHAUSTED, "", "out of host memory: %zu bytes were asked for", bytes);
}
