// Implements exemptions.h.
#include "shardproof/tests/tidy/exemptions.h"

#include <algorithm>
#include <map>
#include <set>

namespace shardproof::tidy {
namespace {

const std::vector<Exemption> kRows = {
    {"docs-line", "bench/results/"},
    {"docs-line", "tests/conformance/"},
};

std::string room_of(const std::string& path) {
  std::size_t slash = path.find('/');
  return room_position(path.substr(0, slash)) >= 0 || path.starts_with("tests/") ||
                 path.starts_with("docs/") || path.starts_with("bench/") ||
                 path.starts_with("cmake/")
             ? path.substr(0, slash)
             : "(root)";
}

std::string padded(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

bool covers(const Exemption& row, const Violation& violation) {
  return violation.rule == row.rule && violation.path.starts_with(row.prefix);
}

}  // namespace

const std::vector<Exemption>& tree_exemptions() { return kRows; }

bool is_exempt(const Violation& violation, const std::vector<Exemption>& exemptions) {
  return std::any_of(exemptions.begin(), exemptions.end(),
                     [&](const Exemption& row) { return covers(row, violation); });
}

Violations without_exempt(const Violations& all, const std::vector<Exemption>& exemptions) {
  Violations found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const Violation& violation) { return !is_exempt(violation, exemptions); });
  return found;
}

std::string count_text(const Violations& all, const std::vector<Exemption>& exemptions) {
  std::map<std::string, std::map<std::string, std::size_t>> counts;
  std::set<std::string> rooms;
  for (const Violation& violation : all) {
    ++counts[violation.rule][room_of(violation.path)];
    rooms.insert(room_of(violation.path));
  }
  std::string text = padded("", 18);
  for (const std::string& room : rooms) text += " " + padded(room, 11);
  text += " " + padded("all", 6) + "\n";
  for (auto& [rule, of_rule] : counts) {
    std::size_t sum = 0;
    text += rule + padded("", 18 - std::min<std::size_t>(18, rule.size()));
    for (const std::string& room : rooms) {
      sum += of_rule[room];
      text += " " + padded(std::to_string(of_rule[room]), 11);
    }
    text += " " + padded(std::to_string(sum), 6) + "\n";
  }
  for (const Exemption& row : exemptions) {
    bool used = std::any_of(all.begin(), all.end(),
                            [&](const Violation& violation) { return covers(row, violation); });
    if (used) continue;
    text += "no violation of " + std::string(row.rule) + " is left below " +
            std::string(row.prefix) + ": delete its row in tests/tidy/exemptions.cpp\n";
  }
  return text;
}

}  // namespace shardproof::tidy
