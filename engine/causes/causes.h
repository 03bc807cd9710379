// Finds causes of wrong outputs of rank programs. Candidates follow from provenance (provenance.h),
// from the calls and numbers on the way to the output, and from its declared placements. An edit of
// the program tries each candidate (confirm_cause.h), in one listing and in all that have the same
// line (same_lines.h).
//
// | candidate                         | edit                                   |
// |---|---|
// | the word of backward=             | another word (source_changes.h)        |
// | a count that the truth lacks      | the count of a mean of the truth       |
// | two receives in the wrong order   | the other order                        |
// | a ring over another axis          | the group of both calls                |
// | a line almost equal to the truth  | the text of the truth                  |
// | never reduced over an axis        | an all_reduce after a value            |
// | a call over the wrong group       | the group of the call                  |
// | copies are added up               | the axes of the copies leave the group |
// | another reduction                 | the reduction of the call              |
// | a part declared as another one    | the declared placement                 |
// | each stage's own value            | an all_reduce in all listings          |
// | a number for the size of an axis  | size(axis) in the text                 |
// | the input of a call is read       | its result in the text                 |
// | statistics of each shard          | an all_reduce after each               |
// | enter(..) is missing              | enter(x) in the text                   |
// | a factor too many                 | the factor becomes 1                   |
// | a term that each rank adds        | the term is divided by the ranks       |
// | a factor is missing               | a value is divided by it               |
// | a sum or extremum of each shard   | an all_reduce after it                 |
// | an average over uneven shards     | each rank's part by the share it has   |
// | indices from 0 on each rank       | plus the first index of the rank       |
// | an op along a dim that is cut     | the op on the gathered input           |
// | sums of each rank, then averages  | reduced sums, then sums                |
// | two lines in the wrong order      | the other order                        |
// | a line of the truth is missing    | that line                              |
// | a name is not bound a second time | the line of the truth that does it     |
// | a line of one name is missing     | that of another name: g = c * g        |
// | losses of passes are not divided  | the loss divided by the passes         |
// | a sum of losses without its count | the loss divided by the count          |
// | a small mistake of the text       | the text (small_changes.h)             |
//
// A sum over the passes of a loop that is as many times too large is a hint alone
// (local_for_whole.h).
//
// A candidate is the cause only if its edit, and no other, makes the program right. If several
// edits do, or the edit fits only the size of a number, it is a hint.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "shardproof/engine/causes/search_budget.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/judging/rank_case.h"
#include "shardproof/localtensor/report/finding.h"

namespace shardproof {

// Keys of wrong values: those that the confirmed cause, or each change of the hint, makes right,
// and the others. Both are empty if no run has confirmed one.
struct ExplainedKeys {
  std::set<std::string> made_right, left_wrong;
};

// The search for the causes of all wrong values of one case. They share one budget
// (search_budget.h), and what follows from the text alone.
class CauseSearch {
 public:
  // All that the case refers to must outlive the search.
  explicit CauseSearch(const RankCase& about) : about_(about) {}
  // Replaces the causes of a finding about `value` by confirmed ones: "cause   ..." and a fix, or
  // "hint    ...". A cause that no run confirms becomes a hint without a fix. `is_long`: a change
  // of the text is searched for, if no other cause is found.
  ExplainedKeys explain(const ComparedValue& value, Finding& finding, bool is_long);

 private:
  void prepare();
  // Returns nullopt if no lines were added to the finding.
  std::optional<ExplainedKeys> search(const ComparedValue& value, Finding& finding, bool is_long);
  const RankCase about_;
  bool is_prepared_ = false;
  // The case with merged listings, or with separate calls. None if it cannot be lowered again.
  std::optional<Job> merged_;
  std::optional<RankProgram> ranks_;
  SharedSearch shared_;
};

}  // namespace shardproof
