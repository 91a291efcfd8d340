/* lines.c: which line of the user's code each line of a program comes from.
 *
 * Who builds says so as it goes (hlo_place); an origin is how far the body had grown then. Only the finished text
 * carries the places: lines are compared while they are built, and equal ones are one wherever they come from. */
#include <stdio.h>
#include "hlo/module.h"
#include "hlo/share.h"

/* ` loc("FILE":LINE:0)`, without what a string of MLIR would have to escape. */
static const char *location_of(hlo_module *m, const char *file, int64_t line) {
  size_t n = strlen(file), size = n + 40;
  char *text = hlo_alloc(m, size);
  if (!text) return NULL;
  int at = snprintf(text, size, " loc(\"");
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)file[i];
    text[at++] = (char)(c == '"' || c == '\\' || c < 32 || c == 127 ? '?' : c);
  }
  snprintf(text + at, size - (size_t)at, "\":%lld:0)", (long long)line);
  return text;
}

void hlo_place(hlo_module *m, const char *file, int64_t line) {
  const char *location = file ? location_of(m, file, line) : NULL;
  const hlo_origin *last = m->n_origins ? &m->origins[m->n_origins - 1] : NULL;
  const char *before = last ? last->location : NULL;
  if (hlo_failed(m) || before == location || (before && location && !strcmp(before, location))) return;
  if (last && last->from == m->text.length) m->n_origins--;
  if (m->n_origins == m->cap_origins) {
    size_t cap = m->cap_origins ? 2 * m->cap_origins : 16;
    hlo_origin *origins = hlo_alloc(m, cap * sizeof *origins);
    if (!origins) return;
    if (m->n_origins) memcpy(origins, m->origins, m->n_origins * sizeof *origins);
    m->origins = origins;
    m->cap_origins = cap;
  }
  m->origins[m->n_origins++] = (hlo_origin){m->text.length, location};
}

static bool ends_with(const char *line, size_t n, const char *end) {
  size_t k = strlen(end);
  return n >= k && !memcmp(line + n - k, end, k);
}

/* Whether a line, without its end, is the last one of an operation: not the head of one with regions. */
static bool is_operation(const char *line, size_t n) {
  size_t indent = 0;
  while (indent < n && line[indent] == ' ') indent++;
  const char *first = line + indent;
  if (n - indent < 2 || ends_with(line, n, "({") || ends_with(line, n, "},")) return false;
  return *first == '%' || *first == '"' || !memcmp(first, "})", 2);
}

void hlo_put_located(hlo_module *m, const char *body, size_t length) {
  if (!m->n_origins) {
    tt_buf_append(&m->text, body, length);
    return;
  }
  size_t at_origin = 0;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(body + at, '\n', length - at);
    size_t n = (end ? (size_t)(end - body) : length) - at;
    while (at_origin < m->n_origins && m->origins[at_origin].from <= at) at_origin++;
    const char *location = at_origin ? m->origins[at_origin - 1].location : NULL;
    tt_buf_append(&m->text, body + at, n);
    if (location && is_operation(body + at, n)) tt_buf_text(&m->text, location);
    if (end) tt_buf_append(&m->text, "\n", 1);
    at += n + 1;
  }
}
