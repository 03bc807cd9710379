// Implements made_composite_text() of torch_form_text.h: ops that are a few ops here, whose lines
// depend on the dims of the tensors. Example: kron of two matrices is
//
//   h = unsqueeze(unsqueeze(x0, 2), 1) * unsqueeze(unsqueeze(x1, 1), 0)
//   h = flatten(h, 0, 1)      [i, 1, k, 1] * [1, j, 1, l] gives [i, j, k, l]; now [i j, k, l]
//   h = flatten(h, 1, 2)      [i j, k l]
//   y0 = h
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/scenarios/rules/torch_form_text.h"

namespace shardproof {
namespace {

// Returns x with infinities in place of NaN: those that a minimum (a maximum) leaves out.
std::string numbers_of(const std::string& x, bool of_minimum) {
  return fmt::format("nan_to_num({}, nan={}inf, posinf=inf, neginf=-inf)", x,
                     of_minimum ? "" : "-");
}

std::string unsqueezed(const std::string& x, int64_t dim) {
  return fmt::format("unsqueeze({}, {})", x, dim);
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
  if (name == "put")
    return given("accumulate").value_or("false") == "true" ? "index_add" : "index_copy";
  if (name == "fft") return fourier(given("forward").value_or("true") == "true");
  if (name == "fft_c2r") return fourier_of_half();
  if (name == "isin") return membership();
  if (name == "result_sizes") return join_text(result_sizes("input_sizes"), ", ");
  if (name == "solve_triangle") return solved_triangle();
  if (name == "searchsorted") return places_in_order();
  if (constexpr std::string_view kOrdered = "ordered:"; name.starts_with(kOrdered)) {
    const std::string tensor(name.substr(kOrdered.size()));  // bools have no order here
    return meta_of(tensor).dtype == DType::boolean ? "cast(" + needed(tensor) + ", i32)"
                                                   : needed(tensor);
  }
  if (name == "mode") return most_frequent();
  if (name.starts_with("info:")) {  // 0 for each matrix
    const std::string matrices = needed(std::string(name.substr(5)));
    return fmt::format("\ny1 = zeros(like=select(select({}, -1, 0), -1, 0), dtype=i32)", matrices);
  }
  if (name == "trapezoid") return trapezoid();
  if (name == "matrix_exp") return matrix_exponential();
  if (name == "pseudo_inverse") return pseudo_inverse();
  if (name == "diagonal_scatter") return diagonal_scatter();
  if (name == "scatter_reduce") return scatter_reduce();
  if (name == "section_sizes") return section_sizes();
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

// X with a X = b, or X a = b: the transposed one of t(a) with t(b).
std::string FormText::solved_triangle() {
  const bool is_old = !form_.results.empty();  // triangular_solve(b, a)
  const std::string a = is_old ? "A" : "self", b = is_old ? "self" : "B";
  std::string triangle_text = triangle("triangle");
  if (given("unitriangular").value_or("false") == "true") {
    const Dims& shape = sizes_of(a);
    if (shape.size() < 2) refuse("expected matrices");
    triangle_text =
        fmt::format("({0} - {0} * eye({1}) + eye({1}))", triangle_text, shape[shape.size() - 1]);
  }
  if (given("transpose").value_or("false") == "true")
    triangle_text = fmt::format("t({})", triangle_text);
  if (given("left").value_or("true") == "true")
    return filled("y0 = solve(" + triangle_text + ", {" + b + "})");
  return filled("y0 = t(solve(t(" + triangle_text + "), t({" + b + "})))");
}

std::string FormText::places_in_order() {
  const std::optional<std::string> sorter = given("sorter"), side = given("side");
  std::string sequence = needed("sorted_sequence");
  if (sorter) sequence = fmt::format("take_along_dim({}, {}, -1)", sequence, *sorter);
  const std::string right =
      side ? (*side == "'right'" ? "true" : "false") : given("right").value_or("false");
  return filled("y0 = bucketize({self}, " + sequence + ", right=" + right + "{, out_int32})");
}

std::string FormText::bincount() {
  const int64_t size = integer_of("minlength", 0);
  if (size < 1)
    refuse("the size of the result depends on values unless minlength is above all of them");
  const std::string ones = filled("cast(ones(like={self}), i64)");
  return filled(fmt::format("y0 = index_sum({}, dim=0, size={}, indices={{self}})",
                            given("weights").value_or(ones), size));
}

// The range is that of the values if min and max are equal, and wider if all values are equal.
std::string FormText::histogram_range() {
  const std::string low = given("min").value_or("0"), high = given("max").value_or("0");
  if (std::strtod(low.c_str(), nullptr) == std::strtod(high.c_str(), nullptr))
    return "l = amin(h)\nr = amax(h)\nlow = where(l == r, l - 1, l)\nhigh = where(l == r, r + 1, "
           "r)";
  return fmt::format("low = {}\nhigh = {}", low, high);
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

std::string FormText::at_least_dims(int64_t dims) {
  std::string x = needed("self");
  const int64_t has = meta_of("self").shape.size();
  // A third dim is the last: [n] becomes [1, n, 1].
  for (int64_t d = has; d < dims; ++d) x = unsqueezed(x, dims == 3 && d == 2 ? 2 : 0);
  return dims > has ? x : filled("flip({self}, [])");
}

// Transforms along one dim after the other. Without a scale, the inverse is that of norm='forward'.
std::string FormText::fourier(bool is_forward) {
  static const char* const kForward[] = {"backward", "ortho", "forward"};
  static const char* const kInverse[] = {"forward", "ortho", "backward"};
  const std::vector<int64_t> dims = integers_of("dim");
  const int64_t normalization = integer_of("normalization", 0);
  if (normalization < 0 || normalization > 2) refuse("expected a normalization of 0, 1 or 2");
  std::string lines = filled("h = {self}\n");
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    lines += fmt::format("h = {}(h, dim={}, norm='{}')\n", is_forward ? "fft" : "ifft", *dim,
                         (is_forward ? kForward : kInverse)[normalization]);
    // The other half of the spectrum of a real tensor is its conjugate.
    if (dim == dims.rbegin() && given("onesided").value_or("false") == "true") {
      const Dims& shape = sizes_of("self");
      const int64_t last = *dim < 0 ? *dim + shape.size() : *dim;
      if (last < 0 || last >= shape.size())
        refuse(fmt::format("dim {} is out of range for {} dims", *dim, shape.size()));
      lines +=
          fmt::format("h = narrow(h, {}, 0, {})\n", last, shape[static_cast<int>(last)] / 2 + 1);
    }
  }
  return lines + "y0 = h";
}

// The other half of the spectrum along the last dim is the conjugate of the given one, in reverse.
std::string FormText::fourier_of_half() {
  const std::vector<int64_t> dims = integers_of("dim");
  const Dims& shape = sizes_of("self");
  if (dims.empty()) refuse("expected a dim");
  const int64_t given_dim = dims.back(), dim = given_dim < 0 ? given_dim + shape.size() : given_dim;
  if (dim < 0 || dim >= shape.size()) refuse("a dim is out of range");
  const int64_t size = integer_of("last_dim_size", 0), half = size / 2 + 1;
  if (shape[static_cast<int>(dim)] < half)
    refuse(
        fmt::format("dim {} needs {} elements, found {}", dim, half, shape[static_cast<int>(dim)]));
  std::string lines = fourier(false);
  lines.resize(lines.rfind('\n') + 1);  // without y0 = h
  // The transform along the last dim is undone first, so that the others remain.
  const std::string last = lines.substr(lines.find('\n') + 1);
  lines = filled("h = {self}\n") + last.substr(last.find('\n') + 1);
  lines += fmt::format("h = narrow(h, {}, 0, {})\n", dim, half);
  if (size > half)
    lines += fmt::format("h = cat([h, conj(flip(narrow(h, {0}, 1, {1}), [{0}]))], dim={0})\n", dim,
                         size - half);
  return lines + "h = i" + last.substr(last.find("fft("), last.find('\n') - last.find("fft(")) +
         "\ny0 = real(h)";
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

std::string FormText::membership() {
  const std::string elements = given("elements").value_or(given("element").value_or(""));
  const std::string found =
      positions_.contains("test_elements")
          ? fmt::format("any(unsqueeze(flatten({}), -1) == flatten({}), dim=-1)",
                        positions_.contains("elements") ? elements : "full([1], " + elements + ")",
                        needed("test_elements"))
          : fmt::format("{} == {}", elements, needed("test_element"));
  std::string text = found;
  if (positions_.contains("test_elements"))
    text = positions_.contains("elements") ? fmt::format("reshape_as({}, {})", found, elements)
                                           : fmt::format("any({})", found);
  if (given("invert").value_or("false") == "true") text = "logical_not(" + text + ")";
  return "y0 = " + text;
}

// The least of the most frequent elements of a dim, and its last index.
std::string FormText::most_frequent() {
  const int64_t dims = meta_of("self").shape.size();
  if (dims == 0)
    return filled("y0 = flip({self}, [])\ny1 = zeros(like={self}, dtype=i64){~dim}{~keepdim}");
  return filled(
      "h = unsqueeze({self}, {#reduced_dim}) == unsqueeze({self}, {#reduced_dim} + 1)\n"
      "n = sum(cast(h, i64), dim={#reduced_dim})\n"
      "h = n == amax(n, {#reduced_dim}, keepdim=true)\n"
      "v = amin(where(h, {self}, amax({self}, {#reduced_dim}, keepdim=true)), {#reduced_dim}, "
      "keepdim=true)\n"
      "i = cumsum(ones(like={self}, dtype=i64), {#reduced_dim}) - 1\n"
      "y0 = amin(v, {#reduced_dim}{, keepdim})\n"
      "y1 = amax(where({self} == v, i, 0), {#reduced_dim}{, keepdim})");
}

// Sums of neighbours, times their distances, divided by 2.
std::string FormText::trapezoid() {
  const int64_t dims = meta_of("y").shape.size();
  const int64_t dim = argument("dim") ? dim_of("dim", dims) : dims - 1;
  std::string before;
  for (int64_t d = 0; d < dim; ++d) before += ":, ";
  std::string lines = filled(fmt::format("h = {{y}}[{0}1:] + {{y}}[{0}:-1]\n", before));
  if (positions_.contains("x")) {
    const int64_t places = meta_of("x").shape.size();
    std::string apart =
        places == 1 ? filled("diff({x}, dim=0)") : filled(fmt::format("diff({{x}}, dim={})", dim));
    for (int64_t d = dim + 1; d < dims && places == 1; ++d) apart = unsqueezed(apart, -1);
    lines += "h = h * " + apart + "\n";
  } else {
    lines += filled("h = h * {dx=1}\n");
  }
  const bool runs = op_.find("cumulative") != std::string::npos;
  return lines + fmt::format("y0 = {}(h, dim={}) / 2", runs ? "cumsum" : "sum", dim);
}

// The series of exp(x / 2^8), squared 8 times.
std::string FormText::matrix_exponential() {
  constexpr int kTerms = 14, kSquarings = 8;
  const Dims& shape = sizes_of("self");
  if (shape.size() < 2) refuse("expected square matrices");
  const int64_t n = shape[shape.size() - 1];
  std::string lines = filled(fmt::format("h = {{self}} / {}\n", 1 << kSquarings));
  lines += fmt::format("e = eye({})\ny0 = e + h * 0\n", n);
  for (int k = kTerms; k > 0; --k) lines += fmt::format("y0 = e + h @ y0 / {}\n", k);
  for (int k = 0; k < kSquarings; ++k) lines += "y0 = y0 @ y0\n";
  lines.pop_back();
  return lines;
}

// Requires matrices of full rank.
std::string FormText::pseudo_inverse() {
  const Dims& shape = sizes_of("self");
  if (shape.size() < 2) refuse("expected matrices");
  std::string text = shape[shape.size() - 2] >= shape[shape.size() - 1]
                         ? "h = conj(t({self}))\ny0 = inverse(h @ {self}) @ h"
                         : "h = conj(t({self}))\ny0 = h @ inverse({self} @ h)";
  // A tolerance drops singular values from a threshold on. The mean size of an element stands for
  // a singular value.
  if (positions_.contains("atol"))
    text +=
        "\nn = mean(abs({self}), dim=[-2, -1], keepdim=true)"
        "\ny0 = where(unsqueeze(unsqueeze({atol}, -1), -1) >= n, 0, y0)";
  if (positions_.contains("rtol"))
    text += "\ny0 = where(unsqueeze(unsqueeze({rtol}, -1), -1) >= 1, 0, y0)";
  return filled(text);
}

// Element k of src goes to row k + first of the diagonal.
std::string FormText::diagonal_scatter() {
  const Dims& shape = sizes_of("self");
  const int64_t dims = shape.size(), offset = integer_of("offset", 0);
  const int64_t one = argument("dim1") ? dim_of("dim1", dims) : 0;
  const int64_t two = argument("dim2") ? dim_of("dim2", dims) : 1;
  if (dims < 2 || one == two) refuse("expected two different dims");
  const int64_t rows = shape[static_cast<int>(one)], columns = shape[static_cast<int>(two)];
  const int64_t first = std::max<int64_t>(0, -offset);
  const int64_t length = std::min(rows - first, columns - std::max<int64_t>(0, offset));
  if (length <= 0) return filled("y0 = flip({self}, [])");
  return filled(
      fmt::format("i = arange(0, {})\n"
                  "s = index_select({{src}}, -1, indices=clamp(i - {}, 0, {}))\n"
                  "m = unsqueeze(i, -1) + {} == arange(0, {})\n"
                  "h = where(m, unsqueeze(s, -1), movedim({{self}}, [{}, {}], [-2, -1]))\n"
                  "y0 = movedim(h, [-2, -1], [{}, {}])",
                  rows, first, length - 1, offset, columns, one, two, one, two));
}

// Compares each place of a dim with all indices: m has the places, then the indices, in that dim.
std::string FormText::scatter_reduce() {
  const bool is_flat = op_.find("index_reduce") != std::string::npos;
  const std::string reduce = needed("reduce").substr(1, needed("reduce").size() - 2);
  const bool includes = given("include_self").value_or("true") == "true";
  if (!is_flat && reduce == "sum" && includes)
    return filled("y0 = scatter_along_dim({self}, {dim}, {index}, {src}, reduce='add')");
  const Dims shape = sizes_of("self");
  const int64_t dims = shape.size();
  if (dims == 0) refuse("expected a tensor with dims");
  const int64_t dim = dim_of("dim", dims);
  std::string places = fmt::format("arange(0, {})", shape[static_cast<int>(dim)]);
  for (int64_t d = dim; d < dims; ++d) places = unsqueezed(places, -1);
  std::string index = filled("{index}"), source = filled(is_flat ? "{source}" : "{src}");
  if (is_flat) {
    for (int64_t d = dim + 1; d < dims; ++d) index = unsqueezed(index, -1);
    index = unsqueezed(index, 0);
  } else {
    // The index may be smaller than both tensors: other elements are not written.
    const Dims& given_index = sizes_of("index");
    if (given_index.size() != dims || sizes_of("src").size() != dims)
      refuse("expected an index and a source with the dims of the tensor");
    std::string pads;
    for (int64_t d = 0; d < dims; ++d) {
      const int at = static_cast<int>(d);
      source = fmt::format("narrow({}, {}, 0, {})", source, d, given_index[at]);
      const int64_t more = d == dim ? 0 : shape[at] - given_index[at];
      pads = fmt::format("0, {}{}{}", more, pads.empty() ? "" : ", ", pads);
    }
    if (given_index[static_cast<int>(dim)] == 0) return filled("y0 = flip({self}, [])");
    index = unsqueezed(fmt::format("pad({}, [{}], value=-1)", index, pads), dim);
    source = fmt::format("pad({}, [{}])", source, pads);
  }
  const int64_t over = dim + 1;
  std::string lines = fmt::format(
      "s = {}\n"
      "m = logical_and({} == {}, unsqueeze(ones(like=s) != 0, {}))\n"
      "b = any(m, dim={})\n",
      source, places, index, dim, over);
  const auto reduced = [&](const char* op, const std::string& neutral) {
    return fmt::format("h = {}(where(m, unsqueeze(s, {}), {}), dim={})\n", op, dim, neutral, over);
  };
  if (reduce == "amax" || reduce == "amin") {
    const bool is_most = reduce == "amax";
    lines += reduced(reduce.c_str(),
                     fmt::format("{}(unsqueeze({}, {}), dim={}, keepdim=true)",
                                 is_most ? "amin" : "amax", numbers_of("s", is_most), dim, over));
    if (includes)
      lines +=
          filled(fmt::format("h = {}(h, {{self}})\n", reduce == "amax" ? "maximum" : "minimum"));
    return lines + filled("y0 = where(b, h, {self})");
  }
  if (reduce == "prod") {
    lines += reduced("prod", "1");
    return lines + filled(includes ? "y0 = {self} * h" : "y0 = where(b, h, {self})");
  }
  if (reduce != "sum" && reduce != "mean")
    refuse(fmt::format("expected the reduction sum, mean, prod, amax or amin, found {}", reduce));
  lines += reduced("sum", "0");
  if (includes) lines += filled("h = h + {self}\n");
  if (reduce == "mean") {
    lines += fmt::format("n = sum(cast(m, i64), dim={}){}\n", over, includes ? " + 1" : "");
    lines += is_integral(meta_of("self").dtype) ? "h = h // clamp_min(n, 1)\n"
                                                : "h = h / clamp_min(n, 1)\n";
  }
  return lines + filled("y0 = where(b, h, {self})");
}

// The first parts have one element more than the others.
std::string FormText::section_sizes() {
  const Dims& shape = sizes_of("self");
  const int64_t size = shape[static_cast<int>(dim_of("dim", shape.size()))];
  std::vector<int64_t> sizes;
  if (const JsonReader* ends = argument("indices")) {
    int64_t start = 0;
    for (const JsonReader& item : ends->items("a list of integers")) {
      const int64_t given_end = item.integer();
      const int64_t end = std::clamp(given_end < 0 ? given_end + size : given_end, start, size);
      sizes.push_back(end - start);
      start = end;
    }
    sizes.push_back(size - start);
  } else {
    const int64_t count = integer_of("sections", 0);
    if (count < 1) refuse("expected a number of sections, or indices");
    for (int64_t i = 0; i < count; ++i) sizes.push_back(size / count + (i < size % count ? 1 : 0));
  }
  return fmt::format("[{}]", join_text(sizes, ", "));
}

// Joins the dims that have an index: p are the positions in them, and v the values of all places.
std::string FormText::put_at(const std::vector<std::string>& entries) {
  const auto is_index = [](const std::string& entry) { return entry != ":"; };
  const auto first = std::find_if(entries.begin(), entries.end(), is_index);
  const auto last = std::find_if_not(first, entries.end(), is_index);
  if (first == entries.end() || std::any_of(last, entries.end(), is_index))
    refuse("indices of dims that are not next to each other have no counterpart here");
  const auto lead = first - entries.begin(), count = last - first;
  const auto meta_of_text = [&](const std::string& x) -> const TensorMeta& {
    return inputs_.at(std::stoul(x.substr(1)));
  };
  const Dims& shape = sizes_of("self");
  if (lead + count > shape.size()) refuse("expected no more indices than dims");
  if (meta_of_text(*first).dtype == DType::boolean) {
    if (lead != 0 || count != 1 || element_count(meta_of("values").shape) != 1)
      refuse("a mask has a counterpart here only with one value");
    std::string mask = *first;
    for (int64_t d = meta_of_text(mask).shape.size(); d < shape.size(); ++d)
      mask = unsqueezed(mask, -1);
    const std::string value = fmt::format("sum({})", needed("values"));
    return given("accumulate").value_or("false") == "true"
               ? filled("where(" + mask + ", {self} + " + value + ", {self})")
               : filled("where(" + mask + ", " + value + ", {self})");
  }
  std::string place;
  int64_t places = 0;
  for (auto entry = first; entry != last; ++entry) {
    const int64_t size = shape[static_cast<int>(entry - entries.begin())];
    const std::string counted = fmt::format("where({0} < 0, {0} + {1}, {0})", *entry, size);
    place = place.empty() ? counted : fmt::format("({}) * {} + {}", place, size, counted);
    places = std::max<int64_t>(places, meta_of_text(*entry).shape.size());
  }
  std::string values = filled(fmt::format(
      "where(zeros(like={{self}}[{}]) == 0, {{values}}, {{values}})", join_text(entries, ", ")));
  values = places == 0 ? unsqueezed(values, lead)
                       : fmt::format("flatten({}, {}, {})", values, lead, lead + places - 1);
  return filled(
      fmt::format("reshape_as({}(flatten({{self}}, {}, {}), {}, flatten({}), {}), {{self}})",
                  given("accumulate").value_or("false") == "true" ? "index_add" : "index_copy",
                  lead, lead + count - 1, lead, place, values));
}

}  // namespace shardproof
