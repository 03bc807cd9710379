// Finds the lines of other listings that do what a line does. The stages of a pipeline have a
// listing each, and a bug in one of them is often in all.
#pragma once

#include <vector>

#include "shardproof/engine/causes/confirm_cause.h"
#include "shardproof/engine/explain/edit_ranks.h"
#include "shardproof/engine/explain/line_text.h"

namespace shardproof {

// Returns the same instruction of other listings, at most one site a listing. It is in the line
// with the same text and as many such lines before it. If there is none, it is in the only line
// with the same ops, numbers and calls: "n = sqrt(sum(g1 * g1))" for "n = sqrt(sum(g0 * g0))". If
// no listing has one, it is the only call of the same kind and group that binds the same name.
std::vector<Site> sites_in_other_listings(const SpmdProgram& program, const Site& site);

// Adds one site of each listing that has none yet. Its instruction is the only one there that binds
// the name of the instruction at `site` and for which fits(own, other) is true.
void add_sites_with_name(const SpmdProgram& program, const Site& site,
                         const std::function<bool(const Instr&, const Instr&)>& fits,
                         std::vector<Site>& to);

// Returns the lines of an edit with all its sites.
std::set<ListedLine> lines_of(const Edit& edit);

// A change of expressions that makes the wrong value right.
struct RightChange {
  std::set<int> numbers;
  std::set<ListedLine> lines;  // none: no change does
  std::set<std::string> made_right = {};
};
// Tests a change of one expression of the text. Tests it also with the same change of the
// expression at the same place of the same line (above) in other listings. Returns the one that
// makes more values right.
RightChange right_change(const RankCase& about, int number,
                         const std::function<void(Expr&)>& change, const std::vector<int>& axes,
                         Confirmation& confirmation);
// Tests one change of several expressions.
RightChange right_changes(const std::set<int>& numbers, const std::function<void(Expr&)>& change,
                          const std::vector<int>& axes, Confirmation& confirmation);

}  // namespace shardproof
