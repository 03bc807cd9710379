// Implements builtin_ops() of ops/core/op.h: the list of all families. The order is that of `list
// ops`.
#include "shardproof/ops/core/families.h"

namespace shardproof {

OpRegistry builtin_ops() {
  OpRegistry ops;
  add_unary_ops(ops);
  add_binary_ops(ops);
  add_activation_gradients(ops);
  add_select_ops(ops);
  add_creation_ops(ops);
  add_random_ops(ops);
  add_reduction_ops(ops);
  add_mean_var_ops(ops);
  add_argmax_ops(ops);
  add_softmax_ops(ops);
  add_cumsum_ops(ops);
  add_cumulative_ops(ops);
  add_product_grad_ops(ops);
  add_logcumsumexp(ops);
  add_linalg_ops(ops);
  add_fourier_ops(ops);
  add_optimizer_ops(ops);
  add_matmul_ops(ops);
  add_einsum_ops(ops);
  add_view_ops(ops);
  add_reshape_ops(ops);
  add_slice_cat_ops(ops);
  add_layout_grad_ops(ops);
  add_pad_roll_ops(ops);
  add_index_ops(ops);
  add_along_dim_ops(ops);
  add_sort_ops(ops);
  add_norm_ops(ops);
  add_norm_grad_ops(ops);
  add_rope_ops(ops);
  add_attention_ops(ops);
  add_loss_ops(ops);
  add_loss_grad_ops(ops);
  add_conv_ops(ops);
  add_halo_ops(ops);
  add_arithmetic_formulas(ops);
  add_activation_formulas(ops);
  add_special_ops(ops);
  add_complex_ops(ops);
  add_threshold_ops(ops);
  add_loss_formulas(ops);
  add_layout_formulas(ops);
  add_reduction_formulas(ops);
  add_layer_formulas(ops);
  add_pool_formulas(ops);
  add_index_formulas(ops);
  return ops;
}

}  // namespace shardproof
