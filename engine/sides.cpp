#include "shardproof/engine/sides.h"

#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

constexpr double kRoundings = 8;  // of its own dtype that a value may be off by, whatever it is

double distance(double a, double b) {
  if ((std::isnan(a) && std::isnan(b)) || a == b) return 0;
  return std::fabs(a - b);
}

double distance(const Sides& sides, size_t i) { return distance(sides.got[i], sides.expected[i]); }

// What narrow floats changed, on the side that they changed less.
double changed(const Sides& narrow, const Sides& wide, size_t i) {
  return std::min(distance(narrow.expected[i], wide.expected[i]),
                  distance(narrow.got[i], wide.got[i]));
}

// The least number with all bits of its dtype: below it differences vanish.
double least_normal(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::f8e5m2: return std::ldexp(1, -14);
    case DType::f8e4m3: return std::ldexp(1, -6);
    case DType::bf16:
    case DType::f32: return std::ldexp(1, -126);
    default: return std::ldexp(1, -1022);
  }
}

}  // namespace

Sides sides_of(const Difference& difference, const Tensor& truth) {
  Sides sides;
  sides.dtype = truth.dtype;
  sides.expected = values_of(truth);
  sides.got = difference.got_all;
  return sides;
}

Sides sides_of(const LocalTensor& value, const Spec& spec, const Tensor& truth) {
  const std::optional<Difference> difference =
      compare_value(value, spec, truth, Bound::exact_of(truth));
  if (difference) return sides_of(*difference, truth);
  Sides sides;
  sides.dtype = truth.dtype;
  sides.expected = sides.got = values_of(truth);
  return sides;
}

void keep_farther(Sides& kept, Sides other) {
  if (kept.got.size() != other.got.size()) {
    kept = std::move(other);
    return;
  }
  for (size_t i = 0; i < kept.got.size(); ++i)
    if (!(distance(other, i) <= distance(kept, i))) {
      kept.got[i] = other.got[i];
      kept.expected[i] = other.expected[i];
    }
}

bool denies(const Sides& narrow, const Sides& wide) {
  // Of what is no float, as a label, distances say nothing.
  if (!is_floating(narrow.dtype) || narrow.got.size() != wide.got.size()) return false;
  const double u = kRoundings * unit_roundoff(narrow.dtype);
  const double least = kRoundings * least_normal(narrow.dtype);
  size_t seen = 0, unseen = 0;
  double farthest = 0, seen_farthest = 0;
  bool torn = false, agrees = true;  // no numbers in f64 alone
  for (size_t i = 0; i < wide.got.size(); ++i) {
    if (!std::isfinite(narrow.got[i]) || !std::isfinite(narrow.expected[i])) continue;
    const double apart = distance(wide, i), size = std::fabs(wide.expected[i]);
    if (!std::isfinite(wide.got[i]) && std::isfinite(size)) {
      torn = true;
      agrees = agrees && distance(narrow, i) <= u * std::fabs(narrow.expected[i]);
    }
    if (!(apart > u * size) || apart < least || std::isinf(apart)) continue;
    if (changed(narrow, wide, i) > apart / 2) continue;
    ++(distance(narrow, i) < apart / 2 ? unseen : seen);
    farthest = std::max(farthest, apart);
    seen_farthest = std::max(seen_farthest, distance(narrow, i));
  }
  if (seen + unseen == 0) return torn && agrees;
  return unseen > seen && seen_farthest < farthest / 2;
}

}  // namespace shardproof
