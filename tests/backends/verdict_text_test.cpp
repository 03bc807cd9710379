// Approved texts of findings: deadlocks, missing ranks, mismatches.
#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/tests/approval.h"
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

std::vector<ConformanceBackend> conformance_backends() { return {}; }
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

ConformanceBackend local() {
  return {"local", [](const WorldOptions& o) { return instrumented(local_backend())->start(o); }};
}

// Issues calls with their source text, as a listing does.
struct Script {
  Host& host;

  Call call(CollectiveKind kind, const Group& group, std::string_view text, int line,
            int64_t count = 4, DType dtype = DType::f32) {
    Collective c;
    c.kind = kind;
    c.group = group;
    c.count = count;
    c.dtype = dtype;
    const auto one = [](int64_t, int64_t) { return 1.0; };
    const bool gives = kind != CollectiveKind::recv && kind != CollectiveKind::barrier;
    const bool takes = kind != CollectiveKind::send && kind != CollectiveKind::barrier;
    const int64_t out = kind == CollectiveKind::all_gather ? count * group.size() : count;
    Call call = host.call(c, gives ? host.keep(filled(host.lanes, dtype, count, one)) : nullptr,
                          takes ? host.keep(promised(host.lanes, dtype, out)) : nullptr, line);
    call.site.text = text;
    return call;
  }
  int64_t rank() const { return host.lanes[0]; }
  void run(Call call, StreamId stream = kMainStream) { host.submit({std::move(call)}, stream); }
  void message(CollectiveKind kind, int64_t peer, const Group& group, std::string_view text,
               int line, DType dtype = DType::f32) {
    Call one = call(kind, group, text, line, 4, dtype);
    one.collective.peer = peer;
    run(std::move(one));
  }
};

void approve(const std::string& name, int64_t ranks, const std::function<void(Script&)>& program,
             std::vector<std::string> faults = {}) {
  WorldOptions options = world_of(ranks);
  options.faults = std::move(faults);
  std::vector<std::string> texts;
  const ConformanceRun run = run_hosts(local(), options, cohorts_of_one(ranks), [&](Host& host) {
    Script script{host};
    program(script);
  });
  expect_approved("verdicts/" + name, verdict_text(run.report));
}

constexpr CollectiveKind kSend = CollectiveKind::send, kRecv = CollectiveKind::recv;
constexpr CollectiveKind kReduce = CollectiveKind::all_reduce, kBarrier = CollectiveKind::barrier;

TEST(VerdictText, UngroupedSwap_IsDeadlock) {
  approve("swap", 2, [](Script& s) {
    const bool first = s.rank() == 0;
    s.message(kSend, 1 - s.rank(), Group::world(2), first ? "send(a, to=1)" : "send(a, to=0)", 1);
    s.message(kRecv, 1 - s.rank(), Group::world(2), "b = recv(like=a, from=0)", 2);
  });
}

TEST(VerdictText, SendRing_WithWaitingRanks) {
  approve("ring", 6, [](Script& s) {
    const Group ring = Group::of_ranks("ring", {0, 1, 2, 3});
    if (s.rank() < 4) {
      s.message(kSend, (s.rank() + 1) % 4, ring, "send(x, to=next, group=ring)", 4);
      s.message(kRecv, (s.rank() + 3) % 4, ring, "y = recv(like=x, from=prev, group=ring)", 5);
    }
    s.run(s.call(kReduce, Group::world(6), "z = all_reduce(y, sum)", 6));
  });
}

TEST(VerdictText, TwoGroups_InOppositeOrder) {
  approve("two_groups", 4, [](Script& s) {
    const Mesh mesh = Mesh::parse("dp=2, tp=2");
    const Group dp = Group::of_axes(mesh, {0}), tp = Group::of_axes(mesh, {1});
    const bool odd = s.rank() == 0 || s.rank() == 3;
    const auto on_dp = [&](int line) {
      s.run(s.call(kReduce, dp, "a = all_reduce(g, sum, group=dp)", line));
    };
    const auto on_tp = [&](int line) {
      s.run(s.call(kReduce, tp, "b = all_reduce(h, sum, group=tp)", line));
    };
    if (odd) {
      on_dp(2);
      on_tp(3);
    } else {
      on_tp(5);
      on_dp(6);
    }
  });
}

TEST(VerdictText, SelfSend_Ungrouped) {
  approve("self_send", 1, [](Script& s) {
    s.message(kSend, 0, Group::world(1), "send(x, to=rank)", 1);
    s.message(kRecv, 0, Group::world(1), "y = recv(like=x, from=rank)", 2);
  });
}

TEST(VerdictText, SkippedBarrier_IsMismatch) {
  approve("skipped_barrier", 8, [](Script& s) {
    const Mesh mesh = Mesh::parse("dp=2, tp=4");
    const Group dp = Group::of_axes(mesh, {0}), tp = Group::of_axes(mesh, {1});
    s.run(s.call(kReduce, tp, "a = all_reduce(x, sum, group=tp)", 20, 8, DType::bf16));
    if (s.rank() % 4 != 2) s.run(s.call(kBarrier, dp, "barrier(group=dp)", 21, 0));
    if (s.rank() == 6)
      s.run(s.call(kReduce, tp, "all_reduce(grad_w2, sum, group=tp)", 23, 4096, DType::bf16));
    else
      s.run(s.call(kReduce, tp, "all_reduce(grad_w1, sum, group=tp)", 22, 16384, DType::bf16));
  });
}

TEST(VerdictText, OneLine_OtherReduction_WithoutMajority) {
  approve("reduction", 4, [](Script& s) {
    const Mesh mesh = Mesh::parse("dp=2, tp=2");
    s.run(s.call(kReduce, Group::of_axes(mesh, {1}), "a = all_reduce(g, sum, group=tp)", 1));
    Call call = s.call(kReduce, Group::of_axes(mesh, {0}), "b = all_reduce(a, op, group=dp)", 2);
    if (s.rank() == 3) call.collective.reduction.op = ReduceOp::max;
    s.run(std::move(call));
  });
}

TEST(VerdictText, MessageEnds_Disagree) {
  approve("message", 2, [](Script& s) {
    if (s.rank() == 0) s.message(kSend, 1, Group::world(2), "send(x, to=1)", 1);
    if (s.rank() == 1)
      s.message(kRecv, 0, Group::world(2), "y = recv(shape=[4], dtype=bf16, from=0)", 3,
                DType::bf16);
  });
}

TEST(VerdictText, UnevenCounts_Disagree) {
  approve("uneven", 3, [](Script& s) {
    Call call = s.call(CollectiveKind::all_to_all_v, Group::world(3),
                       "y = all_to_all_v(x, send=s, recv=r)", 4, 3);
    call.send_counts = {{1, 1, 1}};
    call.recv_counts = {s.rank() == 1 ? std::vector<int64_t>{1, 1, 2}
                                      : std::vector<int64_t>{1, 1, 1}};
    s.run(std::move(call));
  });
}

TEST(VerdictText, Rank_EndsEarly) {
  approve("left_early", 8, [](Script& s) {
    const Group tp = Group::of_axes(Mesh::parse("dp=2, tp=4"), {1});
    s.run(s.call(kReduce, tp, "a = all_reduce(g, sum, group=tp)", 1));
    if (s.rank() != 5) s.run(s.call(kReduce, tp, "  b = all_reduce(a, sum, group=tp)", 3));
  });
}

void three_steps(Script& s) {
  const Mesh mesh = Mesh::parse("dp=2, tp=4");
  const Group dp = Group::of_axes(mesh, {0}), tp = Group::of_axes(mesh, {1});
  for (int step = 0; step < 3; ++step) {
    s.run(s.call(kReduce, tp, "a = all_reduce(x, sum, group=tp)", 2));
    if (s.host.context.state() != CohortState::running) return;
    s.run(s.call(kBarrier, dp, "barrier(group=dp)", 3, 0));
    if (s.host.context.state() != CohortState::running) return;
    s.run(s.call(CollectiveKind::all_gather, tp, "b = all_gather(a, dim=0, group=tp)", 4));
    if (s.host.context.state() != CohortState::running) return;
  }
}

TEST(VerdictText, Hang_AtSecondBarrier) {
  approve("hang", 8, three_steps, {"hang(rank=3, call=5)"});
}

TEST(VerdictText, Death_AtLine) { approve("death", 8, three_steps, {"die(rank=6, line=4)"}); }

TEST(VerdictText, Call_OutsideGroup) {
  approve("not_a_member", 6, [](Script& s) {
    const Group even = Group::of_ranks("even", {0, 2, 4});
    s.run(s.call(kReduce, even, "y = all_reduce(x, sum, group=even)", 1));
  });
}

// Sixteen ranks in one cycle, and a cycle in every pair: the text stays short.
TEST(VerdictText, ManyCycles_TextStaysShort) {
  approve("many_circles", 40, [](Script& s) {
    const Group pair = Group::of_axes(Mesh::parse("dp=20, pp=2"), {1});
    s.message(kSend, 1 - s.rank() % 2, pair, "send(x, to=next, group=pp)", 1);
    s.message(kRecv, 1 - s.rank() % 2, pair, "y = recv(like=x, from=next, group=pp)", 2);
  });
}

// --- findings beside their text

TEST(Verdict, Hang_WithoutWaitingRanks_IsNoFinding) {
  WorldOptions options = world_of(2);
  options.faults = {"hang(rank=1, call=2)"};
  const ConformanceRun run = run_hosts(local(), options, cohorts_of_one(2), [](Host& host) {
    Script s{host};
    s.run(s.call(kReduce, Group::world(2), "all_reduce_(x, sum)", 1));
    if (s.rank() == 1) s.run(s.call(kBarrier, Group::world(2), "barrier()", 2, 0));
  });
  EXPECT_EQ(verdict_text(run.report), "");
  EXPECT_EQ(run.hosts[1].context.state(), CohortState::hung);
}

TEST(Verdict, Mismatch_HidesLaterHang) {
  const ConformanceRun run = run_hosts(local(), world_of(4), cohorts_of_one(4), [](Host& host) {
    Script s{host};
    const Group pair = Group::of_ranks("pair", {0, 1});
    if (s.rank() < 2) {
      Call call = s.call(kReduce, pair, "all_reduce_(x, op, group=pair)", 1);
      if (s.rank() == 1) call.collective.root = call.collective.count = 3;
      s.run(std::move(call));
    }
    s.run(s.call(kBarrier, Group::world(4), "barrier()", 2, 0));
  });
  ASSERT_EQ(run.report.findings.size(), 1u) << verdict_text(run.report);
  EXPECT_EQ(run.report.findings[0].verdict, Verdict::mismatch);
}

TEST(Verdict, CoarseRun_BlocksAsSingleRanks) {
  WorldOptions options = world_of(2);
  const Group world = Group::world(2);
  const ConformanceRun run = run_hosts(local(), options, {Lanes::range(0, 2)}, [&](Host& host) {
    Script s{host};
    Call send = s.call(kSend, world, "send(x, to=next)", 1);
    send.peers = {1, 0};
    Call recv = s.call(kRecv, world, "y = recv(like=x, from=prev)", 2);
    recv.peers = {1, 0};
    s.run(std::move(send));
    s.run(std::move(recv));
  });
  EXPECT_EQ(run.hosts[0].context.poll(run.hosts[0].tickets[1]), TicketState::pending);
  EXPECT_FALSE(run.report.findings.empty());
}

}  // namespace
}  // namespace shardproof
