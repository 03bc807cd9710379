// Tests dtype.h: rounding and widening of the small floats against a table of all their values, and
// promotion against that of torch.
#include "shardproof/localtensor/dtype/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/localtensor/slow_float.h"

namespace shardproof::dtype_test {
namespace {

template <typename Storage>
Storage rounded(double x);
template <>
F16 rounded<F16>(double x) {
  return f16_from(x);
}
template <>
BF16 rounded<BF16>(double x) {
  return bf16_from(x);
}
template <>
F8E4M3 rounded<F8E4M3>(double x) {
  return f8e4m3_from(x);
}
template <>
F8E5M2 rounded<F8E5M2>(double x) {
  return f8e5m2_from(x);
}
template <typename Storage>
Storage rounded(float x);
template <>
F16 rounded<F16>(float x) {
  return f16_from(x);
}
template <>
BF16 rounded<BF16>(float x) {
  return bf16_from(x);
}
template <>
F8E4M3 rounded<F8E4M3>(float x) {
  return f8e4m3_from(x);
}
template <>
F8E5M2 rounded<F8E5M2>(float x) {
  return f8e5m2_from(x);
}

template <typename Storage>
class SmallFloat : public testing::Test {
 protected:
  static constexpr DType kDType = slow::dtype_of<Storage>();
  static int patterns() { return 1 << (8 * sizeof(Storage)); }
  static Storage at(int bits) { return Storage{static_cast<decltype(Storage::bits)>(bits)}; }

  template <typename Float>
  void expect_rounded(Float x) {
    const slow::Format& format = slow::format_of(kDType);
    const uint32_t want = format.round(x), got = rounded<Storage>(x).bits;
    if (std::isnan(x)) {
      ASSERT_TRUE(format.is_nan(got)) << std::hexfloat << x;
      ASSERT_EQ(format.is_negative(got), std::signbit(x));
    } else {
      ASSERT_EQ(got, want) << std::hexfloat << x;
    }
  }
  template <typename Float>
  void expect_rounded_around(Float x) {
    constexpr Float kInfinity = std::numeric_limits<Float>::infinity();
    for (const Float near : {std::nextafter(x, -kInfinity), x, std::nextafter(x, kInfinity)}) {
      expect_rounded(near);
      expect_rounded(-near);
    }
  }
};
using SmallFloats = testing::Types<F16, BF16, F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(SmallFloat, SmallFloats);

TYPED_TEST(SmallFloat, EveryPatternWidensToItsValue) {
  const slow::Format& format = slow::format_of(this->kDType);
  for (int bits = 0; bits < this->patterns(); ++bits) {
    const TypeParam x = this->at(bits);
    if (format.is_nan(x.bits)) {
      ASSERT_TRUE(std::isnan(to_f32(x)) && std::isnan(to_f64(x))) << bits;
      ASSERT_EQ(std::signbit(to_f32(x)), format.is_negative(x.bits)) << bits;
    } else {
      ASSERT_EQ(static_cast<long double>(to_f64(x)), format.value(x.bits)) << bits;
      ASSERT_EQ(static_cast<double>(to_f32(x)), to_f64(x)) << bits;
      ASSERT_EQ(std::signbit(to_f32(x)), format.is_negative(x.bits)) << bits;
    }
  }
}

TYPED_TEST(SmallFloat, EveryQuietPatternComesBack) {
  for (int bits = 0; bits < this->patterns(); ++bits) {
    const TypeParam x = this->at(bits);
    const uint32_t quiet = slow::format_of(this->kDType).quieted(x.bits);
    ASSERT_EQ(rounded<TypeParam>(to_f64(x)).bits, quiet) << bits;
    ASSERT_EQ(rounded<TypeParam>(to_f32(x)).bits, quiet) << bits;
  }
}

TYPED_TEST(SmallFloat, EveryMidpointAndItsNeighboursRoundToNearestEven) {
  const slow::Format& format = slow::format_of(this->kDType);
  for (uint32_t bits = 0; bits <= format.largest(); ++bits) {
    const long double low = format.value(bits), high = format.after(bits);
    const long double middle = (low + high) / 2;
    for (const long double x : {low, middle, (low + middle) / 2, high}) {
      this->expect_rounded_around(static_cast<double>(x));
      this->expect_rounded_around(static_cast<float>(x));
    }
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(SmallFloat, AnyWideValueRoundsOnce) {
  const Rng rng(7, hash_text("dtype_test"));
  for (uint64_t i = 0; i < 300'000; ++i) {
    const uint64_t bits = rng.bits(i);
    this->expect_rounded(std::bit_cast<double>(bits));
    this->expect_rounded(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    // Scaled to a size that the format can hold, so that few values overflow.
    this->expect_rounded(rng.normal(i) * std::ldexp(1.0, static_cast<int>(bits % 40) - 30));
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(SmallFloat, InfinitiesAndOverflow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double x : {kInfinity, std::numeric_limits<double>::max(), 1e39, 0.0, -0.0,
                         std::numeric_limits<double>::denorm_min()}) {
    this->expect_rounded(x);
    this->expect_rounded(-x);
    this->expect_rounded(static_cast<float>(x));
  }
  EXPECT_EQ(static_cast<double>(to_f64(rounded<TypeParam>(max_finite(this->kDType)))),
            max_finite(this->kDType));
}

TEST(Rounding, F64NearATieOfF32_RoundsOnce) {
  // Rounded to f32 first, this would be the tie 1 + 2^-8 and would round down to 1.
  EXPECT_EQ(to_f64(bf16_from(1.0 + 0x1p-8 + 0x1p-40)), 1.0 + 0x1p-7);
  EXPECT_EQ(to_f64(f16_from(1.0 + 0x1p-11 + 0x1p-50)), 1.0 + 0x1p-10);
}

TEST(Rounding, F8Overflow_IsThatOfTorch) {
  EXPECT_EQ(f8e4m3_from(464.0).bits, 0x7e);
  EXPECT_EQ(f8e4m3_from(std::nextafter(464.0, 1e3)).bits, 0x7f);
  EXPECT_EQ(f8e4m3_from(-INFINITY).bits, 0xff);
  EXPECT_EQ(f8e5m2_from(61440.0).bits, 0x7c);
  EXPECT_EQ(f8e5m2_from(std::nextafter(61440.0, 0.0)).bits, 0x7b);
}

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
  }
  EXPECT_EQ(name(DType::boolean), "bool");
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
}

// Results of torch.promote_types; "-" for pairs that torch refuses and dtype.h defines.
TEST(DType, Promotion_IsThatOfTorch) {
  using enum DType;
  const std::vector<DType> order = {boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128};
  const std::vector<std::vector<DType>> table = {
      {boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128},
      {u8, u8, i16, i16, i32, i64, f16, bf16, f32, f64, c64, c128},
      {i8, i16, i8, i16, i32, i64, f16, bf16, f32, f64, c64, c128},
      {i16, i16, i16, i16, i32, i64, f16, bf16, f32, f64, c64, c128},
      {i32, i32, i32, i32, i32, i64, f16, bf16, f32, f64, c64, c128},
      {i64, i64, i64, i64, i64, i64, f16, bf16, f32, f64, c64, c128},
      {f16, f16, f16, f16, f16, f16, f16, f32, f32, f64, c64, c128},
      {bf16, bf16, bf16, bf16, bf16, bf16, f32, bf16, f32, f64, c64, c128},
      {f32, f32, f32, f32, f32, f32, f32, f32, f32, f64, c64, c128},
      {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64, c128, c128},
      {c64, c64, c64, c64, c64, c64, c64, c64, c64, c128, c64, c128},
      {c128, c128, c128, c128, c128, c128, c128, c128, c128, c128, c128, c128},
  };
  for (size_t a = 0; a < order.size(); ++a)
    for (size_t b = 0; b < order.size(); ++b)
      EXPECT_EQ(promote(order[a], order[b]), table[a][b])
          << name(order[a]) << ' ' << name(order[b]);
}

TEST(DType, PromotionOfF8) {
  using enum DType;
  for (const DType f8 : {f8e4m3, f8e5m2}) {
    EXPECT_EQ(promote(f8, f8), f8);
    for (const DType integer : {boolean, u8, i8, i16, i32, i64}) {
      EXPECT_EQ(promote(f8, integer), f8);
      EXPECT_EQ(promote(integer, f8), f8);
    }
    for (const DType other : {f16, bf16, f32}) EXPECT_EQ(promote(f8, other), f32);
    EXPECT_EQ(promote(f64, f8), f64);
    EXPECT_EQ(promote(f8, c64), c64);
  }
  EXPECT_EQ(promote(f8e4m3, f8e5m2), f32);
}

TEST(DType, PromotionCommutesAndKeepsItsResult) {
  for (int a = 0; a < kDTypeCount; ++a)
    for (int b = 0; b < kDTypeCount; ++b) {
      const DType x = static_cast<DType>(a), y = static_cast<DType>(b), both = promote(x, y);
      EXPECT_EQ(promote(y, x), both);
      EXPECT_EQ(promote(both, x), both) << name(x) << ' ' << name(y);
    }
}

TEST(DType, UnitInLastPlace_OfANarrowFloat_IsTheDistanceToTheNext) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const slow::Format& format = slow::format_of(dtype);
    EXPECT_EQ(std::ldexp(1.0, smallest_exponent(dtype)), format.value(1)) << name(dtype);
    for (uint32_t bits = 0; bits < format.largest(); ++bits) {
      const auto own = static_cast<double>(format.value(bits));
      const auto next = static_cast<double>(format.value(bits + 1));
      ASSERT_EQ(unit_in_last_place(dtype, own), next - own) << name(dtype) << ' ' << bits;
      ASSERT_EQ(unit_in_last_place(dtype, -own), next - own) << name(dtype) << ' ' << bits;
    }
  }
  EXPECT_EQ(unit_in_last_place(DType::f32, 1), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(unit_in_last_place(DType::c128, 0), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(unit_in_last_place(DType::i32, 7), 1);
  EXPECT_EQ(unit_roundoff(DType::f32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::i64), 0);
}

TEST(DType, PrecisionAndMaxFinite_MatchTheValues) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const slow::Format& format = slow::format_of(dtype);
    EXPECT_EQ(static_cast<long double>(max_finite(dtype)), format.value(format.largest()));
    EXPECT_EQ(precision_bits(dtype), format.mantissa_bits + 1);
  }
  EXPECT_EQ(max_finite(DType::f32), std::numeric_limits<float>::max());
  EXPECT_EQ(max_finite(DType::c128), std::numeric_limits<double>::max());
  EXPECT_EQ(precision_bits(DType::i32), 31);
  EXPECT_EQ(precision_bits(DType::u8), 8);
}

}  // namespace
}  // namespace shardproof::dtype_test
