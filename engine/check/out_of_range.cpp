// Implements out_of_range.h.
#include "shardproof/engine/check/out_of_range.h"

#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "shardproof/engine/check/explaining_judge.h"
#include "shardproof/engine/check/measure_rounding.h"
#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// The floats of one device so far, by value, at each wanted value, and the instructions of its
// line.
class PrecedingFloats : public Judge {
 public:
  explicit PrecedingFloats(const std::vector<JudgedValue>& wanted) : wanted_(wanted) {}
  void restart() override {
    at_.clear();
    lines_.clear();
  }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    reference.value(value.global);
    for (const JudgedValue& one : wanted_)
      if (one.key == value.key) {
        collect(reference, at_[one.key]);
        lines_[one.key] = reference.line();
      }
    return Judgement::right;
  }
  std::map<ValueId, Tensor>& at(const std::string& key) { return at_[key]; }
  const std::vector<int>& line_of(const std::string& key) { return lines_[key]; }  // instructions

 private:
  static void collect(const ReferenceRun& reference, std::map<ValueId, Tensor>& values) {
    const auto& all = reference.plan().program().values;
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_exact(all[i].dtype)) continue;
      const auto id = static_cast<ValueId>(i);
      if (const Tensor* const tensor = reference.find(id)) values.emplace(id, *tensor);
    }
  }

  const std::vector<JudgedValue>& wanted_;
  std::map<std::string, std::map<ValueId, Tensor>> at_;
  std::map<std::string, std::vector<int>> lines_;
};

// True if an element is a number in f64 and not in its own dtype, or is too small for it.
bool leaves_range(const Tensor& own, const Tensor& in_f64) {
  if (own.elements() != in_f64.elements()) return false;
  const Tensor narrow = contiguous_copy(own), wide = contiguous_copy(in_f64);
  const double least = std::ldexp(1.0, smallest_exponent(component_dtype(own.dtype)));
  for (int64_t i = 0; i < narrow.elements(); ++i) {
    const double held = magnitude_at(narrow, i), exact = magnitude_at(wide, i);
    if (std::isfinite(exact) && !std::isfinite(held)) return true;
    if (held == 0 && exact > 0 && exact < least) return true;
  }
  return false;
}

// True if an element is a number in f64 and not in its own dtype.
bool overflows(const Tensor& own, const Tensor& in_f64) {
  if (own.elements() != in_f64.elements()) return false;
  const Tensor narrow = contiguous_copy(own), wide = contiguous_copy(in_f64);
  for (int64_t i = 0; i < narrow.elements(); ++i)
    if (std::isfinite(magnitude_at(wide, i)) && !std::isfinite(magnitude_at(narrow, i)))
      return true;
  return false;
}

// Values on whose way one device leaves a range that it does not leave in f64. `overflows`: by key,
// values of its line that overflow and are computed from values that do not.
struct OutOfRange {
  std::vector<JudgedValue> values;
  std::map<std::string, int> overflows;
};

OutOfRange out_of_range(const std::vector<JudgedValue>& open, const JudgedProgram& own,
                        const JudgedProgram& lifted) {
  PrecedingFloats narrow(open), wide(open);
  own.run(narrow, {.keeps_all = true});
  lifted.run(wide, {.keeps_all = true});
  OutOfRange found;
  for (const JudgedValue& value : open) {
    const std::map<ValueId, Tensor>& in_f64 = wide.at(value.key);
    std::set<ValueId> leaving, lost;
    for (const auto& [id, held] : narrow.at(value.key)) {
      const auto exact = in_f64.find(id);
      if (exact == in_f64.end() || !leaves_range(held, exact->second)) continue;
      leaving.insert(id);
      if (overflows(held, exact->second)) lost.insert(id);
    }
    if (leaving.empty()) continue;
    found.values.push_back(value);
    int& count = found.overflows[value.key];  // 0 if the value was held before: its line is empty
    const auto is_lost = [&](ValueId id) { return lost.contains(id); };
    for (const int instr : narrow.line_of(value.key)) {
      const GlobalInstr& made = own.reference()->program().instrs[static_cast<size_t>(instr)];
      count += std::any_of(made.outputs.begin(), made.outputs.end(), is_lost) &&
               std::none_of(made.inputs.begin(), made.inputs.end(), is_lost);
    }
  }
  return found;
}

// True if other roundings change a number of the ranks or of one device so much that they may
// explain why these differ.
bool is_moved(const Difference& own, const Difference& other, int64_t element) {
  const double moved =
      distance_at(own.truth, other.truth, element) + distance_at(own.got, other.got, element);
  return moved > 0 && (is_exact(own.truth.dtype) ||
                       distance_at(own.truth, own.got, element) <= kSpreadFactor * moved);
}

// Removes the elements that are not finite or do not differ. If some are left that no other run
// moves, returns true and removes all others.
bool keep_unmoved(JudgedValue& value, const DifferenceJudge& first,
                  const std::vector<DifferenceJudge>& others) {
  const Difference* const own = first.find(value.key);
  if (own == nullptr) value.elements.clear();
  std::erase_if(value.elements, [&](int64_t i) {
    return !std::isfinite(magnitude_at(own->truth, i)) ||
           !std::isfinite(magnitude_at(own->got, i)) || distance_at(own->truth, own->got, i) == 0;
  });
  std::vector<int64_t> unmoved = value.elements;
  std::erase_if(unmoved, [&](int64_t i) {
    return std::any_of(others.begin(), others.end(), [&](const DifferenceJudge& other) {
      const Difference* const moved = other.find(value.key);
      return moved == nullptr || moved->got.elements() != own->got.elements() ||
             is_moved(*own, *moved, i);
    });
  });
  if (unmoved.empty()) return false;
  value.elements = std::move(unmoved);
  return true;
}

}  // namespace

std::vector<JudgedValue> differences_out_of_range(const std::vector<JudgedValue>& open,
                                                  const JudgedProgram& own,
                                                  const JudgedProgram& lifted,
                                                  const Registries& registries) {
  std::vector<JudgedValue> found;
  try {
    OutOfRange all = out_of_range(open, own, lifted);
    found = std::move(all.values);
    for (JudgedValue& value : found) value.judgement = Judgement::undecided;
    if (found.empty()) return {};
    DifferenceJudge first(found);
    own.run(first, {});
    std::vector<DifferenceJudge> others;
    int direction = 0;
    for (const ReductionSchedule& order : other_orders(own.job().order)) {
      Job job = own.job();
      job.order = order;
      const ScopedRoundingMode rounding(direction++);
      JudgedProgram::make(job, registries)->run(others.emplace_back(found), {});
    }
    for (JudgedValue& value : found) {
      if (!keep_unmoved(value, first, others)) continue;
      const RangeCause cause = own.range_cause_of(value.key);
      if (!cause.text.empty() && cause.overflows >= all.overflows.at(value.key))
        value.judgement = Judgement::wrong;
    }
  } catch (const Error&) {
    // A run that rounds otherwise reads an index out of range: the values are not decided.
  }
  std::erase_if(found, [](const JudgedValue& value) { return value.elements.empty(); });
  return found;
}

}  // namespace shardproof
