// Edits of a lowered rank program: small changes that make it right if a suspected cause is the
// cause. They are applied to every pass of a loop through a line.
#pragma once

#include "shardproof/engine/lower/rank_lowering.h"

namespace shardproof {

// An instruction of the program text: in a listing, the instruction number `ordinal` of a line.
struct Site {
  size_t listing = 0;
  int line = 0, ordinal = 0;
  bool operator==(const Site&) const = default;
};
// Returns the site of each instruction of a listing.
std::vector<Site> sites_of(const SpmdProgram& program, size_t listing);

// Splits the calls of `group:` blocks: the collectives of each line become one instruction of that
// line, so that edits apply to one call. Messages of a block remain together, because they may wait
// for each other. The values are the same.
void separate_grouped_calls(SpmdProgram& program);

// Returns the value that an instruction makes or writes in place: output `slot` of a Compute, or
// the result of a collective call (slot 0). Returns kNoValue if there is none.
ValueId made_by(const Instr& instr, size_t slot);

struct Edit {
  enum class Kind : uint8_t {
    reduce,        // made_by(slot) is reduced over `group` for all later readers
    regroup,       // a collective goes over `group`, of the same size where shapes depend on it
    change_op,     // an all_reduce, reduce_scatter or reduce takes `reduction`
    drop_factor,   // input `slot` of a mul or div becomes 1
    scale_input,   // input `slot` of a Compute is multiplied by `factor`
    scale_output,  // made_by(slot) is multiplied by `factor` for all later readers
    round_output,  // made_by(slot) is rounded to `dtype` for all later readers
    shift_output,  // `factors` are added to the whole numbers of made_by(slot)
    on_whole,  // a Compute takes inputs gathered over `group`, and each rank its part of the result
  } kind = Kind::reduce;
  Site site;
  size_t slot = 0;
  Group group;
  Reduction reduction;
  double factor = 1;
  DType dtype = DType::f64;  // of round_output
  // By rank: of scale_output in place of `factor`, if not empty; of shift_output the terms.
  std::vector<double> factors = {};
  std::vector<Site> also = {};                        // further sites, in other listings too
  std::vector<std::pair<size_t, int>> gathered = {};  // on_whole: input slots with their cut dims
  Dims whole = {};                                    // on_whole: shape of the only result
  SharedText slice = {};                              // on_whole: the op that means x[a:b]
};

// Returns the edited program; nullopt if the edit does not apply. The names of `target` (a value of
// the truth, or an output) get the edited value; other names keep theirs.
std::optional<RankProgram> edited(const RankProgram& ranks, const Edit& edit,
                                  const std::string& target);

}  // namespace shardproof
