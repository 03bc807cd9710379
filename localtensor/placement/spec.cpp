// Implements spec.h, except text (spec_text.cpp) and ownership (shard_cut.cpp).
#include "shardproof/localtensor/placement/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/shard_cut.h"

namespace shardproof {

namespace {

// True if the place of an axis in the order of cutting can matter.
bool cuts(const Placement& placement, int64_t axis_size) {
  return placement.is_shard() && (axis_size > 1 || !placement.shard().sizes.empty());
}

bool may_mix(ReduceOp a, ReduceOp b) {
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; };
  return is_linear(a) && is_linear(b);
}

// Returns the dtypes that a reduction accepts, and for others what to do.
const char* reducible_dtypes(ReduceOp op) {
  switch (op) {
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return "it takes integers and bool";
    case ReduceOp::min:
    case ReduceOp::max: return "it takes real numbers";
    case ReduceOp::norm: return "it takes floats";
    default: return "max gives any, min gives all, and a cast to i64 first counts";
  }
}

}  // namespace

int64_t length(const Runs& runs) {
  int64_t total = 0;
  for (const Run& run : runs) total += run.length;
  return total;
}

void check_reduction(const Reduction& reduction, DType dtype) {
  bool legal = true;
  switch (reduction.op) {
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: legal = is_integral(dtype) || dtype == DType::boolean; break;
    case ReduceOp::min:
    case ReduceOp::max: legal = !is_complex(dtype); break;
    case ReduceOp::norm: legal = is_floating(dtype); break;  // the root of an integer is rarely one
    default: legal = dtype != DType::boolean;
  }
  if (!legal)
    throw_bad_input("{} cannot reduce {}; {}", to_string(reduction), name(dtype),
                    reducible_dtypes(reduction.op));
}

Spec::Spec(Mesh mesh, std::vector<Placement> placements, Dims shape, DType dtype,
           std::vector<int> order)
    : mesh_(std::move(mesh)),
      placements_(std::move(placements)),
      shape_(shape),
      dtype_(dtype),
      order_(std::move(order)) {
  const auto axes = static_cast<size_t>(mesh_.axis_count());
  if (placements_.size() != axes)
    throw_bad_input("expected {} placements, one for each axis of the mesh \"{}\", found {}", axes,
                    to_string(mesh_), placements_.size());
  if (shape_.size() > kMaxDims)
    throw_bad_input("expected a tensor of at most {} dims, found {}", kMaxDims, shape_.size());
  element_count(shape_);  // refuses negative sizes and too many elements
  if (order_.empty()) {
    order_.resize(axes);
    std::iota(order_.begin(), order_.end(), 0);
  } else {
    std::vector<int> sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted.size() != axes || sorted[i] != static_cast<int>(i))
        throw_bad_input("the order of cutting must name each of the {} axes once", axes);
  }
  check_placements();
  make_order_canonical();
  check_sizes();
}

Spec Spec::replicated(Mesh mesh, Dims shape, DType dtype) {
  std::vector<Placement> placements(static_cast<size_t>(mesh.axis_count()));
  return Spec(std::move(mesh), std::move(placements), shape, dtype);
}

void Spec::check_placements() {
  const Reduction* seen = nullptr;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    Placement& placement = placements_[static_cast<size_t>(axis)];
    const std::string& axis_name = mesh_.axes()[static_cast<size_t>(axis)].name;
    if (placement.is_shard()) {
      const Shard& shard = placement.shard();
      const int dim = normalize_dim(shard.dim, shape_.size());
      if (shard.split < 1)
        throw_bad_input("axis '{}': expected a split from 1 on, found {}", axis_name, shard.split);
      if (!shard.sizes.empty() && shard.split != 1)
        throw_bad_input("axis '{}': expected split= or sizes=, found both", axis_name);
      if (!shard.sizes.empty() && static_cast<int64_t>(shard.sizes.size()) != mesh_.axis_size(axis))
        throw_bad_input("axis '{}': expected {} sizes, one for each rank, found {}", axis_name,
                        mesh_.axis_size(axis), shard.sizes.size());
      if (dim != shard.dim) placement = Shard{dim, shard.split, shard.sizes};
    } else if (placement.is_partial()) {
      const Reduction& reduction = placement.partial().reduction;
      if (reduction.op == ReduceOp::premul_sum)
        throw_bad_input(
            "axis '{}': expected a reduction of placements, found premul_sum; write P(sum)",
            axis_name);
      check_reduction(reduction, dtype_);
      if (seen && *seen != reduction && !may_mix(seen->op, reduction.op))
        throw_bad_input("expected one reduction for all P of a tensor, found P({}) and P({})",
                        to_string(*seen), to_string(reduction));
      seen = &reduction;
    }
  }
}

void Spec::check_sizes() const {
  const bool has_sizes =
      std::any_of(placements_.begin(), placements_.end(), [](const Placement& placement) {
        return placement.is_shard() && !placement.shard().sizes.empty();
      });
  for (int dim = 0; has_sizes && dim < shape_.size(); ++dim) {
    std::vector<int64_t> extents = {shape_[dim]};
    for (int axis : axes_of_dim(dim)) {
      const Shard& shard = placement(axis).shard();
      if (!shard.sizes.empty()) {
        int64_t total = 0;
        for (int64_t size : shard.sizes) {
          if (size < 0) throw_bad_input("expected sizes from 0 on, found {}", size);
          total += size;
        }
        for (int64_t extent : extents)
          if (extent != total)
            throw_bad_input("{} on axis '{}': the sizes add up to {}, but dim {} has {} there",
                            to_string(placement(axis)),
                            mesh_.axes()[static_cast<size_t>(axis)].name, total, dim, extent);
      }
      extents = cut_extents(shard, extents, mesh_.axis_size(axis));
    }
  }
}

// A topological sort: of the axes whose predecessor on their dim is placed, the lowest goes next.
void Spec::make_order_canonical() {
  const size_t axes = order_.size();
  if (std::is_sorted(order_.begin(), order_.end())) return;
  std::vector<int> before(axes, -1);  // the axis that cuts the same dim just before
  std::vector<int> last(static_cast<size_t>(shape_.size()), -1);
  for (size_t i = 0; i < axes; ++i) {
    if (!cuts(placement(order_[i]), mesh_.axis_size(order_[i]))) continue;
    int& previous = last[static_cast<size_t>(placement(order_[i]).shard().dim)];
    before[static_cast<size_t>(order_[i])] = previous;
    previous = order_[i];
  }
  std::vector<bool> placed(axes, false);
  order_.clear();
  while (order_.size() < axes) {
    size_t next = 0;
    while (placed[next] || (before[next] >= 0 && !placed[static_cast<size_t>(before[next])]))
      ++next;
    placed[next] = true;
    order_.push_back(static_cast<int>(next));
  }
}

std::vector<int> Spec::axes_of_dim(int dim) const {
  std::vector<int> axes;
  for (int axis : order_)
    if (placement(axis).is_shard(dim)) axes.push_back(axis);
  return axes;
}

std::vector<int> Spec::shard_axes() const {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis)
    if (placement(axis).is_shard() && mesh_.axis_size(axis) > 1) axes.push_back(axis);
  return axes;
}

std::vector<int> Spec::partial_axes() const {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis)
    if (placement(axis).is_partial()) axes.push_back(axis);
  return axes;
}

bool Spec::has_partial() const {
  return std::any_of(placements_.begin(), placements_.end(),
                     [](const Placement& p) { return p.is_partial(); });
}

bool Spec::is_replicated() const {
  return std::all_of(placements_.begin(), placements_.end(),
                     [](const Placement& p) { return p.is_replicate(); });
}

Spec Spec::with_placement(int axis, Placement placement) const {
  std::vector<Placement> placements = placements_;
  placements[static_cast<size_t>(axis)] = std::move(placement);
  std::vector<int> order = order_;
  std::erase(order, axis);
  order.push_back(axis);
  return Spec(mesh_, std::move(placements), shape_, dtype_, std::move(order));
}

Spec Spec::with_dtype(DType dtype) const { return Spec(mesh_, placements_, shape_, dtype, order_); }

bool Spec::operator==(const Spec& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ && placements_ == other.placements_ &&
         order_ == other.order_ && mesh_ == other.mesh_;
}

}  // namespace shardproof
