// Runs a job on simulated ranks and on one device without the judge, and returns each compared
// value of both.
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

struct HeldValue {
  std::string name;
  int line = 0;  // binds it, in the global program or in the listing of the ranks
  Tensor ranks;  // assembled; replicas are read from the first rank
  Tensor one_device;
};

// Returns the named values of a global program in program order, or the outputs of a rank program
// in their order. Values of a loop have one entry for each pass. Throws Error for bad input and for
// errors that depend on data.
std::vector<HeldValue> run_on_ranks(const Job& job, const Registries& registries);

}  // namespace shardproof
