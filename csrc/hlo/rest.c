/* rest.c: random bits, Fourier transforms, factorisations and custom calls: operations that fit no family.
 *
 * Each is one StableHLO operation with its result dims worked out. Custom calls name code that lives in a plugin: which
 * plugin has which is the caller's business. */
#include "hlo/module.h"

void hlo_optimization_barrier(hlo_module *m, int n, const hlo *xs, hlo *results) {
  for (int i = 0; i < n; i++) results[i] = NULL;
  hlo *made = hlo_alloc(m, (size_t)n * sizeof *made);
  if (!made || !hlo_ready(m, "optimization_barrier", n, xs)) return;
  for (int i = 0; i < n; i++)
    if (!(made[i] = hlo_new(m, xs[i]->dtype, xs[i]->rank, xs[i]->dims))) return;
  hlo_open_generic(m, "optimization_barrier", n, made, n, xs);
  hlo_put_signature(m, n, xs, n, made);
  memcpy(results, made, (size_t)n * sizeof *results);
}

hlo hlo_random_bits(hlo_module *m, hlo state, tt_dtype t, int rank, const int64_t *dims, hlo *state_out) {
  if (state_out) *state_out = NULL;
  if (!hlo_ready(m, "rng_bit_generator", 1, &state)) return NULL;
  if (state->dtype != TT_U64 || state->rank != 1 || state->dims[0] != 2)
    return hlo_fail(m, TT_INTERNAL, "hlo rng_bit_generator: expected a state of ui64[2], got %s of rank %d",
                    tt_dtype_hlo(state->dtype), state->rank);
  if (t < TT_U8 || t > TT_U64)
    return hlo_fail(m, TT_INTERNAL, "hlo rng_bit_generator: expected an unsigned dtype, got %s", tt_dtype_name(t));
  hlo made[2];
  made[0] = hlo_new(m, TT_U64, 1, state->dims);
  made[1] = hlo_new(m, t == TT_U64 ? TT_U64 : TT_U32, rank, dims); /* narrower words are not drawn everywhere */
  if (!made[0] || !made[1]) return NULL;
  hlo_open_generic(m, "rng_bit_generator", 2, made, 1, &state);
  hlo_put(m, " {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}");
  hlo_put_signature(m, 1, &state, 2, made);
  if (state_out) *state_out = made[0];
  return hlo_convert(m, made[1], t);
}

void hlo_top_k(hlo_module *m, hlo x, int64_t k, hlo *values, hlo *indices) {
  *values = *indices = NULL;
  if (!hlo_ready(m, "top_k", 1, &x)) return;
  int last = x->rank - 1;
  if (last < 0 || k < 0 || k > x->dims[last]) {
    hlo_fail(m, TT_INTERNAL, "hlo top_k: %lld elements do not fit the last dim", (long long)k);
    return;
  }
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[last] = k;
  hlo made[2];
  made[0] = hlo_new(m, x->dtype, x->rank, dims);
  made[1] = hlo_new(m, TT_I32, x->rank, dims);
  if (!made[0] || !made[1]) return;
  hlo_open_generic(m, "chlo.top_k", 2, made, 1, &x);
  hlo_put(m, " {k = ");
  hlo_put_int(m, k);
  hlo_put(m, " : i64}");
  hlo_put_signature(m, 1, &x, 2, made);
  *values = made[0];
  *indices = made[1];
}

hlo hlo_fft(hlo_module *m, hlo x, const char *type, int n, const int64_t *length) {
  if (!hlo_ready(m, "fft", 1, &x)) return NULL;
  if (n < 1 || n > 3 || n > x->rank) return hlo_fail(m, TT_INTERNAL, "hlo fft: %d dims do not fit rank %d", n, x->rank);
  bool large = false, to_complex = !strcmp(type, "RFFT"), to_real = !strcmp(type, "IRFFT");
  tt_dtype t = (tt_dtype)x->dtype;
  bool real = t == TT_F32 || t == TT_F64, complex = t == TT_C64 || t == TT_C128;
  if (to_complex ? !real : !complex)
    return hlo_fail(m, TT_INTERNAL, "hlo fft: %s does not take %s", type, tt_dtype_hlo(t));
  int64_t dims[HLO_MAX_RANK];
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  for (int i = 0; i < n; i++) {
    int at = x->rank - n + i;
    bool half = i == n - 1 && to_real;
    if (x->dims[at] != (half ? length[i] / 2 + 1 : length[i]))
      return hlo_fail(m, TT_INTERNAL, "hlo fft: dim %d of size %lld does not fit length %lld", at,
                      (long long)x->dims[at], (long long)length[i]);
    dims[at] = i == n - 1 && to_complex ? length[i] / 2 + 1 : length[i];
    large = large || hlo_dft_is_large(length[i]);
  }
  if (m->for_tpu && (large || t == TT_F64 || t == TT_C128)) return hlo_dft(m, x, type, n, length);
  if (to_complex) t = t == TT_F32 ? TT_C64 : TT_C128;
  if (to_real) t = t == TT_C64 ? TT_F32 : TT_F64;
  hlo r = hlo_new(m, t, x->rank, dims);
  if (!r) return NULL;
  hlo_open_generic(m, "fft", 1, &r, 1, &x);
  hlo_put(m, " {fft_type = #stablehlo<fft_type ");
  hlo_put(m, type);
  hlo_put_array(m, ">, fft_length = ", n, length, 0);
  hlo_put(m, "}");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}

static bool is_square(hlo x) { return x->rank >= 2 && x->dims[x->rank - 1] == x->dims[x->rank - 2]; }

hlo hlo_cholesky(hlo_module *m, hlo x, bool lower) {
  if (!hlo_ready(m, "cholesky", 1, &x)) return NULL;
  if (!is_square(x)) return hlo_fail(m, TT_INTERNAL, "hlo cholesky: expected square matrices");
  hlo r = hlo_new(m, x->dtype, x->rank, x->dims);
  if (!r) return NULL;
  hlo_open_generic(m, "cholesky", 1, &r, 1, &x);
  hlo_put(m, lower ? " {lower = true}" : " {lower = false}");
  hlo_put_signature(m, 1, &x, 1, &r);
  return r;
}

hlo hlo_triangular_solve(hlo_module *m, hlo a, hlo b, bool left, bool lower, bool unit, const char *transpose) {
  hlo xs[] = {a, b};
  if (!hlo_ready(m, "triangular_solve", 2, xs)) return NULL;
  bool fits = is_square(a) && a->rank == b->rank && a->dtype == b->dtype;
  for (int i = 0; fits && i < a->rank - 2; i++) fits = a->dims[i] == b->dims[i];
  if (!fits || b->dims[b->rank - (left ? 2 : 1)] != a->dims[a->rank - 1])
    return hlo_mismatch(m, "triangular_solve", a, b);
  hlo r = hlo_new(m, b->dtype, b->rank, b->dims);
  if (!r) return NULL;
  hlo_open_generic(m, "triangular_solve", 1, &r, 2, xs);
  hlo_put(m, left ? " {left_side = true" : " {left_side = false");
  hlo_put(m, lower ? ", lower = true" : ", lower = false");
  hlo_put(m, unit ? ", unit_diagonal = true" : ", unit_diagonal = false");
  hlo_put(m, ", transpose_a = #stablehlo<transpose ");
  hlo_put(m, transpose);
  hlo_put(m, ">}");
  hlo_put_signature(m, 2, xs, 1, &r);
  return r;
}

/* An MLIR string literal. */
static void put_string(hlo_module *m, const char *text) {
  hlo_put(m, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    char escaped[4] = {'\\', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15], 0};
    if (c < 32 || c == '"' || c == '\\' || c > 126) hlo_put(m, escaped);
    else tt_buf_append(&m->text, text, 1);
  }
  hlo_put(m, "\"");
}

void hlo_custom_call(hlo_module *m, const char *target, int n, const hlo *xs, const char *backend_config, int n_results,
                     const hlo_type *types, hlo *results) {
  for (int i = 0; i < n_results; i++) results[i] = NULL;
  if (!hlo_ready(m, "custom_call", n, xs)) return;
  hlo *made = hlo_alloc(m, (size_t)n_results * sizeof *made);
  if (!made) return;
  for (int i = 0; i < n_results; i++)
    if (!(made[i] = hlo_new(m, types[i].dtype, types[i].rank, types[i].dims))) return;
  if (n_results == 0) {
    hlo_fail(m, TT_INTERNAL, "hlo custom_call: %s has no results", target);
    return;
  }
  hlo_open_generic(m, "custom_call", n_results, made, n, xs);
  hlo_put(m, " {call_target_name = ");
  put_string(m, target);
  if (backend_config && *backend_config) {
    hlo_put(m, ", backend_config = ");
    put_string(m, backend_config);
  }
  hlo_put(m, "}");
  hlo_put_signature(m, n, xs, n_results, made);
  memcpy(results, made, (size_t)n_results * sizeof *results);
}
