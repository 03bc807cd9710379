// Implements torch_forms.h: the tables.
#include "shardproof/scenarios/rules/torch_forms.h"

#include <algorithm>
#include <array>
#include <map>

namespace shardproof {
namespace {

constexpr std::string_view kSame = "y0 = flip({self}, [])";  // copies, of any dtype
constexpr std::string_view kView = "y0 = view({self}, {size|shape}){~stride}";

const FormTable kViewForms = {
    {"_lazy_clone", {"self", kSame, ""}},
    {"_reshape_alias", {"self", kView, ""}},
    {"_to_copy", {"self", "y0 = {#cast}", ""}},
    {"_unsafe_view", {"self", kView, ""}},
    {"alias", {"self", kSame, ""}},
    {"cat", {"tensors*", "y0 = cat([{tensors}], dim={dim=0})", ""}},
    {"clone", {"self", kSame, ""}},
    {"constant_pad_nd", {"self", "y0 = pad({self}, {pad}, value={value=0})", ""}},
    {"contiguous", {"self", kSame, ""}},
    {"copy", {"self src", "y0 = {#copy}", ""}},
    {"detach", {"self", kSame, ""}},
    {"diag_embed",
     {"self",
      "y0 = movedim(diag_embed({self}, offset={offset=0}), [-2, -1], [{dim1=-2}, {dim2=-1}])", ""}},
    {"expand_as", {"self other", "y0 = where(ones(like={other}) != 0, {self}, {self})", ""}},
    {"expand", {"self", "y0 = expand({self}, {size|shape}){~implicit}", ""}},
    {"lift_fresh", {"self", kSame, ""}},
    {"mT", {"self", "y0 = t({self})", ""}},
    {"adjoint", {"self", "y0 = conj(t({self}))", ""}},
    {"narrow", {"self", "y0 = narrow({self}, {dim}, {start}, {length})", ""}},
    {"positive", {"self", kSame, ""}},
    {"reflection_pad1d", {"self", "y0 = pad({self}, {padding}, mode='reflect')", ""}},
    {"reflection_pad2d", {"self", "y0 = pad({self}, {padding}, mode='reflect')", ""}},
    {"reflection_pad3d", {"self", "y0 = pad({self}, {padding}, mode='reflect')", ""}},
    {"replication_pad1d", {"self", "y0 = pad({self}, {padding}, mode='replicate')", ""}},
    {"replication_pad2d", {"self", "y0 = pad({self}, {padding}, mode='replicate')", ""}},
    {"replication_pad3d", {"self", "y0 = pad({self}, {padding}, mode='replicate')", ""}},
    {"resolve_conj", {"self", kSame, ""}},
    {"resolve_neg", {"self", kSame, ""}},
    {"reshape", {"self", "y0 = reshape({self}, {size|shape})", ""}},
    {"select_backward",
     {"grad_output", "y0 = pad(unsqueeze({grad_output}, {dim}), {#select_pad})", ""}},
    {"select_scatter",
     {"self src", "y0 = slice_scatter({self}, unsqueeze({src}, {dim}), dim={dim}, {#select_range})",
      ""}},
    {"slice", {"self", "y0 = {self}{#slice}", ""}},
    {"slice_backward", {"grad_output", "y0 = pad({grad_output}, {#slice_pad}){=step:1}", ""}},
    {"slice_scatter",
     {"self src", "y0 = slice_scatter({self}, {src}, dim={dim=0}{, start}{, end}{, step})", ""}},
    {"_neg_view", {"self", "y0 = -1 * {self}", ""}},
    {"as_strided", {"self", "y0 = take({self}, {#strided})", ""}},
    {"as_strided_scatter",
     {"self src",
      "y0 = reshape_as(index_copy(flatten({self}), 0, flatten({#strided}), flatten({src})), "
      "{self})",
      ""}},
    {"atleast_1d", {"self", "y0 = {#at_least:1}", ""}},
    {"atleast_2d", {"self", "y0 = {#at_least:2}", ""}},
    {"atleast_3d", {"self", "y0 = {#at_least:3}", ""}},
    {"fliplr", {"self", "y0 = flip({self}, [1])", ""}},
    {"flipud", {"self", "y0 = flip({self}, [0])", ""}},
    {"msort", {"self", "y0, h = sort({self}, dim=0)", ""}},
    {"ravel", {"self", "y0 = flatten({self})", ""}},
    {"tensor_split", {"self", "{ys} = split({self}, {#section_sizes}, {dim=0})", "*"}},
    {"split_with_sizes", {"self", "{ys} = split({self}, {split_sizes|sizes}, {dim=0})", "*"}},
    {"squeeze", {"self", "y0 = squeeze({self}, dim={#squeezed_dims})", ""}},
    {"stack", {"tensors*", "y0 = stack([{tensors}], dim={dim=0})", ""}},
    {"swapaxes", {"self", "y0 = transpose({self}, {axis0}, {axis1})", ""}},
    {"tile", {"self", "y0 = repeat({self}, {dims})", ""}},
    {"to", {"self", "y0 = {#cast}", ""}},
    {"transpose", {"self", "y0 = transpose({self}, {dim0}, {dim1})", ""}},
    {"type_as", {"self other", "y0 = cast({self}, {#dtype_of_other})", ""}},
    {"unbind", {"self", "{ys} = unbind({self}, {dim=0})", "*"}},
    {"view", {"self", kView, ""}},
    {"view_as", {"self other", "y0 = reshape_as({self}, {other})", ""}},
};

const FormTable kConstantForms = {
    {"empty_like", {"self", "y0 = zeros(like={self}{, dtype})", ""}},
    {"fill", {"self value", "y0 = {#fill}", ""}},
    {"full_like", {"self", "y0 = full(like={self}, value={fill_value|value}{, dtype})", ""}},
    {"new_empty", {"self", "y0 = zeros({#new_shape})", ""}},
    {"new_full", {"self", "y0 = full({#new_shape}, value={fill_value})", ""}},
    {"new_ones", {"self", "y0 = ones({#new_shape})", ""}},
    {"new_zeros", {"self", "y0 = zeros({#new_shape})", ""}},
    {"ones_like", {"self", "y0 = ones(like={self}{, dtype})", ""}},
    {"zero", {"self", "y0 = zeros(like={self})", ""}},
    {"zeros_like", {"self", "y0 = zeros(like={self}{, dtype})", ""}},
    {"dropout", {"input", "y0 = dropout({input}, p={p=0.5}, training={train|training=true})", ""}},
    {"native_dropout",
     {"input", "y0 = dropout({input}, p={p}, training={train=true})", "output mask!"}},
    {"native_dropout_backward", {"grad_output mask", "y0 = {grad_output} * {mask} * {scale}", ""}},
    {"bernoulli", {"self", "y0 = cast({#random} < {self}, {#dtype_of_self})", ""}},
    {"bernoulli_", {"self p?", "y0 = cast({#random} < {p=0.5}, {#dtype_of_self})", ""}},
    {"bernoulli.Tensor", {"self p", "y0 = cast({#random} < {p}, {#dtype_of_self})", ""}},
    {"bernoulli.p", {"self", "y0 = cast({#random} < {p=0.5}, {#dtype_of_self})", ""}},
    {"cauchy",
     {"self", "y0 = {median=0} + {sigma=1} * tan(({#random} - 0.5) * 3.141592653589793)", ""}},
    {"exponential", {"self", "y0 = log1p(-1 * {#random}) / (-1 * {lambd=1})", ""}},
    {"geometric",
     {"self", "y0 = ceil(log1p(-1 * {#random}) / log1p(zeros(like={self}) - {p}))", ""}},
    {"log_normal", {"self", "y0 = exp({mean=1} + {std=2} * {#random})", ""}},
    {"new_empty_strided", {"self", "y0 = zeros({#new_shape}){~stride}", ""}},
    {"normal", {"self", "y0 = normal(like={self}, mean={mean=0}, std={std=1})", ""}},
    {"rand_like", {"self", "y0 = uniform(like={self}{, dtype})", ""}},
    {"randint_like", {"self", "y0 = randint(like={self}, low={low=0}, high={high}{, dtype})", ""}},
    {"random", {"self", "y0 = randint(like={self}, low={from=0}, high={to=16777216})", ""}},
    {"randn_like", {"self", "y0 = normal(like={self}{, dtype})", ""}},
    {"uniform", {"self", "y0 = uniform(like={self}, low={from=0}, high={to=1})", ""}},
};

const FormTable kArithmeticForms = {
    {"_prelu_kernel", {"self weight", "y0 = where({self} > 0, {self}, {weight} * {self})", ""}},
    {"addbmm",
     {"self batch1 batch2",
      "y0 = {beta=1} * {self} + {alpha=1} * sum(bmm({batch1}, {batch2}), dim=0)", ""}},
    {"addr", {"self vec1 vec2", "y0 = {beta=1} * {self} + {alpha=1} * outer({vec1}, {vec2})", ""}},
    {"dot", {"self tensor", "y0 = {self} @ {tensor}", ""}},
    {"elu", {"self", "y0 = {#elu}", ""}},
    {"bincount", {"self weights?", "{#bincount}", ""}},
    {"cholesky_inverse", {"self", "h = {#triangle}\ny0 = inverse({#triangle_product})", ""}},
    {"cholesky_solve",
     {"self input2", "h = {#triangle}\ny0 = solve({#triangle_product}, {self})", ""}},
    {"float_power", {"self exponent", "y0 = {#float_power}", ""}},
    {"histc",
     {"self",
      "h = flatten({self})\n"
      "{#range}\n"
      "b = clamp_max(floor((h - low) * ({bins=100} / (high - low))), {bins=100} - 1)\n"
      "i = logical_and(h >= low, h <= high)\n"
      "n = logical_and(unsqueeze(b, 1) == arange(0, {bins=100}), unsqueeze(i, 1))\n"
      "y0 = cast(sum(cast(n, i64), dim=0), {#dtype_of_self})",
      ""}},
    {"kron", {"self other", "{#kron}", ""}},
    {"linalg_slogdet", {"A", "h = det({A})\ny0 = sgn(h)\ny1 = log(abs(h))", "sign logabsdet"}},
    {"_linalg_slogdet",
     {"A", "h = det({A})\ny0 = sgn(h)\ny1 = log(abs(h))", "sign logabsdet LU! pivots!"}},
    {"linalg_solve_triangular", {"self B", "{#solve_triangle}", ""}},
    {"frexp",
     {"self",
      "h = logical_and({self} != 0, isfinite({self}))\n"
      "h = where(h, floor(log2(abs(where(h, {self}, 1)))) + 1, 0)\n"
      "y0 = {self} / exp2(h)\n"
      "y1 = cast(h, i32)",
      "mantissa exponent"}},
    {"inner", {"self other", "{#inner}", ""}},
    {"logdet", {"self", "h = det({self})\ny0 = log(h)", ""}},
    {"multinomial",
     {"self", "h, y0 = topk(log({#random}) / {self}, {num_samples}, dim=-1){~replacement}", ""}},
    {"nanmedian.dim",
     {"self",
      "h, j = sort({self}, {#reduced_dim})\n"
      "n = sum(cast(logical_not(isnan({self})), i64), dim={#reduced_dim}, keepdim=true)\n"
      "k = clamp_min((n - 1) // 2, 0)\n"
      "y0 = sum(take_along_dim(h, k, {#reduced_dim}), dim={#reduced_dim}{, keepdim})\n"
      "y1 = sum(take_along_dim(j, k, {#reduced_dim}), dim={#reduced_dim}{, keepdim})",
      "values indices"}},
    {"nanmedian",
     {"self",
      "h, j = sort(flatten({self}), 0)\n"
      "n = sum(cast(logical_not(isnan({self})), i64))\n"
      "y0 = sum(take_along_dim(h, unsqueeze(clamp_min((n - 1) // 2, 0), 0), 0))",
      ""}},
    {"mode", {"self", "{#mode}", "values indices?"}},
    {"special_spherical_bessel_j0", {"x", "y0 = sinc({x} / 3.141592653589793)", ""}},
    {"tensordot", {"self other", "{#tensordot}", ""}},
    {"triangular_solve", {"self A", "{#solve_triangle}", "solution cloned_coefficient!"}},
    {"floor_divide", {"self other", "y0 = {self} // {other}", ""}},
    {"ger", {"self vec2", "y0 = outer({self}, {vec2})", ""}},
    // Steps of one parameter of a list (torch_lists.cpp); lr and others have the names of our ops.
    {"fused_adam",
     {"w g m v step",
      "y0, y2, y3 = adam({w}, {g}, {m}, {v}, step=cast(clamp_min({step}, 1), i64), lr={lr}, "
      "beta1={beta1}, beta2={beta2}, weight_decay={weight_decay}, eps={eps})\n"
      "y1 = flip({g}, [])",
      "w g m v"}},
    {"fused_adamw",
     {"w g m v step",
      "y0, y2, y3 = adamw({w}, {g}, {m}, {v}, step=cast(clamp_min({step}, 1), i64), lr={lr}, "
      "beta1={beta1}, beta2={beta2}, weight_decay={weight_decay}, eps={eps})\n"
      "y1 = flip({g}, [])",
      "w g m v"}},
    {"fused_sgd",
     {"w g", "y0 = sgd({w}, {g}, lr={lr}, weight_decay={weight_decay})\ny1 = flip({g}, [])",
      "w g"}},
    {"fused_sgd_momentum",
     {"w g buffer",
      "y0, y2 = sgd_momentum({w}, {g}, {buffer}, lr={lr}, weight_decay={weight_decay}, "
      "momentum={momentum}, dampening={dampening}{, nesterov}, step={step})\n"
      "y1 = flip({g}, [])",
      "w g buffer"}},
    {"addcdiv_of_scalars",
     {"x a b scalars", "y0 = {x} + select({scalars}, 0, {index}) * {a} / {b}", ""}},
    {"addcmul_of_scalars",
     {"x a b scalars", "y0 = {x} + select({scalars}, 0, {index}) * {a} * {b}", ""}},
    {"_scaled_mm",
     {"self mat2 scale_a scale_b bias? scale_result?",
      "y0 = {self} @ {mat2} * {scale_a} * {scale_b}{#plus_bias}{~scale_result}{~out_dtype}"
      "{~use_fast_accum}",
      ""}},
    {"cumulative_trapezoid", {"y x?", "{#trapezoid}", ""}},
    {"trapezoid", {"y x?", "{#trapezoid}", ""}},
    {"equal", {"self other", "y0 = all({self} == {other})", ""}},
    {"linalg__powsum", {"self", "y0 = sum(abs({self}) ** {ord=2}{, dim}{, keepdim}{, dtype})", ""}},
    {"linalg_matrix_exp", {"self", "{#matrix_exp}", ""}},
    {"linalg_pinv",
     {"self atol? rtol?", "{#pseudo_inverse}{~atol}{~rtol}{~rcond}{=hermitian:false}", ""}},
    {"cross",
     {"self other",
      "y0 = roll({self}, -1, {dim=-1}) * roll({other}, -2, {dim=-1}) - "
      "roll({self}, -2, {dim=-1}) * roll({other}, -1, {dim=-1})",
      ""}},
    {"linalg_vector_norm",
     {"self", "y0 = vector_norm({self}, {ord=2}{, dim}{, keepdim}{, dtype})", ""}},
    {"linalg_norm", {"self", "y0 = vector_norm({self}, {ord=2}{, dim}{, keepdim}{, dtype})", ""}},
    {"masked_fill", {"self mask value", "y0 = {#masked_fill}", ""}},
    {"max.dim",
     {"self", "y0 = amax({self}, {dim}{, keepdim})\ny1 = argmax({#ordered:self}, {dim}{, keepdim})",
      "values indices"}},
    {"min.dim",
     {"self", "y0 = amin({self}, {dim}{, keepdim})\ny1 = argmin({#ordered:self}, {dim}{, keepdim})",
      "values indices"}},
    {"mm", {"self mat2", "y0 = {self} @ {mat2}", ""}},
    {"mv", {"self vec", "y0 = {self} @ {vec}", ""}},
    {"vdot", {"self other", "y0 = conj({self}) @ {other}", ""}},
    {"special_entr", {"self", "y0 = -1 * xlogy({self}, {self})", ""}},
    {"special_ndtr", {"self", "y0 = erfc({self} * -0.7071067811865476) / 2", ""}},
    {"where", {"condition self other", "y0 = where({condition}, {self}, {other})", ""}},
    {"_linalg_det", {"A", "y0 = det({A})", "result LU! pivots!"}},
    {"linalg_det", {"A", "y0 = det({A})", ""}},
    {"_linalg_solve_ex",
     {"A B", "y0 = solve({A}, {B}){=left:true}{~check_errors}", "result LU! pivots! info!"}},
    {"linalg_solve", {"A B", "y0 = solve({A}, {B}){=left:true}", ""}},
    {"linalg_inv", {"A", "y0 = inverse({A})", ""}},
    {"linalg_inv_ex", {"A", "y0 = inverse({A}){#info:A}{~check_errors}", "inverse info?"}},
    {"cholesky", {"self", "{#cholesky}", ""}},
    {"linalg_cholesky", {"self", "{#cholesky}", ""}},
    {"linalg_cholesky_ex", {"self", "{#cholesky}{#info:self}{~check_errors}", "L info?"}},
    {"linalg_matmul", {"self other", "y0 = {self} @ {other}", ""}},
};

const FormTable kIndexForms = {
    {"embedding",
     {"weight indices",
      "y0 = embedding({indices}, {weight}{, padding_idx}){~scale_grad_by_freq}{~sparse}", ""}},
    {"embedding_dense_backward",
     {"grad_output indices",
      "y0 = index_sum({grad_output}, dim=0, size={num_weights}, indices={indices}{#ignore})"
      "{=scale_grad_by_freq:false}",
      ""}},
    {"gather", {"self index", "y0 = take_along_dim({self}, {index}, {dim}){~sparse_grad}", ""}},
    {"index", {"self indices*", "y0 = {self}{#index}", ""}},
    {"index_add",
     {"self index source", "y0 = index_add({self}, {dim}, {index}, {source}{, alpha})", ""}},
    {"_index_put_impl", {"self indices* values", "y0 = {#index_put}{~unsafe}", ""}},
    {"index_put", {"self indices* values", "y0 = {#index_put}", ""}},
    {"index_select",
     {"self index", "y0 = index_select({self}, {dim}, indices=flatten({index}))", ""}},
    {"masked_scatter",
     {"self mask source",
      "m = logical_and({mask}, zeros(like={self}) == 0)\n"
      "n = clamp_min(cumsum(cast(flatten(m), i64), 0) - 1, 0)\n"
      "y0 = where(m, reshape_as(take({source}, n), {self}), {self})",
      ""}},
    {"put",
     {"self index source",
      "y0 = reshape_as({#put}(flatten({self}), 0, flatten({index}), flatten({source})), {self})",
      ""}},
    {"scatter",
     {"self index src? value?", "y0 = scatter_along_dim({self}, {dim}, {index}, {#scatter})", ""}},
    {"scatter_add",
     {"self index src", "y0 = scatter_along_dim({self}, {dim}, {index}, {src}, reduce='add')", ""}},
    {"diagonal_scatter", {"self src", "{#diagonal_scatter}", ""}},
    {"index_reduce", {"self index source", "{#scatter_reduce}", ""}},
    {"isin", {"elements test_elements?", "{#isin}{~assume_unique}", ""}},
    {"isin.Scalar_Tensor", {"test_elements", "{#isin}{~assume_unique}", ""}},
    {"scatter_reduce", {"self index src", "{#scatter_reduce}", ""}},
    {"searchsorted", {"sorted_sequence self sorter?", "{#searchsorted}", ""}},
    {"take_along_dim", {"self indices", "y0 = take_along_dim({self}, {indices}{, dim})", ""}},
};

const FormTable kNetworkForms = {
    {"_adaptive_avg_pool2d", {"self", "y0 = adaptive_avg_pool2d({self}, {output_size})", ""}},
    {"_adaptive_avg_pool3d", {"self", "y0 = adaptive_avg_pool3d({self}, {output_size})", ""}},
    {"_cdist_forward", {"x1 x2", "y0 = cdist({x1}, {x2}, p={p=2}){~compute_mode}", ""}},
    {"_log_softmax", {"self", "y0 = log_softmax({self}, {dim}{#half_to_float})", ""}},
    {"_safe_softmax", {"self", "y0 = softmax({self}, {dim}{, dtype})", ""}},
    {"_softmax", {"self", "y0 = softmax({self}, {dim}{#half_to_float})", ""}},
    {"_fused_rms_norm",
     {"input weight?",
      "y0 = rms_norm({input}, normalized_shape={normalized_shape}{, weight}{, eps})\n"
      "y1 = rsqrt(mean({input} * {input}, dim={#normalized_dims}, keepdim=true) + "
      "{eps=1.1920928955078125e-07})",
      "output rstd?"}},
    {"_scaled_dot_product_cudnn_attention",
     {"query key value attn_bias?",
      "y0, y1 = sdpa({query}, {key}, {value}, causal={is_causal=false}{, scale}{, "
      "mask:attn_bias}){=dropout_p:0}{~compute_log_sumexp}{~return_debug_mask}",
      "output logsumexp? cum_seq_q! cum_seq_k! max_q! max_k! philox_seed! philox_offset! "
      "debug_attn_mask!"}},
    {"_scaled_dot_product_efficient_attention",
     {"query key value attn_bias?",
      "y0, y1 = sdpa({query}, {key}, {value}, causal={is_causal=false}{, scale}{, "
      "mask:attn_bias}){=dropout_p:0}{~compute_log_sumexp}",
      "output logsumexp? philox_seed! philox_offset!"}},
    {"_scaled_dot_product_flash_attention",
     {"query key value",
      "y0, y1 = sdpa({query}, {key}, {value}, causal={is_causal=false}{, scale})"
      "{=dropout_p:0}{~return_debug_mask}",
      "output logsumexp? cum_seq_q! cum_seq_k! max_q! max_k! rng_state! unused! "
      "debug_attn_mask!"}},
    {"_scaled_dot_product_flash_attention_for_cpu",
     {"query key value attn_mask?",
      "y0, y1 = sdpa({query}, {key}, {value}, causal={is_causal=false}{, scale}{, "
      "mask:attn_mask}){=dropout_p:0}",
      "output logsumexp?"}},
    {"scaled_dot_product_attention",
     {"query key value attn_mask?",
      "y0 = sdpa({query}, {key}, {value}, causal={is_causal=false}{, scale}{, "
      "mask:attn_mask}){=dropout_p:0}{~enable_gqa}",
      ""}},
    {"adaptive_max_pool1d",
     {"self", "y0 = adaptive_max_pool1d({self}, {output_size})", "output indices!"}},
    {"adaptive_max_pool2d",
     {"self", "y0 = adaptive_max_pool2d({self}, {output_size})", "output indices!"}},
    {"adaptive_max_pool3d",
     {"self", "y0 = adaptive_max_pool3d({self}, {output_size})", "output indices!"}},
    {"convolution", {"input weight bias?", "{#convolution:y0}", ""}},
    {"conv3d", {"input weight bias?", "{#convolution:y0}", ""}},
    {"conv_transpose3d", {"input weight bias?", "{#convolution:y0}", ""}},
    {"max_pool1d_with_indices",
     {"self", "y0 = max_pool1d({self}{#window}){#pool_indices:1}", "output indices?"}},
    {"max_pool2d_with_indices",
     {"self", "y0 = max_pool2d({self}{#window}){#pool_indices:2}", "output indices?"}},
    {"max_pool3d_with_indices",
     {"self", "y0 = max_pool3d({self}{#window}){#pool_indices:3}", "output indices?"}},
    {"max_unpool2d", {"self indices", "{#unpool:2}", ""}},
    {"max_unpool3d", {"self indices", "{#unpool:3}{~stride}{~padding}", ""}},
    {"log_sigmoid_forward",
     {"self", "y0 = logsigmoid({self})\ny1 = exp(-1 * abs({self}))", "output buffer?"}},
    {"batch_norm",
     {"input weight? bias? running_mean? running_var?",
      "y0 = batch_norm({input}{, running_mean}{, running_var}{, weight}{, bias}{, training}"
      "{, momentum}{, eps})",
      ""}},
    {"native_batch_norm",
     {"input weight? bias? running_mean? running_var?",
      "y0 = batch_norm({input}{, running_mean}{, running_var}{, weight}{, bias}{, training}"
      "{, momentum}{, eps}){#batch_stats}",
      "output save_mean? save_invstd?"}},
    {"_batch_norm_with_update",
     {"input weight? bias? running_mean running_var",
      "y0 = batch_norm({input}, {running_mean}, {running_var}{, weight}{, bias}, training=true"
      "{, momentum}{, eps}){#stats_of_batch}",
      "output save_mean? save_invstd? reserve!"}},
    {"_native_batch_norm_legit_no_training",
     {"input weight? bias? running_mean running_var",
      "y0 = batch_norm({input}, {running_mean}, {running_var}{, weight}{, bias}{, momentum}"
      "{, eps})",
      "output save_mean! save_invstd!"}},
    {"_fft_c2c", {"self", "{#fft}", ""}},
    {"_fft_c2r", {"self", "{#fft_c2r}", ""}},
    {"_fft_r2c", {"self", "{#fft}", ""}},
    {"_upsample_bicubic2d_aa", {"input", "{#upsample}", ""}},
    {"_upsample_bicubic2d_aa_backward", {"grad_output", "{#upsample}", ""}},
    {"_upsample_bilinear2d_aa", {"input", "{#upsample}", ""}},
    {"_upsample_bilinear2d_aa_backward", {"grad_output", "{#upsample}", ""}},
    {"_upsample_nearest_exact1d", {"input", "{#upsample}", ""}},
    {"_upsample_nearest_exact1d_backward", {"grad_output", "{#upsample}", ""}},
    {"_upsample_nearest_exact2d_backward", {"grad_output", "{#upsample}", ""}},
    {"_upsample_nearest_exact3d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_bicubic2d", {"input", "{#upsample}", ""}},
    {"upsample_bicubic2d_backward", {"grad_output", "{#upsample}", ""}},
    {"_upsample_nearest_exact2d", {"input", "{#upsample}", ""}},
    {"_upsample_nearest_exact3d", {"input", "{#upsample}", ""}},
    {"col2im",
     {"self",
      "u = unflatten({self}, 1, [-1, {#kernel}])\n"
      "z = unsqueeze(unsqueeze(sum(u, [2, 3, 4]) * 0, 2), 3) + zeros({output_size})\n"
      "{#windows:z}\n"
      "y0 = grad(h, [z], with={self})",
      ""}},
    {"im2col", {"self", "{#windows:x0}\ny0 = h", ""}},
    {"upsample_bilinear2d", {"input", "{#upsample}", ""}},
    {"upsample_linear1d", {"input", "{#upsample}", ""}},
    {"upsample_bilinear2d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_linear1d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_nearest1d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_nearest2d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_nearest3d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_trilinear3d_backward", {"grad_output", "{#upsample}", ""}},
    {"upsample_nearest1d", {"input", "{#upsample}", ""}},
    {"upsample_nearest2d", {"input", "{#upsample}", ""}},
    {"upsample_nearest3d", {"input", "{#upsample}", ""}},
    {"upsample_trilinear3d", {"input", "{#upsample}", ""}},
    {"native_group_norm",
     {"input weight? bias?",
      "y0 = group_norm({input}, {group}{, weight}{, bias}{, eps})\n"
      "h = flatten(unflatten({input}, 1, [{group}, -1]), 2)\n"
      "y1 = mean(h, dim=-1)\n"
      "y2 = rsqrt(var(h, dim=-1, correction=0) + {eps=1e-05}){~N}{~C}{~HxW}",
      "output mean? rstd?"}},
    {"native_layer_norm",
     {"input weight? bias?",
      "y0 = layer_norm({input}, normalized_shape={normalized_shape}{, weight}{, bias}{, eps})\n"
      "y1 = mean({input}, dim={#normalized_dims}, keepdim=true)\n"
      "y2 = rsqrt(var({input}, dim={#normalized_dims}, correction=0, keepdim=true) + "
      "{eps=1e-05})",
      "output mean? rstd?"}},
};

const FormTable kLossForms = {
    {"binary_cross_entropy",
     {"self target weight?",
      "y0 = binary_cross_entropy({self}, {target}{, weight}, reduction={#reduction})", ""}},
    {"cross_entropy_loss",
     {"self target weight?",
      "y0 = cross_entropy({self}, {target}{, weight}, reduction={#reduction}{, ignore_index}"
      "{, label_smoothing})",
      ""}},
    {"huber_loss",
     {"self target", "y0 = huber_loss({self}, {target}, reduction={#reduction}, delta={delta=1})",
      ""}},
    {"nll_loss2d",
     {"self target weight?",
      "y0 = nll_loss({self}, {target}{, weight}, reduction={#reduction}{, ignore_index})", ""}},
    {"nll_loss_forward",
     {"self target weight?",
      "y0 = nll_loss({self}, {target}{, weight}, reduction={#reduction}{, ignore_index})\n"
      "y1 = nll_loss(full(like={self}, value=-1), {target}{, weight}, reduction='sum'"
      "{, ignore_index}){#of_reduction}",
      "output total_weight?"}},
    {"smooth_l1_loss",
     {"self target", "y0 = smooth_l1_loss({self}, {target}, reduction={#reduction}, beta={beta=1})",
      ""}},
};

const std::map<std::string_view, std::string_view> kTorchAliases = {
    {"__and__", "bitwise_and"},
    {"_unsafe_index", "index"},
    {"_unsafe_index_put", "index_put"},
    {"__iand__", "bitwise_and"},
    {"__ilshift__", "bitwise_left_shift"},
    {"__ior__", "bitwise_or"},
    {"__irshift__", "bitwise_right_shift"},
    {"__ixor__", "bitwise_xor"},
    {"__lshift__", "bitwise_left_shift"},
    {"__or__", "bitwise_or"},
    {"__rshift__", "bitwise_right_shift"},
    {"__xor__", "bitwise_xor"},
    {"_aminmax", "aminmax"},
    {"_conj", "conj"},
    {"_conj_physical", "conj"},
    {"_euclidean_dist", "cdist"},
    {"_native_batch_norm_legit", "native_batch_norm"},
    {"absolute", "abs"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctan2", "atan2"},
    {"arctanh", "atanh"},
    {"broadcast_to", "expand"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"conj_physical", "conj"},
    {"data", "alias"},
    {"divide", "div"},
    {"fix", "trunc"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"linalg_cross", "cross"},
    {"log_sigmoid", "logsigmoid"},
    {"moveaxis", "movedim"},
    {"multiply", "mul"},
    {"native_channel_shuffle", "channel_shuffle"},
    {"negative", "neg"},
    {"nll_loss2d_forward", "nll_loss_forward"},
    {"nll_loss2d_backward", "nll_loss_backward"},
    {"not_equal", "ne"},
    {"row_stack", "vstack"},
    {"matrix_exp", "linalg_matrix_exp"},
    {"pinverse", "linalg_pinv"},
    {"slogdet", "linalg_slogdet"},
    {"trapz", "trapezoid"},
    {"special_expit", "sigmoid"},
    {"special_gammainc", "igamma"},
    {"special_gammaincc", "igammac"},
    {"special_gammaln", "lgamma"},
    {"special_modified_bessel_i0", "i0"},
    {"special_modified_bessel_i1", "i1"},
    {"special_multigammaln", "mvlgamma"},
    {"special_psi", "digamma"},
    {"subtract", "sub"},
    {"swapdims", "transpose"},
    {"true_divide", "div"},
    {"unsafe_chunk", "chunk"},
    {"unsafe_split", "split"},
    {"unsafe_split_with_sizes", "split_with_sizes"},
};

const FormTable* const kFormTables[] = {&kViewForms,      &kConstantForms, &kArithmeticForms,
                                        &kIndexForms,     &kNetworkForms,  &kLossForms,
                                        &backward_forms()};

// The shapes of their results depend on the values of their inputs.
constexpr std::array<std::string_view, 7> kShapedByValues = {
    "_unique2", "argwhere",           "masked_select", "nonzero",
    "unique",   "unique_consecutive", "unique_dim"};

}  // namespace

bool has_shape_by_values(std::string_view name) {
  return std::find(kShapedByValues.begin(), kShapedByValues.end(), name) != kShapedByValues.end();
}

std::optional<TorchForm> torch_form(std::string_view name) {
  for (const FormTable* const table : kFormTables)
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return std::nullopt;
}

std::string_view torch_alias(std::string_view name) {
  if (const auto found = kTorchAliases.find(name); found != kTorchAliases.end())
    return found->second;
  constexpr std::string_view kSpecial = "special_", kCopy = "_copy";
  if (name.starts_with(kSpecial)) return name.substr(kSpecial.size());
  if (name.ends_with(kCopy) && name != "_to_copy") return name.substr(0, name.size() - 5);
  return name;
}

void for_each_torch_name(const std::function<void(std::string_view)>& offer) {
  for (const FormTable* const table : kFormTables)
    for (const auto& [name, form] : *table) offer(name);
  for (const auto& [name, alias] : kTorchAliases) offer(name);
}

}  // namespace shardproof
