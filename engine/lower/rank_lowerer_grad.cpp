// Implements the part of rank_lowerer.h for grad: the backward of calls (`backward=`, as
// reduce_scatter or slice of all_gather), writes in place on the tape, dead instructions, and
// gradients with memory of their own.
//
// A write into x[1:3] makes a new version of the value that owns the memory, x, and of each value
// that shares it. Example: v = x[0]; x[1:3] = y gives the entries
//
//   write(x.0, y; views: slice [1:3]) -> x.1      select(x.1, 0) -> v.1
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

void RankLowerer::record_write(ValueId target, ValueId source) {
  if (!tape_) return;
  const Lanes all = lanes_;
  for (const auto& [held, owner] : Memory(memory_of(target))) {
    lanes_ = all.intersect(held);
    if (!lanes_.empty()) record_write_on(tape_entry(TapeKind::write), target, {source}, owner);
  }
  lanes_ = all;
}

std::vector<size_t> RankLowerer::views_to(ValueId id, ValueId owner) {
  std::vector<size_t> views;
  for (ValueId at = id; at != owner;) {
    const int maker = tape_->maker(tape_->present(at));
    SP_CHECK(maker >= 0, "value {} shares memory and was never made", at);
    const TapeEntry& entry = tape_->entry(maker);
    views.push_back(static_cast<size_t>(maker));
    ValueId next = tape_->value(entry.inputs.at(0));
    if (entry.kind == TapeKind::merge)
      for (size_t i = 0; i < entry.parts.size(); ++i)
        if (entry.parts[i].contains(lanes_[0])) next = tape_->value(entry.inputs[i]);
    at = next;
  }
  std::reverse(views.begin(), views.end());
  return views;
}

void RankLowerer::record_write_on(TapeEntry write, ValueId target, std::vector<ValueId> sources,
                                  ValueId owner) {
  // The views are found before any version changes.
  std::vector<std::pair<ValueId, size_t>> shared;  // a value and the entry that made it a view
  for (const auto& [id, memory] : memory_)
    if (std::any_of(memory.begin(), memory.end(), [&](const auto& part) {
          return part.second == owner && !part.first.intersect(lanes_).empty();
        })) {
      const int maker = tape_->maker(tape_->present(id));
      if (maker >= 0) shared.emplace_back(id, static_cast<size_t>(maker));
    }
  write.views = views_to(target, owner);
  // grad stops at a call that writes into a part of a value.
  if (!write.views.empty()) write.backward = nullptr;
  std::vector<VersionId> inputs{tape_->present(owner)};
  for (const ValueId source : sources) inputs.push_back(tape_->present(source));
  tape_->record_new_version(std::move(write), inputs, owner);
  // A view has a higher id than its base, so in the order of ids each base is before its views.
  for (const auto& [id, maker] : shared) {
    TapeEntry view = tape_->entry(static_cast<int>(maker));
    std::vector<VersionId> shown;
    for (const VersionId input : view.inputs)
      shown.push_back(input == kNoVersion ? kNoVersion : tape_->present(tape_->value(input)));
    view.origin = origin();
    tape_->record_new_version(std::move(view), shown, id);
  }
}

void RankLowerer::remove_dead(size_t first, const std::vector<ValueId>& results) {
  std::set<ValueId> live(results.begin(), results.end());
  std::vector<Instr> kept;
  for (size_t i = listing_.instrs.size(); i-- > first;) {
    Instr& instr = listing_.instrs[i];
    const Compute* compute = std::get_if<Compute>(&instr.action);
    const Merge* merge = std::get_if<Merge>(&instr.action);
    const Effects effects = effects_of(instr);
    const bool pure = (compute != nullptr && compute->into == kNoValue) || merge != nullptr ||
                      std::holds_alternative<NumberValue>(instr.action);
    std::vector<ValueId> made = effects.writes;
    if (merge != nullptr) made.push_back(merge->output);
    if (pure &&
        std::none_of(made.begin(), made.end(), [&](ValueId id) { return live.contains(id); }))
      continue;
    live.insert(effects.reads.begin(), effects.reads.end());
    if (compute != nullptr && compute->into != kNoValue) live.insert(compute->into);
    if (merge != nullptr)
      for (const auto& [lanes, id] : merge->parts) live.insert(id);
    kept.push_back(std::move(instr));
  }
  listing_.instrs.resize(first);
  for (auto instr = kept.rbegin(); instr != kept.rend(); ++instr)
    listing_.instrs.push_back(std::move(*instr));
}

std::vector<ValueId> RankLowerer::in_own_memory(std::vector<ValueId> values, size_t first) {
  std::set<ValueId> taken;
  for (ValueId& id : values) {
    bool shared = false;
    for (const auto& [lanes, owner] : memory_of(id))
      shared = shared || owner < static_cast<ValueId>(first) || !taken.insert(owner).second;
    if (shared) {
      id = copy_of(id);
      taken.insert(id);
    }
  }
  return values;
}

void RankLowerer::record_call(const std::string& verb, ValueId input, ValueId output,
                              Backward backward, std::vector<CallItem> items) {
  if (!tape_) return;
  TapeEntry entry = tape_entry(TapeKind::call);
  entry.verb = verb;
  if (!items.empty() && input != output)
    entry.repeat = [this, verb, items = std::move(items), backward](ValueId again) {
      return repeat_call(verb, items, again, backward);
    };
  entry.backward = std::move(backward);
  if (input != output) return tape_->record(std::move(entry), {input}, {output});
  const Lanes all = lanes_;
  for (const auto& [held, owner] : Memory(memory_of(input))) {
    lanes_ = all.intersect(held);
    TapeEntry here = entry;
    here.lanes = lanes_;
    if (!lanes_.empty()) record_write_on(std::move(here), input, {}, owner);
  }
  lanes_ = all;
}

ValueId RankLowerer::repeat_call(const std::string& verb, std::vector<CallItem> items,
                                 ValueId input, Backward backward) {
  const ValueId before = items.at(0).output;
  std::vector<LocalShape> shapes;
  for (const LocalShape& shape : value(before).shapes)
    if (Lanes both = shape.lanes.intersect(lanes_); !both.empty())
      shapes.push_back({std::move(both), shape.shape});
  const ValueId output = add_value(value(before).dtype, std::move(shapes), Category::communication);
  std::vector<CallItem> calls;
  for (CallItem& item : items) {
    const Lanes all = item.lanes;
    item.lanes = all.intersect(lanes_);
    if (item.lanes.empty()) continue;
    for (auto* counts : {&item.send_counts, &item.recv_counts}) {
      std::vector<std::vector<int64_t>> held;
      for (int64_t i = 0; i < item.lanes.size() && !counts->empty(); ++i)
        held.push_back(counts->at(static_cast<size_t>(all.index_of(item.lanes[i]))));
      *counts = std::move(held);
    }
    item.input = input;
    item.output = output;
    calls.push_back(std::move(item));
  }
  record_call(verb, input, output, std::move(backward), calls);
  add_calls(std::move(calls));
  return output;
}

ValueId RankLowerer::emit_named(const char* op, Attrs attrs, std::vector<ValueId> inputs) {
  const OpRecord& record = ops_.at(op);
  record.fill_fallbacks(attrs);
  return emit(record, {{lanes_, std::move(attrs)}}, std::move(inputs), 1).at(0);
}

ValueId RankLowerer::emit_infix(const char* symbol, ValueId a, ValueId b) {
  const OpRecord* op = ops_.find_infix(symbol);
  SP_CHECK(op, "no op means {}", symbol);
  return emit_named(op->name.c_str(), {}, {a, b});
}

std::vector<ValueId> RankLowerer::enter(const Expr& call) {
  const Arguments args = arguments_of(call, 1, {"x", "group"});
  const ValueId input = tensor_argument(args.next_argument(0, "x"), call.place, "enter");
  if (!args.next_argument(9, "group"))
    fail(call.place, "enter needs the group that adds its gradient, as in enter(x, group=tp)");
  CallItem item;
  item.lanes = lanes_;
  item.collective.kind = CollectiveKind::all_reduce;
  item.collective.group = group_of(args.next_argument(9, "group"), input);
  item.collective.dtype = value(input).dtype;
  const ValueId output = emit_merge({{lanes_, input}});
  record_call("enter", input, output, [this, items = std::vector<CallItem>{item}](ValueId dy) {
    return call_like(items, CollectiveKind::all_reduce, dy,
                     [](const std::vector<CallItem>&, ValueId by_dy) { return by_dy; });
  });
  return {output};
}

RankLowerer::Backward RankLowerer::backward_of(const Arguments& args,
                                               const std::vector<CallItem>& items, ValueId output) {
  const Expr* written = args.next_argument(9, "backward");
  if (written == nullptr) return nullptr;
  const CollectiveKind kind = items.at(0).collective.kind;
  const std::vector<std::string> words = backward_words(kind);
  const std::string word = written->kind == ExprKind::name ? name_of(written->name) : "";
  if (std::find(words.begin(), words.end(), word) == words.end())
    fail(written->place,
         fmt::format("backward= of {} is {}, found {}{}", args.call->symbol,
                     fmt::join(words, " or "), to_string(*written),
                     written->kind == ExprKind::text ? "; write it without quotes" : ""));
  if (reduces(kind)) {
    const ReduceOp op = items[0].collective.reduction.op;
    const bool extremum = op == ReduceOp::min || op == ReduceOp::max;
    if (!extremum && op != ReduceOp::sum && op != ReduceOp::avg && op != ReduceOp::premul_sum)
      fail(written->place, fmt::format("a call with {} has no backward; expected sum, avg, "
                                       "premul_sum(f), min or max",
                                       to_string(items[0].collective.reduction)));
    if (extremum && (items[0].in_place || kind != CollectiveKind::all_reduce))
      fail(written->place,
           "a call with min or max has a backward if it is all_reduce, not in "
           "place");
    return backward_reduce(word, items, output);
  }
  return [this, kind, word, items](ValueId dy) {
    if (kind == CollectiveKind::all_to_all_v) return exchange_back(items, dy);
    if (kind == CollectiveKind::all_to_all) return adjoint_pair(kind, kind)(items, dy);
    if (kind == CollectiveKind::broadcast) return at_root(items, dy);
    if (word == "slice") return own_chunk(items, dy);
    return adjoint_pair(kind, CollectiveKind::reduce_scatter)(items, dy);
  };
}

RankLowerer::Backward RankLowerer::backward_reduce(const std::string& word,
                                                   std::vector<CallItem> items, ValueId output) {
  return [this, word, items = std::move(items), output](ValueId dy) {
    const CollectiveKind kind = items[0].collective.kind;
    if (word == "all_reduce") dy = adjoint_pair(kind, CollectiveKind::all_reduce)(items, dy);
    if (word == "all_gather") dy = adjoint_pair(kind, CollectiveKind::all_gather)(items, dy);
    const ReduceOp op = items[0].collective.reduction.op;
    if (op == ReduceOp::min || op == ReduceOp::max) return for_holders(items, dy, output);
    return scaled(items, dy);
  };
}

RankLowerer::Adjoint RankLowerer::adjoint_pair(CollectiveKind kind, CollectiveKind back) {
  return [this, kind, back](const std::vector<CallItem>& items, ValueId dy) {
    return call_like(items, back, dy, adjoint_pair(back, kind));
  };
}

ValueId RankLowerer::call_like(const std::vector<CallItem>& items, CollectiveKind kind,
                               ValueId input, Adjoint adjoint) {
  const Lanes all = lanes_;
  std::vector<CallItem> calls;
  std::vector<LocalShape> shapes;
  for (const CallItem& like : items) {
    lanes_ = all.intersect(like.lanes);
    if (lanes_.empty()) continue;
    for (const Lanes& lanes : classes_of({input}, {})) {
      CallItem call;
      call.lanes = lanes;
      call.input = input;
      call.collective = like.collective;
      Collective& c = call.collective;
      c.kind = kind;
      c.reduction = {};
      call.dim = like.dim;
      call.dim2 = like.dim2;
      if (kind == CollectiveKind::all_to_all) std::swap(call.dim, call.dim2);
      const Dims shape = shape_on(input, lanes[0]);
      const Dims result = result_shape(kind, shape, call.dim, call.dim2, c.group.size());
      c.count = element_count(kind == CollectiveKind::reduce_scatter ? result : shape);
      if (Lanes given = lanes_with_result(c, lanes); !given.empty())
        shapes.push_back({std::move(given), result});
      calls.push_back(std::move(call));
    }
  }
  lanes_ = all;
  const ValueId output = add_value(value(input).dtype, shapes, Category::communication);
  for (CallItem& call : calls) call.output = output;
  Backward backward;
  if (tape_)
    backward = [calls, adjoint = std::move(adjoint)](ValueId dy) { return adjoint(calls, dy); };
  add_calls(std::move(calls));
  record_call(std::string(name(kind)), input, output, std::move(backward));
  return output;
}

ValueId RankLowerer::exchange_back(const std::vector<CallItem>& items, ValueId input) {
  std::vector<CallItem> calls;
  std::map<Dims, std::vector<int32_t>> by_shape;
  for (const CallItem& like : items) {
    CallItem call;
    call.lanes = lanes_.intersect(like.lanes);
    call.input = input;
    call.collective = like.collective;
    for (int64_t i = 0; i < call.lanes.size(); ++i) {
      const auto lane = static_cast<size_t>(like.lanes.index_of(call.lanes[i]));
      call.send_counts.push_back(like.recv_counts[lane]);
      call.recv_counts.push_back(like.send_counts[lane]);
      Dims shape = shape_on(input, call.lanes[i]);
      shape[0] = 0;
      for (const int64_t rows : call.recv_counts.back()) shape[0] += rows;
      by_shape[shape].push_back(call.lanes[i]);
    }
    calls.push_back(std::move(call));
  }
  std::vector<LocalShape> shapes;
  for (auto& [shape, ranks] : by_shape) shapes.push_back({Lanes::of(std::move(ranks)), shape});
  const ValueId output = add_value(value(input).dtype, std::move(shapes), Category::communication);
  for (CallItem& call : calls) call.output = output;
  record_call("all_to_all_v", input, output,
              [this, calls](ValueId dy) { return exchange_back(calls, dy); });
  add_calls(std::move(calls));
  return output;
}

ValueId RankLowerer::own_chunk(const std::vector<CallItem>& items, ValueId input) {
  std::vector<LaneAttrs> attrs;
  for (const CallItem& like : items) {
    const Lanes lanes = lanes_.intersect(like.lanes);
    const Group& group = like.collective.group;
    for (int64_t i = 0; i < lanes.size(); ++i) {
      const Dims shape = shape_on(input, lanes[i]);
      std::vector<int64_t> start, stop;
      for (int d = 0; d < shape.size(); ++d) {
        const int64_t size = d == like.dim ? shape[d] / group.size() : shape[d];
        start.push_back(d == like.dim ? size * group.index_of(lanes[i]) : 0);
        stop.push_back(start.back() + size);
      }
      Attrs cut{{"start", start}, {"stop", stop}, {"step", std::monostate{}}};
      const auto same = std::find_if(attrs.begin(), attrs.end(),
                                     [&](const LaneAttrs& one) { return one.attrs == cut; });
      if (same == attrs.end())
        attrs.push_back({Lanes::one(lanes[i]), std::move(cut)});
      else
        same->lanes = same->lanes.unite(Lanes::one(lanes[i]));
    }
  }
  const OpRecord* slice = ops_.find_infix("[:]");
  SP_CHECK(slice, "no op means x[a:b]");
  ValueId chunk = kNoValue;
  {
    const Tape::Pause pause(tape_.get());
    chunk = emit(*slice, std::move(attrs), {input}, 1).at(0);
  }
  record_call("slice", input, chunk, [this, items](ValueId dy) {
    return call_like(items, CollectiveKind::all_gather, dy,
                     [this](const std::vector<CallItem>& calls, ValueId by_dy) {
                       return own_chunk(calls, by_dy);
                     });
  });
  return chunk;
}

// The inputs of the other ranks are not read, so their gradients are 0.
ValueId RankLowerer::at_root(const std::vector<CallItem>& items, ValueId input) {
  ValueId made = kNoValue;
  {
    const Tape::Pause pause(tape_.get());
    const ValueId sum = call_like(items, CollectiveKind::reduce, input, nullptr);
    Lanes roots;
    for (const LocalShape& shape : value(sum).shapes) roots = roots.unite(shape.lanes);
    const Lanes all = lanes_, others = all.minus(roots);
    ValueId zeros = kNoValue;
    if (!others.empty()) {
      lanes_ = others;
      zeros = emit_named("zeros", {}, {input});
      lanes_ = all;
    }
    made = others.empty() ? sum : roots.empty() ? zeros : merge({{roots, sum}, {others, zeros}});
  }
  record_call("reduce", input, made, [this, items](ValueId dy) {
    return call_like(items, CollectiveKind::broadcast, dy,
                     [this](const std::vector<CallItem>& calls, ValueId by_dy) {
                       return at_root(calls, by_dy);
                     });
  });
  return made;
}

ValueId RankLowerer::scaled(const std::vector<CallItem>& items, ValueId input) {
  const Collective& first = items[0].collective;
  if (first.reduction.op == ReduceOp::sum) return input;
  PerRankNumber factor{lanes_, {}};
  for (int64_t i = 0; i < lanes_.size(); ++i)
    for (const CallItem& item : items)
      if (item.lanes.contains(lanes_[i])) {
        const Collective& c = item.collective;
        factor.values.push_back(first.reduction.op == ReduceOp::avg ? Number(c.group.size())
                                                                    : Number(c.reduction.scalar));
      }
  if (std::all_of(factor.values.begin(), factor.values.end(),
                  [&](const Number& n) { return n == factor.values[0]; }))
    factor.values.resize(1);
  return emit_infix(first.reduction.op == ReduceOp::avg ? "/" : "*", input, value_of(factor));
}

// Ranks that hold the extremum share its gradient equally, as in amax of one device.
ValueId RankLowerer::for_holders(const std::vector<CallItem>& items, ValueId gradient,
                                 ValueId output) {
  const ValueId held = emit_infix("==", items[0].input, output);
  const ValueId mask = emit_named("cast", {{"dtype", value(output).dtype}}, {held});
  const ValueId holders =
      adjoint_pair(CollectiveKind::all_reduce, CollectiveKind::all_reduce)(items, mask);
  const ValueId zero = value_of({lanes_, {Number(int64_t{0})}});
  return emit_named("where", {}, {held, emit_infix("/", gradient, holders), zero});
}

}  // namespace shardproof
