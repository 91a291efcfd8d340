/* promote.c: torch's type promotion.
 *
 * Operands fall in three groups: tensors with dims, 0-dim tensors, and wrapped numbers. A group's dtype is the
 * promotion of its members; a lower group changes a higher one only by being of a higher category (bool < integer <
 * float < complex). What torch refuses to promote (uint16 with int32, float8 with float16) was refused by its Meta
 * kernels before. */
#include "ops/ctx.h"

tt_dtype tt_default_dtype = TT_F32;

bool tt_is_float(tt_dtype t) { return (t >= TT_F16 && t <= TT_F64) || (t >= TT_F8E4M3FN && t <= TT_F4E2M1FN); }
bool tt_is_complex(tt_dtype t) { return t == TT_C64 || t == TT_C128; }
bool tt_is_integral(tt_dtype t) { return t >= TT_U8 && t <= TT_I64; }
bool tt_is_signed(tt_dtype t) { return t >= TT_I8 && t < TT_DTYPES; }
tt_dtype tt_real_of(tt_dtype t) { return t == TT_C64 ? TT_F32 : t == TT_C128 ? TT_F64 : t; }

static tt_dtype complex_of(tt_dtype t) { return t == TT_F64 || t == TT_C128 ? TT_C128 : TT_C64; }

/* The signed integer that holds an unsigned one and a signed one; torch promotes u8 only. */
static tt_dtype join_signs(tt_dtype u, tt_dtype i) {
  static const tt_dtype wider[] = {[TT_U8] = TT_I16, [TT_U16] = TT_I32, [TT_U32] = TT_I64, [TT_U64] = TT_I64};
  return wider[u] > i ? wider[u] : i;
}

tt_dtype tt_promote(tt_dtype a, tt_dtype b) {
  if (a == b || b == TT_NO_DTYPE) return a;
  if (a == TT_NO_DTYPE) return b;
  if (tt_is_complex(a) || tt_is_complex(b))
    return complex_of(a) == TT_C128 || complex_of(b) == TT_C128 ? TT_C128 : TT_C64;
  if (tt_is_float(a) && tt_is_float(b)) {
    if (a > TT_F64) return b;
    if (b > TT_F64) return a;
    if ((a == TT_F16 && b == TT_BF16) || (a == TT_BF16 && b == TT_F16)) return TT_F32;
    return a > b ? a : b;
  }
  if (tt_is_float(a)) return a;
  if (tt_is_float(b)) return b;
  if (a == TT_BOOL) return b;
  if (b == TT_BOOL) return a;
  bool a_signed = tt_is_signed(a), b_signed = tt_is_signed(b);
  if (a_signed == b_signed) return a > b ? a : b;
  return a_signed ? join_signs(b, a) : join_signs(a, b);
}

static tt_dtype combine(tt_dtype higher, tt_dtype lower) {
  if (higher == TT_NO_DTYPE) return lower;
  if (lower == TT_NO_DTYPE || tt_is_complex(higher)) return higher;
  if (tt_is_float(higher)) return tt_is_complex(lower) ? complex_of(higher) : higher;
  if (higher == TT_BOOL || tt_is_float(lower) || tt_is_complex(lower)) return tt_promote(higher, lower);
  return higher;
}

typedef struct groups { tt_dtype dims, zero, wrapped; } groups;

static void add_operand(groups *g, tt_dtype t, bool wrapped, int rank) {
  if (rank > 0) g->dims = tt_promote(g->dims, t);
  else if (!wrapped) g->zero = tt_promote(g->zero, t);
  else {
    if (tt_is_complex(t)) t = complex_of(tt_default_dtype);
    else if (tt_is_float(t)) t = tt_default_dtype;
    g->wrapped = tt_promote(g->wrapped, t);
  }
}

static void add_arg(groups *g, const tt_arg *a, int i) {
  switch (a->tag) {
    case TT_ARG_TENSOR: add_operand(g, a->tensor->dtype, a->tensor->wrapped, a->tensor->rank); break;
    case TT_ARG_HOST: add_operand(g, a->dtype, a->wrapped, 0); break;
    case TT_ARG_SCALAR: if (i < 2) add_operand(g, a->dtype, true, 0); break;
    case TT_ARG_LIST:
      for (uint32_t e = 0; e < a->count; e++) add_arg(g, &a->list[e], i);
      break;
    default: break;
  }
}

static tt_dtype choose(const tt_ctx *c) {
  if (c->op->promotion == PROMOTE_NONE) return TT_NO_DTYPE;
  if (c->op->promotion == PROMOTE_TO_RESULT) {
    for (int k = 0; k < c->n_results; k++)
      if (c->want[k].defined) return c->want[k].dtype;
    return TT_NO_DTYPE;
  }
  groups g = {TT_NO_DTYPE, TT_NO_DTYPE, TT_NO_DTYPE};
  for (int i = 0; i < c->n_args; i++) add_arg(&g, &c->args[i], i);
  tt_dtype t = combine(g.dims, combine(g.zero, g.wrapped));
  if (c->op->promotion == PROMOTE_TO_FLOAT && (t == TT_BOOL || tt_is_integral(t))) t = tt_default_dtype;
  return t;
}

void tt_ctx_promote(tt_ctx *c) {
  tt_dtype t = choose(c);
  c->promoted = c->dtype = (uint8_t)t;
  bool narrow = t == TT_F16 || t == TT_BF16 || (t > TT_C128 && t < TT_DTYPES);
  if (c->op->flags & OP_COMPUTE_F32 && narrow) c->dtype = TT_F32;
}
