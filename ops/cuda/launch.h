// Launching: a body is a function of an index, run for 0..n-1 by a grid of threads. Compilers other
// than nvcc make plain loops of the same bodies, which the fake GPU runs when its stream reaches
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace shardproof {

struct CudaTarget;
struct HostTarget;

// Returns the kernels that this program can launch on a GPU.
std::vector<const void*>& listed_kernels();

#ifdef __CUDACC__

using Target = CudaTarget;

template <typename Body>
__global__ void run_grid(const Body body, const int64_t n) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads)
    body(i);
}

template <typename Body>
inline const bool kListed =
    (listed_kernels().push_back(reinterpret_cast<const void*>(&run_grid<Body>)), true);

template <typename Body>
void launch(void* stream, int64_t n, const Body& body) {
  constexpr int kThreads = 256;
  constexpr int64_t kMostBlocks = 132 * 16;
  if (n <= 0 || !kListed<Body>) return;
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  run_grid<<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(body, n);
}

#else

using Target = HostTarget;

// Enqueues work in a stream of the fake GPU, which implements this function.
void run_late(void* stream, std::function<void()> work);

template <typename Body>
void launch(void* stream, int64_t n, const Body& body) {
  if (n <= 0) return;
  run_late(stream, [=] {
    for (int64_t i = 0; i < n; ++i) body(i);
  });
}

#endif

}  // namespace shardproof
