// OwnDtypeJudge: judges the run of the ranks in the program's own dtypes. It finds the values that
// equal those of one device, and measures the precision of all others (docs/judging.md, question
// 2). F64Judge decides if the ranks compute the same mathematics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/job/job.h"

namespace shardproof {

// Precision of one value, with the keys that find the value again.
struct MeasuredPrecision {
  std::string key;
  ValueId global = kNoValue;
  ValuePrecision precision;
  DType dtype = DType::f32;
  Spec spec;
  Lanes ranks;                   // ranks that hold an element with the largest error
  bool nothing_left = false;     // the ranks hold nothing but zeros
  DType narrowest = DType::f64;  // float dtype on the way of one device, results and inputs
};

// A value whose numbers are not those of one device. If there is no run in f64, it is judged only
// by its distance.
struct UnequalValue {
  JudgedValue judged;              // with the elements that are farther off than kOwnSpread units
  std::optional<Finding> finding;  // of these elements, if requested
  JudgedValue by_rounding;         // elements that only rounding decides, if requested
  bool is_wrong() const { return !judged.elements.empty(); }
};
// Largest difference of two honest runs in narrow dtypes, in units of the largest element or of the
// loss of one device.
inline constexpr double kOwnSpread = 64;

// A ratio that is noted if the ranks reduce the value in a narrower dtype. One rounding to f8e5m2
// is at most 32 units of bf16.
inline constexpr double kNarrowNote = 4;

bool is_float_or_complex(DType dtype);
bool is_below_f64(DType dtype);  // a float or complex dtype other than f64 and c128

// True if ranks lose half of the value and one device far less. The least ratio is smaller for a
// value that passes f8: one rounding to f8 is at most 1/16 of an element, so its ratio cannot reach
// kPrecisionNote.
bool is_lost(const MeasuredPrecision& measured);

class OwnDtypeJudge : public Judge {
 public:
  struct Options {
    // Returns the reference program with all floats lifted to f64; ids as in the own one. Called if
    // a value differs by more than a few units.
    std::function<const EvaluationPlan&()> lifted;
    std::map<ValueId, ComparedValue> inputs_in_parts;  // as F64Judge::Options
    bool measures_all = false;  // not only values that differ by more than a few units
    bool measures_f64 = false;  // values of f64 and c128 too: the ranks may round to less
    // The precision with which a device may multiply.
    MatmulPrecision matmul = MatmulPrecision::highest;
    // Real ranks made the values: fills UnequalValue::finding and by_rounding.
    bool explains = false;
    bool keeps_integers = false;     // integers and bools, for the run in f64
    bool compares_replicas = false;  // of values that a truth covers
    bool notes_zeros = false;        // for zero()
    // Called for each value, before it is judged.
    std::function<void(const ComparedValue&)> on_value;
  };
  explicit OwnDtypeJudge(Options options)
      : options_(std::move(options)), in_parts_(options_.inputs_in_parts) {}

  void restart() override;

  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override;

  bool all_equal() const { return all_equal_; }
  // True if some value of f32 or c64 may have been rounded. Then equal bits do not exclude a small
  // error. Numbers of few bits, such as whole numbers, were not rounded.
  bool may_be_rounded() const { return may_be_rounded_; }
  int64_t compared() const { return compared_; }
  const std::set<std::string>& equal() const { return equal_; }
  // Names of the values of which one device holds no finite element.
  const std::vector<std::string>& not_finite() const { return not_finite_; }
  // Names of the values of several elements, all zero on one device and on the ranks, if requested.
  const std::vector<std::string>& zero() const { return zero_; }
  const std::map<ValueId, Tensor>& integers() const { return integers_; }
  const std::vector<UnequalValue>& unequal() const { return unequal_; }
  // The first value in program order whose replicas do not have the same bits.
  const std::optional<Finding>& replicas() const { return replicas_; }
  // Returns the values of rank programs whose replicas are more than kOwnSpread units apart, by
  // key. The difference may depend on a rounding.
  const std::vector<std::pair<std::string, Finding>>& differing_replicas() const {
    return differing_replicas_;
  }
  // Values with elements that no rounding on one device gives, although a step (a sign, an index, a
  // comparison) makes them depend on rounding. If the run in f64 calls them right, neither run
  // decides them: f64 rounds these inputs elsewhere.
  const std::vector<JudgedValue>& beyond_steps() const { return beyond_steps_; }
  // Measures the values that were left open. Omits those known to be wrong (`settled`, by key),
  // because a value that is far off takes many runs of its line.
  void measure_open_values(const std::set<std::string>& settled);
  // Requires that no value is open.
  const std::vector<MeasuredPrecision>& precision() const { return precision_; }
  // Returns the reason why the precision of some values could not be measured; "" if all were.
  const std::string& unmeasured() const { return unmeasured_; }

 private:
  // `held` has for each element the ranks' copy that is farthest from `expected`.
  void add_unequal(const ComparedValue& value, const std::vector<Deviation>& found,
                   const Tensor& expected, ReferenceRun& reference);
  // Moves integers that rounding of the line's inputs changes from `judged` to `by_rounding`.
  void separate_rounded(const ComparedValue& value, const std::vector<Deviation>& found,
                        const ReferenceRun& reference, UnequalValue& unequal) const;
  void add_differing_replicas(const ComparedValue& value, const std::vector<Deviation>& found,
                              const Tensor& expected);
  double unit_of(DType dtype) const;
  bool has_precision(DType dtype) const;
  void measure(const ComparedValue& value, const ReferenceRun& reference, const Tensor& expected,
               const Tensor& held, const Lanes& ranks);
  void measure_integers(const ComparedValue& value, const std::vector<Deviation>& found,
                        const std::vector<StoredCopy>& copies, const Tensor& expected,
                        const ReferenceRun& reference);
  struct OpenValue;
  using ValuesInParts = std::map<ValueId, ComparedValue>;
  // The line that makes a value, which can run again.
  struct JudgedLine {
    ValueId value;
    const ReferenceRun& reference;
    const ValuesInParts& in_parts;
  };
  double least_base(const OpenValue& open) const;
  void finish(const OpenValue& open, std::vector<MeasuredPrecision>& into);
  std::vector<double> largest_changes(const JudgedLine& line,
                                      const std::vector<InputChange>& changes) const;
  std::vector<double> changes_by(double roundings, const JudgedLine& line) const;
  std::vector<double> changes_by_steps(const JudgedLine& line) const;
  struct StepRange;
  StepRange step_range(const JudgedLine& line) const;
  void find_beyond_steps(const ComparedValue& value, const std::vector<Deviation>& found,
                         const std::vector<StoredCopy>& copies, const Tensor& expected,
                         const ReferenceRun& reference);
  std::vector<double> losses_on_one_device(const JudgedLine& line) const;
  std::vector<double> reach_of(const JudgedLine& line) const;
  // Returns the unit roundoff of the narrowest float that one device computes on the line; 0 if it
  // computes none.
  static double widest_rounding_on(const ReferenceRun& reference);
  Tensor exact_of(const ComparedValue& value, const ReferenceRun& reference) const;
  static DType narrowest_of(ValueId id, const ReferenceRun& reference);
  double moved_terms(const JudgedLine& line) const;
  double size_of_terms(const OpenValue& open) const;
  double size_of_terms_or_none(const ComparedValue& value, const ReferenceRun& reference) const;
  std::vector<double> changes_by_rounding(const ComparedValue& value,
                                          const ReferenceRun& reference) const;

  Options options_;
  bool all_equal_ = true, may_be_rounded_ = false;
  bool identical_ = false;  // the value judged last has equal bits
  LocalTensor ready_;       // the value judged last, partial axes reduced
  int64_t compared_ = 0;
  std::vector<std::string> not_finite_, zero_;
  std::set<std::string> equal_;
  std::map<ValueId, Tensor> integers_;
  ValuesInParts in_parts_;  // inputs and held values placed as partial sums
  std::vector<UnequalValue> unequal_;
  std::optional<Finding> replicas_;
  std::vector<std::pair<std::string, Finding>> differing_replicas_;
  std::vector<MeasuredPrecision> precision_;
  std::vector<JudgedValue> beyond_steps_;
  std::vector<std::shared_ptr<const OpenValue>> open_;
  int64_t open_elements_ = 0;  // that open_ holds
  std::string unmeasured_;
};

}  // namespace shardproof
