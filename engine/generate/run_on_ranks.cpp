// Implements run_on_ranks.h: lower or partition, run on simulated ranks, assemble what they hold,
// and run the same listing on one device.
#include "shardproof/engine/generate/run_on_ranks.h"

#include <map>

#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

std::vector<HeldValue> run_global(const Job& job, const Registries& registries) {
  const GlobalProgram program = lower_one_device(job, registries.ops);
  const std::vector<Tensor> one = run_one_device(program, registries.ops, input_tensors(job));
  const Partitioned parts = partition(program, job, registries.ops);
  std::map<ValueId, LocalTensor> held;
  const auto make_probe = [&]() -> ProbeFunction {
    held.clear();
    return [&](ValueId id, const LocalTensor& value) {
      // Each call has the ranks of one cohort.
      const auto [found, added] = held.try_emplace(id, value);
      if (!added) found->second = found->second.merged_with(value);
    };
  };
  const ValueFilter watched{[](ValueId) { return true; }, {}};
  run_program(parts.program, job, registries, watched, make_probe);
  std::vector<HeldValue> values;
  for (size_t id = 0; id < program.values.size(); ++id) {
    const GlobalValue& value = program.values[id];
    const auto found = held.find(parts.placed[id]);
    if (value.name.empty() || found == held.end()) continue;
    const std::optional<Spec>& spec = parts.program.values[static_cast<size_t>(found->first)].spec;
    if (spec)
      values.push_back({value.name, value.origin.line, assemble(found->second, *spec), one[id]});
  }
  return values;
}

std::vector<HeldValue> run_ranks(const Job& job, const Registries& registries) {
  const GlobalProgram program = lower_one_device(job, registries.ops);
  const std::vector<Tensor> one = run_one_device(program, registries.ops, input_tensors(job));
  const RankProgram ranks = lower_ranks(job, registries.ops);
  ValueFilter watched;
  for (const JobOutput& output : job.outputs)
    for (const NamedPart& part : ranks.names.at(output.name)) watched.at_end.push_back(part.value);
  const ProgramRun run =
      run_program(ranks.program, job, registries, watched, [] { return ProbeFunction{}; });
  std::vector<HeldValue> values;
  for (const JobOutput& output : job.outputs) {
    const std::vector<NamedPart>& parts = ranks.names.at(output.name);
    LocalTensor held = run.value(parts.front().value).restrict_to(parts.front().lanes);
    for (const NamedPart& part : parts)
      held = held.merged_with(run.value(part.value).restrict_to(part.lanes));
    const Tensor& truth = one[static_cast<size_t>(program.names.at(output.name))];
    const Spec spec =
        Spec::parse(output.placements, job.meshes[0].second, truth.shape, truth.dtype);
    values.push_back({output.name, parts.front().line, assemble(held, spec), truth});
  }
  return values;
}

}  // namespace

std::vector<HeldValue> run_on_ranks(const Job& job, const Registries& registries) {
  return job.program ? run_global(job, registries) : run_ranks(job, registries);
}

}  // namespace shardproof
