// Implements unsafe_partials.h: partitions the program, and runs one device in its own dtypes and
// in f64. Then it tests the inputs of each op that has a P input or output.
#include "shardproof/engine/generate/unsafe_partials.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {
namespace {

bool has_only_finite(const Tensor& tensor) {
  const std::vector<double> values = values_of(tensor);
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

// Returns, by value, if it is finite in the program's own dtypes and with all floats in f64.
std::vector<bool> finite_values(const Job& job, const GlobalProgram& program,
                                const OpRegistry& ops) {
  GlobalProgram widened = program;
  widen_floats(widened, ops);
  std::vector<Tensor> wide_inputs;
  for (const Tensor& input : input_tensors(job))
    wide_inputs.push_back(as_dtype(input, wider(input.dtype)));
  const std::vector<Tensor> own = run_one_device(program, ops, input_tensors(job));
  const std::vector<Tensor> wide = run_one_device(widened, ops, wide_inputs);
  std::vector<bool> finite;
  for (size_t id = 0; id < own.size(); ++id)
    finite.push_back(!own[id].buffer ||
                     (has_only_finite(own[id]) && wide[id].buffer && has_only_finite(wide[id])));
  return finite;
}

class UnsafeLines {
 public:
  UnsafeLines(const GlobalProgram& program, const Partitioned& parts, std::vector<bool> finite)
      : program_(program), parts_(parts), finite_(std::move(finite)) {
    for (const SpmdValue& value : parts.program.values)
      if (value.spec && value.spec->has_partial()) partial_lines_.insert(value.origin.line);
  }

  void add_if_unsafe(const GlobalInstr& instr) {
    if (instr.kind != GlobalKind::op) return;
    std::vector<std::string> partials;
    bool has_partial = is_inside_claim(instr) && partial_lines_.contains(instr.origin.line);
    bool is_finite = true;
    for (const ValueId id : instr.inputs) {
      if (id == kNoValue) continue;
      is_finite = is_finite && finite_[static_cast<size_t>(id)];
      if (!is_partial(id)) continue;
      has_partial = true;
      const std::string& name = program_.values[static_cast<size_t>(id)].name;
      if (!name.empty()) partials.push_back(name);
    }
    for (const ValueId id : instr.outputs)
      is_finite = is_finite && finite_[static_cast<size_t>(id)];
    if (!has_partial || (is_finite && !divides_by_a_value(instr))) return;
    UnsafeLine line{instr.origin.line, partials, !is_finite};
    if (lines_.empty() || lines_.back().line != line.line)
      lines_.push_back(std::move(line));
    else
      lines_.back().has_infinity = lines_.back().has_infinity || !is_finite;
  }

  std::vector<UnsafeLine> take() { return std::move(lines_); }

 private:
  bool is_partial(ValueId id) const {
    const ValueId placed = parts_.placed[static_cast<size_t>(id)];
    if (placed == kNoValue) return false;
    const std::optional<Spec>& spec = parts_.program.values[static_cast<size_t>(placed)].spec;
    return spec && spec->has_partial();
  }

  // True if the op runs on what each rank holds, inside `as` or its gradient.
  bool is_inside_claim(const GlobalInstr& instr) const {
    return std::any_of(instr.outputs.begin(), instr.outputs.end(), [&](ValueId id) {
      const ValueId placed = parts_.placed[static_cast<size_t>(id)];
      return placed == kNoValue || !parts_.program.values[static_cast<size_t>(placed)].spec;
    });
  }

  bool divides_by_a_value(const GlobalInstr& instr) const {
    return instr.op == "div" && !program_.values[static_cast<size_t>(instr.inputs[1])].weak;
  }

  const GlobalProgram& program_;
  const Partitioned& parts_;
  std::vector<bool> finite_;
  std::set<int> partial_lines_;  // with a P value
  std::vector<UnsafeLine> lines_;
};

}  // namespace

std::vector<UnsafeLine> find_unsafe_partials(const ProgramText& text, const OpRegistry& ops) {
  const Job job = job_of(text);
  const GlobalProgram program = lower_one_device(job, ops);
  const Partitioned parts = partition(program, job, ops);
  UnsafeLines lines(program, parts, finite_values(job, program, ops));
  for (const GlobalInstr& instr : program.instrs) lines.add_if_unsafe(instr);
  return lines.take();
}

}  // namespace shardproof
