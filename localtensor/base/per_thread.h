// Data of each thread that ends with it, like thread_local, for runs at a memory limit. For
// thread_local objects the C library aborts the process if it has no memory to register a
// destructor. Thread-safe.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace shardproof {

// A pointer of each thread. When a thread ends whose pointer is not null, `at_end` is called with
// it. The main thread ends with the process, without a call. Objects exist until it ends.
class ThreadPointer {
 public:
  explicit ThreadPointer(void (*at_end)(void*)) : valid_(pthread_key_create(&key_, at_end) == 0) {}
  void* get() const { return valid_ ? pthread_getspecific(key_) : nullptr; }
  // Returns false, and changes nothing, if there is no memory.
  bool set(void* pointer) const { return valid_ && pthread_setspecific(key_, pointer) == 0; }

 private:
  pthread_key_t key_ = 0;
  bool valid_;
};

// One T for each thread that uses it.
template <typename T>
class PerThread {
 public:
  // Returns the T of this thread, at first T(). Throws std::bad_alloc if there is no memory.
  T& get() const {
    if (void* const known = pointer_.get()) return *static_cast<T*>(known);
    auto made = std::make_unique<T>();
    if (!pointer_.set(made.get())) throw std::bad_alloc();
    return *made.release();
  }

 private:
  ThreadPointer pointer_{[](void* made) { delete static_cast<T*>(made); }};
};

}  // namespace shardproof
