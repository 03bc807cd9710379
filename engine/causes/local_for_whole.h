// Suspicions about a rank program that uses the result of a rank in place of the whole result.
// Examples: the maximum of a shard, an average of means over uneven shards, an op along a dim that
// is cut. Also a sum over the passes of a loop that is not divided by their number,
// and lines and calls in the wrong order.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "shardproof/engine/causes/confirm_cause.h"
#include "shardproof/engine/explain/way_to_value.h"

namespace shardproof {

// A wrong value and what is known about the way to it; all references must outlive the call.
struct SuspectedWay {
  const RankCase& about;
  const ComparedValue& value;
  const Provenance& provenance;
  const WayToValue& way;
  Confirmation& confirmation;
};

struct Suspicion {
  bool is_cause = false;                  // a second run has confirmed it; false: a hint
  std::string text, fix;                  // a hint has no fix
  std::set<std::string> made_right = {};  // as Explaining::made_right
};

// A maximum or minimum of each shard that is used without a reduction: a cause.
std::optional<Suspicion> find_local_extremum(const SuspectedWay& suspected);
// A sum of each shard of which an op needs the whole, as in a division by a count: a cause.
std::optional<Suspicion> find_local_sum(const SuspectedWay& suspected);
// Means or sums of each shard, such as mean and variance of a batch: a cause. The value is right
// only if all of them are reduced over ranks.
std::optional<Suspicion> find_local_statistics(const SuspectedWay& suspected);
// An average over ranks whose shards have different sizes: a cause.
std::optional<Suspicion> find_uneven_average(const SuspectedWay& suspected);
// A value to which each pass of a loop adds, and that is too large by the number of passes: a hint.
// Returns nullopt if the factor follows a `let`, which is a cause of its own.
std::optional<Suspicion> find_loop_sum(const SuspectedWay& suspected);
// An op whose input is cut, and which gives another result on the whole: a cause.
std::optional<Suspicion> find_op_on_shards(const SuspectedWay& suspected);

// --- the order of lines (local_for_whole_order.cpp)
//
// | order                             | example                                          |
// |---|---|
// | two receives or two sends         | `b = recv(..)` before `a = recv(..)`             |
// | a line before the one it needs    | `f = all_gather(w, ..)` before `w = w - 0.1 * g` |
// | reductions after the first reader | `n = sum(g * g)` before `g = all_reduce(g, ..)`  |
// | a change after the first reader   | `m = m + g` before `g = c * g`                   |
// | a line before a loop              | `v = w` once, before passes that change v        |
// | a call after an op                | `h = relu(p)`, then `s = all_reduce(h, ..)`      |
// | a call before an op               | `s = all_reduce(p, ..)`, then `h = square(s)`    |

// Two receives of a listing, or two sends, are right in the other order: a cause. Messages of one
// sender arrive in the order in which it sends them. So is a send with its
// receive that is right over another axis, and a received value that no line reads.
std::optional<Suspicion> find_swapped_messages(const SuspectedWay& on);
// A send and its receive are right in the other direction of a ring: a cause. Indices that count
// the other way are as right, so it is tried last.
std::optional<Suspicion> find_reversed_ring(const SuspectedWay& on);
// Two lines, one after the other, are right in the other order: a cause.
std::optional<Suspicion> find_swapped_lines(const SuspectedWay& on);
// A line is right after a later one that binds a name which it reads. Or lines that reduce or
// change a name are right before the first line that reads it, or a line in the loop after it. Each
// is a cause.
std::optional<Suspicion> find_moved_lines(const SuspectedWay& on);
// An output that no line of the ranks binds is right with the line of the truth that binds it: a
// cause.
std::optional<Suspicion> find_line_of_truth(const SuspectedWay& on);
// A value is right with a line of the truth that binds a name again: a cause. Example:
// "v = v / sum(v)" after "v, i = topk(p, 2)".
std::optional<Suspicion> find_second_binding(const SuspectedWay& on);
// A call is right on the other side of an op, which another line computes: a cause.
std::optional<Suspicion> find_call_on_other_side(const SuspectedWay& on);

}  // namespace shardproof
