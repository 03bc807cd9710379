// Implements executor.h: the loop over frames.
//
// 1. `start` makes a frame for each cohort and gives it its part of the inputs.
// 2. `run` advances each frame until it waits, then the world (matching of calls, completion of
//    work), and repeats both until nothing changes. No frame blocks the thread.
//
// Example: two cohorts, ranks 0-1 and ranks 2-3, each with the listing `y = all_reduce(x, sum)`.
// The first frame submits its call and reaches its end; the call is pending. The second frame
// submits the same call. The world then matches both halves, completes the call and runs the work
// after it. A last pass over the frames finds nothing to do, so `run` returns true.
#include "shardproof/engine/execute/executor.h"

#include <algorithm>
#include <utility>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/execute/frame.h"

namespace shardproof {

Executor::Executor(const SpmdProgram& program, const OpRegistry& ops, World& world,
                   ExecutorOptions options)
    : shared_(new Shared{program, ops, world, std::move(options), {}, {}, {}, {}, {}, {}, {}}) {}

Executor::~Executor() = default;

void Executor::start(const std::vector<Lanes>& cohorts, const std::vector<LocalTensor>& inputs) {
  const SpmdProgram& program = shared_->program;
  for (const Lanes& lanes : cohorts) {
    const SpmdListing* listing = nullptr;
    for (const SpmdListing& candidate : program.listings)
      if (candidate.lanes.contains(lanes)) listing = &candidate;
    SP_CHECK(listing, "no listing holds the cohort {}", to_string(lanes));
    ExecutionContext& context = shared_->world.open(lanes);
    frames_.push_back(std::make_unique<Frame>(*shared_, *listing, lanes, context));
    Frame& frame = *frames_.back();
    const auto last = static_cast<size_t>(lanes[lanes.size() - 1]);
    if (frame_of_first_.size() <= last) frame_of_first_.resize(last + 1);
    frame_of_first_[static_cast<size_t>(lanes[0])] = &frame;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id = program.inputs[i];
      LocalTensor own = fork(inputs[i], lanes);
      if (own.empty()) continue;
      frame.allocate(own, id, kMainStream);
      context.provide(own);
      frame.set_value(id, std::move(own), kDone);
    }
  }
}

// Frames wait for tickets. A world of many cohorts names the ranks for which one has ended. If rank
// functions run in the same world, they read these ranks themselves.
bool Executor::advance_frames(bool all, bool functions_beside) {
  std::optional<std::vector<int32_t>> ready;
  if (frames_.size() > 1 && !functions_beside) ready = shared_->world.collect_ready_ranks();
  bool moved = false;
  if (all || !ready) {
    for (const std::unique_ptr<Frame>& frame : frames_) moved = frame->advance() || moved;
    return moved;
  }
  for (const int32_t rank : *ready)
    if (Frame* const frame = frame_of_first_[static_cast<size_t>(rank)])
      moved = frame->advance() || moved;
  return moved;
}

bool Executor::run(const std::function<bool()>& advance_functions) {
  bool first = true;
  for (bool moved = true; moved;) {
    moved = advance_frames(std::exchange(first, false), advance_functions != nullptr);
    if (!shared_->errors.empty()) return false;
    if (advance_functions) moved = advance_functions() || moved;
    moved = shared_->world.progress() || moved;
  }
  return std::all_of(frames_.begin(), frames_.end(), [](auto& frame) { return frame->finished(); });
}

LocalTensor Executor::value(ValueId id) const {
  std::vector<Block> blocks;
  for (const std::unique_ptr<Frame>& frame : frames_)
    for (const Block& block : frame->at(id).blocks()) blocks.push_back(block);
  return blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks));
}

const std::vector<Error>& Executor::kernel_errors() const { return shared_->errors; }

const std::set<std::string>& Executor::host_ops() const { return shared_->host_ops; }

}  // namespace shardproof
