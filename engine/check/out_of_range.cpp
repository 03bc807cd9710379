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

// The values of one device so far, by value, at each wanted value.
class PrecedingValues : public Judge {
 public:
  explicit PrecedingValues(const std::vector<JudgedValue>& wanted) : wanted_(wanted) {}
  void restart() override { at_.clear(); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    reference.value(value.global);
    for (const JudgedValue& one : wanted_)
      if (one.key == value.key) collect(reference, at_[one.key]);
    return Judgement::right;
  }
  std::map<ValueId, Tensor>& at(const std::string& key) { return at_[key]; }

 private:
  static void collect(const ReferenceRun& reference, std::map<ValueId, Tensor>& values) {
    const auto& all = reference.plan().program().values;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (const Tensor* const tensor = reference.find(id)) values.emplace(id, *tensor);
    }
  }

  const std::vector<JudgedValue>& wanted_;
  std::map<std::string, std::map<ValueId, Tensor>> at_;
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

// True if an integer or bool is another one in f64.
bool takes_another_branch(const Tensor& own, const Tensor& in_f64) {
  return is_exact(own.dtype) && own.dtype == in_f64.dtype && !bit_equal(own, 0, in_f64, 0);
}

// Returns the values on whose way `differs` holds for a value of one device and the same in f64.
template <typename Differs>
std::set<std::string> keys_where(const Differs& differs, PrecedingValues& own,
                                 PrecedingValues& in_f64, const std::vector<JudgedValue>& open) {
  std::set<std::string> keys;
  for (const JudgedValue& value : open) {
    const std::map<ValueId, Tensor>& wide = in_f64.at(value.key);
    for (const auto& [id, held] : own.at(value.key))
      if (const auto found = wide.find(id); found != wide.end() && differs(held, found->second))
        keys.insert(value.key);
  }
  return keys;
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

std::vector<OtherInF64> differences_of_branches(const std::vector<JudgedValue>& open,
                                                const JudgedProgram& own,
                                                const JudgedProgram& lifted,
                                                const Registries& registries) {
  std::vector<OtherInF64> found;
  try {
    PrecedingValues narrow(open), wide(open);
    own.run(narrow, {.keeps_all = true});
    lifted.run(wide, {.keeps_all = true});
    const std::set<std::string> ranges = keys_where(leaves_range, narrow, wide, open);
    const std::set<std::string> flags = keys_where(takes_another_branch, narrow, wide, open);
    std::vector<JudgedValue> wanted;
    for (const JudgedValue& value : open)
      if (ranges.contains(value.key) || flags.contains(value.key)) {
        wanted.push_back(value);
        wanted.back().judgement = Judgement::undecided;
        found.push_back({wanted.back(), ranges.contains(value.key)});
      }
    if (wanted.empty()) return {};
    DifferenceJudge first(wanted);
    own.run(first, {});
    std::vector<DifferenceJudge> others;
    int direction = 0;
    for (const ReductionSchedule& order : other_orders(own.job().order)) {
      Job job = own.job();
      job.order = order;
      const ScopedRoundingMode rounding(direction++);
      JudgedProgram::make(job, registries)->run(others.emplace_back(wanted), {});
    }
    for (OtherInF64& one : found) {
      const bool is_unmoved = keep_unmoved(one.value, first, others);
      if (!is_unmoved && !one.leaves_range) one.value.elements.clear();
      if (is_unmoved && !own.range_cause_of(one.value.key).text.empty())
        one.value.judgement = Judgement::wrong;
    }
  } catch (const Error&) {
    // A run that rounds otherwise reads an index out of range: the values are not decided.
  }
  std::erase_if(found, [](const OtherInF64& one) { return one.value.elements.empty(); });
  return found;
}

}  // namespace shardproof
