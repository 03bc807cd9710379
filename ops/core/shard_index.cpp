// Implements ops/core/shard_index.h: outer dims are walked index by index, the last dim by runs.
#include "shardproof/ops/core/shard_index.h"

namespace shardproof {
namespace {

Runs whole(int64_t size) { return size == 0 ? Runs{} : Runs{{0, size}}; }

GlobalPlace global_place(const KernelCall& call, const std::vector<Spec>* specs, size_t i,
                         int64_t lane) {
  if (!specs || i >= specs->size()) return {};
  return {&(*specs)[i], call.shard->ranks[static_cast<size_t>(lane)]};
}

}  // namespace

GlobalPlace place_of_input(const KernelCall& call, size_t input, int64_t lane) {
  return call.shard ? global_place(call, call.shard->inputs, input, lane) : GlobalPlace{};
}

GlobalPlace place_of_output(const KernelCall& call, size_t output, int64_t lane) {
  return call.shard ? global_place(call, call.shard->outputs, output, lane) : GlobalPlace{};
}

const Dims& global_shape(const GlobalPlace& global_place, const Dims& local) {
  return global_place.spec ? global_place.spec->shape() : local;
}

std::vector<int64_t> global_indices(const GlobalPlace& global_place, const Dims& local, int dim) {
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(local[dim]));
  for (const Run& run :
       global_place.spec ? global_place.spec->owned(global_place.rank, dim) : whole(local[dim]))
    for (int64_t i = 0; i < run.length; ++i) indices.push_back(run.start + i);
  return indices;
}

void for_each_stretch(const GlobalPlace& global_place, const Dims& local,
                      const std::function<void(int64_t, int64_t, int64_t)>& f) {
  const int64_t count = element_count(local);
  if (count == 0) return;
  if (!global_place.spec || local.empty()) return f(0, 0, count);
  const int last = local.size() - 1;
  const Dims strides = contiguous_strides(global_place.spec->shape());
  std::vector<std::vector<int64_t>> outer;
  for (int d = 0; d < last; ++d) outer.push_back(global_indices(global_place, local, d));
  const Runs runs = global_place.spec->owned(global_place.rank, last);
  Dims index = Dims::filled(local.size(), 0);
  for (int64_t at = 0; at < count; at += local[last]) {
    int64_t base = 0, done = 0;
    for (int d = 0; d < last; ++d)
      base += outer[static_cast<size_t>(d)][static_cast<size_t>(index[d])] * strides[d];
    for (const Run& run : runs) {
      f(at + done, base + run.start, run.length);
      done += run.length;
    }
    for (int d = last - 1; d >= 0; --d) {
      if (++index[d] < local[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace shardproof
