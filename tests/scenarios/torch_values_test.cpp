// Compares values of torch's ops, as rule tables call them, with those of torch's documentation and
// with values computed by hand. Brute force over ranks would not find a wrong call, because all
// ranks would make it.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "shardproof/engine/check_ops/computation.h"
#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/scenarios/rules/torch_calls.h"

namespace shardproof::torch_values_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double number_of(const JsonReader& value) {
  return value.kind() == JsonKind::integer ? static_cast<double>(value.integer())
                                           : value.tree().real;
}

struct Given {
  Dims shape;
  std::vector<double> values;
  DType dtype = DType::f64;
};

struct TorchValue {
  const char* op;
  const char* attrs;
  std::vector<Given> inputs;
  std::vector<std::vector<double>> expected;  // of each result
};

std::vector<std::vector<double>> values_of_call(const TorchValue& value) {
  static const OpRegistry ops = builtin_ops();
  const JsonTree tree = read_json(value.attrs);
  const JsonReader attrs(tree, "/attrs");
  std::vector<TensorMeta> metas;
  std::vector<Tensor> inputs;
  for (const Given& given : value.inputs) {
    metas.push_back({given.dtype, given.shape});
    inputs.push_back(tensor_of(given.dtype, given.shape, given.values));
  }
  const size_t results = value.expected.size();
  // Random numbers are an input that no row has.
  std::vector<TensorMeta> of_row = metas;
  if (std::string(value.op).find("exponential") != std::string::npos) of_row.pop_back();
  const std::optional<TorchCall> call = torch_call(value.op, &attrs, of_row, results, ops);
  if (!call) return {};
  std::vector<std::vector<double>> found;
  for (const Tensor& result :
       Computation::of_lines(ops, call->lines, call->results).run_whole(metas, inputs))
    found.push_back(values_of(result));
  return found;
}

std::vector<double> counted(int64_t count, double first = 0) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<double>(i));
  return values;
}

void expect_values(const std::vector<TorchValue>& table) {
  for (const TorchValue& value : table) {
    const auto found = values_of_call(value);
    ASSERT_EQ(found.size(), value.expected.size()) << value.op;
    for (size_t r = 0; r < found.size(); ++r) {
      ASSERT_EQ(found[r].size(), value.expected[r].size()) << value.op << " result " << r;
      for (size_t i = 0; i < found[r].size(); ++i)
        EXPECT_NEAR(found[r][i], value.expected[r][i], 1e-6)
            << value.op << " result " << r << " element " << i;
    }
  }
}

const DType kInt = DType::i64, kBool = DType::boolean;

// Returns the numbers of a list; complex numbers are pairs.
Tensor recorded_tensor(const JsonReader& given) {
  const DType dtype = rule_dtype(given.at("dtype").text());
  Dims shape;
  for (const JsonReader& size : given.at("shape").items()) shape.push_back(size.integer());
  Tensor tensor = Tensor::empty(dtype, shape);
  const bool is_pair = is_complex(dtype);
  const DType number = is_pair ? DType::f64 : dtype;
  int64_t at = 0;
  for (const JsonReader& value : given.at("values").items()) {
    std::byte* const place = tensor.mutate() + at++ * size_of(number);
    if (is_floating(number))
      store_f64(place, number, number_of(value));
    else
      store_i64(place, number, value.integer());
  }
  return tensor;
}

std::vector<double> numbers_of_result(const Tensor& result) {
  if (!is_complex(result.dtype)) return values_of(result);
  std::vector<double> numbers;
  for (int64_t i = 0; i < 2 * result.elements(); ++i)
    numbers.push_back(load_f64(result.data() + 8 * i, DType::f64));
  return numbers;
}

void expect_recorded(const JsonReader& call) {
  static const OpRegistry ops = builtin_ops();
  const std::string& op = call.at("op").text();
  std::vector<TensorMeta> metas;
  std::vector<Tensor> inputs;
  for (const JsonReader& input : call.at("inputs").items()) {
    inputs.push_back(recorded_tensor(input));
    metas.push_back({inputs.back().dtype, inputs.back().shape});
  }
  const std::vector<JsonReader> expected = call.at("results").items();
  const JsonReader attrs = call.at("attrs");
  const std::optional<TorchCall> made = torch_call(op, &attrs, metas, expected.size(), ops);
  ASSERT_TRUE(made) << op;
  const std::vector<Tensor> found =
      Computation::of_lines(ops, made->lines, made->results).run_whole(metas, inputs);
  for (size_t r = 0; r < found.size(); ++r) {
    const std::vector<double> got = numbers_of_result(found[r]);
    const std::vector<JsonReader> want = expected[r].items();
    ASSERT_EQ(got.size(), want.size()) << op << " result " << r;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], number_of(want[i]), 1e-5 * (1 + std::fabs(got[i])))
          << op << " " << to_string(attrs.tree()) << " result " << r << " element " << i;
  }
}

TEST(TorchValues, RecordedCalls_GiveTheValuesOfTorch) {
  std::ifstream file(SHARDPROOF_SOURCE_DIR "/tests/scenarios/rules/recorded_values.jsonl");
  int calls = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("//")) continue;
    const JsonTree tree = read_json(line);
    expect_recorded(JsonReader(tree, ""));
    ++calls;
  }
  EXPECT_GE(calls, 60);
}

TEST(TorchValues, CountsAndOrder) {
  expect_values({
      {"aten.histc", R"({"bins": 4, "min": 0, "max": 3})", {{{3}, {1, 2, 1}}}, {{0, 2, 1, 0}}},
      {"aten.histc", R"({"bins": 2})", {{{3}, {1, 2, 5}}}, {{2, 1}}},
      {"aten.bincount",
       R"({"minlength": 7})",
       {{{5}, {4, 3, 6, 3, 4}, kInt}},
       {{0, 0, 0, 2, 2, 0, 1}}},
      {"aten.bincount",
       R"({"minlength": 7})",
       {{{5}, {4, 3, 6, 3, 4}, kInt}, {{5}, {0, 0.25, 0.5, 0.75, 1}}},
       {{0, 0, 0, 1, 1, 0, 0.5}}},
      {"aten.mode", R"({})", {{{2, 5}, {2, 1, 2, 1, 3, 4, 5, 5, 4, 5}}}, {{1, 5}}},
      {"aten.nanmedian", "{}", {{{3}, {1, kNan, 2}}}, {{1}}},
      {"aten.nanmedian.dim", R"({"dim": 1})", {{{2, 3}, {3, kNan, 2, 7, 8, 6}}}, {{2, 7}, {2, 0}}},
      {"aten.frexp.Tensor",
       "{}",
       {{{6}, {0, 1, 2, 3, -5, 8}}},
       {{0, 0.5, 0.5, 0.75, -0.625, 0.5}, {0, 1, 2, 2, 3, 4}}},
  });
}

TEST(TorchValues, Products) {
  expect_values({
      {"aten.kron",
       "{}",
       {{{2, 2}, {1, 0, 0, 1}}, {{2, 2}, {1, 2, 3, 4}}},
       {{1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4}}},
      {"aten.kron", "{}", {{{2}, {1, 2}}, {{2, 1}, {3, 4}}}, {{3, 6, 4, 8}}},
      {"aten.tensordot",
       R"({"dims_self": [1, 0], "dims_other": [0, 1]})",
       {{{3, 4, 5}, counted(60)}, {{4, 3, 2}, counted(24)}},
       {{4400, 4730, 4532, 4874, 4664, 5018, 4796, 5162, 4928, 5306}}},
      {"aten.inner",
       "{}",
       {{{2, 2}, {1, 2, 3, 4}}, {{3, 2}, {1, 0, 1, 1, 2, 1}}},
       {{1, 3, 4, 3, 7, 10}}},
      {"aten.float_power.Tensor_Scalar", R"({"exponent": 2})", {{{2}, {2, -3}, kInt}}, {{4, 9}}},
      {"aten.float_power.Scalar", R"({"self": 2})", {{{2}, {3, -1}, kInt}}, {{8, 0.5}}},
      {"aten.cholesky_solve",
       R"({"upper": false})",
       {{{2, 1}, {6, 7}}, {{2, 2}, {2, 9, 1, 1}}},
       {{-0.5, 4}}},
      {"aten.triangular_solve",
       R"({"upper": true})",
       {{{2, 1}, {3, 2}}, {{2, 2}, {1, 1, 9, 2}}},
       {{2, 1}}},
      {"aten.linalg_slogdet", "{}", {{{2, 2}, {0, 3, 1, 0}}}, {{-1}, {std::log(3.0)}}},
  });
}

TEST(TorchValues, Images) {
  const Given square{{1, 1, 2, 2}, {1, 2, 3, 4}};
  const Given ones{{1, 1, 4, 4}, std::vector<double>(16, 1)};
  expect_values({
      {"aten.upsample_nearest2d",
       R"({"output_size": [3, 3]})",
       {square},
       {{1, 1, 2, 1, 1, 2, 3, 3, 4}}},
      {"aten._upsample_nearest_exact1d",
       R"({"output_size": [3]})",
       {{{1, 1, 2}, {1, 2}}},
       {{1, 2, 2}}},
      {"aten.upsample_bilinear2d",
       R"({"output_size": [4, 4], "align_corners": false})",
       {square},
       {{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}}},
      {"aten.upsample_linear1d",
       R"({"output_size": [4], "align_corners": true})",
       {{{1, 1, 2}, {1, 2}}},
       {{1, 4. / 3, 5. / 3, 2}}},
      {"aten.upsample_bilinear2d_backward",
       R"({"output_size": [4, 4], "input_size": [1, 1, 2, 2], "align_corners": false})",
       {ones},
       {{4, 4, 4, 4}}},
      {"aten.im2col",
       R"({"kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0], "stride": [1, 1]})",
       {{{1, 1, 2, 3}, counted(6)}},
       {{0, 1, 1, 2, 3, 4, 4, 5}}},
      {"aten.im2col",
       R"({"kernel_size": [2, 1], "dilation": [2, 1], "padding": [1, 0], "stride": [1, 1]})",
       {{{1, 1, 2, 1}, {5, 6}}},
       {{0, 5, 6, 0}}},
      {"aten.col2im",
       R"({"output_size": [2, 3], "kernel_size": [2, 2], "dilation": [1, 1], "padding": [0, 0],
           "stride": [1, 1]})",
       {{{1, 4, 2}, std::vector<double>(8, 1)}},
       {{1, 2, 1, 1, 2, 1}}},
  });
}

TEST(TorchValues, Positions) {
  expect_values({
      {"aten.as_strided",
       R"({"size": [2, 2], "stride": [1, 2], "storage_offset": 1})",
       {{{3, 3}, counted(9)}},
       {{1, 3, 2, 4}}},
      {"aten.as_strided_scatter",
       R"({"size": [2], "stride": [3]})",
       {{{4}, counted(4)}, {{2}, {7, 8}}},
       {{7, 1, 2, 8}}},
      {"aten.put",
       R"({"accumulate": false})",
       {{{2, 3}, {4, 3, 5, 6, 7, 8}}, {{2}, {1, 3}, kInt}, {{2}, {9, 10}}},
       {{4, 9, 5, 10, 7, 8}}},
      {"aten.masked_scatter",
       "{}",
       {{{2, 5}, std::vector<double>(10, 0)},
        {{2, 5}, {0, 0, 0, 1, 1, 1, 1, 0, 1, 1}, kBool},
        {{2, 5}, counted(10)}},
       {{0, 0, 0, 0, 1, 2, 3, 0, 4, 5}}},
      {"aten.atleast_3d", "{}", {{{2}, {1, 2}}}, {{1, 2}}},
      {"aten.exponential_", R"({"lambd": 2})", {{{1}, {9}}, {{1}, {0.5}}}, {{std::log(2.0) / 2}}},
      {"aten.special_spherical_bessel_j0", "{}", {{{1}, {2}}}, {{std::sin(2.0) / 2}}},
  });
}

TEST(TorchValues, Lists) {
  expect_values({
      {"aten._foreach_lerp.Scalar",
       R"({"weight": 0.25})",
       {{{1}, {1}}, {{2}, {2, 4}}, {{1}, {5}}, {{2}, {6, 0}}},
       {{2}, {3, 3}}},
      {"aten._foreach_addcmul.ScalarList",
       R"({"scalars": [2, -1]})",
       {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}, {{1}, {4}}, {{1}, {5}}, {{1}, {6}}},
       {{31}, {-22}}},
      {"aten._foreach_addcdiv.Tensor",
       "{}",
       {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}, {{1}, {4}}, {{1}, {6}}, {{1}, {8}}, {{2}, {2, 4}}},
       {{2}, {4}}},
      {"aten._foreach_pow.ScalarAndTensor",
       R"({"self": 2})",
       {{{1}, {3}}, {{2}, {1, 0}}},
       {{8}, {2, 1}}},
      {"aten._foreach_sub.List",
       R"({"alpha": 2})",
       {{{1}, {9}}, {{1}, {8}}, {{1}, {1}}, {{1}, {2}}},
       {{7}, {4}}},
      {"aten._foreach_norm.Scalar", R"({"ord": 1})", {{{2}, {3, -4}}, {{1}, {-2}}}, {{7}, {2}}},
      {"aten._fused_sgd_",
       R"({"lr": 0.1, "weight_decay": 0.5, "momentum": 0})",
       {{{1}, {1}}, {{1}, {3}}},
       {{0.65}}},
      {"aten._fused_adamw_",
       R"({"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.5, "eps": 0})",
       {{{1}, {1}}, {{1}, {-3}}, {{1}, {0}}, {{1}, {0}}, {{}, {1}}},
       {{1.05}, {-3}, {-0.3}, {0.09}}},
  });
}

}  // namespace
}  // namespace shardproof::torch_values_test
