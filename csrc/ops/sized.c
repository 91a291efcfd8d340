/* sized.c: the rules that may be given values of which, along some dims, only a beginning counts (hlo/sized.c).
 *
 * What decides is not what a rule computes but how it is written: it may not turn a size into a number of its own, since
 * that is the capacity and no size, nor reduce or contract what it has made itself without reading an operand. All that
 * is done with operands is checked where it is done. A rule that is not here gets exact sizes. */
#include "ops/rules.h"

static tt_rule *const sized[] = {
  rule_matmul, rule_softmax, rule_add, rule_arithmetic, rule_cat, rule_copy, rule_masked_fill, rule_where, rule_divide,
  rule_compare, rule_unary, rule_binary, rule_addmm, rule_layer_norm, rule_gelu, rule_silu, rule_relu, rule_embedding,
  rule_sum, rule_extreme, rule_extreme_dim, rule_arg_extreme, rule_any_all, rule_logical, rule_logical_not, rule_clamp,
  rule_pow, rule_pow_number, rule_triangle, rule_fill, rule_number, rule_index_select, rule_running, rule_logsumexp,
  rule_fmax, rule_sign, rule_is_special, rule_nan_to_num, rule_lerp, rule_addc, rule_stack, rule_hardtanh,
  rule_leaky_relu, rule_remainder, rule_softmax_backward, rule_gelu_backward, rule_silu_backward, rule_threshold,
  rule_sigmoid_backward, rule_tanh_backward, rule_layer_norm_backward, rule_rms_norm_backward, rule_count_nonzero,
  rule_embedding_backward, rule_distance_loss, rule_distance_loss_backward, rule_binary_cross_entropy,
  rule_binary_cross_entropy_backward, rule_binary_cross_entropy_with_logits, rule_abs, rule_rounding, rule_mish, rule_mish_backward,
  rule_softplus, rule_softplus_backward, rule_hardswish, rule_hardswish_backward, rule_hardsigmoid, rule_hardsigmoid_backward,
  rule_hardtanh_backward, rule_leaky_relu_backward, rule_elu, rule_elu_backward, rule_celu, rule_logaddexp, rule_log_sigmoid,
  rule_log_sigmoid_backward, rule_xlogy, rule_copysign, rule_hypot, rule_shift, rule_signbit, rule_shrink, rule_special,
  rule_isin, rule_expand_copy, rule_permute_copy, rule_norm, rule_var, rule_heaviside, rule_logit, rule_prelu,
};

static tt_rule *const placed[] = {rule_extreme_dim, rule_arg_extreme, rule_triangle, rule_running, rule_cat, rule_stack};

static bool is_among(tt_rule *rule, tt_rule *const *rules, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (rules[i] == rule) return true;
  return false;
}

bool tt_rule_is_sized(tt_rule *rule) { return is_among(rule, sized, sizeof sized / sizeof *sized); }
bool tt_rule_asks_places(tt_rule *rule) { return is_among(rule, placed, sizeof placed / sizeof *placed); }
