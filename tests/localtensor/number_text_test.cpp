// Tests number_text.h.
#include "shardproof/localtensor/base/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardproof::number_text_test {
namespace {

TEST(NumberText, NumbersAreGrouped) {
  EXPECT_EQ(grouped_number(0), "0");
  EXPECT_EQ(grouped_number(999), "999");
  EXPECT_EQ(grouped_number(9312), "9,312");
  EXPECT_EQ(grouped_number(1234567), "1,234,567");
  EXPECT_EQ(grouped_number(-1234), "-1,234");
}

TEST(NumberText, RoughNumbersHaveTwoDigits) {
  EXPECT_EQ(rough_number(0), "0");
  EXPECT_EQ(rough_number(0.0031), "3.1e-3");
  EXPECT_EQ(rough_number(5.9e-8), "5.9e-8");
  EXPECT_EQ(rough_number(1.24e-120), "1.2e-120");
  EXPECT_EQ(rough_number(0.534), "0.53");
  EXPECT_EQ(rough_number(42), "42");
  EXPECT_EQ(rough_number(99.9), "1.0e2");
  EXPECT_EQ(rough_number(1e10), "1.0e10");
  EXPECT_EQ(rough_number(-0.0031), "-3.1e-3");
  EXPECT_EQ(rough_number(INFINITY), "inf");
}

TEST(NumberText, FactorsAreWholeAndRoundedUp) {
  EXPECT_EQ(factor_text(0), "0");
  EXPECT_EQ(factor_text(32.2), "33");
  EXPECT_EQ(factor_text(1024.3), "1,025");  // above a limit of 1,024
  EXPECT_EQ(factor_text(52314), "52,000");
  EXPECT_EQ(factor_text(99600), "100,000");
  EXPECT_EQ(factor_text(5.13e16), "5.1e16");
  EXPECT_EQ(factor_text(INFINITY), "infinitely many");
}

}  // namespace
}  // namespace shardproof::number_text_test
