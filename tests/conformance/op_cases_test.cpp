// Facts of PyTorch about ops (D) and views (E). Each is written as a scenario with the assertion of
// PyTorch as its expectation.
#include <map>

#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance::op_cases_test {
namespace {

Json tensor(const Json& shape, const std::string& placements) {
  return {{"shape", shape}, {"placements", placements}};
}

Json scenario(const std::string& mesh, Json tensors, Json program, Json expect) {
  return {{"version", 1},
          {"mesh", mesh},
          {"tensors", std::move(tensors)},
          {"program", std::move(program)},
          {"expect", std::move(expect)}};
}

void expect_as_stated(const Json& scenario, const std::string& id) {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  const RunResult result =
      run_scenarios({load_text(scenario.dump(), id + ".json")}, {""}, {}, kRegistries);
  for (const CaseResult& one : result.scenarios[0].cases)
    EXPECT_EQ(one.status, CaseStatus::as_expected) << scenario.dump() << "\n" << case_text(one, {});
}

// Returns the placement text of "S0" or "Psum" in the facts.
std::string placed(const std::string& word) {
  if (word == "R") return "tp:R";
  if (word[0] == 'S') return "tp:S(" + word.substr(1) + ")";
  return "tp:P(" + word.substr(1) + ")";
}

const std::vector<std::string> kWords{"R", "S0", "S1", "Psum", "Pavg", "Pmax", "Pmin"};

// Tests each pair of placements: the op accepts it and gives the stated result, or needs a
// redistribution. A pair of R and S needs a slice, which sends nothing and is no finding.
void expect_binary_rules(const Json& row, const std::string& expr) {
  std::map<std::pair<std::string, std::string>, std::string> valid;
  for (std::string text : row["valid"]) {
    text = text.substr(0, text.find(' '));  // "(alpha>0)": ours has no alpha
    const size_t comma = text.find(','), arrow = text.find("->");
    valid[{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)}] =
        text.substr(arrow + 2);
  }
  ASSERT_GE(valid.size(), 6u);
  for (const std::string& a : kWords)
    for (const std::string& b : kWords) {
      const auto found = valid.find({a, b});
      Json expect = {{"verdict", "unwritten redistribution"}};
      const bool slices = (a == "R" && b[0] == 'S') || (b == "R" && a[0] == 'S');
      // R + P(sum) is not accepted, but R becomes P without sending anything.
      const bool splits =
          expr == "a + b" && ((a == "R" && b == "Psum") || (a == "Psum" && b == "R"));
      if (slices || splits || (a == "R" && b == "R")) expect = {{"collectives", Json::object()}};
      if (found != valid.end())
        expect = {{"placements", {{"y", placed(found->second)}}}, {"collectives", Json::object()}};
      Json text =
          scenario("tp=2", {{"a", tensor({8, 4}, placed(a))}, {"b", tensor({8, 4}, placed(b))}},
                   {"y = " + expr}, expect);
      text["explicit"] = true;
      expect_as_stated(text, row["id"].get<std::string>() + " " + a + " " + b);
    }
}

TEST(OpCases, BinaryRulesOfAddMulAndMaximum) {
  auto all = cases();
  expect_binary_rules(all["D01"], "a + b");
  expect_binary_rules(all["D02"], "a * b");
  expect_binary_rules(all["D04"], "maximum(a, b)");
}

TEST(OpCases, NumberAddedToAPartialSum_IsAddedOnce) {
  auto all = cases();
  Json x = tensor(all["D06"]["shape"], "tp:S(0)");
  x["fill"] = "iota";
  expect_as_stated(
      scenario("tp=2", {{"x", x}}, {"y = sum(x) + 10"},
               {{"values", {{"y", all["D06"]["right"]}}}, {"collectives", {{"all_reduce", 1}}}}),
      "D06");
}

// PyTorch gathers uneven rows. A count of the rows of all ranks needs no call.
TEST(OpCases, MeanOfEvenAndUnevenRows) {
  for (const int rows : {4, 3})
    expect_as_stated(scenario("tp=2", {{"x", tensor({rows, 4}, "tp:S(0)")}}, {"y = mean(x)"},
                              {{"collectives", Json::object()}}),
                     "D07");
}

TEST(OpCases, Product_GathersTheSmallerSide) {
  expect_as_stated(
      scenario("tp=2", {{"a", tensor({8, 8}, "tp:S(0)")}, {"b", tensor({8, 32}, "tp:S(0)")}},
               {"y = a @ b"}, {{"collectives", {{"all_to_all", 1}}}}),
      "D08");
  auto all = cases();
  for (const char* a : {"R", "S0", "S1"})
    for (const char* b : {"R", "S0", "S1"}) {
      expect_as_stated(scenario("tp=4",
                                {{"a", tensor(all["D09"]["t1"], placed(a))},
                                 {"b", tensor(all["D09"]["t2"], placed(b))}},
                                {"y = a @ b"}, Json::object()),
                       "D09");
      expect_as_stated(
          scenario("tp=4", {{"a", tensor({13, 7}, placed(a))}, {"b", tensor({7, 5}, placed(b))}},
                   {"y = a @ b"}, Json::object()),
          "D09 uneven");
    }
}

// A softmax over a sharded dim is never gathered. Moving the shard to another dim sends less for a
// short dim, reducing maximum and sum for a long one.
TEST(OpCases, SoftmaxOverEachDim) {
  auto all = cases();
  for (int cut = 0; cut < 3; ++cut)
    for (int dim = 0; dim < 3; ++dim) {
      const std::string placements = "tp:S(" + std::to_string(cut) + ")";
      const std::string line = "y = softmax(x, dim=" + std::to_string(dim) + ")";
      const Json same = {{"placements", {{"y", placements}}}, {"collectives", Json::object()}};
      const Json turned = {{"collectives", {{"all_to_all", 1}}}};
      const Json reduced = {{"placements", {{"y", placements}}},
                            {"collectives", {{"all_reduce", 2}}}};
      Json shape = all["D11"]["shape"];
      expect_as_stated(
          scenario("tp=4", {{"x", tensor(shape, placements)}}, {line}, cut == dim ? turned : same),
          "D11");
      shape[static_cast<size_t>(dim)] = 100;
      expect_as_stated(
          scenario("tp=4", {{"x", tensor(shape, placements)}}, {line}, cut == dim ? reduced : same),
          "D11 long");
    }
}

TEST(OpCases, CrossEntropyOfBothShapes) {
  auto all = cases();
  for (const Json& shapes : all["D12"]["shapes"]) {
    const Json labels = {{"shape", shapes[1]}, {"dtype", "i64"}, {"fill", "ints(0, 16)"}};
    for (const char* reduction : {"none", "sum", "mean"})
      for (size_t cut = 0; cut < shapes[0].size(); ++cut) {
        Json target = labels;
        const bool channels = cut == 1;
        if (!channels)
          target["placements"] = "tp:S(" + std::to_string(cut == 0 ? 0 : cut - 1) + ")";
        expect_as_stated(
            scenario("tp=4",
                     {{"x", tensor(shapes[0], "tp:S(" + std::to_string(cut) + ")")}, {"t", target}},
                     {std::string("y = cross_entropy(x, t, reduction='") + reduction + "')"},
                     channels || std::string(reduction) == "mean"
                         ? Json::object()
                         : Json{{"collectives", Json::object()}}),
            "D12");
      }
  }
}

TEST(OpCases, NormsOverEachCut) {
  auto all = cases();
  for (int cut = 0; cut < 3; ++cut) {
    const Json x = tensor(all["D13"]["shape"], "tp:S(" + std::to_string(cut) + ")");
    Json expect = Json::object();
    if (cut < 2) expect["collectives"] = Json::object();
    for (const char* line : {"y = layer_norm(x, w, b)", "y = rms_norm(x, w)"})
      expect_as_stated(
          scenario("tp=4", {{"x", x}, {"w", tensor({10}, "R")}, {"b", tensor({10}, "R")}}, {line},
                   expect),
          "D13");
  }
}

TEST(OpCases, ReductionsOverThreeRanks) {
  auto all = cases();
  const Json& in = all["D14"]["in"];
  for (const char* op : {"sum", "max", "min"}) {
    Json row = {{"version", 1}, {"mesh", "tp=3"}};
    row["tensors"] = {
        {"x",
         {{"values", Json::array({in[0][0], in[0][1], in[1][0], in[1][1], in[2][0], in[2][1]})},
          {"placements", "tp:S(0)"}}}};
    row["ranks"] = {{"all", {std::string("y = all_reduce(x, ") + op + ")"}}};
    row["expect"] = {{"values", {{"y", all["D14"][op]}}}};
    expect_as_stated(row, "D14");
  }
}

// Views: placements of the result follow from the map of dims.
TEST(OpCases, Views_KeepShards_WhereTheMapAllows) {
  const auto view = [](const Json& shape, const std::string& cut, const std::string& to,
                       const std::string& stays, const char* mesh) {
    Json expect = Json::object();
    if (!stays.empty()) expect = {{"placements", {{"y", stays}}}, {"collectives", Json::object()}};
    expect_as_stated(
        scenario(mesh, {{"x", tensor(shape, cut)}}, {"y = reshape(x, " + to + ")"}, expect),
        "E " + cut + " " + to);
  };
  view({2, 3, 4, 5, 7}, "tp:S(0)", "[3, 8, 7, 5]", "", "tp=2");  // two of three rows of 8
  view({3, 4, 8, 3}, "tp:S(0)", "[12, 4, 2, 3]", "tp:S(0)", "tp=3");
  view({3, 4, 8, 3}, "tp:S(2)", "[12, 4, 2, 3]", "tp:S(1)", "tp=4");
  view({3, 4, 8, 3}, "tp:S(3)", "[12, 4, 2, 3]", "tp:S(3)", "tp=3");
  view({1, 1, 3, 2, 1, 1}, "tp:S(2)", "[6, 1, 1, 1]", "tp:S(0)", "tp=3");
  view({2, 3, 4}, "tp:S(1)", "[6, 4]", "tp:S(0, split=2)", "tp=3");
  view({2, 3, 4}, "tp:S(0)", "[6, 4]", "tp:S(0)", "tp=2");
  view({6, 4}, "tp:S(0, split=2)", "[2, 3, 4]", "tp:S(1)", "tp=3");
  view({3, 4}, "tp:S(0)", "[12]", "", "tp=2");
  view({12, 8}, "tp:S(1)", "[16, 6]", "", "tp=4");
  expect_as_stated(
      scenario("tp=2", {{"x", tensor({24, 36}, "tp:S(0)")}}, {"y = repeat(x, [1, 2, 1, 1, 2])"},
               {{"placements", {{"y", "tp:S(3)"}}}, {"collectives", Json::object()}}),
      "E07");
}

}  // namespace
}  // namespace shardproof::conformance::op_cases_test
