// The conformance suite of backends: what every execution context must do, on any backend. A
// backend joins with a source that defines conformance_backends() and is linked with the
// conformance_*.cpp here:
//
//   std::vector<ConformanceBackend> shardproof::conformance_backends() {
//     return {{"local", [](const WorldOptions& o) { return local_backend()->start(o); }}};
//   }
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/tests/backends/lane_values.h"

namespace shardproof {

struct ConformanceBackend {
  std::string name;
  std::function<std::unique_ptr<World>(const WorldOptions&)> start;
  // Returns why a collective cannot be run; nullopt: it can.
  std::function<std::optional<std::string>(const Collective&)> unsupported_reason =
      [](const Collective&) { return std::nullopt; };
  bool reports_records = true;  // false: records stay in the coordinator
  // Returns the ranks whose hosts run in this process.
  std::function<Lanes(int64_t ranks)> here = [](int64_t ranks) { return Lanes::range(0, ranks); };
};
std::vector<ConformanceBackend> conformance_backends();

// A host program of some lanes. It issues work and calls, and never waits. Owns its tensors until
// the run is over.
struct Host {
  ExecutionContext& context;
  Lanes lanes;
  std::deque<LocalTensor> tensors;
  std::map<std::string, LocalTensor*> named;
  std::vector<Ticket> tickets;

  LocalTensor* keep(LocalTensor tensor, const std::string& name = "");
  Call call(const Collective& collective, LocalTensor* input, LocalTensor* output, int line = 0);
  Ticket submit(std::vector<Call> calls, StreamId stream = kMainStream);
};
using HostProgram = std::function<void(Host&)>;

inline WorldOptions world_of(int64_t ranks) {
  WorldOptions options;
  options.ranks = ranks;
  return options;
}

// Returns several ways to group ranks into cohorts.
std::vector<std::vector<Lanes>> groupings(int64_t ranks);
std::vector<Lanes> cohorts_of_one(int64_t ranks);

struct ConformanceRun {
  std::unique_ptr<World> world;
  std::deque<Host> hosts;
  WorldReport report;
  const LocalTensor* find(const std::string& name, int64_t rank) const;
  std::vector<double> values(const std::string& name, int64_t rank) const;
};
// Runs the program of every cohort, then the world until nothing moves, and closes it.
ConformanceRun run_hosts(const ConformanceBackend& backend, const WorldOptions& options,
                         const std::vector<Lanes>& cohorts, const HostProgram& program);

class Conformance : public testing::TestWithParam<ConformanceBackend> {
 protected:
  Lanes here(int64_t ranks) const { return GetParam().here(ranks); }
};

inline std::string verdict_text(const WorldReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{} line {} ranks {} call {} group {}\n{}\n", name(finding.verdict),
                        finding.line, to_string(finding.ranks), finding.call, finding.group,
                        finding.headline);
    for (const std::string& detail : finding.details) text += "  " + detail + "\n";
    if (!finding.fix.empty()) text += "  fix  " + finding.fix + "\n";
  }
  return text;
}

}  // namespace shardproof
