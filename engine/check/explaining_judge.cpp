// Implements explaining_judge.h: each wrong value becomes a finding, and a value that is computed
// from an earlier wrong one becomes a consequence of it.
#include "shardproof/engine/check/explaining_judge.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/causes/causes.h"
#include "shardproof/engine/explain/explain.h"

namespace shardproof {
namespace {

std::map<std::string, const JudgedValue*> by_key(const std::vector<JudgedValue>& values) {
  std::map<std::string, const JudgedValue*> result;
  for (const JudgedValue& value : values) result.emplace(value.key, &value);
  return result;
}

// Returns the largest error as a share of the largest element.
double share_of_difference(const Difference& difference) {
  const double largest = largest_element(difference.truth);
  double error = 0;
  for (const double each : distances(difference.got, difference.truth))
    if (std::isfinite(each)) error = std::max(error, each);
  return largest > 0 ? error / largest : error;
}

// Returns the result of a line with `as` if the value is the gradient of one of its inputs. Each
// rank computes that gradient from its own shards, so a wrong line makes it wrong too. kNoValue: it
// is not.
ValueId differentiated_claim(const EvaluationPlan& plan, ValueId gradient) {
  const std::vector<GlobalInstr>& instrs = plan.program().instrs;
  const auto maker_of = [&](ValueId id) -> const GlobalInstr* {
    return id == kNoValue || plan.maker(id) < 0 ? nullptr
                                                : &instrs[static_cast<size_t>(plan.maker(id))];
  };
  const GlobalInstr* last = maker_of(gradient);
  while (last != nullptr && last->kind == GlobalKind::redistribute && !last->dual)
    last = maker_of(last->inputs.at(0));
  if (last == nullptr || last->kind != GlobalKind::claim || !last->dual) return kNoValue;
  std::vector<ValueId> open = last->inputs;
  std::set<ValueId> seen(open.begin(), open.end());
  while (!open.empty()) {
    const GlobalInstr* const instr = maker_of(open.back());
    open.pop_back();
    if (instr == nullptr) continue;
    if (instr->kind == GlobalKind::redistribute && instr->dual) return instr->like;
    if (!instr->local) continue;
    for (const ValueId input : instr->inputs)
      if (seen.insert(input).second) open.push_back(input);
  }
  return kNoValue;
}

// Returns the lines of the program by which a value is computed from compared ones.
std::set<int> reference_lines(const ReferenceRun& reference) {
  std::set<int> lines;
  for (const int index : reference.line())
    lines.insert(reference.plan().program().instrs[static_cast<size_t>(index)].origin.line);
  return lines;
}

}  // namespace

DifferenceJudge::DifferenceJudge(const std::vector<JudgedValue>& wrong) : wanted_(by_key(wrong)) {}

Judgement DifferenceJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  if (const auto found = wanted_.find(value.key); found != wanted_.end()) {
    const Tensor truth = reference.value(value.global);
    differences_.insert_or_assign(value.key, difference_of(value, truth, found->second->elements));
  }
  return Judgement::right;
}

const Difference* DifferenceJudge::find(const std::string& key) const {
  const auto found = differences_.find(key);
  return found == differences_.end() ? nullptr : &found->second;
}

ExplainingJudge::ExplainingJudge(const std::vector<JudgedValue>& wrong,
                                 const JudgedProgram& program, Options options)
    : wanted_(by_key(wrong)), program_(program), options_(options) {}

void ExplainingJudge::restart() {
  explained_.clear();
  search_.reset();
  source_.clear();
  wrong_.clear();
}

int ExplainingJudge::source(ValueId id) const {
  const auto found = source_.find(id);
  return found == source_.end() ? kNone : found->second;
}

int ExplainingJudge::finding_of(ValueId id) const {
  const auto found = wrong_.find(id);
  return found == wrong_.end() ? kNone : found->second;
}

// Records that the results of the line come from the earliest wrong value that an input comes from.
void ExplainingJudge::follow(const ReferenceRun& reference) {
  for (const int index : reference.line()) {
    const GlobalInstr& instr = reference.plan().program().instrs[static_cast<size_t>(index)];
    int from = kNone;
    for (const ValueId input : instr.inputs)
      if (input != kNoValue && source(input) != kNone)
        from = from == kNone ? source(input) : std::min(from, source(input));
    if (from == kNone) continue;
    for (const ValueId output : instr.outputs) source_.emplace(output, from);
  }
}

// True if the cause of an earlier value explains this one too.
bool ExplainingJudge::has_known_cause(const std::string& key) const {
  return std::any_of(explained_.begin(), explained_.end(),
                     [&](const ExplainedValue& one) { return one.made_right.contains(key); });
}

ExplainedKeys ExplainingJudge::add_cause(const ComparedValue& value, Finding& finding) {
  // Many values may be wrong for one reason that no search finds.
  constexpr int kMostLongSearches = 2;
  const auto unexplained =
      std::count_if(explained_.begin(), explained_.end(), [](const ExplainedValue& one) {
        return one.made_right.empty() && one.consequence_of == kNone;
      });
  if (!search_ && options_.searches_causes)
    if (const std::optional<RankCase> about = program_.rank_case(options_.replaced))
      search_.emplace(*about);
  if (search_) return search_->explain(value, finding, unexplained < kMostLongSearches);
  program_.explain(value, finding);
  return {};
}

// Returns nullopt if the run in the program's own dtypes contradicts that the value is wrong.
std::optional<ExplainedValue> ExplainingJudge::explain(const ComparedValue& value,
                                                       const JudgedValue& judged,
                                                       const Tensor& truth,
                                                       const ReferenceRun& reference) {
  Difference difference = difference_of(value, truth, judged.elements);
  const Difference* own = options_.own != nullptr ? options_.own->find(value.key) : nullptr;
  if (own != nullptr && contradicts_f64(*own, difference, judged)) return std::nullopt;
  const double alike = std::min(options_.alike, share_of_difference(difference) / 8);
  difference.find_matching_spec =
      find_matching_spec(value.value, value.spec, difference.truth, alike);
  const ValueLabel label = value.label_for ? value.label_for(difference.ranks) : value.label;
  ExplainedValue explained;
  explained.key = value.key;
  explained.finding =
      explain_difference({label, value.spec, value.global}, difference, own, reference);
  explained.consequence_of = consequence_of(value, reference);
  explained.lines = reference_lines(reference);
  // A consequence is listed under its cause and needs no cause of its own.
  if (explained.consequence_of == kNone && !has_known_cause(value.key)) {
    ExplainedKeys keys = add_cause(value, explained.finding);
    explained.made_right = std::move(keys.made_right);
    explained.left_wrong = std::move(keys.left_wrong);
    explained.beside = value_beside(explained);
  }
  return explained;
}

int ExplainingJudge::value_beside(const ExplainedValue& one) const {
  if (options_.consequences != Consequences::of_all_values || !one.made_right.empty()) return kNone;
  for (size_t i = 0; i < explained_.size(); ++i) {
    const ExplainedValue& other = explained_[i];
    const bool is_open =
        other.made_right.empty() && other.consequence_of == kNone && other.beside == kNone;
    if (is_open && std::any_of(one.lines.begin(), one.lines.end(),
                               [&](int line) { return other.lines.contains(line); }))
      return static_cast<int>(i);
  }
  return kNone;
}

// Returns the wrong value that this one follows from. A value is wrong by itself if it stays wrong
// when the cause of the other value is corrected, and its lines are different ones.
int ExplainingJudge::consequence_of(const ComparedValue& value,
                                    const ReferenceRun& reference) const {
  const int from = source(value.global);
  if (from == kNone) return finding_of(differentiated_claim(reference.plan(), value.global));
  const ExplainedValue& other = explained_[static_cast<size_t>(from)];
  if (!other.left_wrong.contains(value.key)) return from;
  const std::set<int> own = reference_lines(reference);
  const bool shares_line =
      std::any_of(own.begin(), own.end(), [&](int line) { return other.lines.contains(line); });
  return shares_line ? from : kNone;
}

Judgement ExplainingJudge::judge(const ComparedValue& value, ReferenceRun& reference) {
  const Tensor truth = reference.value(value.global);
  follow(reference);
  const auto found = wanted_.find(value.key);
  std::optional<ExplainedValue> explained;
  if (found != wanted_.end()) explained = explain(value, *found->second, truth, reference);
  const bool all = options_.consequences == Consequences::of_all_values;
  if (!explained) {
    if (!all) source_.erase(value.global);
    return Judgement::right;
  }
  const bool spreads = all || compare_replicas(value.value, value.spec).has_value();
  const int root = explained->consequence_of;
  if (spreads) source_[value.global] = root == kNone ? static_cast<int>(explained_.size()) : root;
  wrong_.emplace(value.global, static_cast<int>(explained_.size()));
  explained_.push_back(std::move(*explained));
  return Judgement::wrong;
}

void ExplainingJudge::was_held(const std::vector<ValueId>& ids) {
  const int from = source(ids.front());
  for (const ValueId id : ids)
    if (from != kNone) source_[id] = from;
}

Tensor ExplainingJudge::held(const ComparedValue& value, const ReferenceRun& reference) {
  if (options_.integers != nullptr)
    if (const auto own = options_.integers->find(value.global); own != options_.integers->end())
      return own->second;
  return Judge::held(value, reference);
}

}  // namespace shardproof
