// Measures sends and receives of many ranks, and unrolled instructions. It reports time and peak
// memory of a whole process `shardproof run file.json`. The baseline of each row is the same file
// with one round, so that a row shows what a round costs.
#include <fstream>

#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

struct Pattern {
  std::string name;
  std::string axis;   // of the mesh
  std::string lines;  // of the rank listing, as JSON; {} is the number of rounds
};

// Rank r sends to rank r + 2^k in round k.
const Pattern kDissemination{
    "dissemination", "dp",
    R"json("for k in range({}):", "  group:", "    send(x, to=(rank + 2 ** k) % world)",
     "    y = recv(like=x, from=(rank + world - 2 ** k) % world)", "  x = x + y")json"};
const Pattern kRing{"ring", "dp",
                    R"json("for k in range({}):", "  group:", "    send(x, to=next)",
     "    y = recv(like=x, from=prev)", "  x = x + y")json"};
// A ring without `group:`: even ranks send first, odd ranks receive first.
const Pattern kBranchingRing{
    "branching ring", "dp",
    R"json("for k in range({}):", "  if rank % 2 == 0:", "    send(x, to=next)",
     "    y = recv(like=x, from=prev)", "  else:", "    y = recv(like=x, from=prev)",
     "    send(x, to=next)", "  x = x + y")json"};
// Recursive doubling without `group:`: in round k, the branch of a rank is its bit k.
const Pattern kHypercube{
    "hypercube", "dp",
    R"json("for k in range({}):", "  if rank // 2 ** k % 2 == 0:", "    send(x, to=rank + 2 ** k)",
     "    y = recv(like=x, from=rank + 2 ** k)", "  else:", "    y = recv(like=x, from=rank - 2 ** k)",
     "    send(x, to=rank - 2 ** k)", "  x = x + y")json"};
const Pattern kPipeline{"pipeline", "pp",
                        R"json("for m in range({}):", "  h = x * (m + 1)", "  if rank > 0:",
     "    h = recv(like=x, from=rank - 1)", "  h = h + 1", "  if rank < world - 1:",
     "    send(h, to=rank + 1)")json"};
// Rank 0 receives from all others, one after the other.
const Pattern kStar{"star", "dp",
                    R"json("for k in range({}):", "  if rank > 0:", "    send(x, to=0)",
     "  if rank == 0:", "    for i in range(1, world):", "      y = recv(like=x, from=i)",
     "      x = x + y")json"};
// Each rank sends a shape of its own, so that the call is another one on each rank.
const Pattern kOwnShape{
    "own shapes", "dp",
    R"json("for k in range({}):", "  group:", "    send(x * ones([rank % 509 + 1]), to=next)",
     "    y = recv(shape=[(rank + world - 1) % world % 509 + 1], from=prev)")json"};
// Each rank puts into a slot of its own.
const Pattern kOwnSlot{"own slots", "dp",
                       R"json("for k in range({}):", "  put(x, to=next, slot=rank)",
     "  wait_signal(from=prev, slot=(rank + world - 1) % world)")json"};
const Pattern kUnrolled{"unrolled instructions", "dp",
                        R"json("for k in range({}):", "  x = x + w")json"};

std::string write_scenario(const Pattern& pattern, int64_t ranks, int64_t rounds) {
  const std::string path =
      fmt::format("{}/point_to_point_{}_{}_{}.json", SHARDPROOF_BENCH_FOLDER,
                  pattern.name.substr(0, pattern.name.find(' ')), ranks, rounds);
  std::ofstream(path) << fmt::format(
      R"json({{"version": 1, "mesh": "{0}={1}",
 "tensors": {{"x": {{"shape": [{1}], "placements": "{0}:S(0)"}}, "w": {{"shape": [1]}}}},
 "ranks": {{"all": [{2}]}}}})json",
      pattern.axis, ranks, fmt::format(fmt::runtime(pattern.lines), rounds));
  return path;
}

struct Limits {
  double seconds = 0;
  int64_t megabytes = 0;
};

void print_pattern(const Pattern& pattern, int64_t ranks, int64_t rounds, Limits target) {
  const std::string one = write_scenario(pattern, ranks, 1);
  const std::string all = write_scenario(pattern, ranks, rounds);
  int64_t peak_of_one = 0, peak = 0;
  const auto run = [](const std::string& path, int64_t& peak_of_run) {
    peak_of_run = run_child({SHARDPROOF_TOOL, "run", path});
  };
  const std::vector<double> s = race({{[&] { run(one, peak_of_one); }, 1, RUSAGE_CHILDREN},
                                      {[&] { run(all, peak); }, 1, RUSAGE_CHILDREN}},
                                     3);
  print({fmt::format("{}, {} ranks, {} rounds", pattern.name, ranks, rounds),
         fmt::format("{}, {}", milliseconds(s[1]), megabytes(peak)),
         fmt::format("one round: {}, {}", milliseconds(s[0]), megabytes(peak_of_one)),
         fmt::format("{:.1f}", s[1] / s[0]),
         fmt::format("{}, {} MB", milliseconds(target.seconds), target.megabytes)});
}

}  // namespace

int main() {
  print_head();
  print_pattern(kDissemination, 4096, 12, {0.5, 200});
  print_pattern(kDissemination, 16384, 10, {0.5, 200});
  print_pattern(kDissemination, 131072, 17, {8, 2000});
  print_pattern(kRing, 4096, 10, {0.5, 200});
  print_pattern(kRing, 16384, 10, {0.5, 200});
  print_pattern(kBranchingRing, 4096, 10, {0.5, 200});
  print_pattern(kBranchingRing, 16384, 10, {1.5, 200});
  print_pattern(kHypercube, 4096, 12, {0.5, 200});
  print_pattern(kHypercube, 16384, 14, {1, 200});
  print_pattern(kPipeline, 4096, 4, {0.5, 200});
  print_pattern(kPipeline, 16384, 4, {1, 500});
  print_pattern(kStar, 4096, 3, {1.5, 200});
  for (const int64_t ranks : {1024, 4096, 16384}) {
    print_pattern(kOwnShape, ranks, 4, {0.1e-3 * static_cast<double>(ranks), 500});
    print_pattern(kOwnSlot, ranks, 4, {0.1e-3 * static_cast<double>(ranks), 500});
  }
  print_pattern(kUnrolled, 4, 10'000, {0.03, 10});
}
