// Implements the texts of mismatch.h.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

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

// Returns the group. If it is the group of the known finding, returns the text of the headline
// after the group.
std::string place_text(const Finding& known, const Finding& finding) {
  const std::string group = "group " + finding.group;
  if (known.group != finding.group) return group;
  const size_t after = finding.headline.find(group + ", ");
  return after == std::string::npos ? group : finding.headline.substr(after + group.size() + 2);
}

}  // namespace

std::vector<Finding> merged_findings(std::vector<Finding> findings) {
  using Subject = std::tuple<Verdict, int, int64_t, std::string, std::string>;
  struct Joined {
    Finding finding;
    std::vector<int32_t> ranks;
  };
  std::vector<Joined> joined;
  std::map<Subject, size_t> place_of;
  for (Finding& finding : findings) {
    const std::string group_name = finding.group.substr(0, finding.group.find(' '));
    const auto [place, fresh] = place_of.emplace(
        Subject(finding.verdict, finding.line, finding.call, finding.instance, group_name),
        joined.size());
    if (fresh) joined.emplace_back();
    Joined& known = joined[place->second];
    for (int64_t i = 0; i < finding.ranks.size(); ++i) known.ranks.push_back(finding.ranks[i]);
    if (fresh) {
      known.finding = std::move(finding);
      continue;
    }
    const bool member = finding.verdict == Verdict::not_a_member;
    std::string more = member ? std::move(finding.details.front())
                              : "the same in " + place_text(known.finding, finding);
    constexpr size_t kShown = 16;
    std::vector<std::string>& details = known.finding.details;
    const bool listed = std::count(details.begin(), details.end(), more) > 0;
    if (!listed && details.size() < kShown) details.push_back(std::move(more));
  }
  std::vector<Finding> merged;
  for (Joined& known : joined) {
    known.finding.ranks = Lanes::of(std::move(known.ranks));
    merged.push_back(std::move(known.finding));
  }
  return merged;
}

}  // namespace shardproof
