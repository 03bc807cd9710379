// Implements made_composite_text() of torch_form_text.h: ops that are a few ops here, whose lines
// depend on the dims of the tensors. Example: kron of two matrices is
//
//   h = unsqueeze(unsqueeze(x0, 2), 1) * unsqueeze(unsqueeze(x1, 1), 0)    [i, 1, k, 1] [1, j, 1,
//   l] h = flatten(h, 0, 1) y0 = flatten(h, 1, 2)
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/rules/torch_form_text.h"

namespace shardproof {
namespace {

std::string unsqueezed(const std::string& x, int64_t dim) {
  return fmt::format("unsqueeze({}, {})", x, dim);
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
  std::string weight = fmt::format("cast(p - cast(i, f64), {})", dtype);
  for (int64_t d = up.dim + 1; d < dims; ++d) weight = unsqueezed(weight, -1);
  return fmt::format(
      "p = {}\n"
      "i = clamp_max(cast(floor(p), i64), {})\n"
      "w = {}\n"
      "h = index_select(h, {}, indices=i) * (1 - w) + "
      "index_select(h, {}, indices=clamp_max(i + 1, {})) * w\n",
      place, up.from - 1, weight, up.dim, up.dim, up.from - 1);
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

std::optional<std::string> FormText::made_composite_text(std::string_view name) {
  if (name == "random") {
    reads_random_numbers_ = true;
    return fmt::format("x{}", inputs_.size());
  }
  if (name == "bincount") return bincount();
  if (name == "range") return histogram_range();
  if (name == "kron") return kron();
  if (name == "tensordot") return tensordot();
  if (name == "upsample") return upsample();
  if (name == "put")
    return given("accumulate").value_or("false") == "true" ? "index_add" : "index_copy";
  if (name == "fft") return fourier();
  if (name == "inner") return inner();
  if (name == "strided") return strided_positions();
  if (constexpr std::string_view kLeast = "at_least:"; name.starts_with(kLeast))
    return at_least_dims(name.back() - '0');
  if (constexpr std::string_view kWindows = "windows:"; name.starts_with(kWindows))
    return windows(std::string(name.substr(kWindows.size())));
  if (name == "kernel") {
    const std::vector<int64_t> kernel = integers_of("kernel_size");
    return fmt::format("{}, {}", kernel.at(0), kernel.at(1));
  }
  if (name == "float_power") {
    const std::string tensor = positions_.contains("self") ? "self" : "exponent";
    const std::string wide = is_complex(meta_of(tensor).dtype) ? "c128" : "f64";
    return filled(tensor == "self" ? "cast({self}, " + wide + ") ** {exponent}"
                                   : "{self} ** cast({exponent}, " + wide + ")");
  }
  if (name == "reduced_dim") {
    const int64_t dims = meta_of("self").shape.size();
    return fmt::format("{}", argument("dim") ? dim_of("dim", dims) : dims - 1);
  }
  if (name == "triangle" || name == "triangle_product") return triangle(name);
  return std::nullopt;
}

// "triangle" is the triangle that the op reads, "triangle_product" that times its transpose.
std::string FormText::triangle(std::string_view name) {
  const bool has_results = !form_.results.empty();  // triangular_solve reads the upper one
  const bool is_upper = given("upper").value_or(has_results ? "true" : "false") == "true";
  if (name == "triangle_product") return is_upper ? "conj(t(h)) @ h" : "h @ conj(t(h))";
  const char* const tensor = positions_.contains("A")        ? "{A}"
                             : positions_.contains("input2") ? "{input2}"
                                                             : "{self}";
  return filled(fmt::format("{}({})", is_upper ? "triu" : "tril", tensor));
}

std::string FormText::bincount() {
  const int64_t size = integer_of("minlength", 0);
  if (size < 1)
    refuse("the size of the result depends on values unless minlength is above all of them");
  const std::string ones = filled("cast(ones(like={self}), i64)");
  return filled(fmt::format("y0 = index_sum({}, dim=0, size={}, indices={{self}})",
                            given("weights").value_or(ones), size));
}

// The range is that of the values if min and max are equal.
std::string FormText::histogram_range() {
  const std::string low = given("min").value_or("0"), high = given("max").value_or("0");
  if (std::strtod(low.c_str(), nullptr) == std::strtod(high.c_str(), nullptr))
    return "low = amin(h)\nhigh = amax(h)";
  return fmt::format("low = amin(full(like=h, value={}))\nhigh = amax(full(like=h, value={}))", low,
                     high);
}

std::string FormText::kron() {
  const int64_t a = meta_of("self").shape.size(), b = meta_of("other").shape.size();
  const int64_t dims = std::max(a, b);
  std::string x = needed("self"), y = needed("other");
  for (int64_t i = a; i < dims; ++i) x = unsqueezed(x, 0);
  for (int64_t i = b; i < dims; ++i) y = unsqueezed(y, 0);
  for (int64_t i = dims - 1; i >= 0; --i) {
    x = unsqueezed(x, i + 1);
    y = unsqueezed(y, i);
  }
  std::string lines = fmt::format("h = {} * {}\n", x, y);
  for (int64_t i = 0; i < dims; ++i) lines += fmt::format("h = flatten(h, {}, {})\n", i, i + 1);
  return lines + "y0 = h";
}

std::string FormText::tensordot() {
  const std::vector<int64_t> of_self = integers_of("dims_self"),
                             of_other = integers_of("dims_other");
  const int64_t a = meta_of("self").shape.size(), b = meta_of("other").shape.size();
  if (of_self.size() != of_other.size()) refuse("dims_self and dims_other differ in length");
  std::string x, y;
  for (int64_t d = 0; d < a; ++d) x += static_cast<char>('a' + d);
  for (int64_t d = 0; d < b; ++d) y += static_cast<char>('a' + a + d);
  std::string kept = x + y;
  for (size_t k = 0; k < of_self.size(); ++k) {
    const int64_t i = of_self[k] < 0 ? of_self[k] + a : of_self[k];
    const int64_t j = of_other[k] < 0 ? of_other[k] + b : of_other[k];
    if (i < 0 || i >= a || j < 0 || j >= b) refuse("a dim is out of range");
    std::erase(kept, x[static_cast<size_t>(i)]);
    std::erase(kept, y[static_cast<size_t>(j)]);
    y[static_cast<size_t>(j)] = x[static_cast<size_t>(i)];
  }
  return filled(fmt::format("y0 = einsum('{},{}->{}', {{self}}, {{other}})", x, y, kept));
}

// The last dims are contracted.
std::string FormText::inner() {
  const int64_t a = meta_of("self").shape.size(), b = meta_of("other").shape.size();
  if (a == 0 || b == 0) return filled("y0 = {self} * {other}");
  std::string x, y;
  for (int64_t d = 0; d < a - 1; ++d) x += static_cast<char>('a' + d);
  for (int64_t d = 0; d < b - 1; ++d) y += static_cast<char>('a' + a + d);
  return filled(fmt::format("y0 = einsum('{}z,{}z->{}{}', {{self}}, {{other}})", x, y, x, y));
}

std::string FormText::upsample() {
  // A backward differentiates the upsampling of zeros, z, whose batch is that of its input.
  const bool is_backward = op_.find("_backward") != std::string::npos;
  const TensorMeta& input = meta_of(is_backward ? "grad_output" : "input");
  std::vector<int64_t> sizes(input.shape.begin(), input.shape.end());
  if (is_backward) sizes = integers_of("input_size");
  const int64_t dims = input.shape.size(), spatial = dims - 2;
  const bool is_nearest = op_.find("nearest") != std::string::npos;
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
    lines += is_nearest ? nearest_lines(up) : linear_lines(up, dims, shardproof::name(input.dtype));
  }
  return lines + (is_backward ? "y0 = grad(h, [z], with=x0)" : "y0 = h");
}

std::string FormText::at_least_dims(int64_t dims) {
  std::string x = needed("self");
  const int64_t has = meta_of("self").shape.size();
  // A third dim is the last: [n] becomes [1, n, 1].
  for (int64_t d = has; d < dims; ++d) x = unsqueezed(x, dims == 3 && d == 2 ? 2 : 0);
  return dims > has ? x : filled("flip({self}, [])");
}

// Transforms along one dim after the other. Without a scale, the inverse is that of norm='forward'.
std::string FormText::fourier() {
  static const char* const kForward[] = {"backward", "ortho", "forward"};
  static const char* const kInverse[] = {"forward", "ortho", "backward"};
  const std::vector<int64_t> dims = integers_of("dim");
  const int64_t normalization = integer_of("normalization", 0);
  if (normalization < 0 || normalization > 2) refuse("expected a normalization of 0, 1 or 2");
  const bool is_forward = given("forward").value_or("true") == "true";
  std::string lines = filled("h = {self}\n");
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    lines += fmt::format("h = {}(h, dim={}, norm='{}')\n", is_forward ? "fft" : "ifft", *dim,
                         (is_forward ? kForward : kInverse)[normalization]);
    // The other half of the spectrum of a real tensor is its conjugate.
    if (dim == dims.rbegin() && given("onesided").value_or("false") == "true") {
      const Dims& shape = meta_of("self").shape;
      const int64_t last = *dim < 0 ? *dim + shape.size() : *dim;
      if (last < 0 || last >= shape.size()) refuse("a dim is out of range");
      lines +=
          fmt::format("h = narrow(h, {}, 0, {})\n", last, shape[static_cast<int>(last)] / 2 + 1);
    }
  }
  return lines + "y0 = h";
}

// Positions in the flat tensor.
std::string FormText::strided_positions() {
  const std::vector<int64_t> size = integers_of("size"), stride = integers_of("stride");
  if (size.size() != stride.size()) refuse("size and stride differ in length");
  std::string sum = fmt::format("arange({}, {})", integer_of("storage_offset", 0),
                                integer_of("storage_offset", 0) + 1);
  for (size_t d = 0; d < size.size(); ++d) {
    std::string one = fmt::format("arange(0, {}) * {}", size[d], stride[d]);
    sum = fmt::format("unsqueeze({}, -1) + {}", sum, one);
  }
  return fmt::format("select({}, 0, 0)", sum);
}

// Lines that bind h to the windows of x as columns: [n, c, h, w] becomes [n, c kh kw, places].
std::string FormText::windows(const std::string& x) {
  const std::vector<int64_t> kernel = integers_of("kernel_size"), stride = integers_of("stride"),
                             padding = integers_of("padding"), dilation = integers_of("dilation");
  for (const auto* list : {&kernel, &stride, &padding, &dilation})
    if (list->size() != 2) refuse("expected two numbers of each argument");
  if (x == "x0" && meta_of("self").shape.size() != 4) refuse("expected an input of four dims");
  const auto extent = [&](size_t d) { return (kernel[d] - 1) * dilation[d] + 1; };
  return fmt::format(
      "h = pad({}, [{}, {}, {}, {}])\n"
      "h = unfold(unfold(h, 2, {}, {}), 3, {}, {})\n"
      "h = permute(h[:, :, :, :, ::{}, ::{}], [0, 1, 4, 5, 2, 3])\n"
      "h = flatten(flatten(h, 4, 5), 1, 3)",
      x, padding[1], padding[1], padding[0], padding[0], extent(0), stride[0], extent(1), stride[1],
      dilation[0], dilation[1]);
}

}  // namespace shardproof
