// Implements a table of rank_forms.h: elementwise steps, and steps that change the placements of a
// value by one kind of collective each. One device computes `x * 1` in place of a change of
// placements.
#include <fmt/ranges.h>

#include "shardproof/engine/generate/rank_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

RankStep move(RankDraft& draft, const RankValue& x, const std::string& expression,
              const Placements& placements) {
  const std::string y = draft.fresh();
  return {{fmt::format("{} = {} * 1", y, x.name)},
          {fmt::format("{} = {}", y, expression)},
          {{y, placements}}};
}

RankStep write_elementwise(RankDraft& draft) {
  const RankValue* x = draft.any_of([&](const RankValue& v) { return v.dtype == draft.dtype(); });
  if (x == nullptr) return {};
  const RankValue* y = draft.any_of([&](const RankValue& v) {
    return v.dtype == x->dtype && v.shape == x->shape && v.placements == x->placements;
  });
  static const std::vector<std::string> kWhole = {"{} + {}", "relu({}) - {}", "maximum({}, {})",
                                                  "{} * {}", "{} * 2 - {}"};
  static const std::vector<std::string> kRounded = {"gelu({}) * 0.7 + {}",  "tanh({}) - {} * 0.3",
                                                    "{} / (abs({}) + 0.5)", "sigmoid({} + {})",
                                                    "silu({}) * {}",        "exp(-abs({})) + {}"};
  const bool whole = draft.is_whole() || draft.draw().chance(0.3);
  const std::string& form = draft.draw().from(whole ? kWhole : kRounded);
  const std::string name = draft.fresh();
  const std::string line = name + " = " + fmt::format(fmt::runtime(form), x->name, y->name);
  return {{line}, {line}, {{name, x->placements}}};
}

// Returns a value that an axis cuts evenly.
const RankValue* evenly_cut(RankDraft& draft, int axis) {
  return draft.any_of([&](const RankValue& v) {
    const Placement& placement = v.placements[static_cast<size_t>(axis)];
    return is_plain_float(v.dtype) && placement.is_shard() &&
           draft.is_even(v, placement.shard().dim, axis);
  });
}

RankStep write_gather(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = evenly_cut(draft, axis);
  if (x == nullptr) return {};
  const int dim = x->placements[static_cast<size_t>(axis)].shard().dim;
  return move(draft, *x,
              fmt::format("all_gather({}, dim={}, group={}{})", x->name, dim, draft.axis_name(axis),
                          draft.backward("slice")),
              with_placement(x->placements, axis, R()));
}

// Returns a dim that no axis cuts and that this axis can cut evenly; -1 if there is none.
int free_dim(RankDraft& draft, const RankValue& value, int axis) {
  const int dims = static_cast<int>(value.shape.size());
  if (dims == 0) return -1;
  const int dim = static_cast<int>(draft.draw().below(dims));
  return draft.is_uncut(value, dim) && draft.is_even(value, dim, axis) ? dim : -1;
}

const RankValue* uncut(RankDraft& draft, int axis) {
  return draft.any_of([&](const RankValue& v) {
    return is_plain_float(v.dtype) && v.placements[static_cast<size_t>(axis)].is_replicate();
  });
}

RankStep write_cut(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = uncut(draft, axis);
  const int dim = x == nullptr ? -1 : free_dim(draft, *x, axis);
  if (dim < 0) return {};
  const int64_t each = x->shape[static_cast<size_t>(dim)] / draft.axis_size(axis);
  const Placements cut = with_placement(x->placements, axis, S(dim));
  return move(draft, *x,
              fmt::format("narrow({}, {}, index({}) * {}, {})", draft.entered(*x, cut), dim,
                          draft.axis_name(axis), each, each),
              cut);
}

RankStep write_exchange(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = evenly_cut(draft, axis);
  const int to = x == nullptr ? -1 : free_dim(draft, *x, axis);
  if (to < 0) return {};
  const int from = x->placements[static_cast<size_t>(axis)].shard().dim;
  return move(draft, *x,
              fmt::format("all_to_all({}, split={}, concat={}, group={}{})", x->name, to, from,
                          draft.axis_name(axis), draft.backward("all_to_all")),
              with_placement(x->placements, axis, S(to)));
}

// Writes an all_to_all_v in which each rank sends an equal number of rows to each rank.
RankStep write_exchange_of_rows(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const int64_t ranks = draft.axis_size(axis);
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return is_plain_float(v.dtype) && v.shape.size() == 2 && draft.is_uncut(v, 0, axis) &&
           v.placements[static_cast<size_t>(axis)].is_shard(0) && v.shape[0] % (ranks * ranks) == 0;
  });
  if (x == nullptr) return {};
  const int64_t rows = x->shape[0], each = rows / ranks / ranks;
  const std::vector<int64_t> counts(static_cast<size_t>(ranks), each);
  const std::string y = draft.fresh();
  return {
      {fmt::format("{0} = reshape(transpose(reshape({1}, [{2}, {2}, {3}, {4}]), 0, 1), [{5}, {4}])",
                   y, x->name, ranks, each, x->shape[1], rows)},
      {fmt::format("{} = all_to_all_v({}, send=[{}], recv=[{}], group={}{})", y, x->name,
                   fmt::join(counts, ", "), fmt::join(counts, ", "), draft.axis_name(axis),
                   draft.backward("all_to_all_v"))},
      {{y, x->placements}}};
}

// Writes a broadcast of values that differ by rank. Its backward adds the gradients of the ranks,
// so each rank reads its part of the result: a shard, or 1/n of the mean.
RankStep write_differentiated_broadcast(RankDraft& draft, const RankValue& x, int axis,
                                        int64_t root) {
  const std::string group = draft.axis_name(axis), own = draft.fresh(), sent = draft.fresh(),
                    y = draft.fresh();
  RankStep step{{fmt::format("{} = {} + {}", y, x.name, root)},
                {fmt::format("{} = enter({}, group={}) + index({})", own, x.name, group, group),
                 fmt::format("{} = broadcast({}, root={}, group={}, backward=reduce)", sent, own,
                             root, group)},
                {{y, x.placements}}};
  if (const int dim = free_dim(draft, x, axis); dim >= 0) {
    const int64_t each = x.shape[static_cast<size_t>(dim)] / draft.axis_size(axis);
    step.ranks.push_back(
        fmt::format("{} = narrow({}, {}, index({}) * {}, {})", y, sent, dim, group, each, each));
    step.results[0].second = with_placement(x.placements, axis, S(dim));
    return step;
  }
  step.ranks.push_back(
      fmt::format("{} = all_reduce({}, avg, group={}, backward=identity)", y, sent, group));
  return step;
}

RankStep write_broadcast(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = uncut(draft, axis);
  if (x == nullptr) return {};
  const int64_t root = draft.draw().below(draft.axis_size(axis));
  if (draft.has_gradients()) return write_differentiated_broadcast(draft, *x, axis, root);
  const std::string group = draft.axis_name(axis), own = draft.fresh(), y = draft.fresh();
  return {{fmt::format("{} = {} + {}", y, x->name, root)},
          {fmt::format("{} = {} + index({})", own, x->name, group),
           fmt::format("{} = broadcast({}, root={}, group={})", y, own, root, group)},
          {{y, x->placements}}};
}

// Writes a reduce to a root, which broadcasts the sum.
RankStep write_reduce_to_root(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = uncut(draft, axis);
  if (x == nullptr) return {};
  const int64_t ranks = draft.axis_size(axis);
  const std::string group = draft.axis_name(axis), part = draft.fresh(), y = draft.fresh();
  return {{fmt::format("{} = {} * {}", y, x->name, ranks * (ranks + 1) / 2)},
          {fmt::format("{} = {} * (index({}) + 1)", part, x->name, group),
           fmt::format("reduce_({}, sum, root=0, group={})", part, group),
           fmt::format("broadcast_({}, root=0, group={})", part, group),
           fmt::format("{} = {} * 1", y, part)},
          {{y, x->placements}},
          false};
}

// Writes a pipeline: each rank receives from the rank before, runs its stage and sends on.
RankStep write_pipeline(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = uncut(draft, axis);
  if (x == nullptr || x->dtype != draft.dtype()) return {};
  const int64_t ranks = draft.axis_size(axis);
  const std::string group = draft.axis_name(axis), h = draft.fresh(), y = draft.fresh();
  const std::string stage =
      draft.is_whole() ? "{0} = relu({0}) - {1}" : "{0} = tanh({0} * 0.9 + {1})";
  return {
      {fmt::format("{} = {} * 1", h, x->name), fmt::format("for i in range({}):", ranks),
       "  " + fmt::format(fmt::runtime(stage), h, "i"), fmt::format("{} = {} * 1", y, h)},
      {fmt::format("if index({}) == 0:", group), fmt::format("  {} = {} * 1", h, x->name), "else:",
       fmt::format("  {} = recv(like={}, from=index({}) - 1, group={})", h, x->name, group, group),
       fmt::format(fmt::runtime(stage), h, fmt::format("index({})", group)),
       fmt::format("if index({}) < {}:", group, ranks - 1),
       fmt::format("  send({}, to=index({}) + 1, group={})", h, group, group),
       fmt::format("broadcast_({}, root={}, group={})", h, ranks - 1, group),
       fmt::format("{} = {} * 1", y, h)},
      {{y, x->placements}},
      false};
}

RankStep write_sum_over_ring(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.placements[static_cast<size_t>(axis)].is_shard();
  });
  if (x == nullptr || draft.axis_size(axis) < 2) return {};
  const int dim = x->placements[static_cast<size_t>(axis)].shard().dim;
  const std::string group = draft.axis_name(axis), held = draft.fresh(), next = draft.fresh(),
                    sum = draft.fresh(), y = draft.fresh();
  return {{fmt::format("{} = sum({}, dim={}, keepdim=true)", y, x->name, dim)},
          {fmt::format("{} = sum({}, dim={}, keepdim=true)", held, x->name, dim),
           fmt::format("{} = {} * 1", sum, held),
           fmt::format("for i in range({}):", draft.axis_size(axis) - 1),
           "  group:", fmt::format("    send({}, to=next, group={})", held, group),
           fmt::format("    {} = recv(like={}, from=prev, group={})", next, held, group),
           fmt::format("  {} = {} * 1", held, next), fmt::format("  {0} = {0} + {1}", sum, held),
           fmt::format("{} = {} * 1", y, sum)},
          {{y, with_placement(x->placements, axis, R())}},
          false};
}

}  // namespace

void add_rank_move_forms(std::vector<RankForm>& forms) {
  forms.push_back({"elementwise", true, 4, write_elementwise});
  forms.push_back({"gather", true, 2, write_gather});
  forms.push_back({"cut", true, 2.5, write_cut});
  forms.push_back({"exchange", true, 1, write_exchange});
  forms.push_back({"exchange_of_rows", true, 0.6, write_exchange_of_rows});
  forms.push_back({"broadcast", true, 0.7, write_broadcast});
  forms.push_back({"reduce_to_root", true, 0.5, write_reduce_to_root});
  forms.push_back({"pipeline", true, 0.7, write_pipeline});
  forms.push_back({"sum_over_ring", true, 0.7, write_sum_over_ring});
}

}  // namespace shardproof
