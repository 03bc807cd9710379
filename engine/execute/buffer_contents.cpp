// Implements buffer_contents.h. Bytes are shared between buffers where a source block covers the
// target buffer; otherwise each distinct source copy is copied once into one new run of bytes.
//
// Example of gather_copies: the target has lanes 0-3; block A of the source holds lanes 0-1 with
// one shared copy, block B holds lane 2, and lane 3 is missing. The target gets the slots 0 0 1 2:
// the copy of A, the copy of B, and one copy of poison.
#include "shardproof/engine/execute/buffer_contents.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/copy_place.h"

namespace shardproof {

Block block_without_contents(DType dtype, const Dims& shape, const Lanes& lanes) {
  return {lanes, Tensor::without_contents(dtype, shape, lanes)};
}

bool has_contents(const Tensor& tensor) {
  return tensor.buffer->bytes_per_lane == 0 || tensor.buffer->bytes.size() > 0;
}

bool owns_buffer(const Block& block) {
  const Tensor& tensor = block.tensor;
  return tensor.offset == 0 && tensor.contiguous() && block.lanes == tensor.buffer->lanes &&
         tensor.elements() * size_of(tensor.dtype) == tensor.buffer->bytes_per_lane;
}

void drop_contents(const std::vector<LocalTensor>& values) {
  for (const LocalTensor& value : values)
    for (const Block& block : value.blocks()) block.tensor.buffer->bytes = Bytes();
}

void poison(Buffer& buffer, DType dtype) {
  buffer.slots = Slots::shared(buffer.lanes.size());
  buffer.bytes = Bytes::uninitialized(buffer.bytes_per_lane);
  std::byte* data = buffer.bytes.mutate();
  std::memset(data, 0xA5, static_cast<size_t>(buffer.bytes_per_lane));
  const int64_t size = size_of(dtype);
  if (!is_floating(dtype) && !is_complex(dtype)) return;
  for (int64_t at = 0; at + size <= buffer.bytes_per_lane; at += size)
    store_f64(data + at, dtype, std::numeric_limits<double>::quiet_NaN());
}

namespace {

// True if the tensor covers its buffer densely.
bool whole_buffer(const Tensor& tensor) {
  return tensor.offset == 0 && tensor.contiguous() &&
         tensor.elements() * size_of(tensor.dtype) == tensor.buffer->bytes_per_lane;
}

// Copies the slots that the lanes of `target` read into one new run of bytes.
void gather_copies(Buffer& target, const std::vector<const Block*>& sources, DType dtype) {
  std::map<std::pair<const Block*, int64_t>, int32_t> known;
  std::vector<int32_t> table(static_cast<size_t>(target.lanes.size()), -1);
  std::vector<std::pair<const Block*, int64_t>> copies;
  for (const Block* block : sources)
    for (int64_t i = 0; i < block->lanes.size(); ++i) {
      const int64_t lane = target.lanes.index_of(block->lanes[i]);
      if (lane < 0) continue;
      const std::pair<const Block*, int64_t> key{block, block->slot(i)};
      const auto [entry, fresh] = known.emplace(key, static_cast<int32_t>(copies.size()));
      if (fresh) copies.push_back(key);
      table[static_cast<size_t>(lane)] = entry->second;
    }
  bool hole = false;
  for (int32_t& slot : table)
    if (slot < 0) {
      slot = static_cast<int32_t>(copies.size());
      hole = true;
    }
  const int64_t size = target.bytes_per_lane;
  Buffer bad{{}, size, target.lanes, target.slots, 0};
  if (hole) poison(bad, dtype);
  std::vector<const Tensor*> tensors;
  for (const Block* block : sources) tensors.push_back(&block->tensor);
  const CopyPlace place = CopyPlace::of_all(tensors);
  Bytes bytes = place.uninitialized(size * (std::ssize(copies) + (hole ? 1 : 0)));
  std::byte* data = place.write(bytes);
  for (const auto& [block, slot] : copies) {
    const Tensor& t = block->tensor;
    place.copy_strided(place.read(t, slot), t.strides, data, contiguous_strides(t.shape), t.shape,
                       size_of(t.dtype));
    data += size;
  }
  if (hole) place.copy(data, place.read(bad.bytes), size);
  target.slots = Slots::table(std::move(table));
  target.bytes = std::move(bytes);
}

}  // namespace

void adopt(LocalTensor& target, const LocalTensor& source) {
  for (Block& block : target.blocks()) {
    Buffer& buffer = *block.tensor.buffer;
    std::vector<const Block*> giving;
    for (const Block& from : source.blocks())
      if (!from.lanes.intersect(block.lanes).empty()) giving.push_back(&from);
    if (buffer.bytes_per_lane == 0) {
      buffer.slots = Slots::shared(buffer.lanes.size());
      continue;
    }
    if (giving.empty()) {
      poison(buffer, block.tensor.dtype);
      continue;
    }
    const Tensor& first = giving[0]->tensor;
    SP_CHECK(first.elements() * size_of(first.dtype) == buffer.bytes_per_lane,
             "adopting {} elements into {} bytes", first.elements(), buffer.bytes_per_lane);
    if (giving.size() == 1 && first.buffer->lanes == buffer.lanes &&
        giving[0]->lanes == buffer.lanes && whole_buffer(first)) {
      buffer.slots = first.buffer->slots;
      buffer.bytes = first.buffer->bytes;
      continue;
    }
    gather_copies(buffer, giving, block.tensor.dtype);
  }
}

void write_through(LocalTensor& target, const LocalTensor& source) {
  for (const LanePart& part : common_parts(source.lanes(), {&target, &source})) {
    const Tensor& to = part.inputs[0].tensor;
    const Tensor& from = part.inputs[1].tensor;
    Buffer& buffer = *to.buffer;
    if (!has_contents(to)) poison(buffer, to.dtype);
    if (whole_buffer(to) && part.lanes == buffer.lanes && from.shape == to.shape &&
        whole_buffer(from) && from.buffer->lanes == buffer.lanes) {
      buffer.slots = from.buffer->slots;
      buffer.bytes = from.buffer->bytes;
      continue;
    }
    Dims strides = Dims::filled(to.shape.size(), 0);
    const int pad = to.shape.size() - from.shape.size();
    SP_CHECK(pad >= 0, "{} dims are written to {}", from.shape.size(), to.shape.size());
    for (int d = 0; d < from.shape.size(); ++d)
      strides[d + pad] = from.shape[d] == 1 ? 0 : from.strides[d];
    separate(buffer, part.lanes);
    CopyPlace place = CopyPlace::of(from);
    if (place.is_host()) place = CopyPlace::of(to);
    for (int64_t i = 0; i < part.lanes.size(); ++i) {
      Tensor writable = to;
      std::byte* const target = place.write(writable, part.inputs[0].slot(i));
      place.copy_strided(place.read(from, part.inputs[1].slot(i)), strides, target, to.strides,
                         to.shape, size_of(to.dtype));
    }
  }
}

LocalTensor fork(const LocalTensor& value, const Lanes& lanes) {
  std::vector<Block> blocks;
  for (const Block& block : value.blocks()) {
    const Lanes here = block.lanes.intersect(lanes);
    if (here.empty()) continue;
    Block copy = block_without_contents(block.tensor.dtype, block.tensor.shape, here);
    LocalTensor target(copy);
    Buffer& buffer = *copy.tensor.buffer;
    if (whole_buffer(block.tensor) &&
        (here == block.tensor.buffer->lanes || block.tensor.buffer->slots.is_shared())) {
      buffer.slots = here == block.tensor.buffer->lanes ? block.tensor.buffer->slots
                                                        : Slots::shared(here.size());
      buffer.bytes = block.tensor.buffer->bytes;
    } else {
      adopt(target, LocalTensor(Block{here, block.tensor}));
    }
    blocks.push_back(std::move(copy));
  }
  return blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks));
}

void restore_overflows(Tensor& tensor) {
  if (std::fegetround() == FE_TONEAREST || !has_contents(tensor)) return;
  if (tensor.dtype != DType::f64 && tensor.dtype != DType::c128) return;
  constexpr double kLargest = std::numeric_limits<double>::max();
  const auto overflowed = [](double x) { return std::fabs(x) == kLargest; };
  const int64_t numbers = tensor.buffer->bytes.size() / int64_t{sizeof(double)};
  const auto* values = reinterpret_cast<const double*>(tensor.buffer->bytes.data());
  if (std::none_of(values, values + numbers, overflowed)) return;
  auto* changed = reinterpret_cast<double*>(tensor.buffer->bytes.mutate());
  for (int64_t i = 0; i < numbers; ++i)
    if (overflowed(changed[i]))
      changed[i] = std::copysign(std::numeric_limits<double>::infinity(), changed[i]);
}

Tensor as_dtype(const Tensor& tensor, DType dtype) {
  const Tensor dense = tensor.contiguous() ? tensor : contiguous_copy(tensor);
  if (tensor.dtype == dtype) return dense;
  Tensor result = Tensor::empty(dtype, tensor.shape, dense.buffer->lanes, dense.buffer->slots);
  for (int64_t s = 0; s < dense.buffer->slots.count(); ++s)
    convert(dense.data(s), tensor.dtype, result.mutate(s), dtype, dense.elements());
  return result;
}

}  // namespace shardproof
