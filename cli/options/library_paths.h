// Search for libraries of NVIDIA's Python packages.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

// Returns the library folders of NVIDIA's Python packages, such as NCCL and cuBLASLt. Order: each
// python3 on the PATH and its link targets, the active virtual or conda environment, ~/.local,
// /usr/local, /usr.
std::vector<std::string> library_folders();

}  // namespace shardproof
