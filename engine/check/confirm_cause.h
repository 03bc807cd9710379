// Confirmation: a suspected cause of a wrong output is one only if the rank program with that cause
// removed is right. The edited program runs on simulated ranks in f64 beside one device.
#pragma once

#include "shardproof/engine/check/judged_program.h"
#include "shardproof/engine/explain/edit_ranks.h"

namespace shardproof {

// What a rank program is lowered to; all references outlive what uses them.
struct RankCase {
  const Job& job;  // with all floats lifted
  const std::vector<LocalTensor>& inputs;
  const RankProgram& ranks;
  const GlobalProgram& truth;
  const Registries& registries;
};

// The elements that a run makes, on all ranks, as far as they tell what it costs.
double work_of(const RankProgram& ranks);
inline constexpr double kMostWork = 6e7;  // of all runs for one finding
inline constexpr int kMostRuns = 96;

// The program up to the last instruction that writes one of `ends`. Only of a program whose ranks
// all run one listing: of others the calls would no longer match.
RankProgram up_to(const RankProgram& ranks, const std::vector<ValueId>& ends);

class Confirmation {
 public:
  // `value` is wrong in the case as it is.
  Confirmation(const RankCase& about, const ComparedValue& value);

  // True if the edit makes the value right and no other value wrong, with the inputs of the job and
  // with other ones. "Right" means: 64 times closer to one device than before, and within 2^-20 of
  // the value's largest element. Errors of the edited run mean no. Counts as one or two runs.
  bool confirms(const Edit& edit);
  // The same where the job's `let` of this name is another number, for an edit that goes with it.
  // The unedited program has to be wrong then too.
  bool confirms_resized(const std::string& let, int64_t number, const Edit& edit);
  // Runs are made until this many.
  bool is_spent() const { return runs_ >= most_runs_; }
  int runs() const { return runs_; }

 private:
  // By key: how far the ranks are from one device, as a share of the largest element.
  std::map<std::string, double> distances(const RankCase& about, const RankProgram& ranks);
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
