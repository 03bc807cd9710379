// Tests exit codes, messages and written files. Each test runs the binary.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/cli/run_tool.h"

namespace shardproof::cli_test {
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
  expect_refused("run " + clean + " --json " + out + " --junit " + path("./report"),
                 "--json and --junit name one file");
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

TEST_F(Cli, ErrorOfATopology_HasItsPlace) {
  const auto with = [&](const std::string& topology) {
    return "run " + write("t.json", R"json({"version": 1, "mesh": "tp=2",
 "topology": ")json" + topology +
                                        R"json(",
 "tensors": {"x": {"shape": [4]}}, "program": ["y = x"]})json");
  };
  expect_refused(with("none.json"), "t.json:2:2: /topology: none.json: cannot be opened");
  expect_refused(with("flat(latency='5 parsec', bandwidth='50 GB/s')"),
                 "t.json:2:29: /topology, column 15: expected a time such as \"25 us\"");
  expect_refused(with("flat(latency='5 us', bandwith='50 GB/s')"),
                 "t.json:2:36: /topology, column 22: unknown key \"bandwith\"");
  write("machine.json", "{\"latency\": \"5 us\",\n \"bandwidth\": \"50 parsec\"}");
  expect_refused(with("machine.json"), "machine.json:2:16: /bandwidth, column 1: expected a bandw");
  write("machine.json", "{\"latency\": 5}");
  expect_refused(with("machine.json"),
                 "machine.json:1:2: /latency: expected a time such as \"25 us\", found 5");
}

// The other files run, and all reports are complete.
TEST_F(Cli, BadFile_DoesNotStopTheOthers) {
  write("a.json", kClean);
  write("b.json", kHang);
  write("z/last.json", "{\"version\": 1,\n \"mehs\": \"tp=2\",\n \"dtype\": \"f31\"}");
  const std::string json = path("out/r.json"), junit = path("out/r.xml");
  fs::create_directories(path("out"));
  const Ran ran = tool("run " + path(".") + " --json " + json + " --junit " + junit);
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("last.json:2:2: /mehs: unknown key; did you mean \"mesh\"?"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("last.json:1:1: /: key \"mesh\" is missing"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("3 scenarios, 3 cases"), std::string::npos) << ran.out;
  EXPECT_NE(read(json).find("\"status\": \"bad input\""), std::string::npos);
  EXPECT_NE(read(json).find("\"status\": \"as expected\""), std::string::npos);
  EXPECT_NE(read(junit).find("tests=\"3\" failures=\"1\" errors=\"1\""), std::string::npos);
  EXPECT_NE(read(junit).find("<error message=\"unknown key"), std::string::npos);
  // A missing file does not stop the others either.
  const Ran missing = tool("run " + path("none.json") + " " + path("a.json"));
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.out.find("none.json: no such file or folder"), std::string::npos)
      << missing.out;
  EXPECT_NE(missing.out.find("2 scenarios, 2 cases"), std::string::npos) << missing.out;
}

TEST_F(Cli, ErrorsOfAFile_AreReportedTogether) {
  const std::string bad = write("bad.json", R"json({"version": 1, "mesh": "tp=2",
 "tensors": {"x": {"shape": [4], "dtyp": "f32"},
             "w": {"shape": ["m"]}},
 "ranks": {"0": ["y = (x", "z = x +"], "1": ["y = x @@ x"]}, "topolgy": "ideal"})json");
  Ran ran = tool("run " + bad);
  EXPECT_EQ(ran.code, 2);
  for (const char* place :
       {"bad.json:4:62: /topolgy: unknown key", "bad.json:2:34: /tensors/x/dtyp: unknown key",
        "/tensors/w/shape/0, column 1: unknown name \"m\"", "/ranks/0/0, line 1 of the listing",
        "/ranks/0/1, line 2 of the listing", "/ranks/1/0, line 1 of the listing"})
    EXPECT_NE(ran.out.find(place), std::string::npos) << place << "\n" << ran.out;
  // Lines that depend on a wrong line are not reported.
  const std::string program = write("program.json", R"json({"version": 1, "mesh": "tp=2",
 "tensors": {"x": {"shape": [4]}},
 "program": ["y = relou(x)",
             "z = y + 1",
             "u = redistribut(x, tp:R)",
             "v = x @ z + w"]})json");
  ran = tool("run " + program);
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 2) << ran.out;
  EXPECT_NE(ran.out.find("program.json:3:19: /program/0, line 1"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("program.json:5:19: /program/2, line 3"), std::string::npos) << ran.out;
}

TEST_F(Cli, FolderScan_TakesScenariosOnly) {
  write("s/a.json", kClean);
  write("s/data.json", "{\"rows\": [1, 2]}");
  const std::string run =
      "run " + path("s") + " --json " + path("s/r.json") + " --junit " + path("s/r.xml");
  Ran ran = tool(run + " --record " + path("s/record"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("skipped s/data.json"), std::string::npos) << ran.out;
  const std::string first = read(path("s/r.json"));
  const std::string utf16 = write("s/utf16.json", std::string("\xff\xfe{\0}\0", 6));
  ran = tool("run " + path("s"));
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("utf16.json:1:1: /: expected UTF-8, found UTF-16"), std::string::npos)
      << ran.out;
  fs::remove(utf16);
  ran = tool(run);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(read(path("s/r.json")), first);
  expect_refused("run " + path("s/r.json"), "found a file that shardproof wrote");
  // A file that is named twice runs once.
  ran = tool("run " + path("s/a.json") + " " + path("s") + " " + path("s/../s/a.json"));
  EXPECT_NE(ran.out.find("1 scenario, 1 case"), std::string::npos) << ran.out;
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
  expect_refused("plan --matrix a=2,b=2", "--matrix needs --dims N, or a shape and a dtype");
  expect_refused("plan 4 f32 --matrix a=2 --dims 2", "--matrix needs --dims N, or a shape");
  expect_refused("plan --matrix a=2 --dims 7", "--dims: expected 1 to 6, found 7");
  expect_refused("plan --matrix a=2,b=2,c=2,d=2 --dims 4", "more than 20000 pairs of placements");
  expect_refused("plan 4 f32 --mesh a=2 --from R --to R --dims 2", "--dims belongs to --matrix");
  expect_refused("plan --matrix a=2 --dims 2 --from R",
                 "--matrix prints all pairs of placements and accepts no --from");
  expect_refused("plan 4 f33 --mesh tp=2 --from R --to R", "unknown dtype \"f33\"");
}

TEST_F(Cli, FilesWithoutScenario_AreRefused) {
  expect_refused("run " + write("bytes.json", "\xff\xfe\x00"), "bytes.json:1:1: /: expected UTF-8");
  expect_refused("run " + write("deep.json", std::string(100000, '[')), "64 levels");
  expect_refused("run " + write("empty.json", ""), "empty.json:1:1: /: JSON syntax");
  fs::create_directories(path("folder.json"));
  expect_refused("run " + path("folder.json"), "no scenario (*.json)");
}

// If some cases of a sweep can run, the report lists the others.
TEST_F(Cli, BadCaseOfASweep_IsReported) {
  const std::string clean = write("a.json", kClean), out = path("report.json");
  const std::string some = write("c.json", R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4, "n"]}}, "program": ["y = reshape(x, [8])"],
      "sweep": {"n": [2, 3]}})json");
  EXPECT_EQ(tool("run " + clean + " " + some + " --json " + out).code, 2);
  EXPECT_NE(read(out).find("\"bad input\""), std::string::npos);
}

TEST_F(Cli, CaseWithoutComparedValues_IsNotedInAllReports) {
  const std::string head =
      R"json({"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}}, )json";
  const std::string ranks = R"json("ranks": {"all": ["y = all_reduce(x, sum, group=tp)"]})json";
  const std::string without = write("none.json", head + ranks + "}");
  const std::string json = path("r.json"), junit = path("r.xml");
  const Ran ran = tool("run " + without + " --json " + json + " --junit " + junit);
  EXPECT_EQ(ran.code, 0);
  const std::string text = "no value is compared, because the ranks have no truth";
  for (const std::string& report : {ran.out, read(json), read(junit)})
    EXPECT_NE(report.find(text), std::string::npos) << report;
  EXPECT_NE(ran.out.find(", 1 case without compared values"), std::string::npos) << ran.out;
  EXPECT_NE(read(json).find("\"cases_without_values\": 1"), std::string::npos);

  const std::string empty = write("empty_program.json", head + "\"program\": []}");
  EXPECT_NE(tool("run " + empty).out.find("no value is compared: the program computes none"),
            std::string::npos);
  const std::string expected = R"json(, "outputs": {"y": "R"}, "expect": {"values": {"y": )json";
  for (const std::string& file : {write("values.json", head + ranks + expected + "[0, 0, 0, 0]}}}"),
                                  write("a.json", kClean), write("hang.json", kHang)})
    EXPECT_EQ(tool("run " + file).out.find("no value is compared"), std::string::npos) << file;
}

TEST_F(Cli, ChoiceOfCases_IsPartialOrByText) {
  const std::string sweep = write("sweep.json", R"json({"version": 1, "let": {"n": 1},
      "tensors": {"x": {"shape": ["n"]}}, "program": ["y = x * 2"],
      "sweep": {"mesh": ["tp=1", "tp=2"], "n": [1, 12]}})json");
  const auto cases_of = [&](const std::string& options) {
    const Ran ran = tool("run " + sweep + " " + options);
    const size_t at = ran.out.find(" scenario, ");
    return at == std::string::npos ? ran.out : ran.out.substr(at + 11, 2);
  };
  EXPECT_EQ(cases_of("--case n=1"), "2 ");
  EXPECT_EQ(cases_of("--case 'n=12 mesh=tp=2'"), "1 ");
  EXPECT_EQ(cases_of("--filter tp=2"), "2 ");
  EXPECT_EQ(cases_of("--filter sweep.json"), "4 ");
  expect_refused("run " + sweep + " --filter zebra", "no file and no case has this text");
  // A file without a chosen case is not counted.
  const Ran one = tool("run " + sweep + " " + write("other.json", kClean) + " --filter sweep.json");
  EXPECT_NE(one.out.find("  1 scenario, 4 cases"), std::string::npos) << one.out;
  const Ran list = tool("list cases " + sweep);
  EXPECT_NE(list.out.find("sweep.json --case \"mesh=tp=1 n=12\"\n"), std::string::npos) << list.out;
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 4);
}

TEST_F(Cli, FailFast_LeavesCasesOut_AndQuietPrintsFailuresOnly) {
  const std::string hang = write("a.json", kHang), clean = write("b.json", kClean);
  Ran ran = tool("run " + hang + " " + clean + " --fail-fast --jobs 1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("1 case not run"), std::string::npos) << ran.out;
  EXPECT_EQ(tool("run " + clean + " --quiet").out, "");
  ran = tool("run " + clean + " " + hang + " --quiet");
  EXPECT_EQ(ran.out.find("FAIL"), 0u) << ran.out;
  EXPECT_EQ(ran.out.find("scenarios"), std::string::npos) << ran.out;
}

// The first file expects one finding, which only its cause makes of two.
TEST_F(Cli, NoCauses_SearchesOnlyWhereANumberOfFindingsIsExpected) {
  const std::string bugs = "scenarios/corpus/bugs/",
                    joined = bugs + "bias_before_a_scattered_sum.json",
                    alone = bugs + "sum_for_avg.json";
  for (const std::string& file : {joined, alone}) {
    const Ran with = tool("run " + file), without = tool("run " + file + " --no-causes");
    EXPECT_EQ(with.code, 0) << with.out;
    EXPECT_EQ(without.code, 0) << without.out;
    EXPECT_NE(with.out.find("  cause   "), std::string::npos) << with.out;
    EXPECT_EQ(without.out.find("  cause   ") != std::string::npos, file == joined) << without.out;
  }
}

TEST_F(Cli, Validate_ChecksWithoutARun) {
  const std::string hang = write("a.json", kHang), bad = write("c.json", kBad);
  EXPECT_EQ(tool("validate " + hang).code, 0);
  const Ran ran = tool("validate " + path("."));
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("c.json:1:"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("a.json   1 case"), std::string::npos) << ran.out;
}

TEST_F(Cli, TimeOfWorkWithoutRates_IsRefusedByAllCommands) {
  const auto with = [&](const std::string& line) {
    return write("t.json", R"json({"version": 1, "mesh": "tp=2",
 "topology": "flat(latency='5 us', bandwidth='50 GB/s')", "expect": {"time": "<= 1 ms"},
 "tensors": {"x": {"shape": [8, 16]}}, "program": [")json" +
                               line + "\"]}");
  };
  for (const std::string command : {"validate ", "run ", "show "})
    expect_refused(command + with("y = x * 2"),
                   "t.json:2:70: /expect/time: \"time\" of a step with work needs the rates");
  for (const std::string line : {"y = redistribute(x, tp:S(0))", "y = x.T"}) {
    EXPECT_EQ(tool("validate " + with(line)).code, 0) << line;
    EXPECT_EQ(tool("run " + with(line)).code, 0) << line;
  }
}

TEST_F(Cli, Accept_WritesCountsIntoTheFile) {
  const std::string file = write("a.json", R"json({"version": 1, "mesh": "tp=2", // two ranks
  "tensors": {"x": {"shape": [4], "placements": "tp:S(0)"}},
  "program": ["y = redistribute(x, R)"],
  "expect": {"collectives": {}}
})json");
  EXPECT_EQ(tool("run " + file).code, 1);
  EXPECT_EQ(tool("run " + file + " --accept").code, 0);
  EXPECT_NE(read(file).find("// two ranks\n"), std::string::npos);
  EXPECT_NE(
      read(file).find(R"("expect": {"collectives": {"all_gather tp": 1}, "bytes": {"tp": 8}})"),
      std::string::npos)
      << read(file);
  EXPECT_EQ(tool("run " + file).code, 0);
  expect_refused("run " + file + " --accept --filter a", "--accept runs whole files");
}

TEST_F(Cli, Colors_AreLeftOutIfAsked) {
  const std::string clean = write("a.json", kClean);
  const auto on_terminal = [&](const std::string& variables) {
    return shell(variables + " script -qec \"'" SHARDPROOF_PROGRAM "' run " + clean +
                 "\" /dev/null </dev/null")
        .out;
  };
  EXPECT_NE(on_terminal("TERM=xterm NO_COLOR=").find("\x1b[32m"), std::string::npos);
  EXPECT_EQ(on_terminal("TERM=xterm NO_COLOR=1").find("\x1b["), std::string::npos);
  const std::string dumb = on_terminal("TERM=dumb NO_COLOR=");
  EXPECT_EQ(dumb.find('\x1b'), std::string::npos);
  EXPECT_NE(dumb.find("1 case"), std::string::npos) << dumb;
}

TEST_F(Cli, Watch_RunsAgainAfterAChange) {
  const std::string file = write("a.json", kClean), out = path("out");
  const Ran ran = shell("'" SHARDPROOF_PROGRAM "' run " + file + " --watch >'" + out +
                        "' 2>&1 & child=$!; "
                        "until grep -q watching '" +
                        out +
                        "'; do sleep 0.05; done; "
                        "sed 's/x \\* 2/x @@ 2/' '" +
                        file + "' >'" + file + ".new'; mv '" + file + ".new' '" + file +
                        "'; "
                        "until grep -q 'a.json:1:' '" +
                        out +
                        "'; do sleep 0.05; done; "
                        "kill $child; wait $child 2>/dev/null; true");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(read(out).find("1 scenario, 1 case"), std::string::npos) << read(out);
  expect_refused("run - --watch </dev/null", "standard input does not change");
}

TEST_F(Cli, Completion_HasAllCommandsAndOptions) {
  const Ran help = tool("help run");
  std::istringstream lines(help.out);
  std::vector<std::string> options;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  --"))
      options.push_back(line.substr(4, line.find_first_of(" ,", 4) - 4));
  ASSERT_GT(options.size(), 20u);
  for (const char* shell_name : {"bash", "zsh", "fish"}) {
    const Ran ran = tool(std::string("completion ") + shell_name);
    EXPECT_EQ(ran.code, 0);
    for (const char* command : {"run", "validate", "show", "plan", "completion"})
      EXPECT_NE(ran.out.find(command), std::string::npos) << command;
    for (const std::string& option : options)
      EXPECT_NE(ran.out.find(option), std::string::npos) << shell_name << " " << option;
  }
  tool("completion bash >'" + path("bash") + "'");
  const Ran words = shell("bash -c '. \"" + path("bash") +
                          "\"; COMP_WORDS=(shardproof run --jun); COMP_CWORD=2; _shardproof; "
                          "echo ${COMPREPLY[@]}'");
  EXPECT_EQ(words.out, "--junit --junit-times\n");
  const Ran man = tool("help man");
  EXPECT_EQ(man.out.find(".TH SHARDPROOF 1"), 0u);
  for (const char* section : {".SH NAME", ".SH SYNOPSIS", ".SH RUN", ".SH ENVIRONMENT"})
    EXPECT_NE(man.out.find(section), std::string::npos) << section;
  expect_refused("completion tcsh", "expected bash, zsh or fish");
}

// A message about a word of PyTorch has a text that can be copied, and suggests no unrelated word.
TEST_F(Cli, WordsOfPyTorch_GetADirectAnswer) {
  const auto answer = [&](const std::string& mesh, const std::string& tensor,
                          const std::string& line) {
    return tool("run " + write("w.json", "{\"version\": 1, \"mesh\": " + mesh +
                                             ", \"tensors\": {\"x\": {\"shape\": [4, 8], " +
                                             tensor + "}}, \"program\": [\"" + line + "\"]}"))
        .out;
  };
  const std::string mesh = "\"dp=2, tp=2\"", tensor = "\"fill\": \"ints\"";
  struct Word {
    std::string mesh, tensor, line, answer;
  };
  for (const Word& word : {
           Word{"{\"dp\": 2, \"tp\": 4}", tensor, "y = x", "write \"mesh\": \"dp=2, tp=4\""},
           {"[2, 4]", tensor, "y = x", "write \"mesh\": \"dim0=2, dim1=4\""},
           {mesh, R"json("placements": ["Shard(0)", "Replicate()"])json", "y = x",
            "write \"dp:S(0) tp:R\""},
           {mesh, R"json("placements": {"tp": "Partial()"})json", "y = x", "write \"tp:P(sum)\""},
           {mesh, R"json("placements": "dp:Shard(0)")json", "y = x", "write S(0)"},
           {mesh, R"json("placements": "dp:Replicate()")json", "y = x", "write R"},
           {mesh, R"json("dtype": "fp8")json", "y = x", "write f8e4m3 (float8_e4m3fn) or f8e5m2"},
           {mesh, R"json("dtype": "torch.bfloat16")json", "y = x", "did you mean \"bf16\"?"},
           {mesh, R"json("fill": "randn")json", "y = x", "write normal(0, 1)"},
           {mesh, tensor, "y = randn(4)", "write normal([..], 0, 1)"},
           {mesh, tensor, "y = x.to(bf16)", "write cast(x, bf16)"},
           {mesh, tensor, "y = x.float()", "write cast(x, f32)"},
           {mesh, tensor, "y = cast(x, torch.bfloat16)", "dtypes have no prefix: write bf16"},
           {mesh, tensor, "y = cast(x, fp8)", "write f8e4m3"},
           {mesh, tensor, "y = redistribute(x, Shard(0))", "write AXIS:S(0), such as tp:S(0)"},
           {mesh, tensor, "y = redistribute(x, [Replicate()])", "R for all axes"},
       })
    EXPECT_NE(answer(word.mesh, word.tensor, word.line).find(word.answer), std::string::npos)
        << word.answer << "\n"
        << answer(word.mesh, word.tensor, word.line);
  for (const char* line : {"y = giraffe(x)", "y = cast(x, qp7)", "y = x + abc"})
    EXPECT_EQ(answer(mesh, tensor, line).find("did you mean"), std::string::npos)
        << answer(mesh, tensor, line);
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
  expect_approved("cli/plan_matrix", tool("plan 61,64 bf16 --matrix a=2,b=2").out);
  expect_approved("cli/plan_two_meshes",
                  tool("plan 8,8 f32 --mesh 'tp=4 on 0-3' --to-mesh 'tp=2, x=2 on 4-7' "
                       "--from 'tp:S(0)' --to 'tp:S(1)'")
                      .out);
  expect_approved("cli/plan_without_exchange",
                  tool("plan 4096,4096 bf16 --mesh dp=256,tp=16 --from 'dp:S(0) tp:S(1)' "
                       "--to 'dp:S(1) tp:S(0)'")
                      .out);
  expect_approved("cli/plan_two_meshes_partial",
                  tool("plan 8,8 f32 --mesh 'tp=4 on 0-3' --to-mesh 'tp=2, x=2 on 4-7' "
                       "--from 'tp:P(sum)' --to 'tp:S(1)'")
                      .out);
  expect_approved("cli/show_global",
                  tool("show scenarios/corpus/layers/mlp_sequence_parallel.json").out);
  expect_approved("cli/show_ranks",
                  tool("show scenarios/corpus/collectives/pipeline_chain.json").out);
  expect_approved("cli/show_bytes_of_groups",
                  tool("show scenarios/corpus/redistribute/groups_with_smaller_shards.json "
                       "--communication")
                      .out);
  expect_approved(
      "cli/show_bytes_of_roots",
      tool("show scenarios/corpus/collectives/what_a_root_sends.json --communication").out);
  expect_approved("cli/explain_matmul", tool("explain matmul").out);
  expect_approved("cli/explain_softmax", tool("explain softmax --mesh tp=2").out);
}

TEST_F(Cli, Plan_UnderAPeak_PrintsPieces_OrTheSmallestPeak) {
  const std::string plan = "plan 64,48 f32 --mesh tp=4 --from 'tp:S(0)' --to 'tp:S(1)' --peak ";
  const Ran cut = tool(plan + "'9 KiB' --svg " + path("pieces.svg"));
  EXPECT_NE(cut.out.find("S(0) -> S(1)   in 2 pieces   sends 2.25 KiB a rank   peak 9 KiB"),
            std::string::npos)
      << cut.out;
  EXPECT_NE(read(path("pieces.svg")).find("all_to_all in 2 pieces"), std::string::npos);
  const Ran smallest = tool(plan + "'6528 B'");
  EXPECT_NE(smallest.out.find("in 16 pieces"), std::string::npos) << smallest.out;
  expect_refused(plan + "'6527 B'", "the smallest peak limit that works is 6528 B");
}

// No axis takes part in a step that only relabels a tensor without elements.
TEST_F(Cli, Plan_ComparesWithGreedy_AndPrintsOwners) {
  const std::string words = "plan 8,8 f32 --mesh a=2,b=2 --from 'a:S(0) b:P(sum)' ";
  const Ran ran = tool(words + "--to 'a:S(1) b:R' --owners");
  EXPECT_EQ(ran.code, 0);
  for (const char* text :
       {"\n  greedy would send 192 B a rank in 2 calls\n",
        "\nbefore  f32 [8, 8]  a:S(0) b:P(sum)\n  ranks 0 1  [0:4, 0:8]  holds [4, 8]\n",
        "\nafter  f32 [8, 8]  a:S(1)\n  ranks 0 1  [0:8, 0:4]  holds [8, 4]\n"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << ran.out;
  // The greedy algorithm has no cuts in another order.
  EXPECT_EQ(tool(words + "--to 'a:S(0, after=b) b:S(0)'").out.find("greedy"), std::string::npos);
}

TEST_F(Cli, Show_OfTensorWithoutElements_NamesBothPlacements) {
  const Ran ran = tool("show scenarios/corpus/redistribute/no_elements.json");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("local   tp:S(0) -> tp:R   sends nothing"), std::string::npos) << ran.out;
}

TEST_F(Cli, ListOps_WritesDefaultsAsTheLanguage) {
  const std::string out = tool("list ops").out;
  EXPECT_NE(out.find("=None"), std::string::npos);
  EXPECT_EQ(out.find("=none,"), std::string::npos);
  EXPECT_EQ(out.find("=none)"), std::string::npos);
}

TEST_F(Cli, Explain_UnknownOp_NamesTheNearest) {
  const Ran near = tool("explain matmull");
  EXPECT_EQ(near.code, 2);
  EXPECT_NE(near.out.find("unknown op 'matmull'; did you mean \"matmul\"?"), std::string::npos)
      << near.out;
  const Ran torch = tool("explain scatter_add");
  EXPECT_EQ(torch.code, 2);
  EXPECT_NE(torch.out.find("write scatter_along_dim"), std::string::npos) << torch.out;
  EXPECT_EQ(tool("explain").code, 2);
  EXPECT_EQ(tool("explain matmul relu").code, 2);
  EXPECT_EQ(tool("explain matmul --mesh dp=2,tp=2").code, 2);
  EXPECT_EQ(tool("explain @").out, tool("explain matmul").out);
}

}  // namespace
}  // namespace shardproof::cli_test
