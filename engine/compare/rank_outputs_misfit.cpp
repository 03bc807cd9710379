// Implements RankOutputs::misfit of rank_outputs.h. Steps: ranks without the value, then dtypes,
// then shapes. The fix of a wrong shape is the first of these that makes all parts fit:
//
// 1. Another dim of the call that made the value. Ops that keep the shape are passed over.
// 2. Other placements: for each axis R or a dim, the fewest axes changed.
//
// Example: the truth's y is [8, 6] and declared "R" on tp=2. Line 3 is `y = all_gather(h, dim=0)`
// of h with shape [8, 3], so y is [16, 3]. With dim=1 it is [8, 6], which fits.
#include <algorithm>

#include "shardproof/engine/compare/rank_outputs.h"
#include "shardproof/engine/lower/place_check.h"
#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

// Returns the shape that a value has on a rank; nullopt if it has none there.
std::optional<Dims> shape_on(const SpmdValue& value, int64_t rank) {
  for (const LocalShape& shape : value.shapes)
    if (shape.lanes.contains(static_cast<int32_t>(rank))) return shape.shape;
  return std::nullopt;
}

// Returns the instruction that makes a value on a rank; null for inputs.
const Instr* maker_of(const SpmdProgram& program, ValueId id, int32_t rank) {
  for (const SpmdListing& listing : program.listings) {
    if (!listing.lanes.contains(rank)) continue;
    for (const Instr& instr : listing.instrs) {
      if (!instr.lanes.contains(rank)) continue;
      if (const auto* merge = std::get_if<Merge>(&instr.action); merge && merge->output == id)
        return &instr;
      const Effects effects = effects_of(instr);
      if (std::count(effects.writes.begin(), effects.writes.end(), id) > 0) return &instr;
    }
  }
  return nullptr;
}

// Returns the value from which an instruction made `id` without a change of shape; kNoValue if it
// changed the shape.
ValueId same_shape_before(const SpmdProgram& program, const Instr& instr, ValueId id,
                          int32_t rank) {
  if (const auto* merge = std::get_if<Merge>(&instr.action)) {
    for (const auto& [lanes, part] : merge->parts)
      if (lanes.contains(rank)) return part;
    return kNoValue;
  }
  const auto* compute = std::get_if<Compute>(&instr.action);
  if (compute == nullptr) return kNoValue;
  const auto shape_of = [&](ValueId value) {
    return shape_on(program.values[static_cast<size_t>(value)], rank);
  };
  for (const ValueId input : compute->inputs)
    if (input != kNoValue && input != id && shape_of(input) == shape_of(id)) return input;
  return kNoValue;
}

// Returns the call that gave the value of `id` its shape on a rank; null if an op did.
const CallItem* shaping_call(const SpmdProgram& program, ValueId id, int32_t rank) {
  constexpr int kMostSteps = 64;
  for (int step = 0; step < kMostSteps && id != kNoValue; ++step) {
    const Instr* const instr = maker_of(program, id, rank);
    if (instr == nullptr) return nullptr;
    if (const auto* call = std::get_if<Communicate>(&instr->action)) {
      for (const CallItem& item : call->items)
        if (item.output == id && item.lanes.contains(rank)) return &item;
      return nullptr;
    }
    id = same_shape_before(program, *instr, id, rank);
  }
  return nullptr;
}

// True if the call, with `dim` and `dim2` in place of its own, returns the shape on `rank`.
bool returns_shape(const CallItem& item, const SpmdProgram& program, int32_t rank, int dim,
                   int dim2, const Dims& expected) {
  const std::optional<Dims> input =
      item.input == kNoValue ? std::nullopt
                             : shape_on(program.values[static_cast<size_t>(item.input)], rank);
  if (!input || input->size() != expected.size()) return false;
  try {
    const Collective& call = item.collective;
    return result_shape(call.kind, *input, dim, dim2, call.group.size()) == expected;
  } catch (const Error&) {
    return false;  // the dim does not divide
  }
}

// Returns nullopt if the placements do not go together: sizes of a cut are those of a shard of the
// declared axes before it.
std::optional<Spec> with_placements(const Spec& declared, std::vector<Placement> placements) {
  try {
    return Spec(declared.mesh(), std::move(placements), declared.shape(), declared.dtype());
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool gives_shapes(const Spec& spec, const std::vector<Holder>& held) {
  return std::all_of(held.begin(), held.end(), [&](const Holder& holder) {
    return spec.local_shape(holder.rank) == holder.meta.shape;
  });
}

// Returns the declared placements with S(dim, sizes=[..]) on one axis, if they give all holders
// their shapes and are accepted; nullopt if there are none.
std::optional<Spec> fitting_sizes(const Spec& declared, const std::vector<Holder>& held,
                                  const std::function<bool(const Spec&)>& accepts) {
  const Mesh& mesh = declared.mesh();
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    for (int dim = 0; dim < declared.shape().size(); ++dim) {
      std::vector<int64_t> sizes(static_cast<size_t>(mesh.axis_size(axis)), 0);
      for (const Holder& holder : held) {
        const std::optional<Dims> place = mesh.coordinate_of(holder.rank);
        if (place && holder.meta.shape.size() > dim)
          sizes[static_cast<size_t>((*place)[axis])] = holder.meta.shape[dim];
      }
      std::vector<Placement> placements = declared.placements();
      placements[static_cast<size_t>(axis)] = Shard{dim, 1, std::move(sizes)};
      const std::optional<Spec> candidate = with_placements(declared, std::move(placements));
      if (candidate && gives_shapes(*candidate, held) && accepts(*candidate)) return candidate;
    }
  return std::nullopt;
}

// Returns the plain placements that give all holders their shapes, are accepted, and change the
// fewest axes of `declared`; nullopt if there are none.
std::optional<Spec> fitting_placements(const Spec& declared, const std::vector<Holder>& held,
                                       const std::function<bool(const Spec&)>& accepts) {
  constexpr size_t kMostTried = 4096;
  const Mesh& mesh = declared.mesh();
  const int dims = declared.shape().size();
  std::optional<Spec> best;
  int fewest = mesh.axis_count() + 1;
  const auto choices = static_cast<size_t>(dims) + 2;  // as declared, R, each dim
  size_t combinations = 1;
  for (int axis = 0; axis < mesh.axis_count() && combinations <= kMostTried; ++axis)
    combinations *= choices;
  for (size_t code = 1; code < std::min(combinations, kMostTried); ++code) {
    std::vector<Placement> placements = declared.placements();
    size_t rest = code;
    int changed = 0;
    for (Placement& placement : placements) {
      const size_t choice = rest % choices;
      rest /= choices;
      if (choice == 0) continue;
      placement = choice == 1 ? R() : S(static_cast<int>(choice) - 2);
      ++changed;
    }
    if (changed >= fewest) continue;
    const std::optional<Spec> candidate = with_placements(declared, std::move(placements));
    if (!candidate) continue;
    if (!gives_shapes(*candidate, held) || !accepts(*candidate)) continue;
    best = candidate;
    fewest = changed;
  }
  return best;
}

}  // namespace

std::optional<Spec> RankOutputs::fitting_spec(
    const JobOutput& output, const std::function<bool(const Spec&)>& accepts) const {
  const Spec declared = spec_of(output);
  const std::vector<Holder> held = holders(ranks, output.name, owners(output));
  const std::optional<Spec> plain = fitting_placements(declared, held, accepts);
  return plain ? plain : fitting_sizes(declared, held, accepts);
}

std::string RankOutputs::fix_by_placements(const JobOutput& output, const Spec& fits) const {
  const std::string by_dim = fix_by_dim(output, spec_of(output), false);
  const std::string by_claim = claim_text(output, fits);
  return by_dim.empty() ? by_claim : by_dim + "; or " + by_claim;
}

std::string RankOutputs::claim_text(const JobOutput& output, const Spec& fits) const {
  return fmt::format("write \"{0}\": \"{1}\" in \"outputs\", or change {0} to {2}", output.name,
                     placements_text(fits), placements_text(spec_of(output)));
}

Finding RankOutputs::wrong_output(const JobOutput& output, const Lanes& on) const {
  Finding finding;
  finding.verdict = Verdict::wrong_values;
  finding.ranks = on;
  finding.name = output.name;
  const NamedPart* part = first_part(output.name, on);
  if (part == nullptr) part = first_part(output.name, Lanes::range(0, job.world));
  if (part != nullptr) {
    finding.line = part->line;
    finding.instance = part->instance;
  }
  return finding;
}

Finding RankOutputs::wrong_dtype(const JobOutput& output, DType expected) const {
  const std::vector<Holder> held = holders(ranks, output.name, owners(output));
  std::vector<int32_t> wrong;
  std::optional<DType> found;
  for (const Holder& holder : held) {
    if (holder.meta.dtype == expected || (found && *found != holder.meta.dtype)) continue;
    found = holder.meta.dtype;
    wrong.push_back(holder.rank);
  }
  const Lanes lanes = Lanes::of(std::move(wrong));
  Finding finding = wrong_output(output, lanes);
  finding.expected = name(expected);
  finding.got = name(*found);
  finding.headline = fmt::format(
      "{} is {} on {}, but {} {}", output.name, finding.got, ranks_text(lanes), finding.expected,
      truth != nullptr ? "in the truth" : fmt::format("on rank {}", held[0].rank));
  finding.fix = fmt::format(
      "write {0} = cast({0}, {1}) at the end, or find the line that made it "
      "{2}",
      output.name, finding.expected, finding.got);
  return finding;
}

std::string RankOutputs::fix_by_dim(const JobOutput& output, const Spec& spec,
                                    bool of_gathers) const {
  const Lanes on = owners(output);
  const CallItem* first = nullptr;
  std::vector<std::pair<const CallItem*, int32_t>> calls;
  for (const NamedPart& part : ranks.names.at(output.name)) {
    const Lanes here = part.lanes.intersect(on);
    for (int64_t i = 0; i < here.size(); ++i) {
      const CallItem* call = shaping_call(ranks.program, part.value, here[i]);
      if (call == nullptr) return "";
      if (first == nullptr) first = call;
      if (call->collective.kind != first->collective.kind) return "";
      calls.emplace_back(call, here[i]);
    }
  }
  if (first == nullptr) return "";
  const CollectiveKind kind = first->collective.kind;
  const bool exchanges = kind == CollectiveKind::all_to_all;
  if (!exchanges && !has_shard_dim(kind)) return "";
  const bool gathers = kind == CollectiveKind::all_gather || kind == CollectiveKind::gather;
  if (gathers && !of_gathers) return "";
  const int dims = spec.shape().size();
  for (int dim = 0; dim < dims; ++dim)
    for (int dim2 = 0; dim2 < (exchanges ? dims : 1); ++dim2) {
      const bool all = std::all_of(calls.begin(), calls.end(), [&](const auto& call) {
        return returns_shape(*call.first, ranks.program, call.second, dim, dim2,
                             spec.local_shape(call.second));
      });
      if (!all) continue;
      const std::string words =
          exchanges ? fmt::format("split={}, concat={}", dim, dim2) : fmt::format("dim={}", dim);
      return fmt::format("write {} in the {} of line {}: its result then fits", words, name(kind),
                         first->origin.line);
    }
  return "";
}

Finding RankOutputs::wrong_shape(const JobOutput& output, const Spec& spec, int32_t rank) const {
  const std::vector<Holder> held = holders(ranks, output.name, owners(output));
  const Dims expected = spec.local_shape(rank);
  Dims got;
  for (const Holder& holder : held)
    if (holder.rank == rank) got = holder.meta.shape;
  std::vector<int32_t> alike;
  for (const Holder& holder : held)
    if (holder.meta.shape == got && spec.local_shape(holder.rank) == expected)
      alike.push_back(holder.rank);
  const Lanes lanes = Lanes::of(std::move(alike));
  Finding finding = wrong_output(output, lanes);
  finding.expected = to_string(expected);
  finding.got = to_string(got);
  finding.headline = fmt::format("{} has shape {} on {}; {} placed as {} has shape {} there",
                                 output.name, finding.got, ranks_text(lanes),
                                 to_string(spec.shape()), placements_text(spec), finding.expected);
  const std::optional<Spec> fits = fitting_spec(output, [](const Spec&) { return true; });
  if (fits)
    finding.details.push_back(
        fmt::format("the shapes on all ranks fit {}", placements_text(*fits)));
  else
    finding.details.push_back(
        fmt::format("no placement of {} has these shapes", to_string(spec.shape())));
  finding.fix = fix_by_dim(output, spec, true);
  if (finding.fix.empty() && fits) finding.fix = fix_by_placements(output, *fits);
  return finding;
}

std::optional<Finding> RankOutputs::misfit(const JobOutput& output) const {
  const Spec spec = spec_of(output);
  const Lanes on = owners(output);
  const std::vector<Holder> held = holders(ranks, output.name, on);
  for (const Holder& holder : held)
    if (holder.meta.dtype != spec.dtype()) return wrong_dtype(output, spec.dtype());
  for (const Holder& holder : held)
    if (!(spec.local_shape(holder.rank) == holder.meta.shape))
      return wrong_shape(output, spec, holder.rank);
  std::vector<int32_t> holding;
  for (const Holder& holder : held) holding.push_back(holder.rank);
  const Lanes present = Lanes::of(std::move(holding)), missing = on.minus(present);
  if (missing.empty()) return std::nullopt;
  Finding finding = wrong_output(output, missing);
  finding.headline =
      fmt::format("{} {} no {}, which \"outputs\" places there as {}", ranks_text(missing),
                  missing.size() == 1 ? "has" : "have", output.name, placements_text(spec));
  finding.fix = fmt::format("bind {} on {}", output.name, ranks_text(missing));
  if (ranks_of_absent_shards(present, spec).empty() && !missing_part(present, spec))
    finding.fix += fmt::format(", or write \"{}\": \"{} on {}\" in \"outputs\"", output.name,
                               placements_text(spec), to_string(present));
  return finding;
}

}  // namespace shardproof
