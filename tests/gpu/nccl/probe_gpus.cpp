// nccl_probe on the GPUs of this machine.
#include "shardproof/cli/options/library_paths.h"
#include "shardproof/tests/gpu/nccl/nccl_probe.h"

int main(int argc, char** argv) {
  shardproof::NcclDependencies parts;
  parts.places.folders = shardproof::library_folders();
  parts.cuda = shardproof::runtime_cuda_api(parts.places.folders);
  return shardproof::probe_main(argc, argv, parts);
}
