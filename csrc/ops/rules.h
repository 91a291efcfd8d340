/* rules.h: the rules that table.c names, by file. Written by tools/rows.py from the definitions. */
#ifndef TT_OPS_RULES_H
#define TT_OPS_RULES_H
#include "ops/op.h"

/* activation.c */
tt_rule rule_celu;
tt_rule rule_elu;
tt_rule rule_elu_backward;
tt_rule rule_gelu;
tt_rule rule_gelu_backward;
tt_rule rule_glu;
tt_rule rule_glu_backward;
tt_rule rule_hardsigmoid;
tt_rule rule_hardsigmoid_backward;
tt_rule rule_hardswish;
tt_rule rule_hardswish_backward;
tt_rule rule_hardtanh;
tt_rule rule_hardtanh_backward;
tt_rule rule_leaky_relu;
tt_rule rule_leaky_relu_backward;
tt_rule rule_log_sigmoid;
tt_rule rule_log_sigmoid_backward;
tt_rule rule_logit;
tt_rule rule_logit_backward;
tt_rule rule_mish;
tt_rule rule_mish_backward;
tt_rule rule_prelu;
tt_rule rule_prelu_backward;
tt_rule rule_relu;
tt_rule rule_rrelu_backward;
tt_rule rule_shrink;
tt_rule rule_sigmoid_backward;
tt_rule rule_silu;
tt_rule rule_silu_backward;
tt_rule rule_softplus;
tt_rule rule_softplus_backward;
tt_rule rule_tanh_backward;
tt_rule rule_threshold;

/* collective.c */
tt_rule rule_all_gather;
tt_rule rule_all_reduce;
tt_rule rule_all_to_all;
tt_rule rule_barrier;
tt_rule rule_collective_broadcast;
tt_rule rule_collective_permute;
tt_rule rule_reduce_scatter;

/* compact.c */
tt_rule rule_bincount;
tt_rule rule_masked_select;
tt_rule rule_nonzero;
tt_rule rule_nonzero_static;
tt_rule rule_repeat_interleave;
tt_rule rule_unique;

/* conv.c */
tt_rule rule_conv_tbc;
tt_rule rule_convolution;
tt_rule rule_convolution_backward;

/* create.c */
tt_rule rule_arange;
tt_rule rule_eye;
tt_rule rule_linspace;
tt_rule rule_triangle_indices;

/* ctc.c */
tt_rule rule_ctc_loss;
tt_rule rule_ctc_loss_backward;

/* dot.c */
tt_rule rule_addbmm;
tt_rule rule_addmm;
tt_rule rule_addmm_activation;
tt_rule rule_addr;
tt_rule rule_int_mm;
tt_rule rule_matmul;

/* eigen.c */
tt_rule rule_eigh;

/* elementwise.c */
tt_rule rule_abs;
tt_rule rule_add;
tt_rule rule_addc;
tt_rule rule_angle;
tt_rule rule_arithmetic;
tt_rule rule_binary;
tt_rule rule_clamp;
tt_rule rule_compare;
tt_rule rule_complex;
tt_rule rule_conj;
tt_rule rule_copy;
tt_rule rule_copysign;
tt_rule rule_divide;
tt_rule rule_fill;
tt_rule rule_fmax;
tt_rule rule_frexp;
tt_rule rule_gcd;
tt_rule rule_heaviside;
tt_rule rule_hypot;
tt_rule rule_is_special;
tt_rule rule_ldexp;
tt_rule rule_lerp;
tt_rule rule_logaddexp;
tt_rule rule_logical;
tt_rule rule_logical_not;
tt_rule rule_masked_fill;
tt_rule rule_nan_to_num;
tt_rule rule_number;
tt_rule rule_pow;
tt_rule rule_pow_number;
tt_rule rule_remainder;
tt_rule rule_round_decimals;
tt_rule rule_rounding;
tt_rule rule_shift;
tt_rule rule_sign;
tt_rule rule_signbit;
tt_rule rule_unary;
tt_rule rule_where;
tt_rule rule_xlogy;

/* expm.c */
tt_rule rule_matrix_exp;

/* fft.c */
tt_rule rule_fft_c2c;
tt_rule rule_fft_c2r;
tt_rule rule_fft_r2c;

/* foreign.c */
tt_rule rule_foreign;

/* geev.c */
tt_rule rule_eig;

/* index.c */
tt_rule rule_embedding;
tt_rule rule_gather;
tt_rule rule_histc;
tt_rule rule_index;
tt_rule rule_index_select;
tt_rule rule_isin;
tt_rule rule_masked_index;
tt_rule rule_search_sorted;
tt_rule rule_take;

/* ldl.c */
tt_rule rule_ldl_factor;
tt_rule rule_ldl_solve;

/* linalg.c */
tt_rule rule_cholesky;
tt_rule rule_cholesky_inverse;
tt_rule rule_cholesky_solve;
tt_rule rule_det;
tt_rule rule_geqrf;
tt_rule rule_householder_product;
tt_rule rule_inverse;
tt_rule rule_lu;
tt_rule rule_lu_factor;
tt_rule rule_lu_solve;
tt_rule rule_lu_unpack;
tt_rule rule_ormqr;
tt_rule rule_qr;
tt_rule rule_slogdet;
tt_rule rule_solve;
tt_rule rule_solve_triangular;
tt_rule rule_triangular_solve;

/* loss.c */
tt_rule rule_binary_cross_entropy;
tt_rule rule_binary_cross_entropy_backward;
tt_rule rule_binary_cross_entropy_with_logits;
tt_rule rule_distance_loss;
tt_rule rule_distance_loss_backward;
tt_rule rule_nll_loss;
tt_rule rule_nll_loss_backward;

/* norm.c */
tt_rule rule_batch_norm;
tt_rule rule_batch_norm_backward;
tt_rule rule_group_norm;
tt_rule rule_group_norm_backward;
tt_rule rule_layer_norm;
tt_rule rule_layer_norm_backward;
tt_rule rule_rms_norm_backward;
tt_rule rule_softmax;
tt_rule rule_softmax_backward;

/* optim.c */
tt_rule rule_amp_unscale;
tt_rule rule_amp_update_scale;
tt_rule rule_fused_adagrad;
tt_rule rule_fused_adam;
tt_rule rule_fused_sgd;

/* pad.c */
tt_rule rule_col2im;
tt_rule rule_constant_pad;
tt_rule rule_edge_pad;
tt_rule rule_edge_pad_backward;
tt_rule rule_im2col;
tt_rule rule_unfold_backward;
tt_rule rule_unfold_copy;

/* polynomial.c */
tt_rule rule_polynomial;

/* pool.c */
tt_rule rule_adaptive_avg_pool;
tt_rule rule_avg_pool;
tt_rule rule_avg_pool_backward;
tt_rule rule_max_pool;
tt_rule rule_max_pool_backward;
tt_rule rule_max_unpool;

/* random.c */
tt_rule rule_bernoulli;
tt_rule rule_cauchy;
tt_rule rule_dropout;
tt_rule rule_dropout_backward;
tt_rule rule_exponential;
tt_rule rule_geometric;
tt_rule rule_multinomial;
tt_rule rule_normal;
tt_rule rule_random;
tt_rule rule_randperm;
tt_rule rule_rrelu_with_noise;
tt_rule rule_uniform;

/* reduce.c */
tt_rule rule_any_all;
tt_rule rule_arg_extreme;
tt_rule rule_count_nonzero;
tt_rule rule_dist;
tt_rule rule_extreme;
tt_rule rule_extreme_dim;
tt_rule rule_hash;
tt_rule rule_logsumexp;
tt_rule rule_norm;
tt_rule rule_renorm;
tt_rule rule_sum;
tt_rule rule_var;

/* sample.c */
tt_rule rule_binomial;
tt_rule rule_poisson;
tt_rule rule_standard_gamma;

/* scan.c */
tt_rule rule_running;
tt_rule rule_running_extreme;
tt_rule rule_running_logsumexp;

/* scatter.c */
tt_rule rule_embedding_backward;
tt_rule rule_index_add;
tt_rule rule_index_fill;
tt_rule rule_index_put;
tt_rule rule_index_reduce;
tt_rule rule_masked_index_put;
tt_rule rule_masked_scatter;
tt_rule rule_masked_scatter_backward;
tt_rule rule_put;
tt_rule rule_scatter;

/* shape.c */
tt_rule rule_block_diag;
tt_rule rule_cat;
tt_rule rule_chunk_cat;
tt_rule rule_diagonal_copy;
tt_rule rule_expand_copy;
tt_rule rule_flip;
tt_rule rule_part_copy;
tt_rule rule_part_scatter;
tt_rule rule_permute_copy;
tt_rule rule_repeat;
tt_rule rule_reshape;
tt_rule rule_roll;
tt_rule rule_rot90;
tt_rule rule_shuffle;
tt_rule rule_split_copy;
tt_rule rule_stack;
tt_rule rule_trace;
tt_rule rule_triangle;
tt_rule rule_with_diagonal;

/* sort.c */
tt_rule rule_kthvalue;
tt_rule rule_median;
tt_rule rule_median_dim;
tt_rule rule_mode;
tt_rule rule_sort;
tt_rule rule_topk;

/* special.c */
tt_rule rule_igamma;
tt_rule rule_mvlgamma;
tt_rule rule_polygamma;
tt_rule rule_special;
tt_rule rule_zeta;

/* svd.c */
tt_rule rule_svd;

/* upsample.c */
tt_rule rule_upsample;
#endif
