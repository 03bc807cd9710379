// remap_lanes: makes a LocalTensor from another one lane by lane and computes equal results once.
#pragma once

#include <functional>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"
#include "shardproof/localtensor/tensor/copy_place.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

// Source of one output copy: a stored copy of the input, and the mesh coordinate of a lane that
// reads it. Input and output are in `place`.
struct LaneRemap {
  const CopyPlace& place;
  const Tensor* tensor = nullptr;
  int64_t slot = 0;
  Dims coordinate = {};
  const std::byte* data() const { return place.read(*tensor, slot); }
};

// A Fill moves elements, where they lie, or computes on them, on the host.
enum class RemapKind { moves, computes };

// Returns the output shape of a lane; writes one output copy, dense, from a contiguous input copy.
using ShapeAt = std::function<Dims(const Dims& coordinate)>;
using Fill = std::function<void(const LaneRemap& from, const Dims& shape, std::byte* out)>;

// Lanes that read the same input copy and agree on the coordinates of `axes` share an output copy.
// Requires that shapes and contents depend on nothing else, and all lanes on the mesh.
LocalTensor remap_lanes(const LocalTensor& input, const Mesh& mesh, const std::vector<int>& axes,
                        const ShapeAt& shape_at, const Fill& fill,
                        RemapKind kind = RemapKind::moves);

}  // namespace shardproof
