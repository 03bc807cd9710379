// Implements plan_matrix.h.
//
// The simpler algorithms change one axis in each step:
//   greedy             the algorithm of PyTorch's DTensor (greedy_plan.h)
//   Dijkstra           the cheapest sequence of such steps, over all orders of cuts
//   gather then slice  gather_then_slice of planner.h
#include "shardproof/cli/commands/plan_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "shardproof/cli/commands/greedy_plan.h"
#include "shardproof/cli/commands/plan_text.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the steps that change one axis: the axis that cuts a dim last leaves it, or an axis that
// is R cuts a dim.
std::vector<PlanStep> changes_of(const Spec& from) {
  std::vector<PlanStep> steps;
  for (int axis = 0; axis < from.mesh().axis_count(); ++axis) {
    const Placement& placement = from.placement(axis);
    if (placement.is_shard()) {
      if (from.axes_of_dim(placement.shard().dim).back() != axis) continue;
      steps.push_back(change_of_axis(from, axis, R()));
    }
    for (int dim = 0; dim < from.shape().size(); ++dim)
      if (!placement.is_shard(dim)) steps.push_back(change_of_axis(from, axis, S(dim)));
  }
  return steps;
}

// The price of a plan without a topology: bytes that a rank sends, and kBytesOfCall for each call.
struct Cost {
  double price = 0;
  int64_t calls = 0;
  auto operator<=>(const Cost&) const = default;
  double bytes() const { return price - static_cast<double>(calls * kBytesOfCall); }
};

Cost operator+(const Cost& cost, const PlanStep& step) {
  return {cost.price + price_without_topology(step).primary,
          cost.calls + (step.kind == StepKind::local ? 0 : 1)};
}

Cost cost_of_plan(const Plan& plan) {
  Cost cost;
  for (const PlanStep& step : plan.steps) cost = cost + step;
  return cost;
}

// Returns the cheapest costs from a spec to all others, by text of placements (Dijkstra's
// algorithm).
std::map<std::string, Cost> cheapest_costs(const Spec& from) {
  std::map<std::string, Cost> settled;
  std::multimap<Cost, Spec> open{{Cost{}, from}};
  while (!open.empty()) {
    const auto [paid, at] = *open.begin();
    open.erase(open.begin());
    if (!settled.emplace(placements_text(at), paid).second) continue;
    for (const PlanStep& step : changes_of(at)) open.emplace(paid + step, step.to);
  }
  return settled;
}

// Returns the specs of R and S placements, cut in mesh order. Throws Error(bad_input) if they have
// more pairs than a table holds.
std::vector<Spec> plain_specs(const Mesh& mesh, const Dims& shape, DType dtype) {
  std::vector<Spec> specs = {Spec::replicated(mesh, shape, dtype)};
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    std::vector<Spec> more;
    for (const Spec& spec : specs) {
      more.push_back(spec);
      for (int dim = 0; dim < shape.size(); ++dim)
        more.push_back(spec.with_placement(axis, S(dim)));
    }
    specs = std::move(more);
    const auto count = static_cast<int64_t>(specs.size());
    if (count * (count - 1) > kMostMatrixPairs)
      throw_bad_input("plan: the mesh {} and {} dims have more than {} pairs of placements",
                      to_string(mesh), shape.size(), kMostMatrixPairs);
  }
  return specs;
}

constexpr std::array<const char*, 4> kWays = {"planner", "greedy", "Dijkstra", "gather then slice"};
using CostsOfWays = std::array<Cost, kWays.size()>;

std::string cost_text(const Cost& cost) {
  return fmt::format("{}, {} call{}", bytes_text(Fraction(std::llround(cost.bytes()))), cost.calls,
                     cost.calls == 1 ? "" : "s");
}

// Returns a line such as "greedy   41 of 72 pairs cost more; 1.32 times the price on average, at
// most 4.00". Pairs whose plan costs nothing have no ratio.
std::string comparison_text(size_t way, const std::vector<CostsOfWays>& table) {
  int64_t dearer = 0, priced = 0;
  double sum = 0, most = 1;
  for (const CostsOfWays& costs : table) {
    const double price = costs[way].price, best = costs[0].price;
    dearer += price > best ? 1 : 0;
    if (best == 0) continue;
    ++priced;
    sum += price / best;
    most = std::max(most, price / best);
  }
  return fmt::format(
      "  {:<17}  {} of {} pairs cost more; {:.2f} times the price on average, at most {:.2f}\n",
      kWays[way], dearer, table.size(), priced == 0 ? 1 : sum / static_cast<double>(priced), most);
}

}  // namespace

std::string plan_matrix(const Mesh& mesh, const Dims& shape, DType dtype,
                        const PlannerOptions& options) {
  const std::vector<Spec> specs = plain_specs(mesh, shape, dtype);
  size_t width = 4;
  for (const Spec& spec : specs) width = std::max(width, placements_text(spec).size());
  std::string out = fmt::format("{}{} on {}: bytes that a rank sends, and calls\n\n", name(dtype),
                                to_string(shape), to_string(mesh));
  const auto line = [&](const std::string& from, const std::string& to, const auto& cells) {
    out += fmt::format("  {:<{}}  {:<{}}", from, width, to, width);
    for (const std::string& cell : cells) out += fmt::format("  {:<20}", cell);
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  };
  line("from", "to", std::vector<std::string>(kWays.begin(), kWays.end()));
  std::vector<CostsOfWays> table;
  for (const Spec& from : specs) {
    const std::map<std::string, Cost> cheapest = cheapest_costs(from);
    for (const Spec& to : specs) {
      if (from == to) continue;
      table.push_back({cost_of_plan(plan_redistribution(from, to, options).plan),
                       cost_of_plan(*greedy_plan(from, to)), cheapest.at(placements_text(to)),
                       cost_of_plan(gather_then_slice(from, to))});
      std::vector<std::string> cells;
      for (const Cost& cost : table.back()) cells.push_back(cost_text(cost));
      line(placements_text(from), placements_text(to), cells);
    }
  }
  out += fmt::format("\n{} pairs; a call costs as much as 64 KiB\n", table.size());
  for (size_t way = 1; way < kWays.size(); ++way) out += comparison_text(way, table);
  return out;
}

}  // namespace shardproof
