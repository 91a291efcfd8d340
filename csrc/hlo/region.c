/* region.c: operations with bodies: reductions, windows, sorts, loops and branches.
 *
 * A body is printed where it stands, in a scope of its own: its constants are made inside it, its values do not leave
 * it, and only loops and branches may use values from outside (StableHLO's other bodies become computations of their
 * own). Results are numbered before the body, since their names are printed first. */
#include "hlo/module.h"

bool hlo_region(hlo_module *m, bool isolated, int n_args, const hlo_type *types, hlo_body *body, void *user,
                int n_results, hlo *results) {
  if (hlo_failed(m)) return false;
  hlo_scope scope = {m->scope, m->next_scope++, isolated};
  hlo *args = hlo_alloc(m, (size_t)n_args * sizeof *args);
  if (!args) return false;
  m->scope = &scope;
  m->depth++;
  hlo_put(m, "{\n");
  for (int i = 0; i < n_args; i++) {
    args[i] = hlo_new(m, types[i].dtype, types[i].rank, types[i].dims);
    if (!args[i]) break;
    hlo_put(m, i ? ", " : "    ^bb0(");
    hlo_put_value(m, args[i]);
    hlo_put(m, ": ");
    hlo_put_type_of(m, args[i]);
  }
  if (n_args) hlo_put(m, "):\n");
  for (int i = 0; i < n_results; i++) results[i] = NULL;
  if (!hlo_failed(m)) body(m, args, results, user);
  bool ok = hlo_ready(m, "return of a body", n_results, results);
  if (ok) {
    for (int i = 0; i < m->depth + 2; i++) hlo_put(m, "  ");
    hlo_put(m, "stablehlo.return ");
    hlo_put_values(m, n_results, results);
    for (int i = 0; i < n_results; i++) {
      hlo_put(m, i ? ", " : " : ");
      hlo_put_type_of(m, results[i]);
    }
    hlo_put(m, "\n");
  }
  m->depth--;
  m->scope = scope.outer;
  for (int i = 0; i < m->depth + 2; i++) hlo_put(m, "  ");
  hlo_put(m, "}");
  return ok && !hlo_failed(m);
}

void hlo_binary_body(hlo_module *m, const hlo *args, hlo *results, void *user) {
  results[0] = hlo_binary(m, user, args[0], args[1]);
}

/* Checks what a body has given against what the operation needs. */
static bool check_body(hlo_module *m, const char *op, int n, const hlo *got, const hlo_type *want) {
  for (int i = 0; i < n; i++) {
    bool same = got[i]->dtype == want[i].dtype && got[i]->rank == want[i].rank;
    for (int k = 0; same && k < want[i].rank; k++) same = got[i]->dims[k] == want[i].dims[k];
    if (same) continue;
    hlo_fail(m, TT_INTERNAL, "hlo %s: result %d of its body is of another type than its operand", op, i);
    return false;
  }
  return true;
}

/* xs of equal dims, inits of rank 0 and xs's dtypes: fills operands (2n) and the body's argument types (2n). */
static bool reduction_operands(hlo_module *m, const char *op, int n, const hlo *xs, const hlo *inits, hlo *operands,
                               hlo_type *types) {
  for (int i = 0; i < n; i++) {
    if (!hlo_same_dims(xs[i], xs[0])) return hlo_mismatch(m, op, xs[0], xs[i]), false;
    if (inits[i]->rank || inits[i]->dtype != xs[i]->dtype) return hlo_mismatch(m, op, xs[i], inits[i]), false;
    operands[i] = xs[i];
    operands[n + i] = inits[i];
    types[i] = types[n + i] = (hlo_type){(tt_dtype)xs[i]->dtype, 0, NULL};
  }
  return true;
}

/* ---- reduce ---- */

static bool reduced_dims(hlo_module *m, hlo x, int n_dims, const int *dims, int *rank, int64_t *left) {
  bool gone[HLO_MAX_RANK] = {false};
  for (int i = 0; i < n_dims; i++) {
    if (!hlo_check_dim(m, "reduce", dims[i], x->rank)) return false;
    if (gone[dims[i]]) return hlo_fail(m, TT_INTERNAL, "hlo reduce: dim %d is named twice", dims[i]), false;
    gone[dims[i]] = true;
  }
  *rank = 0;
  for (int i = 0; i < x->rank; i++)
    if (!gone[i]) left[(*rank)++] = x->dims[i];
  return true;
}

/* The dims that are left keep their marks. */
static bool kept_symbols(hlo_module *m, hlo x, int n_dims, const int *dims, hlo r) {
  if (!x->symbols) return true;
  uint8_t symbols[HLO_MAX_RANK];
  for (int i = 0, k = 0; i < x->rank; i++) {
    bool gone = false;
    for (int d = 0; d < n_dims; d++) gone |= dims[d] == i;
    if (!gone) symbols[k++] = x->symbols[i];
  }
  return hlo_set_symbols(m, r, symbols);
}

hlo hlo_reduce(hlo_module *m, const char *op, hlo x, hlo init, int n_dims, const int *dims) {
  hlo xs[] = {x, init};
  if (!hlo_ready_sized(m, "reduce", 2, xs)) return NULL;
  int rank;
  int64_t left[HLO_MAX_RANK];
  if (init->rank || init->dtype != x->dtype) return hlo_mismatch(m, "reduce", x, init);
  if (!reduced_dims(m, x, n_dims, dims, &rank, left) || !hlo_ordered(m, op, x)) return NULL;
  if (n_dims == 0) return hlo_binary(m, op, init, x);
  x = xs[0] = hlo_mask(m, x, n_dims, dims, init);
  hlo r = x ? hlo_new(m, x->dtype, rank, left) : NULL;
  if (!r || !kept_symbols(m, x, n_dims, dims, r)) return NULL;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.reduce(");
  hlo_put_value(m, x);
  hlo_put(m, " init: ");
  hlo_put_value(m, init);
  hlo_put(m, ") applies stablehlo.");
  hlo_put(m, op);
  hlo_put_list32(m, " across dimensions = ", n_dims, dims);
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}

void hlo_reduce_n(hlo_module *m, int n, const hlo *xs, const hlo *inits, int n_dims, const int *dims, hlo_body *body,
                  void *user, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  if (!hlo_ready_sized(m, "reduce", n, xs) || !hlo_ready(m, "reduce", n, inits)) return;
  hlo *operands = hlo_alloc(m, 4 * (size_t)n * sizeof *operands), *made = operands ? operands + 2 * n : NULL,
      *given = made ? made + n : NULL;
  hlo_type *types = hlo_alloc(m, 2 * (size_t)n * sizeof *types);
  int rank;
  int64_t left[HLO_MAX_RANK];
  if (!operands || !types || !reduction_operands(m, "reduce", n, xs, inits, operands, types)) return;
  if (!reduced_dims(m, xs[0], n_dims, dims, &rank, left)) return;
  for (int i = 0; i < n; i++) {
    /* Marks meet in the body: what one operand lacks counts as well as what another has. */
    for (int k = 0; k < n; k++)
      if (xs[k]->symbols && !xs[i]->symbols) operands[i] = hlo_mark(m, xs[i], xs[k]->symbols);
    if (!(operands[i] = hlo_mask(m, operands[i], n_dims, dims, inits[i]))) return;
    if (!(made[i] = hlo_new(m, xs[i]->dtype, rank, left)) || !kept_symbols(m, operands[i], n_dims, dims, made[i]))
      return;
  }
  hlo_open_generic(m, "reduce", n, made, 2 * n, operands);
  hlo_put(m, " (");
  if (!hlo_region(m, true, 2 * n, types, body, user, n, given) || !check_body(m, "reduce", n, given, types)) return;
  int64_t wide[HLO_MAX_RANK];
  for (int i = 0; i < n_dims; i++) wide[i] = dims[i];
  hlo_put_array(m, ") {dimensions = ", n_dims, wide, 0);
  hlo_put(m, "}");
  hlo_put_signature(m, 2 * n, operands, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}

/* ---- windows ---- */

/* The number of windows along each dim. */
static bool window_dims(hlo_module *m, const char *op, hlo x, const hlo_window *w, int64_t *out) {
  for (int i = 0; i < x->rank; i++) {
    int64_t size = w->size ? w->size[i] : 1, stride = w->stride ? w->stride[i] : 1,
            dilation = w->dilation ? w->dilation[i] : 1;
    int64_t base = w->base_dilation ? w->base_dilation[i] : 1;
    if (size < 1 || stride < 1 || dilation < 1 || base < 1)
      return hlo_fail(m, TT_INTERNAL, "hlo %s: sizes, strides and dilations of dim %d are not positive", op, i), false;
    int64_t length =
        (x->dims[i] ? (x->dims[i] - 1) * base + 1 : 0) + (w->low ? w->low[i] : 0) + (w->high ? w->high[i] : 0);
    int64_t reach = (size - 1) * dilation + 1;
    out[i] = length < reach ? 0 : (length - reach) / stride + 1;
  }
  return true;
}

void hlo_reduce_window_n(hlo_module *m, int n, const hlo *xs, const hlo *inits, const hlo_window *w, hlo_body *body,
                         void *user, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  if (!hlo_ready(m, "reduce_window", n, xs) || !hlo_ready(m, "reduce_window", n, inits)) return;
  hlo *operands = hlo_alloc(m, 4 * (size_t)n * sizeof *operands), *made = operands ? operands + 2 * n : NULL,
      *given = made ? made + n : NULL;
  hlo_type *types = hlo_alloc(m, 2 * (size_t)n * sizeof *types);
  int64_t dims[HLO_MAX_RANK];
  if (!operands || !types || !reduction_operands(m, "reduce_window", n, xs, inits, operands, types)) return;
  if (!window_dims(m, "reduce_window", xs[0], w, dims)) return;
  int rank = xs[0]->rank;
  for (int i = 0; i < n; i++)
    if (!(made[i] = hlo_new(m, xs[i]->dtype, rank, dims))) return;
  hlo_open_generic(m, "reduce_window", n, made, 2 * n, operands);
  hlo_put(m, " (");
  if (!hlo_region(m, true, 2 * n, types, body, user, n, given) || !check_body(m, "reduce_window", n, given, types))
    return;
  hlo_put_array(m, ") {window_dimensions = ", rank, w->size, 1);
  hlo_put_array(m, ", window_strides = ", rank, w->stride, 1);
  hlo_put_array(m, ", base_dilations = ", rank, w->base_dilation, 1);
  hlo_put_array(m, ", window_dilations = ", rank, w->dilation, 1);
  hlo_put_pairs(m, ", padding = ", rank, w->low, w->high);
  hlo_put(m, "}");
  hlo_put_signature(m, 2 * n, operands, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}

hlo hlo_reduce_window(hlo_module *m, const char *op, hlo x, hlo init, const hlo_window *w) {
  hlo r;
  hlo_reduce_window_n(m, 1, &x, &init, w, hlo_binary_body, (void *)op, &r);
  return r;
}

static void compare_body(hlo_module *m, const hlo *args, hlo *results, void *user) {
  results[0] = hlo_compare(m, user, args[0], args[1]);
}

hlo hlo_select_and_scatter(hlo_module *m, hlo x, hlo source, hlo init, const char *direction, const hlo_window *w) {
  hlo xs[] = {x, source, init}, given;
  int64_t dims[HLO_MAX_RANK];
  if (!hlo_ready(m, "select_and_scatter", 3, xs)) return NULL;
  if (w->base_dilation || w->dilation)
    return hlo_fail(m, TT_INTERNAL, "hlo select_and_scatter: windows have no dilation");
  if (init->rank || init->dtype != x->dtype) return hlo_mismatch(m, "select_and_scatter", x, init);
  if (!window_dims(m, "select_and_scatter", x, w, dims)) return NULL;
  hlo_type types[] = {{(tt_dtype)x->dtype, 0, NULL}, {(tt_dtype)x->dtype, 0, NULL}};
  hlo r = hlo_new(m, x->dtype, x->rank, x->dims);
  if (!r) return NULL;
  bool fits = source->rank == x->rank && source->dtype == x->dtype;
  for (int i = 0; fits && i < x->rank; i++) fits = source->dims[i] == dims[i];
  if (!fits) return hlo_mismatch(m, "select_and_scatter", x, source);
  hlo_open_generic(m, "select_and_scatter", 1, &r, 3, xs);
  hlo_put(m, " (");
  if (!hlo_region(m, true, 2, types, compare_body, (void *)direction, 1, &given)) return NULL;
  hlo_put(m, ", ");
  if (!hlo_region(m, true, 2, types, hlo_binary_body, "add", 1, &given)) return NULL;
  hlo_put_array(m, ") {window_dimensions = ", x->rank, w->size, 1);
  hlo_put_array(m, ", window_strides = ", x->rank, w->stride, 1);
  hlo_put_pairs(m, ", padding = ", x->rank, w->low, w->high);
  hlo_put(m, "}");
  hlo_put_signature(m, 3, xs, 1, &r);
  return r;
}

/* ---- sort ---- */

void hlo_sort(hlo_module *m, int n, const hlo *xs, int dim, bool stable, hlo_body *less, void *user, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  if (!hlo_ready(m, "sort", n, xs)) return;
  if (n < 1) {
    hlo_fail(m, TT_INTERNAL, "hlo sort: no operands");
    return;
  }
  if (!hlo_check_dim(m, "sort", dim, xs[0]->rank)) return;
  hlo *made = hlo_alloc(m, (size_t)n * sizeof *made), given;
  hlo_type *types = hlo_alloc(m, 2 * (size_t)n * sizeof *types);
  if (!made || !types) return;
  for (int i = 0; i < n; i++) {
    if (!hlo_same_dims(xs[i], xs[0])) {
      hlo_mismatch(m, "sort", xs[0], xs[i]);
      return;
    }
    types[2 * i] = types[2 * i + 1] = (hlo_type){(tt_dtype)xs[i]->dtype, 0, NULL};
    if (!(made[i] = hlo_new(m, xs[i]->dtype, xs[i]->rank, xs[i]->dims))) return;
  }
  hlo_open_generic(m, "sort", n, made, n, xs);
  hlo_put(m, " (");
  hlo_type boolean = {TT_BOOL, 0, NULL};
  if (!hlo_region(m, true, 2 * n, types, less, user, 1, &given) || !check_body(m, "sort", 1, &given, &boolean)) return;
  hlo_put(m, ") {dimension = ");
  hlo_put_int(m, dim);
  hlo_put(m, stable ? " : i64, is_stable = true}" : " : i64, is_stable = false}");
  hlo_put_signature(m, n, xs, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}

/* ---- loops and branches ---- */

void hlo_while(hlo_module *m, int n, const hlo *inits, hlo_body *cond, hlo_body *body, void *user, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  if (!hlo_ready(m, "while", n, inits)) return;
  if (n < 1) {
    hlo_fail(m, TT_INTERNAL, "hlo while: no operands");
    return;
  }
  hlo *made = hlo_alloc(m, 2 * (size_t)n * sizeof *made), *given = made ? made + n : NULL, go_on;
  hlo_type *types = hlo_alloc(m, (size_t)n * sizeof *types), boolean = {TT_BOOL, 0, NULL};
  if (!made || !types) return;
  for (int i = 0; i < n; i++) {
    types[i] = (hlo_type){(tt_dtype)inits[i]->dtype, inits[i]->rank, inits[i]->dims};
    if (!(made[i] = hlo_new(m, inits[i]->dtype, inits[i]->rank, inits[i]->dims))) return;
  }
  hlo_open_generic(m, "while", n, made, n, inits);
  hlo_put(m, " (");
  if (!hlo_region(m, false, n, types, cond, user, 1, &go_on) || !check_body(m, "while", 1, &go_on, &boolean)) return;
  hlo_put(m, ", ");
  if (!hlo_region(m, false, n, types, body, user, n, given) || !check_body(m, "while", n, given, types)) return;
  hlo_put(m, ")");
  hlo_put_signature(m, n, inits, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}

void hlo_if(hlo_module *m, hlo pred, hlo_body *on_true, hlo_body *on_false, void *user, int n, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  if (!hlo_ready(m, "if", 1, &pred)) return;
  if (pred->rank || pred->dtype != TT_BOOL || n < 1) {
    hlo_fail(m, TT_INTERNAL, "hlo if: expected a rank-0 predicate of i1 and at least one result");
    return;
  }
  /* Types come from the first branch, names are needed before it: the values are reserved and completed afterwards. */
  hlo *given = hlo_alloc(m, 2 * (size_t)n * sizeof *given), *made = given ? given + n : NULL;
  hlo_type *types = hlo_alloc(m, (size_t)n * sizeof *types);
  if (!given || !types) return;
  for (int i = 0; i < n; i++)
    if (!(made[i] = hlo_new(m, TT_BOOL, 0, NULL))) return;
  hlo_open_generic(m, "if", n, made, 1, &pred);
  hlo_put(m, " (");
  if (!hlo_region(m, false, 0, NULL, on_true, user, n, given)) return;
  for (int i = 0; i < n; i++) {
    types[i] = (hlo_type){(tt_dtype)given[i]->dtype, given[i]->rank, given[i]->dims};
    hlo_value *v = &((hlo_node *)made[i])->value;
    v->dtype = given[i]->dtype, v->rank = given[i]->rank, v->dims = given[i]->dims;
  }
  hlo_put(m, ", ");
  if (!hlo_region(m, false, 0, NULL, on_false, user, n, given) || !check_body(m, "if", n, given, types)) return;
  hlo_put(m, ")");
  hlo_put_signature(m, 1, &pred, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}
