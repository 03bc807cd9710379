// A stream of one cohort: items run in order, one at a time; nothing is implied between streams. A
// submission that was found wrong never ends: its stream stays in it, and no other.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "shardproof/sim/call/submission.h"

namespace shardproof {

// Local work, a submission, or the wait for a ticket.
struct StreamItem {
  Ticket ticket = kDone;
  std::variant<Work, Submission*, Ticket> what;
  LaneTimes issued;  // the host's time at issue
};

struct Stream {
  LaneTimes time;                // when the last item that ran is through
  Ticket last = kDone;           // of all that was issued
  Submission* flying = nullptr;  // the submission under way
  bool listed = false;           // among those that may run
  std::string name;

  bool idle() const { return flying == nullptr && head_ == items_.size(); }
  bool has_items() const { return head_ != items_.size(); }
  bool stuck() const { return flying != nullptr && flying->failed; }
  StreamItem& front() { return items_[head_]; }
  void push(StreamItem item) { items_.push_back(std::move(item)); }
  void pop() {
    if (++head_ != items_.size()) return;
    items_.clear();
    head_ = 0;
  }
  std::span<const StreamItem> items() const { return std::span(items_).subspan(head_); }

 private:
  std::vector<StreamItem> items_;
  size_t head_ = 0;
};

}  // namespace shardproof
