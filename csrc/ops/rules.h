/* rules.h: the rules that table.c names, by file. Written by tools/rows.py from the definitions. */
#ifndef TT_OPS_RULES_H
#define TT_OPS_RULES_H
#include "ops/op.h"

/* conv.c */
tt_rule rule_conv_tbc;
tt_rule rule_convolution;
tt_rule rule_convolution_backward;

/* create.c */
tt_rule rule_arange;
tt_rule rule_eye;
tt_rule rule_linspace;
tt_rule rule_triangle_indices;

/* dot.c */
tt_rule rule_addbmm;
tt_rule rule_addmm;
tt_rule rule_addmm_activation;
tt_rule rule_addr;
tt_rule rule_int_mm;
tt_rule rule_matmul;

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

/* sample.c */
tt_rule rule_poisson;
tt_rule rule_standard_gamma;

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
tt_rule rule_part_backward;
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
#endif
