// Stream: a queue of items of one cohort, which run in order, one at a time. Streams are
// independent of each other. A submission that was found wrong never ends, so its stream never gets
// past it.
//
// In some streams an item may pass earlier ones: it runs before they have ended, because none of
// its lanes is in them. The items of a lane still run in order, and tickets end in order of issue.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
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

  // True for a submission that has started and not ended: it has passed earlier items.
  bool is_running() const {
    Submission* const* const submission = std::get_if<Submission*>(&what);
    return submission != nullptr && (*submission)->started;
  }
};

// An item that has ended, with its lanes and times.
struct EndedItem {
  Lanes lanes;
  LaneTimes start, end;
};

// The state of a stream whose items may pass each other.
struct PassingItems {
  // An item that waits passes others only while it is one of so many, which bounds the search.
  static constexpr size_t kMostSearched = 64;
  Lanes busy;                         // lanes of all items that have not ended
  Lanes later;                        // of those that were not among the first kMostSearched
  std::map<Ticket, EndedItem> ended;  // before an earlier item
  LaneTimes ticket_time;              // end of the last ticket: of each lane's last item up to it
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
  std::unique_ptr<PassingItems> passing;  // null: no item passes another one

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
  std::span<StreamItem> items() { return std::span(items_).subspan(head_); }
  // Removes and returns the item at a place of items(). Takes linear time in the distance of the
  // place to an end of the queue.
  StreamItem remove(size_t place) {
    const auto first = items_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto at = first + static_cast<std::ptrdiff_t>(place);
    if (place < items().size() / 2) {
      std::rotate(first, at, at + 1);
      StreamItem item = std::move(front());
      pop();
      return item;
    }
    StreamItem item = std::move(*at);
    items_.erase(at);
    if (!has_items()) items_.clear(), head_ = 0;
    return item;
  }
  // True if every item that was issued before this ticket has ended.
  bool is_oldest(Ticket ticket) const {
    if (submission != nullptr && submission->ticket < ticket) return false;
    // No item passes a wait.
    return !has_items() || std::holds_alternative<Ticket>(items_[head_].what) ||
           ticket < items_[head_].ticket;
  }
};

}  // namespace shardproof
