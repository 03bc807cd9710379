// Tests of times of `--backend nccl` on fake GPUs: whose clock measures them, and NCCL's
// predictions.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/tests/cli/running_workers.h"
#include "shardproof/tests/gpu/nccl/on_fake_gpus.h"

namespace shardproof {
namespace {

// A fake device counts whole microseconds, which the host does not.
TEST(NcclTimes, DeviceWork_IsTimedByItsEvents) {
  const ScenarioFolder folder;
  const std::string file = folder.write("timed.json", R"json({
    "version": 1, "mesh": "r=2", "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
    "tensors": {"x": {"shape": [8, 8], "dtype": "f32"}, "w": {"shape": [8, 8], "dtype": "f8e4m3"}},
    "ranks": {"all": [
      "y = gelu(x @ x)", "s = all_reduce(y, sum)", "v = all_reduce(w, max)"]}})json");
  const std::filesystem::path record = folder.path() / "record";
  const Ran ran = fake_gpu("run " + file + " --backend nccl --iters 2 --record " + record.string());
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("estimate"), std::string::npos) << ran.out;
  int on_device = 0, on_host = 0;
  for (const std::string& line : sorted_lines_of(record / "0001-timed-nccl" / "measured-2.txt")) {
    const Record one = parse_record(line);
    const bool by_nccl = one.kind == "all_reduce" && one.line == 2;
    const bool by_kernel = one.kind == "matmul" || one.kind == "gelu";
    EXPECT_EQ(one.clock != TimedBy::world, by_nccl || by_kernel) << line;
    EXPECT_EQ(one.expected != Duration{}, by_nccl) << line;
    const int64_t past_whole = (one.end - one.start).ps % 1'000'000;
    if (one.clock != TimedBy::world) {
      EXPECT_LE(std::min(past_whole, 1'000'000 - past_whole), 100) << line;
    }
    ++(one.clock != TimedBy::world ? on_device : on_host);
  }
  EXPECT_GE(on_device, 3);
  EXPECT_GE(on_host, 1);
}

TEST(NcclTimes, Bench_ReportsDeviceTimes_AndPredictions) {
  const Ran ran = fake_gpu("bench --backend nccl --processes 2 -b 1K -e 1K -f 2");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("# Times by the devices' own events\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("      11.02\n"), std::string::npos) << ran.out;  // the fake NCCL's value
}

// Predictions ignore the environment: they use blocking communicators and calls non-blocking
// ones.
TEST(NcclTimes, Predictions_AnyEnvironment_AreEqual) {
  for (const std::string blocking : {"0", "1"}) {
    const Ran ran = fake_gpu("bench --backend nccl --processes 2 -b 1K -e 1K -f 2",
                             "NCCL_COMM_BLOCKING=" + blocking);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("      11.02\n"), std::string::npos) << ran.out;
  }
}

// If one call is timed, no earlier call runs while it is launched.
TEST(NcclTimes, Bench_StatesTimesThatIncludeLaunch) {
  const Ran ran = fake_gpu("bench --backend nccl --processes 2 -b 1K -e 1K --iters 1");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find("# Times by the devices' own events\n"
                         "# 2 of 2 may include the launch of calls\n"),
            std::string::npos)
      << ran.out;
}

// Repeated calls are launched on the same memory: in place where the call is.
TEST(NcclTimes, Bench_SingleRank_CountsNoWrongElements) {
  for (const std::string collective : {"all_reduce", "reduce_scatter", "all_gather", "broadcast"}) {
    const Ran ran =
        fake_gpu("bench --backend nccl --processes 1 -b 1K -e 4K --collective " + collective);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("# Times by the devices' own events\n"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << ran.out;
  }
}

// NCCL before 2.29.7 leaves elements of a scaled sum unwritten if the communicator has one rank.
// The host computes such a sum, so there are no device times.
TEST(NcclTimes, AverageOfSingleRank_IsMadeByNewerNcclOnly) {
  const auto on_device = [](const std::string& nccl, const std::string& op) {
    const Ran ran = fake_gpu("bench --backend nccl --processes 1 -b 60 -e 60 -o " + op,
                             "FAKE_GPU_NCCL=" + nccl);
    EXPECT_EQ(ran.code, 0) << ran.out;
    return ran.out.find("# Times by the devices' own events\n") != std::string::npos;
  };
  EXPECT_TRUE(on_device("22809", "sum"));
  EXPECT_FALSE(on_device("22809", "avg"));
  EXPECT_TRUE(on_device("22907", "avg"));
}

// A sender has launched everything before it has ended.
TEST(NcclTimes, Bench_AnyCollective_Ends) {
  for (const std::string collective : {"reduce", "gather", "broadcast", "scatter", "all_gather"}) {
    const Ran ran =
        fake_gpu("bench --backend nccl --processes 3 -b 1K -e 1K --collective " + collective);
    EXPECT_EQ(ran.code, 0) << ran.out;
    EXPECT_NE(ran.out.find("# Times by the devices' own events\n"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << ran.out;
  }
}

TEST(NcclTimes, Gpus_OfOneProcess_HaveOwnTimes) {
  const ScenarioFolder folder;
  const std::string file = folder.write("timed.json", R"json({
    "version": 1, "mesh": "r=4", "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
    "tensors": {"x": {"shape": [8, 8], "dtype": "f32"}},
    "ranks": {"all": ["y = gelu(x @ x)", "s = all_reduce(y, sum)"]}})json");
  const std::filesystem::path record = folder.path() / "record";
  const Ran ran = fake_gpu("run " + file + " --backend nccl --processes 2 --gpus-per-process 2 " +
                           "--iters 1 --record " + record.string());
  ASSERT_EQ(ran.code, 0) << ran.out;
  std::set<int64_t> timed;
  for (const std::string& line : sorted_lines_of(record / "0001-timed-nccl" / "measured-1.txt")) {
    const Record one = parse_record(line);
    if (one.kind != "all_reduce" && one.kind != "matmul") continue;
    EXPECT_NE(one.clock, TimedBy::world) << line;
    if (one.kind != "all_reduce") continue;
    timed.insert(one.ranks[0]);
    EXPECT_NE(one.expected, Duration{}) << line;
  }
  EXPECT_EQ(timed, (std::set<int64_t>{0, 1, 2, 3}));
  const std::string bench = "bench --backend nccl --processes 2 --gpus-per-process 2 -b 1K -e 1K ";
  for (const std::string collective : {"all_reduce", "all_to_all", "sendrecv"}) {
    const Ran bench_run = fake_gpu(bench + "--collective " + collective);
    EXPECT_EQ(bench_run.code, 0) << bench_run.out;
    EXPECT_NE(bench_run.out.find("# Times by the devices' own events\n"), std::string::npos)
        << bench_run.out;
    if (collective != "all_reduce") continue;
    EXPECT_NE(bench_run.out.find("      11.02\n"), std::string::npos) << bench_run.out;
  }
}

// For a group NCCL predicts its last call only, and for messages nothing.
TEST(NcclTimes, GroupPrediction_SumsCalls_UnlessItHasMessages) {
  const ScenarioFolder folder;
  const std::string file = folder.write("groups.json", R"json({
    "version": 1, "mesh": "r=4", "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
    "tensors": {"x": {"shape": [1024], "placements": "r:S(0)"}},
    "ranks": {"all": [
      "group:", "  s = all_reduce(x, sum)", "  z = all_gather(x, dim=0)",
      "group:", "  send(x, to=next)", "  y = recv(like=x, from=prev)", "  t = all_reduce(x, max)"]}
    })json");
  for (const std::string processes : {"--processes 4", "--processes 2 --gpus-per-process 2"}) {
    const std::filesystem::path record = folder.path() / "record";
    const Ran ran = fake_gpu("run " + file + " --backend nccl " + processes +
                             " --iters 1 --record " + record.string());
    ASSERT_EQ(ran.code, 0) << ran.out;
    std::map<std::pair<int, std::string>, std::set<std::string>> expected;
    for (const std::string& line :
         sorted_lines_of(record / "0001-groups-nccl" / "measured-1.txt")) {
      const Record one = parse_record(line);
      expected[{one.line, one.kind}].insert(to_string(one.expected));
    }
    // 256 elements of 4 bytes: 10 us, and one nanosecond for each byte of each rank's input.
    const std::set<std::string> sum{to_string(Duration{2 * 11'024'000})},
        none{to_string(Duration{})};
    EXPECT_EQ(expected[std::pair(2, std::string("all_reduce"))], sum);
    EXPECT_EQ(expected[std::pair(3, std::string("all_gather"))], sum);
    for (const auto& [line, kind] :
         {std::pair(5, "send"), std::pair(6, "recv"), std::pair(7, "all_reduce")})
      EXPECT_EQ(expected[std::pair(line, std::string(kind))], none) << kind;
    std::filesystem::remove_all(record);
  }
}

}  // namespace
}  // namespace shardproof
