// Implements unreached_checks.h. The lowered program has the lines that some rank reaches, so the
// lines that none reaches are read from the listings.
#include "shardproof/engine/judging/unreached_checks.h"

#include <algorithm>
#include <functional>
#include <set>

#include "shardproof/engine/explain/line_text.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

constexpr size_t kMostNamed = 4;  // values that a note names; more are counted

// Calls visit(statement) for each statement check(..), in blocks too.
void for_each_check(const std::vector<Statement>& statements,
                    const std::function<void(const Statement&)>& visit) {
  for (const Statement& statement : statements) {
    const bool is_check = statement.kind == StatementKind::call && statement.value &&
                          statement.value->symbol == "check" && statement.value->args.size() > 1 &&
                          statement.value->args[1].kind == ExprKind::text;
    if (is_check) visit(statement);
    for_each_check(statement.body, visit);
    for_each_check(statement.otherwise, visit);
  }
}

// True if the name is the template with a whole number in each hole.
bool is_filled_from(std::string_view name, const NameTemplate& pattern) {
  for (size_t i = 0; i < pattern.texts.size(); ++i) {
    if (!name.starts_with(pattern.texts[i])) return false;
    name.remove_prefix(pattern.texts[i].size());
    if (i == pattern.holes.size()) break;
    const auto end = std::find_if_not(name.begin(), name.end(), is_digit);
    if (end == name.begin()) return false;
    name.remove_prefix(static_cast<size_t>(end - name.begin()));
  }
  return name.empty();
}

std::string names_text(const std::vector<std::string>& names) {
  if (names.size() <= kMostNamed) return joined_words(names, "and");
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNamed);
  return fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - kMostNamed);
}

}  // namespace

std::vector<std::string> notes_of_unreached_checks(const Job& job, const RankProgram& ranks,
                                                   const GlobalProgram& truth) {
  std::set<std::string> told;
  for (const RankCheck& check : ranks.checks) told.insert(check.name);
  for (const JobOutput& output : job.outputs) told.insert(output.name);
  std::vector<std::string> notes;
  const auto add_note = [&](const Statement& statement) {
    const Expr& name = statement.value->args[1];
    std::vector<std::string> missing;
    for (const GlobalValue& value : truth.values)
      if (is_filled_from(value.name, name.name) && told.insert(value.name).second)
        missing.push_back(value.name);
    if (missing.empty()) return;
    notes.push_back(fmt::format("{} of the truth {} not compared: no rank reaches {} on line {}",
                                names_text(missing), missing.size() == 1 ? "is" : "are",
                                to_string(*statement.value), statement.place.line));
  };
  for (const JobListing& listing : job.ranks) for_each_check(listing.listing.statements, add_note);
  return notes;
}

}  // namespace shardproof
