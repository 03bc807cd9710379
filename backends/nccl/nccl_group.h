// NcclGroup: what a thread asks of NCCL while it lives is one group of calls. It ends however it is
// left: a group that stayed open would hold all that the thread asks for later. Internal to the
// nccl backend.
#pragma once

#include <functional>
#include <utility>

#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {

class NcclGroup {
 public:
  explicit NcclGroup(const NcclApi& api) : NcclGroup(api, api.group_end) {}
  // One that ends by another function than ncclGroupEnd.
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
