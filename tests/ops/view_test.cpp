// Tests views and ops that move elements against index arithmetic, and their errors.
#include <numeric>

#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing::view_test {
namespace {

using L = std::vector<int64_t>;

Tensor iota(const Dims& shape, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0);
  return tensor_of(dtype, shape, values);
}

// Each element of iota holds its own flat index, so a result shows where it was read from. `source`
// maps an output coordinate to the input's; -1 means the fill.
void expect_moved(const OpCase& op, const Dims& from,
                  const std::function<std::vector<int64_t>(const Dims&)>& source, double fill = 0) {
  Tensor got = op.run();
  Dims shape = op.infer()[0].shape;
  EXPECT_EQ(got.shape, shape);
  auto values = values_of(got);
  for (int64_t i = 0; i < element_count(shape); ++i) {
    auto at = source(unravel(i, shape));
    bool outside = false;
    for (int64_t x : at) outside = outside || x < 0;
    double expected = outside ? fill : static_cast<double>(ravel(Dims(std::span(at)), from));
    EXPECT_EQ(values[static_cast<size_t>(i)], expected) << op.record().name << " at " << i;
  }
  // The alias, if the op gives one, has the same elements.
  if (!op.record().view) return;
  auto alias = op.record().view(op.call(), *op.pointers()[0]);
  if (alias) {
    EXPECT_EQ(values_of(contiguous_copy(*alias)), values);
  }
}

TEST(View, Permutation_ReordersDims) {
  Dims shape{2, 3, 4};
  expect_moved({"t", {iota(shape)}}, shape, [](const Dims& o) { return L{o[0], o[2], o[1]}; });
  expect_moved({"transpose", {iota(shape)}, {{"dim0", int64_t{0}}, {"dim1", int64_t{-1}}}}, shape,
               [](const Dims& o) {
                 return L{o[2], o[1], o[0]};
               });
  expect_moved({"permute", {iota(shape)}, {{"dims", L{2, 0, 1}}}}, shape, [](const Dims& o) {
    return L{o[1], o[2], o[0]};
  });
}

TEST(View, DimsOfSizeOne_AreInsertedAndDropped) {
  expect_moved({"squeeze", {iota({1, 3, 1})}}, {1, 3, 1}, [](const Dims& o) {
    return L{0, o[0], 0};
  });
  expect_moved({"squeeze", {iota({1, 3, 1})}, {{"dim", L{-1, 1}}}}, {1, 3, 1}, [](const Dims& o) {
    return L{0, o[1], 0};
  });
  expect_moved({"unsqueeze", {iota({2, 3})}, {{"dim", int64_t{-1}}}}, {2, 3}, [](const Dims& o) {
    return L{o[0], o[1]};
  });
  expect_moved({"expand", {iota({3, 1})}, {{"size", L{2, -1, 4}}}}, {3, 1}, [](const Dims& o) {
    return L{o[1], 0};
  });
}

TEST(View, Reshape_KeepsRowMajorOrder) {
  Dims shape{4, 6};
  auto flat = [&](const Dims& to) {
    return [shape, to](const Dims& o) {
      Dims at = unravel(ravel(o, to), shape);
      return L(at.begin(), at.end());
    };
  };
  expect_moved({"reshape", {iota(shape)}, {{"shape", L{8, -1}}}}, shape, flat({8, 3}));
  expect_moved({"view", {iota(shape)}, {{"shape", L{24}}}}, shape, flat({24}));
  expect_moved({"flatten", {iota(shape)}}, shape, flat({24}));
  expect_moved({"unflatten", {iota(shape)}, {{"dim", int64_t{1}}, {"sizes", L{2, -1}}}}, shape,
               flat({4, 2, 3}));
}

TEST(View, ReshapeOfATransposedTensor_Copies) {
  Tensor x = iota({3, 4});
  Tensor turned = x;
  turned.shape = {4, 3};
  turned.strides = {1, 4};
  OpCase op("reshape", {turned}, {{"shape", L{12}}});
  EXPECT_FALSE(op.record().view(op.call(), turned).has_value());
  EXPECT_EQ(op.values(), values_of(contiguous_copy(turned)));
}

TEST(Pieces, Slice_FollowsPython) {
  Dims shape{5, 7};
  expect_moved({"slice", {iota(shape)}, {{"start", L{1}}, {"stop", L{4}}}}, shape,
               [](const Dims& o) {
                 return L{o[0] + 1, o[1]};
               });
  expect_moved(
      {"slice", {iota(shape)}, {{"start", L{0, 1}}, {"stop", L{99, 6}}, {"step", L{1, 2}}}}, shape,
      [](const Dims& o) {
        return L{o[0], 1 + 2 * o[1]};
      });
  expect_moved({"slice", {iota(shape)}, {{"start", L{-2}}}}, shape, [](const Dims& o) {
    return L{o[0] + 3, o[1]};
  });
  EXPECT_EQ(OpCase("slice", {iota(shape)}, {{"start", L{4}}, {"stop", L{2}}}).infer()[0].shape,
            (Dims{0, 7}));
  expect_moved({"select", {iota(shape)}, {{"dim", int64_t{1}}, {"index", int64_t{-1}}}}, shape,
               [](const Dims& o) {
                 return L{o[0], 6};
               });
}

TEST(Pieces, SplitAndJoin_AreInverse) {
  Tensor x = iota({5, 3});
  for (auto attrs : {Attrs{{"sizes", int64_t{2}}, {"dim", int64_t{0}}},
                     Attrs{{"sizes", L{1, 0, 4}}, {"dim", int64_t{0}}}}) {
    auto parts = OpCase("split", {x}, attrs).run_all();
    EXPECT_EQ(OpCase("cat", parts, {{"dim", int64_t{0}}}).values(), values_of(x));
  }
  auto chunks = OpCase("chunk", {x}, {{"chunks", int64_t{2}}, {"dim", int64_t{1}}}).run_all();
  EXPECT_EQ(chunks[0].shape, (Dims{5, 2}));
  EXPECT_EQ(chunks[1].shape, (Dims{5, 1}));
  EXPECT_EQ(OpCase("cat", chunks, {{"dim", int64_t{-1}}}).values(), values_of(x));
  OpCase stack("stack", {x, x}, {{"dim", int64_t{1}}});
  EXPECT_EQ(stack.infer()[0].shape, (Dims{5, 2, 3}));
  expect_moved({"stack", {x, x}, {{"dim", int64_t{1}}}}, {5, 3}, [](const Dims& o) {
    return L{o[0], o[2]};
  });
}

TEST(Shift, PadRollAndRepeat_FollowIndexArithmetic) {
  Dims shape{2, 3};
  auto inside = [](int64_t at, int64_t size) { return at < size ? at : -1; };
  expect_moved(
      {"pad", {iota(shape)}, {{"pad", L{1, 2}}, {"value", 7.0}}}, shape,
      [&](const Dims& o) {
        return L{o[0], inside(o[1] - 1, 3)};
      },
      7);
  expect_moved({"pad", {iota(shape)}, {{"pad", L{-1, 0, 0, 1}}}}, shape, [&](const Dims& o) {
    return L{inside(o[0], 2), o[1] + 1};
  });
  expect_moved({"flip", {iota(shape)}, {{"dims", L{0, 1}}}}, shape, [](const Dims& o) {
    return L{1 - o[0], 2 - o[1]};
  });
  expect_moved({"roll", {iota(shape)}, {{"shifts", L{1, -1}}, {"dims", L{0, 1}}}}, shape,
               [](const Dims& o) {
                 return L{(o[0] + 1) % 2, (o[1] + 1) % 3};
               });
  expect_moved({"roll", {iota(shape)}, {{"shifts", int64_t{2}}}}, shape, [&](const Dims& o) {
    Dims at = unravel((ravel(o, {2, 3}) + 4) % 6, {2, 3});
    return L(at.begin(), at.end());
  });
  expect_moved({"repeat", {iota(shape)}, {{"repeats", L{2, 1, 2}}}}, shape, [](const Dims& o) {
    return L{o[1], o[2] % 3};
  });
}

TEST(View, SplitRepeats_HasXAtEachRepeat) {
  const Tensor x = iota({2, 3});
  for (const L& repeats : {L{2, 1, 3}, L{1, 2}, L{3, 1}, L{1, 1}, L{2, 0}}) {
    const Tensor y = OpCase("repeat", {x}, {{"repeats", repeats}}).run();
    const OpCase split("split_repeats", {y, x}, {{"repeats", repeats}});
    const Dims shape = split.infer()[0].shape;
    const std::vector<double> values = split.values();
    ASSERT_EQ(element_count(shape), static_cast<int64_t>(values.size()));
    // The rows of x are the last dim but one, or but two if columns are repeated.
    const int row = shape.size() - (repeats.back() == 1 ? 2 : 3);
    for (size_t i = 0; i < values.size(); ++i) {
      const Dims at = unravel(static_cast<int64_t>(i), shape);
      EXPECT_EQ(values[i], static_cast<double>(at[row] * 3 + at[shape.size() - 1]));
    }
  }
}

TEST(View, SliceGrad_IsZeroBetweenTheStepsOfASlice) {
  const Attrs range{{"start", L{0, 1}}, {"stop", L{4, 7}}, {"step", L{3, 2}}};
  const Tensor dy = OpCase("slice", {iota({5, 7})}, range).run();
  const std::vector<double> spread = OpCase("slice_grad", {dy, iota({5, 7})}, range).values();
  for (int64_t i = 0; i < 35; ++i) {
    const bool is_read = (i / 7 == 0 || i / 7 == 3) && i % 7 % 2 == 1;
    EXPECT_EQ(spread[static_cast<size_t>(i)], is_read ? static_cast<double>(i) : 0) << i;
  }
}

TEST(View, EveryDtype_IsMoved) {
  for (int d = 0; d < kDTypeCount; ++d) {
    auto dtype = static_cast<DType>(d);
    Tensor x = tensor_of(dtype, {3}, {1, 0, 1});
    EXPECT_EQ(OpCase("flip", {x}, {{"dims", L{0}}}).values(), values_of(x)) << name(dtype);
    EXPECT_EQ(OpCase("cat", {x, x}).infer()[0].dtype, dtype);
  }
}

TEST(View, WrongShapes_AreNamedInErrors) {
  Tensor x = iota({2, 3});
  EXPECT_EQ(OpCase("reshape", {x}, {{"shape", L{4, 2}}}).error(),
            "reshape([2, 3]): 6 elements do not fill the shape [4, 2]");
  EXPECT_EQ(OpCase("reshape", {x}, {{"shape", L{4, -1}}}).error(),
            "reshape([2, 3]): 6 elements do not fill the shape [4, -1]");
  EXPECT_EQ(OpCase("transpose", {x}, {{"dim0", int64_t{0}}, {"dim1", int64_t{2}}}).error(),
            "transpose([2, 3]): dim 2 is out of range for 2 dims; write a dim from -2 to 1");
  EXPECT_EQ(OpCase("permute", {x}, {{"dims", L{0, 0}}}).error(),
            "permute([2, 3]): dims must name each of the 2 dims once");
  EXPECT_EQ(OpCase("expand", {x}, {{"size", L{2, 4}}}).error(),
            "expand([2, 3]): dim 1 of size 3 does not expand to 4; only size 1 does");
  EXPECT_EQ(OpCase("select", {x}, {{"dim", int64_t{0}}, {"index", int64_t{2}}}).error(),
            "select([2, 3]): index 2 is out of range for dim 0 of size 2");
  EXPECT_EQ(OpCase("split", {x}, {{"sizes", L{1, 1}}, {"dim", int64_t{1}}}).error(),
            "split([2, 3]): the sizes add up to 2, dim 1 has 3");
  EXPECT_EQ(OpCase("cat", {x, iota({2, 4})}).error(),
            "cat([2, 3], [2, 4]): input 2 must have the sizes of the first on every dim but 0");
  EXPECT_EQ(OpCase("split_repeats", {iota({2, 3}), x}, {{"repeats", L{2, 1}}}).error(),
            "split_repeats([2, 3], [2, 3]): y must have the shape of repeat(x, repeats), [4, 3]");
  EXPECT_EQ(OpCase("split_repeats", {x, x}, {{"repeats", L{2}}}).error(),
            "split_repeats([2, 3], [2, 3]): expected at least one repeat per dim, found 1 for 2 "
            "dims");
}

}  // namespace
}  // namespace shardproof::testing::view_test
