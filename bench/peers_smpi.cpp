// rank_functions.cpp as an MPI program for SimGrid's SMPI, which also computes the data. Usage:
// `smpi CALLS ELEMENTS`. peers.py builds it with smpicxx and runs it.
#include <mpi.h>

#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int calls = std::atoi(argv[1]), elements = std::atoi(argv[2]);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float expected = 0;
  for (int r = 0; r < ranks; ++r) expected += static_cast<float>(r % 3);
  const auto size = static_cast<std::size_t>(elements);
  const std::vector<float> x(size, static_cast<float>(rank % 3));
  std::vector<float> y(size);
  for (int call = 0; call < calls; ++call) {
    MPI_Allreduce(x.data(), y.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (y.front() != expected || y.back() != expected) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
