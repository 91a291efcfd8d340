/* op.c: what a rule asks of its context, and how a rule is run.
 *
 * Arguments are read when a rule asks for them, once each: an argument that no rule reads never becomes an operand of
 * the program. Errors stick in the module. Reading an argument as what it is not is the table's mistake: INTERNAL. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ops/ctx.h"

static const tt_arg none = {.tag = TT_ARG_NONE};

static const tt_arg *arg(const tt_ctx *c, int i) { return i >= 0 && i < c->n_args ? &c->args[i] : &none; }

static const tt_arg *elem(const tt_ctx *c, int i, int e) {
  const tt_arg *a = arg(c, i);
  if (a->tag != TT_ARG_LIST) return e == 0 ? a : &none;
  return e >= 0 && (uint32_t)e < a->count ? &a->list[e] : &none;
}

static hlo wrong(tt_ctx *c, int i, const char *expected, const tt_arg *a) {
  static const char *const tags[] = {"none", "tensor", "scalar", "host tensor", "int",
                                     "bool", "dtype",  "string", "list",        "generator"};
  return hlo_fail(c->m, TT_INTERNAL, "%s: argument %d: expected %s, got %s", c->op->name, i, expected, tags[a->tag]);
}

/* ---- reading ---- */

/* A number in its own dtype takes it from the argument; in another dtype it is made in that one, which keeps 0.1 an
 * f16's 0.1. */
static hlo number(tt_ctx *c, int i, const tt_arg *a, tt_dtype t) {
  switch (a->tag) {
    case TT_ARG_SCALAR: case TT_ARG_HOST: return c->env->scalar(c->env->user, a, t);
    case TT_ARG_INT: case TT_ARG_BOOL: return hlo_int(c->m, t, a->number.i);
    default: return wrong(c, i, "a tensor or a number", a);
  }
}

static hlo read_as(tt_ctx *c, int i, const tt_arg *a, hlo *memo, tt_dtype t) {
  if (hlo_failed(c->m)) return NULL;
  if (a->tag != TT_ARG_TENSOR) {
    if (t == TT_NO_DTYPE) t = a->tag == TT_ARG_INT ? TT_I64 : a->tag == TT_ARG_BOOL ? TT_BOOL : (tt_dtype)a->dtype;
    return number(c, i, a, t);
  }
  hlo x = memo && *memo ? *memo : c->env->read(c->env->user, a->tensor);
  if (memo) *memo = x;
  return t == TT_NO_DTYPE || !x ? x : hlo_convert(c->m, x, t);
}

static hlo *memo_of(tt_ctx *c, int i) { return c->memo && i >= 0 && i < c->n_args ? &c->memo[i] : NULL; }

static hlo *memo_elem(tt_ctx *c, int i, int e) {
  const tt_arg *a = arg(c, i);
  if (!c->memo_elems || a->tag != TT_ARG_LIST || e < 0 || (uint32_t)e >= a->count) return NULL;
  if (!c->memo_elems[i]) c->memo_elems[i] = hlo_alloc(c->m, a->count * sizeof(hlo));
  return c->memo_elems[i] ? &c->memo_elems[i][e] : NULL;
}

bool tt_has(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  return a->tag != TT_ARG_NONE && (a->tag != TT_ARG_LIST || a->count > 0);
}

int tt_count(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  return a->tag == TT_ARG_LIST ? (int)a->count : a->tag != TT_ARG_NONE;
}

hlo tt_in_as(tt_ctx *c, int i, tt_dtype t) { return read_as(c, i, arg(c, i), memo_of(c, i), t); }
hlo tt_in(tt_ctx *c, int i) { return tt_in_as(c, i, (tt_dtype)c->dtype); }
hlo tt_in_own(tt_ctx *c, int i) { return tt_in_as(c, i, TT_NO_DTYPE); }
hlo tt_in_wide(tt_ctx *c, int i) {
  hlo x = tt_in(c, i);
  return x ? hlo_broadcast_to(c->m, x, c->want[0].rank, c->want[0].dims) : NULL;
}

bool tt_elem_has(tt_ctx *c, int i, int e) { return elem(c, i, e)->tag != TT_ARG_NONE; }
hlo tt_elem_as(tt_ctx *c, int i, int e, tt_dtype t) { return read_as(c, i, elem(c, i, e), memo_elem(c, i, e), t); }
hlo tt_elem(tt_ctx *c, int i, int e) { return tt_elem_as(c, i, e, TT_NO_DTYPE); }

uint8_t tt_in_dtype(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  switch (a->tag) {
    case TT_ARG_TENSOR: return a->tensor->dtype;
    case TT_ARG_SCALAR: case TT_ARG_HOST: return a->dtype;
    case TT_ARG_INT: return TT_I64;
    case TT_ARG_BOOL: return TT_BOOL;
    default: return TT_NO_DTYPE;
  }
}

int tt_in_rank(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  return a->tag == TT_ARG_TENSOR ? a->tensor->rank : 0;
}

const int64_t *tt_in_dims(tt_ctx *c, int i) {
  static const int64_t no_dims[1];
  const tt_arg *a = arg(c, i);
  return a->tag == TT_ARG_TENSOR ? a->tensor->sizes : no_dims;
}

bool tt_in_contiguous(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  if (a->tag != TT_ARG_TENSOR) return true;
  const tt_tensor *t = a->tensor;
  int64_t step = 1;
  bool in_order = true;
  for (int k = t->rank - 1; k >= 0; k--) {
    if (t->sizes[k] == 0) return true;
    in_order &= t->sizes[k] == 1 || t->strides[k] == step;
    step *= t->sizes[k];
  }
  return in_order;
}

/* ---- static arguments ---- */

int64_t tt_int(tt_ctx *c, int i, int64_t otherwise) {
  const tt_arg *a = arg(c, i);
  if (a->tag == TT_ARG_LIST && a->count == 1) a = &a->list[0];
  if (a->tag == TT_ARG_INT || a->tag == TT_ARG_BOOL) return a->number.i;
  if (a->tag != TT_ARG_NONE) wrong(c, i, "an int", a);
  return otherwise;
}

bool tt_bool(tt_ctx *c, int i) { return tt_int(c, i, 0) != 0; }

const char *tt_str(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  if (a->tag == TT_ARG_STRING) return a->string;
  if (a->tag != TT_ARG_NONE) wrong(c, i, "a string", a);
  return "";
}

int tt_ints(tt_ctx *c, int i, int64_t *out, int max) {
  const tt_arg *a = arg(c, i);
  if (a->tag == TT_ARG_NONE) return 0;
  int n = tt_count(c, i);
  if (n > max) {
    hlo_fail(c->m, TT_INTERNAL, "%s: argument %d: expected at most %d ints, got %d", c->op->name, i, max, n);
    return 0;
  }
  for (int e = 0; e < n; e++) {
    const tt_arg *x = elem(c, i, e);
    if (x->tag != TT_ARG_INT && x->tag != TT_ARG_BOOL) {
      wrong(c, i, "ints", x);
      return 0;
    }
    out[e] = x->number.i;
  }
  return n;
}

static int wrap_dim(int64_t d, int rank) { return (int)(d < 0 ? d + (rank ? rank : 1) : d); }

int tt_dims(tt_ctx *c, int i, int rank, int *out) {
  int64_t given[TT_MAX_RANK];
  int n = tt_ints(c, i, given, TT_MAX_RANK), count = 0;
  bool member[TT_MAX_RANK] = {false};
  for (int e = 0; e < n; e++) {
    int d = wrap_dim(given[e], rank);
    if (d >= 0 && d < TT_MAX_RANK) member[d] = true;
  }
  for (int d = 0; d < rank; d++)
    if (!n || member[d]) out[count++] = d;
  return count;
}

int tt_dim(tt_ctx *c, int i, int rank, int otherwise) {
  return tt_has(c, i) ? wrap_dim(tt_int(c, i, 0), rank) : otherwise;
}

uint8_t tt_dtype_arg(tt_ctx *c, int i, uint8_t otherwise) {
  const tt_arg *a = arg(c, i);
  return a->tag == TT_ARG_DTYPE ? a->dtype : otherwise;
}

double tt_number_of(tt_ctx *c, int i, double otherwise) {
  const tt_arg *a = arg(c, i);
  if (a->tag == TT_ARG_NONE) return otherwise;
  if (a->tag == TT_ARG_INT || a->tag == TT_ARG_BOOL) return (double)a->number.i;
  if (a->tag != TT_ARG_SCALAR && a->tag != TT_ARG_HOST) {
    wrong(c, i, "a number", a);
    return otherwise;
  }
  if (!(c->op->flags & OP_STATIC_SCALARS)) {
    hlo_fail(c->m, TT_INTERNAL, "%s: the value of argument %d is not part of the key", c->op->name, i);
    return otherwise;
  }
  if (tt_is_complex(a->dtype)) return a->number.c[0];
  if (a->dtype == TT_U64) return (double)(uint64_t)a->number.i;
  return tt_is_float(a->dtype) ? a->number.f : (double)a->number.i;
}

bool tt_scalar_is_one(const tt_arg *a) {
  return a->tag == TT_ARG_SCALAR && (a->dtype == TT_I64 || a->dtype == TT_BOOL) && a->number.i == 1;
}

bool tt_range_moves(const tt_op *op, const tt_arg *args) {
  return op->flags & OP_RANGE && args[0].tag == TT_ARG_SCALAR && args[0].dtype == TT_I64 &&
         args[1].tag == TT_ARG_SCALAR && args[1].dtype == TT_I64;
}

bool tt_in_is_one(tt_ctx *c, int i) {
  const tt_arg *a = arg(c, i);
  return a->tag == TT_ARG_NONE || tt_scalar_is_one(a);
}

/* ---- effects ---- */

static void write_arg(tt_ctx *c, int i, const tt_arg *a, hlo v) {
  if (hlo_failed(c->m) || a->tag == TT_ARG_NONE) return;
  if (a->tag != TT_ARG_TENSOR) {
    wrong(c, i, "a tensor to write", a);
    return;
  }
  if (!v || v->rank != a->tensor->rank || memcmp(v->dims, a->tensor->sizes, v->rank * sizeof *v->dims)) {
    hlo_fail(c->m, TT_INTERNAL, "%s: what is written to argument %d has other dims than it", c->op->name, i);
    return;
  }
  c->env->write(c->env->user, a->tensor, hlo_convert(c->m, v, (tt_dtype)a->tensor->dtype));
}

void tt_write(tt_ctx *c, int i, hlo v) { write_arg(c, i, arg(c, i), v); }
void tt_write_elem(tt_ctx *c, int i, int e, hlo v) { write_arg(c, i, elem(c, i, e), v); }

hlo tt_random_bits(tt_ctx *c, int i, tt_dtype t, int rank, const int64_t *dims) {
  if (hlo_failed(c->m)) return NULL;
  const tt_arg *a = arg(c, i);
  if (a->tag != TT_ARG_NONE && a->tag != TT_ARG_GENERATOR) return wrong(c, i, "a generator", a);
  int64_t bits = tt_dtype_bits(t);
  for (int d = 0; d < rank; d++) bits *= dims[d];
  if (bits == 0) return hlo_full(c->m, t, rank, dims, 0);
  hlo state = c->env->random_state(c->env->user, a->tag == TT_ARG_GENERATOR ? a->generator : NULL, (bits + 63) / 64);
  return hlo_random_bits(c->m, state, t, rank, dims, NULL);
}

/* ---- conditions ---- */

bool tt_debug(tt_ctx *c) { return c->env->require && !hlo_failed(c->m); }

hlo tt_condition(hlo_module *m, hlo ok, hlo about) {
  int64_t n = hlo_numel(ok), one = 1;
  int zero = 0;
  tt_dtype t = n < INT32_MAX ? TT_I32 : TT_I64;
  hlo none = hlo_int(m, t, n), place = hlo_select(m, hlo_flatten(m, ok), none, hlo_iota(m, t, 1, &n, 0));
  hlo first = hlo_reduce(m, "minimum", place, none, 1, &zero);
  hlo fails = hlo_convert(m, hlo_compare(m, "NE", first, none), TT_I64), element = hlo_full(m, TT_I64, 1, &one, 0);
  if (about) element = hlo_dynamic_slice(m, hlo_convert(m, hlo_flatten(m, about), TT_I64), &first, &one);
  hlo pair[2] = {hlo_reshape(m, fails, 1, &one), element};
  return hlo_concat(m, 2, pair, 0);
}

static void require(tt_ctx *c, hlo ok, hlo about, tt_code code, const char *format, va_list args) {
  enum { LONGEST = 256 };
  char *message = hlo_alloc(c->m, LONGEST);
  if (!message || hlo_numel(ok) == 0) return;
  vsnprintf(message, LONGEST, format, args);
  c->env->require(c->env->user, tt_condition(c->m, ok, about), code, message);
}

void tt_require(tt_ctx *c, hlo ok, hlo about, tt_code code, const char *format, ...) {
  if (!tt_debug(c) || !ok) return;
  va_list args;
  va_start(args, format);
  require(c, ok, about, code, format, args);
  va_end(args);
}

void tt_require_index(tt_ctx *c, hlo index, int64_t n, bool wrap, tt_code code, const char *format, ...) {
  if (!tt_debug(c) || !index) return;
  hlo wide = hlo_convert(c->m, index, TT_I64);
  hlo ok = hlo_binary(c->m, "and", hlo_compare(c->m, "GE", wide, hlo_int(c->m, TT_I64, wrap ? -n : 0)),
                      hlo_compare(c->m, "LT", wide, hlo_int(c->m, TT_I64, n)));
  va_list args;
  va_start(args, format);
  require(c, ok, wide, code, format, args);
  va_end(args);
}

/* ---- running ---- */

static void print_dims(char *out, size_t size, int rank, const int64_t *dims) {
  size_t n = (size_t)snprintf(out, size, "[");
  for (int i = 0; i < rank && n < size; i++)
    n += (size_t)snprintf(out + n, size - n, i ? ", %lld" : "%lld", (long long)dims[i]);
  if (n < size) snprintf(out + n, size - n, "]");
}

/* torch's kinds of numbers, each of which holds those before it: what is written into a tensor may not be of a later
 * one. */
static int category(tt_dtype t) { return tt_is_complex(t) ? 3 : tt_is_float(t) ? 2 : t == TT_BOOL ? 0 : 1; }

static void finish_result(tt_ctx *c, int k) {
  const tt_want *w = &c->want[k];
  hlo v = c->result[k];
  if (!w->defined || hlo_failed(c->m)) return;
  if (!v) {
    hlo_fail(c->m, TT_INTERNAL, "%s: the rule gave no result %d", c->op->name, k);
    return;
  }
  if (v->rank != w->rank || memcmp(v->dims, w->dims, w->rank * sizeof *w->dims)) {
    char expected[160], got[160];
    print_dims(expected, sizeof expected, w->rank, w->dims);
    print_dims(got, sizeof got, v->rank, v->dims);
    hlo_fail(c->m, TT_INTERNAL, "%s: result %d: expected dims %s, got %s", c->op->name, k, expected, got);
    return;
  }
  bool lossy =
      w->written && c->op->promotion == PROMOTE_DEFAULT && category((tt_dtype)v->dtype) > category((tt_dtype)w->dtype);
  if (lossy ||
      (tt_is_complex((tt_dtype)v->dtype) && !tt_is_complex((tt_dtype)w->dtype) && c->op->promotion != PROMOTE_NONE)) {
    hlo_fail(c->m, TT_UNIMPLEMENTED, "result type %s can't be cast to the desired output type %s",
             tt_dtype_name(v->dtype), tt_dtype_name(w->dtype));
    return;
  }
  c->result[k] = hlo_convert(c->m, v, (tt_dtype)w->dtype);
}

static bool takes_complex(tt_ctx *c) {
  if (!(c->op->flags & OP_REAL)) return true;
  for (int i = 0; i < c->n_args; i++)
    if (c->args[i].tag == TT_ARG_TENSOR && tt_is_complex((tt_dtype)c->args[i].dtype))
      return hlo_fail(c->m, TT_UNIMPLEMENTED, "not implemented for %s", tt_dtype_name((tt_dtype)c->args[i].dtype));
  return true;
}

void tt_rule_apply(tt_ctx *c) {
  if (hlo_failed(c->m) || !takes_complex(c)) return;
  c->memo = hlo_alloc(c->m, (size_t)(c->n_args + 1) * sizeof *c->memo);
  c->memo_elems = hlo_alloc(c->m, (size_t)(c->n_args + 1) * sizeof *c->memo_elems);
  if (!c->memo || !c->memo_elems) return;
  tt_ctx_promote(c);
  c->op->rule(c);
  for (int k = 0; k < c->n_results; k++) finish_result(c, k);
}

int tt_operand_count(const tt_variant *v) {
  int n = v->n_args;
  for (; n > 1 && v->written >> (n - 1) & 1; n--) { /* out= tensors come last, and are what results are */
    bool is_result = v->foreach;
    for (int k = 0; k < v->n_results && k < 16; k++) is_result |= v->alias[k] == n - 1;
    if (!is_result) break;
  }
  return n;
}
