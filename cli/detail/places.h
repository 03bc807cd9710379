// Where this machine keeps libraries beside the system's own places.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

// Folders of the NCCL that comes as a Python package: of each python on the PATH, then of the
// system's own.
std::vector<std::string> library_folders();

}  // namespace shardproof
