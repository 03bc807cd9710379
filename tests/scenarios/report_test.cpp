#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/approval.h"

namespace shardproof::report_test {
namespace {

namespace fs = std::filesystem;

RunResult run_text(const std::string& text, const std::string& file = "f.json") {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return run_scenarios({load_text(text, file)}, {""}, {}, kRegistries);
}

RunResult run_corpus(const std::string& name) {
  const std::string file = "scenarios/corpus/" + name + ".json";
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return run_scenarios({load_file(std::string(SHARDPROOF_SOURCE_DIR) + "/" + file, file)}, {""}, {},
                       kRegistries);
}

// Returns the unmet expectations as lines "what: expected, got".
std::string missed_text(const std::string& expect, const std::string& program = "\"y = x * 2\"") {
  const RunResult result = run_text(
      "{\"version\": 1, \"mesh\": \"dp=2\", \"tensors\": {\"x\": {\"shape\": [4], \"placements\": "
      "\"dp:S(0)\", \"fill\": \"iota\"}}, \"program\": [" +
      program + "], \"expect\": {" + expect + "}}");
  std::string out;
  for (const ExpectationFailure& miss : result.scenarios.at(0).cases.at(0).phases.at(0).missed)
    out += miss.what + ": " + miss.expected + ", " + miss.got + "\n";
  return out;
}

TEST(Expect, MetExpectations_GiveNoEntry) {
  EXPECT_EQ(missed_text(""), "");
  EXPECT_EQ(missed_text("\"verdict\": \"clean\", \"collectives\": {}, \"bytes\": {\"dp\": 0}"), "");
  EXPECT_EQ(missed_text("\"values\": {\"y\": [0, 2, 4, \"2 * 3\"]}"), "");
  EXPECT_EQ(missed_text("\"values\": {\"y\": \">= 0\"}"), "");
  // One number for all elements is compared like a number in a list: rounded to the dtype, also
  // true and nan.
  EXPECT_EQ(missed_text("\"values\": {\"y\": 0.1, \"z\": true, \"n\": \"nan\"}",
                        "\"y = x * 0 + 0.1\", \"z = all(x >= 0)\", \"n = y * inf * 0\""),
            "");
  EXPECT_EQ(missed_text("\"local\": {\"y\": {\"all\": [2]}}, \"placements\": {\"y\": \"S(0)\"}"),
            "");
}

TEST(Expect, UnmetExpectations_AreListed) {
  const std::string gather = "\"y = redistribute(x, dp:R)\"";
  EXPECT_EQ(missed_text("\"verdict\": \"deadlock\""), "verdict: deadlock, clean\n");
  EXPECT_EQ(missed_text("\"collectives\": {}", gather),
            "calls of all_gather over dp of ranks 0 1: none, 1\n");
  EXPECT_EQ(missed_text("\"collectives\": {\"all_gather\": {\"0\": 1, \"1\": 2}}", gather),
            "calls of all_gather of ranks 1: 2, 1\n");
  EXPECT_EQ(missed_text("\"bytes\": {\"dp\": \"< 8\"}", gather),
            "bytes sent over dp of ranks 0 1: < 8, 8\n");
  EXPECT_EQ(missed_text("\"values\": {\"y\": [0, 2, 5, 6]}"), "y[2]: 5, 4\n");
  EXPECT_EQ(missed_text("\"values\": {\"y\": 0.1}", "\"y = x * 0 + 0.10001\""),
            "y[0]: 0.1, 0.10001000016927719\n");
  EXPECT_EQ(missed_text("\"values\": {\"y\": false}", "\"y = all(x >= 0)\""), "y: false, 1\n");
  EXPECT_EQ(missed_text("\"values\": {\"h7\": [0]}", "\"for i in range(1):\", \"  h{i} = x\""),
            "values of h7: a value of this name, none; did you mean \"h0\"?\n");
  EXPECT_EQ(missed_text("\"local\": {\"y\": {\"1\": [3]}}"),
            "local shape of y on ranks 1: [3], [2] on ranks 1\n");
  EXPECT_EQ(missed_text("\"placements\": {\"y\": \"dp:R\"}"), "placements of y: R, dp:S(0)\n");
}

TEST(Expect, Integers_AreComparedExactly) {
  const std::string big = "\"b = cast(x * 0, i64) + 9007199254740993\"";
  EXPECT_EQ(missed_text("\"values\": {\"b\": 9007199254740993}", big), "");
  EXPECT_EQ(missed_text("\"values\": {\"b\": \"<= 9007199254740993\"}", big), "");
  EXPECT_EQ(missed_text("\"values\": {\"b\": 9007199254740992}", big),
            "b[0]: 9007199254740992, 9007199254740993\n");
  EXPECT_EQ(missed_text("\"values\": {\"b\": 9007199254740992.0}", big),
            "b[0]: 9007199254740992.0, 9007199254740993\n");
  EXPECT_EQ(missed_text("\"values\": {\"b\": \"<= 9007199254740992\"}", big),
            "b[0]: <= 9007199254740992, 9007199254740993\n");
}

// Cases with several kinds of findings, of which the first was expected.
TEST(Report, FindingsOfAnUnexpectedVerdict_ArePrinted) {
  CaseResult result;
  result.file = "f.json";
  result.status = CaseStatus::unexpected;
  result.expected = Verdict::mismatch;
  PhaseResult& phase = result.phases.emplace_back();
  Finding mismatch, missing;
  mismatch.verdict = Verdict::mismatch;
  mismatch.headline = "mismatch: two kinds of call";
  missing.verdict = Verdict::missing_rank;
  missing.headline = "missing rank: rank 2 has ended";
  phase.outcome.findings = {mismatch, missing};
  phase.missed = {{"verdict", "mismatch", "mismatch, missing rank"}};
  EXPECT_EQ(case_text(result, {}),
            "FAIL f.json   mismatch: two kinds of call, but not as expected\n"
            "  missing rank: rank 2 has ended\n"
            "  repeat  \n");
  // If another expectation is not met, only that is printed.
  phase.outcome.findings = {mismatch};
  phase.missed = {{"line", "3", "1"}};
  EXPECT_EQ(case_text(result, {}),
            "FAIL f.json   mismatch, but not as expected\n  line: expected 3, got 1\n"
            "  repeat  \n");
}

TEST(Report, TextOfFindings) {
  for (const char* name :
       {"bugs/bias_on_every_rank", "bugs/swapped_send_order", "bugs/unequal_counts",
        "bugs/skipped_last_collective", "bugs/not_a_member", "bugs/hidden_redistribution",
        "bugs/inner_sizes_differ"}) {
    std::string approval = std::string("report/") + name;
    expect_approved(approval, text_report(run_corpus(name), {false, false, -1}));
  }
}

// Returns the headline for a value with `placements` that `line` computes on every rank.
std::string replicas_headline(const std::string& tensor, const std::string& line,
                              const std::string& placements) {
  const RunResult result =
      run_text("{\"version\": 1, \"mesh\": \"dp=2, tp=2\", \"tensors\": {\"x\": {" + tensor +
               "}}, \"ranks\": {\"all\": [\"" + line + "\"]}, \"outputs\": {\"y\": \"" +
               placements + "\"}}");
  const Finding* finding = result.scenarios.at(0).cases.at(0).leading();
  return finding == nullptr ? "" : finding->headline;
}

TEST(Report, ReplicasThatDiffer_NameElementValuesAndRanks) {
  const std::string cut = R"json("shape": [4, 2], "placements": "tp:S(0)", "fill": "iota")json";
  EXPECT_EQ(replicas_headline(cut, "y = where(x > 6, x + index(dp), x)", "tp:S(0)"),
            "y[3, 1] should be the same on all ranks of dp: 7 on rank 1, 8 on rank 3; 1 of 8 "
            "elements differs");
  EXPECT_EQ(replicas_headline(cut, "y = x + index(dp)", "tp:S(0)"),
            "y[0, 0] should be the same on all ranks of dp: 0 on rank 0, 1 on rank 2; 8 of 8 "
            "elements differ");
  // Values are printed with all digits that distinguish two floats.
  const std::string whole = R"json("shape": [3], "fill": "const(0.25)")json";
  EXPECT_EQ(replicas_headline(whole, "y = x + 0.000001 * index(tp)", "R"),
            "y[0] should be the same on all ranks of dp and tp: 0.25 on ranks 0 2, 0.250001 on "
            "ranks 1 3; 3 of 3 elements differ");
  EXPECT_EQ(replicas_headline(whole, "y = sum(x) + index(dp) * 2 + index(tp)", "R"),
            "y should be the same on all ranks of dp and tp: 0.75 on rank 0, 1.75 on rank 1, 2.75 "
            "on rank 2, ...; 1 of 1 element differs");
  const std::string integers = R"("shape": [2], "dtype": "i64", "fill": "iota")";
  EXPECT_EQ(replicas_headline(integers, "y = x + 9007199254740992 + index(dp)", "R"),
            "y[0] should be the same on all ranks of dp and tp: 9007199254740992 on ranks 0 1, "
            "9007199254740993 on ranks 2 3; 2 of 2 elements differ");
  EXPECT_EQ(replicas_headline(integers, "y = x > index(tp)", "R"),
            "y[1] should be the same on all ranks of dp and tp: true on ranks 0 2, false on ranks "
            "1 3; 1 of 2 elements differs");
  EXPECT_EQ(replicas_headline(whole, "y = x * 2", "R"), "");
}

TEST(Report, ErrorInAPhase_HasItsPath) {
  const auto error_of = [](const std::string& program, const std::string& second) {
    const RunResult result = run_text(
        "{\"version\": 1, \"mesh\": \"dp=2\", \"tensors\": {\"x\": {\"shape\": [4], "
        "\"placements\": \"dp:S(0)\"}}, \"program\": [" +
        program + "], \"phases\": [{\"program\": [\"y = x * 2\"]}, {" + second + "}]}");
    return std::string(result.scenarios[0].cases[0].error->what());
  };
  EXPECT_EQ(error_of("\"y = x\"", "\"program\": [\"y = x\", \"z = w + y\"]"),
            "f.json:1:179: /phases/1/program/1, line 2 of the program, column 5: unknown name w: "
            "no tensor, let or earlier "
            "line has it");
  EXPECT_EQ(error_of("\"y = x\"", "\"program\": [\"y = redistribute(x, tq:R)\"]").substr(0, 77),
            "f.json:1:186: /phases/1/program/0, line 1 of the program, column 21: no mesh ");
  EXPECT_EQ(error_of("\"y = x\"",
                     "\"ranks\": {\"all\": [\"y = x\"]}, \"outputs\": {\"y\": \"dp:S(0)\"}, "
                     "\"truth\": [\"y = x\", \"z = w\"]"),
            "f.json:1:235: /phases/1/truth/1, line 2 of the truth, column 5: unknown name w: no "
            "tensor, let or earlier "
            "line has it");
  EXPECT_EQ(error_of("\"z = w\"", ""),
            "f.json:1:108: /program/0, line 1 of the program, column 5: unknown name w: no tensor, "
            "let or earlier line has it");
}

TEST(Report, FaultsThatNeverHappen_AreListed) {
  const RunResult result = run_text(
      R"json({"version": 1, "mesh": "dp=4", "tensors": {"g": {"shape": [4]}},
          "program": ["a = redistribute(g * 2, S(0))", "b = redistribute(a, R)"],
          "faults": ["hang(rank=3, call=5)", "skip(rank=1, line=1)",
                     "corrupt(rank=0, call=1, element=4)"]})json");
  expect_approved("report/unfired", text_report(result, {false, false, -1}));
  const std::string json = json_report(result, {"0.0.0", {}});
  EXPECT_NE(json.find("\"unfired_faults\": [\n"), std::string::npos);
  EXPECT_NE(json.find("\"hang(rank=3, call=5): rank 3 makes 1 call\""), std::string::npos);
  // Faults that happen, and faults of a rank that stops earlier, are not listed.
  const std::string hang = R"json({"version": 1, "mesh": "dp=2", "tensors": {"g": {"shape": [4]}},
      "ranks": {"all": ["a = all_reduce(g, sum, group=dp)", "b = all_reduce(a, sum, group=dp)"]},
      "faults": ["hang(rank=1, call=1)", "skip(rank=0, call=2)"]})json";
  EXPECT_TRUE(run_text(hang).scenarios[0].cases[0].phases[0].outcome.unfired_faults.empty());
}

TEST(Report, JsonAndJunit) {
  const RunResult result = run_text(
      R"({"version": 1, "about": "A \"quoted\" <name> & more", "let": {"n": 1}, "tensors": {"x": {"shape": ["n"]}},
          "program": ["y = x * 2"], "sweep": [
            {"mesh": "dp=2", "n": 2}, {"mesh": "dp=2", "n": 3, "expect": {"values": {"y": "< 0 - 99"}}},
            {"mesh": "dp=1", "n": 4, "expect": {"verdict": "deadlock"}}]})",
      "a&b <c>.json");
  EXPECT_EQ(result.exit_code(), 1);
  expect_approved("report/json", json_report(result, {"0.0.0", {}}));
  expect_approved("report/junit", junit_report(result, {"0.0.0", {}}));
  expect_approved("report/text", text_report(result, {}));
}

TEST(WholeFile, File_IsWrittenWholeOrNotAtAll) {
  const fs::path folder =
      fs::path(testing::TempDir()) / ("shardproof_write_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "out.json").string();
  write_whole_file(path, "first");
  write_whole_file(path, "second");
  std::ifstream in(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "second");
  for (const std::string& bad :
       {(folder / "none" / "x").string(), folder.string(), std::string("/dev/full")}) {
    try {
      write_whole_file(bad, std::string(100000, 'x'));
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_EQ(error.where().file, bad);
    }
  }
  for (const std::string& bad : {(folder / "none" / "x").string(), folder.string()})
    EXPECT_THROW(check_writable(bad), Error) << bad;
  for (const std::string& good : {path, (folder / "new.json").string(), std::string("/dev/null")})
    EXPECT_NO_THROW(check_writable(good)) << good;
  int64_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 1);
  fs::remove_all(folder);
}

TEST(WholeFile, Link_IsFollowed) {
  const fs::path folder =
      fs::path(testing::TempDir()) / ("shardproof_link_" + std::to_string(getpid()));
  fs::create_directories(folder / "there");
  fs::create_symlink("there/out.json", folder / "near");  // to nothing, at first
  fs::create_symlink(folder / "near", folder / "far");
  for (const char* link : {"near", "far", "near"}) {
    const std::string path = (folder / link).string();
    EXPECT_NO_THROW(check_writable(path));
    write_whole_file(path, link);
    EXPECT_TRUE(fs::is_symlink(path));
    std::ifstream in(folder / "there/out.json", std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), link);
  }
  fs::create_symlink("round", folder / "round");
  EXPECT_THROW(check_writable((folder / "round").string()), Error);
  EXPECT_THROW(write_whole_file((folder / "round").string(), "x"), Error);
  int64_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    files += entry.is_symlink() ? 0 : 1;
  EXPECT_EQ(files, 2);  // the folder `there` and its file
  fs::remove_all(folder);
}

}  // namespace
}  // namespace shardproof::report_test
