/* module.c: the module itself: values, the sticky error, printing, parameters, interning and the end.
 *
 * A value is a node in the arena with its type beside it; its name is its number. The text of main is written as values
 * are made; hlo_finish puts the function's head before it and the return after it. Interning compares printed lines:
 * a line that its scope has already is taken back, so equal constants need no table of their own. A module that shares
 * does so with all that computes or moves elements. It does not optimise otherwise: what a rule builds is what is
 * printed. */
#include "hlo/module.h"
#include "hlo/share.h"

#include <stdarg.h>
#include <stdio.h>

hlo_module *hlo_module_create(tt_error *err) {
  hlo_module *m = tt_alloc(sizeof *m);
  if (!m) {
    tt_no_memory(err, sizeof *m);
    return NULL;
  }
  m->scope = &m->main;
  m->next_scope = 1;
  return m;
}

void hlo_lower_for_tpu(hlo_module *m) { m->for_tpu = true; }
void hlo_share_lines(hlo_module *m) { m->shares = true; }

void hlo_module_destroy(hlo_module *m) {
  if (!m) return;
  tt_buf_deinit(&m->text);
  tt_buf_deinit(&m->finished);
  tt_buf_deinit(&m->functions);
  tt_arena_deinit(&m->arena);
  tt_free(m);
}

/* ---- errors ---- */

void *hlo_alloc(hlo_module *m, size_t bytes) {
  void *p = tt_arena_alloc(&m->arena, bytes ? bytes : 1);
  if (!p && m->error.code == TT_OK) tt_no_memory(&m->error, bytes);
  return p;
}

hlo hlo_fail(hlo_module *m, tt_code code, const char *format, ...) {
  if (m->error.code != TT_OK) return NULL;
  char message[sizeof m->error.message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  tt_fail(&m->error, code, "", "%s", message);
  return NULL;
}

bool hlo_failed(const hlo_module *m) { return m->error.code != TT_OK || m->text.failed; }

void hlo_get_error(const hlo_module *m, tt_error *err) {
  if (!err) return;
  if (m->error.code == TT_OK && m->text.failed) tt_no_memory(err, m->text.capacity);
  else *err = m->error;
}

/* "f32[2,3]" for messages. */
static const char *type_name(hlo x, char *out, size_t size) {
  size_t n = (size_t)snprintf(out, size, "%s[", tt_dtype_hlo(x->dtype));
  for (int i = 0; i < x->rank && n + 24 < size; i++)
    n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? "," : "", (long long)x->dims[i]);
  snprintf(out + n, size - n, "]");
  return out;
}

hlo hlo_mismatch(hlo_module *m, const char *op, hlo want, hlo got) {
  char a[400], b[400];
  return hlo_fail(m, TT_INTERNAL, "hlo %s: expected %s, got %s", op, type_name(want, a, sizeof a),
                  type_name(got, b, sizeof b));
}

bool hlo_agree(hlo_module *m, const char *op, hlo want, hlo got) {
  if (want->dtype == got->dtype && hlo_same_dims(want, got)) return true;
  hlo_mismatch(m, op, want, got);
  return false;
}

bool hlo_check_dim(hlo_module *m, const char *op, int64_t dim, int rank) {
  if (dim >= 0 && dim < rank) return true;
  hlo_fail(m, TT_INTERNAL, "hlo %s: dim %lld is out of range for rank %d", op, (long long)dim, rank);
  return false;
}

static bool visible(const hlo_module *m, hlo x) {
  uint32_t scope = ((const hlo_node *)x)->scope;
  for (const hlo_scope *s = m->scope; s; s = s->outer) {
    if (s->id == scope) return true;
    if (s->isolated) return false;
  }
  return false;
}

bool hlo_ready_sized(hlo_module *m, const char *op, int n, const hlo *xs) {
  if (hlo_failed(m)) return false;
  for (int i = 0; i < n; i++) {
    if (!xs[i]) hlo_fail(m, TT_INTERNAL, "hlo %s: operand %d is missing", op, i);
    else if (!visible(m, xs[i])) hlo_fail(m, TT_INTERNAL, "hlo %s: operand %d belongs to another region", op, i);
    else continue;
    return false;
  }
  return true;
}

bool hlo_ready(hlo_module *m, const char *op, int n, const hlo *xs) {
  if (!hlo_ready_sized(m, op, n, xs)) return false;
  for (int i = 0; i < n; i++)
    if (hlo_is_sized(xs[i])) return hlo_refuse_sized(m, op);
  return true;
}

/* ---- values ---- */

hlo hlo_new(hlo_module *m, tt_dtype t, int rank, const int64_t *dims) {
  if (rank < 0 || rank > HLO_MAX_RANK) return hlo_fail(m, TT_INTERNAL, "hlo: rank %d is out of range", rank);
  hlo_node *node = hlo_alloc(m, sizeof *node + (size_t)rank * sizeof *dims);
  if (!node) return NULL;
  int64_t *own = (int64_t *)(node + 1);
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0)
      return hlo_fail(m, TT_INTERNAL, "hlo: dim %d of a result is negative: %lld", i, (long long)dims[i]);
    own[i] = dims[i];
  }
  node->value = (hlo_value){.id = m->next_id++, .dtype = (uint8_t)t, .rank = (uint8_t)rank, .dims = own};
  node->scope = m->scope->id;
  return &node->value;
}

int64_t hlo_numel(hlo x) {
  if (!x) return 0;
  int64_t n = 1;
  for (int i = 0; i < x->rank; i++) n *= x->dims[i];
  return n;
}

bool hlo_same_dims(hlo a, hlo b) {
  if (!a || !b || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

hlo hlo_parameter(hlo_module *m, tt_dtype t, int rank, const int64_t *dims) {
  if (hlo_failed(m)) return NULL;
  if (m->n_parameters == m->cap_parameters) {
    int cap = m->cap_parameters ? 2 * m->cap_parameters : 16;
    hlo *list = hlo_alloc(m, (size_t)cap * sizeof *list);
    if (!list) return NULL;
    if (m->n_parameters) memcpy(list, m->parameters, (size_t)m->n_parameters * sizeof *list);
    m->parameters = list;
    m->cap_parameters = cap;
  }
  uint32_t next_id = m->next_id;
  hlo x = hlo_new(m, t, rank, dims);
  if (!x) return NULL;
  hlo_node *node = (hlo_node *)x;
  m->next_id = next_id; /* parameters count for themselves */
  node->value.id = (uint32_t)m->n_parameters;
  node->scope = m->main.id;
  node->parameter = true;
  m->parameters[m->n_parameters++] = x;
  return x;
}

/* ---- printing ---- */

void hlo_put(hlo_module *m, const char *text) { tt_buf_append(&m->text, text, strlen(text)); }

void hlo_put_int(hlo_module *m, int64_t v) {
  char digits[24], *end = digits + sizeof digits, *p = end;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do *--p = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) *--p = '-';
  tt_buf_append(&m->text, p, (size_t)(end - p));
}

void hlo_put_value(hlo_module *m, hlo x) {
  hlo_put(m, ((const hlo_node *)x)->parameter ? "%arg" : "%");
  hlo_put_int(m, x->id);
}

void hlo_put_values(hlo_module *m, int n, const hlo *xs) {
  for (int i = 0; i < n; i++) {
    if (i) hlo_put(m, ", ");
    hlo_put_value(m, xs[i]);
  }
}

static void put_indent(hlo_module *m) {
  for (int i = 0; i < m->depth + 2; i++) hlo_put(m, "  ");
}

void hlo_open(hlo_module *m, int n, const hlo *results) {
  put_indent(m);
  hlo_put_values(m, n, results);
  hlo_put(m, " = ");
}

void hlo_put_type(hlo_module *m, tt_dtype t, int rank, const int64_t *dims) {
  hlo_put(m, "tensor<");
  for (int i = 0; i < rank; i++) {
    hlo_put_int(m, dims[i]);
    hlo_put(m, "x");
  }
  hlo_put(m, tt_dtype_hlo(t));
  hlo_put(m, ">");
}

void hlo_put_type_of(hlo_module *m, hlo x) { hlo_put_type(m, x->dtype, x->rank, x->dims); }

void hlo_put_list(hlo_module *m, const char *before, int n, const int64_t *v) {
  hlo_put(m, before);
  hlo_put(m, "[");
  for (int i = 0; i < n; i++) {
    if (i) hlo_put(m, ", ");
    hlo_put_int(m, v[i]);
  }
  hlo_put(m, "]");
}

void hlo_put_list32(hlo_module *m, const char *before, int n, const int *v) {
  int64_t wide[HLO_MAX_RANK];
  for (int i = 0; i < n; i++) wide[i] = v[i];
  hlo_put_list(m, before, n, wide);
}

void hlo_put_array(hlo_module *m, const char *before, int n, const int64_t *v, int64_t otherwise) {
  hlo_put(m, before);
  hlo_put(m, "array<i64");
  for (int i = 0; i < n; i++) {
    hlo_put(m, i ? ", " : ": ");
    hlo_put_int(m, v ? v[i] : otherwise);
  }
  hlo_put(m, ">");
}

void hlo_put_pairs(hlo_module *m, const char *before, int n, const int64_t *low, const int64_t *high) {
  hlo_put(m, before);
  hlo_put(m, n ? "dense<[" : "dense<");
  for (int i = 0; i < n; i++) {
    hlo_put_list(m, i ? ", " : "", 2, (int64_t[]){low ? low[i] : 0, high ? high[i] : 0});
  }
  hlo_put(m, n ? "]> : " : "> : ");
  hlo_put_type(m, TT_I64, 2, (int64_t[]){n, 2});
}

void hlo_put_signature(hlo_module *m, int n, const hlo *xs, int n_results, const hlo *results) {
  hlo_put(m, " : (");
  for (int i = 0; i < n; i++) {
    if (i) hlo_put(m, ", ");
    hlo_put_type_of(m, xs[i]);
  }
  hlo_put(m, n_results == 1 ? ") -> " : ") -> (");
  for (int i = 0; i < n_results; i++) {
    if (i) hlo_put(m, ", ");
    hlo_put_type_of(m, results[i]);
  }
  hlo_put(m, n_results == 1 ? "\n" : ")\n");
}

void hlo_open_generic(hlo_module *m, const char *op, int n_results, const hlo *results, int n, const hlo *xs) {
  hlo_open(m, n_results, results);
  hlo_put(m, strchr(op, '.') ? "\"" : "\"stablehlo.");
  hlo_put(m, op);
  hlo_put(m, "\"(");
  hlo_put_values(m, n, xs);
  hlo_put(m, ")");
}

/* ---- interning ---- */

size_t hlo_intern_begin(hlo_module *m) {
  size_t start = m->text.length;
  put_indent(m);
  hlo_put(m, "%");
  hlo_put_int(m, m->next_id); /* the number of the value that intern_end makes */
  hlo_put(m, " = ");
  return start;
}

static bool grow_interned(hlo_module *m) {
  size_t cap = m->cap_interned ? 2 * m->cap_interned : 64;
  hlo_interned *table = hlo_alloc(m, cap * sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < m->cap_interned; i++) {
    const hlo_interned *e = &m->interned[i];
    if (!e->value) continue;
    size_t k = e->hash & (cap - 1);
    while (table[k].value) k = (k + 1) & (cap - 1);
    table[k] = *e;
  }
  m->interned = table;
  m->cap_interned = cap;
  return true;
}

/* Where the line from start on is in the table, or where it goes; NULL with an error. Its own number, before the "=",
 * is no part of it. */
static hlo_interned *find_line(hlo_module *m, size_t start, hlo_interned *line) {
  if (hlo_failed(m) || (2 * m->n_interned >= m->cap_interned && !grow_interned(m))) return NULL;
  size_t from = start;
  while (m->text.data[from] != '=') from++;
  size_t length = m->text.length - from;
  tt_digest digest = tt_digest_bytes((tt_digest){{m->scope->id, 0}}, m->text.data + from, length);
  *line = (hlo_interned){digest.h[0], from, length, m->scope->id, NULL};
  size_t k = digest.h[0] & (m->cap_interned - 1);
  for (; m->interned[k].value; k = (k + 1) & (m->cap_interned - 1)) {
    const hlo_interned *e = &m->interned[k];
    if (e->hash != line->hash || e->scope != line->scope || e->length != length) continue;
    if (!memcmp(m->text.data + e->start, m->text.data + from, length)) break;
  }
  return &m->interned[k];
}

hlo hlo_intern_end(hlo_module *m, size_t start, tt_dtype t, int rank, const int64_t *dims) {
  hlo_put(m, "\n");
  hlo_interned line, *e = find_line(m, start, &line);
  if (!e) return NULL;
  if (e->value) {
    m->text.length = start;
    return e->value;
  }
  if (!(line.value = hlo_new(m, t, rank, dims))) return NULL;
  *e = line;
  m->n_interned++;
  return line.value;
}

hlo hlo_shared(hlo_module *m, size_t start, hlo r) {
  hlo_interned line, *e;
  /* marks are not in the text */
  if (!m->shares || !r || hlo_is_sized(r) || !(e = find_line(m, start, &line))) return r;
  if (e->value) {
    m->text.length = start;
    m->next_id = r->id;
    return e->value;
  }
  line.value = r;
  *e = line;
  m->n_interned++;
  return r;
}

/* ---- the end ---- */

static bool check_donation(hlo_module *m, int n_results, const hlo *results, const int *donated_to) {
  for (int p = 0; donated_to && p < m->n_parameters; p++) {
    if (donated_to[p] < 0) continue;
    if (donated_to[p] >= n_results) {
      hlo_fail(m, TT_INTERNAL, "hlo: parameter %d is donated to result %d of %d", p, donated_to[p], n_results);
      return false;
    }
    if (!hlo_agree(m, "donation", m->parameters[p], results[donated_to[p]])) return false;
    for (int q = 0; q < p; q++)
      if (donated_to[q] == donated_to[p]) {
        hlo_fail(m, TT_INTERNAL, "hlo: parameters %d and %d are donated to one result", q, p);
        return false;
      }
  }
  return true;
}

/* "(parameters) -> (results) { body }": a function without its name, printed into text. */
static void put_function(hlo_module *m, int n_results, const hlo *results, const int *donated_to, tt_buf body) {
  hlo_put(m, "(");
  for (int p = 0; p < m->n_parameters; p++) {
    if (p) hlo_put(m, ", ");
    hlo_put_value(m, m->parameters[p]);
    hlo_put(m, ": ");
    hlo_put_type_of(m, m->parameters[p]);
    if (!donated_to || donated_to[p] < 0) continue;
    hlo_put(m, " {tf.aliasing_output = ");
    hlo_put_int(m, donated_to[p]);
    hlo_put(m, " : i32}");
  }
  hlo_put(m, ") -> (");
  for (int r = 0; r < n_results; r++) {
    if (r) hlo_put(m, ", ");
    hlo_put_type_of(m, results[r]);
  }
  hlo_put(m, ") {\n");
  hlo_put_located(m, body.data, body.length);
  hlo_put(m, "    return");
  for (int r = 0; r < n_results; r++) {
    hlo_put(m, r ? ", " : " ");
    hlo_put_value(m, results[r]);
  }
  for (int r = 0; r < n_results; r++) {
    hlo_put(m, r ? ", " : " : ");
    hlo_put_type_of(m, results[r]);
  }
  hlo_put(m, "\n  }\n");
}

static const char *finish(hlo_module *m, bool module, int n_results, const hlo *results, const int *donated_to,
                          size_t *length, tt_error *err) {
  if (!hlo_ready_sized(m, "return", n_results, results) || !check_donation(m, n_results, results, donated_to)) {
    hlo_get_error(m, err);
    return NULL;
  }
  /* The head is printed by the same functions: its buffer stands in for the body's meanwhile. */
  tt_buf body = m->text;
  m->text = (tt_buf){0};
  if (module) hlo_put(m, "module @tt {\n  func.func public @main");
  put_function(m, n_results, results, donated_to, body);
  if (module) {
    tt_buf_append(&m->text, m->functions.data, m->functions.length);
    hlo_put_foreign(m);
    hlo_put(m, "}\n");
  }
  tt_buf_deinit(&m->finished);
  m->finished = m->text;
  m->text = body;
  if (m->finished.failed || m->functions.failed) {
    tt_no_memory(err, m->finished.capacity);
    return NULL;
  }
  if (length) *length = m->finished.length;
  return m->finished.data;
}

const char *hlo_finish(hlo_module *m, int n_results, const hlo *results, const int *donated_to, size_t *length,
                       tt_error *err) {
  return finish(m, true, n_results, results, donated_to, length, err);
}

/* ---- functions ---- */

const char *hlo_function(hlo_module *m, int n_results, const hlo *results, size_t *length, tt_error *err) {
  return finish(m, false, n_results, results, NULL, length, err);
}

int hlo_add_function(hlo_module *m, const char *text, size_t length) {
  tt_buf_printf(&m->functions, "  func.func private @f%d", m->n_functions);
  tt_buf_append(&m->functions, text, length);
  return m->n_functions++;
}

void hlo_call_named(hlo_module *m, const char *name, int n, const hlo *xs, int n_results, const hlo_type *types,
                    hlo *results) {
  for (int k = 0; k < n_results; k++) results[k] = NULL;
  if (!hlo_ready(m, "call", n, xs)) return;
  for (int k = 0; k < n_results; k++)
    if (!(results[k] = hlo_new(m, types[k].dtype, types[k].rank, types[k].dims))) return;
  hlo_open_generic(m, "func.call", n_results, results, n, xs);
  hlo_put(m, " {callee = @");
  hlo_put(m, name);
  hlo_put(m, "}");
  hlo_put_signature(m, n, xs, n_results, results);
}

void hlo_call(hlo_module *m, int function, int n, const hlo *xs, int n_results, const hlo_type *types, hlo *results) {
  char name[16];
  snprintf(name, sizeof name, "f%d", function);
  hlo_call_named(m, name, n, xs, n_results, types, results);
}
