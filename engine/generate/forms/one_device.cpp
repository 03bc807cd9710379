// Implements one_device.h. measure_losses() runs each line in f64 from the values of the run in own
// dtypes, and computes the difference of the results. It continues with the result in own dtypes.
// It does the same in the other rounding directions of f64: a sum of terms that cancel may be right
// by chance.
#include "shardproof/engine/generate/forms/one_device.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "shardproof/engine/compare/perturbation.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {
namespace {

Tensor tensor_of_number(const GlobalValue& value) {
  Tensor number = Tensor::empty(value.dtype, Dims{});
  const Number& n = value.number;
  if (value.dtype == DType::f64)
    store_f64(number.mutate(), value.dtype, n.real());
  else
    store_i64(number.mutate(), value.dtype, n.is_bool() ? n.truth() : n.integer());
  return number;
}

// Computes the values of a program, one instruction at a time.
class OneDevice {
 public:
  OneDevice(const GlobalProgram& program, const OpRegistry& ops, const std::vector<Tensor>& inputs)
      : program_(program), ops_(ops), values_(program.values.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) value(program.inputs[i]) = inputs[i];
    std::vector<bool> made(program.values.size());
    for (const GlobalInstr& instr : program.instrs)
      for (const ValueId output : instr.outputs) made[static_cast<size_t>(output)] = true;
    for (size_t id = 0; id < program.values.size(); ++id) {
      const GlobalValue& known = program.values[id];
      if (known.weak && !values_[id].buffer && known.shape.size() == 0 && !made[id])
        values_[id] = tensor_of_number(known);
    }
  }

  Tensor& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  std::vector<Tensor> take_values() { return std::move(values_); }

  void run(const GlobalInstr& instr) {
    if (instr.kind != GlobalKind::op) {
      value(instr.outputs[0]) = value(instr.inputs[0]);
      return;
    }
    OpCall call{&instr.attrs, {}};
    std::vector<const Tensor*> inputs;
    for (const ValueId id : instr.inputs) {
      TensorMeta meta;
      meta.absent = id == kNoValue;
      if (!meta.absent) {
        const GlobalValue& known = program_.values[static_cast<size_t>(id)];
        meta = {known.dtype, known.shape, known.weak, false};
      }
      call.inputs.push_back(std::move(meta));
      inputs.push_back(id == kNoValue ? nullptr : &value(id));
    }
    std::vector<Tensor> outputs = run_at_place(instr, call, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) value(instr.outputs[i]) = std::move(outputs[i]);
  }

 private:
  std::vector<Tensor> run_at_place(const GlobalInstr& instr, const OpCall& call,
                                   const std::vector<const Tensor*>& inputs) {
    try {
      return run_once(ops_.at(instr.op), call, inputs);
    } catch (const Error& error) {
      throw error.inside({"", "", instr.origin.line, instr.origin.column});
    }
  }

  const GlobalProgram& program_;
  const OpRegistry& ops_;
  std::vector<Tensor> values_;
};

std::set<ValueId> compared_values(const Job& job, const GlobalProgram& program,
                                  const OpRegistry& ops) {
  std::set<ValueId> ids;
  for (const JobOutput& output : job.outputs) ids.insert(program.names.at(output.name));
  if (!job.ranks.empty())
    for (const RankCheck& check : lower_ranks(job, ops).checks)
      ids.insert(program.names.at(check.name));
  if (job.program)
    for (const GlobalInstr& instr : program.instrs)
      for (const ValueId id : instr.outputs)
        if (!program.values[static_cast<size_t>(id)].name.empty()) ids.insert(id);
  return ids;
}

double absolute_loss(double narrow, double wide) {
  if (narrow == wide || (std::isnan(narrow) && std::isnan(wide))) return 0;
  const double loss = std::abs(narrow - wide);
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

LineLoss compare_widths(const Tensor& narrow, const Tensor& wide) {
  LineLoss line{0, 0, true};
  const std::vector<double> own = values_of(narrow), f64 = values_of(wide);
  for (size_t i = 0; i < own.size(); ++i) {
    line.loss = std::max(line.loss, absolute_loss(own[i], f64[i]));
    if (!std::isfinite(own[i])) line.is_finite = false;
    if (std::isfinite(own[i])) line.largest = std::max(line.largest, std::abs(own[i]));
  }
  return line;
}

}  // namespace

GlobalProgram lower_one_device(const Job& job, const OpRegistry& ops) {
  const GlobalContext context = context_of(job, ops);
  return job.program ? lower_global(*job.program, context, "/program")
                     : lower_global(*job.truth, context, "/truth");
}

std::vector<Tensor> input_tensors(const Job& job) {
  std::vector<Tensor> tensors;
  for (const JobInput& input : job.inputs) tensors.push_back(input.data);
  return tensors;
}

std::vector<Tensor> run_one_device(const GlobalProgram& program, const OpRegistry& ops,
                                   const std::vector<Tensor>& inputs) {
  OneDevice device(program, ops, inputs);
  for (const GlobalInstr& instr : program.instrs) device.run(instr);
  return device.take_values();
}

namespace {

// Runs `program` line by line and adds to `losses` the distance of each value in `compared` from
// that of `own`. The lines after it read the value of `own`.
void add_losses(const GlobalProgram& program, const OpRegistry& ops,
                const std::vector<Tensor>& inputs, const std::set<ValueId>& compared,
                const std::vector<Tensor>& own, std::map<ValueId, LineLoss>& losses) {
  OneDevice other(program, ops, inputs);
  for (const GlobalInstr& instr : program.instrs) {
    other.run(instr);
    for (const ValueId id : instr.outputs) {
      if (!compared.contains(id)) continue;
      Tensor& value = other.value(id);
      const Tensor& narrow = own[static_cast<size_t>(id)];
      if (is_floating(narrow.dtype)) {
        LineLoss& line = losses.emplace(id, LineLoss{0, 0, true}).first->second;
        const LineLoss added = compare_widths(narrow, value);
        line.largest = added.largest;
        line.loss = std::max(line.loss, added.loss);
        line.is_finite = added.is_finite;
      }
      value = as_dtype(narrow, value.dtype);
    }
  }
}

}  // namespace

std::map<ValueId, LineLoss> measure_losses(const Job& job, const OpRegistry& ops) {
  const GlobalProgram program = lower_one_device(job, ops);
  const std::set<ValueId> compared = compared_values(job, program, ops);
  const std::vector<Tensor> own = run_one_device(program, ops, input_tensors(job));
  GlobalProgram widened = program;
  widen_floats(widened, ops);
  std::vector<Tensor> inputs;
  for (const Tensor& input : input_tensors(job))
    inputs.push_back(as_dtype(input, wider(input.dtype)));
  std::map<ValueId, LineLoss> losses;
  add_losses(widened, ops, inputs, compared, own, losses);
  for (int direction = 0; direction < kOtherRoundings; ++direction) {
    const ScopedRoundingMode rounding(direction);
    add_losses(widened, ops, inputs, compared, own, losses);
  }
  return losses;
}

}  // namespace shardproof
