// Implements f64_program.h.
//
// 1. All values and all dtypes that calls name become f64 or c128. Weak values (numbers) stay.
// 2. Each op is inferred with its wide inputs. If its result then has another dtype than the wide
//    program needs, a cast is put before or after it (ops/core/widen_op_call.h decides which).
//
// Example: h is bf16, `m = argmax(h, 0)` has dtype i64, `y = cast(h, f16)`. h and y become f64, m
// stays i64, and the cast becomes cast(h, f64), which copies.
#include "shardproof/engine/reference/f64_program.h"

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {
namespace {

template <typename Value>
void widen(Value& value) {
  if (!value.weak) value.dtype = wider(value.dtype);
}

template <typename Values>
std::vector<DType> value_dtypes(const std::vector<ValueId>& ids, const Values& values) {
  std::vector<DType> dtypes;
  for (const ValueId id : ids) dtypes.push_back(values[static_cast<size_t>(id)].dtype);
  return dtypes;
}

Attrs attributes_in_f64(const OpRecord& op, const OpCall& written) {
  Attrs wide = in_wider_floats(op, written);
  add_saturation(op, written, wide);
  return wide;
}

class GlobalWidening {
 public:
  GlobalWidening(GlobalProgram& program, const OpRegistry& ops)
      : program_(program), ops_(ops), written_(program.values) {}

  void run() {
    for (GlobalValue& value : program_.values) widen(value);
    std::vector<GlobalInstr> instrs = std::move(program_.instrs);
    program_.instrs.clear();
    for (GlobalInstr& instr : instrs) {
      if (instr.kind == GlobalKind::op)
        run_op(std::move(instr));
      else
        program_.instrs.push_back(std::move(instr));
    }
  }

 private:
  GlobalValue& value(ValueId id) { return program_.values[static_cast<size_t>(id)]; }

  static OpCall call_of(const GlobalInstr& instr, const std::vector<GlobalValue>& values) {
    OpCall call{&instr.attrs, {}};
    for (const ValueId id : instr.inputs) {
      TensorMeta& meta = call.inputs.emplace_back();
      meta.absent = id == kNoValue;
      if (meta.absent) continue;
      const GlobalValue& value = values[static_cast<size_t>(id)];
      meta = {value.dtype, value.shape, value.weak, false};
    }
    return call;
  }

  ValueId add(DType dtype, const Dims& shape, const Origin& origin) {
    GlobalValue& made = program_.values.emplace_back();
    made.dtype = dtype;
    made.shape = shape;
    made.origin = origin;
    return static_cast<ValueId>(program_.values.size()) - 1;
  }

  void cast(ValueId from, ValueId to, const GlobalInstr& beside) {
    GlobalInstr instr;
    instr.op = "cast";
    instr.attrs.set("dtype", value(to).dtype);
    instr.inputs = {from};
    instr.outputs = {to};
    instr.local = beside.local;
    instr.origin = beside.origin;
    program_.instrs.push_back(std::move(instr));
  }

  void run_op(GlobalInstr instr) {
    const OpRecord& op = ops_.at(instr.op);
    instr.attrs = attributes_in_f64(op, call_of(instr, written_));
    const OpCall call = call_of(instr, program_.values);
    const WideResult result = wide_result(op, call, value_dtypes(instr.outputs, program_.values));
    if (!result.dtype.empty()) instr.attrs.set(result.dtype, DType::f64);
    for (size_t i = 0; i < result.inputs.size(); ++i) {
      if (!result.inputs[i]) continue;
      const ValueId from = instr.inputs[i];
      instr.inputs[i] = add(DType::f64, Dims(value(from).shape), instr.origin);
      cast(from, instr.inputs[i], instr);
    }
    const std::vector<ValueId> wanted = instr.outputs;
    if (result.outputs) {
      const std::vector<TensorMeta> made = op.infer(call);
      for (size_t o = 0; o < wanted.size(); ++o)
        if (made[o].dtype != value(wanted[o]).dtype)
          instr.outputs[o] = add(made[o].dtype, made[o].shape, instr.origin);
    }
    const GlobalInstr last = instr;
    program_.instrs.push_back(std::move(instr));
    for (size_t o = 0; o < wanted.size(); ++o)
      if (last.outputs[o] != wanted[o]) cast(last.outputs[o], wanted[o], last);
  }

  GlobalProgram& program_;
  const OpRegistry& ops_;
  const std::vector<GlobalValue> written_;
};

class SpmdWidening {
 public:
  SpmdWidening(SpmdProgram& program, const OpRegistry& ops)
      : program_(program), ops_(ops), written_(program.values) {}

  void run() {
    for (SpmdValue& value : program_.values) {
      widen(value);
      if (value.spec) value.spec = value.spec->with_dtype(value.dtype);
    }
    for (SpmdListing& listing : program_.listings) {
      Instrs instrs = std::move(listing.instrs);
      into_ = &listing.instrs;
      into_->clear();
      for (Instr& instr : instrs) run_instr(std::move(instr));
    }
  }

 private:
  SpmdValue& value(ValueId id) { return program_.values[static_cast<size_t>(id)]; }

  static void widen_spec(Spec& spec) { spec = spec.with_dtype(wider(spec.dtype())); }
  static void widen_step(std::shared_ptr<const PlanStep>& step) {
    if (step == nullptr) return;
    auto wide = std::make_shared<PlanStep>(*step);
    widen_spec(wide->from);
    widen_spec(wide->to);
    step = std::move(wide);
  }
  // The items of one step point to one PlanStep, which is widened once.
  static void widen_items(std::vector<CallItem>& items) {
    std::shared_ptr<const PlanStep> narrow, wide;
    for (CallItem& item : items) {
      item.collective.dtype = wider(item.collective.dtype);
      if (item.step != narrow) {
        narrow = wide = item.step;
        widen_step(wide);
      }
      item.step = wide;
    }
  }

  void run_instr(Instr instr) {
    if (std::holds_alternative<Compute>(instr.action)) return run_compute(std::move(instr));
    if (auto* move = std::get_if<Reshuffle>(&instr.action)) widen_step(move->step);
    if (auto* calls = std::get_if<Communicate>(&instr.action)) widen_items(calls->items);
    into_->push_back(std::move(instr));
  }

  // Returns the call with the shapes of the first of these ranks.
  static OpCall call_of(const Compute& compute, const LaneAttrs& entry, const SpmdValues& values) {
    OpCall call{&entry.attrs, {}};
    for (const ValueId id : compute.inputs) {
      TensorMeta& meta = call.inputs.emplace_back();
      meta.absent = id == kNoValue;
      if (meta.absent) continue;
      const SpmdValue& value = values[static_cast<size_t>(id)];
      meta = {value.dtype, {}, value.weak, false};
      for (const LocalShape& shape : value.shapes)
        if (shape.lanes.contains(entry.lanes[0])) meta.shape = shape.shape;
    }
    return call;
  }

  ValueId add(DType dtype, ValueId like, const Lanes& lanes, const Origin& origin) {
    SpmdValue made;
    made.name = fmt::format("_wide{}", program_.values.size());
    made.dtype = dtype;
    std::vector<LocalShape> shapes;
    for (const LocalShape& shape : value(like).shapes)
      if (Lanes cut = shape.lanes.intersect(lanes); !cut.empty())
        shapes.push_back({std::move(cut), shape.shape});
    made.shapes = std::move(shapes);
    made.origin = origin;
    program_.values.push_back(std::move(made));
    return static_cast<ValueId>(program_.values.size()) - 1;
  }

  void cast(ValueId from, ValueId to, const Instr& beside) {
    Instr instr;
    instr.lanes = beside.lanes;
    instr.stream = beside.stream;
    instr.origin = beside.origin;
    Compute compute;
    compute.op = "cast";
    compute.attrs = {{beside.lanes, Attrs{{"dtype", value(to).dtype}}}};
    compute.inputs = {from};
    compute.outputs = {to};
    instr.action = std::move(compute);
    into_->push_back(std::move(instr));
  }

  void run_compute(Instr instr) {
    auto& compute = std::get<Compute>(instr.action);
    if (compute.specs) {
      ShardSpecs specs = *compute.specs;
      for (Spec& spec : specs.inputs) widen_spec(spec);
      for (Spec& spec : specs.outputs) widen_spec(spec);
      compute.specs = std::move(specs);
    }
    const OpRecord& op = ops_.at(compute.op.str());
    for (LaneAttrs& entry : compute.attrs)
      entry.attrs = attributes_in_f64(op, call_of(compute, entry, written_));
    const OpCall call = call_of(compute, compute.attrs.at(0), program_.values);
    const WideResult result = wide_result(op, call, value_dtypes(compute.outputs, program_.values));
    for (LaneAttrs& entry : compute.attrs)
      if (!result.dtype.empty()) entry.attrs.set(result.dtype, DType::f64);
    for (size_t i = 0; i < result.inputs.size(); ++i) {
      if (!result.inputs[i]) continue;
      const ValueId from = compute.inputs[i];
      compute.inputs[i] = add(DType::f64, from, instr.lanes, instr.origin);
      cast(from, compute.inputs[i], instr);
      instr.releases.push_back(compute.inputs[i]);
    }
    if (!result.outputs) return into_->push_back(std::move(instr));
    const std::vector<ValueId> wanted = compute.outputs;
    const std::vector<TensorMeta> made = op.infer(call);
    for (size_t o = 0; o < wanted.size(); ++o)
      if (made[o].dtype != value(wanted[o]).dtype)
        compute.outputs[o] = add(made[o].dtype, wanted[o], instr.lanes, instr.origin);
    cast_results(std::move(instr), wanted);
  }

  // Emits the op and the casts of its results. Its releases move after the casts.
  void cast_results(Instr instr, const std::vector<ValueId>& wanted) {
    std::vector<ValueId> releases = std::move(instr.releases);
    instr.releases.clear();
    const std::vector<ValueId> made = std::get<Compute>(instr.action).outputs;
    const Instr beside = instr;
    into_->push_back(std::move(instr));
    for (size_t o = 0; o < wanted.size(); ++o) {
      if (made[o] == wanted[o]) continue;
      cast(made[o], wanted[o], beside);
      releases.push_back(made[o]);
    }
    std::vector<ValueId>& last = into_->back().releases;
    last.insert(last.end(), releases.begin(), releases.end());
  }

  SpmdProgram& program_;
  const OpRegistry& ops_;
  const SpmdValues written_;
  Instrs* into_ = nullptr;
};

}  // namespace

void widen_floats(GlobalProgram& program, const OpRegistry& ops) {
  GlobalWidening(program, ops).run();
}

void widen_floats(SpmdProgram& program, const OpRegistry& ops) { SpmdWidening(program, ops).run(); }

}  // namespace shardproof
