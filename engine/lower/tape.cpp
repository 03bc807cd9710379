// Implements tape.h.
#include "shardproof/engine/lower/tape.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

VersionId Tape::present(ValueId value) {
  if (value == kNoValue) return kNoVersion;
  const auto [known, added] = present_.emplace(value, static_cast<VersionId>(versions_.size()));
  if (added) versions_.push_back({value});
  return known->second;
}

void Tape::append(TapeEntry entry) {
  for (const VersionId output : entry.outputs)
    versions_[static_cast<size_t>(output)].maker = static_cast<int>(entries_.size());
  entries_.push_back(std::move(entry));
}

void Tape::record(TapeEntry entry, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& outputs) {
  if (paused_ > 0) return;
  for (const ValueId id : inputs) entry.inputs.push_back(present(id));
  for (const ValueId id : outputs) entry.outputs.push_back(present(id));
  append(std::move(entry));
}

void Tape::record_new_version(TapeEntry entry, const std::vector<VersionId>& inputs,
                              ValueId value) {
  SP_CHECK(paused_ == 0, "a decomposition writes value {} in place", value);
  const VersionId old = present(value), made = static_cast<VersionId>(versions_.size());
  versions_.push_back({value});
  Version& before = versions_[static_cast<size_t>(old)];
  before.next = made;
  before.written_on = entry.lanes;
  before.written_at = entry.origin;
  present_[value] = made;
  entry.inputs = inputs;
  entry.outputs = {made};
  append(std::move(entry));
}

std::optional<Origin> Tape::overwritten(VersionId version, const Lanes& lanes) const {
  for (const Version* one = &at(version); one->next != kNoVersion; one = &at(one->next))
    if (!one->written_on.intersect(lanes).empty()) return one->written_at;
  return std::nullopt;
}

namespace {

bool expression_calls(const Expr& expr, const std::string& verb) {
  if (expr.kind == ExprKind::call && expr.symbol == verb) return true;
  const auto calls = [&](const Expr& part) { return expression_calls(part, verb); };
  if (std::any_of(expr.args.begin(), expr.args.end(), calls)) return true;
  return std::any_of(expr.items.begin(), expr.items.end(), [&](const IndexItem& item) {
    return std::any_of(item.at.begin(), item.at.end(), calls);
  });
}

}  // namespace

bool calls_verb(const std::vector<Statement>& statements, const std::string& verb) {
  return std::any_of(statements.begin(), statements.end(), [&](const Statement& statement) {
    return (statement.value && expression_calls(*statement.value, verb)) ||
           calls_verb(statement.body, verb) || calls_verb(statement.otherwise, verb);
  });
}

}  // namespace shardproof
