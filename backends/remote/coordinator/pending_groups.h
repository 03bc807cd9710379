// PendingGroups: what the gate has let through and nobody was told yet. The calls of a program's
// group start together, so they are told together, and with those of every group that they meet:
// none goes before all of them may. Where groups wait for each other's outcome there is no such
// order; then each goes alone, in the order of the gate. Internal to the remote layer.
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

  // A submission of so many parts, issued on a stream; in order of issue.
  void issue(const ExecutionContext* context, StreamId stream, Ticket ticket, int64_t parts);
  // What is issued on the stream from here on waits for another stream of that door.
  void wait(const ExecutionContext* context, StreamId stream);
  // Let through, in the gate's order.
  void add(std::shared_ptr<const MatchedCall> event);

  // Whatever can go now, as one; nothing when nothing can.
  Together take_whole();
  // All that is kept, each for itself.
  Together take_all();

 private:
  struct Submission {
    int64_t open = 0;           // parts that the gate has not let through
    std::vector<Ticket> after;  // flights that have to end before it starts
  };
  std::vector<size_t> groups() const;
  bool is_whole(size_t group, const std::vector<size_t>& groups) const;
  Together take(const std::vector<bool>& taken);
  std::vector<Ticket> kept_of(const std::vector<Ticket>& tickets) const;

  std::map<Ticket, Submission> submissions_;  // that somebody has still to be told of
  // The last of them on each stream.
  std::map<std::pair<const ExecutionContext*, StreamId>, std::vector<Ticket>> ends_;
  Together kept_;
  bool looked_ = true;  // since the last one came
};

}  // namespace shardproof
