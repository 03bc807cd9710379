// Implements perturbation.h. Signs and sizes of changes come from a counter-based generator, so
// that a run is reproducible in every bit.
#include "shardproof/engine/compare/perturbation.h"

#include <array>
#include <cfenv>
#include <cmath>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {

const char* rounding_text(int direction) {
  constexpr std::array<const char*, kOtherRoundings> kTexts{"up", "down", "toward zero"};
  return kTexts[static_cast<size_t>(direction) % kTexts.size()];
}

ScopedRoundingMode::ScopedRoundingMode(int direction) : before_(std::fegetround()) {
  constexpr std::array<int, kOtherRoundings> kModes{FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  std::fesetround(kModes[static_cast<size_t>(direction) % kModes.size()]);
}

ScopedRoundingMode::~ScopedRoundingMode() { std::fesetround(before_); }

Tensor moved(const Tensor& tensor, const std::vector<double>& sizes, int direction, int64_t input) {
  if (tensor.dtype != DType::f64 && tensor.dtype != DType::c128) return tensor;
  Tensor result = contiguous_copy(tensor);
  const size_t parts = tensor.dtype == DType::c128 ? 2 : 1;
  auto* values = reinterpret_cast<double*>(result.mutate());
  const bool is_opposite = direction == 1;
  const Rng random(is_opposite ? 0 : static_cast<uint64_t>(direction),
                   static_cast<uint64_t>(input));
  for (size_t i = 0; i < sizes.size() * parts; ++i) {
    const double size = sizes[i / parts];
    if (!std::isfinite(values[i]) || !std::isfinite(size)) continue;
    const double share = is_opposite ? 0.5 - random.uniform(i) : random.uniform(i) - 0.5;
    values[i] += size * std::ldexp(std::copysign(0.5, share) + share, -kMovedBits);
  }
  return result;
}

}  // namespace shardproof
