/* sized.c: dims of which only the first elements count, as many as a number known at run time says.
 *
 * One program serves every length up to a capacity: values have the capacity's dims, and a value says for each dim
 * which symbol, if any, tells how much of it counts. What lies behind is garbage, NaN included. Operations whose
 * elements do not mix along such a dim carry the mark to their results; what sums along it (reduce, dot) masks it
 * first; all others refuse a marked operand, so that what has not been thought through is an error and no wrong number.
 */
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

/* ---- dims made of several ---- */
enum { FIRST_COMPOSITE = 128, MOST_COMPOSITES = 256 - FIRST_COMPOSITE };

static const hlo_composite *composite(const hlo_module *m, uint8_t symbol) {
  return symbol >= FIRST_COMPOSITE ? &m->composites[symbol - FIRST_COMPOSITE] : NULL;
}

bool hlo_is_composite(uint8_t symbol) { return symbol >= FIRST_COMPOSITE; }

int hlo_factors(const hlo_module *m, int64_t dim, uint8_t symbol, hlo_factor *out) {
  const hlo_composite *c = composite(m, symbol);
  if (c) memcpy(out, c->factors, (size_t)c->n * sizeof *out);
  else out[0] = (hlo_factor){dim, symbol};
  return c ? c->n : 1;
}

bool hlo_compose(hlo_module *m, int n, const hlo_factor *factors, uint8_t *symbol) {
  hlo_composite c = {0};
  for (int i = 0; i < n; i++) {
    bool joins = c.n && !factors[i].symbol && !c.factors[c.n - 1].symbol;
    if (factors[i].extent == 1 && !factors[i].symbol) continue;
    if (joins) c.factors[c.n - 1].extent *= factors[i].extent;
    else if (c.n == HLO_FACTORS) return hlo_refuse_sized(m, "reshape");
    else c.factors[c.n++] = factors[i];
  }
  *symbol = c.n == 1 ? c.factors[0].symbol : 0;
  if (c.n <= 1) return true;
  m->n_composed++;
  for (int k = 0; k < m->n_composites; k++) {
    const hlo_composite *known = &m->composites[k];
    bool same = known->n == c.n;
    for (int i = 0; same && i < c.n; i++)
      same = known->factors[i].extent == c.factors[i].extent && known->factors[i].symbol == c.factors[i].symbol;
    *symbol = (uint8_t)(FIRST_COMPOSITE + k);
    if (same) return true;
  }
  if (!m->composites) m->composites = hlo_alloc(m, MOST_COMPOSITES * sizeof *m->composites);
  if (!m->composites) return false;
  if (m->n_composites == MOST_COMPOSITES) return hlo_refuse_sized(m, "reshape");
  *symbol = (uint8_t)(FIRST_COMPOSITE + m->n_composites);
  m->composites[m->n_composites++] = c;
  return true;
}

int hlo_composed(const hlo_module *m) { return m->n_composed; }

/* A marked factor stays whole; what is not marked is cut where a dim of the result ends. */
bool hlo_reshape_symbols(hlo_module *m, hlo x, hlo r) {
  if (!hlo_is_sized(x)) return true;
  uint8_t symbols[HLO_MAX_RANK] = {0};
  hlo_factor from[HLO_MAX_RANK * HLO_FACTORS], to[HLO_MAX_RANK * HLO_FACTORS];
  int n = 0, i = 0;
  for (int d = 0; d < x->rank; d++) n += hlo_factors(m, x->dims[d], x->symbols[d], from + n);
  for (int j = 0; j < r->rank; j++) {
    int64_t left = r->dims[j];
    int count = 0;
    bool marked = false;
    while (left > 1) {
      while (i < n && from[i].extent == 1 && !from[i].symbol) i++;
      hlo_factor *f = &from[i];
      if (i == n || f->extent <= 1) return hlo_refuse_sized(m, "reshape");
      if (left % f->extent == 0) to[count++] = *f, left /= f->extent, i++;
      else if (f->symbol || f->extent % left) return hlo_refuse_sized(m, "reshape");
      else to[count++] = (hlo_factor){left, 0}, f->extent /= left, left = 1;
      marked |= to[count - 1].symbol != 0;
    }
    if (marked && !hlo_compose(m, count, to, &symbols[j])) return false;
  }
  for (; i < n; i++)
    if (from[i].symbol) return hlo_refuse_sized(m, "reshape"); /* of one place or none */
  return hlo_set_symbols(m, r, symbols);
}

/* The number that says how much of a dim of this symbol counts; NULL with an error for one that is made of several. */
static hlo size_of(hlo_module *m, uint8_t symbol) {
  if (!m->size || hlo_is_composite(symbol)) return hlo_refuse_sized(m, "size"), NULL;
  return m->size(m->size_user, symbol - 1);
}

/* Where a dim counts: bool, one dim of length. */
static hlo counting(hlo_module *m, int64_t length, uint8_t symbol) {
  const hlo_composite *c = composite(m, symbol);
  if (!c) return hlo_compare(m, "LT", hlo_iota(m, TT_I32, 1, &length, 0), size_of(m, symbol));
  int64_t dims[HLO_FACTORS];
  hlo counts = NULL;
  for (int i = 0; i < c->n; i++) dims[i] = c->factors[i].extent;
  for (int i = 0; i < c->n; i++) {
    if (!c->factors[i].symbol) continue;
    hlo along = counting(m, dims[i], c->factors[i].symbol);
    along = along ? hlo_broadcast(m, along, c->n, dims, &i) : NULL;
    counts = counts ? hlo_binary(m, "and", counts, along) : along;
  }
  return hlo_reshape(m, counts, 1, &length);
}

hlo hlo_mask(hlo_module *m, hlo x, int n_dims, const int *dims, hlo fill) {
  if (!x || !fill || !x->symbols || hlo_failed(m)) return x;
  hlo counts = NULL;
  for (int i = 0; i < n_dims; i++) {
    uint8_t symbol = x->symbols[dims[i]];
    if (!symbol) continue;
    hlo along = counting(m, x->dims[dims[i]], symbol);
    along = along ? hlo_broadcast(m, along, x->rank, x->dims, &dims[i]) : NULL;
    if (!along) return NULL;
    counts = counts ? hlo_binary(m, "and", counts, along) : along;
  }
  return counts ? hlo_select(m, counts, x, fill) : x;
}

hlo hlo_count(hlo_module *m, hlo x, int n_dims, const int *dims, tt_dtype t) {
  if (!x) return NULL;
  double fixed = 1;
  hlo count = NULL;
  for (int i = 0; i < n_dims; i++) {
    hlo_factor factors[HLO_FACTORS];
    int n = hlo_factors(m, x->dims[dims[i]], x->symbols ? x->symbols[dims[i]] : 0, factors);
    for (int k = 0; k < n; k++) {
      if (!factors[k].symbol) {
        fixed *= (double)factors[k].extent;
        continue;
      }
      hlo size = hlo_convert(m, size_of(m, factors[k].symbol), t);
      if (!size) return NULL;
      count = count ? hlo_binary(m, "multiply", count, size) : size;
    }
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
    if (k && xs[k]->symbols && xs[k]->symbols[dim] && room < length + xs[k]->dims[dim])
      room = length + xs[k]->dims[dim];
  }
  hlo starts[HLO_MAX_RANK], moving = NULL, r = hlo_mark(m, xs[0], none);
  if (!r) return NULL;
  if (r->dims[dim] > room) r = hlo_slice_dim(m, r, dim, 0, room, 1);
  high[dim] = r ? room - r->dims[dim] : 0;
  r = hlo_pad(m, r, hlo_int(m, (tt_dtype)xs[0]->dtype, 0), zeros, high, NULL);
  for (int k = 1; k < n; k++) {
    uint8_t symbol = xs[k - 1]->symbols ? xs[k - 1]->symbols[dim] : 0;
    if (!symbol) fixed += xs[k - 1]->dims[dim];
    else moving = moving ? hlo_binary(m, "add", moving, size_of(m, symbol)) : size_of(m, symbol);
    if (symbol && !moving) return NULL;
    for (int i = 0; i < rank; i++) starts[i] = hlo_int(m, TT_I32, i == dim ? fixed : 0);
    if (moving) starts[dim] = hlo_binary(m, "add", moving, starts[dim]);
    r = hlo_dynamic_update_slice(m, r, hlo_mark(m, xs[k], none), starts);
  }
  r = hlo_slice_dim(m, r, dim, 0, length, 1);
  return r ? hlo_mark(m, r, symbols) : NULL;
}
