// DeviceMemory: memory of a device, separate from the host's. Its addresses are not valid on the
// host. Work is ordered by the stream that is current at the call. Not thread-safe; a run uses one
// OS thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardproof {

// Rows of a matrix in two layouts on one device. Rows begin `to_pitch` and `from_pitch` bytes
// apart, at least `width`.
struct MatrixCopy {
  std::byte* to = nullptr;
  int64_t to_pitch = 0;
  const std::byte* from = nullptr;
  int64_t from_pitch = 0;
  int64_t width = 0;  // bytes of a row that are copied
  int64_t rows = 0;
};

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  // Returns 256-byte aligned memory. Requires bytes > 0. Throws Error(limit) if the device has no
  // more.
  virtual std::byte* allocate(int64_t bytes) = 0;
  // Releases memory that only the current stream has used, in that stream's order.
  virtual void release(std::byte* memory, int64_t bytes) noexcept = 0;
  // Releases memory that `streams` have used: it is reused only after all work that they have
  // enqueued so far.
  virtual void release(std::byte* memory, int64_t bytes, std::span<const int> streams) noexcept = 0;
  // Returns new memory with these contents. They are complete, for every stream, on return. Does
  // not wait for any stream.
  virtual std::byte* upload(const std::byte* host, int64_t bytes) = 0;
  // Copies after the work of the current stream; complete, for every stream, on return.
  virtual void to_device(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual void to_host(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  // Enqueues a copy on the device in the current stream.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  virtual void copy(const MatrixCopy& rows) = 0;
  // Enqueues bytes of 0 in the current stream.
  virtual void clear(std::byte* to, int64_t bytes) = 0;

  virtual int current() const = 0;  // number of the current stream
  // Makes later work of the current stream wait for all work that `streams` have enqueued so far.
  virtual void follow(std::span<const int> streams) = 0;
};

}  // namespace shardproof
