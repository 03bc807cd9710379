// Implements recompute_compared.h.
#include "shardproof/engine/reference/recompute_compared.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardproof {
namespace {

class RecomputeCompared {
 public:
  RecomputeCompared(GlobalProgram& program, const OpRegistry& ops) : program_(program), ops_(ops) {}

  void run() {
    std::vector<GlobalInstr> written = std::exchange(program_.instrs, {});
    makers_.assign(program_.values.size(), nullptr);
    for (GlobalInstr& instr : written) {
      if (is_comparison(instr)) compare_own(instr);
      for (const ValueId id : instr.outputs) makers_[static_cast<size_t>(id)] = &instr;
      program_.instrs.push_back(instr);
    }
  }

 private:
  const GlobalInstr* maker(ValueId id) const {
    return id == kNoValue ? nullptr : makers_[static_cast<size_t>(id)];
  }

  bool is_comparison(const GlobalInstr& instr) const {
    return instr.kind == GlobalKind::op && instr.inputs.size() == 2 && instr.outputs.size() == 1 &&
           program_.values[static_cast<size_t>(instr.outputs[0])].dtype == DType::boolean;
  }

  // Returns the value without the views that lead to it.
  ValueId viewed(ValueId id) const {
    const GlobalInstr* by = maker(id);
    while (by != nullptr && by->kind == GlobalKind::op && ops_.at(by->op).view) {
      id = by->inputs[0];
      by = maker(id);
    }
    return id;
  }

  void compare_own(GlobalInstr& comparison) {
    for (size_t i = 0; i < 2; ++i) {
      const ValueId result = viewed(comparison.inputs[i]);
      const ValueId other = viewed(comparison.inputs[1 - i]);
      const GlobalInstr* by = maker(result);
      if (by == nullptr || by->kind != GlobalKind::op) continue;
      if (std::none_of(by->inputs.begin(), by->inputs.end(),
                       [&](ValueId id) { return id != kNoValue && viewed(id) == other; }))
        continue;
      comparison.inputs[i] = again(comparison.inputs[i], result, comparison.origin);
    }
  }

  // Emits the op that makes `result` and the views from it to `id` once more, next to `origin`.
  ValueId again(ValueId id, ValueId result, const Origin& origin) {
    const GlobalInstr& written = *maker(id);
    GlobalInstr instr = written;
    if (id != result) instr.inputs[0] = again(written.inputs[0], result, origin);
    instr.origin = origin;
    ValueId made = kNoValue;
    for (ValueId& output : instr.outputs) {
      GlobalValue value = program_.values[static_cast<size_t>(output)];
      value.name.clear();
      value.origin = origin;
      value.state_of = kNoValue;
      const auto copy = static_cast<ValueId>(program_.values.size());
      program_.values.push_back(std::move(value));
      makers_.push_back(nullptr);
      if (output == id) made = copy;
      output = copy;
    }
    program_.instrs.push_back(std::move(instr));
    return made;
  }

  GlobalProgram& program_;
  const OpRegistry& ops_;
  std::vector<const GlobalInstr*> makers_;  // by value; null: an input, a number or a copy
};

}  // namespace

void recompute_compared(GlobalProgram& program, const OpRegistry& ops) {
  RecomputeCompared(program, ops).run();
}

}  // namespace shardproof
