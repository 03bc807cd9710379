// Measures ranks that are C++ functions on fibers, as whole processes:
// - four all-reduces of one f32 over all ranks with virtual time;
// - the peak memory of five all-reduces of much data compared with that of their inputs;
// - the switch between fibers alone.
#include "shardproof/bench/measure.h"
#include "shardproof/sim/fiber/fiber.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

int64_t run_functions(int64_t ranks, int64_t calls, int64_t elements) {
  return run_child({SHARDPROOF_RANK_FUNCTIONS, std::to_string(ranks), std::to_string(calls),
                    std::to_string(elements)});
}

void print_four(int64_t ranks, double target) {
  const std::vector<double> s = race({{[] { run_functions(1, 4, 1); }, 5, RUSAGE_CHILDREN},
                                      {[&] { run_functions(ranks, 4, 1); }, 1, RUSAGE_CHILDREN}});
  print({fmt::format("4 all_reduce, C++ functions on fibers, {} ranks, whole process", ranks),
         milliseconds(s[1]), "the same on 1 rank: " + milliseconds(s[0]),
         fmt::format("{:.1f}", s[1] / s[0]), milliseconds(target)});
}

void print_memory() {
  constexpr int64_t kRanks = 256, kElements = 1 << 18;
  const int64_t inputs = kRanks * kElements * 4, peak = run_functions(kRanks, 5, kElements);
  print({"5 all_reduce of 1 MiB, C++ functions on fibers, 256 ranks, peak memory", megabytes(peak),
         "the inputs: " + megabytes(inputs),
         fmt::format("{:.2f}", static_cast<double>(peak) / static_cast<double>(inputs)), "1.5"});
}

double switch_seconds(int64_t fibers) {
  constexpr int64_t kRounds = 100;
  FiberPool pool;
  for (int64_t i = 0; i < fibers; ++i)
    pool.spawn([&pool, i] {
      for (int64_t round = 0; round < kRounds; ++round) pool.suspend(i);
    });
  pool.run();
  const double seconds = seconds_of([&] {
    while (pool.alive() > 0) {
      for (int64_t i = 0; i < fibers; ++i) pool.wake(i);
      pool.run();
    }
  });
  return seconds / static_cast<double>(fibers * kRounds);
}

}  // namespace

int main() {
  print_head();
  print_four(4096, 0.05);
  print_four(16384, 0.3);
  print_memory();
  const double few = switch_seconds(64), many = switch_seconds(16384);
  print({"switch there and back, 16384 fibers", fmt::format("{:.0f} ns", many * 1e9),
         fmt::format("64 fibers: {:.0f} ns", few * 1e9), fmt::format("{:.1f}", many / few), ""});
}
