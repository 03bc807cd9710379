// Implements torch_calls.h. The table holds the ops whose name or arguments differ from ours;
// others are called with all inputs in order and all attributes by name.
//
//   {dim}        an attribute that must be given      {a|b=1}   the first given one of a, b; else 1
//   {, dim}      ", dim=VALUE" if it is given          {#reduction}   torch's number: 'mean'
//   {xs}         all inputs: "x0, x1"                  {per x1}  " / number of elements" if the
//                                                     reduction is a mean, of this rank's x1
#include "shardproof/scenarios/rules/torch_calls.h"

#include <algorithm>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/torch_names.h"

namespace shardproof {
namespace {

const std::map<std::string_view, std::string_view> kTorchTemplates = {
    {"_softmax", "y0 = softmax(x0, {dim})"},
    {"_safe_softmax", "y0 = softmax(x0, {dim})"},
    {"_log_softmax", "y0 = log_softmax(x0, {dim})"},
    {"_softmax_backward_data", "y0 = x1 * (x0 - sum(x0 * x1, dim={dim}, keepdim=true))"},
    {"_log_softmax_backward_data", "y0 = x0 - exp(x1) * sum(x0, dim={dim}, keepdim=true)"},
    {"_unsafe_view", "y0 = view(x0, {size|shape})"},
    {"_to_copy", "y0 = cast(x0, {dtype=f32})"},
    {"_conj", "y0 = conj(x0)"},
    {"alias", "y0 = x0 + 0"},
    {"cat", "y0 = cat([{xs}], dim={dim=0})"},
    {"stack", "y0 = stack([{xs}], dim={dim=0})"},
    {"clone", "y0 = flip(x0, [])"},
    {"detach", "y0 = flip(x0, [])"},
    {"contiguous", "y0 = flip(x0, [])"},
    {"constant_pad_nd", "y0 = pad(x0, {pad}, value={value=0})"},
    {"copy_", "y0 = flip(x1, [])"},
    {"embedding", "y0 = embedding(x1, x0)"},
    {"expand", "y0 = expand(x0, {size|shape})"},
    {"expand_copy", "y0 = expand(x0, {size|shape})"},
    {"fill_", "y0 = full(like=x0, value={value|other=1})"},
    {"fill", "y0 = full(like=x0, value={value|other=1})"},
    {"zero_", "y0 = zeros(like=x0)"},
    {"full_like", "y0 = full(like=x0, value={fill_value|value})"},
    {"ones_like", "y0 = ones(like=x0)"},
    {"zeros_like", "y0 = zeros(like=x0)"},
    {"floor_divide", "y0 = x0 // {other|x1}"},
    {"gather", "y0 = take_along_dim(x0, x1, {dim})"},
    {"scatter", "y0 = scatter_along_dim(x0, {dim}, x1, x2)"},
    {"scatter_", "y0 = scatter_along_dim(x0, {dim}, x1, x2)"},
    {"scatter_add", "y0 = scatter_along_dim(x0, {dim}, x1, x2, reduce='add')"},
    {"index_select", "y0 = index_select(x0, {dim}, indices=x1)"},
    {"index_add", "y0 = index_add(x0, {dim}, x1, x2)"},
    {"linalg_vector_norm", "y0 = vector_norm(x0, {ord=2}{, dim}{, keepdim})"},
    {"max.dim", "y0 = amax(x0, {dim}{, keepdim})\ny1 = argmax(x0, {dim}{, keepdim})"},
    {"min.dim", "y0 = amin(x0, {dim}{, keepdim})\ny1 = argmin(x0, {dim}{, keepdim})"},
    {"mm", "y0 = x0 @ x1"},
    {"mv", "y0 = x0 @ x1"},
    {"dot", "y0 = x0 @ x1"},
    {"narrow_copy", "y0 = narrow(x0, {dim}, {start}, {length})"},
    {"native_layer_norm",
     "y0 = layer_norm(x0, normalized_shape={normalized_shape}, weight=x1, bias=x2)"},
    {"permute_copy", "y0 = permute(x0, {dims})"},
    {"relu_", "y0 = relu(x0)"},
    {"rsub", "y0 = {other|x1} - x0"},
    {"select_copy", "y0 = select(x0, {dim}, {index})"},
    {"split_with_sizes", "{ys} = split(x0, {split_sizes|sizes}, {dim=0})"},
    {"squeeze_copy", "y0 = squeeze(x0{, dim})"},
    {"sub_", "y0 = x0 - {other|x1}"},
    {"t_copy", "y0 = t(x0)"},
    {"gelu_backward", "y0 = gelu_grad(x0, x1{, approximate})"},
    {"silu_backward", "y0 = silu_grad(x0, x1)"},
    {"tanh_backward", "y0 = x0 * (1 - x1 * x1)"},
    {"sigmoid_backward", "y0 = x0 * x1 * (1 - x1)"},
    {"threshold_backward", "y0 = where(x1 > {threshold=0}, x0, x0 * 0)"},
    {"transpose", "y0 = transpose(x0, {dim0}, {dim1})"},
    {"transpose_copy", "y0 = transpose(x0, {dim0}, {dim1})"},
    {"unbind", "{ys} = unbind(x0, {dim=0})"},
    {"unsqueeze_copy", "y0 = unsqueeze(x0, {dim})"},
    {"view", "y0 = view(x0, {size|shape})"},
    {"view_copy", "y0 = view(x0, {size|shape})"},
    {"reshape", "y0 = reshape(x0, {size|shape})"},
    {"where", "y0 = where(x0, x1, x2)"},
    {"masked_fill", "y0 = masked_fill(x0, x1, {value})"},
    {"masked_fill_", "y0 = masked_fill(x0, x1, {value})"},
    {"_scaled_dot_product_flash_attention",
     "y0, y1 = sdpa(x0, x1, x2, causal={is_causal=false}{, scale})"},
    {"slice_scatter", "y0 = slice_scatter(x0, x1, dim={dim=0}{, start}{, end}{, step})"},
    // Losses and their backward: torch has a cotangent of the loss as the first input.
    {"mse_loss", "y0 = mse_loss(x0, x1, reduction={#reduction})"},
    {"l1_loss", "y0 = l1_loss(x0, x1, reduction={#reduction})"},
    {"smooth_l1_loss", "y0 = smooth_l1_loss(x0, x1, reduction={#reduction}, beta={beta=1})"},
    {"huber_loss", "y0 = huber_loss(x0, x1, reduction={#reduction}, delta={delta=1})"},
    {"soft_margin_loss", "y0 = soft_margin_loss(x0, x1, reduction={#reduction})"},
    {"binary_cross_entropy", "y0 = binary_cross_entropy(x0, x1, reduction={#reduction})"},
    {"mse_loss_backward", "y0 = x0 * 2 * (x1 - x2){per x1}"},
    {"l1_loss_backward", "y0 = x0 * sign(x1 - x2){per x1}"},
    {"smooth_l1_loss_backward", "y0 = x0 * clamp((x1 - x2) / {beta=1}, -1, 1){per x1}"},
    {"huber_loss_backward", "y0 = x0 * clamp(x1 - x2, -1 * {delta=1}, {delta=1}){per x1}"},
    {"soft_margin_loss_backward", "y0 = x0 * x2 * -1 * sigmoid(x2 * x1 * -1){per x1}"},
    {"binary_cross_entropy_backward", "y0 = x0 * (x1 - x2) / (x1 * (1 - x1)){per x1}"},
};

// Returns the text of an attribute in the language.
std::string value_text(const JsonReader& value, bool is_dtype) {
  switch (value.kind()) {
    case JsonKind::text: {
      const std::string& text = value.text();
      if (is_dtype) return std::string(name(rule_dtype(text)));
      return text == "inf" || text == "-inf" || text == "nan" ? text : "'" + text + "'";
    }
    case JsonKind::list: {
      std::string list;
      for (const JsonReader& item : value.items())
        list += (list.empty() ? "" : ", ") + value_text(item, false);
      return "[" + list + "]";
    }
    case JsonKind::boolean:
    case JsonKind::integer:
    case JsonKind::real: return to_string(value.tree());
    default: value.expected("a number, a boolean, a text or a list");
  }
}

std::string joined_names(const char* prefix, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, i);
  return text;
}

class TemplateText {
 public:
  TemplateText(const JsonReader* attrs, size_t inputs, size_t results)
      : attrs_(attrs), inputs_(inputs), results_(results) {}

  std::string filled(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const size_t open = text.find('{');
      out += text.substr(0, open);
      if (open == std::string_view::npos) break;
      const size_t close = text.find('}', open);
      out += replaced(text.substr(open + 1, close - open - 1));
      text = text.substr(close + 1);
    }
    return out;
  }

 private:
  std::optional<std::string> given(const std::string& key) const {
    if (!attrs_ || !attrs_->has(key)) return std::nullopt;
    const JsonReader value = attrs_->at(key);
    if (value.kind() == JsonKind::null) return std::nullopt;
    return value_text(value, key == "dtype");
  }

  std::string reduction() const {
    static const char* const kNames[] = {"'none'", "'mean'", "'sum'"};
    const std::string text = given("reduction").value_or("1");
    return text.size() == 1 && text[0] >= '0' && text[0] <= '2' ? kNames[text[0] - '0'] : text;
  }

  std::string replaced(std::string_view slot) const {
    if (slot == "xs") return joined_names("x", inputs_);
    if (slot == "ys") return joined_names("y", results_);
    if (slot == "#reduction") return reduction();
    if (slot.starts_with("per "))
      return reduction() == "'mean'" ? fmt::format(" / sum(ones(like={}))", slot.substr(4)) : "";
    if (slot.starts_with(", ")) {
      const std::string key(slot.substr(2));
      const std::optional<std::string> value = given(key);
      return value ? fmt::format(", {}={}", key, *value) : "";
    }
    const size_t equals = slot.find('=');
    std::string_view names = slot.substr(0, equals);
    while (!names.empty()) {
      const size_t bar = names.find('|');
      const std::string name(names.substr(0, bar));
      if (const std::optional<std::string> value = given(name)) return *value;
      if (name == "x1" && inputs_ > 1) return name;
      if (bar == std::string_view::npos) break;
      names = names.substr(bar + 1);
    }
    if (equals != std::string_view::npos) return std::string(slot.substr(equals + 1));
    throw_bad_input("attrs: expected the attribute {}", slot.substr(0, equals));
  }

  const JsonReader* attrs_;
  size_t inputs_, results_;
};

// Returns the call of an op of the registry: all inputs in order, all attributes by name.
std::string plain_call(const OpRecord& op, const JsonReader* attrs, size_t inputs, size_t results) {
  const bool is_list = !op.params.empty() &&
                       std::any_of(op.params.begin(), op.params.end(),
                                   [](const Param& p) { return p.kind == ParamKind::tensors; });
  std::string text = joined_names("y", results) + " = " + op.name + "(";
  text += is_list ? "[" + joined_names("x", inputs) + "]" : joined_names("x", inputs);
  bool first = inputs == 0;
  if (attrs)
    for (const auto& [key, value] : attrs->members()) {
      if (value.kind() == JsonKind::null) continue;
      text += fmt::format("{}{}={}", first ? "" : ", ", key, value_text(value, key == "dtype"));
      first = false;
    }
  return text + ")";
}

}  // namespace

DType rule_dtype(const std::string& text) {
  static const std::map<std::string_view, DType> kTorchDTypes = {
      {"float64", DType::f64},   {"double", DType::f64},     {"float32", DType::f32},
      {"float", DType::f32},     {"float16", DType::f16},    {"bfloat16", DType::bf16},
      {"int64", DType::i64},     {"long", DType::i64},       {"int32", DType::i32},
      {"int16", DType::i16},     {"int8", DType::i8},        {"uint8", DType::u8},
      {"complex64", DType::c64}, {"complex128", DType::c128}};
  const std::string word = text.starts_with("torch.") ? text.substr(6) : text;
  const auto found = kTorchDTypes.find(word);
  return found == kTorchDTypes.end() ? parse_dtype_name(word) : found->second;
}

std::optional<TorchCall> torch_call(const std::string& op, const JsonReader* attrs, size_t inputs,
                                    int dims, size_t results, const OpRegistry& ops) {
  const bool is_aten = op.starts_with("aten.") || op.starts_with("aten::");
  std::string rest = is_aten ? op.substr(op[4] == '.' ? 5 : 6) : op;
  std::string base = rest.substr(0, rest.find('.'));
  TorchCall call;
  call.is_inplace = base.size() > 1 && base.back() == '_' && base[0] != '_';
  for (size_t i = 0; i < results; ++i) call.results.push_back(fmt::format("y{}", i));
  const std::string functional = call.is_inplace ? base.substr(0, base.size() - 1) : base;
  std::string text;
  // Names of the registry that torch uses too have our meaning unless they begin with "aten.".
  for (const std::string& name : {rest, base, functional})
    if (text.empty() && (is_aten || !ops.find(name)))
      if (const auto found = kTorchTemplates.find(name); found != kTorchTemplates.end())
        text = TemplateText(attrs, inputs, results).filled(found->second);
  if (text.empty() && functional == "convolution") {
    if (const OpRecord* conv = ops.find(dims == 3 ? "conv1d" : "conv2d"))
      text = plain_call(*conv, attrs, inputs, results);
  }
  if (text.empty()) {
    const OpRecord* record = ops.find(functional);
    if (!record) return std::nullopt;
    text = plain_call(*record, attrs, inputs, results);
  }
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    call.lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return call;
}

}  // namespace shardproof
