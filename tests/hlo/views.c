/* views.c: reads and writes random views on a real plugin and compares every byte with plain index arithmetic.
 *
 * usage: views PLUGIN [SEED [COUNT]]. A view is a chain of what torch does to tensors (slice, select, transpose,
 * expand, split, merge, unfold, diagonal, view(dtype), as_strided) over a base of random shape and bytes. Many views go
 * into one program, since compiling is what takes time. Where the class allows it the offset is a run-time operand, and
 * the program, made for one offset, is also run with another of the same class. Classes of known views are checked
 * first, without the plugin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt/pjrt.h"
#include "view/view.h"

enum { PER_PROGRAM = 25, MAX_BYTES = 1 << 16 };

static int passed, failed, per_class[5];
static const char *const class_names[] = {"whole", "cover", "fixed", "box", "any"};

static uint64_t state;
static uint32_t draw(uint32_t n) { /* 0 ... n - 1 */
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((state >> 33) % n);
}

typedef struct item {
  tt_dtype base_dtype, dtype;
  int base_rank, rank;
  int64_t base_dims[8], sizes[16], strides[16], offset, moved; /* moved: the offset it is run with */
  tt_view_class kind;
  bool runtime;
  int64_t bytes, value_bytes;
  char story[400];
} item;

static int64_t product(int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  return n;
}

static int64_t width(tt_dtype t) { return tt_dtype_bits(t) / 8; }

/* ---- making views ---- */

static void tell(item *v, const char *what, int64_t a, int64_t b, int64_t c) {
  size_t n = strlen(v->story);
  snprintf(v->story + n, sizeof v->story - n, ".%s(%lld,%lld,%lld)", what, (long long)a, (long long)b, (long long)c);
}

static void insert(item *v, int at, int64_t size, int64_t stride) {
  for (int i = v->rank++; i > at; i--) v->sizes[i] = v->sizes[i - 1], v->strides[i] = v->strides[i - 1];
  v->sizes[at] = size;
  v->strides[at] = stride;
}

static void erase(item *v, int at) {
  v->rank--;
  for (int i = at; i < v->rank; i++) v->sizes[i] = v->sizes[i + 1], v->strides[i] = v->strides[i + 1];
}

static void slice(item *v) {
  int d = (int)draw((uint32_t)v->rank);
  int64_t size = v->sizes[d], start = draw((uint32_t)size + 1), end = start + draw((uint32_t)(size - start) + 1),
          step = 1 + draw(3);
  if (end == start && draw(8)) { /* empty views are rare */
    start = 0;
    end = size;
  }
  v->sizes[d] = (end - start + step - 1) / step;
  v->offset += start * v->strides[d];
  v->strides[d] *= step;
  tell(v, "slice", d, start, end);
}

static void reinterpret(item *v) {
  static const tt_dtype all[] = {TT_BOOL, TT_U8, TT_I16, TT_I32, TT_F32, TT_I64, TT_F64, TT_C64, TT_C128};
  tt_dtype t = all[draw(9)];
  int64_t from = width(v->dtype), to = width(t);
  if (from == to) {
    v->dtype = t;
  } else if (from > to && v->rank && v->strides[v->rank - 1] == 1) {
    int64_t r = from / to;
    for (int i = 0; i < v->rank; i++) v->strides[i] *= r;
    v->strides[v->rank - 1] = 1;
    v->sizes[v->rank - 1] *= r;
    v->offset *= r;
    v->dtype = t;
  } else if (from < to && v->rank && v->strides[v->rank - 1] == 1) {
    int64_t r = to / from;
    if (v->offset % r || v->sizes[v->rank - 1] % r) return;
    for (int i = 0; i < v->rank - 1; i++)
      if (v->strides[i] % r) return;
    for (int i = 0; i < v->rank - 1; i++) v->strides[i] /= r;
    v->sizes[v->rank - 1] /= r;
    v->offset /= r;
    v->dtype = t;
  } else {
    return;
  }
  tell(v, "view_dtype", t, 0, 0);
}

static void as_strided(item *v, int64_t elements) {
  v->rank = (int)draw(4);
  v->offset = draw((uint32_t)elements);
  int64_t room = elements - 1 - v->offset;
  for (int i = 0; i < v->rank; i++) {
    v->sizes[i] = 1 + draw(4);
    int64_t most = v->sizes[i] > 1 ? room / (v->sizes[i] - 1) : 5;
    v->strides[i] = draw((uint32_t)(most > 12 ? 12 : most) + 1);
    room -= (v->sizes[i] - 1) * v->strides[i];
  }
  tell(v, "as_strided", v->rank, v->offset, 0);
}

static void step(item *v) {
  int64_t elements = product(v->base_rank, v->base_dims) * width(v->base_dtype) / width(v->dtype);
  int d = v->rank ? (int)draw((uint32_t)v->rank) : 0, e = v->rank ? (int)draw((uint32_t)v->rank) : 0;
  switch (draw(12)) {
    case 0: case 1: case 2:
      if (v->rank) slice(v);
      break;
    case 3: { /* transpose */
      if (v->rank < 2) break;
      int64_t size = v->sizes[d], stride = v->strides[d];
      v->sizes[d] = v->sizes[e], v->strides[d] = v->strides[e];
      v->sizes[e] = size, v->strides[e] = stride;
      tell(v, "transpose", d, e, 0);
      break;
    }
    case 4: { /* select */
      if (!v->rank || !v->sizes[d]) break;
      int64_t i = draw((uint32_t)v->sizes[d]);
      v->offset += i * v->strides[d];
      erase(v, d);
      tell(v, "select", d, i, 0);
      break;
    }
    case 5: /* unsqueeze: the stride of a dim of size 1 says nothing */
      if (v->rank < 6) insert(v, d, 1, draw(9)), tell(v, "unsqueeze", d, 0, 0);
      break;
    case 6: /* expand */
      if (v->rank < 6) insert(v, d, 2 + draw(2), 0), tell(v, "expand", d, 0, 0);
      break;
    case 7: /* split a dim */
      for (int64_t f = 2; v->rank && v->rank < 6 && f < v->sizes[d]; f++) {
        if (v->sizes[d] % f) continue;
        int64_t outer = v->sizes[d] / f;
        v->sizes[d] = f;
        insert(v, d, outer, v->strides[d] * f);
        tell(v, "split", d, f, 0);
        break;
      }
      break;
    case 8: /* merge two */
      for (int i = 0; i + 1 < v->rank; i++) {
        if (v->strides[i] != v->strides[i + 1] * v->sizes[i + 1]) continue;
        v->sizes[i + 1] *= v->sizes[i];
        erase(v, i);
        tell(v, "merge", i, 0, 0);
        break;
      }
      break;
    case 9: { /* unfold */
      if (!v->rank || v->rank >= 6 || v->sizes[d] < 2) break;
      int64_t size = 1 + draw((uint32_t)v->sizes[d]), by = 1 + draw(3), stride = v->strides[d];
      v->sizes[d] = (v->sizes[d] - size) / by + 1;
      v->strides[d] *= by;
      insert(v, v->rank, size, stride);
      tell(v, "unfold", d, size, by);
      break;
    }
    case 10:
      if (draw(2)) {
        reinterpret(v);
      } else if (v->rank >= 2 && d != e) { /* diagonal */
        int64_t size = v->sizes[d] < v->sizes[e] ? v->sizes[d] : v->sizes[e], stride = v->strides[d] + v->strides[e];
        erase(v, d > e ? d : e);
        erase(v, d > e ? e : d);
        insert(v, v->rank, size, stride);
        tell(v, "diagonal", d, e, 0);
      }
      break;
    case 11:
      if (elements) as_strided(v, elements);
      break;
  }
}

static void make(item *v) {
  static const tt_dtype all[] = {TT_I32, TT_F32, TT_I32, TT_F32, TT_U8,  TT_BOOL,
                                 TT_I64, TT_F64, TT_C64, TT_I16, TT_C128};
  do {
    memset(v, 0, sizeof *v);
    v->base_dtype = v->dtype = all[draw(11)];
    v->base_rank = v->rank = (int)draw(5);
    for (int i = 0; i < v->rank; i++) v->sizes[i] = v->base_dims[i] = draw(40) ? 1 + draw(7) : 0;
    tt_strides_contiguous(v->rank, v->sizes, v->strides);
    for (int n = (int)draw(8); n > 0; n--) step(v);
    v->value_bytes = product(v->rank, v->sizes) * width(v->dtype);
    v->bytes = product(v->base_rank, v->base_dims) * width(v->base_dtype);
  } while (v->value_bytes > 2000 || v->bytes > 8000);
  tt_view view = {v->dtype, (uint8_t)v->rank, v->sizes, v->strides, v->offset};
  v->kind = tt_view_classify(&view, v->base_dtype, v->base_rank, v->base_dims);
  v->moved = v->offset;
  v->runtime = tt_view_needs_offset(v->kind) && draw(4);
  if (!v->runtime) return;
  int64_t last = v->bytes / width(v->dtype) - tt_view_extent(v->rank, v->sizes, v->strides);
  view.offset = draw((uint32_t)last + 1);
  if (tt_view_classify(&view, v->base_dtype, v->base_rank, v->base_dims) == v->kind) v->moved = view.offset;
}

/* ---- the reference ---- */

static int64_t place(const item *v, int64_t k) { /* of the view's k-th element, row-major, in its own elements */
  int64_t at = v->moved;
  for (int i = v->rank - 1; i >= 0; i--) {
    at += k % v->sizes[i] * v->strides[i];
    k /= v->sizes[i];
  }
  return at;
}

static bool read_is_right(const item *v, const uint8_t *base, const uint8_t *got) {
  int64_t w = width(v->dtype);
  for (int64_t k = 0; k < v->value_bytes / w; k++)
    if (memcmp(got + k * w, base + place(v, k) * w, (size_t)w)) return false;
  return true;
}

/* Each byte is the old one or, where the view lies, what one of its elements there says. */
static bool write_is_right(const item *v, const uint8_t *base, const uint8_t *value, const uint8_t *got) {
  static uint8_t covered[MAX_BYTES], right[MAX_BYTES];
  int64_t w = width(v->dtype);
  memset(covered, 0, (size_t)v->bytes);
  memset(right, 0, (size_t)v->bytes);
  for (int64_t k = 0; k < v->value_bytes / w; k++) {
    int64_t at = place(v, k) * w;
    bool same = !memcmp(got + at, value + k * w, (size_t)w);
    for (int64_t i = 0; i < w; i++) covered[at + i] = 1, right[at + i] |= same;
  }
  for (int64_t i = 0; i < v->bytes; i++)
    if (covered[i] ? !right[i] : got[i] != base[i]) return false;
  return true;
}

/* ---- running ---- */

static void check(bool ok, const item *v, const char *what) {
  if (ok) {
    passed++;
    return;
  }
  failed++;
  printf("FAIL %s of %s view at %lld%s, run at %lld: base %s[", what, class_names[v->kind], (long long)v->offset,
         v->runtime ? " (run-time)" : "", (long long)v->moved, tt_dtype_hlo(v->base_dtype));
  for (int i = 0; i < v->base_rank; i++) printf(" %lld", (long long)v->base_dims[i]);
  printf(" ]%s -> %s[", v->story, tt_dtype_hlo(v->dtype));
  for (int i = 0; i < v->rank; i++) printf(" %lld:%lld", (long long)v->sizes[i], (long long)v->strides[i]);
  printf(" ]\n");
}

static uint8_t *random_bytes(int64_t n, bool bits) {
  uint8_t *p = malloc((size_t)n + 16);
  for (int64_t i = 0; i < n; i++) p[i] = (uint8_t)(bits ? draw(2) : draw(256));
  return p;
}

static bool program(tt_client *client, tt_error *err) {
  static item items[PER_PROGRAM];
  hlo results[2 * PER_PROGRAM];
  tt_buffer *args[3 * PER_PROGRAM] = {0}, *out[2 * PER_PROGRAM] = {0};
  uint8_t *bases[PER_PROGRAM], *values[PER_PROGRAM];
  tt_type types[2 * PER_PROGRAM];
  bool donate[3 * PER_PROGRAM] = {false};
  int n_args = 0, n_results = 0;
  hlo_module *m = hlo_module_create(err);
  for (int i = 0; i < PER_PROGRAM; i++) {
    item *v = &items[i];
    make(v);
    per_class[v->kind]++;
    bool bits = v->base_dtype == TT_BOOL || v->dtype == TT_BOOL; /* a bool is 0 or 1 */
    bases[i] = random_bytes(v->bytes, bits);
    values[i] = random_bytes(v->value_bytes, bits);
    tt_view view = {v->dtype, (uint8_t)v->rank, v->sizes, v->strides, v->offset};
    hlo base = hlo_parameter(m, v->base_dtype, v->base_rank, v->base_dims),
        value = hlo_parameter(m, v->dtype, v->rank, v->sizes);
    hlo offset = v->runtime ? hlo_parameter(m, TT_I64, 0, NULL) : NULL;
    results[2 * i] = tt_view_read(m, base, &view, offset);
    results[2 * i + 1] = tt_view_write(m, base, &view, offset, value);
    args[n_args++] = tt_buffer_from_host(client, 0, v->base_dtype, v->base_rank, v->base_dims, bases[i], err);
    args[n_args++] = tt_buffer_from_host(client, 0, v->dtype, v->rank, v->sizes, values[i], err);
    if (v->runtime) args[n_args++] = tt_buffer_from_host(client, 0, TT_I64, 0, NULL, &v->moved, err);
    types[n_results++] = (tt_type){(uint8_t)v->dtype, (uint8_t)v->rank, v->value_bytes, v->sizes};
    types[n_results++] = (tt_type){(uint8_t)v->base_dtype, (uint8_t)v->base_rank, v->bytes, v->base_dims};
    if (hlo_failed(m)) {
      hlo_get_error(m, err);
      check(false, v, err->message);
      break;
    }
  }
  size_t length;
  const char *text = hlo_finish(m, n_results, results, NULL, &length, err);
  tt_executable *e = text ? tt_executable_compile(client, text, length, err) : NULL;
  bool ok = e && tt_executable_run(e, 0, "views", n_args, args, donate, n_results, types, out, err) == TT_OK;
  if (getenv("VIEWS_DUMP") && text) fputs(text, stderr);
  uint8_t *got = malloc(MAX_BYTES);
  for (int i = 0; ok && i < PER_PROGRAM; i++) {
    ok = tt_buffer_to_host(out[2 * i], got, (size_t)items[i].value_bytes, err) == TT_OK;
    if (ok) check(read_is_right(&items[i], bases[i], got), &items[i], "read");
    ok = ok && tt_buffer_to_host(out[2 * i + 1], got, (size_t)items[i].bytes, err) == TT_OK;
    if (ok) check(write_is_right(&items[i], bases[i], values[i], got), &items[i], "write");
  }
  free(got);
  for (int i = 0; i < n_args; i++) tt_buffer_release(args[i]);
  for (int i = 0; i < n_results; i++) tt_buffer_release(out[i]);
  for (int i = 0; i < PER_PROGRAM; i++) free(bases[i]), free(values[i]);
  if (e) tt_executable_release(e);
  hlo_module_destroy(m);
  return ok;
}

/* ---- known views ---- */

static const struct {
  const char *what;
  tt_dtype base;
  int base_rank;
  int64_t base_dims[4];
  tt_dtype dtype;
  int rank;
  int64_t sizes[4], strides[4], offset;
  tt_view_class kind;
} known[] = {
    {"x", TT_F32, 2, {4, 6}, TT_F32, 2, {4, 6}, {6, 1}, 0, TT_VIEW_WHOLE},
    {"a dim of size 1 with any stride", TT_F32, 3, {4, 1, 6}, TT_F32, 3, {4, 1, 6}, {6, 99, 1}, 0, TT_VIEW_WHOLE},
    {"a scalar", TT_F32, 0, {0}, TT_F32, 0, {0}, {0}, 0, TT_VIEW_WHOLE},
    {"nothing", TT_F32, 2, {0, 6}, TT_F32, 2, {0, 6}, {6, 1}, 0, TT_VIEW_WHOLE},
    {"x.t()", TT_F32, 2, {4, 6}, TT_F32, 2, {6, 4}, {1, 6}, 0, TT_VIEW_COVER},
    {"x.unsqueeze(0)", TT_F32, 2, {4, 6}, TT_F32, 3, {1, 4, 6}, {24, 6, 1}, 0, TT_VIEW_COVER},
    {"x.view(8, 3)", TT_F32, 2, {4, 6}, TT_F32, 2, {8, 3}, {3, 1}, 0, TT_VIEW_COVER},
    {"x.view(int32)", TT_F32, 2, {4, 6}, TT_I32, 2, {4, 6}, {6, 1}, 0, TT_VIEW_COVER},
    {"view_as_real", TT_C64, 1, {3}, TT_F32, 2, {3, 2}, {2, 1}, 0, TT_VIEW_COVER},
    {"view_as_complex", TT_F32, 2, {3, 2}, TT_C64, 1, {3}, {1}, 0, TT_VIEW_COVER},
    {"x.expand(3, 4, 6)", TT_F32, 2, {4, 6}, TT_F32, 3, {3, 4, 6}, {0, 6, 1}, 0, TT_VIEW_FIXED},
    {"x.diagonal()", TT_F32, 2, {6, 6}, TT_F32, 1, {6}, {7}, 0, TT_VIEW_FIXED},
    {"x[:0]", TT_F32, 2, {4, 6}, TT_F32, 2, {0, 6}, {6, 1}, 0, TT_VIEW_FIXED},
    {"x[0]", TT_F32, 2, {4, 6}, TT_F32, 1, {6}, {1}, 0, TT_VIEW_BOX},
    {"x[3]", TT_F32, 2, {4, 6}, TT_F32, 1, {6}, {1}, 18, TT_VIEW_BOX},
    {"x[3].expand(5, 6)", TT_F32, 2, {4, 6}, TT_F32, 2, {5, 6}, {0, 1}, 18, TT_VIEW_BOX},
    {"x[1:3].view(-1)", TT_F32, 2, {4, 6}, TT_F32, 1, {12}, {1}, 6, TT_VIEW_BOX},
    {"x.flatten()[3:15]: not two rows", TT_F32, 2, {4, 6}, TT_F32, 1, {12}, {1}, 3, TT_VIEW_ANY},
    {"x.unfold(0, 3, 1)", TT_F32, 1, {10}, TT_F32, 2, {8, 3}, {1, 1}, 0, TT_VIEW_ANY},
    {"an odd length as doubles", TT_F32, 1, {3}, TT_F64, 1, {1}, {1}, 0, TT_VIEW_BOX},
};

static void classes(void) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    tt_view v = {known[i].dtype, (uint8_t)known[i].rank, known[i].sizes, known[i].strides, known[i].offset};
    tt_view_class kind = tt_view_classify(&v, known[i].base, known[i].base_rank, known[i].base_dims);
    if (kind == known[i].kind) passed++;
    else
      failed++, printf("FAIL class of %s: expected %s, got %s\n", known[i].what, class_names[known[i].kind],
                       class_names[kind]);
  }
}

static void strides(void) {
  static const struct { int rank; int64_t sizes[4], strides[4]; bool dense; int perm[4];
  } cases[] = {
      {2, {4, 6}, {6, 1}, true, {0, 1}},           {2, {4, 6}, {1, 4}, true, {1, 0}},
      {3, {4, 1, 6}, {1, 77, 4}, true, {2, 1, 0}}, {2, {4, 6}, {7, 1}, false, {0, 1}},
      {2, {4, 6}, {0, 1}, false, {0, 0}},          {4, {2, 3, 4, 5}, {60, 1, 15, 3}, true, {0, 2, 3, 1}},
      {2, {0, 3}, {5, 5}, true, {0, 1}},           {0, {0}, {0}, true, {0}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int perm[4] = {0};
    bool dense = tt_strides_dense(cases[i].rank, cases[i].sizes, cases[i].strides, perm);
    bool ok = dense == cases[i].dense;
    for (int k = 0; dense && k < cases[i].rank; k++) ok = ok && perm[k] == cases[i].perm[k];
    if (ok) passed++;
    else failed++, printf("FAIL strides case %zu\n", i);
  }
}

int main(int argc, char **argv) {
  classes();
  strides();
  if (argc > 1) {
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int count = argc > 3 ? atoi(argv[3]) : 400;
    tt_error err = {0};
    tt_plugin *plugin = tt_plugin_load(argv[1], &err);
    tt_client *client = plugin ? tt_client_create(plugin, 1, &err) : NULL;
    bool ok = client != NULL;
    for (int i = 0; ok && i < count; i += PER_PROGRAM) ok = program(client, &err);
    if (!ok) failed++, printf("FAIL %s: %s\n", argv[1], err.message);
    for (int k = 0; k < 5; k++) printf("%s %d%s", class_names[k], per_class[k], k < 4 ? ", " : "\n");
    tt_client_destroy(client);
  }
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
