// Implements explaining.h: values that the listings of a pipeline's stages compute each for
// themselves. Provenance follows one listing at a time, so it states nothing over an axis whose
// ranks run different listings. An edit of the same line in all of them is the test.
//
// Example: each stage has "n = sqrt(sum(g * g))" and clips by its own norm. An all_reduce of
// sum(g * g) over pp in every listing makes the weights of all stages right.
#include <algorithm>
#include <set>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// True if the lanes consist of whole groups.
bool has_whole_groups(const Lanes& lanes, const Group& group) {
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t sibling = group.sibling_of(lanes[i]);
    if (sibling < 0) return false;
    for (int64_t k = 0; k < group.size(); ++k)
      if (!lanes.contains(group.member(sibling, k))) return false;
  }
  return true;
}

// Returns the instruction of a site in the first pass of its line; null if there is none.
const Instr* instr_at(const SpmdProgram& program, const Site& site) {
  const std::vector<Site> sites = sites_of(program, site.listing);
  const auto found = std::find(sites.begin(), sites.end(), site);
  return found == sites.end()
             ? nullptr
             : &program.listings[site.listing].instrs[static_cast<size_t>(found - sites.begin())];
}

}  // namespace

// Returns the axes whose ranks run different listings.
std::vector<int> Explaining::axes_between_listings() const {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const Group group = Group::of_axes(mesh_, {axis});
    const auto& listings = about_.ranks.program.listings;
    if (mesh_.axis_size(axis) > 1 &&
        std::any_of(listings.begin(), listings.end(), [&](const SpmdListing& listing) {
          return !has_whole_groups(listing.lanes, group);
        }))
      axes.push_back(axis);
  }
  return axes;
}

// Returns the same instruction of the listings that run on the other ranks of the axis. Returns
// none if one of them has no such instruction, or if its value has another shape.
std::vector<Site> Explaining::sites_over_axis(const Step& step, int axis) const {
  const SpmdProgram& program = about_.ranks.program;
  const auto shape_of = [&](const Instr& instr) {
    const ValueId id = made_by(instr, 0);
    return id == kNoValue || info(id).shapes.size() != 1 ? std::nullopt
                                                         : std::optional(info(id).shapes[0].shape);
  };
  const std::optional<Dims> shape = shape_of(*step.instr);
  if (!shape) return {};
  std::vector<Site> sites;
  Lanes lanes = program.listings[step.listing].lanes;
  for (const Site& site : sites_in_other_listings(program, step.site)) {
    const Instr* const instr = instr_at(program, site);
    if (instr == nullptr || shape_of(*instr) != shape) continue;
    sites.push_back(site);
    lanes = lanes.unite(program.listings[site.listing].lanes);
  }
  const bool is_whole = has_whole_groups(lanes, Group::of_axes(mesh_, {axis}));
  return is_whole ? sites : std::vector<Site>();
}

bool Explaining::differs_between_listings() {
  for (const int axis : axes_between_listings())
    if (reduced_over_listings(axis) || regrouped_over_listings(axis)) return true;
  return false;
}

// Returns the results of collectives over the axis, and what is computed from these alone: the
// ranks of all stages hold the same.
std::set<ValueId> Explaining::joined_over(int axis) const {
  std::set<ValueId> joined;
  const std::vector<ValueId>& inputs = about_.ranks.program.inputs;
  for (const Step& step : way_.steps) {
    const ValueId made = made_by(*step.instr, 0);
    if (made == kNoValue) continue;
    if (const CallItem* const item = collective_of(step)) {
      if (is_over_axis(item->collective.group, mesh_, axis, item->lanes)) joined.insert(made);
      continue;
    }
    const std::vector<ValueId> reads = effects_of(*step.instr).reads;
    const auto is_joined = [&](ValueId id) { return joined.contains(id); };
    if (std::any_of(reads.begin(), reads.end(), is_joined) &&
        std::all_of(reads.begin(), reads.end(), [&](ValueId id) {
          return is_joined(id) || info(id).weak || std::count(inputs.begin(), inputs.end(), id) > 0;
        }))
      joined.insert(made);
  }
  return joined;
}

// Tries an all_reduce over the axis after a value of every listing, the smallest values first.
bool Explaining::reduced_over_listings(int axis) {
  std::vector<std::pair<int64_t, const Step*>> places;
  const std::set<ValueId> joined = joined_over(axis);
  const auto is_collective = [](const Collective& call) { return !is_point_to_point(call.kind); };
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const Step& step = way_.steps[i];
    const ValueId id = made_by(*step.instr, 0);
    if (id == kNoValue || !is_float(id) || info(id).weak || joined.contains(id) ||
        is_called_later(i, axis, is_collective) || sites_over_axis(step, axis).empty())
      continue;
    places.emplace_back(element_count(info(id).shapes[0].shape), &step);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr size_t kMostPlaces = 8;
  if (places.size() > kMostPlaces) places.resize(kMostPlaces);
  for (const auto& [elements, step] : places)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      std::vector<int> axes{axis};
      const ValueId id = made_by(*step->instr, 0);
      for (int other = 0; other < mesh_.axis_count(); ++other)
        if (other != axis && provenance_.state(id, other).kind == AxisKind::partial)
          axes.push_back(other);
      std::sort(axes.begin(), axes.end());
      Edit edit{Edit::Kind::reduce, step->site, 0, Group::of_axes(mesh_, axes), {op, 0}, 1};
      edit.also = sites_over_axis(*step, axis);
      if (!confirmation_.confirms(edit)) continue;
      const std::string lines = text_of(edit), over = axes_text(axes);
      const std::string text = expression_at(about_, *step, 0);
      ConfirmedCause cause{
          fmt::format("{} of {} is each rank's own part over {}; no call over {} {}",
                      text.empty() ? shown(id, line_of(*step)) : text, lines, over, over,
                      op == ReduceOp::sum ? "adds the parts up" : "takes their maximum"),
          "", edit, confirmation_.made_right()};
      cause.fix = reduction_fix({about_, *step, 0, op, group_text(axes), edit.also}, value_.label,
                                confirmation_)
                      .text;
      settle(cause);
      return true;
    }
  return false;
}

// Tries the calls of every listing over another group: that of the axis, or with it.
bool Explaining::regrouped_over_listings(int axis) {
  for (const Step& step : way_.steps) {
    const CallItem* const item = reduction_of(step);
    if (item == nullptr || item->collective.kind != CollectiveKind::all_reduce) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have || std::count(have->begin(), have->end(), axis) > 0) continue;
    std::vector<int> with_axis = *have;
    with_axis.push_back(axis);
    std::sort(with_axis.begin(), with_axis.end());
    for (const std::vector<int>& axes : {std::vector<int>{axis}, with_axis}) {
      Edit edit{Edit::Kind::regroup,        step.site, 0, Group::of_axes(mesh_, axes),
                item->collective.reduction, 1};
      edit.also = sites_over_axis(step, axis);
      if (edit.also.empty() || !confirmation_.confirms(edit)) continue;
      const std::string lines = text_of(edit);
      settle({fmt::format("{} over {}, but its input is each rank's own part over {}",
                          lines_with_verb(lines, "reduces"), item->collective.group.name(),
                          axes_text({axis})),
              fmt::format("group={} on {}", group_text(axes, *item), lines), edit,
              confirmation_.made_right()});
      return true;
    }
  }
  return false;
}

}  // namespace shardproof
