// Which places of an order every honest computation fills alike, and which hang on rounding.
#pragma once

#include <optional>
#include <vector>

namespace shardproof {

// A number and how far from it real arithmetic may have it (ops/bound.h): 0 where it is exact.
struct Uncertain {
  double value = 0;
  double error = 0;

  // Where another honest computation may have it. Of a number that is not finite and not exact,
  // nothing is known.
  double low() const;
  double high() const;
};

// How far up some numbers may reach.
struct Reached {
  std::optional<double> exact, moved;

  void take(const Uncertain& x);
  // Whether x lies above them in every honest run. Exact ones are left to their own order.
  bool stays_under(const Uncertain& x) const;
};

// Of numbers in rising order, those that stand at their place in every honest run: no other comes
// as near as both may move. Exact equals have places of their own.
std::vector<bool> sure_places(const std::vector<Uncertain>& rising);

}  // namespace shardproof
