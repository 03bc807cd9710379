// Implements a table of rank_forms.h: steps that reduce or normalize along a dim, cut or not.
#include "shardproof/engine/generate/rank_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

// Writes m and s of the rows of z: their maximum, and the sum of exp(z - m). The values computed
// from them do not depend on m, so m needs no gradient. `for_parts`: each rank reads s for its
// part.
Lines shifted_sum(RankDraft& draft, const std::string& z, const std::string& p,
                  const std::string& group, bool for_parts) {
  const std::string sum = fmt::format("sum(exp({} - m{}), dim=1, keepdim=true)", z, p);
  return {
      fmt::format("m{} = all_reduce(amax({}, dim=1, keepdim=true), max, group={})", p, z, group),
      fmt::format("s{} = {}", p,
                  for_parts ? draft.summed_for_parts(sum, group)
                            : fmt::format("all_reduce({}, sum, group={}{})", sum, group,
                                          draft.backward("identity")))};
}

RankStep write_rank_softmax(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* z = with_cut_rows(draft, axis);
  if (z == nullptr) return {};
  const std::string y = draft.fresh();
  RankStep step;
  const int64_t form = draft.draw().below(3);
  step.ranks = shifted_sum(draft, z->name, y, draft.axis_name(axis), form < 2);
  switch (form) {
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
  step.ranks = shifted_sum(draft, from.name, y, group, false);
  step.ranks.push_back(
      fmt::format("k{} = arange({})[None, :] + index({}) * {} == ({} % {})[:, None]", y, each,
                  group, each, labels, from.shape[1]));
  step.ranks.push_back(fmt::format(
      "p{0} = all_reduce(sum(where(k{0}, {1} - m{0}, 0), dim=1, keepdim=true), sum, group={2}{3})",
      y, from.name, group, draft.backward("identity")));
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
  const std::string sum = draft.summed_for_parts(
      fmt::format("sum({0} * {0}, dim=1, keepdim=true)", from.name), draft.axis_name(axis));
  return {{fmt::format("{} = rms_norm({}, {}, eps=0.01)", y, from.name, g)},
          {fmt::format("s{} = {}", y, sum),
           fmt::format("{0} = {1} * rsqrt(s{0} / {2} + 0.01) * {3}", y, from.name, from.shape[1],
                       draft.entered_tensor(g, from.placements))},
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
  const auto sum_of_rows = [&](const std::string& rows) {
    return draft.summed_for_parts(fmt::format("sum({}, dim=1, keepdim=true)", rows), group);
  };
  const std::string centred =
      fmt::format("c{} = {} - {} / {}", y, from.name, sum_of_rows(from.name), from.shape[1]);
  const std::string variance =
      fmt::format("u{0} = {1} / {2}", y, sum_of_rows(fmt::format("c{0} * c{0}", y)), from.shape[1]);
  return {{fmt::format("{} = layer_norm({}, {}, {}, eps=0.01)", y, from.name, g, b)},
          {centred, variance,
           fmt::format("{0} = c{0} * rsqrt(u{0} + 0.01) * {1} + {2}", y,
                       draft.entered_tensor(g, from.placements),
                       draft.entered_tensor(b, from.placements))},
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

// True if each maximum (minimum) along the dim is one element, and no rounding makes it two. Ranks
// and one device share the gradient of equal elements differently: each rank, then its elements.
bool has_one_extremum(const Tensor& x, int dim, bool is_max) {
  const std::vector<double> elements = values_of(x);
  int64_t stride = 1;
  for (int d = dim + 1; d < x.shape.size(); ++d) stride *= x.shape[static_cast<size_t>(d)];
  const int64_t size = x.shape[static_cast<size_t>(dim)];
  const double rounding = 16 * std::ldexp(1.0, 1 - precision_bits(x.dtype));
  for (int64_t first = 0; first < std::ssize(elements); ++first) {
    if (first / stride % size != 0) continue;
    double best = -INFINITY, next = -INFINITY;
    for (int64_t i = 0; i < size; ++i) {
      const double element = elements[static_cast<size_t>(first + i * stride)];
      const double at = is_max ? element : -element;
      if (std::isnan(at)) return false;
      next = std::max(next, std::min(at, best));
      best = std::max(best, at);
    }
    if (!(best - next > rounding * std::max(std::abs(best), std::abs(next)))) return false;
  }
  return true;
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
  RankStep step{{fmt::format("{} = {}", y, local)},
                {fmt::format("{} = all_reduce({}, {}, group={}{})", y, local, how,
                             draft.axis_name(axis), draft.backward("identity"))},
                {{y, with_placement(x->placements, axis, R())}}};
  const bool is_sum = how == "sum" || how == "avg";
  step.has_backward = is_sum || has_one_extremum(draft.truth_of(*x).value, dim, how == "max");
  return step;
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
            {fmt::format("{} = all_reduce(sum({}), sum, group=[{}]{})", y, x->name, axes,
                         draft.backward("identity"))},
            {{y, whole}}};
  if (draft.draw().chance(0.5)) {
    // The gradient of sqrt has no value at 0.
    if (draft.has_gradients() && draft.truth_of(*x).largest == 0) return {};
    const std::string sum =
        draft.summed_for_parts(fmt::format("sum({0} * {0})", x->name), "[" + axes + "]");
    return {{fmt::format("{0} = {1} / (norm({1}) + 0.1)", y, x->name)},
            {fmt::format("n{} = {}", y, sum),
             fmt::format("{0} = {1} / (sqrt(n{0}) + 0.1)", y, x->name)},
            {{y, x->placements}}};
  }
  return {{fmt::format("{0} = mean(square({1} - 0.3))", y, x->name)},
          {fmt::format("{} = all_reduce(sum(square({} - 0.3)), sum, group=[{}]{}) / {}", y, x->name,
                       axes, draft.backward("identity"), element_count(x->shape))},
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
