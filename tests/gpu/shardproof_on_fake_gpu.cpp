// The whole tool on a machine with fake GPUs and a fake NCCL.
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/cli/cli.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"

int main(int argc, char** argv) {
  using namespace shardproof;
  const FakeGpu machine(machine_in_environment());
  const Registries registries{
      builtin_ops(),
      {instrumented(local_backend()), nccl_backend(fake_gpu::nccl_parts(machine.api()))},
      machine.api(),
      fake_kernels()};
  return cli_main(argc, argv, registries);
}
