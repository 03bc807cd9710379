// Implements rng.h: the parts that are not constexpr.
#include "shardproof/localtensor/base/rng.h"

#include <cmath>
#include <numbers>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
double Rng::normal(uint64_t index) const {
  const auto words = draw(index);
  // 1 - u is in (0, 1], so that the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(joined(words[0], words[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * unit(joined(words[2], words[3])));
}

int64_t Rng::integer(uint64_t index, int64_t low, int64_t high) const {
  SP_CHECK(low < high, "no integer in {}..{}", low, high);
  return integer_from(bits(index), low, high);
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace shardproof
