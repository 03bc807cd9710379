#include "shardproof/cli/cli.h"
#include "shardproof/cli/detail/places.h"

int main(int argc, char** argv) {
  const shardproof::Registries registries{
      shardproof::builtin_ops(), shardproof::builtin_backends(shardproof::library_folders()),
      shardproof::runtime_cuda_api(), shardproof::cuda_kernels()};
  return shardproof::cli_main(argc, argv, registries);
}
