#include "shardproof/engine/error_program.h"

#include <algorithm>
#include <functional>

#include "shardproof/engine/run_program.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/ops/error_ops.h"

namespace shardproof {
namespace {

// Steps of plans come of partitioned programs, which have a truth.
bool is_planned(const Instr& instr) {
  if (std::holds_alternative<Reshuffle>(instr.action)) return true;
  const auto* calls = std::get_if<Communicate>(&instr.action);
  return calls != nullptr &&
         std::any_of(calls->items.begin(), calls->items.end(),
                     [](const CallItem& item) { return item.step.has_value(); });
}

bool is_signal(CollectiveKind kind) {
  return kind == CollectiveKind::signal || kind == CollectiveKind::wait_signal;
}

// Errors are put into slots behind those of the program.
int64_t slots_of(const SpmdProgram& program) {
  int64_t slots = 0;
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs) {
      if (const auto* read = std::get_if<SlotRead>(&instr.action))
        slots = std::max(slots, read->slot + 1);
      if (const auto* calls = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : calls->items) slots = std::max(slots, item.collective.slot + 1);
    }
  return slots;
}

bool is_picked(ReduceOp op) {
  return op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::band ||
         op == ReduceOp::bor || op == ReduceOp::bxor;
}

// Writes one listing: each instruction with what follows its errors before or behind it.
class Follower {
 public:
  Follower(ErrorProgram& into, const OpRegistry& ops, MatmulPrecision matmul, int64_t slots)
      : into_(into), ops_(ops), matmul_(matmul), slots_(slots) {}

  void begin(const SpmdListing& listing) {
    listing_ = &into_.program.listings.emplace_back();
    listing_->lanes = listing.lanes;
    listing_->lines = listing.lines;
    like_ = {};
    like_.lanes = listing.lanes;
    for (const ValueId input : into_.program.inputs) {
      const Lanes on = lanes_of(input).intersect(listing.lanes);
      if (!on.empty()) compute("error_of_nothing", on, {}, {input}, {error(input)});
    }
  }

  void follow(const Instr& instr) {
    like_ = {};
    like_.lanes = instr.lanes;
    like_.stream = instr.stream;
    like_.origin = instr.origin;
    temporaries_.clear();
    std::visit([&](const auto& action) { add(action); }, instr.action);
    if (instr.releases.empty() && temporaries_.empty()) return;
    if (!(listing_->instrs.back().lanes == instr.lanes)) put(Keep());  // on all its lanes
    std::vector<ValueId>& releases = listing_->instrs.back().releases;
    releases.insert(releases.end(), temporaries_.begin(), temporaries_.end());
    for (const ValueId id : instr.releases) {
      releases.push_back(id);
      releases.push_back(error(id));
    }
  }

 private:
  ValueId error(ValueId id) const {
    return id == kNoValue ? kNoValue : into_.errors[static_cast<size_t>(id)];
  }
  const SpmdValue& value(ValueId id) const { return into_.program.values[static_cast<size_t>(id)]; }
  Lanes lanes_of(ValueId id) const {
    Lanes lanes;
    for (const LocalShape& shape : value(id).shapes) lanes = lanes.unite(shape.lanes);
    return lanes;
  }
  ValueId temporary(ValueId like, DType dtype, const Lanes& on) {
    SpmdValue fresh;
    fresh.dtype = dtype;
    for (const LocalShape& shape : value(like).shapes)
      if (Lanes here = shape.lanes.intersect(on); !here.empty())
        fresh.shapes.push_back({std::move(here), shape.shape});
    const auto id = static_cast<ValueId>(into_.program.values.size());
    fresh.name = fmt::format("_error_{}", id);
    into_.program.values.push_back(std::move(fresh));
    temporaries_.push_back(id);
    return id;
  }

  // The last of them ends what the instruction ends.
  Instr& put(Action action) {
    Instr& instr = listing_->instrs.emplace_back(like_);
    instr.action = std::move(action);
    return instr;
  }
  void compute(std::string op, const Lanes& on, Attrs attrs, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs, ValueId into = kNoValue) {
    Compute action;
    action.op = std::move(op);
    action.attrs = {{on, std::move(attrs)}};
    action.inputs = std::move(inputs);
    action.outputs = std::move(outputs);
    action.into = into;
    put(std::move(action)).lanes = on;
  }

  // --- work of a rank

  void add(const Compute& action) {
    Compute on_values = action;
    Compute on_errors = action;
    on_errors.into = error(action.into);
    for (ValueId& output : on_errors.outputs) output = error(output);
    const OpRecord& op = ops_.at(action.op);
    if (op.view && action.into == kNoValue) {
      // The same view of the errors.
      on_errors.inputs[0] = error(action.inputs[0]);
      put(std::move(on_values));
      put(std::move(on_errors));
      return;
    }
    // What is written in place may be what is read.
    if (action.into != kNoValue) {
      for (ValueId& output : on_values.outputs)
        output = temporary(output, value(output).dtype, like_.lanes);
      on_values.into = kNoValue;
    }
    for (const ValueId input : action.inputs) on_errors.inputs.push_back(error(input));
    for (const ValueId output : on_values.outputs) on_errors.inputs.push_back(output);
    on_errors.input_specs.clear();
    on_errors.output_specs.clear();
    OpRecord follower = error_of_op(op, action.inputs.size(), action.outputs.size(), matmul_);
    on_errors.op = follower.name;
    if (into_.ops.find(follower.name) == nullptr) into_.ops.add(std::move(follower));
    put(std::move(on_values));
    put(std::move(on_errors));
    if (action.into != kNoValue) put(action);
  }
  void add(const SlotRead& action) {
    put(SlotRead{action.slot + slots_, error(action.output)});
    put(action);
  }
  void add(const NumberValue& action) {
    put(action);
    put(NumberValue{error(action.output), {0.0}, {}});
  }

  // --- calls

  void add(const Communicate& action) {
    Communicate calls;
    std::vector<std::function<void()>> behind;
    for (const CallItem& item : action.items) {
      const Collective& c = item.collective;
      if (reduces(c.kind) && c.reduction.op == ReduceOp::norm)
        behind.push_back([&] { finish(item, "unknown_error", {}, {item.output}); });
      else if (reduces(c.kind) && !is_picked(c.reduction.op))
        reduce(item, calls, behind);
      else if (!is_signal(c.kind) && c.kind != CollectiveKind::barrier)
        calls.items.push_back(on_errors(item));
      calls.items.push_back(item);
    }
    put(std::move(calls));
    for (const auto& rest : behind) rest();
  }
  CallItem on_errors(const CallItem& item) const {
    CallItem call = item;
    call.collective.dtype = DType::f64;
    call.collective.schedule = {};
    call.collective.slot += slots_;
    if (reduces(call.collective.kind)) call.collective.reduction = {ReduceOp::max};
    call.input = error(item.input);
    call.output = error(item.output);
    return call;
  }
  void reduce(const CallItem& item, Communicate& calls,
              std::vector<std::function<void()>>& behind) {
    const Collective& c = item.collective;
    const Attrs attrs{{"op", to_string(c.reduction)},
                      {"ranks", c.group.size()},
                      {"dtype", value(item.input).dtype}};
    const bool multiplies = c.reduction.op == ReduceOp::prod;
    const ReduceOp combine = multiplies ? ReduceOp::prod : ReduceOp::sum;
    const ReduceOp combine_bits = multiplies ? ReduceOp::sum : ReduceOp::min;
    std::vector<ValueId> terms, results;
    for (const ReduceOp by : {combine, combine, combine_bits}) {
      CallItem call = on_errors(item);
      call.collective.reduction = {by};
      call.in_place = false;
      terms.push_back(call.input = temporary(item.input, DType::f64, item.lanes));
      if (item.output != kNoValue)
        results.push_back(call.output = temporary(item.output, DType::f64, getters(item)));
      calls.items.push_back(std::move(call));
    }
    compute("error_of_terms", item.lanes, attrs, {item.input, error(item.input)}, terms);
    if (item.output != kNoValue)
      behind.push_back(
          [this, &item, attrs, results] { finish(item, "error_of_reduction", attrs, results); });
  }
  void finish(const CallItem& item, const char* op, const Attrs& attrs,
              std::vector<ValueId> inputs) {
    const Lanes on = getters(item);
    if (on.empty()) return;
    const ValueId result = error(item.output);
    if (!item.in_place) return compute(op, on, attrs, std::move(inputs), {result});
    const ValueId fresh = temporary(item.output, DType::f64, on);
    compute(op, on, attrs, std::move(inputs), {fresh}, result);
  }
  // Off the root, a reduce gives nothing.
  Lanes getters(const CallItem& item) const {
    const Lanes lanes = lanes_of(item.output).intersect(item.lanes);
    if (item.collective.kind != CollectiveKind::reduce) return lanes;
    std::vector<int32_t> roots;
    for (int64_t i = 0; i < lanes.size(); ++i)
      if (item.collective.group.index_of(lanes[i]) == item.collective.root)
        roots.push_back(lanes[i]);
    return Lanes::of(std::move(roots));
  }

  // --- names and orders

  void add(const Merge& action) {
    Merge errors{error(action.output), {}};
    for (const auto& [lanes, part] : action.parts) errors.parts.emplace_back(lanes, error(part));
    put(action);
    put(std::move(errors));
  }
  void add(const Wait& action) {
    put(action);
    if (action.value == kNoValue) return;
    Wait errors = action;
    errors.value = error(action.value);
    put(std::move(errors));
  }
  void add(const Free& action) {
    put(action);
    put(Free{error(action.value)});
  }
  void add(const Keep& action) {
    put(action);
    put(Keep{error(action.value), action.stream});
  }
  void add(const RecordEvent& action) { put(action); }
  void add(const Snapshot& action) { put(action); }  // nobody looks at it
  void add(const Reshuffle&) {}                      // of plans

  ErrorProgram& into_;
  const OpRegistry& ops_;
  MatmulPrecision matmul_;
  int64_t slots_;
  SpmdListing* listing_ = nullptr;
  Instr like_;  // lanes, stream and origin
  std::vector<ValueId> temporaries_;
};

}  // namespace

std::optional<ErrorProgram> with_errors(const SpmdProgram& program, const OpRegistry& ops,
                                        MatmulPrecision matmul) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (is_planned(instr)) return std::nullopt;
  ErrorProgram result;
  result.ops = ops;
  add_error_ops(result.ops);
  result.program.world = program.world;
  result.program.values = program.values;
  result.program.inputs = program.inputs;
  for (size_t id = 0; id < program.values.size(); ++id) {
    SpmdValue errors;
    errors.name = "_error_of_" + program.values[id].name;
    errors.dtype = DType::f64;
    errors.shapes = program.values[id].shapes;
    result.errors.push_back(static_cast<ValueId>(result.program.values.size()));
    result.program.values.push_back(std::move(errors));
  }
  Follower follower(result, ops, matmul, slots_of(program));
  for (const SpmdListing& listing : program.listings) {
    follower.begin(listing);
    for (const Instr& instr : listing.instrs) follower.follow(instr);
  }
  return result;
}

std::map<ValueId, LocalTensor> errors_of_values(const SpmdProgram& program, const Job& job,
                                                const Registries& registries,
                                                const std::vector<ValueId>& wanted) {
  const std::optional<ErrorProgram> followed = with_errors(program, registries.ops, job.matmul);
  if (!followed || !job.functions.empty()) return {};
  Job quiet = job;
  quiet.backend = "local";
  quiet.device = nullptr;
  quiet.cost = nullptr;
  quiet.faults.clear();
  quiet.schedule = {};
  quiet.timing = {};
  Registries beside = registries;
  beside.ops = followed->ops;
  std::map<ValueId, LocalTensor> errors;
  try {
    const ProgramRun run =
        run_program(followed->program, quiet, beside, {}, [] { return ProbeFunction{}; });
    if (stands_still(run.outcome.findings)) return {};
    for (const ValueId id : wanted)
      errors.emplace(id, run.value(followed->errors[static_cast<size_t>(id)]));
  } catch (const Error&) {
    return {};  // memory for it, say
  }
  return errors;
}

}  // namespace shardproof
