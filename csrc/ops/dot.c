/* dot.c: rules of matrix and vector products and of their sums with a tensor.
 *
 * Every product is one dot_general: batch dims first, the last dim of the left operand against the next of the right.
 * Halves are accumulated in float and rounded once; integers wrap in their own dtype; the precision of float32 is the
 * caller's. In beta * self + alpha * product the scalars are run-time operands, and a beta of 0 silences what self
 * holds, NaN included, as torch promises. Refuses to promote: torch wants operands of one dtype here, but for addr. */
#include <string.h>
#include "ops/op.h"
#include "ops/rules.h"

static tt_dtype accumulator(tt_dtype t) { return t == TT_F16 || t == TT_BF16 ? TT_F32 : t; }

/* Contracts the last dim of a with the first of b that is no batch dim: mm, bmm, mv and dot alike. */
static hlo product(tt_ctx *c, hlo a, hlo b, tt_dtype t) {
  if (!a || !b) return NULL;
  if (a->dtype != b->dtype || a->dtype == TT_BOOL)
    return hlo_fail(c->m, TT_UNIMPLEMENTED, "expected operands of one dtype but bool, got %s and %s",
                    tt_dtype_name(a->dtype), tt_dtype_name(b->dtype));
  int batch = a->rank == 3, last = a->rank - 1, zero = 0;
  hlo_dot_dims d = {batch, 1, &zero, &zero, &last, &batch};
  return hlo_dot(c->m, a, b, &d, c->precision, t);
}

static hlo conjugate(hlo_module *m, hlo x) {
  if (!x || !tt_is_complex(x->dtype)) return x;
  return hlo_complex_of(m, hlo_unary(m, "real", x), hlo_unary(m, "negate", hlo_unary(m, "imag", x)));
}

void rule_matmul(tt_ctx *c) { /* (self, other); hlo: "" or "conj" for vdot */
  hlo a = tt_in_own(c, 0), b = tt_in_own(c, 1);
  if (*c->op->hlo) a = conjugate(c->m, a);
  if (a) c->result[0] = product(c, a, b, accumulator((tt_dtype)a->dtype));
}

void rule_int_mm(tt_ctx *c) { /* int8 operands, the first may be uint8; int32 sums */
  bool same = tt_in_dtype(c, 0) == tt_in_dtype(c, 1);
  hlo a = same ? tt_in_own(c, 0) : tt_in_as(c, 0, TT_I32), b = same ? tt_in_own(c, 1) : tt_in_as(c, 1, TT_I32);
  c->result[0] = product(c, a, b, TT_I32);
}

/* beta * self + alpha * value, in value's dtype and the result's dims; beta and alpha are arguments at and at + 1. */
static hlo scaled_sum(tt_ctx *c, hlo value, int at) {
  hlo_module *m = c->m;
  if (!value) return NULL;
  hlo self = tt_in_as(c, 0, value->dtype);
  if (!tt_in_is_one(c, at + 1)) value = hlo_binary(m, "multiply", value, tt_in_as(c, at + 1, value->dtype));
  if (!tt_in_is_one(c, at)) {
    hlo beta = tt_in_as(c, at, value->dtype), zero = hlo_int(m, value->dtype, 0);
    self = hlo_select(m, hlo_compare(m, "EQ", beta, zero), zero, hlo_binary(m, "multiply", self, beta));
  }
  if (!self) return NULL;
  return hlo_binary(m, "add", hlo_broadcast_to(m, self, c->want[0].rank, c->want[0].dims), value);
}

/* What Meta does not check. */
static void want_one_dtype(tt_ctx *c) {
  tt_dtype own = (tt_dtype)tt_in_dtype(c, 0), other = (tt_dtype)tt_in_dtype(c, 1);
  if (own != other)
    hlo_fail(c->m, TT_INVALID_ARGUMENT, "self and mat2 must have the same dtype, but got %s and %s", tt_dtype_name(own),
             tt_dtype_name(other));
}

static int beta_of(const tt_ctx *c) { return strstr(c->op->hlo, "dtype") ? 4 : 3; }

/* (self, a, b, beta, alpha), or with an out_dtype before beta: addmm, addmv, baddbmm. hlo: "" or "dtype" */
void rule_addmm(tt_ctx *c) {
  hlo a = tt_in_own(c, 1), b = tt_in_own(c, 2);
  if (beta_of(c) == 3) want_one_dtype(c);
  if (a) c->result[0] = scaled_sum(c, product(c, a, b, accumulator((tt_dtype)a->dtype)), beta_of(c));
}

void rule_addmm_activation(tt_ctx *c) { /* (self, mat1, mat2, beta, alpha, use_gelu) */
  hlo_module *m = c->m;
  rule_addmm(c);
  hlo x = c->result[0];
  if (!x) return;
  if (!tt_bool(c, 5)) {
    c->result[0] = hlo_binary(m, "maximum", x, hlo_int(m, x->dtype, 0));
    return;
  }
  hlo share = hlo_unary(m, "chlo.erf", hlo_binary_scalar(m, "multiply", x, 0.70710678118654752440));
  hlo tail = hlo_binary_scalar(m, "add", share, 1);
  c->result[0] = hlo_binary(m, "multiply", hlo_binary_scalar(m, "multiply", x, 0.5), tail);
}

/* The products of all batches are summed: the batch dim is contracted too, as one with the inner one. */
void rule_addbmm(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo a = tt_in_own(c, 1), b = tt_in_own(c, 2);
  if (!a || !b) return;
  int64_t inner = a->dims[0] * a->dims[2], left[] = {a->dims[1], inner}, right[] = {inner, b->dims[2]};
  want_one_dtype(c);
  a = hlo_reshape(m, hlo_transpose(m, a, (int[]){1, 0, 2}), 2, left);
  b = hlo_reshape(m, b, 2, right);
  if (a) c->result[0] = scaled_sum(c, product(c, a, b, accumulator((tt_dtype)a->dtype)), 3);
}

void rule_addr(tt_ctx *c) { /* the outer product: nothing is contracted, so it is elementwise */
  hlo_module *m = c->m;
  tt_dtype t = accumulator((tt_dtype)c->want[0].dtype);
  hlo a = tt_in_as(c, 1, t), b = tt_in_as(c, 2, t);
  if (!a || !b) return;
  int64_t dims[2] = {a->dims[0], b->dims[0]};
  int row = 0, column = 1;
  a = hlo_broadcast(m, a, 2, dims, &row);
  b = hlo_broadcast(m, b, 2, dims, &column);
  c->result[0] = scaled_sum(c, hlo_binary(m, "multiply", a, b), 3);
}
