// Changes of rank programs towards lines that are like theirs: those of the truth, or other lines
// of the ranks. A small difference of two lines that are alike may be the error.
//
// Example: the ranks have "h = x @ w", and the truth has "y = relu(x @ w) @ v". Its part relu(x @
// w) differs from the ranks' line by one op, so the change is relu(x @ w) in place of x @ w.
#pragma once

#include <vector>

#include "shardproof/engine/causes/rank_text.h"
#include "shardproof/engine/causes/search_budget.h"
#include "shardproof/program/ir/global_program.h"

namespace shardproof {

// Return the changes, those of the most similar lines first. Calls between ranks count as their
// input. O(size of the ranks' text x size of the other text). The budget is charged for the pairs
// of expressions. If it is spent, the rest of the ranks' lines is left out.
std::vector<TextChange> changes_towards_truth(const NumberedText& ranks, const Job& job,
                                              SearchBudget& budget);
std::vector<TextChange> changes_towards_own_lines(const NumberedText& ranks, const Job& job,
                                                  SearchBudget& budget);

// Returns changes of whole numbers by which the ranks divide a sum. Each is replaced by the counts
// of elements over which the truth takes means. Example: sum(square(y - t)) / 48 in the
// ranks, and mse_loss(y, t) of 24 elements in the truth. Numbers that are such a count are left
// out.
std::vector<TextChange> changes_to_counts_of_truth(const NumberedText& ranks,
                                                   const GlobalProgram& truth);

}  // namespace shardproof
