// Implements release_temporaries.h in one pass over each listing that keeps the last use of every
// value without a name.
#include "shardproof/engine/lower/release_temporaries.h"

#include <map>

namespace shardproof {

void release_temporaries(SpmdProgram& program) {
  for (SpmdListing& listing : program.listings) {
    std::map<ValueId, size_t> last;
    for (size_t i = 0; i < listing.instrs.size(); ++i) {
      const Effects effects = effects_of(listing.instrs[i]);
      for (const std::vector<ValueId>* ids : {&effects.reads, &effects.writes})
        for (ValueId id : *ids)
          if (program.values[static_cast<size_t>(id)].bound.empty()) last[id] = i;
      // A merge reads no memory, so it is no effect, but it uses its parts.
      if (const Merge* merge = std::get_if<Merge>(&listing.instrs[i].action))
        for (const auto& [lanes, id] : merge->parts)
          if (program.values[static_cast<size_t>(id)].bound.empty()) last[id] = i;
    }
    for (const auto& [id, i] : last) listing.instrs[i].releases.push_back(id);
  }
}

}  // namespace shardproof
