// Rank functions as hosts of a world among others: C++ functions on fibers, beside cohorts that run
// listings. What drives the world lets them advance in turn with the rest.
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
  // `ranks`: of the world. One at a time on a thread.
  RankFunctions(World& world, int64_t ranks, const RankFunctionsOptions& options);
  ~RankFunctions();
  // Each of these ranks runs the function. Opens their doors.
  void start(const Lanes& lanes, const std::function<void(RankContext&)>& program);
  // Lets all go on that can. True when any did.
  bool advance();
  // After World::close: ends those that can never go on, and tells whom an exception ended.
  std::vector<RankError> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof
