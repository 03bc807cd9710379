// What a FakeGpu is made of: an arena that only queued work may touch, streams as queues, events as
// counters. Every function is called with the machine's lock held.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {

// Memory of one device: a range of addresses, closed to everybody but running work of its streams.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  void* take(int64_t bytes);  // null: nothing left
  void give(void* memory);    // from running work: poisons it
  // Whether all of it was taken and is not given back.
  bool holds(const void* memory, int64_t bytes) const;
  // The start and the end of what was taken that holds an address; nulls: nothing does.
  std::pair<const std::byte*, const std::byte*> taken_at(const void* memory) const;
  int64_t in_use() const { return in_use_; }

  // While one lives, the memory can be touched.
  struct Open {
    explicit Open(Arena& arena);
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open();
    Arena& arena;
  };

 private:
  void protect(int protection);
  void trim(int64_t free_from);
  std::byte* base_ = nullptr;
  int64_t bytes_, reached_ = 0, in_use_ = 0;
  int open_ = 0;
  struct Taken {
    int64_t size, asked;  // rounded up, and as it was asked for
  };
  std::map<int64_t, int64_t> free_;  // offset -> bytes
  std::map<int64_t, Taken> taken_;
};

struct FakeGpuStream;
struct FakeGpuEvent {
  // Whoever waits for an event waits for its last record so far, on whatever stream that is: a
  // later one on another stream may come up first.
  int64_t asked = 0;  // how often it was recorded
  std::set<int64_t> reached;
  int number = 0;  // of those of the machine
  int device = 0;
  FakeGpuStream* stream = nullptr;  // of the last record
  double time = 0;                  // of the last time, in milliseconds
};

// One or both of them: what touches no memory and has to be true, then what may touch it.
struct FakeGpuWork {
  FakeGpu::Work until, touch;
  bool is_call = false;  // of NCCL
};

struct FakeGpuStream {
  FakeGpu::Machine* machine = nullptr;
  int device = 0, number = 0;  // in order of making
  std::deque<FakeGpuWork> queue;
  bool running = false;
};

struct FakeGpu::Machine {
  explicit Machine(const FakeGpuOptions& options);
  void enqueue(FakeGpuStream& stream, FakeGpuWork work);
  // Runs what a stream holds, at most `most` pieces; true when anything moved.
  bool advance(FakeGpuStream& stream, int64_t most);
  // Until the stream is empty. When nothing moves any more, the program would hang: it ends.
  void drain(FakeGpuStream& stream);
  // Somebody polls for what is in this stream: it comes on by chance, or what it waits for does.
  void stir(FakeGpuStream* stream);
  void tell(const FakeGpuStream& stream, const std::string& what);  // to the trace
  Arena& arena_of(const FakeGpuStream& stream) {
    return *arenas[static_cast<size_t>(stream.device)];
  }
  int selected_here() const;  // the device of this thread

  std::recursive_mutex lock;
  FakeGpuOptions options;
  std::vector<std::unique_ptr<Arena>> arenas;  // of each device
  Rng rng;
  uint64_t draws = 0;
  double clock = 0;                                     // milliseconds
  std::vector<std::unique_ptr<FakeGpuStream>> streams;  // in order of making
  int made_streams = 0;
  std::set<std::unique_ptr<FakeGpuEvent>> events;
  std::map<std::thread::id, int> selected;  // device of each thread
  int64_t calls = 0;                        // of NCCL that its streams hold
  int64_t products = 0;                     // of matrices, asked of its library
  int64_t products_of_8_bits = 0;           // among them
  int64_t products_of_widened = 0;          // and those of 8 bits as f16
};

void multiply_matrices(CudaApi& api, const std::shared_ptr<FakeGpu::Machine>& machine);

}  // namespace shardproof
