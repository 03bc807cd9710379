// Text of which global elements each rank holds of a value, for `shardproof show --owners`.
#pragma once

#include <optional>
#include <string>

#include "shardproof/engine/check/print_job.h"

namespace shardproof {

// Returns the spec of the value that a name has at the end of the job; for an output of rank
// programs, its declared spec. Returns nullopt if it is not known. Throws Error(bad_input) if no
// value has the name, with the nearest one.
std::optional<Spec> spec_of_name(const std::string& name, const Job& job, const PrintedJob& printed,
                                 const Registries& registries);

// Returns one line for each part: its ranks, the global indices of each dim, and its local shape.
//
//   y  f32 [7, 4]  dp:S(0)
//     ranks 0 1  [0:4, 0:4]  holds [4, 4]
//     ranks 2 3  [4:7, 0:4]  holds [3, 4]
std::string owners_text(const std::string& name, const Spec& spec);
// Returns the local shapes of a value whose place in a whole tensor is not known.
std::string holders_text(const std::string& name, const PrintedJob& printed);

}  // namespace shardproof
