// Tests of rule tables: a table with planted wrong rows, bad rows, and the reports.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/rules/rule_report.h"
#include "shardproof/scenarios/rules/rule_table.h"

namespace shardproof::rule_table_test {
namespace {

std::string table_text(const std::string& name) {
  std::ifstream in(SHARDPROOF_SOURCE_DIR "/tests/scenarios/rules/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct VerdictCounts {
  int64_t right = 0, wrong = 0;
};

// Expects of each row the verdict that its key `about` begins with.
VerdictCounts check_table(const std::string& name) {
  const OpRegistry ops = builtin_ops();
  const std::string text = table_text(name);
  const RuleTable table = read_rule_table(name, text, ops, UnknownOps::refuse);
  std::vector<std::string> lines = {""};
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  VerdictCounts counts;
  for (const RuleRow& row : table.rows) {
    const std::string& line = lines[static_cast<size_t>(row.line)];
    const bool is_wrong = line.find("\"about\": \"wrong") != std::string::npos;
    EXPECT_TRUE(is_wrong || line.find("\"about\": \"right") != std::string::npos) << line;
    const ClaimAnswer answer = check_case(row.rule, ops);
    EXPECT_EQ(answer.kind, is_wrong ? ClaimAnswer::Kind::wrong : ClaimAnswer::Kind::holds)
        << line << "\n"
        << answer.trouble << " position " << answer.first.position << ": " << answer.first.got
        << ", expected " << answer.first.want;
    ++(is_wrong ? counts.wrong : counts.right);
  }
  return counts;
}

TEST(RuleTable, PlantedWrongRows_AreFoundAndNoOthers) {
  const VerdictCounts counts = check_table("planted.jsonl");
  EXPECT_GE(counts.wrong, 50);
}

TEST(RuleTable, RowsOfAllClassesOfOps_HaveTheVerdictsDecidedByHand) {
  const VerdictCounts counts = check_table("by_hand.jsonl");
  EXPECT_GE(counts.right, 185);
  EXPECT_GE(counts.wrong, 160);
}

TEST(RuleTable, RowsOnSeveralAxes_HaveTheVerdictsDecidedByHand) {
  const VerdictCounts counts = check_table("two_axes.jsonl");
  EXPECT_GE(counts.right, 85);
  EXPECT_GE(counts.wrong, 99);
}

TEST(RuleTable, RowsThatPyTorchClaims_HaveTheVerdictsOfItsValues) {
  const VerdictCounts counts = check_table("torch_2_15.jsonl");
  EXPECT_EQ(counts.right, 3735);
  EXPECT_EQ(counts.wrong, 91);
}

TEST(RuleTable, OpsOfTorch_TakeAllArgumentsOfTheirSignatures) {
  const VerdictCounts counts = check_table("torch_arguments.jsonl");
  EXPECT_GE(counts.right, 640);
}

TEST(RuleTable, WrongRows_HaveSmallerCasesThatAreWrongToo) {
  const OpRegistry ops = builtin_ops();
  const RuleTable table =
      read_rule_table("by_hand.jsonl", table_text("by_hand.jsonl"), ops, UnknownOps::refuse);
  for (const RuleRow& row : table.rows) {
    if (check_case(row.rule, ops).kind != ClaimAnswer::Kind::wrong) continue;
    const RuleCase smallest = smallest_wrong_case(row.rule, ops);
    const RuleRow again = read_rule_row(rule_row_text(smallest), ops);
    EXPECT_EQ(check_case(again.rule, ops).kind, ClaimAnswer::Kind::wrong)
        << row.line << ": " << rule_row_text(smallest);
  }
}

TEST(RuleTable, ResultsWithoutCounterpart_AreListedAsNotJudged) {
  const OpRegistry ops = builtin_ops();
  const auto unjudged = [&](const std::string& out) {
    return read_rule_row(
               R"row({"op": "aten.native_layer_norm", "attrs": {"normalized_shape": [6]}, )row"
               R"row("inputs": [{"shape": [4, 6]}], "mesh": [2], "in": [["S(0)"]], "out": )row" +
                   out + "}",
               ops)
        .unjudged;
  };
  EXPECT_EQ(unjudged(R"row([["S(0)"]])row"), (std::vector<std::string>{"mean", "rstd"}));
  EXPECT_EQ(unjudged(R"row([["S(0)"], ["S(0)"], ["S(0)"]])row"), std::vector<std::string>{});
  const RuleRow pooled =
      read_rule_row(R"row({"op": "aten.adaptive_max_pool2d", "attrs": {"output_size": [2, 2]}, )row"
                    R"row("inputs": [{"shape": [4, 2, 4, 4]}], "mesh": [2], "in": [["S(0)"]], )row"
                    R"row("out": [["S(0)"], ["S(0)"]]})row",
                    ops);
  EXPECT_EQ(pooled.unjudged, std::vector<std::string>{"indices"});
  EXPECT_EQ(check_case(pooled.rule, ops).kind, ClaimAnswer::Kind::holds);
  RuleReport report;
  report.not_judged = {{"aten.sdpa", {"lse", "seed"}, 2}};
  EXPECT_NE(rule_report_text(report).find("  results that are not judged:\n"
                                          "    aten.sdpa: lse, seed (2 rows)\n"),
            std::string::npos);
  EXPECT_NE(
      rule_report_json(report, "1")
          .find(R"("not_judged": [{"op": "aten.sdpa", "results": ["lse", "seed"], "rows": 2}])"),
      std::string::npos);
}

TEST(RuleTable, WrongRow_ShrinksAndItsTextRepeatsIt) {
  const OpRegistry ops = builtin_ops();
  const RuleRow row = read_rule_row(
      R"row({"op": "aten.gather", "attrs": {"dim": 1}, "inputs": [{"shape": [4, 4]}, )row"
      R"row({"shape": [2, 4], "dtype": "i64"}], "mesh": [2], )row"
      R"row("in": [["R"], ["S(0)"]], "out": [["S(0)"]]})row",
      ops);
  const RuleCase smallest = smallest_wrong_case(row.rule, ops);
  EXPECT_LT(element_count(smallest.inputs[0].shape), 16);
  EXPECT_EQ(smallest.mesh.size(), 2);
  const RuleRow again = read_rule_row(rule_row_text(smallest), ops);
  EXPECT_EQ(rule_row_text(again.rule), rule_row_text(smallest));
  EXPECT_EQ(check_case(again.rule, ops).kind, ClaimAnswer::Kind::wrong);
}

// Returns the finding about the smallest wrong case of a row, after its sizes.
std::string smallest_failure(const std::string& row) {
  const OpRegistry ops = builtin_ops();
  const RuleCase smallest = smallest_wrong_case(read_rule_row(row, ops).rule, ops);
  std::string text;
  for (const TensorMeta& meta : smallest.inputs) text += to_string(meta.shape) + " ";
  return text + check_case(smallest, ops).trouble;
}

TEST(RuleTable, RowWhoseRanksFail_ShrinksToRanksThatFailInTheSameWay) {
  EXPECT_EQ(smallest_failure(
                R"row({"op": "aten.embedding", "inputs": [{"shape": [8, 5]}, )row"
                R"row({"shape": [6], "dtype": "i64"}], "mesh": [2, 2], "in": [["S(0)", "R"], )row"
                R"row(["R", "R"]], "out": [["P(sum)", "R"]]})row"),
            "[2, 1] [1] on the shards of rank 0: embedding: index 1 is out of range for 1 rows");
  EXPECT_EQ(
      smallest_failure(
          R"row({"op": "aten.index_select", "attrs": {"dim": 0}, "inputs": [{"shape": [6, 5]}, )row"
          R"row({"shape": [4], "dtype": "i64"}], "mesh": [2], "in": [["S(0)"], ["R"]], )row"
          R"row("out": [["S(0)"]]})row"),
      "[2, 1] [1] on the shards of rank 0: index_select: index 1 is out of range for 1 rows");
  EXPECT_EQ(
      smallest_failure(R"row({"op": "aten.split.Tensor", "attrs": {"split_size": 4, "dim": 0}, )row"
                       R"row("inputs": [{"shape": [8, 4]}], "mesh": [2], "in": [["S(0)"]], )row"
                       R"row("out": [["S(0)"], ["S(0)"]]})row"),
      "[5, 1] on the shards of rank 0: the call gives 1 result there, not 2 as on one "
      "device");
}

TEST(RuleTable, RefusedRules_AreReportedWithTheirReasons) {
  RuleReport report;
  OpRuleCounts& op = report.ops.emplace_back();
  op.op = "conv2d";
  op.checked = 9;
  op.refused = 2;
  op.refused_reasons = {{"only one axis may shard the spatial dims", 2}};
  EXPECT_NE(rule_report_text(report).find(
                "    conv2d: 2, because only one axis may shard the spatial dims\n"),
            std::string::npos);
  EXPECT_NE(
      rule_report_json(report, "1")
          .find(
              R"("refused": 2, "refused_because": {"only one axis may shard the spatial dims": 2}})"),
      std::string::npos);
}

TEST(RuleTable, OpInPlaceOnLists_IsARowOfKindOut) {
  const OpRegistry ops = builtin_ops();
  const RuleRow row = read_rule_row(
      R"row({"op": "aten._foreach_neg_", "inputs": [{"shape": [4]}, {"shape": [2]}], )row"
      R"row("mesh": [2], "in": [["S(0)"], ["R"]], "out": [["S(0)"], ["S(0)"]]})row",
      ops);
  EXPECT_EQ(row.rule.lines, (std::vector<std::string>{"y0 = neg(x0)", "y1 = neg(x1)"}));
  EXPECT_EQ(row.rule.buffers, row.rule.in);
  const RuleRow again = read_rule_row(rule_row_text(row.rule), ops);
  EXPECT_EQ(again.rule.buffers, row.rule.buffers);
  EXPECT_EQ(check_case(again.rule, ops).kind, ClaimAnswer::Kind::wrong);
}

// The numbers of a cut tensor are cut as it is, and those of a partial one are whole.
TEST(RuleTable, RandomNumbers_AreAnInputThatIsPlacedAsTheFirst) {
  const OpRegistry ops = builtin_ops();
  const RuleRow row = read_rule_row(
      R"row({"op": "aten.bernoulli_.float", "attrs": {"p": 0.5}, "inputs": [{"shape": [4]}], )row"
      R"row("mesh": [2, 2], "in": [["S(0)", "P(sum)"]], "out": [["S(0)", "P(sum)"]]})row",
      ops);
  EXPECT_EQ(row.rule.lines, std::vector<std::string>{"y0 = cast(x1 < 0.5, f32)"});
  ASSERT_EQ(row.rule.in.size(), 2u);
  EXPECT_EQ(row.rule.in[1], (std::vector<Placement>{S(0), R()}));
}

TEST(RuleTable, TextOfOutRow_GivesAnEqualRow) {
  const OpRegistry ops = builtin_ops();
  const RuleRow row =
      read_rule_row(R"row({"op": "aten.neg.out", "inputs": [{"shape": [4]}], "mesh": [2], )row"
                    R"row("in": [["S(0)"], ["R"]], "out": [["S(0)"]]})row",
                    ops);
  EXPECT_EQ(row.rule.kind, RuleKind::out);
  const RuleRow again = read_rule_row(rule_row_text(row.rule), ops);
  EXPECT_EQ(again.rule.buffers, row.rule.buffers);
  EXPECT_EQ(check_case(again.rule, ops).trouble,
            "an out= form keeps the placement of its buffer, f32[4] R on a=2");
}

std::string error_of(const std::string& row) {
  try {
    read_rule_table("t.jsonl", "// a comment\n" + row + "\n", builtin_ops(), UnknownOps::refuse);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RuleTable, TableWithoutRows_IsAnError) {
  EXPECT_EQ(error_of(""), "t.jsonl: expected rows, one JSON object a line; found none");
}

TEST(RuleTable, BadRow_IsAnErrorWithItsLineAndWhatIsAccepted) {
  const struct {
    const char* row;
    std::vector<std::string> parts;
  } kCases[] = {
      {R"row({"op": "aten.nothing", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "aten.nothing", "list ops"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["Q"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/in/0/0", "S(dim)"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2, 2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "2 placements", "found 1"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [0], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "axis size of 1 or more"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4], "dtype": "f33"}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "f33"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["S(3)"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/in/0: dim 3 is out of range"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["S(1)"]]})row",
       {"t.jsonl:2", "/out/0: dim 1 is out of range"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"], ["R"]]})row",
       {"t.jsonl:2", "/out", "expected placements of 1 result of relu, found 2"}},
      {R"row({"op": "aten.cat", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"], ["R"]]})row",
       {"t.jsonl:2", "/out", "expected placements of 1 result of aten.cat, found 2"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": []})row",
       {"t.jsonl:2", "/out", "one result at least"}},
      {R"row({"op": "relu", "inputz": []})row", {"t.jsonl:2", "inputs"}},
      {R"row({"op": "matmul", "inputs": [{"shape": [4, 3]}, {"shape": [4, 3]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "inner sizes"}},
      {R"row({"op": "aten.relu.out", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/in", "1 inputs and 1 tensors that results are written to, found 1"}},
      {R"row({"op": "aten.topk", "attrs": {"k": 1}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/out", "expected placements of 2 results of aten.topk, found 1"}},
      {R"row({"op": "aten.max.dim", "attrs": {"dim": 0}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/out", "2 results (values, indices) of aten.max.dim, found 1"}},
      {R"row({"op": "aten.native_layer_norm", "attrs": {"normalized_shape": [4]}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"], ["R"], ["R"], ["R"]]})row",
       {"t.jsonl:2", "/out", "1 to 3 results (output, mean, rstd)", "found 4"}},
      {R"row({"op": "aten.gather", "attrs": {"dimm": 0}, "inputs": [{"shape": [4]}, {"shape": [4], "dtype": "i64"}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "aten.gather needs the argument dim"}},
      {R"row({"op": "aten.sum", "attrs": {"dims": 0}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "sum has no argument dims; did you mean"}},
      {R"row({"op": "aten.gather", "attrs": {"dim": 0, "keep": true}, "inputs": [{"shape": [4]}, {"shape": [4], "dtype": "i64"}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "aten.gather has no argument keep; it takes self, index, dim"}},
      {R"row({"op": "aten.gather", "attrs": {"dim": 0}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "expected the tensor index; it takes self index, found 1 inputs"}},
      {R"row({"op": "aten.neg", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "neg takes 1 tensors, found 2 inputs"}},
      {R"row({"op": "aten.linalg_solve", "attrs": {"left": false}, "inputs": [{"shape": [2, 2]}, {"shape": [2, 2]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "left=false has no counterpart here, only left=true"}},
      {R"row({"op": "aten.add_.Tensor", "inputs": [{"shape": [4]}, {"shape": [2, 4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "shape [2, 4] to a buffer of shape [4]"}},
      {"[1, 2]", {"t.jsonl:2", "an object"}},
  };
  for (const auto& one : kCases) {
    const std::string message = error_of(one.row);
    for (const std::string& part : one.parts)
      EXPECT_NE(message.find(part), std::string::npos) << one.row << "\n" << message;
  }
}

TEST(RuleTable, BadRow_StatesWhatToWrite) {
  const struct {
    const char* row;
    std::vector<std::string> parts;
  } kCases[] = {
      {"op: relu",
       {"t.jsonl:2: expected an object, such as {\"op\": \"aten.mm\"", "found op: relu"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: key \"mesh\" is missing; write \"mesh\": [2]"}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2, 99], "in": [["R", "R"]], "out": [["R", "R"]]})row",
       {"t.jsonl:2: /mesh: expected at most 64 ranks, found "}},
      {R"row({"op": "relu", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["Shard"]], "out": [["R"]]})row",
       {"t.jsonl:2: /in/0/0: expected a placement: R, S(dim)", "found \"Shard\""}},
      {R"row({"op": "aten.mm.out", "inputs": [{"shape": [4, 4]}, {"shape": [4, 4]}, {"shape": [4, 4]}], "mesh": [2], "in": [["R"], ["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "placements at the end of \"in\" and no input"}},
      {R"row({"op": "x", "call": ["y0 = relu(x0)", "y0 = relu(y0"], "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /call/1: expected", "the end of the line"}},
      {R"row({"op": "x", "call": ["y1 = relu(x0)"], "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "the call binds no y0; expected y0"}},
  };
  for (const auto& one : kCases) {
    const std::string message = error_of(one.row);
    for (const std::string& part : one.parts)
      EXPECT_NE(message.find(part), std::string::npos) << one.row << "\n" << message;
  }
}

TEST(RuleTable, BadRow_NamesTheKeyAtFault) {
  const struct {
    const char* row;
    std::vector<std::string> parts;
  } kCases[] = {
      {R"row({"op": "aten.bitwise_and.Tensor", "inputs": [{"shape": [4], "dtype": "f32"}, {"shape": [4], "dtype": "f32"}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /inputs/0/dtype: bitwise_and",
        "not defined for f32; expected i64, i32, i16, i8, u8, bool"}},
      {R"row({"op": "x", "call": ["y0 = x0 * 2", "y0 = bitwise_and(x0, y0)"], "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /inputs/0: bitwise_and", "expected i64, i32, i16, i8, u8"}},
      {R"row({"op": "x", "call": ["y0 = x0 * 2", "y0 = x0 @ y0"], "inputs": [{"shape": [4, 3]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /call/1: matmul", "inner sizes"}},
      {R"row({"op": "aten.sum", "attrs": {"dimm": 0}, "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /attrs/dimm: sum has no argument dimm; did you mean \"dim\"?"}},
      {R"row({"op": "aten.mm", "inputs": [{"shape": [4, 6]}, {"shape": [4, 6]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /inputs: matmul", "inner sizes differ"}},
      {R"row({"op": "aten.mse_loss", "kind": "backward", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"], ["R"]]})row",
       {"t.jsonl:2: /in: expected placements of 3 tensors (2 inputs and the cotangent of the "
        "result), found 2"}},
      {R"row({"op": "aten.mse_loss", "kind": "backward", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2: /out: expected placements of 2 tensors, the gradients of the float inputs, "
        "found 1"}},
  };
  for (const auto& one : kCases) {
    const std::string message = error_of(one.row);
    for (const std::string& part : one.parts)
      EXPECT_NE(message.find(part), std::string::npos) << one.row << "\n" << message;
  }
}

TEST(RuleTable, BadRowOfListsOrOfShapesByValues_IsAnError) {
  const struct {
    const char* row;
    std::vector<std::string> parts;
  } kCases[] = {
      {R"row({"op": "aten._foreach_add.List", "inputs": [{"shape": [4]}, {"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "aten._foreach_add takes 2 lists of equal length, found 3 inputs"}},
      {R"row({"op": "aten._foreach_mul.ScalarList", "attrs": {"scalars": [2]}, "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"], ["R"]]})row",
       {"t.jsonl:2", "/attrs/scalars: expected a list of 2 numbers"}},
      {R"row({"op": "aten._foreach_exp", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "/out: expected placements of 2 results of aten._foreach_exp, found 1"}},
      {R"row({"op": "aten._fused_sgd_", "attrs": {"lr": 0.1, "weight_decay": 0, "maximize": true}, "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "maximize=true has no counterpart here, only maximize=false"}},
      {R"row({"op": "aten.masked_select", "inputs": [{"shape": [4]}, {"shape": [4], "dtype": "bool"}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "the shape of the result of aten.masked_select depends on the values"}},
      {R"row({"op": "aten.bincount", "inputs": [{"shape": [4], "dtype": "i64"}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "depends on values unless minlength"}},
      {R"row({"op": "aten.bernoulli", "inputs": [{"shape": [4]}], "mesh": [2], "in": [], "out": [["R"]]})row",
       {"t.jsonl:2", "/in", "expected placements of 1 tensor, found 0"}},
      {R"row({"op": "aten.embedding", "kind": "backward", "attrs": {"scale_grad_by_freq": true}, "inputs": [{"shape": [4, 3]}, {"shape": [4], "dtype": "i64"}], "mesh": [2], "in": [["R"], ["R"], ["R"]], "out": [["R"]]})row",
       {"t.jsonl:2", "true has no counterpart here in a backward"}},
      {R"row({"op": "aten.igamma", "kind": "backward", "inputs": [{"shape": [4]}, {"shape": [4]}], "mesh": [2], "in": [["R"], ["R"], ["R"]], "out": [["R"], ["R"]]})row",
       {"t.jsonl:2", "no derivative by the first operand"}},
      {R"row({"op": "aten._foreach_maximum.Scalar", "attrs": {"scalar": "x1"}, "inputs": [{"shape": [4]}, {"shape": [1]}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"], ["R"]], "kind": "out"})row",
       {"t.jsonl:2", "x1 among the arguments is none of the 1 tensors"}},
      {R"row({"op": "aten.neg", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [null]})row",
       {"t.jsonl:2", "/out", "expected placements of a result, found null"}},
      {R"row({"op": "aten.neg.out", "inputs": [{"shape": [4]}], "mesh": [2, 2], "in": [["R", "R"], ["P(max)", "P(sum)"]], "out": [["R", "R"]]})row",
       {"t.jsonl:2", "/in/1", "P(max) and P(sum) of one tensor have no counterpart here"}},
  };
  for (const auto& one : kCases) {
    const std::string message = error_of(one.row);
    for (const std::string& part : one.parts)
      EXPECT_NE(message.find(part), std::string::npos) << one.row << "\n" << message;
  }
}

TEST(RuleReport, UndecidedRules_AreListedWithTheirReasons) {
  RuleReport report;
  report.ops = {{"mean", 9, 0, 3, 0, {{"no draw applies", 2}, {"too near", 1}}}, {"neg", 4}};
  const std::string text = rule_report_text(report), json = rule_report_json(report, "1");
  EXPECT_NE(text.find("  undecided:\n    mean: 2, because no draw applies\n"
                      "    mean: 1, because too near\n"),
            std::string::npos)
      << text;
  EXPECT_NE(json.find(R"("undecided_because": {"no draw applies": 2, "too near": 1})"),
            std::string::npos)
      << json;
  report.ops.erase(report.ops.begin());
  EXPECT_EQ(rule_report_text(report).find("undecided:"), std::string::npos);
  EXPECT_EQ(rule_report_json(report, "1").find("undecided_because"), std::string::npos);
}

TEST(RuleTable, RowsThatNoTensorCanHave_AreSkippedOrWrong_AndOthersAreJudged) {
  const OpRegistry ops = builtin_ops();
  const RuleTable table = read_rule_table(
      "t.jsonl",
      R"row({"op": "aten.neg", "inputs": [{"shape": [4]}], "mesh": [2, 2], "in": [["P(max)", "P(sum)"]], "out": [["R", "R"]]})row"
      "\n"
      R"row({"op": "aten.neg.out", "inputs": [{"shape": [4], "dtype": "c64"}], "mesh": [2], "in": [["R"], ["P(max)"]], "out": [["R"]]})row"
      "\n"
      R"row({"op": "aten.neg.out", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"], ["S(-1)"]], "out": [["S(0)"]]})row",
      ops, UnknownOps::skip);
  ASSERT_EQ(table.refused.size(), 1u);
  EXPECT_EQ(table.refused[0].lines, std::vector<int>{1});
  ASSERT_EQ(table.rows.size(), 2u);
  const ClaimAnswer wrong = check_case(table.rows[0].rule, ops);
  EXPECT_EQ(wrong.kind, ClaimAnswer::Kind::wrong);
  EXPECT_EQ(wrong.trouble, "the buffer of y0: max cannot reduce c64; it takes real numbers");
  EXPECT_NE(check_case(table.rows[1].rule, ops).trouble,
            "an out= form keeps the placement of its buffer, f32[4] S(0) on a=2");
}

// Each rank has the lines of its own sizes, also in the case that `repeat` prints.
TEST(RuleTable, CallWhoseLinesDependOnSizes_ShrinksAndItsTextRepeatsIt) {
  const OpRegistry ops = builtin_ops();
  const RuleRow row = read_rule_row(
      R"row({"op": "aten.upsample_nearest1d.vec", "attrs": {"output_size": null, )row"
      R"row("scale_factors": [2.0]}, "inputs": [{"shape": [2, 3, 4]}], "mesh": [2], )row"
      R"row("in": [["S(2)"]], "out": [["S(1)"]]})row",
      ops);
  ASSERT_TRUE(row.rule.by_sizes);
  EXPECT_NE(lines_for(row.rule, {{2, 3, 2}}), row.rule.lines);
  const RuleCase smallest = smallest_wrong_case(row.rule, ops);
  EXPECT_LT(element_count(smallest.inputs[0].shape), 24);
  const std::string text = rule_row_text(smallest);
  EXPECT_NE(text.find(R"("attrs": {"output_size": null, "scale_factors": [2)"), std::string::npos)
      << text;
  const RuleRow again = read_rule_row(text, ops);
  EXPECT_EQ(again.rule.lines, smallest.lines);
  EXPECT_EQ(check_case(again.rule, ops).kind, ClaimAnswer::Kind::wrong);
}

TEST(RuleTable, UnknownOp_IsCounted) {
  const RuleTable table = read_rule_table(
      "t.jsonl",
      R"row({"op": "aten.nothing", "inputs": [{"shape": [4]}], "mesh": [2], "in": [["R"]], "out": [["R"]]})row",
      builtin_ops(), UnknownOps::skip);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(table.unknown.at("aten.nothing"), 1);
}

TEST(RuleTable, OpShapedByValues_IsSkippedWithItsReason) {
  const RuleTable table = read_rule_table(
      "t.jsonl",
      R"row({"op": "aten.masked_select", "inputs": [{"shape": [4]}, {"shape": [4], "dtype": "bool"}], "mesh": [2], "in": [["R"], ["R"]], "out": [["R"]]})row",
      builtin_ops(), UnknownOps::skip);
  EXPECT_TRUE(table.unknown.empty());
  ASSERT_EQ(table.refused.size(), 1u);
  EXPECT_NE(table.refused[0].reason.find("depends on the values"), std::string::npos);
}

}  // namespace
}  // namespace shardproof::rule_table_test
