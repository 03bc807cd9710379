// Implements pending_groups.h.
//
// 1. Held calls that share a submission are joined into sets (union-find over tickets).
// 2. A set may start if all shares of its submissions are matched and no earlier submission of
//    their streams is held. No one-sided call may overtake an earlier one of another set.
// 3. remove_whole() returns the first such set in the order of the call matcher.
#include <algorithm>
#include <numeric>

#include "shardproof/backends/remote/coordinator/pending_groups.h"

namespace shardproof {
namespace {

// Puts and signals must keep their order: the target finds them in the order of issue.
bool is_one_sided_call(const MatchedCall& event) {
  return event.kind == CoordinatorCommand::put || event.kind == CoordinatorCommand::end_part;
}

}  // namespace

std::vector<Ticket> PendingGroups::kept_of(const std::vector<Ticket>& tickets) const {
  std::vector<Ticket> kept;
  for (const Ticket ticket : tickets)
    if (submissions_.contains(ticket)) kept.push_back(ticket);
  return kept;
}

void PendingGroups::issue(const ExecutionContext* context, StreamId stream, Ticket ticket,
                          int64_t parts) {
  if (parts == 0 || ticket == kDone) return;
  std::vector<Ticket>& end = ends_[{context, stream}];
  submissions_[ticket] = {parts, kept_of(end)};
  end = {ticket};
}

// The streams of one context hold everything that can end the ticket: later work waits for all.
void PendingGroups::wait(const ExecutionContext* context, StreamId stream) {
  std::vector<Ticket> all;
  for (auto at = ends_.lower_bound({context, 0}); at != ends_.end() && at->first.first == context;
       ++at)
    for (const Ticket ticket : kept_of(at->second)) all.push_back(ticket);
  if (!all.empty()) ends_[{context, stream}] = std::move(all);
}

void PendingGroups::add(std::shared_ptr<const MatchedCall> event) {
  for (const MatchedCallPart& part : event->parts)
    if (const auto submission = submissions_.find(part.ticket); submission != submissions_.end())
      --submission->second.open;
  kept_.push_back(std::move(event));
  looked_ = false;
}

// Returns for each held call the index of the first call of its set.
std::vector<size_t> PendingGroups::groups() const {
  std::vector<size_t> first(kept_.size());
  std::iota(first.begin(), first.end(), size_t{0});
  const auto find = [&](size_t at) {
    while (first[at] != at) at = first[at] = first[first[at]];
    return at;
  };
  std::map<Ticket, size_t> known;
  for (size_t i = 0; i < kept_.size(); ++i)
    for (const MatchedCallPart& part : kept_[i]->parts) {
      const auto [other, fresh] = known.emplace(part.ticket, i);
      if (fresh) continue;
      const size_t a = find(other->second), b = find(i);
      first[std::max(a, b)] = std::min(a, b);
    }
  for (size_t i = 0; i < first.size(); ++i) first[i] = find(i);
  return first;
}

bool PendingGroups::is_whole(size_t group, const std::vector<size_t>& groups) const {
  bool earlier_one_sided = false;
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (groups[i] != group) {
      earlier_one_sided = earlier_one_sided || is_one_sided_call(*kept_[i]);
      continue;
    }
    if (earlier_one_sided && is_one_sided_call(*kept_[i])) return false;
    for (const MatchedCallPart& part : kept_[i]->parts) {
      const auto submission = submissions_.find(part.ticket);
      if (submission == submissions_.end()) continue;
      if (submission->second.open > 0 || !kept_of(submission->second.after).empty()) return false;
    }
  }
  return true;
}

PendingGroups::Together PendingGroups::remove(const std::vector<bool>& taken) {
  Together together, rest;
  for (size_t i = 0; i < kept_.size(); ++i)
    (taken[i] ? together : rest).push_back(std::move(kept_[i]));
  kept_ = std::move(rest);
  for (const auto& event : together)
    for (const MatchedCallPart& part : event->parts)
      if (const auto submission = submissions_.find(part.ticket);
          submission != submissions_.end() && submission->second.open <= 0)
        submissions_.erase(submission);
  return together;
}

PendingGroups::Together PendingGroups::remove_whole() {
  if (looked_) return {};
  const std::vector<size_t> groups = this->groups();
  std::vector<bool> taken(kept_.size(), false);
  for (size_t first = 0; first < kept_.size(); ++first) {
    if (groups[first] != first || !is_whole(first, groups)) continue;
    for (size_t i = first; i < kept_.size(); ++i) taken[i] = groups[i] == first;
    return remove(taken);
  }
  looked_ = true;
  return {};
}

PendingGroups::Together PendingGroups::remove_all() {
  return remove(std::vector<bool>(kept_.size(), true));
}

}  // namespace shardproof
