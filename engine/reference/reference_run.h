// ReferenceRun: computes on one device, line by line, from the values that the ranks hold.
//
// Values are computed on demand by dependence. After a value has been judged, the caller puts the
// ranks' value in its place (`hold`), and later lines are computed from it. So errors do not
// accumulate, and only a line that is wrong by itself differs. A value is freed after its last use.
//
// A *line* consists of the instructions between held values and one wanted value. In a global
// program it is one instruction, in rank programs all instructions between two outputs. Lines may
// share instructions. Example: z = x - y, a = z * 2 and c = z * 3, with outputs a and c. The
// subtraction belongs to both lines, but runs once. The inputs of a line stay until the next line
// is computed, so that the same line can be computed again in other arithmetic (`again`).
//
// Not thread-safe; the program and the registry must outlive it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// A global program prepared for evaluation by dependence: the instruction that makes each value,
// and the values that are numbers.
class EvaluationPlan {
 public:
  EvaluationPlan(const GlobalProgram& program, const OpRegistry& ops);

  const GlobalProgram& program() const { return program_; }
  const OpRegistry& ops() const { return ops_; }
  const GlobalValue& info(ValueId id) const { return program_.values[static_cast<size_t>(id)]; }
  // Returns the index of the instruction that makes a value; -1 for inputs and numbers.
  int maker(ValueId id) const { return makers_[static_cast<size_t>(id)]; }
  // Returns the tensor of a value that is a number of the program; null for all others.
  const Tensor* number(ValueId id) const;

  // Returns a value that exists already, or null. A lookup may convert it to the dtype that it has
  // in this program.
  using Lookup = std::function<const Tensor*(ValueId)>;
  using Store = std::function<void(ValueId, Tensor)>;
  // Returns the instructions that must run to compute all of `targets`, in program order.
  std::vector<int> needed(const std::vector<ValueId>& targets,
                          const std::function<bool(ValueId)>& is_there) const;
  // Runs one instruction. Throws Error with line and column for data-dependent errors (an index
  // out of range).
  void run(int instr, const Lookup& held, const Store& store) const;
  // Returns a value, computed from the values that `held` returns. `made`, if not null, gets all
  // values that had to be computed.
  Tensor compute(ValueId target, const Lookup& held,
                 std::unordered_map<ValueId, Tensor>* made = nullptr) const;

 private:
  const GlobalProgram& program_;
  const OpRegistry& ops_;
  std::vector<int> makers_;
  std::vector<std::optional<Tensor>> numbers_;
};

// A change of each input of a line before it is computed again; null: no change.
using InputChange = std::function<Tensor(ValueId, const Tensor&)>;

// A way to compute lines again that changes an input in the same way for every line, named by its
// owner. Instructions that later lines share with a line then run once. Without it, n outputs of a
// loop whose state is no output (the moments of Adam) would take n * n / 2 passes.
enum class LineArithmetic : uint8_t {
  alone,                                     // any other way: nothing is shared
  held_inputs,                               // as the ranks hold them
  rounded_inputs,                            // to the program's own dtypes
  moved,                                     // parts of sums, in three rounding directions
  moved_by_a_rounding = moved + 3,           // all inputs, by one of their own dtypes
  moved_by_a_unit = moved_by_a_rounding + 3  // all inputs, by a few units of f64
};
// Returns the arithmetic of one of three directions.
inline LineArithmetic in_direction(LineArithmetic first, int direction) {
  return static_cast<LineArithmetic>(static_cast<int>(first) + direction);
}

class ReferenceRun {
 public:
  // `inputs` are global tensors in the order of program.inputs. `wanted` marks by id the values
  // that value() will return; they live until they are held. `keeps_all`: no value is freed, for
  // explanations.
  ReferenceRun(const EvaluationPlan& plan, std::vector<Tensor> inputs,
               const std::vector<bool>& wanted, bool keeps_all = false);

  // Returns the value, after computing its line if it does not exist yet.
  const Tensor& value(ValueId id);
  // Replaces the value. Values that it copies (`w * 1`, a second name) are replaced too. Returns
  // the ids of all of them.
  std::vector<ValueId> hold(ValueId id, const Tensor& value);
  // Returns the held or computed value; null if it does not exist.
  const Tensor* find(ValueId id) const;
  // Returns the values that the line of the last value() reads: held values and inputs of the
  // program.
  const std::vector<ValueId>& line_inputs() const { return line_inputs_; }
  // Returns the instructions of that line in program order; none if the value was held.
  const std::vector<int>& line() const { return line_; }
  // Computes the line of the last value() again under `plan` and returns its result. Requires a
  // program with the same ids: the same one, or its form in other dtypes. Inputs are converted to
  // the dtypes of that program. `id` may also be a value inside the line. Values in `fixed` are not
  // computed.
  Tensor again(ValueId id, const EvaluationPlan& plan, const InputChange& change = {},
               const std::map<ValueId, Tensor>& fixed = {}) const;
  // Returns the same, with what it shares with later lines. `arithmetic` is not `alone`.
  Tensor again(ValueId id, const EvaluationPlan& plan, const InputChange& change,
               LineArithmetic arithmetic) const;

  // Returns the line of the last value() with its inputs, for again(), find() of its inputs, line()
  // and line_inputs(). It stays as it is when the run continues.
  ReferenceRun line_alone() const;

  const EvaluationPlan& plan() const { return plan_; }

 private:
  explicit ReferenceRun(const EvaluationPlan& plan) : plan_(plan) {}
  void compute_line(ValueId id);
  bool is_needed(ValueId id) const;
  void run(int instr);
  void begin_line();
  void close(ValueId id);
  void free(ValueId id);
  std::optional<ValueId> copied_by(ValueId id) const;
  bool has(ValueId id) const { return entries_.contains(id); }
  // Values of lines that were computed again and that later lines read.
  using Shared = std::unordered_map<ValueId, Tensor>;
  bool is_line_input(ValueId id) const;
  void share(const Shared& made, Shared& shared) const;
  void forget_shared(const std::vector<ValueId>& held);

  const EvaluationPlan& plan_;
  bool keeps_all_ = false;
  std::unordered_map<ValueId, Tensor> entries_;  // looked up only
  // A value is open until it is held, or nothing will read it. An instruction is open, and may
  // belong to further lines, while a result of it is open.
  std::vector<int> uses_;          // by value: open instructions that read it
  std::vector<int> open_results_;  // by instruction; 0 for those that no wanted value needs
  std::vector<bool> wanted_;       // values for which hold() will still be called
  std::vector<bool> held_, closed_;
  std::vector<ValueId> to_close_;     // held since the line began
  std::vector<int> line_;             // instructions
  std::vector<ValueId> line_inputs_;  // ascending
  mutable std::map<std::pair<const EvaluationPlan*, LineArithmetic>, Shared> shared_;
};

}  // namespace shardproof
