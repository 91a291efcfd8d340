/* schur.c: the Schur form by Hessenberg reduction and implicitly shifted QR, as LAPACK's lahqr does it.
 *
 * Real matrices take double shifts and keep 2 by 2 blocks, complex ones take single shifts; tests, shifts and the place
 * where a sweep starts are lahqr's, so that eigenvalues come in its order, but for its exceptional shifts, which are
 * always taken at the bottom here. (LAPACK itself leaves lahqr for another method, and order, above 75 rows.) All
 * matrices of a batch go in step: each has its own active block, rows first .. last, and a sweep's loop runs over the
 * rows that any of them needs. The matrix lies above its basis in one array, since both are multiplied from the right
 * alike; one row and column of zeros let a reflector of three elements stand at the end. Matrices are not balanced
 * first. */
#include "ops/index.h"
#include "ops/schur.h"

#include <float.h>

#include "ops/jacobi.h"
#include "ops/linalg.h"
#include "ops/math.h"

/* of the matrix; its array has n + 1 rows and columns, then the basis */
typedef struct shape { int64_t n; bool real; } shape;

static hlo number(hlo_module *m, int64_t i) { return hlo_int(m, TT_I32, i); }
static hlo zero_like(hlo_module *m, hlo x) { return constant_like(m, x, 0); }
static hlo size1(hlo_module *m, hlo x) { return tt_matrix_abs1(m, x); }
static hlo same_as(hlo_module *m, hlo x, hlo like) { return like ? hlo_convert(m, x, (tt_dtype)like->dtype) : NULL; }

/* ---- what reflectors I - tau w w^H do ---- */
/* conj(tau) w (w^H rows), and tau (columns w) w^H: what is subtracted. */
static hlo from_left(hlo_module *m, hlo w, hlo tau, hlo rows) {
  if (!rows) return NULL;
  int64_t r = rows->dims[1], c = rows->dims[2];
  hlo sum = tt_matrix_sum(m, mul(m, tt_matrix_spread(m, tt_matrix_conj(m, w), r, c), rows), 1);
  sum = mul(m, sum, tt_matrix_spread(m, tt_matrix_conj(m, tau), 1, c));
  return mul(m, tt_matrix_spread(m, w, r, c), tt_matrix_spread(m, sum, r, c));
}
static hlo from_right(hlo_module *m, hlo w, hlo tau, hlo columns) {
  if (!columns) return NULL;
  int64_t r = columns->dims[1], c = columns->dims[2];
  hlo across = tt_matrix_transpose(m, w);
  hlo sum = tt_matrix_sum(m, mul(m, columns, tt_matrix_spread(m, across, r, c)), 2);
  sum = mul(m, sum, tt_matrix_spread(m, tau, r, 1));
  return mul(m, tt_matrix_spread(m, sum, r, c), tt_matrix_spread(m, tt_matrix_conj(m, across), r, c));
}

/* Column k of the matrix made zero below the subdiagonal (gehrd's step). */
static void reduce_column(hlo_module *m, hlo k, const hlo *in, hlo *out, void *user) {
  const shape *s = user;
  hlo all = in[0], next = plus(m, k, 1);
  if (!all) return;
  hlo h = hlo_slice_dim(m, all, 1, 0, s->n + 1, 1);
  tt_reflector f = tt_reflector_of(m, tt_matrix_take(m, h, 2, k, 1), next);
  h = sub(m, h, from_left(m, f.w, f.tau, h));
  hlo row = tt_matrix_position(m, h, 1), here = hlo_compare(m, "EQ", tt_matrix_position(m, h, 2), k);
  hlo beta = tt_matrix_spread(m, f.beta, s->n + 1, s->n + 1);
  h = choose(m, both(m, here, hlo_compare(m, "EQ", row, next)), beta, h);
  h = choose(m, both(m, here, hlo_compare(m, "GT", row, next)), zero_like(m, h), h);
  all = hlo_dynamic_update_slice(m, all, h, (hlo[]){number(m, 0), number(m, 0), number(m, 0)});
  out[0] = sub(m, all, from_right(m, f.w, f.tau, all));
}

/* ---- vectors [batch, n] of bands ---- */
hlo tt_ahead(hlo_module *m, hlo v, int64_t by) {
  return tt_moved(m, v, 1, -by, zero_like(m, v));
}
tt_bands tt_matrix_bands(hlo_module *m, hlo h) {
  if (!h) return (tt_bands){0};
  int64_t n = h->dims[1];
  hlo low = hlo_slice_dim(m, hlo_slice_dim(m, h, 1, 1, n, 1), 2, 0, n - 1, 1);
  hlo high = hlo_slice_dim(m, hlo_slice_dim(m, h, 1, 0, n - 1, 1), 2, 1, n, 1);
  int64_t one[2] = {0, 1}, none[2] = {0, 0};
  return (tt_bands){tt_matrix_diagonal(m, h), hlo_pad(m, tt_matrix_diagonal(m, low), zero_like(m, h), one, none, NULL),
                    hlo_pad(m, tt_matrix_diagonal(m, high), zero_like(m, h), one, none, NULL)};
}
static hlo place_of(hlo_module *m, hlo v) { return v ? hlo_iota(m, TT_I32, 2, v->dims, 1) : NULL; }
static hlo wide(hlo_module *m, hlo v, hlo like) { /* [batch] as [batch, n] */
  return like ? hlo_broadcast(m, v, 2, like->dims, (int[]){0}) : NULL;
}
static hlo pick(hlo_module *m, hlo v, hlo at) { /* v[b, at[b]] */
  hlo there = hlo_compare(m, "EQ", place_of(m, v), wide(m, at, v));
  return tt_sum_last(m, choose(m, there, v, zero_like(m, v)), 1);
}
static hlo last_true(hlo_module *m, hlo p) { /* the greatest place where p holds; 0 if none */
  hlo at = choose(m, p, place_of(m, p), number(m, 0));
  return hlo_reduce(m, "maximum", at, number(m, 0), 1, (int[]){1});
}

/* Where the element below the diagonal may be taken for zero (lahqr's tests; Ahues & Tisseur). */
static hlo negligible(hlo_module *m, tt_bands b, double ulp, double tiny) {
  hlo here = size1(m, b.on), before = size1(m, tt_ahead(m, b.on, -1)), below = size1(m, b.below),
      above = size1(m, b.above);
  hlo near = add(m, here, before),
      beside = add(m, size1(m, tt_ahead(m, b.below, -1)), size1(m, tt_ahead(m, b.below, 1)));
  near = choose(m, is(m, near, 0), beside, near);
  hlo more = larger(m, below, above), less = smaller(m, below, above);
  hlo apart = size1(m, sub(m, tt_ahead(m, b.on, -1), b.on)), aa = larger(m, here, apart), bb = smaller(m, here, apart);
  hlo sum = add(m, aa, more);
  sum = choose_number(m, is(m, sum, 0), 1, sum);
  hlo fine = hlo_compare(m, "LE", mul(m, less, quo(m, more, sum)),
                         larger(m, times(m, mul(m, bb, quo(m, aa, sum)), ulp), constant_like(m, bb, tiny)));
  hlo small = both(m, hlo_compare(m, "LE", below, times(m, near, ulp)), fine);
  return either(m, small, hlo_compare(m, "LE", below, constant_like(m, below, tiny)));
}

/* ---- sweeps ---- */
/* the vector to start with, at row first of the block that ends at last */
typedef struct sweep { int64_t n; hlo start, first, last; } sweep;

static void chase(hlo_module *m, hlo k, const hlo *in, hlo *out, void *user) {
  const sweep *s = user;
  hlo all = in[0], zero = number(m, 0), before = sub(m, k, number(m, 1));
  if (!all) return;
  hlo rows = tt_matrix_take(m, all, 1, k, 3), is_first = hlo_compare(m, "EQ", k, s->first);
  hlo active = both(m, hlo_compare(m, "GE", k, s->first), hlo_compare(m, "LT", k, s->last));
  hlo x = tt_matrix_take(m, rows, 2, larger(m, before, zero), 1);
  x = choose(m, tt_matrix_spread(m, is_first, 3, 1), s->start, x);
  tt_reflector f = tt_reflector_of(m, x, zero);
  hlo tau = choose(m, tt_matrix_spread(m, active, 1, 1), f.tau, zero_like(m, f.tau));
  int64_t width = s->n + 1;
  hlo turned = sub(m, rows, from_left(m, f.w, tau, rows));
  hlo top = hlo_compare(m, "EQ", tt_matrix_position(m, rows, 1), zero), beta = tt_matrix_spread(m, f.beta, 3, width);
  hlo column = choose(m, top, choose(m, tt_matrix_spread(m, is_first, 3, width), turned, beta), zero_like(m, rows));
  hlo there =
      both(m, tt_matrix_spread(m, active, 3, width), hlo_compare(m, "EQ", tt_matrix_position(m, rows, 2), before));
  all = tt_matrix_put(m, all, 1, k, choose(m, there, column, turned));
  hlo columns = tt_matrix_take(m, all, 2, k, 3);
  out[0] = tt_matrix_put(m, all, 2, k, sub(m, columns, from_right(m, f.w, tau, columns)));
}

/* Where a sweep over rows from .. last starts, and the vector it starts with: [batch], [batch, 3, 1]. */
typedef struct opening { hlo at, vector; } opening;

static hlo as_vector(hlo_module *m, hlo a, hlo b, hlo c, hlo at) { /* [batch, n] each: the elements at at */
  hlo parts[3] = {a, b, c};
  for (int i = 0; i < 3; i++) parts[i] = hlo_unsqueeze(m, pick(m, parts[i], at), 1);
  return hlo_unsqueeze(m, hlo_concat(m, 3, parts, 1), 2);
}

static hlo within(hlo_module *m, hlo v, hlo from, hlo to) {
  return both(m, hlo_compare(m, "GE", place_of(m, v), wide(m, from, v)),
              hlo_compare(m, "LE", place_of(m, v), wide(m, to, v)));
}

static opening open_real(hlo_module *m, tt_bands b, hlo from, hlo last, hlo exceptional, double ulp) {
  hlo one = number(m, 1), previous = sub(m, last, one), under = absolute(m, b.below);
  hlo h11 = pick(m, b.on, previous), h21 = pick(m, b.below, last), h12 = pick(m, b.above, last),
      h22 = pick(m, b.on, last);
  hlo s = add(m, absolute(m, h21), pick(m, under, previous)), shifted = add(m, h22, times(m, s, 0.75));
  h11 = choose(m, exceptional, shifted, h11), h22 = choose(m, exceptional, shifted, h22);
  h12 = choose(m, exceptional, times(m, s, -0.4375), h12), h21 = choose(m, exceptional, s, h21);
  s = add(m, add(m, absolute(m, h11), absolute(m, h12)), add(m, absolute(m, h21), absolute(m, h22)));
  hlo unit = choose_number(m, is(m, s, 0), 1, s);
  h11 = quo(m, h11, unit), h12 = quo(m, h12, unit), h21 = quo(m, h21, unit), h22 = quo(m, h22, unit);
  hlo mean = times(m, add(m, h11, h22), 0.5);
  hlo det = sub(m, mul(m, sub(m, h11, mean), sub(m, h22, mean)), mul(m, h12, h21)), away = root(m, absolute(m, det));
  hlo complex = hlo_compare(m, "GE", det, zero_like(m, det)), up = add(m, mean, away), down = sub(m, mean, away);
  hlo nearer = hlo_compare(m, "LE", absolute(m, sub(m, up, h22)), absolute(m, sub(m, down, h22)));
  hlo re = mul(m, s, choose(m, complex, mean, choose(m, nearer, up, down)));
  hlo im = mul(m, s, choose(m, complex, away, zero_like(m, away)));
  /* The first column of (H - shift)(H - its conjugate, or the shift again) from each row on. */
  hlo here = b.on, next = tt_ahead(m, here, 1), below = tt_ahead(m, b.below, 1);
  re = wide(m, re, here), im = wide(m, im, here);
  hlo off = sub(m, here, re), scale = add(m, add(m, absolute(m, off), absolute(m, im)), absolute(m, below));
  scale = choose_number(m, is(m, scale, 0), 1, scale);
  hlo low = quo(m, below, scale);
  hlo v1 = add(m, mul(m, low, tt_ahead(m, b.above, 1)),
               add(m, mul(m, off, quo(m, off, scale)), mul(m, im, quo(m, im, scale))));
  hlo v2 = mul(m, low, add(m, off, sub(m, next, re))), v3 = mul(m, low, tt_ahead(m, b.below, 2));
  scale = add(m, absolute(m, v1), add(m, absolute(m, v2), absolute(m, v3)));
  scale = choose_number(m, is(m, scale, 0), 1, scale);
  v1 = quo(m, v1, scale), v2 = quo(m, v2, scale), v3 = quo(m, v3, scale);
  hlo around = add(m, absolute(m, tt_ahead(m, here, -1)), add(m, absolute(m, here), absolute(m, next)));
  hlo small = hlo_compare(m, "LE", mul(m, under, add(m, absolute(m, v2), absolute(m, v3))),
                          times(m, mul(m, absolute(m, v1), around), ulp));
  small = either(m, small, hlo_compare(m, "EQ", place_of(m, here), wide(m, from, here)));
  hlo at = last_true(m, both(m, small, within(m, here, from, sub(m, last, number(m, 2)))));
  return (opening){at, as_vector(m, v1, v2, v3, at)};
}

static opening open_complex(hlo_module *m, tt_bands b, hlo from, hlo last, hlo exceptional, double ulp) {
  hlo previous = sub(m, last, number(m, 1)), low = pick(m, b.below, last), end = pick(m, b.on, last);
  hlo u = mul(m, root(m, pick(m, b.above, last)), root(m, low)),
      x = times(m, sub(m, pick(m, b.on, previous), end), 0.5);
  hlo sx = size1(m, x), su = size1(m, u), s = larger(m, su, sx);
  hlo unit = same_as(m, choose_number(m, is(m, s, 0), 1, s), u);
  hlo xs = quo(m, x, unit), us = quo(m, u, unit), y = mul(m, unit, root(m, add(m, mul(m, xs, xs), mul(m, us, us))));
  hlo agree = tt_real_part(m, mul(m, tt_matrix_conj(m, xs), y));
  y = choose(m, is_below(m, agree, 0), neg(m, y), y);
  hlo plain = is(m, su, 0), sum = choose(m, plain, constant_like(m, u, 1), add(m, x, y));
  hlo t = choose(m, plain, end, sub(m, end, mul(m, u, quo(m, u, sum))));
  hlo moved = add(m, end, same_as(m, times(m, absolute(m, low), 0.75), u));
  t = choose(m, exceptional, moved, t);
  hlo here = b.on, off = sub(m, here, wide(m, t, here)), below = tt_ahead(m, b.below, 1);
  hlo scale = add(m, size1(m, off), size1(m, below));
  scale = same_as(m, choose_number(m, is(m, scale, 0), 1, scale), here);
  hlo v1 = quo(m, off, scale), v2 = quo(m, below, scale);
  hlo around = add(m, size1(m, here), size1(m, tt_ahead(m, here, 1)));
  hlo small =
      hlo_compare(m, "LE", mul(m, size1(m, b.below), size1(m, v2)), times(m, mul(m, size1(m, v1), around), ulp));
  small = either(m, small, hlo_compare(m, "EQ", place_of(m, here), wide(m, from, here)));
  hlo at = last_true(m, both(m, small, within(m, here, from, previous)));
  return (opening){at, as_vector(m, v1, v2, here ? hlo_full_like(m, here, 0) : NULL, at)};
}

/* State: turns, array, last row of the active block (-1: done), turns since something split off. */
static void one_turn(hlo_module *m, const hlo *s, hlo *r, void *user) {
  const shape *a = user;
  hlo all = s[1], last = s[2];
  if (!all || !last) return;
  hlo h = hlo_slice_dim(m, hlo_slice_dim(m, all, 1, 0, a->n, 1), 2, 0, a->n, 1);
  double ulp = tt_epsilon((tt_dtype)all->dtype);
  double least = ulp == DBL_EPSILON ? DBL_MIN : FLT_MIN;
  tt_bands b = tt_matrix_bands(m, h);
  hlo small = both(m, negligible(m, b, ulp, least * ((double)a->n / ulp)),
                   hlo_compare(m, "LE", place_of(m, b.on), wide(m, last, b.on)));
  hlo from = last_true(m, small); /* place 0 has nothing below it */
  /* What split off is zero from here on. */
  hlo cut = tt_matrix_spread(m, from, all->dims[1], a->n + 1);
  hlo row = tt_matrix_position(m, all, 1), place = tt_matrix_position(m, all, 2);
  cut = both(m, hlo_compare(m, "EQ", row, cut), hlo_compare(m, "EQ", plus(m, place, 1), cut));
  all = choose(m, cut, zero_like(m, all), all);
  hlo done = hlo_compare(m, "GE", from, sub(m, last, number(m, a->real ? 1 : 0)));
  hlo count = plus(m, s[3], 1), exceptional = is(m, hlo_binary(m, "remainder", count, number(m, 10)), 0);
  opening o = (a->real ? open_real : open_complex)(m, b, from, last, exceptional, ulp);
  hlo nowhere = number(m, a->n);
  sweep w = {a->n, o.vector, choose(m, done, nowhere, o.at), choose(m, done, number(m, 0), last)};
  hlo begin = hlo_reduce(m, "minimum", w.first, nowhere, 1, (int[]){0}),
      end = hlo_reduce(m, "maximum", w.last, number(m, 0), 1, (int[]){0});
  tt_loop(m, begin, end, 1, &all, chase, &w, &all);
  r[0] = plus(m, s[0], 1), r[1] = all;
  r[2] = choose(m, done, sub(m, from, number(m, 1)), last);
  r[3] = choose(m, done, number(m, 0), count);
}
static void more_turns(hlo_module *m, const hlo *s, hlo *r, void *user) {
  const shape *a = user;
  r[0] = both(m, is_below(m, s[0], 30 * (double)(a->n > 10 ? a->n : 10)),
              any(m, hlo_compare(m, "GE", s[2], number(m, 0))));
}

tt_schur tt_matrix_schur(hlo_module *m, hlo a, bool with_basis) {
  if (!a) return (tt_schur){0};
  tt_dtype t = (tt_dtype)a->dtype;
  int64_t batch = a->dims[0], n = a->dims[1];
  if (n == 1) return (tt_schur){a, with_basis ? tt_matrix_identity(m, t, batch, 1, 1) : NULL, NULL};
  shape s = {n, !tt_is_complex(t)};
  hlo all = tt_matrix_block(m, a, n + 1, n + 1);
  if (with_basis) all = hlo_concat(m, 2, (hlo[]){all, tt_matrix_identity(m, t, batch, n, n + 1)}, 1);
  if (n > 2) tt_loop(m, number(m, 0), number(m, n - 2), 1, &all, reduce_column, &s, &all);
  hlo in[4] = {number(m, 0), all, hlo_full(m, TT_I32, 1, &batch, (double)n - 1), hlo_full(m, TT_I32, 1, &batch, 0)},
      out[4] = {0};
  hlo_while(m, 4, in, more_turns, one_turn, &s, out);
  hlo form = hlo_slice_dim(m, hlo_slice_dim(m, out[1], 1, 0, n, 1), 2, 0, n, 1);
  hlo basis = with_basis ? hlo_slice_dim(m, hlo_slice_dim(m, out[1], 1, n + 1, 2 * n + 1, 1), 2, 0, n, 1) : NULL;
  return (tt_schur){form, basis, hlo_compare(m, "GE", out[2], number(m, 0))};
}
