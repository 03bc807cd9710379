// Implements the conversions of partitioner.h: those that a composite op puts around what it
// computes in f32. Each part is converted by itself, so that nothing has to move for them.
//
// Example: y = softsign(x) = x / (1 + |x|), x in bf16 as tp:P(sum), becomes
//
//   _1 = convert_element_type(x, f32)   put off: _1 is x, stored as bf16
//   _2 = abs(_1)                        needs R: all_reduce of x in bf16, then the conversion
//   _3 = add(_2, 1)
//   _4 = div(_1, _3)
//   y = convert_element_type(_4, bf16)
#include "shardproof/engine/partition/partitioner.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {

PlacedValue Partitioner::emit_converted(const PlacedValue& input, DType dtype, const Spec& spec) {
  Compute compute;
  compute.op = "convert_element_type";
  const Lanes lanes = spec.mesh().ranks();
  compute.attrs = {{lanes, Attrs{{"dtype", dtype}}}};
  compute.inputs = {input.id};
  PlacedValue made;
  made.id = add_value(dtype, spec, Category::activations);
  made.meta = {dtype, input.meta.shape};
  made.spec = spec;
  made.name = input.name;
  compute.outputs = {made.id};
  add(std::move(compute), lanes);
  return made;
}

std::optional<PlacedValue> Partitioner::emit_conversion(const OpRecord& op, const Attrs& attrs,
                                                        const PlacedValue& input) {
  if (!input.spec) return std::nullopt;
  const OpCall call{&attrs, {input.meta}};
  const DType from = input.meta.dtype, to = op.infer(call).at(0).dtype;
  std::optional<Spec> spec;
  try {
    spec = input.spec->with_dtype(to);
  } catch (const Error&) {
    return std::nullopt;  // the dtype has no such reduction
  }
  const PlacedValue value = converted(input);
  if (from == to || !can_widen(from, to)) return emit_converted(value, to, *spec);
  PlacedValue put_off = value;
  put_off.meta = {to, input.meta.shape};
  put_off.spec = spec;
  put_off.stored = from;
  put_off.linear = !attrs.has("linear") || attrs.flag("linear");
  return put_off;
}

PlacedValue Partitioner::converted(const PlacedValue& value) {
  if (!value.stored) return value;
  const DType dtype = value.meta.dtype;
  const auto known = converted_.find({value.id, dtype});
  PlacedValue made = value;
  made.stored.reset();
  made.linear = true;
  if (known != converted_.end()) {
    made.id = known->second;
    return made;
  }
  made.id = emit_converted(value, dtype, *value.spec).id;
  converted_[{value.id, dtype}] = made.id;
  return made;
}

// A value that is converted where it is read is needed as long as the result of the conversion.
void Partitioner::lengthen_uses_of_narrow_values(const GlobalProgram& program) {
  for (auto instr = program.instrs.rbegin(); instr != program.instrs.rend(); ++instr) {
    if (instr->kind != GlobalKind::op || !ops_.at(instr->op).rule.follows_input) continue;
    size_t& last = last_use_[static_cast<size_t>(instr->inputs.at(0))];
    last = std::max(last, last_use_[static_cast<size_t>(instr->outputs.at(0))]);
  }
}

}  // namespace shardproof
