// Tests `run --backend nccl --cuda-graph` on fake GPUs. A graph gives the bits of the same calls
// without it. If there is no graph, the report states why.
#include <gtest/gtest.h>

#include "shardproof/tests/cli/running_workers.h"
#include "shardproof/tests/gpu/nccl/on_fake_gpus.h"

namespace shardproof {
namespace {

constexpr const char* kGraphs = "median of 4, each one CUDA graph";
constexpr const char* kNoGraph = "the iterations cannot be a CUDA graph: ";
constexpr const char* kOtherBits = "differ in bits";

std::string graph_scenario(const std::string& lines) {
  return R"json({"version": 1, "mesh": "tp=2", "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
    "tensors": {"x": {"shape": [8, 16], "dtype": "f32"}, "w": {"shape": [16, 16], "dtype": "f32"}},
    "ranks": {"all": [)json" +
         lines + "]}}";
}

Ran run_as_graph(const std::string& lines, const std::string& words,
                 const std::string& environment = "") {
  const ScenarioFolder folder;
  const std::string file = folder.write("step.json", graph_scenario(lines));
  return fake_gpu("run " + file + " --backend nccl --iters 4 --cuda-graph " + words, environment);
}

// The weights are overwritten, so each repetition must restore them.
TEST(NcclGraph, Step_AnyProcesses_HasTheBitsOfTheCalls) {
  const std::string lines =
      R"json("y = gelu(x @ w)", "s = all_reduce(y, sum)", "w = w * 2 + sum(s)",
                                "v = all_gather(w)", "u = all_reduce_(s, max)")json";
  for (const std::string processes : {"--processes 2", "--processes 1 --gpus-per-process 2"})
    for (const std::string seed : {"1", "2", "3"}) {
      const Ran ran = run_as_graph(lines, processes, "FAKE_GPU_SEED=" + seed);
      EXPECT_EQ(ran.code, 0) << ran.out;
      EXPECT_NE(ran.out.find(kGraphs), std::string::npos) << processes << ran.out;
      EXPECT_EQ(ran.out.find(kOtherBits), std::string::npos) << processes << ran.out;
    }
}

// A group of one rank makes no call, and copies nothing through the host.
TEST(NcclGraph, GroupOfOneRank_IsNoCall) {
  const ScenarioFolder folder;
  const std::string file = folder.write("alone.json", R"json({"version": 1, "mesh": "tp=1",
    "tensors": {"x": {"shape": [8, 16]}, "w": {"shape": [16, 16]}},
    "ranks": {"all": ["y = all_reduce(x @ w, avg)", "z = all_gather(y)", "s = reduce_scatter(z, sum)"]}})json");
  const Ran ran = fake_gpu("run " + file + " --backend nccl --iters 4 --cuda-graph");
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(ran.out.find(kGraphs), std::string::npos) << ran.out;
}

// Pieces along other dims than the first, padded parts, and slices are packed on the GPU.
TEST(NcclGraph, PackedCalls_AreOneGraph) {
  for (const char* lines : {
           R"json("y = all_gather(x @ w, dim=1)", "z = reduce_scatter(y, sum, dim=1)")json",
           R"json("y = all_to_all(x @ w, split=1, concat=0)",
                  "z = all_to_all(y, split=0, concat=1)")json",
           R"json("h = x @ w", "y = all_reduce(h[2:6], sum)", "h[2:6] = y", "v = h * 2")json",
           R"json("h = x @ w", "y = all_reduce(h[:, 3:9], max)", "h[:, 3:9] = y * 2",
                  "v = all_gather(h.T, dim=1)")json",
       })
    for (const std::string seed : {"1", "2"}) {
      const Ran ran = run_as_graph(lines, "", "FAKE_GPU_SEED=" + seed);
      EXPECT_EQ(ran.code, 0) << ran.out;
      EXPECT_NE(ran.out.find(kGraphs), std::string::npos) << lines << ran.out;
      EXPECT_EQ(ran.out.find(kOtherBits), std::string::npos) << lines << ran.out;
    }
}

TEST(NcclGraph, WorkOfTheHost_IsNamed) {
  const Ran host = run_as_graph(R"json("y = all_reduce(x, sum)", "i = arange(4)")json", "");
  EXPECT_EQ(host.code, 0) << host.out;
  EXPECT_NE(host.out.find(std::string(kNoGraph) + "the host computes arange"), std::string::npos)
      << host.out;
  const Ran put = run_as_graph(R"json("put(x, to=next, slot=1)", "wait_signal(from=prev, slot=1)",
                                      "y = slot(1, like=x)")json",
                               "");
  EXPECT_EQ(put.code, 0) << put.out;
  EXPECT_NE(put.out.find("puts into the memory of another rank"), std::string::npos) << put.out;
  EXPECT_EQ(put.out.find(kGraphs), std::string::npos) << put.out;
}

TEST(NcclGraph, CorpusOfFiles_OnlyRacesHaveOtherBits) {
  const ScenarioFolder folder;
  const std::string report = (folder.path() / "report.json").string();
  const Ran ran =
      fake_gpu("run " + std::string(kCorpus) +
               "/layers --filter mlp --backend nccl --iters 1 --cuda-graph --json " + report);
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_NE(fake_gpu("run " + std::string(kCorpus) +
                     "/layers/mlp_column_row.json --backend nccl --iters 1 --cuda-graph")
                .out.find("one CUDA graph"),
            std::string::npos);
  std::ifstream in(report);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(text.find(kOtherBits), std::string::npos);
}

TEST(NcclGraph, OtherBackend_IsBadInput) {
  const ScenarioFolder folder;
  const std::string file = folder.write("step.json", graph_scenario(R"json("y = x * 2")json"));
  const Ran ran = fake_gpu("run " + file + " --cuda-graph");
  EXPECT_EQ(ran.code, 2) << ran.out;
  EXPECT_NE(ran.out.find("--cuda-graph: expected --backend nccl, found local"), std::string::npos)
      << ran.out;
}

// The network fails in a launch of the graph, and the process kill_after_ms.
TEST(NcclGraph, LostProcess_IsReported) {
  for (const int call : {7, 10, 14}) {
    const Ran ran =
        run_as_graph(R"json("y = all_reduce(x, sum)", "z = all_reduce(y, max)")json", "",
                     "FAKE_GPU_KILL_AFTER_MS=50 FAKE_GPU_FAILING_CALL=" + std::to_string(call));
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_NE(ran.out.find("process 1 of 2"), std::string::npos) << ran.out;
  }
}

}  // namespace
}  // namespace shardproof
