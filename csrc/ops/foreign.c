/* foreign.c: the rule of kernels that others wrote in StableHLO (hlo/foreign.h).
 *
 * torch_tpu::foreign(Tensor[] args, str key) -> Tensor[] calls the function that is registered under the key; who makes
 * the call has checked that its types are those of args and of what it returns (torch_tpu/kernels/op.py). */
#include "hlo/foreign.h"
#include "ops/op.h"
#include "ops/rules.h"

void rule_foreign(tt_ctx *c) {
  const char *key = tt_str(c, 1);
  const hlo_foreign *f = hlo_foreign_find(key);
  if (!f) {
    hlo_fail(c->m, TT_NOT_FOUND, "no kernel is registered under '%s'", key);
    return;
  }
  int n = tt_count(c, 0);
  hlo *args = hlo_alloc(c->m, ((size_t)n + 1) * sizeof *args);
  if (!args) return;
  hlo_type types[TT_MAX_RESULTS];
  for (int i = 0; i < n; i++) args[i] = tt_elem(c, 0, i);
  for (int k = 0; k < c->n_results; k++) types[k] = (hlo_type){c->want[k].dtype, c->want[k].rank, c->want[k].dims};
  hlo_call_foreign(c->m, f, n, args, c->n_results, types, c->result);
}
