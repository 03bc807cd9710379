// Implements line_text.h: joins the ranks of listings with the same text, then the lines of the
// same ranks.
#include "shardproof/engine/explain/line_text.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {

std::string joined_words(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? fmt::format(" {} ", last) : ", ") + words[i];
  return text;
}

std::string lines_with_verb(const std::string& lines, const std::string& verb) {
  const bool several = lines.starts_with("lines ") || lines.find(" and line") != std::string::npos;
  if (!several) return lines + " " + verb;
  const bool is_y = verb.ends_with("ies");  // multiplies
  return lines + " " + verb.substr(0, verb.size() - (is_y ? 3 : 1)) + (is_y ? "y" : "");
}

std::string line_text(const SpmdProgram& program, const ListedLine& line) {
  return lines_text(program, {line});
}

std::string line_text(const SpmdProgram& program, const Instr& instr) {
  const auto own =
      std::find_if(program.listings.begin(), program.listings.end(),
                   [&](const SpmdListing& listing) { return listing.lanes.contains(instr.lanes); });
  if (own == program.listings.end()) return fmt::format("line {}", instr.origin.line);
  return line_text(program,
                   {static_cast<size_t>(own - program.listings.begin()), instr.origin.line});
}

std::string lines_text(const SpmdProgram& program, const std::set<ListedLine>& lines) {
  Lanes all;
  std::map<int, Lanes> ranks;  // by line number
  for (const SpmdListing& listing : program.listings) all = all.unite(listing.lanes);
  for (const auto& [listing, line] : lines)
    for (const SpmdListing& same : program.listings)
      if (same.lines == program.listings.at(listing).lines)
        ranks[line] = ranks[line].unite(same.lanes);
  std::vector<std::pair<Lanes, std::vector<std::string>>> groups;
  for (const auto& entry : ranks) {
    const Lanes& lanes = entry.second;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& known) { return known.first == lanes; });
    if (group == groups.end()) group = groups.insert(group, {lanes, {}});
    group->second.push_back(std::to_string(entry.first));
  }
  std::vector<std::string> texts;
  for (const auto& [lanes, numbers] : groups)
    texts.push_back(fmt::format("line{} {}{}", numbers.size() == 1 ? "" : "s",
                                joined_words(numbers, "and"),
                                lanes == all ? "" : " of " + ranks_text(lanes)));
  return joined_words(texts, "and");
}

}  // namespace shardproof
