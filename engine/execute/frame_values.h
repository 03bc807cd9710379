// FrameValues: the values of a frame and the tickets that complete them. Most of thousands of
// frames hold few of a program's values, so storage is made in pages when a value is first set.
// Internal to the engine. References stay valid until the object is destroyed.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

class FrameValues {
 public:
  struct Entry {
    LocalTensor tensor;
    Ticket ticket = kDone;  // of the instruction that makes the value
  };
  // Returns the entry of a value; an empty one if it was never set.
  const Entry& find(ValueId id) const {
    static const Entry nothing;
    const size_t page = page_of(id);
    if (page >= pages_.size() || pages_[page] == nullptr) return nothing;
    return (*pages_[page])[place_of(id)];
  }
  // Returns the entry of a value, made if it was never set.
  Entry& at(ValueId id) {
    const size_t page = page_of(id);
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] == nullptr) pages_[page] = std::make_unique<Page>();
    return (*pages_[page])[place_of(id)];
  }

 private:
  static constexpr size_t kPageSize = 32;
  using Page = std::array<Entry, kPageSize>;
  static size_t page_of(ValueId id) { return static_cast<size_t>(id) / kPageSize; }
  static size_t place_of(ValueId id) { return static_cast<size_t>(id) % kPageSize; }

  std::vector<std::unique_ptr<Page>> pages_;  // null: none of its values was set
};

}  // namespace shardproof
