// DeviceMemory: a place beside the host where contents can live. Addresses it gives mean nothing to
// the host; work is ordered by the stream that is current when it is asked for.
// Not thread-safe; a run uses one OS thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardproof {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // 256-byte aligned; bytes > 0. Throws Error(limit) when the device has no more.
  virtual std::byte* allocate(int64_t bytes) = 0;
  // No stream but the current one was asked to read or write it.
  virtual void release(std::byte* memory, int64_t bytes) noexcept = 0;
  // These were: it is given away behind all that they were asked for so far.
  virtual void release(std::byte* memory, int64_t bytes, std::span<const int> streams) noexcept = 0;
  // New memory with these contents, there for every stream when it returns. It waits for none.
  virtual std::byte* upload(const std::byte* host, int64_t bytes) = 0;
  // After the work of the current stream; done, for every stream, when it returns.
  virtual void to_device(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual void to_host(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  // In the current stream.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;

  virtual int current() const = 0;  // number of the current stream
  // What it is asked for from here on comes behind what these were asked for so far.
  virtual void follow(std::span<const int> streams) = 0;
};

}  // namespace shardproof
