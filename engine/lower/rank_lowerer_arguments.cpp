// Implements the arguments of rank_lowerer.h (groups, reductions, peers), and verbs that are no
// collective: one-sided calls, slots, waits, free and keep.
//
// Several meshes may have an axis of one name, as in two pipeline stages that each have an axis tp.
// Then the group is on the mesh of the value, else on the mesh of the calling ranks.
// lanes_by_mesh() splits a call of ranks of both meshes.
//
// `to=next` in a group of ranks 4, 5, 6 is index 1 for rank 4, 2 for rank 5, 0 for rank 6.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr const char* kReductionWords[] = {"sum", "avg",  "prod", "min",
                                           "max", "band", "bor",  "bxor"};

}  // namespace

std::vector<std::string> RankLowerer::group_text(const Expr& expr) {
  std::vector<std::string> words;
  if (expr.kind == ExprKind::list) {
    for (const Expr& item : expr.args) {
      if (item.kind != ExprKind::name)
        fail(
            item.place,
            fmt::format("expected the name of an axis, found {}; name listed ranks in the file, as "
                        "in \"groups\": {{\"g\": \"0 1\"}}, and write group=g",
                        to_string(item)));
      words.push_back(name_of(item.name));
    }
    return words;
  }
  if (expr.kind != ExprKind::name)
    fail(expr.place,
         fmt::format(
             "expected an axis, a list of axes or a group, found {}{}", to_string(expr),
             expr.kind == ExprKind::text ? "; write it without quotes, as in group=tp" : ""));
  words.push_back(name_of(expr.name));
  return words;
}

Group RankLowerer::group_of(const Expr* expr, ValueId value) {
  if (!expr) return Group::world(job_.world);
  const std::vector<std::string> words = group_text(*expr);
  if (expr->kind == ExprKind::name)
    for (const auto& [known, ranks] : job_.groups)
      if (known == words[0]) return Group::of_ranks(known, ranks);
  return axes_group(words, expr->place, value);
}

std::vector<const Mesh*> RankLowerer::meshes_having(const std::vector<std::string>& axes) const {
  std::vector<const Mesh*> having;
  for (const auto& [key, mesh] : job_.meshes)
    if (std::all_of(axes.begin(), axes.end(), [&m = mesh](auto& n) { return m.find_axis(n); }))
      having.push_back(&mesh);
  return having;
}

std::vector<Lanes> RankLowerer::lanes_by_mesh(const Expr& call) {
  const auto key = std::find(call.keys.begin(), call.keys.end(), "group");
  if (key == call.keys.end() || job_.meshes.size() < 2) return {lanes_};
  const Expr& group = call.args[static_cast<size_t>(key - call.keys.begin())];
  const std::vector<std::string> words = group_text(group);
  const bool listed = group.kind == ExprKind::name &&
                      std::any_of(job_.groups.begin(), job_.groups.end(),
                                  [&](const auto& known) { return known.first == words[0]; });
  const std::vector<const Mesh*> having = meshes_having(words);
  if (listed || having.size() < 2) return {lanes_};
  std::vector<Lanes> cuts;
  Lanes left = lanes_;
  for (const Mesh* mesh : having) {
    const Lanes ranks = mesh->ranks();
    if (ranks.contains(lanes_)) return {lanes_};
    if (Lanes cut = left.intersect(ranks); !cut.empty()) cuts.push_back(std::move(cut));
    left = left.minus(ranks);
  }
  if (!left.empty()) cuts.push_back(std::move(left));
  return cuts;
}

Group RankLowerer::axes_group(const std::vector<std::string>& names, const SourceLocation& place,
                              ValueId id) {
  const std::vector<const Mesh*> having = meshes_having(names);
  if (having.empty()) {
    const auto unknown = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return meshes_having({name}).empty();
    });
    if (names.size() > 1 && unknown == names.end())
      fail(place, fmt::format("expected axes of one mesh, found {}", fmt::join(names, ", ")));
    const std::string first = unknown == names.end() ? names.at(0) : *unknown;
    if (first == "world" || first == "WORLD" || first == "None")
      fail(place, fmt::format("no axis or group is named {}; leave out group= for a call of all "
                              "ranks",
                              first));
    NearestName nearest(first);
    std::vector<std::string> known;
    for (const auto& [key, mesh] : job_.meshes)
      for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
    for (const auto& [group, ranks] : job_.groups) known.push_back(group);
    for (const std::string& name : known) nearest.offer(name);
    fail(place, fmt::format("unknown axis or group {}{}", first,
                            nearest.best().empty()
                                ? fmt::format("; expected one of {}", fmt::join(known, ", "))
                                : nearest.hint()));
  }
  const Mesh* mesh = having[0];
  if (having.size() > 1) {
    for (const Mesh* candidate : having)
      if (candidate->ranks().contains(lanes_)) mesh = candidate;
    if (id != kNoValue && value(id).spec)
      for (const Mesh* candidate : having)
        if (*candidate == value(id).spec->mesh()) mesh = candidate;
  }
  std::vector<int> axes;
  for (const std::string& name : names) axes.push_back(mesh->axis(name));
  std::sort(axes.begin(), axes.end());
  if (const auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end())
    fail(place, fmt::format("the group names axis {} twice; write it once",
                            mesh->axes()[static_cast<size_t>(*twice)].name));
  return Group::of_axes(*mesh, axes);
}

namespace {
constexpr const char* kReductions = "sum avg prod min max band bor bxor premul_sum(f)";
}

std::optional<PerRankNumber> RankLowerer::factor_of(const Expr* expr) {
  const bool scaled = expr && expr->kind == ExprKind::call && expr->symbol == "premul_sum";
  if (!scaled || expr->args.size() != 1) return std::nullopt;
  return lane_number(expr->args[0]);
}

Reduction RankLowerer::reduction_of(const Expr* expr, const SourceLocation& place,
                                    const std::optional<PerRankNumber>& factor, int64_t rank) {
  if (!expr)
    fail(place, fmt::format("expected a reduction ({}) as the second argument, found none; write "
                            "for example sum",
                            kReductions));
  if (expr->kind == ExprKind::name) {
    const std::string word = name_of(expr->name);
    NearestName nearest(word);
    for (const char* known : kReductionWords) {
      if (word == known) return parse_reduction(word);
      nearest.offer(known);
    }
    std::string hint = word == "mean"  ? "; did you mean \"avg\"?"
                       : word == "add" ? "; did you mean \"sum\"?"
                                       : nearest.hint();
    if (hint.empty()) hint = fmt::format("; the reductions are {}", kReductions);
    fail(expr->place, fmt::format("unknown reduction {}{}", word, hint));
  }
  if (factor) return {ReduceOp::premul_sum, factor->on(rank).real()};
  fail(expr->place, fmt::format("expected a reduction, found {}{}", to_string(*expr),
                                expr->kind == ExprKind::text ? "; write it without quotes" : ""));
}

PerRankNumber RankLowerer::peer_of(const Expr* expr, const Group& group, const char* what,
                                   const SourceLocation& place) {
  if (!expr)
    fail(place,
         fmt::format("expected the argument {0}=, an index in the group; write {0}=0", what));
  PerRankNumber result{lanes_, {}};
  const bool neighbour = expr->kind == ExprKind::name && expr->name.plain() &&
                         (expr->name.texts[0] == "next" || expr->name.texts[0] == "prev");
  if (!neighbour) {
    result = lane_number(*expr);
    for (const Number& n : result.values)
      if (n.integer() < 0 || n.integer() >= group.size())
        fail(expr->place,
             fmt::format("{}={} is outside the group: expected an index in the group, 0 to {}",
                         what, n.integer(), group.size() - 1));
    return result;
  }
  const int64_t step = expr->name.texts[0] == "next" ? 1 : group.size() - 1;
  for (int64_t i = 0; i < lanes_.size(); ++i) {
    const int64_t index = std::max<int64_t>(group.index_of(lanes_[i]), 0);
    result.values.push_back(Number((index + step) % group.size()));
  }
  return result;
}

std::vector<ValueId> RankLowerer::one_sided(const Expr& call, CollectiveKind kind) {
  const bool puts = kind == CollectiveKind::put, waits = kind == CollectiveKind::wait_signal;
  const Arguments args = puts    ? arguments_of(call, 1, {"x", "to", "slot", "group"})
                         : waits ? arguments_of(call, 0, {"from", "slot", "count", "group"})
                                 : arguments_of(call, 0, {"to", "slot", "group"});
  CallItem item;
  if (puts) item.input = tensor_argument(args.next_argument(0, "x"), call.place, "put");
  item.collective.kind = kind;
  item.collective.group = group_of(args.next_argument(9, "group"), item.input);
  const PerRankNumber peers = peer_of(args.next_argument(9, waits ? "from" : "to"),
                                      item.collective.group, waits ? "from" : "to", call.place);
  const auto number = [&](const char* key, int64_t fallback) {
    const Expr* expr = args.next_argument(9, key);
    if (expr) return lane_number(*expr);
    PerRankNumber plain{lanes_, {}};
    plain.values.emplace_back(fallback);
    return plain;
  };
  const PerRankNumber slots = number("slot", 0), repeats = number("count", 1);
  std::vector<CallItem> items;
  for (const Lanes& lanes : classes_of({item.input}, {&slots, &repeats})) {
    CallItem piece = item;
    piece.lanes = lanes;
    piece.collective.slot = slots.on(lanes[0]).integer();
    piece.collective.repeat = repeats.on(lanes[0]).integer();
    if (piece.collective.slot < 0)
      fail(call.place,
           fmt::format("expected a slot of 0 or more, found {}", piece.collective.slot));
    // count=0 is allowed: a count may be the number of other ranks.
    if (piece.collective.repeat < 0)
      fail(call.place,
           fmt::format("expected a count of 0 or more, found {}", piece.collective.repeat));
    if (piece.input != kNoValue) {
      piece.collective.dtype = value(piece.input).dtype;
      piece.collective.count = element_count(shape_on(piece.input, lanes[0]));
    }
    for (int64_t i = 0; i < lanes.size(); ++i) piece.peers.push_back(peers.on(lanes[i]).integer());
    items.push_back(std::move(piece));
  }
  add_calls(std::move(items));
  return {};
}

Dims RankLowerer::WrittenValue::shape_on(int64_t rank) const {
  Dims dims;
  for (const Number& size : shape.on(rank).list()) dims.push_back(size.integer());
  return dims;
}

RankLowerer::WrittenValue RankLowerer::written_value(const Arguments& args,
                                                     const SourceLocation& place,
                                                     const char* form) {
  const Expr *like = args.next_argument(9, "like"), *shape = args.next_argument(9, "shape"),
             *dtype = args.next_argument(9, "dtype");
  if (like && shape)
    fail(shape->place, fmt::format("expected like=x or shape=[..], found both; write {}", form));
  if (!like && !shape) fail(place, fmt::format("expected like=x or shape=[..]; write {}", form));
  WrittenValue written;
  written.shape = PerRankNumber{lanes_, {}};
  written.dtype = job_.dtype;
  if (like) {
    const ValueId shaped = tensor_argument(like, place, form);
    written.dtype = value(shaped).dtype;
    for (int64_t i = 0; i < lanes_.size(); ++i) {
      Number::List sizes;
      for (const int64_t size : RankLowerer::shape_on(shaped, lanes_[i])) sizes.emplace_back(size);
      written.shape.values.emplace_back(std::move(sizes));
    }
  } else {
    written.shape = lane_number(*shape);
  }
  if (!dtype) return written;
  const std::optional<DType> parsed =
      dtype->kind == ExprKind::name ? parse_dtype(name_of(dtype->name)) : std::nullopt;
  if (!parsed) fail(dtype->place, fmt::format("expected a dtype, found {}", to_string(*dtype)));
  written.dtype = *parsed;
  return written;
}

std::vector<ValueId> RankLowerer::slot_read(const Expr& call) {
  const Arguments args = arguments_of(call, 1, {"slot", "like", "shape", "dtype"});
  const Expr* index = args.next_argument(0, "slot");
  if (!index)
    fail(call.place, "slot needs a number and a tensor of its shape, as in slot(0, like=x)");
  const PerRankNumber slots = lane_number(*index);
  const WrittenValue written = written_value(args, call.place, "slot(0, like=x)");
  std::vector<LocalShape> shapes;
  const std::vector<Lanes> classes = classes_of({}, {&slots, &written.shape});
  for (const Lanes& lanes : classes) {
    shapes.push_back({lanes, written.shape_on(lanes[0])});
    element_count(shapes.back().shape);  // refuses a negative size
  }
  const ValueId output = add_value(written.dtype, shapes, Category::communication);
  for (const Lanes& lanes : classes) {
    const int64_t slot = slots.on(lanes[0]).integer();
    if (slot < 0) fail(index->place, fmt::format("expected a slot of 0 or more, found {}", slot));
    add(SlotRead{slot, output}).lanes = lanes;
  }
  return {output};
}

// A name may be bound and recorded; the later of both counts. Recording removes the binding, so a
// binding that exists is the later one.
bool RankLowerer::is_event(const std::string& name, const SourceLocation& place) {
  const auto recorded = events_.find(name);
  if (recorded == events_.end()) return false;
  Lanes bound;
  if (const NameTable::Parts* found = names_.find(name))
    for (const NameTable::Part& part : *found) bound = bound.unite(part.lanes);
  const Lanes here = lanes_.intersect(recorded->second).minus(bound);
  const Lanes missing = lanes_.minus(here);
  if (here.empty() || missing.empty()) return !here.empty();
  if (!missing.intersect(bound).empty())
    fail(place, fmt::format("{} is an event on rank {} and none on rank {}", name, here[0],
                            missing.intersect(bound)[0]));
  fail(place, fmt::format("{} is used before it is bound on rank {}", name, missing[0]));
}

void RankLowerer::wait_for(const Expr& call, Wait::Waiter who) {
  const Arguments args = arguments_of(call, 1, {"x"});
  const Expr* expr = args.next_argument(0, "x");
  if (!expr || expr->kind != ExprKind::name)
    fail(call.place,
         fmt::format("{} takes the name of a value, an event or a stream", call.symbol));
  const std::string name = name_of(expr->name);
  Wait wait;
  wait.who = who;
  if (is_event(name, expr->place)) {
    wait.event = name;
  } else if (std::optional<Binding> bound = find(name, expr->place)) {
    if (!std::holds_alternative<ValueId>(*bound))
      fail(expr->place,
           fmt::format("expected a value, an event or a stream to wait for; {} is a number", name));
    wait.value = std::get<ValueId>(*bound);
  } else if (known_streams_.contains(name) || name == "main") {
    wait.stream = name;
  } else {
    NearestName nearest(name);
    for (const auto& [known, parts] : names_.all())
      if (!parts.empty()) nearest.offer(known);  // not freed
    for (const std::string& known : known_streams_) nearest.offer(known);
    const std::string hint = nearest.hint();
    fail(expr->place,
         fmt::format("{} is not a value, event or stream here{}", name,
                     hint.empty() ? "; a stream needs a line \"on " + name + ":\"" : hint));
  }
  add(std::move(wait));
}

void RankLowerer::free_or_keep(const Expr& call, bool keep) {
  const Arguments args =
      keep ? arguments_of(call, 2, {"x", "stream"}) : arguments_of(call, 1, {"x"});
  const Expr* expr = args.next_argument(0, "x");
  if (!expr || expr->kind != ExprKind::name)
    fail(call.place, fmt::format("{} takes the name of a value", call.symbol));
  const std::string name = name_of(expr->name);
  const std::optional<Binding> bound = find(name, expr->place);
  if (!bound || !std::holds_alternative<ValueId>(*bound))
    fail(expr->place, fmt::format("{} is not a value here", name));
  if (!keep) {
    // An event of that name, recorded before the value was bound, stays hidden.
    if (const auto hidden = events_.find(name); hidden != events_.end())
      hidden->second = hidden->second.minus(lanes_);
    return forget(name);
  }
  const Expr* stream = args.next_argument(1, "stream");
  if (!stream || stream->kind != ExprKind::name)
    fail(call.place, "keep needs a stream: keep(x, comm)");
  const std::string held_by = name_of(stream->name);
  if (!known_streams_.contains(held_by) && held_by != "main") {
    NearestName nearest(held_by);
    for (const std::string& known : known_streams_) nearest.offer(known);
    fail(stream->place, fmt::format("{} is not a stream here{}", held_by, nearest.hint()));
  }
  add(Keep{std::get<ValueId>(*bound), held_by});
}

}  // namespace shardproof
