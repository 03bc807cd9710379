// Ops whose results lie in a range whatever they are given: their bounds hold when inputs move as
// far as their own bounds allow, and never say more than the range.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace shardproof::testing
