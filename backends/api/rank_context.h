// RankContext: the blocking interface for a rank's program written as a C++ function. The ranks run
// as fibers over the execution contexts that listings use; each call submits and suspends its fiber
// until the ticket is done.
//
//   WorldReport report = run_ranks(4, [](RankContext& me) {
//     Tensor y = me.all_reduce(tensor_of(DType::f32, {1}, {double(me.rank())}));
//   });
//
// A tensor is the part of one rank, contiguous. Lines in findings and records are lines of the C++
// source. An exception that leaves a rank's function ends only that rank: the report names it, and
// ranks that wait for it have a missing rank. A rank that is blocked forever is unwound by an
// exception of no std type, thrown from its call (OnStop::unwind). With OnStop::return_calls its
// calls return immediately instead, and stopped() is true.
//
// Threading: one thread. Bad arguments throw Error(bad_input).
#pragma once

#include <functional>
#include <memory>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/sim/fiber/fiber.h"

namespace shardproof {

enum class OnStop : uint8_t { unwind, return_calls };

struct RanksOptions {
  std::shared_ptr<Backend> backend;  // null: local, with recorder and faults
  WorldOptions world;                // `ranks` is set by run_ranks
  FiberOptions fibers;
  OnStop on_stop = OnStop::unwind;
};

class RankContext;

// Calls that start and end together. Tensors that they return have contents after RankContext::run.
class CallGroup {
 public:
  explicit CallGroup(RankContext& rank) : rank_(&rank) {}
  void send(const Tensor& x, int64_t to, const Group& group, int line = __builtin_LINE());
  Tensor recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
              int line = __builtin_LINE());
  // Uses the kind, reduction, root and group of `call`; dtype and count come from `x`.
  Tensor collective(const Collective& call, const Tensor& x, int line = __builtin_LINE());

 private:
  friend class RankContext;
  Call& add(const Collective& call, int line);
  std::span<Call> calls();  // with pointers to their tensors
  void clear();             // keeps allocated memory for the next calls

  // The tensors of a call, each as one block, and whether it has them.
  struct Ends {
    LocalTensor input, output;
    bool has_input = false, has_output = false;
  };
  void bring(const Tensor& x);
  void get(const Tensor& answer);

  RankContext* rank_;
  // calls_[i] has the tensors ends_[i]. Entries from `used_` on are kept for their memory.
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
  // Any other collective, with kind, reduction, root and group as given. Returns shape [count], or
  // the shape of `x` if the counts are equal; an empty tensor if the rank receives nothing.
  Tensor collective(const Collective& call, const Tensor& x, int line = __builtin_LINE());
  void barrier(const Group& group, int line = __builtin_LINE());
  void send(const Tensor& x, int64_t to, const Group& group, int line = __builtin_LINE());
  Tensor recv(DType dtype, const Dims& shape, int64_t from, const Group& group,
              int line = __builtin_LINE());
  CallGroup group() { return CallGroup(*this); }
  void run(CallGroup& group);
  // Runs local work of this size on the clock.
  void compute(double flops, double bytes, std::function<void()> body = {});
  ExecutionContext& execution() { return context_; }

 protected:
  RankContext(int64_t rank, const Group& world, ExecutionContext& execution)
      : rank_(rank), own_(Lanes::one(rank)), world_(world), context_(execution) {}
  // Runs `issue` on the thread's own stack and suspends the fiber until its ticket is no longer
  // pending. Returns false if the rank is stopped. Throws what `issue` throws. Fiber stacks are
  // many and not in the cache, so code that runs for every call uses the thread's stack.
  virtual bool wait_for(const std::function<Ticket()>& issue) = 0;
  // Returns a group that is reused for calls on the thread's own stack.
  virtual CallGroup& reusable_group() = 0;
  bool stopped_ = false;

 private:
  friend class CallGroup;
  void submit(const std::function<void(CallGroup&)>& fill);

  int64_t rank_;
  Lanes own_;  // this rank alone
  Group world_;
  ExecutionContext& context_;
};

// Runs `program` on `ranks` ranks of a world of its own. Throws Error(bad_input) for bad options.
WorldReport run_ranks(int64_t ranks, const std::function<void(RankContext&)>& program,
                      const RanksOptions& options = {});

}  // namespace shardproof
