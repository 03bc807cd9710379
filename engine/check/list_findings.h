// Makes the findings of an outcome from judged values. Internal to the engine.
#pragma once

#include <set>

#include "shardproof/engine/check/explaining_judge.h"
#include "shardproof/engine/judging/own_dtype_judge.h"

namespace shardproof {

UndecidedValue undecided_because(const JudgedValue& value, std::string reason);
UndecidedValue undecided_in_f64(const JudgedValue& value);
UndecidedValue undecided_by_steps(const JudgedValue& value);  // see OwnDtypeJudge::beyond_steps

// Values that runs of the ranks in other rounding directions did not reach.
struct UnmeasuredMovement {
  std::string values, reason;   // as shown; why the runs ended
  std::vector<int> directions;  // of perturbation.h
};
// Adds one direction; equal values and reasons share an entry.
void add_unmeasured(const std::vector<ValueLabel>& values, int direction, const std::string& reason,
                    std::vector<UnmeasuredMovement>& to);
std::string unmeasured_note(const UnmeasuredMovement& unmeasured);

// The note of integers that differ on this backend only by roundings of their line's inputs.
std::string rounded_note(const JudgedValue& value, const std::string& backend);

// The note of values whose replicas differ in f64 by less than their own dtypes resolve.
std::string unresolved_note(const std::vector<ComparedValue>& values);

// Returns one finding for each cause of wrong values that are not consequences of others. Values
// that one confirmed cause explains are one finding: at the first of their lines, with the cause
// that explains the most of them. So are results of one line with equal causes or none. If a line
// is wrong in several passes of a loop, the later passes are listed under the first. Values without
// a name are listed under the first of their line. Requires `values` in the order of the program.
std::vector<Finding> list_findings(std::vector<ExplainedValue> values);

// Adds values that are far less precise than one device: a note for each. If a ratio is above its
// limit and there is no other finding, it adds one finding for each cause. `settled` holds the keys
// of values that are wrong, whose precision has no meaning.
void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const JudgedProgram& program,
                   Outcome& outcome);

}  // namespace shardproof
