// nccl_probe on fake GPUs: tests the probe itself.
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"
#include "shardproof/tests/gpu/nccl/nccl_probe.h"

int main(int argc, char** argv) {
  using namespace shardproof;
  const FakeGpu machine(machine_in_environment());
  return probe_main(argc, argv, fake_gpu::nccl_parts(machine.api()));
}
