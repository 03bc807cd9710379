// Judge: decides about one value of the ranks at a time. Every run of the ranks (in the program's
// own dtypes, in f64, in other rounding directions) hands its values to a judge, in the order of
// the reference program; afterwards the ranks' value becomes the reference of what follows.
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
  imprecise,  // right, but with a far larger rounding error than one device
  undecided,  // hangs on a rounding
  wrong,
};

// The words that messages use for a compared value.
struct ValueLabel {
  std::string name;  // the author's; "" for a value inside a line
  int line = 0;
  std::string text;  // of the line
  std::string instance;
};

// One value of the reference program as the ranks hold it, complete.
struct ComparedValue {
  ValueId global = kNoValue;
  std::string key;  // unique in the run, the same in each run of the program
  Spec spec;
  LocalTensor value;
  ValueLabel label;
  // The label where only these ranks hold something wrong; null: `label`.
  std::function<ValueLabel(const Lanes&)> label_for = {};
};

class Judge {
 public:
  virtual ~Judge() = default;
  // A run begins, or begins again with each rank by itself: forgets what it has seen.
  virtual void restart() {}
  virtual Judgement judge(const ComparedValue& value, ReferenceRun& reference) = 0;
  // Returns what becomes the reference of the lines that follow.
  virtual Tensor held(const ComparedValue& value, const ReferenceRun& reference);
  // These values of the reference, the judged one first, are now what the ranks hold.
  virtual void was_held(const std::vector<ValueId>&) {}
};

}  // namespace shardproof
