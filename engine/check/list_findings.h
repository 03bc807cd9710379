// From judged values to the findings of an outcome. Internal to the engine.
#pragma once

#include <set>

#include "shardproof/engine/check/explaining_judge.h"
#include "shardproof/engine/check/own_dtype_judge.h"

namespace shardproof {

UndecidedValue undecided_value(const JudgedValue& value);

// One finding for each wrong value that is no consequence of another; the same line in other passes
// of a loop is listed under its first. `values` are in the order of the program.
std::vector<Finding> list_findings(std::vector<ExplainedValue> values);

// Values that are far less precise than one device: notes in the outcome, and findings where the
// ratio is over its limit and there is no other finding. `settled`: keys of values that are wrong
// or not decided, of which precision says nothing.
void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const JudgedProgram& program,
                   Outcome& outcome);

}  // namespace shardproof
