// Implements the calls of rank_lowerer.h: collectives, exchanges, sends and receives.
//
// Each call is split into items, one for each class of lanes with equal shapes and arguments; an
// item has one count. Example: reduce_scatter(x, sum, group=tp, dim=1) with tp=2. x has shape [4,
// 6] on ranks 0-1 and [3, 6] on ranks 2-3. The items are
//
//   ranks 0-1: count 12 (= 4 * 3), result [4, 3]
//   ranks 2-3: count  9 (= 3 * 3), result [3, 3]
//
// Both items are submitted together. The call matcher later finds counts that differ inside one
// group.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/torch_names.h"

namespace shardproof {

Dims result_shape(CollectiveKind kind, Dims shape, int dim, int dim2, int64_t n) {
  const auto divide = [&](int d) {
    if (shape[d] % n != 0)
      throw_bad_input("{}: dim {} of {} is not divisible by the {} ranks of the group", name(kind),
                      d, to_string(shape), n);
    shape[d] /= n;
  };
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::gather: shape[dim] *= n; break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter: divide(dim); break;
    case CollectiveKind::all_to_all:
      divide(dim);
      shape[dim2] *= n;
      break;
    default: break;
  }
  return shape;
}

std::vector<std::string> backward_words(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return {"identity", "all_reduce"};
    case CollectiveKind::all_gather: return {"reduce_scatter", "slice"};
    case CollectiveKind::reduce_scatter: return {"all_gather"};
    case CollectiveKind::all_to_all: return {"all_to_all"};
    case CollectiveKind::all_to_all_v: return {"all_to_all_v"};
    case CollectiveKind::broadcast: return {"reduce"};
    default: return {};
  }
}

namespace {

std::vector<std::string> keys_of(CollectiveKind kind) {
  std::vector<std::string> keys{"x"};
  if (reduces(kind)) keys.push_back("op");
  keys.push_back("group");
  if (!backward_words(kind).empty()) keys.push_back("backward");
  if (has_shard_dim(kind)) keys.push_back("dim");
  if (has_root(kind)) keys.push_back("root");
  if (kind == CollectiveKind::all_to_all) {
    keys.push_back("split");
    keys.push_back("concat");
  }
  return keys;
}

// Keys of torch.distributed and JAX for arguments of calls, and the key here.
struct ForeignKey {
  std::string_view word, here;
};
constexpr ForeignKey kForeignKeys[] = {{"process_group", "group"},
                                       {"pg", "group"},
                                       {"axis_name", "group"},
                                       {"src", "from"},
                                       {"src", "root"},
                                       {"dst", "to"},
                                       {"dst", "root"},
                                       {"peer", "to"},
                                       {"peer", "from"},
                                       {"axis", "dim"},
                                       {"gather_dim", "dim"},
                                       {"scatter_dim", "dim"},
                                       {"split_dim", "split"},
                                       {"split_axis", "split"},
                                       {"concat_dim", "concat"},
                                       {"concat_axis", "concat"},
                                       {"reduce_op", "op"},
                                       {"input", "x"},
                                       {"tensor", "x"},
                                       {"input_split_sizes", "send"},
                                       {"output_split_sizes", "recv"},
                                       {"grad", "backward"}};

// Returns what to write in place of an unknown key of a call.
std::string key_hint(const std::string& key, const std::vector<std::string>& known) {
  if (key == "async_op") return "; leave it out: a call inside \"on STREAM:\" overlaps the others";
  if (key == "tiled" || key == "tag") return "; leave it out";
  for (const ForeignKey& foreign : kForeignKeys)
    if (foreign.word == key && std::find(known.begin(), known.end(), foreign.here) != known.end())
      return fmt::format("; write {}=", foreign.here);
  NearestName nearest(key);
  for (const std::string& one : known) nearest.offer(one);
  if (!nearest.best().empty()) return nearest.hint();
  return fmt::format("; it takes {}", fmt::join(known, ", "));
}

}  // namespace

Lanes lanes_with_result(const Collective& c, const Lanes& lanes) {
  if (c.kind != CollectiveKind::reduce && c.kind != CollectiveKind::gather) return lanes;
  std::vector<int32_t> roots;
  for (int64_t i = 0; i < lanes.size(); ++i)
    if (c.group.index_of(lanes[i]) == c.root) roots.push_back(lanes[i]);
  return Lanes::of(std::move(roots));
}

namespace {

bool can_be_in_place(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ||
         kind == CollectiveKind::reduce;
}

}  // namespace

std::optional<std::vector<ValueId>> RankLowerer::special(const Expr& call, bool wants_value) {
  const std::string& verb = call.symbol;
  if (verb == "redistribute")
    fail(call.place,
         "redistribute belongs to global programs; in a rank program write the call, such as "
         "all_gather(x, dim=0, group=tp)");
  if (verb == "wait" || verb == "sync") {
    wait_for(call, verb == "wait" ? Wait::Waiter::stream : Wait::Waiter::host);
    return std::vector<ValueId>{};
  }
  if (verb == "free" || verb == "keep") {
    free_or_keep(call, verb == "keep");
    return std::vector<ValueId>{};
  }
  if (verb == "check") {
    if (wants_value)
      fail(call.place, "check returns no value; write it alone on a line, as in check(x, 'h')");
    lower_check(call);
    return std::vector<ValueId>{};
  }
  if (verb == "enter") return enter(call);
  if (std::optional<std::vector<ValueId>> given = on_shards(call, wants_value)) return given;
  if (verb == "slot") return slot_read(call);
  if (verb == "copy_") {
    const Arguments args = arguments_of(call, 2, {"dst", "src"});
    const ValueId target = tensor_argument(args.next_argument(0, "dst"), call.place, "copy_");
    write_in_place(target, tensor_argument(args.next_argument(1, "src"), call.place, "copy_"));
    return std::vector<ValueId>{target};
  }
  const bool in_place = verb.size() > 1 && verb.back() == '_';
  const std::optional<CollectiveKind> kind =
      parse_collective_kind(in_place ? verb.substr(0, verb.size() - 1) : verb);
  if (!kind || *kind == CollectiveKind::exchange) return std::nullopt;  // only plans make it
  if (in_place && !can_be_in_place(*kind))
    fail(call.place, fmt::format("{} cannot write in place: its result has another shape", verb));
  const bool silent = *kind == CollectiveKind::barrier || *kind == CollectiveKind::send ||
                      *kind == CollectiveKind::put || *kind == CollectiveKind::signal ||
                      *kind == CollectiveKind::wait_signal;
  if (wants_value && silent)
    fail(call.place, fmt::format("{} returns no value; write it alone on a line", verb));
  if (!wants_value && !in_place && !silent)
    fail(call.place, fmt::format("the result of {0} is dropped; write {1}{2}", verb,
                                 text_for_foreign_call(call, true),
                                 can_be_in_place(*kind) ? fmt::format(" or {}_(..)", verb) : ""));
  return on_each_mesh(call, *kind, in_place);
}

std::vector<ValueId> RankLowerer::on_each_mesh(const Expr& call, CollectiveKind kind,
                                               bool in_place) {
  const Lanes all = lanes_;
  std::vector<std::pair<Lanes, ValueId>> parts;
  std::optional<ValueId> result;
  const std::vector<Lanes> cuts = lanes_by_mesh(call);
  if (cuts.size() == 1) return communicate(call, kind, in_place);
  for (const Lanes& cut : cuts) {
    lanes_ = cut;
    const std::vector<ValueId> given = communicate(call, kind, in_place);
    lanes_ = all;
    if (given.empty()) continue;
    result = given[0];
    Lanes held;  // for reduce and gather, only the root
    for (const LocalShape& shape : value(given[0]).shapes)
      held = held.unite(shape.lanes.intersect(cut));
    if (!held.empty()) parts.emplace_back(held, given[0]);
  }
  if (!result) return {};
  const bool one = std::all_of(parts.begin(), parts.end(),
                               [&](const auto& part) { return part.second == *result; });
  return {one ? *result : merge(parts)};  // one: a call in place, or no part has a result
}

std::vector<ValueId> RankLowerer::communicate(const Expr& call, CollectiveKind kind,
                                              bool in_place) {
  if (kind == CollectiveKind::all_to_all_v) return exchange_v(call);
  if (kind == CollectiveKind::send || kind == CollectiveKind::recv)
    return point_to_point(call, kind);
  if (is_point_to_point(kind)) return one_sided(call, kind);
  return collective(call, kind, in_place);
}

const Expr* RankLowerer::Arguments::next_argument(size_t position, const std::string& key) const {
  const auto found = keys.find(key);
  if (found != keys.end()) return found->second;
  return position < positional.size() ? positional[position] : nullptr;
}

// Throws Error(bad_input) at the first argument that needs a key, with the keys that it may have.
void RankLowerer::refuse_unnamed(const Arguments& args, size_t most,
                                 const std::vector<std::string>& keys) {
  std::vector<std::string> choice;
  for (size_t i = most; i < keys.size(); ++i)
    if (!args.keys.contains(keys[i])) choice.push_back(keys[i] + "=");
  const Expr& extra = *args.positional[most];
  const std::string count = most == 0   ? "no argument"
                            : most == 1 ? "one argument"
                                        : fmt::format("{} arguments", most);
  const size_t found = args.positional.size();
  if (choice.empty())
    fail(extra.place, fmt::format("{} takes {}, found {}", args.call->symbol, count, found));
  const bool is_group = extra.kind == ExprKind::name && is_axis(to_string(extra));
  if (is_group && std::count(choice.begin(), choice.end(), "group=") > 0) choice = {"group="};
  const std::string written =
      most == 0 && !is_group ? text_for_foreign_call(*args.call, false) : "";
  if (!written.empty())
    fail(extra.place, fmt::format("{} takes {} without a key, found {}; write {}",
                                  args.call->symbol, count, found, written));
  fail(extra.place,
       fmt::format("{} takes {} without a key, found {}; write {} before {}", args.call->symbol,
                   count, found, fmt::join(choice, " or "), to_string(extra)));
}

RankLowerer::Arguments RankLowerer::arguments_of(const Expr& call, size_t most,
                                                 std::vector<std::string> keys) {
  Arguments result;
  result.call = &call;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (call.keys[i].empty()) {
      result.positional.push_back(&call.args[i]);
      continue;
    }
    if (std::find(keys.begin(), keys.end(), call.keys[i]) == keys.end())
      fail(call.args[i].place, fmt::format("{} has no argument {}{}", call.symbol, call.keys[i],
                                           key_hint(call.keys[i], keys)));
    if (!result.keys.emplace(call.keys[i], &call.args[i]).second)
      fail(call.args[i].place, fmt::format("argument {} is given twice", call.keys[i]));
  }
  if (result.positional.size() > most) refuse_unnamed(result, most, keys);
  return result;
}

int RankLowerer::dim_argument(const Arguments& args, const char* key, int64_t dim, int dims) {
  try {
    return normalize_dim(dim, dims);
  } catch (const Error& error) {
    const Expr* expr = args.next_argument(9, key);
    fail(expr ? expr->place : args.call->place, error.message());
  }
}

ValueId RankLowerer::tensor_argument(const Expr* expr, const SourceLocation& place,
                                     const char* what) {
  if (!expr) fail(place, fmt::format("{} needs a tensor", what));
  return lower_value(*expr);
}

RankLowerer::CollectiveNumbers RankLowerer::numbers_of(const Expr& call, CollectiveKind kind,
                                                       const Arguments& args) {
  const auto number = [&](const char* key) -> std::optional<PerRankNumber> {
    const Expr* expr = args.next_argument(9, key);
    return expr ? std::optional(lane_number(*expr)) : std::nullopt;
  };
  CollectiveNumbers numbers;
  numbers.dim = number("dim");
  numbers.split = number("split");
  numbers.concat = number("concat");
  numbers.root = number("root");
  if (has_shard_dim(kind) && !numbers.dim)
    numbers.dim = PerRankNumber{lanes_, {Number(int64_t{0})}};
  if (has_root(kind) && !numbers.root) numbers.root = PerRankNumber{lanes_, {Number(int64_t{0})}};
  if (kind == CollectiveKind::all_to_all && (!numbers.split || !numbers.concat))
    fail(call.place, "all_to_all needs split and concat, as in all_to_all(x, split=1, concat=0)");
  numbers.factor = factor_of(args.next_argument(1, "op"));
  return numbers;
}

Dims RankLowerer::place_input(CallItem& item, const CollectiveNumbers& numbers,
                              const Arguments& args) {
  Collective& c = item.collective;
  c.dtype = value(item.input).dtype;
  if (reduces(c.kind)) check_reduction(c.reduction, c.dtype);
  const int32_t lane = item.lanes[0];
  const Dims shape = shape_on(item.input, lane);
  const auto dim_of = [&](const char* key, const PerRankNumber& number) {
    return dim_argument(args, key, number.on(lane).integer(), shape.size());
  };
  if (numbers.dim) item.dim = dim_of("dim", *numbers.dim);
  if (numbers.split) item.dim = dim_of("split", *numbers.split);
  if (numbers.concat) item.dim2 = dim_of("concat", *numbers.concat);
  const Dims result = result_shape(c.kind, shape, item.dim, item.dim2, c.group.size());
  const bool divides =
      c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::scatter;
  c.count = element_count(divides ? result : shape);
  return result;
}

std::vector<ValueId> RankLowerer::collective(const Expr& call, CollectiveKind kind, bool in_place) {
  const bool reducing = reduces(kind);
  const size_t most = kind == CollectiveKind::barrier ? 0 : reducing ? 2 : 1;
  const Arguments args = arguments_of(call, most, keys_of(kind));
  ValueId input = kNoValue;
  if (kind != CollectiveKind::barrier)
    input = tensor_argument(args.next_argument(0, "x"), call.place, call.symbol.c_str());
  const Group group = group_of(args.next_argument(9, "group"), input);
  const CollectiveNumbers numbers = numbers_of(call, kind, args);
  const auto pointer = [](const std::optional<PerRankNumber>& n) { return n ? &*n : nullptr; };
  std::vector<CallItem> items;
  ShapesByLanes shapes;
  for (const Lanes& lanes :
       classes_of({input}, {pointer(numbers.dim), pointer(numbers.split), pointer(numbers.concat),
                            pointer(numbers.root), pointer(numbers.factor)})) {
    CallItem item;
    item.lanes = lanes;
    item.input = input;
    item.in_place = in_place;
    Collective& c = item.collective;
    c.kind = kind;
    c.group = group;
    if (reducing)
      c.reduction = reduction_of(args.next_argument(1, "op"), call.place, numbers.factor, lanes[0]);
    if (numbers.root) c.root = numbers.root->on(lanes[0]).integer();
    if (numbers.root && (c.root < 0 || c.root >= group.size()))
      fail(args.next_argument(9, "root")->place,
           fmt::format("root={} is outside the group: expected an index in the group, 0 to {}",
                       c.root, group.size() - 1));
    if (input != kNoValue) {
      const Dims result = place_input(item, numbers, args);
      const Lanes given = lanes_with_result(c, lanes);
      if (!given.empty()) shapes.add(given, result);
    }
    items.push_back(std::move(item));
  }
  std::vector<ValueId> outputs;
  if (input != kNoValue) {
    const ValueId output =
        in_place ? input : add_value(value(input).dtype, shapes.shapes(), Category::communication);
    for (CallItem& item : items) item.output = output;
    outputs.push_back(output);
    if (in_place) wrote(input);
    record_call(call.symbol, input, output, backward_of(args, items, output), items);
  }
  add_calls(std::move(items));
  return outputs;
}

std::vector<ValueId> RankLowerer::exchange_v(const Expr& call) {
  const Arguments args = arguments_of(call, 1, {"x", "send", "recv", "group", "backward"});
  const ValueId input = tensor_argument(args.next_argument(0, "x"), call.place, "all_to_all_v");
  const Group group = group_of(args.next_argument(9, "group"), input);
  const Expr *send = args.next_argument(9, "send"), *recv = args.next_argument(9, "recv");
  if (!send || !recv)
    fail(call.place, "all_to_all_v needs send=[..] and recv=[..], rows for each member");
  const PerRankNumber sends = lane_number(*send), recvs = lane_number(*recv);
  const auto counts = [&](const PerRankNumber& numbers, int64_t rank, const Expr* expr) {
    std::vector<int64_t> result;
    for (const Number& n : numbers.on(rank).list()) result.push_back(n.integer());
    if (static_cast<int64_t>(result.size()) != group.size())
      fail(expr->place, fmt::format("expected {} counts, one for each rank of the group; found {}",
                                    group.size(), result.size()));
    for (const int64_t count : result)
      if (count < 0)
        fail(expr->place, fmt::format("expected counts of 0 or more, found {}", count));
    return result;
  };
  CallItem item;
  item.lanes = lanes_;
  item.input = input;
  item.collective.kind = CollectiveKind::all_to_all_v;
  item.collective.group = group;
  item.collective.dtype = value(input).dtype;
  std::map<Dims, std::vector<int32_t>> by_shape;
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    item.send_counts.push_back(counts(sends, lanes_[i], send));
    item.recv_counts.push_back(counts(recvs, lanes_[i], recv));
    Dims shape = shape_on(input, lanes_[i]);
    if (shape.empty()) fail(call.place, "all_to_all_v needs a tensor with at least one dim");
    int64_t sent = 0, received = 0;
    for (int64_t c : item.send_counts.back()) sent += c;
    for (int64_t c : item.recv_counts.back()) received += c;
    if (sent != shape[0])
      fail(send->place,
           fmt::format("rank {} sends {} rows but holds {}", lanes_[i], sent, shape[0]));
    shape[0] = received;
    by_shape[shape].push_back(lanes_[i]);
  }
  std::vector<LocalShape> shapes;
  for (auto& [shape, ranks] : by_shape) shapes.push_back({Lanes::of(std::move(ranks)), shape});
  item.output = add_value(value(input).dtype, std::move(shapes), Category::communication);
  const ValueId output = item.output;
  std::vector<CallItem> items;
  items.push_back(std::move(item));
  record_call(call.symbol, input, output, backward_of(args, items, output), items);
  add_calls(std::move(items));
  return {output};
}

std::vector<ValueId> RankLowerer::point_to_point(const Expr& call, CollectiveKind kind) {
  const bool sends = kind == CollectiveKind::send;
  const Arguments args = sends ? arguments_of(call, 1, {"x", "to", "group"})
                               : arguments_of(call, 0, {"like", "shape", "dtype", "from", "group"});
  CallItem item;
  item.lanes = lanes_;
  Collective& c = item.collective;
  c.kind = kind;
  std::vector<LocalShape> shapes;
  ValueId shaped = kNoValue;
  if (sends) {
    shaped = item.input = tensor_argument(args.next_argument(0, "x"), call.place, "send");
  } else if (const Expr* like = args.next_argument(9, "like")) {
    shaped = tensor_argument(like, call.place, "recv");
  }
  c.dtype = shaped != kNoValue ? value(shaped).dtype : job_.dtype;
  if (const Expr* dtype = sends ? nullptr : args.next_argument(9, "dtype")) {
    const std::optional<DType> parsed =
        dtype->kind == ExprKind::name ? parse_dtype(name_of(dtype->name)) : std::nullopt;
    if (!parsed) fail(dtype->place, fmt::format("expected a dtype, found {}", to_string(*dtype)));
    c.dtype = *parsed;
  }
  PerRankNumber shape_list;
  const Expr* shape = sends ? nullptr : args.next_argument(9, "shape");
  if (!sends && shaped == kNoValue && !shape)
    fail(call.place, "recv needs like=x or shape=[..]; write recv(like=x, from=0)");
  if (shape && shaped != kNoValue)
    fail(shape->place, "recv takes either like=x or shape=[..], found both");
  if (shape) shape_list = lane_number(*shape);
  c.group = group_of(args.next_argument(9, "group"), shaped);
  const PerRankNumber peers = peer_of(args.next_argument(9, sends ? "to" : "from"), c.group,
                                      sends ? "to" : "from", call.place);
  for (const Lanes& lanes :
       classes_of({shape ? kNoValue : shaped}, {shape ? &shape_list : nullptr})) {
    Dims dims;
    if (shape)
      for (const Number& n : shape_list.on(lanes[0]).list()) dims.push_back(n.integer());
    else
      dims = shape_on(shaped, lanes[0]);
    shapes.push_back({lanes, dims});
  }
  std::vector<CallItem> items;
  const ValueId output = sends ? kNoValue : add_value(c.dtype, shapes, Category::communication);
  for (const LocalShape& part : shapes) {
    CallItem piece = item;
    piece.lanes = part.lanes;
    piece.output = output;
    piece.collective.count = element_count(part.shape);
    for (int64_t i = 0; i < part.lanes.size(); ++i)
      piece.peers.push_back(peers.on(part.lanes[i]).integer());
    items.push_back(std::move(piece));
  }
  add_calls(std::move(items));
  return sends ? std::vector<ValueId>{} : std::vector<ValueId>{output};
}

}  // namespace shardproof
