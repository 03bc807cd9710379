// Measures whole processes `shardproof run file.json`: a rank listing of four all-reduces of one
// f32, with data and virtual time on a flat machine.
#include <fstream>

#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

int64_t run_file(const std::string& path) { return run_child({SHARDPROOF_TOOL, "run", path}); }

std::string write_scenario(int64_t ranks) {
  const std::string path = fmt::format("{}/listing_{}.json", SHARDPROOF_BENCH_FOLDER, ranks);
  std::ofstream(path) << fmt::format(
      R"json({{"version": 1, "mesh": "dp={0}",
 "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
 "tensors": {{"x": {{"shape": [{0}], "placements": "dp:S(0)"}}}},
 "ranks": {{"all": ["a = all_reduce(x, sum)", "b = all_reduce(a, sum)",
                   "c = all_reduce(b, sum)", "d = all_reduce(c, sum)"]}}}})json",
      ranks);
  return path;
}

void print_listing(int64_t ranks, double target) {
  const std::string one = write_scenario(1), many = write_scenario(ranks);
  const std::vector<double> s = race({{[&] { run_file(one); }, 5, RUSAGE_CHILDREN},
                                      {[&] { run_file(many); }, 3, RUSAGE_CHILDREN}});
  print({fmt::format("4 all_reduce, listing, {} ranks, whole process", ranks), milliseconds(s[1]),
         "the same on 1 rank: " + milliseconds(s[0]), fmt::format("{:.1f}", s[1] / s[0]),
         milliseconds(target)});
}

// Measures the peak memory of 5 all-reduces of 1 MiB that differ by rank, and that of their inputs.
void print_memory() {
  constexpr int64_t kRanks = 256, kElements = 1 << 18;
  const std::string path = fmt::format("{}/listing_mib.json", SHARDPROOF_BENCH_FOLDER);
  std::ofstream(path) << fmt::format(
      R"json({{"version": 1, "mesh": "dp={0}",
 "tensors": {{"x": {{"shape": [{1}], "placements": "dp:S(0)"}}}},
 "ranks": {{"all": ["a = all_reduce(x, sum)", "b = all_reduce(x, sum)", "c = all_reduce(x, sum)",
                   "d = all_reduce(x, sum)", "e = all_reduce(x, sum)"]}}}})json",
      kRanks, kRanks * kElements);
  const int64_t inputs = kRanks * kElements * 4, peak = run_file(path);
  print({"5 all_reduce of 1 MiB, listing, 256 ranks, peak memory", megabytes(peak),
         "the inputs: " + megabytes(inputs),
         fmt::format("{:.2f}", static_cast<double>(peak) / static_cast<double>(inputs)), "1.5"});
}

}  // namespace

int main() {
  print_head();
  print_listing(4096, 0.03);
  print_listing(16384, 0.05);
  print_listing(65536, 0.15);
  print_memory();
}
