// Tests of PendingGroups: random programs give it matched calls, and simulated workers with one
// stream for each rank carry out what it returns.
#include <gtest/gtest.h>

#include <deque>

#include "shardproof/backends/remote/coordinator/pending_groups.h"
#include "shardproof/localtensor/base/rng.h"

namespace shardproof::pending_groups_test {
namespace {

using Message = std::pair<int, int>;  // from, to
using Calls = std::vector<Message>;   // one group of a rank
using Program = std::vector<std::vector<Calls>>;

// A call matcher for messages, and the streams of ranks that issue them.
class Streams {
 public:
  explicit Streams(const Program& program) : program_(program), ranks_(program.size()) {}

  // Issues the next group of a rank. Returns false if it has none.
  bool issue(int rank) {
    Rank& own = at(rank);
    const size_t group = own.issued.size();
    if (group == of(rank).size()) return false;
    own.issued.push_back(++tickets_);
    groups_.issue(context(rank), kMainStream, tickets_,
                  static_cast<int64_t>(of(rank)[group].size()));
    start(rank);
    take();
    return true;
  }
  void end() {
    for (const auto& event : groups_.remove_all()) carry_out({event});
  }
  bool all_carried_out() const {
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].carried_out != program_[rank].size()) return false;
    return true;
  }
  int64_t orders() const { return orders_; }

 private:
  struct Rank {
    std::vector<Ticket> issued;
    size_t started = 0, ended = 0;  // groups at the call matcher
    int64_t open = 0;               // messages of the last started group that are not matched
    size_t carried_out = 0;         // groups that its worker has carried out
    int64_t left = 0;               // messages of its next group that it has not carried out
  };
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const std::vector<Calls>& of(int rank) const { return program_[static_cast<size_t>(rank)]; }
  const ExecutionContext* context(int rank) const {
    return reinterpret_cast<const ExecutionContext*>(&ranks_[0] + rank);
  }

  void start(int rank) {
    Rank& own = at(rank);
    if (own.started != own.ended || own.started == own.issued.size()) return;
    const Calls& group = of(rank)[own.started++];
    own.open = static_cast<int64_t>(group.size());
    for (const Message& message : group) {
      auto& waiting = waiting_[message];
      const MatchedCallPart part{own.issued[own.started - 1], 0, 0, rank, false, {}};
      if (waiting.empty() || waiting.front().rank == rank) {
        waiting.push_back(part);
        continue;
      }
      MatchedCall event;
      event.kind = CoordinatorCommand::message;
      event.parts = {waiting.front(), part};
      waiting.pop_front();
      groups_.add(std::make_shared<const MatchedCall>(event));
      for (const MatchedCallPart& end : event.parts) --at(end.rank).open;
      for (const MatchedCallPart& end : event.parts) land(end.rank);
    }
  }
  void land(int rank) {
    Rank& own = at(rank);
    if (own.open != 0 || own.ended == own.started) return;
    ++own.ended;
    start(rank);
  }
  void take() {
    for (auto events = groups_.remove_whole(); !events.empty(); events = groups_.remove_whole())
      carry_out(events);
  }
  // Requires that all events are the next ones on the streams of their ranks.
  void carry_out(const PendingGroups::Together& events) {
    ++orders_;
    std::map<int, int64_t> done;
    for (const auto& event : events)
      for (const MatchedCallPart& part : event->parts) {
        Rank& own = at(part.rank);
        ASSERT_LT(own.carried_out, own.issued.size());
        ASSERT_EQ(part.ticket, own.issued[own.carried_out]) << "rank " << part.rank;
        ++done[part.rank];
      }
    for (const auto& [rank, parts] : done) {
      Rank& own = at(rank);
      own.left += parts;
      if (own.left != static_cast<int64_t>(of(rank)[own.carried_out].size())) continue;
      own.left = 0;
      ++own.carried_out;
    }
  }

  const Program& program_;
  std::vector<Rank> ranks_;
  PendingGroups groups_;
  std::map<Message, std::deque<MatchedCallPart>> waiting_;
  Ticket tickets_ = 0;
  int64_t orders_ = 0;
};

void run(Streams& streams, int ranks, uint64_t seed) {
  const Rng rng(seed, 7);
  uint64_t draws = 0;
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i < 4 * ranks; ++i)
      any = streams.issue(static_cast<int>(rng.integer(draws++, 0, ranks))) || any;
    for (int rank = 0; rank < ranks; ++rank) any = streams.issue(rank) || any;
  }
}

TEST(GroupOrders, Ring_RanksInAnyOrder_IsOneCommand) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 7), rounds = 3;
    Program program(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      for (int round = 0; round < rounds; ++round)
        program[static_cast<size_t>(rank)].push_back(
            {{rank, (rank + 1) % ranks}, {(rank + ranks - 1) % ranks, rank}});
    Streams streams(program);
    run(streams, ranks, seed);
    EXPECT_TRUE(streams.all_carried_out()) << "seed " << seed;
    EXPECT_EQ(streams.orders(), rounds) << "seed " << seed;
  }
}

// Messages in one global order, of which each rank has its part; some of them are grouped.
TEST(GroupOrders, Commands_AreNextOnTheStreamsOfTheirRanks) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Rng rng(seed, 8);
    uint64_t draws = 0;
    const int ranks = 2 + static_cast<int>(seed % 5);
    Program program(static_cast<size_t>(ranks));
    for (int i = 0; i < 30; ++i) {
      const int from = static_cast<int>(rng.integer(draws++, 0, ranks));
      const int to = (from + 1 + static_cast<int>(rng.integer(draws++, 0, ranks - 1))) % ranks;
      for (const int end : {from, to}) {
        std::vector<Calls>& own = program[static_cast<size_t>(end)];
        if (own.empty() || rng.integer(draws++, 0, 2) == 0) own.emplace_back();
        own.back().push_back({from, to});
      }
    }
    Streams streams(program);
    run(streams, ranks, seed);
    streams.end();
    EXPECT_TRUE(streams.all_carried_out()) << "seed " << seed;
  }
}

// Rank 0 waits in one group for the consequence of its other half.
TEST(GroupOrders, Group_WaitsForItsOwnOutcome_IsSplit) {
  const Program program{{{{0, 1}, {2, 0}}}, {{{0, 1}}, {{1, 2}}}, {{{1, 2}}, {{2, 0}}}};
  Streams streams(program);
  run(streams, 3, 1);
  EXPECT_FALSE(streams.all_carried_out());
  streams.end();
  EXPECT_TRUE(streams.all_carried_out());
  EXPECT_EQ(streams.orders(), 3);
}

}  // namespace
}  // namespace shardproof::pending_groups_test
