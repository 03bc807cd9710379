// Tests of `run --backend nccl` on fake GPUs: results as in simulation, killed and stopped
// processes, machines that lack something. Each test runs a binary.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/cli/run_tool.h"
#include "shardproof/tests/cli/running_workers.h"
#include "shardproof/tests/gpu/nccl/on_fake_gpus.h"

namespace shardproof {
namespace {

std::string report_of(const std::string& files, const std::string& words) {
  const std::string path =
      testing::TempDir() + "/shardproof_nccl_report_" + std::to_string(getpid()) + ".json";
  const Ran ran = fake_gpu("run " + files + " --json " + path + " " + words);
  EXPECT_EQ(ran.code, 0) << ran.out;
  const std::string report = report_without_backend(path);
  std::filesystem::remove(path);
  return report;
}

// One test for each layout, so that they run in parallel. They search no causes: a search runs
// simulated ranks and begins with the wrong values of the report.
struct CorpusLayout {
  const char *files, *layout;
};
class NcclCorpus : public ::testing::TestWithParam<CorpusLayout> {};

TEST_P(NcclCorpus, GivesReportsOfSimulation) {
  const ScenarioFolder folder;
  const std::string files = folder.copy_without_counts(GetParam().files);
  EXPECT_EQ(report_of(files, std::string("--no-causes --backend nccl ") + GetParam().layout),
            report_of(files, "--no-causes"));
}

INSTANTIATE_TEST_SUITE_P(
    AnyProcessesAndGpus, NcclCorpus,
    ::testing::Values(CorpusLayout{kCorpusWithoutBugs, "--processes 1"},
                      CorpusLayout{kCorpusWithoutBugs, "--processes 2"},
                      CorpusLayout{kCorpus, "--processes 4"},
                      CorpusLayout{kCorpusWithoutBugs, "--processes 1 --gpus-per-process 4"},
                      CorpusLayout{kCorpus, "--processes 2 --gpus-per-process 2"}));

// Some of the bugs; MpiRun searches the causes of others.
TEST(NcclRun, Causes_AreThoseOfSimulation) {
  const std::string bugs = "scenarios/corpus/bugs/[a-c]*.json";
  EXPECT_EQ(report_of(bugs, "--backend nccl --processes 4"), report_of(bugs, ""));
}

// Two ranks on a GPU are summed there; sums over GPUs add in the order of NCCL's ranks, whichever
// process drives them.
TEST(NcclRun, Values_AnyProcessesAndGpus_AreEqual) {
  const ScenarioFolder folder;
  const std::string file = folder.write("sums.json", R"json({
    "version": 1, "mesh": "dp=2, tp=4",
    "tensors": {"x": {"shape": [16, 24], "placements": "dp:S(0) tp:S(1)"},
                "w": {"shape": [24, 40], "placements": "tp:S(0)"}},
    "program": ["y = gelu(x @ w)", "z = softmax(y, dim=1)", "s = sum(z * y)"]})json");
  const auto values_of_run = [&](const std::string& name, const std::string& processes) {
    const std::filesystem::path record = folder.path() / name;
    const Ran ran =
        fake_gpu("run " + file + " --backend nccl " + processes + " --record " + record.string());
    EXPECT_EQ(ran.code, 0) << ran.out;
    std::ifstream in(record / "0001-sums-nccl" / "values.safetensors", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string expected = values_of_run("one_each", "--processes 4");
  EXPECT_GT(expected.size(), 1000u);
  EXPECT_EQ(values_of_run("all_four", "--processes 1 --gpus-per-process 4"), expected);
  EXPECT_EQ(values_of_run("two_of_two", "--processes 2 --gpus-per-process 2"), expected);
}

// TF32 is within the rounding of a run that allows it, and no bug.
TEST(NcclRun, LowPrecisionProducts_AreReportedAsPrecision) {
  const ScenarioFolder folder;
  const std::string file = folder.write("products.json", R"json({
    "version": 1, "mesh": "dp=2, tp=2",
    "tensors": {"x": {"shape": [16, 32], "placements": "dp:S(0)", "fill": "normal(0, 1)"},
                "w": {"shape": [48, 32], "placements": "tp:S(0)", "fill": "normal(0, 1)"}},
    "program": ["y = linear(x, w)"]})json");
  const std::string run = "run " + file + " --backend local,nccl --processes 4";
  const Ran full = fake_gpu(run), few = fake_gpu(run + " --matmul-precision high");
  EXPECT_EQ(full.code, 0) << full.out;
  EXPECT_EQ(full.out.find("precision"), std::string::npos) << full.out;
  EXPECT_EQ(few.code, 0) << few.out;
  EXPECT_NE(few.out.find("1 within rounding; causes: 1 precision"), std::string::npos) << few.out;
  EXPECT_NE(few.out.find("products in tf32"), std::string::npos) << few.out;
}

TEST(NcclRun, CallsAndFaults_OtherSchedule_AreAsExpected) {
  const Ran ran = fake_gpu(
      "run scenarios/corpus/collectives scenarios/corpus/faults --backend nccl "
      "--processes 3 --schedule adversarial");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

// A profile shows the program: each of its groups is one ncclGroup in each process.
TEST(NcclRun, ProgramGroup_IsOneNcclGroup) {
  const ScenarioFolder folder;
  const std::string file = folder.write("groups.json", R"json({
    "version": 1, "mesh": "r=4", "tensors": {"x": {"shape": [16], "placements": "r:S(0)"}},
    "ranks": {"all": [
      "group:", "  send(x, to=next)", "  y = recv(like=x, from=prev)", "  s = all_reduce(x, sum)",
      "z = all_gather(y, dim=0)"]},
    "truth": ["s = x", "z = x"], "outputs": {}})json");
  const std::filesystem::path trace = folder.path() / "trace";
  const Ran ran = fake_gpu("run " + file + " --backend nccl", "FAKE_GPU_TRACE=" + trace.string());
  EXPECT_EQ(ran.code, 0) << ran.out;
  std::vector<std::string> expected;
  for (int rank = 0; rank < 4; ++rank) {
    expected.push_back(fmt::format("rank {}: all_gather", rank));
    expected.push_back(
        fmt::format("rank {}: all_reduce recv({}) send({})", rank, (rank + 3) % 4, (rank + 1) % 4));
  }
  EXPECT_EQ(sorted_lines_of(trace), expected);
}

// NCCL spreads grouped collectives over its channels, so sums of siblings in one group could differ
// where replicas must be equal.
TEST(NcclRun, SiblingGroups_OfOneCall_AreNotGrouped) {
  const ScenarioFolder folder;
  const std::string file = folder.write("siblings.json", R"json({
    "version": 1, "mesh": "tp=2, dp=2", "tensors": {"x": {"shape": [16], "placements": "R"}},
    "ranks": {"all": ["s = all_reduce(x, sum, group=tp)"]},
    "truth": ["s = x * 2"], "outputs": {"s": "R"}})json");
  const std::filesystem::path trace = folder.path() / "trace";
  const Ran ran =
      fake_gpu("run " + file + " --backend nccl --processes 2", "FAKE_GPU_TRACE=" + trace.string());
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(sorted_lines_of(trace),
            (std::vector<std::string>{"rank 0: all_reduce", "rank 0: all_reduce",
                                      "rank 1: all_reduce", "rank 1: all_reduce"}));
}

// A call of all GPUs of a process is one group, each GPU on its own communicator.
TEST(NcclRun, CallOfSeveralGpus_IsOneNcclGroup) {
  const ScenarioFolder folder;
  const std::string file = folder.write("ring.json", R"json({
    "version": 1, "mesh": "r=4", "tensors": {"x": {"shape": [16], "placements": "r:S(0)"}},
    "ranks": {"all": [
      "group:", "  send(x, to=next)", "  y = recv(like=x, from=prev)",
      "s = all_reduce(y, sum)"]},
    "truth": ["s = sum(reshape(x, [4, 4]), dim=0)"], "outputs": {}})json");
  const std::filesystem::path trace = folder.path() / "trace";
  const Ran ran = fake_gpu("run " + file + " --backend nccl --processes 2 --gpus-per-process 2",
                           "FAKE_GPU_TRACE=" + trace.string());
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(sorted_lines_of(trace),
            (std::vector<std::string>{"ranks 0 1: 0.all_reduce 1.all_reduce",
                                      "ranks 0 1: 0.recv(3) 0.send(1) 1.recv(0) 1.send(2)",
                                      "ranks 2 3: 2.all_reduce 3.all_reduce",
                                      "ranks 2 3: 2.recv(1) 2.send(3) 3.recv(2) 3.send(0)"}));
}

// Two buckets of a gradient: one is reduced on a stream of its own while the next is computed.
constexpr const char* kOverlapped = R"json({
  "version": 1, "mesh": "dp=2",
  "tensors": {"x": {"shape": [16, 16], "placements": "dp:S(0)"}, "w": {"shape": [16, 16]}},
  "ranks": {"all": [
    "a = x @ w", "a = sum(a, dim=0)", "ready = record()",
    "on comm:", "  wait(ready)", "  ra = all_reduce(a, sum)",
    "b = sum(x, dim=0)",
    "on comm:", "  wait(b)", "  rb = all_reduce(b, sum)",
    "wait(ra)", "u = ra * 2", "wait(rb)", "v = rb * 3"]},
  "truth": ["u = sum(x @ w, dim=0) * 2", "v = sum(x, dim=0) * 3"],
  "outputs": {"u": "R", "v": "R"}})json";

// The operations that one GPU's streams were given, in order.
struct Asked {
  int stream = 0;
  std::string what;  // "kernel", "nccl", "record 3.1", "wait 3.1"
};
std::vector<Asked> asked_of(const std::filesystem::path& trace, int gpu) {
  std::vector<Asked> all;
  std::ifstream in(trace);
  for (std::string line; std::getline(in, line);) {
    int of = 0, stream = 0, at = 0;
    if (std::sscanf(line.c_str(), "gpu %d stream %d: %n", &of, &stream, &at) == 2 && of == gpu)
      all.push_back({stream, line.substr(static_cast<size_t>(at))});
  }
  return all;
}

// Returns where, after `at`, stream `to` waits for an event recorded after it in `from`; -1:
// nowhere.
int64_t wait_between(const std::vector<Asked>& all, size_t at, int from, int to) {
  std::set<std::string> recorded;
  for (; at < all.size(); ++at) {
    const auto& [stream, what] = all[at];
    if (stream == from && what.starts_with("record ")) recorded.insert(what.substr(7));
    if (stream == to && what.starts_with("wait ") && recorded.contains(what.substr(5)))
      return static_cast<int64_t>(at);
  }
  return -1;
}

TEST(NcclRun, ProgramStreams_AreGpuStreams) {
  const ScenarioFolder folder;
  const std::filesystem::path trace = folder.path() / "streams";
  const Ran ran = fake_gpu("run " + folder.write("two.json", kOverlapped) + " --backend nccl",
                           "FAKE_GPU_STREAMS=" + trace.string());
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (int gpu = 0; gpu < 2; ++gpu) {
    const std::vector<Asked> all = asked_of(trace, gpu);
    std::set<int> computing, calling;
    std::vector<size_t> kernels, calls;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].what == "kernel") computing.insert(all[i].stream), kernels.push_back(i);
      if (all[i].what == "nccl") calling.insert(all[i].stream), calls.push_back(i);
    }
    ASSERT_EQ(computing.size(), 1u);
    ASSERT_EQ(calling.size(), 1u);
    const int main = *computing.begin(), comm = *calling.begin();
    EXPECT_NE(main, comm);
    // The call is ordered by an event after the kernel that made its input, and the last kernel
    // after the call.
    const int64_t before = wait_between(all, kernels.front(), main, comm);
    EXPECT_GE(before, 0);
    EXPECT_LT(before, static_cast<int64_t>(calls.front()));
    const int64_t after = wait_between(all, calls.front(), comm, main);
    EXPECT_GE(after, 0);
    EXPECT_LT(after, static_cast<int64_t>(kernels.back()));
  }
}

// The host does not wait: the stream of the waiting program is ordered after the landed put.
TEST(NcclRun, LandedPut_OrdersStream_NotHost) {
  const ScenarioFolder folder;
  const std::filesystem::path trace = folder.path() / "streams";
  const Ran ran = fake_gpu("run scenarios/corpus/collectives/one_sided_ring.json --backend nccl",
                           "FAKE_GPU_STREAMS=" + trace.string());
  ASSERT_EQ(ran.code, 0) << ran.out;
  for (int gpu = 0; gpu < 3; ++gpu) {
    const std::vector<Asked> all = asked_of(trace, gpu);
    std::set<int> computing;
    for (const Asked& one : all)
      if (one.what == "kernel") computing.insert(one.stream);
    ASSERT_EQ(computing.size(), 1u);
    const auto landing = std::find_if(all.rbegin(), all.rend(), [&](const Asked& one) {
      return one.what == "nccl" && !computing.contains(one.stream);
    });
    ASSERT_NE(landing, all.rend());
    const auto at = static_cast<size_t>(all.rend() - landing - 1);
    EXPECT_GE(wait_between(all, at, landing->stream, *computing.begin()), 0) << "gpu " << gpu;
  }
}

// On GPUs whose streams do not wait for events: the waits of the program are missing.
TEST(NcclRun, MissingWait_IsDetected) {
  const ScenarioFolder folder;
  const std::string run = "run " + folder.write("two.json", kOverlapped) + " --backend nccl";
  for (const int seed : {1, 2, 3}) {
    const std::string seeded = fmt::format("FAKE_GPU_SEED={} ", seed);
    EXPECT_EQ(fake_gpu(run, seeded).code, 0);
    const Ran without_waits = fake_gpu(run, seeded + "FAKE_GPU_WAITS=0");
    EXPECT_EQ(without_waits.code, 1) << without_waits.out;
    EXPECT_NE(without_waits.out.find("wrong values"), std::string::npos) << without_waits.out;
  }
  std::string racing = kOverlapped;
  for (const std::string wait : {"\"wait(ra)\", ", "\"wait(rb)\", "})
    racing.erase(racing.find(wait), wait.size());
  const Ran ran = fake_gpu("run " + folder.write("racing.json", racing) + " --backend nccl");
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_NE(ran.out.find("race: "), std::string::npos) << ran.out;
}

// Prints more than a pipe holds, as NCCL does with NCCL_DEBUG.
TEST(NcclRun, ProcessOutput_WithNcclDebug_IsPassedOn) {
  const ScenarioFolder folder;
  const std::string file = folder.write("many.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4]}},
    "ranks": {"all": ["for i in range(4000):", "  y = all_reduce(x, max)"]}})json");
  const Ran normal = fake_gpu("run " + file + " --backend nccl", "FAKE_GPU_TRACE=/dev/stdout");
  EXPECT_EQ(normal.code, 0) << normal.out;
  EXPECT_EQ(normal.out.find("rank 0: all_reduce"), std::string::npos) << normal.out;
  const Ran with_debug =
      fake_gpu("run " + file + " --backend nccl", "NCCL_DEBUG=INFO FAKE_GPU_TRACE=/dev/stdout");
  EXPECT_EQ(with_debug.code, 0);
  EXPECT_GT(with_debug.out.size(), size_t{1} << 17);
  EXPECT_NE(with_debug.out.find("rank 1: all_reduce"), std::string::npos);
}

// Code that the machine's library loads when it is opened may wait for a call in progress.
TEST(NcclRun, ProductsDuringCall_FindLibraryOpen) {
  const ScenarioFolder folder;
  const std::string file = folder.write("beside.json", R"json({
    "version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [32, 32]}},
    "ranks": {"all": ["on comm:", "  y = all_reduce(x, max)", "z = x @ x", "wait(comm)"]}})json");
  for (int seed = 1; seed <= 4; ++seed) {
    const Ran ran =
        fake_gpu("run " + file + " --backend nccl", fmt::format("FAKE_GPU_SEED={}", seed));
    EXPECT_EQ(ran.code, 0) << ran.out;
  }
}

// Users set it to find which kernel fails: one GPU's launch would wait for a later one.
TEST(NcclRun, BlockingLaunches_SeveralGpus_AreOff) {
  for (const std::string processes : {"--processes 2", "--processes 1 --gpus-per-process 2"}) {
    const Ran ran = fake_gpu("run scenarios/corpus/collectives --backend nccl " + processes,
                             "CUDA_LAUNCH_BLOCKING=1");
    EXPECT_EQ(ran.code, 0) << ran.out;
  }
}

TEST(NcclRun, LostProcess_SeveralGpus_MissesAllItsRanks) {
  fail_one_worker_in_each({FAKE_GPU_PROGRAM,
                           "nccl",
                           SIGKILL,
                           "was killed by signal 9 (SIGKILL)",
                           "30s",
                           {"--gpus-per-process", "2"}},
                          2);
}

TEST(NcclRun, KilledProcess_IsMissingRank_AndNoProcessRemains) {
  fail_one_worker_in_each({FAKE_GPU_PROGRAM, "nccl", SIGKILL, "was killed by signal 9 (SIGKILL)"},
                          4);
}

TEST(NcclRun, ProcessKilledInRepetitions_IsMissingRank_WithItsCall) {
  WorkerFailure failure{FAKE_GPU_PROGRAM, "nccl", SIGKILL, "was killed by signal 9 (SIGKILL)"};
  failure.in_repetitions = true;
  fail_one_worker_in_each(failure, 2);
}

TEST(NcclRun, StoppedProcess_IsMissingRank_AndNoProcessRemains) {
  fail_one_worker_in_each(
      {FAKE_GPU_PROGRAM, "nccl", SIGSTOP, "is stopped by signal 19 (SIGSTOP)", "6s"}, 4);
}

// NCCL may report an internal error for a killed process before the coordinator detects its loss.
TEST(NcclRun, NcclError_BeforeLoss_IsReportedWithMissingRank) {
  const ScenarioFolder folder;
  const Ran ran = fake_gpu("run " + folder.endless() + " --backend nccl --processes 3",
                           "FAKE_GPU_FAILING_CALL=40 FAKE_GPU_KILL_AFTER_MS=300");
  EXPECT_EQ(ran.code, 1) << ran.out;
  for (const char* const words :
       {"missing rank", "was killed by signal 9 (SIGKILL)",
        "process 2: NCCL 2.28.9 reports: internal error: the network has failed"})
    EXPECT_NE(ran.out.find(words), std::string::npos) << words << "\n" << ran.out;
}

// No process is lost: NCCL's error is all there is, and it is reported before the timeout.
TEST(NcclRun, NcclError_WithoutLoss_IsReported) {
  const ScenarioFolder folder;
  for (const std::string gpus : {"", " --gpus-per-process 2"}) {
    const Ran ran = fake_gpu("run " + folder.endless() + " --backend nccl --processes 3" + gpus,
                             "FAKE_GPU_FAILING_CALL=40");
    EXPECT_EQ(ran.code, 2) << ran.out;
    EXPECT_NE(
        ran.out.find("process 2: NCCL 2.28.9 reports: internal error: the network has failed"),
        std::string::npos)
        << ran.out;
    EXPECT_EQ(ran.out.find("missing rank"), std::string::npos) << ran.out;
  }
  const Ran bench =
      fake_gpu("bench --backend nccl --processes 2 -b 1K -e 1K", "FAKE_GPU_FAILING_CALL=3");
  EXPECT_EQ(bench.code, 2) << bench.out;
  EXPECT_NE(
      bench.out.find("process 1: NCCL 2.28.9 reports: internal error: the network has failed"),
      std::string::npos)
      << bench.out;
}

// An abort of NCCL does not end a stream that waits for a put: the worker monitor kills its
// process.
TEST(NcclRun, WaitForPut_OfLostProcess_Ends) {
  const ScenarioFolder folder;
  const std::string file = folder.write("puts.json", R"json({
    "version": 1, "mesh": "tp=3", "tensors": {"x": {"shape": [512, 512]}},
    "ranks": {"all": ["h = x", "for i in range(0, 3000):", "  put(h, to=next, slot=0)",
      "  wait_signal(from=prev, slot=0)", "  h = slot(0, like=x)", "  barrier(group=tp)"]}})json");
  for (const int milliseconds : {150, 1500}) {
    ::setenv("FAKE_GPU_NCCL", "23007", 1);
    // Simulated runs under other schedules would look for races.
    Running run(FAKE_GPU_PROGRAM, "nccl", file, (folder.path() / "out.txt").string(), "30s",
                {"--schedule", "fifo"});
    ::unsetenv("FAKE_GPU_NCCL");
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    const std::vector<pid_t> workers = run.workers();
    ASSERT_EQ(workers.size(), 3u) << run.text();
    wait_for_work(workers, 0.3);  // until all have joined the call; an earlier exit is no finding
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ASSERT_EQ(kill(workers[1], SIGKILL), 0);
    EXPECT_EQ(run.code(), 1) << run.text();
    EXPECT_NE(run.text().find("missing rank"), std::string::npos) << run.text();
    EXPECT_TRUE(run.all_have_exited()) << run.text();
  }
}

TEST(NcclRun, KilledCommand_LeavesNoProcess) {
  const ScenarioFolder folder;
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Running run(FAKE_GPU_PROGRAM, "nccl", folder.endless(), (folder.path() / "out.txt").string());
    ASSERT_EQ(run.wait_for_processes().size(), 6u) << run.text();
    kill(run.pid(), signal);
    EXPECT_EQ(run.code(), -1);
    EXPECT_TRUE(run.all_have_exited()) << "signal " << signal;
  }
}

void expect_refused(const Ran& ran, const std::string& message) {
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find(message), std::string::npos) << ran.out;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
}

TEST(NcclRun, MissingRequirement_IsRefusedInOneLine) {
  const std::string run = "run scenarios/corpus/bugs/sum_for_avg.json --backend nccl ";
  expect_refused(fake_gpu(run + "--processes 4", "FAKE_GPU_GPUS=1"),
                 "backend nccl: 4 processes need 4 GPUs, and 1 is visible; --ranks-per-gpu 4 puts "
                 "them on it");
  expect_refused(fake_gpu(run + "--processes 4 --ranks-per-gpu 2", "FAKE_GPU_GPUS=1"),
                 "4 processes need 2 GPUs, and 1 is visible; --ranks-per-gpu 4");
  expect_refused(fake_gpu(run + "--processes 8"), "expected at most 4, the number of ranks");
  expect_refused(fake_gpu(run, "FAKE_GPU_GPUS=0"), "backend nccl: no GPU is visible");
  expect_refused(fake_gpu(run, "FAKE_GPU_DRIVER=0"), "no NVIDIA driver on this machine");
  expect_refused(fake_gpu(run, "FAKE_GPU_DRIVER=12040"),
                 "the driver is for CUDA 12.4 and this build needs 13.0");
  expect_refused(fake_gpu(run + "--hosts hosts.txt"),
                 "--hosts: backend nccl uses the GPUs of this machine only");
  expect_refused(fake_gpu(run + "--ranks-per-gpu 0"), "--ranks-per-gpu: expected 1 to");
  expect_refused(fake_gpu("run scenarios/corpus/collectives --ranks-per-gpu 2"),
                 "--ranks-per-gpu needs a backend of several processes, such as --backend mpi; "
                 "local has none");
}

TEST(NcclRun, MissingGpus_AreRefused) {
  const std::string run = "run scenarios/corpus/bugs/sum_for_avg.json --backend nccl ";
  expect_refused(fake_gpu(run + "--processes 2 --gpus-per-process 4", "FAKE_GPU_GPUS=6"),
                 "backend nccl: 2 processes with 4 GPUs each need 8, and 6 are visible");
  expect_refused(fake_gpu(run + "--processes 1 --gpus-per-process 2", "FAKE_GPU_GPUS=1"),
                 "backend nccl: 1 process with 2 GPUs each needs 2, and 1 is visible");
  expect_refused(fake_gpu(run + "--gpus-per-process 2 --ranks-per-gpu 2"),
                 "--gpus-per-process 2 and --ranks-per-gpu 2: expected 1 for one of them");
  expect_refused(fake_gpu(run + "--gpus-per-process 0"), "--gpus-per-process: expected 1 to");
  expect_refused(fake_gpu("run scenarios/corpus/collectives --gpus-per-process 2"),
                 "--gpus-per-process needs a backend of several processes, such as --backend mpi; "
                 "local has none");
  expect_refused(fake_gpu("bench --backend nccl --processes 2 --gpus-per-process 2 --ranks 3"),
                 "--processes 2 with 2 GPUs each: expected at most one GPU for each of --ranks 3");
}

// Starts three processes as a user would, the first of them in the foreground.
Ran by_hand(const std::string& words, const std::string& environment = "") {
  const std::string rendezvous =
      testing::TempDir() + "/shardproof_rendezvous_" + std::to_string(getpid());
  const std::string one = environment + " '" FAKE_GPU_PROGRAM "' run " + words +
                          " --backend nccl --rendezvous file:" + rendezvous;
  return shell("for i in 1 2; do " + one + " --process $i --processes 3 & done; " + one +
               " --process 0 --processes 3; code=$?; wait; exit $code");
}

TEST(NcclRun, ProcessesStartedByHand_MeetAtFile) {
  const Ran ran = by_hand("scenarios/corpus/collectives");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.out.find("0 unexpected results"), ran.out.rfind("0 unexpected results")) << ran.out;
  EXPECT_NE(ran.out.find("0 unexpected results"), std::string::npos) << ran.out;
  // Only its own GPU is visible to each process.
  EXPECT_EQ(by_hand("scenarios/corpus/collectives", "FAKE_GPU_GPUS=1").code, 0);
  expect_refused(by_hand("scenarios/corpus/collectives", "FAKE_GPU_GPUS=2"),
                 "has no GPU: 2 are visible; --ranks-per-gpu N puts N processes on one");
  const std::string two_each = "scenarios/corpus/collectives --gpus-per-process 2";
  EXPECT_EQ(by_hand(two_each, "FAKE_GPU_GPUS=2").code, 0);
  expect_refused(by_hand(two_each, "FAKE_GPU_GPUS=5"),
                 "process 2 of its machine needs 2 GPUs: 5 are visible");
}

// This program cannot restart them.
TEST(NcclRun, CasesAfterLoss_StartedByHand_AreReportedNotRun) {
  const ScenarioFolder folder;
  const std::string small = folder.write("small.json", R"json({
    "version": 1, "mesh": "tp=3", "tensors": {"x": {"shape": [4]}},
    "ranks": {"all": ["y = all_reduce(x, max)"]}})json");
  const Ran ran = by_hand(folder.endless() + " " + small, "FAKE_GPU_FAILING_CALL=40");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("small.json: not run: process 2: NCCL 2.28.9 reports: internal error: the "
                         "network has failed in an earlier case; this program did not start the "
                         "processes of this run and cannot restart them"),
            std::string::npos)
      << ran.out;
}

TEST(NcclRun, ProcessesStartedBySrun_NeedNoOptions) {
  const std::string job = "SLURM_JOB_ID=" + std::to_string(getpid()) +
                          " SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_STEP_NUM_NODES=1 ";
  const std::string one = job +
                          "SLURM_PROCID=$i SLURM_LOCALID=$i '" FAKE_GPU_PROGRAM
                          "' run scenarios/corpus/collectives --backend nccl --ranks-per-gpu 2";
  const Ran ran = shell("for i in 0 1 2; do " + one + " & done; wait");
  EXPECT_EQ(ran.out.find("0 unexpected results"), ran.out.rfind("0 unexpected results")) << ran.out;
  EXPECT_NE(ran.out.find("0 unexpected results"), std::string::npos) << ran.out;
}

TEST(NcclRun, SharedGpu_IsReported) {
  const std::string run =
      "run scenarios/corpus/collectives --backend nccl --processes 4 --ranks-per-gpu 4";
  const Ran older = fake_gpu(run, "FAKE_GPU_GPUS=1 FAKE_GPU_NCCL=22809");
  EXPECT_EQ(older.code, 0) << older.out;
  EXPECT_NE(older.out.find("4 ranks on each GPU (NCCL_HOSTID"), std::string::npos) << older.out;
  const Ran newer = fake_gpu(run, "FAKE_GPU_GPUS=1 FAKE_GPU_NCCL=23003");
  EXPECT_EQ(newer.code, 0) << newer.out;
  EXPECT_NE(newer.out.find("4 ranks on each GPU (NCCL_MULTI_RANK_GPU_ENABLE); times "
                           "differ from those of one rank on each GPU"),
            std::string::npos)
      << newer.out;
}

TEST(NcclRun, StockProgram_GivesReason) {
  const Ran list = shell("'" SHARDPROOF_PROGRAM "' list backends");
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("  nccl     ranks on GPUs over NCCL"), std::string::npos) << list.out;
  if (list.out.find("NCCL; not here: ") == std::string::npos)
    GTEST_SKIP() << "this machine has what the nccl backend needs";
  expect_refused(
      shell("'" SHARDPROOF_PROGRAM "' run scenarios/corpus/bugs/sum_for_avg.json --backend nccl"),
      "shardproof: backend nccl: ");
}

}  // namespace
}  // namespace shardproof
