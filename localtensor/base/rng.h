// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). Draw i of a stream is a pure function of (seed, stream, i). A tensor filled by
// *global element index* therefore has the same values under every sharding and on one device.
// Integer and uniform draws are constexpr, so that host and device code draw the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardproof {

// Returns the four words of one Philox4x32-10 draw.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

class Rng {
 public:
  // `stream` separates the draws of one seed: the hash of a tensor's name, the number of a dropout.
  constexpr Rng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  // Returns 64 random bits.
  constexpr uint64_t bits(uint64_t index) const {
    const std::array<uint32_t, 4> words = draw(index);
    return joined(words[0], words[1]);
  }
  // Returns a uniform number in [0, 1), a multiple of 2^-53.
  constexpr double uniform(uint64_t index) const { return unit(bits(index)); }
  // Returns a standard normal number (Box-Muller). Not constexpr: it depends on the math library.
  double normal(uint64_t index) const;
  // Returns an integer in [low, high); its bias is at most 2^-64. Requires low < high.
  int64_t integer(uint64_t index, int64_t low, int64_t high) const;
  // Returns integer(...) from the bits of a draw (Lemire's multiplication, without rejection).
  static constexpr int64_t integer_from(uint64_t bits, int64_t low, int64_t high) {
    // Unsigned, because high - low may be more than an int64 holds.
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + high_product(bits, span));
  }

 private:
  // Returns the four words of a draw. The stream is part of the counter, not of the key, so that
  // streams of one seed can never overlap.
  constexpr std::array<uint32_t, 4> draw(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                       static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }
  static constexpr uint64_t joined(uint32_t low, uint32_t high) {
    return uint64_t{high} << 32 | low;
  }
  static constexpr double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
  // Returns the high 64 bits of the 128-bit product; device code has no 128-bit integers.
  static constexpr uint64_t high_product(uint64_t x, uint64_t y) {
    const uint64_t x0 = static_cast<uint32_t>(x), x1 = x >> 32;
    const uint64_t y0 = static_cast<uint32_t>(y), y1 = y >> 32;
    const uint64_t middle = x1 * y0 + (x0 * y0 >> 32);
    return x1 * y1 + (middle >> 32) + ((static_cast<uint32_t>(middle) + x0 * y1) >> 32);
  }
  uint64_t seed_, stream_;
};

// Returns the FNV-1a hash, for streams named by text. Stable across platforms.
uint64_t hash_text(std::string_view text);

}  // namespace shardproof
