// ScopedDeviceMemory: memory of a device for as long as this lives. It is given back behind the
// work that was asked for, also when what comes next throws.
#pragma once

#include <utility>

#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {

class ScopedDeviceMemory {
 public:
  ScopedDeviceMemory() = default;  // none
  // None of 0 bytes. Throws Error(limit) when the device has no more.
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
  std::byte* start() const { return start_; }  // null: none

 private:
  DeviceMemory* memory_ = nullptr;
  int64_t bytes_ = 0;
  std::byte* start_ = nullptr;
};

}  // namespace shardproof
