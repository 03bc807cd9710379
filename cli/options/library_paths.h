// Where this machine keeps libraries beside the system's own places.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

// Folders of the libraries of NVIDIA's that come as Python packages, NCCL and cuBLASLt among them:
// of each python3 on the PATH and what it is a link to, of the environment that is active, then of
// the user and of the system's own.
std::vector<std::string> library_folders();

}  // namespace shardproof
