// DType: the 14 element types of shardproof, their storage and their conversions.
//
// Storage: bool is one byte holding 0 or 1; f16, bf16 and the two fp8 types are PODs of raw bits;
// complex types are std::complex. f8e4m3 is the OCP "fn" form (no infinity; overflow gives NaN,
// like torch.float8_e4m3fn); f8e5m2 is IEEE-like (overflow gives infinity).
//
// Conversions:
//   to a narrower float     one rounding, to nearest even, directly from the f64 or i64 value
//   NaN to another float    keeps the sign and the first bits of the payload, and becomes quiet
//   float to integer        truncates toward zero; NaN gives 0; a value out of range saturates
//                           to i64 and then wraps modulo 2^bits
//   integer to narrower     wraps
//   anything to bool        x != 0; NaN is true; a complex number is true if either part is not 0
//   complex to real         the real part
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardproof {

enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  c64,
  c128
};
inline constexpr int kDTypeCount = 14;

struct F16 {
  uint16_t bits;
  bool operator==(const F16&) const = default;
};
struct BF16 {
  uint16_t bits;
  bool operator==(const BF16&) const = default;
};
struct F8E4M3 {
  uint8_t bits;
  bool operator==(const F8E4M3&) const = default;
};
struct F8E5M2 {
  uint8_t bits;
  bool operator==(const F8E5M2&) const = default;
};
struct Bool {
  uint8_t value;
  bool operator==(const Bool&) const = default;
};
using C64 = std::complex<float>;
using C128 = std::complex<double>;

std::string_view name(DType dtype);                       // "bf16"; boolean is "bool"
std::optional<DType> parse_dtype(std::string_view text);  // inverse of name
int64_t size_of(DType dtype);                             // bytes of one element
bool is_floating(DType dtype);                            // f64 .. f8e5m2
bool is_integral(DType dtype);                            // i64 .. u8, not bool
bool is_complex(DType dtype);
bool is_signed(DType dtype);
// Returns the bits of the significand with the hidden one (f32: 24). Integers: the number of value
// bits (i32: 31); complex types: that of one part; bool: 1.
int precision_bits(DType dtype);
// Returns the largest finite value (integers: the largest value), exact except for i64 (2^63).
double max_finite(DType dtype);
// Returns the binary exponent of the smallest positive value (f32: -149, a subnormal); for complex
// types that of one part; for integers and bool 0.
int smallest_exponent(DType dtype);
// Returns 2^-precision_bits, the largest relative error of one rounding; 0 for integers and bool.
double unit_roundoff(DType dtype);
// Returns one unit in the last place of a finite number of this size: the distance to the next
// larger one. For complex types that of one part; for integers and bool 1.
double unit_in_last_place(DType dtype, double size);
// Returns the dtype of the real and the imaginary part of a complex dtype; else `dtype`.
DType component_dtype(DType dtype);
// Returns the type in which ops compute: f32 for narrow floats, i64 for integers and bool, else
// `dtype`.
DType compute_dtype(DType dtype);
// Returns torch's promotion of two tensor dtypes. bf16 with f16 gives f32, as does an fp8 type with
// another float of at most 16 bits.
DType promote(DType a, DType b);

// Widening is exact; narrowing rounds once, as the table above states.
double to_f64(F16 x);
double to_f64(BF16 x);
double to_f64(F8E4M3 x);
double to_f64(F8E5M2 x);
float to_f32(F16 x);
float to_f32(BF16 x);
float to_f32(F8E4M3 x);
float to_f32(F8E5M2 x);
F16 f16_from(double x);
BF16 bf16_from(double x);
F8E4M3 f8e4m3_from(double x);
F8E5M2 f8e5m2_from(double x);
F16 f16_from(float x);
BF16 bf16_from(float x);
F8E4M3 f8e4m3_from(float x);
F8E5M2 f8e5m2_from(float x);

// Converts `count` densely packed elements; alignment does not matter. The ranges must not overlap,
// unless both are the same range and `from` == `to`.
void convert(const std::byte* source, DType from, std::byte* target, DType to, int64_t count);

// Load one element as double (complex: the real part) or as int64 (exact for integers), and store a
// value with the conversions above.
double load_f64(const std::byte* element, DType dtype);
int64_t load_i64(const std::byte* element, DType dtype);
void store_f64(std::byte* element, DType dtype, double value);
void store_i64(std::byte* element, DType dtype, int64_t value);

}  // namespace shardproof
