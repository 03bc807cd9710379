// Implements rank_lowering.h and the emission of rank_lowerer.h.
//
// For each listing: names are bound to the inputs that its ranks hold, then the statements are
// lowered (lowering.h). Each emitted instruction gets the current lanes and the current stream.
//
// Shapes: each value has a list of (lanes, shape). An op is inferred once for each class of lanes
// with equal shapes and attributes. Example: x has [4, 8] on ranks 0-2 and [3, 8] on rank 3. y =
// sum(x, dim=1) is inferred twice: [4] on ranks 0-2 and [3] on rank 3.
//
// `group:` collects the calls of its body; they are submitted together at its end. Other work of
// the body runs before them, so a line that uses their results is refused. Example:
//
//   group:                         emitted:
//     send(a, to=next)               c = a + 1
//     b = recv(like=a, from=prev)    Communicate{send a, recv b}
//     c = a + 1
#include "shardproof/engine/lower/rank_lowering.h"

#include <algorithm>

#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/engine/lower/value_lifetimes.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

RankLowerer::RankLowerer(const Job& job, const OpRegistry& ops, RankProgram& into,
                         SpmdListing& listing, std::string path, TruthOfChecks& truth)
    : Lowering(ops, listing.lanes),
      job_(job),
      into_(into),
      listing_(listing),
      path_(std::move(path)),
      truth_(truth) {
  for (const auto& [name, number] : job.numbers) numbers_.emplace(name, number);
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const Lanes held = job.inputs[i].on.intersect(listing.lanes);
    if (!held.empty())
      names_.add(job.inputs[i].name, {held, static_cast<ValueId>(into.program.inputs[i]), 0});
  }
}

// A stream has no beginning: a line may wait for it before the first line that issues work on it.
void RankLowerer::add_streams(const std::vector<Statement>& statements) {
  for (const Statement& statement : statements) {
    if (statement.kind == StatementKind::on_stream && statement.targets[0].plain())
      known_streams_.insert(statement.targets[0].texts[0]);
    add_streams(statement.body);
    add_streams(statement.otherwise);
  }
}

void RankLowerer::run(const Listing& listing) {
  start_tape(listing);
  frees_at_once_ = tape_ == nullptr && !calls_verb(listing.statements, "keep");
  add_streams(listing.statements);
  walk(listing.statements);
  for (const auto& [name, parts] : names_.all())
    for (const NameTable::Part& part : parts)
      if (const ValueId* id = std::get_if<ValueId>(&part.binding))
        into_.names[name].push_back({part.lanes, *id, part.line, part.instance});
}

ValueId RankLowerer::add_value(DType dtype, LocalShapes shapes, Category category) {
  const size_t id = into_.program.values.size();
  SpmdValue& value = into_.program.values.emplace_back();
  value.dtype = dtype;
  value.shapes = std::move(shapes);
  value.category = category;
  value.origin = origin();
  value.name = "_" + std::to_string(id);
  return static_cast<ValueId>(id);
}

Instr& RankLowerer::add(Action action) {
  Instr& instr =
      listing_.instrs.emplace_back(Instr{lanes_, streams_.back(), std::move(action), {}, origin()});
  if (group_depth_ == 0) return instr;
  const auto is_result = [&](ValueId id) { return group_results_.contains(id); };
  bool after = false;
  if (const Merge* const merge = std::get_if<Merge>(&instr.action)) {
    // A name for results computes nothing, but its parts must exist.
    after = std::any_of(merge->parts.begin(), merge->parts.end(),
                        [&](const auto& part) { return is_result(part.second); });
    if (after) group_results_.insert(merge->output);
  } else {
    const Effects effects = effects_of(instr);
    if (std::any_of(effects.reads.begin(), effects.reads.end(), is_result) ||
        std::any_of(effects.writes.begin(), effects.writes.end(), is_result))
      fail(place_,
           "a line of a group uses the result of a call of the same group, which ends with the "
           "group; write it after the group");
  }
  if (!after) return instr;
  after_group_.push_back(std::move(instr));
  listing_.instrs.pop_back();
  return after_group_.back();
}

void RankLowerer::add_calls(std::vector<CallItem> items) {
  for (CallItem& item : items) item.origin = origin();
  if (group_depth_ == 0) {
    add(Communicate{std::move(items)});
    return;
  }
  for (CallItem& item : items) {
    if (group_results_.contains(item.input))
      fail(place_,
           "a call of a group reads the result of another call of the same group; write it after "
           "the group");
    open_group_.items.push_back(item);
    if (item.output != kNoValue) group_results_.insert(item.output);
  }
}

void RankLowerer::enter_group() {
  if (group_depth_++ > 0) return;
  open_group_ = {};
  group_results_.clear();
}

void RankLowerer::leave_group() {
  if (--group_depth_ > 0) return;
  if (!open_group_.items.empty()) {
    const Lanes mask = lanes_;
    lanes_ = {};
    for (const CallItem& item : open_group_.items) lanes_ = lanes_.unite(item.lanes);
    add(std::move(open_group_));
    lanes_ = mask;
  }
  for (Instr& instr : after_group_) listing_.instrs.push_back(std::move(instr));
  after_group_.clear();
}

void RankLowerer::enter_stream(const std::string& name) {
  if (group_depth_ > 0) fail(place_, "a stream cannot begin inside a group");
  streams_.push_back(name);
  known_streams_.insert(name);
}

bool RankLowerer::define(const std::string& name, const Expr& value) {
  if (value.kind != ExprKind::call || value.symbol != "record") return false;
  if (!value.args.empty())
    fail(value.place, "record() takes no arguments; it records an event on the current stream");
  if (names_.find(name)) {
    forget(name);
    names_.erase_if_unbound(name);  // else an error would call the name freed
  }
  events_[name] = events_[name].unite(lanes_);
  add(RecordEvent{name});
  return true;
}

void RankLowerer::leave_stream() { streams_.pop_back(); }

void RankLowerer::begin_claim(const Statement& statement) {
  fail(statement.place, "`as` belongs to global programs; a rank program holds shards already");
}

ValueId RankLowerer::end_claim(ValueId value, const Statement&) { return value; }

void RankLowerer::named(ValueId id, const std::string& name) {
  if (const NameTable::Parts* known = names_.find(name))
    for (const NameTable::Part& part : *known)
      if (const ValueId* other = std::get_if<ValueId>(&part.binding))
        mixes_dtypes_ = mixes_dtypes_ || (value(*other).dtype != value(id).dtype &&
                                          !part.lanes.minus(lanes_).empty());
  SpmdValue& made = into_.program.values[static_cast<size_t>(id)];
  if (!made.bound.empty() || made.origin.line == 0) return;
  BoundName& bound = uses_[name];
  if (bound.uses == 0) bound.text = name;
  made.bound = bound.text;
  made.name = name;
  if (bound.uses > 0) made.name.append(".").append(std::to_string(bound.uses));
  ++bound.uses;
}

void RankLowerer::unnamed(ValueId id, const Lanes& lanes) {
  if (frees_at_once_ && group_depth_ == 0 && has_one_shape(id, lanes) && !listing_.instrs.empty() &&
      !value(id).bound.empty()) {
    Instr& last = listing_.instrs.back();
    if (std::holds_alternative<Compute>(last.action) && last.lanes == lanes &&
        last.origin.line == place_.line && last.origin.instance == instance_)
      return last.releases.push_back(id);
  }
  Instr& instr = (group_depth_ > 0 ? after_group_ : listing_.instrs).emplace_back();
  instr.lanes = lanes;
  instr.stream = streams_.back();
  instr.action = Free{id};
  instr.origin = origin();
}

TensorMeta RankLowerer::meta_of(ValueId id) {
  if (id == kNoValue) return {DType::f32, {}, false, true};
  return {value(id).dtype, shape_on(id, lanes_[0]), value(id).weak, false};
}

std::vector<Lanes> RankLowerer::equal_shapes(const std::vector<ValueId>& values) {
  return classes_of(values, {});
}

Dims RankLowerer::shape_on(ValueId id, int64_t rank) const {
  if (const LocalShape* shape = value(id).shapes.find(rank)) return shape->shape;
  throw_bad_input("{} has no value on rank {}: reduce and gather return a result on the root only",
                  value(id).name, rank);
}

// Ranks other than the root have no result of reduce and gather.
void RankLowerer::refine_by(LaneClasses& classes, ValueId id, const Lanes& lanes) const {
  const LocalShapes& shapes = value(id).shapes;
  if (has_one_shape(id, lanes)) return classes.refine(shapes);
  if (const Lanes missing = lanes.minus(shapes.lanes()); !missing.empty())
    throw_bad_input(
        "{} has no value on rank {}: reduce and gather return a result on the root only",
        value(id).name, missing[0]);
  classes.refine(shapes);
}

std::vector<Lanes> RankLowerer::classes_of(const std::vector<ValueId>& values,
                                           std::vector<const PerRankNumber*> numbers) {
  LaneClasses classes(lanes_);
  for (ValueId id : values)
    if (id != kNoValue) refine_by(classes, id, lanes_);
  for (const PerRankNumber* number : numbers)
    if (number) classes.refine(*number);
  return classes.lanes();
}

std::vector<Lanes> RankLowerer::equal_dtypes(const Statement& statement) {
  if (!mixes_dtypes_) return {};
  std::vector<const NameTemplate*> names;
  const auto add_name = [&](const NameTemplate& name) { names.push_back(&name); };
  if (statement.value) visit_names(*statement.value, add_name);
  for (const Expr& end : statement.range) visit_names(end, add_name);
  if (statement.kind == StatementKind::assign_index) names.push_back(&statement.targets.at(0));
  std::vector<Lanes> classes{lanes_};
  for (const NameTemplate* name : names) {
    const NameTable::Parts* known = names_.find(name_of(*name));
    if (known == nullptr) continue;
    std::map<DType, Lanes> by_dtype;
    for (const NameTable::Part& part : *known)
      if (const ValueId* id = std::get_if<ValueId>(&part.binding))
        by_dtype[value(*id).dtype] = by_dtype[value(*id).dtype].unite(part.lanes);
    std::vector<Lanes> finer;
    for (const Lanes& lanes : classes) {
      Lanes rest = lanes;
      for (const auto& [dtype, held] : by_dtype)
        if (const Lanes cut = lanes.intersect(held); !cut.empty()) {
          finer.push_back(cut);
          rest = rest.minus(cut);
        }
      if (!rest.empty()) finer.push_back(rest);
    }
    classes = std::move(finer);
  }
  if (classes.size() < 2) return {};
  return classes;
}

namespace {

// True if both are equal and print the same text: 0.0 and -0.0 do not.
bool attrs_are_identical(const Attrs& a, const Attrs& b) {
  if (a.identity() == b.identity()) return true;
  if (!(a == b)) return false;
  const auto has_zeros = [](const auto& entry) {
    return std::holds_alternative<double>(entry.second) ||
           std::holds_alternative<std::vector<double>>(entry.second);
  };
  const bool exact = std::none_of(a.values().begin(), a.values().end(), has_zeros);
  return exact || to_string(a) == to_string(b);
}

}  // namespace

// True if there is no value, or if it has one shape on all these lanes and exists on no others.
bool RankLowerer::has_one_shape(ValueId id, const Lanes& lanes) const {
  if (id == kNoValue) return true;
  const LocalShapes& shapes = value(id).shapes;
  return shapes.size() == 1 && shapes[0].lanes == lanes;
}

LocalShapes RankLowerer::shared_shape(const std::vector<ValueId>& inputs, const Lanes& lanes,
                                      const Dims& shape) const {
  for (const ValueId id : inputs)
    if (id != kNoValue && has_one_shape(id, lanes) && value(id).shapes[0].shape == shape)
      return value(id).shapes;
  return {{lanes, shape}};
}

LocalShapes RankLowerer::shared_shapes(const std::vector<ValueId>& inputs,
                                       LocalShapes shapes) const {
  for (const ValueId id : inputs)
    if (id != kNoValue && value(id).shapes == shapes) return value(id).shapes;
  return shapes;
}

// Returns the result shapes of an op for the shapes of its inputs on the rank.
std::vector<TensorMeta> RankLowerer::infer_on(const OpRecord& op, const Attrs& attrs,
                                              const std::vector<ValueId>& inputs, int64_t rank) {
  OpCall call{&attrs, {}};
  call.inputs.reserve(inputs.size());
  for (const ValueId id : inputs) {
    TensorMeta& meta = call.inputs.emplace_back();
    if (id == kNoValue)
      meta.absent = true;
    else
      meta = {value(id).dtype, shape_on(id, rank), value(id).weak, false};
  }
  return op.infer(call);
}

namespace {

// Returns how to write a call whose numbers decide the dtype of its result.
const char* dtype_advice(const OpRecord& op) {
  const bool has_dtype = std::any_of(op.params.begin(), op.params.end(),
                                     [](const Param& param) { return param.name == "dtype"; });
  return has_dtype ? "the dtype, such as dtype=f32" : "numbers of one kind, such as 2.0 for 2";
}

}  // namespace

// Returns dtype and local shapes of each output.
std::vector<RankLowerer::RankMeta> RankLowerer::infer_outputs(const OpRecord& op,
                                                              const std::vector<LaneAttrs>& attrs,
                                                              const std::vector<ValueId>& inputs) {
  std::vector<RankMeta> results;
  const Lanes& first = attrs.at(0).lanes;
  const auto is_alike = [&](ValueId id) { return has_one_shape(id, first); };
  if (attrs.size() == 1 && std::all_of(inputs.begin(), inputs.end(), is_alike)) {
    for (const TensorMeta& output : infer_on(op, attrs[0].attrs, inputs, first[0]))
      results.push_back({output.dtype, shared_shape(inputs, first, output.shape)});
    return results;
  }
  std::vector<ShapesByLanes> shapes;
  for (const LaneAttrs& entry : attrs) {
    LaneClasses classes(entry.lanes);
    for (ValueId id : inputs)
      if (id != kNoValue) refine_by(classes, id, entry.lanes);
    for (const Lanes& lanes : classes.lanes()) {
      const std::vector<TensorMeta> outputs = infer_on(op, entry.attrs, inputs, lanes[0]);
      if (shapes.empty()) {
        shapes.resize(outputs.size());
        for (const TensorMeta& output : outputs) results.push_back({output.dtype, {}});
      }
      if (outputs.size() != shapes.size())
        fail(place_, fmt::format("{} gives {} values on rank {} and {} on rank {}; write a listing "
                                 "for each of these ranks, or sizes that give equally many",
                                 op.name, shapes.size(), first[0], outputs.size(), lanes[0]));
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].dtype != results[k].dtype)
          fail(place_,
               fmt::format("{} gives {} on rank {} and {} on rank {}, because the ranks give "
                           "it numbers of both kinds; write {}",
                           op.name, name(results[k].dtype), first[0], name(outputs[k].dtype),
                           lanes[0], dtype_advice(op)));
        shapes[k].add(lanes, outputs[k].shape);
      }
    }
  }
  for (size_t k = 0; k < shapes.size(); ++k)
    results[k].shapes = shared_shapes(inputs, shapes[k].shapes());
  return results;
}

bool RankLowerer::repeats_op(const OpRecord& op, const std::vector<LaneAttrs>& attrs,
                             const std::vector<ValueId>& inputs, size_t wanted) const {
  const auto found = known_ops_.find(&op);
  if (found == known_ops_.end()) return false;
  const KnownOp& known = found->second;
  if (known.lanes.empty() || known.wanted != wanted || attrs.size() != 1 ||
      !(attrs[0].lanes == known.lanes) || !attrs_are_identical(known.attrs, attrs[0].attrs))
    return false;
  const auto is_alike = [&](ValueId id, const RankMeta& input) {
    if (id == kNoValue) return input.shapes.empty();
    const SpmdValue& given = value(id);
    return !input.shapes.empty() && given.dtype == input.dtype && given.weak == input.weak &&
           given.shapes == input.shapes;
  };
  return std::equal(inputs.begin(), inputs.end(), known.inputs.begin(), known.inputs.end(),
                    is_alike);
}

std::vector<ValueId> RankLowerer::emit_op(const OpRecord& op, std::vector<LaneAttrs> attrs,
                                          std::vector<ValueId> inputs, size_t wanted) {
  const bool repeated = repeats_op(op, attrs, inputs, wanted);
  KnownOp& known = known_ops_[&op];
  if (known.name.empty()) known.name = op.name;
  if (!repeated) {
    known.lanes = {};
    known.outputs = infer_outputs(op, attrs, inputs);
    known.inputs.clear();
    for (const ValueId id : inputs)
      known.inputs.push_back(id == kNoValue
                                 ? RankMeta{}
                                 : RankMeta{value(id).dtype, value(id).shapes, value(id).weak});
    if (attrs.size() == 1) known.lanes = attrs[0].lanes;
    known.wanted = wanted;
  }
  for (LaneAttrs& entry : attrs) {
    if (repeated || attrs_are_identical(known.attrs, entry.attrs))
      entry.attrs = known.attrs;
    else
      known.attrs = entry.attrs;
  }
  Compute compute;
  compute.op = known.name;
  compute.attrs = std::move(attrs);
  compute.inputs = std::move(inputs);
  compute.outputs.reserve(known.outputs.size());
  for (const RankMeta& output : known.outputs)
    compute.outputs.push_back(add_value(output.dtype, output.shapes, Category::activations));
  if (shards_ && op.name == shards_op_) state_shards(compute);
  if (op.view && compute.outputs.size() == 1 && compute.inputs.at(0) != kNoValue)
    memory_[compute.outputs[0]] = memory_of(compute.inputs[0]);
  std::vector<ValueId> results = compute.outputs;
  add(std::move(compute));
  return results;
}

ValueId RankLowerer::emit_number(const PerRankNumber& number) {
  DType dtype = DType::boolean;
  for (const Number& v : number.values) {
    if (v.is_list() || v.is_text()) fail(place_, "expected a number, found a list or a text");
    dtype = promote(dtype, dtype_of(v));
  }
  const bool integers = dtype != DType::f64;
  NumberValue result;
  for (int64_t i = 0; i < (number.uniform() ? 1 : lanes_.size()); ++i) {
    const Number& v = number.uniform() ? number.values[0] : number.on(lanes_[i]);
    if (integers)
      result.integers.push_back(v.is_bool() ? v.truth() : v.integer());
    else
      result.values.push_back(v.real());
  }
  result.output = add_value(dtype, {{lanes_, Dims{}}}, Category::activations);
  into_.program.values.back().weak = true;
  const ValueId output = result.output;
  add(std::move(result));
  return output;
}

ValueId RankLowerer::emit_merge(const std::vector<std::pair<Lanes, ValueId>>& parts) {
  std::vector<LocalShape> shapes;
  const DType dtype = value(parts[0].second).dtype;
  for (const auto& [lanes, id] : parts) {
    if (value(id).dtype != dtype)
      fail(place_, fmt::format("{} is {} on rank {} and {} on rank {} here; cast one",
                               value(parts[0].second).bound, name(dtype), parts[0].first[0],
                               name(value(id).dtype), lanes[0]));
    for (const LocalShape& shape : value(id).shapes) {
      const Lanes cut = shape.lanes.intersect(lanes);
      if (!cut.empty()) shapes.push_back({cut, shape.shape});
    }
  }
  const ValueId merged = add_value(dtype, std::move(shapes), Category::activations);
  Memory& memory = memory_[merged];
  for (const auto& [lanes, id] : parts)
    for (const auto& [held, owner] : memory_of(id))
      if (Lanes cut = held.intersect(lanes); !cut.empty()) memory.emplace_back(cut, owner);
  add(Merge{merged, parts});
  return merged;
}

ValueId RankLowerer::emit_alias(ValueId id) {
  const ValueId alias = merge({{lanes_, id}});
  SpmdValue& made = into_.program.values[static_cast<size_t>(alias)];
  made.spec = value(id).spec;
  made.category = value(id).category;
  return alias;
}

RankLowerer::Memory RankLowerer::memory_of(ValueId id) const {
  const auto known = memory_.find(id);
  return known != memory_.end() ? known->second : Memory{{listing_.lanes, id}};
}

bool RankLowerer::shares(const Memory& memory, ValueId id, const Lanes& lanes) const {
  const auto meets = [&](const Lanes& held, ValueId owner) {
    return std::any_of(memory.begin(), memory.end(), [&](const auto& part) {
      return part.second == owner && !part.first.intersect(held).intersect(lanes).empty();
    });
  };
  const auto known = memory_.find(id);
  if (known == memory_.end()) return meets(lanes, id);
  return std::any_of(known->second.begin(), known->second.end(),
                     [&](const auto& part) { return meets(part.first, part.second); });
}

void RankLowerer::wrote(ValueId target) {
  const Memory memory = memory_of(target);
  names_.mark_written(place_.line, origin().instance, [&](ValueId id, const Lanes& lanes) {
    return shares(memory, id, lanes.intersect(lanes_));
  });
}

void RankLowerer::write_in_place(ValueId target, ValueId source) {
  for (const Lanes& lanes : classes_of({target, source}, {})) {
    const Dims to = shape_on(target, lanes[0]), from = shape_on(source, lanes[0]);
    if (!(broadcast_shapes(to, from) == to))
      fail(place_, fmt::format("a value of shape {} cannot be written into {}", to_string(from),
                               to_string(to)));
  }
  const OpRecord* cast = ops_.find("cast");
  SP_CHECK(cast, "the registry has no cast");
  Compute compute;
  compute.op = cast->name;
  compute.attrs = {{lanes_, Attrs{{"dtype", value(target).dtype}}}};
  compute.inputs = {source};
  compute.outputs = {add_value(value(target).dtype, value(source).shapes, Category::activations)};
  compute.into = target;
  add(std::move(compute));
  wrote(target);
  record_write(target, source);
}

// The last op writes into the target itself, without memory for its result, if this has the
// target's dtype and shape. Otherwise a cast writes it there.
void RankLowerer::write_result_in_place(ValueId target, ValueId result) {
  Compute* last =
      listing_.instrs.empty() ? nullptr : std::get_if<Compute>(&listing_.instrs.back().action);
  const bool fits = last != nullptr && last->outputs == std::vector<ValueId>{result} &&
                    last->into == kNoValue && !ops_.at(last->op.str()).view &&
                    value(result).dtype == value(target).dtype &&
                    value(result).shapes == value(target).shapes;
  if (!fits) return write_in_place(target, result);
  last->into = target;
  wrote(target);
  record_write(target, result);
}

std::optional<Number> RankLowerer::number_name(const std::string& name, int64_t rank) {
  if (name == "rank") return Number(rank);
  if (name == "world") return Number(job_.world);
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  return std::nullopt;
}

std::vector<std::string> RankLowerer::number_names() {
  std::vector<std::string> names;
  for (const auto& [name, number] : numbers_) names.push_back(name);
  return names;
}

bool RankLowerer::rank_dependent(const std::string& name) {
  if (name == "rank") return true;
  if (name == "next" || name == "prev") return true;
  // An axis may be the argument of index(). size(axis) then counts as differing too, which costs
  // time only.
  for (const auto& [key, mesh] : job_.meshes)
    if (mesh.find_axis(name)) return true;
  return false;
}

std::optional<Number> RankLowerer::number_function(const std::string& verb,
                                                   const std::string& argument, int64_t rank) {
  const bool size = verb == "size", index = verb == "index";
  if (!size && !index) return std::nullopt;
  const Mesh* any = nullptr;
  for (const auto& [key, mesh] : job_.meshes) {
    const std::optional<int> axis = mesh.find_axis(argument);
    if (!axis) continue;
    any = &mesh;
    const std::optional<Dims> coordinate = mesh.coordinate_of(rank);
    if (!coordinate) continue;
    if (size) return Number(mesh.axes()[static_cast<size_t>(*axis)].size);
    return Number((*coordinate)[*axis]);
  }
  if (any && size) return Number(any->axes()[static_cast<size_t>(any->axis(argument))].size);
  if (any) throw_bad_input("rank {} is not on the mesh that has the axis {}", rank, argument);
  NearestName nearest(argument);
  for (const auto& [key, mesh] : job_.meshes)
    for (const MeshAxis& axis : mesh.axes()) nearest.offer(axis.name);
  throw_bad_input("unknown axis {}{}", argument, nearest.hint());
}

std::optional<PerRankNumber> RankLowerer::shape_number(const Expr& call) {
  if (call.args.size() != 2 || call.args[0].kind != ExprKind::name) return std::nullopt;
  if (is_number(call.args[0])) return std::nullopt;
  const std::optional<Binding> bound = find(name_of(call.args[0].name), call.place);
  if (!bound) return std::nullopt;
  const ValueId id = std::get<ValueId>(*bound);
  const int dim = normalize_dim(uniform_number(call.args[1]).integer(), meta_of(id).shape.size());
  PerRankNumber result{lanes_, {}};
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    if (call.symbol == "dim") {
      result.values.push_back(Number(shape_on(id, lanes_[i])[dim]));
      continue;
    }
    if (!value(id).spec)
      fail(call.place,
           fmt::format(
               "start: expected a tensor of the file, found {0}, which a line computes; write "
               "start of a tensor of the file, or index(tp) * dim({0}, 0)",
               value(id).name));
    result.values.push_back(Number(value(id).spec->start(lanes_[i])[dim]));
  }
  const bool same = std::all_of(result.values.begin(), result.values.end(),
                                [&](const Number& v) { return v == result.values[0]; });
  if (same) result.values.resize(1);
  return result;
}

namespace {

LocalShapes input_shapes(const JobInput& input) {
  std::vector<LocalShape> shapes;
  std::map<Dims, std::vector<int32_t>> by_shape;
  for (int64_t i = 0; i < input.on.size(); ++i)
    by_shape[input.spec.local_shape(input.on[i])].push_back(input.on[i]);
  for (auto& [shape, ranks] : by_shape) shapes.push_back({Lanes::of(std::move(ranks)), shape});
  return shapes;
}

}  // namespace

RankProgram lower_ranks(const Job& job, const OpRegistry& ops) {
  RankProgram result;
  result.program.world = job.world;
  for (const JobInput& input : job.inputs) {
    SpmdValue value;
    value.name = value.bound = input.name;
    value.dtype = input.spec.dtype();
    value.shapes = input_shapes(input);
    value.spec = input.spec;
    value.category = input.category;
    result.program.inputs.push_back(static_cast<ValueId>(result.program.values.size()));
    result.program.values.push_back(std::move(value));
  }
  TruthOfChecks truth(job, ops);
  result.program.listings.reserve(job.ranks.size());
  for (const JobListing& entry : job.ranks) {
    SpmdListing& listing = result.program.listings.emplace_back();
    listing.lanes = entry.lanes;
    listing.lines = entry.listing.lines;
    listing.path = entry.path;
    if (entry.lanes.empty()) continue;
    try {
      RankLowerer(job, ops, result, listing, entry.path, truth).run(entry.listing);
    } catch (const Error& error) {
      throw error.inside(Where{"", entry.path, 0, 0});
    }
  }
  free_after_last_use(result.program, result.recomputed);
  apply_keep_lifetimes(result.program);
  return result;
}

}  // namespace shardproof
