// Tests duration.h.
#include "shardproof/localtensor/base/duration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof::duration_test {
namespace {

constexpr Duration kLongest{std::numeric_limits<int64_t>::max()};
constexpr Duration kLowest{std::numeric_limits<int64_t>::min()};

TEST(Duration, TextParsesBack) {
  const Rng rng(5, 0);
  for (uint64_t i = 0; i < 20'000; ++i) {
    const Duration d{static_cast<int64_t>(rng.bits(i)) >> (i % 64)};
    ASSERT_EQ(parse_duration(to_string(d)), d) << to_string(d);
  }
  for (const Duration d : {kLongest, kLowest, Duration{}})
    EXPECT_EQ(parse_duration(to_string(d)), d) << to_string(d);
}

TEST(Duration, TextIsExactAndShort) {
  EXPECT_EQ(to_string(Duration{25'000'000}), "25 us");
  EXPECT_EQ(to_string(Duration{11'300'001}), "11.300001 us");
  EXPECT_EQ(to_string(Duration{1'000'000'000'001}), "1.000000000001 s");
  EXPECT_EQ(to_string(Duration{-1'500}), "-1.5 ns");
  EXPECT_EQ(to_string(Duration{}), "0 ps");
}

TEST(Duration, RoundedTextHasOneDecimal) {
  EXPECT_EQ(rounded_text(Duration{11'340'000}), "11.3 us");
  EXPECT_EQ(rounded_text(Duration{134'350'000}), "134.4 us");
  EXPECT_EQ(rounded_text(Duration{2'000'000'000}), "2.0 ms");
  EXPECT_EQ(rounded_text(Duration{999'960'000}), "1.0 ms");
  EXPECT_EQ(rounded_text(Duration{999'940'000}), "999.9 us");
  EXPECT_EQ(rounded_text(Duration{7}), "7 ps");
  EXPECT_EQ(rounded_text(Duration{-1'960}), "-2.0 ns");
  EXPECT_EQ(rounded_text(kLowest), "-9223372.0 s");
}

TEST(Duration, ParsesWhatUsersWrite) {
  EXPECT_EQ(parse_duration("25 us"), Duration{25'000'000});
  EXPECT_EQ(parse_duration("25us"), Duration{25'000'000});
  EXPECT_EQ(parse_duration("0.25 us"), Duration{250'000});
  EXPECT_EQ(parse_duration("1.5000 ns"), Duration{1'500});
  EXPECT_EQ(parse_duration("2 s"), Duration{2'000'000'000'000});
  for (const char* text :
       {"", "25", "us", "1.5 ps", "0.0001 ns", "1.2.3 us", ".5 us", "1e3 us", "5 m",
        "99999999999999999999 ps", "9223373 s", "--1 s", "1 us ", "+1 us"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

TEST(Duration, OverflowIsRefused) {
  EXPECT_THROW(kLongest + Duration{1}, Error);
  EXPECT_THROW(kLowest - Duration{1}, Error);
  EXPECT_THROW(kLongest * 2, Error);
  EXPECT_THROW(duration_of_seconds(1e7), Error);
  EXPECT_THROW(duration_of_seconds(NAN), Error);
}

TEST(Duration, SecondsRoundToThePicosecond) {
  EXPECT_EQ(duration_of_seconds(1.5e-6), Duration{1'500'000});
  EXPECT_EQ(duration_of_seconds(0.6e-12), Duration{1});
  EXPECT_DOUBLE_EQ(to_seconds(Duration{1'500'000}), 1.5e-6);
}

}  // namespace
}  // namespace shardproof::duration_test
