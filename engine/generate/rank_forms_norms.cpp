// Implements a table of rank_forms.h: steps that reduce or normalize along a dim, cut or not.
#include "shardproof/engine/generate/rank_forms.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns a finite matrix whose dim 1 this axis cuts; evenly, if lines need the size of a part.
const RankValue* with_cut_rows(RankDraft& draft, int axis, bool even = false) {
  return draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && v.is_finite &&
           v.placements[static_cast<size_t>(axis)].is_shard(1) &&
           (even ? draft.is_even(v, 1, axis) : draft.has_no_empty_part(v, 1, axis));
  });
}

// Writes m and s of the rows of z: their maximum, and the sum of exp(z - m).
Lines shifted_sum(const std::string& z, const std::string& p, const std::string& group) {
  return {
      fmt::format("m{} = all_reduce(amax({}, dim=1, keepdim=true), max, group={})", p, z, group),
      fmt::format("s{0} = all_reduce(sum(exp({1} - m{0}), dim=1, keepdim=true), sum, group={2})", p,
                  z, group)};
}

RankStep write_rank_softmax(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* z = with_cut_rows(draft, axis);
  if (z == nullptr) return {};
  const std::string y = draft.fresh();
  RankStep step;
  step.ranks = shifted_sum(z->name, y, draft.axis_name(axis));
  switch (draft.draw().below(3)) {
    case 0:
      step.truth = {fmt::format("{} = softmax({}, dim=1)", y, z->name)};
      step.ranks.push_back(fmt::format("{0} = exp({1} - m{0}) / s{0}", y, z->name));
      step.results = {{y, z->placements}};
      break;
    case 1:
      step.truth = {fmt::format("{} = log_softmax({}, dim=1)", y, z->name)};
      step.ranks.push_back(fmt::format("{0} = {1} - m{0} - log(s{0})", y, z->name));
      step.results = {{y, z->placements}};
      break;
    default:
      step.truth = {fmt::format("{} = logsumexp({}, dim=1, keepdim=true)", y, z->name)};
      step.ranks.push_back(fmt::format("{0} = m{0} + log(s{0})", y));
      step.results = {{y, with_placement(z->placements, axis, R())}};
  }
  return step;
}

RankStep write_cross_entropy(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* z = with_cut_rows(draft, axis, true);
  if (z == nullptr || !draft.is_uncut(*z, 0)) return {};
  const RankValue from = *z;
  const int64_t each = from.shape[1] / draft.axis_size(axis);
  const std::string labels = draft.add_tensor(Dims{from.shape[0]}, DType::i64, draft.replicated());
  const std::string y = draft.fresh(), group = draft.axis_name(axis);
  RankStep step;
  step.truth = {
      fmt::format("{} = cross_entropy({}, {} % {})", y, from.name, labels, from.shape[1])};
  step.ranks = shifted_sum(from.name, y, group);
  step.ranks.push_back(
      fmt::format("k{} = arange({})[None, :] + index({}) * {} == ({} % {})[:, None]", y, each,
                  group, each, labels, from.shape[1]));
  step.ranks.push_back(fmt::format(
      "p{0} = all_reduce(sum(where(k{0}, {1} - m{0}, 0), dim=1, keepdim=true), sum, group={2})", y,
      from.name, group));
  step.ranks.push_back(fmt::format("{0} = mean(log(s{0}) - p{0})", y));
  step.results = {{y, draft.replicated()}};
  return step;
}

RankStep write_rms_norm(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = with_cut_rows(draft, axis);
  if (x == nullptr) return {};
  const RankValue from = *x;
  const std::string g = draft.add_tensor(Dims{from.shape[1]}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(0)));
  const std::string y = draft.fresh();
  return {
      {fmt::format("{} = rms_norm({}, {}, eps=0.01)", y, from.name, g)},
      {fmt::format("s{0} = all_reduce(sum({1} * {1}, dim=1, keepdim=true), sum, group={2})", y,
                   from.name, draft.axis_name(axis)),
       fmt::format("{0} = {1} * rsqrt(s{0} / {2} + 0.01) * {3}", y, from.name, from.shape[1], g)},
      {{y, from.placements}}};
}

RankStep write_layer_norm(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = with_cut_rows(draft, axis);
  if (x == nullptr) return {};
  const RankValue from = *x;
  const Placements cut = with_placement(draft.replicated(), axis, S(0));
  const std::string g = draft.add_tensor(Dims{from.shape[1]}, draft.dtype(), cut);
  const std::string b = draft.add_tensor(Dims{from.shape[1]}, draft.dtype(), cut);
  const std::string y = draft.fresh(), group = draft.axis_name(axis);
  return {
      {fmt::format("{} = layer_norm({}, {}, {}, eps=0.01)", y, from.name, g, b)},
      {fmt::format("c{0} = {1} - all_reduce(sum({1}, dim=1, keepdim=true), sum, group={2}) / {3}",
                   y, from.name, group, from.shape[1]),
       fmt::format("u{0} = all_reduce(sum(c{0} * c{0}, dim=1, keepdim=true), sum, group={1}) / {2}",
                   y, group, from.shape[1]),
       fmt::format("{0} = c{0} * rsqrt(u{0} + 0.01) * {1} + {2}", y, g, b)},
      {{y, from.placements}}};
}

// Writes an op along the last dim, which no axis cuts. Ranks and truth have the same text.
RankStep write_row_op(RankDraft& draft) {
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    const int last = static_cast<int>(v.shape.size()) - 1;
    return v.dtype == draft.dtype() && last >= 0 && v.is_finite && draft.is_uncut(v, last);
  });
  if (x == nullptr) return {};
  static const std::vector<std::string> kForms = {"softmax({}, dim=-1)", "layer_norm({}, eps=0.01)",
                                                  "rms_norm({}, eps=0.01)", "cumsum({}, dim=-1)",
                                                  "flip({}, [-1])"};
  const std::string y = draft.fresh();
  const std::string line =
      y + " = " + fmt::format(fmt::runtime(draft.draw().from(kForms)), x->name);
  return {{line}, {line}, {{y, x->placements}}};
}

RankStep write_rank_reduction(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    const Placement& placement = v.placements[static_cast<size_t>(axis)];
    return v.dtype == draft.dtype() && placement.is_shard() &&
           draft.has_no_empty_part(v, placement.shard().dim, axis);
  });
  if (x == nullptr) return {};
  const int dim = x->placements[static_cast<size_t>(axis)].shard().dim;
  std::string verb = draft.draw().from({"sum", "mean", "amax", "amin"});
  // With parts of different sizes the average of averages is not the average.
  if (verb == "mean" && (draft.is_whole() || !draft.is_even(*x, dim, axis))) verb = "sum";
  const std::string how = verb == "sum"    ? "sum"
                          : verb == "mean" ? "avg"
                          : verb == "amax" ? "max"
                                           : "min";
  const std::string y = draft.fresh();
  const std::string local = fmt::format("{}({}, dim={}, keepdim=true)", verb, x->name, dim);
  return {{fmt::format("{} = {}", y, local)},
          {fmt::format("{} = all_reduce({}, {}, group={})", y, local, how, draft.axis_name(axis))},
          {{y, with_placement(x->placements, axis, R())}}};
}

// Writes a reduction over all elements and all axes that cut the value.
RankStep write_total(RankDraft& draft) {
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() > 0 && !draft.cutting_axes(v).empty() &&
           v.is_finite;
  });
  if (x == nullptr) return {};
  const std::string axes = draft.cutting_axes(*x), y = draft.fresh();
  const Placements whole = draft.replicated();
  if (draft.is_whole() || draft.draw().chance(0.4))
    return {{fmt::format("{} = sum({})", y, x->name)},
            {fmt::format("{} = all_reduce(sum({}), sum, group=[{}])", y, x->name, axes)},
            {{y, whole}}};
  if (draft.draw().chance(0.5))
    return {{fmt::format("{0} = {1} / (norm({1}) + 0.1)", y, x->name)},
            {fmt::format("n{0} = all_reduce(sum({1} * {1}), sum, group=[{2}])", y, x->name, axes),
             fmt::format("{0} = {1} / (sqrt(n{0}) + 0.1)", y, x->name)},
            {{y, x->placements}}};
  return {{fmt::format("{0} = mean(square({1} - 0.3))", y, x->name)},
          {fmt::format("{} = all_reduce(sum(square({} - 0.3)), sum, group=[{}]) / {}", y, x->name,
                       axes, element_count(x->shape))},
          {{y, whole}}};
}

}  // namespace

void add_rank_norm_forms(std::vector<RankForm>& forms) {
  forms.push_back({"cut_softmax", false, 1.5, write_rank_softmax});
  forms.push_back({"cut_cross_entropy", false, 1, write_cross_entropy});
  forms.push_back({"cut_rms_norm", false, 1.2, write_rms_norm});
  forms.push_back({"cut_layer_norm", false, 1.2, write_layer_norm});
  forms.push_back({"row_op", false, 1, write_row_op});
  forms.push_back({"cut_reduction", true, 2, write_rank_reduction});
  forms.push_back({"total", true, 1.2, write_total});
}

}  // namespace shardproof
