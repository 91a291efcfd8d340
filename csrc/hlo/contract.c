/* contract.c: matrix products and convolutions.
 *
 * The precision asked for is written on every float operand that a TPU would otherwise round to bf16; bf16 and narrower
 * operands lose nothing there, so theirs is left out. Result dims follow from the dimension numbers and are checked. */
#include "hlo/module.h"

void hlo_put_precision(hlo_module *m, const char *before, tt_dtype t, int precision, bool attribute) {
  bool rounds = t == TT_F16 || t == TT_F32 || t == TT_F64 || t == TT_C64 || t == TT_C128;
  if (!rounds || precision > 1 || precision < 0) return;
  const char *name = precision == 0 ? "HIGHEST" : "HIGH", *open = attribute ? "#stablehlo<precision " : "";
  hlo_put(m, before);
  for (int i = 0; i < 2; i++) {
    hlo_put(m, i ? ", " : "[");
    hlo_put(m, open);
    hlo_put(m, name);
    hlo_put(m, attribute ? ">" : "");
  }
  hlo_put(m, "]");
}

static bool mark_dims(hlo_module *m, hlo x, int n, const int *dims, bool *used) {
  for (int i = 0; i < n; i++) {
    if (!hlo_check_dim(m, "dot", dims[i], x->rank)) return false;
    if (used[dims[i]]) return hlo_fail(m, TT_INTERNAL, "hlo dot: dim %d is named twice", dims[i]), false;
    used[dims[i]] = true;
  }
  return true;
}

/* x with zeros where its contracted dims, or those of what it is multiplied with, do not count. */
static hlo masked_contraction(hlo_module *m, hlo x, hlo other, int n, const int *dims, const int *others) {
  uint8_t symbols[HLO_MAX_RANK] = {0};
  if (!x || !other) return NULL;
  if (x->symbols) memcpy(symbols, x->symbols, x->rank);
  for (int i = 0; i < n; i++)
    if (other->symbols && !hlo_add_symbol(m, "dot", &symbols[dims[i]], other->symbols[others[i]])) return NULL;
  return hlo_mask(m, hlo_mark(m, x, symbols), n, dims, hlo_int(m, (tt_dtype)x->dtype, 0));
}

static void put_dim_pair(hlo_module *m, const char *name, int n, const int *a, const int *b) {
  if (n == 0) return;
  hlo_put_list32(m, name, n, a);
  hlo_put_list32(m, " x ", n, b);
}

hlo hlo_dot(hlo_module *m, hlo a, hlo b, const hlo_dot_dims *d, int precision, tt_dtype result) {
  hlo xs[] = {a, b};
  if (!hlo_ready_sized(m, "dot", 2, xs)) return NULL;
  bool used_a[HLO_MAX_RANK] = {false}, used_b[HLO_MAX_RANK] = {false};
  if (!mark_dims(m, a, d->n_batch, d->lhs_batch, used_a) || !mark_dims(m, a, d->n_contract, d->lhs_contract, used_a))
    return NULL;
  if (!mark_dims(m, b, d->n_batch, d->rhs_batch, used_b) || !mark_dims(m, b, d->n_contract, d->rhs_contract, used_b))
    return NULL;
  int64_t dims[2 * HLO_MAX_RANK];
  uint8_t symbols[2 * HLO_MAX_RANK] = {0};
  int rank = 0;
  bool fits = true;
  if (a->symbols || b->symbols) { /* garbage times 0 may be NaN: both sides are masked */
    xs[0] = a = masked_contraction(m, a, b, d->n_contract, d->lhs_contract, d->rhs_contract);
    xs[1] = b = masked_contraction(m, b, a, d->n_contract, d->rhs_contract, d->lhs_contract);
    if (!a || !b) return NULL;
  }
  for (int i = 0; i < d->n_batch; i++) {
    fits = fits && a->dims[d->lhs_batch[i]] == b->dims[d->rhs_batch[i]];
    if (a->symbols) symbols[rank] = a->symbols[d->lhs_batch[i]];
    if (b->symbols && !hlo_add_symbol(m, "dot", &symbols[rank], b->symbols[d->rhs_batch[i]])) return NULL;
    dims[rank++] = a->dims[d->lhs_batch[i]];
  }
  for (int i = 0; i < d->n_contract; i++) fits = fits && a->dims[d->lhs_contract[i]] == b->dims[d->rhs_contract[i]];
  if (!fits) return hlo_mismatch(m, "dot", a, b);
  for (int i = 0; i < a->rank; i++)
    if (!used_a[i]) symbols[rank] = a->symbols ? a->symbols[i] : 0, dims[rank++] = a->dims[i];
  for (int i = 0; i < b->rank; i++)
    if (!used_b[i]) symbols[rank] = b->symbols ? b->symbols[i] : 0, dims[rank++] = b->dims[i];
  if (hlo_wide_integer(m, result)) {
    hlo wide = hlo_dot64(m, a, b, d, result, rank, dims);
    return wide ? hlo_mark(m, wide, symbols) : NULL;
  }
  hlo r = hlo_new(m, result, rank, dims);
  if (!r || !hlo_set_symbols(m, r, symbols)) return NULL;
  hlo_open(m, 1, &r);
  hlo_put(m, "stablehlo.dot_general ");
  hlo_put_values(m, 2, xs);
  put_dim_pair(m, ", batching_dims = ", d->n_batch, d->lhs_batch, d->rhs_batch);
  hlo_put_list32(m, ", contracting_dims = ", d->n_contract, d->lhs_contract);
  hlo_put_list32(m, " x ", d->n_contract, d->rhs_contract);
  hlo_put_precision(m, ", precision = ", a->dtype, precision, false);
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}

/* "[b, f, 0, 1]": what each dim of an operand is; first and second are the letters of positions 0 and 1. */
static bool put_layout(hlo_module *m, int n_spatial, const int *positions, const char *first, const char *second) {
  const char *letters[2] = {first, second};
  int rank = n_spatial + 2, what[HLO_MAX_RANK];
  for (int i = 0; i < rank; i++) what[i] = -1;
  for (int i = 0; i < rank; i++) {
    if (!hlo_check_dim(m, "convolution", positions[i], rank)) return false;
    if (what[positions[i]] >= 0)
      return hlo_fail(m, TT_INTERNAL, "hlo convolution: dim %d is named twice", positions[i]), false;
    what[positions[i]] = i;
  }
  for (int i = 0; i < rank; i++) {
    hlo_put(m, i ? ", " : "[");
    if (what[i] < 2) hlo_put(m, letters[what[i]]);
    else hlo_put_int(m, what[i] - 2);
  }
  hlo_put(m, "]");
  return true;
}

hlo hlo_convolution(hlo_module *m, hlo x, hlo kernel, const hlo_conv_dims *d, int precision, tt_dtype result) {
  hlo xs[] = {x, kernel};
  if (!hlo_ready(m, "convolution", 2, xs)) return NULL;
  int rank = d->n_spatial + 2;
  if (x->dtype != kernel->dtype || x->rank != rank || kernel->rank != rank || rank > HLO_MAX_RANK)
    return hlo_mismatch(m, "convolution", x, kernel);
  for (int i = 0; i < rank; i++)
    if (!hlo_check_dim(m, "convolution", d->input[i], rank) || !hlo_check_dim(m, "convolution", d->kernel[i], rank) ||
        !hlo_check_dim(m, "convolution", d->output[i], rank))
      return NULL;
  int64_t dims[HLO_MAX_RANK], groups = d->feature_groups, batches = d->batch_groups;
  int64_t features = x->dims[d->input[1]], outputs = kernel->dims[d->kernel[0]];
  if (groups < 1 || batches < 1 || features != kernel->dims[d->kernel[1]] * groups || outputs % groups ||
      outputs % batches || x->dims[d->input[0]] % batches)
    return hlo_mismatch(m, "convolution", x, kernel);
  dims[d->output[0]] = x->dims[d->input[0]] / batches;
  dims[d->output[1]] = outputs;
  for (int i = 0; i < d->n_spatial; i++) {
    int64_t length = x->dims[d->input[2 + i]], size = kernel->dims[d->kernel[2 + i]];
    int64_t stride = d->stride ? d->stride[i] : 1, base = d->lhs_dilation ? d->lhs_dilation[i] : 1;
    int64_t dilation = d->rhs_dilation ? d->rhs_dilation[i] : 1;
    if (stride < 1 || base < 1 || dilation < 1)
      return hlo_fail(m, TT_INTERNAL, "hlo convolution: strides and dilations of spatial dim %d are not positive", i);
    length = (length ? (length - 1) * base + 1 : 0) + (d->low ? d->low[i] : 0) + (d->high ? d->high[i] : 0);
    size = size ? (size - 1) * dilation + 1 : 0;
    dims[d->output[2 + i]] = length < size ? 0 : (length - size) / stride + 1;
  }
  if (hlo_wants_places(m, d, result)) return hlo_convolution_by_places(m, x, kernel, d, precision, result, dims);
  hlo r = hlo_new(m, result, rank, dims);
  if (!r) return NULL;
  hlo_open_generic(m, "convolution", 1, &r, 2, xs);
  hlo_put(m, " {dimension_numbers = #stablehlo.conv<");
  if (!put_layout(m, d->n_spatial, d->input, "b", "f")) return NULL;
  hlo_put(m, "x");
  if (!put_layout(m, d->n_spatial, d->kernel, "o", "i")) return NULL;
  hlo_put(m, "->");
  if (!put_layout(m, d->n_spatial, d->output, "b", "f")) return NULL;
  hlo_put(m, ">");
  hlo_put_array(m, ", window_strides = ", d->n_spatial, d->stride, 1);
  hlo_put_pairs(m, ", padding = ", d->n_spatial, d->low, d->high);
  hlo_put_array(m, ", lhs_dilation = ", d->n_spatial, d->lhs_dilation, 1);
  hlo_put_array(m, ", rhs_dilation = ", d->n_spatial, d->rhs_dilation, 1);
  if (d->reversal) {
    hlo_put(m, ", window_reversal = array<i1");
    for (int i = 0; i < d->n_spatial; i++) {
      hlo_put(m, i ? ", " : ": ");
      hlo_put(m, d->reversal[i] ? "true" : "false");
    }
    hlo_put(m, ">");
  }
  hlo_put(m, ", feature_group_count = ");
  hlo_put_int(m, groups);
  hlo_put(m, " : i64, batch_group_count = ");
  hlo_put_int(m, batches);
  hlo_put(m, " : i64");
  hlo_put_precision(m, ", precision_config = ", x->dtype, precision, true);
  hlo_put(m, "}");
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}
