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

bool rounds_to_nearest() { return std::fegetround() == FE_TONEAREST; }

namespace {

// Draws the changes of one input in one direction, each as a share of its size: +-1/2 to 1.
class Changes {
 public:
  Changes(int direction, int64_t input)
      : direction_(direction), input_(static_cast<uint64_t>(input)) {}

  double at(size_t element) const {
    const double drawn = share(direction_, element);
    if (direction_ + 1 < kOtherRoundings) return drawn;
    // The last direction has the other sign where all others have the same.
    const bool up = share(0, element) > 0;
    for (int one = 1; one < direction_; ++one)
      if ((share(one, element) > 0) != up) return drawn;
    return std::copysign(drawn, up ? -1.0 : 1.0);
  }

 private:
  double share(int direction, size_t element) const {
    const double drawn = Rng(static_cast<uint64_t>(direction), input_).uniform(element) - 0.5;
    return std::copysign(0.5, drawn) + drawn;
  }
  int direction_;
  uint64_t input_;
};

}  // namespace

Tensor moved(const Tensor& tensor, const std::vector<double>& sizes, int direction, int64_t input) {
  if (tensor.dtype != DType::f64 && tensor.dtype != DType::c128) return tensor;
  Tensor result = contiguous_copy(tensor);
  const size_t parts = tensor.dtype == DType::c128 ? 2 : 1;
  auto* values = reinterpret_cast<double*>(result.mutate());
  const Changes changes(direction, input);
  const double moved_share = std::ldexp(1.0, -kMovedBits);
  for (size_t i = 0; i < sizes.size() * parts; ++i) {
    const double size = sizes[i / parts];
    if (!std::isfinite(values[i]) || !std::isfinite(size)) continue;
    values[i] += size * (changes.at(i) * moved_share);
  }
  return result;
}

Tensor on_grid(const Tensor& tensor, double step, double shift) {
  if (tensor.dtype != DType::f64 && tensor.dtype != DType::c128) return tensor;
  Tensor result = contiguous_copy(tensor);
  const int64_t numbers = tensor.elements() * (tensor.dtype == DType::c128 ? 2 : 1);
  auto* values = reinterpret_cast<double*>(result.mutate());
  for (int64_t i = 0; i < numbers; ++i)
    if (std::isfinite(values[i])) values[i] = (std::floor(values[i] / step - shift) + shift) * step;
  return result;
}

}  // namespace shardproof
