// Mismatch: calls that meet and do not fit, as findings. Pure functions of the calls.
// Ranks of a mismatch: those that differ from the majority (more than half of the members), all
// members when there is none. The line is the lowest among the calls of those ranks.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/sim/call/communicator.h"

namespace shardproof {

// Kind, reduction, dtype, count and root agree, as far as the kind has them.
bool fits(const Collective& a, const Collective& b);

// Elements a member of an all_to_all_v sends to and awaits from each other member.
std::span<const int64_t> send_counts(const Arrival& arrival);
std::span<const int64_t> recv_counts(const Arrival& arrival);

// `group` is the text of the meeting's group.
std::optional<Finding> find_mismatch(const CollectiveInstance& meeting, const std::string& group);
std::optional<Finding> find_mismatch(const Channel::End& sender, const Channel::End& receiver,
                                     const std::string& group);
Finding not_a_member(const Call& call, const Lanes& outside, const std::string& group);

inline constexpr std::string_view kSameOrder =
    "let all members make the same calls in the same order";

// The call as its author wrote it, or as the product's language writes it.
std::string call_text(const Call& call);
// "line 5 (i=3)": the line, and the pass of a loop; empty for line 0.
std::string line_text(int line, std::string_view instance);
// "rank 3", "ranks 0-3 5"
std::string ranks_text(const Lanes& ranks);
// Pads columns to equal width, two blanks between; the last column is not padded.
std::vector<std::string> aligned(std::vector<std::vector<std::string>> rows);

// Findings that differ only in which siblings they are about become one.
void merge_finding(std::vector<Finding>& findings, Finding finding);

}  // namespace shardproof
