// OwnDtypesCase: the rank program of a case in its own dtypes. In f64 no cast rounds and no float
// overflows, so there an edit may make a value right that stays wrong in the program.
//
// Example: the ranks compute `lo = cast(x, bf16)`, where `lo = cast(x - hi, bf16)` is right. In f64
// `hi` alone is x, so `y = hi` in place of `y = hi + lo` is right there. In bf16 it loses half of
// the bits. Likewise exp(100) is a number in f64, and not in f32.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/judging/rank_case.h"

namespace shardproof {

class OwnDtypesCase {
 public:
  // Returns null if all floats are f64, where the run in f64 decides, or if the program has no such
  // form. `lifted` must outlive the result.
  static std::unique_ptr<OwnDtypesCase> make(const RankCase& lifted);
  OwnDtypesCase(const OwnDtypesCase&) = delete;
  OwnDtypesCase& operator=(const OwnDtypesCase&) = delete;

  RankCase about() const;
  // Returns the keys of the values that are imprecise on the ranks (docs/judging.md, question 2) in
  // an edited program of about(). Omits those after an overflow of one device, and `wrong` values,
  // because to measure these takes many runs of their lines. nullopt if a rank does not reach its
  // end.
  std::optional<std::set<std::string>> imprecise_with(const RankProgram& ranks,
                                                      const std::set<std::string>& wrong) const;

 private:
  explicit OwnDtypesCase(const RankCase& lifted) : lifted_(lifted) {}
  const RankCase& lifted_;
  Job job_;
  std::vector<LocalTensor> inputs_;
  RankProgram ranks_;
  GlobalProgram truth_;
};

}  // namespace shardproof
