/* sized.c: dims of which only the first elements count, as many as a number known at run time says.
 *
 * One program serves every length up to a capacity: values have the capacity's dims, and a value says for each dim which
 * symbol, if any, tells how much of it counts. What lies behind is garbage, NaN included. Operations whose elements do
 * not mix along such a dim carry the mark to their results; what sums along it (reduce, dot) masks it first; all others
 * refuse a marked operand, so that what has not been thought through is an error and no wrong number. */
#include "hlo/module.h"

static hlo_node *node_of(hlo x) { return (hlo_node *)(uintptr_t)x; }

void hlo_set_sizes(hlo_module *m, hlo (*size)(void *user, int symbol), void *user) {
  m->size = size;
  m->size_user = user;
}

bool hlo_is_sized(hlo x) {
  for (int i = 0; x && x->symbols && i < x->rank; i++)
    if (x->symbols[i]) return true;
  return false;
}

hlo hlo_mark(hlo_module *m, hlo x, const uint8_t *symbols) {
  if (!x || hlo_failed(m)) return NULL;
  hlo_node *node = hlo_alloc(m, sizeof *node + x->rank);
  if (!node) return NULL;
  *node = *(const hlo_node *)x;
  uint8_t *own = (uint8_t *)(node + 1);
  memcpy(own, symbols, x->rank);
  node->value.symbols = own;
  return &node->value;
}

bool hlo_set_symbols(hlo_module *m, hlo r, const uint8_t *symbols) {
  bool any = false;
  for (int i = 0; i < r->rank; i++) any |= symbols[i] != 0;
  if (!any) return true;
  uint8_t *own = hlo_alloc(m, r->rank);
  if (!own) return false;
  memcpy(own, symbols, r->rank);
  node_of(r)->value.symbols = own;
  return true;
}

bool hlo_add_symbol(hlo_module *m, const char *op, uint8_t *to, uint8_t symbol) {
  if (!symbol || *to == symbol) return true;
  if (*to) return hlo_fail(m, TT_UNIMPLEMENTED, "hlo %s: operands of two run-time sizes meet", op), false;
  *to = symbol;
  return true;
}

bool hlo_carry(hlo_module *m, const char *op, hlo r, int n, const hlo *xs) {
  uint8_t symbols[HLO_MAX_RANK] = {0};
  bool any = false;
  if (!r) return false;
  for (int k = 0; k < n; k++) {
    if (!xs[k]->symbols) continue;
    any = true;
    for (int i = 0; i < xs[k]->rank && xs[k]->rank == r->rank; i++)
      if (!hlo_add_symbol(m, op, &symbols[i], xs[k]->symbols[i])) return false;
  }
  return !any || hlo_set_symbols(m, r, symbols);
}

bool hlo_refuse_sized(hlo_module *m, const char *op) {
  return hlo_fail(m, TT_UNIMPLEMENTED, "hlo %s: not done for a size known at run time", op), false;
}

/* Dims before and after a reshape, cut into groups of equal products: a marked dim must be one of its own on both sides. */
bool hlo_reshape_symbols(hlo_module *m, hlo x, hlo r) {
  if (!x->symbols) return true;
  uint8_t symbols[HLO_MAX_RANK] = {0};
  for (int i = 0, j = 0; i < x->rank;) {
    if (!x->symbols[i]) {
      i++;
      continue;
    }
    int64_t before = 1, after = 1;
    for (int k = 0; k < i; k++) before *= x->dims[k];
    for (j = 0; j < r->rank && after < before; j++) after *= r->dims[j];
    while (j < r->rank && r->dims[j] == 1) j++;
    if (after != before || j == r->rank || r->dims[j] != x->dims[i]) return hlo_refuse_sized(m, "reshape");
    symbols[j] = x->symbols[i++];
  }
  return hlo_set_symbols(m, r, symbols);
}

hlo hlo_mask(hlo_module *m, hlo x, int n_dims, const int *dims, hlo fill) {
  if (!x || !fill || !x->symbols || hlo_failed(m)) return x;
  hlo counts = NULL;
  for (int i = 0; i < n_dims; i++) {
    uint8_t symbol = x->symbols[dims[i]];
    if (!symbol) continue;
    if (!m->size) return hlo_refuse_sized(m, "mask"), NULL;
    int64_t length = x->dims[dims[i]];
    hlo along = hlo_compare(m, "LT", hlo_iota(m, TT_I32, 1, &length, 0), m->size(m->size_user, symbol - 1));
    along = along ? hlo_broadcast(m, along, x->rank, x->dims, &dims[i]) : NULL;
    counts = counts ? hlo_binary(m, "and", counts, along) : along;
  }
  return counts ? hlo_select(m, counts, x, fill) : x;
}

hlo hlo_count(hlo_module *m, hlo x, int n_dims, const int *dims, tt_dtype t) {
  if (!x) return NULL;
  double fixed = 1;
  hlo count = NULL;
  for (int i = 0; i < n_dims; i++) {
    uint8_t symbol = x->symbols ? x->symbols[dims[i]] : 0;
    if (!symbol) {
      fixed *= (double)x->dims[dims[i]];
      continue;
    }
    if (!m->size) return hlo_refuse_sized(m, "count"), NULL;
    hlo size = hlo_convert(m, m->size(m->size_user, symbol - 1), t);
    count = count ? hlo_binary(m, "multiply", count, size) : size;
  }
  hlo whole = hlo_float(m, t, fixed);
  return count ? fixed == 1 ? count : hlo_binary(m, "multiply", count, whole) : whole;
}

hlo hlo_concat_sized(hlo_module *m, int n, const hlo *xs, int dim, int64_t length) {
  if (!hlo_ready_sized(m, "concatenate", n, xs)) return NULL;
  uint8_t symbols[HLO_MAX_RANK] = {0}, none[HLO_MAX_RANK] = {0};
  int64_t zeros[HLO_MAX_RANK] = {0}, high[HLO_MAX_RANK] = {0}, room = length, fixed = 0;
  int rank = xs[0]->rank;
  for (int k = 0; k < n; k++) {
    for (int i = 0; xs[k]->symbols && i < rank; i++)
      if (i != dim && !hlo_add_symbol(m, "concatenate", &symbols[i], xs[k]->symbols[i])) return NULL;
    /* An operand's garbage may lie behind the end until what follows is put over it. */
    if (k && xs[k]->symbols && xs[k]->symbols[dim] && room < length + xs[k]->dims[dim]) room = length + xs[k]->dims[dim];
  }
  hlo starts[HLO_MAX_RANK], moving = NULL, r = hlo_mark(m, xs[0], none);
  if (!r) return NULL;
  if (r->dims[dim] > room) r = hlo_slice_dim(m, r, dim, 0, room, 1);
  high[dim] = r ? room - r->dims[dim] : 0;
  r = hlo_pad(m, r, hlo_int(m, (tt_dtype)xs[0]->dtype, 0), zeros, high, NULL);
  for (int k = 1; k < n; k++) {
    uint8_t symbol = xs[k - 1]->symbols ? xs[k - 1]->symbols[dim] : 0;
    if (!symbol) fixed += xs[k - 1]->dims[dim];
    else moving = moving ? hlo_binary(m, "add", moving, m->size(m->size_user, symbol - 1)) : m->size(m->size_user, symbol - 1);
    for (int i = 0; i < rank; i++) starts[i] = hlo_int(m, TT_I32, i == dim ? fixed : 0);
    if (moving) starts[dim] = hlo_binary(m, "add", moving, starts[dim]);
    r = hlo_dynamic_update_slice(m, r, hlo_mark(m, xs[k], none), starts);
  }
  r = hlo_slice_dim(m, r, dim, 0, length, 1);
  return r ? hlo_mark(m, r, symbols) : NULL;
}
