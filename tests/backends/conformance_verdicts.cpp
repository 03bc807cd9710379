// Part of the conformance suite: findings, streams, one-sided calls and records.
#include "shardproof/tests/backends/conformance.h"

namespace shardproof::conformance_verdicts {
namespace {

Collective collective(CollectiveKind kind, const Group& group, int64_t count = 2) {
  Collective c;
  c.kind = kind;
  c.group = group;
  c.count = count;
  return c;
}

LocalTensor* ones(Host& host, DType dtype = DType::f32, int64_t count = 2) {
  return host.keep(filled(host.lanes, dtype, count, [](int64_t, int64_t) { return 1.0; }));
}

LocalTensor* answer(Host& host, const std::string& name = "", int64_t count = 2) {
  return host.keep(promised(host.lanes, DType::f32, count), name);
}

TEST_P(Conformance, OppositeSends_Ungrouped_AreDeadlock) {
  const ConformanceRun run = run_hosts(GetParam(), world_of(2), cohorts_of_one(2), [](Host& host) {
    Call send =
        host.call(collective(CollectiveKind::send, Group::world(2)), ones(host), nullptr, 1);
    Call recv =
        host.call(collective(CollectiveKind::recv, Group::world(2)), nullptr, answer(host), 2);
    send.collective.peer = recv.collective.peer = 1 - host.lanes[0];
    host.submit({send});
    host.submit({recv});
  });
  ASSERT_EQ(run.report.findings.size(), 1u);
  const Finding& finding = run.report.findings[0];
  EXPECT_EQ(finding.verdict, Verdict::deadlock);
  EXPECT_EQ(finding.line, 1);
  EXPECT_EQ(finding.ranks, Lanes::range(0, 2));
  for (const Host& host : run.hosts)
    for (Ticket ticket : host.tickets) EXPECT_EQ(host.context.poll(ticket), TicketState::pending);
}

TEST_P(Conformance, Reduction_DiffersOnOneRank_IsMismatch_AndCallFails) {
  const Group world = Group::world(4);
  const ConformanceRun run = run_hosts(GetParam(), world_of(4), cohorts_of_one(4), [&](Host& host) {
    Collective c = collective(CollectiveKind::all_reduce, world);
    host.submit({host.call(c, ones(host), answer(host), 1)});
    if (host.lanes[0] == 2) c.reduction.op = ReduceOp::max;
    host.submit({host.call(c, ones(host), answer(host), host.lanes[0] == 2 ? 7 : 2)});
  });
  ASSERT_EQ(run.report.findings.size(), 1u);
  const Finding& finding = run.report.findings[0];
  EXPECT_EQ(finding.verdict, Verdict::mismatch);
  EXPECT_EQ(finding.line, 7);
  EXPECT_EQ(finding.ranks, Lanes::one(2));
  EXPECT_EQ(finding.call, 2);
  for (const Host& host : run.hosts) {
    EXPECT_EQ(host.context.poll(host.tickets[0]), TicketState::done);
    EXPECT_EQ(host.context.poll(host.tickets[1]), TicketState::failed);
  }
}

TEST_P(Conformance, Member_EndsEarly_IsMissingRank) {
  const ConformanceRun run = run_hosts(GetParam(), world_of(3), cohorts_of_one(3), [](Host& host) {
    const Collective c = collective(CollectiveKind::all_reduce, Group::world(3));
    host.submit({host.call(c, ones(host), answer(host), 1)});
    if (host.lanes[0] != 1) host.submit({host.call(c, ones(host), answer(host), 3)});
  });
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].verdict, Verdict::missing_rank);
  EXPECT_EQ(run.report.findings[0].ranks, Lanes::one(1));
  EXPECT_EQ(run.report.findings[0].line, 3);
  EXPECT_EQ(run.report.findings[0].call, 2);
}

TEST_P(Conformance, CallOutsideGroup_IsReported_AndMembersGoOn) {
  const Group even = Group::of_ranks("even", {0, 2, 4});
  for (const std::vector<Lanes>& cohorts : groupings(6)) {
    const ConformanceRun run = run_hosts(GetParam(), world_of(6), cohorts, [&](Host& host) {
      host.submit({host.call(collective(CollectiveKind::all_reduce, even), ones(host),
                             answer(host, "y"), 1)});
    });
    ASSERT_EQ(run.report.findings.size(), 1u) << verdict_text(run.report);
    EXPECT_EQ(run.report.findings[0].verdict, Verdict::not_a_member);
    EXPECT_EQ(run.report.findings[0].ranks, Lanes::of({1, 3, 5}));
    EXPECT_EQ(run.report.findings[0].line, 1);
    for (int64_t rank : {0, 2, 4})
      if (here(6).contains(rank)) {
        EXPECT_EQ(run.values("y", rank), (std::vector<double>{3, 3}));
      }
  }
}

// --- streams -------------------------------------------------------------------------------------

Work work(const Host& host, StreamId stream, std::function<void()> body) {
  Work work;
  work.lanes = host.lanes;
  work.stream = stream;
  work.body = std::move(body);
  return work;
}

TEST_P(Conformance, Stream_KeepsOrder_AndWaitOrdersTwoStreams) {
  std::vector<int> seen;
  const ConformanceRun run = run_hosts(GetParam(), world_of(1), cohorts_of_one(1), [&](Host& host) {
    const StreamId side = host.context.stream("side");
    EXPECT_EQ(host.context.stream("side"), side);
    host.context.launch(work(host, side, [&] { seen.push_back(1); }));
    const Ticket second = host.context.launch(work(host, side, [&] { seen.push_back(2); }));
    host.context.order(kMainStream, second);
    host.context.launch(work(host, kMainStream, [&] { seen.push_back(3); }));
    host.context.order(side, host.context.last(kMainStream));
    const Ticket end = host.context.launch(work(host, side, [&] { seen.push_back(4); }));
    host.context.host_wait(end);
    host.tickets = {second, end, host.context.last(side)};
  });
  if (here(1).empty()) return;
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3, 4}));
  for (Ticket ticket : run.hosts[0].tickets)
    EXPECT_EQ(run.hosts[0].context.poll(ticket), TicketState::done);
}

TEST_P(Conformance, BlockedStream_HoldsBackOnlyItsOwnWork) {
  std::vector<std::string> seen;
  const Group pair = Group::world(2);
  const ConformanceRun run = run_hosts(GetParam(), world_of(2), cohorts_of_one(2), [&](Host& host) {
    const StreamId comm = host.context.stream("comm");
    Call call;
    if (host.lanes[0] == 0) {
      call = host.call(collective(CollectiveKind::recv, pair), nullptr, answer(host, "y"));
      call.collective.peer = 1;
    } else {
      seen.push_back("1 starts");
      call = host.call(collective(CollectiveKind::send, pair), ones(host), nullptr);
      call.collective.peer = 0;
    }
    host.submit({call}, comm);
    const std::string me = std::to_string(host.lanes[0]);
    host.context.launch(work(host, comm, [&seen, me] { seen.push_back(me + " behind"); }));
    host.context.launch(work(host, kMainStream, [&seen, me] { seen.push_back(me + " beside"); }));
  });
  const auto at = [&](const std::string& text) {
    return std::find(seen.begin(), seen.end(), text) - seen.begin();
  };
  if (here(2).contains(0)) {
    EXPECT_EQ(run.values("y", 0), (std::vector<double>{1, 1}));
  }
  if (here(2).size() != 2) return;  // no order is known between processes
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_LT(at("0 beside"), at("1 starts"));
  EXPECT_LT(at("1 starts"), at("0 behind"));
}

// With one cohort for each rank, the first rank issues everything before the call is found wrong,
// the last one after. Both must get equally far.
TEST_P(Conformance, WrongCall_StopsItsStream_AndWaitingStreams) {
  const ConformanceRun run = run_hosts(GetParam(), world_of(2), cohorts_of_one(2), [](Host& host) {
    const StreamId comm = host.context.stream("comm"), side = host.context.stream("side");
    Collective wrong = collective(CollectiveKind::all_reduce, Group::world(2));
    if (host.lanes[0] == 1) wrong.reduction.op = ReduceOp::max;
    const Collective right = collective(CollectiveKind::all_gather, Group::of_ranks("two", {0, 1}));
    host.submit({host.call(wrong, ones(host), answer(host), 1)}, comm);
    host.tickets.push_back(host.context.launch(work(host, comm, [] {})));
    host.context.order(side, host.tickets[0]);
    host.tickets.push_back(host.context.launch(work(host, side, [] {})));
    host.submit({host.call(right, ones(host), answer(host, "y", 4), 2)});
  });
  ASSERT_EQ(run.report.findings.size(), 1u) << verdict_text(run.report);
  EXPECT_EQ(run.report.findings[0].verdict, Verdict::mismatch);
  for (const Host& host : run.hosts) {
    std::vector<TicketState> states;
    for (Ticket ticket : host.tickets) states.push_back(host.context.poll(ticket));
    EXPECT_EQ(states, (std::vector<TicketState>{TicketState::failed, TicketState::pending,
                                                TicketState::pending, TicketState::done}));
    EXPECT_EQ(run.values("y", host.lanes[0]), (std::vector<double>{1, 1, 1, 1}));
  }
}

// An input is read when the call starts, not when it is issued.
TEST_P(Conformance, Call_ReadsEarlierWritesOfItsStream) {
  const ConformanceRun run = run_hosts(GetParam(), world_of(2), cohorts_of_one(2), [](Host& host) {
    LocalTensor* x = answer(host);
    host.context.launch(work(host, kMainStream, [&host, x] {
      const auto value = [](int64_t rank, int64_t) { return double(rank + 5); };
      Buffer& buffer = *x->blocks()[0].tensor.buffer;
      buffer.bytes = filled(host.lanes, DType::f32, 2, value).blocks()[0].tensor.buffer->bytes;
    }));
    host.submit(
        {host.call(collective(CollectiveKind::all_reduce, Group::world(2)), x, answer(host, "y"))});
  });
  for (int64_t rank = 0; rank < 2; ++rank)
    if (here(2).contains(rank)) {
      EXPECT_EQ(run.values("y", rank), (std::vector<double>{11, 11}));
    }
}

// --- one-sided -----------------------------------------------------------------------------------

TEST_P(Conformance, Put_LandsBeforeItsSignal) {
  if (GetParam().unsupported_reason(collective(CollectiveKind::put, Group::world(3)))) return;
  for (const std::vector<Lanes>& cohorts : groupings(3)) {
    const Group world = Group::world(3);
    const ConformanceRun run = run_hosts(GetParam(), world_of(3), cohorts, [&](Host& host) {
      const auto value = [](int64_t rank, int64_t i) { return double(10 * rank + i); };
      Call put = host.call(collective(CollectiveKind::put, world),
                           host.keep(filled(host.lanes, DType::f32, 2, value)), nullptr);
      Call wait = host.call(collective(CollectiveKind::wait_signal, world, 0), nullptr, nullptr);
      put.collective.slot = wait.collective.slot = 1;
      for (int64_t lane = 0; lane < host.lanes.size(); ++lane) {
        put.peers.push_back((host.lanes[lane] + 1) % 3);
        wait.peers.push_back((host.lanes[lane] + 2) % 3);
      }
      host.submit({put});
      host.submit({wait});
      LocalTensor* y = answer(host, "y");
      host.context.launch(work(host, kMainStream, [&host, y] { host.context.read_slot(1, *y); }));
    });
    ASSERT_EQ(verdict_text(run.report), "");
    for (int64_t rank = 0; rank < 3; ++rank) {
      if (!here(3).contains(rank)) continue;
      const double from = double(10 * ((rank + 2) % 3));
      EXPECT_EQ(run.values("y", rank), (std::vector<double>{from, from + 1}));
    }
  }
}

// --- records -------------------------------------------------------------------------------------

TEST_P(Conformance, Records_AnyCohorts_AreEqual) {
  const Mesh mesh = Mesh::parse("dp=2, tp=3");
  std::vector<Record> first;
  for (const std::vector<Lanes>& cohorts : groupings(6)) {
    const ConformanceRun run = run_hosts(GetParam(), world_of(6), cohorts, [&](Host& host) {
      const Group tp = Group::of_axes(mesh, {1}), dp = Group::of_axes(mesh, {0});
      host.submit(
          {host.call(collective(CollectiveKind::all_reduce, tp), ones(host), answer(host), 1)});
      host.submit({host.call(collective(CollectiveKind::barrier, dp, 0), nullptr, nullptr, 2)});
      const Lanes some = host.lanes.intersect(Lanes::range(0, 3));
      if (!some.empty()) {
        const auto one = [](int64_t, int64_t) { return 1.0; };
        Call call = host.call(collective(CollectiveKind::all_gather, tp),
                              host.keep(filled(some, DType::f32, 2, one)),
                              host.keep(promised(some, DType::f32, 6)), 3);
        call.lanes = some;
        host.submit({call});
      }
      Call send = host.call(collective(CollectiveKind::send, tp), ones(host), nullptr, 4);
      Call recv = host.call(collective(CollectiveKind::recv, tp), nullptr, answer(host), 5);
      for (int64_t lane = 0; lane < host.lanes.size(); ++lane) {
        send.peers.push_back((tp.index_of(host.lanes[lane]) + 1) % 3);
        recv.peers.push_back((tp.index_of(host.lanes[lane]) + 2) % 3);
      }
      host.submit({send, recv});
    });
    ASSERT_EQ(verdict_text(run.report), "");
    if (!GetParam().reports_records) continue;
    ASSERT_FALSE(run.report.records.empty());
    std::vector<Record> untimed = run.report.records;
    for (Record& record : untimed) EXPECT_EQ(record.state, RecordState::done);
    if (first.empty()) first = untimed;
    EXPECT_EQ(untimed, first) << cohorts.size() << " cohorts";
  }
}

}  // namespace
}  // namespace shardproof::conformance_verdicts
