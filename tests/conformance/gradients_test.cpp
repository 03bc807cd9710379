// Compares gradients of ops with those of torch autograd (torch/gradients.jsonl, made by
// torch/make_gradients.py). A row holds the inputs, the cotangents of the results and the gradients
// by the inputs, with nine digits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/tests/conformance/cases.h"
#include "shardproof/tests/ops/agreement.h"
#include "shardproof/tests/ops/eager_tape.h"

namespace shardproof::conformance::gradients_test {
namespace {

using testing::EagerTape;

// Ops in whose rows torch gives other numbers on purpose, with the reason.
const std::map<std::string, std::string> kOtherOnPurpose = {
    {"hardsigmoid", "torch multiplies by 1/6 rounded to f32"},
    {"kthvalue", "of equal elements torch chooses one by the order of its search"}};

double number_of(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const std::string text = json.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "nan" ? std::nan("") : text == "inf" ? infinity : -infinity;
}

Tensor tensor_from(const Json& numbers, DType dtype, const Dims& shape) {
  std::vector<double> values;
  for (const Json& number : numbers) values.push_back(number_of(number));
  if (!is_complex(dtype)) return tensor_of(dtype, shape, values);
  Tensor tensor = Tensor::empty(dtype, shape);
  const DType part = component_dtype(dtype);
  convert(reinterpret_cast<const std::byte*>(values.data()), DType::f64, tensor.mutate(), part,
          static_cast<int64_t>(values.size()));
  return tensor;
}

AttrValue attribute_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_array()) return json.get<std::vector<int64_t>>();
  const std::string text = json.get<std::string>();
  if (text == "inf" || text == "-inf") return number_of(json);
  return text;
}

// An integer is a number of the program where the parameter takes a number.
Attrs attributes_of(const OpRecord& record, const Json& json) {
  Attrs attrs;
  for (const auto& [name, value] : json.items()) attrs.set(name, attribute_of(value));
  for (const Param& param : record.params) {
    const bool list =
        param.kind == ParamKind::integers || param.kind == ParamKind::integers_or_text;
    if (list && param.name != "dim" && attrs.has(param.name) && json[param.name].is_number())
      attrs.set(param.name, std::vector<int64_t>{json[param.name].get<int64_t>()});
  }
  return attrs;
}

// Half a unit of the ninth recorded digit in f64; some units in the last place in narrower dtypes.
double room_of(DType dtype, double scale) {
  const bool wide = dtype == DType::f64 || dtype == DType::c128;
  return wide ? scale * 5.01e-9 : testing::room_in(dtype, scale);
}

Tensor zeros_of(const TensorMeta& meta) {
  return tensor_of(meta.dtype, meta.shape,
                   std::vector<double>(static_cast<size_t>(element_count(meta.shape)), 0));
}

// Compares the value of a result with torch's.
void expect_result(const Json& row, size_t result, const Tensor& found, double largest) {
  const Json& want = row["y"][result];
  const std::string where = row["id"].get<std::string>() + " " + row["op"].get<std::string>() +
                            " " + row["attrs"].dump() + ", result " + std::to_string(result);
  ASSERT_EQ(to_string(found.shape), to_string(dims_of(want["shape"]))) << where;
  const Tensor expected = tensor_from(want["v"], found.dtype, found.shape);
  const double scale = std::max(largest, testing::largest_number(expected));
  const double room = room_of(found.dtype, scale);
  EXPECT_EQ(testing::difference(found, expected, [&](size_t) { return room; }), "") << where;
}

void run_row(const OpRegistry& ops, const Json& row) {
  const OpRecord& record = ops.at(row["op"].get<std::string>());
  EagerTape tape(ops);
  std::vector<int> inputs;
  double largest = 0;
  for (const Json& input : row["inputs"]) {
    const DType dtype = parse_dtype(input["dtype"].get<std::string>()).value();
    const Tensor x = tensor_from(input["v"], dtype, dims_of(input["shape"]));
    largest = std::max(largest, testing::largest_number(x));
    inputs.push_back(tape.leaf(x, input.contains("number")));
  }
  const auto results = row["results"].get<size_t>();
  const std::vector<int> outputs =
      tape.run(record.name, attributes_of(record, row["attrs"]), inputs, results);
  ASSERT_GE(outputs.size(), results) << row["id"];
  for (size_t o = 0; o < results; ++o) expect_result(row, o, tape.value(outputs[o]), largest);
  std::vector<std::pair<int, int>> cotangents;
  for (size_t o = 0; o < results; ++o) {
    if (row["dy"][o].is_null()) continue;
    const TensorMeta meta = tape.meta(outputs[o]);
    const Tensor dy = tensor_from(row["dy"][o]["v"], meta.dtype, meta.shape);
    largest = std::max(largest, testing::largest_number(dy));
    cotangents.emplace_back(outputs[o], tape.leaf(dy));
  }
  const std::vector<int> got = tape.gradients(cotangents, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Json& want = row["grads"][i];
    if (want.is_null()) continue;
    const TensorMeta meta = tape.meta(inputs[i]);
    const Tensor expected = tensor_from(want["v"], meta.dtype, meta.shape);
    const Tensor found = got[i] == kAbsent ? zeros_of(meta) : tape.value(got[i]);
    const double scale = std::max(largest, testing::largest_number(expected));
    const double room = room_of(meta.dtype, scale);
    EXPECT_EQ(testing::difference(found, expected, [&](size_t) { return room; }), "")
        << row["id"] << " " << record.name << " " << row["attrs"].dump() << ", gradient " << i
        << "\n"
        << row.dump().substr(0, 600);
  }
}

TEST(Gradients, RecordedRows_AreTorchs) {
  const OpRegistry ops = builtin_ops();
  size_t rows = 0;
  std::set<std::string> names;
  for (const Json& row : read_cases("torch/gradients.jsonl")) {
    ++rows;
    names.insert(row["op"].get<std::string>());
    if (kOtherOnPurpose.contains(row["op"].get<std::string>())) continue;
    try {
      run_row(ops, row);
    } catch (const Error& error) {
      ADD_FAILURE() << row["id"] << " " << row["op"] << ": " << error.message();
    }
  }
  EXPECT_GE(rows, 1900u);
  EXPECT_GE(names.size(), 140u);
}

}  // namespace
}  // namespace shardproof::conformance::gradients_test
