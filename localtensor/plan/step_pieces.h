// Pieces of a step. A step may be run as several calls (PlanStep::pieces), so that less is packed
// at a time. Each call moves a part of every message. A message is the box that a rank sends to
// another rank, or contributes to a reduction. A box is cut along its longest side, the first of
// equal ones.
//
// Example: an all_gather of [6, 2] from S(0) on 2 ranks, in 2 pieces. The parts of 3 rows are cut
// into 1 and 2 rows. The first call moves rows 0 and 3, the second rows 1, 2, 4 and 5. Both pack 2
// rows, because parts are padded to the fullest piece.
#pragma once

#include "shardproof/localtensor/plan/plan.h"

namespace shardproof {

// Returns the length of the longest side; 1 for a scalar.
int64_t longest_side(const std::vector<Runs>& box);
// Returns the rows [first, end) of a box along its longest side; a scalar as it is.
std::vector<Runs> rows_of_box(std::vector<Runs> box, int64_t first, int64_t end);
// Returns the part of a message that piece `piece` moves; the box if the step is not cut.
std::vector<Runs> part_of_box(const PlanStep& step, int64_t piece, std::vector<Runs> box);
// Returns the elements of a box with these sides in the fullest of `pieces` pieces.
int64_t elements_of_fullest_piece(const Dims& sides, int64_t pieces);
// Returns the elements of the largest message of the mesh in the fullest piece; for many pairs of
// ranks an upper bound. Requires a call other than exchange. Groups pad to PaddedCounts.
int64_t largest_padded_elements(const PlanStep& step);
// Returns the sides of the largest piece that one member sends to another in an all_to_all.
Dims largest_common_part(const PlanStep& step);

// Return true if pack and unpack return views: the call reads its input, or the step has its
// result, in its order in memory.
bool packs_a_view(const PlanStep& step);
bool unpacks_a_view(const PlanStep& step);
// True if after all cuts every rank has the same extents.
bool is_even_everywhere(const Spec& spec);

// Returns the bytes of the plan's source, which stays in memory until the plan ends because a name
// refers to it. Returns 0 for the first step, whose input is the source.
int64_t retained_source_bytes(const Plan& plan, size_t step);

// Sets the least number of pieces with which peak_bytes of the step is within the limit. Returns
// false if there is none.
bool cut_to_limit(PlanStep& step, int64_t limit);
// Returns peak_bytes with as many pieces as help.
int64_t least_peak_bytes(const PlanStep& step);

}  // namespace shardproof
