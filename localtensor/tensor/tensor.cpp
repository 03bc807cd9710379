// Implements Tensor and the free functions of tensor.h. Bytes: tensor_bytes.cpp; Slots:
// tensor_slots.cpp; separate: tensor_unshare.cpp.
#include "shardproof/localtensor/tensor/tensor.h"

#include <cmath>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/tensor/copy_place.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {
namespace {

int64_t product_of_bytes(int64_t count, int64_t bytes, const Dims& shape) {
  int64_t product = 0;
  if (__builtin_mul_overflow(count, bytes, &product))
    throw Error(ErrorKind::limit,
                fmt::format("a tensor of shape {} needs 2^63 bytes or more", to_string(shape)));
  return product;
}

std::shared_ptr<Buffer> new_buffer() {
  return std::allocate_shared<Buffer>(PoolAllocator<Buffer>());
}

bool is_nan_element(const std::byte* element, DType dtype) {
  return is_floating(dtype) && std::isnan(load_f64(element, dtype));
}

bool same_element(const std::byte* a, const std::byte* b, DType dtype) {
  if (is_complex(dtype)) {
    const DType part = component_dtype(dtype);
    const int64_t bytes = size_of(part);
    return same_element(a, b, part) && same_element(a + bytes, b + bytes, part);
  }
  if (std::memcmp(a, b, static_cast<size_t>(size_of(dtype))) == 0) return true;
  return is_nan_element(a, dtype) && is_nan_element(b, dtype);
}

// Returns the elements of a copy, dense. A copy that is not contiguous is gathered into `held`.
const std::byte* dense_data(const Tensor& tensor, int64_t slot, Bytes& held) {
  if (tensor.contiguous()) return tensor.data(slot);
  const int64_t bytes = size_of(tensor.dtype);
  held = Bytes::uninitialized(tensor.elements() * bytes);
  copy_strided(tensor.data(slot), tensor.strides, held.mutate(), contiguous_strides(tensor.shape),
               tensor.shape, bytes);
  return held.data();
}

int64_t byte_offset(const Tensor& tensor, int64_t slot) {
  const Buffer& buffer = *tensor.buffer;
  SP_CHECK(slot >= 0 && buffer.bytes.size() >= (slot + 1) * buffer.bytes_per_lane,
           "copy {} of a buffer of {} copies with {} bytes of contents", slot, buffer.slots.count(),
           buffer.bytes.size());
  return slot * buffer.bytes_per_lane + tensor.offset * size_of(tensor.dtype);
}

}  // namespace

Tensor Tensor::without_contents(DType dtype, const Dims& shape, const Lanes& lanes) {
  std::shared_ptr<Buffer> buffer = new_buffer();
  buffer->lanes = lanes;
  buffer->slots = Slots::shared(lanes.size());
  buffer->bytes_per_lane = product_of_bytes(element_count(shape), size_of(dtype), shape);
  return {std::move(buffer), 0, dtype, shape, contiguous_strides(shape)};
}

Tensor Tensor::empty(DType dtype, const Dims& shape, const Lanes& lanes, const Slots& slots) {
  SP_CHECK(lanes.size() == slots.lanes(), "{} lanes with copies for {}", lanes.size(),
           slots.lanes());
  Tensor tensor = without_contents(dtype, shape, lanes);
  Buffer& buffer = *tensor.buffer;
  buffer.slots = slots;
  buffer.bytes =
      Bytes::uninitialized(product_of_bytes(slots.count(), buffer.bytes_per_lane, shape));
  return tensor;
}

Tensor Tensor::empty(DType dtype, const Dims& shape) {
  return empty(dtype, shape, Lanes::one(0), Slots::shared(1));
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  bool dense = true;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 0) return true;
    if (shape[d] == 1) continue;
    dense = dense && strides[d] == expected;
    expected *= shape[d];
  }
  return dense;
}

const std::byte* Tensor::data(int64_t slot) const {
  return buffer->bytes.data() + byte_offset(*this, slot);
}

std::byte* Tensor::mutate(int64_t slot) {
  return buffer->bytes.mutate() + byte_offset(*this, slot);
}

Tensor contiguous_copy(const Tensor& tensor) {
  const Buffer& old = *tensor.buffer;
  const int64_t bytes = tensor.elements() * size_of(tensor.dtype);
  Tensor copy;
  if (tensor.contiguous() && tensor.offset == 0 && bytes == old.bytes_per_lane) {
    // The new buffer shares the contents until one of the two is written.
    copy = tensor;
    copy.strides = contiguous_strides(tensor.shape);
    copy.buffer = new_buffer();
    *copy.buffer = old;
    copy.buffer->id = 0;
    return copy;
  }
  const CopyPlace place = CopyPlace::of(tensor);
  copy = place.empty(tensor.dtype, tensor.shape, old.lanes, old.slots);
  for (int64_t slot = 0; slot < old.slots.count(); ++slot)
    place.copy_strided(place.read(tensor, slot), tensor.strides, place.write(copy, slot),
                       copy.strides, tensor.shape, size_of(tensor.dtype));
  return copy;
}

double element_f64(const Tensor& tensor, int64_t slot, const Dims& index) {
  SP_CHECK(index.size() == tensor.shape.size(), "index {} in shape {}", to_string(index),
           to_string(tensor.shape));
  int64_t at = 0;
  for (int d = 0; d < index.size(); ++d) {
    SP_CHECK(index[d] >= 0 && index[d] < tensor.shape[d], "index {} in shape {}", to_string(index),
             to_string(tensor.shape));
    at += index[d] * tensor.strides[d];
  }
  return load_f64(tensor.data(slot) + at * size_of(tensor.dtype), tensor.dtype);
}

bool bit_equal(const Tensor& a, int64_t slot_a, const Tensor& b, int64_t slot_b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  Bytes held_a, held_b;
  const std::byte* data_a = dense_data(a, slot_a, held_a);
  const std::byte* data_b = dense_data(b, slot_b, held_b);
  const int64_t count = a.elements(), bytes = size_of(a.dtype);
  if (std::memcmp(data_a, data_b, static_cast<size_t>(count * bytes)) == 0) return true;
  if (!is_floating(a.dtype) && !is_complex(a.dtype)) return false;
  for (int64_t i = 0; i < count; ++i)
    if (!same_element(data_a + i * bytes, data_b + i * bytes, a.dtype)) return false;
  return true;
}

Tensor tensor_of(DType dtype, const Dims& shape, const std::vector<double>& values) {
  Tensor tensor = Tensor::empty(dtype, shape);
  if (tensor.elements() != static_cast<int64_t>(values.size()))
    throw_bad_input("expected {} values for shape {}, found {}", tensor.elements(),
                    to_string(shape), values.size());
  convert(reinterpret_cast<const std::byte*>(values.data()), DType::f64, tensor.mutate(), dtype,
          tensor.elements());
  return tensor;
}

std::vector<double> values_of(const Tensor& tensor, int64_t slot) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  Bytes held;
  convert(dense_data(tensor, slot, held), tensor.dtype, reinterpret_cast<std::byte*>(values.data()),
          DType::f64, tensor.elements());
  return values;
}

}  // namespace shardproof
