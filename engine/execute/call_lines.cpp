// Implements call_lines.h: collects the places of each member's calls in the order of the program,
// and compares them call by call.
#include "shardproof/engine/execute/call_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/call/communicator.h"

namespace shardproof {
namespace {

using Places = std::vector<std::string>;  // "line 13", "line 13 (s=1)"

std::string place_text(const Instr& instr, const CallItem& item) {
  const Origin& origin = item.origin.line > 0 ? item.origin : instr.origin;
  const std::string& instance = origin.instance.str();
  return fmt::format("line {}{}", origin.line,
                     instance.empty() ? "" : fmt::format(" ({})", instance));
}

// Returns the sibling of a group that has this text; -1 if none has.
int64_t sibling_with_text(const Group& group, const std::string& text) {
  if (!text.starts_with(group.name() + " ")) return -1;
  for (int64_t sibling = 0; sibling < group.count(); ++sibling)
    if (sibling_text(group, sibling) == text) return sibling;
  return -1;
}

// Collects the places of the collectives of each member of a group in one listing.
class PlacesOfCalls {
 public:
  PlacesOfCalls(const SpmdListing& listing, const std::string& group) : text_(group) {
    for (const Instr& instr : listing.instrs)
      if (const auto* communicate = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : communicate->items)
          if (!item.step && !is_point_to_point(item.collective.kind)) add(instr, item);
  }
  const std::map<int32_t, Places>& by_rank() const { return by_rank_; }
  const Lanes& members() const { return members_; }

 private:
  void add(const Instr& instr, const CallItem& item) {
    const Group& group = item.collective.group;
    if (known_.empty() || !known_.back().is_copy_of(group)) {
      if (sibling_with_text(group, text_) < 0) return;
      known_.push_back(group);
      members_ = Lanes::of(group.members(sibling_with_text(group, text_)));
    }
    const Lanes on = item.lanes.intersect(instr.lanes).intersect(members_);
    const std::string place = place_text(instr, item);
    for (int64_t i = 0; i < on.size(); ++i) by_rank_[on[i]].push_back(place);
  }

  std::string text_;
  std::vector<Group> known_;
  Lanes members_;
  std::map<int32_t, Places> by_rank_;
};

// Returns "rank 1 makes the call of line 13, ranks 0 2 3 that of line 11".
std::string places_text(const std::map<std::string, std::vector<int32_t>>& ranks_at) {
  std::vector<std::pair<std::string, std::vector<int32_t>>> groups(ranks_at.begin(),
                                                                   ranks_at.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text;
  for (const auto& [place, ranks] : groups) {
    const char* const makes = ranks.size() == 1 ? " makes" : " make";
    text += text.empty()
                ? fmt::format("{}{} the call of {}", ranks_text(Lanes::of(ranks)), makes, place)
                : fmt::format(", {} that of {}", ranks_text(Lanes::of(ranks)), place);
  }
  return text;
}

}  // namespace

std::string first_call_on_other_lines(const SpmdProgram& program, const std::string& group,
                                      int64_t before) {
  for (const SpmdListing& listing : program.listings) {
    const PlacesOfCalls places(listing, group);
    if (places.by_rank().empty()) continue;
    const Lanes& members = places.members();
    if (!listing.lanes.contains(members)) return "";
    for (int64_t call = 0; call + 1 < before; ++call) {
      std::map<std::string, std::vector<int32_t>> ranks_at;
      for (int64_t i = 0; i < members.size(); ++i) {
        const auto own = places.by_rank().find(members[i]);
        if (own == places.by_rank().end() || call >= std::ssize(own->second)) return "";
        ranks_at[own->second[static_cast<size_t>(call)]].push_back(members[i]);
      }
      if (ranks_at.size() > 1)
        return fmt::format("call {} of this group: {}", call + 1, places_text(ranks_at));
    }
  }
  return "";
}

}  // namespace shardproof
