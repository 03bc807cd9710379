// Implements confirm_cause.h: runs the program before and after the edit and compares, value by
// value, how far the ranks are from one device.
#include "shardproof/engine/causes/confirm_cause.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

constexpr double kRight = 0x1p-32;       // of the largest element
constexpr double kExact = 0x1p-40;       // of the largest element: rounding of f64 explains it
constexpr double kCloser = 64;           // times, than before the edit
constexpr double kMuchCloser = 0x1p16;   // the same, if it is not exact
constexpr double kFarther = 1.25;        // times: a wrong value that was better before the edit
constexpr int64_t kMostMoved = 1 << 18;  // largest number of input elements that are drawn again

// Measures the distance of each value from one device.
class DistanceJudge : public Judge {
 public:
  DistanceJudge(std::string key, std::optional<std::pair<int, Placement>> declared)
      : key_(std::move(key)), declared_(std::move(declared)) {}
  void restart() override { found_.clear(); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    const Tensor& held = reference.value(value.global);
    const Tensor expected = held.contiguous() ? held : contiguous_copy(held);
    const Spec spec = spec_of(value);
    const LocalTensor ready = reduced_over_partials(value.value, spec, expected.dtype);
    Distance found;
    for (const Deviation& one : deviations(stored_copies(ready, spec), spec, expected, 0)) {
      found.absolute = std::max(found.absolute, one.distance);
      found.sum += one.distance;
    }
    const double largest = largest_element(expected);
    found.share = largest > 0 ? found.absolute / largest : found.absolute;
    found_[value.key] = found;
    return Judgement::right;
  }
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override {
    ComparedValue declared = value;
    declared.spec = spec_of(value);
    return Judge::held(declared, reference);
  }
  Distances take() { return std::move(found_); }

 private:
  Spec spec_of(const ComparedValue& value) const {
    if (!declared_ || value.key != key_) return value.spec;
    return value.spec.with_placement(declared_->first, declared_->second);
  }
  const std::string key_;
  const std::optional<std::pair<int, Placement>> declared_;  // an axis of the value of this key
  Distances found_;
};

// Returns a number in (0.5, 1.5) for each element, the same on every platform.
double factor_of(uint64_t element) {
  uint64_t bits = (element + 1) * 0x9e3779b97f4a7c15ULL;
  bits ^= bits >> 29;
  bits *= 0xbf58476d1ce4e5b9ULL;
  bits ^= bits >> 32;
  return 0.5 + static_cast<double>(bits >> 11) * 0x1p-53;
}

size_t instruction_count(const SpmdProgram& program) {
  size_t count = 0;
  for (const SpmdListing& listing : program.listings) count += listing.instrs.size();
  return count;
}

std::set<std::string> names_read(const GlobalProgram& truth) {
  std::set<std::string> names;
  for (const GlobalInstr& instr : truth.instrs)
    for (const ValueId id : instr.inputs)
      if (id != kNoValue) names.insert(truth.values[static_cast<size_t>(id)].name);
  return names;
}

bool holds_only_zeros(const JobInput& input) {
  const double* data = reinterpret_cast<const double*>(input.data.data());
  return std::all_of(data, data + input.data.elements(), [](double one) { return one == 0; });
}

// Returns the same job with other numbers in its floats; nullopt if there are none, or too many.
// Zeros that the truth reads, such as the moments of the first step of Adam, become positive
// numbers: with zeros, other factors and other lines are right, too.
std::optional<Job> with_other_inputs(const Job& job, const GlobalProgram& truth) {
  const std::set<std::string> read = names_read(truth);
  int64_t all = 0;
  bool any = false;
  for (const JobInput& input : job.inputs) {
    all += input.data.elements();
    any = any || input.data.dtype == DType::f64;
  }
  if (!any || all > kMostMoved) return std::nullopt;
  Job moved = job;
  uint64_t next = 0;
  for (JobInput& input : moved.inputs) {
    if (input.data.dtype != DType::f64) continue;
    input.data = contiguous_copy(input.data);
    const bool fills =
        !input.spec.has_partial() && read.contains(input.name) && holds_only_zeros(input);
    double* data = reinterpret_cast<double*>(input.data.mutate());
    for (int64_t i = 0; i < input.data.elements(); ++i)
      data[i] = factor_of(next++) * (fills ? 1 : data[i]);
  }
  return moved;
}

}  // namespace

double work_of(const RankCase& about) {
  constexpr double kPassesOfInput = 4;
  const SpmdProgram& program = about.ranks.program;
  double work = 0;
  for (const JobInput& input : about.job.inputs)
    work += kPassesOfInput * static_cast<double>(element_count(input.spec.shape()));
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      work += 200;
      for (const ValueId id : effects_of(instr).writes)
        for (const LocalShape& shape : program.values[static_cast<size_t>(id)].shapes)
          work += static_cast<double>(shape.lanes.size()) *
                  (1 + static_cast<double>(element_count(shape.shape)));
    }
  return work;
}

RankProgram up_to(const RankProgram& ranks, const std::vector<ValueId>& ends) {
  RankProgram result = ranks;
  if (result.program.listings.size() != 1) return result;
  Instrs& instrs = result.program.listings[0].instrs;
  size_t last = instrs.size();
  while (last > 0) {
    const std::vector<ValueId> writes = effects_of(instrs[last - 1]).writes;
    const bool is_end = std::any_of(writes.begin(), writes.end(), [&](ValueId id) {
      return std::find(ends.begin(), ends.end(), id) != ends.end();
    });
    const bool is_name = std::holds_alternative<Merge>(instrs[last - 1].action);
    if (is_end || is_name) break;
    --last;
  }
  instrs.resize(last);
  return result;
}

// Returns the outputs that the op of a named value makes with it: m and v of `w, m, v = adamw(..)`.
std::set<std::string> results_of_same_op(const RankCase& about, const std::string& name) {
  const auto parts = about.ranks.names.find(name);
  std::set<ValueId> made;
  if (parts == about.ranks.names.end()) return {};
  for (const SpmdListing& listing : about.ranks.program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* compute = std::get_if<Compute>(&instr.action))
        for (const NamedPart& part : parts->second)
          if (std::count(compute->outputs.begin(), compute->outputs.end(), part.value) > 0)
            made.insert(compute->outputs.begin(), compute->outputs.end());
  std::set<std::string> names;
  for (const auto& [other, ids] : about.ranks.names)
    for (const NamedPart& part : ids)
      if (made.contains(part.value) && other != name) names.insert(other);
  return names;
}

Confirmation::Confirmation(const RankCase& about, const ComparedValue& value, SharedSearch& shared)
    : about_(about),
      shared_(shared),
      key_(value.key),
      target_(value.label.name),
      results_of_same_op_(results_of_same_op(about, value.label.name)) {
  if (work_of(about_) > kMostWorkOfRun || shared_.budget.is_spent()) return;
  most_runs_ = kMostRuns;
  before_ = distances(about_, about_.ranks);
  moved_ = with_other_inputs(about.job, about.truth);
  if (!moved_) return;
  try {
    moved_inputs_ = split_inputs(*moved_);
    const RankCase moved = with_moved_inputs();
    before_moved_ = distances(moved, about_.ranks);
  } catch (const Error&) {
    moved_.reset();
  }
  // If the error does not show with other numbers, they are not used.
  if (moved_ && !(before_moved_[key_].share > kRight)) moved_.reset();
}

void Confirmation::allow_more_runs(int runs) {
  if (most_runs_ > 0) most_runs_ = runs_ + runs;
}

RankCase Confirmation::with_moved_inputs() const {
  return {*moved_,           moved_inputs_, about_.ranks,   about_.truth,
          about_.registries, about_.dtypes, about_.integers};
}

Distances Confirmation::distances(const RankCase& about, const RankProgram& ranks) {
  ++runs_;
  shared_.budget.charge_run(instruction_count(ranks.program) + about.truth.instrs.size(),
                            work_of(about));
  DistanceJudge judge(key_, declared_);
  const std::unique_ptr<JudgedProgram> program = make_judged_ranks(
      about.job, about.inputs, std::make_shared<RankProgram>(ranks), about.truth, about.registries);
  if (has_unfinished_ranks(program->run(judge, {.replaces = about.integers}).findings)) return {};
  return judge.take();
}

std::optional<std::set<std::string>> Confirmation::improved(const RankCase& about,
                                                            const Distances& before,
                                                            const Change& change) {
  const auto wrong = before.find(key_);
  if (wrong == before.end() || !(wrong->second.share > 0)) return std::nullopt;
  try {
    const std::optional<RankProgram> changed = change(about);
    if (!changed) return std::nullopt;
    const Distances after = distances(about, *changed);
    if (after.size() < before.size()) return std::nullopt;
    std::set<std::string> made_right;
    for (const auto& [key, now] : after) {
      const auto known = before.find(key);
      const Distance old = known == before.end() ? Distance() : known->second;
      const bool must_be_right = key == key_ || results_of_same_op_.contains(key);
      const bool is_worse = now.share > std::max(kRight, kFarther * old.share) &&
                            now.absolute > kFarther * old.absolute;
      const double right = std::min(kRight, std::max(kExact, old.share / kMuchCloser));
      if (old.share > kExact && now.share <= std::min(right, old.share / kCloser))
        made_right.insert(key);
      else if ((must_be_right && old.share > kExact) ||
               (old.share <= kRight && now.share > kRight) || (!others_may_be_worse_ && is_worse))
        return std::nullopt;
    }
    return made_right.contains(key_) ? std::optional(made_right) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Drops the values that are imprecise in the program's own dtypes. False if the judged value is one
// of them.
bool Confirmation::holds_in_own_dtypes(const Change& change, std::set<std::string>& made_right) {
  if (declared_) return true;
  if (!own_) own_ = OwnDtypesCase::make(about_);
  const OwnDtypesCase* const own = own_->get();
  if (own == nullptr) return true;
  constexpr double kRuns = 3;  // the run, and lines that are computed again
  ++runs_;
  shared_.budget.charge_run(instruction_count(about_.ranks.program), kRuns * work_of(about_));
  try {
    const std::optional<RankProgram> changed = change(own->about());
    if (!changed) return true;
    std::set<std::string> wrong = wrong_values();
    for (const std::string& key : made_right) wrong.erase(key);
    const auto imprecise = own->imprecise_with(*changed, wrong);
    if (!imprecise || imprecise->contains(key_)) return false;
    std::erase_if(made_right, [&](const std::string& key) { return imprecise->contains(key); });
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool Confirmation::holds(const Change& change, const std::vector<int>& axes) {
  if (is_spent()) return false;
  std::optional<std::set<std::string>> made_right = improved(about_, before_, change);
  if (!made_right) return false;
  if (moved_) {
    const auto moved = improved(with_moved_inputs(), before_moved_, change);
    if (!moved) return false;
    std::erase_if(*made_right, [&](const std::string& key) {
      return before_moved_[key].share > kRight && !moved->contains(key);
    });
  }
  vary();
  for (const std::unique_ptr<VariedCase>& varied : varied_)
    if (refutes(*varied, change, axes)) return false;
  if (!holds_in_own_dtypes(change, *made_right)) return false;
  made_right_ = std::move(*made_right);
  return true;
}

// Returns the edited program of a case, whose mesh may be another one. Factors by rank belong to
// the ranks of the own mesh.
std::optional<RankProgram> Confirmation::edited_in(const RankCase& about, const Edit& edit) const {
  const Mesh &own = about_.job.meshes[0].second, &mesh = about.job.meshes[0].second;
  if (own == mesh) return edited(about.ranks, edit, target_);
  const bool is_bound = edit.group.size() > 1 && !(edit.group.mesh() == own);
  if (is_bound || !edit.factors.empty()) return std::nullopt;
  Edit same = edit;
  if (edit.group.size() > 1 || edit.kind == Edit::Kind::regroup)
    same.group = Group::of_axes(mesh, edit.group.axes());
  return edited(about.ranks, same, target_);
}

bool Confirmation::confirms(const Edit& edit, const std::vector<int>& axes) {
  return holds([&](const RankCase& about) { return edited_in(about, edit); }, axes);
}

bool Confirmation::confirms_in_listings(Edit& edit, const std::vector<int>& axes) {
  const bool alone = confirms(edit, axes);
  const std::vector<Site> others = sites_in_other_listings(about_.ranks.program, edit.site);
  if (others.empty()) return alone;
  std::set<std::string> made_right = made_right_;
  Edit all = edit;
  all.also.insert(all.also.end(), others.begin(), others.end());
  if (confirms(all, axes) && (!alone || made_right_.size() > made_right.size())) {
    edit = std::move(all);
    return true;
  }
  made_right_ = std::move(made_right);
  return alone;
}

bool Confirmation::confirms_without_gradients(const Edit& edit, const std::vector<int>& axes) {
  others_may_be_worse_ = true;
  const bool found = confirms(edit, axes);
  others_may_be_worse_ = false;
  return found;
}

bool Confirmation::confirms_placement(int axis, const Placement& placement) {
  vary();  // without the other placement
  declared_.emplace(axis, placement);
  const bool found =
      holds([](const RankCase& about) { return std::optional(about.ranks); }, {axis});
  declared_.reset();
  return found;
}

std::set<std::string> Confirmation::wrong_values() const {
  std::set<std::string> keys;
  for (const auto& [key, distance] : before_)
    if (!(distance.share <= kExact)) keys.insert(key);
  return keys;
}

bool Confirmation::confirms_job(const ChangeOfJob& change, const std::vector<int>& axes) {
  if (!can_change_job()) return false;
  return holds(
      [&](const RankCase& about) {
        shared_.budget.charge_lowering(instruction_count(about.ranks.program));
        return std::optional(lower_ranks_of(change(about.job), about));
      },
      axes);
}

bool Confirmation::confirms_resized(const std::string& let, int64_t number, const Edit& edit) {
  if (is_spent()) return false;
  Job job = about_.job;
  for (auto& [name, value] : job.numbers)
    if (name == let) value = Number(number);
  try {
    const RankProgram ranks = lower_ranks_of(job, about_);
    const GlobalProgram truth = lower_truth_of(job, about_);
    const RankCase resized{job, about_.inputs, ranks, truth, about_.registries, about_.dtypes};
    const Distances before = distances(resized, ranks);
    const Change change = [&](const RankCase& one) { return edited_in(one, edit); };
    return improved(resized, before, change).has_value();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace shardproof
