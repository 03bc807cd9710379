// The conformance suite in real processes: a program starts itself as workers, each of which runs
// the suite for its ranks; the first process coordinates. Linked with worker_pool_conformance.cpp
// and the conformance_*.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/remote/coordinator/coordinator.h"

namespace shardproof {

struct WorkerPoolConformance {
  std::string name;  // name of the backend
  std::vector<int> processes;
  std::function<std::unique_ptr<Starter>(const WorkerPoolOptions&)> starter;
  // Returns the number of this process and the number of processes.
  std::function<std::pair<int, int>()> place;
  // Returns the backend of a worker.
  std::function<std::shared_ptr<Backend>(const WorkerPoolOptions&)> join;
  // Returns why a collective's bits may differ from the reference; nullopt: they may not.
  std::function<std::optional<std::string>(const Collective&)> unsupported_reason;
};
const WorkerPoolConformance& pool_conformance();  // each backend's source defines it

}  // namespace shardproof
