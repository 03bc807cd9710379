// Implements element.h.
#include "shardproof/engine/compare/element.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "shardproof/engine/compare/elements.h"

namespace shardproof {
namespace {

std::string text_of_float(const std::byte* data, DType dtype, int digits) {
  const double value = load_f64(data, dtype);
  if (digits != kShortest) return float_text(value, digits);
  return dtype == DType::f64 ? fmt::format("{}", value)
                             : fmt::format("{}", static_cast<float>(value));
}

}  // namespace

Element element_of(const std::byte* data, DType dtype) {
  Element element{dtype, {}};
  std::memcpy(element.bytes.data(), data, static_cast<size_t>(size_of(dtype)));
  return element;
}

Element element_of(const Tensor& tensor, int64_t i) {
  return element_of(tensor.data(0) + i * size_of(tensor.dtype), tensor.dtype);
}

bool differ(const Element& a, const Element& b) {
  return distance(a.bytes.data(), b.bytes.data(), a.dtype) != 0;
}

std::string element_text(const Element& element, int digits) {
  const std::byte* data = element.bytes.data();
  const DType dtype = element.dtype;
  if (is_floating(dtype)) return text_of_float(data, dtype, digits);
  if (is_complex(dtype)) {
    const DType part = component_dtype(dtype);
    const std::string imaginary = text_of_float(data + size_of(part), part, digits);
    return fmt::format("{}{}{}j", text_of_float(data, part, digits), imaginary[0] == '-' ? "" : "+",
                       imaginary);
  }
  if (dtype == DType::boolean) return load_f64(data, dtype) == 0 ? "false" : "true";
  int64_t whole = 0;
  convert(data, dtype, reinterpret_cast<std::byte*>(&whole), DType::i64, 1);
  return fmt::format("{}", whole);
}

std::string float_text(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, digits);
}

}  // namespace shardproof
