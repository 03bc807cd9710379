// Implements losing_step.h.
#include "shardproof/engine/explain/losing_step.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/edit_ranks.h"

namespace shardproof {
namespace {

constexpr size_t kFewNarrowSteps = 16;    // each is a run
constexpr size_t kMostNarrowSteps = 128;  // of small programs
constexpr double kMostWork = 4e6;         // of all runs of more than kFewNarrowSteps

// Returns the number of instructions and of elements of a run, as an estimate of its cost.
double work_of_run(const SpmdProgram& program) {
  constexpr double kOfInstruction = 20;
  double work = 0;
  for (const SpmdListing& listing : program.listings)
    work += kOfInstruction * static_cast<double>(listing.instrs.size());
  for (const SpmdValue& value : program.values)
    for (const LocalShape& shape : value.shapes)
      work += static_cast<double>(element_count(shape.shape));
  return work;
}

// True if there are runs for so many steps.
bool has_runs_for(size_t steps, const SpmdProgram& program) {
  return steps <= kFewNarrowSteps ||
         (steps <= kMostNarrowSteps &&
          static_cast<double>(steps) * work_of_run(program) <= kMostWork);
}

// The parts of an output by part and rank, dense.
using OutputParts = std::map<std::pair<size_t, int32_t>, Tensor>;

OutputParts parts_of_run(const RanksInF64& in_f64, const RankProgram& ranks,
                         const std::string& name, const Registries& registries) {
  std::map<ValueId, size_t> part_of;
  if (const auto found = ranks.names.find(name); found != ranks.names.end())
    for (size_t i = 0; i < found->second.size(); ++i) part_of.emplace(found->second[i].value, i);
  OutputParts parts;
  const auto probe = [&]() -> ProbeFunction {
    parts.clear();
    return [&](ValueId id, const LocalTensor& value) {
      if (!part_of.contains(id)) return;
      const Lanes lanes = value.lanes();
      for (int64_t i = 0; i < lanes.size(); ++i)
        parts.insert_or_assign({part_of.at(id), lanes[i]},
                               contiguous_copy(value.of_rank(lanes[i])));
    };
  };
  run_program(ranks.program, in_f64.job, registries,
              {[&](ValueId id) { return part_of.contains(id); }, {}}, probe, &in_f64.inputs);
  return parts;
}

double largest_difference(const OutputParts& a, const OutputParts& b) {
  double largest = 0;
  for (const auto& [at, tensor] : a) {
    const auto found = b.find(at);
    if (found == b.end() || found->second.shape != tensor.shape) return 0;
    const std::vector<double> x = values_of(tensor), y = values_of(found->second);
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(x[i] - y[i]));
  }
  return largest;
}

// Returns the edit that rounds the result of the step in each pass; nullopt if nothing makes it.
std::optional<Edit> rounding_of(const NarrowStep& step, const SpmdProgram& program) {
  for (size_t l = 0; l < program.listings.size(); ++l) {
    const std::vector<Site> sites = sites_of(program, l);
    const Instrs& instrs = program.listings[l].instrs;
    for (size_t i = 0; i < instrs.size(); ++i)
      for (size_t slot = 0; made_by(instrs[i], slot) != kNoValue; ++slot)
        if (made_by(instrs[i], slot) == step.value) {
          Edit edit{Edit::Kind::round_output, sites[i], slot, {}, {}, 1};
          edit.dtype = step.dtype;
          return edit;
        }
  }
  return std::nullopt;
}

}  // namespace

std::string losing_step(const RanksInF64& in_f64, const std::vector<NarrowStep>& steps,
                        const std::string& name, const Registries& registries) {
  std::vector<std::pair<Edit, const NarrowStep*>> edits;
  for (const NarrowStep& step : steps) {
    const std::optional<Edit> edit = rounding_of(step, in_f64.ranks.program);
    const auto is_same = [&](const auto& known) {
      return known.first.site == edit->site && known.first.slot == edit->slot;
    };
    if (edit && std::none_of(edits.begin(), edits.end(), is_same)) edits.emplace_back(*edit, &step);
  }
  if (edits.empty() || !has_runs_for(edits.size(), in_f64.ranks.program)) return steps.front().text;
  const OutputParts exact = parts_of_run(in_f64, in_f64.ranks, name, registries);
  std::vector<double> errors;
  for (const auto& [edit, step] : edits) {
    const std::optional<RankProgram> rounded = edited(in_f64.ranks, edit, name);
    errors.push_back(
        rounded ? largest_difference(exact, parts_of_run(in_f64, *rounded, name, registries)) : 0);
  }
  const double most = *std::max_element(errors.begin(), errors.end());
  for (const bool is_call : {true, false})
    for (size_t i = 0; i < edits.size(); ++i)
      if (most > 0 && errors[i] >= most / 2 && edits[i].second->is_call == is_call)
        return edits[i].second->text;
  return steps.front().text;
}

}  // namespace shardproof
