// A kernel: what runs an op on the local tensors of many lanes in one call. Made once for (attrs,
// dtypes, shapes), run many times; holds no data of its own.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

class Gemm;  // localtensor/tensor/gemm.h

// One tensor argument of a kernel: lane i's element 0 is at base + (slots ? slots[i] : i) *
// lane_stride. lane_stride 0: every lane reads the same copy.
struct LaneView {
  std::byte* base = nullptr;  // null: an absent optional input
  int64_t lane_stride = 0;    // bytes
  const int32_t* slots = nullptr;
  DType dtype = DType::f32;
  Dims shape, strides;  // local; strides in elements. Dense row-major unless accepts_strides
  std::byte* at(int64_t lane) const { return base + (slots ? slots[lane] : lane) * lane_stride; }
};

// For kernels of form `shard`: where each lane's local block lies in the global tensors.
struct ShardInfo {
  const std::vector<Spec>* inputs = nullptr;
  const std::vector<Spec>* outputs = nullptr;
  std::vector<int32_t> ranks;  // of each kernel lane, a rank to ask the specs about
};

struct KernelCall {
  int64_t lanes = 1;
  const std::vector<LaneView>* inputs = nullptr;
  const std::vector<LaneView>* outputs = nullptr;  // dense, distinct memory from the inputs
  std::byte* workspace = nullptr;
  const ShardInfo* shard = nullptr;  // null: the local tensors are the whole
  // Of device kernels, whose views and workspace lie on the device: the memory, and CUDA's stream.
  DeviceMemory* memory = nullptr;
  void* stream = nullptr;
  Gemm* gemm = nullptr;  // multiplies matrices in that stream; null: kernels do it themselves
};

// Loops lanes inside, allocates nothing.
struct Kernel {
  std::function<void(const KernelCall&)> run;
  int64_t workspace_bytes = 0;   // for one call, all lanes
  bool accepts_strides = false;  // inputs may be strided views; else they are made dense first
  // What the kernel does, as the plan of its family; kernels for a device are made from it
  // (device_kernels.h). Empty: it runs on the host only.
  std::any plan = {};
  // Of a device kernel: whether it can do these parts of a whole. Empty: none.
  std::function<bool(const ShardInfo&)> takes_shards = {};
};

}  // namespace shardproof
