// Transport: moves contents between the endpoints of a run, which are its processes or the devices
// of each process. The coordinator commands every process to start the same exchanges in the same
// order. An exchange that is started therefore never waits for a later one.
//
// Not thread-safe, except abort(). Errors that lie in other processes are reported by when_lost;
// misuse and errors of this process throw Error. Each worker owns one transport.
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

// The share of one endpoint in a collective, message or put. Counts are elements of `dtype`. Counts
// for each endpoint of the team follow its order, and their pieces lie one after another.
//
// | kind               | sends                            | receives                       |
// |--------------------|----------------------------------|--------------------------------|
// | all_reduce, reduce | `count` partial results          | `count`; reduce: only `root`   |
// | reduce_scatter     | all `recv_counts`, partial       | its piece of `recv_counts`     |
// | all_gather, gather | `count`                          | `recv_counts`; gather: `root`  |
// | scatter            | `send_counts`, from `root`       | `count`                        |
// | broadcast          | `count`, from `root`             | `count`                        |
// | all_to_all (v)     | `send_counts`                    | `recv_counts`                  |
// | send               | `count` to `team[root]`          | nothing                        |
// | recv               | nothing                          | `count` from `team[root]`      |
// | put                | `count` to `offset` of a window  | nothing                        |
// | wait_signal        | nothing                          | `count` at `offset`, after put |
// | barrier            | nothing                          | nothing                        |
//
// `offset` is in bytes. A broadcast on the host has its contents in `recv` on all endpoints; that
// of the root is read, never written.
struct Exchange {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction;
  // The part of the reduction that the transport does: joining partial results, or all of it.
  FoldPart part = FoldPart::joining;
  DType dtype = DType::f32;
  std::vector<int> team;  // endpoints, ascending
  int self = 0;           // the endpoint of this process whose share this is
  int root = 0;           // index in the team
  int64_t count = 0;
  std::vector<int64_t> send_counts, recv_counts;
  const std::byte* send = nullptr;  // both on the host, or both in device memory of `self`
  std::byte* recv = nullptr;
  Side side = Side::host;
  int stream = 0;      // stream of the device of `self` in which the exchange runs
  int64_t number = 0;  // the same on both ends of a send and its receive
  int64_t offset = 0;
  // True: issued outside a group call of the library (ncclGroupStart), even if other exchanges
  // start at the same time. Sums of sibling groups must add in one order, and NCCL may add grouped
  // calls in different orders.
  bool alone = false;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int processes() const = 0;
  virtual int self() const = 0;
  // Endpoints in each process. Endpoint e is rank e of the library (MPI, NCCL).
  virtual int endpoints_each() const { return 1; }
  int first_endpoint() const { return self() * endpoints_each(); }

  // Connects the transports of all processes, before the first exchange. One process returns the
  // data that all need (empty: none), such as an NCCL id; then each process joins with it. Both
  // throw Error if this process cannot take part.
  virtual std::string invitation() { return {}; }
  virtual void join(std::string_view) {}
  // Makes a communicator for each team. The teams share no endpoint. Every process calls this.
  virtual void form(const std::vector<std::vector<int>>&) {}
  // Opens a window of this size in bytes in every process, for puts. Every process calls this.
  // Returns a text that states how later puts move their contents.
  virtual std::string open_window(int64_t) { return {}; }
  virtual bool has_window() const { return false; }  // false: a put is a send and a receive
  // Sets the function that receives the text of an error of other processes or the network, after
  // which exchanges no longer complete. Called by the thread that uses the transport.
  virtual void when_lost(std::function<void(const std::string& words)>) {}
  // Called by another thread right before this process exits because its coordinator has exited.
  virtual void abort() noexcept {}

  // Returns the device memory in which contents of this endpoint may lie; null: only on the host.
  virtual std::shared_ptr<DeviceMemory> memory(int /*endpoint*/) { return nullptr; }
  // True if it supports this reduction on this dtype. If false, inputs are gathered and the worker
  // reduces them.
  virtual bool can_reduce(const Reduction&, DType) const { return true; }

  // Starts exchanges as one group. Requires that the exchanges before are launched. Host buffers
  // must stay until done(); device buffers may be freed in stream order once launched().
  virtual void start(std::span<const Exchange> exchanges) = 0;
  // Polls once; yields the processor if there is nothing to do. True if every exchange is in its
  // stream: later work of the stream finds the contents in device memory.
  virtual bool launched() { return done(); }
  // Starts exchanges on device contents and returns when they are launched. Measures no time, so it
  // costs little more than the library's own calls. done() does not show when they end. A process
  // that is lost meanwhile may block it forever. Requires that none is a put.
  virtual void launch(std::span<const Exchange> exchanges) {
    start(exchanges);
    while (!launched()) {
    }
  }
  // True: what is started from now on repeats exchanges that all processes have ended before. NCCL
  // then makes calls that may block, on communicators of their own: they cost 10 us, not 100.
  virtual void repeat(bool /*on*/) {}
  // Polls once. True if all contents have arrived.
  virtual bool done() = 0;
  // Starts exchanges on the host's contents and waits for their end. A process that is lost
  // meanwhile may block it forever.
  virtual void run(std::span<const Exchange> exchanges) {
    start(exchanges);
    while (!done()) {
    }
  }
  // False if launched exchanges are known never to complete.
  virtual bool can_complete() { return true; }

  // Returns the time of the exchanges that were done last, by the device's clock; of several
  // devices the longest. Nullopt without such a clock.
  virtual std::optional<DeviceSpan> span() const { return std::nullopt; }
  // Returns the time in microseconds that the library predicts for an exchange; nullopt if it
  // predicts none. `parts` are the shares of the endpoints in this process. Moves nothing. Every
  // process of the team must call it, in the same order among its exchanges.
  virtual std::optional<double> estimate(std::span<const Exchange> /*parts*/) {
    return std::nullopt;
  }
};

}  // namespace shardproof
