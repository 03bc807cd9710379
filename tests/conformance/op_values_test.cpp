// Compares values of ops with recorded results of PyTorch. Each forward row that the scenario
// language can express runs on one device. The result must be within a few units of the recorded
// value, which has seven digits. It also runs partitioned, over the recorded and many other
// placements, where it must agree with the value of one device (run_global.h). The same holds for
// its variants: rows of other dtypes, sizes and dims.
#include <cmath>
#include <set>

#include "shardproof/tests/conformance/op_rows.h"
#include "shardproof/tests/engine/run_global.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/ops/agreement.h"

namespace shardproof::conformance::op_values_test {
namespace {

// One of each kFewer placements runs.
constexpr size_t kFewer = kFewDraws ? 12 : 1;

using testing::GlobalRun;

struct Placing {
  std::string mesh;
  std::vector<std::string> inputs;
};

// One expressible row: its lines and its inputs.
struct Row {
  std::string name;
  std::vector<std::string> lines;
  std::vector<Tensor> inputs;
};

Row row_of(const Json& json) {
  Row row;
  row.name = json["id"].get<std::string>() + " " + json["op"].get<std::string>();
  row.lines = lines_of(json);
  for (const Json& input : json["inputs"])
    row.inputs.push_back(filled_input(input, static_cast<int>(row.inputs.size())));
  return row;
}

std::string text_of(const Row& row, const Placing& placing) {
  std::string text = row.name + " on " + placing.mesh;
  for (const std::string& line : row.lines) text += "\n    " + line;
  for (size_t k = 0; k < row.inputs.size(); ++k)
    text += "\n    x" + std::to_string(k) + " " + std::string(name(row.inputs[k].dtype)) +
            to_string(row.inputs[k].shape) + " " + placing.inputs[k];
  return text;
}

GlobalRun run(const Row& row, const Placing& placing) {
  Job job = testing::job_of(placing.mesh, row.lines);
  const Mesh& mesh = job.meshes[0].second;
  for (size_t k = 0; k < row.inputs.size(); ++k) {
    const Tensor& x = row.inputs[k];
    const Spec spec = placing.inputs[k].empty()
                          ? Spec::replicated(mesh, x.shape, x.dtype)
                          : Spec::parse(placing.inputs[k], mesh, x.shape, x.dtype);
    job.inputs.push_back({"x" + std::to_string(k), spec, mesh.ranks(), x, Category::activations});
  }
  return testing::run_lines(job);
}

Placing alone(const Row& row) { return {"a=1", std::vector<std::string>(row.inputs.size())}; }

Placing recorded(const Json& row) {
  Placing placing{to_string(mesh_of(row["mesh"])), {}};
  for (const Json& input : row["inputs"]) {
    std::string text;
    char axis = 'a';
    for (const Placement& p : placements_of(input["placements"])) {
      text += fmt::format("{}{}:{}", axis == 'a' ? "" : " ", axis, to_string(p));
      ++axis;
    }
    placing.inputs.push_back(text);
  }
  return placing;
}

// Placements of an input on one axis; sizes are those of the sharded dim.
std::vector<std::string> ways(const Tensor& x, int64_t ranks) {
  std::vector<std::string> all;
  for (int d = 0; d < x.shape.size(); ++d) {
    all.push_back(fmt::format("S({})", d));
    if (x.shape[d] > ranks) all.push_back(fmt::format("S({}, split=2)", d));
    std::vector<int64_t> sizes(static_cast<size_t>(ranks), 0);
    sizes.front() = x.shape[d] > 0 ? 1 : 0;
    sizes.back() += x.shape[d] - sizes.front();
    all.push_back(fmt::format("S({}, sizes={})", d, Json(sizes).dump()));
  }
  if (is_floating(x.dtype)) {
    all.emplace_back("P(sum)");
    all.emplace_back("P(avg)");
    all.emplace_back("P(max)");
  }
  return all;
}

// Places each input alone in every way, then all inputs in the same way.
std::vector<Placing> placings(const Row& row) {
  std::vector<Placing> all;
  for (const int64_t ranks : {2, 3}) {
    const std::string mesh = fmt::format("a={}", ranks);
    for (size_t k = 0; k < row.inputs.size(); ++k)
      for (const std::string& way : ways(row.inputs[k], ranks)) {
        all.push_back({mesh, std::vector<std::string>(row.inputs.size())});
        all.back().inputs[k] = "a:" + way;
      }
    if (row.inputs.size() < 2) continue;
    for (int d = 0; d < 4; ++d) {
      all.push_back({mesh, std::vector<std::string>(row.inputs.size())});
      for (size_t k = 0; k < row.inputs.size(); ++k) {
        const int dims = row.inputs[k].shape.size();
        if (dims > 0)
          all.back().inputs[k] = fmt::format("a:S({})", (d + static_cast<int>(k)) % dims);
      }
    }
  }
  for (int d = 0; d < 3; ++d)
    for (int e = 0; e < 3; ++e) {
      all.push_back({"a=2, b=2", std::vector<std::string>(row.inputs.size())});
      for (size_t k = 0; k < row.inputs.size(); ++k)
        if (const int dims = row.inputs[k].shape.size(); dims > 0)
          all.back().inputs[k] = fmt::format("a:S({}) b:S({})", (d + static_cast<int>(k)) % dims,
                                             (e + static_cast<int>(k)) % dims);
    }
  return all;
}

void compare_with_record(const Json& json, const Row& row, const GlobalRun& ran) {
  const Json& truth = json["truth"];
  ASSERT_EQ(ran.outputs.size(), truth.size()) << row.name;
  for (size_t k = 0; k < truth.size(); ++k) {
    const auto got = values_of(ran.outputs[k]);
    EXPECT_EQ(ran.outputs[k].shape, dims_of(truth[k]["shape"])) << row.name;
    ASSERT_EQ(got.size(), truth[k]["v"].size()) << row.name;
    double largest = testing::largest_number(ran.outputs[k]);
    for (const Tensor& x : row.inputs) largest = std::max(largest, testing::largest_number(x));
    const double room = testing::room_in(ran.outputs[k].dtype, largest);
    for (size_t i = 0; i < got.size(); ++i) {
      const Json& printed = truth[k]["v"][i];
      if (!printed.is_number() && !printed.is_boolean()) continue;  // nan, inf as text
      const double expected = printed.is_boolean() ? printed.get<bool>() : printed.get<double>();
      if (got[i] == expected) continue;
      // Both are computed in different orders, and the record has seven digits.
      EXPECT_LE(std::fabs(got[i] - expected), room + 5e-7 * std::fabs(expected))
          << row.name << " output " << k << " element " << i;
    }
  }
}

struct Totals {
  int64_t rows = 0, placings = 0;
  std::map<std::string, int64_t> skipped;
  std::vector<std::string> failures;
};

// Partials of two reductions on one tensor are refused by the language.
bool mixes_partials(const Error& error) {
  return error.message().find("expected one reduction for all P of a tensor") != std::string::npos;
}

void run_placed(const Row& row, const Placing& placing, Totals& totals) {
  ++totals.placings;
  try {
    const GlobalRun ran = run(row, placing);
    if (!ran.error.empty()) totals.failures.push_back(text_of(row, placing) + "\n    " + ran.error);
  } catch (const Error& error) {
    if (mixes_partials(error)) {
      ++totals.skipped["placements with mixed partials, which a Spec cannot hold"];
      return;
    }
    totals.failures.push_back(text_of(row, placing) + "\n    refused: " + error.message());
  }
}

void report(const char* what, const Totals& totals) {
  std::printf("%s: %lld rows ran, %lld placements of them\n", what,
              static_cast<long long>(totals.rows), static_cast<long long>(totals.placings));
  for (const auto& [why, count] : totals.skipped)
    std::printf("  %lld skipped: %s\n", static_cast<long long>(count), why.c_str());
  for (size_t i = 0; i < std::min<size_t>(10, totals.failures.size()); ++i)
    ADD_FAILURE() << totals.failures[i];
  EXPECT_TRUE(totals.failures.empty())
      << totals.failures.size() << " of " << totals.placings << " placements";
}

TEST(OpValues, RecordedForwardRows) {
  Totals totals;
  for (const Json& json : read_cases("torch/op_values.jsonl")) {
    try {
      const Row row = row_of(json);
      compare_with_record(json, row, run(row, alone(row)));
      ++totals.rows;
      run_placed(row, recorded(json), totals);
    } catch (const Skip& skip) {
      ++totals.skipped[skip.why];
    } catch (const Error& error) {
      ADD_FAILURE() << json["id"] << " " << json["op"] << ": " << error.message();
    }
  }
  report("op_values", totals);
  EXPECT_GE(totals.rows, 400);
}

TEST(OpValues, RowsInManyPlacements) {
  Totals totals;
  std::set<std::string> seen;
  for (const Json& json : read_cases("torch/op_values.jsonl")) {
    try {
      const Row row = row_of(json);
      // Rows that differ only in their recorded placements run once.
      std::string key = json["inputs"].size() > 0 ? row.lines.back() : "";
      for (const Tensor& x : row.inputs) key += to_string(x.shape) + std::string(name(x.dtype));
      if (!seen.insert(key).second) continue;
      ++totals.rows;
      const std::vector<Placing> all = placings(row);
      for (size_t i = totals.rows % kFewer; i < all.size(); i += kFewer)
        run_placed(row, all[i], totals);
    } catch (const Skip&) {
    }
  }
  report("op_values in many placements", totals);
}

// ---- neighbours ----

Tensor as_dtype(const Tensor& x, DType dtype) {
  return is_floating(x.dtype) ? tensor_of(dtype, x.shape, values_of(x)) : x;
}

// Repeats the elements to fill sizes in which `from` is replaced by `to`.
Tensor resized(const Tensor& x, int64_t from, int64_t to) {
  Dims shape = x.shape;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] == from) shape[d] = to;
  const std::vector<double> values = values_of(x);
  std::vector<double> more;
  for (int64_t i = 0; i < element_count(shape); ++i)
    more.push_back(values.empty() ? 0 : values[static_cast<size_t>(i) % values.size()]);
  return tensor_of(x.dtype, shape, more);
}

std::vector<Row> neighbours(const Json& json, const Row& row) {
  std::vector<Row> all;
  for (const DType dtype : {DType::f64, DType::bf16, DType::i32}) {
    all.push_back(row);
    all.back().name += " in " + std::string(name(dtype));
    for (Tensor& x : all.back().inputs) x = as_dtype(x, dtype);
  }
  for (const auto& [from, to] :
       {std::pair<int64_t, int64_t>{5, 0}, {5, 1}, {3, 1}, {3, 8}, {4, 6}}) {
    all.push_back(row);
    all.back().name += fmt::format(" with {} in place of {}", to, from);
    for (Tensor& x : all.back().inputs) x = resized(x, from, to);
  }
  // Other dims, counted from the end; results that keep the dim; one dim of size 1.
  const Json& attrs = json["attrs"];
  if (attrs.contains("dim") && attrs["dim"].is_number_integer())
    for (const int64_t dim : {-1, -2, 1, 0}) {
      for (const bool keep : {false, true}) {
        Json changed = json;
        changed["attrs"]["dim"] = dim;
        if (keep) changed["attrs"]["keepdim"] = true;
        Row other = row;
        other.name += fmt::format(" with dim {}{}", dim, keep ? " kept" : "");
        try {
          other.lines = lines_of(changed);
        } catch (const Skip&) {
          continue;
        }
        all.push_back(other);
      }
    }
  return all;
}

// The ranks must compute what one device computes.
TEST(OpValues, VariantsOfRows) {
  Totals totals;
  std::set<std::string> seen;
  for (const Json& json : read_cases("torch/op_values.jsonl")) {
    try {
      const Row row = row_of(json);
      for (const Row& other : neighbours(json, row)) {
        std::string key;
        for (const std::string& line : other.lines) key += line;
        for (const Tensor& x : other.inputs) key += to_string(x.shape) + std::string(name(x.dtype));
        if (!seen.insert(key).second) continue;
        try {
          run(other, alone(other));
        } catch (const Error&) {
          ++totals.skipped["refused on one device"];
          continue;
        }
        ++totals.rows;
        const std::vector<Placing> all = placings(other);
        constexpr size_t kStep = 5 * kFewer;
        for (size_t i = totals.rows % kStep; i < all.size(); i += kStep)
          run_placed(other, all[i], totals);
      }
    } catch (const Skip&) {
    }
  }
  report("neighbours of op_values", totals);
}

}  // namespace
}  // namespace shardproof::conformance::op_values_test
