#include "shardproof/engine/truth.h"

#include "shardproof/engine/part_bounds.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/ops/run_once.h"

namespace shardproof {

Truth::Truth(const GlobalProgram& program, const OpRegistry& ops, std::vector<Tensor> inputs,
             int64_t parts, std::vector<Bound> bounds, ValuesInParts in_parts,
             MatmulPrecision matmul)
    : program_(program),
      ops_(ops),
      parts_(parts),
      in_parts_(std::move(in_parts)),
      matmul_(matmul),
      entries_(program.values.size()) {
  in_parts_.added.resize(program.values.size(), false);
  in_parts_.scaled.resize(program.values.size(), false);
  SP_CHECK(inputs.size() == program.inputs.size(), "{} inputs for {}", inputs.size(),
           program.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Entry& entry = entries_[static_cast<size_t>(program.inputs[i])];
    entry.bound = bounds.empty() ? Bound::exact_of(inputs[i]) : std::move(bounds[i]);
    entry.value = std::move(inputs[i]);
  }
  std::vector<bool> made(program.values.size());  // a number too, by an instruction on numbers only
  for (const GlobalInstr& instr : program.instrs)
    for (ValueId output : instr.outputs) made[static_cast<size_t>(output)] = true;
  for (size_t id = 0; id < program.values.size(); ++id) {
    const GlobalValue& value = program.values[id];
    if (!value.weak || entries_[id].value || value.shape.size() > 0 || made[id]) continue;
    Tensor number = Tensor::empty(value.dtype, Dims{});
    if (value.dtype != DType::f64)
      store_i64(number.mutate(), value.dtype,
                value.number.is_bool() ? value.number.truth() : value.number.integer());
    else
      store_f64(number.mutate(), value.dtype, value.number.real());
    entries_[id].bound = Bound::exact_of(number);
    entries_[id].value = std::move(number);
  }
}

const Tensor& Truth::value(ValueId id) {
  advance_to(id);
  return *entries_[static_cast<size_t>(id)].value;
}

const Bound& Truth::bound(ValueId id) {
  advance_to(id);
  return entries_[static_cast<size_t>(id)].bound;
}

void Truth::anchor(ValueId id, Tensor value, Bound bound) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  entry.value = std::move(value);
  entry.bound = std::move(bound);
}

std::vector<ValueId> Truth::named_until(ValueId id) const {
  std::vector<ValueId> ids;
  for (ValueId other = 0; other < id; ++other)
    if (!program_.values[static_cast<size_t>(other)].name.empty() &&
        entries_[static_cast<size_t>(other)].value)
      ids.push_back(other);
  return ids;
}

void Truth::advance_to(ValueId id) {
  while (!entries_[static_cast<size_t>(id)].value) {
    SP_CHECK(pc_ < program_.instrs.size(), "value {} is never made", id);
    const GlobalInstr& instr = program_.instrs[pc_++];
    try {
      run(instr);
    } catch (const Error& error) {
      throw error.inside({"", "", instr.origin.line, instr.origin.column});
    }
  }
}

void Truth::run(const GlobalInstr& instr) {
  if (instr.kind != GlobalKind::op) {
    const Entry& from = entries_[static_cast<size_t>(instr.inputs[0])];
    Entry& to = entries_[static_cast<size_t>(instr.outputs[0])];
    to = from;
    if (!in_parts_.added[static_cast<size_t>(instr.outputs[0])]) to.bound.reach.clear();
    return widen_if_scaled(instr.outputs[0]);
  }
  const OpRecord& op = ops_.at(instr.op);
  OpCall call{&instr.attrs, {}};
  std::vector<const Tensor*> inputs;
  std::vector<const Bound*> bounds;
  for (ValueId id : instr.inputs) {
    TensorMeta meta;
    meta.absent = id == kNoValue;
    if (!meta.absent) {
      const GlobalValue& value = program_.values[static_cast<size_t>(id)];
      meta = {value.dtype, value.shape, value.weak, false};
    }
    call.inputs.push_back(std::move(meta));
    const Entry* entry = id == kNoValue ? nullptr : &entries_[static_cast<size_t>(id)];
    inputs.push_back(entry ? &*entry->value : nullptr);
    bounds.push_back(entry ? &entry->bound : nullptr);
  }
  std::vector<Tensor> outputs = run_once(op, call, inputs);
  BoundCall bound_call;
  bound_call.call = &call;
  bound_call.inputs = inputs;
  bound_call.input_bounds = bounds;
  bound_call.parts = parts_;
  bound_call.matmul = matmul_;
  for (const Tensor& output : outputs) bound_call.outputs.push_back(&output);
  std::vector<Bound> result;
  if (op.bound)
    result = op.bound(bound_call);
  else
    result = moved_bound(op, bound_call);
  std::vector<bool> in_parts;
  for (const ValueId id : instr.outputs)
    in_parts.push_back(in_parts_.added[static_cast<size_t>(id)]);
  widen_for_parts(op, bound_call, in_parts, result);
  for (size_t o = 0; o < outputs.size(); ++o) {
    Entry& entry = entries_[static_cast<size_t>(instr.outputs[o])];
    entry.value = std::move(outputs[o]);
    entry.bound = std::move(result[o]);
    widen_if_scaled(instr.outputs[o]);
  }
}

void Truth::widen_if_scaled(ValueId id) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  if (in_parts_.scaled[static_cast<size_t>(id)])
    widen_for_scaling(*entry.value, parts_, entry.bound);
}

}  // namespace shardproof
