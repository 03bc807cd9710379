// Small changes of the text of rank programs, each the reverse of a common mistake.
//
// | change                                 | example                                      |
// |---|---|
// | a condition that always or never holds | true for rank == 0                           |
// | the pass of a loop                     | x[i] for x[0], h{i} for h0                   |
// | the sum of all passes                  | g + d for d, in "g = d"                      |
// | the part of each rank                  | x[index(dp) * 2:index(dp) * 2 + 2] for x[0:2] |
// | the first index of each rank           | arange(4) + index(dp) * 4 for arange(4)      |
// | another rank, axis or neighbour        | index(tp) for index(dp), prev for next       |
// | enter(..) around a value               | enter(r, group=tp) for r                     |
// | another word or group of a call        | avg for sum, group=[dp, ep] for group=dp     |
// | another comparison, sign or order      | < for <=, + for -, f(a, b) for f(b, a)       |
// | the opposite of a function             | logical_and for logical_or                   |
// | the order of tokens                    | b[argsort(order)] for b[order], x[order] for x |
// | another label that losses ignore       | -100 for -1                                  |
// | a name that no line reads              | z / l for z                                  |
// | a factor that a line like this one has | o * c for o, as "l = l * c + d" has it       |
// | an operand or a function too many      | z for z + b                                  |
// | a function of the truth                | relu(h) for h                                |
// | a number one greater or smaller        | 3 for 2                                      |
// | another name of equal shape            | g1 for g2                                    |
// | two entries of a list in another order | [b, a] for [a, b]                            |
// | a call more or less, or another one    | all_reduce(g, sum, group=dp) for g           |
#pragma once

#include <set>
#include <vector>

#include "shardproof/engine/causes/rank_text.h"
#include "shardproof/engine/explain/line_text.h"
#include "shardproof/engine/judging/rank_case.h"

namespace shardproof {

// Returns the changes of the given lines, at most 64 of a kind, in the order of the table.
// Changes of `suspects` are the first of their kind. `line` is that of the wrong value.
std::vector<TextChange> small_changes(const NumberedText& ranks, const RankCase& about,
                                      const std::set<ListedLine>& lines,
                                      const std::set<ListedLine>& suspects, int line);

// Returns changes of attention and losses (small_changes_losses.cpp).
//
// | change                                 | example                                      |
// |---|---|
// | a mask that no line reads              | softmax(where(ok, s, -inf)) for softmax(s)   |
// | the scale of attention                 | q @ k.T / 4 ** 0.5 for q @ k.T               |
// | a count that no line reads             | sum(l) / n for mean(l) / 2                   |
// | the count of labels                    | sum(cast(t != -100, f32)) for 14             |
// | two functions in the other order       | norm(gelu(x), g) for gelu(norm(x, g))        |
std::vector<TextChange> loss_changes(const NumberedText& ranks, const RankCase& about);

}  // namespace shardproof
