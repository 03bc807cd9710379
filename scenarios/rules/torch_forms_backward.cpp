// Implements torch_forms.h: the backward ops of torch.
//
// Some backwards are ops of their own in torch. If such a backward needs no value of the forward
// pass, it is the gradient of the call: h = conv2d(..), then grad(h, [..], with=grad_output). Torch
// has the cotangent of the result as the first input.
#include "shardproof/scenarios/rules/torch_forms.h"

namespace shardproof {

namespace {

const FormTable kBackwardForms = {
    {"_adaptive_avg_pool2d_backward",
     {"grad_output self",
      "h = adaptive_avg_pool2d({self}, {#output_size})\ny0 = grad(h, [{self}], "
      "with={grad_output})",
      ""}},
    {"_adaptive_avg_pool3d_backward",
     {"grad_output self",
      "h = adaptive_avg_pool3d({self}, {#output_size})\ny0 = grad(h, [{self}], "
      "with={grad_output})",
      ""}},
    {"_cdist_backward",
     {"grad x1 x2 cdist?", "h = cdist({x1}, {x2}, p={p=2})\ny0 = grad(h, [{x1}], with={grad})",
      ""}},
    {"_prelu_kernel_backward",
     {"grad_output self weight",
      "y0 = where({self} > 0, {grad_output}, {weight} * {grad_output})\n"
      "y1 = where({self} > 0, 0, {self} * {grad_output})",
      "grad_input grad_weight"}},
    {"_scaled_dot_product_flash_attention_for_cpu_backward",
     {"grad_out query key value out logsumexp",
      "y0, y1, y2 = sdpa_grad({grad_out}, {query}, {key}, {value}, {out}, {logsumexp}, "
      "causal={is_causal=false}{, scale}){=dropout_p:0}{=attn_mask:null}",
      "grad_query grad_key grad_value"}},
    {"avg_pool3d_backward",
     {"grad_output self",
      "h = avg_pool3d({self}{#window}{, count_include_pad}{, divisor_override})\n"
      "y0 = grad(h, [{self}], with={grad_output})",
      ""}},
    {"batch_norm_backward",
     {"grad_out input weight running_mean? running_var? save_mean? save_invstd? reserve?",
      "{#batch_norm_backward}{~output_mask}", "grad_input grad_weight? grad_bias?"}},
    {"diagonal_backward",
     {"grad_output",
      "z = zeros([{#result_sizes}]) + sum({grad_output}) * 0\n"
      "h = diagonal(z, {offset=0}, {dim1=0}, {dim2=1})\n"
      "y0 = grad(h, [z], with={grad_output})",
      ""}},
    {"unfold_backward",
     {"grad_in",
      "z = zeros([{#result_sizes}]) + sum({grad_in}) * 0\n"
      "h = unfold(z, {dim}, {size}, {step})\n"
      "y0 = grad(h, [z], with={grad_in})",
      ""}},
    {"adaptive_max_pool2d_backward", {"grad_output self indices", "{#pool_backward:2}", ""}},
    {"adaptive_max_pool3d_backward", {"grad_output self indices", "{#pool_backward:3}", ""}},
    {"max_pool2d_with_indices_backward",
     {"grad_output self indices",
      "{#pool_backward:2}{~kernel_size}{~stride}{~padding}{~dilation}{~ceil_mode}", ""}},
    {"max_pool3d_with_indices_backward",
     {"grad_output self indices",
      "{#pool_backward:3}{~kernel_size}{~stride}{~padding}{~dilation}{~ceil_mode}", ""}},
    {"reflection_pad1d_backward", {"grad_output self", "{#pad_backward:reflect}", ""}},
    {"reflection_pad2d_backward", {"grad_output self", "{#pad_backward:reflect}", ""}},
    {"reflection_pad3d_backward", {"grad_output self", "{#pad_backward:reflect}", ""}},
    {"replication_pad1d_backward", {"grad_output self", "{#pad_backward:replicate}", ""}},
    {"replication_pad2d_backward", {"grad_output self", "{#pad_backward:replicate}", ""}},
    {"replication_pad3d_backward", {"grad_output self", "{#pad_backward:replicate}", ""}},
    {"_scaled_dot_product_cudnn_attention_backward",
     {"grad_out query key value out logsumexp philox_seed? philox_offset? attn_bias? cum_seq_q? "
      "cum_seq_k?",
      "y0, y1, y2 = sdpa_grad({grad_out}, {query}, {key}, {value}, {out}, {logsumexp}, "
      "causal={is_causal=false}{, scale}){=dropout_p:0}{=attn_bias:null}{~max_q}{~max_k}",
      "grad_query grad_key grad_value"}},
    {"native_batch_norm_backward",
     {"grad_out input weight? running_mean? running_var? save_mean? save_invstd?",
      "{#batch_norm_backward}{~output_mask}", "grad_input grad_weight? grad_bias?"}},
    {"native_group_norm_backward",
     {"grad_out input mean rstd weight?",
      "k = flatten(unflatten({input}, 1, [{group}, -1]), 2)\n"
      "n = (k - unsqueeze({mean}, -1)) * unsqueeze({rstd}, -1)\n"
      "g = reshape_as({grad_out}{#times_channels:weight}, n)\n"
      "h = (g - mean(g, dim=-1, keepdim=true) - n * mean(g * n, dim=-1, keepdim=true)) * "
      "unsqueeze({rstd}, -1)\n"
      "y0 = reshape_as(h, {input})\n"
      "y1 = sum({grad_out} * reshape_as(n, {input}), dim={#all_but_channels})\n"
      "y2 = sum({grad_out}, dim={#all_but_channels}){~N}{~C}{~HxW}{~output_mask}",
      "grad_input grad_weight? grad_bias?"}},
    {"_log_softmax_backward_data",
     {"grad_output output",
      "y0 = {grad_output} - exp({output}) * sum({grad_output}, dim={dim}, keepdim=true)"
      "{~input_dtype}",
      ""}},
    {"_scaled_dot_product_flash_attention_backward",
     {"grad_out query key value out logsumexp cum_seq_q? cum_seq_k? philox_seed? "
      "philox_offset?",
      "y0, y1, y2 = sdpa_grad({grad_out}, {query}, {key}, {value}, {out}, {logsumexp}, "
      "causal={is_causal=false}{, scale}){=dropout_p:0}{~max_q}{~max_k}",
      "grad_query grad_key grad_value"}},
    {"_scaled_dot_product_efficient_attention_backward",
     {"grad_out_ query key value attn_bias? out logsumexp philox_seed? philox_offset?",
      "y0, y1, y2 = sdpa_grad({grad_out_}, {query}, {key}, {value}, {out}, {logsumexp}, "
      "causal={is_causal=false}{, scale}){=dropout_p:0}{=attn_bias:null}{~grad_input_mask}",
      "grad_query grad_key grad_value grad_attn_bias!"}},
    {"_fused_rms_norm_backward",
     {"grad_out input rstd weight?",
      "g = {grad_out}{#times_weight}\n"
      "n = {input} * {rstd}\n"
      "y0 = (g - n * mean(g * n, dim={#normalized_dims}, keepdim=true)) * {rstd}\n"
      "s = {grad_out} * n\n"
      "y1 = {#sum_leading:s}{~output_mask}",
      "grad_input grad_weight?"}},
    {"_softmax_backward_data",
     {"grad_output output",
      "y0 = {output} * ({grad_output} - sum({grad_output} * {output}, dim={dim}, "
      "keepdim=true)){~input_dtype}",
      ""}},
    {"avg_pool2d_backward",
     {"grad_output self",
      "h = avg_pool2d({self}{#window}{, count_include_pad}{, divisor_override})\n"
      "y0 = grad(h, [{self}], with={grad_output})",
      ""}},
    {"binary_cross_entropy_backward",
     {"grad_output self target weight?",
      "y0 = {grad_output} * ({self} - {target}) / ({self} * (1 - {self})){#times_weight}"
      "{#per_element}",
      ""}},
    {"convolution_backward",
     {"grad_output input weight",
      "{#convolution:h}\n"
      "y0, y1 = grad(h, [{input}, {weight}], with={grad_output})\n"
      "y2 = sum({grad_output}, dim={#all_but_channels}){~bias_sizes}{~output_mask}",
      "grad_input grad_weight grad_bias?"}},
    {"elu_backward",
     {"grad_output self_or_result",
      "y0 = where({self_or_result} > 0, {grad_output} * {scale=1}, {grad_output} * "
      "exp(clamp_max({self_or_result}, 0) * {input_scale=1}) * {alpha=1} * {scale=1} * "
      "{input_scale=1}){=is_result:false}",
      ""}},
    {"gelu_backward",
     {"grad_output self", "y0 = gelu_grad({grad_output}, {self}{, approximate})", ""}},
    {"glu_backward",
     {"grad_output self", "h = glu({self}, {dim})\ny0 = grad(h, [{self}], with={grad_output})",
      ""}},
    {"hardshrink_backward",
     {"grad_out self", "y0 = where(abs({self}) > {lambd=0.5}, {grad_out}, {grad_out} * 0)", ""}},
    {"hardsigmoid_backward",
     {"grad_output self", "y0 = where(abs({self}) < 3, {grad_output} / 6, {grad_output} * 0)", ""}},
    {"hardswish_backward",
     {"grad_output self", "h = hardswish({self})\ny0 = grad(h, [{self}], with={grad_output})", ""}},
    {"hardtanh_backward",
     {"grad_output self",
      "y0 = where(logical_and({self} > {min_val}, {self} < {max_val}), {grad_output}, "
      "{grad_output} * 0)",
      ""}},
    {"huber_loss_backward",
     {"grad_output self target",
      "y0 = {grad_output} * clamp({self} - {target}, -1 * {delta=1}, {delta=1}){#per_element}",
      ""}},
    {"l1_loss_backward",
     {"grad_output self target", "y0 = {grad_output} * sign({self} - {target}){#per_element}", ""}},
    {"leaky_relu_backward",
     {"grad_output self",
      "y0 = where({self} > 0, {grad_output}, {grad_output} * {negative_slope=0.01})"
      "{=self_is_result:false}",
      ""}},
    {"log_sigmoid_backward",
     {"grad_output self buffer?", "y0 = {grad_output} * sigmoid(-1 * {self})", ""}},
    {"logit_backward",
     {"grad_output self", "h = logit({self}{, eps})\ny0 = grad(h, [{self}], with={grad_output})",
      ""}},
    {"mish_backward",
     {"grad_output self", "h = mish({self})\ny0 = grad(h, [{self}], with={grad_output})", ""}},
    {"mse_loss_backward",
     {"grad_output self target", "y0 = {grad_output} * 2 * ({self} - {target}){#per_element}", ""}},
    {"native_layer_norm_backward",
     {"grad_out input mean rstd weight? bias?",
      "g = {grad_out}{#times_weight}\n"
      "n = ({input} - {mean}) * {rstd}\n"
      "y0 = (g - mean(g, dim={#normalized_dims}, keepdim=true) - n * mean(g * n, "
      "dim={#normalized_dims}, keepdim=true)) * {rstd}\n"
      "s = {grad_out} * n\n"
      "y1 = {#sum_leading:s}\n"
      "t = {grad_out}\n"
      "y2 = {#sum_leading:t}{~output_mask}",
      "grad_input grad_weight? grad_bias?"}},
    {"nll_loss_backward",
     {"grad_output self target weight? total_weight",
      "d = {grad_output}{#per_weight}\n"
      "h = nll_loss({self}, {target}{, weight}, reduction={#no_mean}{, ignore_index})\n"
      "y0 = grad(h, [{self}], with=d)",
      ""}},
    {"sigmoid_backward",
     {"grad_output output", "y0 = {grad_output} * {output} * (1 - {output})", ""}},
    {"silu_backward", {"grad_output self", "y0 = silu_grad({grad_output}, {self})", ""}},
    {"smooth_l1_loss_backward",
     {"grad_output self target",
      "y0 = {grad_output} * clamp(({self} - {target}) / {beta=1}, -1, 1){#per_element}", ""}},
    {"soft_margin_loss_backward",
     {"grad_output self target",
      "y0 = {grad_output} * {target} * -1 * sigmoid({target} * {self} * -1){#per_element}", ""}},
    {"softshrink_backward",
     {"grad_output self", "y0 = where(abs({self}) > {lambd=0.5}, {grad_output}, {grad_output} * 0)",
      ""}},
    {"softplus_backward",
     {"grad_output self",
      "h = softplus({self}{, beta}{, threshold})\ny0 = grad(h, [{self}], with={grad_output})", ""}},
    {"tanh_backward", {"grad_output output", "y0 = {grad_output} * (1 - {output} * {output})", ""}},
    {"threshold_backward",
     {"grad_output self", "y0 = where({self} > {threshold=0}, {grad_output}, {grad_output} * 0)",
      ""}},
};

}  // namespace

const FormTable& backward_forms() { return kBackwardForms; }

}  // namespace shardproof
