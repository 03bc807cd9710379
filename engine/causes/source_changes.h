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
// | the group of a call     | `xe = enter(x, group=dp)`, whose backward must sum over tp       |
// | enter(..) of a name     | `h = relu(a @ w1)`, w1 cut over tp and a the same on its ranks    |
// | the result of a call    | `v = h * h` after `g = all_reduce(h, sum, group=dp)`             |
// | a size for a number     | `g / 2` where dp has 4 ranks                                    |
// | a factor of the loss    | `loss = mean(..)` of each rank's rows, whose gradients add up    |
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/causes/confirm_cause.h"
#include "shardproof/engine/explain/line_text.h"
#include "shardproof/engine/explain/way_to_value.h"

namespace shardproof {

struct SourceCause {
  std::string text, fix;  // without a fix it is a hint
  std::set<ListedLine> lines;
  std::set<std::string> made_right = {};  // keys of the wrong values that the change makes right
};

// Returns the words of backward= that make the value right if one call gets them. If there is none,
// returns those that do so if all calls of one verb and word get them. Empty if the program takes
// no gradient.
std::vector<SourceCause> right_backward_words(const RankCase& about, const std::string& target,
                                              Confirmation& confirmation);
// Returns the other changes that make the value right, each alone.
std::vector<SourceCause> right_forward_changes(const RankCase& about, const std::string& target,
                                               const Provenance& provenance,
                                               Confirmation& confirmation);

// True if the value is right without a factor that the line writes, its gradients taken again.
// nullopt if the line writes no factor, or no gradient is taken.
std::optional<bool> is_right_without_factor(const RankCase& about, const ListedLine& line,
                                            const Provenance& provenance,
                                            Confirmation& confirmation);

// Returns the call whose backward is right over `axes` in place of `wrong`, or all calls over
// `wrong` that have a backward. nullopt if there is none.
std::optional<SourceCause> right_backward_group(const RankCase& about, const Group& wrong,
                                                const std::vector<int>& axes,
                                                Confirmation& confirmation);
// Returns a factor of the text that should be the size of an axis or a `let`. Example: the number 2
// where dp has 4 ranks. It is right with one rank along that axis, too. `ratio`: that of the value
// to what it should be, if it is one number.
std::optional<SourceCause> right_size_for_number(const RankCase& about, const std::string& target,
                                                 std::optional<double> ratio,
                                                 Confirmation& confirmation);

// Returns the number by which a loss must be divided or multiplied, before or inside grad(..). It
// is the size of an axis, or of all axes over which the loss is a mean of each rank's own part. A
// ratio of the value to what it should be is tried too.
std::optional<SourceCause> right_loss_scale(const RankCase& about, const Provenance& provenance,
                                            std::optional<double> ratio,
                                            Confirmation& confirmation);

// Returns a line that should read the result of a call where it reads the input: "h" after "g =
// all_reduce(h, ..)".
std::optional<SourceCause> right_result_of_call(const RankCase& about, const std::string& target,
                                                Confirmation& confirmation);

// The names whose gradient a missing enter(..) would add up: tensors of the file, or values that
// lines compute.
enum class EnteredNames : uint8_t { inputs, computed };
// Returns the name that needs an enter(..) where a line reads it; nullopt if none makes the value
// right. Also nullopt if the text has no enter(..) and no call with backward=, because the author
// then reduces gradients after grad.
std::optional<SourceCause> right_enter(const RankCase& about, const Provenance& provenance,
                                       EnteredNames which, Confirmation& confirmation);

// Returns an all_reduce of the only call grad(..) of a line; nullopt if it does not make the value
// right.
std::optional<SourceCause> right_reduction_of_grad(const RankCase& about, const ListedLine& line,
                                                   ReduceOp op, const std::string& group,
                                                   Confirmation& confirmation);

// Returns the text of the expression that an instruction of an op computes, such as "sum(s * s)".
// Returns "" if the line has more or fewer instructions than expressions with this op.
std::string expression_of(const RankCase& about, const Site& site, const std::string& op);
// Returns the text of a value that a step makes without a name, such as "sum(s * s)"; "" if it has
// a name or the text is not known.
std::string expression_at(const RankCase& about, const Step& step, size_t slot);
// A reduction of a value that a step makes.
struct AddedReduction {
  const RankCase& about;
  const Step& step;
  size_t slot;
  ReduceOp op;
  std::string group;            // the text of group=
  std::vector<Site> also = {};  // the same in other listings
};
struct ReductionFix {
  std::string text;
  std::set<std::string> made_right = {};  // keys of the wrong values; empty if not tested
};
// Returns "add all_reduce(g, sum, group=dp) after line 3". For a value without a name:
// "all_reduce(sum(s * s), sum, group=dp) in place of sum(s * s) on line 5". In a program that takes
// gradients, the call gets the word of backward= with which most of the wrong values are right. If
// grad refuses that call, returns a reduction of the wrong value `target`, or a word of backward=,
// that makes it right.
ReductionFix reduction_fix(const AddedReduction& added, const ValueLabel& target,
                           Confirmation& confirmation);
// Returns the axes as an argument group= has them: "tp", "[dp, cp]".
std::string group_argument(const Mesh& mesh, const std::vector<int>& axes);

}  // namespace shardproof
