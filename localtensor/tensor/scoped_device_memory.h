// ScopedDeviceMemory: device memory that is released at the end of a scope, also if an exception
// leaves it. The release is ordered after the work that the current stream has enqueued.
#pragma once

#include <utility>

#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {

class ScopedDeviceMemory {
 public:
  ScopedDeviceMemory() = default;  // no memory
  // Allocates nothing for 0 bytes. Throws Error(limit) if the device has no more memory.
  ScopedDeviceMemory(DeviceMemory& memory, int64_t bytes)
      : memory_(&memory), bytes_(bytes), start_(bytes > 0 ? memory.allocate(bytes) : nullptr) {}
  ScopedDeviceMemory(ScopedDeviceMemory&& other) noexcept
      : memory_(other.memory_),
        bytes_(other.bytes_),
        start_(std::exchange(other.start_, nullptr)) {}
  ScopedDeviceMemory& operator=(ScopedDeviceMemory&&) = delete;
  ~ScopedDeviceMemory() {
    if (start_ != nullptr) memory_->release(start_, bytes_);
  }
  std::byte* start() const { return start_; }  // null if there is no memory

 private:
  DeviceMemory* memory_ = nullptr;
  int64_t bytes_ = 0;
  std::byte* start_ = nullptr;
};

}  // namespace shardproof
