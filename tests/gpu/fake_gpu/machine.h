// The parts of a fake GPU: an arena that only queued work may touch, streams as queues, events as
// counters. Every function requires the machine's lock.
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

// The memory of one device: a range of addresses that only running work of its streams can touch.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  void* allocate(int64_t bytes);  // null: no memory left
  void release(void* memory);     // called from running work; fills the memory with poison
  // True if all of it is allocated.
  bool holds(const void* memory, int64_t bytes) const;
  // Returns start and end of the allocation that holds an address; nulls: none does.
  std::pair<const std::byte*, const std::byte*> allocation_of(const void* memory) const;
  int64_t in_use() const { return in_use_; }

  // Makes the memory accessible as long as an object of this type exists.
  struct Open {
    explicit Open(Arena& arena);
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open();
    Arena& arena;
  };

 private:
  void mark(int64_t from, int64_t to, int advice);
  void protect(int protection);
  void trim(int64_t free_from);
  std::byte* base_ = nullptr;
  int64_t bytes_, used_end_ = 0, in_use_ = 0;
  int open_ = 0;
  struct Allocation {
    int64_t size, requested;  // size: rounded up
  };
  std::map<int64_t, int64_t> free_;  // bytes by offset
  std::map<int64_t, Allocation> allocated_;
};

struct FakeGpuStream;
// A CUDA graph: the work that its streams received while it was recorded.
struct FakeGpuGraph {
  FakeGpuStream* origin = nullptr;                           // its capture began there
  std::vector<std::pair<int, std::function<void()>>> items;  // device, and a function that queues
                                                             // the work again
  std::map<FakeGpuStream*, size_t> last_item;                // of each stream
  std::map<FakeGpuStream*, size_t> joined;  // item of a stream that the first stream waits for
};

struct FakeGpuEvent {
  // A wait for an event waits for its most recent record, on any stream. A later record on another
  // stream may be reached first, so records are numbered.
  int64_t records = 0;  // number of them
  std::set<int64_t> reached;
  int number = 0;  // among the events of the machine
  int device = 0;
  FakeGpuStream* stream = nullptr;      // stream of the last record
  double time = 0;                      // last time reached, in milliseconds
  FakeGpuGraph* recorded_by = nullptr;  // the graph that has the last record as an item
  size_t item = 0;
  FakeGpuEvent* in_graph = nullptr;  // event of the graph in its place
};

// `ready` accesses no memory and must be true first; then `run` may access memory. One may be
// empty.
struct FakeGpuWork {
  FakeGpu::Work ready, run;
  bool is_call = false;  // a call of NCCL
};

struct FakeGpuStream {
  FakeGpu::Machine* machine = nullptr;
  int device = 0, number = 0;  // `number` in order of creation
  std::deque<FakeGpuWork> queue;
  bool running = false;
  FakeGpuGraph* recorded_by = nullptr;  // null: it runs its work
};

inline FakeGpuStream& stream_of(void* stream) { return *static_cast<FakeGpuStream*>(stream); }

struct FakeGpu::Machine {
  explicit Machine(const FakeGpuOptions& options);
  void enqueue(FakeGpuStream& stream, FakeGpuWork work);
  // Runs at most `most` items of a stream. Returns true if anything moved.
  bool advance(FakeGpuStream& stream, int64_t most);
  // Runs until the stream is empty. Ends the program if nothing can move: it would hang.
  void drain(FakeGpuStream& stream);
  // Called by polls for a stream: by chance advances it, or a stream for which it waits.
  void advance_by_chance(FakeGpuStream* stream);
  // If the stream is recorded, adds `again`, which queues an item again, to the graph and returns
  // true.
  bool record(FakeGpuStream& stream, std::function<void()> again);
  void write_trace(const FakeGpuStream& stream, const std::string& operation);
  Arena& arena_of(const FakeGpuStream& stream) {
    return *arenas[static_cast<size_t>(stream.device)];
  }
  FakeGpuEvent& make_event(int device);
  int selected_by_this_thread() const;  // the device selected by this thread

  std::recursive_mutex lock;
  FakeGpuOptions options;
  std::vector<std::unique_ptr<Arena>> arenas;  // by device
  Rng rng;
  uint64_t draws = 0;
  double clock = 0;                                     // milliseconds
  std::vector<std::unique_ptr<FakeGpuStream>> streams;  // in order of creation
  int made_streams = 0;
  std::set<std::unique_ptr<FakeGpuEvent>> events;
  std::vector<std::unique_ptr<FakeGpuGraph>> graphs;
  std::map<std::thread::id, int> selected;  // device of each thread
  int64_t calls = 0;                        // calls of NCCL in its streams
  int64_t products = 0;                     // matrix products of its library
  int64_t products_of_8_bits = 0;           // those of 8-bit floats
  int64_t products_of_widened = 0;          // those of 8-bit floats widened to f16
};

void multiply_matrices(CudaApi& api, const std::shared_ptr<FakeGpu::Machine>& machine);
void record_graphs(CudaApi& api, const std::shared_ptr<FakeGpu::Machine>& m);

}  // namespace shardproof
