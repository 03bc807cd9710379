// Makes an all_reduce in a reduction order, and inputs whose sums round.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "shardproof/localtensor/collective/reduction_order.h"
#include "shardproof/localtensor/tensor/tensor.h"

namespace shardproof {

inline Collective all_reduce(int64_t members, DType dtype, int64_t count, const std::string& order,
                             Reduction how = {}) {
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.group = Group::world(members);
  call.dtype = dtype;
  call.count = count;
  call.reduction = how;
  call.schedule = parse_reduction_schedule(order);
  return call;
}

inline Tensor tensor(DType dtype, const std::vector<double>& values) {
  Tensor t = Tensor::empty(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    store_f64(t.mutate() + static_cast<int64_t>(i) * size_of(dtype), dtype, values[i]);
  return t;
}

inline double at(const Tensor& t, int64_t i) {
  return load_f64(t.data() + i * size_of(t.dtype), t.dtype);
}

inline double noise(int64_t member, int64_t i) {
  const double k = static_cast<double>((member * 7919 + i * 104729) % 10007);
  return (k - 5000) / 977 * std::pow(2.0, static_cast<double>(k) / 700);
}

inline std::vector<Tensor> noisy(const Collective& call, int64_t brought) {
  std::vector<Tensor> inputs;
  for (int64_t member = 0; member < call.group.size(); ++member) {
    std::vector<double> values;
    for (int64_t i = 0; i < brought; ++i) values.push_back(noise(member, i));
    inputs.push_back(tensor(call.dtype, values));
  }
  return inputs;
}

}  // namespace shardproof
