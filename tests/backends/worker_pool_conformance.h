// The conformance suite in real processes: a program starts itself as a crew; each process runs the
// suite for the ranks that lie there, and the first one coordinates. Linked with
// crew_conformance.cpp and the conformance_*.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/backends/remote/coordinator/coordinator.h"

namespace shardproof {

struct WorkerPoolConformance {
  std::string name;  // of the backend
  std::vector<int> processes;
  std::function<std::unique_ptr<Starter>(const WorkerPoolOptions&)> starter;
  // In a worker: its number, and how many there are.
  std::function<std::pair<int, int>()> place;
  std::function<std::shared_ptr<Backend>(const WorkerPoolOptions&)> join;
  // Why a collective's bits may differ from the reference, or nothing.
  std::function<std::optional<std::string>(const Collective&)> unsupported_reason;
};
const WorkerPoolConformance& crew_conformance();  // defined by the backend's source

}  // namespace shardproof
