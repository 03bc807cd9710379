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
namespace {

using boost::fibers::context;

// Workers in order of becoming ready; the thread's own context only when no worker is. The
// library's dispatcher comes before it: it does what the library itself has to do in between.
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
      // The one after it: stacks of many are cold, and its page is far away.
      if (!workers_.empty()) __builtin_prefetch(&workers_.front());
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
  explicit SlabStacks(FiberStacks& slabs) : slabs_(&slabs) {}
  void deallocate(boost::context::stack_context& stack) noexcept {
    slabs_->give_back(static_cast<std::byte*>(stack.sp) - stack.size);
  }

 private:
  FiberStacks* slabs_;
};

// The function a fiber of the pool runs, one at a time. A type of this file: the library makes
// workers of other people's functions.
struct Body {
  std::function<void()> run;
};
using Worker = boost::fibers::worker_context<Body>;

// What the fibers of a pool share.
struct Crew {
  FiberStacks slabs;
  InOrder* order;             // the scheduler's
  std::vector<Worker*> idle;  // have run their body and wait for another
  int64_t alive = 0;
};

}  // namespace
}  // namespace shardproof

namespace boost::fibers {

// The library's own worker ends by context::terminate(), whose frame is deeper (5 KB) than what
// most functions need: each stack would have a second page for it. This one stays when its body is
// through, for the next body, and leaves its stack when its context is released.
template <>
class worker_context<shardproof::Body> final : public context {
 public:
  worker_context(const boost::context::preallocated& room, shardproof::Crew& crew)
      : context(1, type::worker_context, launch::post), pool_(crew) {
    c_ = boost::context::fiber(std::allocator_arg, room, shardproof::SlabStacks(crew.slabs),
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
      --pool_.alive;
      pool_.idle.push_back(this);
      // Resumed by the scheduler it gets nothing back; by a release, whom to go back to.
      if (boost::context::fiber back = pool_.order->pick_next()->suspend_with_cc()) return back;
    }
  }

  shardproof::Crew& pool_;
  shardproof::Body body_;
};

}  // namespace boost::fibers

namespace shardproof {

struct FiberPool::Impl {
  struct Seat {
    Worker* worker;
    bool suspended;  // else it runs, is ready or has ended
  };
  Crew crew;
  std::vector<Seat> seats;  // of each fiber

  Worker* worker();
};

Worker* FiberPool::Impl::worker() {
  if (!crew.idle.empty()) {
    Worker* free = crew.idle.back();
    crew.idle.pop_back();
    return free;
  }
  // The context lies at the top of its stack.
  boost::context::stack_context stack;
  stack.size = crew.slabs.stack_bytes();
  std::byte* const bottom = crew.slabs.take();
  stack.sp = bottom + stack.size;
  constexpr size_t kRoom = (sizeof(Worker) + 63) / 64 * 64;
  void* const place = bottom + stack.size - kRoom;
  Worker* made = new (place) Worker({place, stack.size - kRoom, stack}, crew);
  context::active()->attach(made);
  return made;
}

FiberPool::FiberPool(FiberOptions options) {
  auto* order = new InOrder;
  context::active()->get_scheduler()->set_algo(order);
  impl_.reset(new Impl{{{options.stack_bytes, options.guarded_stacks}, order, {}, 0}, {}});
}

FiberPool::~FiberPool() {
  SP_CHECK(impl_->crew.alive == 0, "{} fibers have not ended", impl_->crew.alive);
  run();
  for (Worker* worker : impl_->crew.idle) intrusive_ptr_release(worker);
  boost::fibers::use_scheduling_algorithm<boost::fibers::algo::round_robin>();
}

FiberId FiberPool::spawn(std::function<void()> body) {
  Worker* const worker = impl_->worker();
  worker->give(std::move(body));
  const FiberId id = static_cast<FiberId>(impl_->seats.size());
  impl_->seats.push_back({worker, false});
  ++impl_->crew.alive;
  context::active()->schedule(worker);
  return id;
}

void FiberPool::run() { boost::this_fiber::yield(); }

int64_t FiberPool::alive() const { return impl_->crew.alive; }

void FiberPool::suspend(FiberId self) {
  Impl::Seat& seat = impl_->seats[static_cast<size_t>(self)];
  seat.suspended = true;
  seat.worker->suspend();
}

void FiberPool::wake(FiberId fiber) {
  Impl::Seat& seat = impl_->seats[static_cast<size_t>(fiber)];
  if (std::exchange(seat.suspended, false)) seat.worker->get_scheduler()->schedule(seat.worker);
}

}  // namespace shardproof
