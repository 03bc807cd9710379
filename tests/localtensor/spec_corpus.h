// Every spec of small meshes that the placement language can say, for laws checked by brute force.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/spec.h"
#include "shardproof/localtensor/tensor.h"

namespace shardproof::corpus {

// Values that differ by element; whole numbers when `whole`.
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

// All combinations of `choices` on the axes, in every order of cutting; what the constructor
// refuses is left out and equal specs stand once.
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

}  // namespace shardproof::corpus
