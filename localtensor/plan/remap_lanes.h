// Makes a LocalTensor from another one lane by lane, computing equal results once.
#pragma once

#include <functional>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// What one output copy is made of: a stored copy of the input, and where a lane that reads it
// stands.
struct LaneRemap {
  const Tensor* tensor = nullptr;
  int64_t slot = 0;
  Dims coordinate;
  const std::byte* data() const { return tensor->data(slot); }
};

using ShapeAt = std::function<Dims(const Dims& coordinate)>;
using Fill = std::function<void(const LaneRemap& from, const Dims& shape, std::byte* out)>;

// Lanes that read one input copy and agree on the coordinates of `axes` share an output copy;
// shapes may depend on these axes only. `fill` gets contiguous input and writes dense output.
LocalTensor remap_lanes(const LocalTensor& input, const Mesh& mesh, const std::vector<int>& axes,
                        const ShapeAt& shape_at, const Fill& fill);

}  // namespace shardproof
