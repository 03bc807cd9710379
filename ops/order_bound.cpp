#include "shardproof/ops/order_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<bool> clear_of_those_before(const std::vector<Uncertain>& rising) {
  std::vector<bool> clear;
  Reached before;
  for (const Uncertain& x : rising) {
    clear.push_back(before.stays_under(x));
    before.take(x);
  }
  return clear;
}

}  // namespace

double Uncertain::low() const {
  if (error == 0) return value;
  return std::isfinite(value) && std::isfinite(error) ? value - 2 * error : -kInfinity;
}

double Uncertain::high() const {
  if (error == 0) return value;
  return std::isfinite(value) && std::isfinite(error) ? value + 2 * error : kInfinity;
}

void Reached::take(const Uncertain& x) {
  std::optional<double>& end = x.error == 0 ? exact : moved;
  end = std::max(end.value_or(-kInfinity), x.high());
}

bool Reached::stays_under(const Uncertain& x) const {
  const bool clear = !moved || x.low() > *moved;
  return clear && (x.error == 0 || !exact || x.low() > *exact);
}

std::vector<bool> sure_places(const std::vector<Uncertain>& rising) {
  std::vector<bool> sure = clear_of_those_before(rising);
  std::vector<Uncertain> mirrored;
  for (auto x = rising.rbegin(); x != rising.rend(); ++x) mirrored.push_back({-x->value, x->error});
  const std::vector<bool> above = clear_of_those_before(mirrored);
  for (size_t i = 0; i < sure.size(); ++i) sure[i] = sure[i] && above[sure.size() - 1 - i];
  return sure;
}

}  // namespace shardproof
