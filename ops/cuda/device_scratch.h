// Scratch memory of a kernel on a device.
#pragma once

#include "shardproof/localtensor/tensor/scoped_device_memory.h"
#include "shardproof/ops/core/kernel.h"

namespace shardproof {

// Device memory that exists as long as this object: one call.
template <typename T>
class DeviceScratch {
 public:
  DeviceScratch(const KernelCall& call, int64_t count)
      : memory_(*call.memory, count * static_cast<int64_t>(sizeof(T))) {}
  T* get() const { return reinterpret_cast<T*>(memory_.start()); }

 private:
  ScopedDeviceMemory memory_;
};

}  // namespace shardproof
