// Implements the ops of frame.h, and the local steps of redistributions.
//
// Issue: the lanes are cut into parts, on which attributes are equal and each input is one block.
// If there are many parts, those of equal shapes are joined, and their inputs are copied. Otherwise
// a value that each round of a hypercube makes in two branches would have twice the blocks after
// each round.
// For each part a kernel is prepared once per set of shapes, and output blocks are made. A view op
// returns views of its input where it can, and then there is nothing to run.
// Run: the execution context calls `run`, which executes the kernel of each part, writes in place
// where the instruction does so, and calls the probe.
//
// Example: x has shape [4, 8] on ranks 0-2 and [3, 8] on rank 3, because 15 rows are cut by 4. The
// op relu(x) on ranks 0-3 has two parts, {ranks 0-2, [4, 8]} and {rank 3, [3, 8]}. If ranks 0-2
// share one stored copy, the first part computes one copy for all three.
#include <algorithm>
#include <map>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/frame.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

double bytes_of(const std::vector<TensorMeta>& metas) {
  double bytes = 0;
  for (const TensorMeta& meta : metas)
    if (!meta.absent) bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  return bytes;
}

OpCost op_cost(const OpRecord& op, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  if (op.cost) return op.cost(call, outputs);
  double elements = 0;
  for (const TensorMeta& meta : outputs) elements += static_cast<double>(element_count(meta.shape));
  return {elements, bytes_of(call.inputs) + bytes_of(outputs)};
}

std::vector<TensorMeta> metas_of(const Compute& compute, const SpmdProgram& program,
                                 std::span<const Block> blocks) {
  std::vector<TensorMeta> metas;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Tensor& tensor = blocks[i].tensor;
    TensorMeta& meta = metas.emplace_back();
    meta.absent = tensor.buffer == nullptr;
    if (meta.absent) continue;
    meta = {tensor.dtype, tensor.shape, program.values[static_cast<size_t>(compute.inputs[i])].weak,
            false};
  }
  return metas;
}

// Returns the block of a value that holds all these lanes; null if they lie in several blocks.
const Block* whole_block(const LocalTensor& value, const Lanes& lanes) {
  const std::vector<Block>& blocks = value.blocks();
  const Block* const first = blocks.size() == 1 ? &blocks[0] : value.find(lanes[0]);
  return first != nullptr && first->lanes.contains(lanes) ? first : nullptr;
}

std::vector<int64_t> dtypes_and_shapes_of(const LanePart& part) {
  std::vector<int64_t> shapes;
  for (const Block& block : part.inputs) {
    shapes.push_back(static_cast<int64_t>(block.tensor.dtype));
    shapes.push_back(block.tensor.shape.size());
    for (const int64_t size : block.tensor.shape) shapes.push_back(size);
  }
  return shapes;
}

// Returns an input of parts of equal shapes as one block on all their lanes. Adds it to `joins` if
// it has to be copied.
Block joined_input(const std::vector<const LanePart*>& parts, size_t input, const Lanes& lanes,
                   std::vector<JoinedInput>& joins) {
  const Tensor& first = parts[0]->inputs[input].tensor;
  std::vector<Block> blocks;
  bool is_one = true;
  for (const LanePart* part : parts) {
    const Tensor& tensor = blocks.emplace_back(part->inputs[input]).tensor;
    is_one = is_one && tensor.buffer == first.buffer && tensor.offset == first.offset &&
             tensor.strides == first.strides;
  }
  if (is_one) return {lanes, first};
  joins.push_back(
      {LocalTensor(std::move(blocks)), block_without_contents(first.dtype, first.shape, lanes)});
  return joins.back().whole;
}

// Joins parts whose inputs have equal shapes.
std::vector<LanePart> joined_parts(const std::vector<LanePart>& parts,
                                   std::vector<JoinedInput>& joins) {
  std::map<std::vector<int64_t>, std::vector<const LanePart*>> alike;
  for (const LanePart& part : parts) alike[dtypes_and_shapes_of(part)].push_back(&part);
  std::vector<LanePart> joined;
  for (const auto& [shapes, same] : alike) {
    if (same.size() == 1) {
      joined.push_back(*same[0]);
      continue;
    }
    std::vector<int32_t> ranks;
    for (const LanePart* part : same)
      for (int64_t i = 0; i < part->lanes.size(); ++i) ranks.push_back(part->lanes[i]);
    LanePart& whole = joined.emplace_back(LanePart{Lanes::of(std::move(ranks)), {}});
    for (size_t i = 0; i < same[0]->inputs.size(); ++i)
      whole.inputs.push_back(joined_input(same, i, whole.lanes, joins));
  }
  std::sort(joined.begin(), joined.end(),
            [](const LanePart& a, const LanePart& b) { return a.lanes[0] < b.lanes[0]; });
  return joined;
}

}  // namespace

bool Prepared::fits(std::span<const Block> blocks, const Compute& compute,
                    const SpmdProgram& program) const {
  if (inputs.size() != blocks.size()) return false;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Tensor& tensor = blocks[i].tensor;
    if (inputs[i].absent != (tensor.buffer == nullptr)) return false;
    if (inputs[i].absent) continue;
    if (inputs[i].dtype != tensor.dtype || inputs[i].shape != tensor.shape) return false;
    if (inputs[i].weak != program.values[static_cast<size_t>(compute.inputs[i])].weak) return false;
  }
  return true;
}

KnownOp& KnownOps::of(const SharedText& op, const Attrs& attrs, const OpRegistry& ops) {
  const Key key{&op.str(), attrs.identity()};
  if (last_ != nullptr && last_key_ == key) return *last_;
  KnownOp& known = known_[key];
  if (known.op == nullptr) known.op = &ops.at(op.str());
  last_key_ = key;
  last_ = &known;
  return known;
}

size_t PreparedOps::hash_of(const Prepared& wanted) {
  uint64_t hash = std::hash<std::string>()(wanted.attrs_text);
  const auto mix = [&](uint64_t part) { hash = (hash ^ part) * 0x9E3779B97F4A7C15ull; };
  mix(reinterpret_cast<uintptr_t>(wanted.op));
  for (const TensorMeta& meta : wanted.inputs) {
    mix(static_cast<uint64_t>(meta.dtype));
    for (const int64_t size : meta.shape) mix(static_cast<uint64_t>(size));
  }
  return static_cast<size_t>(hash);
}

const Prepared* PreparedOps::find(const Prepared& wanted) const {
  const auto alike = by_hash_.find(hash_of(wanted));
  if (alike == by_hash_.end()) return nullptr;
  for (const std::unique_ptr<Prepared>& known : alike->second)
    if (known->op == wanted.op && known->attrs_text == wanted.attrs_text &&
        *known->attrs == *wanted.attrs && known->inputs == wanted.inputs)
      return known.get();
  return nullptr;
}

const Prepared& PreparedOps::add(std::unique_ptr<Prepared> prepared) {
  std::vector<std::unique_ptr<Prepared>>& alike = by_hash_[hash_of(*prepared)];
  return *alike.emplace_back(std::move(prepared));
}

LocalTensor PendingOp::result(size_t output) const {
  const size_t count = compute().outputs.size();
  if (aliases.empty() && parts.size() == 1) return LocalTensor(outputs[output]);
  std::vector<Block> blocks = aliases;
  for (size_t at = output; at < outputs.size(); at += count) blocks.push_back(outputs[at]);
  return LocalTensor(std::move(blocks));
}

void PendingOp::clear() {
  parts.clear();
  joins.clear();
  inputs.clear();
  outputs.clear();
  aliases.clear();
  results.clear();
  target = {};
}

PendingOp& Executor::Frame::new_op(const Instr& instr) {
  if (idle_ops.empty()) idle_ops.push_back(&ops.emplace_back());
  PendingOp& op = *idle_ops.back();
  idle_ops.pop_back();
  op.instr = &instr;
  return op;
}

const Prepared& Executor::Frame::prepare(const Compute& compute, KnownOp& known, const Attrs& attrs,
                                         std::span<const Block> inputs) {
  for (const Prepared* entry : known.prepared)
    if (entry->fits(inputs, compute, shared.program)) return *entry;
  constexpr size_t kMostKnown = 8;
  if (known.prepared.size() == kMostKnown) known.prepared.erase(known.prepared.begin());
  auto fresh = std::make_unique<Prepared>();
  fresh->op = known.op;
  fresh->attrs = &attrs;
  fresh->attrs_text = to_string(attrs);
  fresh->inputs = metas_of(compute, shared.program, inputs);
  if (const Prepared* made = shared.prepared.find(*fresh)) {
    known.prepared.push_back(made);
    return *made;
  }
  const OpCall call{&attrs, fresh->inputs};
  fresh->outputs = known.op->infer(call);
  fresh->kernel = known.op->prepare(call, fresh->outputs);
  if (device && shared.options.kernels != nullptr)
    fresh->device_kernel =
        shared.options.kernels->find(fresh->kernel, fresh->inputs, fresh->outputs);
  if (shared.options.timed) fresh->cost = op_cost(*known.op, call, fresh->outputs);
  const Prepared& made = shared.prepared.add(std::move(fresh));
  known.prepared.push_back(&made);
  return made;
}

void Executor::Frame::add_part(PendingOp& op, KnownOp& known, const Attrs& attrs, const Lanes& on,
                               size_t first) {
  const Compute& compute = op.compute();
  const std::span<const Block> inputs = std::span(op.inputs).subspan(first);
  if (known.op->view && compute.into == kNoValue) {
    const std::vector<TensorMeta> metas = metas_of(compute, shared.program, inputs);
    if (std::optional<Tensor> view = known.op->view({&attrs, metas}, inputs[0].tensor)) {
      op.aliases.push_back({on, std::move(*view)});
      op.inputs.erase(op.inputs.begin() + static_cast<std::ptrdiff_t>(first), op.inputs.end());
      return;
    }
  }
  const Prepared& prepared = prepare(compute, known, attrs, inputs);
  for (size_t o = 0; o < compute.outputs.size(); ++o)
    op.outputs.push_back(
        block_without_contents(prepared.outputs[o].dtype, prepared.outputs[o].shape, on));
  op.parts.push_back({&prepared, on});
}

void Executor::Frame::add_parts(PendingOp& op, KnownOp& known, const LaneAttrs& entry,
                                const Lanes& on) {
  const size_t first = op.inputs.size();
  bool whole = true;
  for (ValueId id : op.compute().inputs) {
    const Block* block = id == kNoValue ? nullptr : whole_block(at(id), on);
    whole = whole && (block != nullptr || id == kNoValue);
    if (block == nullptr)
      op.inputs.emplace_back();
    else
      op.inputs.push_back({on, block->tensor});
  }
  if (whole) return add_part(op, known, entry.attrs, on, first);
  op.inputs.erase(op.inputs.begin() + static_cast<std::ptrdiff_t>(first), op.inputs.end());
  std::vector<const LocalTensor*> present;
  for (ValueId id : op.compute().inputs)
    if (id != kNoValue) present.push_back(&at(id));
  constexpr size_t kManyParts = 8;
  std::vector<LanePart> cuts = common_parts(on, present);
  if (cuts.size() > kManyParts && !known.op->view) cuts = joined_parts(cuts, op.joins);
  for (LanePart& cut : cuts) {
    const size_t start = op.inputs.size();
    size_t next = 0;
    for (ValueId id : op.compute().inputs)
      op.inputs.push_back(id == kNoValue ? Block{} : std::move(cut.inputs[next++]));
    add_part(op, known, entry.attrs, cut.lanes, start);
  }
}

void Executor::Frame::issue_compute(const Instr& instr, const Compute& compute, const Lanes& on) {
  PendingOp& op = new_op(instr);
  for_each_part(compute.attrs, on, [&](const LaneAttrs& entry, const Lanes& here) {
    add_parts(op, shared.known.of(compute.op, entry.attrs, shared.ops), entry, here);
  });
  OpCost cost;
  for (const PendingOp::Part& part : op.parts) {
    cost.flops = std::max(cost.flops, part.prepared->cost.flops);
    cost.bytes = std::max(cost.bytes, part.prepared->cost.bytes);
  }
  const bool writes = compute.into != kNoValue, runs = !op.parts.empty();
  if (writes) op.target = at(compute.into).restrict_to(on);
  const StreamId stream = stream_of(instr);
  for (size_t o = 0; o < compute.outputs.size(); ++o) {
    LocalTensor result = op.result(o);
    if (runs && !writes) allocate(result, compute.outputs[o], stream);
    if (runs && writes) unmetered.insert(compute.outputs[o]);
    if (writes || shared.options.made) op.results.push_back(result);
    set_value(compute.outputs[o], std::move(result), kDone);
  }
  const Ticket ticket = launch(
      instr, on, compute.op.str(), used_by(op), [this, pending = &op] { run(*pending); }, cost);
  for (ValueId id : compute.outputs) stamp(id, ticket);
  if (writes) wrote(compute.into, ticket);
}

bool Executor::Frame::run_kernels(PendingOp& op) {
  const Compute& compute = op.compute();
  const size_t ins = compute.inputs.size(), outs = compute.outputs.size();
  for (const JoinedInput& join : op.joins) {
    for (const Block& block : join.parts.blocks())
      if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    LocalTensor whole(join.whole);
    adopt(whole, join.parts);
  }
  try {
    for (size_t p = 0; p < op.parts.size(); ++p) {
      const RanOn ran =
          run_part(op.parts[p], std::span(op.inputs).subspan(p * ins, ins),
                   std::span(op.outputs).subspan(p * outs, outs), compute, shared.views, device);
      if (device && ran == RanOn::host) shared.host_ops.insert(compute.op);
    }
    return true;
  } catch (const Error& error) {
    const Origin& origin = op.instr->origin;
    shared.errors.push_back(error.inside({"", listing.path, origin.line, origin.column}));
    return false;
  }
}

void Executor::Frame::run(PendingOp& op) {
  if (run_kernels(op)) {
    const Compute& compute = op.compute();
    if (compute.into != kNoValue) {
      write_through(op.target, op.results[0]);
      made(compute.into, op.target);
    } else {
      for (size_t o = 0; o < op.results.size(); ++o) made(compute.outputs[o], op.results[o]);
    }
  }
  if (shared.options.repeats) return;
  op.clear();
  idle_ops.push_back(&op);
}

Executor::Frame::Buffers Executor::Frame::used_by(const PendingOp& op) const {
  Buffers buffers = used_by({&op.target});
  if (!shared.options.repeats) return buffers;
  for (const std::vector<Block>* blocks : {&op.inputs, &op.outputs, &op.aliases})
    for (const Block& block : *blocks)
      if (block.tensor.buffer != nullptr) buffers.push_back(block.tensor.buffer);
  for (const JoinedInput& join : op.joins)
    for (const Block& block : join.parts.blocks()) buffers.push_back(block.tensor.buffer);
  return buffers;
}

void Executor::Frame::issue_reshuffle(const Instr& instr, const Reshuffle& reshuffle,
                                      const Lanes& on) {
  const StreamId stream = stream_of(instr);
  LocalTensor result = make_value(reshuffle.output, on, stream);
  const LocalTensor input = at(reshuffle.input).restrict_to(on);
  auto body = [this, result, input, &reshuffle]() mutable {
    for (const Block& block : input.blocks())
      if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    move_to_device(input);
    adopt(result, unpack(*reshuffle.step, pack(*reshuffle.step, input)));
    made(reshuffle.output, result);
  };
  const Ticket ticket = launch(instr, on, "reshuffle", used_by({&input, &result}), std::move(body));
  set_value(reshuffle.output, std::move(result), ticket);
}

}  // namespace shardproof
