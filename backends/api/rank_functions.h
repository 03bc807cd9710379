// RankFunctions: ranks written as C++ functions, run on fibers in a world that may also have
// cohorts that run listings. The caller advances them in turn with the rest.
#pragma once

#include <memory>

#include "shardproof/backends/api/rank_context.h"

namespace shardproof {

struct RankFunctionsOptions {
  FiberOptions fibers;
  OnStop on_stop = OnStop::unwind;
};

class RankFunctions {
 public:
  // `ranks` is the size of the world, which must outlive this. At most one object for a thread.
  RankFunctions(World& world, int64_t ranks, const RankFunctionsOptions& options);
  ~RankFunctions();
  // Opens the context of each of these ranks and starts the function there.
  void start(const Lanes& lanes, const std::function<void(RankContext&)>& program);
  // Runs every rank that can continue. Returns true if any could.
  bool advance();
  // Call after World::close: ends blocked ranks. Returns the ranks that an exception ended.
  std::vector<RankError> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
