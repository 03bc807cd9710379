// The blocking facade: a rank's program as a C++ function. N of them run as fibers over the same
// door that listings use; each verb submits and gives way until its ticket is done.
//
//   WorldReport report = run_ranks(4, [](RankContext& me) {
//     Tensor y = me.all_reduce(tensor_of(DType::f32, {1}, {double(me.rank())}));
//   });
//
// Tensors are dense and of one device. Lines of findings and records are those of the C++ source.
// An exception that leaves a rank's function ends that rank alone: it is told in the report, and
// who waits for it has a missing rank. A rank that can never go on is unwound by an exception of no
// std type thrown from its verb (OnStop::unwind), or its verbs do nothing any more and stopped() is
// true (OnStop::tell).
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/sim/fiber/fiber.h"

namespace shardproof {

enum class OnStop : uint8_t { unwind, tell };

struct RanksOptions {
  std::shared_ptr<Backend> backend;  // null: local, with recorder and faults
  WorldOptions world;                // `ranks` is set by run_ranks
  FiberOptions fibers;
  OnStop on_stop = OnStop::unwind;
};

class RankContext;

// Calls that start and end together. What a verb returns has its contents after RankContext::run.
class CallGroup {
 public:
  explicit CallGroup(RankContext& rank) : rank_(&rank) {}
  void send(const Tensor& x, int64_t to, const Group& group, int line = __builtin_LINE());
  Tensor recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
              int line = __builtin_LINE());
  // The collective's kind, reduction, root and group; dtype and count are taken from `x`.
  Tensor collective(const Collective& call, const Tensor& x, int line = __builtin_LINE());

 private:
  friend class RankContext;
  Call& add(const Collective& call, int line);
  std::span<Call> calls();  // with their tensors
  void clear();             // keeps its memory, for the next calls

  // The tensors of a call as views of one block, which is kept when there is none.
  struct Ends {
    LocalTensor input, output;
    bool brings = false, gets = false;
  };
  void bring(const Tensor& x);
  void get(const Tensor& answer);

  RankContext* rank_;
  // The first `used_` are calls; those behind are kept for what they have allocated.
  std::vector<Call> calls_;
  std::vector<Ends> ends_;
  size_t used_ = 0;
};

class RankContext {
 public:
  virtual ~RankContext() = default;
  int64_t rank() const { return rank_; }
  const Group& world() const { return world_; }
  bool stopped() const { return stopped_; }

  Tensor all_reduce(const Tensor& x, Reduction how = {}, int line = __builtin_LINE());
  Tensor all_reduce(const Tensor& x, Reduction how, const Group& group,
                    int line = __builtin_LINE());
  // Any other collective: kind, reduction, root and group as given. Shape [count] of what the rank
  // gets.
  Tensor collective(const Collective& call, const Tensor& x, int line = __builtin_LINE());
  void barrier(const Group& group, int line = __builtin_LINE());
  void send(const Tensor& x, int64_t to, const Group& group, int line = __builtin_LINE());
  Tensor recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
              int line = __builtin_LINE());
  CallGroup group() { return CallGroup(*this); }
  void run(CallGroup& group);
  // Local work of this size on the clock.
  void compute(double flops, double bytes, std::function<void()> body = {});
  ExecutionContext& execution() { return context_; }

 protected:
  RankContext(int64_t rank, const Group& world, ExecutionContext& execution)
      : rank_(rank), own_(Lanes::one(rank)), world_(world), context_(execution) {}
  // Runs `issue` on the thread's own stack, for those of ranks are many and cold, and gives way
  // until its ticket is no longer pending. False when that never comes. Throws what `issue` throws.
  virtual bool wait_for(const std::function<Ticket()>& issue) = 0;
  // A group that is used again and again, for what runs on the thread's own stack.
  virtual CallGroup& reusable_group() = 0;
  bool stopped_ = false;

 private:
  friend class CallGroup;
  void submit(const std::function<void(CallGroup&)>& fill);

  int64_t rank_;
  Lanes own_;  // it alone
  Group world_;
  ExecutionContext& context_;
};

WorldReport run_ranks(int64_t ranks, const std::function<void(RankContext&)>& program,
                      const RanksOptions& options = {});

}  // namespace shardproof
