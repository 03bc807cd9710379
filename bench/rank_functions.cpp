// The process that fiber_bench and peers.py measure: ranks as C++ functions on fibers.
// `rank_functions RANKS CALLS ELEMENTS` makes CALLS all-reduces of ELEMENTS f32 over all ranks, on
// a machine with a clock. peers_smpi.cpp is the same program under MPI.
#include <cstdio>
#include <cstdlib>

#include "shardproof/backends/api/rank_context.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/cost/cost_model.h"

namespace {

using namespace shardproof;

// The input of rank r holds r % 3 in every element, so that each element of the result is known.
Tensor own_data(int64_t rank, int64_t elements) {
  Tensor x = Tensor::empty(DType::f32, {elements});
  auto* data = reinterpret_cast<float*>(x.mutate());
  for (int64_t i = 0; i < elements; ++i) data[i] = static_cast<float>(rank % 3);
  return x;
}

float sum_of_all(int64_t ranks) {
  float sum = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) sum += static_cast<float>(rank % 3);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: rank_functions RANKS CALLS ELEMENTS\n");
    return 2;
  }
  const int64_t ranks = std::atoll(argv[1]), calls = std::atoll(argv[2]);
  const int64_t elements = std::atoll(argv[3]);
  const float expected = sum_of_all(ranks);
  RanksOptions options;
  options.world.cost = flat_machine({{5'000'000}, 50e9});
  const WorldReport report = run_ranks(
      ranks,
      [&](RankContext& me) {
        const Tensor x = own_data(me.rank(), elements);
        for (int64_t call = 0; call < calls; ++call) {
          const Tensor y = me.all_reduce(x);
          const auto* data = reinterpret_cast<const float*>(y.data());
          SP_CHECK(data[0] == expected && data[elements - 1] == expected, "a wrong sum");
        }
      },
      options);
  std::printf("virtual %s\n", to_string(report.time).c_str());
  return report.findings.empty() && report.rank_errors.empty() ? 0 : 1;
}
