/* create.c: tensors made of their positions: arange, linspace, logspace, eye, the index lists of triangles.
 *
 * Sizes come from what is wanted; the numbers are run-time values, except arange's, whose being whole decides how
 * it is computed: integers by exact integer arithmetic also for float results, anything else in f64 as torch does. */
#include <math.h>
#include "ops/index.h"
#include "ops/rules.h"

void rule_arange(tt_ctx *c) { /* (start, end, step), for range too; hlo: how many of them are given, "1" the end only */
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  int given = c->op->hlo[0] - '0';
  bool has_start = given > 1, has_step = given > 2;
  bool moves = c->op->flags & OP_RANGE && tt_in_dtype(c, 0) == TT_I64 && tt_in_dtype(c, 1) == TT_I64;
  double start = has_start && !moves ? tt_number_of(c, 0, 0) : 0, step = has_step ? tt_number_of(c, 2, 1) : 1;
  double furthest = fabs(start) + fabs(step) * (double)(w->rank ? w->dims[0] : 0);
  bool whole = start == trunc(start) && step == trunc(step) && furthest < 0x1p53;
  tt_dtype t = tt_is_integral(w->dtype) || w->dtype == TT_BOOL || whole ? TT_I64 : TT_F64;
  if (t == TT_I64 && furthest < INT32_MAX && !moves) t = TT_I32;
  if (t == TT_F64 && tt_is_complex(w->dtype)) t = TT_C128;
  hlo x = hlo_iota(m, t == TT_C128 ? TT_F64 : t, w->rank, w->dims, 0);
  x = hlo_convert(m, x, t);
  if (has_step) x = hlo_binary(m, "multiply", x, tt_in_as(c, 2, t));
  if (has_start) x = hlo_binary(m, "add", x, tt_in_as(c, 0, t));
  c->result[0] = x;
}

/* (start, end, steps): counted from the nearer end, so that both ends are exact; hlo "log" raises a base to it. */
void rule_linspace(tt_ctx *c) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  int64_t steps = tt_int(c, 2, 0);
  bool complex = tt_is_complex(w->dtype);
  tt_dtype real = tt_real_of(w->dtype);
  if (!tt_is_float(real) || real == TT_F64) real = TT_F64; /* integers are interpolated in f64 and truncated */
  else real = TT_F32;
  tt_dtype t = !complex ? real : real == TT_F64 ? TT_C128 : TT_C64;
  bool log = c->op->hlo[0] == 'l';
  if (steps == 0) {
    c->result[0] = hlo_full(m, w->dtype, w->rank, w->dims, 0);
    return;
  }
  /* The ends are first numbers of the wanted dtype. */
  hlo start = hlo_convert(m, tt_in_as(c, 0, w->dtype), t), end = hlo_convert(m, tt_in_as(c, 1, w->dtype), t);
  hlo step = steps > 1 ? hlo_binary(m, "divide", hlo_binary(m, "subtract", end, start),
                                    hlo_convert(m, hlo_int(m, TT_I64, steps - 1), t)) : hlo_int(m, t, 0);
  tt_dtype count = steps < INT32_MAX ? TT_I32 : TT_I64;
  hlo i = hlo_iota(m, count, 1, &steps, 0);
  hlo back = hlo_binary(m, "subtract", hlo_int(m, count, steps - 1), i);
  hlo below = hlo_compare(m, "LT", i, hlo_int(m, count, steps == 1 ? 1 : steps / 2));
  hlo x = hlo_select(m, below, hlo_binary(m, "add", start, hlo_binary(m, "multiply", hlo_convert(m, i, t), step)),
                     hlo_binary(m, "subtract", end, hlo_binary(m, "multiply", hlo_convert(m, back, t), step)));
  if (log) {
    hlo base = tt_in_as(c, 3, t);
    if (base && x) base = hlo_broadcast(m, base, 1, &steps, NULL);
    x = hlo_binary(m, "power", base, x);
  }
  c->result[0] = hlo_reshape(m, hlo_convert(m, x, w->dtype), w->rank, w->dims);
}

void rule_eye(tt_ctx *c) {
  const tt_want *w = &c->want[0];
  hlo row = hlo_iota(c->m, TT_I64, 2, w->dims, 0), column = hlo_iota(c->m, TT_I64, 2, w->dims, 1);
  c->result[0] = hlo_compare(c->m, "EQ", row, column);
}

/* (row, col, offset): the coordinates in a triangle, row by row: place k lies in the first row whose running
 * count passes k. */
void rule_triangle_indices(tt_ctx *c) {
  hlo_module *m = c->m;
  const tt_want *w = &c->want[0];
  bool lower = c->op->hlo[0] == 'l';
  int64_t rows = tt_int(c, 0, 0), columns = tt_int(c, 1, 0), offset = tt_int(c, 2, 0), n = w->dims[1];
  if (n == 0) {
    c->result[0] = hlo_full(m, w->dtype, w->rank, w->dims, 0);
    return;
  }
  tt_dtype t = rows < INT32_MAX / 4 && columns < INT32_MAX / 4 && n < INT32_MAX ? TT_I32 : TT_I64;
  int64_t least = -rows - columns, most = rows + columns;
  offset = offset < least ? least : offset > most ? most : offset;
  hlo zero = hlo_int(m, t, 0), i = hlo_iota(m, t, 1, &rows, 0);
  hlo edge = hlo_clamp(m, zero, hlo_binary(m, "add", i, hlo_int(m, t, offset + lower)), hlo_int(m, t, columns));
  hlo first = lower ? hlo_full(m, t, 1, &rows, 0) : edge;
  hlo length = lower ? edge : hlo_binary(m, "subtract", hlo_full(m, t, 1, &rows, (double)columns), edge);
  hlo passed = tt_running(m, "add", length, 0, zero);
  hlo k = hlo_iota(m, t, 1, &n, 0);
  hlo row = tt_search_sorted(m, passed, k, true);
  /* Of a row: its columns less k. */
  hlo skip = hlo_binary(m, "subtract", first, hlo_binary(m, "subtract", passed, length));
  hlo column = hlo_binary(m, "add", k, tt_gather_dim(m, skip, 0, row));
  hlo parts[2] = {hlo_unsqueeze(m, hlo_convert(m, row, t), 0), hlo_unsqueeze(m, column, 0)};
  c->result[0] = hlo_concat(m, 2, parts, 0);
}
