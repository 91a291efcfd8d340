/* loss.c: rules of losses and their gradients.
 *
 * A loss is an elementwise value, then reduced by none (0), mean (1) or sum (2); its gradient spreads what comes back
 * the same way. Rows ask for OP_COMPUTE_F32: halves are rounded once, after the reduction. Class targets pick their
 * element by a gather, not by a product with a one-hot tensor, which would read all classes. Targets out of range, an
 * error in torch, are not reported: they pick the nearest class. */
#include "ops/index.h"
#include "ops/rules.h"

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static hlo add(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "add", a, b); }
static hlo subtract(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "subtract", a, b); }
static hlo multiply(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "multiply", a, b); }
static hlo divide(hlo_module *m, hlo a, hlo b) { return hlo_binary(m, "divide", a, b); }
static hlo scale(hlo_module *m, hlo x, double v) { return hlo_binary_scalar(m, "multiply", x, v); }
static hlo zero_of(hlo_module *m, hlo x) { return x ? hlo_int(m, x->dtype, 0) : NULL; }
static hlo one_minus(hlo_module *m, hlo x) { return x ? subtract(m, hlo_int(m, x->dtype, 1), x) : NULL; }

static hlo sum_all(hlo_module *m, hlo x) {
  int dims[TT_MAX_RANK];
  for (int i = 0; i < TT_MAX_RANK; i++) dims[i] = i;
  return x ? hlo_reduce(m, "add", x, zero_of(m, x), x->rank, dims) : NULL;
}

/* total divided by how many elements x has. */
static hlo over_all(hlo_module *m, hlo total, hlo x) {
  int dims[TT_MAX_RANK];
  for (int i = 0; i < TT_MAX_RANK; i++) dims[i] = i;
  if (!x || !hlo_is_sized(x)) return hlo_binary_scalar(m, "divide", total, (double)hlo_numel(x));
  return divide(m, total, hlo_count(m, x, x->rank, dims, (tt_dtype)x->dtype));
}

static hlo reduced(hlo_module *m, hlo x, int64_t reduction) {
  if (reduction == REDUCE_NONE) return x;
  hlo total = sum_all(m, x);
  return reduction == REDUCE_MEAN ? over_all(m, total, x) : total;
}

/* ---- nll_loss: classes are dim 1, or dim 0 of a vector ---- */
typedef struct classes { hlo target, kept, weight; int dim; } classes; /* weight: of each target, NULL for ones */

/* (.., target, weight, reduction, ignore_index) */
static classes classes_of(tt_ctx *c, hlo x, int target_arg, int ignore_arg) {
  hlo_module *m = c->m;
  classes k = {.target = tt_in_own(c, target_arg), .dim = x && x->rank > 1};
  if (!x || !k.target) return k;
  k.kept = hlo_compare(m, "NE", k.target, hlo_int(m, k.target->dtype, tt_int(c, ignore_arg, -100)));
  if (tt_debug(c)) {
    hlo in = hlo_binary(m, "and", hlo_compare(m, "GE", k.target, hlo_int(m, k.target->dtype, 0)),
                        hlo_compare(m, "LT", hlo_convert(m, k.target, TT_I64), hlo_int(m, TT_I64, x->dims[k.dim])));
    tt_require(c, hlo_binary(m, "or", in, hlo_unary(m, "not", k.kept)), k.target, TT_OUT_OF_RANGE,
               "Target {} is out of bounds.");
  }
  if (!tt_has(c, target_arg + 1)) return k;
  hlo weight = tt_in(c, target_arg + 1);
  k.weight = hlo_numel(k.target) ? tt_gather_dim(m, weight, 0, k.target)
                                 : hlo_full(m, x->dtype, k.target->rank, k.target->dims, 0);
  return k;
}

void rule_nll_loss(tt_ctx *c) { /* (self, target, weight, reduction, ignore_index) -> output, total_weight */
  hlo_module *m = c->m;
  hlo x = tt_in(c, 0);
  classes k = classes_of(c, x, 1, 4);
  if (!x || !k.target) return;
  int64_t reduction = tt_int(c, 3, REDUCE_MEAN);
  hlo ones = hlo_full(m, x->dtype, k.target->rank, k.target->dims, 1), picked = ones;
  hlo weight = k.weight ? k.weight : ones;
  if (hlo_numel(k.target)) {
    hlo index = hlo_unsqueeze(m, k.target, k.dim);
    picked = hlo_squeeze_dim(m, tt_gather_along(m, x, k.dim, index), k.dim);
  }
  hlo loss = hlo_select(m, k.kept, hlo_unary(m, "negate", multiply(m, picked, weight)), zero_of(m, x));
  hlo total = sum_all(m, hlo_select(m, k.kept, weight, zero_of(m, x)));
  if (reduction != REDUCE_NONE) loss = sum_all(m, loss);
  c->result[0] = reduction == REDUCE_MEAN ? divide(m, loss, total) : loss;
  c->result[1] = reduction == REDUCE_NONE && x->rank > 1 ? zero_of(m, x) : total; /* as torch has it */
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight) */
void rule_nll_loss_backward(tt_ctx *c) {
  hlo_module *m = c->m;
  hlo grad = tt_in(c, 0), x = tt_in(c, 1);
  classes k = classes_of(c, x, 2, 5);
  if (!x || !k.target) return;
  if (tt_int(c, 4, REDUCE_MEAN) == REDUCE_MEAN) grad = divide(m, grad, tt_in(c, 6));
  grad = hlo_unary(m, "negate", grad);
  if (k.weight) grad = multiply(m, k.weight, grad);
  grad = hlo_select(m, k.kept, grad, zero_of(m, x)); /* in the target's dims, whatever it was before */
  int where[TT_MAX_RANK], n = 0;
  for (int i = 0; i < x->rank; i++)
    if (i != k.dim) where[n++] = i;
  hlo place = hlo_iota(m, k.target->dtype, x->rank, x->dims, k.dim);
  hlo hit = hlo_compare(m, "EQ", place, hlo_broadcast(m, k.target, x->rank, x->dims, where));
  c->result[0] = hlo_select(m, hit, hlo_broadcast(m, grad, x->rank, x->dims, where), zero_of(m, x));
}

/* ---- elementwise losses ---- */
typedef struct shape { int rank; int64_t dims[TT_MAX_RANK]; } shape;

/* The dims that the tensors among arguments first .. last broadcast to. */
static shape common(tt_ctx *c, int first, int last) {
  shape s = {0};
  for (int i = first; i <= last; i++)
    if (tt_in_rank(c, i) > s.rank) s.rank = tt_in_rank(c, i);
  for (int d = 0; d < s.rank; d++) s.dims[d] = 1;
  for (int i = first; i <= last; i++)
    for (int d = 0, rank = tt_in_rank(c, i); d < rank; d++)
      if (tt_in_dims(c, i)[d] != 1) s.dims[s.rank - rank + d] = tt_in_dims(c, i)[d];
  return s;
}

static hlo wide(tt_ctx *c, int i, const shape *s) { return hlo_broadcast_to(c->m, tt_in(c, i), s->rank, s->dims); }

/* Argument i over the result, and for a mean the part of it that one element gets. */
static hlo incoming(tt_ctx *c, int reduction_arg, hlo x) {
  hlo grad = tt_in_wide(c, 0);
  return tt_int(c, reduction_arg, REDUCE_MEAN) == REDUCE_MEAN ? over_all(c->m, grad, x) : grad;
}

void rule_distance_loss(tt_ctx *c) { /* (self, target, reduction[, beta or delta]); hlo: "square", "smooth", "huber" */
  hlo_module *m = c->m;
  shape s = common(c, 0, 1);
  hlo off = subtract(m, wide(c, 0, &s), wide(c, 1, &s)), square = multiply(m, off, off), loss = square;
  if (c->op->hlo[0] != 's' || c->op->hlo[1] != 'q') {
    hlo size = hlo_unary(m, "abs", off), bound = tt_in(c, 3), half = scale(m, square, 0.5);
    hlo straight = subtract(m, size, scale(m, bound, 0.5));
    loss = c->op->hlo[0] == 's' ? hlo_select(m, hlo_compare(m, "LT", size, bound), divide(m, half, bound), straight)
                                : hlo_select(m, hlo_compare(m, "LE", size, bound), half, multiply(m, straight, bound));
  }
  c->result[0] = reduced(m, loss, tt_int(c, 2, REDUCE_MEAN));
}

void rule_distance_loss_backward(tt_ctx *c) { /* (grad_output, self, target, reduction[, beta or delta]) */
  hlo_module *m = c->m;
  hlo off = subtract(m, tt_in_wide(c, 1), tt_in_wide(c, 2)), grad = incoming(c, 3, tt_in(c, 1)), slope;
  if (!off) return;
  if (c->op->hlo[0] == 's' && c->op->hlo[1] == 'q') {
    slope = scale(m, off, 2);
  } else {
    bool smooth = c->op->hlo[0] == 's';
    hlo bound = tt_in(c, 4), inside = smooth ? divide(m, off, bound) : off;
    hlo edge = smooth ? hlo_int(m, off->dtype, 1) : bound;
    slope = hlo_select(m, hlo_compare(m, smooth ? "GE" : "GT", off, bound), edge, inside);
    hlo low = hlo_compare(m, smooth ? "LE" : "LT", off, hlo_unary(m, "negate", bound));
    slope = hlo_select(m, low, hlo_unary(m, "negate", edge), slope);
  }
  c->result[0] = multiply(m, slope, grad);
}

static void require_chances(tt_ctx *c, hlo x, const char *message) {
  if (tt_debug(c) && x)
    tt_require(c,
               hlo_binary(c->m, "and", hlo_compare(c->m, "GE", x, zero_of(c->m, x)),
                          hlo_compare(c->m, "LE", x, hlo_float(c->m, x->dtype, 1))),
               NULL, TT_INVALID_ARGUMENT, "%s", message);
}

void rule_binary_cross_entropy(tt_ctx *c) { /* (self, target, weight, reduction) */
  hlo_module *m = c->m;
  shape s = common(c, 0, 2);
  hlo x = wide(c, 0, &s), t = wide(c, 1, &s);
  require_chances(c, x, "all elements of input should be between 0 and 1");
  require_chances(c, t, "all elements of target should be between 0 and 1");
  hlo no = hlo_binary_scalar(m, "maximum", hlo_unary(m, "log_plus_one", hlo_unary(m, "negate", x)), -100);
  hlo yes = hlo_binary_scalar(m, "maximum", hlo_unary(m, "log", x), -100);
  hlo loss = subtract(m, multiply(m, hlo_binary_scalar(m, "subtract", t, 1), no), multiply(m, t, yes));
  if (tt_has(c, 2)) loss = multiply(m, loss, wide(c, 2, &s));
  c->result[0] = reduced(m, loss, tt_int(c, 3, REDUCE_MEAN));
}

void rule_binary_cross_entropy_backward(tt_ctx *c) { /* (grad_output, self, target, weight, reduction) */
  hlo_module *m = c->m;
  hlo x = tt_in_wide(c, 1), spread = hlo_binary_scalar(m, "maximum", multiply(m, one_minus(m, x), x), 1e-12f);
  hlo grad = multiply(m, incoming(c, 4, x), divide(m, subtract(m, x, tt_in_wide(c, 2)), spread));
  c->result[0] = tt_has(c, 3) ? multiply(m, grad, tt_in_wide(c, 3)) : grad;
}

void rule_binary_cross_entropy_with_logits(tt_ctx *c) { /* (self, target, weight, pos_weight, reduction) */
  hlo_module *m = c->m;
  shape s = common(c, 0, 3);
  hlo x = wide(c, 0, &s), t = wide(c, 1, &s);
  /* -log(sigmoid(x)), without overflow on either side */
  hlo tail = hlo_unary(m, "log_plus_one", hlo_unary(m, "exponential", hlo_unary(m, "negate", hlo_unary(m, "abs", x))));
  hlo miss = subtract(m, tail, hlo_binary(m, "minimum", x, zero_of(m, x)));
  if (tt_has(c, 3)) {
    hlo more = hlo_binary_scalar(m, "subtract", wide(c, 3, &s), 1);
    miss = multiply(m, miss, hlo_binary_scalar(m, "add", multiply(m, more, t), 1));
  }
  hlo loss = add(m, multiply(m, one_minus(m, t), x), miss);
  if (tt_has(c, 2)) loss = multiply(m, loss, wide(c, 2, &s));
  c->result[0] = reduced(m, loss, tt_int(c, 4, REDUCE_MEAN));
}
