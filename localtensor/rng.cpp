#include "shardproof/localtensor/rng.h"

#include <cmath>
#include <numbers>

#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

__extension__ typedef unsigned __int128 Wide;

uint32_t high_of(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint32_t low_of(uint64_t x) { return static_cast<uint32_t>(x); }

// The four words of draw `index`. The stream lies in the counter, not in the key, so that streams
// of one seed can never overlap.
std::array<uint32_t, 4> draw(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox4x32({low_of(index), high_of(index), low_of(stream), high_of(stream)},
                    {low_of(seed), high_of(seed)});
}

uint64_t joined(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high_of(product1) ^ counter[1] ^ key[0], low_of(product1),
               high_of(product0) ^ counter[3] ^ key[1], low_of(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t Rng::bits(uint64_t index) const {
  const auto words = draw(seed_, stream_, index);
  return joined(words[0], words[1]);
}

double Rng::uniform(uint64_t index) const { return unit(bits(index)); }

double Rng::normal(uint64_t index) const {
  const auto words = draw(seed_, stream_, index);
  // 1 - u is in (0, 1]: the logarithm of 0 is never taken.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(joined(words[0], words[1]))));
  return radius * std::cos(2.0 * std::numbers::pi * unit(joined(words[2], words[3])));
}

int64_t Rng::integer(uint64_t index, int64_t low, int64_t high) const {
  SP_CHECK(low < high, "no integer in {}..{}", low, high);
  // Unsigned, since high - low may be more than an int64 holds.
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t offset = static_cast<uint64_t>(Wide{bits(index)} * span >> 64);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace shardproof
