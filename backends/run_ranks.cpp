#include <deque>
#include <exception>
#include <utility>

#include "shardproof/backends/facade.h"
#include "shardproof/backends/faulty.h"
#include "shardproof/backends/local.h"
#include "shardproof/localtensor/spec.h"

namespace shardproof {
namespace {

// Thrown through a rank's function that can never go on; caught at the root of its fiber.
struct Unwind {};

Tensor promised(DType dtype, const Dims& shape, int64_t rank) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = contiguous_strides(shape);
  tensor.buffer = std::make_shared<Buffer>();
  tensor.buffer->lanes = Lanes::one(rank);
  tensor.buffer->slots = Slots::shared(1);
  tensor.buffer->bytes_per_lane = tensor.elements() * size_of(dtype);
  return tensor;
}

// The flat view of a dense tensor as this rank's.
LocalTensor flat_view(const Tensor& x, int64_t rank) {
  Tensor flat = x.contiguous() ? x : contiguous_copy(x);
  flat.shape = {x.elements()};
  flat.strides = {1};
  if (flat.buffer->lanes.size() != 1 || flat.buffer->lanes[0] != rank) {
    auto own = std::make_shared<Buffer>(*flat.buffer);
    own->lanes = Lanes::one(rank);
    own->slots = Slots::shared(1);
    flat.buffer = std::move(own);
  }
  return LocalTensor(std::move(flat));
}

bool brings_all(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter;
}

void check_peer(std::string_view what, int64_t peer, const Group& group) {
  if (peer < 0 || peer >= group.size())
    throw_bad_input("{}={} is no index in group {}", what, peer, to_string(group));
}

void check_call(const Collective& c, const Tensor& x) {
  if (is_point_to_point(c.kind) || c.kind == CollectiveKind::all_to_all_v)
    throw_bad_input("{} is not a collective of the facade", name(c.kind));
  if (reduces(c.kind)) check_reduction(c.reduction, c.dtype);
  if (has_root(c.kind)) check_peer("root", c.root, c.group);
  const bool cuts = brings_all(c.kind) || c.kind == CollectiveKind::all_to_all;
  if (cuts && x.elements() % c.group.size() != 0)
    throw_bad_input("{} of {} elements over {} ranks: does not divide", name(c.kind), x.elements(),
                    c.group.size());
}

int64_t gets(const Collective& c, int64_t index) {
  using K = CollectiveKind;
  if (c.kind == K::barrier) return -1;
  if (c.kind == K::all_gather) return c.count * c.group.size();
  if (c.kind == K::gather) return index == c.root ? c.count * c.group.size() : -1;
  if (c.kind == K::reduce) return index == c.root ? c.count : -1;
  return c.count;
}

}  // namespace

// --- verbs
// ------------------------------------------------------------------------------------------

Tensor CallGroup::collective(Collective c, const Tensor& x, int line) {
  const int64_t rank = rank_.rank();
  c.dtype = x.dtype;
  check_call(c, x);
  c.count = x.buffer == nullptr ? 0 : x.elements();
  if (brings_all(c.kind)) c.count /= c.group.size();
  Call& call = calls_.emplace_back();
  call.lanes = Lanes::one(rank);
  call.site.line = line;
  if (x.buffer != nullptr)
    call.input = views_.emplace_back(std::make_unique<LocalTensor>(flat_view(x, rank))).get();
  Tensor answer;
  if (const int64_t count = gets(c, c.group.index_of(rank)); count >= 0) {
    const bool same = count == x.elements();
    answer = promised(c.dtype, same ? x.shape : Dims{count}, rank);
    call.output = views_.emplace_back(std::make_unique<LocalTensor>(flat_view(answer, rank))).get();
  }
  call.collective = std::move(c);
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
  Call& call = calls_.emplace_back();
  call.lanes = Lanes::one(rank_.rank());
  call.site.line = line;
  call.input = views_.emplace_back(std::make_unique<LocalTensor>(flat_view(x, rank_.rank()))).get();
  call.collective = std::move(c);
}

Tensor CallGroup::recv(DType dtype, const Dims& shape, int64_t from, const Group& group, int line) {
  check_peer("from", from, group);
  Tensor answer = promised(dtype, shape, rank_.rank());
  Collective c;
  c.kind = CollectiveKind::recv;
  c.group = group;
  c.peer = from;
  c.dtype = dtype;
  c.count = answer.elements();
  Call& call = calls_.emplace_back();
  call.lanes = Lanes::one(rank_.rank());
  call.site.line = line;
  call.output =
      views_.emplace_back(std::make_unique<LocalTensor>(flat_view(answer, rank_.rank()))).get();
  call.collective = std::move(c);
  return answer;
}

void RankContext::run(CallGroup& group) {
  if (stopped_) return;
  const Ticket ticket = door_.submit(group.calls_, kMainStream);
  wait(ticket);
  door_.host_wait(ticket);
}

Tensor RankContext::collective(Collective call, const Tensor& x, int line) {
  CallGroup one(*this);
  Tensor answer = one.collective(std::move(call), x, line);
  run(one);
  return answer;
}

Tensor RankContext::all_reduce(const Tensor& x, Reduction how, const Group& group, int line) {
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.reduction = how;
  call.group = group;
  return collective(std::move(call), x, line);
}

Tensor RankContext::all_reduce(const Tensor& x, Reduction how, int line) {
  return all_reduce(x, how, world_, line);
}

void RankContext::barrier(const Group& group, int line) {
  Collective call;
  call.group = group;
  collective(std::move(call), Tensor(), line);
}

void RankContext::send(const Tensor& x, int64_t to, const Group& group, int line) {
  CallGroup one(*this);
  one.send(x, to, group, line);
  run(one);
}

Tensor RankContext::recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
                         int line) {
  CallGroup one(*this);
  Tensor answer = one.recv(dtype, shape, from, group, line);
  run(one);
  return answer;
}

void RankContext::compute(double flops, double bytes, std::function<void()> body) {
  if (stopped_) return;
  Work work;
  work.lanes = Lanes::one(rank_);
  work.flops = flops;
  work.bytes = bytes;
  work.body = std::move(body);
  const Ticket ticket = door_.launch(std::move(work));
  wait(ticket);
  door_.host_wait(ticket);
}

// --- running
// ----------------------------------------------------------------------------------------

namespace {

class FiberRank : public RankContext {
 public:
  FiberRank(int64_t rank, const Group& world, Door& door, FiberPool& pool, OnStop on_stop)
      : RankContext(rank, world, door), pool_(pool), on_stop_(on_stop) {}

  void start(const std::function<void(RankContext&)>& program, std::vector<RankError>& errors) {
    fiber_ = pool_.spawn([this, &program, &errors] {
      try {
        program(*this);
        if (!stopped_) door().finish();
      } catch (const Unwind&) {
      } catch (const std::exception& error) {
        die(errors, error.what());
      } catch (...) {
        die(errors, "an exception of no std type");
      }
    });
  }

  // Goes on when its ticket is no longer pending. False when it is, or when it waits for nothing.
  bool wake_when_done() {
    if (!waiting_ || frozen_ || door().poll(awaited_) == TicketState::pending) return false;
    waiting_ = false;
    pool_.wake(fiber_);
    return true;
  }
  // It can never go on: its verb ends so that the function can.
  void give_up() {
    if (!waiting_) return;
    waiting_ = false;
    stopped_ = true;
    pool_.wake(fiber_);
  }

 protected:
  bool wait(Ticket ticket) override {
    frozen_ = door().state() == CohortState::hung;
    if (door().state() == CohortState::dead) return stop();
    if (frozen_ || door().poll(ticket) == TicketState::pending) {
      awaited_ = ticket;
      waiting_ = true;
      pool_.suspend(fiber_);
    }
    if (stopped_ || door().poll(ticket) == TicketState::failed) return stop();
    return true;
  }

 private:
  bool stop() {
    stopped_ = true;
    if (on_stop_ == OnStop::unwind) throw Unwind{};
    return false;
  }
  void die(std::vector<RankError>& errors, std::string message) {
    errors.push_back({rank(), std::move(message)});
    door().stop(CohortState::dead);
  }

  FiberPool& pool_;
  OnStop on_stop_;
  FiberId fiber_ = 0;
  Ticket awaited_ = kDone;
  bool waiting_ = false, frozen_ = false;
};

}  // namespace

WorldReport run_ranks(int64_t ranks, const std::function<void(RankContext&)>& program,
                      const RanksOptions& options) {
  WorldOptions world_options = options.world;
  world_options.ranks = ranks;
  const std::shared_ptr<Launcher> backend =
      options.backend ? options.backend : instrumented(local_backend());
  const std::unique_ptr<World> world = backend->start(world_options);
  const Group all = Group::world(ranks);
  FiberPool pool(options.fibers);
  std::vector<RankError> errors;
  std::deque<FiberRank> contexts;
  for (int64_t rank = 0; rank < ranks; ++rank)
    contexts.emplace_back(rank, all, world->open(Lanes::one(rank)), pool, options.on_stop)
        .start(program, errors);
  for (bool moved = true; moved;) {
    pool.run();
    moved = false;
    for (FiberRank& context : contexts) moved = context.wake_when_done() || moved;
    if (!moved) moved = world->progress();
  }
  WorldReport report = world->close();
  for (FiberRank& context : contexts) context.give_up();
  pool.run();
  report.rank_errors = std::move(errors);
  return report;
}

}  // namespace shardproof
