// Tests of accept_counts, choose_cases and the places of errors in files.
#include <gtest/gtest.h>

#include "shardproof/scenarios/json/json_spans.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/report/problems.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/scenarios/run/accept.h"

namespace shardproof::accept_test {
namespace {

const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

Accepted accepted(const std::string& text) {
  const Scenario scenario = load_text(text, "f.json");
  const RunResult result = run_scenarios({scenario}, {""}, {}, registries());
  return accept_counts(scenario, result.scenarios.at(0).cases);
}

// Returns a file with members after a program that gathers x over dp.
std::string gather(const std::string& members) {
  return R"json({ // first
  "version": 1, "mesh": "dp=2",
  "tensors": {"x": {"shape": [4], "placements": "dp:S(0)"}},
  "program": ["y = redistribute(x, dp:R)"])json" +
         members;
}

TEST(Accept, MissingExpect_IsAddedAfterTheLastKey) {
  EXPECT_EQ(accepted(gather(" // last\n}\n")).text,
            gather(", // last\n  \"expect\": {\"collectives\": {\"all_gather dp\": 1}, \"bytes\": "
                   "{\"dp\": 8}}\n}\n"));
  EXPECT_EQ(accepted(gather("}")).text,
            gather(", \"expect\": {\"collectives\": {\"all_gather dp\": 1}, \"bytes\": {\"dp\": "
                   "8}}}"));
}

TEST(Accept, ValuesThatAreMet_StayAsWritten) {
  const std::string met = gather(R"(, "expect": {"collectives": {"all_gather": "<= 4"},
    /* half */ "bytes": {"dp": "4 * 2"}}})");
  const Accepted same = accepted(met);
  EXPECT_EQ(same.text, met);
  EXPECT_TRUE(same.written.empty());
  const Accepted changed = accepted(gather(R"(, "expect": {"collectives": {"all_gather": 2}, // two
    "bytes": {"dp": 8}}})"));
  EXPECT_EQ(changed.text, gather(R"(, "expect": {"collectives": {"all_gather dp": 1}, // two
    "bytes": {"dp": 8}}})"));
  EXPECT_EQ(changed.written, std::vector<std::string>{"/expect/collectives"});
}

TEST(Accept, CasesThatAreNotClean_ChangeNothing) {
  for (const char* members :
       {R"(, "expect": {"verdict": "deadlock"}})", R"(, "expect": {"values": {"y": 99}}})",
        R"(, "sweep": {"mesh": ["dp=2", "dp=4"]}})"}) {
    const Accepted refused = accepted(gather(members));
    EXPECT_EQ(refused.text, gather(members));
    EXPECT_EQ(refused.refused.size(), 1u) << members;
  }
}

TEST(Accept, CaseWithItsOwnExpect_IsWrittenThere) {
  const Accepted own = accepted(gather(
      R"(, "sweep": [{"mesh": "dp=2", "expect": {}}, {"mesh": "dp=4", "expect": {"bytes": {"dp": 12}}}]})"));
  EXPECT_EQ(own.written,
            (std::vector<std::string>{"/sweep/0/expect/collectives", "/sweep/0/expect/bytes",
                                      "/sweep/1/expect/collectives"}));
  // A second run meets the written counts.
  EXPECT_TRUE(accepted(own.text).written.empty());
}

TEST(Accept, RanksThatDiffer_AreListed) {
  const Accepted own =
      accepted(R"json({"version": 1, "mesh": "pp=3", "tensors": {"x": {"shape": [5]}},
      "ranks": {"0": ["send(x, to=1)"], "1": ["y = recv(like=x, from=0)"], "rest": []}})json");
  EXPECT_NE(own.text.find(R"("send world": {"1 2": 0, "0": 1})"), std::string::npos) << own.text;
  EXPECT_TRUE(accepted(own.text).written.empty()) << own.text;
  // Bytes that are not a whole number.
  const Accepted thirds = accepted(R"json({"version": 1, "mesh": "tp=3",
      "tensors": {"x": {"shape": [4], "placements": "tp:P(sum)"}},
      "program": ["y = redistribute(x, tp:R)"]})json");
  EXPECT_NE(thirds.text.find("64/3"), std::string::npos) << thirds.text;
  EXPECT_TRUE(accepted(thirds.text).written.empty()) << thirds.text;
}

TEST(ChooseCases, Settings_ChooseAllThatHaveThem) {
  const Scenario scenario = load_text(gather(R"(, "let": {"n": 1},
    "sweep": {"mesh": ["dp=2", "tp=1, dp=2"], "n": [1, 12]}})"),
                                      "f.json");
  using Chosen = std::vector<size_t>;
  EXPECT_EQ(choose_cases(scenario.cases, "n=1"), (Chosen{0, 2}));
  EXPECT_EQ(choose_cases(scenario.cases, "mesh=dp=2"), (Chosen{0, 1}));
  EXPECT_EQ(choose_cases(scenario.cases, "n=12 mesh=tp=1,dp=2"), (Chosen{3}));
  EXPECT_EQ(choose_cases(scenario.cases, "mesh=dp=2 n=1"), (Chosen{0}));
  EXPECT_EQ(choose_cases(scenario.cases, "n=2"), Chosen{});
  EXPECT_EQ(choose_cases(scenario.cases, "n=1 n=1"), Chosen{});
}

TEST(Places, ErrorsOfASweep_NameTheSetting) {
  const LoadedFile file = read_scenario(
      "{\"version\": 1, \"tensors\": {\"x\": {\"shape\": [4]}},\n"
      " \"program\": [\"y = x\"],\n"
      " \"sweep\": {\"mesh\": [\"dp=2\", \"dp=\"]}}",
      "f.json");
  ASSERT_EQ(file.errors.size(), 1u);
  EXPECT_EQ(std::string(file.errors[0].what()).substr(0, 31), "f.json:3:33: /sweep/mesh/1, col")
      << file.errors[0].what();
}

TEST(Places, ColumnsCountCharactersAndEscapes) {
  const std::string text = "{\"p\": [\"\\u00e9\\\"\xc3\xa9 x\"]}";
  const JsonSpans spans(text);
  const Where where = spans.placed({.path = "/p", .line = 1, .column = 5});
  EXPECT_EQ(where.file_line, 1);
  EXPECT_EQ(text.substr(static_cast<size_t>(where.file_column), 1), "x") << where.file_column;
}

TEST(Problems, SarifAndAnnotations_NameTheLine) {
  const Scenario scenario = load_text(
      "{\"version\": 1, \"mesh\": \"tp=2\", \"tensors\": {\"x\": {\"shape\": [4]}},\n"
      " \"program\": [\"y = x * 2\",\n  \"z = y as tp:P(sum)\"]}",
      "a,b <c>.json");
  const RunResult result = run_scenarios({scenario}, {""}, {}, registries());
  EXPECT_EQ(github_annotations(result).substr(0, 63),
            "::error file=a%2Cb <c>.json,line=3,col=3,title=wrong values::wr")
      << github_annotations(result);
  const std::string sarif = sarif_report(result, {"0.0.0", {}});
  for (const char* part : {"\"ruleId\": \"wrong-values\"", "\"startLine\": 3",
                           "\"uri\": \"a,b%20%3Cc%3E.json\"", "\"version\": \"2.1.0\""})
    EXPECT_NE(sarif.find(part), std::string::npos) << part;
}

TEST(Problems, Sarif_ListsUndecidedValuesAsNotes) {
  const Scenario scenario = load_text(
      "{\"version\": 1, \"mesh\": \"tp=4\", \"dtype\": \"f64\", \"tensors\": {\"x\": "
      "{\"shape\": [64, 16], \"placements\": \"tp:S(0)\", \"fill\": \"normal(0, 1)\"}},"
      "\"ranks\": {\"all\": [\"m = all_reduce(sum(x, dim=0), sum, group=tp) / 64\","
      "\"s = sign(all_reduce(sum(x - m, dim=0), sum, group=tp))\"]},"
      "\"truth\": [\"s = sign(sum(x - sum(x, dim=0) / 64, dim=0))\"], \"outputs\": {\"s\": \"R\"}}",
      "noise.json");
  const RunResult result = run_scenarios({scenario}, {""}, {}, registries());
  EXPECT_TRUE(problems_of(result).empty());
  const std::string sarif = sarif_report(result, {"0.0.0", {}});
  for (const char* part : {"\"ruleId\": \"not-decided\"", "\"level\": \"note\"", "of 16 elements"})
    EXPECT_NE(sarif.find(part), std::string::npos) << part << "\n" << sarif;
}

}  // namespace
}  // namespace shardproof::accept_test
