// Implements a table of rank_forms.h: layers in a loop, and training loops over rows that an axis
// cuts. A training loop reduces gradients in each step, and its outputs are the weights.
#include "shardproof/engine/generate/rank_forms.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Lines that update w from the gradient g; {0} is a prefix, {1} the weights before, {2} after.
const std::vector<Lines>& updates() {
  static const std::vector<Lines> kUpdates = {
      {"  {2} = {1} - 0.05 * g{0}"},
      {"  m{0} = m{0} * 0.9 + g{0}", "  {2} = {1} - 0.02 * m{0}"},
      {"  m{0} = m{0} * 0.9 + g{0} * 0.1", "  u{0} = u{0} * 0.99 + g{0} * g{0} * 0.01",
       "  {2} = {1} - 0.01 * m{0} / (sqrt(u{0}) + 0.001)"},
      {"  {2}, m{0}, u{0} = adam({1}, g{0}, m{0}, u{0}, step=i + 1, lr=0.01)"}};
  return kUpdates;
}

RankStep write_training(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const int64_t rows = draft.axis_size(axis) * draft.draw().between(1, 3);
  const int64_t inner = draft.draw().between(1, 5), outer = draft.draw().between(1, 3);
  const int64_t steps = draft.draw().between(2, 6);
  const Placements cut = with_placement(draft.replicated(), axis, S(0)), whole = draft.replicated();
  const std::string x = draft.add_tensor(Dims{rows, inner}, draft.dtype(), cut);
  const std::string t = draft.add_tensor(Dims{rows, outer}, draft.dtype(), cut);
  const std::string w = draft.add_tensor(Dims{inner, outer}, draft.dtype(), whole);
  const std::string p = draft.fresh(), y = draft.fresh();
  // adam(..) has no gradient.
  const Lines& update = draft.has_gradients()
                            ? updates()[static_cast<size_t>(draft.draw().below(3))]
                            : draft.draw().from(updates());
  const std::string before = fmt::format("w{}_{{i}}", p), after = fmt::format("w{}_{{i + 1}}", p);
  const std::string entered =
      draft.has_gradients() ? fmt::format("enter({}, group={})", before, draft.axis_name(axis))
                            : before;
  const bool checks = draft.draw().chance(0.3);
  const auto body = [&](const std::string& gradient, bool on_ranks) {
    Lines lines = {fmt::format("w{}_0 = {} * 1", p, w),
                   fmt::format("m{} = {} * 0", p, w),
                   fmt::format("u{} = {} * 0", p, w),
                   fmt::format("for i in range({}):", steps),
                   fmt::format("  d{} = {} @ {} - {}", p, x, on_ranks ? entered : before, t),
                   fmt::format("  g{} = {} / {}", p, gradient, rows)};
    for (const std::string& line : update)
      lines.push_back(fmt::format(fmt::runtime(line), p, before, after));
    if (on_ranks && checks) lines.push_back(fmt::format("  check({0}, '{0}', R)", after));
    lines.push_back(fmt::format("{} = w{}_{} * 1", y, p, steps));
    return lines;
  };
  const std::string local = fmt::format("({}.T @ d{})", x, p);
  RankStep step{body(local, false),
                body(fmt::format("all_reduce({}, sum, group={}{})", local, draft.axis_name(axis),
                                 draft.backward("identity")),
                     true),
                {}};
  for (int64_t i = 1; i <= steps; ++i)
    step.results.emplace_back(fmt::format("w{}_{}", p, i), whole);
  step.results.emplace_back(y, whole);
  return step;
}

// Writes a loop over equal layers, each a column-parallel product that is gathered by a sum.
RankStep write_rank_layers(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && v.is_finite &&
           v.placements[static_cast<size_t>(axis)].is_replicate() && draft.is_uncut(v, 1) &&
           draft.is_even(v, 1, axis);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const int64_t width = from.shape[1], each = width / draft.axis_size(axis);
  const std::string w = draft.add_tensor(Dims{width, width}, draft.dtype(),
                                         with_placement(draft.replicated(), axis, S(0)));
  const int64_t layers = draft.draw().between(2, 12);
  const std::string h = draft.fresh(), y = draft.fresh(), group = draft.axis_name(axis);
  const Placements columns_cut = with_placement(from.placements, axis, S(1));
  const std::string entered =
      draft.has_gradients() ? fmt::format("enter({}, group={})", h, group) : h;
  return {{fmt::format("{} = {} * 1", h, from.name), fmt::format("for i in range({}):", layers),
           fmt::format("  {0} = tanh({0} @ {1} * 0.4)", h, w), fmt::format("{} = {} * 1", y, h)},
          {fmt::format("{} = {} * 1", h, from.name), fmt::format("for i in range({}):", layers),
           fmt::format("  p{0} = narrow({4}, 1, index({1}) * {2}, {2}) @ {3}", h, group, each,
                       draft.entered_tensor(w, columns_cut), entered),
           fmt::format("  {0} = tanh(all_reduce(p{0}, sum, group={1}{2}) * 0.4)", h, group,
                       draft.backward("identity")),
           fmt::format("{} = {} * 1", y, h)},
          {{y, from.placements}}};
}

// Writes a mean loss over rows that an axis cuts.
RankStep write_mean_loss(RankDraft& draft) {
  const int axis = draft.draw_axis();
  const RankValue* x = draft.any_of([&](const RankValue& v) {
    return v.dtype == draft.dtype() && v.shape.size() == 2 && v.is_finite &&
           v.placements[static_cast<size_t>(axis)].is_shard(0) && draft.is_even(v, 0, axis) &&
           draft.is_uncut(v, 1);
  });
  if (x == nullptr) return {};
  const RankValue from = *x;
  const std::string t = draft.add_tensor(from.shape, draft.dtype(), from.placements);
  const std::string y = draft.fresh();
  const std::string loss = draft.draw().from({"mse_loss", "l1_loss", "huber_loss"});
  const std::string local = fmt::format("{}({}, {})", loss, from.name, t);
  return {{fmt::format("{} = {}", y, local)},
          {fmt::format("{} = all_reduce({}, avg, group={}{})", y, local, draft.axis_name(axis),
                       draft.backward("identity"))},
          {{y, draft.replicated()}}};
}

}  // namespace

void add_rank_training_forms(std::vector<RankForm>& forms) {
  forms.push_back({"training", false, 0.8, write_training});
  forms.push_back({"layers", false, 0.8, write_rank_layers});
  forms.push_back({"mean_loss", false, 0.8, write_mean_loss});
}

}  // namespace shardproof
