/* hlo.h: builds one StableHLO module as text, checked while it grows.
 *
 * Values are typed and belong to the module's arena. Errors stick: the first failing call records an error in the
 * module and every builder that is given NULL, or called after an error, returns NULL; so rules are written without
 * checks and hlo_finish reports. Equal constants and iotas are one value. Knows no PJRT and no torch. One thread at a
 * time. */
#ifndef TT_HLO_H
#define TT_HLO_H
#include "tt.h"

typedef struct hlo_module hlo_module;
typedef struct hlo_value {
  uint32_t id;
  uint8_t dtype, rank;     /* tt_dtype */
  const int64_t *dims;     /* rank entries */
  const uint8_t *symbols;  /* NULL, or rank entries: 0, or 1 + the symbol whose value says how much of the dim counts */
} hlo_value;
typedef const hlo_value *hlo;

hlo_module *hlo_module_create(tt_error *err);
void hlo_module_destroy(hlo_module *m); /* accepts NULL */
/* Says that a TPU will run the program: what TPUs lack (quotients, products of matrices and convolutions of 64-bit
 * integers, convolutions of volumes by dilated kernels, Fourier transforms of f64 and of large primes) is written by
 * means of what they have. Such a program runs anywhere, only slower than with a CPU's own operations. For a module
 * that is empty still. */
void hlo_lower_for_tpu(hlo_module *m);
void *hlo_alloc(hlo_module *m, size_t bytes); /* from the arena, zeroed; NULL sticks an error */
/* Sticks an error (the first wins); returns NULL so that builders can return it. */
hlo hlo_fail(hlo_module *m, tt_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool hlo_failed(const hlo_module *m);
void hlo_get_error(const hlo_module *m, tt_error *err);

/* Parameters are numbered in order of creation. */
hlo hlo_parameter(hlo_module *m, tt_dtype t, int rank, const int64_t *dims);
/* Ends the module. donated_to[p] is the result that parameter p gives its memory to, or -1. The text is the arena's. */
const char *hlo_finish(hlo_module *m, int n_results, const hlo *results, const int *donated_to, size_t *length,
                       tt_error *err);

typedef struct hlo_type { tt_dtype dtype; int rank; const int64_t *dims; } hlo_type;

/* ---- functions: programs as parts of another ----
 * The module as a function without a name, for hlo_add_function of another module. The text is the arena's, until the
 * next hlo_finish or hlo_function. */
const char *hlo_function(hlo_module *m, int n_results, const hlo *results, size_t *length, tt_error *err);
int hlo_add_function(hlo_module *m, const char *text, size_t length); /* its number, for hlo_call */
void hlo_call(hlo_module *m, int function, int n, const hlo *xs, int n_results, const hlo_type *types, hlo *results);

int64_t hlo_numel(hlo x); /* 0 for NULL */
bool hlo_same_dims(hlo a, hlo b);

/* ---- constants ---- */
hlo hlo_float(hlo_module *m, tt_dtype t,
              double v); /* rank 0, any dtype; v converted as a C cast would, nan and inf kept */
hlo hlo_int(hlo_module *m, tt_dtype t, int64_t v);              /* rank 0, any dtype; exact for 64-bit integers */
hlo hlo_complex(hlo_module *m, tt_dtype t, double re, double im);
hlo hlo_full(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, double v);
hlo hlo_full_like(hlo_module *m, hlo x, double v);              /* x's dtype and dims */
hlo hlo_array(hlo_module *m, tt_dtype t, int rank, const int64_t *dims,
              const void *data); /* dense literal, printed as hex bytes */
hlo hlo_iota(hlo_module *m, tt_dtype t, int rank, const int64_t *dims, int dim);
/* The limits of t: most negative (-inf for floats) and most positive (+inf) value, rank 0: where max and min start. */
hlo hlo_lowest(hlo_module *m, tt_dtype t);
hlo hlo_highest(hlo_module *m, tt_dtype t);

/* ---- elementwise: operands of equal type; op is StableHLO's name without dialect ("add") or with ("chlo.erf") ----
 * These of chlo are compiled by the tests on both CPU plugins and for TPU, in f32: acos acosh asin asinh atan atanh
 * cosh sinh tan bessel_i1e digamma erf erfc erf_inv lgamma is_inf next_after polygamma zeta top_k. None of them failed
 * anywhere. */
hlo hlo_unary(hlo_module *m, const char *op,
              hlo x); /* result dtype x's; of abs/real/imag of complex, the float; of is_finite, bool */
hlo hlo_binary(hlo_module *m, const char *op, hlo a, hlo b);    /* a rank-0 operand is broadcast to the other's dims */
hlo hlo_compare(hlo_module *m, const char *direction, hlo a,
                hlo b); /* "EQ" "NE" "GE" "GT" "LE" "LT"; rank-0 operands broadcast; gives bool */
hlo hlo_select(hlo_module *m, hlo pred, hlo on_true, hlo on_false);  /* rank-0 operands broadcast */
hlo hlo_clamp(hlo_module *m, hlo lo, hlo x, hlo hi);
/* As torch casts: to bool is != 0, float to int truncates, complex to real takes the real part, real to complex adds 0.
 * No-op if equal. */
hlo hlo_convert(hlo_module *m, hlo x, tt_dtype t);
hlo hlo_bitcast(hlo_module *m, hlo x, tt_dtype t); /* equal widths: same dims; narrower: dims get a last one of the
                                                      ratio; wider: last dim, of the ratio, goes */
hlo hlo_complex_of(hlo_module *m, hlo re, hlo im);
/* a op b for numbers: shorthand for what rules use most; the scalar is made in x's dtype. */
hlo hlo_binary_scalar(hlo_module *m, const char *op, hlo x, double v);

/* ---- shape: all emit nothing when they change nothing ---- */
hlo hlo_reshape(hlo_module *m, hlo x, int rank, const int64_t *dims);
hlo hlo_flatten(hlo_module *m, hlo x);                          /* to rank 1 */
hlo hlo_transpose(hlo_module *m, hlo x, const int *perm);       /* result dim i is x's dim perm[i] */
hlo hlo_broadcast(hlo_module *m, hlo x, int rank, const int64_t *dims,
                  const int *where); /* x's dim i becomes result dim where[i] */
hlo hlo_broadcast_to(hlo_module *m, hlo x, int rank,
                     const int64_t *dims); /* as torch expands: aligned at the last dim, ones repeat */
hlo hlo_slice(hlo_module *m, hlo x, const int64_t *start, const int64_t *limit,
              const int64_t *stride); /* stride NULL: ones */
hlo hlo_slice_dim(hlo_module *m, hlo x, int dim, int64_t start, int64_t limit, int64_t stride);
hlo hlo_dynamic_slice(hlo_module *m, hlo x, const hlo *starts,
                      const int64_t *sizes); /* starts: rank-0 integers of one dtype; clamped */
hlo hlo_dynamic_update_slice(hlo_module *m, hlo x, hlo update, const hlo *starts);
hlo hlo_pad(hlo_module *m, hlo x, hlo value, const int64_t *low, const int64_t *high,
            const int64_t *interior); /* interior NULL: zeros; low, high may be negative */
hlo hlo_concat(hlo_module *m, int n, const hlo *xs, int dim);
hlo hlo_reverse(hlo_module *m, hlo x, int n, const int *dims);
hlo hlo_squeeze_dim(hlo_module *m, hlo x, int dim);             /* a dim of size 1 goes */
hlo hlo_unsqueeze(hlo_module *m, hlo x, int dim);

/* ---- regions: a body builds on rank-0 (or, for while, any) arguments and fills results; user is passed on ---- */
typedef void hlo_body(hlo_module *m, const hlo *args, hlo *results, void *user);

/* One operand reduced with a binary op by name: "add" "multiply" "maximum" "minimum" "and" "or" "xor". Dims are
 * dropped. */
hlo hlo_reduce(hlo_module *m, const char *op, hlo x, hlo init, int n_dims, const int *dims);
/* n operands together; body gets n accumulators then n elements and gives n results. */
void hlo_reduce_n(hlo_module *m, int n, const hlo *xs, const hlo *inits, int n_dims, const int *dims, hlo_body *body,
                  void *user, hlo *results);
typedef struct hlo_window {
  const int64_t *size, *stride, *dilation, *base_dilation, *low, *high;
} hlo_window; /* rank entries each; NULL: ones (pads: zeros) */
void hlo_reduce_window_n(hlo_module *m, int n, const hlo *xs, const hlo *inits, const hlo_window *w, hlo_body *body,
                         void *user, hlo *results);
hlo hlo_reduce_window(hlo_module *m, const char *op, hlo x, hlo init, const hlo_window *w);
hlo hlo_select_and_scatter(hlo_module *m, hlo x, hlo source, hlo init, const char *direction /* "GE" */,
                           const hlo_window *w); /* adds */
/* Sorts n operands together along dim; less gets 2n scalars (a0, b0, a1, b1, ...) and gives one bool. */
void hlo_sort(hlo_module *m, int n, const hlo *xs, int dim, bool stable, hlo_body *less, void *user, hlo *results);
void hlo_while(hlo_module *m, int n, const hlo *inits, hlo_body *cond, hlo_body *body, void *user, hlo *results);
void hlo_if(hlo_module *m, hlo pred, hlo_body *on_true, hlo_body *on_false, void *user, int n,
            hlo *results); /* bodies get no args */

typedef struct hlo_gather_dims {
  int n_offset, n_collapsed, n_start, index_vector_dim;
  const int *offset, *collapsed, *start_index_map;
  const int64_t *slice_sizes;
  bool sorted;
} hlo_gather_dims;
hlo hlo_gather(hlo_module *m, hlo x, hlo indices, const hlo_gather_dims *d);
typedef struct hlo_scatter_dims {
  int n_update_window, n_inserted, n_scatter, index_vector_dim;
  const int *update_window, *inserted, *scatter_to_operand;
  bool sorted, unique;
} hlo_scatter_dims;
/* op: as hlo_reduce, or "replace". Indices out of range write nothing. */
hlo hlo_scatter(hlo_module *m, const char *op, hlo x, hlo indices, hlo updates, const hlo_scatter_dims *d);

/* ---- between the replicas of a program (collective.c) ---- ids: count rows of size replicas, which are all there are
 */
typedef struct hlo_groups { int64_t count, size; const int64_t *ids; } hlo_groups;
hlo hlo_all_reduce(hlo_module *m, const char *op /* as hlo_reduce */, hlo x, const hlo_groups *g);
hlo hlo_reduce_scatter(hlo_module *m, const char *op, hlo x, int dim, const hlo_groups *g);
hlo hlo_all_gather(hlo_module *m, hlo x, int dim, const hlo_groups *g);
hlo hlo_all_to_all(hlo_module *m, hlo x, int split, int concat, const hlo_groups *g);
hlo hlo_collective_broadcast(hlo_module *m, hlo x, const hlo_groups *g); /* from the first of each group */
hlo hlo_collective_permute(hlo_module *m, hlo x, int n, const int64_t *from, const int64_t *to);

/* ---- contractions ---- precision: 0 highest, 1 high, 2 default */
typedef struct hlo_dot_dims {
  int n_batch, n_contract;
  const int *lhs_batch, *rhs_batch, *lhs_contract, *rhs_contract;
} hlo_dot_dims;
hlo hlo_dot(hlo_module *m, hlo a, hlo b, const hlo_dot_dims *d, int precision, tt_dtype result);
typedef struct hlo_conv_dims { /* layouts are given as positions: [0] batch, [1] feature, then spatial */
  int n_spatial;
  const int *input, *kernel /* [0] output feature, [1] input feature */, *output;
  const int64_t *stride, *low, *high, *lhs_dilation, *rhs_dilation;
  const bool *reversal; /* window reversal, NULL: none */
  int64_t feature_groups, batch_groups;
} hlo_conv_dims;
hlo hlo_convolution(hlo_module *m, hlo x, hlo kernel, const hlo_conv_dims *d, int precision, tt_dtype result);

/* ---- sizes known at run time (sized.c) ---- */
/* size gives a symbol's value, rank 0 of i32. Before the first marked value. */
void hlo_set_sizes(hlo_module *m, hlo (*size)(void *user, int symbol), void *user);
hlo hlo_mark(hlo_module *m, hlo x, const uint8_t *symbols); /* x, with these marks: x->rank entries */
bool hlo_is_sized(hlo x); /* has a marked dim */
/* A dim's symbol may stand for several dims that a reshape has made one: row-major, each with a symbol of its own or 0.
 */
enum { HLO_FACTORS = 8 };
typedef struct hlo_factor { int64_t extent; uint8_t symbol; } hlo_factor;
bool hlo_is_composite(uint8_t symbol);
/* of a dim: at most HLO_FACTORS; returns how many */
int hlo_factors(const hlo_module *m, int64_t dim, uint8_t symbol, hlo_factor *out);
/* the other way. False with an error */
bool hlo_compose(hlo_module *m, int n, const hlo_factor *factors, uint8_t *symbol);
int hlo_composed(const hlo_module *m); /* how often that was asked for */
/* x with fill, rank 0, in all that does not count along dims; x itself if that is nothing. */
hlo hlo_mask(hlo_module *m, hlo x, int n_dims, const int *dims, hlo fill);
/* How many elements of dims count, as a number of t. */
hlo hlo_count(hlo_module *m, hlo x, int n_dims, const int *dims, tt_dtype t);
/* Concatenation to a dim of length places, of which all xs together fill a beginning; rest is garbage. */
hlo hlo_concat_sized(hlo_module *m, int n, const hlo *xs, int dim, int64_t length);

/* ---- the rest ---- */
/* The same values, which the compiler neither moves across each other nor merges with what it knew them by. */
void hlo_optimization_barrier(hlo_module *m, int n, const hlo *xs, hlo *results);
/* Random bits by counter (THREE_FRY): state is ui64[2], t an unsigned dtype. *state_out, which may be NULL, gets the
 * next state. */
hlo hlo_random_bits(hlo_module *m, hlo state, tt_dtype t, int rank, const int64_t *dims, hlo *state_out);
/* The k largest along the last dim, in decreasing order, with their positions (i32). */
void hlo_top_k(hlo_module *m, hlo x, int64_t k, hlo *values, hlo *indices);
hlo hlo_fft(hlo_module *m, hlo x, const char *type /* "FFT" "IFFT" "RFFT" "IRFFT" */, int n, const int64_t *length);
hlo hlo_cholesky(hlo_module *m, hlo x, bool lower);
hlo hlo_triangular_solve(hlo_module *m, hlo a, hlo b, bool left, bool lower, bool unit,
                         const char *transpose /* "NO_TRANSPOSE" "TRANSPOSE" "ADJOINT" */);
void hlo_custom_call(hlo_module *m, const char *target, int n, const hlo *xs, const char *backend_config, int n_results,
                     const hlo_type *types, hlo *results);
#endif
