// nccl_probe on stand-ins: whether the probe itself is right.
#include "shardproof/tests/gpu/nccl_probe.h"
#include "shardproof/tests/gpu/stand_in/nccl.h"
#include "shardproof/tests/gpu/stand_in/stand_in.h"

int main(int argc, char** argv) {
  using namespace shardproof;
  const StandIn machine(machine_in_environment());
  return probe_main(argc, argv, stand_in::nccl_parts(machine.api()));
}
