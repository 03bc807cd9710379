// Tests exit codes, messages and written files. Each test runs the binary.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/cli/run_tool.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

class Cli : public testing::Test {
 protected:
  Cli() : folder_(fs::path(testing::TempDir()) / ("shardproof_cli_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Cli() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void expect_refused(const std::string& words, const std::string& message) {
    const Ran ran = tool(words);
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.out;
    EXPECT_NE(ran.out.find(message), std::string::npos) << words << "\n" << ran.out;
    EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 6) << ran.out;
  }

 private:
  fs::path folder_;
};

const char kClean[] =
    R"json({"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}}, "program": ["y = x * 2"]})json";
const char kHang[] =
    R"json({"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}},
        "ranks": {"all": ["y = recv(like=x, from=next, group=tp)"]}})json";
const char kBad[] =
    R"json({"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}}, "program": ["y = x @@ 2"]})json";

TEST_F(Cli, ReportOnStandardOutput_IsAlone) {
  const std::string clean = write("a.json", kClean), out = path("report");
  for (const std::string report : {"--json", "--junit"}) {
    EXPECT_EQ(tool("run " + clean + " " + report + " " + out).code, 0);
    const Ran ran = tool("run " + clean + " " + report + " -");
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out, read(out));
    EXPECT_FALSE(fs::exists(fs::path(SHARDPROOF_SOURCE_DIR) / "-"));
  }
  expect_refused("run " + clean + " --json - --junit -", "standard output holds one report");
}

TEST_F(Cli, ExitCode_IsTheGreatestOfAllCases) {
  const std::string clean = write("a.json", kClean), hang = write("b.json", kHang),
                    bad = write("c.json", kBad);
  EXPECT_EQ(tool("run " + clean).code, 0);
  EXPECT_EQ(tool("run " + hang).code, 1);
  EXPECT_EQ(tool("run " + clean + " " + hang).code, 1);
  EXPECT_EQ(tool("run " + bad).code, 2);
  EXPECT_EQ(tool("run " + path("")).code, 2);
}

TEST_F(Cli, BadInput_WritesNoReport) {
  const std::string bad = write("c.json", kBad);
  EXPECT_EQ(tool("run " + bad + " --json " + path("out.json") + " --junit " + path("out.xml")).code,
            2);
  EXPECT_FALSE(fs::exists(path("out.json")));
  EXPECT_FALSE(fs::exists(path("out.xml")));
}

TEST_F(Cli, FilesOfAFolder_AreReadBeforeTheFirstRuns) {
  write("a.json", kClean);
  write("z/last.json", "{\"version\": 1, \"mehs\": \"tp=2\"}");
  const Ran ran = tool("run " + path("."));
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("last.json: /mehs: unknown key; did you mean \"mesh\"?"),
            std::string::npos)
      << ran.out;
  EXPECT_EQ(ran.out.find("clean"), std::string::npos) << ran.out;
}

TEST_F(Cli, MisspeltOptions_GetTheNearestKnownOne) {
  expect_refused("rnu x.json", "unknown command \"rnu\"; did you mean \"run\"?");
  expect_refused("run --jsn x x.json", "did you mean --json?");
  expect_refused("run", "expected scenario files or folders");
  expect_refused("run " + path("missing.json"), "missing.json: no such file or folder");
  expect_refused("run " + write("a.json", kClean) + " --backend locl", "did you mean \"local\"?");
  expect_refused("run " + write("a.json", kClean) + " --jobs 0", "--jobs: expected at least 1");
  expect_refused("run " + write("a.json", kClean) + " --schedule fast", "expected fifo, seeded");
  expect_refused("run " + write("a.json", kClean) + " --case x=1", "no such case");
  expect_refused("run " + write("a.json", kClean) + " --set n=1",
                 "the file has no let of this name");
  expect_refused("run " + write("a.json", kClean) + " --max-bytes 3XB",
                 "expected a number of bytes");
  expect_refused("run " + write("a.json", kClean) + " --max-bytes 4", "the limit is 4");
  expect_refused("run " + write("a.json", kClean) + " --max-ranks 1", "the limit is 1");
  expect_refused("list opps", "did you mean \"ops\"?");
  expect_refused("help rum", "did you mean \"run\"?");
  expect_refused("new mpl", "did you mean \"mlp\"?");
  for (const char* seed : {"-1", "+1", "1x", "18446744073709551616"})
    expect_refused("run " + write("a.json", kClean) + " --seed=" + seed,
                   "--seed: expected a whole number from 0 to 18446744073709551615");
  expect_refused("run " + write("a.json", kClean) + " --seed -1", "found \"-1\"");
  EXPECT_EQ(tool("run " + write("a.json", kClean) + " --seed 18446744073709551615").code, 0);
  expect_refused("plan 4 f32 --mesh tp=2 --from 'tp:S(1)' --to R", "--from");
  expect_refused("plan 4 f32 --from R --to R", "shardproof: plan: --mesh is missing");
  expect_refused("plan 4 f32 --mesh tp=2 --to R", "shardproof: plan: --from is missing");
  expect_refused("plan 4 f33 --mesh tp=2 --from R --to R", "unknown dtype \"f33\"");
}

TEST_F(Cli, FilesWithoutScenario_AreRefused) {
  expect_refused("run " + write("bytes.json", "\xff\xfe\x00"), "bytes.json: line 1, column 1");
  expect_refused("run " + write("deep.json", std::string(100000, '[')), "64 levels");
  expect_refused("run " + write("empty.json", ""), "empty.json: line 1, column 1");
  fs::create_directories(path("folder.json"));
  expect_refused("run " + path("folder.json"), "no scenario (*.json)");
}

// A file of which no case can run is refused before the run. If some cases of a sweep can run, the
// report lists the others.
TEST_F(Cli, OneBadFileOfSeveral_LeavesNoReport) {
  const std::string clean = write("a.json", kClean), out = path("report.json");
  const std::string typo = write("b.json", R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4]}}, "program": ["y = relou(x)"]})json");
  expect_refused("run " + clean + " " + typo + " --json " + out,
                 "b.json: /program line 1, column 5: unknown op relou");
  EXPECT_FALSE(fs::exists(out));
  const std::string some = write("c.json", R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4, "n"]}}, "program": ["y = reshape(x, [8])"],
      "sweep": {"n": [2, 3]}})json");
  EXPECT_EQ(tool("run " + clean + " " + some + " --json " + out).code, 2);
  EXPECT_NE(read(out).find("\"refused\""), std::string::npos);
}

TEST_F(Cli, FullDisk_IsNamed) {
  const std::string clean = write("a.json", kClean);
  expect_refused("run " + clean + " --json /dev/full >/dev/null", "/dev/full: cannot be written");
  const Ran ran =
      shell("'" SHARDPROOF_PROGRAM "' run " + clean + " 2>'" + path("err") + "' >/dev/full");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(read(path("err")).find("standard output: cannot be written"), std::string::npos);
  const std::string plain = "'" SHARDPROOF_PROGRAM "' run " + clean;
  EXPECT_EQ(shell(plain + " >/dev/full 2>/dev/full").code, 2);
  EXPECT_EQ(shell(plain + " <&- >&- 2>&-").code, 2);
}

TEST_F(Cli, UnwritableReport_IsRefusedBeforeTheRun) {
  const std::string run = "run " + write("a.json", kClean);
  for (const char* option : {" --json ", " --junit ", " --record "})
    expect_refused(run + option + "/dev/null/out", "/dev/null/out");
  expect_refused(run + " --json '" + path("") + "'", "cannot be written: Is a directory");
  expect_refused("bench -b 8 -e 8 --json /dev/null/out", "/dev/null/out: cannot be written");
  expect_refused(run + " --record " + path("record") + " --json /dev/null/out", "/dev/null/out");
  EXPECT_FALSE(fs::exists(path("record")));
}

TEST_F(Cli, TwoRuns_WriteEqualBytes) {
  std::vector<std::string> texts;
  for (const char* name : {"1", "2"}) {
    const std::string out = path(name);
    EXPECT_EQ(tool("run scenarios/corpus/faults scenarios/corpus/collectives --json " + out +
                   ".json --junit " + out + ".xml")
                  .code,
              0);
    texts.push_back(read(out + ".json") + read(out + ".xml"));
  }
  EXPECT_FALSE(texts[0].empty());
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0].find(SHARDPROOF_SOURCE_DIR), std::string::npos);
}

TEST_F(Cli, RepeatCommand_RepeatsTheCase) {
  const std::string text =
      R"json({"version": 1, "let": {"n": 2}, "tensors": {"x": {"shape": ["n"]}}, "mesh": "tp=2",
          "program": ["y = x * 2 as tp:P(sum)"], "sweep": {"n": [2, 3], "dtype": ["f32", "bf16"]}})json";
  const std::string file = write("s.json", text);
  const Ran first = tool("run " + file + " --seed 5");
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.out.find("--case \"n=3 dtype=f32\" --seed 5"), std::string::npos) << first.out;
  const Ran again = tool("run " + file + " --case \"n=3 dtype=f32\" --seed 5");
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.out.find("1 case,"), std::string::npos) << again.out;
}

TEST_F(Cli, NewScenarios_Pass) {
  for (const char* kind : {"mlp", "attention", "ranks"}) {
    const std::string file = path(std::string(kind) + ".json");
    EXPECT_EQ(shell("'" SHARDPROOF_PROGRAM "' new " + std::string(kind) + " > '" + file + "'").code,
              0);
    const Ran ran = tool("run " + file);
    EXPECT_EQ(ran.code, 0) << ran.out;
  }
}

TEST_F(Cli, Help_HasEveryCommand) {
  for (const char* words :
       {"", "help", "--help", "help run", "run --help", "help language", "--version", "list ops",
        "list backends", "list examples", "list scenarios scenarios/demo"}) {
    const Ran ran = tool(words);
    EXPECT_EQ(ran.code, 0) << words << ran.out;
    EXPECT_FALSE(ran.out.empty()) << words;
  }
  const std::string page = read(std::string(SHARDPROOF_SOURCE_DIR) + "/docs/language.md");
  EXPECT_TRUE(tool("help language").out == page) << "not the page of docs/language.md";
  for (const char* command : {"run", "show", "plan", "bench", "list", "new", "help"})
    EXPECT_NE(tool("").out.find(std::string("shardproof ") + command), std::string::npos);
}

TEST_F(Cli, ApprovedTexts) {
  expect_approved("cli/help", tool("help").out);
  expect_approved("cli/plan", tool("plan 1024,512 f32 --mesh dp=2,tp=4 --from 'dp:S(0) tp:S(0)' "
                                   "--to 'dp:S(0) tp:S(1)'")
                                  .out);
  expect_approved("cli/plan_timed",
                  tool("plan 5,6 bf16 --mesh 2x4 --from 'S(0) P(sum)' --to 'R S(1)' "
                       "--topology \"flat(latency='5 us', bandwidth='50 GB/s')\"")
                      .out);
  expect_approved("cli/plan_two_meshes",
                  tool("plan 8,8 f32 --mesh 'tp=4 on 0-3' --to-mesh 'tp=2, x=2 on 4-7' "
                       "--from 'tp:S(0)' --to 'tp:S(1)'")
                      .out);
  expect_approved("cli/show_global",
                  tool("show scenarios/corpus/layers/mlp_sequence_parallel.json").out);
  expect_approved("cli/show_ranks",
                  tool("show scenarios/corpus/collectives/pipeline_chain.json").out);
}

}  // namespace
}  // namespace shardproof
