#include "shardproof/tests/conformance/op_rows.h"

#include <functional>
#include <map>

#include "shardproof/engine/job/job.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::conformance {
namespace {

// Programs of rows whose op has another name or form here, or is several ops. "{dim}" is an
// attribute of the row, "{dim=0}" one with a default. A call that ends in ", ..)" gets all
// attributes that the text does not name.
const std::map<std::string, std::string> kTexts = {
    {"flatten", "y0 = flatten(x0, {start}, {end})"},
    {"flatten_then_unflatten",
     "f = flatten(x0, {start}, {end})\ny0 = unflatten(f, {dim}, {sizes})"},
    {"as_strided_like_view", "y0 = reshape(x0.T, {shape})"},
    {"transpose_then_reshape", "y0 = reshape(x0.T, {shape})"},
    {"view_then_sum", "y0 = sum(view(x0, {shape}), dim={dim})"},
    {"movedim", "y0 = movedim(x0, {source=0}, {destination=-1})"},
    {"cat_partial", "y0 = cat([x0, x1], dim=1)"},
    {"stack0", "y0 = stack([x0, x1], dim={dim=0})"},
    {"stack_partial", "y0 = stack([x0, x1])"},
    {"expand", "y0 = expand(x0, {shape})"},
    {"take", "y0 = take(x0, x1)"},
    {"index", "y0 = x0[x1]"},
    {"embedding", "y0 = embedding(x1, x0)"},
    {"embedding_even", "y0 = embedding(x1, x0)"},
    {"scatter", "y0 = scatter_along_dim(x0, index=x1, ..)"},
    {"gather", "y0 = take_along_dim(x0, x1, {dim})"},
    {"pixel_shuffle", "y0 = pixel_shuffle(x0, {factor})"},
    {"pixel_unshuffle", "y0 = pixel_unshuffle(x0, {factor})"},
    // Matrices.
    {"matmul_1d_2d", "y0 = x0 @ x1"},
    {"matmul_2d_1d", "y0 = x0 @ x1"},
    {"matmul_const", "y0 = x0 @ x0.T"},
    {"cholesky", "y0 = cholesky(x0 @ x0.T)"},
    {"fft", "y0 = abs(fft(x0, dim={dim=-1}))"},
    {"linear_bias", "y0 = linear(x0, x1, x2)"},
    {"linear_no_bias", "y0 = linear(x0, x1)"},
    {"einsum", "y0 = einsum({eq}, x0, x1)"},
    {"dot_rows", "y0 = einsum('ij,ij->i', x0, x1)"},
    {"matmul_chain", "y0 = x0 @ x1 @ x2"},
    {"mlp", "y0 = relu(x0 @ x1) @ x2"},
    {"attention_by_hand", "y0 = softmax(x0 @ x1.T / 2, dim=-1) @ x2"},
    {"residual_norm", "y0 = x0 + layer_norm(x0 @ x1)"},
    {"conv1d_same", "y0 = conv1d(x0, x1, ..)"},
    {"conv1d_patch", "y0 = conv1d(x0, x1, ..)"},
    {"conv1d_groups", "y0 = conv1d(x0, x1, ..)"},
    {"conv2d_bias", "y0 = conv2d(x0, x1, x2, ..)"},
    {"conv2d_even", "y0 = conv2d(x0, x1, ..)"},
    {"conv2d_even_bias", "y0 = conv2d(x0, x1, x2, ..)"},
    // Layers and losses.
    {"batch_norm_even", "y0 = batch_norm(x0, training=true)"},
    {"dropout_eval", "y0 = x0 + 0"},
    {"avg_pool1d", "y0 = avg_pool1d(x0, {kernel})"},
    {"avg_pool2d", "y0 = avg_pool2d(x0, {kernel})"},
    {"max_pool1d", "y0 = max_pool1d(x0, {kernel})"},
    {"max_pool2d", "y0 = max_pool2d(x0, {kernel})"},
    {"adaptive_avg_pool1d", "y0 = adaptive_avg_pool1d(x0, {out})"},
    {"adaptive_avg_pool2d", "y0 = adaptive_avg_pool2d(x0, {out})"},
    {"bce", "y0 = binary_cross_entropy(sigmoid(x0), x1, ..)"},
    {"bce_with_logits", "y0 = binary_cross_entropy_with_logits(x0, x1, ..)"},
    {"gaussian_like", "y0 = mse_loss(x0, x1, ..)"},
    {"cross_entropy_even", "y0 = cross_entropy(x0, x1, ..)"},
    {"nll_loss", "y0 = nll_loss(x0, x1, ..)"},
    {"hardtanh", "y0 = hardtanh(x0, {min=-1}, {max=1})"},
    // Numbers in place of tensors.
    {"mul_scalar", "y0 = x0 * {other=3}"},
    {"mul_scalar_neg", "y0 = x0 * {other}"},
    {"mul_minus_2", "y0 = x0 * -2"},
    {"mul_zero", "y0 = x0 * 0"},
    {"mul_inplace_scalar", "y0 = x0 * 3"},
    {"div_inplace_neg", "y0 = x0 / {other}"},
    {"div_scalar", "y0 = x0 / {other}"},
    {"add_scalar", "y0 = x0 + {other}"},
    {"rsub", "y0 = {other} - x0"},
    {"sub_from_scalar", "y0 = 2 - x0"},
    {"rdiv_scalar", "y0 = 1 / (x0 / 4 + 5)"},
    {"gt_0", "y0 = x0 > 0"},
    {"lt_scalar", "y0 = x0 < {other}"},
    {"gt_scalar", "y0 = x0 > {other}"},
    {"remainder_3", "y0 = x0 % 3"},
    {"floor_div_2", "y0 = x0 // 2"},
    {"pow", "y0 = x0 ** {exponent}"},
    {"scalar_pow", "y0 = {base} ** x0"},
    {"heaviside", "y0 = heaviside(x0, {value})"},
    {"ldexp", "y0 = ldexp(x0, {exp})"},
    {"addcmul", "y0 = addcmul(x0, x0, x1, value=0.5)"},
    {"addcdiv", "y0 = addcdiv(x0, x1, abs(x1) + 1)"},
    {"xlogy_abs", "y0 = xlogy(x0, abs(x1) + 1)"},
    {"add_alpha_neg", "y0 = add(x0, x1, alpha={alpha})"},
    {"add_inplace", "y0 = add(x0, x1, ..)"},
    {"add_inplace_neg", "y0 = add(x0, x1, alpha={alpha})"},
    {"clamp_min_gt_max", "y0 = clamp(x0, {min}, {max})"},
    {"clamp_inplace", "y0 = clamp(x0, {min=-1}, {max=1})"},
    {"clamp_max", "y0 = clamp(x0, max={max})"},
    {"clamp_min", "y0 = clamp(x0, min={min})"},
    {"clamp_tensor_max", "y0 = clamp(x0, max=x1)"},
    {"clamp_tensor_min", "y0 = clamp(x0, min=x1)"},
    {"fill_inplace", "y0 = full(like=x0, value=2)"},
    {"ones_like", "y0 = ones(like=x0)"},
    {"zeros_like", "y0 = zeros(like=x0)"},
    {"copy_inplace", "y0 = where(x0 == x0, x1, x0)"},
    {"where_positive", "y0 = where(x0 > 0, x0, x0 * -1)"},
    {"masked_fill", "y0 = masked_fill(x0, x1, {value})"},
    {"to_int32", "y0 = cast(x0, i32)"},
    {"to_int", "y0 = cast(x0, i64)"},
    {"to_bool", "y0 = cast(x0, bool)"},
    {"to_double", "y0 = cast(x0, f64)"},
    {"logit_of_sigmoid", "y0 = logit(sigmoid(x0))"},
    {"round_decimals", "y0 = round(x0, decimals={decimals})"},
    {"max_elementwise", "y0 = maximum(x0, x1)"},
    {"min_elementwise", "y0 = minimum(x0, x1)"},
    {"foreach_maximum", "y0 = maximum(x0, x1)"},
    {"foreach_mul_scalar", "y0 = x0 * 2\ny1 = x1 * 2"},
    // Torch's other names.
    {"swapaxes", "y0 = transpose(x0, ..)"},
    {"swapdims", "y0 = transpose(x0, ..)"},
    {"moveaxis", "y0 = movedim(x0, ..)"},
    {"ravel", "y0 = flatten(x0)"},
    {"tile", "y0 = repeat(x0, ..)"},
    {"negative", "y0 = neg(x0)"},
    {"absolute", "y0 = abs(x0)"},
    {"positive", "y0 = x0 + 0"},
    {"fix", "y0 = trunc(x0)"},
    {"true_divide", "y0 = x0 / x1"},
    {"divide", "y0 = x0 / x1"},
    {"multiply", "y0 = x0 * x1"},
    {"subtract", "y0 = x0 - x1"},
    {"floor_divide", "y0 = x0 // x1"},
    {"eq_scalar", "y0 = x0 == {other}"},
    {"ne_scalar", "y0 = x0 != {other}"},
    {"le_scalar", "y0 = x0 <= {other}"},
    {"ge_scalar", "y0 = x0 >= {other}"},
    {"lt_0", "y0 = x0 < 0"},
    {"eq_0", "y0 = x0 == 0"},
    {"ne_0", "y0 = x0 != 0"},
    {"concat", "y0 = cat([x0, x1], ..)"},
    {"fliplr", "y0 = flip(x0, [1])"},
    {"flipud", "y0 = flip(x0, [0])"},
    {"softmin", "y0 = softmax(x0 * -1, ..)"},
    {"msort", "y0, i = sort(x0, dim=0)"},
    {"square_inplace", "y0 = square(x0)"},
    {"sub_alpha", "y0 = sub(x0, x1, alpha={alpha})"},
    {"add_alpha", "y0 = add(x0, x1, alpha={alpha})"},
    {"sub_inplace_neg", "y0 = sub(x0, x1, alpha={alpha})"},
    {"pow_tensor", "y0 = x0 ** x1"},
    {"scatter_add", "y0 = scatter_along_dim(x0, index=x1, src=x2, reduce='add', ..)"},
    // Reductions.
    {"any", "y0 = any(x0 > 0, ..)"},
    {"all", "y0 = all(x0 > 0, ..)"},
    {"item", "y0 = sum(x0)"},
    {"item_of_sum", "y0 = sum(x0)"},
    {"sum_twice", "y0 = sum(sum(x0, dim=0))"},
    {"sum_then_max", "y0 = amax(sum(x0, dim=0))"},
    {"mean_of_mean", "y0 = mean(mean(x0, dim=0))"},
    {"mean_div_std", "y0 = mean(x0) / std(x0)"},
    {"square_then_sum", "y0 = sum(square(x0))"},
    {"max_all", "y0 = amax(x0)"},
    {"min_all", "y0 = amin(x0)"},
    {"norm0", "y0 = norm(x0, p=0)"},
    {"norm1", "y0 = norm(x0, p=1)"},
    {"norm2", "y0 = norm(x0, p=2)"},
    {"norm_inf", "y0 = norm(x0, p=inf, ..)"},
    {"normneginf", "y0 = norm(x0, p=-inf, dim={dim})"},
    {"vector_norm", "y0 = vector_norm(x0, ord={p}, ..)"},
    {"argsort", "y0 = argsort(x0, dim={dim})"},
    {"searchsorted", "s, i = sort(x0)\ny0 = bucketize(x1, s)"},
    {"bucketize", "s, i = sort(x1)\ny0 = bucketize(x0, s)"},
};

// Rows without an op here, and the reason.
const std::map<std::string, std::string>& outside() {
  static const std::map<std::string, std::string> kOutside = {
      {"svd", "linear algebra that is not unique"},
      {"qr", "linear algebra that is not unique"},
      {"eigh", "linear algebra that is not unique"},
      {"nonzero", "a shape that depends on data"},
      {"unique", "a shape that depends on data"},
      {"bincount", "a shape that depends on data"},
      {"masked_select", "a shape that depends on data"},
  };
  return kOutside;
}

std::string text_of(const Json& value) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == "inf" || text == "-inf" || std::isdigit(static_cast<unsigned char>(text.at(0))))
      return text;  // a number in quotes
    return "'" + text + "'";
  }
  return value.dump();
}

class RowText {
 public:
  explicit RowText(const Json& row) : attrs_(row["attrs"]) {
    for (size_t k = 0; k < row["truth"].size(); ++k)
      outputs_ += (k > 0 ? ", y" : "y") + std::to_string(k);
    for (size_t k = 0; k < row["inputs"].size(); ++k)
      inputs_ += (k > 0 ? ", x" : "x") + std::to_string(k);
  }

  std::string filled(const std::string& text) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '{') {
        result.push_back(text[at++]);
        continue;
      }
      const size_t end = text.find('}', at), equals = text.find('=', at);
      const bool fallback = equals < end;
      const std::string name = text.substr(at + 1, (fallback ? equals : end) - at - 1);
      used_.insert(name);
      if (attrs_.contains(name))
        result += text_of(attrs_.at(name));
      else if (fallback)
        result += text.substr(equals + 1, end - equals - 1);
      else
        throw Skip{"a number that the row does not state"};
      at = end + 1;
    }
    const size_t rest = result.find(", ..)");
    if (rest != std::string::npos) result.replace(rest, 5, attributes() + ")");
    if (result.starts_with("y0 =") && result.find('\n') == std::string::npos)
      result.replace(0, 2, outputs_);
    return result;
  }
  std::string attributes() const {
    std::string text;
    for (const auto& [name, value] : attrs_.items())
      if (!used_.contains(name) && !(name == "dim" && value.is_string()) && name != "stable")
        text += ", " + name + "=" + text_of(value);
    return text;
  }
  std::string call(const std::string& op) const {
    return outputs_ + " = " + op + "(" + inputs_ + attributes() + ")";
  }
  const Json& attrs() const { return attrs_; }
  const std::string& inputs() const { return inputs_; }

 private:
  Json attrs_;
  std::string outputs_, inputs_;
  std::set<std::string> used_;
};

using Writer = std::function<std::string(const Json& row, RowText& text)>;

std::string slice_text(const Json& row, RowText&) {
  const Json& attrs = row["attrs"];
  const size_t dims = row["inputs"][0]["shape"].size();
  const auto given = attrs.at("dim").get<int64_t>();
  const auto dim = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(dims) : given);
  const int64_t start = attrs.value("start", int64_t{0});
  const int64_t stop = attrs.contains("length") ? start + attrs.at("length").get<int64_t>()
                                                : attrs.value("end", int64_t{1} << 40);
  std::vector<int64_t> starts(dim + 1, 0), stops(dim + 1, int64_t{1} << 40), steps(dim + 1, 1);
  starts[dim] = start;
  stops[dim] = stop;
  steps[dim] = attrs.value("step", int64_t{1});
  return "y0 = slice(x0, start=" + Json(starts).dump() + ", stop=" + Json(stops).dump() +
         ", step=" + Json(steps).dump() + ")";
}

std::string norm_text(const char* op, RowText& text) {
  std::string made = std::string("y0 = ") + op + "(" + text.inputs();
  if (text.attrs().contains("normalized_shape"))
    made += ", dims=" + std::to_string(text.attrs().at("normalized_shape").size());
  if (text.attrs().contains("eps")) made += ", eps=" + text.attrs().at("eps").dump();
  return made + ")";
}

const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> kWriters = {
      {"slice", slice_text},
      {"layer_norm", [](const Json&, RowText& t) { return norm_text("layer_norm", t); }},
      {"layer_norm_even", [](const Json&, RowText& t) { return norm_text("layer_norm", t); }},
      {"rms_norm", [](const Json&, RowText& t) { return norm_text("rms_norm", t); }},
      {"cat",
       [](const Json&, RowText& t) { return t.filled("y0 = cat([" + t.inputs() + "], ..)"); }},
      {"stack",
       [](const Json&, RowText& t) { return t.filled("y0 = stack([" + t.inputs() + "], ..)"); }},
      {"roll",
       [](const Json& row, RowText& t) {
         return t.filled(row["attrs"].at("dim").is_string() ? "y0 = roll(x0, {shift})"
                                                            : "y0 = roll(x0, {shift}, {dim})");
       }},
      {"split",
       [](const Json& row, RowText& t) {
         return t.filled(row["attrs"].contains("size") ? "y0 = split(x0, {size}, {dim})"
                                                       : "y0 = split(x0, {sizes}, {dim})");
       }},
      {"where",
       [](const Json& row, RowText& t) {
         return t.filled(row["attrs"].contains("other") ? "y0 = where(x0, x1, {other})"
                                                        : "y0 = where(x0, x1, x2)");
       }},
      {"cross_entropy",
       [](const Json& row, RowText& t) {
         return row["attrs"].contains("weight")
                    ? t.filled(
                          "y0 = cross_entropy(x0, x1, weight=x2, reduction={reduction='mean'})")
                    : t.call("cross_entropy");
       }},
      {"group_norm",
       [](const Json& row, RowText& t) {
         return t.filled(row["inputs"].size() == 1 ? "y0 = group_norm(x0, {groups=2})"
                                                   : "y0 = group_norm(x0, {groups=2}, x1, x2)");
       }},
  };
  return kWriters;
}

std::vector<std::string> as_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back().push_back(c);
  return lines;
}

}  // namespace

std::vector<std::string> lines_of(const Json& row) {
  std::string op = row["op"].get<std::string>();
  if (op.find("(gradient)") != std::string::npos) throw Skip{"a gradient: needs autodiff"};
  if (outside().contains(op)) throw Skip{outside().at(op)};
  RowText text(row);
  if (writers().contains(op)) return as_lines(writers().at(op)(row, text));
  if (kTexts.contains(op)) return as_lines(text.filled(kTexts.at(op)));
  const OpRegistry& ops = testing::builtin_registries().ops;
  // x_inplace has the values of the op x.
  if (!ops.find(op) && op.ends_with("_inplace")) op.resize(op.size() - 8);
  if (!ops.find(op)) throw Skip{"no op " + op};
  return as_lines(text.call(op));
}

Tensor filled_input(const Json& input, int number) {
  const std::string kind = input.value("kind", "");
  const Dims shape = dims_of(input["shape"]);
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const auto step = static_cast<double>((37 * i + 11 * number) % 23);
    double value = (step - 11) / 4;
    if (kind == "pos")
      value = (step + 1) / 4;
    else if (kind == "unit")
      value = step / 32;
    else if (kind == "b")
      value = (5 * i + number) % 3 == 0 ? 1 : 0;
    else if (kind.starts_with("i"))
      value = static_cast<double>((7 * i + 3 * number) % std::stoll(kind.substr(1)));
    else if (kind == "diag")
      value += i / shape[shape.size() - 1] % shape[shape.size() - 2] == i % shape[shape.size() - 1]
                   ? 20
                   : 0;
    else if (kind != "f")
      throw Skip{"an input of kind " + kind};
    values.push_back(value);
  }
  const DType dtype = kind == "b"             ? DType::boolean
                      : kind.starts_with("i") ? DType::i64
                                              : DType::f32;
  return tensor_of(dtype, shape, values);
}

}  // namespace shardproof::conformance
