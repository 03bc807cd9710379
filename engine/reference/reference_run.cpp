// Implements reference_run.h.
//
// value(x) walks from x back to held values and inputs, and so finds the instructions of x's line.
// It sorts them into program order and runs those that did not run for an earlier line. The walk
// uses an explicit stack, because a loop of a program may be a chain of many thousand instructions.
// When a line begins, the values held during the last one close. An instruction whose results are
// all closed closes too, and lowers the count of uses of its inputs. A value without uses is freed,
// and closes.
#include "shardproof/engine/reference/reference_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/run_single_device.h"

namespace shardproof {
namespace {

Tensor number_tensor(const GlobalValue& value) {
  Tensor number = Tensor::empty(value.dtype, Dims{});
  if (value.dtype != DType::f64)
    store_i64(number.mutate(), value.dtype,
              value.number.is_bool() ? value.number.truth() : value.number.integer());
  else
    store_f64(number.mutate(), value.dtype, value.number.real());
  return number;
}

// Returns elements of all sizes and both signs, so that only a copy returns them unchanged.
Tensor probe_of(const GlobalValue& value, uint64_t draw) {
  const Rng random(draw, 0x6964656e74697479);
  std::vector<double> values(static_cast<size_t>(element_count(value.shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = random.bits(i);
    const double significand = 1 + static_cast<double>(bits >> 11) * 0x1p-53;
    const double size = std::ldexp(significand, static_cast<int>(bits / 2 % 512 % 101) - 40);
    values[i] = bits % 2 == 0 ? size : -size;
  }
  return tensor_of(value.dtype, value.shape, values);
}

// Returns the result of an instruction with `probe` as every input; nullopt if the op refuses it.
std::optional<Tensor> result_of(const EvaluationPlan& plan, ValueId result, const Tensor& probe) {
  std::optional<Tensor> given;
  try {
    plan.run(
        plan.maker(result), [&](ValueId) { return &probe; },
        [&](ValueId id, Tensor value) {
          if (id == result) given = std::move(value);
        });
  } catch (const Error&) {
    return std::nullopt;
  }
  return given;
}

// True if an instruction returns its input, found by running it on some 64 elements or more.
bool is_identity(const EvaluationPlan& plan, ValueId from, ValueId to) {
  constexpr int64_t kElements = 64;
  const GlobalValue &source = plan.info(from), &result = plan.info(to);
  if (source.dtype != result.dtype || !(source.shape == result.shape)) return false;
  const int64_t elements = element_count(source.shape);
  if (elements == 0) return false;
  for (int64_t draw = 0; draw * elements < kElements; ++draw) {
    const Tensor probe = probe_of(source, static_cast<uint64_t>(draw));
    const std::optional<Tensor> given = result_of(plan, to, probe);
    if (!given || !bit_equal(*given, 0, probe, 0)) return false;
  }
  return true;
}

}  // namespace

EvaluationPlan::EvaluationPlan(const GlobalProgram& program, const OpRegistry& ops)
    : program_(program),
      ops_(ops),
      makers_(program.values.size(), -1),
      numbers_(program.values.size()) {
  for (size_t i = 0; i < program.instrs.size(); ++i)
    for (const ValueId id : program.instrs[i].outputs)
      makers_[static_cast<size_t>(id)] = static_cast<int>(i);
  std::vector<bool> given(program.values.size(), false);
  for (const ValueId id : program.inputs) given[static_cast<size_t>(id)] = true;
  // An instruction that reads only numbers makes a number too.
  for (size_t id = 0; id < program.values.size(); ++id) {
    const GlobalValue& value = program.values[id];
    if (value.weak && value.shape.empty() && makers_[id] < 0 && !given[id])
      numbers_[id] = number_tensor(value);
  }
}

const Tensor* EvaluationPlan::number(ValueId id) const {
  const std::optional<Tensor>& known = numbers_[static_cast<size_t>(id)];
  return known ? &*known : nullptr;
}

std::vector<int> EvaluationPlan::needed(const std::vector<ValueId>& targets,
                                        const std::function<bool(ValueId)>& is_there) const {
  std::vector<int> found;
  std::vector<bool> seen(program_.instrs.size(), false);
  std::vector<ValueId> open = targets;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || number(id) != nullptr || is_there(id)) continue;
    const int instr = maker(id);
    SP_CHECK(instr >= 0, "value {} is never made", id);
    if (seen[static_cast<size_t>(instr)]) continue;
    seen[static_cast<size_t>(instr)] = true;
    found.push_back(instr);
    const std::vector<ValueId>& inputs = program_.instrs[static_cast<size_t>(instr)].inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void EvaluationPlan::run(int index, const Lookup& held, const Store& store) const {
  const GlobalInstr& instr = program_.instrs[static_cast<size_t>(index)];
  const auto input = [&](ValueId id) { return number(id) != nullptr ? number(id) : held(id); };
  if (instr.kind != GlobalKind::op) return store(instr.outputs[0], *input(instr.inputs[0]));
  OpCall call{&instr.attrs, {}};
  std::vector<const Tensor*> inputs;
  for (const ValueId id : instr.inputs) {
    TensorMeta& meta = call.inputs.emplace_back();
    meta.absent = id == kNoValue;
    if (!meta.absent) meta = {info(id).dtype, info(id).shape, info(id).weak, false};
    inputs.push_back(meta.absent ? nullptr : input(id));
  }
  try {
    std::vector<Tensor> outputs = run_once(ops_.at(instr.op), call, inputs);
    for (size_t o = 0; o < outputs.size(); ++o) {
      restore_overflows(outputs[o]);
      store(instr.outputs[o], std::move(outputs[o]));
    }
  } catch (const Error& error) {
    throw error.inside({"", "", instr.origin.line, instr.origin.column});
  }
}

Tensor EvaluationPlan::compute(ValueId target, const Lookup& held,
                               std::unordered_map<ValueId, Tensor>* made) const {
  std::unordered_map<ValueId, Tensor> own;
  std::unordered_map<ValueId, Tensor>& values = made != nullptr ? *made : own;
  const Lookup any = [&](ValueId id) -> const Tensor* {
    const auto found = values.find(id);
    return found == values.end() ? held(id) : &found->second;
  };
  const std::vector<int> instrs = needed({target}, [&](ValueId id) { return held(id) != nullptr; });
  for (const int instr : instrs)
    run(instr, any, [&](ValueId id, Tensor value) {
      if (held(id) == nullptr) values[id] = std::move(value);
    });
  const auto found = values.find(target);
  if (found != values.end()) return found->second;
  return number(target) != nullptr ? *number(target) : *held(target);
}

ReferenceRun::ReferenceRun(const EvaluationPlan& plan, std::vector<Tensor> inputs,
                           const std::vector<bool>& wanted, bool keeps_all)
    : plan_(plan),
      keeps_all_(keeps_all),
      uses_(plan.program().values.size(), 0),
      open_results_(plan.program().instrs.size(), 0),
      wanted_(wanted),
      held_(uses_.size(), false),
      closed_(uses_.size(), false) {
  const GlobalProgram& program = plan.program();
  SP_CHECK(inputs.size() == program.inputs.size(), "{} inputs for {}", inputs.size(),
           program.inputs.size());
  wanted_.resize(uses_.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i)
    entries_.insert_or_assign(program.inputs[i], std::move(inputs[i]));
  std::vector<ValueId> targets;
  for (size_t id = 0; id < wanted_.size(); ++id)
    if (wanted_[id]) targets.push_back(static_cast<ValueId>(id));
  const std::vector<int> needed = plan.needed(targets, [&](ValueId id) { return has(id); });
  for (const int instr : needed)
    for (const ValueId id : program.instrs[static_cast<size_t>(instr)].inputs)
      if (id != kNoValue) ++uses_[static_cast<size_t>(id)];
  for (const int instr : needed)
    for (const ValueId id : program.instrs[static_cast<size_t>(instr)].outputs)
      open_results_[static_cast<size_t>(instr)] += is_needed(id) ? 1 : 0;
}

bool ReferenceRun::is_needed(ValueId id) const {
  return uses_[static_cast<size_t>(id)] > 0 || wanted_[static_cast<size_t>(id)];
}

const Tensor* ReferenceRun::find(ValueId id) const {
  const auto known = entries_.find(id);
  return known != entries_.end() ? &known->second : plan_.number(id);
}

const Tensor& ReferenceRun::value(ValueId id) {
  if (held_[static_cast<size_t>(id)] || plan_.maker(id) < 0) {
    // A value that is judged again under another name is a line of its own.
    const bool wanted = wanted_[static_cast<size_t>(id)];
    wanted_[static_cast<size_t>(id)] = true;
    begin_line();
    wanted_[static_cast<size_t>(id)] = wanted;
    line_.clear();
    line_inputs_ = {id};
  } else {
    compute_line(id);
  }
  const Tensor* known = find(id);
  SP_CHECK(known != nullptr, "value {} was freed before it was judged", id);
  return *known;
}

void ReferenceRun::compute_line(ValueId id) {
  begin_line();
  line_ = plan_.needed({id}, [&](ValueId other) {
    return held_[static_cast<size_t>(other)] || plan_.maker(other) < 0;
  });
  line_inputs_.clear();
  std::vector<bool> made(held_.size(), false);
  for (const int instr : line_) {
    const GlobalInstr& action = plan_.program().instrs[static_cast<size_t>(instr)];
    for (const ValueId input : action.inputs)
      if (input != kNoValue && !made[static_cast<size_t>(input)] && !plan_.number(input))
        line_inputs_.push_back(input);
    for (const ValueId output : action.outputs)
      made[static_cast<size_t>(output)] = !held_[static_cast<size_t>(output)];
    run(instr);
  }
  std::sort(line_inputs_.begin(), line_inputs_.end());
  line_inputs_.erase(std::unique(line_inputs_.begin(), line_inputs_.end()), line_inputs_.end());
}

// Runs an instruction unless an earlier line did. Results that are held stay.
void ReferenceRun::run(int instr) {
  const std::vector<ValueId>& outputs = plan_.program().instrs[static_cast<size_t>(instr)].outputs;
  const auto is_missing = [&](ValueId id) {
    return !has(id) && !held_[static_cast<size_t>(id)] && (keeps_all_ || is_needed(id));
  };
  if (std::none_of(outputs.begin(), outputs.end(), is_missing)) return;
  plan_.run(
      instr, [&](ValueId id) { return find(id); },
      [&](ValueId id, Tensor value) {
        if (is_missing(id)) entries_.emplace(id, std::move(value));
      });
}

void ReferenceRun::begin_line() {
  for (const ValueId id : std::exchange(to_close_, {})) close(id);
}

void ReferenceRun::close(ValueId id) {
  // An input of the program may be judged again under another name.
  if (plan_.maker(id) >= 0) free(id);
  std::vector<ValueId> open = {id};
  while (!open.empty()) {
    const auto value = static_cast<size_t>(open.back());
    const int maker = plan_.maker(open.back());
    open.pop_back();
    if (closed_[value]) continue;
    closed_[value] = true;
    if (maker < 0) continue;
    int& results = open_results_[static_cast<size_t>(maker)];
    if (results == 0 || --results > 0) continue;
    for (const ValueId input : plan_.program().instrs[static_cast<size_t>(maker)].inputs) {
      if (input == kNoValue || --uses_[static_cast<size_t>(input)] > 0) continue;
      free(input);
      if (!wanted_[static_cast<size_t>(input)]) open.push_back(input);
    }
  }
}

// Frees a value that nothing will read.
void ReferenceRun::free(ValueId id) {
  if (!keeps_all_ && !is_needed(id)) entries_.erase(id);
}

std::optional<ValueId> ReferenceRun::copied_by(ValueId id) const {
  const int maker = plan_.maker(id);
  if (maker < 0) return std::nullopt;
  const GlobalInstr& instr = plan_.program().instrs[static_cast<size_t>(maker)];
  if (instr.outputs.size() != 1) return std::nullopt;
  ValueId source = kNoValue;
  for (const ValueId input : instr.inputs) {
    if (input == kNoValue || plan_.number(input) != nullptr) continue;
    if (source != kNoValue) return std::nullopt;
    source = input;
  }
  // An input of the program keeps the value that the scenario gives, even if a copy of it differs.
  if (source == kNoValue || held_[static_cast<size_t>(source)] || plan_.maker(source) < 0)
    return std::nullopt;
  if (instr.kind != GlobalKind::op) return source;
  if (!has(source) || !has(id)) return std::nullopt;
  const Tensor &from = entries_.at(source), &to = entries_.at(id);
  if (from.dtype != to.dtype || !bit_equal(from, 0, to, 0)) return std::nullopt;
  return is_identity(plan_, source, id) ? std::optional<ValueId>(source) : std::nullopt;
}

std::vector<ValueId> ReferenceRun::hold(ValueId id, const Tensor& value) {
  std::vector<ValueId> held{id};
  // Nothing reads a source without a value any more.
  for (std::optional<ValueId> source = copied_by(id); source && has(*source);
       source = copied_by(*source))
    held.push_back(*source);
  for (const ValueId one : held) {
    entries_.insert_or_assign(one, value);
    held_[static_cast<size_t>(one)] = true;
    to_close_.push_back(one);
  }
  wanted_[static_cast<size_t>(id)] = false;
  forget_shared(held);
  return held;
}

// Drops what may be computed from values that have just been held: results of later instructions.
void ReferenceRun::forget_shared(const std::vector<ValueId>& held) {
  int first = std::numeric_limits<int>::max();
  for (const ValueId id : held) first = std::min(first, plan_.maker(id));
  for (auto& [key, shared] : shared_)
    std::erase_if(shared, [&](const auto& entry) {
      return plan_.maker(entry.first) > first || held_[static_cast<size_t>(entry.first)];
    });
}

ReferenceRun ReferenceRun::line_alone() const {
  ReferenceRun alone(plan_);
  for (const ValueId input : line_inputs_) alone.entries_.emplace(input, *find(input));
  alone.line_ = line_;
  alone.line_inputs_ = line_inputs_;
  return alone;
}

Tensor ReferenceRun::again(ValueId id, const EvaluationPlan& plan, const InputChange& change,
                           const std::map<ValueId, Tensor>& fixed) const {
  std::map<ValueId, Tensor> known_values = fixed;
  for (const ValueId input : line_inputs_) {
    const Tensor* known = find(input);
    SP_CHECK(known != nullptr, "input {} of the line was freed", input);
    Tensor own = as_dtype(*known, plan.info(input).dtype);
    known_values.emplace(input, change ? change(input, own) : std::move(own));
  }
  return plan.compute(id, [&](ValueId other) -> const Tensor* {
    const auto found = known_values.find(other);
    return found == known_values.end() ? nullptr : &found->second;
  });
}

bool ReferenceRun::is_line_input(ValueId id) const {
  return std::binary_search(line_inputs_.begin(), line_inputs_.end(), id);
}

// Keeps those values of the line that instructions outside of it read. The form of the program in
// other dtypes ends with values of its own, such as casts, which no other line reads.
void ReferenceRun::share(const Shared& made, Shared& shared) const {
  std::unordered_map<ValueId, int> uses;  // by value, those of instructions of the line
  for (const int instr : line_)
    for (const ValueId input : plan_.program().instrs[static_cast<size_t>(instr)].inputs)
      if (input != kNoValue && !is_line_input(input)) ++uses[input];
  const auto is_read_later = [&](ValueId id, int in_line) {
    return static_cast<size_t>(id) < uses_.size() && uses_[static_cast<size_t>(id)] > in_line;
  };
  for (const auto& [id, in_line] : uses)
    if (!is_read_later(id, in_line)) shared.erase(id);
  for (const auto& [id, value] : made) {
    const auto found = uses.find(id);
    if (is_read_later(id, found == uses.end() ? 0 : found->second)) shared.emplace(id, value);
  }
}

Tensor ReferenceRun::again(ValueId id, const EvaluationPlan& plan, const InputChange& change,
                           LineArithmetic arithmetic) const {
  Shared& shared = shared_[{&plan, arithmetic}];
  Shared inputs, made;
  const auto held = [&](ValueId other) -> const Tensor* {
    if (is_line_input(other)) {
      const auto known = inputs.find(other);
      if (known != inputs.end()) return &known->second;
      const Tensor* given = find(other);
      SP_CHECK(given != nullptr, "input {} of the line was freed", other);
      Tensor own = as_dtype(*given, plan.info(other).dtype);
      return &inputs.emplace(other, change ? change(other, own) : std::move(own)).first->second;
    }
    const auto found = shared.find(other);
    return found == shared.end() ? nullptr : &found->second;
  };
  Tensor result = plan.compute(id, held, &made);
  share(made, shared);
  return result;
}

}  // namespace shardproof
