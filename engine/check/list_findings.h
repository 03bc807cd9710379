// From judged values to the findings of an outcome. Internal to the engine.
#pragma once

#include <set>

#include "shardproof/engine/check/explaining_judge.h"
#include "shardproof/engine/compare/own_dtype_judge.h"

namespace shardproof {

UndecidedValue undecided_value(const JudgedValue& value);

// Of a global program: each wrong line is a finding; the same line in other passes of a loop is
// listed under its first.
std::vector<Finding> group_by_line(std::vector<ExplainedValue> values);
// Of rank programs, whose outputs lie many lines apart: a wrong output that the truth computes from
// an earlier wrong one is listed under that one.
std::vector<Finding> group_by_dependence(std::vector<ExplainedValue> values,
                                         const EvaluationPlan& plan);

// Values that are far less precise than one device: notes in the outcome, and findings where the
// ratio is over its limit and there is no other finding. `settled`: keys of values that are wrong
// or not decided, of which precision says nothing.
void add_precision(const std::vector<MeasuredPrecision>& measured,
                   const std::set<std::string>& settled, const Job& job, Outcome& outcome);

}  // namespace shardproof
