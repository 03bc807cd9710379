#include "shardproof/tests/engine/run_global.h"

#include <algorithm>
#include <map>
#include <optional>

#include "shardproof/engine/collector.h"
#include "shardproof/engine/global_lowering.h"
#include "shardproof/engine/input_bounds.h"
#include "shardproof/engine/part_bounds.h"
#include "shardproof/engine/partition.h"
#include "shardproof/engine/run_program.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/split.h"

namespace shardproof::testing {
namespace {

struct OneOp {
  GlobalProgram program;
  Job job;
  std::vector<Tensor> data;
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

// Writes an op, or the ops that it is a name for, at the end of a program. Handles are value ids;
// those of the inputs are indices into `inputs`.
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
    if (record.is_written_as_others(call)) {
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
  std::map<int, TensorMeta> metas_;  // references to metas are handed out
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
      one.data.push_back(input.data);
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

// An op that was lowered has left other ops in its place, of which one may have its name.
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
      form = own_attrs ? "attrs" : !compute->input_specs.empty() ? "shard" : "same";
  }
  run.forms.push_back(form.value_or("lower"));
}

void compare_all(const Collector& collector, const SpmdProgram& program, GlobalRun& run) {
  run.values_compared = collector.compared();
  if (!collector.differences().empty()) {
    const auto& [id, d] = *collector.differences().begin();
    const SpmdValue& value = program.values[static_cast<size_t>(id)];
    run.trouble = fmt::format("{} {}: element {} is {}, expected {}; {} wrong on ranks {}",
                              value.name, to_string(*value.spec), d.first, d.got, d.expected,
                              d.elements, to_string(d.ranks));
  } else if (!collector.replicas().empty()) {
    const auto& [id, d] = *collector.replicas().begin();
    const SpmdValue& value = program.values[static_cast<size_t>(id)];
    run.trouble = fmt::format("{} {}: replicas {} and {} differ", value.name,
                              to_string(*value.spec), d.first, d.other);
  }
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

GlobalRun run_all(const OneOp& one, const std::string& op) {
  const Registries& all = builtin_registries();
  const Partitioned parts = partition(one.program, one.job, all.ops);
  Truth truth(one.program, all.ops, one.data, std::max<int64_t>(one.job.world, 1),
              input_bounds(one.job), values_in_parts(one.program, parts));
  std::set<ValueId> keep;
  for (const ValueId id : one.outputs)
    if (parts.placed[static_cast<size_t>(id)] != kNoValue)
      keep.insert(parts.placed[static_cast<size_t>(id)]);
  std::optional<Collector> collector;
  const auto probe = [&]() -> ProbeFunction {
    collector.emplace(parts.program, &truth, CollectorOptions{keep, {}, false});
    return [&](ValueId id, const LocalTensor& value) { collector->made(id, value); };
  };
  const Watched watched{[&](ValueId id) { return collector->wants(id); }, {}};
  ProgramRun ran = run_program(parts.program, one.job, all, watched, probe);
  GlobalRun run;
  run.calls = ran.outcome.calls;
  note_forms(parts.program, one, op, run);
  if (!ran.outcome.findings.empty()) run.trouble = to_string(ran.outcome.findings[0]);
  if (run.trouble.empty()) compare_all(*collector, parts.program, run);
  for (const ValueId global : one.outputs) {
    run.exact = run.exact && truth.bound(global).exact;
    run.bounds.push_back(truth.bound(global));
    const ValueId id = parts.placed[static_cast<size_t>(global)];
    const LocalTensor kept = id == kNoValue ? LocalTensor() : collector->kept(id);
    if (kept.empty()) {
      if (run.trouble.empty()) run.trouble = "an output was never made";
      continue;
    }
    const Spec& spec = *parts.program.values[static_cast<size_t>(id)].spec;
    run.output_specs.push_back(spec);
    run.outputs.push_back(assemble(kept, spec));
    const DType wanted = one.program.values[static_cast<size_t>(global)].dtype;
    if (run.trouble.empty() && run.outputs.back().dtype != wanted)
      run.trouble =
          fmt::format("an output is {}, not {}", name(run.outputs.back().dtype), name(wanted));
  }
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
    one.data.push_back(input.data);
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
