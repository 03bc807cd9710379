// Implements choose_cases of scenario.h. Values of settings may hold spaces and "=", so the text is
// not split. Settings are removed from its front, one after the other, until nothing is left.

#include "shardproof/scenarios/model/scenario.h"

namespace shardproof {
namespace {

std::string without_spaces(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ') out += c;
  return out;
}

// True if the text is made of some of the labels, each used once.
bool is_made_of(std::string_view text, const std::vector<std::string>& labels,
                std::vector<bool>& used) {
  if (text.empty()) return true;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (used[i] || labels[i].empty() || !text.starts_with(labels[i])) continue;
    used[i] = true;
    if (is_made_of(text.substr(labels[i].size()), labels, used)) return true;
    used[i] = false;
  }
  return false;
}

}  // namespace

std::vector<size_t> choose_cases(const std::vector<Case>& cases, const std::string& text) {
  const std::string wanted = without_spaces(text);
  std::vector<size_t> exact, partial;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (without_spaces(cases[i].name) == wanted) exact.push_back(i);
    std::vector<std::string> labels;
    for (const std::string& label : cases[i].labels) labels.push_back(without_spaces(label));
    std::vector<bool> used(labels.size(), false);
    if (!wanted.empty() && is_made_of(wanted, labels, used)) partial.push_back(i);
  }
  return exact.empty() ? partial : exact;
}

}  // namespace shardproof
