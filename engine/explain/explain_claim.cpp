// Implements explain_claim.h.
//
// The ops of the line are partitioned by the rules, one op more each time, from the placements that
// their inputs have. The first op that needs a call, other arguments per rank or the index of its
// shard is the cause. If none does, the placements that the rules give the result are compared with
// the claimed ones.
//
// Example: `y = softmax(x, dim=1) as tp:S(1)` with x as tp:S(1). By the rules, x is first
// redistributed to S(0) by an all_to_all over tp, which `as` does not add.
#include "shardproof/engine/explain/explain_claim.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr const char* kRemove = "remove `as`, so that the partitioner adds what the line needs";

// The ops of one line with `as` as a program of its own, whose inputs are the values that they
// read.
struct LineProgram {
  GlobalProgram program;
  Job job;
  std::vector<GlobalInstr> chain;
};

std::optional<LineProgram> line_program(const WrongValue& wrong, const GlobalProgram& global,
                                        const Partitioned& parts, const Job& job) {
  LineProgram line;
  for (const GlobalInstr& instr : global.instrs)
    if (instr.local && instr.origin.line == wrong.label.line &&
        instr.origin.instance == wrong.label.instance)
      line.chain.push_back(instr);
  if (line.chain.empty()) return std::nullopt;
  line.program.values = global.values;
  line.job.world = job.world;
  line.job.meshes = job.meshes;
  std::set<ValueId> known;
  for (GlobalInstr& instr : line.chain) {
    instr.local = false;
    for (ValueId id : instr.inputs) {
      if (id == kNoValue || global.values[static_cast<size_t>(id)].weak) continue;
      if (!known.insert(id).second) continue;
      const ValueId placed = parts.placed[static_cast<size_t>(id)];
      if (placed == kNoValue) return std::nullopt;
      const SpmdValue& value = parts.program.values[static_cast<size_t>(placed)];
      if (!value.spec) return std::nullopt;
      line.program.inputs.push_back(id);
      line.job.inputs.push_back({value.name, *value.spec, value.spec->mesh().ranks(), {}});
    }
    known.insert(instr.outputs.begin(), instr.outputs.end());
  }
  return line;
}

std::string inputs_text(const GlobalInstr& instr, const LineProgram& line) {
  std::string text;
  for (size_t i = 0; i < line.program.inputs.size(); ++i) {
    const auto reads = std::count(instr.inputs.begin(), instr.inputs.end(), line.program.inputs[i]);
    if (reads == 0) continue;
    const JobInput& input = line.job.inputs[i];
    text += fmt::format("{}{} as {}", text.empty() ? " on " : " and ", input.name,
                        placements_text(input.spec));
  }
  return text;
}

// True if the ranks ran an op of the line without the index of its shard.
bool ran_as_whole(const Partitioned& parts, const GlobalInstr& op) {
  for (const Instr& instr : parts.program.listings.at(0).instrs)
    if (const auto* compute = std::get_if<Compute>(&instr.action))
      if (instr.origin == op.origin && compute->op == op.op) return compute->input_specs().empty();
  return false;
}

// True if this is the number of elements that each rank reduces to one.
bool is_count_of_shard(const SpmdProgram& program, const Compute& op, double number) {
  const std::vector<LocalShape>& from = program.values[static_cast<size_t>(op.inputs[0])].shapes;
  const std::vector<LocalShape>& to = program.values[static_cast<size_t>(op.outputs[0])].shapes;
  return from.size() == 1 && to.size() == 1 &&
         number * static_cast<double>(element_count(to[0].shape)) ==
             static_cast<double>(element_count(from[0].shape));
}

// Returns an argument that the rule takes from the whole value, such as the count of a mean; "" if
// there is none.
std::string argument_of_whole(const SpmdProgram& program, const Compute& op, const Attrs& written) {
  for (const auto& [name, value] : op.attrs.at(0).attrs.values()) {
    const auto known = written.values().find(name);
    if (known != written.values().end() && known->second == value) continue;
    const double* const number = std::get_if<double>(&value);
    if (name == "count" && number != nullptr && is_count_of_shard(program, op, *number)) continue;
    if (number != nullptr && *number == std::floor(*number) && std::abs(*number) < 1e15)
      return fmt::format("{}={:.0f}", name, *number);
    return fmt::format("{}={}", name, to_string(value));
  }
  return "";
}

// Returns what the op that was added last needs beyond a kernel on each shard; "" if nothing.
std::string needs_text(const Partitioned& ruled, const Partitioned& parts,
                       const GlobalInstr& last) {
  for (const Instr& instr : ruled.program.listings.at(0).instrs) {
    if (const auto* call = std::get_if<Communicate>(&instr.action)) {
      const Collective& c = call->items.at(0).collective;
      return fmt::format("needs {} over {}; `as` adds no communication", name(c.kind),
                         c.group.name());
    }
    const auto* compute = std::get_if<Compute>(&instr.action);
    if (compute == nullptr || compute->op != last.op) continue;
    if (compute->attrs.size() > 1)
      return "needs other arguments on each rank; `as` gives all ranks the same";
    if (const std::string of_whole = argument_of_whole(ruled.program, *compute, last.attrs);
        !of_whole.empty())
      return fmt::format(
          "needs {} of the whole value; inside `as` each rank uses that of its shard", of_whole);
    if (!compute->input_specs().empty() && ran_as_whole(parts, last))
      return "needs the index of each shard in the whole; inside `as` each rank counts from 0";
  }
  return "";
}

// Returns the placements that `as` declares. An axis that the author did not name is separate: the
// shapes of the shards show that it cuts the value.
std::string declared_text(const WrongValue& wrong, const GlobalProgram& global) {
  const auto claim =
      std::find_if(global.instrs.begin(), global.instrs.end(), [&](const GlobalInstr& instr) {
        return instr.kind == GlobalKind::claim && instr.origin.line == wrong.label.line &&
               instr.origin.instance == wrong.label.instance;
      });
  std::string declared, inferred;
  for (int i = 0; claim != global.instrs.end() && i < wrong.spec.mesh().axis_count(); ++i) {
    if (wrong.spec.placement(i).is_replicate()) continue;
    const std::string& axis = wrong.spec.mesh().axes()[static_cast<size_t>(i)].name;
    const bool named = std::any_of(
        claim->placements.begin(), claim->placements.end(),
        [&](const PlacementText& text) { return text.axis.empty() || text.axis == axis; });
    std::string& text = named ? declared : inferred;
    text +=
        fmt::format("{}{}:{}", text.empty() ? "" : " ", axis, to_string(wrong.spec.placement(i)));
  }
  if (inferred.empty()) return placements_text(wrong.spec);
  return fmt::format("{}; it does not name {}, which follows from the shapes of the shards",
                     declared.empty() ? "R" : declared, inferred);
}

// Returns the claimed placements with P(avg) where the ranks average equal shards of the mean's
// input; "" if there are none.
std::string averaged_instead(const WrongValue& wrong, const GlobalInstr& mean,
                             const LineProgram& line) {
  Spec as = wrong.spec;
  for (size_t i = 0; i < line.program.inputs.size(); ++i) {
    const Spec& spec = line.job.inputs[i].spec;
    if (line.program.inputs[i] != mean.inputs.at(0) || !(spec.mesh() == as.mesh())) continue;
    const Lanes ranks = spec.mesh().ranks();
    for (int64_t lane = 1; lane < ranks.size(); ++lane)
      if (!(spec.local_shape(ranks[lane]) == spec.local_shape(ranks[0]))) return "";
    for (int axis = 0; axis < as.mesh().axis_count(); ++axis)
      if (spec.placement(axis).is_shard() && as.placement(axis) == P(ReduceOp::sum))
        as = as.with_placement(axis, P(ReduceOp::avg));
  }
  return as == wrong.spec ? "" : placements_text(as);
}

}  // namespace

namespace {

// Adds a cause that the rules prove, and removes a hint that follows only from the numbers.
void add_cause(Finding& finding, std::string text) {
  std::erase_if(finding.details,
                [](const std::string& detail) { return detail.starts_with(kHintLabel); });
  finding.details.push_back(kCauseLabel + std::move(text));
}

// Returns the input of `dim` or `start` if it is cut along the dim in question, else null.
const JobInput* cut_input(const GlobalInstr& instr, const LineProgram& line, int64_t dim) {
  for (size_t i = 0; i < line.program.inputs.size(); ++i) {
    const JobInput& input = line.job.inputs[i];
    if (line.program.inputs[i] != instr.inputs.at(0)) continue;
    for (int axis = 0; axis < input.spec.mesh().axis_count(); ++axis)
      if (input.spec.mesh().axis_size(axis) > 1 && input.spec.placement(axis).is_shard(dim))
        return &input;
  }
  return nullptr;
}

// Adds the cause that a line takes the size or the start of each rank's shard for that of the
// whole. False if the op does not.
bool explain_own_size(const GlobalInstr& instr, const LineProgram& line, Finding& finding) {
  if (instr.op != "dim" && instr.op != "start") return false;
  const int64_t asked = instr.attrs.integer("dim");
  const int64_t dims = line.program.values[static_cast<size_t>(instr.inputs.at(0))].shape.size();
  const int64_t dim = asked < 0 ? asked + dims : asked;
  const JobInput* const input = cut_input(instr, line, dim);
  if (input == nullptr) return false;
  const std::string text = fmt::format("{}({}, {})", instr.op, input->name, asked);
  const int64_t own = input->spec.local_shape(input->on[0])[static_cast<int>(dim)];
  const int64_t all = input->spec.shape()[static_cast<int>(dim)];
  const std::string sizes =
      instr.op == "dim" ? fmt::format(": {} on rank {}, {} of the whole", own, input->on[0], all)
                        : "";
  add_cause(finding, fmt::format("{} is {}; inside `as` {} is that of each rank's own shard{}",
                                 input->name, placements_text(input->spec), text, sizes));
  finding.fix = fmt::format("write n = {} on a line before, without `as`, and use n here", text);
  return true;
}

// Adds the cause of a claim on a value as it is, without an op: the value has other placements.
void explain_claim_alone(const WrongValue& wrong, const GlobalProgram& global,
                         const Partitioned& parts, Finding& finding) {
  const auto claim =
      std::find_if(global.instrs.begin(), global.instrs.end(), [&](const GlobalInstr& instr) {
        return instr.kind == GlobalKind::claim && instr.outputs.at(0) == wrong.global;
      });
  if (claim == global.instrs.end()) return;
  const ValueId placed = parts.placed[static_cast<size_t>(claim->inputs.at(0))];
  if (placed == kNoValue) return;
  const SpmdValue& value = parts.program.values[static_cast<size_t>(placed)];
  if (!value.spec || *value.spec == wrong.spec || value.name.empty()) return;
  add_cause(finding, fmt::format("{} is placed as {}, but `as` declares {}", value.name,
                                 placements_text(*value.spec), declared_text(wrong, global)));
  finding.fix = fmt::format("write redistribute({}, {}), which moves it", value.name,
                            placements_text(wrong.spec));
}

}  // namespace

void explain_claim(const WrongValue& wrong, const GlobalProgram& global, const Partitioned& parts,
                   const Job& job, const OpRegistry& ops, Finding& finding) {
  if (std::any_of(finding.details.begin(), finding.details.end(), states_cause)) return;
  std::optional<LineProgram> line = line_program(wrong, global, parts, job);
  if (!line) return explain_claim_alone(wrong, global, parts, finding);
  try {
    for (const GlobalInstr& instr : line->chain) {
      line->program.instrs.push_back(instr);
      if (explain_own_size(instr, *line, finding)) return;
      const std::string needs = needs_text(partition(line->program, line->job, ops), parts, instr);
      if (needs.empty()) continue;
      add_cause(finding, fmt::format("{}{} {}", instr.op, inputs_text(instr, *line), needs));
      finding.fix = kRemove;
      if (instr.op == "mean" && needs.starts_with("needs count=")) {
        const bool is_last = instr.outputs == line->chain.back().outputs;
        const std::string averaged = is_last ? averaged_instead(wrong, instr, *line) : "";
        finding.fix = fmt::format(
            "{}compute the sum inside `as` and divide by the count of the whole on a later line; "
            "or {}",
            averaged.empty() ? "" : fmt::format("declare it as {}; or ", averaged), kRemove);
      }
      return;
    }
    const Partitioned ruled = partition(line->program, line->job, ops);
    const ValueId result = ruled.placed[static_cast<size_t>(line->chain.back().outputs.at(0))];
    const std::optional<Spec>& spec = ruled.program.values[static_cast<size_t>(result)].spec;
    if (!spec || *spec == wrong.spec) return;
    add_cause(finding, fmt::format("the ops of the line give {}, but `as` declares {}",
                                   placements_text(*spec), declared_text(wrong, global)));
  } catch (const Error&) {
    // No rule takes these inputs, so there is no cause to add.
  }
}

}  // namespace shardproof
