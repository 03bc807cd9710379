// Confirmation: tests a suspected cause of a wrong output. It is the cause only if the rank program
// without it is right. The edited program runs on simulated ranks in f64, and in its own dtypes
// (own_dtypes_case.h), and is compared with one device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/search_budget.h"
#include "shardproof/engine/compare/judge.h"
#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/judging/own_dtypes_case.h"
#include "shardproof/engine/judging/rank_case.h"

namespace shardproof {

// Returns an estimate of the cost of a run: the number of elements that it makes on all ranks, and
// of those of the inputs, which are drawn, cut and compared again.
double work_of(const RankCase& about);
inline constexpr double kMostWorkOfRun = 1.5e7;  // of programs for which runs are made
inline constexpr int kMostRuns = 256;            // for one value, before allow_more_runs()

// Returns the program up to the last instruction that writes one of `ends`. Programs of several
// listings are returned whole, because their calls would no longer match.
RankProgram up_to(const RankProgram& ranks, const std::vector<ValueId>& ends);

// The distance of a value on the ranks from one device.
struct Distance {
  double share = 0;     // of the largest element
  double absolute = 0;  // of the element that is farthest
  double sum = 0;       // of all elements
};
using Distances = std::map<std::string, Distance>;  // by key

// The shards of a case with one rank along an axis. They are those of the same tensors, or those of
// the first rank, without the rest of the tensors. Example: x[2 * i:2 * i + 2] in a loop reads all
// of the same shards, and not all of larger ones.
enum class VariedShards : uint8_t { larger, same };

// The same case with an axis of one rank, with its whole numbers in another order, or without
// clips.
struct VariedCase {
  int axis = -1;  // -1: the same mesh
  VariedShards shards = VariedShards::larger;
  Job job;
  std::vector<LocalTensor> inputs;
  RankProgram ranks;
  GlobalProgram truth;
  Distances before;
};

class Confirmation {
 public:
  // Requires that `value` is wrong in the unedited program.
  Confirmation(const RankCase& about, const ComparedValue& value, SharedSearch& shared);

  // True if the edit makes the value and the other results of its op right. It must make no other
  // value wrong, or more wrong than it was. Both must hold with the inputs of the job and with
  // other ones. A value is right if it is 64 times closer to one device than before, and within
  // 2^-32 of its largest element. False if the edited run has an error, or if the value is
  // imprecise in the program's own dtypes. `axes` are those that the edit is about. False, too, if
  // the value is as wrong where one of them has one rank. The same holds if another axis has one
  // rank, and the edit makes the value wrong there or leaves the same error.
  bool confirms(const Edit& edit, const std::vector<int>& axes = {});
  // Tests the same. If it also holds with the same instructions of other listings (same_lines.h),
  // and makes more values right, they are added to the edit.
  bool confirms_in_listings(Edit& edit, const std::vector<int>& axes = {});
  // Tests the same, but lets wrong values become more wrong: gradients that were taken of the
  // unedited line.
  bool confirms_without_gradients(const Edit& edit, const std::vector<int>& axes);
  // Tests the same of a change of the listings. False if the changed job is an error.
  bool confirms_job(const ChangeOfJob& change, const std::vector<int>& axes = {});
  // Tests the same of another declared placement of the value over an axis.
  bool confirms_placement(int axis, const Placement& placement);
  // False if whole numbers replace those of the ranks: they belong to the values of one lowering.
  bool can_change_job() const {
    return about_.integers == nullptr || about_.integers->of_ranks.empty();
  }
  // Tests an edit that follows a `let`, with another number in the job's `let` of this name. The
  // unedited program must be wrong with that number too.
  bool confirms_resized(const std::string& let, int64_t number, const Edit& edit);
  // True if the changed program is right with one rank along each axis in turn, where its shards
  // allow that. False if they do not for one of `axes`.
  bool is_right_on_other_meshes(const ChangeOfJob& change, const std::vector<int>& axes);
  // Returns the keys of the wrong values that the last confirmed change makes right, with all
  // inputs.
  const std::set<std::string>& made_right() const { return made_right_; }
  // True if the unedited value is right with one rank along the axis; nullopt if that is not known.
  std::optional<bool> is_right_without(int axis);
  // True if the value is wrong with other inputs too.
  bool is_varied();
  // Returns the keys of the values that are wrong before any change.
  std::set<std::string> wrong_values() const;
  const NumberedText& text() const { return shared_.text_of(about_.job); }
  // True if no more runs may be made.
  bool is_spent() const { return runs_ >= most_runs_ || shared_.budget.is_spent(); }
  int runs() const { return runs_; }
  // Lets this many more runs be made, if any may be.
  void allow_more_runs(int runs);

 private:
  using Change = std::function<std::optional<RankProgram>(const RankCase&)>;
  Distances distances(const RankCase& about, const RankProgram& ranks);
  RankCase with_moved_inputs() const;
  RankCase case_of(const VariedCase& varied) const;
  std::optional<RankProgram> edited_in(const RankCase& about, const Edit& edit) const;
  bool holds(const Change& change, const std::vector<int>& axes);
  // Returns the keys of the wrong values that the change makes right. Returns nullopt if `value` is
  // not one of them, or if the change makes a right value wrong.
  std::optional<std::set<std::string>> improved(const RankCase& about, const Distances& before,
                                                const Change& change);
  bool refutes(const VariedCase& varied, const Change& change, const std::vector<int>& axes);
  bool holds_in_own_dtypes(const Change& change, std::set<std::string>& made_right);
  void vary();
  bool vary_axis(int axis, VariedShards shards);
  void vary_clip();
  void vary_integers(int order);  // 0: ascending, 1: shuffled
  const RankCase& about_;
  SharedSearch& shared_;
  std::string key_, target_;
  std::set<std::string>
      results_of_same_op_;  // keys of other results of the same op, which must be right too
  Distances before_, before_moved_;
  std::optional<Job> moved_;  // with other inputs
  std::vector<LocalTensor> moved_inputs_;
  bool is_varied_ = false;  // vary() has run
  bool others_may_be_worse_ = false;
  // The placement of the value over an axis, in place of its own.
  std::optional<std::pair<int, Placement>> declared_;
  std::vector<std::unique_ptr<VariedCase>> varied_;
  std::optional<std::unique_ptr<OwnDtypesCase>> own_;  // nullopt until a change needs it
  std::set<std::string> made_right_;
  int runs_ = 0, most_runs_ = 0;
};

}  // namespace shardproof
