// Implements communicator.h.
#include "shardproof/sim/call/communicator.h"

#include <utility>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

Communicator::Communicator(const Group& group) : group_(group), lanes_(group.lanes()) {}

void Communicator::fill_places() const {
  member_places_.resize(static_cast<size_t>(lanes_.size()));
  for (int64_t sibling = 0; sibling < group_.count(); ++sibling)
    for (int64_t index = 0; index < group_.size(); ++index) {
      const int64_t lane = lanes_.index_of(group_.member(sibling, index));
      member_places_[static_cast<size_t>(lane)] = {static_cast<int32_t>(sibling),
                                                   static_cast<int32_t>(index)};
    }
}

Communicator::MemberPlace Communicator::member_place(int64_t rank) const {
  const int64_t lane = lanes_.index_of(rank);
  if (lane < 0) return {};
  if (member_places_.empty()) fill_places();
  return member_places_[static_cast<size_t>(lane)];
}

bool Communicator::covers_whole_groups(const Lanes& lanes) {
  if (lanes == lanes_ || (!whole_.empty() && lanes == whole_)) return true;
  if (lanes.size() < group_.size() || lanes.size() % group_.size() != 0) return false;
  std::vector<int32_t> members(static_cast<size_t>(group_.count()), 0);
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const MemberPlace at = member_place(lanes[i]);
    if (at.sibling < 0) return false;
    ++members[static_cast<size_t>(at.sibling)];
  }
  for (const int32_t count : members)
    if (count != 0 && count != group_.size()) return false;
  whole_ = lanes;
  return true;
}

bool Communicator::next_numbers_agree(const Lanes& lanes) const {
  if (issued_.uniform()) return true;
  const int64_t first = issued_[lanes_.index_of(lanes[0])];
  for (int64_t i = 1; i < lanes.size(); ++i)
    if (issued_[lanes_.index_of(lanes[i])] != first) return false;
  return true;
}

PerLane<int64_t> Communicator::next_numbers(const Lanes& lanes) {
  if (issued_.uniform() && lanes == lanes_) {
    issued_.set_all(issued_[0] + 1);
    return issued_;
  }
  if (lanes.size() == 1)
    return PerLane<int64_t>(++issued_.at(lanes_.index_of(lanes[0]), lanes_.size()));
  PerLane<int64_t> numbers;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t lane = lanes_.index_of(lanes[i]);
    numbers.at(i, lanes.size()) = ++issued_.at(lane, lanes_.size());
  }
  numbers.collapse();
  return numbers;
}

CollectiveInstance& Communicator::instance(int64_t sibling, int64_t number) {
  const auto [place, fresh] = instances_.try_emplace({number, sibling});
  CollectiveInstance& instance = place->second;
  if (fresh) {
    instance.number = number;
    instance.sibling = sibling;
    instance.arrivals.reserve(static_cast<size_t>(group_.size()));
  }
  return instance;
}

const CollectiveInstance* Communicator::find_instance(int64_t sibling, int64_t number) const {
  const auto it = instances_.find({number, sibling});
  return it == instances_.end() ? nullptr : &it->second;
}

void Communicator::close(int64_t number, int64_t sibling) { instances_.erase({number, sibling}); }

int64_t Communicator::next_number(CollectiveKind kind, int32_t from, int32_t to) {
  Channel& channel = channels_.at(from, to);
  return ++(kind == CollectiveKind::send ? channel.sends : channel.receives);
}

std::optional<Channel::End> Communicator::pair(CollectiveKind kind, int32_t from, int32_t to,
                                               const Channel::End& end) {
  const bool sends = kind == CollectiveKind::send;
  Channel& channel = channels_.at(from, to);
  for (int32_t* at = &channel.unpaired; *at >= 0; at = &unpaired_[static_cast<size_t>(*at)].next) {
    Unpaired& other = unpaired_[static_cast<size_t>(*at)];
    if (other.sends == sends || other.end.number != end.number) continue;
    const int32_t taken = std::exchange(*at, other.next);
    other.next = std::exchange(free_unpaired_, taken);
    return other.end;
  }
  if (free_unpaired_ < 0) {
    free_unpaired_ = static_cast<int32_t>(unpaired_.size());
    unpaired_.emplace_back();
  }
  const int32_t added = free_unpaired_;
  Unpaired& fresh = unpaired_[static_cast<size_t>(added)];
  free_unpaired_ = fresh.next;
  fresh = {end, sends, std::exchange(channel.unpaired, added)};
  return std::nullopt;
}

int32_t Communicator::unpaired_lane(int32_t from, int32_t to,
                                    const SubmittedCall& submitted) const {
  const Channel* channel = channels_.find(from, to);
  for (int32_t at = channel != nullptr ? channel->unpaired : -1; at >= 0;) {
    const Unpaired& waiting = unpaired_[static_cast<size_t>(at)];
    if (waiting.end.submitted == &submitted) return waiting.end.lane;
    at = waiting.next;
  }
  return -1;
}

std::string Communicator::text(int64_t sibling) const { return sibling_text(group_, sibling); }

// Every blocked call and every wrong message names its group, so only the members that are shown
// are computed.
std::string sibling_text(const Group& group, int64_t sibling) {
  constexpr int64_t kShown = 16;
  const int64_t members = group.size();
  std::string out = group.name() + " [";
  for (int64_t i = 0; i < members; ++i) {
    if (members > kShown && i + 1 < members && i >= kShown - 2) {
      out += " ...";
      i = members - 1;
    }
    out += fmt::format("{}{}", i > 0 ? " " : "", group.member(sibling, i));
  }
  return out + "]";
}

}  // namespace shardproof
