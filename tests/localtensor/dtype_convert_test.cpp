// Tests convert of dtype.h: all 14 x 14 conversions against long double, which holds every i64 and
// f64.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/tests/localtensor/slow_float.h"

namespace shardproof::dtype_convert_test {
namespace {

using Exact = std::complex<long double>;

bool is_small_float(DType dtype) { return is_floating(dtype) && size_of(dtype) <= 2; }

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

uint64_t bits_at(const std::byte* at, int64_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(std::min<int64_t>(bytes, 8)));
  return bits;
}

Exact exact_value(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f64: return read<double>(at);
    case DType::f32: return read<float>(at);
    case DType::i64: return read<int64_t>(at);
    case DType::i32: return read<int32_t>(at);
    case DType::i16: return read<int16_t>(at);
    case DType::i8: return read<int8_t>(at);
    case DType::u8: return read<uint8_t>(at);
    case DType::boolean: return read<uint8_t>(at);
    case DType::c64: return read<C64>(at);
    case DType::c128: return read<C128>(at);
    default: break;
  }
  const slow::Format& format = slow::format_of(dtype);
  const uint32_t bits = static_cast<uint32_t>(bits_at(at, size_of(dtype)));
  if (format.is_nan(bits)) return std::copysign(NAN, format.is_negative(bits) ? -1.0L : 1.0L);
  return format.value(bits);
}

int64_t exact_integer(long double x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p63L) return std::numeric_limits<int64_t>::max();
  if (x <= -0x1p63L) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

template <typename T>
bool same_float(long double want, const std::byte* at) {
  const T rounded = static_cast<T>(want), got = read<T>(at);
  if (std::isnan(want)) return std::isnan(got);
  return got == rounded && std::signbit(got) == std::signbit(rounded);
}

bool is_converted(Exact want, const std::byte* at, DType to) {
  const long double real = want.real();
  if (to == DType::f64) return same_float<double>(real, at);
  if (to == DType::f32) return same_float<float>(real, at);
  if (to == DType::c64)
    return same_float<float>(real, at) && same_float<float>(want.imag(), at + 4);
  if (to == DType::c128)
    return same_float<double>(real, at) && same_float<double>(want.imag(), at + 8);
  const uint64_t got = bits_at(at, size_of(to));
  if (to == DType::boolean) return got == (real != 0 || want.imag() != 0 ? 1 : 0);
  if (is_small_float(to)) {
    const slow::Format& format = slow::format_of(to);
    return std::isnan(real) ? format.is_nan(static_cast<uint32_t>(got)) : got == format.round(real);
  }
  const int unused_bits = 64 - 8 * static_cast<int>(size_of(to));
  return got == static_cast<uint64_t>(exact_integer(real)) << unused_bits >> unused_bits;
}

// Test values: near the limits of the integers, near ties, and random bits.
std::vector<double> landmarks() {
  std::vector<double> values = {0.0,       -0.0, 0.5,   -0.5,   1.5,    127,   128,
                                255,       256,  464,   61440,  65504,  65520, INFINITY,
                                -INFINITY, NAN,  1e300, -1e300, 5e-324, 1e-40};
  for (int e = -140; e < 140; ++e)
    for (const double x : {1.0, 1.0 + 0x1p-8, 1.0 + 0x1p-11, 1.0 + 0x1p-24, 1.0 + 0x1p-8 + 0x1p-52})
      values.push_back(std::ldexp(x, e) * (e % 2 == 0 ? 1 : -1));
  return values;
}

std::vector<std::byte> samples(DType dtype, int64_t& count) {
  const int64_t bytes = size_of(dtype);
  const std::vector<double> marks = landmarks();
  const Rng rng(11, hash_text(name(dtype)));
  count = 65536 + static_cast<int64_t>(marks.size());
  std::vector<std::byte> data(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* at = data.data() + i * bytes;
    const int64_t mark = i - 65536;
    const uint64_t bits = rng.bits(static_cast<uint64_t>(i));
    if (dtype == DType::boolean) {
      *at = static_cast<std::byte>(i % 2);
    } else if (mark >= 0) {
      store_f64(at, dtype, marks[static_cast<size_t>(mark)]);
    } else if (bytes <= 2) {
      std::memcpy(at, &i, static_cast<size_t>(bytes));
    } else if (is_integral(dtype)) {
      const int64_t any = static_cast<int64_t>(bits) >> (i % 63);
      std::memcpy(at, &any, static_cast<size_t>(bytes));
    } else {
      for (int64_t b = 0; b < bytes; b += 4) {
        const uint32_t word = static_cast<uint32_t>(rng.bits(bits + static_cast<uint64_t>(b)));
        std::memcpy(at + b, &word, 4);
      }
    }
  }
  return data;
}

class Conversion : public testing::TestWithParam<int> {};

TEST_P(Conversion, IsExactToEveryDType) {
  const DType from = static_cast<DType>(GetParam());
  int64_t count = 0;
  const std::vector<std::byte> source = samples(from, count);
  for (int t = 0; t < kDTypeCount; ++t) {
    const DType to = static_cast<DType>(t);
    std::vector<std::byte> target(static_cast<size_t>(count * size_of(to)));
    convert(source.data(), from, target.data(), to, count);
    if (from == to) {
      EXPECT_EQ(source, target);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* in = source.data() + i * size_of(from);
      ASSERT_TRUE(is_converted(exact_value(in, from), target.data() + i * size_of(to), to))
          << name(from) << " to " << name(to) << ", element " << i << ", " << load_f64(in, from);
    }
  }
}

TEST_P(Conversion, SingleElementsAgreeWithMany) {
  const DType dtype = static_cast<DType>(GetParam());
  int64_t count = 0;
  const std::vector<std::byte> source = samples(dtype, count);
  std::vector<double> real(static_cast<size_t>(count));
  std::vector<int64_t> whole(static_cast<size_t>(count));
  std::vector<std::byte> from_real(source.size()), from_whole(source.size());
  const auto bytes_of = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  convert(source.data(), dtype, bytes_of(real), DType::f64, count);
  convert(source.data(), dtype, bytes_of(whole), DType::i64, count);
  convert(bytes_of(real), DType::f64, from_real.data(), dtype, count);
  convert(bytes_of(whole), DType::i64, from_whole.data(), dtype, count);
  const int64_t bytes = size_of(dtype);
  for (size_t i = 0; i < real.size(); ++i) {
    const std::byte* at = source.data() + static_cast<int64_t>(i) * bytes;
    ASSERT_EQ(std::bit_cast<uint64_t>(load_f64(at, dtype)), std::bit_cast<uint64_t>(real[i]));
    ASSERT_EQ(load_i64(at, dtype), whole[i]);
    std::byte stored[16];
    store_f64(stored, dtype, real[i]);
    ASSERT_EQ(std::memcmp(stored, from_real.data() + static_cast<int64_t>(i) * bytes,
                          static_cast<size_t>(bytes)),
              0);
    store_i64(stored, dtype, whole[i]);
    ASSERT_EQ(std::memcmp(stored, from_whole.data() + static_cast<int64_t>(i) * bytes,
                          static_cast<size_t>(bytes)),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conversion, testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(name(static_cast<DType>(info.param)));
});

TEST(Convert, LargeIntegersRoundOnce) {
  // Rounded to f64 first, this would be a tie and would round down.
  const int64_t x = (int64_t{1} << 62) + (int64_t{1} << 54) + 1;
  std::byte got[2];
  store_i64(got, DType::bf16, x);
  EXPECT_EQ(load_f64(got, DType::bf16), 0x1p62 + 0x1p55);
  store_i64(got, DType::bf16, x - 1);
  EXPECT_EQ(load_f64(got, DType::bf16), 0x1p62);
}

TEST(Convert, OutOfRangeFloatsWrapFromTheSaturatedValue) {
  std::byte got[8];
  store_f64(got, DType::u8, 300.9);
  EXPECT_EQ(load_i64(got, DType::u8), 44);
  store_f64(got, DType::i8, 1e30);
  EXPECT_EQ(load_i64(got, DType::i8), -1);
  store_f64(got, DType::i32, -1e30);
  EXPECT_EQ(load_i64(got, DType::i32), 0);
  store_f64(got, DType::i64, NAN);
  EXPECT_EQ(load_i64(got, DType::i64), 0);
}

TEST(Convert, UnalignedAndEmptyRanges_AreConverted) {
  constexpr int64_t kCount = 3000;  // several tiles of the conversion loop
  std::vector<std::byte> source(1 + 4 * kCount), target(1 + 2 * kCount);
  for (int64_t i = 0; i < kCount; ++i)
    store_f64(source.data() + 1 + 4 * i, DType::f32, static_cast<double>(i % 200));
  convert(source.data() + 1, DType::f32, target.data() + 1, DType::bf16, kCount);
  for (int64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(load_f64(target.data() + 1 + 2 * i, DType::bf16), static_cast<double>(i % 200));
  convert(nullptr, DType::f32, nullptr, DType::bf16, 0);
}

}  // namespace
}  // namespace shardproof::dtype_convert_test
