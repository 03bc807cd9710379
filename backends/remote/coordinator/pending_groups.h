// PendingGroups: matched calls that the coordinator has not sent to workers yet. Internal to
// backends/remote.
//
// The calls of one submission (ncclGroupStart to ncclGroupEnd) must start together, with all calls
// of the submissions that they match. One command names them all; it is sent when all of them have
// been matched. If submissions wait for each other, no such set completes. The caller then takes
// the calls one by one, in the order of the call matcher.
//
// Example: rank 0 submits {send to 1, recv from 2}, rank 1 {recv from 0}, rank 2 {send to 0}. The
// pair 0-1 is matched first and is held. When 2-0 is matched, remove_whole() returns both pairs.
//
// Not thread-safe. remove_whole() is linear in the held calls and does nothing if none was added.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/remote/coordinator/matched_call.h"

namespace shardproof {

class PendingGroups {
 public:
  using Together = std::vector<std::shared_ptr<const MatchedCall>>;

  // Registers a submission with `parts` shares (lanes of calls). Call it in the order of issue.
  void issue(const ExecutionContext* context, StreamId stream, Ticket ticket, int64_t parts);
  // Records that later items of `stream` wait for another stream of that context.
  void wait(const ExecutionContext* context, StreamId stream);
  // Adds a matched call. Call it in the order of the call matcher.
  void add(std::shared_ptr<const MatchedCall> event);

  // Returns one set of calls that may start now; empty if there is none.
  Together remove_whole();
  // Returns all held calls. Each of them is to be sent as its own command.
  Together remove_all();

 private:
  struct Submission {
    int64_t open = 0;           // shares that the call matcher has not matched
    std::vector<Ticket> after;  // submissions that must be sent before this one
  };
  std::vector<size_t> groups() const;
  bool is_whole(size_t group, const std::vector<size_t>& groups) const;
  Together remove(const std::vector<bool>& taken);
  std::vector<Ticket> kept_of(const std::vector<Ticket>& tickets) const;

  std::map<Ticket, Submission> submissions_;  // submissions with calls that were not sent
  // The last submissions on each stream.
  std::map<std::pair<const ExecutionContext*, StreamId>, std::vector<Ticket>> ends_;
  Together kept_;
  bool looked_ = true;  // remove_whole() found nothing, and nothing was added since
};

}  // namespace shardproof
