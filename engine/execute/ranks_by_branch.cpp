// Implements ranks_by_branch.h by refinement of a partition.
//
// 1. All ranks of a listing are one part.
// 2. Each set of ranks that makes a call cuts every part into its ranks inside and outside the set.
//    A set that was used before is left out.
// 3. A cohort submits a send of all its ranks as one, and its next call starts when that has ended.
//    So a rank whose message goes to another rank of its part is cut off, unless the message is
//    received by the same submission. This repeats until no rank is left.
//
// Example: the ranks 0-6 are a ring. Even ranks send to the next rank and then receive, odd ranks
// receive and then send. The sets of step 2 give the parts {0 2 4 6} and {1 3 5}. Rank 6 sends to
// rank 0, so step 3 gives {0 2 4}, {6} and {1 3 5}.
//
// blocks_as_cohort collects the sends and receives that the same submission does not match, in
// order of sender and receiver. The k-th send of a pair of ranks matches its k-th receive. If the
// two submissions share a rank, one of them waits for the other.
#include "shardproof/engine/execute/ranks_by_branch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

namespace shardproof {
namespace {

bool can_block(const Instr& instr) {
  return std::holds_alternative<Communicate>(instr.action) ||
         std::holds_alternative<Wait>(instr.action) ||
         std::holds_alternative<RecordEvent>(instr.action);
}

// A partition of the ranks of one listing.
class RankParts {
 public:
  explicit RankParts(const Lanes& lanes)
      : lanes_(lanes), part_of_(static_cast<size_t>(lanes.size())), sizes_{lanes.size()} {}

  int64_t count() const { return static_cast<int64_t>(sizes_.size()); }

  bool are_together(int32_t a, int32_t b) const { return part_of(a) == part_of(b); }

  // Cuts each part by a subset of the ranks.
  void cut(const Lanes& subset) {
    std::vector<size_t> touched;
    for (int64_t i = 0; i < subset.size(); ++i) {
      const size_t part = part_of(subset[i]);
      if (inside_[part]++ == 0) touched.push_back(part);
    }
    for (const size_t part : touched) {
      inside_into_[part] = part;
      if (inside_[part] != sizes_[part]) add_part_inside(part);
      inside_[part] = 0;
    }
    for (int64_t i = 0; i < subset.size(); ++i) {
      size_t& part = part_of(subset[i]);
      part = inside_into_[part];
    }
  }

  // Returns the parts in the order of their first ranks.
  std::vector<Lanes> sets() const {
    std::vector<std::vector<int32_t>> ranks;
    std::vector<std::optional<size_t>> place(sizes_.size());
    for (int64_t i = 0; i < lanes_.size(); ++i) {
      std::optional<size_t>& at = place[part_of_[static_cast<size_t>(i)]];
      if (!at) {
        at = ranks.size();
        ranks.emplace_back();
      }
      ranks[*at].push_back(lanes_[i]);
    }
    std::vector<Lanes> sets;
    for (std::vector<int32_t>& part : ranks) sets.push_back(Lanes::of(std::move(part)));
    return sets;
  }

 private:
  size_t part_of(int32_t rank) const {
    return part_of_[static_cast<size_t>(lanes_.index_of(rank))];
  }
  size_t& part_of(int32_t rank) { return part_of_[static_cast<size_t>(lanes_.index_of(rank))]; }

  void add_part_inside(size_t part) {
    inside_into_[part] = sizes_.size();
    sizes_[part] -= inside_[part];
    sizes_.push_back(inside_[part]);
    inside_.push_back(0);
    inside_into_.push_back(0);
  }

  const Lanes& lanes_;
  std::vector<size_t> part_of_;  // by lane
  std::vector<int64_t> sizes_;   // by part, as are the next two
  // While a subset cuts: its ranks in the part, and the part that they go to.
  std::vector<int64_t> inside_{0};
  std::vector<size_t> inside_into_{0};
};

bool uses_one_stream(const SpmdListing& listing) {
  const SharedText* stream = nullptr;
  for (const Instr& instr : listing.instrs) {
    if (!std::holds_alternative<Communicate>(instr.action)) continue;
    if (stream != nullptr && stream->str() != instr.stream.str()) return false;
    stream = &instr.stream;
  }
  return true;
}

// The ranks that send, or those that receive, in the calls of one submission.
class Callers {
 public:
  Callers(CollectiveKind kind, const Lanes& lanes)
      : kind_(kind), lanes_(lanes), submission_of_(static_cast<size_t>(lanes.size())) {}

  // Replaces the ranks by those of another submission.
  void replace(const Communicate& calls) {
    ++submission_;
    for (const CallItem& item : calls.items)
      for (int64_t i = 0; item.collective.kind == kind_ && i < item.lanes.size(); ++i)
        submission_of_[place(item.lanes[i])] = submission_;
  }
  bool contains(int32_t rank) const { return submission_of_[place(rank)] == submission_; }

 private:
  size_t place(int32_t rank) const { return static_cast<size_t>(lanes_.index_of(rank)); }

  CollectiveKind kind_;
  const Lanes& lanes_;
  std::vector<int64_t> submission_of_;  // by lane: the last one in which the rank makes a call
  int64_t submission_ = 0;
};

// Calls visit(rank, peer) for each rank of an item whose peer is in the listing.
template <class Visit>
void for_each_peer(const SpmdListing& listing, const CallItem& item, Visit visit) {
  const Collective& call = item.collective;
  for (int64_t i = 0; i < item.lanes.size(); ++i) {
    const int32_t rank = item.lanes[i];
    const int64_t sibling = call.group.sibling_of(rank);
    const int64_t index = item.peers.empty() ? call.peer : item.peers[static_cast<size_t>(i)];
    if (sibling < 0 || index < 0 || index >= call.group.size()) continue;
    const int32_t peer = call.group.member(sibling, index);
    if (listing.lanes.contains(peer)) visit(rank, peer);
  }
}

// Calls visit(instr, rank, peer) for each call of a kind, send or recv, that another submission of
// its listing matches.
template <class Visit>
void for_each_lone_call(const SpmdListing& listing, CollectiveKind kind, Visit visit) {
  const bool sends = kind == CollectiveKind::send;
  Callers others(sends ? CollectiveKind::recv : CollectiveKind::send, listing.lanes);
  for (const Instr& instr : listing.instrs) {
    const auto* const calls = std::get_if<Communicate>(&instr.action);
    if (calls == nullptr) continue;
    others.replace(*calls);
    for (const CallItem& item : calls->items)
      if (item.collective.kind == kind)
        for_each_peer(listing, item, [&](int32_t rank, int32_t peer) {
          if (!others.contains(peer)) visit(instr, rank, peer);
        });
  }
}

// Returns the ranks that send to a rank of their own part.
Lanes senders_inside(const SpmdListing& listing, const RankParts& parts) {
  std::vector<int32_t> ranks;
  const auto add = [&](const Instr&, int32_t rank, int32_t peer) {
    if (parts.are_together(rank, peer) && (ranks.empty() || ranks.back() != rank))
      ranks.push_back(rank);
  };
  for_each_lone_call(listing, CollectiveKind::send, add);
  return Lanes::of(std::move(ranks));
}

// Cuts off ranks until no rank sends to one of its part. Returns false if some always do, as the
// ranks of a long pipeline.
bool cut_off_senders(const SpmdListing& listing, RankParts& parts) {
  constexpr int kRounds = 6;
  if (!uses_one_stream(listing)) return true;
  for (int round = 0; round < kRounds; ++round) {
    const Lanes senders = senders_inside(listing, parts);
    if (senders.empty()) return true;
    parts.cut(senders);
  }
  return false;
}

// A send or a receive of a message.
struct MessageEnd {
  int32_t from = 0, to = 0;
  const Instr* instr = nullptr;
  std::pair<int32_t, int32_t> ranks() const { return {from, to}; }
};

// Returns the sends, or the receives, that another submission matches, by ranks and order of issue.
std::vector<MessageEnd> lone_ends(const SpmdListing& listing, CollectiveKind kind) {
  const bool sends = kind == CollectiveKind::send;
  std::vector<MessageEnd> ends;
  for_each_lone_call(listing, kind, [&](const Instr& instr, int32_t rank, int32_t peer) {
    ends.push_back({sends ? rank : peer, sends ? peer : rank, &instr});
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [](const MessageEnd& a, const MessageEnd& b) { return a.ranks() < b.ranks(); });
  return ends;
}

// True if two submissions match a message and share a rank.
bool blocks_on_one_stream(const SpmdListing& listing) {
  const std::vector<MessageEnd> sends = lone_ends(listing, CollectiveKind::send);
  const std::vector<MessageEnd> receives = lone_ends(listing, CollectiveKind::recv);
  std::map<std::pair<const Instr*, const Instr*>, bool> known;
  for (size_t s = 0, r = 0; s < sends.size() && r < receives.size();) {
    if (sends[s].ranks() != receives[r].ranks()) {
      ++(sends[s].ranks() < receives[r].ranks() ? s : r);
      continue;
    }
    const Instr *const send = sends[s++].instr, *const receive = receives[r++].instr;
    const auto [shares, fresh] = known.try_emplace({send, receive}, false);
    if (fresh) shares->second = !send->lanes.intersect(receive->lanes).empty();
    if (shares->second) return true;
  }
  return false;
}

}  // namespace

std::vector<Lanes> ranks_by_branch(const SpmdProgram& program, int64_t most) {
  std::vector<Lanes> sets;
  for (const SpmdListing& listing : program.listings) {
    RankParts parts(listing.lanes);
    std::unordered_set<Lanes, LanesHash> used{listing.lanes};
    for (const Instr& instr : listing.instrs) {
      if (!can_block(instr) || !used.insert(instr.lanes).second) continue;
      parts.cut(instr.lanes);
      if (static_cast<int64_t>(sets.size()) + parts.count() > most) return {};
    }
    if (!cut_off_senders(listing, parts)) return {};
    for (Lanes& set : parts.sets()) sets.push_back(std::move(set));
  }
  if (static_cast<int64_t>(sets.size()) > most) return {};
  return sets;
}

bool blocks_as_cohort(const SpmdProgram& program) {
  return std::any_of(program.listings.begin(), program.listings.end(),
                     [](const SpmdListing& listing) {
                       return uses_one_stream(listing) && blocks_on_one_stream(listing);
                     });
}

}  // namespace shardproof
