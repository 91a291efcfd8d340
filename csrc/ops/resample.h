/* resample.h: linear maps along one dim, in which each place of the result reads few places of the operand.
 *
 * Pooling over uneven windows, interpolation of every kind and the gradients of both are such maps, dim by dim; the
 * gradient is the map transposed. Tables are made while lowering, from sizes, and live in the module's arena. */
#ifndef TT_OPS_RESAMPLE_H
#define TT_OPS_RESAMPLE_H
#include "ops/op.h"

/* Place o of out reads, at each tap k, place at[k * out + o] of in (-1: none), times weight[k * out + o]. */
typedef struct tt_line {
  int64_t in, out;
  int taps;
  int64_t *at;
  double *weight;
} tt_line;

/* nothing read, weights 1; NULL sticks an error */
tt_line *tt_line_create(hlo_module *m, int64_t in, int64_t out, int taps);
tt_line *tt_line_transpose(hlo_module *m, const tt_line *line);
/* x[.., at[o], ..] along dim for n places o; fill (rank 0, x's dtype) where at[o] is -1. */
hlo tt_line_tap(hlo_module *m, hlo x, int dim, int64_t n, const int64_t *at, hlo fill);
hlo tt_line_apply(hlo_module *m, hlo x, int dim, const tt_line *line);
#endif
