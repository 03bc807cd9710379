// The families of ops, one function each: builtin_ops() calls them all (ops/registry.cpp). A
// family's source is the only place that names its ops, except for composite ops, which name the
// ops that they emit.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

void add_unary_ops(OpRegistry& ops);             // exp, sqrt, cos, abs, logical_not
void add_binary_ops(OpRegistry& ops);            // add, mul, pow, lt, bitwise_and
void add_activation_gradients(OpRegistry& ops);  // gelu_grad, silu_grad
void add_threshold_ops(OpRegistry& ops);         // hardshrink, threshold
void add_select_ops(OpRegistry& ops);            // where, cast
void add_creation_ops(OpRegistry& ops);          // zeros, ones, full, empty, arange, dim, start
void add_random_ops(OpRegistry& ops);            // uniform, normal, randint, dropout
void add_reduction_ops(OpRegistry& ops);         // sum, prod, max, min, any, all
void add_mean_var_ops(OpRegistry& ops);          // mean, var, std, norm, logsumexp
void add_argmax_ops(OpRegistry& ops);            // argmax, argmin
void add_softmax_ops(OpRegistry& ops);           // softmax, log_softmax
void add_cumsum_ops(OpRegistry& ops);            // cumsum
void add_cumulative_ops(OpRegistry& ops);        // cumprod, cummax, cummin
void add_product_grad_ops(OpRegistry& ops);      // prod_grad, cumprod_grad
void add_logcumsumexp(OpRegistry& ops);          // logcumsumexp
void add_linalg_ops(OpRegistry& ops);            // inverse, solve, cholesky, det
void add_fourier_ops(OpRegistry& ops);           // fft, ifft
void add_optimizer_ops(OpRegistry& ops);         // sgd, sgd_momentum, adam, adamw

void add_matmul_ops(OpRegistry& ops);       // matmul, bmm, addmm, linear
void add_einsum_ops(OpRegistry& ops);       // einsum
void add_view_ops(OpRegistry& ops);         // t, transpose, permute, squeeze, expand
void add_reshape_ops(OpRegistry& ops);      // reshape, view, flatten, unflatten
void add_slice_cat_ops(OpRegistry& ops);    // slice, select, split, chunk, cat, stack
void add_layout_grad_ops(OpRegistry& ops);  // reshape_as, slice_grad, cat_grad
void add_pad_roll_ops(OpRegistry& ops);     // pad, flip, roll, repeat
void add_index_ops(OpRegistry& ops);        // embedding, index_select, one_hot
void add_index_sum(OpRegistry& ops);        // index_sum
void add_along_dim_ops(OpRegistry& ops);    // take_along_dim, scatter_along_dim
void add_sort_ops(OpRegistry& ops);         // sort, topk
void add_norm_ops(OpRegistry& ops);         // layer_norm, rms_norm
void add_norm_grad_ops(OpRegistry& ops);    // layer_norm_grad, rms_norm_grad
void add_rope_ops(OpRegistry& ops);         // rope
void add_attention_ops(OpRegistry& ops);    // sdpa, sdpa_grad, causal_mask
void add_loss_ops(OpRegistry& ops);         // cross_entropy, nll_loss, mse_loss
void add_loss_grad_ops(OpRegistry& ops);    // cross_entropy_grad, nll_loss_grad
void add_conv_ops(OpRegistry& ops);         // conv1d, conv2d
void add_halo_ops(OpRegistry& ops);         // halo_windows
// Formulas: composite ops.
void add_special_ops(OpRegistry& ops);          // lgamma, erfinv, i0, zeta
void add_complex_ops(OpRegistry& ops);          // real, imag, angle, complex
void add_arithmetic_formulas(OpRegistry& ops);  // clamp, lerp, addcmul
void add_activation_formulas(OpRegistry& ops);  // elu, mish, hardtanh
void add_loss_formulas(OpRegistry& ops);        // l1_loss, huber_loss, kl_div
void add_layout_formulas(OpRegistry& ops);      // tril, diagonal, unfold
void add_reduction_formulas(OpRegistry& ops);   // aminmax, median, count_nonzero
void add_index_formulas(OpRegistry& ops);       // x[ids]
void add_layer_formulas(OpRegistry& ops);       // batch_norm, cdist
void add_pool_formulas(OpRegistry& ops);        // avg_pool2d, max_pool1d

}  // namespace shardproof
