// Implements shared_findings.h: findings that cases of a sweep have in common.
#include "shardproof/scenarios/report/shared_findings.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

namespace shardproof {
namespace {

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "each of the 4 ranks of tp2" as "each of the # ranks of tp2".
std::string without_numbers(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (!is_of_word(text[i])) {
      out += text[i++];
      continue;
    }
    const size_t begin = i;
    bool number = true;
    for (; i < text.size() && is_of_word(text[i]); ++i) number = number && is_digit(text[i]);
    out += number ? "#" : text.substr(begin, i - begin);
  }
  return out;
}

void add(std::string& key, const std::string& part) { key += part + '\n'; }

void add_finding(std::string& key, const Finding& finding) {
  add(key, fmt::format("{} {}", name(finding.verdict), finding.line));
  for (const std::string& part : {finding.group, finding.name, finding.instance}) add(key, part);
  for (const std::string& detail : finding.details)
    if (detail.starts_with("cause")) add(key, without_numbers(detail));
}

std::string key_of(const CaseResult& one) {
  std::string key;
  add(key, fmt::format("{} {} {}", one.status_text(), name(one.expected), one.backend));
  for (const PhaseResult& phase : one.phases) {
    add(key, "phase");
    for (const Finding& finding : phase.outcome.findings) add_finding(key, finding);
    for (const ExpectationFailure& miss : phase.missed)
      for (const std::string& part : {miss.what, miss.expected, miss.got}) add(key, part);
  }
  return key;
}

}  // namespace

std::vector<SharedCases> group_findings(const std::vector<const CaseResult*>& cases) {
  std::vector<SharedCases> groups;
  std::map<std::string, size_t> known;
  for (const CaseResult* one : cases) {
    const bool alone = one->error || one->leading() == nullptr;
    if (!alone) {
      const auto [group, fresh] = known.emplace(key_of(*one), groups.size());
      if (!fresh) {
        groups[group->second].others.push_back(one);
        continue;
      }
    }
    groups.push_back({one, {}});
  }
  return groups;
}

}  // namespace shardproof
