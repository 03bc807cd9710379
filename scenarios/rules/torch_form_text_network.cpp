// Implements made_network_text() of torch_form_text.h: convolutions of three dims, pools, batch
// norm and upsampling, whose lines depend on the sizes of the tensors. Example: a convolution of
// three dims is a sum of convolutions of two dims, one for each depth of its kernel. The places
// along the depth are part of the batch:
//
//   s = flatten(transpose(p[:, :, 0:3:1], 1, 2), 0, 1)    [n, c, 3, h, w] becomes [n 3, c, h, w]
//   a = conv2d(s, select(x1, 2, 0))
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/scenarios/rules/torch_form_text.h"

namespace shardproof {
namespace {

std::string unsqueezed_last(std::string x, int64_t times) {
  for (int64_t i = 0; i < times; ++i) x = fmt::format("unsqueeze({}, -1)", x);
  return x;
}

// How upsampling finds the place in the input of each element of a dim of the result.
struct Upsampling {
  int64_t dim, from, to;
  double ratio;  // elements of the input for each of the result
  bool align_corners;
  double shift;  // of the nearest element: 0.5 for the one at its middle
};

// Returns lines that pick the nearest element.
std::string nearest_lines(const Upsampling& up) {
  return fmt::format(
      "i = clamp_max(cast(floor((cast(arange(0, {}), f64) + {}) * {:.17g}), i64), {})\n"
      "h = index_select(h, {}, indices=i)\n",
      up.to, up.shift, up.ratio, up.from - 1, up.dim);
}

// Returns lines that mix both neighbours by their distances.
std::string linear_lines(const Upsampling& up, int64_t dims, std::string_view dtype) {
  const std::string place =
      up.align_corners
          ? fmt::format("cast(arange(0, {}), f64) * {:.17g}", up.to, up.ratio)
          : fmt::format("clamp_min((cast(arange(0, {}), f64) + 0.5) * {:.17g} - 0.5, 0)", up.to,
                        up.ratio);
  const std::string weight =
      unsqueezed_last(fmt::format("cast(p - cast(i, f64), {})", dtype), dims - up.dim - 1);
  return fmt::format(
      "p = {}\n"
      "i = clamp_max(cast(floor(p), i64), {})\n"
      "w = {}\n"
      "h = index_select(h, {}, indices=i) * (1 - w) + "
      "index_select(h, {}, indices=clamp_max(i + 1, {})) * w\n",
      place, up.from - 1, weight, up.dim, up.dim, up.from - 1);
}

// The cubic convolution kernel: at a distance below 1, and between 1 and 2.
std::string cubic_near(double a, const std::string& u) {
  return fmt::format("((({} * {} - {}) * {} * {}) + 1)", a + 2, u, a + 3, u, u);
}
std::string cubic_far(double a, const std::string& u) {
  return fmt::format("((({} * {} - {}) * {} + {}) * {} - {})", a, u, 5 * a, u, 8 * a, u, 4 * a);
}

// Returns lines that mix four neighbours.
std::string cubic_lines(const Upsampling& up, int64_t dims, std::string_view dtype) {
  constexpr double kSlope = -0.75;
  const std::string place =
      up.align_corners
          ? fmt::format("cast(arange(0, {}), f64) * {:.17g}", up.to, up.ratio)
          : fmt::format("(cast(arange(0, {}), f64) + 0.5) * {:.17g} - 0.5", up.to, up.ratio);
  const std::string apart =
      unsqueezed_last(fmt::format("cast(p - cast(i, f64), {})", dtype), dims - up.dim - 1);
  const std::string weights[] = {cubic_far(kSlope, "(t + 1)"), cubic_near(kSlope, "t"),
                                 cubic_near(kSlope, "(1 - t)"), cubic_far(kSlope, "(2 - t)")};
  std::string sum;
  for (int k = 0; k < 4; ++k)
    sum += fmt::format("{}index_select(h, {}, indices=clamp(i + {}, 0, {})) * {}",
                       k == 0 ? "" : " + ", up.dim, k - 1, up.from - 1, weights[k]);
  return fmt::format("p = {}\ni = cast(floor(p), i64)\nt = {}\nh = {}\n", place, apart, sum);
}

// Returns lines that mix all elements within the width of the filter.
std::string antialiased_lines(const Upsampling& up, bool is_cubic, std::string_view dtype) {
  constexpr double kSlope = -0.5;
  std::string lines = fmt::format(
      "p = (cast(arange(0, {}), f64) + 0.5) * {:.17g} - 0.5\n"
      "u = abs(cast(arange(0, {}), f64) - unsqueeze(p, -1)) / {:.17g}\n",
      up.to, up.ratio, up.from, std::max(up.ratio, 1.0));
  lines += is_cubic ? fmt::format("w = where(u < 1, {}, where(u < 2, {}, 0))\n",
                                  cubic_near(kSlope, "u"), cubic_far(kSlope, "u"))
                    : "w = clamp_min(1 - u, 0)\n";
  return lines + fmt::format(
                     "w = cast(w / sum(w, dim=-1, keepdim=true), {0})\n"
                     "h = movedim(sum(unsqueeze(movedim(h, {1}, -1), -2) * w, dim=-1), -1, {1})\n",
                     dtype, up.dim);
}

// Returns a line that binds z to zeros of these sizes, with the batch and channels that x0 has.
std::string zeros_of_batch(const std::vector<int64_t>& sizes) {
  std::string kept = "sum(x0, dim=[", spatial;
  for (size_t d = 2; d < sizes.size(); ++d) {
    kept += fmt::format("{}{}", d == 2 ? "" : ", ", d);
    spatial += fmt::format("{}{}", d == 2 ? "" : ", ", sizes[d]);
  }
  return fmt::format("z = {}], keepdim=true) * 0 + zeros([{}])\n", kept, spatial);
}

}  // namespace

std::optional<std::string> FormText::made_network_text(std::string_view name) {
  const auto after = [name](std::string_view prefix) {
    return std::string(name.substr(prefix.size()));
  };
  if (name.starts_with("convolution:")) return convolution(after("convolution:"));
  if (name.starts_with("pool_backward:")) return pool_backward(name.back() - '0');
  if (name.starts_with("pool_indices:")) return pool_indices(name.back() - '0');
  if (name.starts_with("unpool:")) return unpool(name.back() - '0');
  if (name.starts_with("pad_backward:"))
    return filled("h = pad({self}, {padding}, mode='" + after("pad_backward:") +
                  "')\ny0 = grad(h, [{self}], with={grad_output})");
  if (name.starts_with("times_channels:")) {
    const std::optional<std::string> weight = given(after("times_channels:"));
    return weight ? " * " + unsqueezed_last(*weight, inputs_.at(0).shape.size() - 2) : "";
  }
  if (name == "batch_norm_backward") return batch_norm_backward();
  if (name == "batch_stats") return batch_stats(given("training").value_or("false") == "true");
  if (name == "stats_of_batch") return batch_stats(true);
  if (name == "upsample") return upsample();
  return std::nullopt;
}

std::vector<int64_t> FormText::triple_of(const std::string& key, int64_t fallback) {
  const JsonReader* value = argument(key);
  if (!value) return {fallback, fallback, fallback};
  if (value->kind() == JsonKind::integer)
    return {value->integer(), value->integer(), value->integer()};
  const std::vector<int64_t> given_numbers = integers_of(key);
  if (given_numbers.size() == 3) return given_numbers;
  if (given_numbers.size() != 1) refuse(fmt::format("expected three numbers of {}", key));
  return {given_numbers[0], given_numbers[0], given_numbers[0]};
}

std::string FormText::convolution(const std::string& target) {
  const bool is_transposed = given("transposed").value_or("false") == "true" ||
                             op_.find("conv_transpose") != std::string::npos;
  const int dims = meta_of("input").shape.size() - 2;
  given("output_padding");
  if (dims == 3) return is_transposed ? transposed_convolution_3d(target) : convolution_3d(target);
  return fmt::format("{} = conv{}{}d", target, is_transposed ? "_transpose" : "", dims) +
         filled(is_transposed
                    ? "({input}, {weight}{, bias}{, stride}{, padding}{, dilation}{, groups}"
                      "{, output_padding})"
                    : "({input}, {weight}{, bias}{, stride}{, padding}{, dilation}{, groups})");
}

std::string FormText::depth_sum(const std::string& target, const std::string& x,
                                const Dims& sizes) {
  const std::vector<int64_t> stride = triple_of("stride", 1), padding = triple_of("padding", 0),
                             dilation = triple_of("dilation", 1);
  const int64_t kernel = sizes_of("weight")[2];
  const int64_t depth = sizes[2] + 2 * padding[0] - dilation[0] * (kernel - 1) - 1;
  if (depth < 0) refuse("the kernel is larger than the padded input");
  const int64_t places = depth / stride[0] + 1;
  std::string lines = fmt::format("p = pad({}, [0, 0, 0, 0, {}, {}])\n", x, padding[0], padding[0]);
  for (int64_t k = 0; k < kernel; ++k) {
    const int64_t start = k * dilation[0], end = start + (places - 1) * stride[0] + 1;
    lines += fmt::format("s = flatten(transpose(p[:, :, {}:{}:{}], 1, 2), 0, 1)\n", start, end,
                         stride[0]);
    lines += fmt::format(
        "{} conv2d(s, select({}, 2, {}), stride=[{}, {}], padding=[{}, {}], dilation=[{}, {}], "
        "groups={})\n",
        k == 0 ? "a =" : "a = a +", needed("weight"), k, stride[1], stride[2], padding[1],
        padding[2], dilation[1], dilation[2], given("groups").value_or("1"));
  }
  return lines +
         fmt::format("{} = transpose(unflatten(a, 0, [{}, {}]), 1, 2)", target, sizes[0], places);
}

std::string FormText::convolution_3d(const std::string& target) {
  std::string lines = depth_sum(target, needed("input"), sizes_of("input"));
  if (const std::optional<std::string> bias = given("bias"))
    lines += " + " + unsqueezed_last(*bias, 3);
  return lines;
}

// The gradient of a convolution by its input, which is z.
std::string FormText::transposed_convolution_3d(const std::string& target) {
  const std::vector<int64_t> stride = triple_of("stride", 1), padding = triple_of("padding", 0),
                             dilation = triple_of("dilation", 1),
                             more = triple_of("output_padding", 0);
  const Dims &input = sizes_of("input"), &weight = sizes_of("weight");
  Dims sizes = input;
  sizes[1] = weight[1] * integer_of("groups", 1);
  for (int d = 0; d < 3; ++d) {
    const auto at = static_cast<size_t>(d);
    sizes[d + 2] = (input[d + 2] - 1) * stride[at] - 2 * padding[at] +
                   dilation[at] * (weight[d + 2] - 1) + more[at] + 1;
  }
  std::string lines = filled(fmt::format(
      "z = sum({{input}}, dim=[1, 2, 3, 4], keepdim=true) * 0 + zeros([{}, {}, {}, {}])\n",
      sizes[1], sizes[2], sizes[3], sizes[4]));
  lines += depth_sum("c", "z", sizes) + "\n";
  lines += filled(target + " = grad(c, [z], with={input})");
  if (const std::optional<std::string> bias = given("bias"))
    lines += " + " + unsqueezed_last(*bias, 3);
  return lines;
}

// The indices are positions in the last `spatial` dims of the pool's input, of which nothing else
// is read.
std::string FormText::pool_backward(int spatial) {
  return filled(
      fmt::format("h = flatten({{grad_output}}, -{0})\n"
                  "i = flatten({{indices}}, -{0})\n"
                  "z = flatten(zeros(like={{self}}), -{0})\n"
                  "y0 = reshape_as(scatter_along_dim(z, -1, i, h, reduce='add'), {{self}})",
                  spatial));
}

// The windows of all dims are the last dims of h, as one dim that argmax reduces.
std::string FormText::pool_indices(int spatial) {
  const Dims& sizes = sizes_of("self");
  const int lead = sizes.size() - spatial;
  const auto numbers = [&](const std::string& key, const std::vector<int64_t>& fallback) {
    const JsonReader* value = argument(key);
    std::vector<int64_t> list;
    if (value && value->kind() == JsonKind::integer) list = {value->integer()};
    if (value && value->kind() == JsonKind::list) list = integers_of(key);
    if (list.empty()) list = fallback;
    if (list.size() == 1) list.resize(static_cast<size_t>(spatial), list[0]);
    if (static_cast<int>(list.size()) != spatial)
      refuse(fmt::format("expected {} numbers of {}", spatial, key));
    return list;
  };
  const std::vector<int64_t> kernel = numbers("kernel_size", {1}),
                             stride = numbers("stride", kernel), padding = numbers("padding", {0}),
                             dilation = numbers("dilation", {1});
  const bool rounds_up = given("ceil_mode").value_or("false") == "true";
  std::string pads, unfolds = "h", steps, place;
  for (int d = 0; d < spatial; ++d) {
    const auto at = static_cast<size_t>(d);
    const int64_t size = sizes[lead + d], extent = dilation[at] * (kernel[at] - 1) + 1;
    const int64_t room = size + 2 * padding[at] - extent;
    if (room < 0) refuse("the window is larger than the padded input");
    int64_t places = room / stride[at] + 1;
    if (rounds_up && room % stride[at] != 0 && places * stride[at] < size + padding[at]) ++places;
    const int64_t after = (places - 1) * stride[at] + extent - size - padding[at];
    pads = fmt::format("{}, {}{}{}", padding[at], std::max<int64_t>(after, 0),
                       pads.empty() ? "" : ", ", pads);
    unfolds = fmt::format("unfold({}, {}, {}, {})", unfolds, lead + d, extent, stride[at]);
    steps += fmt::format(", ::{}", dilation[at]);
    // The position along this dim: that of the window, and the index inside it.
    int64_t inner = 1;
    for (size_t k = at + 1; k < kernel.size(); ++k) inner *= kernel[k];
    const std::string first = unsqueezed_last(
        fmt::format("(arange(0, {}) * {} - {})", places, stride[at], padding[at]), spatial - 1 - d);
    const std::string here =
        fmt::format("({} + a // {} % {} * {})", first, inner, kernel[at], dilation[at]);
    place = place.empty() ? here : fmt::format("({} * {} + {})", place, size, here);
  }
  std::string whole;
  for (int d = 0; d < lead + spatial; ++d) whole += d == 0 ? ":" : ", :";
  return filled(
      fmt::format("\nh = pad(cast({{self}}, f64), [{}], value=-inf)\n"
                  "h = {}\n"
                  "a = argmax(flatten(h[{}{}], {}), -1)\n"
                  "y1 = {}",
                  pads, unfolds, whole, steps, lead + spatial, place));
}

std::string FormText::unpool(int spatial) {
  const std::vector<int64_t> sizes = integers_of("output_size");
  if (static_cast<int>(sizes.size()) != spatial)
    refuse(fmt::format("output_size: expected {} sizes, one for each spatial dim, found {}",
                       spatial, sizes.size()));
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return filled(
      fmt::format("h = flatten({{self}}, -{0})\n"
                  "i = flatten({{indices}}, -{0})\n"
                  "z = sum(zeros(like=h), dim=-1, keepdim=true) + arange(0, {1}) * 0\n"
                  "y0 = unflatten(scatter_along_dim(z, -1, i, h), -1, [{2}])",
                  spatial, count, join_text(sizes, ", ")));
}

// While training, n is normalized by the statistics of the batch, which depend on the input.
std::string FormText::batch_norm_backward() {
  const int64_t more = meta_of("input").shape.size() - 2;
  const bool trains = filled("{train|update}") == "true";
  given("eps");
  const auto channel = [&](const std::string& key) { return unsqueezed_last(needed(key), more); };
  const std::string mean = channel(trains ? "save_mean" : "running_mean");
  std::string scale = trains
                          ? channel("save_invstd")
                          : fmt::format("rsqrt({} + {})", channel("running_var"), filled("{eps}"));
  std::string lines = filled("g = {grad_out}{#times_channels:weight}\n");
  lines += filled(fmt::format("n = ({{input}} - {}) * {}\n", mean, scale));
  lines += trains ? filled(
                        "y0 = (g - mean(g, dim={#all_but_channels}, keepdim=true) - n * "
                        "mean(g * n, dim={#all_but_channels}, keepdim=true)) * ") +
                        scale
                  : "y0 = g * " + scale;
  return lines + filled(
                     "\ny1 = sum({grad_out} * n, dim={#all_but_channels})\n"
                     "y2 = sum({grad_out}, dim={#all_but_channels})");
}

// Without training torch has no statistics of the batch: the results are empty.
std::string FormText::batch_stats(bool trains) {
  return filled(trains ? "\ny1 = mean({input}, dim={#all_but_channels})\n"
                         "y2 = rsqrt(var({input}, dim={#all_but_channels}, correction=0) + "
                         "{eps=1e-05})"
                       : "\ny1 = zeros([0])\ny2 = zeros([0])");
}

std::string FormText::upsample() {
  // A backward differentiates the upsampling of zeros, z, whose batch is that of its input.
  const bool is_backward = op_.find("_backward") != std::string::npos;
  const TensorMeta& input = meta_of(is_backward ? "grad_output" : "input");
  const Dims& shape = sizes_of(is_backward ? "grad_output" : "input");
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  if (is_backward) sizes = result_sizes("input_size");
  const int64_t dims = shape.size(), spatial = dims - 2;
  const bool is_nearest = op_.find("nearest") != std::string::npos;
  const bool is_cubic = op_.find("bicubic") != std::string::npos;
  const bool aligned = given("align_corners").value_or("false") == "true";
  const bool has_sizes = argument("output_size") != nullptr;
  static const char* const kScales[] = {"scales_d", "scales_h", "scales_w"};
  std::vector<double> factors;
  if (const JsonReader* list = argument("scale_factors"))
    for (const JsonReader& item : list->items("a list of numbers"))
      factors.push_back(item.kind() == JsonKind::integer ? static_cast<double>(item.integer())
                                                         : item.tree().real);
  std::string lines = is_backward ? zeros_of_batch(sizes) + "h = z\n" : filled("h = {input}\n");
  for (int64_t k = 0; k < spatial; ++k) {
    const std::string key = spatial == 1 ? "scales" : kScales[3 - spatial + k];
    std::optional<double> scale;
    if (const std::optional<std::string> text = given(key))
      scale = std::strtod(text->c_str(), nullptr);
    if (!factors.empty()) scale = factors.at(static_cast<size_t>(k));
    const int64_t from = sizes.at(static_cast<size_t>(k + 2));
    if (!has_sizes && !scale) refuse("expected output_size or scale_factors");
    const int64_t to = has_sizes ? integers_of("output_size").at(static_cast<size_t>(k))
                                 : static_cast<int64_t>(static_cast<double>(from) * *scale);
    double ratio = scale ? 1 / *scale : static_cast<double>(from) / static_cast<double>(to);
    if (aligned) ratio = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    const double shift = op_.find("exact") != std::string::npos ? 0.5 : 0;
    const Upsampling up{k + 2, from, to, ratio, aligned, shift};
    const std::string_view dtype = shardproof::name(input.dtype);
    if (is_nearest)
      lines += nearest_lines(up);
    else if (op_.find("_aa") != std::string::npos)
      lines += antialiased_lines(up, is_cubic, dtype);
    else
      lines += is_cubic ? cubic_lines(up, dims, dtype) : linear_lines(up, dims, dtype);
  }
  return lines + (is_backward ? "y0 = grad(h, [z], with=x0)" : "y0 = h");
}

}  // namespace shardproof
