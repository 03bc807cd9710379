#include <cstring>
#include <utility>

#include "shardproof/localtensor/detail/pool.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/tensor.h"

namespace shardproof {

// Lies in one pool block with shared_ptr's counts before it and the contents behind it, at the next
// multiple of the alignment.
struct Bytes::Storage {
  explicit Storage(int64_t bytes) : size(bytes) {}
  std::byte* data() {
    const auto end = reinterpret_cast<uintptr_t>(this + 1);
    const size_t gap = (0 - end) % detail::kPoolAlignment;
    return reinterpret_cast<std::byte*>(this + 1) + gap;
  }
  int64_t size;
};

namespace {

// What empty contents point to: never null, since memcpy and friends do not take null even for 0
// bytes.
alignas(detail::kPoolAlignment) std::byte nothing[detail::kPoolAlignment];

}  // namespace

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

int64_t Bytes::size() const { return storage_ ? storage_->size : 0; }

const std::byte* Bytes::data() const { return storage_ ? storage_->data() : nothing; }

std::byte* Bytes::mutate() {
  if (!storage_) return nothing;
  if (storage_.use_count() > 1) {
    Bytes own = uninitialized(storage_->size);
    std::memcpy(own.storage_->data(), storage_->data(), static_cast<size_t>(storage_->size));
    storage_ = std::move(own.storage_);
  }
  return storage_->data();
}

}  // namespace shardproof
