// Implements Bytes of tensor.h: contents on the host, with a mirror on each device that has read or
// written them.
//
// A Storage is shared by copies of Bytes. Its host side follows it in the same pool block. The
// first access on a device adds a Mirror, which stores which sides are valid:
//   read on the host      copies from a device if the host is stale; all sides stay valid
//   read on a device      uploads if that device has no side; all sides stay valid
//   write on one side     first copies shared contents, then drops or invalidates all other sides
#include <algorithm>
#include <cstring>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/base/prefetch.h"
#include "shardproof/localtensor/tensor/device_memory.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {
namespace {

// Address of empty contents. It is not null, because memcpy must not get null even for 0 bytes.
alignas(kPoolAlignment) std::byte nothing[kPoolAlignment];

}  // namespace

// The contents on one device. Not in the anonymous namespace, because Bytes::Storage holds some.
// Tensors on different streams may share them, and only this class orders their accesses. Memory is
// released, or written by its last owner, only after every stream that has used it reaches that
// point.
struct DeviceSide {
  // Undefined contents.
  DeviceSide(std::shared_ptr<DeviceMemory> where, int64_t bytes)
      : memory(std::move(where)), size(bytes), contents(memory->allocate(bytes)) {
    use();
  }
  DeviceSide(std::shared_ptr<DeviceMemory> where, const std::byte* host, int64_t bytes)
      : memory(std::move(where)), size(bytes), contents(memory->upload(host, bytes)) {}
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;
  ~DeviceSide() { memory->release(contents, size, streams); }
  void use() {
    const int current = memory->current();
    if (std::find(streams.begin(), streams.end(), current) == streams.end())
      streams.push_back(current);
  }

  std::shared_ptr<DeviceMemory> memory;
  int64_t size;
  std::byte* contents;
  std::vector<int> streams;  // streams that have read or written the contents
};

// Layout of one pool block: the counts of shared_ptr, the Storage, and after it, at the next
// multiple of the alignment, the host contents. Contents made on a device have no room there.
struct Bytes::Storage {
  // State of contents that have been on a device.
  struct Mirror {
    bool host_valid = true;
    bool host_behind = true;  // the host contents follow the Storage, else they are `host`
    Bytes host;
    std::vector<std::unique_ptr<DeviceSide>> sides;  // all of them are valid
  };

  explicit Storage(int64_t bytes) : size(bytes) {}
  std::byte* host() { return mirror ? to_host() : behind(); }

  std::byte* behind() {
    const auto end = reinterpret_cast<uintptr_t>(this + 1);
    const size_t gap = (0 - end) % kPoolAlignment;
    return reinterpret_cast<std::byte*>(this + 1) + gap;
  }
  std::byte* to_host();
  DeviceSide& on(const std::shared_ptr<DeviceMemory>& memory);
  DeviceSide* find_on(const std::shared_ptr<DeviceMemory>& memory);  // null if there is none
  // Drops all sides but the one that was written; null: the host's was written. A stale side may
  // still be read by streams, so it is released, never written again.
  void drop_all_but(const DeviceSide* written);

  int64_t size;
  std::unique_ptr<Mirror> mirror;
};

std::byte* Bytes::Storage::to_host() {
  if (!mirror->host_behind && mirror->host.size() == 0) mirror->host = uninitialized(size);
  std::byte* host = mirror->host_behind ? behind() : mirror->host.mutate();
  if (mirror->host_valid) return host;
  SP_CHECK(!mirror->sides.empty(), "contents of {} bytes are neither on the host nor on a device",
           size);
  const DeviceSide& side = *mirror->sides.front();
  side.memory->to_host(host, side.contents, size);
  mirror->host_valid = true;
  return host;
}

DeviceSide* Bytes::Storage::find_on(const std::shared_ptr<DeviceMemory>& memory) {
  if (!mirror) return nullptr;
  for (const std::unique_ptr<DeviceSide>& side : mirror->sides)
    if (side->memory == memory) return side.get();
  return nullptr;
}

DeviceSide& Bytes::Storage::on(const std::shared_ptr<DeviceMemory>& memory) {
  if (DeviceSide* side = find_on(memory)) return *side;
  const std::byte* from = host();
  if (!mirror) mirror = std::make_unique<Mirror>();
  return *mirror->sides.emplace_back(std::make_unique<DeviceSide>(memory, from, size));
}

void Bytes::Storage::drop_all_but(const DeviceSide* written) {
  mirror->host_valid = written == nullptr;
  std::erase_if(mirror->sides, [written](const auto& side) { return side.get() != written; });
}

Bytes Bytes::uninitialized(int64_t size) {
  SP_CHECK(size >= 0, "{} bytes", size);
  Bytes bytes;
  if (size == 0) return bytes;
  const size_t trailing = static_cast<size_t>(size) + kPoolAlignment;
  bytes.storage_ = std::allocate_shared<Storage>(TrailingPoolAllocator<Storage>(trailing), size);
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
  bytes.storage_ = std::allocate_shared<Storage>(PoolAllocator<Storage>(), size);
  bytes.storage_->mirror = std::move(mirror);
  return bytes;
}

void Bytes::prefetch() const { shardproof::prefetch(storage_.get(), kPoolAlignment + 1); }

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
  storage_->drop_all_but(nullptr);
  return host;
}

std::shared_ptr<DeviceMemory> Bytes::only_device() const {
  if (!storage_ || !storage_->mirror || storage_->mirror->host_valid) return nullptr;
  return storage_->mirror->sides.front()->memory;
}

const std::byte* Bytes::device_data(const std::shared_ptr<DeviceMemory>& memory) const {
  if (!storage_) return nothing;
  DeviceSide& side = storage_->on(memory);
  side.use();
  return side.contents;
}

std::byte* Bytes::device_mutate(const std::shared_ptr<DeviceMemory>& memory) {
  if (!storage_) return nothing;
  if (storage_.use_count() > 1) {
    Bytes own = on_device(memory, storage_->size);
    std::byte* contents = own.storage_->mirror->sides.front()->contents;
    if (DeviceSide* side = storage_->find_on(memory)) {
      memory->copy(contents, side->contents, storage_->size);
      side->use();
    } else {
      memory->to_device(contents, storage_->host(), storage_->size);
    }
    storage_ = std::move(own.storage_);
    return contents;
  }
  DeviceSide& side = storage_->on(memory);
  memory->follow(side.streams);
  side.use();
  storage_->drop_all_but(&side);
  return side.contents;
}

}  // namespace shardproof
