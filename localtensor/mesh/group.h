// Group: *all* sibling groups of some mesh axes as one value; members are computed. The groups of
// axes {tp} of "dp=2, tp=4" are [0 1 2 3] and [4 5 6 7]. A rank list stands only where the author
// wrote one, and is one group. Members are in mesh order (row-major over the axes in the order
// given); a number that names a rank in a call (root, to, from) is an index in this order. Cheap to
// copy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

class Group {
 public:
  Group();  // no group: 0 siblings
  // Axis indices of `mesh`, slowest first. No axes: every rank alone. Throws Error when out of
  // range or twice.
  static Group of_axes(const Mesh& mesh, std::vector<int> axes);
  // One group. Throws Error on no rank, a negative rank or a rank twice.
  static Group of_ranks(std::string name, std::vector<int32_t> ranks);
  static Group world(int64_t ranks);

  const std::string& name() const;          // "tp", "dp+tp", "world", or the author's name
  int64_t size() const { return size_; }    // members of each group
  int64_t count() const { return count_; }  // sibling groups
  Lanes lanes() const;                      // all ranks of all siblings
  bool contains(int64_t rank) const { return index_of(rank) >= 0; }
  int64_t sibling_of(int64_t rank) const;  // which sibling, or -1; ordered by first member
  int64_t index_of(int64_t rank) const;    // position in its sibling, or -1
  int32_t member(int64_t sibling, int64_t index) const;
  std::vector<int32_t> members(int64_t sibling) const;
  const std::vector<int>& axes() const;  // empty for a rank list
  const Mesh& mesh() const;

  bool operator==(const Group& other) const;  // same siblings with the same order of members
  // Identity for matching calls: equal text for equal groups, whatever mesh value they came from.
  const std::string& key() const;

 private:
  struct Data;
  explicit Group(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
  int64_t size_ = 0, count_ = 0;
};

std::string to_string(
    const Group& group);  // "tp [0 1 2 3] [4 5 6 7]"; long lists shortened with "..."

}  // namespace shardproof
