// What the ranks of a job hold of each compared value, beside what one device computes, without the
// judge: partition or lower, run on simulated ranks, assemble.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

struct HeldValue {
  std::string name;
  int line = 0;  // that binds it: of the global program, or of the listing of the ranks
  Tensor ranks;  // assembled; replicas are read from the first rank
  Tensor one_device;
};

// Named values of a global program in program order; outputs of a rank program in their order.
// Values of a loop have one entry a pass. Throws Error for bad input and for data-dependent
// trouble.
std::vector<HeldValue> run_on_ranks(const Job& job, const Registries& registries);

}  // namespace shardproof
