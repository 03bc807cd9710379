// What nvcc puts in the place of `kernel<<<..>>>()`, for a program without a GPU: the few functions
// of the CUDA runtime that such code calls are defined here, and run the kernel's PTX, as it lies
// in the program, when a FakeGpu's stream comes to it. A program that links this launches nothing
// else.
#pragma once

#include <set>
#include <string>

namespace shardproof::ptx {

// The names of all kernels, as they are in the source, and of those that were launched so far.
std::set<std::string> all_kernels();
std::set<std::string> launched_kernels();
// Those whose attributes were asked for.
std::set<std::string> loaded_kernels();

}  // namespace shardproof::ptx
