#include "shardproof/engine/executor.h"

#include <algorithm>

#include "shardproof/engine/adopt.h"
#include "shardproof/engine/frame.h"

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

}  // namespace

Executor::Executor(const SpmdProgram& program, const OpRegistry& ops, World& world,
                   ExecutorOptions options)
    : shared_(new Shared{program, ops, world, std::move(options), {}, {}}) {}

Executor::~Executor() = default;

void Executor::start(const std::vector<Lanes>& cohorts, const std::vector<LocalTensor>& inputs) {
  const SpmdProgram& program = shared_->program;
  for (const Lanes& lanes : cohorts) {
    const SpmdListing* listing = nullptr;
    for (const SpmdListing& candidate : program.listings)
      if (candidate.lanes.contains(lanes)) listing = &candidate;
    SP_CHECK(listing, "no listing holds the cohort {}", to_string(lanes));
    Door& door = shared_->world.open(lanes);
    frames_.push_back(std::make_unique<Frame>(*shared_, *listing, lanes, door));
    Frame& frame = *frames_.back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = program.inputs[i];
      LocalTensor own = fork(inputs[i], lanes);
      if (own.empty()) continue;
      frame.allocate(own, id, kMainStream);
      frame.set_value(id, std::move(own), kDone);
    }
  }
}

bool Executor::run() {
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::unique_ptr<Frame>& frame : frames_) moved = frame->advance() || moved;
    if (!shared_->errors.empty()) return false;
    moved = shared_->world.progress() || moved;
  }
  return std::all_of(frames_.begin(), frames_.end(), [](auto& frame) { return frame->finished(); });
}

LocalTensor Executor::value(ValueId id) const {
  std::vector<Block> blocks;
  for (const std::unique_ptr<Frame>& frame : frames_)
    for (const Block& block : frame->values[static_cast<size_t>(id)].blocks())
      blocks.push_back(block);
  return blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks));
}

const std::vector<Error>& Executor::kernel_errors() const { return shared_->errors; }

const Prepared& Executor::Shared::prepare(const Instr& instr, const OpRecord& op,
                                          const Attrs& attrs, std::vector<TensorMeta> inputs) {
  std::deque<Prepared>& known = prepared[&instr];
  for (const Prepared& entry : known)
    if (entry.attrs == &attrs && entry.inputs == inputs) return entry;
  Prepared fresh;
  fresh.attrs = &attrs;
  fresh.inputs = std::move(inputs);
  const OpCall call{&attrs, fresh.inputs};
  fresh.outputs = op.infer(call);
  fresh.kernel = op.prepare(call, fresh.outputs);
  if (options.timed) fresh.cost = op_cost(op, call, fresh.outputs);
  known.push_back(std::move(fresh));
  return known.back();
}

}  // namespace shardproof
