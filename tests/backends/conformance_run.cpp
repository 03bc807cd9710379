// Implements conformance.h: issues the programs of all cohorts and runs the world to its end.
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

LocalTensor* Host::keep(LocalTensor tensor, const std::string& name) {
  LocalTensor* kept = &tensors.emplace_back(std::move(tensor));
  if (!name.empty()) named[name] = kept;
  return kept;
}

Call Host::call(const Collective& collective, LocalTensor* input, LocalTensor* output, int line) {
  Call call;
  call.collective = collective;
  call.lanes = lanes;
  call.input = input;
  call.output = output;
  call.site.line = line;
  return call;
}

Ticket Host::submit(std::vector<Call> calls, StreamId stream) {
  tickets.push_back(context.submit(std::span<Call>(calls), stream));
  return tickets.back();
}

std::vector<Lanes> cohorts_of_one(int64_t ranks) {
  std::vector<Lanes> cohorts;
  for (int64_t rank = 0; rank < ranks; ++rank) cohorts.push_back(Lanes::one(rank));
  return cohorts;
}

std::vector<std::vector<Lanes>> groupings(int64_t ranks) {
  std::vector<int32_t> odd, even;
  for (int32_t rank = 0; rank < ranks; ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  std::vector<std::vector<Lanes>> all{{Lanes::range(0, ranks)}, cohorts_of_one(ranks)};
  if (ranks > 2) {
    all.push_back({Lanes::range(0, ranks / 2), Lanes::range(ranks / 2, ranks)});
    all.push_back({Lanes::of(odd), Lanes::of(even)});
  }
  return all;
}

const LocalTensor* ConformanceRun::find(const std::string& name, int64_t rank) const {
  for (const Host& host : hosts) {
    const auto it = host.named.find(name);
    if (it != host.named.end() && it->second->find(rank) != nullptr) return it->second;
  }
  return nullptr;
}

std::vector<double> ConformanceRun::values(const std::string& name, int64_t rank) const {
  const LocalTensor* tensor = find(name, rank);
  return tensor == nullptr ? std::vector<double>{} : values_at(*tensor, rank);
}

namespace {

// Polls all tickets, as a waiting host does: on some backends only polling makes ends visible.
void poll_tickets(ConformanceRun& run) {
  for (Host& host : run.hosts)
    for (Ticket ticket : host.tickets) host.context.poll(ticket);
}

void run_until_still(ConformanceRun& run) {
  for (bool moved = true; moved;) {
    poll_tickets(run);
    moved = run.world->progress();
  }
}

}  // namespace

ConformanceRun run_hosts(const ConformanceBackend& backend, const WorldOptions& options,
                         const std::vector<Lanes>& cohorts, const HostProgram& program) {
  ConformanceRun run;
  run.world = backend.start(options);
  const Lanes here = backend.here(options.ranks);
  for (const Lanes& cohort : cohorts) {
    const Lanes mine = cohort.intersect(here);
    if (!mine.empty()) run.hosts.push_back({run.world->open(mine), mine, {}, {}, {}});
  }
  for (Host& host : run.hosts) {
    program(host);
    run_until_still(run);
  }
  for (Host& host : run.hosts)
    if (host.context.state() == CohortState::running) host.context.finish();
  run.report = run.world->close();
  return run;
}

}  // namespace shardproof
