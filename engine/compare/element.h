// Element: one element of a tensor with all its bits, and its text in findings.
#pragma once

#include <array>
#include <string>

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

struct Element {
  DType dtype = DType::f32;
  std::array<std::byte, 16> bytes{};
};

inline constexpr int kDigitsOfF32 = 9;
inline constexpr int kDigitsOfF64 = 17;
inline constexpr int kShortest = 0;  // as few digits as determine the value in its dtype

Element element_of(const std::byte* data, DType dtype);
// Requires a dense tensor of one lane. `i` is row-major.
Element element_of(const Tensor& tensor, int64_t i);
// True unless the elements are equal or both NaN. Requires one dtype.
bool differ(const Element& a, const Element& b);

// Returns "4611686018427387905", "true", "0.333333343" or "1-0.5j". `digits` is for floats.
std::string element_text(const Element& element, int digits);
// Returns the text of a number that is no element, such as a factor.
std::string float_text(double value, int digits = kDigitsOfF32);

}  // namespace shardproof
