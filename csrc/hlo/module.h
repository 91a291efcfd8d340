/* module.h: what the files of hlo/ share: the module's insides and how an operation is printed.
 *
 * A builder checks its operands (hlo_ready), makes its result values (hlo_new), opens a line (hlo_open), puts the
 * operation's text and closes the line. The text grows in one buffer in program order, regions nested in it, so nothing
 * is ever moved or visited again. For files of hlo/ only. */
#ifndef TT_HLO_MODULE_H
#define TT_HLO_MODULE_H
#include <string.h>

#include "base/base.h"
#include "hlo/hlo.h"

/* More dims than any tensor of torch has: gathers and views work on refined shapes. */
enum { HLO_MAX_RANK = 4 * TT_MAX_RANK };

typedef struct hlo_node {
  hlo_value value;   /* first: an hlo is a pointer to its node */
  uint32_t scope;    /* where it was made: it may be used there and, unless a region is isolated, inside */
  bool parameter;    /* printed %argN instead of %N */
  hlo moved; /* of a reshape or a transpose in a module that shares: what it moves, of the same scope; else NULL */
  const int *perm;   /* how a transpose does */
} hlo_node;

typedef struct hlo_scope {
  const struct hlo_scope *outer;
  uint32_t id;
  bool isolated;     /* the bodies of reductions, sorts and scatters may not use values from outside */
} hlo_scope;

typedef struct hlo_composite { int n; hlo_factor factors[HLO_FACTORS]; } hlo_composite;

typedef struct hlo_interned { uint64_t hash; size_t start, length; uint32_t scope; hlo value; } hlo_interned;

/* The lines from byte `from` of the body on come from location, a whole attribute, or nowhere. */
typedef struct hlo_origin { size_t from; const char *location; } hlo_origin;

struct hlo_module {
  bool for_tpu, shares;
  struct { hlo a, b, quotient; uint32_t scope; } divided; /* the last of 64-bit integers, for its remainder */
  tt_arena arena;
  tt_buf text, finished;
  tt_buf functions;  /* besides main, printed */
  int n_functions;
  const struct hlo_foreign **foreign; /* what it calls of others' (foreign.h) */
  uint32_t n_foreign, cap_foreign;
  hlo_origin *origins;   /* by place (lines.c) */
  size_t n_origins, cap_origins;
  tt_error error;
  hlo_scope main;
  const hlo_scope *scope;
  uint32_t next_id, next_scope;
  int depth;
  hlo *parameters;
  int n_parameters, cap_parameters;
  hlo (*size)(void *user, int symbol);
  void *size_user;
  hlo_composite *composites;
  int n_composites, n_composed;
  hlo_interned *interned; /* open addressing; cap_interned is a power of two */
  size_t n_interned, cap_interned;
};

/* True if the module has no error, and all values are there and may be used here. op is for the message. */
bool hlo_ready(hlo_module *m, const char *op, int n, const hlo *xs); /* refuses values of run-time sizes */
bool hlo_ready_sized(hlo_module *m, const char *op, int n, const hlo *xs); /* takes them */
hlo hlo_new(hlo_module *m, tt_dtype t, int rank, const int64_t *dims);
/* Sticks "hlo op: expected WANT, got GOT". */
hlo hlo_mismatch(hlo_module *m, const char *op, hlo want, hlo got);
/* True if both have the same dtype and dims; else the error above sticks. */
bool hlo_agree(hlo_module *m, const char *op, hlo want, hlo got);
/* True if 0 <= dim < rank; else an error sticks. */
bool hlo_check_dim(hlo_module *m, const char *op, int64_t dim, int rank);

/* ---- what TPUs lack; operands are checked already ---- */
bool hlo_wide_integer(const hlo_module *m, tt_dtype t); /* 64 bits, in a program for a TPU */
hlo hlo_quotient64(hlo_module *m, hlo a, hlo b);
hlo hlo_dot64(hlo_module *m, hlo a, hlo b, const hlo_dot_dims *d, tt_dtype t, int rank, const int64_t *dims);
bool hlo_wants_places(const hlo_module *m, const hlo_conv_dims *d, tt_dtype t);
hlo hlo_convolution_by_places(hlo_module *m, hlo x, hlo kernel, const hlo_conv_dims *d, int precision, tt_dtype t,
                              const int64_t *dims);
hlo hlo_dft(hlo_module *m, hlo x, const char *type, int n, const int64_t *length); /* as hlo_fft, of any length */
bool hlo_dft_is_large(int64_t n); /* n has prime factors for which libtpu's transform takes memory of their square */
/* ---- marks of run-time sizes (sized.c). False with an error ---- */
bool hlo_set_symbols(hlo_module *m, hlo r, const uint8_t *symbols);
bool hlo_add_symbol(hlo_module *m, const char *op, uint8_t *to, uint8_t symbol);
/* r gets the marks of the operands that have its rank. */
bool hlo_carry(hlo_module *m, const char *op, hlo r, int n, const hlo *xs);
bool hlo_reshape_symbols(hlo_module *m, hlo x, hlo r);
bool hlo_refuse_sized(hlo_module *m, const char *op);

/* ---- functions ---- */
/* A call of the function of that name, whose types are right. */
void hlo_call_named(hlo_module *m, const char *name, int n, const hlo *xs, int n_results, const hlo_type *types,
                    hlo *results);
void hlo_put_foreign(hlo_module *m); /* the functions of others that the module calls */

/* ---- printing ---- */
void hlo_put_located(hlo_module *m, const char *body, size_t length); /* the body, its lines with their places */
void hlo_open(hlo_module *m, int n, const hlo *results); /* "    %3, %4 = " */
void hlo_put(hlo_module *m, const char *text);
void hlo_put_int(hlo_module *m, int64_t v);
void hlo_put_value(hlo_module *m, hlo x);
void hlo_put_values(hlo_module *m, int n, const hlo *xs);                     /* "%1, %2" */
void hlo_put_type(hlo_module *m, tt_dtype t, int rank, const int64_t *dims);  /* "tensor<2x3xf32>" */
void hlo_put_type_of(hlo_module *m, hlo x);
void hlo_put_list(hlo_module *m, const char *before, int n, const int64_t *v); /* before "[1, 2]" */
void hlo_put_list32(hlo_module *m, const char *before, int n, const int *v);
void hlo_put_array(hlo_module *m, const char *before, int n, const int64_t *v,
                   int64_t otherwise); /* before "array<i64: 1, 2>"; v NULL: n times otherwise */
void hlo_put_pairs(hlo_module *m, const char *before, int n, const int64_t *low,
                   const int64_t *high); /* "dense<[[0, 1]]> : tensor<1x2xi64>"; NULL: zeros */
void hlo_put_signature(hlo_module *m, int n, const hlo *xs, int n_results,
                       const hlo *results); /* " : (A, B) -> C" and the line's end */
/* "%r = "stablehlo.op"(%a, %b) " : the first part of the generic form; a name with a dot is taken as it is. */
void hlo_open_generic(hlo_module *m, const char *op, int n_results, const hlo *results, int n, const hlo *xs);
void hlo_put_precision(hlo_module *m, const char *before, tt_dtype t, int precision, bool attribute);

/* Constants and iotas: print the line between begin and end; if the scope has the same line already, the new one is
 * taken back. */
size_t hlo_intern_begin(hlo_module *m);
hlo hlo_intern_end(hlo_module *m, size_t start, tt_dtype t, int rank, const int64_t *dims);
/* r, whose whole line has just been printed from start on; in a module that shares (hlo_share_lines) the value of an
 * equal line. */
hlo hlo_shared(hlo_module *m, size_t start, hlo r);

/* Prints "{ ^bb0(args): ... return }", the body by a call of it. False after an error. */
bool hlo_region(hlo_module *m, bool isolated, int n_args, const hlo_type *args, hlo_body *body, void *user,
                int n_results, hlo *results);
/* The body of one binary operation; user is its name. */
void hlo_binary_body(hlo_module *m, const hlo *args, hlo *results, void *user);
/* False, with an error, for an op or direction that orders its operands where x is complex: XLA compiles an order of
 * complex numbers, by real parts or otherwise; torch has none. */
bool hlo_ordered(hlo_module *m, const char *op, hlo x);
#endif
