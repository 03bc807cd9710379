#include <boost/fiber/algo/algorithm.hpp>
#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/scheduler.hpp>
#include <deque>
#include <vector>

#include "shardproof/localtensor/error.h"
#include "shardproof/sim/fiber.h"
#include "shardproof/sim/stack_slabs.h"

namespace shardproof {
namespace {

using boost::fibers::context;

// Workers in order of becoming ready; the thread's own context only when no worker is. The
// library's dispatcher comes before it, because it is what takes ended fibers' stacks back.
class InOrder : public boost::fibers::algo::algorithm {
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
      return next;
    }
    return std::exchange(dispatcher_ != nullptr ? dispatcher_ : main_, nullptr);
  }

  bool has_ready_fibers() const noexcept override {
    return !workers_.empty() || dispatcher_ != nullptr || main_ != nullptr;
  }
  // Nobody outside this thread can make a fiber ready.
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override {}
  void notify() noexcept override {}

 private:
  boost::fibers::scheduler::ready_queue_type workers_;
  context *dispatcher_ = nullptr, *main_ = nullptr;
};

class SlabStacks {
 public:
  explicit SlabStacks(StackSlabs& slabs) : slabs_(&slabs) {}
  boost::context::stack_context allocate() {
    boost::context::stack_context stack;
    stack.size = slabs_->stack_bytes();
    stack.sp = slabs_->take() + stack.size;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) noexcept {
    slabs_->give_back(static_cast<std::byte*>(stack.sp) - stack.size);
  }

 private:
  StackSlabs* slabs_;
};

}  // namespace

struct FiberPool::Impl {
  explicit Impl(const FiberOptions& options) : slabs(options.stack_bytes, options.guarded_stacks) {}
  StackSlabs slabs;
  std::deque<context*> suspended;  // of each fiber; null while it runs or is ready
  int64_t alive = 0;
};

FiberPool::FiberPool(FiberOptions options) : impl_(std::make_unique<Impl>(options)) {
  boost::fibers::use_scheduling_algorithm<InOrder>();
}

FiberPool::~FiberPool() {
  SP_CHECK(impl_->alive == 0, "{} fibers have not ended", impl_->alive);
  run();
  boost::fibers::use_scheduling_algorithm<boost::fibers::algo::round_robin>();
}

FiberId FiberPool::spawn(std::function<void()> body) {
  const FiberId id = static_cast<FiberId>(impl_->suspended.size());
  impl_->suspended.push_back(nullptr);
  ++impl_->alive;
  boost::fibers::fiber(boost::fibers::launch::post, std::allocator_arg, SlabStacks(impl_->slabs),
                       [impl = impl_.get(), run = std::move(body)] {
                         run();
                         --impl->alive;
                       })
      .detach();
  return id;
}

void FiberPool::run() { boost::this_fiber::yield(); }

int64_t FiberPool::alive() const { return impl_->alive; }

void FiberPool::suspend(FiberId self) {
  context* active = context::active();
  impl_->suspended[static_cast<size_t>(self)] = active;
  active->suspend();
}

void FiberPool::wake(FiberId fiber) {
  context*& waiting = impl_->suspended[static_cast<size_t>(fiber)];
  if (waiting != nullptr) context::active()->schedule(std::exchange(waiting, nullptr));
}

}  // namespace shardproof
