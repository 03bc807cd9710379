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

// The floats of one device so far, by value, at each wanted value, and those on its line.
class PrecedingFloats : public Judge {
 public:
  explicit PrecedingFloats(const std::vector<JudgedValue>& wanted) : wanted_(wanted) {}
  void restart() override { at_.clear(); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    reference.value(value.global);
    for (const JudgedValue& one : wanted_)
      if (one.key == value.key) {
        collect(reference, at_[one.key]);
        for (const int instr : reference.line())
          for (const ValueId id :
               reference.plan().program().instrs[static_cast<size_t>(instr)].outputs)
            on_line_[one.key].insert(id);
      }
    return Judgement::right;
  }
  std::map<ValueId, Tensor>& at(const std::string& key) { return at_[key]; }
  bool is_on_line(const std::string& key, ValueId id) { return on_line_[key].contains(id); }

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
  std::map<std::string, std::set<ValueId>> on_line_;
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

// Values on whose way one device leaves a range that it does not leave in f64, and the values on
// their lines that leave it, by key.
struct OutOfRange {
  std::vector<JudgedValue> values;
  std::map<std::string, std::set<ValueId>> leaving;
};

OutOfRange out_of_range(const std::vector<JudgedValue>& open, const JudgedProgram& own,
                        const JudgedProgram& lifted) {
  PrecedingFloats narrow(open), wide(open);
  own.run(narrow, {.keeps_all = true});
  lifted.run(wide, {.keeps_all = true});
  OutOfRange found;
  for (const JudgedValue& value : open) {
    const std::map<ValueId, Tensor>& in_f64 = wide.at(value.key);
    bool any = false;
    for (const auto& [id, held] : narrow.at(value.key)) {
      const auto exact = in_f64.find(id);
      if (exact == in_f64.end() || !leaves_range(held, exact->second)) continue;
      any = true;
      if (narrow.is_on_line(value.key, id)) found.leaving[value.key].insert(id);
    }
    if (any) found.values.push_back(value);
  }
  return found;
}

bool share_a_value(const std::set<ValueId>& a, const std::set<ValueId>& b) {
  return std::any_of(a.begin(), a.end(), [&](ValueId id) { return b.contains(id); });
}

// Makes values undecided that depend on an overflow of one device alone.
void add_dependent_values(const OutOfRange& all, const std::vector<std::string>& of_one_device,
                          std::vector<JudgedValue>& found) {
  for (JudgedValue& value : found)
    for (const std::string& key : of_one_device) {
      const auto own = all.leaving.find(value.key), other = all.leaving.find(key);
      if (own != all.leaving.end() && other != all.leaving.end() &&
          share_a_value(own->second, other->second))
        value.judgement = Judgement::undecided;
    }
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
    const OutOfRange all = out_of_range(open, own, lifted);
    found = all.values;
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
    std::vector<std::string> of_one_device;  // keys
    for (JudgedValue& value : found) {
      if (!keep_unmoved(value, first, others)) continue;
      if (own.range_cause_of(value.key).text.empty())
        of_one_device.push_back(value.key);
      else
        value.judgement = Judgement::wrong;
    }
    add_dependent_values(all, of_one_device, found);
  } catch (const Error&) {
    // A run that rounds otherwise reads an index out of range: the values are not decided.
  }
  std::erase_if(found, [](const JudgedValue& value) { return value.elements.empty(); });
  return found;
}

}  // namespace shardproof
