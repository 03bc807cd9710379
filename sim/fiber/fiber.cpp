// Implements fiber.h with Boost.Fiber's contexts. The pool has a scheduler of its own
// (FiberScheduler) and workers that are reused. A worker that has run its body waits for the next
// one.
#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/scheduler.hpp>
#include <new>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/fiber/fiber.h"
#include "shardproof/sim/fiber/fiber_stacks.h"

namespace shardproof {
using boost::fibers::context;

// These types are in no anonymous namespace: FiberPool::Impl has members of them.

// Runs workers in order of becoming ready, and the thread's own context if none is. The library's
// dispatcher runs before that context: it does the library's own cleaning up.
class FiberScheduler : public boost::fibers::algo::algorithm {
 public:
  void awakened(context* fiber) noexcept override {
    if (fiber->is_context(boost::fibers::type::dispatcher_context)) {
      dispatcher_ = fiber;
    } else if (fiber->is_context(boost::fibers::type::main_context)) {
      main_ = fiber;
    } else {
      fiber->ready_link(workers_);
    }
  }

  context* pick_next() noexcept override {
    if (!workers_.empty()) {
      context* next = &workers_.front();
      workers_.pop_front();
      // Prefetches the next one: the stacks of many fibers are not in the cache.
      if (!workers_.empty()) __builtin_prefetch(&workers_.front());
      return next;
    }
    return std::exchange(dispatcher_ != nullptr ? dispatcher_ : main_, nullptr);
  }

  bool has_ready_fibers() const noexcept override {
    return !workers_.empty() || dispatcher_ != nullptr || main_ != nullptr;
  }
  // Only this thread makes fibers ready.
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override {}
  void notify() noexcept override {}

 private:
  boost::fibers::scheduler::ready_queue_type workers_;
  context *dispatcher_ = nullptr, *main_ = nullptr;
};

class SlabStackAllocator {
 public:
  explicit SlabStackAllocator(FiberStacks& slabs) : slabs_(&slabs) {}
  void deallocate(boost::context::stack_context& stack) noexcept {
    slabs_->release(static_cast<std::byte*>(stack.sp) - stack.size);
  }

 private:
  FiberStacks* slabs_;
};

// The function that a worker runs. A type of this file, so that the specialization of
// worker_context below is unique.
struct FiberBody {
  std::function<void()> run;
};
using FiberWorker = boost::fibers::worker_context<FiberBody>;

// State that the fibers of a pool share.
struct FiberState {
  FiberStacks slabs;
  FiberScheduler* order;           // owned by the scheduler
  std::vector<FiberWorker*> idle;  // workers that have run their body
  int64_t alive = 0;
};

}  // namespace shardproof

namespace boost::fibers {

// The library's worker ends by context::terminate(), whose frame of 5 KB is larger than most
// functions need. Each stack would touch a second page for it. This worker waits for its next body
// instead, and leaves its stack when its context is released.
template <>
class worker_context<shardproof::FiberBody> final : public context {
 public:
  worker_context(const boost::context::preallocated& room, shardproof::FiberState& state)
      : context(1, type::worker_context, launch::post), state_(state) {
    c_ =
        boost::context::fiber(std::allocator_arg, room, shardproof::SlabStackAllocator(state.slabs),
                              [this](boost::context::fiber&&) { return run(); });
  }
  void give(std::function<void()> body) { body_.run = std::move(body); }

 private:
  boost::context::fiber run() {
    for (;;) {
      body_.run();
      body_.run = nullptr;
      for (auto& [key, data] : fss_data_) data.do_cleanup();
      fss_data_.clear();
      --state_.alive;
      state_.idle.push_back(this);
      // If the scheduler resumes this worker, `back` is empty. If the worker is released, `back` is
      // the context to return to.
      if (boost::context::fiber back = state_.order->pick_next()->suspend_with_cc()) return back;
    }
  }

  shardproof::FiberState& state_;
  shardproof::FiberBody body_;
};

}  // namespace boost::fibers

namespace shardproof {

struct FiberPool::Impl {
  struct FiberEntry {
    FiberWorker* worker;
    bool suspended;  // false: it runs, is ready or has ended
  };
  FiberState state;
  std::vector<FiberEntry> entries;  // by fiber

  FiberWorker* worker();
};

FiberWorker* FiberPool::Impl::worker() {
  if (!state.idle.empty()) {
    FiberWorker* free = state.idle.back();
    state.idle.pop_back();
    return free;
  }
  // Places the context at the top of its stack.
  boost::context::stack_context stack;
  stack.size = state.slabs.stack_bytes();
  std::byte* const bottom = state.slabs.allocate_stack();
  stack.sp = bottom + stack.size;
  constexpr size_t kRoom = (sizeof(FiberWorker) + 63) / 64 * 64;
  void* const place = bottom + stack.size - kRoom;
  FiberWorker* made = new (place) FiberWorker({place, stack.size - kRoom, stack}, state);
  context::active()->attach(made);
  return made;
}

FiberPool::FiberPool(FiberOptions options) {
  auto* order = new FiberScheduler;
  context::active()->get_scheduler()->set_algo(order);
  impl_.reset(new Impl{{{options.stack_bytes, options.guarded_stacks}, order, {}, 0}, {}});
}

FiberPool::~FiberPool() {
  SP_CHECK(impl_->state.alive == 0, "{} fibers have not ended", impl_->state.alive);
  run();
  for (FiberWorker* worker : impl_->state.idle) intrusive_ptr_release(worker);
  boost::fibers::use_scheduling_algorithm<boost::fibers::algo::round_robin>();
}

FiberId FiberPool::spawn(std::function<void()> body) {
  FiberWorker* const worker = impl_->worker();
  worker->give(std::move(body));
  const FiberId id = static_cast<FiberId>(impl_->entries.size());
  impl_->entries.push_back({worker, false});
  ++impl_->state.alive;
  context::active()->schedule(worker);
  return id;
}

void FiberPool::run() { boost::this_fiber::yield(); }

int64_t FiberPool::alive() const { return impl_->state.alive; }

void FiberPool::suspend(FiberId self) {
  Impl::FiberEntry& entry = impl_->entries[static_cast<size_t>(self)];
  entry.suspended = true;
  entry.worker->suspend();
}

void FiberPool::wake(FiberId fiber) {
  Impl::FiberEntry& entry = impl_->entries[static_cast<size_t>(fiber)];
  if (std::exchange(entry.suspended, false)) entry.worker->get_scheduler()->schedule(entry.worker);
}

}  // namespace shardproof
