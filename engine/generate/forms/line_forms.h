// LineForm: a form of one or a few lines of a global program, such as "sum along a dim". A
// generator draws forms by weight. Each table add_*_forms holds the forms of one family of ops and
// is in line_forms_*.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/line_writer.h"

namespace shardproof {

struct LineForm {
  std::string name;
  bool whole = false;  // keeps small whole numbers exact in any order of addition
  double weight = 1;
  // Returns candidate lines; empty if no value fits.
  // "$0" stands for a name that may be bound already,
  // "$a" and "$b" for new names.
  std::function<Lines(LineWriter&)> write;
};

// Each appends the forms of one table.
void add_elementwise_forms(std::vector<LineForm>& forms);
void add_move_forms(std::vector<LineForm>& forms);
void add_reduction_forms(std::vector<LineForm>& forms);
void add_contraction_forms(std::vector<LineForm>& forms);
void add_choice_forms(std::vector<LineForm>& forms);  // integers, masks, orders, indices
void add_cast_forms(std::vector<LineForm>& forms);
void add_loop_forms(std::vector<LineForm>& forms);
void add_ill_conditioned_forms(std::vector<LineForm>& forms);  // not for well-conditioned programs

// Returns all forms that keep values finite and of moderate size.
const std::vector<LineForm>& well_conditioned_forms();
// Returns the well-conditioned forms and those that amplify rounding.
const std::vector<LineForm>& all_forms();

}  // namespace shardproof
