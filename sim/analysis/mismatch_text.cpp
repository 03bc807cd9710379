// Implements the texts of mismatch.h.
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {

std::string call_text(const CallTerms& call) {
  if (!call.site.text.empty()) {
    std::string_view text = call.site.text;
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return std::string(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  std::string text = to_string(call.collective);
  return text.substr(0, text.find("  "));
}

std::string line_text(int line, std::string_view instance) {
  if (line == 0) return "";
  return instance.empty() ? fmt::format("line {}", line)
                          : fmt::format("line {} ({})", line, instance);
}

std::string ranks_text(const Lanes& ranks) {
  constexpr size_t kLongest = 60;
  std::string list = to_string(ranks);
  if (list.size() > kLongest) {
    list.erase(list.rfind(' ', kLongest));
    list += fmt::format(" ... {}", ranks[ranks.size() - 1]);
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list);
}

std::vector<std::string> aligned(std::vector<std::vector<std::string>> rows) {
  std::vector<std::string> lines;
  if (rows.empty()) return lines;
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      if (!line.empty()) line += "  ";
      line += fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

namespace {

// Returns the group; for the group of the known finding, what the headline states after it.
std::string place_text(const Finding& known, const Finding& finding) {
  const std::string group = "group " + finding.group;
  if (known.group != finding.group) return group;
  const size_t after = finding.headline.find(group + ", ");
  return after == std::string::npos ? group : finding.headline.substr(after + group.size() + 2);
}

}  // namespace

void merge_finding(std::vector<Finding>& findings, Finding finding) {
  const auto group_name = [](const Finding& f) { return f.group.substr(0, f.group.find(' ')); };
  for (Finding& known : findings) {
    if (known.verdict != finding.verdict || known.line != finding.line ||
        known.call != finding.call || known.instance != finding.instance ||
        group_name(known) != group_name(finding)) {
      continue;
    }
    known.ranks = known.ranks.unite(finding.ranks);
    const bool member = finding.verdict == Verdict::not_a_member;
    std::string more =
        member ? finding.details.front() : "the same in " + place_text(known, finding);
    constexpr size_t kShown = 16;
    const bool listed = std::count(known.details.begin(), known.details.end(), more) > 0;
    if (!listed && known.details.size() < kShown) known.details.push_back(std::move(more));
    return;
  }
  findings.push_back(std::move(finding));
}

}  // namespace shardproof
