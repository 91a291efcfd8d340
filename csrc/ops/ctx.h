/* ctx.h: how operands reach a rule and results leave it: the side of a context that the graph layer fills.
 *
 * op.h is what rules see; this is what feeds them. Rules do not include it. */
#ifndef TT_OPS_CTX_H
#define TT_OPS_CTX_H
#include "ops/op.h"

struct tt_ctx_env {
  void *user; /* given to every function below */
  hlo (*read)(void *user, const tt_tensor *t);                 /* the tensor's elements: its dtype, its sizes */
  hlo (*scalar)(void *user, const tt_arg *a,
                tt_dtype t); /* a SCALAR or HOST argument, rank 0, of dtype t: an operand or a constant */
  /* ui64[2]; later draws start n_words64 further on */
  hlo (*random_state)(void *user, tt_generator *g_or_null, int64_t n_words64);
  void (*write)(void *user, const tt_tensor *t, hlo v);
  /* Debug mode, else NULL: a condition as i64[2], not 0 where it fails and the element that fails it. */
  void (*require)(void *user, hlo pair, tt_code code, const char *message);
};

/* A condition as require takes it: ok has an element or more; about as in tt_require. */
hlo tt_condition(hlo_module *m, hlo ok, hlo about);

/* Chooses the compute dtype of *c from its arguments, runs the row's rule, converts result[k] to want[k].dtype and
 * checks its dims. The caller has filled m, op, n_args, args, want, n_results, env and precision, and left the rest
 * zero. n_args leaves out= arguments out: they are no operands. */
void tt_rule_apply(tt_ctx *c);

/* How many leading arguments of a call are operands: all but the tensors that an out= form writes its results to. */
int tt_operand_count(const tt_variant *v);

/* An integral scalar argument of value 1, such as add's alpha when it is not given: static, so that nothing is
 * multiplied by it. */
bool tt_scalar_is_one(const tt_arg *a);

/* True if args are a range of integers, (start, end, ...), whose start is a run-time number: OP_RANGE. */
bool tt_range_moves(const tt_op *op, const tt_arg *args);

/* Sets c->promoted and c->dtype from the row and the arguments (promote.c). */
void tt_ctx_promote(tt_ctx *c);
#endif
