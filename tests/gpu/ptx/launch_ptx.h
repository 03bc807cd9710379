// Replaces `kernel<<<..>>>()` in a program without a GPU: defines the few functions of the CUDA
// runtime that nvcc's code calls. They run the kernel's PTX, which the program holds, when a fake
// GPU's stream reaches the launch. A program that links this can launch nothing else.
#pragma once

#include <set>
#include <string>

namespace shardproof::ptx {

// Return the names of all kernels as in the source, and of those launched so far.
std::set<std::string> all_kernels();
std::set<std::string> launched_kernels();
// Returns the names of those whose attributes were queried.
std::set<std::string> loaded_kernels();

}  // namespace shardproof::ptx
