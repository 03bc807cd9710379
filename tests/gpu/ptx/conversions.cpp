// Implements add_conversions of tables.h: cvt and cvta.
#include <cmath>
#include <limits>

#include "shardproof/tests/gpu/ptx/tables.h"

namespace shardproof::ptx {
namespace {

template <typename To, typename From>
void convert(const Step& step, uint64_t* slots) {
  put(slots[step.at[0]], static_cast<To>(get<From>(slots[step.at[1]])));
}

enum class Rounding { nearest, zero, down, up };

template <Rounding kRounding, typename F>
F rounded(F a) {
  switch (kRounding) {
    case Rounding::nearest: return std::nearbyint(a);
    case Rounding::zero: return std::trunc(a);
    case Rounding::down: return std::floor(a);
    case Rounding::up: return std::ceil(a);
  }
  return a;
}

// Values beyond the integer's range give the nearest integer. NaN gives 0, but the highest bit if
// either type has 64 bits (PTX ISA, cvt).
template <typename To, typename From, Rounding kRounding>
void to_integer(const Step& step, uint64_t* slots) {
  using Limits = std::numeric_limits<To>;
  const From a = rounded<kRounding>(get<From>(slots[step.at[1]]));
  const From beyond = std::ldexp(From{1}, Limits::digits);
  To result;
  if (a != a)
    result = sizeof(To) == 8 || sizeof(From) == 8
                 ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1))
                 : To{0};
  else if (a >= beyond)
    result = Limits::max();
  else if (a < static_cast<From>(Limits::min()))
    result = Limits::min();
  else
    result = static_cast<To>(a);
  put(slots[step.at[0]], result);
}

template <typename F, Rounding kRounding>
void add_rounding(Table& table, const std::string& how, const std::string& type) {
  table["cvt." + how + "." + type + "." + type] = unary<F, rounded<kRounding, F>>;
  const auto add = [&]<typename To>(const std::string& to, To) {
    table["cvt." + how + "." + to + "." + type] = to_integer<To, F, kRounding>;
  };
  add("u8", uint8_t{}), add("u16", uint16_t{}), add("u32", uint32_t{}), add("u64", uint64_t{});
  add("s8", int8_t{}), add("s16", int16_t{}), add("s32", int32_t{}), add("s64", int64_t{});
}

template <typename F>
void add_float_conversions(Table& table, const std::string& type) {
  add_rounding<F, Rounding::nearest>(table, "rni", type);
  add_rounding<F, Rounding::zero>(table, "rzi", type);
  add_rounding<F, Rounding::down>(table, "rmi", type);
  add_rounding<F, Rounding::up>(table, "rpi", type);
  const auto add = [&]<typename From>(const std::string& from, From) {
    table["cvt.rn." + type + "." + from] = convert<F, From>;
  };
  add("u8", uint8_t{}), add("u16", uint16_t{}), add("u32", uint32_t{}), add("u64", uint64_t{});
  add("s8", int8_t{}), add("s16", int16_t{}), add("s32", int32_t{}), add("s64", int64_t{});
}

template <typename From>
void add_integer_conversions(Table& table, const std::string& from) {
  const auto add = [&]<typename To>(const std::string& to, To) {
    table["cvt." + to + "." + from] = convert<To, From>;
  };
  add("u8", uint8_t{}), add("u16", uint16_t{}), add("u32", uint32_t{}), add("u64", uint64_t{});
  add("s8", int8_t{}), add("s16", int16_t{}), add("s32", int32_t{}), add("s64", int64_t{});
}

}  // namespace

void add_conversions(Table& table) {
  add_integer_conversions<uint8_t>(table, "u8");
  add_integer_conversions<uint16_t>(table, "u16");
  add_integer_conversions<uint32_t>(table, "u32");
  add_integer_conversions<uint64_t>(table, "u64");
  add_integer_conversions<int8_t>(table, "s8");
  add_integer_conversions<int16_t>(table, "s16");
  add_integer_conversions<int32_t>(table, "s32");
  add_integer_conversions<int64_t>(table, "s64");
  add_float_conversions<float>(table, "f32");
  add_float_conversions<double>(table, "f64");
  table["cvt.f64.f32"] = convert<double, float>;
  table["cvt.rn.f32.f64"] = convert<float, double>;
  table["cvt.sat.f32.f32"] =
      unary<float, ([](float a) { return a > 0 ? (a < 1 ? a : 1.0F) : 0.0F; })>;
  for (const char* space : {"global", "local", "param", "const"}) {
    table[std::string("cvta.") + space + ".u64"] = convert<uint64_t, uint64_t>;
    table[std::string("cvta.to.") + space + ".u64"] = convert<uint64_t, uint64_t>;
  }
}

}  // namespace shardproof::ptx
