// Implements copy_place.h.
#include "shardproof/localtensor/tensor/copy_place.h"

#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/tensor/copy_strided.h"
#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {

CopyPlace CopyPlace::of(const Bytes& bytes) {
  CopyPlace place;
  place.memory_ = bytes.only_device();
  return place;
}

CopyPlace CopyPlace::of_all(const std::vector<const Tensor*>& tensors) {
  if (tensors.empty()) return {};
  const CopyPlace first = of(*tensors.front());
  const bool all = std::all_of(tensors.begin(), tensors.end(),
                               [&](const Tensor* tensor) { return of(*tensor) == first; });
  return all ? first : CopyPlace();
}

const std::byte* CopyPlace::read(const Bytes& bytes) const {
  return memory_ ? bytes.device_data(memory_) : bytes.data();
}

const std::byte* CopyPlace::read(const Tensor& tensor, int64_t slot) const {
  return read(tensor.buffer->bytes) + slot * tensor.slot_stride_bytes() +
         tensor.offset * size_of(tensor.dtype);
}

std::byte* CopyPlace::write(Bytes& bytes) const {
  return memory_ ? bytes.device_mutate(memory_) : bytes.mutate();
}

std::byte* CopyPlace::write(Tensor& tensor, int64_t slot) const {
  return write(tensor.buffer->bytes) + slot * tensor.slot_stride_bytes() +
         tensor.offset * size_of(tensor.dtype);
}

Bytes CopyPlace::uninitialized(int64_t size) const {
  return memory_ ? Bytes::on_device(memory_, size) : Bytes::uninitialized(size);
}

Tensor CopyPlace::empty(DType dtype, const Dims& shape, const Lanes& lanes,
                        const Slots& slots) const {
  if (!memory_) return Tensor::empty(dtype, shape, lanes, slots);
  Tensor tensor = Tensor::without_contents(dtype, shape, lanes);
  tensor.buffer->slots = slots;
  tensor.buffer->bytes = uninitialized(slots.count() * tensor.buffer->bytes_per_lane);
  return tensor;
}

void CopyPlace::copy(std::byte* to, const std::byte* from, int64_t bytes) const {
  if (bytes == 0) return;
  if (memory_) return memory_->copy(to, from, bytes);
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void CopyPlace::clear(std::byte* to, int64_t bytes) const {
  if (bytes == 0) return;
  if (memory_) return memory_->clear(to, bytes);
  std::memset(to, 0, static_cast<size_t>(bytes));
}

void CopyPlace::copy_strided(const std::byte* source, const Dims& source_strides, std::byte* target,
                             const Dims& target_strides, const Dims& shape,
                             int64_t element_bytes) const {
  if (memory_)
    return shardproof::copy_strided(*memory_, source, source_strides, target, target_strides, shape,
                                    element_bytes);
  shardproof::copy_strided(source, source_strides, target, target_strides, shape, element_bytes);
}

}  // namespace shardproof
