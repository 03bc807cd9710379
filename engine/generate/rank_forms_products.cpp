// Implements a table of rank_forms.h: products of matrices. They are column- or row-parallel,
// reduced by all_reduce or by reduce_scatter and all_gather, with blocks sent along a ring, or
// attention over cut keys.
#include "shardproof/engine/generate/rank_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

const Placement& over(const RankValue& value, int axis) {
  return value.placements[static_cast<size_t>(axis)];
}

RankStep write_column_parallel(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && over(v, axis).is_replicate() &&
           draft.is_uncut(v, 1);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;  // tensors are added below
  const int64_t columns = draft.axis_size(axis) * draft.draw().between(1, 3);
  const std::string w = draft.add_tensor(Dims{from.shape[1], columns}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(1)));
  const std::string y = draft.fresh();
  const bool activates = !draft.is_whole() && draft.draw().chance(0.5);
  const Placements columns_cut = with_placement(from.placements, axis, S(1));
  const std::string form = activates ? "{} = gelu({} @ {})" : "{} = {} @ {}";
  return {{fmt::format(fmt::runtime(form), y, from.name, w)},
          {fmt::format(fmt::runtime(form), y, draft.entered(from, columns_cut),
                       draft.entered_tensor(w, columns_cut))},
          {{y, columns_cut}}};
}

// True if no axis cuts the rows and the axis can scatter them evenly.
bool can_scatter(const RankDraft& draft, const RankValue& x, int axis) {
  return draft.is_uncut(x, 0) && x.shape[0] % draft.axis_size(axis) == 0;
}

RankStep write_row_parallel(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && over(v, axis).is_shard(1);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const int64_t columns = draft.draw().between(1, 6);
  const std::string w = draft.add_tensor(Dims{from.shape[1], columns}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(0)));
  const std::string y = draft.fresh(), group = draft.axis_name(axis);
  const std::string product =
      fmt::format("{} @ {}", from.name, draft.entered_tensor(w, from.placements));
  const std::string truth = fmt::format("{} = {} @ {}", y, from.name, w);
  if (can_scatter(draft, from, axis) && draft.draw().chance(0.3))
    return {{truth},
            {fmt::format("{} = reduce_scatter({}, sum, dim=0, group={}{})", y, product, group,
                         draft.backward("all_gather"))},
            {{y, with_placement(from.placements, axis, S(0))}}};
  const Placements whole = with_placement(from.placements, axis, R());
  const std::string sum =
      fmt::format("all_reduce({}, sum, group={}{})", product, group, draft.backward("identity"));
  if (draft.draw().chance(0.5)) return {{truth}, {fmt::format("{} = {}", y, sum)}, {{y, whole}}};
  const std::string b = draft.add_tensor(Dims{columns}, draft.dtype(), draft.replicated());
  return {{fmt::format("{} + {}", truth, b)},
          {fmt::format("{} = {} + {}", y, sum, draft.entered_tensor(b, whole))},
          {{y, whole}}};
}

// Writes a sum of products that a second stream reduces by reduce_scatter and all_gather.
RankStep write_scatter_and_gather(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && over(v, axis).is_shard(1) &&
           can_scatter(draft, v, axis);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const std::string w = draft.add_tensor(Dims{from.shape[1], 3}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(0)));
  const std::string part = draft.fresh(), shard = draft.fresh(), y = draft.fresh();
  const std::string group = draft.axis_name(axis);
  return {{fmt::format("{} = {} @ {}", y, from.name, w)},
          {fmt::format("{} = {} @ {}", part, from.name, draft.entered_tensor(w, from.placements)),
           "on comm:", fmt::format("  wait({})", part),
           fmt::format("  {} = reduce_scatter({}, sum, dim=0, group={}{})", shard, part, group,
                       draft.backward("all_gather")),
           fmt::format("wait({})", shard),
           fmt::format("{} = all_gather({}, dim=0, group={}{})", y, shard, group,
                       draft.backward("slice"))},
          {{y, with_placement(from.placements, axis, R())}}};
}

// Writes a product with the blocks of w sent along a ring. Each rank adds the product with the
// block that it holds.
RankStep write_ring_product(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const int64_t ranks = draft.axis_size(axis);
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && over(v, axis).is_replicate() &&
           draft.is_uncut(v, 1) && draft.is_even(v, 1, axis);
  });
  if (x == nullptr || ranks < 2) return {};
  const RankValue from = *x;
  const int64_t each = from.shape[1] / ranks;
  const std::string w = draft.add_tensor(Dims{from.shape[1], 4}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(0)));
  const std::string block = draft.fresh(), next = draft.fresh(), sum = draft.fresh(),
                    y = draft.fresh(), group = draft.axis_name(axis);
  return {
      {fmt::format("{} = {} @ {}", y, from.name, w)},
      {fmt::format("{} = {} * 1", block, w),
       fmt::format("{} = narrow({}, 1, index({}) * {}, {}) @ {}", sum, from.name, group, each, each,
                   block),
       fmt::format("for i in range({}):", ranks - 1),
       "  group:", fmt::format("    send({}, to=next, group={})", block, group),
       fmt::format("    {} = recv(like={}, from=prev, group={})", next, block, group),
       fmt::format("  {} = {} * 1", block, next),
       fmt::format("  {0} = {0} + narrow({1}, 1, (index({2}) + {3} - i) % {4} * {5}, {5}) @ {6}",
                   sum, from.name, group, ranks - 1, ranks, each, block),
       fmt::format("{} = {} * 1", y, sum)},
      {{y, from.placements}},
      false};
}

struct CutKeys {
  std::string q, k, v;
};

CutKeys add_cut_keys(RankDraft& draft, int axis) {
  const int64_t keys = draft.axis_size(axis) * draft.draw().between(1, 3);
  const Placements cut = with_placement(draft.replicated(), axis, S(1));
  CutKeys keys_cut;
  const int64_t queries = draft.draw().between(1, 4);
  keys_cut.q = draft.add_finite_tensor(Dims{2, queries, 3}, draft.replicated());
  keys_cut.k = draft.add_finite_tensor(Dims{2, keys, 3}, cut);
  keys_cut.v = draft.add_finite_tensor(Dims{2, keys, 3}, cut);
  return keys_cut;
}

std::string attention_text(RankDraft& draft, const CutKeys& on, const std::string& y) {
  if (draft.draw().chance(0.5))
    return fmt::format("{} = sdpa({}, {}, {}, scale=0.5)", y, on.q, on.k, on.v);
  return fmt::format("{} = softmax({} @ {}.T * 0.5, dim=-1) @ {}", y, on.q, on.k, on.v);
}

RankStep write_attention_of_keys(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const CutKeys on = add_cut_keys(draft, axis);
  const std::string s = draft.fresh(), y = draft.fresh(), group = draft.axis_name(axis);
  const std::string truth = attention_text(draft, on, y);
  const Placements keys_cut = with_placement(draft.replicated(), axis, S(2));
  return {
      {truth},
      {fmt::format("{} = {} @ {}.T * 0.5", s, draft.entered(draft.at(on.q), keys_cut), on.k),
       fmt::format("m{0} = all_reduce(amax({0}, dim=-1, keepdim=true), max, group={1})", s, group),
       fmt::format("e{0} = exp({0} - m{0})", s),
       fmt::format("l{0} = all_reduce(sum(e{0}, dim=-1, keepdim=true), sum, group={1}{2})", s,
                   group, draft.backward("identity")),
       fmt::format("{} = all_reduce(e{} @ {}, sum, group={}{}) / l{}", y, s, on.v, group,
                   draft.backward("identity"), s)},
      {{y, draft.replicated()}}};
}

// Writes ring attention: keys and values are sent along a ring, and running maxima, sums and
// products are merged as in flash attention.
RankStep write_ring_attention(RankDraft& draft) {
  const int axis = draft.draw_axis();
  if (draft.axis_size(axis) < 2) return {};
  const CutKeys on = add_cut_keys(draft, axis);
  const std::string p = draft.fresh(), y = draft.fresh(), group = draft.axis_name(axis);
  const std::string truth = attention_text(draft, on, y);
  Lines ranks = {fmt::format("k{} = {} * 1", p, on.k),
                 fmt::format("v{} = {} * 1", p, on.v),
                 fmt::format("s{0} = {1} @ k{0}.T * 0.5", p, on.q),
                 fmt::format("m{0} = amax(s{0}, dim=-1, keepdim=true)", p),
                 fmt::format("e{0} = exp(s{0} - m{0})", p),
                 fmt::format("l{0} = sum(e{0}, dim=-1, keepdim=true)", p),
                 fmt::format("o{0} = e{0} @ v{0}", p),
                 fmt::format("for i in range({}):", draft.axis_size(axis) - 1),
                 "  group:",
                 fmt::format("    send(k{}, to=next, group={})", p, group),
                 fmt::format("    send(v{}, to=next, group={})", p, group),
                 fmt::format("    a{0} = recv(like=k{0}, from=prev, group={1})", p, group),
                 fmt::format("    b{0} = recv(like=v{0}, from=prev, group={1})", p, group),
                 fmt::format("  k{0} = a{0} * 1", p),
                 fmt::format("  v{0} = b{0} * 1", p),
                 fmt::format("  s{0} = {1} @ k{0}.T * 0.5", p, on.q),
                 fmt::format("  n{0} = maximum(m{0}, amax(s{0}, dim=-1, keepdim=true))", p),
                 fmt::format("  c{0} = exp(m{0} - n{0})", p),
                 fmt::format("  e{0} = exp(s{0} - n{0})", p),
                 fmt::format("  l{0} = l{0} * c{0} + sum(e{0}, dim=-1, keepdim=true)", p),
                 fmt::format("  o{0} = o{0} * c{0} + e{0} @ v{0}", p),
                 fmt::format("  m{0} = n{0} * 1", p),
                 fmt::format("{0} = o{1} / l{1}", y, p)};
  return {{truth}, std::move(ranks), {{y, draft.replicated()}}, false};
}

// Writes a product of all rows with the columns of w that a rank holds. Megatron's sequence
// parallelism gathers the rows before it.
RankStep write_gathered_product(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && over(v, axis).is_shard(0) &&
           draft.is_even(v, 0, axis) && draft.is_uncut(v, 0, axis) && draft.is_uncut(v, 1);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const int64_t columns = draft.axis_size(axis) * draft.draw().between(1, 3);
  const std::string w = draft.add_tensor(Dims{from.shape[1], columns}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(1)));
  const std::string rows = draft.fresh(), y = draft.fresh();
  return {{fmt::format("{} = {} @ {}", y, from.name, w)},
          {fmt::format("{} = all_gather({}, dim=0, group={}{})", rows, from.name,
                       draft.axis_name(axis), draft.backward("reduce_scatter")),
           fmt::format("{} = {} @ {}", y, rows, w)},
          {{y, with_placement(from.placements, axis, S(1))}}};
}

// Writes a step with a replicated parameter over rows that an axis cuts: each rank holds a part of
// the parameter's gradient.
RankStep write_shared_parameter(RankDraft& draft) {
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && v.is_finite && draft.is_uncut(v, 1) &&
           !draft.cutting_axes(v).empty();
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const bool is_product = draft.draw().chance(0.5);
  const Dims shape =
      is_product ? Dims{from.shape[1], draft.draw().between(1, 5)} : Dims{from.shape[1]};
  const std::string w = draft.add_tensor(shape, draft.dtype(), draft.replicated());
  const std::string form = is_product         ? "{} = {} @ {}"
                           : draft.is_whole() ? draft.draw().from({"{} = {} * {}", "{} = {} + {}"})
                                              : "{} = rms_norm({}, {}, eps=0.01)";
  const std::string y = draft.fresh();
  return {{fmt::format(fmt::runtime(form), y, from.name, w)},
          {fmt::format(fmt::runtime(form), y, from.name, draft.entered_tensor(w, from.placements))},
          {{y, from.placements}}};
}

}  // namespace

void add_rank_product_forms(std::vector<RankForm>& forms) {
  forms.push_back({"column_parallel", true, 3, write_column_parallel});
  forms.push_back({"row_parallel", true, 4, write_row_parallel});
  forms.push_back({"scatter_and_gather", true, 1, write_scatter_and_gather});
  forms.push_back({"ring_product", true, 1, write_ring_product});
  forms.push_back({"attention_of_keys", false, 1, write_attention_of_keys});
  forms.push_back({"ring_attention", false, 0.7, write_ring_attention});
  forms.push_back({"gathered_product", true, 2, write_gathered_product, true});
  forms.push_back({"shared_parameter", true, 2, write_shared_parameter, true});
}

}  // namespace shardproof
