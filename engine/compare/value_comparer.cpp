// Implements value_comparer.h. A value is complete when every rank that its shapes name has made
// it. Ranks make the values of a listing in order. So the next value to be judged is nearly always
// the one that has just become complete. A complete value that must wait for earlier ones is stored
// in parts_.
//
// Example of reduced_as_: the program has `y = h @ w as tp:P(sum)` and `z = redistribute(y, tp:R)`.
// The all_reduce of z adds the parts of y, as the judge would for y. So y is judged when z is
// complete, with the sum that z holds.
#include "shardproof/engine/compare/value_comparer.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// True if the call reduces all partial axes of a value of floats, and nothing else.
bool reduces_partials(const CallItem& item, const SpmdValue& from, const SpmdValue& to) {
  const Collective& call = item.collective;
  if (call.kind != CollectiveKind::all_reduce || item.in_place || !from.spec || !to.spec)
    return false;
  const std::vector<int> axes = from.spec->partial_axes();
  if (axes.empty() || from.dtype != to.dtype || call.dtype != from.dtype ||
      !is_floating(from.dtype))
    return false;
  Spec whole = *from.spec;
  for (const int axis : axes) {
    if (!(whole.placement(axis).partial().reduction == call.reduction)) return false;
    whole = whole.with_placement(axis, R());
  }
  return whole == *to.spec && call.schedule == ReductionSchedule() &&
         call.group == Group::of_axes(from.spec->mesh(), axes);
}

}  // namespace

bool cover_all(const CollectedParts& parts, const LocalShapes& shapes) {
  int64_t wanted = 0;
  for (const LocalShape& shape : shapes) wanted += shape.lanes.size();
  if (parts.most_lanes() < wanted) return false;
  const Lanes have = parts.whole().lanes();
  return std::all_of(shapes.begin(), shapes.end(),
                     [&](const LocalShape& shape) { return have.contains(shape.lanes); });
}

ValueComparer::ValueComparer(const SpmdProgram& program, const std::vector<std::string>& lines,
                             Options options, ReferenceRun& reference, Judge& judge)
    : program_(program),
      lines_(lines),
      options_(std::move(options)),
      reference_(reference),
      judge_(judge) {
  for (size_t i = 0; i < options_.compared.size(); ++i) place_.emplace(options_.compared[i], i);
  if (options_.calls_are_exact) find_reductions();
}

void ValueComparer::find_reductions() {
  if (program_.listings.size() != 1) return;
  for (const Instr& instr : program_.listings[0].instrs) {
    const Communicate* const call = std::get_if<Communicate>(&instr.action);
    // All items of a step read one value and make one.
    if (call == nullptr || (call->items.size() != 1 && !call->items[0].step)) continue;
    const CallItem& item = call->items[0];
    const auto from = place_.find(item.input), to = place_.find(item.output);
    if (from == place_.end() || to == place_.end() || to->second != from->second + 1) continue;
    if (reduces_partials(item, program_.values[static_cast<size_t>(item.input)],
                         program_.values[static_cast<size_t>(item.output)]))
      reduced_as_.emplace(item.input, item.output);
  }
}

bool ValueComparer::is_complete(ValueId id) const {
  const auto found = parts_.find(id);
  return found != parts_.end() &&
         cover_all(found->second, program_.values[static_cast<size_t>(id)].shapes);
}

void ValueComparer::made(ValueId id, const LocalTensor& value) {
  if (!compares(id)) return;
  // Independent of later writes into the buffers.
  parts_[id].add(fork(value, value.lanes()));
  replace_integers(id, value);
  if (!is_complete(id)) return;
  if (options_.kept.contains(id)) kept_[id] = parts_[id].whole();
  if (place_.contains(id))
    judge_ready();
  else
    parts_.erase(id);
}

void ValueComparer::judge_ready() {
  while (next_ < options_.compared.size() && is_complete(options_.compared[next_])) {
    const auto reduced = reduced_as_.find(options_.compared[next_]);
    if (reduced != reduced_as_.end() && !is_complete(reduced->second)) return;
    judge_one(options_.compared[next_++]);
  }
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
  ComparedValue value{
      info.global, key_of_global_value(info.global), *info.spec, parts_.at(id).whole(),
      ValueLabel{info.bound.empty() ? gradient_name(info.global) : info.bound.str(),
                 info.origin.line, has_line ? lines_[line] : "", info.origin.instance}};
  if (const auto result = reduced_as_.find(id);
      result != reduced_as_.end() && is_complete(result->second))
    value.reduced = parts_.at(result->second).whole();
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
