// Implements dtype.h, except the conversion loops (dtype_convert.cpp): a table of properties.
#include "shardproof/localtensor/dtype/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "shardproof/localtensor/dtype/round_float.h"

namespace shardproof {
namespace {

enum class Class : uint8_t { boolean, integral, floating, complex };

struct Properties {
  std::string_view name;
  int64_t bytes;
  Class kind;
  bool is_signed;
  int precision;
  double max_finite;
};

constexpr std::array<Properties, kDTypeCount> kProperties = {{
    {"f64", 8, Class::floating, true, 53, 0x1.fffffffffffffp1023},
    {"f32", 4, Class::floating, true, 24, 0x1.fffffep127},
    {"f16", 2, Class::floating, true, 11, 65504},
    {"bf16", 2, Class::floating, true, 8, 0x1.fep127},
    {"f8e4m3", 1, Class::floating, true, 4, 448},
    {"f8e5m2", 1, Class::floating, true, 3, 57344},
    {"i64", 8, Class::integral, true, 63, 0x1p63},
    {"i32", 4, Class::integral, true, 31, 2147483647},
    {"i16", 2, Class::integral, true, 15, 32767},
    {"i8", 1, Class::integral, true, 7, 127},
    {"u8", 1, Class::integral, false, 8, 255},
    {"bool", 1, Class::boolean, false, 1, 1},
    {"c64", 8, Class::complex, true, 24, 0x1.fffffep127},
    {"c128", 16, Class::complex, true, 53, 0x1.fffffffffffffp1023},
}};

const Properties& properties(DType dtype) { return kProperties[static_cast<size_t>(dtype)]; }

DType promote_integers(DType a, DType b) {
  if (a == DType::u8) std::swap(a, b);
  if (b != DType::u8) return size_of(a) >= size_of(b) ? a : b;
  // i8 does not hold 255; i16 holds all values of both.
  return a == DType::i8 ? DType::i16 : a;
}

DType promote_floats(DType a, DType b) {
  // Neither of two formats of at most 16 bits holds all values of the other.
  const bool small = size_of(a) <= 2 && size_of(b) <= 2;
  if (small) return DType::f32;
  return size_of(a) >= size_of(b) ? a : b;
}

bool is_double(DType dtype) { return dtype == DType::f64 || dtype == DType::c128; }

}  // namespace

std::string_view name(DType dtype) { return properties(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kProperties[static_cast<size_t>(i)].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

int64_t size_of(DType dtype) { return properties(dtype).bytes; }
bool is_floating(DType dtype) { return properties(dtype).kind == Class::floating; }
bool is_integral(DType dtype) { return properties(dtype).kind == Class::integral; }
bool is_complex(DType dtype) { return properties(dtype).kind == Class::complex; }
bool is_signed(DType dtype) { return properties(dtype).is_signed; }
int precision_bits(DType dtype) { return properties(dtype).precision; }
double max_finite(DType dtype) { return properties(dtype).max_finite; }

int smallest_exponent(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128: return -1074;
    case DType::f32:
    case DType::c64: return -149;
    case DType::f16: return -24;
    case DType::bf16: return -133;
    case DType::f8e4m3: return -9;
    case DType::f8e5m2: return -16;
    default: return 0;
  }
}

double unit_roundoff(DType dtype) {
  return is_floating(dtype) || is_complex(dtype) ? std::ldexp(1.0, -precision_bits(dtype)) : 0;
}

double unit_in_last_place(DType dtype, double size) {
  if (!is_floating(dtype) && !is_complex(dtype)) return 1;
  const int smallest = smallest_exponent(dtype);
  if (size == 0) return std::ldexp(1.0, smallest);
  return std::ldexp(1.0, std::max(smallest, std::ilogb(size) - precision_bits(dtype) + 1));
}

DType component_dtype(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  return dtype == DType::c128 ? DType::f64 : dtype;
}

DType compute_dtype(DType dtype) {
  if (is_complex(dtype) || dtype == DType::f64) return dtype;
  return is_floating(dtype) ? DType::f32 : DType::i64;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const Class kind_a = properties(a).kind, kind_b = properties(b).kind;
  if (kind_a == Class::complex || kind_b == Class::complex)
    return is_double(a) || is_double(b) ? DType::c128 : DType::c64;
  if (kind_a != kind_b) return kind_a > kind_b ? a : b;
  return kind_a == Class::integral ? promote_integers(a, b) : promote_floats(a, b);
}

double to_f64(F16 x) { return detail::widen(x); }
double to_f64(BF16 x) { return detail::widen(x); }
double to_f64(F8E4M3 x) { return detail::widen(x); }
double to_f64(F8E5M2 x) { return detail::widen(x); }
float to_f32(F16 x) { return detail::widen(x); }
float to_f32(BF16 x) { return detail::widen(x); }
float to_f32(F8E4M3 x) { return detail::widen(x); }
float to_f32(F8E5M2 x) { return detail::widen(x); }
F16 f16_from(double x) { return detail::round_to<F16>(x); }
BF16 bf16_from(double x) { return detail::round_to<BF16>(x); }
F8E4M3 f8e4m3_from(double x) { return detail::round_to<F8E4M3>(x); }
F8E5M2 f8e5m2_from(double x) { return detail::round_to<F8E5M2>(x); }
F16 f16_from(float x) { return detail::round_to<F16>(x); }
BF16 bf16_from(float x) { return detail::round_to<BF16>(x); }
F8E4M3 f8e4m3_from(float x) { return detail::round_to<F8E4M3>(x); }
F8E5M2 f8e5m2_from(float x) { return detail::round_to<F8E5M2>(x); }

}  // namespace shardproof
