// All specs of small meshes that the placement language can describe, for laws checked by brute
// force.
#pragma once

#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof::corpus {

// Returns a tensor whose elements differ; integers if `whole`.
inline Tensor numbered(DType dtype, const Dims& shape) {
  std::vector<double> values;
  const int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i)
    values.push_back(dtype == DType::boolean
                         ? static_cast<double>(i % 2)
                         : static_cast<double>((i * 7 + 3) % 9 - (is_signed(dtype) ? 4 : 0)));
  return tensor_of(dtype, shape, values);
}

inline std::vector<Placement> cuts_of(const Dims& shape, bool strided) {
  std::vector<Placement> out = {R()};
  for (int d = 0; d < shape.size(); ++d) {
    out.push_back(S(d));
    if (strided) {
      out.push_back(S(d, 2));
      out.push_back(S(d, 3));
    }
  }
  return out;
}

// Returns all combinations of `choices` on the axes, in every order of cutting, without duplicates
// and without those that the constructor refuses.
inline std::vector<Spec> all_specs(const Mesh& mesh, const Dims& shape, DType dtype,
                                   const std::vector<Placement>& choices) {
  std::vector<Spec> specs;
  const int axes = mesh.axis_count();
  Dims counts = Dims::filled(axes, static_cast<int64_t>(choices.size()));
  for (int64_t i = 0; i < element_count(counts); ++i) {
    const Dims at = unravel(i, counts);
    std::vector<Placement> placements;
    for (int a = 0; a < axes; ++a) placements.push_back(choices[static_cast<size_t>(at[a])]);
    std::vector<int> order;
    for (int a = 0; a < axes; ++a) order.push_back(a);
    std::vector<Spec> of_these;
    do {
      try {
        Spec spec(mesh, placements, shape, dtype, order);
        bool known = false;
        for (const Spec& old : of_these) known = known || old == spec;
        if (!known) of_these.push_back(std::move(spec));
      } catch (const Error&) {
      }
    } while (std::next_permutation(order.begin(), order.end()));
    specs.insert(specs.end(), of_these.begin(), of_these.end());
  }
  return specs;
}

// Returns the flat indices that the ranks along `axes` own together at one coordinate of the
// others.
inline std::vector<bool> joint_ownership(const Spec& spec, const std::vector<int>& axes,
                                         const Dims& coordinate) {
  std::vector<bool> owned(static_cast<size_t>(element_count(spec.shape())), false);
  Dims sizes;
  for (int axis : axes) sizes.push_back(spec.mesh().axis_size(axis));
  for (int64_t i = 0; i < element_count(sizes); ++i) {
    Dims at = coordinate;
    const Dims member = unravel(i, sizes);
    for (int k = 0; k < member.size(); ++k) at[axes[static_cast<size_t>(k)]] = member[k];
    std::vector<int64_t> indices = {0};
    for (int dim = 0; dim < spec.shape().size(); ++dim) {
      std::vector<int64_t> next;
      for (int64_t outer : indices)
        for (const Run& run : spec.owned_at(at, dim))
          for (int64_t j = 0; j < run.length; ++j)
            next.push_back(outer * spec.shape()[dim] + run.start + j);
      indices = std::move(next);
    }
    for (int64_t index : indices) owned[static_cast<size_t>(index)] = true;
  }
  return owned;
}

// True if a step is legal, by the definition in plan.h.
inline bool is_legal(const PlanStep& step) {
  const Mesh& mesh = step.from.mesh();
  for (int64_t i = 0; i < mesh.size(); ++i) {
    const Dims coordinate = unravel(i, mesh.shape());
    if (step.kind == StepKind::exchange) {
      const std::vector<bool> held = joint_ownership(step.from, step.axes, coordinate);
      const std::vector<bool> wanted = joint_ownership(step.to, {}, coordinate);
      for (size_t e = 0; e < held.size(); ++e)
        if (wanted[e] && !held[e]) return false;
      continue;
    }
    if (joint_ownership(step.from, step.axes, coordinate) !=
        joint_ownership(step.to, step.axes, coordinate))
      return false;
  }
  return true;
}

}  // namespace shardproof::corpus
