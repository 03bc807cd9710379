// Tests exchanges that need several MPI calls: this program starts itself under mpirun, with a
// transport that gives MPI three elements at a time.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "shardproof/backends/bench/exact_inputs.h"
#include "shardproof/backends/mpi/mpi_transport.h"

namespace shardproof {
namespace {

constexpr int64_t kMost = 3;
constexpr CollectiveKind kKinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::reduce,
    CollectiveKind::gather,     CollectiveKind::scatter,    CollectiveKind::send};

int64_t wrong_elements(Transport& transport) {
  int64_t wrong = 0;
  for (const CollectiveKind kind : kKinds)
    for (const int64_t ranks : {transport.processes(), 2 * transport.processes() + 1})
      for (const int64_t each : {0, 1, 5, 6}) {
        CollectiveBenchmark r;
        r.collective.kind = kind;
        r.collective.group = Group::world(ranks);
        r.collective.count = each * ranks;
        r.collective.root = has_root(kind) ? ranks - 1 : 0;
        r.times = 2;
        wrong += run_process_benchmark(transport, r).wrong;
      }
  return wrong;
}

TEST(MpiTransport, Exchange_OfSeveralMpiCalls_ArrivesWhole) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const int processes : {1, 2, 3, 4}) {
    const std::string start =
        "mpirun --allow-run-as-root --oversubscribe --mca pml ob1 --mca btl "
        "self,vader --mca btl_vader_single_copy_mechanism none -n ";
    const std::string command = start + std::to_string(processes) + " '" + self + "' --process";
    EXPECT_EQ(std::system(command.c_str()), 0) << processes << " processes";
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--process") {
    const auto transport = shardproof::mpi_transport(shardproof::kMost);
    return shardproof::wrong_elements(*transport) == 0 ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
