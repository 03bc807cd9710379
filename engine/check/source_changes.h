// Finds changes of the program text that make a gradient right. The listings are changed and
// lowered again, because an edit of a lowered line does not change the gradient that `grad` has
// taken of it.
//
// | change                  | example                                                         |
// |---|---|
// | the word of `backward=` | `s = all_reduce(p, sum, group=tp, backward=identity)`, and each  |
// |                         | rank uses s for its own shard: all_reduce is right               |
// | sum for avg, avg for sum | in a call with `backward=`                                      |
// | a factor less           | `loss = size(cp) * mean(..)`                                     |
// | a term of each rank     | `y = reduce_scatter(h @ w + b, sum, ..)`                         |
#pragma once

#include <string>
#include <vector>

#include "shardproof/engine/check/confirm_cause.h"
#include "shardproof/engine/explain/provenance.h"

namespace shardproof {

struct SourceCause {
  std::string text, fix;
  int line = 0;
  int made_right = 1;  // wrong values that the change makes right
};

// Returns the words that make the value right, one call at a time; else the same for all calls of
// one verb and word at once. Empty if the program takes no gradient.
std::vector<SourceCause> right_backward_words(const RankCase& about, const std::string& target,
                                              Confirmation& confirmation);
// Returns the other changes that make the value right, each alone.
std::vector<SourceCause> right_forward_changes(const RankCase& about, const std::string& target,
                                               const Provenance& provenance,
                                               Confirmation& confirmation);

}  // namespace shardproof
