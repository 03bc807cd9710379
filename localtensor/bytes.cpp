#include <cstring>
#include <utility>

#include "shardproof/localtensor/detail/pool.h"
#include "shardproof/localtensor/device_memory.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/tensor.h"

namespace shardproof {
namespace {

// What empty contents point to: never null, since memcpy and friends do not take null even for 0
// bytes.
alignas(detail::kPoolAlignment) std::byte nothing[detail::kPoolAlignment];

// Room for the contents on one device.
struct DeviceSide {
  DeviceSide(std::shared_ptr<DeviceMemory> where, int64_t bytes)
      : memory(std::move(where)), size(bytes), contents(memory->allocate(bytes)) {}
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;
  ~DeviceSide() { memory->release(contents, size); }

  std::shared_ptr<DeviceMemory> memory;
  int64_t size;
  std::byte* contents;
  bool valid = true;
};

}  // namespace

// Lies in one pool block with shared_ptr's counts before it and, unless the contents were made on a
// device, these behind it, at the next multiple of the alignment.
struct Bytes::Storage {
  // What contents that have been on a device know more.
  struct Mirror {
    bool host_valid = true;
    bool host_behind = true;  // the host's room lies behind the storage, else in `host`
    Bytes host;
    std::vector<std::unique_ptr<DeviceSide>> sides;
  };

  explicit Storage(int64_t bytes) : size(bytes) {}
  std::byte* host() { return mirror ? to_host() : behind(); }

  std::byte* behind() {
    const auto end = reinterpret_cast<uintptr_t>(this + 1);
    const size_t gap = (0 - end) % detail::kPoolAlignment;
    return reinterpret_cast<std::byte*>(this + 1) + gap;
  }
  std::byte* to_host();
  DeviceSide& on(const std::shared_ptr<DeviceMemory>& memory);
  // The side that holds valid contents on this device; null: none.
  DeviceSide* valid_on(const std::shared_ptr<DeviceMemory>& memory);
  void make_stale_but(const DeviceSide* written);  // null: the host's was written

  int64_t size;
  std::unique_ptr<Mirror> mirror;
};

std::byte* Bytes::Storage::to_host() {
  if (!mirror->host_behind && mirror->host.size() == 0) mirror->host = uninitialized(size);
  std::byte* host = mirror->host_behind ? behind() : mirror->host.mutate();
  if (mirror->host_valid) return host;
  for (const std::unique_ptr<DeviceSide>& side : mirror->sides)
    if (side->valid) {
      side->memory->to_host(host, side->contents, size);
      mirror->host_valid = true;
      return host;
    }
  SP_UNREACHABLE("contents of {} bytes are nowhere", size);
}

DeviceSide* Bytes::Storage::valid_on(const std::shared_ptr<DeviceMemory>& memory) {
  if (!mirror) return nullptr;
  for (const std::unique_ptr<DeviceSide>& side : mirror->sides)
    if (side->memory == memory && side->valid) return side.get();
  return nullptr;
}

DeviceSide& Bytes::Storage::on(const std::shared_ptr<DeviceMemory>& memory) {
  if (DeviceSide* side = valid_on(memory)) return *side;
  const std::byte* from = host();
  if (!mirror) mirror = std::make_unique<Mirror>();
  DeviceSide* stale = nullptr;
  for (const std::unique_ptr<DeviceSide>& side : mirror->sides)
    if (side->memory == memory) stale = side.get();
  if (stale == nullptr)
    stale = mirror->sides.emplace_back(std::make_unique<DeviceSide>(memory, size)).get();
  stale->valid = false;  // a copy that throws leaves it so
  memory->to_device(stale->contents, from, size);
  stale->valid = true;
  return *stale;
}

void Bytes::Storage::make_stale_but(const DeviceSide* written) {
  mirror->host_valid = written == nullptr;
  for (const std::unique_ptr<DeviceSide>& side : mirror->sides) side->valid = side.get() == written;
}

Bytes Bytes::uninitialized(int64_t size) {
  SP_CHECK(size >= 0, "{} bytes", size);
  Bytes bytes;
  if (size == 0) return bytes;
  const size_t trailing = static_cast<size_t>(size) + detail::kPoolAlignment;
  bytes.storage_ = std::allocate_shared<Storage>(detail::PoolAllocator<Storage>(trailing), size);
  return bytes;
}

Bytes Bytes::zeros(int64_t size) {
  Bytes bytes = uninitialized(size);
  std::memset(bytes.mutate(), 0, static_cast<size_t>(size));
  return bytes;
}

Bytes Bytes::on_device(const std::shared_ptr<DeviceMemory>& memory, int64_t size) {
  SP_CHECK(size >= 0, "{} bytes", size);
  Bytes bytes;
  if (size == 0) return bytes;
  auto mirror = std::make_unique<Storage::Mirror>();
  mirror->host_valid = false;
  mirror->host_behind = false;
  mirror->sides.push_back(std::make_unique<DeviceSide>(memory, size));
  bytes.storage_ = std::allocate_shared<Storage>(detail::PoolAllocator<Storage>(), size);
  bytes.storage_->mirror = std::move(mirror);
  return bytes;
}

int64_t Bytes::size() const { return storage_ ? storage_->size : 0; }

const std::byte* Bytes::data() const { return storage_ ? storage_->host() : nothing; }

std::byte* Bytes::mutate() {
  if (!storage_) return nothing;
  if (storage_.use_count() > 1) {
    Bytes own = uninitialized(storage_->size);
    std::memcpy(own.storage_->behind(), storage_->host(), static_cast<size_t>(storage_->size));
    storage_ = std::move(own.storage_);
  }
  if (!storage_->mirror) return storage_->behind();
  std::byte* host = storage_->to_host();
  storage_->make_stale_but(nullptr);
  return host;
}

const std::byte* Bytes::device_data(const std::shared_ptr<DeviceMemory>& memory) const {
  return storage_ ? storage_->on(memory).contents : nothing;
}

std::byte* Bytes::device_mutate(const std::shared_ptr<DeviceMemory>& memory) {
  if (!storage_) return nothing;
  if (storage_.use_count() > 1) {
    Bytes own = on_device(memory, storage_->size);
    std::byte* contents = own.storage_->mirror->sides.front()->contents;
    if (const DeviceSide* side = storage_->valid_on(memory))
      memory->copy(contents, side->contents, storage_->size);
    else
      memory->to_device(contents, storage_->host(), storage_->size);
    storage_ = std::move(own.storage_);
    return contents;
  }
  DeviceSide& side = storage_->on(memory);
  storage_->make_stale_but(&side);
  return side.contents;
}

}  // namespace shardproof
