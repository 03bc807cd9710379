// Rank lowering: listings of the rank language to one SPMD program. Shapes of every value are
// inferred here, per class of ranks, so that whatever is wrong with the text is an Error before
// anything runs; what only the ranks together get wrong (counts that differ, a missing partner) is
// left to the run.
#pragma once

#include "shardproof/engine/job/job.h"

namespace shardproof {

struct NamedPart {
  Lanes lanes;
  ValueId value = kNoValue;
  int line = 0;               // of the statement that last bound or wrote the name
  std::string instance = {};  // in which pass of a loop, "i=2"
};

// check(x, 'name', placements): what these ranks hold of x at that line, to be compared with the
// truth's value of that name. One entry for each time that the line is reached (each pass of a
// loop) and each listing; entries of one name, from different listings, make up one value.
struct RankCheck {
  std::string name;          // of the truth's value, holes filled in: "h_2"
  std::string placements;    // text, without " on ..."
  std::string mesh;          // key of Job::meshes
  Lanes on;                  // ranks that have to hold it; empty: all of the mesh
  Lanes lanes;               // ranks that reach this line
  ValueId value = kNoValue;  // a copy of x as it is at that line; it is only read by the probe
  std::string shown;         // x as the author calls it
  Origin origin;             // line, column and instance
  std::string path;          // JSON pointer of the listing, for errors
};

struct RankProgram {
  SpmdProgram program;
  std::vector<RankCheck> checks;  // in the order of the listings' instructions
  std::map<std::string, std::vector<NamedPart>> names;  // tensors at the end of the listings
};

// Throws Error with the listing's path, line and column.
RankProgram lower_ranks(const Job& job, const OpRegistry& ops);

}  // namespace shardproof
