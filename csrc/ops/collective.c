/* collective.c: rules of collective operations, on the tensors of one replica of a program that runs on many devices.
 *
 * torch's functional collectives name a process group; torch_tpu/aot/collectives.py gives their operands the ranks of
 * all groups of that kind instead, as a list: how many groups, how many ranks each, then the ranks. Only programs for
 * many devices hold them: what runs on one device refuses to compile them. */
#include <string.h>
#include "ops/op.h"
#include "ops/rules.h"

/* The list of argument i. False with an error. */
static bool groups(tt_ctx *c, int i, hlo_groups *g) {
  int n = tt_count(c, i);
  int64_t *all = hlo_alloc(c->m, (size_t)(n + 2) * sizeof *all);
  if (!all || tt_ints(c, i, all, n) != n) return false;
  *g = (hlo_groups){all[0], all[1], all + 2};
  if (n > 2 && g->count > 0 && g->size > 0 && (n - 2) % g->size == 0 && (n - 2) / g->size == g->count) return true;
  return hlo_fail(c->m, TT_INVALID_ARGUMENT, "expected groups of ranks as [how many, of how many, ranks...]"), false;
}

/* What torch calls a reduction -> StableHLO's name; NULL, with an error, for none. */
static const char *reduction(tt_ctx *c, int i) {
  static const char *const names[][2] = {{"sum", "add"},     {"avg", "add"},     {"product", "multiply"},
                                         {"min", "minimum"}, {"max", "maximum"}, {"band", "and"},
                                         {"bor", "or"},      {"bxor", "xor"}};
  const char *given = tt_str(c, i);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strcmp(given, names[k][0])) return names[k][1];
  hlo_fail(c->m, TT_UNIMPLEMENTED, "a collective that reduces by '%s'", given);
  return NULL;
}

static hlo averaged(tt_ctx *c, int i, hlo x, const hlo_groups *g) {
  return x && !strcmp(tt_str(c, i), "avg") ? hlo_binary_scalar(c->m, "divide", x, (double)g->size) : x;
}

void rule_all_reduce(tt_ctx *c) {
  hlo_groups g;
  const char *op = reduction(c, 1);
  if (op && groups(c, 2, &g)) c->result[0] = averaged(c, 1, hlo_all_reduce(c->m, op, tt_in_own(c, 0), &g), &g);
}

void rule_reduce_scatter(tt_ctx *c) {
  hlo_groups g;
  const char *op = reduction(c, 1);
  if (op && groups(c, 2, &g)) c->result[0] = averaged(c, 1, hlo_reduce_scatter(c->m, op, tt_in_own(c, 0), 0, &g), &g);
}

void rule_all_gather(tt_ctx *c) {
  hlo_groups g;
  if (groups(c, 1, &g)) c->result[0] = hlo_all_gather(c->m, tt_in_own(c, 0), 0, &g);
}

void rule_all_to_all(tt_ctx *c) {
  hlo_groups g;
  int rank = tt_in_rank(c, 0);
  if (groups(c, 3, &g))
    c->result[0] = hlo_all_to_all(c->m, tt_in_own(c, 0), tt_dim(c, 1, rank, 0), tt_dim(c, 2, rank, 0), &g);
}

/* Who sends is the first of its group. */
void rule_collective_broadcast(tt_ctx *c) {
  hlo_groups g;
  if (groups(c, 1, &g)) c->result[0] = hlo_collective_broadcast(c->m, tt_in_own(c, 0), &g);
}

/* What a replica gets from none is zero. */
void rule_collective_permute(tt_ctx *c) {
  hlo_groups g;
  if (!groups(c, 1, &g)) return;
  int64_t *from = hlo_alloc(c->m, 2 * (size_t)g.count * sizeof *from), *to = from ? from + g.count : NULL;
  if (!from) return;
  if (g.size != 2) {
    hlo_fail(c->m, TT_INVALID_ARGUMENT, "expected pairs of ranks, got groups of %lld", (long long)g.size);
    return;
  }
  for (int64_t i = 0; i < g.count; i++) from[i] = g.ids[2 * i], to[i] = g.ids[2 * i + 1];
  c->result[0] = hlo_collective_permute(c->m, tt_in_own(c, 0), (int)g.count, from, to);
}

/* x, which nothing may compute before `after` is there, nor take for what was computed from x before. */
void rule_barrier(tt_ctx *c) {
  hlo xs[] = {tt_in_own(c, 0), tt_in_own(c, 1)}, made[2];
  hlo_optimization_barrier(c->m, 2, xs, made);
  c->result[0] = made[0];
}
