// Virtual time and memory of the local backend: laws over groupings, and small sums by hand.
#include <gtest/gtest.h>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

std::vector<ConformanceBackend> conformance_backends() { return {}; }
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

ConformanceBackend local() {
  return {"local", [](const WorldOptions& o) { return instrumented(local_backend())->start(o); }};
}

// Latency 1 us, bandwidth 1 GB/s; a flop takes a picosecond.
WorldOptions timed(int64_t ranks) {
  WorldOptions options = world_of(ranks);
  options.cost = flat_machine({{1'000'000}, 1e9}, Roofline{1e12, 1e12});
  return options;
}

void work(Host& host, const Lanes& lanes, double flops, StreamId stream = kMainStream) {
  Work work;
  work.lanes = host.lanes.intersect(lanes);
  work.stream = stream;
  work.flops = flops;
  work.name = "work";
  if (!work.lanes.empty()) host.tickets.push_back(host.context.launch(std::move(work)));
}

void collective(Host& host, CollectiveKind kind, const Group& group, StreamId stream, int line) {
  Collective c;
  c.kind = kind;
  c.group = group;
  c.count = kind == CollectiveKind::barrier ? 0 : 500;
  const auto one = [](int64_t, int64_t) { return 1.0; };
  const bool data = kind != CollectiveKind::barrier;
  host.submit({host.call(c, data ? host.keep(filled(host.lanes, DType::f32, 500, one)) : nullptr,
                         data ? host.keep(promised(host.lanes, DType::f32, 500)) : nullptr, line)},
              stream);
}

void ring(Host& host, const Group& group, int line) {
  Collective c;
  c.group = group;
  c.count = 8;
  c.kind = CollectiveKind::send;
  const auto one = [](int64_t, int64_t) { return 1.0; };
  Call send = host.call(c, host.keep(filled(host.lanes, DType::f32, 8, one)), nullptr, line);
  c.kind = CollectiveKind::recv;
  Call recv = host.call(c, nullptr, host.keep(promised(host.lanes, DType::f32, 8)), line + 1);
  const int64_t n = group.size();
  for (int64_t lane = 0; lane < host.lanes.size(); ++lane) {
    send.peers.push_back((group.index_of(host.lanes[lane]) + 1) % n);
    recv.peers.push_back((group.index_of(host.lanes[lane]) + n - 1) % n);
  }
  host.submit({send, recv});
}

TEST(LocalTime, TimesRecordsMemory_AnyCohortsAndSchedule_AreEqual) {
  const Mesh mesh = Mesh::parse("dp=2, tp=3");
  const Group dp = Group::of_axes(mesh, {0}), tp = Group::of_axes(mesh, {1});
  std::optional<WorldReport> first;
  for (const ScheduleKind kind :
       {ScheduleKind::fifo, ScheduleKind::seeded, ScheduleKind::adversarial})
    for (const std::vector<Lanes>& cohorts : groupings(6)) {
      WorldOptions options = timed(6);
      options.schedule.kind = kind;
      const ConformanceRun run = run_hosts(local(), options, cohorts, [&](Host& host) {
        const StreamId side = host.context.stream("side");
        work(host, Lanes::range(0, 6), 1e6);
        work(host, Lanes::range(2, 5), 7e6);
        host.context.allocate({host.lanes, 1000, 1, kMainStream});
        collective(host, CollectiveKind::all_reduce, tp, side, 1);
        host.context.order(kMainStream, host.tickets.back());
        collective(host, CollectiveKind::all_reduce, dp, kMainStream, 2);
        work(host, Lanes::of({0, 5}), 2e6, side);
        ring(host, tp, 3);
        const Lanes some = host.lanes.intersect(Lanes::one(4));
        if (!some.empty()) host.context.allocate({some, 100, 0, kMainStream});
        host.context.order(side, host.context.last(kMainStream));
        collective(host, CollectiveKind::barrier, Group::world(6), side, 5);
      });
      ASSERT_EQ(verdict_text(run.report), "");
      if (!first) first = run.report;
      EXPECT_EQ(run.report.rank_times, first->rank_times) << cohorts.size() << " cohorts";
      EXPECT_EQ(run.report.records, first->records) << cohorts.size() << " cohorts";
      EXPECT_EQ(run.report.peak_bytes, 1024 + 512);
      EXPECT_EQ(run.report.peak_rank, 4);
      EXPECT_EQ(run.report.peak_by_category, (std::vector<int64_t>{512, 1024}));
    }
  EXPECT_GT(first->records.size(), 6u);
}

TEST(LocalTime, Call_StartsAtLastMember_AndStreamsOverlap) {
  const Group world = Group::world(2);
  const ConformanceRun run = run_hosts(local(), timed(2), cohorts_of_one(2), [&](Host& host) {
    const StreamId side = host.context.stream("side");
    work(host, Lanes::one(1), 5e6);                                    // rank 1: 0..5 us
    collective(host, CollectiveKind::barrier, world, kMainStream, 1);  // 5..7 us
    work(host, Lanes::range(0, 2), 9e6, side);                         // 0..9 us beside it
    host.context.order(kMainStream, host.tickets.back());
    work(host, Lanes::range(0, 2), 1e6);  // 9..10 us
  });
  EXPECT_EQ(run.report.rank_times, (std::vector<Duration>{{10'000'000}, {10'000'000}}));
  // Each rank has its own start, as an event on its stream would.
  std::map<std::string, std::string> spans;
  for (const Record& record : run.report.records)
    if (record.kind == "barrier")
      spans[to_string(record.ranks)] = to_string(record.start) + " to " + to_string(record.end);
  EXPECT_EQ(spans,
            (std::map<std::string, std::string>{{"0", "0 ps to 7 us"}, {"1", "5 us to 7 us"}}));
}

TEST(LocalTime, Host_WithoutHostWait_DoesNotWait) {
  for (const bool waits : {false, true}) {
    const ConformanceRun run = run_hosts(local(), timed(1), cohorts_of_one(1), [&](Host& host) {
      const StreamId side = host.context.stream("side");
      work(host, Lanes::one(0), 5e6);
      if (waits) host.context.host_wait(host.tickets.back());
      work(host, Lanes::one(0), 2e6, side);
    });
    EXPECT_EQ(to_string(run.report.time), waits ? "7 us" : "5 us");
  }
}

// Without a cost model there is no clock.
TEST(LocalTime, NoCostModel_GivesNoTimes) {
  const ConformanceRun run = run_hosts(local(), world_of(2), cohorts_of_one(2), [](Host& host) {
    work(host, Lanes::range(0, 2), 5e6);
    EXPECT_FALSE(host.context.times(host.tickets.back()));
  });
  EXPECT_FALSE(run.report.timed);
  EXPECT_EQ(run.report.time, Duration{});
}

}  // namespace
}  // namespace shardproof
