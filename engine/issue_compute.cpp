#include <algorithm>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/frame.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

TensorMeta meta_of(const Block& block, bool weak) {
  return {block.tensor.dtype, block.tensor.shape, weak, false};
}

struct Part {
  const Prepared* prepared = nullptr;
  Lanes lanes;
  std::vector<Block> inputs, outputs;
};

// Moves the blocks of a cut into a part, absent inputs in their places; gives the metas.
std::vector<TensorMeta> take_inputs(Part& part, LanePart& cut, const Compute& compute,
                                    const SpmdProgram& program) {
  part.lanes = cut.lanes;
  std::vector<TensorMeta> metas;
  size_t k = 0;
  for (ValueId id : compute.inputs) {
    if (id == kNoValue) {
      part.inputs.emplace_back();
      metas.push_back({});
      metas.back().absent = true;
      continue;
    }
    part.inputs.push_back(std::move(cut.inputs[k++]));
    metas.push_back(meta_of(part.inputs.back(), program.values[static_cast<size_t>(id)].weak));
  }
  return metas;
}

}  // namespace

// A view op aliases its first input where it can; then there is nothing to run.
static std::optional<Block> as_view(const OpRecord& op, const Compute& compute, const Attrs& attrs,
                                    const Part& part, const std::vector<TensorMeta>& metas) {
  if (!op.view || compute.into != kNoValue) return std::nullopt;
  const OpCall call{&attrs, metas};
  std::optional<Tensor> view = op.view(call, part.inputs[0].tensor);
  if (!view) return std::nullopt;
  return Block{part.lanes, *view};
}

void Executor::Frame::issue_compute(const Instr& instr, const Compute& compute, const Lanes& on) {
  const OpRecord& op = shared.ops.at(compute.op);
  std::vector<const LocalTensor*> present;
  for (ValueId id : compute.inputs)
    if (id != kNoValue) present.push_back(&at(id));
  std::vector<Part> run;
  std::vector<std::vector<Block>> blocks(compute.outputs.size());
  OpCost cost;
  const StreamId stream = stream_of(instr);
  for (const LaneAttrs& entry : compute.attrs) {
    const Lanes here = entry.lanes == on ? on : entry.lanes.intersect(on);
    if (here.empty()) continue;
    std::vector<LanePart> parts;
    if (present.empty())
      parts.push_back({here, {}});
    else
      parts = common_parts(here, present);
    for (LanePart& lane_part : parts) {
      Part part;
      std::vector<TensorMeta> metas = take_inputs(part, lane_part, compute, shared.program);
      if (std::optional<Block> view = as_view(op, compute, entry.attrs, part, metas)) {
        blocks[0].push_back(std::move(*view));
        continue;
      }
      part.prepared = &shared.prepare(instr, op, entry.attrs, std::move(metas));
      cost.flops = std::max(cost.flops, part.prepared->cost.flops);
      cost.bytes = std::max(cost.bytes, part.prepared->cost.bytes);
      for (size_t o = 0; o < compute.outputs.size(); ++o) {
        const TensorMeta& meta = part.prepared->outputs[o];
        part.outputs.push_back(promise_block(meta.dtype, meta.shape, part.lanes));
        blocks[o].push_back(part.outputs.back());
      }
      run.push_back(std::move(part));
    }
  }
  std::vector<LocalTensor> results;
  for (std::vector<Block>& made_blocks : blocks)
    results.push_back(made_blocks.empty() ? LocalTensor() : LocalTensor(std::move(made_blocks)));
  if (compute.into == kNoValue)
    for (size_t o = 0; o < results.size(); ++o)
      if (!run.empty()) allocate(results[o], compute.outputs[o], stream);
  auto body = [this, parts = std::move(run), results, &compute, &instr]() mutable {
    try {
      for (Part& part : parts)
        run_part(*part.prepared, part.lanes, part.inputs, part.outputs, compute);
    } catch (const Error& error) {
      shared.errors.push_back(error.inside({"", "", instr.origin.line, instr.origin.column}));
      return;
    }
    if (compute.into != kNoValue) {
      write_through(at(compute.into), results[0]);
      made(compute.into, at(compute.into));
      return;
    }
    for (size_t o = 0; o < results.size(); ++o) made(compute.outputs[o], results[o]);
  };
  const Ticket ticket = launch(instr, on, compute.op, cost, std::move(body));
  for (size_t o = 0; o < results.size(); ++o)
    set_value(compute.outputs[o], std::move(results[o]), ticket);
  if (compute.into != kNoValue) tickets[static_cast<size_t>(compute.into)] = ticket;
}

void Executor::Frame::issue_reshuffle(const Instr& instr, const Reshuffle& reshuffle,
                                      const Lanes& on) {
  const StreamId stream = stream_of(instr);
  LocalTensor result = promise(reshuffle.output, on, stream);
  const LocalTensor input = at(reshuffle.input).restrict_to(on);
  auto body = [this, result, input, &reshuffle]() mutable {
    for (const Block& block : input.blocks())
      if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    adopt(result, unpack(reshuffle.step, pack(reshuffle.step, input)));
    made(reshuffle.output, result);
  };
  const Ticket ticket = launch(instr, on, "reshuffle", {}, std::move(body));
  set_value(reshuffle.output, std::move(result), ticket);
}

}  // namespace shardproof
