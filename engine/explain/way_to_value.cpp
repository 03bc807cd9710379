// Implements way_to_value.h: walks each listing backwards from the parts of the value, and from
// what it sends to ranks whose listing needs it.
#include "shardproof/engine/explain/way_to_value.h"

#include <algorithm>
#include <map>
#include <set>

namespace shardproof {
namespace {

// Returns the ids of the value's parts, by listing.
std::vector<std::set<ValueId>> ends_of(const RankProgram& ranks, const ComparedValue& value) {
  std::vector<std::set<ValueId>> ends(ranks.program.listings.size());
  const bool checked = value.key.starts_with("check ");
  for (size_t l = 0; l < ends.size(); ++l) {
    const SpmdListing& listing = ranks.program.listings[l];
    if (!checked) {
      if (const auto parts = ranks.names.find(value.label.name); parts != ranks.names.end())
        for (const NamedPart& part : parts->second)
          if (!part.lanes.intersect(listing.lanes).intersect(value.spec.mesh().ranks()).empty())
            ends[l].insert(part.value);
      continue;
    }
    for (const Instr& instr : listing.instrs)
      if (const auto* copy = std::get_if<Snapshot>(&instr.action))
        if (copy->name == value.label.name && instr.origin.line == value.label.line &&
            instr.origin.instance == value.label.instance)
          ends[l].insert(copy->output);
  }
  return ends;
}

std::vector<ValueId> reads_of(const Instr& instr) {
  std::vector<ValueId> reads = effects_of(instr).reads;
  if (const auto* merge = std::get_if<Merge>(&instr.action))
    for (const auto& [lanes, id] : merge->parts) reads.push_back(id);
  return reads;
}

std::vector<ValueId> writes_of(const Instr& instr) {
  if (const auto* merge = std::get_if<Merge>(&instr.action)) return {merge->output};
  return effects_of(instr).writes;
}

// Returns the value that owns each value's memory, if a merge gives it a second name.
std::map<ValueId, ValueId> shared_memory(const SpmdListing& listing) {
  std::map<ValueId, ValueId> memory;
  const auto root = [&](ValueId id) {
    for (auto at = memory.find(id); at != memory.end(); at = memory.find(id)) id = at->second;
    return id;
  };
  for (const Instr& instr : listing.instrs)
    if (const auto* merge = std::get_if<Merge>(&instr.action))
      for (const auto& [lanes, part] : merge->parts)
        if (const ValueId a = root(merge->output), b = root(part); a != b) memory[a] = b;
  std::map<ValueId, ValueId> roots;
  for (const auto& [id, next] : memory) roots[id] = root(id);
  return roots;
}

// Returns the value that an instruction writes in place; kNoValue: none.
ValueId written_in_place(const Instr& instr) {
  if (const auto* compute = std::get_if<Compute>(&instr.action)) return compute->into;
  if (const auto* call = std::get_if<Communicate>(&instr.action))
    for (const CallItem& item : call->items)
      if (item.in_place) return item.input;
  return kNoValue;
}

}  // namespace

namespace {

// Returns the steps of a listing to the values that are needed, in program order. Adds the values
// that these steps read, but for `given` ones.
std::vector<Step> steps_in(const SpmdProgram& program, size_t listing, std::set<ValueId>& needed,
                           const std::set<ValueId>& given = {}) {
  const Instrs& instrs = program.listings[listing].instrs;
  const std::vector<Site> sites = sites_of(program, listing);
  const std::map<ValueId, ValueId> memory = shared_memory(program.listings[listing]);
  const auto memory_of = [&](ValueId id) {
    const auto known = memory.find(id);
    return known == memory.end() ? id : known->second;
  };
  std::vector<Step> steps;
  for (size_t i = instrs.size(); i-- > 0;) {
    const std::vector<ValueId> writes = writes_of(instrs[i]);
    const ValueId in_place = written_in_place(instrs[i]);
    const auto is_needed = [&](ValueId id) { return needed.contains(id); };
    const bool through_another_name = in_place != kNoValue && !is_needed(in_place) &&
                                      std::any_of(needed.begin(), needed.end(), [&](ValueId id) {
                                        return memory_of(id) == memory_of(in_place);
                                      });
    if (!through_another_name && std::none_of(writes.begin(), writes.end(), is_needed)) continue;
    for (const ValueId id : reads_of(instrs[i]))
      if (!given.contains(id)) needed.insert(id);
    steps.push_back({listing, i, sites[i], &instrs[i]});
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

using Edges = std::set<std::pair<int32_t, int32_t>>;  // sender and receiver

Edges edges_of(const CallItem& message) {
  const Group& group = message.collective.group;
  const bool sends = message.collective.kind == CollectiveKind::send;
  Edges edges;
  for (int64_t i = 0; i < message.lanes.size(); ++i) {
    const int32_t own = message.lanes[i];
    const auto at = static_cast<size_t>(i);
    const int64_t peer = at < message.peers.size() ? message.peers[at] : message.collective.peer;
    const int64_t sibling = group.sibling_of(own);
    if (sibling < 0 || peer < 0 || peer >= group.size()) continue;
    const int32_t other = group.member(sibling, peer);
    edges.insert(sends ? std::pair(own, other) : std::pair(other, own));
  }
  return edges;
}

// The value that ranks of a listing pass to a call.
struct CallInput {
  size_t listing = 0;
  const CallItem* item = nullptr;
  Edges edges;  // of a send
};

// Returns the inputs of all calls that may join listings; none if there is one listing.
std::vector<CallInput> inputs_of_calls(const SpmdProgram& program) {
  std::vector<CallInput> brought;
  for (size_t l = 0; l < program.listings.size() && program.listings.size() > 1; ++l)
    for (const Instr& instr : program.listings[l].instrs)
      if (const auto* call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items) {
          const bool sends = item.collective.kind == CollectiveKind::send;
          if (item.input != kNoValue)
            brought.push_back({l, &item, sends ? edges_of(item) : Edges()});
        }
  return brought;
}

// True if the result of a call may hold what other ranks pass to it.
bool may_hold(const CallItem& call, const CallInput& brought, const Edges& received) {
  const Collective &own = call.collective, &theirs = brought.item->collective;
  if (own.kind == CollectiveKind::recv)
    return std::any_of(brought.edges.begin(), brought.edges.end(),
                       [&](const auto& edge) { return received.contains(edge); });
  if (own.kind != theirs.kind || is_point_to_point(own.kind) || !(own.group == theirs.group))
    return false;
  std::set<int64_t> siblings;
  for (int64_t i = 0; i < call.lanes.size(); ++i)
    siblings.insert(own.group.sibling_of(call.lanes[i]));
  for (int64_t i = 0; i < brought.item->lanes.size(); ++i)
    if (siblings.contains(own.group.sibling_of(brought.item->lanes[i]))) return true;
  return false;
}

// Adds the values that other listings pass to the calls of these steps. Returns the listings that
// have new ones.
std::set<size_t> need_inputs_of_others(const std::vector<CallInput>& brought,
                                       const std::vector<Step>& steps,
                                       std::vector<std::set<ValueId>>& needed) {
  std::set<size_t> changed;
  for (const Step& step : steps) {
    const auto* call = std::get_if<Communicate>(&step.instr->action);
    if (call == nullptr) continue;
    for (const CallItem& item : call->items) {
      const bool receives = item.collective.kind == CollectiveKind::recv;
      const Edges received = receives ? edges_of(item) : Edges();
      for (const CallInput& one : brought)
        if (one.listing != step.listing && !needed[one.listing].contains(one.item->input) &&
            may_hold(item, one, received)) {
          needed[one.listing].insert(one.item->input);
          changed.insert(one.listing);
        }
    }
  }
  return changed;
}

}  // namespace

WayToValue way_to(const RankProgram& ranks, const ComparedValue& value) {
  WayToValue way;
  std::vector<std::set<ValueId>> needed = ends_of(ranks, value);
  const std::vector<CallInput> brought = inputs_of_calls(ranks.program);
  std::vector<std::vector<Step>> steps(needed.size());
  std::vector<size_t> order;  // of the listings: what they send comes before what they receive
  std::set<size_t> open;
  for (size_t l = 0; l < needed.size(); ++l) {
    way.ends.insert(way.ends.end(), needed[l].begin(), needed[l].end());
    if (!needed[l].empty()) open.insert(l);
  }
  way.listings = open;
  for (auto end = open.rbegin(); end != open.rend(); ++end) order.push_back(*end);
  while (!open.empty()) {
    const size_t l = *open.begin();
    open.erase(open.begin());
    if (std::count(order.begin(), order.end(), l) == 0) order.push_back(l);
    steps[l] = steps_in(ranks.program, l, needed[l]);
    open.merge(need_inputs_of_others(brought, steps[l], needed));
  }
  for (auto l = order.rbegin(); l != order.rend(); ++l)
    for (const Step& step : steps[*l])
      if (std::none_of(way.steps.begin(), way.steps.end(),
                       [&](const Step& known) { return known.site == step.site; }))
        way.steps.push_back(step);
  return way;
}

std::set<ListedLine> lines_to(const RankProgram& ranks, const std::set<std::string>& names,
                              const std::set<std::string>& given) {
  std::set<ValueId> given_values;
  for (const std::string& name : given)
    if (const auto parts = ranks.names.find(name); parts != ranks.names.end())
      for (const NamedPart& part : parts->second) given_values.insert(part.value);
  std::vector<std::set<ValueId>> needed(ranks.program.listings.size());
  for (const std::string& name : names)
    if (const auto parts = ranks.names.find(name); parts != ranks.names.end())
      for (const NamedPart& part : parts->second)
        for (size_t l = 0; l < needed.size(); ++l)
          if (!part.lanes.intersect(ranks.program.listings[l].lanes).empty())
            needed[l].insert(part.value);
  const std::vector<CallInput> brought = inputs_of_calls(ranks.program);
  std::set<size_t> open;
  for (size_t l = 0; l < needed.size(); ++l)
    if (!needed[l].empty()) open.insert(l);
  std::set<ListedLine> lines;
  while (!open.empty()) {
    const size_t l = *open.begin();
    open.erase(open.begin());
    const std::vector<Step> steps = steps_in(ranks.program, l, needed[l], given_values);
    for (const Step& step : steps) lines.insert({l, step.site.line});
    open.merge(need_inputs_of_others(brought, steps, needed));
  }
  return lines;
}

AxisState state_of(const WayToValue& way, const Provenance& provenance, int axis) {
  AxisState state;
  for (size_t i = 0; i < way.ends.size(); ++i) {
    const AxisState& part = provenance.state(way.ends[i], axis);
    if (i == 0) {
      state = part;
      continue;
    }
    // The parts are different values on different ranks.
    if (!state.is_same_kind(part) || part.kind == AxisKind::replicated)
      state.kind = AxisKind::unknown;
    state.sources.insert(part.sources.begin(), part.sources.end());
  }
  return state;
}

const CallItem* collective_of(const Step& step) {
  const auto* call = std::get_if<Communicate>(&step.instr->action);
  if (call == nullptr || call->items.empty()) return nullptr;
  const CallItem& first = call->items.front();
  for (const CallItem& item : call->items)
    if (item.collective.kind != first.collective.kind || item.input != first.input ||
        !(item.collective.group == first.collective.group) ||
        !(item.collective.reduction == first.collective.reduction))
      return nullptr;
  return &first;
}

const CallItem* reduction_of(const Step& step) {
  const CallItem* item = collective_of(step);
  return item != nullptr && reduces(item->collective.kind) ? item : nullptr;
}

bool averages_before(const WayToValue& way, const Step& step) {
  bool averages = false;
  for (const Step& one : way.steps)
    if (const CallItem* const item = reduction_of(one);
        item != nullptr && one.listing == step.listing && one.index <= step.index)
      averages = item->collective.reduction.op == ReduceOp::avg;
  return averages;
}

bool averages_other_results(const RankProgram& ranks, const Step& step) {
  std::set<ValueId> results;
  for (const Instr& instr : ranks.program.listings[step.listing].instrs) {
    if (instr.origin.line == step.site.line)
      for (const ValueId id : effects_of(instr).writes) results.insert(id);
    const auto* const call = std::get_if<Communicate>(&instr.action);
    if (call == nullptr) continue;
    for (const CallItem& item : call->items)
      if (item.collective.reduction.op == ReduceOp::avg && results.contains(item.input))
        return true;
  }
  return false;
}

bool is_gradient_line(const std::vector<std::string>& lines, int line) {
  return line >= 1 && static_cast<size_t>(line) <= lines.size() &&
         lines[static_cast<size_t>(line) - 1].find("grad(") != std::string::npos;
}

bool is_made_by_grad(const RankProgram& ranks, const Step& step) {
  return is_gradient_line(ranks.program.listings[step.listing].lines, step.site.line);
}

std::optional<std::vector<int>> axes_of(const Group& group, const Mesh& mesh, const Lanes& lanes) {
  std::vector<int> axes;
  int64_t size = 1;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.axis_size(axis) == 1 || !is_over_axis(group, mesh, axis, lanes)) continue;
    axes.push_back(axis);
    size *= mesh.axis_size(axis);
  }
  if (size != group.size()) return std::nullopt;
  return axes;
}

std::optional<double> number_of(const RankProgram& ranks, ValueId id) {
  if (id == kNoValue || !ranks.program.values[static_cast<size_t>(id)].weak) return std::nullopt;
  for (const SpmdListing& listing : ranks.program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* number = std::get_if<NumberValue>(&instr.action))
        if (number->output == id) {
          if (number->values.size() == 1) return number->values[0];
          if (number->integers.size() == 1) return static_cast<double>(number->integers[0]);
          return std::nullopt;
        }
  return std::nullopt;
}

}  // namespace shardproof
