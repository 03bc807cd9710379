// The peer of listing_bench: the same four all-reduces of one float as an MPI program under
// SimGrid's SMPI, which keeps the data too. Built with smpicxx, run by peers.sh.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  float x = 1, y = 0;
  for (int i = 0; i < 4; ++i) {
    MPI_Allreduce(&x, &y, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    x = y;
  }
  MPI_Finalize();
}
