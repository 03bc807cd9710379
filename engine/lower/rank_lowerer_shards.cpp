// Implements the argument shards= of rank_lowerer.h (program/ir/step_text.h). It belongs to steps
// of redistributions, and to ops whose result depends on which elements of a whole tensor the ranks
// hold.
//
// A step is refused unless the parts of a rank's group together hold all elements that the rank
// owns after the step. Example: S(0) of [8] over 2 ranks becomes R by an all_gather. It becomes
// S(0, sizes=[6, 2]) by an all_to_all, because an all_gather would move elements that no rank
// needs.
#include <algorithm>
#include <map>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/engine/lower/step_items.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/copy_segments.h"
#include "shardproof/localtensor/plan/transfer.h"

namespace shardproof {
namespace {

constexpr std::pair<std::string_view, StepKind> kSteps[] = {
    {"all_gather", StepKind::all_gather}, {"all_to_all", StepKind::all_to_all},
    {"exchange", StepKind::exchange},     {"reduce_scatter", StepKind::reduce_scatter},
    {"all_reduce", StepKind::all_reduce},
};

std::vector<LocalShape> shapes_of(const Spec& spec, const Lanes& lanes) {
  std::map<Dims, std::vector<int32_t>> by_shape;
  for (int64_t i = 0; i < lanes.size(); ++i)
    by_shape[spec.local_shape(lanes[i])].push_back(lanes[i]);
  std::vector<LocalShape> shapes;
  for (auto& [shape, ranks] : by_shape) shapes.push_back({Lanes::of(std::move(ranks)), shape});
  std::sort(shapes.begin(), shapes.end(),
            [](const LocalShape& a, const LocalShape& b) { return a.lanes[0] < b.lanes[0]; });
  return shapes;
}

// Returns the number of elements that `owner` owns before the step and `rank` after it.
int64_t common_elements(const PlanStep& step, int32_t owner, int32_t rank) {
  int64_t elements = 1;
  for (int dim = 0; dim < step.from.shape().size(); ++dim)
    elements *= length(common_runs(step.from.owned(owner, dim), step.to.owned(rank, dim)));
  return elements;
}

// Returns the first rank that the step leaves without some of its elements.
std::optional<int32_t> incomplete_rank(const PlanStep& step, const Group& group) {
  const Lanes ranks = step.from.mesh().ranks();
  for (int64_t i = 0; i < ranks.size(); ++i) {
    int64_t found = 0;
    const bool alone = step.kind == StepKind::local || step.kind == StepKind::all_reduce ||
                       step.kind == StepKind::reduce_scatter;
    if (alone)
      found = common_elements(step, ranks[i], ranks[i]);
    else
      for (const int32_t member : group.members(group.sibling_of(ranks[i])))
        found += common_elements(step, member, ranks[i]);
    if (found < element_count(step.to.local_shape(ranks[i]))) return ranks[i];
  }
  return std::nullopt;
}

// Returns the reason against the partial placements of a step, or "".
std::string error_of_partials(const PlanStep& step) {
  const bool ends = step.kind == StepKind::all_reduce || step.kind == StepKind::reduce_scatter;
  for (int axis = 0; axis < step.from.mesh().axis_count(); ++axis) {
    const Placement &from = step.from.placement(axis), &to = step.to.placement(axis);
    if (step.from.mesh().axis_size(axis) == 1) continue;  // a part of one rank is the whole
    const bool over = std::find(step.axes.begin(), step.axes.end(), axis) != step.axes.end();
    const std::string& axis_name = step.from.mesh().axes()[static_cast<size_t>(axis)].name;
    if (ends && over && (!from.is_partial() || to.is_partial()))
      return fmt::format(
          "{0} over {1} needs P on {1} before the arrow and not after it, found {2} -> "
          "{3}",
          name(step.kind), axis_name, to_string(from), to_string(to));
    if (over && ends) continue;
    if (over && from.is_partial())
      return fmt::format(
          "{} cannot read parts of a sum: {} is {}; write all_reduce or reduce_scatter",
          name(step.kind), axis_name, to_string(from));
    const bool fills = step.kind == StepKind::local && !from.is_partial();
    if ((from.is_partial() || to.is_partial()) && !(from == to) && !fills)
      return fmt::format("expected {} to stay as it is, found {} -> {}", axis_name, to_string(from),
                         to_string(to));
  }
  return "";
}

}  // namespace

ShardsArgument RankLowerer::read_shards(const Expr& expr) {
  if (expr.kind != ExprKind::text)
    fail(expr.place, fmt::format("shards: expected a text such as 'tp:S(0) of [8, 4] -> R of "
                                 "[8, 4]', found {}",
                                 to_string(expr)));
  try {
    return parse_shards(name_of(expr.name), job_.meshes);
  } catch (const Error& error) {
    fail(expr.place, error.message());
  }
}

void RankLowerer::require_on_mesh(const Spec& spec, const char* what) {
  for (int64_t i = 0; i < lanes_.size(); ++i)
    if (!spec.mesh().coordinate_of(lanes_[i]))
      fail(place_, fmt::format("shards: rank {} is not on the mesh of {}", lanes_[i], what));
}

// Throws Error if the value is not the shard that a placement states on some current lane.
void RankLowerer::require_shard(ValueId id, const Spec& spec, const char* what) {
  require_on_mesh(spec, what);
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    const Dims held = shape_on(id, lanes_[i]), stated = spec.local_shape(lanes_[i]);
    if (!(held == stated))
      fail(place_, fmt::format("shards: {} has shape {} on rank {}, but {} of {} has {} there",
                               what, to_string(held), lanes_[i], placements_text(spec),
                               to_string(spec.shape()), to_string(stated)));
  }
}

// Sets the specs of an op, which its kernel reads.
void RankLowerer::state_shards(Compute& compute) {
  const ShardsArgument shards = std::move(*shards_);
  shards_.reset();
  // Optional inputs at the end that are absent need no placement.
  const auto stated = static_cast<std::ptrdiff_t>(shards.inputs.size());
  if (stated > std::ssize(compute.inputs) ||
      !std::all_of(compute.inputs.begin() + stated, compute.inputs.end(),
                   [](ValueId id) { return id == kNoValue; }))
    fail(place_, fmt::format("shards: expected {} inputs of {}, found {}", compute.inputs.size(),
                             compute.op, shards.inputs.size()));
  if (!shards.results.empty() && shards.results.size() != compute.outputs.size())
    fail(place_, fmt::format("shards: expected {} results of {}, found {}", compute.outputs.size(),
                             compute.op, shards.results.size()));
  ShardSpecs specs;
  for (size_t i = 0; i < shards.inputs.size(); ++i) {
    const ValueId id = compute.inputs[i];
    const Spec spec = shards.inputs[i].spec(id == kNoValue ? DType::f32 : value(id).dtype);
    require_on_mesh(spec, "an input");
    if (id != kNoValue && !value(id).weak) require_shard(id, spec, "an input");
    specs.inputs.push_back(spec);
  }
  while (!specs.inputs.empty() && specs.inputs.size() < compute.inputs.size())
    specs.inputs.push_back(Spec::replicated(specs.inputs.front().mesh(), Dims(), DType::f32));
  for (size_t o = 0; o < shards.results.size(); ++o) {
    const Spec spec = shards.results[o].spec(value(compute.outputs[o]).dtype);
    require_shard(compute.outputs[o], spec, "a result");
    specs.outputs.push_back(spec);
    into_.program.values[static_cast<size_t>(compute.outputs[o])].spec = spec;
  }
  if (!specs.inputs.empty() || !specs.outputs.empty()) compute.specs = std::move(specs);
}

std::vector<ValueId> RankLowerer::op_on_shards(const OpRecord& op, const Expr& call,
                                               const Expr& shards) {
  Expr plain = call;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const ExprKind kind = call.args[i].kind;
    if (kind == ExprKind::call || kind == ExprKind::index || kind == ExprKind::transpose)
      fail(call.args[i].place, fmt::format("shards: the arguments of {} must be names; give {} a "
                                           "name on a line before",
                                           op.name, to_string(call.args[i])));
    if (call.keys[i] != "shards") continue;
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i);
    plain.args.erase(plain.args.begin() + at);
    plain.keys.erase(plain.keys.begin() + at);
    plain.key_places.erase(plain.key_places.begin() + at);
  }
  shards_ = read_shards(shards);
  shards_op_ = op.name;
  const std::vector<ValueId> results =
      apply_op(op, plain, false, std::max<size_t>(shards_->results.size(), 1));
  if (shards_) {
    shards_.reset();
    fail(shards.place,
         fmt::format("{} is made of other ops, which take shards= themselves", op.name));
  }
  return results;
}

std::optional<std::vector<ValueId>> RankLowerer::on_shards(const Expr& call, bool wants_value) {
  const std::string& verb = call.symbol;
  if (verb == "transfer") return transfer(call, wants_value);
  const bool local = verb == "slice_local" || verb == "zero_fill" || verb == "relabel";
  const auto key = std::find(call.keys.begin(), call.keys.end(), "shards");
  if (!local && key == call.keys.end()) return std::nullopt;
  const OpRecord* op = ops_.find(verb);
  const auto step = std::find_if(std::begin(kSteps), std::end(kSteps),
                                 [&](const auto& known) { return known.first == verb; });
  if (!local && !op && step == std::end(kSteps)) return std::nullopt;
  if (!wants_value)
    fail(call.place, fmt::format("the result of {} is dropped; bind it to a name", verb));
  if (local) return local_step(call);
  if (step != std::end(kSteps)) return call_step(call, step->second);
  return op_on_shards(*op, call, call.args[static_cast<size_t>(key - call.keys.begin())]);
}

PlanStep RankLowerer::read_step(const Arguments& args, StepKind kind, ValueId input) {
  const Expr* shards = args.next_argument(9, "shards");
  if (!shards)
    fail(args.call->place,
         fmt::format("{0} needs shards=, as in {0}(x, shards='R of [8, 4] -> tp:S(0) of [8, 4]')",
                     args.call->symbol));
  const ShardsArgument written = read_shards(*shards);
  if (written.inputs.size() != 1 || written.results.size() != 1)
    fail(shards->place, fmt::format("shards: expected one input and one result, found {} and {}",
                                    written.inputs.size(), written.results.size()));
  const WrittenShards &from = written.inputs[0], &to = written.results[0];
  if (!(from.shape == to.shape))
    fail(shards->place, fmt::format("shards: expected one shape, found {} and {}",
                                    to_string(from.shape), to_string(to.shape)));
  const DType dtype = input == kNoValue ? job_.dtype : value(input).dtype;
  PlanStep step;
  step.kind = kind;
  try {
    step.from = from.spec(dtype);
    step.to = to.spec(dtype);
  } catch (const Error& error) {
    fail(shards->place, "shards: " + error.message());
  }
  if (kind == StepKind::transfer) return step;
  if (!(step.from.mesh() == step.to.mesh()))
    fail(shards->place, "shards: expected one mesh, found two; transfer moves between meshes");
  if (const Expr* group = args.next_argument(9, "group")) {
    for (const std::string& word : group_text(*group)) {
      const std::optional<int> axis = step.from.mesh().find_axis(word);
      if (!axis) fail(group->place, fmt::format("{} is not an axis of the mesh of shards=", word));
      step.axes.push_back(*axis);
    }
    std::sort(step.axes.begin(), step.axes.end());
    step.axes.erase(std::unique(step.axes.begin(), step.axes.end()), step.axes.end());
  }
  return step;
}

std::vector<ValueId> RankLowerer::local_step(const Expr& call) {
  const Arguments args = arguments_of(call, 1, {"x", "shards"});
  const ValueId input =
      tensor_argument(args.next_argument(0, "x"), call.place, call.symbol.c_str());
  const PlanStep step = read_step(args, StepKind::local, input);
  require_shard(input, step.from, "the input");
  if (const std::string error = error_of_partials(step); !error.empty())
    fail(call.place,
         fmt::format("{}: {}; only all_reduce and reduce_scatter reduce a partial value",
                     call.symbol, error));
  if (local_verb(step) != call.symbol)
    fail(call.place,
         fmt::format("expected {} for these placements, found {}", local_verb(step), call.symbol));
  const bool fills = call.symbol == "zero_fill";
  const std::optional<int32_t> lacking = fills ? std::nullopt : incomplete_rank(step, Group());
  if (lacking)
    fail(call.place, fmt::format("{}: rank {} does not hold all elements of {}; a call moves them",
                                 call.symbol, *lacking, placements_text(step.to)));
  const ValueId output =
      add_value(step.to.dtype(), shapes_of(step.to, lanes_), Category::activations);
  into_.program.values[static_cast<size_t>(output)].spec = step.to;
  add(Reshuffle{input, output, std::make_shared<PlanStep>(step)});
  record_call(call.symbol, input, output, {});
  return {output};
}

void RankLowerer::read_pieces(const Expr& expr, PlanStep& step) {
  const PerRankNumber pieces = lane_number(expr);
  const int64_t most = most_pieces(step);
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    const Number number = pieces.on(lanes_[i]);
    if (!number.is_integer() || number.integer() < 1 || number.integer() > most)
      fail(expr.place, fmt::format("pieces: expected 1 to {} for these placements, found {}", most,
                                   to_string(expr)));
    if (i > 0 && number.integer() != step.pieces)
      fail(expr.place, "pieces: expected one number for all ranks, found several");
    step.pieces = number.integer();
  }
  if (group_depth_ > 0 && step.pieces > 1)
    fail(expr.place, "pieces: the calls follow each other; write them outside group:");
}

std::vector<ValueId> RankLowerer::call_step(const Expr& call, StepKind kind) {
  const Arguments args = arguments_of(call, 1, {"x", "shards", "group", "pieces"});
  const ValueId input =
      tensor_argument(args.next_argument(0, "x"), call.place, call.symbol.c_str());
  PlanStep step = read_step(args, kind, input);
  if (step.axes.empty()) fail(call.place, fmt::format("{} with shards= needs group=", call.symbol));
  require_shard(input, step.from, "the input");
  if (const std::string error = error_of_partials(step); !error.empty())
    fail(call.place, fmt::format("{}: {}", call.symbol, error));
  const Group group = Group::of_axes(step.from.mesh(), step.axes);
  if (const std::optional<int32_t> lacking = incomplete_rank(step, group))
    fail(call.place, fmt::format("{}: the group of rank {} does not hold all elements of {}",
                                 call.symbol, *lacking, placements_text(step.to)));
  const Lanes ranks = step.from.mesh().ranks();
  if (kind == StepKind::exchange && !can_exchange(step.from.mesh(), step.axes))
    fail(call.place, fmt::format("an exchange over {} ranks in groups of {} is too large; write "
                                 "all_to_all or all_gather",
                                 ranks.size(), group.size()));
  if (const Expr* pieces = args.next_argument(9, "pieces")) read_pieces(*pieces, step);
  const ValueId output =
      add_value(step.to.dtype(), shapes_of(step.to, lanes_), Category::communication);
  into_.program.values[static_cast<size_t>(output)].spec = step.to;
  record_call(call.symbol, input, output, {});
  add_calls(items_of_step(step, lanes_, input, output));
  return {output};
}

// Ranks of the first mesh send, those of the second receive.
std::vector<ValueId> RankLowerer::transfer(const Expr& call, bool wants_value) {
  if (group_depth_ > 0) fail(call.place, "transfer groups its messages; write it outside group:");
  const Arguments args = arguments_of(call, 1, {"x", "shards", "dtype", "pieces"});
  const Expr* x = args.next_argument(0, "x");
  const ValueId input = x ? lower_value(*x) : kNoValue;
  PlanStep step = read_step(args, StepKind::transfer, input);
  if (const Expr* dtype = args.next_argument(9, "dtype"); dtype && !x) {
    const std::optional<DType> parsed =
        dtype->kind == ExprKind::name ? parse_dtype(name_of(dtype->name)) : std::nullopt;
    if (!parsed) fail(dtype->place, fmt::format("expected a dtype, found {}", to_string(*dtype)));
    step.from = step.from.with_dtype(*parsed);
    step.to = step.to.with_dtype(*parsed);
  }
  const bool partial = step.from.has_partial() || step.to.has_partial();
  if (partial && !has_same_partials(step.from, step.to))
    fail(call.place,
         "transfer cannot move a partial value; reduce it before, as in y = all_reduce(x, sum, "
         "group=tp)");
  const Lanes senders = lanes_.intersect(step.from.mesh().ranks());
  const Lanes receivers = lanes_.intersect(step.to.mesh().ranks());
  if (const Lanes other = lanes_.minus(senders).minus(receivers); !other.empty())
    fail(call.place, fmt::format("transfer: rank {} is on neither mesh", other[0]));
  if (x ? !(senders == lanes_) : !senders.empty())
    fail(call.place, x ? "transfer(x, ..): a rank that only receives has no x; write transfer(..)"
                       : "transfer(..): a rank that sends needs x");
  if (wants_value ? !(receivers == lanes_) : !receivers.empty())
    fail(call.place, wants_value ? "y = transfer(..): a rank that only sends gets no value"
                                 : "transfer(..): a rank that receives binds the value to a name");
  if (x) require_shard(input, step.from, "the input");
  if (const Expr* pieces = args.next_argument(9, "pieces")) read_pieces(*pieces, step);
  CallItem item;
  item.lanes = lanes_;
  item.input = input;
  item.step = std::make_shared<PlanStep>(step);
  // The executor makes the messages. This kind states that the item is not a collective.
  item.collective.kind = x ? CollectiveKind::send : CollectiveKind::recv;
  item.collective.group = Group::world(job_.world);
  item.collective.dtype = step.to.dtype();
  item.origin = origin();
  if (!receivers.empty()) {
    item.output = add_value(step.to.dtype(), shapes_of(step.to, lanes_), Category::communication);
    into_.program.values[static_cast<size_t>(item.output)].spec = step.to;
  }
  const ValueId output = item.output;
  if (output != kNoValue && input != kNoValue) record_call("transfer", input, output, {});
  add(Communicate{{std::move(item)}});
  return output == kNoValue ? std::vector<ValueId>{} : std::vector<ValueId>{output};
}

}  // namespace shardproof
