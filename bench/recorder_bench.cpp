// Measures the instructions that the flight recorder adds to a step of a decoder block. The program
// runs itself under callgrind, with and without the recorder. Without valgrind it prints that
// nothing was measured.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/bench/measure.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/scenarios/load/load.h"

namespace shardproof::bench {

constexpr const char* kBlock = SHARDPROOF_SOURCE_DIR "/scenarios/demo/llama3_8b_block.json";
constexpr const char* kValgrind = "/usr/bin/valgrind";

// A forward step of the block, prepared to run in new worlds.
struct Step {
  Registries registries{builtin_ops(), {}};
  Job job;
  LoweredJob lowered;
  std::vector<LocalTensor> inputs;
  std::vector<Lanes> cohorts;
  bool is_recorded;

  Step(std::string_view recorder, std::string_view grouping) : is_recorded(recorder == "recorded") {
    job = filled(load_file(kBlock, kBlock).cases.front().phases.front(), 0);
    lowered = lower_job(job, registries);
    for (const JobInput& input : job.inputs)
      inputs.push_back(split(input.data, input.spec, PartialFill::exact, 0));
    const int64_t each = grouping == "one" ? 1 : job.world;
    for (int64_t rank = 0; rank < job.world; rank += each)
      cohorts.push_back(Lanes::range(rank, rank + each));
  }

  void run() const {
    WorldOptions options;
    options.ranks = job.world;
    std::unique_ptr<World> world = local_world(options);
    if (is_recorded) world = recorded(std::move(world), options.max_records);
    Executor executor(lowered.program, registries.ops, *world, {});
    executor.start(cohorts, inputs);
    SP_CHECK(executor.run(), "the block blocks");
    SP_CHECK(world->close().findings.empty(), "the block is wrong");
  }
};

// callgrind finds this function by its name and counts its instructions.
[[gnu::noinline]] void counted_step(const Step& step) { step.run(); }

double instructions(const std::string& recorder, const std::string& grouping) {
  namespace fs = std::filesystem;
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string counts = fmt::format("{}.{}.counts", self, ::getpid());
  run_child({kValgrind, "-q", "--tool=callgrind", "--collect-atstart=no",
             "--toggle-collect=*counted_step*", "--callgrind-out-file=" + counts, self, recorder,
             grouping});
  std::ifstream in(counts);
  double total = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("totals: ")) total = std::stod(line.substr(8));
  fs::remove(counts);
  SP_CHECK(total > 0, "callgrind counted nothing");
  return total;
}

void print_overhead(const std::string& grouping, const char* words, const char* target) {
  const double bare = instructions("bare", grouping), recorded = instructions("recorded", grouping);
  print({fmt::format("recorder in a step of llama3_8b_block, 8 ranks, {}", words),
         fmt::format("{:.0f} thousand instructions more", (recorded - bare) / 1e3),
         fmt::format("without it: {:.2f} million", bare / 1e6),
         fmt::format("{:.2f} %", 100 * (recorded - bare) / bare), target});
}

}  // namespace shardproof::bench

int main(int argc, char** argv) {
  using namespace shardproof::bench;
  if (argc == 3) {
    const Step step(argv[1], argv[2]);
    step.run();
    counted_step(step);
    return 0;
  }
  print_head();
  if (!std::filesystem::exists(kValgrind)) {
    fmt::print("not measured: valgrind is not installed\n");
    return 0;
  }
  print_overhead("all", "one cohort", "2 %");
  print_overhead("one", "cohorts of one", "2 %");
}
