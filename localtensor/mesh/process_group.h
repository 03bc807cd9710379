// Group: *all* sibling groups over some mesh axes as one value (in PyTorch, one process group for
// each sibling). The groups of axes {tp} of "dp=2, tp=4" are [0 1 2 3] and [4 5 6 7]. Members are
// computed from the mesh; a rank list is stored only if the author wrote one, and it is one group.
// Members are in mesh order, row-major over the axes in the order given. A number that names a rank
// in a call (root, to, from) is an index in this order. Cheap to copy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardproof/localtensor/mesh/mesh.h"

namespace shardproof {

class Group {
 public:
  Group();  // no group: 0 siblings
  // Returns the groups over axes of `mesh`, given by index, slowest first. Without axes, every rank
  // is a group. Throws Error(bad_input) for an axis out of range or given twice.
  static Group of_axes(const Mesh& mesh, std::vector<int> axes);
  // Returns one group. Throws Error(bad_input) for no rank, a negative rank or a rank given twice.
  static Group of_ranks(std::string name, std::vector<int32_t> ranks);
  // Returns one group of ranks 0..ranks-1.
  static Group world(int64_t ranks);

  const std::string& name() const;          // "tp", "dp+tp", "self", "world", or the author's name
  int64_t size() const { return size_; }    // number of members of each sibling
  int64_t count() const { return count_; }  // number of siblings
  Lanes lanes() const;                      // all ranks of all siblings
  bool contains(int64_t rank) const { return index_of(rank) >= 0; }
  int64_t sibling_of(int64_t rank) const;  // -1 if not a member; siblings ascend by first member
  int64_t index_of(int64_t rank) const;    // index in its sibling; -1 if not a member
  int32_t member(int64_t sibling, int64_t index) const;
  std::vector<int32_t> members(int64_t sibling) const;
  const std::vector<int>& axes() const;  // empty for a rank list
  const Mesh& mesh() const;

  // True if this is a copy of `other` or the reverse. Fast: may return false for equal groups.
  bool is_copy_of(const Group& other) const { return data_ == other.data_; }
  // True if both have the same siblings with the same order of members.
  bool operator==(const Group& other) const;
  // Returns text that is equal for equal groups, also of different meshes; calls are matched by it.
  const std::string& key() const;

 private:
  struct Data;
  explicit Group(std::shared_ptr<const Data> data);
  std::shared_ptr<const Data> data_;
  int64_t size_ = 0, count_ = 0;
};

// Returns "tp [0 1 2 3] [4 5 6 7]"; long lists are shortened with "...".
std::string to_string(const Group& group);

}  // namespace shardproof
