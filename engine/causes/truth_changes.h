// Changes of rank programs towards lines that are like theirs: those of the truth, or other lines
// of the ranks. A small difference of two lines that are alike may be the error.
//
// Example: the ranks have "h = x @ w", and the truth has "y = relu(x @ w) @ v". Its part relu(x @
// w) differs from the ranks' line by one op, so the change is relu(x @ w) in place of x @ w.
#pragma once

#include <vector>

#include "shardproof/engine/causes/rank_text.h"
#include "shardproof/engine/causes/search_budget.h"

namespace shardproof {

// Return the changes, those of the most similar lines first. Calls between ranks count as their
// input. O(size of the ranks' text x size of the other text). The budget is charged for the pairs
// of expressions. If it is spent, the rest of the ranks' lines is left out.
std::vector<TextChange> changes_towards_truth(const NumberedText& ranks, const Job& job,
                                              SearchBudget& budget);
std::vector<TextChange> changes_towards_own_lines(const NumberedText& ranks, const Job& job,
                                                  SearchBudget& budget);

}  // namespace shardproof
