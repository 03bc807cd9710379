// The whole tool on a machine whose GPU is a stand-in.
#include "shardproof/cli/cli.h"
#include "shardproof/tests/gpu/stand_in/kernels.h"
#include "shardproof/tests/gpu/stand_in/stand_in.h"

int main(int argc, char** argv) {
  const shardproof::StandIn stand_in;
  const shardproof::Registries registries{shardproof::builtin_ops(), shardproof::builtin_backends(),
                                          stand_in.api(), shardproof::stand_in_kernels()};
  return shardproof::cli_main(argc, argv, registries);
}
