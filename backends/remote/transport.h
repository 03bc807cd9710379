// Transport: moves contents between the processes of a run. It never decides whether: every
// process is told by the coordinator to start the same exchanges in the same order, so that
// starting one and testing it until it is done can never wait for one that comes later.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/fold_part.h"

namespace shardproof {

class DeviceMemory;  // localtensor/device_memory.h

enum class Side : uint8_t { host, device };

// One collective over some processes. Pieces are counted in elements of `dtype`, one a process of
// the team in its order, and lie one after another.
//   all_reduce, reduce     `count` partial results are combined        (reduce: only on `root`)
//   reduce_scatter         combined; piece i of `recv_counts` to process i
//   all_gather, gather     my `count`; piece i of `recv_counts` from process i
//   scatter                piece i of `send_counts` from `root`; my `count`
//   broadcast              `count` from `root`, in `recv` on all; on a device from `send` there
//   all_to_all             pieces of `send_counts` out, of `recv_counts` in
//   send, recv             `count` to or from `team[root]`
//   barrier                nothing
struct Exchange {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction;
  // Of the reduction, what is done here: partial results are joined, or it is all done.
  FoldPart part = FoldPart::joining;
  DType dtype = DType::f32;
  std::vector<int> team;  // processes, ascending
  int root = 0;           // index in the team
  int64_t count = 0;
  std::vector<int64_t> send_counts, recv_counts;
  const std::byte* send = nullptr;  // both on the host, or both in the transport's memory
  std::byte* recv = nullptr;
  Side side = Side::host;
  int64_t number = 0;  // the same on both ends of a send and its receive
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int processes() const = 0;
  virtual int self() const = 0;

  // How its processes come together, before the first exchange: one of them says what all have to
  // know (empty: nothing), then each joins. Both throw Error when this process is of no use.
  virtual std::string invitation() { return {}; }
  virtual void join(std::string_view) {}
  // Teams without a process in common that will exchange something. Every process is told.
  virtual void form(const std::vector<std::vector<int>>&) {}
  // From another thread: nobody waits for this process any more, and it ends.
  virtual void abort() noexcept {}

  // Where contents may lie beside the host; null: exchanges name the host's only.
  virtual std::shared_ptr<DeviceMemory> memory() { return nullptr; }
  // Whether it reduces so. If not, contents travel as they are.
  virtual bool reduces_by(const Reduction&, DType) const { return true; }

  // Buffers stay until `done` says so. One exchange at a time.
  virtual void start(const Exchange& exchange) = 0;
  // One test; a process that finds nothing to do in it leaves its processor to others.
  virtual bool done() = 0;
};

}  // namespace shardproof
