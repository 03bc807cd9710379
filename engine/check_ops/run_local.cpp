// Implements run_local.h.
#include "shardproof/engine/check_ops/run_local.h"

#include <map>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// A group of ranks that run one kernel call.
struct Cohort {
  Attrs attrs;
  std::vector<Dims> output_shapes;
  std::vector<int32_t> ranks;
};

std::vector<Cohort> cohorts_of(const LocalCall& call, const Lanes& lanes) {
  std::map<std::string, Cohort> found;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int32_t rank = lanes[i];
    Attrs attrs = *call.attrs;
    if (call.rank_attrs && call.record->rule.local_attrs) {
      OpCall global{call.attrs, call.metas};
      attrs = call.record->rule.local_attrs(global, call.input_specs, call.output_specs, rank);
    }
    std::string key = call.rank_attrs ? to_string(attrs) : "";
    std::vector<Dims> shapes;
    for (const Spec& spec : call.output_specs) {
      shapes.push_back(spec.local_shape(rank));
      key += to_string(shapes.back());
    }
    Cohort& cohort = found.try_emplace(key, Cohort{attrs, shapes, {}}).first->second;
    cohort.ranks.push_back(rank);
  }
  std::vector<Cohort> cohorts;
  for (auto& [key, cohort] : found) cohorts.push_back(std::move(cohort));
  return cohorts;
}

// Returns which copies the kernel's lanes read, and which ranks store each result.
SlotJoin join_for(const LocalCall& call, const Lanes& lanes, const std::vector<Block>& blocks) {
  std::vector<const Block*> inputs;
  for (const Block& block : blocks) inputs.push_back(&block);
  if (!call.shard_info && !inputs.empty()) return join_slots(lanes, inputs);
  // A kernel that reads global indices gives each rank a result of its own.
  SlotJoin join{Slots::each(lanes.size()), {}};
  for (const Block& block : blocks) {
    std::vector<int32_t> sources;
    for (int64_t i = 0; i < lanes.size(); ++i)
      sources.push_back(static_cast<int32_t>(block.slot(i)));
    join.sources.push_back(std::move(sources));
  }
  return join;
}

Block restricted(const Block& block, const Lanes& lanes) {
  return LocalTensor(std::vector<Block>{block}).restrict_to(lanes).blocks().front();
}

class CohortRun {
 public:
  CohortRun(const LocalCall& call, const Cohort& cohort, const std::vector<Block>& blocks)
      : call_(call), cohort_(cohort), lanes_(Lanes::of(cohort.ranks)) {
    for (const Block& block : blocks) blocks_.push_back(restricted(block, lanes_));
    join_ = join_for(call, lanes_, blocks_);
  }

  void run(std::vector<std::vector<Block>>& results) {
    OpCall local{&cohort_.attrs, call_.metas};
    bind_inputs(local);
    std::vector<TensorMeta> metas = call_.record->infer(OpCall{call_.attrs, call_.metas});
    for (size_t i = 0; i < metas.size(); ++i) metas[i].shape = cohort_.output_shapes[i];
    if (!call_.shard_info) check_shapes(local, metas);
    const Kernel kernel = call_.record->prepare(local, metas);
    if (!kernel.accepts_strides) {
      for (size_t i = 0; i < views_.size(); ++i) make_dense(i);
    }
    bind_outputs(metas);
    ShardInfo shard{&call_.input_specs, &call_.output_specs, cohort_.ranks};
    std::vector<std::byte> workspace(static_cast<size_t>(kernel.workspace_bytes));
    KernelCall k;
    k.lanes = join_.slots.count();
    k.inputs = &views_;
    k.outputs = &out_views_;
    k.workspace = workspace.data();
    k.shard = call_.shard_info ? &shard : nullptr;
    kernel.run(k);
    for (size_t i = 0; i < outputs_.size(); ++i) results[i].push_back({lanes_, outputs_[i]});
  }

 private:
  void bind_inputs(OpCall& local) {
    size_t next = 0;
    for (size_t i = 0; i < call_.inputs.size(); ++i) {
      views_.emplace_back();
      sources_.push_back(-1);
      if (!call_.inputs[i]) continue;
      const Tensor& tensor = blocks_[next].tensor;
      local.inputs[i].shape = tensor.shape;
      LaneView& view = views_.back();
      view.base = const_cast<std::byte*>(tensor.data());
      view.lane_stride = tensor.slot_stride_bytes();
      // Lanes in order need no table; kernels may then run them as one flat loop.
      if (!in_order(join_.sources[next])) view.slots = join_.sources[next].data();
      view.dtype = tensor.dtype;
      view.shape = tensor.shape;
      view.strides = tensor.strides;
      sources_.back() = static_cast<int>(next++);
    }
  }
  static bool in_order(const std::vector<int32_t>& slots) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (slots[i] != static_cast<int32_t>(i)) return false;
    return true;
  }
  void make_dense(size_t i) {
    if (sources_[i] < 0) return;
    Block& block = blocks_[static_cast<size_t>(sources_[i])];
    if (block.tensor.contiguous()) return;
    block.tensor = contiguous_copy(block.tensor);
    views_[i].base = const_cast<std::byte*>(block.tensor.data());
    views_[i].lane_stride = block.tensor.slot_stride_bytes();
    views_[i].strides = block.tensor.strides;
  }
  // Compares the shapes of the rule's specs with the op's own inference on the shards.
  void check_shapes(const OpCall& local, const std::vector<TensorMeta>& metas) const {
    const std::vector<TensorMeta> inferred = call_.record->infer(local);
    for (size_t i = 0; i < metas.size(); ++i)
      if (inferred[i].shape != metas[i].shape)
        throw_bad_input("{} on rank {} gives {}, its spec states {}", call_.record->name,
                        cohort_.ranks[0], to_string(inferred[i].shape), to_string(metas[i].shape));
  }
  void bind_outputs(const std::vector<TensorMeta>& metas) {
    for (const TensorMeta& meta : metas) {
      outputs_.push_back(Tensor::empty(meta.dtype, meta.shape, lanes_, join_.slots));
      LaneView view;
      view.base = outputs_.back().mutate();
      view.lane_stride = outputs_.back().slot_stride_bytes();
      view.dtype = meta.dtype;
      view.shape = meta.shape;
      view.strides = outputs_.back().strides;
      out_views_.push_back(view);
    }
  }

  const LocalCall& call_;
  const Cohort& cohort_;
  Lanes lanes_;
  std::vector<Block> blocks_;
  SlotJoin join_;
  std::vector<LaneView> views_, out_views_;
  std::vector<int> sources_;
  std::vector<Tensor> outputs_;
};

}  // namespace

std::vector<LocalTensor> run_local(const LocalCall& call) {
  std::vector<const LocalTensor*> present;
  for (const LocalTensor* input : call.inputs)
    if (input) present.push_back(input);
  const Lanes all = call.output_specs.front().mesh().ranks();
  std::vector<LanePart> parts =
      present.empty() ? std::vector<LanePart>{{all, {}}} : common_parts(all, present);
  std::vector<std::vector<Block>> results(call.output_specs.size());
  for (const LanePart& part : parts)
    for (const Cohort& cohort : cohorts_of(call, part.lanes))
      CohortRun(call, cohort, part.inputs).run(results);
  std::vector<LocalTensor> outputs;
  for (std::vector<Block>& blocks : results) outputs.emplace_back(std::move(blocks));
  return outputs;
}

}  // namespace shardproof
