// Flat tensors of many lanes for tests of execution contexts. They are inputs by a function of rank
// and index, outputs without contents, and one rank's part of a result.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

using ElementOf = std::function<double(int64_t rank, int64_t index)>;

inline std::shared_ptr<Buffer> promised_buffer(const Lanes& lanes, int64_t bytes_per_lane) {
  auto buffer = std::make_shared<Buffer>();
  buffer->lanes = lanes;
  buffer->slots = Slots::shared(lanes.size());
  buffer->bytes_per_lane = bytes_per_lane;
  return buffer;
}

// Returns buffers without contents, as a host gives them to a call.
inline LocalTensor promised(const Lanes& lanes, DType dtype, int64_t count) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {count};
  tensor.strides = {1};
  tensor.buffer = promised_buffer(lanes, count * size_of(dtype));
  return LocalTensor(std::move(tensor));
}

inline LocalTensor filled(const Lanes& lanes, DType dtype, int64_t count,
                          const ElementOf& element) {
  Tensor tensor = Tensor::empty(dtype, {count}, lanes, Slots::each(lanes.size()));
  for (int64_t lane = 0; lane < lanes.size(); ++lane)
    for (int64_t i = 0; i < count; ++i)
      store_f64(tensor.mutate(lane) + i * size_of(dtype), dtype, element(lanes[lane], i));
  return LocalTensor(std::move(tensor));
}

inline std::vector<double> values_at(const LocalTensor& tensor, int64_t rank) {
  const Block* block = tensor.find(rank);
  if (block == nullptr || block->tensor.buffer->bytes.size() == 0) return {};
  return values_of(tensor.of_rank(rank));
}

}  // namespace shardproof
