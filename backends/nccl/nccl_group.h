// NcclGroup: an open group of NCCL calls (ncclGroupStart to ncclGroupEnd). The destructor ends it:
// an open group would hold back all later calls of the thread. Internal to the nccl backend.
#pragma once

#include <functional>
#include <utility>

#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {

class NcclGroup {
 public:
  explicit NcclGroup(const NcclApi& api) : NcclGroup(api, api.group_end) {}
  // Calls `end` in place of ncclGroupEnd at the end of the group.
  NcclGroup(const NcclApi& api, std::function<int()> end) : end_(std::move(end)) {
    api.group_start();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (end_) end_();
  }
  int end() { return std::exchange(end_, nullptr)(); }

 private:
  std::function<int()> end_;
};

}  // namespace shardproof
