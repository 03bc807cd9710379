// Tests dims.h.
#include "shardproof/localtensor/base/dims.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::dims_test {
namespace {

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Dims, UnravelAndRavelAreInverse) {
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{3, 1, 4}, Dims{2, 3, 2, 2}}) {
    Dims before;
    for (int64_t i = 0; i < element_count(shape); ++i) {
      const Dims at = unravel(i, shape);
      EXPECT_EQ(ravel(at, shape), i);
      EXPECT_TRUE(i == 0 || before < at);
      before = at;
    }
  }
}

TEST(Dims, ContiguousStridesGiveTheFlatIndex) {
  const Dims shape{3, 1, 4, 2};
  const Dims strides = contiguous_strides(shape);
  for (int64_t i = 0; i < element_count(shape); ++i) {
    int64_t flat = 0;
    for (int d = 0; d < shape.size(); ++d) flat += unravel(i, shape)[d] * strides[d];
    EXPECT_EQ(flat, i);
  }
  EXPECT_EQ(contiguous_strides(Dims{3, 0, 4}), (Dims{4, 4, 1}));
}

TEST(Dims, InsertEraseAndCapacity) {
  Dims dims{1, 2, 3};
  dims.insert(1, 9);
  EXPECT_EQ(dims, (Dims{1, 9, 2, 3}));
  dims.insert(4, 7);
  dims.erase(0);
  EXPECT_EQ(to_string(dims), "[9, 2, 3, 7]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  EXPECT_THROW(Dims::filled(11, 1), Error);
  EXPECT_THROW(Dims(std::vector<int64_t>(11, 1)), Error);
}

TEST(Dims, ElementCountOf2To63_Throws) {
  EXPECT_EQ(element_count(Dims{}), 1);
  EXPECT_EQ(element_count(Dims{int64_t{1} << 62, 4, 0}), 0);
  EXPECT_EQ(error_of([] {
              element_count(Dims{int64_t{1} << 32, int64_t{1} << 31});
            }),
            "shape [4294967296, 2147483648] has 2^63 elements or more");
  EXPECT_EQ(error_of([] { element_count(Dims{2, -1}); }), "shape [2, -1] has a negative size");
}

TEST(Dims, NormalizeDimCountsFromTheEnd) {
  EXPECT_EQ(normalize_dim(-1, 3), 2);
  EXPECT_EQ(normalize_dim(0, 1), 0);
  EXPECT_EQ(error_of([] { normalize_dim(2, 2); }),
            "dim 2 is out of range for a tensor of 2 dims; write a dim from -2 to 1");
  EXPECT_EQ(error_of([] { normalize_dim(-2, 1); }),
            "dim -2 is out of range for a tensor of 1 dim; write a dim from -1 to 0");
  EXPECT_THROW(normalize_dim(0, 0), Error);
}

TEST(Dims, Broadcast_FollowsNumPy) {
  EXPECT_EQ(broadcast_shapes(Dims{3, 1}, Dims{4}), (Dims{3, 4}));
  EXPECT_EQ(broadcast_shapes(Dims{}, Dims{2, 0}), (Dims{2, 0}));
  EXPECT_EQ(broadcast_shapes(Dims{1}, Dims{0}), (Dims{0}));
  EXPECT_EQ(broadcast_shapes(Dims{5, 1, 3}, Dims{2, 1}), (Dims{5, 2, 3}));
  EXPECT_EQ(error_of([] {
              broadcast_shapes(Dims{3}, Dims{2, 4});
            }),
            "shapes [3] and [2, 4] do not broadcast: sizes 3 and 4 differ");
}

}  // namespace
}  // namespace shardproof::dims_test
