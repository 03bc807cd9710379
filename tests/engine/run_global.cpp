#include "shardproof/tests/engine/run_global.h"

#include <algorithm>
#include <optional>

#include "shardproof/engine/collector.h"
#include "shardproof/engine/input_bounds.h"
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
};

OneOp one_op(const OpRecord& record, const Attrs& attrs, const std::vector<GlobalInput>& inputs,
             const Mesh& mesh) {
  OneOp one;
  one.job.world = mesh.size();
  one.job.meshes = {{"", mesh}};
  one.program.lines = {record.name};
  GlobalInstr instr;
  instr.op = record.name;
  instr.attrs = attrs;
  instr.origin = {1, 1, ""};
  OpCall call{&attrs, {}};
  for (const GlobalInput& input : inputs) {
    call.inputs.push_back(input.meta);
    if (input.meta.absent) {
      instr.inputs.push_back(kNoValue);
      continue;
    }
    const auto id = static_cast<ValueId>(one.program.values.size());
    GlobalValue value;
    value.dtype = input.meta.dtype;
    value.shape = input.meta.shape;
    value.weak = input.meta.weak;
    if (value.weak) {
      const double number = values_of(input.data).at(0);
      value.number =
          is_floating(value.dtype) ? Number(number) : Number(static_cast<int64_t>(number));
    } else {
      value.name = fmt::format("x{}", id);
      one.program.inputs.push_back(id);
      one.job.inputs.push_back(
          {value.name, input.spec, mesh.ranks(), input.data, Category::activations});
      one.data.push_back(input.data);
    }
    instr.inputs.push_back(id);
    one.program.values.push_back(value);
  }
  for (const TensorMeta& meta : record.infer(call)) {
    const auto id = static_cast<ValueId>(one.program.values.size());
    GlobalValue value;
    value.name = fmt::format("y{}", instr.outputs.size());
    value.dtype = meta.dtype;
    value.shape = meta.shape;
    value.origin = instr.origin;
    one.program.names[value.name] = id;
    one.program.values.push_back(value);
    instr.outputs.push_back(id);
  }
  one.program.instrs.push_back(instr);
  return one;
}

void note_forms(const SpmdProgram& program, const std::string& op, GlobalRun& run) {
  bool itself = false;
  for (const Instr& instr : program.listings.at(0).instrs) {
    const Compute* compute = std::get_if<Compute>(&instr.action);
    if (!compute || compute->op != op) continue;
    itself = true;
    run.forms.emplace_back(compute->attrs.size() > 1       ? "attrs"
                           : !compute->input_specs.empty() ? "shard"
                                                           : "same");
  }
  if (!itself) run.forms.emplace_back("lower");
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

GlobalRun run_one_op(const OpRecord& record, const Attrs& attrs,
                     const std::vector<GlobalInput>& inputs, const Mesh& mesh) {
  const Registries& all = builtin_registries();
  const OneOp one = one_op(record, attrs, inputs, mesh);
  const Partitioned parts = partition(one.program, one.job, all.ops);
  Truth truth(one.program, all.ops, one.data, std::max<int64_t>(mesh.size(), 1),
              input_bounds(one.job));
  std::set<ValueId> keep;
  for (const ValueId id : one.program.instrs[0].outputs)
    if (parts.placed[static_cast<size_t>(id)] != kNoValue)
      keep.insert(parts.placed[static_cast<size_t>(id)]);
  std::optional<Collector> collector;
  const auto probe = [&]() -> ProbeFunction {
    collector.emplace(parts.program, &truth, keep);
    return [&](ValueId id, const LocalTensor& value) { collector->made(id, value); };
  };
  ProgramRun ran = run_program(parts.program, one.job, all, probe);
  GlobalRun run;
  run.calls = ran.outcome.calls;
  note_forms(parts.program, record.name, run);
  if (!ran.outcome.findings.empty()) run.trouble = to_string(ran.outcome.findings[0]);
  if (run.trouble.empty()) compare_all(*collector, parts.program, run);
  for (const ValueId global : one.program.instrs[0].outputs) {
    run.exact = run.exact && truth.bound(global).exact;
    const ValueId id = parts.placed[static_cast<size_t>(global)];
    const LocalTensor kept = id == kNoValue ? LocalTensor() : collector->kept(id);
    if (kept.empty()) {
      if (run.trouble.empty()) run.trouble = "an output was never made";
      continue;
    }
    const Spec& spec = *parts.program.values[static_cast<size_t>(id)].spec;
    run.output_specs.push_back(spec);
    run.outputs.push_back(assemble(kept, spec));
  }
  return run;
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
