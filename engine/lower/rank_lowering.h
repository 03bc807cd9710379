// Rank lowering: turns the listings of rank programs into one SPMD program. It infers the shape of
// every value for each class of ranks, so errors of the text are an Error before anything runs.
// Errors that only all ranks together show (counts that differ, a missing partner) are found by the
// run.
#pragma once

#include <set>

#include "shardproof/engine/job/job.h"

namespace shardproof {

// The value that a name has on some ranks at the end of a listing.
struct NamedPart {
  Lanes lanes;
  ValueId value = kNoValue;
  int line = 0;              // of the statement that last bound or wrote the name
  SharedText instance = {};  // pass of a loop, "i=2"
};

// One check(x, 'name', placements): the ranks' tensors x at that line are compared with the truth's
// value of that name. There is one entry for each pass of a loop and each listing. Entries of one
// name from different listings are the parts of one value.
struct RankCheck {
  std::string name;          // of the truth's value, holes filled in: "h_2"
  std::string placements;    // text, without " on ..."
  std::string mesh;          // key of Job::meshes
  Lanes on;                  // ranks that must hold it; empty: all ranks of the mesh
  Lanes lanes;               // ranks that reach this line
  ValueId value = kNoValue;  // a copy of x at that line, which only the probe reads
  std::string shown;         // x as written
  Origin origin;             // line, column and instance
  std::string path;          // JSON pointer of the listing, for errors
};

struct RankProgram {
  SpmdProgram program;
  std::vector<RankCheck> checks;  // in the order of the listings' instructions
  std::set<ValueId> recomputed;   // freed after their last use, although names have them
  std::map<std::string, std::vector<NamedPart>> names;  // tensors at the end of the listings
};

// Returns the SPMD program of all listings, with releases of temporaries and the lifetimes of
// `keep`. Throws Error(bad_input) with the listing's path, line and column.
RankProgram lower_ranks(const Job& job, const OpRegistry& ops);

}  // namespace shardproof
