#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

}  // namespace

std::byte* Device::allocate(int64_t bytes) {
  select();
  void* memory = nullptr;
  const int status = api_.allocate(&memory, static_cast<size_t>(bytes), current_stream_);
  if (status == kOutOfMemory) {
    api_.last_error();
    throw Error(ErrorKind::limit,
                fmt::format("{} has no {} bytes left for a tensor", description(), bytes));
  }
  check(status, "allocating");
  return static_cast<std::byte*>(memory);
}

// A device that broke tells so at the next call that may fail.
void Device::release(std::byte* memory, int64_t /*bytes*/) noexcept {
  try {
    select();
    void* stream = current_stream_;
    if (streams_.size() > 1) {
      if (release_stream_ == nullptr) check(api_.make_stream(&release_stream_), "making a stream");
      await_all(release_stream_);
      stream = release_stream_;
    }
    api_.release(memory, stream);
  } catch (const Error&) {
  }
}

void Device::to_device(std::byte* device, const std::byte* host, int64_t bytes) {
  select();
  check(api_.copy(device, host, static_cast<size_t>(bytes), CudaCopy::to_device, current_stream_),
        "copying to it");
  // Whatever stream reads the contents next finds them.
  check(api_.synchronize_stream(current_stream_), "copying to it");
}

void Device::to_host(std::byte* host, const std::byte* device, int64_t bytes) {
  select();
  check(api_.copy(host, device, static_cast<size_t>(bytes), CudaCopy::to_host, current_stream_),
        "copying from it");
  check(api_.synchronize_stream(current_stream_), "copying from it");
}

void Device::copy(std::byte* to, const std::byte* from, int64_t bytes) {
  select();
  check(api_.copy(to, from, static_cast<size_t>(bytes), CudaCopy::on_device, current_stream_),
        "copying on it");
}

}  // namespace shardproof
