// Judge: decides about one value of the ranks at a time. Every run of the ranks passes its values
// to a judge, in the order of the reference program. Runs are in the program's own dtypes, in f64,
// and in other rounding directions. Then the ranks' value becomes the reference of later lines.
//
// A judge decides if a value is the same mathematics. After all runs, check/list_findings.h decides
// which values are `imprecise`.
#pragma once

#include <functional>
#include <string>

#include "shardproof/engine/reference/reference_run.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/tensor/local_tensor.h"

namespace shardproof {

enum class Judgement : uint8_t {
  equal,      // the numbers of one device
  right,      // no farther from them than rounding explains
  undecided,  // depends on the direction of a rounding
  wrong,
};

// The words that messages use for a compared value.
struct ValueLabel {
  std::string name;  // the author's; "" for a value inside a line
  int line = 0;
  std::string text;  // of the line
  std::string instance;
};

// One value of the reference program as the ranks hold it, after all ranks have made it.
struct ComparedValue {
  ValueId global = kNoValue;
  std::string key;  // unique in the run, the same in each run of the program
  Spec spec;
  LocalTensor value;
  ValueLabel label;
  // Returns the label if only these ranks hold wrong elements; null: `label`.
  std::function<ValueLabel(const Lanes&)> label_for = {};
  // The value with its partial axes reduced in its own dtype, as a call of the program did. The
  // judge need not reduce it again. Empty: no call did.
  LocalTensor reduced = {};
};

// Returns the key of a value of a global program.
inline std::string key_of_global_value(ValueId global) { return std::to_string(global); }

class Judge {
 public:
  virtual ~Judge() = default;
  // Called when a run begins, or begins again with cohorts of one. Discards all state.
  virtual void restart() {}
  virtual Judgement judge(const ComparedValue& value, ReferenceRun& reference) = 0;
  // Returns the value that becomes the reference of later lines.
  virtual Tensor held(const ComparedValue& value, const ReferenceRun& reference);
  // Called after these values of the reference, the judged one first, were replaced by the ranks'.
  virtual void was_held(const std::vector<ValueId>&) {}
};

}  // namespace shardproof
