/* sizes.c: sizes that vary in captured graphs.
 *
 * A graph is traced at a capacity: values have its dims, and marks that say how much of each counts (hlo/sized.c).
 * Symbols are numbers that each call brings. Outside of the trace, tensors are seen at capacity through a storage that
 * shares the padded buffer, and results are padded storages. Refuses views that are none of the padded base. */
#include <string.h>
#include "graph/graph.h"
#include "graph/sizes.h"

enum { MOST_SYMBOLS = 120 };

/* ---- while a graph is traced ---- */
static tt_storage *stored(tt_trace *t, hlo value, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  if (value) return tt_trace_storage(t, value, err);
  hlo_get_error(t->m, err);
  return NULL;
}

static hlo size_of(void *user, int symbol) { return ((tt_trace *)user)->sizes[symbol]; }

int tt_trace_symbol(tt_trace *t, const tt_tensor *number, tt_error *err) {
  if (!t->sizes) t->sizes = hlo_alloc(t->m, MOST_SYMBOLS * sizeof *t->sizes);
  hlo value = hlo_convert(t->m, hlo_reshape(t->m, tt_trace_read(t, number), 0, NULL), TT_I32);
  if (value && t->n_sizes == MOST_SYMBOLS)
    value = hlo_fail(t->m, TT_UNIMPLEMENTED, "more than %d sizes that vary", (int)MOST_SYMBOLS);
  if (!value || !t->sizes) {
    hlo_get_error(t->m, err);
    return 0;
  }
  hlo_set_sizes(t->m, size_of, t);
  t->sizes[t->n_sizes++] = value;
  return t->n_sizes;
}

int tt_trace_composite(tt_trace *t, int n, const int64_t *extents, const int64_t *symbols, tt_error *err) {
  hlo_factor factors[HLO_FACTORS];
  uint8_t symbol = 0;
  for (int i = 0; i < n && i < HLO_FACTORS; i++) factors[i] = (hlo_factor){extents[i], (uint8_t)symbols[i]};
  if (n <= HLO_FACTORS && hlo_compose(t->m, n, factors, &symbol)) return symbol;
  hlo_get_error(t->m, err);
  if (!err->code) tt_fail(err, TT_UNIMPLEMENTED, "", "a dim made of %d", n);
  return -1;
}

int tt_trace_factors(tt_trace *t, int64_t dim, int symbol, int64_t *extents, int64_t *symbols) {
  hlo_factor factors[HLO_FACTORS];
  int n = hlo_factors(t->m, dim, (uint8_t)symbol, factors);
  for (int i = 0; i < n; i++) extents[i] = factors[i].extent, symbols[i] = factors[i].symbol;
  return n;
}

tt_storage *tt_trace_marked(tt_trace *t, const tt_tensor *x, const int64_t *marks, tt_error *err) {
  hlo value = tt_trace_read(t, x);
  uint8_t symbols[TT_MAX_RANK];
  for (int i = 0; marks && i < x->rank; i++) symbols[i] = (uint8_t)marks[i];
  return stored(t, value && marks ? hlo_mark(t->m, value, symbols) : value, err);
}

tt_code tt_trace_marks(tt_trace *t, const tt_tensor *x, int64_t *marks, tt_error *err) {
  hlo value = tt_trace_read(t, x);
  if (!value) {
    hlo_get_error(t->m, err);
    return err->code;
  }
  for (int i = 0; i < x->rank; i++) marks[i] = value->symbols ? value->symbols[i] : 0;
  return TT_OK;
}

tt_storage *tt_trace_filled(tt_trace *t, const tt_tensor *x, int n, const int64_t *dims, double fill, tt_error *err) {
  hlo value = tt_trace_read(t, x);
  uint8_t symbols[TT_MAX_RANK] = {0};
  int along[TT_MAX_RANK];
  if (!value) return stored(t, NULL, err);
  if (value->symbols) memcpy(symbols, value->symbols, x->rank);
  for (int i = 0; i < n; i++) along[i] = (int)dims[i], symbols[dims[i]] = 0;
  bool whole = tt_is_integral(x->dtype) || x->dtype == TT_BOOL;
  hlo with = whole ? hlo_int(t->m, x->dtype, (int64_t)fill) : hlo_float(t->m, x->dtype, fill);
  value = hlo_mask(t->m, value, n, along, with);
  return stored(t, value ? hlo_mark(t->m, value, symbols) : NULL, err);
}

/* ---- tensors that are not traced ---- */

/* A padded dim of the base, or neighbours that are not, seen as one; inner ones first. */
typedef struct part { int64_t stride, extent, to_stride, places, used; bool padded; } part;

static int parts_of(const tt_storage *s, part *parts) {
  int64_t physical[TT_MAX_RANK], stride = 1, to_stride = 1;
  int n = 0;
  tt_storage_physical(s, physical);
  for (int b = s->rank - 1; b >= 0; b--) {
    bool padded = s->padded >> b & 1;
    if (padded || (s->dims[b] != 1 && (!n || parts[n - 1].padded)))
      parts[n++] = (part){stride, s->dims[b], to_stride, physical[b], 0, padded};
    else if (s->dims[b] != 1) parts[n - 1].extent *= s->dims[b], parts[n - 1].places *= s->dims[b];
    stride *= s->dims[b];
    to_stride *= physical[b];
  }
  return n;
}

/* A dim of n elements, stride apart: in which parts it lies. sizes: how many places it is to have. */
static bool place_dim(part *parts, int n_parts, int64_t n, int64_t stride, int64_t size, int64_t *to_stride,
                      tt_places *made_of) {
  int g = n_parts - 1;
  while (g >= 0 && stride < parts[g].stride) g--;
  if (g < 0 || stride % parts[g].stride) return false;
  int64_t step = stride / parts[g].stride, left = n, all = 1;
  if (step >= parts[g].extent || (parts[g].padded && step != 1)) return false;
  *to_stride = step * parts[g].to_stride;
  if (step * (n - 1) + parts[g].used < parts[g].extent) { /* inside of one */
    bool whole = parts[g].used == 0 && n == parts[g].extent;
    if (parts[g].padded ? parts[g].used + size > parts[g].places : size != n) return false;
    parts[g].used += parts[g].padded && whole ? parts[g].extent : step * (n - 1);
    return true;
  }
  made_of->n = 0;
  for (; left > 1; g++, step = 1) { /* the rest of this one and all of others */
    if (g == n_parts || parts[g].used || parts[g].extent % step || left % (parts[g].extent / step)) return false;
    if (made_of->n == 8) return false;
    if (all != 1 && parts[g].to_stride != parts[g - 1].to_stride * parts[g - 1].places) return false;
    memmove(made_of->places + 1, made_of->places, (size_t)made_of->n * sizeof(int64_t));
    memmove(made_of->used + 1, made_of->used, (size_t)made_of->n++ * sizeof(int64_t));
    made_of->used[0] = parts[g].extent / step;
    made_of->places[0] = parts[g].places / step;
    left /= made_of->used[0];
    all *= made_of->places[0];
    parts[g].used = parts[g].extent - step;
  }
  return all == size;
}

bool tt_tensor_at_capacity(const tt_tensor *x, const int64_t *sizes, int64_t *strides, int64_t *offset,
                           tt_places *made_of) {
  const tt_storage *s = x->storage;
  part parts[TT_MAX_RANK];
  if (s->trace || s->escaped || (s->padded && x->dtype != s->dtype)) return false;
  for (int b = 0; s->padded && b < s->rank; b++)
    if (s->dims[b] == 0) return false;
  int n = s->padded ? parts_of(s, parts) : 0;
  int64_t left = x->offset;
  *offset = s->padded ? 0 : x->offset;
  for (int g = n - 1; g >= 0; g--) {
    parts[g].used = left / parts[g].stride;
    left %= parts[g].stride;
    if (parts[g].used >= parts[g].extent) return false;
    *offset += parts[g].used * parts[g].to_stride;
  }
  for (int i = 0; i < x->rank; i++) {
    made_of[i] = (tt_places){1, {sizes[i]}, {x->sizes[i]}};
    strides[i] = x->strides[i];
    if (x->strides[i] == 0 && x->sizes[i] > 1) continue; /* repeated: as often as one likes */
    if (!s->padded || x->sizes[i] == 1) {
      if (sizes[i] != x->sizes[i]) return false;
      if (s->padded) strides[i] = 1;
    } else if (!place_dim(parts, n, x->sizes[i], x->strides[i], sizes[i], &strides[i], &made_of[i])) {
      return false;
    }
  }
  return true;
}

tt_storage *tt_storage_whole(tt_storage *s, tt_error *err) {
  *err = (tt_error){0};
  tt_buffer *b = tt_storage_take_reference(s);
  if (!b) return NULL;
  int64_t physical[TT_MAX_RANK];
  tt_storage_physical(s, physical);
  tt_storage *whole = tt_storage_create(s->client, s->device, tt_buffer_bytes(b), err);
  if (!whole) {
    tt_buffer_release(b);
    return NULL;
  }
  tt_storage_base(whole, s->dtype, s->rank, physical);
  tt_storage_put(whole, b);
  return whole;
}

tt_storage *tt_storage_cut(tt_storage *s, const int64_t *dims, tt_error *err) {
  *err = (tt_error){0};
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) n *= dims[i];
  tt_buffer *b = tt_storage_take_reference(s);
  if (!b) {
    tt_fail(err, TT_FAILED_PRECONDITION, "", "a result without contents");
    return NULL;
  }
  tt_storage *cut = tt_storage_create(s->client, s->device, (size_t)(n * tt_dtype_bits(s->dtype) + 7) / 8, err);
  if (!cut) {
    tt_buffer_release(b);
    return NULL;
  }
  tt_storage_base(cut, s->dtype, s->rank, dims);
  tt_storage_put(cut, b);
  for (int i = 0; i < s->rank; i++) {
    if (dims[i] == s->dims[i]) continue;
    cut->padded |= 1u << i; /* nobody has seen it yet */
    for (cut->least[i] = 0; (int64_t)1 << cut->least[i] < s->dims[i];) cut->least[i]++;
  }
  cut->made = s->made;
  return cut;
}

tt_code tt_storage_take_over(tt_storage *to, tt_storage *from, tt_error *err) {
  if (tt_storage_is_traced(to) || to->bytes != from->bytes)
    return tt_fail(err, TT_INVALID_ARGUMENT, "", "expected %zu bytes, got %zu", to->bytes, from->bytes);
  tt_buffer *b = tt_storage_take_reference(from);
  if (!b) return tt_fail(err, TT_FAILED_PRECONDITION, "", "a result without contents");
  tt_storage_settle(to);
  tt_storage_base(to, from->dtype, from->rank, from->dims);
  tt_storage_put(to, b);
  memcpy(to->least, from->least, from->rank);
  to->padded = from->padded;
  return TT_OK;
}
