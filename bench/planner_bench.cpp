// Times redistribution plans: a library call for each of some drawn pairs of specs of a 4-D tensor,
// without and with the exchange. One row repeats a pair that was planned before. The worst pair of
// each row is printed next to the median. The baseline is gather then slice, which needs no search.
#include <random>

#include "shardproof/bench/measure.h"
#include "shardproof/localtensor/plan/known_plans.h"
#include "shardproof/localtensor/plan/planner.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

struct Pair {
  Spec from, to;
};

// Draws a plain spec: each axis is R or cuts one of the dims.
Spec draw_spec(std::mt19937& bits, const Mesh& mesh, const Dims& shape) {
  std::vector<Placement> placements;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    const int choice = static_cast<int>(bits() % static_cast<uint32_t>(shape.size() + 1));
    placements.push_back(choice == shape.size() ? R() : S(choice));
  }
  return Spec(mesh, placements, shape, DType::f32);
}

std::vector<Pair> draw_pairs(const Mesh& mesh, const Dims& shape, int count) {
  std::mt19937 bits(20);
  std::vector<Pair> pairs;
  while (static_cast<int>(pairs.size()) < count) {
    const Spec from = draw_spec(bits, mesh, shape), to = draw_spec(bits, mesh, shape);
    if (from != to) pairs.push_back({from, to});
  }
  return pairs;
}

std::string microseconds(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }

// Returns the seconds of one call for each pair. Times `times` calls at once, three times, and uses
// the least: so a row's worst pair shows the planner's work, not another process's.
std::vector<double> seconds_of_pairs(const std::vector<Pair>& pairs, int times,
                                     const std::function<void(const Pair&)>& work) {
  std::vector<double> seconds;
  for (const Pair& pair : pairs) {
    const auto all = [&] {
      for (int i = 0; i < times; ++i) work(pair);
    };
    double least = seconds_of(all);
    for (int i = 0; i < 2; ++i) least = std::min(least, seconds_of(all));
    seconds.push_back(least / times);
  }
  return seconds;
}

void print_mesh(const std::string& text, const Dims& shape, double target, int count = 1000) {
  const std::vector<Pair> pairs = draw_pairs(Mesh::parse(text), shape, count);
  const double naive = median(
      seconds_of_pairs(pairs, 20, [](const Pair& pair) { gather_then_slice(pair.from, pair.to); }));
  const auto row = [&](const std::string& what, int times,
                       const std::function<void(const Pair&)>& work, double most) {
    const std::vector<double> seconds = seconds_of_pairs(pairs, times, work);
    const double worst = *std::max_element(seconds.begin(), seconds.end());
    print({fmt::format("{} of {}, {}, {} drawn pairs", to_string(shape), text, what, count),
           fmt::format("{}, worst {}", microseconds(median(seconds)), microseconds(worst)),
           fmt::format("gather then slice: {}", microseconds(naive)),
           fmt::format("{:.1f}", median(seconds) / naive), "worst " + microseconds(most)});
  };
  for (const PlanMoves moves : {PlanMoves::all, PlanMoves::collectives}) {
    PlannerOptions options;
    options.moves = moves;
    row(
        fmt::format("moves {}", name(moves)), 1,
        [&](const Pair& pair) { plan_redistribution(pair.from, pair.to, options); }, target);
  }
  for (const Pair& pair : pairs) known_plan(pair.from, pair.to);
  row(
      "planned before", 100, [](const Pair& pair) { known_plan(pair.from, pair.to); }, 1e-6);
}

}  // namespace

int main() {
  print_head();
  print_mesh("a=2, b=2, c=2", Dims{64, 64, 64, 64}, 0.2e-3);
  print_mesh("a=2, b=2, c=2, d=2", Dims{64, 64, 64, 64}, 1e-3);
  print_mesh("a=2, b=2, c=2, d=2, e=2", Dims{64, 64, 64, 64}, 10e-3);
  print_mesh("a=2, b=3, c=4", Dims{61, 64, 50, 64}, 1e-3);
  print_mesh("a=2, b=3, c=4, d=2", Dims{61, 64, 50, 64}, 5e-3);
  print_mesh("a=2, b=3, c=2, d=2, e=2", Dims{61, 64, 50, 64}, 50e-3, 200);
}
