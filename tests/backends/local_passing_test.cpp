// Tests items that pass earlier ones of their stream in the local backend: which items pass, the
// order in which tickets end, and that times, records and values are those of single ranks.
#include <gtest/gtest.h>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/sim/cost/cost_model.h"
#include "shardproof/tests/backends/conformance.h"

namespace shardproof::local_passing_test {
namespace {

ConformanceBackend recorded_local() {
  return {"local", [](const WorldOptions& o) { return instrumented(local_backend())->start(o); }};
}

// Sends or receives one number on some ranks of the cohort. `peers` are in the order of `ranks`.
Ticket message(Host& host, CollectiveKind kind, const Lanes& ranks,
               const std::vector<int64_t>& peers, const std::string& name = "",
               StreamId stream = kMainStream) {
  const Lanes lanes = ranks.intersect(host.lanes);
  if (lanes.empty()) return kDone;
  Collective c;
  c.kind = kind;
  c.group = Group::world(6);
  c.count = 1;
  const bool sends = kind == CollectiveKind::send;
  const auto rank_of = [](int64_t rank, int64_t) { return static_cast<double>(rank); };
  LocalTensor* const input = sends ? host.keep(filled(lanes, DType::f32, 1, rank_of), "") : nullptr;
  LocalTensor* const output = sends ? nullptr : host.keep(promised(lanes, DType::f32, 1), name);
  Call call = host.call(c, input, output, 1);
  call.lanes = lanes;
  for (int64_t i = 0; i < lanes.size(); ++i)
    call.peers.push_back(peers[static_cast<size_t>(ranks.index_of(lanes[i]))]);
  return host.submit({call}, stream);
}

Ticket work_on(Host& host, const Lanes& ranks, double flops, StreamId stream = kMainStream,
               std::function<void()> body = {}) {
  Work work;
  work.lanes = ranks.intersect(host.lanes);
  work.stream = stream;
  work.flops = flops;
  work.name = "work";
  work.body = std::move(body);
  return work.lanes.empty() ? kDone : host.context.launch(std::move(work));
}

TEST(LocalPassing, ItemOfOtherLanes_RunsAtOnce_AndTicketsEndInOrder) {
  run_hosts(recorded_local(), world_of(6), {Lanes::range(0, 6)}, [](Host& host) {
    ExecutionContext& context = host.context;
    const auto is_done = [&](Ticket ticket) { return context.poll(ticket) == TicketState::done; };
    const Ticket first = message(host, CollectiveKind::recv, Lanes::one(0), {3});
    const Ticket second = message(host, CollectiveKind::recv, Lanes::one(1), {2});
    bool ran = false;
    const Ticket queued = work_on(host, Lanes::range(0, 2), 0, kMainStream, [&ran] { ran = true; });
    EXPECT_EQ(work_on(host, Lanes::range(2, 4), 0), kDone);
    const Ticket third = message(host, CollectiveKind::send, Lanes::one(2), {1});
    EXPECT_FALSE(is_done(first) || is_done(second) || is_done(queued) || is_done(third) || ran);
    bool ran_after = false;
    const Ticket after = work_on(host, Lanes::one(1), 0, kMainStream, [&] { ran_after = ran; });
    const Ticket last = message(host, CollectiveKind::send, Lanes::one(3), {0});
    for (const Ticket ticket : {first, second, queued, third, after, last})
      EXPECT_TRUE(is_done(ticket)) << ticket;
    EXPECT_TRUE(ran_after);
  });
}

TEST(LocalPassing, Wait_IsNotPassed) {
  const ConformanceRun run =
      run_hosts(recorded_local(), world_of(6), {Lanes::range(0, 6)}, [](Host& host) {
        const StreamId side = host.context.stream("side");
        const Ticket received = message(host, CollectiveKind::recv, Lanes::one(0), {3}, "", side);
        host.context.order(kMainStream, received);
        bool ran = false;
        work_on(host, Lanes::range(1, 3), 0, kMainStream, [&ran] { ran = true; });
        EXPECT_FALSE(ran);
        message(host, CollectiveKind::send, Lanes::one(3), {0}, "", side);
        EXPECT_TRUE(ran);
      });
  EXPECT_EQ(verdict_text(run.report), "");
}

// More items wait than are searched. An item passes all of them when it is issued; one that must
// wait behind them runs when they have ended.
TEST(LocalPassing, ManyWaitingItems_ArePassedAtIssue_AndAllRun) {
  constexpr int64_t kItems = 500;
  int64_t ran = 0, ran_before = 0;
  const ConformanceRun run =
      run_hosts(recorded_local(), world_of(6), {Lanes::range(0, 6)}, [&](Host& host) {
        const Ticket first = message(host, CollectiveKind::recv, Lanes::one(0), {3});
        for (int64_t i = 0; i < kItems; ++i)
          work_on(host, Lanes::range(0, 2), 0, kMainStream, [&ran] { ++ran; });
        const Ticket second = message(host, CollectiveKind::recv, Lanes::one(4), {5});
        work_on(host, Lanes::of({1, 4}), 0, kMainStream, [&] { ran_before = ran; });
        EXPECT_EQ(host.context.poll(second), TicketState::pending);
        message(host, CollectiveKind::send, Lanes::one(5), {4});
        EXPECT_EQ(ran, 0);
        message(host, CollectiveKind::send, Lanes::one(3), {0});
        EXPECT_EQ(host.context.poll(first), TicketState::done);
        EXPECT_EQ(host.context.poll(second), TicketState::done);
      });
  EXPECT_EQ(verdict_text(run.report), "");
  EXPECT_EQ(ran, kItems);
  EXPECT_EQ(ran_before, kItems);
}

// A random program of six ranks: works of some ranks, messages between two sets of ranks in both
// directions, collectives of the groups of a mesh, and waits of one stream for another.
class RandomItems {
 public:
  explicit RandomItems(uint64_t seed) : rng_(seed, hash_text("items")) {
    for (int64_t left = 3 + draw(8); left > 0; --left) add_step();
  }
  void issue(Host& host) const {
    host.context.stream("side");
    for (const Step& step : steps_) step(host);
  }
  int64_t values() const { return names_; }

 private:
  using Step = std::function<void(Host&)>;

  int64_t draw(int64_t below) { return rng_.integer(draws_++, 0, below); }
  StreamId any_stream() { return draw(4) == 0 ? 1 : kMainStream; }
  Lanes some_ranks(int64_t most) {
    std::vector<int32_t> ranks;
    for (int64_t left = 1 + draw(most); left > 0; --left)
      ranks.push_back(static_cast<int32_t>(draw(6)));
    return Lanes::of(std::move(ranks));
  }

  void add_work(const Lanes& ranks, StreamId stream) {
    const double flops = static_cast<double>(1 + draw(9)) * 1e6;
    steps_.emplace_back([=](Host& host) { work_on(host, ranks, flops, stream); });
  }
  void add_message(CollectiveKind kind, const Lanes& ranks, const Lanes& peers, StreamId stream) {
    const std::string name = kind == CollectiveKind::recv ? "y" + std::to_string(names_++) : "";
    std::vector<int64_t> of_ranks;
    for (int64_t i = 0; i < peers.size(); ++i) of_ranks.push_back(peers[i]);
    steps_.emplace_back([=](Host& host) { message(host, kind, ranks, of_ranks, name, stream); });
  }

  void add_exchange(StreamId stream) {
    const Lanes a = some_ranks(3), free = Lanes::range(0, 6).minus(a);
    std::vector<int32_t> others;
    const int64_t skipped = draw(free.size() - a.size() + 1);
    for (int64_t i = 0; i < a.size(); ++i) others.push_back(free[i + skipped]);
    const Lanes b = Lanes::of(std::move(others));
    const bool deadlocks = draw(12) == 0;
    for (const bool first : {true, false}) {
      const Lanes &own = first ? a : b, &peers = first ? b : a;
      const bool sends_first = first || deadlocks;
      add_message(sends_first ? CollectiveKind::send : CollectiveKind::recv, own, peers, stream);
      if (draw(2) == 0) add_work(own, stream);
      add_message(sends_first ? CollectiveKind::recv : CollectiveKind::send, own, peers, stream);
      if (draw(2) == 0) add_work(own, stream);
    }
  }

  void add_collective(StreamId stream) {
    const Group group = Group::of_axes(Mesh::parse("dp=2, tp=3"), {static_cast<int>(draw(2))});
    const int64_t sibling = draw(group.count() + 1);
    std::vector<int32_t> members;
    for (int64_t s = 0; s < group.count(); ++s)
      for (const int32_t rank : group.members(s))
        if (s == sibling || sibling == group.count()) members.push_back(rank);
    const Lanes ranks = Lanes::of(std::move(members));
    steps_.emplace_back([=](Host& host) {
      const Lanes lanes = ranks.intersect(host.lanes);
      if (lanes.empty()) return;
      Collective c;
      c.kind = CollectiveKind::barrier;
      c.group = group;
      Call call = host.call(c, nullptr, nullptr, 2);
      call.lanes = lanes;
      host.submit({call}, stream);
    });
  }

  void add_step() {
    const StreamId stream = any_stream();
    switch (draw(6)) {
      case 0: return add_work(some_ranks(6), stream);
      case 1: return add_collective(stream);
      case 2:
        steps_.emplace_back(
            [=](Host& host) { host.context.order(1 - stream, host.context.last(stream)); });
        return;
      default: return add_exchange(stream);
    }
  }

  Rng rng_;
  uint64_t draws_ = 0;
  int64_t names_ = 0;
  std::vector<Step> steps_;
};

TEST(LocalPassing, RandomItems_InOneCohort_HaveTimesAndValuesOfSingleRanks) {
  constexpr uint64_t kPrograms = 600;
  int64_t ended = 0, blocked = 0, ended_alone = 0;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE(seed);
    const RandomItems items(seed);
    WorldOptions options = world_of(6);
    options.cost = flat_machine({{1'000'000}, 1e9}, Roofline{1e12, 1e12});
    const auto issue = [&](Host& host) { items.issue(host); };
    const ConformanceRun single = run_hosts(recorded_local(), options, cohorts_of_one(6), issue);
    const bool is_clean = single.report.findings.empty();
    ended_alone += is_clean ? 1 : 0;
    for (const std::vector<Lanes>& cohorts : groupings(6)) {
      const ConformanceRun run = run_hosts(recorded_local(), options, cohorts, issue);
      if (!run.report.findings.empty()) {
        ++blocked;
        continue;
      }
      ++ended;
      ASSERT_TRUE(is_clean) << verdict_text(single.report);
      EXPECT_EQ(run.report.rank_times, single.report.rank_times) << cohorts.size() << " cohorts";
      EXPECT_EQ(run.report.records, single.report.records) << cohorts.size() << " cohorts";
      for (int64_t value = 0; value < items.values(); ++value)
        for (int64_t rank = 0; rank < 6; ++rank)
          EXPECT_EQ(run.values("y" + std::to_string(value), rank),
                    single.values("y" + std::to_string(value), rank));
    }
  }
  std::printf("passing: %lld of %llu programs end with single ranks; %lld runs end, %lld block\n",
              static_cast<long long>(ended_alone), static_cast<unsigned long long>(kPrograms),
              static_cast<long long>(ended), static_cast<long long>(blocked));
  EXPECT_GT(ended, 2 * ended_alone);
}

}  // namespace
}  // namespace shardproof::local_passing_test
