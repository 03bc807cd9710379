// ShardCache: what the placements of one call share, computed once: the slices of specs, the local
// contents of inputs, and the kernels for local shapes. Judging one more placement then copies and
// compiles nothing that another placement has needed.
//
// A cache refers to draws and computations by address; both must outlive it. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "shardproof/engine/check_ops/draws.h"
#include "shardproof/engine/check_ops/slices.h"

namespace shardproof {

// One input of a draw on the ranks.
struct PlacedInput {
  std::vector<Tensor> parts;  // that reduce to the whole; one if the input is not partial
  double largest_part = 0;    // absolute, of floats
};

// The dense local contents of all ranks: rank r has its own from r * stride on.
struct LocalContents {
  PlacedInput placed;
  std::vector<std::byte> bytes;
  int64_t stride = 0;  // bytes of the largest shard
};

class ShardCache {
 public:
  // Returns the slices of a spec. Specs that give every rank the same elements in the same order
  // and reduce them in the same way share one object, for any dtype.
  const Slices& slices(const Spec& spec);
  // Returns the contents of an input of a draw. Requires slices of this cache.
  const LocalContents& contents(const RuleDraw& draw, size_t input, const Slices& slices);
  // Returns the kernels for local inputs. Throws Error as Computation::compile does.
  const LocalProgram& program(const Computation& computation, const std::vector<TensorMeta>& metas);

 private:
  struct Compiled {
    std::vector<TensorMeta> metas;
    LocalProgram program;
    std::string trouble;  // why there is no program
  };

  std::deque<Slices> slices_;
  std::unordered_multimap<uint64_t, std::pair<Spec, const Slices*>> by_spec_;
  std::unordered_multimap<uint64_t, const Slices*> by_elements_;
  std::map<std::tuple<const RuleDraw*, size_t, const Slices*>, LocalContents> contents_;
  std::unordered_map<const Computation*, std::unordered_multimap<uint64_t, Compiled>> programs_;
};

}  // namespace shardproof
