// Implements value_comparer.h. A value is complete when every rank that its shapes name has made
// it. Ranks make the values of a listing in order, so the next value to be judged is nearly always
// the one that has just become complete. A value that is early waits in parts_.
#include "shardproof/engine/compare/value_comparer.h"

#include <fmt/format.h>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {

ValueComparer::ValueComparer(const SpmdProgram& program, const std::vector<std::string>& lines,
                             Options options, ReferenceRun& reference, Judge& judge)
    : program_(program),
      lines_(lines),
      options_(std::move(options)),
      reference_(reference),
      judge_(judge) {
  for (size_t i = 0; i < options_.compared.size(); ++i) place_.emplace(options_.compared[i], i);
}

bool ValueComparer::is_complete(ValueId id) const {
  const auto found = parts_.find(id);
  if (found == parts_.end()) return false;
  const Lanes have = found->second.lanes();
  for (const LocalShape& shape : program_.values[static_cast<size_t>(id)].shapes)
    if (!have.contains(shape.lanes)) return false;
  return true;
}

void ValueComparer::made(ValueId id, const LocalTensor& value) {
  if (!wants(id)) return;
  // Independent of later writes into the buffers.
  LocalTensor copy = fork(value, value.lanes());
  LocalTensor& parts = parts_[id];
  parts = parts.empty() ? std::move(copy) : parts.merged_with(copy);
  replace_integers(id, value);
  if (!is_complete(id)) return;
  if (options_.kept.contains(id)) kept_[id] = parts;
  if (place_.contains(id))
    judge_ready();
  else
    parts_.erase(id);
}

void ValueComparer::judge_ready() {
  while (next_ < options_.compared.size() && is_complete(options_.compared[next_]))
    judge_one(options_.compared[next_++]);
}

void ValueComparer::finish() {
  for (; next_ < options_.compared.size(); ++next_)
    if (is_complete(options_.compared[next_])) judge_one(options_.compared[next_]);
}

// A gradient inside the line of a grad is named after the value that it is the gradient of.
std::string ValueComparer::gradient_name(ValueId global) const {
  const EvaluationPlan& plan = reference_.plan();
  if (global == kNoValue || plan.maker(global) < 0) return "";
  const GlobalInstr& instr = plan.program().instrs[static_cast<size_t>(plan.maker(global))];
  if (instr.like == kNoValue || instr.dual) return "";
  const GlobalValue& of = plan.info(instr.like);
  if (of.name.empty()) return "";
  return of.origin.line > 0 ? fmt::format("gradient of {} (line {})", of.name, of.origin.line)
                            : fmt::format("gradient of {}", of.name);
}

void ValueComparer::judge_one(ValueId id) {
  const SpmdValue& info = program_.values[static_cast<size_t>(id)];
  const size_t line = static_cast<size_t>(info.origin.line - 1);
  const bool has_line = info.origin.line > 0 && line < lines_.size();
  const ComparedValue value{
      info.global, fmt::format("{}", info.global), *info.spec, parts_.at(id),
      ValueLabel{info.bound.empty() ? gradient_name(info.global) : info.bound, info.origin.line,
                 has_line ? lines_[line] : "", info.origin.instance}};
  judge_.judge(value, reference_);
  judge_.was_held(reference_.hold(info.global, judge_.held(value, reference_)));
  parts_.erase(id);
}

void ValueComparer::replace_integers(ValueId id, const LocalTensor& value) const {
  if (options_.integers == nullptr) return;
  const SpmdValue& info = program_.values[static_cast<size_t>(id)];
  if (!info.spec) return;
  const auto own = options_.integers->find(info.global);
  if (own == options_.integers->end()) return;
  const LocalTensor integers = split(own->second, *info.spec);
  std::vector<Block> owners, views;
  for (const Block& block : value.blocks()) (owns_buffer(block) ? owners : views).push_back(block);
  if (!owners.empty()) {
    LocalTensor target(std::move(owners));
    adopt(target, integers);
  }
  if (!views.empty()) {
    LocalTensor target(std::move(views));
    // Cohorts make a value part by part.
    const Lanes made = target.lanes();
    write_through(target, integers.restrict_to(made));
  }
}

LocalTensor ValueComparer::kept(ValueId id) const {
  const auto found = kept_.find(id);
  return found == kept_.end() ? LocalTensor() : found->second;
}

}  // namespace shardproof
