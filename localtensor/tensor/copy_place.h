// CopyPlace: the memory in which elements are copied, of the host or of a device. Contents that
// only a device has are copied there; no copy waits for the device or passes through the host.
#pragma once

#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

class CopyPlace {
 public:
  CopyPlace() = default;  // the host
  // Returns the device that has contents which the host lacks, or else the host.
  static CopyPlace of(const Bytes& bytes);
  static CopyPlace of(const Tensor& tensor) { return of(tensor.buffer->bytes); }
  // Returns the place of all tensors; the host if they lie in several.
  static CopyPlace of_all(const std::vector<const Tensor*>& tensors);

  bool is_host() const { return memory_ == nullptr; }
  bool operator==(const CopyPlace&) const = default;

  // Addresses in this place, as those of Bytes and Tensor; contents that lie elsewhere are copied
  // here first.
  const std::byte* read(const Bytes& bytes) const;
  const std::byte* read(const Tensor& tensor, int64_t slot) const;
  std::byte* write(Bytes& bytes) const;
  std::byte* write(Tensor& tensor, int64_t slot) const;

  Bytes uninitialized(int64_t size) const;
  // Returns Tensor::empty(...) with contents in this place.
  Tensor empty(DType dtype, const Dims& shape, const Lanes& lanes, const Slots& slots) const;

  // Copy between two addresses of this place; on a device, in its current stream.
  void copy(std::byte* to, const std::byte* from, int64_t bytes) const;
  void clear(std::byte* to, int64_t bytes) const;
  void copy_strided(const std::byte* source, const Dims& source_strides, std::byte* target,
                    const Dims& target_strides, const Dims& shape, int64_t element_bytes) const;

 private:
  std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace shardproof
