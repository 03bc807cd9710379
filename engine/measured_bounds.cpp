#include "shardproof/engine/measured_bounds.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <limits>

#include "shardproof/localtensor/rng.h"

namespace shardproof {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMovedBits = 45;  // behind the point
constexpr double kHonest = 64;  // movements that two honest runs may lie apart

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? kInfinity : apart;
}

double greatest(const std::vector<double>& still, const std::vector<double>& moved) {
  if (still.size() != moved.size()) return kInfinity;
  double most = 0;
  for (size_t i = 0; i < still.size(); ++i) most = std::max(most, distance(still[i], moved[i]));
  return most;
}

void move(Tensor& data, const Rng& random) {
  if (data.dtype != DType::f64 && data.dtype != DType::c128) return;
  data = contiguous_copy(data);
  const int64_t numbers = data.elements() * (data.dtype == DType::c128 ? 2 : 1);
  auto* values = reinterpret_cast<double*>(data.mutate());
  for (int64_t i = 0; i < numbers; ++i) {
    const double share = random.uniform(static_cast<uint64_t>(i)) - 0.5;
    values[i] += values[i] * std::ldexp(std::copysign(0.5, share) + share, -kMovedBits);
  }
}

}  // namespace

OtherRounding::OtherRounding(int time) : before_(std::fegetround()) {
  constexpr std::array<int, 4> kModes{FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
  std::fesetround(kModes[static_cast<size_t>(time) % kModes.size()]);
}

OtherRounding::~OtherRounding() { std::fesetround(before_); }

Job with_moved_inputs(const Job& job, int time) {
  Job moved = job;
  moved.device = nullptr;  // it rounds as it does
  for (JobInput& input : moved.inputs)
    move(input.data, Rng(static_cast<uint64_t>(time), hash_text(input.name)));
  return moved;
}

void add_movements(const std::map<ValueId, Sides>& still, const std::map<ValueId, Sides>& moved,
                   Movements& movements) {
  for (const auto& [id, sides] : still) {
    const auto found = moved.find(id);
    if (found == moved.end()) continue;
    const double most = std::max(greatest(sides.expected, found->second.expected),
                                 greatest(sides.got, found->second.got));
    if (most > 0) movements[id] = std::max(movements[id], most);
  }
}

std::string words_of_movement(double movement) {
  return fmt::format(
      "its worst case allows that, but inputs moved by 2^-{} of themselves, and other roundings, "
      "move it by {:.2g} at most",
      kMovedBits, movement);
}

Bound measured_bound(const Bound& worst, const Tensor& truth, double movement) {
  const double least = kWideInF64 / 2 * largest_element(truth);
  std::vector<double> errors(static_cast<size_t>(truth.elements()));
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i] =
        std::min(error_of(worst, static_cast<int64_t>(i)), std::max(kHonest * movement, least));
  return bound_from_errors(truth, std::move(errors));
}

}  // namespace shardproof
