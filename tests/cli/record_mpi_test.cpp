// Tests recorded runs of real processes and their comparison with simulated ranks. Each test runs
// the binary.
#include <map>
#include <sstream>

#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/tests/cli/record_fixture.h"

namespace shardproof::record_mpi_test {
namespace {

TEST_F(RecordRun, SimulatedAndRealRanks_AreCompared) {
  const Ran ran = tool("run " + path("mlp.json") +
                       " --backend local,mpi --processes 4 --iters 3 --record " + path("both"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* words :
       {"B  mpi, 8 ranks in 4 processes, sums in the library's order, median of 3",
        "predicted   measured     B/A", "all_reduce tp", "recorded in"})
    EXPECT_NE(ran.out.find(words), std::string::npos) << ran.out;
  const Ran again = tool("compare " + path("both"));
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(ran.out.substr(0, again.out.size()), again.out);
}

TEST_F(RecordRun, PinnedOrder_GivesEqualBits) {
  record("a", "--order ring");
  record("b", "--order ring --backend mpi --processes 3");
  const Ran ran = tool("compare " + path("a") + " " + path("b"));
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("5 values: 5 bit-equal"), std::string::npos) << ran.out;
}

std::string digest_lines(const std::string& text) {
  std::istringstream in(text);
  std::string digests;
  for (std::string line; std::getline(in, line);)
    if (line.find("\"digest\"") != std::string::npos) digests += line + "\n";
  return digests;
}

TEST_F(RecordRun, Digests_DoNotDependOnProcesses) {
  record("a", "--order tree");
  const std::string simulated = digest_lines(read(run_folder("a") / "run.json"));
  EXPECT_NE(simulated, "");
  for (const char* processes : {"1", "3", "8"}) {
    fs::remove_all(path("b"));
    record("b", std::string("--order tree --backend mpi --processes ") + processes);
    EXPECT_EQ(digest_lines(read(run_folder("b") / "run.json")), simulated) << processes;
  }
}

// A record has each work and call of each rank once in each repetition, with a positive time.
TEST_F(RecordRun, TimesOfRealRanks_ArePositive) {
  for (const char* processes : {"1", "3", "8"}) {
    fs::remove_all(path("a"));
    record("a", std::string("--backend mpi --warmup 1 --iters 3 --processes ") + processes);
    for (int i = 1; i <= 3; ++i) {
      std::istringstream in(read(run_folder("a") / ("measured-" + std::to_string(i) + ".txt")));
      std::map<std::string, Lanes> ranks;  // by kind
      for (std::string line; std::getline(in, line);) {
        EXPECT_NE(line.find(" end="), std::string::npos) << line;
        const Record record = parse_record(line);
        ranks[record.kind] = ranks[record.kind].unite(record.ranks);
      }
      for (const char* kind : {"matmul", "gelu", "all_reduce"})
        EXPECT_EQ(to_string(ranks[kind]), "0-7") << processes << " processes: " << kind;
    }
  }
}

// The wrong values of bugs are compared as text, in mpi_run_test.cpp.
TEST_F(RecordRun, Corpus_HasEqualValues_InRealProcesses) {
  const Ran run = tool("run " + std::string(kCorpusWithoutBugs) +
                       " --no-causes --backend local,mpi --processes 3 --record " + path("a"));
  EXPECT_EQ(run.code, 0) << run.out;
  const Ran ran = tool("compare " + path("a") + " --json " + path("out.json"));
  EXPECT_EQ(ran.code, 0) << ran.out.substr(0, 4000);
  EXPECT_EQ(read(path("out.json")).find("\"wrong\": 1"), std::string::npos);
}

TEST_F(RecordRun, Repetitions_PrintTimes) {
  const Ran ran = tool("run " + path("mlp.json") + " --backend mpi --processes 2 --iters 4");
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* words : {"mpi, 8 ranks in 2 processes, sums in the library's order, median of 4",
                            "predicted   measured   ratio", "  exposed communication"})
    EXPECT_NE(ran.out.find(words), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("bit-equal"), std::string::npos) << ran.out;
}

TEST_F(RecordRun, KilledRun_LeavesNoRecord) {
  const Ran ran = shell("'" SHARDPROOF_PROGRAM "' run " + path("mlp.json") +
                        " --backend mpi --iters 1000000 --record " + path("a") +
                        " & for i in $(seq 600); do sleep 0.1; [ ! -e " + path("a") +
                        " ] || break; done; sleep 0.2; kill -9 $!; wait $!");
  EXPECT_NE(ran.code, 0);
  expect_refused(tool("compare " + path("a") + " " + path("a")), "stopped before its end");
}

}  // namespace
}  // namespace shardproof::record_mpi_test
