// The rank program as text that parses back: one listing for each set of ranks, with loops and
// unique names. A remark after "#" gives the placements, local shape and source line of a value.
//
// Example, of "y = redistribute(h @ w2, tp:R)" with w2 as tp:S(0) on tp=2:
//
//   _1 = matmul(h, w2)                    # tp:P(sum)  f32 [4, 8]  line 3
//   y = all_reduce(_1, sum, group=tp)     # R  f32 [4, 8]  line 3
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/program/ir/printed_line.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/value/select_ranks.h"

namespace shardproof {

// The values that the author's names have at the end, by ranks.
using NamesAtEnd = std::map<std::string, std::vector<std::pair<Lanes, ValueId>>>;

struct RankTextOptions {
  NamedMeshes meshes;  // of the job, in its order
  // The listing ends with lines such as "w = w_1" for names that were bound again.
  NamesAtEnd at_end;
  std::set<std::string> reserved = {};  // names of numbers, which no value gets
};

struct RankText {
  Lanes lanes;
  std::vector<ListingLine> lines;
};

// Returns the listings. A listing whose ranks lie on several meshes is cut by mesh if no
// instruction needs it whole.
std::vector<RankText> rank_texts(const SpmdProgram& program, const RankTextOptions& options);

// Returns the placements, dtype and local shape of a value: "tp:S(0)  f32 [4, 8]",
// "f32 [4, 8] on 0-2, [3, 8] on 3".
std::string value_remark(const SpmdValue& value, const Lanes& lanes);

}  // namespace shardproof
