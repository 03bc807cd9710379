// Implements owners_text.h.
#include "shardproof/cli/commands/owners_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/printed_line.h"

namespace shardproof {
namespace {

constexpr size_t kMostRuns = 4;  // of a dim; more are counted

std::string runs_text(const Runs& runs) {
  if (runs.empty()) return "none";
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(runs.size(), kMostRuns); ++i)
    parts.push_back(fmt::format("{}:{}", runs[i].start, runs[i].start + runs[i].length));
  std::string text = fmt::format("{}", fmt::join(parts, "+"));
  if (runs.size() > kMostRuns) text += fmt::format("+{} more", runs.size() - kMostRuns);
  return text;
}

std::vector<std::pair<Lanes, ValueId>> parts_of(const std::string& name,
                                                const PrintedJob& printed) {
  const auto found = printed.at_end.find(name);
  if (found != printed.at_end.end()) return found->second;
  NearestName nearest(name);
  for (const auto& [known, parts] : printed.at_end) nearest.offer(known);
  throw_bad_input("--owners: the program has no value {}{}", name, nearest.hint());
}

// Returns the declared spec of an output; shape and dtype are those of the truth.
std::optional<Spec> declared_spec(const std::string& name, const Job& job,
                                  const Registries& registries) {
  const auto output = std::find_if(job.outputs.begin(), job.outputs.end(),
                                   [&](const JobOutput& one) { return one.name == name; });
  if (output == job.outputs.end() || !job.truth) return std::nullopt;
  const GlobalProgram truth = lower_global(*job.truth, context_of(job, registries.ops), "/truth");
  const auto value = truth.names.find(name);
  if (value == truth.names.end()) return std::nullopt;
  const GlobalValue& global = truth.values[static_cast<size_t>(value->second)];
  for (const auto& [key, mesh] : job.meshes)
    if (key == output->mesh)
      return Spec::parse(output->placements, mesh, global.shape, global.dtype);
  return std::nullopt;
}

}  // namespace

std::optional<Spec> spec_of_name(const std::string& name, const Job& job, const PrintedJob& printed,
                                 const Registries& registries) {
  const std::vector<std::pair<Lanes, ValueId>> parts = parts_of(name, printed);
  if (std::optional<Spec> declared = declared_spec(name, job, registries)) return declared;
  std::optional<Spec> spec;
  for (const auto& [lanes, id] : parts) {
    const std::optional<Spec>& own = printed.program.values[static_cast<size_t>(id)].spec;
    if (!own || (spec && !(*spec == *own))) return std::nullopt;
    spec = own;
  }
  return spec;
}

std::string owners_text(const std::string& name, const Spec& spec) {
  std::vector<std::pair<std::vector<Runs>, std::vector<int32_t>>> parts;
  std::map<std::string, size_t> known;
  const Lanes ranks = spec.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i) {
    std::vector<Runs> owned;
    std::string key;
    for (int dim = 0; dim < spec.shape().size(); ++dim) {
      owned.push_back(spec.owned(ranks[i], dim));
      for (const Run& run : owned.back()) key += fmt::format("{}:{} ", run.start, run.length);
      key += "/";
    }
    const auto [at, fresh] = known.emplace(key, parts.size());
    if (fresh) parts.push_back({std::move(owned), {}});
    parts[at->second].second.push_back(ranks[i]);
  }
  std::string out = fmt::format("{}  {} {}  {}\n", name, shardproof::name(spec.dtype()),
                                to_string(spec.shape()), placements_text(spec));
  for (auto& [owned, holders] : parts) {
    std::vector<std::string> dims;
    for (const Runs& runs : owned) dims.push_back(runs_text(runs));
    const int32_t first = holders[0];
    out += fmt::format("  {}  [{}]  holds {}\n", all_ranks_text(Lanes::of(std::move(holders))),
                       comma_list(dims), to_string(spec.local_shape(first)));
  }
  if (spec.has_partial())
    out += "  parts of a partial value: ranks that hold the same elements reduce to them\n";
  return out;
}

std::string holders_text(const std::string& name, const PrintedJob& printed) {
  std::string out = name + "\n";
  for (const auto& [lanes, id] : parts_of(name, printed)) {
    const SpmdValue& value = printed.program.values[static_cast<size_t>(id)];
    for (const LocalShape& local : value.shapes)
      if (const Lanes here = local.lanes.intersect(lanes); !here.empty())
        out += fmt::format("  {}  holds {} {}\n", all_ranks_text(here),
                           shardproof::name(value.dtype), to_string(local.shape));
  }
  return out +
         "  its place in a whole tensor is not known: declare it in \"outputs\" of the file\n";
}

}  // namespace shardproof
