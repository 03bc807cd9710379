// Device memory of a kernel's own.
#pragma once

#include "shardproof/localtensor/device_memory.h"
#include "shardproof/ops/kernel.h"

namespace shardproof {

// Memory for as long as a call.
template <typename T>
class Room {
 public:
  Room(const KernelCall& call, int64_t count)
      : memory_(*call.memory), bytes_(count * static_cast<int64_t>(sizeof(T))) {
    if (bytes_ > 0) start_ = memory_.allocate(bytes_);
  }
  Room(const Room&) = delete;
  ~Room() {
    if (bytes_ > 0) memory_.release(start_, bytes_);
  }
  T* get() const { return reinterpret_cast<T*>(start_); }

 private:
  DeviceMemory& memory_;
  int64_t bytes_;
  std::byte* start_ = nullptr;
};

}  // namespace shardproof
