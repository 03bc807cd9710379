// Ranks as fibers: four all-reduces of one f32 over all ranks with virtual time, whole run, in
// seconds; then bare switches between fibers.
#include <cstdio>
#include <ctime>

#include "shardproof/backends/facade.h"
#include "shardproof/sim/cost_model.h"

namespace {

using namespace shardproof;

// Processor time: the program has one thread, and the machine may be shared.
double seconds_of(const std::function<void()>& run) {
  const std::clock_t start = std::clock();
  run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void four_all_reduces(int64_t ranks) {
  RanksOptions options;
  options.world.cost = flat_machine({{5'000'000}, 50e9});
  WorldReport report;
  const double seconds = seconds_of([&] {
    report = run_ranks(
        ranks,
        [](RankContext& me) {
          Tensor x = tensor_of(DType::f32, {1}, {1.0});
          for (int i = 0; i < 4; ++i) x = me.all_reduce(x);
        },
        options);
  });
  std::printf("fibers %6ld ranks   4 all_reduce   %8.4f s   virtual %s   findings %zu\n",
              static_cast<long>(ranks), seconds, to_string(report.time).c_str(),
              report.findings.size());
}

void switches(int64_t fibers) {
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
  std::printf("switch there and back, %6ld fibers   %6.1f ns\n", static_cast<long>(fibers),
              seconds * 1e9 / static_cast<double>(fibers * kRounds));
}

}  // namespace

int main() {
  for (const int64_t fibers : {64, 16384}) switches(fibers);
  for (const int64_t ranks : {256, 1024, 4096, 16384}) four_all_reduces(ranks);
}
