// Topology: a machine as scenarios and the command line write it: "ideal", flat(latency='5 us',
// bandwidth='50 GB/s'), or a .json file with these two keys.
#pragma once

#include <memory>
#include <string>

#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

// `folder` is where a relative file is looked for. Throws Error.
std::shared_ptr<const CostModel> parse_topology(const std::string& text, const std::string& folder);

}  // namespace shardproof
