// Implements run_global.h: builds the GlobalProgram, partitions and executes it. Then it compares
// each value with one device that computes the line from the values of the ranks.
#include "shardproof/tests/engine/run_global.h"

#include <algorithm>
#include <map>
#include <optional>

#include "shardproof/engine/compare/compare.h"
#include "shardproof/engine/compare/value_comparer.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/engine/reference/f64_job.h"
#include "shardproof/engine/reference/f64_program.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/tests/ops/agreement.h"

namespace shardproof::testing {
namespace {

struct OneOp {
  GlobalProgram program;
  Job job;
  std::vector<ValueId> outputs;
};

ValueId add_value(GlobalProgram& program, const TensorMeta& meta) {
  GlobalValue value;
  value.dtype = meta.dtype;
  value.shape = meta.shape;
  value.weak = meta.weak;
  value.origin = {1, 1, ""};
  program.values.push_back(std::move(value));
  return static_cast<ValueId>(program.values.size() - 1);
}

// Appends an op, or the ops of its decomposition, to a program. Handles are value ids; those of the
// inputs are indices into `inputs`.
class ProgramWriter : public OpBuilder {
 public:
  ProgramWriter(GlobalProgram& program, std::vector<ValueId> inputs)
      : program_(program), inputs_(std::move(inputs)) {}
  int input(int i) override { return inputs_[static_cast<size_t>(i)]; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    const OpRecord& record = builtin_registries().ops.at(name);
    record.fill_fallbacks(attrs);
    return write(record, attrs, std::move(inputs));
  }
  int number(Number value) override {
    const DType dtype = value.is_double() ? DType::f64 : DType::i64;
    const ValueId id = add_value(program_, {dtype, {}, true, false});
    program_.values[static_cast<size_t>(id)].number = std::move(value);
    return id;
  }
  const TensorMeta& meta(int value) override {
    const GlobalValue& known = program_.values[static_cast<size_t>(value)];
    return metas_[value] = TensorMeta{known.dtype, known.shape, known.weak, false};
  }
  std::vector<int> write(const OpRecord& record, const Attrs& attrs, std::vector<ValueId> inputs) {
    OpCall call{&attrs, {}};
    for (const ValueId id : inputs)
      call.inputs.push_back(id == kNoValue ? TensorMeta{DType::f32, {}, false, true} : meta(id));
    if (record.is_composite(call)) {
      ProgramWriter inner(program_, std::move(inputs));
      return record.expand(call, inner);
    }
    GlobalInstr instr;
    instr.op = record.name;
    instr.attrs = attrs;
    instr.origin = {1, 1, ""};
    instr.inputs = std::move(inputs);
    for (const TensorMeta& meta : record.infer(call))
      instr.outputs.push_back(add_value(program_, meta));
    program_.instrs.push_back(instr);
    return instr.outputs;
  }

 private:
  GlobalProgram& program_;
  std::vector<ValueId> inputs_;
  std::map<int, TensorMeta> metas_;  // a map, because meta() returns references
};

OneOp one_op(const OpRecord& record, const Attrs& attrs, const std::vector<GlobalInput>& inputs,
             const Mesh& mesh) {
  OneOp one;
  one.job.world = mesh.size();
  one.job.meshes = {{"", mesh}};
  one.program.lines = {record.name};
  std::vector<ValueId> given;
  for (const GlobalInput& input : inputs) {
    given.push_back(input.meta.absent ? kNoValue : add_value(one.program, input.meta));
    if (input.meta.absent) continue;
    GlobalValue& value = one.program.values.back();
    value.origin = {};
    if (value.weak) {
      const double number = values_of(input.data).at(0);
      value.number =
          is_floating(value.dtype) ? Number(number) : Number(static_cast<int64_t>(number));
    } else {
      value.name = fmt::format("x{}", given.back());
      one.program.inputs.push_back(given.back());
      one.job.inputs.push_back(
          {value.name, input.spec, mesh.ranks(), input.data, Category::activations});
    }
  }
  one.outputs = ProgramWriter(one.program, {}).write(record, attrs, std::move(given));
  for (size_t i = 0; i < one.outputs.size(); ++i) {
    GlobalValue& value = one.program.values[static_cast<size_t>(one.outputs[i])];
    if (value.name.empty()) value.name = fmt::format("y{}", i);
    one.program.names[value.name] = one.outputs[i];
  }
  return one;
}

// A lowered op has other ops in its place, one of which may have its name.
void note_forms(const SpmdProgram& program, const OneOp& one, const std::string& op,
                GlobalRun& run) {
  std::optional<std::string> form;
  for (const Instr& instr : program.listings.at(0).instrs) {
    const Compute* compute = std::get_if<Compute>(&instr.action);
    if (!compute) continue;
    const bool own_attrs =
        compute->attrs.size() > 1 || !(compute->attrs[0].attrs == one.program.instrs[0].attrs);
    if (compute->op != op || form)
      form = "lower";
    else
      form = own_attrs ? "attrs" : !compute->input_specs().empty() ? "shard" : "same";
  }
  run.forms.push_back(form.value_or("lower"));
}

// Compares each value with what one device computes from the values that the ranks hold.
class Comparison : public Judge {
 public:
  Comparison(const OneOp& one) : one_(one) {}

  void restart() override {
    parts_.clear();
    error_.clear();
    compared_ = 0;
  }
  Judgement judge(const ComparedValue& value, ReferenceRun& reference) override {
    ++compared_;
    const Tensor want = reference.value(value.global);
    const double largest_part = largest_number(value.value);
    std::string error = difference(assemble(value.value, value.spec), want,
                                   room_for(value, want, largest_part, reference));
    if (value.spec.has_partial()) parts_[value.global] = {value.spec.dtype(), largest_part};
    if (compare_replicas(value.value, value.spec)) error = "replicas differ";
    if (!error.empty() && error_.empty())
      error_ = fmt::format("{} {}: {}", value.label.name, to_string(value.spec), error);
    return error.empty() ? Judgement::right : Judgement::wrong;
  }

  int64_t compared() const { return compared_; }
  const std::string& error() const { return error_; }

 private:
  struct Parts {
    DType dtype = DType::f32;
    double largest = 0;
  };

  // Partial sums that the line reads are rounded to their own dtype before one device reads them.
  std::function<double(size_t)> room_for(const ComparedValue& value, const Tensor& want,
                                         double largest_part, const ReferenceRun& reference) const {
    double terms = std::max(largest_number(want), largest_part), room = 0;
    std::vector<Parts> read;
    for (const ValueId id : reference.line_inputs())
      if (const std::optional<Parts> parts = parts_of(id)) read.push_back(*parts);
    for (const Parts& parts : read) terms = std::max(terms, parts.largest);
    const bool rounds = is_floating(want.dtype) || is_complex(want.dtype);
    for (const Parts& parts : read)
      if (rounds) room = std::max(room, room_in(parts.dtype, terms));
    room = std::max(room, room_in(value.spec.dtype(), terms));
    return [room](size_t) { return room; };
  }

  std::optional<Parts> parts_of(ValueId id) const {
    if (const auto found = parts_.find(id); found != parts_.end()) return found->second;
    const std::vector<ValueId>& inputs = one_.program.inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), id);
    if (at == inputs.end()) return std::nullopt;
    const JobInput& input = one_.job.inputs[static_cast<size_t>(at - inputs.begin())];
    if (!input.spec.has_partial()) return std::nullopt;
    return Parts{input.spec.dtype(),
                 largest_number(split(input.data, input.spec, PartialFill::exact, one_.job.seed))};
  }

  const OneOp& one_;
  std::map<ValueId, Parts> parts_;  // of values placed as partial sums
  std::string error_;
  int64_t compared_ = 0;
};

// The values that equal one of the global program, in program order.
std::vector<ValueId> values_to_compare(const Partitioned& parts, const EvaluationPlan& plan) {
  const SpmdValues& values = parts.program.values;
  const std::vector<ValueId>& inputs = parts.program.inputs;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].global != kNoValue && values[i].spec &&
        std::find(inputs.begin(), inputs.end(), static_cast<ValueId>(i)) == inputs.end())
      ids.push_back(static_cast<ValueId>(i));
  const auto maker = [&](ValueId id) { return plan.maker(values[static_cast<size_t>(id)].global); };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](ValueId a, ValueId b) { return maker(a) < maker(b); });
  return ids;
}

}  // namespace

const Registries& builtin_registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

int64_t GlobalRun::calls_of(const std::string& kind) const {
  int64_t most = 0;
  for (const CallCount& call : calls)
    if (call.kind == kind) most = std::max(most, call.count);
  return most;
}

int64_t GlobalRun::all_calls() const {
  int64_t sum = 0;
  for (const CallCount& call : calls) sum += call.count;
  return sum;
}

namespace {

void add_output(const OneOp& one, ValueId global, const SpmdValue& value, const LocalTensor& kept,
                GlobalRun& run) {
  run.output_specs.push_back(*value.spec);
  run.outputs.push_back(assemble(kept, *value.spec));
  const DType wanted = one.program.values[static_cast<size_t>(global)].dtype;
  if (run.error.empty() && run.outputs.back().dtype != wanted)
    run.error =
        fmt::format("an output is {}, not {}", name(run.outputs.back().dtype), name(wanted));
}

GlobalRun run_as_written(const OneOp& one, const std::string& op) {
  const Registries& all = builtin_registries();
  const Partitioned parts = partition(one.program, one.job, all.ops);
  const EvaluationPlan plan(one.program, all.ops);
  std::vector<Tensor> data;
  for (const JobInput& input : one.job.inputs) data.push_back(input.data);
  ValueComparer::Options options{values_to_compare(parts, plan), {}, nullptr};
  std::vector<bool> wanted(one.program.values.size(), false);
  for (const ValueId id : options.compared)
    wanted[static_cast<size_t>(parts.program.values[static_cast<size_t>(id)].global)] = true;
  for (const ValueId global : one.outputs)
    if (const ValueId id = parts.placed[static_cast<size_t>(global)]; id != kNoValue)
      options.kept.insert(id);
  Comparison comparison(one);
  std::optional<ReferenceRun> reference;
  std::optional<ValueComparer> comparer;
  const auto probe = [&]() -> ProbeFunction {
    comparison.restart();
    comparer.reset();
    reference.emplace(plan, data, wanted);
    comparer.emplace(parts.program, one.program.lines, options, *reference, comparison);
    return [&](ValueId id, const LocalTensor& value) { comparer->made(id, value); };
  };
  const ValueFilter watched{[&](ValueId id) { return comparer->compares(id); }, {}};
  const ProgramRun ran = run_program(parts.program, one.job, all, watched, probe);
  comparer->finish();
  GlobalRun run;
  run.calls = ran.outcome.calls;
  note_forms(parts.program, one, op, run);
  run.values_compared = comparison.compared();
  run.error =
      ran.outcome.findings.empty() ? comparison.error() : to_string(ran.outcome.findings[0]);
  for (const ValueId global : one.outputs) {
    const ValueId id = parts.placed[static_cast<size_t>(global)];
    const LocalTensor kept = id == kNoValue ? LocalTensor() : comparer->kept(id);
    if (!kept.empty())
      add_output(one, global, parts.program.values[static_cast<size_t>(id)], kept, run);
    else if (run.error.empty())
      run.error = "an output was never made";
  }
  return run;
}

bool has_narrow_floats(const GlobalProgram& program) {
  return std::any_of(program.values.begin(), program.values.end(), [](const GlobalValue& value) {
    const bool floats = is_floating(value.dtype) || is_complex(value.dtype);
    return floats && value.dtype != DType::f64 && value.dtype != DType::c128;
  });
}

GlobalRun run_all(const OneOp& one, const std::string& op) {
  GlobalRun run = run_as_written(one, op);
  if (!run.error.empty() || !has_narrow_floats(one.program)) return run;
  OneOp wide = one;
  widen_floats(wide.program, builtin_registries().ops);
  wide.job = with_wider_floats(one.job);
  if (const GlobalRun in_f64 = run_as_written(wide, op); !in_f64.error.empty())
    run.error = "in f64: " + in_f64.error;
  return run;
}

}  // namespace

GlobalRun run_one_op(const OpRecord& record, const Attrs& attrs,
                     const std::vector<GlobalInput>& inputs, const Mesh& mesh) {
  return run_all(one_op(record, attrs, inputs, mesh), record.name);
}

GlobalRun run_lines(const Job& job) {
  GlobalContext context;
  context.ops = &builtin_registries().ops;
  OneOp one;
  for (const JobInput& input : job.inputs) {
    context.inputs.emplace_back(input.name, TensorMeta{input.spec.dtype(), input.spec.shape()});
  }
  one.program = lower_global(*job.program, context, "/program");
  one.job = job;
  for (int i = 0; one.program.names.contains(fmt::format("y{}", i)); ++i)
    one.outputs.push_back(one.program.names.at(fmt::format("y{}", i)));
  return run_all(one, "");
}

Job job_of(const std::string& mesh, const std::vector<std::string>& program) {
  Job job;
  job.meshes = {{"", Mesh::parse(mesh)}};
  job.world = job.meshes[0].second.size();
  if (!program.empty()) job.program = parse_listing(program);
  return job;
}

void add_input(Job& job, const std::string& name, const Dims& shape, const std::string& placements,
               DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(dtype == DType::boolean
                         ? static_cast<double>((i + name[0]) % 2)
                         : static_cast<double>((7 * i + 3 * name[0] + i * i % 5) % 9 - 4));
  const Mesh& mesh = job.meshes.at(0).second;
  const Spec spec = placements.empty() ? Spec::replicated(mesh, shape, dtype)
                                       : Spec::parse(placements, mesh, shape, dtype);
  job.inputs.push_back(
      {name, spec, mesh.ranks(), tensor_of(dtype, shape, values), Category::activations});
}

void add_ranks(Job& job, const std::string& path, const Lanes& lanes,
               const std::vector<std::string>& lines) {
  job.ranks.push_back({lanes, parse_listing(lines), "/ranks/" + path});
}

}  // namespace shardproof::testing
