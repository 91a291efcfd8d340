/* op.h: what a lowering rule sees.
 *
 * A rule is a function of a context and nothing else: it reads operands as values, builds with hlo_*, and sets results.
 * It never checks for errors (they stick in the module) nor for shapes and dtypes that torch's Meta kernels have
 * checked. In-place, out= and foreach forms call the same rule: the caller converts results to the dtypes wanted and
 * writes them. */
#ifndef TT_OP_H
#define TT_OP_H
#include "hlo/hlo.h"

typedef enum tt_promotion {
  PROMOTE_NONE,     /* operands keep their dtypes; the rule converts */
  PROMOTE_DEFAULT,  /* torch's result_type over tensors and the scalars among the first two arguments: later ones are
                       coefficients */
  PROMOTE_TO_FLOAT, /* and integers and bool become the default float dtype */
  PROMOTE_TO_RESULT /* the dtype of result 0 (sum(dtype=), clones, casts) */
} tt_promotion;

enum {
  OP_STATIC_SCALARS = 1,  /* Scalars and floats are part of the key: the rule needs their values (tt_number_of) */
  OP_MATMUL = 2,          /* float32 precision is part of the key */
  OP_RANDOM = 4,          /* draws from a generator */
  OP_REAL = 16,           /* torch refuses complex operands, which the formula would take */
  OP_RANGE = 32,          /* (start, end, step): of integers, the start is a run-time number */
  OP_COMPUTE_F32 = 8      /* f16 and bf16 operands are computed in f32 and rounded once at the end, as torch CPU does */
};

typedef struct tt_ctx tt_ctx;
typedef void tt_rule(tt_ctx *c);

struct tt_op {
  const char *name;      /* base operator with overload: "add.Tensor", "mm" */
  tt_rule *rule;
  const char *hlo;       /* what the rule is told: a StableHLO op, a compare direction, "" */
  uint8_t promotion;
  uint8_t flags;
  const char *synopsis;
};

enum { TT_MAX_RESULTS = 16 };
/* written: an argument */
typedef struct tt_want { bool defined, written; uint8_t dtype, rank; const int64_t *dims; } tt_want;

struct tt_ctx {
  hlo_module *m;
  const tt_op *op;
  int n_args, n_results;
  uint8_t dtype;              /* the compute dtype after promotion (and OP_COMPUTE_F32); TT_NO_DTYPE for PROMOTE_NONE */
  uint8_t promoted;           /* the same before OP_COMPUTE_F32 */
  int precision;              /* of float32 matmuls: 0, 1, 2 */
  tt_want want[TT_MAX_RESULTS]; /* want[0..n_results): what will be stored; results are converted to it */
  hlo result[TT_MAX_RESULTS];   /* set by the rule; NULL only where !want[k].defined */
  /* Private. */
  const struct tt_ctx_env *env;
  const tt_arg *args;
  hlo *memo;                  /* what was read of each argument */
  hlo **memo_elems;           /* and of each element of list arguments */
};

/* ---- operands. i counts the schema's arguments from 0; the list forms take element e of list argument i ---- */
bool tt_has(tt_ctx *c, int i);                     /* not None; for a list: not empty */
int tt_count(tt_ctx *c, int i);                    /* length of a list argument */
hlo tt_in(tt_ctx *c, int i); /* tensor, scalar or 0-dim host tensor, in c->dtype (own dtype if PROMOTE_NONE) */
hlo tt_in_as(tt_ctx *c, int i, tt_dtype t);
hlo tt_in_own(tt_ctx *c, int i); /* own dtype, whatever the promotion; scalars: bool, i64, f64, c128 */
hlo tt_in_wide(tt_ctx *c, int i);                  /* in c->dtype, broadcast to the dims of result 0 */
bool tt_elem_has(tt_ctx *c, int i, int e);
hlo tt_elem(tt_ctx *c, int i, int e);              /* own dtype */
hlo tt_elem_as(tt_ctx *c, int i, int e, tt_dtype t);
uint8_t tt_in_dtype(tt_ctx *c, int i);             /* without reading it; TT_NO_DTYPE for None */
int tt_in_rank(tt_ctx *c, int i);                  /* scalars: 0 */
const int64_t *tt_in_dims(tt_ctx *c, int i);
bool tt_in_contiguous(tt_ctx *c,
                      int i); /* a tensor that is row-major in memory: for the few ops whose results depend on it */
int64_t tt_int(tt_ctx *c, int i, int64_t otherwise);   /* int or bool argument; otherwise if None */
bool tt_bool(tt_ctx *c, int i);                    /* None is false */
const char *tt_str(tt_ctx *c, int i);              /* "" if None */
int tt_ints(tt_ctx *c, int i, int64_t *out, int max); /* an int[] (or one int): copies, returns the length; 0 if None */
/* dims argument -> sorted distinct non-negative dims of a tensor of that rank; None or [] means all. Returns how many.
 */
int tt_dims(tt_ctx *c, int i, int rank, int *out);
int tt_dim(tt_ctx *c, int i, int rank, int otherwise); /* one dim, wrapped */
uint8_t tt_dtype_arg(tt_ctx *c, int i, uint8_t otherwise);
/* The value of a Scalar or float: only with OP_STATIC_SCALARS, an error otherwise. */
double tt_number_of(tt_ctx *c, int i, double otherwise);
bool tt_in_is_one(tt_ctx *c,
                  int i); /* None or an integral Scalar 1 (static always): a multiply by it can be left out */

/* ---- effects ---- */
void tt_write(tt_ctx *c, int i, hlo v);            /* argument i gets v (broadcast is not done; dtype is converted) */
void tt_write_elem(tt_ctx *c, int i, int e, hlo v);
/* Uniform random bits of an unsigned dtype from the generator argument i (None: the device's default). Draws differ
 * call by call. */
hlo tt_random_bits(tt_ctx *c, int i, tt_dtype t, int rank, const int64_t *dims);

/* ---- conditions on values, which torch checks on the CPU ----
 * In Debug mode the call fails with code and the message where ok (bool) is not true everywhere; "{}" in it stands for
 * the element of about (ok's dims, integers; NULL: none) at the first such place. In Strict mode nothing is emitted,
 * and the rule sees to it that nothing outside is read or written. */
bool tt_debug(tt_ctx *c); /* whether an ok is worth building */
void tt_require(tt_ctx *c, hlo ok, hlo about, tt_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* That index is in [0, n), with wrap in [-n, n). */
void tt_require_index(tt_ctx *c, hlo index, int64_t n, bool wrap, tt_code code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* True of rules that are right where sizes are known at run time only (hlo/sized.h): they take no size of an operand
 * for a number, but by hlo_count, and fold no constant over a dim. */
bool tt_rule_is_sized(tt_rule *rule);
/* True of those among them for which an element's place in its dim matters. */
bool tt_rule_asks_places(tt_rule *rule);

/* ---- dtype facts ---- */
bool tt_is_float(tt_dtype t);    /* f16 ... f64 and the f8 and f4 family */
bool tt_is_complex(tt_dtype t);
bool tt_is_integral(tt_dtype t); /* integers, without bool */
bool tt_is_signed(tt_dtype t);
tt_dtype tt_promote(tt_dtype a, tt_dtype b);
extern tt_dtype tt_default_dtype; /* torch.get_default_dtype(), set by the shim; part of each key */
tt_dtype tt_real_of(tt_dtype t); /* c64 -> f32; others themselves */
#endif
