// F64Judge: decides, in a run with all floats lifted to f64, if the ranks compute the same
// mathematics as one device (docs/judging.md). In f64 rounding is 1e-16, and a wrong program is off
// by far more.
//
// Steps for each element, from the cheapest to the most expensive:
//   1. It agrees when it is within 2^-40 of the element (of the sizes of its parts, where the value
//      is placed as partial sums).
//   2. It agrees within an eighth of the rounding loss of one device on this line in the program's
//      own dtypes: the program cannot resolve a finer difference.
//   3. The line is computed again in three other rounding directions. The movement is the largest
//      change of the element. Elements that would be wrong move with the line's inputs, by up to
//      one rounding of the line's largest value. If the movement is 0, the element is exact and any
//      difference is wrong. A difference of more than 64 movements is wrong. A smaller one is right
//      if 64 movements are below 2^-20 of the line's values or below its own rounding loss; else it
//      is not decided.
// Rank programs run other ops than one device. So step 3 waits for runs of the ranks in the other
// rounding directions, too (PerturbationJudge, settle). In a global program it waits for them only
// if the value would be wrong without them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/compare/judge.h"

namespace shardproof {

inline constexpr double kAgreement = 0x1p-40;  // of an element
inline constexpr double kLossShare = 0.125;    // of one device's rounding loss
// Largest loss in units of the largest element. A line that loses more (a running sum that no
// longer grows) still resolves such a difference.
inline constexpr double kMostUnits = 2;
// A run in the own dtypes does not show a difference of fewer units or losses (contradicts_f64).
inline constexpr double kUnitsShown = 8;
inline constexpr double kSpreadFactor = 64;  // movements that two honest runs may lie apart
// Units by which inputs move: fewer may leave an input as it is.
inline constexpr double kInputUnits = 4;
inline constexpr double kNegligible = 0x1p-20;  // of the line's largest value
// A line is nothing but rounding (a sum of probabilities minus 1) on two conditions. Its values are
// below kNoiseLevel of its inputs, and other roundings change them by kNoiseShare of themselves.
inline constexpr double kNoiseLevel = 0x1p-40, kNoiseShare = 0.25;

// Returns the largest absolute value of all inputs of the line; 0 if it has none.
double largest_line_input(const ReferenceRun& reference);
// True if a line is nothing but rounding. `largest`: its largest value in all rounding directions;
// `farthest`: the largest change of a value.
bool is_noise(double largest, double farthest, double largest_input);

// The error that one device makes by rounding on a line.
struct RoundingLoss {
  std::vector<double> errors;  // by element
  double largest = 0;          // of the errors
  double share = 0;            // largest error, or one unit, as a share of the largest element
  double most = 0;             // kMostUnits of the largest element

  // Returns the loss that an element of this size may have, in any direction of rounding.
  double at(size_t element, double size) const;
};

// The parts of the difference between ranks and reference at one element: one number, or the real
// and imaginary part.
struct Offset {
  double real = 0, imaginary = 0;
};
double distance(const Offset& a, const Offset& b);

// An element of one copy that steps 1 and 2 do not decide.
struct OpenElement {
  int32_t rank = 0;  // the first that reads the copy
  Deviation deviation;
  Offset offset;
  double movement = 0;  // the largest seen so far
  double loss = 0;      // what the program's own dtypes may lose there
};

struct OpenValue {
  ComparedValue about;  // without its value
  std::vector<OpenElement> elements;
  int64_t of = 0;    // elements of the whole value
  double scale = 0;  // the largest of the line's values and inputs
  double loss = 0;   // RoundingLoss::largest
  size_t place = 0;  // among the open values, as they were judged
};

// A value that is not right.
struct JudgedValue {
  ValueId global = kNoValue;
  std::string key;
  ValueLabel label;
  Judgement judgement = Judgement::wrong;
  std::vector<int64_t> elements;  // wrong, or not decided; ascending, each once
  std::vector<double> losses;     // of these elements, see OpenElement
  int64_t of = 0;
  double distance = 0, movement = 0;  // of the element that decided
};

class F64Judge : public Judge {
 public:
  struct Options {
    // The reference program in the program's own dtypes; ids as in the lifted one.
    const EvaluationPlan* own = nullptr;
    // Whole numbers and bools of the run in the program's own dtypes, which replace those in f64.
    const std::map<ValueId, Tensor>* integers = nullptr;
    // Keys of values that were equal to one device in every bit in the program's own dtypes.
    const std::set<std::string>* equal_in_own = nullptr;
    // Step 3 of all values waits for settle(), not only that of wrong ones.
    bool ranks_move = false;
    std::map<ValueId, ComparedValue> inputs_in_parts;  // inputs placed as partial sums
  };
  explicit F64Judge(Options options)
      : options_(std::move(options)), in_parts_(options_.inputs_in_parts) {}

  void restart() override { *this = F64Judge(options_); }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  Tensor held(const ComparedValue& value, const ReferenceRun& reference) override;
  void was_held(const std::vector<ValueId>& ids) override;

  // Values that wait for other rounding directions, by key.
  std::map<std::string, OpenValue>& open() { return open_; }
  // Decides what is still open.
  void settle();
  // Wrong and undecided values, in the order in which they were judged.
  const std::vector<JudgedValue>& found() const { return found_; }
  bool has_judged(const std::string& key) const { return judged_.contains(key); }
  // Values of rank programs that are right because their own dtypes resolve no finer difference,
  // and whose replicas differ in f64. Example: weights that ranks update with their own gradients
  // and a small learning rate.
  const std::vector<ComparedValue>& unresolved_replicas() const { return unresolved_; }

 private:
  std::vector<OpenElement> opened(const ComparedValue& value, const Tensor& expected);
  void drop_within_parts(const ComparedValue& value, std::vector<OpenElement>& open) const;
  RoundingLoss loss_of(const ComparedValue& value, const ReferenceRun& reference) const;
  void add_sensitivity(const ComparedValue& value, const ReferenceRun& reference,
                       RoundingLoss& loss) const;
  void drop_within_loss(const RoundingLoss& loss, const Tensor& expected,
                        std::vector<OpenElement>& open) const;
  void set_losses(const ComparedValue& value, const RoundingLoss& loss,
                  std::vector<OpenElement>& open) const;
  void add_movements(const ComparedValue& value, const ReferenceRun& reference,
                     std::vector<OpenElement>& open) const;
  void add_input_movements(const ComparedValue& value, const ReferenceRun& reference, double scale,
                           std::vector<OpenElement>& open) const;
  std::map<ValueId, std::vector<double>> moved_sizes(const ReferenceRun& reference) const;
  std::vector<double> sizes_of_parts(ValueId id) const;
  void find_unresolved_replicas(const ComparedValue& value, const Tensor& expected);
  std::optional<JudgedValue> decision(const OpenValue& value) const;

  Options options_;
  LocalTensor ready_;       // the value judged last, partial axes reduced
  bool identical_ = false;  // true: `ready_` has the bits of one device
  std::map<std::string, OpenValue> open_;
  // Inputs and held values placed as partial sums.
  std::map<ValueId, ComparedValue> in_parts_;
  // The largest distance of the ranks' copies of each element from the held value, if rounding
  // explains it; no entry if all are equal.
  std::map<ValueId, std::vector<double>> spread_;
  std::vector<double> spread_of_held_;  // of the value held last
  std::vector<JudgedValue> found_;
  std::vector<ComparedValue> unresolved_;  // without their values
  std::set<std::string> judged_;
};

// Observes a run in another rounding direction and measures how far the difference between ranks
// and reference moves from the one that `open` holds.
class PerturbationJudge : public Judge {
 public:
  explicit PerturbationJudge(std::map<std::string, OpenValue>& open) : open_(open) {}
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override;
  // Returns the labels of open values that judge() has not received, in the order in which they
  // were judged.
  std::vector<ValueLabel> unmeasured() const;

 private:
  std::map<std::string, OpenValue>& open_;
  std::set<std::string> measured_;  // keys
};

}  // namespace shardproof
