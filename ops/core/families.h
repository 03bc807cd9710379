// The families of ops, one function each: builtin_ops() is the list of their calls (registry.cpp).
// A family's file is the only place that knows its ops.
#pragma once

#include "shardproof/ops/core/op.h"

namespace shardproof {

void add_unary_ops(OpRegistry& ops);      // unary.cpp
void add_binary_ops(OpRegistry& ops);     // binary.cpp
void add_select_ops(OpRegistry& ops);     // select.cpp: where, cast
void add_creation_ops(OpRegistry& ops);   // creation.cpp
void add_random_ops(OpRegistry& ops);     // random.cpp
void add_reduction_ops(OpRegistry& ops);  // reduction.cpp
void add_moment_ops(OpRegistry& ops);     // moment.cpp: mean, var, std, norm, logsumexp
void add_argmax_ops(OpRegistry& ops);     // argmax.cpp
void add_softmax_ops(OpRegistry& ops);    // softmax.cpp
void add_cumsum_ops(OpRegistry& ops);     // cumsum.cpp
void add_running_ops(OpRegistry& ops);    // running.cpp: cumprod, cummax, cummin
void add_logcumsumexp(OpRegistry& ops);   // logcumsumexp.cpp
void add_linalg_ops(OpRegistry& ops);     // linalg.cpp: inverse, solve, cholesky, det
void add_fourier_ops(OpRegistry& ops);    // fourier.cpp: fft, ifft
void add_optimizer_ops(OpRegistry& ops);  // optimizer.cpp

void add_matmul_ops(OpRegistry& ops);     // matmul.cpp: matmul, bmm, addmm, linear
void add_einsum_ops(OpRegistry& ops);     // einsum.cpp
void add_view_ops(OpRegistry& ops);       // view.cpp: t, transpose, permute, squeeze, expand
void add_reshape_ops(OpRegistry& ops);    // reshape.cpp: reshape, view, flatten, unflatten
void add_piece_ops(OpRegistry& ops);      // pieces.cpp: slice, select, split, chunk, cat, stack
void add_shift_ops(OpRegistry& ops);      // shift.cpp: pad, flip, roll, repeat
void add_index_ops(OpRegistry& ops);      // index.cpp: embedding, index_select, one_hot
void add_along_dim_ops(OpRegistry& ops);  // along_dim.cpp: take_along_dim, scatter_along_dim
void add_order_ops(OpRegistry& ops);      // order.cpp: sort, topk
void add_norm_ops(OpRegistry& ops);       // norm.cpp: layer_norm, rms_norm
void add_rope_ops(OpRegistry& ops);       // rope.cpp
void add_attention_ops(OpRegistry& ops);  // attention.cpp: sdpa
void add_loss_ops(OpRegistry& ops);       // loss.cpp: cross_entropy, nll_loss, mse_loss
// Formulas: names for other ops.
void add_arithmetic_formulas(OpRegistry& ops);  // arithmetic_formulas.cpp: clamp, lerp, addcmul
void add_activation_formulas(OpRegistry& ops);  // activation_formulas.cpp: elu, mish, hardtanh
void add_loss_formulas(OpRegistry& ops);        // loss_formulas.cpp: l1_loss, huber_loss, kl_div
void add_move_formulas(OpRegistry& ops);        // move_formulas.cpp: tril, diagonal, unfold
void add_reduction_formulas(OpRegistry& ops);   // reduction_formulas.cpp: aminmax, median, cumprod
void add_index_formulas(OpRegistry& ops);       // index_formulas.cpp: x[ids]
void add_layer_formulas(OpRegistry& ops);       // layer_formulas.cpp: batch_norm, cdist
void add_pool_formulas(OpRegistry& ops);        // pool_formulas.cpp: avg_pool2d, max_pool1d
void add_conv_ops(OpRegistry& ops);             // conv.cpp: conv1d, conv2d
void add_halo_ops(OpRegistry& ops);             // halo.cpp: halo_windows

}  // namespace shardproof
