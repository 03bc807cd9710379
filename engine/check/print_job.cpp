// Implements print_job.h.
#include "shardproof/engine/check/print_job.h"

#include "shardproof/engine/judging/judged_program.h"
#include "shardproof/program/ir/global_text.h"

namespace shardproof {
namespace {

Lanes lanes_of(const SpmdValue& value) {
  Lanes lanes;
  for (const LocalShape& local : value.shapes) lanes = lanes.unite(local.lanes);
  return lanes;
}

std::set<std::string> names_of_job(const Job& job) {
  std::set<std::string> names;
  for (const auto& [key, mesh] : job.meshes) {
    names.insert(key);
    for (const MeshAxis& axis : mesh.axes()) names.insert(axis.name);
  }
  for (const auto& [name, number] : job.numbers) names.insert(name);
  return names;
}

void print_global(const Job& job, const Registries& registries, PrintedJob& printed,
                  RankTextOptions& options) {
  const GlobalProgram global =
      lower_global(*job.program, context_of(job, registries.ops), "/program");
  Partitioned parts = partition(global, job, registries.ops, partition_options(job));
  const auto placed = [&](ValueId id) -> const SpmdValue* {
    const ValueId at = parts.placed[static_cast<size_t>(id)];
    return at == kNoValue ? nullptr : &parts.program.values[static_cast<size_t>(at)];
  };
  GlobalTextOptions text;
  text.reserved = names_of_job(job);
  text.remark = [&](ValueId id) {
    const SpmdValue* value = placed(id);
    return value == nullptr ? "" : value_remark(*value, lanes_of(*value));
  };
  printed.global = global_text(global, text);
  for (const auto& [name, id] : global.names)
    if (const SpmdValue* value = placed(id))
      options.at_end.insert_or_assign(
          options.at_end.end(), name,
          NamesAtEnd::mapped_type{{lanes_of(*value), parts.placed[static_cast<size_t>(id)]}});
  printed.program = std::move(parts.program);
  printed.unwritten = std::move(parts.unwritten);
}

}  // namespace

PrintedJob print_job(const Job& job, const Registries& registries) {
  PrintedJob printed;
  RankTextOptions options;
  options.meshes = job.meshes;
  for (const auto& [name, number] : job.numbers) options.reserved.insert(name);
  if (job.program) {
    print_global(job, registries, printed, options);
  } else {
    RankProgram ranks = lower_ranks(job, registries.ops);
    for (const auto& [name, parts] : ranks.names)
      for (const NamedPart& part : parts) options.at_end[name].emplace_back(part.lanes, part.value);
    printed.program = std::move(ranks.program);
  }
  printed.ranks = rank_texts(printed.program, options);
  printed.at_end = std::move(options.at_end);
  return printed;
}

Job job_of_printed(const Job& job, const PrintedJob& printed) {
  Job again = job;
  again.program.reset();
  again.ranks.clear();
  for (const RankText& text : printed.ranks)
    again.ranks.push_back(
        {text.lanes, parse_listing(with_remarks(text.lines)), "/ranks/" + to_string(text.lanes)});
  return again;
}

}  // namespace shardproof
