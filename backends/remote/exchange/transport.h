// Transport: moves contents between the endpoints of a run: its processes, or the devices of each
// of them. It never decides whether: every process is told by the coordinator to start the same
// exchanges in the same order, so that starting one and testing it until it is done can never wait
// for one that comes later.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {

enum class Side : uint8_t { host, device };

// One collective over some endpoints, as one of them takes part in it. Pieces are counted in
// elements of `dtype`, one an endpoint of the team in its order, and lie one after another.
//   all_reduce, reduce     `count` partial results are combined        (reduce: only on `root`)
//   reduce_scatter         combined; piece i of `recv_counts` to endpoint i
//   all_gather, gather     my `count`; piece i of `recv_counts` from endpoint i
//   scatter                piece i of `send_counts` from `root`; my `count`
//   broadcast              `count` from `root`, in `recv` on all; on a device from `send` there
//   all_to_all             pieces of `send_counts` out, of `recv_counts` in
//   send, recv             `count` to or from `team[root]`
//   put                    `count` to `team[root]`, `offset` bytes into its window
//   wait_signal            until that one's put has landed; its `count` from `offset`
//   barrier                nothing
struct Exchange {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction;
  // Of the reduction, what is done here: partial results are joined, or it is all done.
  FoldPart part = FoldPart::joining;
  DType dtype = DType::f32;
  std::vector<int> team;  // endpoints, ascending
  int self = 0;           // whose part this is: one of the team, of this process
  int root = 0;           // index in the team
  int64_t count = 0;
  std::vector<int64_t> send_counts, recv_counts;
  const std::byte* send = nullptr;  // both on the host, or both in the memory of `self`
  std::byte* recv = nullptr;
  Side side = Side::host;
  int stream = 0;      // of the device whose memory that is: where it has its turn
  int64_t number = 0;  // the same on both ends of a send and its receive
  int64_t offset = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int processes() const = 0;
  virtual int self() const = 0;
  // Endpoints in each process, counted in the order of processes: rank `e` of a library's.
  virtual int endpoints_each() const { return 1; }
  int first_endpoint() const { return self() * endpoints_each(); }

  // How its processes come together, before the first exchange: one of them says what all have to
  // know (empty: nothing), then each joins. Both throw Error when this process is of no use.
  virtual std::string invitation() { return {}; }
  virtual void join(std::string_view) {}
  // Teams without an endpoint in common that will exchange something. Every process is told.
  virtual void form(const std::vector<std::vector<int>>&) {}
  // Room for so many bytes in every process, for one-sided exchanges; every process is told. In
  // words, how what is put travels from then on.
  virtual std::string open_window(int64_t) { return {}; }
  virtual bool has_window() const { return false; }  // else by a send and a receive
  // Who is told, in words, that exchanges no longer come to their end for a reason that lies in
  // others or in the way to them. By the thread that asks this transport, as soon as it is known.
  virtual void when_lost(std::function<void(const std::string& words)>) {}
  // From another thread: nobody waits for this process any more, and it ends.
  virtual void abort() noexcept {}

  // Where contents of an endpoint here may lie beside the host; null: exchanges name the host's
  // only.
  virtual std::shared_ptr<DeviceMemory> memory(int /*endpoint*/) { return nullptr; }
  // Whether it reduces so. If not, contents travel as they are.
  virtual bool reduces_by(const Reduction&, DType) const { return true; }

  // Together, as one group; the next ones when these are launched. Buffers stay until `done` says
  // so; those in `memory` may be given back, in the order of their stream, from `launched` on.
  virtual void start(std::span<const Exchange> exchanges) = 0;
  // One test; a process that finds nothing to do in it leaves its processor to others. Launched:
  // each is in its stream, and what that is asked for later finds its contents in `memory`.
  virtual bool launched() { return done(); }
  // All contents are there.
  virtual bool done() = 0;
  // Whether what is launched comes to its end, as far as is known here: else it never does.
  virtual bool goes_on() { return true; }

  // Of those that were done last, on the clock of the device that made them; of several devices,
  // of the one that took longest.
  virtual std::optional<DeviceSpan> span() const { return std::nullopt; }
  // How many microseconds the library itself expects an exchange to take, in which `parts` are
  // those of the endpoints here; nothing is moved. Every process of the team asks, in the same
  // order among their exchanges.
  virtual std::optional<double> estimate(std::span<const Exchange> /*parts*/) {
    return std::nullopt;
  }
};

}  // namespace shardproof
