// Implements collected_parts.h. Parts are merged like the carries of a binary counter: only values
// of similar size are merged. So each block is copied log N times.
//
// Example: blocks of merged_ after each of five parts: 1; 2; 2 1; 4; 4 1.
#include "shardproof/localtensor/tensor/collected_parts.h"

#include <utility>

namespace shardproof {
namespace {

// Replaces the last two values by one.
void merge_last(std::vector<LocalTensor>& values) {
  const LocalTensor newer = std::move(values.back());
  values.pop_back();
  values.back() = values.back().merged_with(newer);
}

}  // namespace

void CollectedParts::add(LocalTensor part) {
  for (const Block& block : part.blocks()) most_lanes_ += block.lanes.size();
  merged_.push_back(std::move(part));
  while (merged_.size() > 1 &&
         merged_[merged_.size() - 2].blocks().size() <= merged_.back().blocks().size())
    merge_last(merged_);
}

const LocalTensor& CollectedParts::whole() const {
  static const LocalTensor kNone;
  if (merged_.empty()) return kNone;
  while (merged_.size() > 1) merge_last(merged_);
  most_lanes_ = merged_.front().lanes().size();
  return merged_.front();
}

}  // namespace shardproof
