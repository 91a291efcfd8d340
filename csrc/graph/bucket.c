/* bucket.c: sizes that vary, served by one program for each capacity instead of one for each size.
 *
 * A storage's buffer may be longer than its base says: a padded dim has tt_bucket(n, least) places, of which the first
 * n count. An ordinary plan cuts that off when it reads. An operator whose rule can (ops/sized.c) is lowered for the
 * capacity instead: its call is keyed as if each padded size n (a symbol) were tt_bucket(n, least), n itself is a
 * run-time operand, and values carry which of their dims count only in part (hlo/sized.c), so that what sums along them
 * masks them. Results are padded again. A view takes part if it is one in the padded base too: each padded dim by
 * itself, whole, as a beginning, or at a place of it. Refuses (and then the call is an ordinary one): whatever else;
 * writes to what is padded; results of unknown form. */
#include <string.h>
#include "graph/graph.h"
#include "ops/rules.h"

/* Room at first for what grows one by one, which passes through all sizes. */
enum { GROWING = 8 };

int64_t tt_bucket(int64_t n, int least) {
  int64_t capacity = (int64_t)1 << least;
  while (capacity < n) capacity *= 2;
  return capacity;
}

void tt_storage_physical(const tt_storage *s, int64_t *dims) {
  for (int b = 0; b < s->rank; b++) dims[b] = s->padded >> b & 1 ? tt_bucket(s->dims[b], s->least[b]) : s->dims[b];
}

bool tt_storage_is_padded(const tt_storage *s) { return s->padded != 0; }

static uint8_t log2_of(int64_t capacity) {
  uint8_t least = 0;
  while ((int64_t)1 << least < capacity) least++;
  return least;
}

/* ---- symbols: the distinct sizes of a call that vary ---- */
static int symbol_of(tt_call *c, int64_t n, uint8_t least) {
  for (int k = 0; k < c->n_symbols; k++)
    if (c->symbols[k] == n && tt_bucket(n, c->least[k]) == tt_bucket(n, least)) return k;
  if (c->n_symbols == TT_CALL_SYMBOLS) return -1;
  c->least[c->n_symbols] = least;
  c->symbols[c->n_symbols] = n;
  return c->n_symbols++;
}

static int64_t capacity_of(const tt_call *c, int k) { return tt_bucket(c->symbols[k], c->least[k]); }
static int64_t value_of(const tt_call *c, const int64_t *values, int k) {
  return values ? values[k] : capacity_of(c, k);
}

/* ---- views: from the base's own dims to others ---- */

/* A padded dim, or neighbours that are not, seen as one. */
typedef struct group { int64_t stride, extent, to_stride, used; int dim; } group;

static int groups_of(const tt_storage *s, const int64_t *to, group *groups) {
  int n = 0;
  int64_t stride = 1, to_stride = 1;
  for (int b = s->rank - 1; b >= 0; b--) {
    bool padded = s->padded >> b & 1;
    if (s->dims[b] != 1 || padded) {
      if (padded || !n || groups[n - 1].dim >= 0)
        groups[n++] = (group){stride, s->dims[b], to_stride, 0, padded ? b : -1};
      else groups[n - 1].extent *= s->dims[b];
    }
    stride *= s->dims[b];
    to_stride *= to[b];
  }
  return n;
}

/* The group that a stride steps in, or -1: it is longer than the base. */
static int group_of(const group *groups, int n, int64_t stride) {
  for (int g = n - 1; g >= 0; g--)
    if (stride >= groups[g].stride) return stride < groups[g].stride * groups[g].extent ? g : -1;
  return -1;
}

static int64_t stride_in(const tt_storage *s, const int64_t *to, const group *groups, int n, int64_t stride) {
  int g = group_of(groups, n, stride);
  if (g >= 0) return stride / groups[g].stride * groups[g].to_stride;
  int64_t all = 1, to_all = 1;
  for (int b = 0; b < s->rank; b++) all *= s->dims[b], to_all *= to[b];
  return all && stride >= all ? stride / all * to_all : stride;
}

bool tt_bucket_view(tt_call *c, const tt_tensor *t, const int64_t *values, int64_t *base, tt_scaled *out) {
  const tt_storage *s = t->storage;
  memset(out->symbols, 0, t->rank);
  if (!s->padded) {
    memcpy(out->sizes, t->sizes, t->rank * sizeof *out->sizes);
    memcpy(out->strides, t->strides, t->rank * sizeof *out->strides);
    out->offset = t->offset;
    return true;
  }
  if (t->dtype != s->dtype) return false;
  int symbols[TT_MAX_RANK];
  for (int b = 0; b < s->rank; b++) {
    base[b] = s->dims[b];
    if (s->dims[b] == 0) return false;
    if (!(s->padded >> b & 1)) continue;
    if ((symbols[b] = symbol_of(c, s->dims[b], s->least[b])) < 0) return false;
    base[b] = value_of(c, values, symbols[b]);
  }
  group groups[TT_MAX_RANK];
  int n = groups_of(s, base, groups);
  int64_t left = t->offset;
  out->offset = 0;
  for (int g = n - 1; g >= 0; g--) {
    groups[g].used = left / groups[g].stride;
    left %= groups[g].stride;
    if (groups[g].used >= groups[g].extent) return false;
    out->offset += groups[g].used * groups[g].to_stride;
  }
  bool taken[TT_MAX_RANK] = {false};
  for (int i = 0; i < t->rank; i++) {
    int64_t size = t->sizes[i], stride = t->strides[i];
    out->sizes[i] = size;
    if (size == 0) return false;
    if (size == 1 || stride == 0) {
      out->strides[i] = stride_in(s, base, groups, n, stride);
      for (int b = 0; b < s->rank && size > 1; b++) /* expanded to one of the sizes that vary */
        if (s->padded >> b & 1 && s->dims[b] == size)
          out->sizes[i] = base[b], out->symbols[i] = (uint8_t)(symbols[b] + 1);
      continue;
    }
    int g = group_of(groups, n, stride);
    if (g < 0 || stride % groups[g].stride) return false;
    int64_t step = stride / groups[g].stride;
    out->strides[i] = step * groups[g].to_stride;
    int64_t start = groups[g].used;
    groups[g].used += step * (size - 1);
    if (groups[g].used >= groups[g].extent) return false;
    if (groups[g].dim < 0) continue;
    if (taken[g] || step != 1) return false;
    taken[g] = true;
    if (start || 2 * size <= groups[g].extent) continue; /* a window of its own size: its place is a run-time number */
    int symbol = symbol_of(c, size, s->least[groups[g].dim]);
    if (symbol < 0) return false;
    out->sizes[i] = value_of(c, values, symbol);
    out->symbols[i] = (uint8_t)(symbol + 1);
  }
  return true;
}

/* ---- lowering ---- */

static bool scale_args(tt_trace *t, tt_call *c, const tt_arg *from, tt_arg *to, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    to[i] = from[i];
    if (from[i].tag == TT_ARG_LIST) {
      tt_arg *list = hlo_alloc(t->m, (from[i].count + 1) * sizeof *list);
      if (!list || !scale_args(t, c, from[i].list, list, from[i].count)) return false;
      to[i].list = list;
    }
    if (from[i].tag != TT_ARG_TENSOR) continue;
    tt_scaled_tensor *x = hlo_alloc(t->m, sizeof *x);
    if (!x) return false;
    int64_t base[TT_MAX_RANK];
    x->tensor = *from[i].tensor;
    if (!tt_bucket_view(c, from[i].tensor, NULL, base, &x->view))
      return hlo_fail(t->m, TT_INTERNAL, "a view changed") != NULL;
    x->tensor.sizes = x->view.sizes;
    x->tensor.strides = x->view.strides;
    x->tensor.offset = x->view.offset;
    to[i].tensor = &x->tensor;
  }
  return true;
}

static hlo size_operand(void *user, int symbol) {
  return tt_trace_number_operand(user, (tt_operand){.source = FROM_SIZE, .dtype = TT_I32, .arg = symbol});
}

bool tt_bucket_begin(tt_trace *t) {
  if (!t->call->n_symbols) return true;
  tt_call *c = hlo_alloc(t->m, sizeof *c);
  tt_arg *args = hlo_alloc(t->m, (t->call->variant->n_args + 1u) * sizeof *args);
  if (!c || !args) return false;
  *c = *t->call;
  if (!scale_args(t, c, t->call->args, args, t->call->variant->n_args)) return false;
  c->args = args;
  t->call = c;
  hlo_set_sizes(t->m, size_operand, t);
  return true;
}

hlo tt_bucket_marked(tt_trace *t, const tt_tensor *x, hlo value) {
  const tt_scaled_tensor *scaled = (const tt_scaled_tensor *)x; /* its first member */
  return hlo_mark(t->m, value, scaled->view.symbols);
}

/* ---- results ---- */

int64_t tt_bucket_size(const tt_call *c, const tt_shape *shape, int dim) {
  return shape->addend[dim] + (shape->symbols[dim] ? c->symbols[shape->symbols[dim] - 1] : 0);
}

static bool same_layout(const tt_output *a, const tt_output *b) {
  return a->defined == b->defined && a->dtype == b->dtype && a->rank == b->rank;
}

/* Strides of an output of other sizes, in the order of its base; base: its dims then. */
static void strides_of(const tt_output *o, const int *perm, const int64_t *sizes, int64_t *strides) {
  tt_storage s = {.rank = o->rank};
  int64_t to[TT_MAX_RANK] = {0};
  for (int i = 0; i < o->rank; i++) {
    s.dims[i] = o->sizes[perm[i]];
    to[i] = sizes[perm[i]];
    if (s.dims[i] != to[i]) s.padded |= 1u << i;
  }
  group groups[TT_MAX_RANK];
  int n = groups_of(&s, to, groups);
  for (int i = 0; i < o->rank; i++) strides[i] = stride_in(&s, to, groups, n, o->strides[i]);
}

bool tt_call_shapes(const tt_call *c, tt_output *whole, const tt_output *const *less, int n, tt_shape *shapes) {
  for (int k = 0; k < n; k++) {
    tt_output *o = &whole[k];
    tt_shape *shape = &shapes[k];
    memset(shape, 0, sizeof *shape);
    if (!o->defined) {
      for (int s = 0; s < c->n_symbols; s++)
        if (less[s][k].defined) return false;
      continue;
    }
    for (int i = 0; i < o->rank; i++) shape->addend[i] = o->sizes[i];
    for (int s = 0; s < c->n_symbols; s++) {
      const tt_output *l = &less[s][k];
      if (!same_layout(o, l)) return false;
      for (int i = 0; i < o->rank; i++) {
        if (l->sizes[i] == o->sizes[i]) continue;
        if (l->sizes[i] != o->sizes[i] - 1 || shape->symbols[i]) return false;
        shape->symbols[i] = (uint8_t)(s + 1);
        shape->addend[i] = o->sizes[i] - capacity_of(c, s);
        if (shape->least < c->least[s]) shape->least = c->least[s]; /* of a concatenation */
      }
    }
    int perm[TT_MAX_RANK];
    if (!tt_strides_dense(o->rank, o->sizes, o->strides, perm)) return false;
    for (int i = 0; i < o->rank; i++)
      if (shape->symbols[perm[i]]) shape->padded |= 1u << i;
    for (int s = 0; s < c->n_symbols; s++) { /* what torch says of a smaller one is what we would */
      int64_t strides[TT_MAX_RANK];
      strides_of(o, perm, less[s][k].sizes, strides);
      if (memcmp(strides, less[s][k].strides, o->rank * sizeof *strides)) return false;
    }
    for (int i = 0; i < o->rank; i++) {
      shape->sizes[i] = o->sizes[i];
      if (!shape->symbols[i] || !shape->addend[i]) continue;
      if (c->variant->op->rule != rule_cat) return false; /* the key does not say where it ends */
      shape->sizes[i] = tt_bucket(tt_bucket_size(c, shape, i), shape->least);
    }
    strides_of(o, perm, shape->sizes, shape->strides);
    o->sizes = shape->sizes;
    o->strides = shape->strides;
  }
  return true;
}

void tt_plan_shape(const tt_plan *p, const tt_call *c, int k, int64_t *sizes, int64_t *strides) {
  const tt_output *o = &p->outputs[k];
  int perm[TT_MAX_RANK];
  for (int i = 0; i < o->rank; i++) sizes[i] = tt_bucket_size(c, &p->shapes[k], i);
  tt_strides_dense(o->rank, o->sizes, o->strides, perm);
  strides_of(o, perm, sizes, strides);
}

tt_storage *tt_bucket_storage(const tt_plan *p, const tt_call *c, uint32_t k, tt_error *err) {
  const tt_output *o = &p->outputs[k];
  int perm[TT_MAX_RANK];
  int64_t dims[TT_MAX_RANK], n = 1;
  tt_strides_dense(o->rank, o->sizes, o->strides, perm);
  for (int i = 0; i < o->rank; i++) n *= dims[i] = tt_bucket_size(c, &p->shapes[k], perm[i]);
  tt_storage *s = tt_storage_create(c->client, c->device, (size_t)(n * tt_dtype_bits(o->dtype) + 7) / 8, err);
  if (s) tt_storage_base(s, o->dtype, o->rank, dims);
  for (int i = 0; s && i < o->rank; i++)
    s->least[i] = p->shapes[k].symbols[perm[i]] ? log2_of(o->sizes[perm[i]]) : p->shapes[k].least;
  return s;
}

bool tt_bucket_check(tt_trace *t, int n_outputs, const hlo *values) {
  const tt_call *c = t->call;
  for (int k = 0; c->n_symbols && k < n_outputs; k++)
    for (int i = 0; values[k] && values[k]->symbols && i < values[k]->rank; i++) {
      uint8_t mark = values[k]->symbols[i];
      if (mark && (mark != c->shapes[k].symbols[i] || c->shapes[k].addend[i]))
        return hlo_fail(t->m, TT_UNIMPLEMENTED, "result %d: dim %d is not known to vary", k, i) != NULL;
    }
  return true;
}

void tt_call_tensor_at(tt_call *c, const tt_tensor *t, int less, int64_t *sizes, int64_t *strides, int64_t *offset) {
  int64_t values[TT_CALL_SYMBOLS], base[TT_MAX_RANK];
  for (int k = 0; k < c->n_symbols; k++) values[k] = capacity_of(c, k) - (k == less);
  tt_scaled v;
  tt_bucket_view(c, t, values, base, &v);
  memcpy(sizes, v.sizes, t->rank * sizeof *sizes);
  memcpy(strides, v.strides, t->rank * sizeof *strides);
  *offset = v.offset;
}

/* ---- which calls ---- */

bool tt_bucket_allows(const tt_call *c) {
  const tt_variant *v = c->variant;
  return v->op->rule && tt_rule_is_sized(v->op->rule) && !v->foreach &&
         !(c->flags & (TT_CALL_DEBUG | TT_CALL_NONFINITE));
}

/* Hashes of keys that were tried in vain, by their low bits: losing one costs a try. */
enum { REFUSED = 4096 };
static _Atomic uint64_t refused[REFUSED];
bool tt_bucket_refused(uint64_t hash) {
  return atomic_load_explicit(&refused[hash % REFUSED], memory_order_relaxed) == hash;
}
void tt_bucket_refuse(uint64_t hash) { atomic_store_explicit(&refused[hash % REFUSED], hash, memory_order_relaxed); }

/* ---- growing ---- */

int64_t tt_bucket_joined(const tt_call *c, int *at) {
  const tt_arg *list = &c->args[0];
  int64_t sum = 0;
  for (uint32_t e = 0; list->tag == TT_ARG_LIST && e < list->count; e++) {
    const tt_tensor *x = list->list[e].tag == TT_ARG_TENSOR ? list->list[e].tensor : NULL;
    int64_t dim = c->args[1].tag == TT_ARG_INT ? c->args[1].number.i : 0;
    if (x && dim < 0) dim += x->rank;
    if (!x || dim < 0 || dim >= x->rank) continue; /* torch lets empty ones of rank 1 stand among others */
    sum += x->sizes[dim];
    if (at) *at = (int)dim;
  }
  return sum;
}

bool tt_bucket_grows(const tt_call *c) {
  const tt_arg *list = &c->args[0];
  if (!tt_bucket_allows(c) || list->tag != TT_ARG_LIST || list->count != 2) return false;
  const tt_tensor *x = list->list[0].tensor, *y = list->list[1].tensor;
  if (list->list[0].tag != TT_ARG_TENSOR || list->list[1].tag != TT_ARG_TENSOR || x->rank != y->rank || !x->rank)
    return false;
  int dim = 0;
  tt_bucket_joined(c, &dim);
  bool whole_numbers = tt_is_integral(x->dtype) || x->dtype == TT_BOOL;
  if (x->sizes[dim] < 1 || y->sizes[dim] != 1 || x->dtype != y->dtype || tt_storage_is_traced(x->storage)) return false;
  return whole_numbers ? x->rank >= 2 && x->sizes[dim] > 1 : dim < x->rank - 1;
}

bool tt_bucket_grown(const tt_call *c, const tt_output *o, tt_shape *shape) {
  int perm[TT_MAX_RANK], dim = 0;
  tt_bucket_joined(c, &dim);
  if (!tt_strides_dense(o->rank, o->sizes, o->strides, perm)) return true; /* as it is */
  for (int i = 0; i < o->rank; i++) {
    shape->addend[i] = shape->sizes[i] = o->sizes[i];
    shape->strides[i] = o->strides[i];
    if (perm[i] == dim) shape->padded = 1u << i;
  }
  shape->least = GROWING;
  return true;
}

hlo tt_bucket_pad(hlo_module *m, const tt_shape *shape, hlo base) {
  int64_t low[TT_MAX_RANK] = {0}, high[TT_MAX_RANK] = {0};
  for (int i = 0; base && i < base->rank; i++)
    if (shape->padded >> i & 1) high[i] = tt_bucket(base->dims[i], shape->least) - base->dims[i];
  return base ? hlo_pad(m, base, hlo_int(m, (tt_dtype)base->dtype, 0), low, high, NULL) : NULL;
}
