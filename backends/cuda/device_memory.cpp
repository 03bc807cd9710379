// Implements the memory part of device.h: allocation in stream order, copies.
#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/cuda/device_graph.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

}  // namespace

std::byte* Device::allocate(int64_t bytes) {
  return recording_ != nullptr ? recording_->allocate(*this, bytes)
                               : allocate_in(begin_operation(), bytes);
}

int Device::try_to_allocate(void** memory, int64_t bytes, void* stream) {
  const int status = api_.allocate(memory, static_cast<size_t>(bytes), stream);
  if (status == kOutOfMemory) api_.last_error();
  return status;
}

std::byte* Device::allocate_in(void* stream, int64_t bytes) {
  void* memory = nullptr;
  int status = try_to_allocate(&memory, bytes, stream);
  // Freed memory becomes available when its streams reach the free: allocation does not make one
  // stream wait for the memory of another.
  if (status == kOutOfMemory && recording_ == nullptr) {
    synchronize();
    status = try_to_allocate(&memory, bytes, stream);
  }
  if (status == kOutOfMemory) {
    throw Error(ErrorKind::limit,
                fmt::format("{} has no {} bytes left for a tensor", description(), bytes));
  }
  check(status, "allocating");
  return static_cast<std::byte*>(memory);
}

// Throws nothing: if the device failed, a later call reports it.
void Device::release(std::byte* memory, int64_t bytes) noexcept {
  const int own[] = {current_};
  release(memory, bytes, own);
}

// Memory that several streams used is freed in a stream of its own, which waits for all of them. A
// stream of the program would delay its later work.
void Device::release(std::byte* memory, int64_t bytes, std::span<const int> streams) noexcept {
  try {
    if (recording_ != nullptr) return recording_->release(*this, memory, bytes, streams);
    select();
    if (streams.size() == 1) {
      api_.release(memory, stream_numbered(streams.front()).handle);
      return;
    }
    if (release_stream_ == nullptr) check(api_.make_stream(&release_stream_), "making a stream");
    for (const int stream : streams) wait_for_stream(release_stream_, stream);
    api_.release(memory, release_stream_);
  } catch (const Error&) {
  }
}

void* Device::upload_stream() {
  select();
  if (upload_stream_ == nullptr) check(api_.make_stream(&upload_stream_), "making a stream");
  return upload_stream_;
}

std::byte* Device::allocate_for_upload(int64_t bytes) {
  return allocate_in(upload_stream(), bytes);
}

void Device::finish_upload() { finish(upload_stream()); }

// Copies in a stream of its own: the contents need not wait for the work of the current stream.
std::byte* Device::upload(const std::byte* host, int64_t bytes) {
  ++host_copies_;
  std::byte* const memory = allocate_for_upload(bytes);
  const auto size = static_cast<size_t>(bytes);
  check(api_.copy(memory, host, size, CudaCopy::to_device, upload_stream_), "copying to it");
  finish_upload();
  return memory;
}

// A copy of pageable memory blocks the host. If a function runs while the host waits
// (call_while_waiting), the stream is finished first. Any stream may read the contents next.
void Device::copy_with_host(void* to, const void* from, int64_t bytes, CudaCopy way) {
  ++host_copies_;
  void* const stream = begin_operation();
  if (during_wait_ || recording_ != nullptr) finish(stream);
  check(api_.copy(to, from, static_cast<size_t>(bytes), way, stream),
        way == CudaCopy::to_device ? "copying to it" : "copying from it");
  finish(stream);
}

void Device::to_device(std::byte* device, const std::byte* host, int64_t bytes) {
  copy_with_host(device, host, bytes, CudaCopy::to_device);
}

void Device::to_host(std::byte* host, const std::byte* device, int64_t bytes) {
  copy_with_host(host, device, bytes, CudaCopy::to_host);
}

void Device::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  check(api_.copy(to, from, static_cast<size_t>(bytes), CudaCopy::on_device, begin_operation()),
        "copying on it");
}

void Device::copy(const MatrixCopy& rows) {
  check(api_.copy_rows(rows, begin_operation()), "copying rows on it");
}

void Device::clear(std::byte* to, int64_t bytes) {
  check(api_.clear(to, static_cast<size_t>(bytes), begin_operation()), "clearing memory on it");
}

}  // namespace shardproof
