// Implements edit_ranks.h: copies the listing instruction by instruction, and puts new ones before
// or after those at the site. Later readers of a value then read the edited one.
#include "shardproof/engine/explain/edit_ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace shardproof {

std::vector<Site> sites_of(const SpmdProgram& program, size_t listing) {
  std::vector<Site> sites;
  std::map<std::pair<int, std::string>, int> next;
  for (const Instr& instr : program.listings[listing].instrs)
    sites.push_back(
        {listing, instr.origin.line, next[{instr.origin.line, instr.origin.instance}]++});
  return sites;
}

namespace {

// Appends a grouped call as one instruction for each line of collectives, then one for messages.
void append_separated(Instr instr, Instrs& instrs) {
  const std::vector<CallItem> items = std::move(std::get<Communicate>(instr.action).items);
  const std::vector<ValueId> releases = std::move(instr.releases);
  const auto are_together = [](const CallItem& a, const CallItem& b) {
    const bool messages = is_point_to_point(a.collective.kind);
    if (messages != is_point_to_point(b.collective.kind)) return false;
    return messages || (a.origin.line == b.origin.line && a.origin.column == b.origin.column);
  };
  std::vector<Communicate> calls;
  for (const bool messages : {false, true})
    for (const CallItem& item : items) {
      if (is_point_to_point(item.collective.kind) != messages) continue;
      const auto same = std::find_if(calls.begin(), calls.end(), [&](const Communicate& call) {
        return are_together(call.items.front(), item);
      });
      (same == calls.end() ? calls.emplace_back() : *same).items.push_back(item);
    }
  for (Communicate& call : calls) {
    Instr one = instr;
    one.origin = call.items.front().origin;
    one.lanes = {};
    for (const CallItem& item : call.items) one.lanes = one.lanes.unite(item.lanes);
    if (&call == &calls.back()) one.releases = releases;
    one.action = std::move(call);
    instrs.push_back(std::move(one));
  }
}

// True if the calls were written on other lines than the instruction: in a block.
bool is_group(const Instr& instr) {
  const auto* call = std::get_if<Communicate>(&instr.action);
  return call != nullptr &&
         std::any_of(call->items.begin(), call->items.end(), [&](const CallItem& item) {
           return item.origin.line > 0 && item.origin.line != instr.origin.line;
         });
}

}  // namespace

void separate_grouped_calls(SpmdProgram& program) {
  for (SpmdListing& listing : program.listings) {
    if (std::none_of(listing.instrs.begin(), listing.instrs.end(), is_group)) continue;
    Instrs instrs;
    for (Instr& instr : listing.instrs)
      if (is_group(instr))
        append_separated(std::move(instr), instrs);
      else
        instrs.push_back(std::move(instr));
    listing.instrs = std::move(instrs);
  }
}

ValueId made_by(const Instr& instr, size_t slot) {
  if (const auto* compute = std::get_if<Compute>(&instr.action)) {
    if (slot >= compute->outputs.size()) return kNoValue;
    return compute->into != kNoValue ? compute->into : compute->outputs[slot];
  }
  const auto* call = std::get_if<Communicate>(&instr.action);
  if (call == nullptr || slot > 0 || call->items.empty()) return kNoValue;
  const CallItem& item = call->items.front();
  return is_point_to_point(item.collective.kind) ? kNoValue : item.output;
}

namespace {

class Editing {
 public:
  Editing(RankProgram& ranks, const Edit& edit, size_t listing, const std::string& target)
      : ranks_(ranks), edit_(edit), listing_(listing), target_(target) {}

  bool run() {
    const std::vector<Site> sites = sites_of(ranks_.program, listing_);
    Instrs instrs = std::move(listing().instrs);
    listing().instrs.clear();
    find_last_writers(instrs, sites);
    for (size_t i = 0; i < instrs.size(); ++i) {
      Instr& instr = instrs[i];
      redirect_reads(instr);
      if (is_edited(sites[i]) && !change(instr)) return false;
      listing().instrs.push_back(std::move(instr));
      const auto [first, last] = made_here_.equal_range(i);
      for (auto at = first; at != last; ++at)
        if (!is_released(at->second)) replace_later(at->second, listing().instrs.back());
    }
    redirect_names();
    return changed_;
  }

 private:
  SpmdListing& listing() { return ranks_.program.listings[listing_]; }
  SpmdValue& value(ValueId id) { return ranks_.program.values[static_cast<size_t>(id)]; }
  bool is_edited(const Site& site) const {
    return site == edit_.site ||
           std::find(edit_.also.begin(), edit_.also.end(), site) != edit_.also.end();
  }
  // True if the last instruction releases the value, so that nothing reads it later.
  bool is_released(ValueId id) {
    const std::vector<ValueId>& released = listing().instrs.back().releases;
    return std::find(released.begin(), released.end(), id) != released.end();
  }
  bool makes_new() const {
    return edit_.kind == Edit::Kind::reduce || edit_.kind == Edit::Kind::scale_output ||
           edit_.kind == Edit::Kind::round_output || edit_.kind == Edit::Kind::shift_output;
  }

  // A value that is written in place is complete after its last write.
  void find_last_writers(const Instrs& instrs, const std::vector<Site>& sites) {
    if (!makes_new()) return;
    std::map<ValueId, size_t> last;
    for (size_t i = 0; i < instrs.size(); ++i)
      if (is_edited(sites[i]))
        if (const ValueId id = made_by(instrs[i], edit_.slot); id != kNoValue) last.emplace(id, i);
    for (size_t i = 0; i < instrs.size(); ++i)
      for (const ValueId id : effects_of(instrs[i]).writes)
        if (const auto found = last.find(id); found != last.end())
          found->second = std::max(found->second, i);
    for (const auto& [id, at] : last) made_here_.emplace(at, id);
  }

  ValueId add_like(ValueId like, const Lanes& lanes) {
    SpmdValue made = value(like);
    made.name = fmt::format("_edit{}", ranks_.program.values.size());
    made.bound = {};
    made.spec.reset();
    std::vector<LocalShape> shapes;
    for (const LocalShape& shape : made.shapes)
      if (Lanes cut = shape.lanes.intersect(lanes); !cut.empty())
        shapes.push_back({std::move(cut), shape.shape});
    made.shapes = std::move(shapes);
    ranks_.program.values.push_back(std::move(made));
    return static_cast<ValueId>(ranks_.program.values.size()) - 1;
  }

  void add(Action action, const Instr& beside) {
    Instr instr;
    instr.lanes = beside.lanes;
    instr.stream = beside.stream;
    instr.origin = beside.origin;
    instr.action = std::move(action);
    listing().instrs.push_back(std::move(instr));
  }

  // `by_lane` gives each lane a number of its own; empty: all have `number`.
  ValueId add_number(double number, DType dtype, const Instr& beside,
                     std::vector<double> by_lane = {}) {
    SpmdValue made;
    made.name = fmt::format("_edit{}", ranks_.program.values.size());
    made.dtype = dtype;
    made.weak = true;
    made.shapes = {{beside.lanes, Dims{}}};
    ranks_.program.values.push_back(std::move(made));
    const auto id = static_cast<ValueId>(ranks_.program.values.size()) - 1;
    NumberValue value{id, {}, {}};
    if (is_integral(dtype) && by_lane.empty())
      value.integers = {static_cast<int64_t>(number)};
    else if (is_integral(dtype))
      value.integers.assign(by_lane.begin(), by_lane.end());
    else
      value.values = by_lane.empty() ? std::vector<double>{number} : std::move(by_lane);
    add(std::move(value), beside);
    return id;
  }

  // Returns the edit's numbers by lane of an instruction; empty if it has none.
  std::vector<double> factors_on(const Instr& beside) const {
    std::vector<double> by_lane;
    for (int64_t i = 0; i < beside.lanes.size() && !edit_.factors.empty(); ++i) {
      const auto rank = static_cast<size_t>(beside.lanes[i]);
      by_lane.push_back(rank < edit_.factors.size() ? edit_.factors[rank] : 1);
    }
    return by_lane;
  }

  ValueId add_infix(const char* op, ValueId of, ValueId number, const Instr& beside) {
    const ValueId result = add_like(of, beside.lanes);
    Compute compute;
    compute.op = op;
    compute.attrs = {{beside.lanes, {}}};
    compute.inputs = {of, number};
    compute.outputs = {result};
    add(std::move(compute), beside);
    return result;
  }

  ValueId add_cast(ValueId of, DType dtype, const Instr& beside) {
    const ValueId result = add_like(of, beside.lanes);
    value(result).dtype = dtype;
    Compute compute;
    compute.op = "cast";
    compute.attrs = {{beside.lanes, Attrs{{"dtype", dtype}}}};
    compute.inputs = {of};
    compute.outputs = {result};
    add(std::move(compute), beside);
    return result;
  }

  // Integers keep their dtype. Requires can_scale.
  ValueId add_product(ValueId of, double factor, const Instr& beside) {
    const DType number = is_integral(value(of).dtype) ? DType::i64 : DType::f64;
    return add_infix("mul", of, add_number(factor, number, beside, factors_on(beside)), beside);
  }

  // True if the products with the edit's factors have the value's dtype.
  bool can_scale(ValueId id) {
    const auto is_whole = [](double factor) { return factor == std::trunc(factor); };
    const DType dtype = value(id).dtype;
    if (is_floating(dtype) || is_complex(dtype)) return true;
    return dtype != DType::boolean && is_whole(edit_.factor) &&
           std::all_of(edit_.factors.begin(), edit_.factors.end(), is_whole);
  }

  // The ranks of the listing that hold a value: of a reduce only the roots do. One instruction for
  // each mesh may write it.
  Lanes holders(ValueId id) {
    Lanes held;
    for (const LocalShape& shape : value(id).shapes)
      held = held.unite(shape.lanes.intersect(listing().lanes));
    return held;
  }

  void replace_later(ValueId id, const Instr& made_by) {
    Instr beside = made_by;  // the listing grows
    beside.lanes = holders(id);
    if (beside.lanes.empty()) return;
    if (edit_.kind == Edit::Kind::scale_output && !can_scale(id)) return;
    ValueId now = kNoValue;
    if (edit_.kind == Edit::Kind::scale_output) {
      now = add_product(id, edit_.factor, beside);
    } else if (edit_.kind == Edit::Kind::round_output) {
      now = add_cast(add_cast(id, edit_.dtype, beside), value(id).dtype, beside);
    } else if (edit_.kind == Edit::Kind::shift_output) {
      now = add_infix("add", id, add_number(0, DType::i64, beside, factors_on(beside)), beside);
    } else {
      now = add_like(id, beside.lanes);
      Communicate call;
      for (const LocalShape& shape : value(now).shapes) {
        CallItem& item = call.items.emplace_back();
        item.lanes = shape.lanes;
        item.collective.kind = CollectiveKind::all_reduce;
        item.collective.reduction = edit_.reduction;
        item.collective.dtype = value(id).dtype;
        item.collective.group = edit_.group;
        item.collective.count = element_count(shape.shape);
        item.input = id;
        item.output = now;
        item.origin = beside.origin;
      }
      add(std::move(call), beside);
    }
    instead_[id] = now;
    changed_ = true;
  }

  void redirect(ValueId& id) const {
    if (const auto found = instead_.find(id); found != instead_.end()) id = found->second;
  }
  void redirect_reads(Instr& instr) const {
    if (auto* compute = std::get_if<Compute>(&instr.action))
      for (ValueId& id : compute->inputs) redirect(id);
    if (auto* call = std::get_if<Communicate>(&instr.action))
      for (CallItem& item : call->items)
        if (!item.in_place) redirect(item.input);
    if (auto* step = std::get_if<Reshuffle>(&instr.action)) redirect(step->input);
    if (auto* merge = std::get_if<Merge>(&instr.action))
      for (auto& [lanes, id] : merge->parts) redirect(id);
    if (auto* copy = std::get_if<Snapshot>(&instr.action))
      if (copy->name == target_) redirect(copy->input);
  }
  void redirect_names() {
    if (const auto found = ranks_.names.find(target_); found != ranks_.names.end())
      for (NamedPart& part : found->second) redirect(part.value);
  }

  bool change(Collective& collective) const {
    const CollectiveKind kind = collective.kind;
    if (edit_.kind == Edit::Kind::change_op) {
      collective.reduction = edit_.reduction;
      return reduces(kind);
    }
    const bool keeps_shapes = kind == CollectiveKind::all_reduce ||
                              kind == CollectiveKind::reduce ||
                              edit_.group.size() == collective.group.size();
    collective.group = edit_.group;
    return keeps_shapes && !has_counts(kind) && !is_point_to_point(kind);
  }

  // Returns the value of all ranks of the group, joined along a dim; kNoValue if their shapes
  // differ.
  ValueId add_gathered(ValueId of, int dim, const Instr& beside) {
    const ValueId made = add_like(of, beside.lanes);
    const LocalShapes known = value(made).shapes;
    if (known.size() != 1 || known[0].lanes != beside.lanes) return kNoValue;
    Dims shape = known[0].shape;
    CallItem item;
    item.lanes = beside.lanes;
    item.collective.kind = CollectiveKind::all_gather;
    item.collective.dtype = value(of).dtype;
    item.collective.group = edit_.group;
    item.collective.count = element_count(shape);
    item.dim = dim;
    item.input = of;
    item.output = made;
    item.origin = beside.origin;
    shape[dim] *= edit_.group.size();
    value(made).shapes = {{beside.lanes, shape}};
    add(Communicate{{item}}, beside);
    return made;
  }

  // Takes each rank's part of a whole result along the dim in which it differs from the part.
  bool run_on_whole(Compute& compute, const Instr& instr) {
    if (compute.outputs.size() != 1 || compute.into != kNoValue) return false;
    for (const auto& [slot, dim] : edit_.gathered) {
      compute.inputs[slot] = add_gathered(compute.inputs[slot], dim, instr);
      if (compute.inputs[slot] == kNoValue) return false;
    }
    changed_ = true;
    const ValueId part = compute.outputs[0];
    const LocalShapes shapes = value(part).shapes;
    if (shapes.size() != 1) return false;
    const Dims local = shapes[0].shape;
    if (local == edit_.whole) return true;
    if (local.size() != edit_.whole.size()) return false;
    int cut = -1;
    for (int d = 0; d < local.size(); ++d) {
      if (local[d] == edit_.whole[d]) continue;
      if (cut >= 0 || local[d] * edit_.group.size() != edit_.whole[d]) return false;
      cut = d;
    }
    const ValueId whole = add_like(part, instr.lanes);
    value(whole).shapes = {{instr.lanes, edit_.whole}};
    compute.outputs[0] = whole;
    add(compute, instr);
    Compute slice;
    slice.op = edit_.slice;
    slice.inputs = {whole};
    slice.outputs = {part};
    for (int64_t i = 0; i < instr.lanes.size(); ++i) {
      std::vector<int64_t> start, stop;
      for (int d = 0; d < local.size(); ++d) {
        start.push_back(d == cut ? local[d] * edit_.group.index_of(instr.lanes[i]) : 0);
        stop.push_back(start.back() + local[d]);
      }
      slice.attrs.push_back({Lanes::one(instr.lanes[i]),
                             Attrs{{"start", start}, {"stop", stop}, {"step", std::monostate{}}}});
    }
    compute = std::move(slice);
    return true;
  }

  // Returns false if the edit does not apply to this kind of instruction.
  bool change(Instr& instr) {
    if (makes_new()) return true;
    if (edit_.kind == Edit::Kind::regroup || edit_.kind == Edit::Kind::change_op) {
      auto* call = std::get_if<Communicate>(&instr.action);
      if (call == nullptr) return false;
      for (CallItem& item : call->items)
        if (!change(item.collective)) return false;
      return changed_ = true;
    }
    auto* compute = std::get_if<Compute>(&instr.action);
    if (compute == nullptr || edit_.slot >= compute->inputs.size()) return false;
    if (edit_.kind == Edit::Kind::on_whole) return run_on_whole(*compute, instr);
    ValueId& input = compute->inputs[edit_.slot];
    if (edit_.kind == Edit::Kind::scale_input && !can_scale(input)) return false;
    if (edit_.kind == Edit::Kind::drop_factor)
      input = add_number(1, value(input).dtype, instr);
    else
      input = add_product(input, edit_.factor, instr);
    return changed_ = true;
  }

  RankProgram& ranks_;
  const Edit& edit_;
  const size_t listing_;
  const std::string& target_;
  std::multimap<size_t, ValueId> made_here_;  // by instruction: values to replace from there on
  std::map<ValueId, ValueId> instead_;
  bool changed_ = false;
};

}  // namespace

std::optional<RankProgram> edited(const RankProgram& ranks, const Edit& edit,
                                  const std::string& target) {
  RankProgram result = ranks;
  std::set<size_t> listings{edit.site.listing};
  for (const Site& site : edit.also) listings.insert(site.listing);
  for (const size_t listing : listings)
    if (!Editing(result, edit, listing, target).run()) return std::nullopt;
  return result;
}

}  // namespace shardproof
