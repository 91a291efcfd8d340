/* control.c: loops, branches and random state of captured graphs, as parts of the program that is being traced.
 *
 * The parts of a loop or a branch are traced where they stand: storages made of their arguments hold values of the
 * region, and the program's own values may be read in it. What a part would have to do each time it runs and a program
 * cannot (draw from a generator, write what is outside) is an error, and the graph runs otherwise. */
#include <string.h>
#include "graph/graph.h"

typedef struct control {
  tt_trace *t;
  tt_trace_part *part;
  void *user;
  int n;                 /* carried values, or results of a branch */
  const hlo_value *types; /* of the results */
} control;

/* Traces a part: args (n_args) as storages, its results as values of the dtypes in types. */
static void run_part(control *c, int part, int n_args, const hlo *args, int n_results, hlo *results) {
  tt_trace *t = c->t;
  tt_storage **given = hlo_alloc(t->m, (size_t)(n_args + 1) * sizeof *given);
  tt_tensor *made = hlo_alloc(t->m, (size_t)(n_results + 1) * sizeof *made);
  if (!given || !made) return;
  tt_error err = {0};
  t->regions++;
  for (int i = 0; i < n_args && !err.code; i++) given[i] = tt_trace_storage(t, args[i], &err);
  if (!err.code) c->part(c->user, part, given, n_args, made, n_results, &err);
  for (int k = 0; k < n_results && !err.code && !hlo_failed(t->m); k++) {
    bool same = made[k].storage && made[k].rank == c->types[k].rank;
    for (int i = 0; same && i < made[k].rank; i++) same = made[k].sizes[i] == c->types[k].dims[i];
    results[k] = same ? hlo_convert(t->m, tt_trace_read(t, &made[k]), c->types[k].dtype)
                      : hlo_fail(t->m, TT_UNIMPLEMENTED, "result %d of a loop or a branch changes its sizes", k);
  }
  t->regions--;
  for (int k = 0; k < n_results; k++) tt_storage_release(made[k].storage);
  for (int i = 0; i < n_args; i++) tt_storage_release(given[i]);
  if (err.code) hlo_fail(t->m, err.code, "%s", err.message);
}

static void while_condition(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)m;
  control c = *(control *)user;
  hlo_value boolean = {.dtype = TT_BOOL};
  c.types = &boolean;
  run_part(&c, 0, c.n, args, 1, results);
}

static void while_body(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)m;
  control *c = user;
  run_part(c, 1, c->n, args, c->n, results);
}

static void branch_true(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)m, (void)args;
  control *c = user;
  run_part(c, 0, 0, NULL, c->n, results);
}

static void branch_false(hlo_module *m, const hlo *args, hlo *results, void *user) {
  (void)m, (void)args;
  control *c = user;
  run_part(c, 1, 0, NULL, c->n, results);
}

static tt_code finish(tt_trace *t, int n, const hlo *values, tt_storage **results, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  *err = (tt_error){0};
  for (int k = 0; k < n && !hlo_failed(t->m) && !err->code; k++)
    if (values[k]) results[k] = tt_trace_storage(t, values[k], err);
    else hlo_fail(t->m, TT_INTERNAL, "a value is missing");
  if (hlo_failed(t->m)) hlo_get_error(t->m, err);
  if (!err->code) return TT_OK;
  for (int k = 0; k < n; k++) {
    tt_storage_release(results[k]);
    results[k] = NULL;
  }
  return err->code;
}

tt_code tt_trace_while(tt_trace *t, int n, const tt_tensor *carried, tt_trace_part *part, void *user,
                       tt_storage **results, tt_error *err) {
  hlo *values = hlo_alloc(t->m, 2 * (size_t)(n + 1) * sizeof *values);
  hlo_value *types = hlo_alloc(t->m, (size_t)(n + 1) * sizeof *types);
  memset(results, 0, (size_t)n * sizeof *results);
  if (values && types) {
    for (int i = 0; i < n; i++)
      if ((values[i] = tt_trace_read(t, &carried[i]))) types[i] = *values[i];
    control c = {t, part, user, n, types};
    hlo_while(t->m, n, values, while_condition, while_body, &c, values + n);
  }
  return finish(t, n, values ? values + n : NULL, results, err);
}

tt_code tt_trace_if(tt_trace *t, const tt_tensor *predicate, int n, const tt_output *outputs, tt_trace_part *part,
                    void *user, tt_storage **results, tt_error *err) {
  hlo *values = hlo_alloc(t->m, (size_t)(n + 1) * sizeof *values);
  hlo_value *types = hlo_alloc(t->m, (size_t)(n + 1) * sizeof *types);
  memset(results, 0, (size_t)n * sizeof *results);
  if (values && types) {
    for (int k = 0; k < n; k++)
      types[k] = (hlo_value){.dtype = outputs[k].dtype, .rank = outputs[k].rank, .dims = outputs[k].sizes};
    hlo p = tt_trace_read(t, predicate);
    if (p && hlo_numel(p) == 1) p = hlo_convert(t->m, hlo_reshape(t->m, p, 0, NULL), TT_BOOL);
    control c = {t, part, user, n, types};
    hlo_if(t->m, p, branch_true, branch_false, &c, n, values);
  }
  return finish(t, n, values, results, err);
}

/* ---- one row of many, by a number that the program computes ---- */
static bool starts_at(tt_trace *t, int rank, const tt_tensor *index, hlo *starts) {
  hlo i = hlo_convert(t->m, tt_trace_read(t, index), TT_I64);
  for (int d = 0; d < rank; d++) starts[d] = d ? hlo_int(t->m, TT_I64, 0) : i;
  return i && rank;
}

tt_storage *tt_trace_row(tt_trace *t, const tt_tensor *x, const tt_tensor *index, tt_error *err) {
  hlo starts[TT_MAX_RANK], value = tt_trace_read(t, x), row = NULL;
  int64_t sizes[TT_MAX_RANK];
  if (value && starts_at(t, x->rank, index, starts)) {
    memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
    sizes[0] = 1;
    row = hlo_squeeze_dim(t->m, hlo_dynamic_slice(t->m, value, starts, sizes), 0);
  }
  tt_storage *s = NULL;
  finish(t, 1, &row, &s, err);
  return s;
}

tt_storage *tt_trace_with_row(tt_trace *t, const tt_tensor *x, const tt_tensor *row, const tt_tensor *index,
                              tt_error *err) {
  hlo starts[TT_MAX_RANK], value = tt_trace_read(t, x), made = NULL;
  if (value && starts_at(t, x->rank, index, starts)) {
    hlo r = hlo_convert(t->m, tt_trace_read(t, row), x->dtype);
    made = hlo_dynamic_update_slice(t->m, value, hlo_unsqueeze(t->m, r, 0), starts);
  }
  tt_storage *s = NULL;
  finish(t, 1, &made, &s, err);
  return s;
}

/* ---- random state ---- */
tt_storage *tt_trace_random_state(tt_trace *t, tt_error *err) {
  hlo state = tt_trace_draw(t, NULL, 0);
  if (state) state = hlo_bitcast(t->m, state, TT_I64);
  tt_storage *s = NULL;
  finish(t, 1, &state, &s, err);
  return s;
}

tt_code tt_trace_set_random_state(tt_trace *t, const tt_tensor *state, tt_error *err) {
  t->random_given = NULL;
  t->random_given_total = 0;
  if (!state) return TT_OK;
  t->random_given = hlo_bitcast(t->m, tt_trace_read(t, state), TT_U64);
  if (t->random_given) return TT_OK;
  hlo_get_error(t->m, err);
  return err->code;
}
