// CallTermsStore: holds the terms of the calls that a world has submitted. Thousands of ranks that
// make one call share its terms, so that a submitted call is a few cache lines.
#pragma once

#include <array>
#include <memory>

#include "shardproof/sim/call/call.h"

namespace shardproof {

// Not thread-safe. Constant time.
class CallTermsStore {
 public:
  // Returns `terms`, from the store if it holds equal ones. May return new ones for equal terms, in
  // particular for terms with lists.
  const std::shared_ptr<const CallTerms>& share(CallTerms&& terms);

 private:
  static constexpr size_t kHeld = 16;  // the last terms of each line of the program, by line
  std::array<std::shared_ptr<const CallTerms>, kHeld> held_;
  std::shared_ptr<const CallTerms> with_lists_;  // the last terms that have lists
};

}  // namespace shardproof
