// Confirmation: tests a suspected cause of a wrong output. It is the cause only if the rank program
// without it is right. The edited program runs on simulated ranks in f64 beside one device.
#pragma once

#include "shardproof/engine/check/judged_program.h"
#include "shardproof/engine/explain/edit_ranks.h"

namespace shardproof {

// A lowered rank program with its truth; all references must outlive it.
struct RankCase {
  const Job& job;  // with all floats lifted
  const std::vector<LocalTensor>& inputs;
  const RankProgram& ranks;
  const GlobalProgram& truth;
  const Registries& registries;
  // Whole numbers that replace those of ranks and truth, as in the run that found the value wrong.
  const RecordedIntegers* integers = nullptr;
};

// Returns the number of elements that a run makes on all ranks, as an estimate of its cost.
double work_of(const RankProgram& ranks);
inline constexpr double kMostWork = 6e7;  // of all runs for one finding
inline constexpr int kMostRuns = 96;

// Returns the program up to the last instruction that writes one of `ends`. Programs of several
// listings are returned whole, because their calls would no longer match.
RankProgram up_to(const RankProgram& ranks, const std::vector<ValueId>& ends);

class Confirmation {
 public:
  // Requires that `value` is wrong in the unedited program.
  Confirmation(const RankCase& about, const ComparedValue& value);

  // True if the edit makes the value right and no other value wrong, with the inputs of the job and
  // with other ones. A value is right if it is 64 times closer to one device than before, and
  // within 2^-20 of its largest element. False if the edited run has an error. Counts as one or two
  // runs.
  bool confirms(const Edit& edit);
  // Tests an edit that follows a `let`, with another number in the job's `let` of this name. The
  // unedited program must be wrong with that number too.
  bool confirms_resized(const std::string& let, int64_t number, const Edit& edit);
  // True if no more runs may be made.
  bool is_spent() const { return runs_ >= most_runs_; }
  int runs() const { return runs_; }

 private:
  // Returns by key the distance of the ranks from one device, as a share of the largest element.
  std::map<std::string, double> distances(const RankCase& about, const RankProgram& ranks);
  RankCase with_moved_inputs() const;
  bool improves(const RankCase& about, const std::map<std::string, double>& before,
                const Edit& edit);
  const RankCase& about_;
  std::string key_, target_;
  std::map<std::string, double> before_, before_moved_;
  std::optional<Job> moved_;  // with other inputs
  std::vector<LocalTensor> moved_inputs_;
  int runs_ = 0, most_runs_ = 0;
};

}  // namespace shardproof
