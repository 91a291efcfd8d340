/* integer64.c: what TPUs do not do with 64-bit integers, by what they do: quotients and matrix products.
 *
 * libtpu refuses the products and takes up to a minute to compile one quotient, for it writes out all 64 steps of a
 * long division. A quotient here is a loop that takes off estimates in f32, each of 16 bits and never too large, so it
 * is exact whatever the estimates' rounding; a product of matrices is elementwise products and their sums, which XLA
 * fuses. All wrap modulo 2^64. */
#include "hlo/module.h"

bool hlo_wide_integer(const hlo_module *m, tt_dtype t) { return m->for_tpu && (t == TT_I64 || t == TT_U64); }

/* ---- quotients ---- */
typedef struct division { hlo divisor, approximate; } division;

static void some_left(hlo_module *m, const hlo *a, hlo *r, void *user) { /* (quotient, rest) */
  const division *d = user;
  int dims[HLO_MAX_RANK];
  for (int i = 0; a[1] && i < a[1]->rank; i++) dims[i] = i;
  hlo left = hlo_compare(m, "GE", a[1], d->divisor);
  r[0] = left ? hlo_reduce(m, "or", left, hlo_int(m, TT_BOOL, 0), left->rank, dims) : NULL;
}

static void take_off(hlo_module *m, const hlo *a, hlo *r, void *user) {
  const division *d = user;
  /* less what three roundings may add */
  hlo share = hlo_binary(m, "divide", hlo_convert(m, a[1], TT_F32), d->approximate);
  hlo estimate = hlo_convert(m, hlo_binary_scalar(m, "multiply", share, 1 - 0x1p-16), TT_U64);
  estimate = hlo_binary(m, "maximum", estimate, hlo_int(m, TT_U64, 1));
  estimate = hlo_select(m, hlo_compare(m, "GE", a[1], d->divisor), estimate, hlo_int(m, TT_U64, 0));
  r[0] = hlo_binary(m, "add", a[0], estimate);
  r[1] = hlo_binary(m, "subtract", a[1], hlo_binary(m, "multiply", estimate, d->divisor));
}

static hlo magnitude(hlo_module *m, hlo x) { /* of the lowest number too: 2^63 */
  return x->dtype == TT_U64 ? x : hlo_bitcast(m, hlo_unary(m, "abs", x), TT_U64);
}

/* As XLA divides: towards zero, -1 by zero (all ones without a sign), the lowest number by -1 itself. */
hlo hlo_quotient64(hlo_module *m, hlo a, hlo b) {
  if (!hlo_ready(m, "divide", 2, (hlo[]){a, b})) return NULL;
  tt_dtype t = (tt_dtype)a->dtype;
  hlo zero = hlo_int(m, t, 0), r[2], none = hlo_compare(m, "EQ", b, zero);
  division d = {.divisor = hlo_select(m, none, hlo_int(m, TT_U64, 1), magnitude(m, b))};
  d.approximate = d.divisor ? hlo_convert(m, d.divisor, TT_F32) : NULL;
  hlo_while(m, 2, (hlo[]){hlo_full(m, TT_U64, a->rank, a->dims, 0), magnitude(m, a)}, some_left, take_off, &d, r);
  hlo q = r[0] ? hlo_bitcast(m, r[0], t) : NULL;
  if (t == TT_I64) {
    hlo opposite = hlo_compare(m, "NE", hlo_compare(m, "LT", a, zero), hlo_compare(m, "LT", b, zero));
    q = hlo_select(m, opposite, hlo_unary(m, "negate", q), q);
  }
  return hlo_select(m, none, hlo_unary(m, "not", zero), q);
}

/* ---- products of matrices ---- */

/* x with its batch dims first, its contracted dims last, repeated over wide's dims; free dims go to [at, at + how
 * many). */
static hlo spread(hlo_module *m, hlo x, int n_batch, const int *batch, int n_contract, const int *contract, int at,
                  int rank, const int64_t *wide) {
  int perm[HLO_MAX_RANK], where[HLO_MAX_RANK], n = 0;
  bool used[HLO_MAX_RANK] = {false};
  for (int i = 0; i < n_contract; i++) used[contract[i]] = true;
  for (int i = 0; i < n_batch; i++) {
    used[batch[i]] = true;
    where[n] = i;
    perm[n++] = batch[i];
  }
  for (int i = 0; i < x->rank; i++) {
    if (used[i]) continue;
    where[n] = at++;
    perm[n++] = i;
  }
  for (int i = 0; i < n_contract; i++) {
    where[n] = rank - n_contract + i;
    perm[n++] = contract[i];
  }
  return hlo_broadcast(m, hlo_transpose(m, x, perm), rank, wide, where);
}

hlo hlo_dot64(hlo_module *m, hlo a, hlo b, const hlo_dot_dims *d, tt_dtype t, int rank, const int64_t *dims) {
  int64_t wide[HLO_MAX_RANK];
  int all = rank + d->n_contract, sums[HLO_MAX_RANK];
  if (all > HLO_MAX_RANK) return hlo_fail(m, TT_INTERNAL, "hlo dot: rank %d is out of range", all);
  memcpy(wide, dims, (size_t)rank * sizeof *wide);
  for (int i = 0; i < d->n_contract; i++) {
    wide[rank + i] = a->dims[d->lhs_contract[i]];
    sums[i] = rank + i;
  }
  int free_of_a = a->rank - d->n_contract; /* batch dims with them */
  hlo left =
      spread(m, hlo_convert(m, a, t), d->n_batch, d->lhs_batch, d->n_contract, d->lhs_contract, d->n_batch, all, wide);
  hlo right =
      spread(m, hlo_convert(m, b, t), d->n_batch, d->rhs_batch, d->n_contract, d->rhs_contract, free_of_a, all, wide);
  return hlo_reduce(m, "add", hlo_binary(m, "multiply", left, right), hlo_int(m, t, 0), d->n_contract, sums);
}
