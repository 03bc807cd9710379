// A kernel runs an op on the local tensors of many lanes in one call. It is made once for (attrs,
// dtypes, shapes), runs many times and holds no data of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/ops/core/kernel_plan.h"

namespace shardproof {

class Gemm;  // localtensor/tensor/gemm.h

// One tensor argument of a kernel. Element 0 of lane i is at base + (slots ? slots[i] : i) *
// lane_stride. With lane_stride 0 every lane reads the same copy.
struct LaneView {
  std::byte* base = nullptr;  // null: an absent optional input
  int64_t lane_stride = 0;    // bytes
  const int32_t* slots = nullptr;
  DType dtype = DType::f32;
  Dims shape, strides;  // local; strides in elements; dense row-major unless accepts_strides
  std::byte* at(int64_t lane) const { return base + (slots ? slots[lane] : lane) * lane_stride; }
};

// For form `needs_shard_index`: the place of each lane's local block in the global tensors.
struct ShardInfo {
  const std::vector<Spec>* inputs = nullptr;
  const std::vector<Spec>* outputs = nullptr;
  std::vector<int32_t> ranks;  // for each kernel lane, a rank whose share the specs state
};

struct KernelCall {
  int64_t lanes = 1;
  const std::vector<LaneView>* inputs = nullptr;
  const std::vector<LaneView>* outputs = nullptr;  // dense, distinct memory from the inputs
  std::byte* workspace = nullptr;
  const ShardInfo* shard = nullptr;  // null: the local tensors are the whole tensors
  // For device kernels, whose views and workspace are device memory: the memory and a cudaStream_t.
  DeviceMemory* memory = nullptr;
  void* stream = nullptr;
  Gemm* gemm = nullptr;  // multiplies matrices in that stream; null: kernels multiply themselves
};

// Requires of `run`: it loops over the lanes and allocates nothing.
struct Kernel {
  std::function<void(const KernelCall&)> run;
  int64_t workspace_bytes = 0;  // for one call with all its lanes
  bool accepts_strides =
      false;  // true: inputs may be strided views; false: the caller makes them dense
  KernelPlan plan = {};
  // Set on device kernels: true if the kernel can run these parts of a whole. Empty: it runs none.
  std::function<bool(const ShardInfo&)> can_run_shards = {};
};

}  // namespace shardproof
