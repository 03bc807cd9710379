// Tests the text of a ValuePrecision.
#include "shardproof/engine/compare/precision_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardproof::precision_text_test {
namespace {

ValuePrecision precision_of(double ratio, double error, double device_error) {
  ValuePrecision precision;
  precision.name = "g";
  precision.ratio = ratio;
  precision.error = error;
  precision.device_error = device_error;
  return precision;
}

TEST(PrecisionText, RatioToOneDevice_NamesBothErrors) {
  EXPECT_EQ(precision_text(precision_of(52314, 3.1e-3, 5.9e-8)),
            "g: error 3.1e-3 of its largest element, one device 5.9e-8: 52,000 times");
}

TEST(PrecisionText, RatioToAUnitOfRounding_IsToldApart) {
  EXPECT_EQ(precision_text(precision_of(8000, 9.5e-4, 0)),
            "g: error 9.5e-4 of its largest element, one device 0: 8,000 times one unit of "
            "rounding");
}

TEST(PrecisionText, InfiniteError_IsInWords) {
  ValuePrecision precision = precision_of(INFINITY, INFINITY, 5.9e-8);
  precision.name.clear();
  EXPECT_EQ(precision_text(precision),
            "a value inside the line: not finite on a rank where one device holds a number");
}

TEST(PrecisionText, Integers_AreCounted) {
  ValuePrecision precision = precision_of(INFINITY, 0.01, 0);
  precision.unequal = 3;
  precision.of = 8;
  precision.difference = 2;
  EXPECT_EQ(
      precision_text(precision),
      "g: 3 of 8 elements differ by up to 2, because the ranks round and one device does not");
}

}  // namespace
}  // namespace shardproof::precision_text_test
