// DeviceMemory: a place beside the host where contents can live. Addresses it gives mean nothing to
// the host; work is ordered by the stream that is current when it is asked for.
// Not thread-safe; a run uses one OS thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // 256-byte aligned; bytes > 0. Throws Error(limit) when the device has no more.
  virtual std::byte* allocate(int64_t bytes) = 0;
  // Any stream may still read or write it: it is given away after what was asked for so far.
  virtual void release(std::byte* memory, int64_t bytes) noexcept = 0;
  // After the work of the current stream; done, for every stream, when it returns.
  virtual void to_device(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual void to_host(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  // In the current stream.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
};

}  // namespace shardproof
