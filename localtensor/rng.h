// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). Draw i of a stream is a pure function of (seed, stream, i), so a tensor filled
// by *global element index* has the same values under every sharding, and on one device.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardproof {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class Rng {
 public:
  // `stream` tells draws of one seed apart: hash of a tensor's name, number of a dropout call.
  Rng(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  uint64_t bits(uint64_t index) const;
  double uniform(uint64_t index) const;  // [0, 1), 53 bits
  double normal(uint64_t index) const;   // Box-Muller from the draw at `index`
  int64_t integer(uint64_t index, int64_t low,
                  int64_t high) const;  // low..high-1, unbiased to 2^-64

 private:
  uint64_t seed_, stream_;
};

// FNV-1a, for streams named by text. Stable across platforms.
uint64_t hash_text(std::string_view text);

}  // namespace shardproof
