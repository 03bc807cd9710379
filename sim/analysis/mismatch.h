// Mismatch: findings about calls that match and do not fit. Pure functions of the calls.
//
// The ranks of a mismatch are those that differ from the majority (more than half of the members).
// Without a majority they are all members. Its line is the lowest among the calls of those ranks.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/sim/call/communicator.h"

namespace shardproof {

// True if kind, reduction, dtype, count and root agree, as far as the kind has them.
bool fits(const Collective& a, const Collective& b);

// Return the elements that a member of an all_to_all_v sends to, and awaits from, each member.
std::span<const int64_t> send_counts(const Arrival& arrival);
std::span<const int64_t> recv_counts(const Arrival& arrival);

// `group` is the text of the group. Nullopt: the calls fit.
std::optional<Finding> find_mismatch(const CollectiveInstance& instance, const std::string& group);
// True if a send and its receive agree on dtype and count.
bool fits_message(const Channel::End& sender, const Channel::End& receiver);
std::optional<Finding> find_mismatch(const Channel::End& sender, const Channel::End& receiver,
                                     const std::string& group);
Finding not_a_member(const CallTerms& call, const Lanes& outside, const std::string& group);

inline constexpr std::string_view kSameOrder =
    "let all members make the same calls in the same order";

// Returns the source text of the call; without one, the call in the scenario language.
std::string call_text(const CallTerms& call);
// Returns "line 5 (i=3)": the line and the pass of a loop; empty for line 0.
std::string line_text(int line, std::string_view instance);
// Returns "rank 3" or "ranks 0-3 5".
std::string ranks_text(const Lanes& ranks);
// Pads columns to equal width, with two blanks between; the last column is not padded.
std::vector<std::string> aligned(std::vector<std::vector<std::string>> rows);

// Joins findings that differ only in their sibling groups; each is at the place of its first part.
std::vector<Finding> merged_findings(std::vector<Finding> findings);

}  // namespace shardproof
