// Ops whose results lie in a range whatever they are given: their bounds hold when inputs move as
// far as their own bounds allow, and never say more than the range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "shardproof/tests/ops/op_case.h"

namespace shardproof::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Ranged {
  std::string op;
  std::vector<Dims> shapes;
  Attrs attrs;
  std::vector<int> absent;
  double range;  // of two results, as a multiple of the last input's size
  int last;      // the input whose size counts; -1: none does
};

std::vector<Ranged> ranged_ops() {
  return {{"softmax", {{4, 7}}, {{"dim", int64_t{-1}}}, {}, 1, -1},
          {"rms_norm", {{3, 8}}, {}, {1}, 2 * std::sqrt(8.0), -1},
          {"layer_norm", {{3, 8}}, {}, {1, 2}, 2 * std::sqrt(8.0), -1},
          {"sdpa", {{2, 5, 4}, {2, 6, 4}, {2, 6, 3}}, {{"causal", false}}, {}, 12, 2},
          {"sdpa", {{2, 5, 4}, {2, 6, 4}, {2, 6, 3}}, {{"causal", true}}, {}, 12, 2}};
}

Tensor drawn(const Dims& shape, double size, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, size);
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i) values.push_back(normal(random));
  return tensor_of(DType::f64, shape, values);
}

Tensor moved(const Tensor& x, double by, bool to_the_end, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values = values_of(x);
  for (double& value : values) {
    const double step = uniform(random);
    value += by * (to_the_end ? std::copysign(1.0, step) : step);
  }
  return tensor_of(x.dtype, x.shape, values);
}

double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double value : values_of(x)) largest = std::max(largest, std::fabs(value));
  return largest;
}

Bound bound_for(const OpCase& op, const Tensor& output, const std::vector<double>& errors) {
  const std::vector<const Tensor*> inputs = op.pointers();
  std::vector<Bound> bounds(inputs.size());
  BoundCall call;
  call.call = &op.call();
  call.inputs = inputs;
  call.outputs = {&output};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) {
      bounds[i].exact = false;
      bounds[i].error.assign(static_cast<size_t>(inputs[i]->elements()), errors[i]);
    }
    call.input_bounds.push_back(inputs[i] == nullptr ? nullptr : &bounds[i]);
  }
  return op.record().bound(call)[0];
}

OpCase& leave_out(OpCase& op, const Ranged& row) {
  for (const int input : row.absent) op.without(input);
  return op;
}

TEST(BoundedResults, HoldForEveryMoveAndStayInTheRange) {
  std::mt19937_64 random(7);
  for (const Ranged& row : ranged_ops())
    for (const double size : {0.5, 5.0, 60.0})
      for (const double error : {1e-9, 1e-4, 0.1, 3.0, 100.0}) {
        std::vector<Tensor> inputs;
        for (const Dims& shape : row.shapes) inputs.push_back(drawn(shape, size, random));
        OpCase op(row.op, inputs, row.attrs);
        leave_out(op, row);
        const Tensor output = op.run();
        const std::vector<double> truth = values_of(output);
        // What attention mixes is left where it is: its own error is no matter of a range.
        std::vector<double> errors(std::max<size_t>(inputs.size(), 3), error);
        if (row.last >= 0) errors[static_cast<size_t>(row.last)] = 0;
        const Bound bound = bound_for(op, output, errors);
        const double scale = row.last < 0 ? 1 : largest_of(inputs[static_cast<size_t>(row.last)]);
        for (int64_t i = 0; i < output.elements(); ++i)
          ASSERT_LE(error_of(bound, i), row.range * scale * (1 + 1e-6)) << row.op << " " << error;
        for (int round = 0; round < 40; ++round) {
          std::vector<Tensor> other = inputs;
          for (size_t i = 0; i < other.size(); ++i)
            other[i] = moved(other[i], errors[i], round % 2 == 0, random);
          OpCase changed(row.op, other, row.attrs);
          const std::vector<double> got = leave_out(changed, row).values();
          for (size_t i = 0; i < got.size(); ++i)
            ASSERT_LE(std::fabs(got[i] - truth[i]), error_of(bound, static_cast<int64_t>(i)))
                << row.op << " of size " << size << ", inputs within " << error;
        }
      }
}

// An input without a bound may be infinite in an honest run, and the result no number.
TEST(BoundedResults, SayNothingWhenNothingIsKnownOfTheInputs) {
  std::mt19937_64 random(11);
  for (const Ranged& row : ranged_ops()) {
    std::vector<Tensor> inputs;
    for (const Dims& shape : row.shapes) inputs.push_back(drawn(shape, 2, random));
    OpCase op(row.op, inputs, row.attrs);
    leave_out(op, row);
    const Tensor output = op.run();
    const Bound bound = bound_for(op, output, std::vector<double>(3, kInfinity));
    for (int64_t i = 0; i < output.elements(); ++i)
      EXPECT_EQ(error_of(bound, i), kInfinity) << row.op;
  }
}

// Rows whose numbers lie 2 apart but for two that nearly meet.
Tensor spread_rows(int64_t rows, int64_t size, double gap, std::mt19937_64& random) {
  std::vector<double> values;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> line;
    for (int64_t i = 0; i < size; ++i) line.push_back(2.0 * static_cast<double>(i));
    line[static_cast<size_t>(size / 2)] = line[static_cast<size_t>(size / 2 - 1)] + gap;
    std::shuffle(line.begin(), line.end(), random);
    values.insert(values.end(), line.begin(), line.end());
  }
  return tensor_of(DType::f64, Dims{rows, size}, values);
}

struct Ordered {
  std::string op;
  Attrs attrs;
};

std::vector<Ordered> ordering_ops() {
  const int64_t last = -1;
  return {{"sort", {{"dim", last}, {"descending", false}}},
          {"sort", {{"dim", last}, {"descending", true}}},
          {"topk", {{"dim", last}, {"k", int64_t{4}}, {"largest", true}}},
          {"topk", {{"dim", last}, {"k", int64_t{6}}, {"largest", false}}},
          {"cummax", {{"dim", last}}},
          {"cummin", {{"dim", last}}}};
}

std::vector<Bound> bounds_of_order(const OpCase& op, const std::vector<Tensor>& outputs,
                                   const std::vector<double>& errors) {
  Bound input;
  input.exact = false;
  input.error = errors;
  BoundCall call{&op.call(), op.pointers(), {&input}, {}};
  for (const Tensor& output : outputs) call.outputs.push_back(&output);
  return op.record().bound(call);
}

Tensor moved_apart(const Tensor& x, const std::vector<double>& errors, std::mt19937_64& random) {
  std::vector<double> values = values_of(x);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] += 2 * errors[i] * (random() % 2 == 0 ? 1 : -1);
  return tensor_of(x.dtype, x.shape, values);
}

// Which indices some move of the numbers changes.
std::vector<bool> indices_that_change(const Ordered& row, const Tensor& x,
                                      const std::vector<double>& errors,
                                      const std::vector<double>& truth, std::mt19937_64& random) {
  std::vector<bool> changes(truth.size(), false);
  for (int round = 0; round < 200; ++round) {
    const OpCase other(row.op, {moved_apart(x, errors, random)}, row.attrs);
    const std::vector<double> got = values_of(other.run_all()[1]);
    for (size_t i = 0; i < got.size(); ++i) changes[i] = changes[i] || got[i] != truth[i];
  }
  return changes;
}

// Where a bound says that an index is known, it is the same however the numbers move, and it says
// so wherever nothing comes near.
TEST(OrderBounds, KnowTheIndicesThatNoMoveChanges) {
  std::mt19937_64 random(5);
  for (const Ordered& row : ordering_ops())
    for (const double gap : {0.0, 0.3, 1.0}) {
      const Tensor x = spread_rows(6, 9, gap, random);
      std::vector<double> errors(static_cast<size_t>(x.elements()), 0.05);
      for (size_t i = 0; i < errors.size(); i += 4) errors[i] = 0;
      const OpCase op(row.op, {x}, row.attrs);
      const std::vector<Tensor> outputs = op.run_all();
      const Bound bound = bounds_of_order(op, outputs, errors)[1];
      const std::vector<double> truth = values_of(outputs[1]);
      const auto changes = indices_that_change(row, x, errors, truth, random);
      for (size_t i = 0; i < truth.size(); ++i) {
        const bool known = error_of(bound, static_cast<int64_t>(i)) == 0;
        EXPECT_FALSE(known && changes[i]) << row.op << " at " << i << ", gap " << gap;
        EXPECT_TRUE(known || gap < 0.2) << row.op << " at " << i << ", gap " << gap;
      }
    }
}

// Exact equals keep their order; of a number of which nothing is known, no place is.
TEST(OrderBounds, TellExactEqualsFromTheUnknown) {
  const Tensor x = tensor_of(DType::f64, Dims{2, 4}, {1, 1, 5, -kInfinity, 1, 1, 5, 9});
  const OpCase op("sort", {x}, {{"dim", int64_t{-1}}, {"descending", false}});
  const std::vector<Tensor> outputs = op.run_all();
  const auto bounds = bounds_of_order(op, outputs, {0, 0, 0.5, 0, 0, 0, kInfinity, 0});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(error_of(bounds[1], i), 0) << i;
  for (int64_t i = 4; i < 8; ++i) EXPECT_EQ(error_of(bounds[1], i), kInfinity) << i;
}

double error_of_pair(const std::string& name, double a, double a_error, double b, double b_error) {
  const DType dtype = name.starts_with("logical") ? DType::boolean : DType::f64;
  const OpCase op(name, {tensor_of(dtype, Dims{1}, {a}), tensor_of(dtype, Dims{1}, {b})});
  const Tensor output = op.run();
  Bound first, second;
  first.exact = a_error == 0;
  second.exact = b_error == 0;
  first.error = {a_error};
  second.error = {b_error};
  BoundCall call{&op.call(), op.pointers(), {&first, &second}, {&output}};
  return error_of(op.record().bound(call)[0], 0);
}

// A count of tokens hangs on it: what is masked out is 0 whatever the weight, and no rounding of 0.
TEST(PairBounds, KnowWhatOneOperandDecides) {
  EXPECT_EQ(error_of_pair("mul", 0, 0, 0.3, 1e-9), 0);
  EXPECT_EQ(error_of_pair("div", 0, 0, 0.3, 1e-9), 0);
  EXPECT_GT(error_of_pair("mul", 0, 1e-300, 0.3, 1e-9), 0);
  EXPECT_GT(error_of_pair("mul", 1e-200, 0, 1e-200, 1e-300), 0);  // 0 by rounding
  EXPECT_EQ(error_of_pair("mul", 0, 0, 0.3, kInfinity), kInfinity);
  EXPECT_EQ(error_of_pair("div", 0, 0, 0.3, 0.2), kInfinity);  // 0 / 0 is near
  EXPECT_EQ(error_of_pair("logical_and", 0, 0, 1, kInfinity), 0);
  EXPECT_EQ(error_of_pair("logical_and", 1, 0, 1, kInfinity), kInfinity);
  EXPECT_EQ(error_of_pair("logical_or", 1, kInfinity, 1, 0), 0);
  EXPECT_EQ(error_of_pair("logical_or", 1, kInfinity, 0, 0), kInfinity);
  EXPECT_EQ(error_of_pair("logical_xor", 1, kInfinity, 1, 0), kInfinity);
}

}  // namespace
}  // namespace shardproof::testing
