/* factor.c: LU with partial pivoting, Householder QR, Cholesky, and triangular systems, as loops over columns.
 *
 * All are blocked: a panel of columns is factored one column after another by a loop of its own, and what it means to
 * the columns right of it is one matrix product, so that most of the work is products. Every step sees the whole height
 * and masks by position, which keeps shapes static; a matrix of one panel's width has no outer loop. The conventions
 * are LAPACK's (getrf, geqrf: signs, pivots, ties, info), so that results compare with torch's on the CPU. */
#include "ops/linalg.h"
#include "ops/math.h"

enum { PANEL = 32 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t rounded(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }
static hlo number(hlo_module *m, int64_t i) { return hlo_int(m, TT_I32, i); }
static hlo zero_like(hlo_module *m, hlo x) { return constant_like(m, x, 0); }

/* [batch, 1, 1] or [batch, r, 1] or [batch, 1, c] in the dims of x. */
static hlo spread(hlo_module *m, hlo v, hlo x) { return x ? tt_matrix_spread(m, v, x->dims[1], x->dims[2]) : NULL; }

/* ---- triangular systems and Cholesky: block rows and block columns, by what XLA has for one block ---- */
enum { BLOCK = 64 };

static int64_t whole_blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

/* Square x as the leading part of an identity of n rows. */
static hlo bordered(hlo_module *m, hlo x, int64_t n) {
  if (!x || x->dims[1] == n) return x;
  hlo y = tt_matrix_block(m, x, n, n);
  hlo beyond = hlo_compare(m, "GE", tt_matrix_position(m, y, 1), number(m, x->dims[1]));
  return choose(m, both(m, beyond, tt_matrix_where(m, y, "EQ", 0)), constant_like(m, y, 1), y);
}

typedef struct triangular { hlo a; bool lower, unit; } triangular;

static void solve_block(hlo_module *m, hlo i, const hlo *in, hlo *out, void *user) {
  const triangular *s = user;
  hlo x = in[0];
  if (!x) return;
  int64_t n = x->dims[1];
  hlo start = times(m, s->lower ? i : sub(m, number(m, n / BLOCK - 1), i), BLOCK), end = plus(m, start, BLOCK);
  hlo rows = tt_matrix_take(m, s->a, 1, start, BLOCK), column = tt_matrix_position(m, rows, 2),
      row = tt_matrix_position(m, x, 1);
  hlo used = s->lower ? hlo_compare(m, "LT", column, start) : hlo_compare(m, "GE", column, end);
  hlo done = s->lower ? hlo_compare(m, "LT", row, start) : hlo_compare(m, "GE", row, end);
  hlo known = tt_matrix_product(m, choose(m, used, rows, zero_like(m, rows)), choose(m, done, x, zero_like(m, x)));
  hlo part = sub(m, tt_matrix_take(m, x, 1, start, BLOCK), known), square = tt_matrix_take(m, rows, 2, start, BLOCK);
  part = hlo_triangular_solve(m, square, part, true, s->lower, s->unit, "NO_TRANSPOSE");
  out[0] = tt_matrix_put(m, x, 1, start, part);
}

hlo tt_matrix_triangular_solve(hlo_module *m, hlo a, hlo b, bool lower, bool unit) {
  if (!a || !b) return NULL;
  int64_t n = a->dims[1], columns = b->dims[2];
  if (n <= BLOCK) return hlo_triangular_solve(m, a, b, true, lower, unit, "NO_TRANSPOSE");
  triangular s = {bordered(m, a, whole_blocks(n)), lower, unit};
  hlo x = tt_matrix_block(m, b, whole_blocks(n), columns);
  tt_loop(m, number(m, 0), number(m, whole_blocks(n) / BLOCK), 1, &x, solve_block, &s, &x);
  return tt_matrix_block(m, x, n, columns);
}

static void cholesky_block(hlo_module *m, hlo i, const hlo *in, hlo *out, void *user) {
  hlo l = in[0], start = times(m, i, BLOCK);
  const hlo *a = user;
  hlo left = tt_matrix_product(m, l, tt_matrix_adjoint(m, tt_matrix_take(m, l, 1, start, BLOCK)));
  hlo panel = sub(m, tt_matrix_take(m, *a, 2, start, BLOCK), left);
  hlo square = hlo_cholesky(m, tt_matrix_take(m, panel, 1, start, BLOCK), true);
  square = tt_matrix_triangle(m, square, true, 0);
  panel = hlo_triangular_solve(m, square, panel, false, true, false, "ADJOINT");
  panel = tt_matrix_put(m, panel, 1, start, square);
  panel = choose(m, hlo_compare(m, "GE", tt_matrix_position(m, panel, 1), start), panel, zero_like(m, panel));
  out[0] = tt_matrix_put(m, l, 2, start, panel);
}

hlo tt_matrix_cholesky(hlo_module *m, hlo a) {
  if (!a) return NULL;
  int64_t n = a->dims[1];
  if (n <= BLOCK) return tt_matrix_triangle(m, hlo_cholesky(m, a, true), true, 0);
  a = bordered(m, a, whole_blocks(n));
  hlo l = a ? hlo_full_like(m, a, 0) : NULL;
  tt_loop(m, number(m, 0), number(m, whole_blocks(n) / BLOCK), 1, &l, cholesky_block, &a, &l);
  return tt_matrix_block(m, l, n, n);
}

/* ---- LU ---- */
typedef struct panel { hlo start; } panel; /* its first column in the whole */

enum { LU_MATRIX, LU_ORDER, LU_PIVOTS, LU_VALUES };

/* getf2's step on column j of the whole, which is column j - start of the panel. */
static void lu_column(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  const panel *p = user;
  hlo x = in[LU_MATRIX], here = p->start ? sub(m, j, p->start) : j;
  hlo size = tt_matrix_abs1(m, tt_matrix_take(m, x, 2, here, 1));
  hlo pivot = tt_matrix_largest(m, size, hlo_compare(m, "GE", tt_matrix_position(m, size, 1), j));
  x = tt_matrix_exchange(m, x, j, pivot);
  hlo top = tt_matrix_take(m, x, 1, j, 1), column = tt_matrix_take(m, x, 2, here, 1);
  hlo divisor = spread(m, tt_matrix_take(m, top, 2, here, 1), column);
  hlo factor = choose(m, hlo_compare(m, "EQ", divisor, zero_like(m, divisor)), column, quo(m, column, divisor));
  factor = spread(m, factor, x);
  hlo row = tt_matrix_position(m, x, 1), place = tt_matrix_position(m, x, 2), below = hlo_compare(m, "GT", row, j);
  hlo reduced = sub(m, x, mul(m, factor, spread(m, top, x)));
  hlo y = choose(m, both(m, below, hlo_compare(m, "GT", place, here)), reduced, x);
  out[LU_MATRIX] = choose(m, both(m, below, hlo_compare(m, "EQ", place, here)), factor, y);
  out[LU_ORDER] = tt_matrix_exchange(m, in[LU_ORDER], j, pivot);
  out[LU_PIVOTS] = tt_matrix_put(m, in[LU_PIVOTS], 1, j, pivot);
}

typedef struct blocked { int64_t k; } blocked; /* how many columns are factored */

static void lu_panel(hlo_module *m, hlo i, const hlo *in, hlo *out, void *user) {
  const blocked *b = user;
  hlo start = mul(m, i, number(m, PANEL)), end = smaller(m, plus(m, start, PANEL), number(m, b->k));
  panel p = {start};
  hlo x = in[LU_MATRIX];
  if (!x) return;
  hlo from[LU_VALUES] = {tt_matrix_take(m, x, 2, start, PANEL), tt_matrix_position(m, in[LU_ORDER], 1),
      in[LU_PIVOTS]}, to[LU_VALUES];
  tt_loop(m, start, end, LU_VALUES, from, lu_column, &p, to);
  hlo order = hlo_reshape(m, to[LU_ORDER], 2, x->dims);
  x = tt_matrix_permute_rows(m, x, order);
  out[LU_ORDER] = tt_matrix_permute_rows(m, in[LU_ORDER], order);
  out[LU_PIVOTS] = to[LU_PIVOTS];
  /* The rows beside the panel's triangle, then all below and right of it. */
  hlo left = to[LU_MATRIX];
  x = tt_matrix_put(m, x, 2, start, left);
  hlo right = tt_matrix_take(m, x, 1, start, PANEL);
  hlo next = plus(m, start, PANEL), beyond = hlo_compare(m, "GE", tt_matrix_position(m, right, 2), next);
  hlo solved = hlo_triangular_solve(m, tt_matrix_take(m, left, 1, start, PANEL), right, true, true, true,
      "NO_TRANSPOSE");
  right = choose(m, beyond, solved, right);
  x = tt_matrix_put(m, x, 1, start, right);
  right = choose(m, beyond, right, zero_like(m, right));
  hlo under = hlo_compare(m, "GE", tt_matrix_position(m, left, 1), next);
  left = choose(m, under, left, zero_like(m, left));
  hlo row = tt_matrix_position(m, x, 1), place = tt_matrix_position(m, x, 2);
  hlo touched = both(m, hlo_compare(m, "GE", row, next), hlo_compare(m, "GE", place, next));
  out[LU_MATRIX] = choose(m, touched, sub(m, x, tt_matrix_product(m, left, right)), x);
}

tt_lu tt_matrix_lu(hlo_module *m, hlo x) {
  if (!x) return (tt_lu){0};
  int64_t batch = x->dims[0], rows = x->dims[1], columns = x->dims[2], k = least(rows, columns);
  bool is_blocked = k > 2 * PANEL;
  int64_t height = is_blocked ? rounded(rows) : rows, width = is_blocked ? rounded(columns) : columns;
  hlo in[LU_VALUES] = {tt_matrix_block(m, x, height, width), hlo_iota(m, TT_I32, 3, (int64_t[]){batch, height, 1}, 1),
                       hlo_full(m, TT_I32, 3, (int64_t[]){batch, k, 1}, 0)}, out[LU_VALUES];
  if (is_blocked) {
    blocked b = {k};
    tt_loop(m, number(m, 0), number(m, rounded(k) / PANEL), LU_VALUES, in, lu_panel, &b, out);
  } else {
    panel p = {NULL};
    tt_loop(m, number(m, 0), number(m, k), LU_VALUES, in, lu_column, &p, out);
  }
  hlo lu = tt_matrix_block(m, out[LU_MATRIX], rows, columns), d = tt_matrix_diagonal(m, lu);
  if (!d) return (tt_lu){0};
  hlo position = hlo_iota(m, TT_I32, 2, d->dims, 1), none = number(m, INT32_MAX);
  hlo singular = choose(m, hlo_compare(m, "EQ", d, zero_like(m, d)), position, none);
  hlo first = hlo_reduce(m, "minimum", singular, none, 1, (int[]){1});
  return (tt_lu){lu, hlo_squeeze_dim(m, hlo_slice_dim(m, out[LU_ORDER], 1, 0, rows, 1), 2), hlo_squeeze_dim(m,
      out[LU_PIVOTS], 2),
                 choose(m, hlo_compare(m, "EQ", first, none), number(m, 0), plus(m, first, 1))};
}

static void apply_pivot(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  const hlo *pivots = user;
  out[0] = tt_matrix_exchange(m, in[0], j, tt_matrix_take(m, *pivots, 1, j, 1));
}

hlo tt_order_of_pivots(hlo_module *m, hlo pivots, int64_t rows) {
  if (!pivots) return NULL;
  hlo order = hlo_iota(m, TT_I32, 3, (int64_t[]){pivots->dims[0], rows, 1}, 1);
  pivots = hlo_unsqueeze(m, pivots, 2);
  tt_loop(m, number(m, 0), number(m, pivots ? pivots->dims[1] : 0), 1, &order, apply_pivot, &pivots, &order);
  return hlo_squeeze_dim(m, order, 2);
}

hlo tt_order_inverse(hlo_module *m, hlo order) {
  if (!order) return NULL;
  int64_t n = order->dims[1];
  hlo wide = hlo_broadcast(m, order, 3, (int64_t[]){order->dims[0], n, n}, (int[]){0, 1});
  hlo hit = hlo_compare(m, "EQ", wide, tt_matrix_position(m, wide, 2));
  return hlo_reduce(m, "add", choose(m, hit, tt_matrix_position(m, wide, 1), number(m, 0)), number(m, 0), 1,
      (int[]){1});
}

hlo tt_matrix_lu_solve(hlo_module *m, hlo lu, hlo order, hlo b, bool adjoint) {
  if (!adjoint) {
    b = tt_matrix_triangular_solve(m, lu, tt_matrix_permute_rows(m, b, order), true, true);
    return tt_matrix_triangular_solve(m, lu, b, false, false);
  }
  lu = tt_matrix_adjoint(m, lu);
  b = tt_matrix_triangular_solve(m, lu, tt_matrix_triangular_solve(m, lu, b, true, false), false, true);
  return tt_matrix_permute_rows(m, b, tt_order_inverse(m, order));
}

/* ---- QR ---- */
enum { QR_MATRIX, QR_TAU, QR_VALUES };

tt_reflector tt_reflector_of(hlo_module *m, hlo x, hlo at) {
  if (!x) return (tt_reflector){0};
  tt_dtype t = (tt_dtype)x->dtype;
  hlo row = tt_matrix_position(m, x, 1), alpha = tt_matrix_take(m, x, 1, at, 1);
  hlo rest = choose(m, hlo_compare(m, "GT", row, at), x, zero_like(m, x));
  hlo re = hlo_unary(m, "real", alpha), im = hlo_unary(m, "imag", alpha);
  /* The norm, scaled so that squares neither overflow nor vanish. */
  hlo size = tt_matrix_max(m, absolute(m, hlo_unary(m, "real", rest)), 1);
  if (tt_is_complex(t)) size = larger(m, size, tt_matrix_max(m, absolute(m, hlo_unary(m, "imag", rest)), 1));
  hlo rest_is_zero = is(m, size, 0), is_trivial = both(m, rest_is_zero, is(m, im, 0));
  hlo most = larger(m, larger(m, size, absolute(m, re)), absolute(m, im));
  hlo unit = choose_number(m, is_trivial, 1, most), wide = spread(m, unit, rest);
  hlo parts = quo(m, hlo_unary(m, "real", rest), wide);
  hlo squares = tt_matrix_sum(m, mul(m, parts, parts), 1);
  if (tt_is_complex(t)) {
    parts = quo(m, hlo_unary(m, "imag", rest), wide);
    squares = add(m, squares, tt_matrix_sum(m, mul(m, parts, parts), 1));
  }
  hlo a = quo(m, re, unit), b = quo(m, im, unit);
  hlo norm = mul(m, unit, root(m, add(m, squares, add(m, mul(m, a, a), mul(m, b, b)))));
  hlo beta = choose(m, is_below(m, re, 0), norm, neg(m, norm));
  hlo safe = choose_number(m, is_trivial, 1, beta);
  hlo tau = quo(m, sub(m, safe, re), safe);
  if (tt_is_complex(t)) tau = hlo_complex_of(m, tau, neg(m, quo(m, im, safe)));
  hlo apart = sub(m, alpha, hlo_convert(m, beta, t)), one = hlo_full_like(m, alpha, 1);
  hlo scale = quo(m, one, choose(m, is_trivial, one, apart));
  hlo w = choose(m, hlo_compare(m, "EQ", row, at), constant_like(m, x, 1), mul(m, rest, spread(m, scale, rest)));
  tau = choose(m, is_trivial, zero_like(m, alpha), tau);
  return (tt_reflector){w, tau, choose(m, is_trivial, alpha, hlo_convert(m, beta, t))};
}

static void qr_column(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  const panel *p = user;
  hlo x = in[QR_MATRIX], here = p->start ? sub(m, j, p->start) : j;
  if (!x) return;
  hlo column = tt_matrix_take(m, x, 2, here, 1), row = tt_matrix_position(m, column, 1);
  tt_reflector h = tt_reflector_of(m, column, j);
  hlo projected = mul(m, tt_matrix_product_adjoint(m, h.w, x), spread(m, tt_matrix_conj(m, h.tau), hlo_slice_dim(m, x,
      1, 0, 1, 1)));
  hlo reflected = sub(m, x, mul(m, spread(m, h.w, x), spread(m, projected, x)));
  hlo place = tt_matrix_position(m, x, 2);
  hlo y = choose(m, hlo_compare(m, "GT", place, here), reflected, x);
  hlo mine = choose(m, hlo_compare(m, "EQ", row, j), spread(m, h.beta, column), column);
  mine = choose(m, hlo_compare(m, "GT", row, j), h.w, mine);
  out[QR_MATRIX] = choose(m, hlo_compare(m, "EQ", place, here), spread(m, mine, x), y);
  out[QR_TAU] = tt_matrix_put(m, in[QR_TAU], 1, j, h.tau);
}

/* v with ones on the diagonal that starts at row start (NULL: 0), zeros above it, and nothing right of column k. */
static hlo reflectors(hlo_module *m, hlo packed, hlo start) {
  hlo row = tt_matrix_position(m, packed, 1), place = tt_matrix_position(m, packed, 2);
  if (start) place = add(m, place, start);
  hlo v = choose(m, hlo_compare(m, "GT", row, place), packed, zero_like(m, packed));
  return choose(m, hlo_compare(m, "EQ", row, place), constant_like(m, packed, 1), v);
}

/* The product of I - tau v v^H is I - v t v^H with t^-1 = diag(1 / tau) + the upper part of v^H v (Puglisi 1992,
 * "Modification of the Householder method based on the compact WY representation"); solved as (I + diag(tau) upper) t =
 * diag(tau), which takes tau = 0 too. */
static hlo reflect(hlo_module *m, hlo v, hlo tau, hlo x, bool adjoint) {
  if (!v || !tau || !x) return NULL;
  hlo gram = tt_matrix_product_adjoint(m, v, v);
  hlo strict = tt_matrix_triangle(m, gram, false, 1);
  hlo scaled = mul(m, strict, spread(m, tau, strict));
  hlo d = choose(m, tt_matrix_where(m, strict, "EQ", 0), spread(m, tau, strict), zero_like(m, strict));
  hlo t = tt_matrix_triangular_solve(m, scaled, d, false, true);
  if (adjoint) t = tt_matrix_adjoint(m, t);
  hlo inner = tt_matrix_product(m, t, tt_matrix_product_adjoint(m, v, x));
  return sub(m, x, tt_matrix_product(m, v, inner));
}

hlo tt_matrix_reflect(hlo_module *m, hlo packed, hlo tau, hlo x, bool adjoint) {
  if (!packed || !tau) return NULL;
  packed = tt_matrix_block(m, packed, packed->dims[1], tau->dims[1]);
  return reflect(m, reflectors(m, packed, NULL), hlo_unsqueeze(m, tau, 2), x, adjoint);
}

static void qr_panel(hlo_module *m, hlo i, const hlo *in, hlo *out, void *user) {
  const blocked *b = user;
  hlo start = mul(m, i, number(m, PANEL)), next = plus(m, start, PANEL), end = smaller(m, next, number(m, b->k));
  panel p = {start};
  hlo x = in[QR_MATRIX];
  if (!x) return;
  hlo from[QR_VALUES] = {tt_matrix_take(m, x, 2, start, PANEL), in[QR_TAU]}, to[QR_VALUES];
  tt_loop(m, start, end, QR_VALUES, from, qr_column, &p, to);
  hlo tau = tt_matrix_take(m, to[QR_TAU], 1, start, PANEL);
  hlo reflected = reflect(m, reflectors(m, to[QR_MATRIX], start), tau, x, true);
  x = choose(m, hlo_compare(m, "GE", tt_matrix_position(m, x, 2), next), reflected, x);
  out[QR_MATRIX] = tt_matrix_put(m, x, 2, start, to[QR_MATRIX]);
  out[QR_TAU] = to[QR_TAU];
}

tt_qr tt_matrix_qr(hlo_module *m, hlo x) {
  if (!x) return (tt_qr){0};
  int64_t batch = x->dims[0], rows = x->dims[1], columns = x->dims[2], k = least(rows, columns);
  bool is_blocked = k > 2 * PANEL;
  int64_t width = is_blocked ? rounded(columns) : columns, count = is_blocked ? rounded(k) : k;
  hlo in[QR_VALUES] = {tt_matrix_block(m, x, rows, width), hlo_full(m, (tt_dtype)x->dtype, 3, (int64_t[]){batch,
      count, 1}, 0)}, out[QR_VALUES];
  if (is_blocked) {
    blocked b = {k};
    tt_loop(m, number(m, 0), number(m, count / PANEL), QR_VALUES, in, qr_panel, &b, out);
  } else {
    panel p = {NULL};
    tt_loop(m, number(m, 0), number(m, k), QR_VALUES, in, qr_column, &p, out);
  }
  return (tt_qr){tt_matrix_block(m, out[QR_MATRIX], rows, columns),
                 hlo_squeeze_dim(m, tt_matrix_block(m, out[QR_TAU], k, 1), 2)};
}

/* A column's reflector, then one of the columns to its right, which leaves its row two elements. */
static void bidiagonal_column(hlo_module *m, hlo j, const hlo *in, hlo *out, void *user) {
  qr_column(m, j, in, out, user);
  hlo x = out[QR_MATRIX], next = plus(m, j, 1);
  if (!x) return;
  tt_reflector h = tt_reflector_of(m, tt_matrix_adjoint(m, tt_matrix_take(m, x, 1, j, 1)), next);
  hlo turned = mul(m, tt_matrix_product(m, x, h.w), spread(m, h.tau, hlo_slice_dim(m, x, 2, 0, 1, 1)));
  turned = sub(m, x, mul(m, spread(m, turned, x), spread(m, tt_matrix_adjoint(m, h.w), x)));
  out[QR_MATRIX] = choose(m, hlo_compare(m, "GT", tt_matrix_position(m, x, 2), j), turned, x);
}

tt_qr tt_matrix_bidiagonal(hlo_module *m, hlo x) {
  if (!x) return (tt_qr){0};
  int64_t columns = x->dims[2];
  hlo in[QR_VALUES] = {x, hlo_full(m, (tt_dtype)x->dtype, 3, (int64_t[]){x->dims[0], columns, 1}, 0)}, out[QR_VALUES];
  panel p = {NULL};
  tt_loop(m, number(m, 0), number(m, columns), QR_VALUES, in, bidiagonal_column, &p, out);
  return (tt_qr){out[QR_MATRIX], hlo_squeeze_dim(m, out[QR_TAU], 2)};
}
