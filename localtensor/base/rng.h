// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). Draw i of a stream is a pure function of (seed, stream, i), so a tensor filled
// by *global element index* has the same values under every sharding, and on one device. Whole
// numbers and uniform ones are constexpr, so that every machine a kernel runs on draws the same.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardproof {

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
  // `stream` tells draws of one seed apart: hash of a tensor's name, number of a dropout call.
  constexpr Rng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  constexpr uint64_t bits(uint64_t index) const {
    const std::array<uint32_t, 4> words = draw(index);
    return joined(words[0], words[1]);
  }
  // [0, 1), 53 bits.
  constexpr double uniform(uint64_t index) const { return unit(bits(index)); }
  double normal(uint64_t index) const;  // Box-Muller from the draw at `index`
  int64_t integer(uint64_t index, int64_t low,
                  int64_t high) const;  // low..high-1, unbiased to 2^-64
  // The same from the bits of a draw; low is below high.
  static constexpr int64_t integer_from(uint64_t bits, int64_t low, int64_t high) {
    // Unsigned, since high - low may be more than an int64 holds.
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + high_product(bits, span));
  }

 private:
  // The four words of a draw. The stream lies in the counter, not in the key, so that streams of
  // one seed can never overlap.
  constexpr std::array<uint32_t, 4> draw(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                       static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                      {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }
  static constexpr uint64_t joined(uint32_t low, uint32_t high) {
    return uint64_t{high} << 32 | low;
  }
  static constexpr double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
  // The high 64 bits of a product of 128.
  static constexpr uint64_t high_product(uint64_t x, uint64_t y) {
    const uint64_t x0 = static_cast<uint32_t>(x), x1 = x >> 32;
    const uint64_t y0 = static_cast<uint32_t>(y), y1 = y >> 32;
    const uint64_t middle = x1 * y0 + (x0 * y0 >> 32);
    return x1 * y1 + (middle >> 32) + ((static_cast<uint32_t>(middle) + x0 * y1) >> 32);
  }
  uint64_t seed_, stream_;
};

// FNV-1a, for streams named by text. Stable across platforms.
uint64_t hash_text(std::string_view text);

}  // namespace shardproof
