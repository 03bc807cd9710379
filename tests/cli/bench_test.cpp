// Runs `shardproof bench`: its table, refused options, and every collective in real processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "shardproof/tests/approval.h"
#include "shardproof/tests/cli/run_tool.h"

namespace shardproof::bench_test {
namespace {

constexpr const char* kKinds[] = {"all_reduce", "all_gather", "reduce_scatter",
                                  "all_to_all", "broadcast",  "reduce",
                                  "gather",     "scatter",    "sendrecv"};

// Replaces measured numbers by words of the same width.
std::string masked(const std::string& table) {
  static const std::regex kMeasured(R"( +\d+(\.\d+)? +\d+\.\d\d? +\d+\.\d\d?  ( *)(0|N/A))");
  const std::string rows = std::regex_replace(table, kMeasured, "  TIME  ALGBW  BUSBW $2$3");
  static const std::regex kRatio(R"(( +\d+\.\d\d) +\d+(\.\d+)?\n)"), kBus(R"(bandwidth    : .*)");
  return std::regex_replace(std::regex_replace(rows, kRatio, "$1  RATIO\n"), kBus,
                            "bandwidth    : BUSBW");
}

void expect_refused(const std::string& words, const std::string& message) {
  const Ran ran = tool("bench " + words);
  EXPECT_EQ(ran.code, 2) << words << "\n" << ran.out;
  EXPECT_NE(ran.out.find(message), std::string::npos) << words << "\n" << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
}

TEST(Bench, ApprovedTexts) {
  const std::string machine = " --topology \"flat(latency='5 us', bandwidth='2 GB/s')\"";
  const Ran reduced = tool("bench --ranks 4 -b 8 -e 64K -f 32 -n 3" + machine);
  EXPECT_EQ(reduced.code, 0);
  expect_approved("bench/local_all_reduce", masked(reduced.out));
  expect_approved("bench/local_sendrecv",
                  masked(tool("bench --collective sendrecv -d half -b 1K -e 3K -i 1K -n 3").out));
  expect_approved("bench/help", tool("help bench").out);
}

TEST(Bench, EveryCollective_IsRight_InSimulation) {
  for (const char* kind : kKinds) {
    const Ran ran = tool("bench --ranks 6 -b 24 -e 96K -f 64 -n 2 -r 3 -d bf16 --collective " +
                         std::string(kind));
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("Out of bounds values : 0 OK"), std::string::npos) << ran.out;
  }
}

TEST(Bench, CheckOptionZero_ComparesNoValues) {
  const Ran ran = tool("bench -b 8 -e 8 -n 2 -c 0");
  EXPECT_EQ(ran.code, 0);
  EXPECT_NE(ran.out.find("N/A"), std::string::npos) << ran.out;
}

TEST(Bench, BadOptions_AreRefusedInOneLine) {
  expect_refused("--nope", "unknown option --nope");
  expect_refused("words", "bench: expected options only, found \"words\"");
  expect_refused("-b 8 -e 4", "--minbytes 8 is greater than --maxbytes 4");
  expect_refused("-f 1", "--stepfactor: expected 2 to");
  for (const char* size : {"x", "1.3", "8Q", "-8", "1e400", "nan", ""})
    expect_refused(std::string("-b '") + size + "'", "--minbytes: expected bytes such as 8, 128K");
  expect_refused("-b 0 -e 100M -i 1", "expected at most 10000 sizes");
  expect_refused("-b 0 -f 2", "--minbytes: expected more than 0 bytes with --stepfactor");
  expect_refused("-i 0", "--stepbytes: expected more than 0 bytes");
  expect_refused("-f 2 -i 4", "expected one of --stepfactor and --stepbytes");
  expect_refused("-n 0", "--iters: expected 1 to");
  expect_refused("-a 4", "--average: expected 0 to 3, found 4");
  expect_refused("--collective all_redcue", "did you mean \"all_reduce\"?");
  expect_refused("--collective barrier", "--collective: unknown \"barrier\"");
  expect_refused("--collective nosuch", "; expected one of sendrecv all_reduce all_gather");
  expect_refused("-d floot", "did you mean \"float\"?");
  expect_refused("-o sum -d bool", "--op: sum cannot reduce bool");
  expect_refused("-o 'norm(2)'",
                 "--op: expected sum, prod, min, max, avg, band, bor or bxor, found");
  expect_refused("-o premul_sum", "found \"premul_sum\"");
  expect_refused("--processes 0", "--processes: expected 1 to 4096");
  expect_refused("--collective reduce -r 2", "--root: expected 0 to 1, found 2");
  expect_refused("--ranks 0", "--ranks: expected 1 to");
  expect_refused("-b 8000G -e 8000G", "--max-bytes sets it");
  expect_refused("-b 1M -e 1M --max-bytes 1MB", "--max-bytes sets it");
  expect_refused("--topology 'flat(x)'",
                 "--topology: expected arguments with keys and quoted quantities, as in flat(");
  expect_refused("--backend nowhere", "unknown backend \"nowhere\"");
  expect_refused("--backend local,local", "twice");
  expect_refused("--processes 2", "--processes needs a backend of several processes");
}

TEST(Bench, Table_IsWrittenAsJsonToo) {
  const std::string path =
      testing::TempDir() + "/shardproof_bench_" + std::to_string(getpid()) + ".json";
  const Ran ran = tool("bench -b 8 -e 32 -f 2 -n 2 --json " + path);
  EXPECT_EQ(ran.code, 0) << ran.out;
  std::ifstream in(path);
  const std::string json{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(path);
  for (const char* words : {"\"results\"", "\"size\": 32", "\"out_of_place\"", "\"nwrong\": 0"})
    EXPECT_NE(json.find(words), std::string::npos) << json;
}

#ifdef SHARDPROOF_WITH_MPI
TEST(Bench, EveryCollective_IsRight_InRealProcesses) {
  for (const char* kind : kKinds) {
    const Ran ran = tool(
        "bench --backend mpi --ranks 5 --processes 3 -b 40 -e 640K -f 128 -n 3 -r 2 "
        "--collective " +
        std::string(kind));
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("Out of bounds values : 0 OK"), std::string::npos) << ran.out;
  }
}

TEST(Bench, ProcessesOfMpirun_AreRanks) {
  const Ran ran = shell("mpirun --allow-run-as-root --oversubscribe -n 3 '" SHARDPROOF_PROGRAM
                        "' bench --backend mpi -b 8 -e 8 -n 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("3 ranks in 3 processes"), std::string::npos) << ran.out;
}

TEST(Bench, ImpossibleProcesses_AreRefused) {
  expect_refused("--backend mpi --processes 3 --ranks 2",
                 "--processes 3: expected at most 2, the number of ranks");
  const Ran ran = shell("PATH=/nowhere '" SHARDPROOF_PROGRAM "' bench --backend mpi");
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.out.find("backend mpi: mpirun was not found"), std::string::npos) << ran.out;
}

// The processes are mpirun, two monitors and their workers; the newest is a worker.
TEST(Bench, KilledProcess_EndsTheTable) {
  const Ran ran = shell(
      "pattern='[b]ench --backend mpi -b 8 -e 8 -n 100000000 --join'; "
      "'" SHARDPROOF_PROGRAM
      "' bench --backend mpi -b 8 -e 8 -n 100000000 & pid=$!; "
      "for i in $(seq 300); do sleep 0.1; "
      "[ $(pgrep -fc \"$pattern\") -lt 5 ] || break; done; "
      "sleep 0.5; kill -9 $(pgrep -nf \"$pattern\"); wait $pid");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("was killed by signal 9"), std::string::npos) << ran.out;
}
#endif

}  // namespace
}  // namespace shardproof::bench_test
