// Implements rank_context.h and rank_functions.h.
//
// A rank's call stores a function that submits it and suspends the fiber. Function advance() runs
// all fibers that are awake, then the stored functions on the thread's own stack. It then wakes the
// fibers whose tickets have ended.
#include <deque>
#include <exception>
#include <utility>

#include "shardproof/backends/api/rank_context.h"
#include "shardproof/backends/api/rank_functions.h"
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/base/memory_pool.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {
namespace {

// Thrown through the function of a rank that is blocked forever; caught at the root of its fiber.
struct UnwindRank {};

// Makes `view` a flat view of `x` with this rank as its lane.
void view_flat(const Tensor& x, const Lanes& own, LocalTensor& view) {
  if (view.empty()) {
    Block& fresh = view.blocks().emplace_back();
    fresh.tensor.shape = {0};
    fresh.tensor.strides = {1};
  }
  const bool dense = x.contiguous();
  Block& flat = view.blocks().front();
  flat.lanes = own;
  flat.tensor.dtype = x.dtype;
  flat.tensor.shape[0] = x.elements();
  flat.tensor.offset = dense ? x.offset : 0;
  flat.tensor.buffer = dense ? x.buffer : contiguous_copy(x).buffer;
  if (flat.tensor.buffer->lanes.size() == 1) return;  // the lane's name does not matter for reads
  const std::shared_ptr<Buffer> theirs = std::move(flat.tensor.buffer);
  flat.tensor.buffer = Tensor::without_contents(x.dtype, flat.tensor.shape, own).buffer;
  flat.tensor.buffer->bytes_per_lane = theirs->bytes_per_lane;
  flat.tensor.buffer->bytes = theirs->bytes;
}

bool brings_all(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter;
}

void check_peer(std::string_view what, int64_t peer, const Group& group) {
  if (peer < 0 || peer >= group.size())
    throw_bad_input("{}={} is not an index of group {}", what, peer, to_string(group));
}

void check_call(const Collective& c, const Tensor& x) {
  if (is_point_to_point(c.kind) || has_counts(c.kind))
    throw_bad_input("RankContext::collective cannot make {}", name(c.kind));
  if (reduces(c.kind)) check_reduction(c.reduction, x.dtype);
  if (has_root(c.kind)) check_peer("root", c.root, c.group);
  const bool cuts = brings_all(c.kind) || c.kind == CollectiveKind::all_to_all;
  if (cuts && x.elements() % c.group.size() != 0)
    throw_bad_input("{} needs a number of elements that {} ranks divide evenly, found {}",
                    name(c.kind), c.group.size(), x.elements());
}

// Returns the elements of a rank's output; -1: it has none.
int64_t received_elements(const Collective& c, int64_t rank) {
  using K = CollectiveKind;
  if (c.kind == K::barrier) return -1;
  if (c.kind == K::all_gather) return c.count * c.group.size();
  if (c.kind != K::gather && c.kind != K::reduce) return c.count;
  if (c.group.index_of(rank) != c.root) return -1;
  return c.kind == K::gather ? c.count * c.group.size() : c.count;
}

}  // namespace

// --- verbs ---------------------------------------------------------------------------------------

Call& CallGroup::add(const Collective& collective, int line) {
  if (used_ == calls_.size()) {
    calls_.emplace_back();
    ends_.emplace_back();
  }
  Call& call = calls_[used_++];
  call.collective = collective;
  call.lanes = rank_->own_;
  call.site.line = line;
  return call;
}

void CallGroup::bring(const Tensor& x) {
  Ends& ends = ends_[used_ - 1];
  view_flat(x, rank_->own_, ends.input);
  ends.has_input = true;
}

void CallGroup::get(const Tensor& answer) {
  Ends& ends = ends_[used_ - 1];
  view_flat(answer, rank_->own_, ends.output);
  ends.has_output = true;
}

std::span<Call> CallGroup::calls() {
  for (size_t i = 0; i < used_; ++i) {
    calls_[i].input = ends_[i].has_input ? &ends_[i].input : nullptr;
    calls_[i].output = ends_[i].has_output ? &ends_[i].output : nullptr;
  }
  return std::span(calls_).first(used_);
}

void CallGroup::clear() {
  for (Ends& ends : std::span(ends_).first(used_)) {
    if (std::exchange(ends.has_input, false)) ends.input.blocks().front().tensor.buffer.reset();
    if (std::exchange(ends.has_output, false)) ends.output.blocks().front().tensor.buffer.reset();
  }
  used_ = 0;
}

Tensor CallGroup::collective(const Collective& c, const Tensor& x, int line) {
  check_call(c, x);
  const int64_t brought = x.buffer == nullptr ? 0 : x.elements();
  Collective& call = add(c, line).collective;
  call.dtype = x.dtype;
  call.count = brings_all(c.kind) ? brought / c.group.size() : brought;
  if (x.buffer != nullptr) bring(x);
  const int64_t count = received_elements(call, rank_->rank_);
  if (count < 0) return {};
  Tensor answer =
      Tensor::without_contents(call.dtype, count == brought ? x.shape : Dims{count}, rank_->own_);
  get(answer);
  return answer;
}

void CallGroup::send(const Tensor& x, int64_t to, const Group& group, int line) {
  check_peer("to", to, group);
  Collective c;
  c.kind = CollectiveKind::send;
  c.group = group;
  c.peer = to;
  c.dtype = x.dtype;
  c.count = x.elements();
  add(c, line);
  bring(x);
}

Tensor CallGroup::recv(DType dtype, const Dims& shape, int64_t from, const Group& group, int line) {
  check_peer("from", from, group);
  Tensor answer = Tensor::without_contents(dtype, shape, rank_->own_);
  Collective c;
  c.kind = CollectiveKind::recv;
  c.group = group;
  c.peer = from;
  c.dtype = dtype;
  c.count = answer.elements();
  add(c, line);
  get(answer);
  return answer;
}

// The execution context copies the data that it needs, so the group is reused while the rank waits.
void RankContext::submit(const std::function<void(CallGroup&)>& fill) {
  if (stopped_) {
    CallGroup unused(*this);
    return fill(unused);
  }
  const auto issue = [&] {
    CallGroup& group = reusable_group();
    group.clear();
    group.rank_ = this;
    fill(group);
    const Ticket ticket = context_.submit(group.calls(), kMainStream);
    group.clear();
    return ticket;
  };
  wait_for(std::ref(issue));
}

void RankContext::run(CallGroup& group) {
  const auto fill = [&](CallGroup& own) { std::swap(own, group); };
  submit(std::ref(fill));
}

Tensor RankContext::collective(const Collective& call, const Tensor& x, int line) {
  Tensor answer;
  const auto fill = [&](CallGroup& one) { answer = one.collective(call, x, line); };
  submit(std::ref(fill));
  return answer;
}

Tensor RankContext::all_reduce(const Tensor& x, Reduction how, const Group& group, int line) {
  const Collective call{.kind = CollectiveKind::all_reduce,
                        .reduction = how,
                        .group = group,
                        .send_counts = {},
                        .recv_counts = {},
                        .schedule = {}};
  return collective(call, x, line);
}

Tensor RankContext::all_reduce(const Tensor& x, Reduction how, int line) {
  return all_reduce(x, how, world_, line);
}

void RankContext::barrier(const Group& group, int line) {
  Collective call;
  call.group = group;
  collective(call, Tensor(), line);
}

void RankContext::send(const Tensor& x, int64_t to, const Group& group, int line) {
  const auto fill = [&](CallGroup& one) { one.send(x, to, group, line); };
  submit(std::ref(fill));
}

Tensor RankContext::recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
                         int line) {
  Tensor answer;
  const auto fill = [&](CallGroup& one) { answer = one.recv(dtype, shape, from, group, line); };
  submit(std::ref(fill));
  return answer;
}

void RankContext::compute(double flops, double bytes, std::function<void()> body) {
  if (stopped_) return;
  const auto issue = [&] {
    Work work;
    work.lanes = Lanes::one(rank_);
    work.flops = flops;
    work.bytes = bytes;
    work.body = std::move(body);
    return context_.launch(std::move(work));
  };
  wait_for(std::ref(issue));
}

// --- running -------------------------------------------------------------------------------------

// FiberRanks and FiberRank are in no anonymous namespace: RankFunctions::Impl has members of them.

// The state that the ranks of one run share.
struct FiberRanks {
  FiberPool pool;
  OnStop on_stop;
  std::vector<class FiberRank*> asking;  // ranks with a call to submit, in order
  std::vector<RankError> errors;
  std::optional<CallGroup> spare;
};

class FiberRank : public RankContext {
 public:
  FiberRank(int64_t rank, const Group& world, ExecutionContext& execution, FiberRanks& ranks)
      : RankContext(rank, world, execution), ranks_(ranks) {}

  void start(const std::function<void(RankContext&)>& program) {
    fiber_ = ranks_.pool.spawn([this, &program] {
      try {
        program(*this);
        if (!stopped_) execution().finish();
      } catch (const UnwindRank&) {
      } catch (const std::exception& error) {
        die(error.what());
      } catch (...) {
        die("an exception of no std type");
      }
    });
  }

  // Prefetches the stored function of the rank that submits next: its stack is not in the cache.
  void approach() const {
    const auto* function = reinterpret_cast<const std::byte*>(issue_);
    for (int line = 0; line < 8; ++line) __builtin_prefetch(function + 64 * line);
  }
  void issue() {
    waiting_ = true;
    try {
      awaited_ = (*issue_)();
    } catch (...) {
      error_ = std::current_exception();
      return resume();
    }
    const CohortState state = execution().state();
    frozen_ = state == CohortState::hung;
    if (state == CohortState::dead) return give_up();
    wake_when_done();
  }
  // Wakes the fiber if its ticket has ended. Returns false if not, or if it waits for nothing.
  bool wake_when_done() {
    if (!waiting_ || frozen_) return false;
    const TicketState state = execution().poll(awaited_);
    if (state == TicketState::pending) return false;
    if (state == TicketState::done) execution().host_wait(awaited_);
    stopped_ = state == TicketState::failed;
    resume();
    return true;
  }
  // Ends its call without submitting it.
  void refuse() {
    waiting_ = true;
    give_up();
  }
  // The rank is blocked forever: ends its call so that its function can end.
  void give_up() {
    if (!waiting_) return;
    stopped_ = true;
    resume();
  }

 protected:
  bool wait_for(const std::function<Ticket()>& issue) override {
    issue_ = &issue;
    ranks_.asking.push_back(this);
    ranks_.pool.suspend(fiber_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (stopped_ && ranks_.on_stop == OnStop::unwind) throw UnwindRank{};
    return !stopped_;
  }

  CallGroup& reusable_group() override {
    if (!ranks_.spare) ranks_.spare.emplace(*this);
    return *ranks_.spare;
  }

 private:
  void resume() {
    waiting_ = false;
    ranks_.pool.wake(fiber_);
  }
  void die(std::string message) {
    ranks_.errors.push_back({rank(), std::move(message)});
    execution().stop(CohortState::dead);
  }

  FiberRanks& ranks_;
  FiberId fiber_ = 0;
  const std::function<Ticket()>* issue_ = nullptr;
  std::exception_ptr error_;
  Ticket awaited_ = kDone;
  bool waiting_ = false, frozen_ = false;
};

struct RankFunctions::Impl {
  Impl(World& world, int64_t ranks, const RankFunctionsOptions& options)
      : world(world),
        all(Group::world(ranks)),
        shared{FiberPool(options.fibers), options.on_stop, {}, {}, {}},
        of_rank(static_cast<size_t>(ranks), nullptr) {}

  // Wakes ranks whose ticket has ended. Polls all of them only if the world cannot name them.
  bool wake_done() {
    bool any = false;
    if (const std::optional<std::vector<int32_t>> woken = world.collect_ready_ranks()) {
      for (const int32_t rank : *woken)
        if (FiberRank* context = of_rank[static_cast<size_t>(rank)])
          any = context->wake_when_done() || any;
    } else {
      for (FiberRank& context : contexts) any = context.wake_when_done() || any;
    }
    return any;
  }

  World& world;
  Group all;
  FiberRanks shared;
  PooledDeque<FiberRank> contexts;
  std::vector<FiberRank*> of_rank;
  std::deque<std::function<void(RankContext&)>> programs;
};

RankFunctions::RankFunctions(World& world, int64_t ranks, const RankFunctionsOptions& options)
    : impl_(std::make_unique<Impl>(world, ranks, options)) {}

RankFunctions::~RankFunctions() { finish(); }

void RankFunctions::start(const Lanes& lanes, const std::function<void(RankContext&)>& program) {
  impl_->programs.push_back(program);
  for (int64_t i = 0; i < lanes.size(); ++i) {
    ExecutionContext& execution = impl_->world.open(Lanes::one(lanes[i]));
    FiberRank& context =
        impl_->contexts.emplace_back(lanes[i], impl_->all, execution, impl_->shared);
    impl_->of_rank[static_cast<size_t>(lanes[i])] = &context;
    context.start(impl_->programs.back());
  }
}

bool RankFunctions::advance() {
  impl_->shared.pool.run();
  const std::vector<FiberRank*> asking = std::exchange(impl_->shared.asking, {});
  for (size_t i = 0; i < asking.size(); ++i) {
    if (i + 1 < asking.size()) asking[i + 1]->approach();
    asking[i]->issue();
  }
  return !asking.empty() || impl_->wake_done();
}

std::vector<RankError> RankFunctions::finish() {
  FiberPool& pool = impl_->shared.pool;
  while (pool.alive() > 0) {
    for (FiberRank& context : impl_->contexts) context.give_up();
    pool.run();
    for (FiberRank* rank : std::exchange(impl_->shared.asking, {})) rank->refuse();
  }
  return std::move(impl_->shared.errors);
}

WorldReport run_ranks(int64_t ranks, const std::function<void(RankContext&)>& program,
                      const RanksOptions& options) {
  WorldOptions world_options = options.world;
  world_options.ranks = ranks;
  const std::shared_ptr<Backend> backend =
      options.backend ? options.backend : instrumented(local_backend());
  const std::unique_ptr<World> world = backend->start(world_options);
  RankFunctions functions(*world, ranks, {options.fibers, options.on_stop});
  functions.start(Lanes::range(0, ranks), program);
  while (functions.advance() || world->progress()) {
  }
  WorldReport report = world->close();
  report.rank_errors = functions.finish();
  return report;
}

}  // namespace shardproof
