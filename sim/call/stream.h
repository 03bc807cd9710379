// Stream: a queue of items of one cohort, which run in order, one at a time. Streams are
// independent of each other. A submission that was found wrong never ends, so its stream never gets
// past it.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "shardproof/sim/call/submission.h"

namespace shardproof {

// Local work, a submission, or a wait for a ticket.
struct StreamItem {
  Ticket ticket = kDone;
  std::variant<Work, Submission*, Ticket> what;
  LaneTimes issued;  // the host's time at issue
};

// Members in order of use: a call reads the first cache line only.
struct Stream {
  Submission* submission = nullptr;  // the submission in progress
  Ticket last = kDone;               // last ticket that was issued

 private:
  size_t head_ = 0;
  std::vector<StreamItem> items_;

 public:
  bool listed = false;  // it is in its world's list of streams that may run
  LaneTimes time;       // end of the last item that ran
  std::string name;

  bool idle() const { return submission == nullptr && head_ == items_.size(); }
  bool has_items() const { return head_ != items_.size(); }
  bool has_failed() const { return submission != nullptr && submission->failed; }
  StreamItem& front() { return items_[head_]; }
  void push(StreamItem item) { items_.push_back(std::move(item)); }
  void pop() {
    if (++head_ != items_.size()) return;
    items_.clear();
    head_ = 0;
  }
  std::span<const StreamItem> items() const { return std::span(items_).subspan(head_); }
};

}  // namespace shardproof
