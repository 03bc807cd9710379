// Part of the conformance suite: values of collectives and messages are those of `reference`, bit
// by bit.
#include "shardproof/tests/backends/conformance.h"

namespace shardproof::conformance_values {
namespace {

constexpr int64_t kRanks = 6;

Mesh mesh() { return Mesh::parse("dp=2, tp=3"); }

std::vector<Group> groups() {
  return {Group::of_axes(mesh(), {0}), Group::of_axes(mesh(), {1}), Group::of_axes(mesh(), {0, 1}),
          Group::world(kRanks), Group::of_ranks("pair", {4, 1})};
}

// Small whole numbers: every sum and product of six of them is exact in every dtype. 8-bit floats
// get only 0 and 1.
double element(DType dtype, int64_t rank, int64_t index) {
  const bool narrow = size_of(dtype) == 1;
  const int64_t mixed = (rank * 7 + index * 5 + rank * index) % 5;
  return static_cast<double>(narrow ? mixed % 2 : mixed - 2);
}

int64_t input_count(const Collective& c) {
  const bool whole = c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::scatter;
  return whole ? c.group.size() * c.count : c.count;
}

Tensor one_input(const Collective& c, int64_t rank) {
  return filled(Lanes::one(rank), c.dtype, input_count(c),
                [&](int64_t r, int64_t i) { return element(c.dtype, r, i); })
      .of_rank(rank);
}

// Returns the outputs of `reference` by rank, without ranks that have none.
std::map<int64_t, Tensor> expected(const Collective& c) {
  std::map<int64_t, Tensor> answers;
  for (int64_t sibling = 0; sibling < c.group.count(); ++sibling) {
    std::vector<Tensor> inputs;
    for (int32_t rank : c.group.members(sibling)) inputs.push_back(one_input(c, rank));
    const std::vector<std::optional<Tensor>> outputs = reference(c, inputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i]) answers[c.group.member(sibling, static_cast<int64_t>(i))] = *outputs[i];
  }
  return answers;
}

void check_collective(const ConformanceBackend& backend, const Collective& c) {
  if (backend.unsupported_reason(c)) return;
  const std::map<int64_t, Tensor> want = expected(c);
  std::vector<int32_t> receivers;
  for (const auto& [rank, tensor] : want) receivers.push_back(static_cast<int32_t>(rank));
  const Lanes lanes = Lanes::of(receivers);
  for (const std::vector<Lanes>& cohorts : groupings(kRanks)) {
    const ConformanceRun run = run_hosts(backend, world_of(kRanks), cohorts, [&](Host& host) {
      const Lanes members = host.lanes.intersect(c.group.lanes());
      if (members.empty()) return;
      LocalTensor* in =
          host.keep(filled(members, c.dtype, input_count(c),
                           [&](int64_t r, int64_t i) { return element(c.dtype, r, i); }));
      const Lanes getting = members.intersect(lanes);
      LocalTensor* out = nullptr;
      if (!getting.empty())
        out = host.keep(promised(getting, c.dtype, want.begin()->second.elements()), "y");
      Call call = host.call(c, in, out);
      call.lanes = members;
      host.submit({call});
    });
    ASSERT_EQ(verdict_text(run.report), "");
    for (const auto& [rank, tensor] : want) {
      if (!backend.here(kRanks).contains(rank)) continue;
      const Tensor got = run.find("y", rank)->of_rank(rank);
      ASSERT_TRUE(bit_equal(got, 0, tensor, 0))
          << to_string(c) << " rank " << rank << " of " << cohorts.size() << " cohorts";
    }
  }
}

bool can_reduce(ReduceOp op, DType dtype) {
  const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  const bool order = op == ReduceOp::min || op == ReduceOp::max;
  if (dtype == DType::boolean) return bits || order;
  if (bits) return is_integral(dtype);
  return !(order && is_complex(dtype));
}

TEST_P(Conformance, Reductions_EveryOpAndDtype_EqualReference) {
  const ReduceOp ops[] = {ReduceOp::sum, ReduceOp::avg,  ReduceOp::prod,
                          ReduceOp::min, ReduceOp::max,  ReduceOp::band,
                          ReduceOp::bor, ReduceOp::bxor, ReduceOp::premul_sum};
  int64_t checked = 0;
  for (int d = 0; d < kDTypeCount; ++d)
    for (ReduceOp op : ops) {
      const DType dtype = static_cast<DType>(d);
      if (!can_reduce(op, dtype)) continue;
      Collective c;
      c.kind = CollectiveKind::all_reduce;
      c.reduction = {op, op == ReduceOp::premul_sum ? 2.0 : 0.0};
      c.dtype = dtype;
      c.group = Group::of_axes(mesh(), {1});
      c.count = 5;
      check_collective(GetParam(), c);
      ++checked;
    }
  EXPECT_GT(checked, 80);
}

TEST_P(Conformance, Collectives_EveryKindAndGroup_EqualReference) {
  for (const Group& group : groups())
    for (int k = 0; k <= static_cast<int>(CollectiveKind::barrier); ++k) {
      Collective c;
      c.kind = static_cast<CollectiveKind>(k);
      if (has_counts(c.kind)) continue;
      c.group = group;
      c.root = has_root(c.kind) ? group.size() - 1 : 0;
      c.count = c.kind == CollectiveKind::barrier ? 0 : 2 * group.size();
      c.dtype = DType::f32;
      check_collective(GetParam(), c);
    }
}

TEST_P(Conformance, Collectives_NoElements_Complete) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                    CollectiveKind::all_to_all, CollectiveKind::broadcast}) {
    Collective c;
    c.kind = kind;
    c.group = Group::of_axes(mesh(), {0});
    check_collective(GetParam(), c);
  }
}

// Rank r sends (r + to) % 3 elements to member `to`.
int64_t uneven(int64_t from, int64_t to) { return (from + to) % 3; }

TEST_P(Conformance, AllToAllV_UnevenCounts_ArriveInSenderOrder) {
  Collective c;
  c.kind = CollectiveKind::all_to_all_v;
  c.group = Group::of_axes(mesh(), {1});
  if (GetParam().unsupported_reason(c)) return;
  const auto position = [&](int64_t rank) { return c.group.index_of(rank); };
  for (const std::vector<Lanes>& cohorts : groupings(kRanks)) {
    const ConformanceRun run = run_hosts(GetParam(), world_of(kRanks), cohorts, [&](Host& host) {
      std::vector<Block> in, out;
      Call call = host.call(c, nullptr, nullptr);
      for (int64_t lane = 0; lane < host.lanes.size(); ++lane) {
        const int64_t rank = host.lanes[lane];
        std::vector<int64_t> send, recv;
        for (int64_t i = 0; i < 3; ++i) send.push_back(uneven(position(rank), i));
        for (int64_t i = 0; i < 3; ++i) recv.push_back(uneven(i, position(rank)));
        const int64_t brought = send[0] + send[1] + send[2], gotten = recv[0] + recv[1] + recv[2];
        const auto value = [](int64_t r, int64_t i) { return static_cast<double>(100 * r + i); };
        in.push_back(filled(Lanes::one(rank), DType::f32, brought, value).blocks()[0]);
        out.push_back(promised(Lanes::one(rank), DType::f32, gotten).blocks()[0]);
        call.send_counts.push_back(send);
        call.recv_counts.push_back(recv);
      }
      call.input = host.keep(LocalTensor(std::move(in)));
      call.output = host.keep(LocalTensor(std::move(out)), "y");
      host.submit({call});
    });
    ASSERT_EQ(verdict_text(run.report), "");
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      if (!here(kRanks).contains(rank)) continue;
      std::vector<double> want;
      for (int64_t from = 0; from < 3; ++from) {
        const int64_t sender = c.group.member(c.group.sibling_of(rank), from);
        int64_t start = 0;
        for (int64_t to = 0; to < position(rank); ++to) start += uneven(from, to);
        for (int64_t i = 0; i < uneven(from, position(rank)); ++i)
          want.push_back(static_cast<double>(100 * sender + start + i));
      }
      ASSERT_EQ(run.values("y", rank), want) << "rank " << rank;
    }
  }
}

Collective message(CollectiveKind kind, const Group& group, int64_t count) {
  Collective c;
  c.kind = kind;
  c.group = group;
  c.count = count;
  return c;
}

TEST_P(Conformance, GroupedRing_SendsEachShardOn) {
  const Group ring = Group::of_axes(mesh(), {1});
  for (const std::vector<Lanes>& cohorts : groupings(kRanks)) {
    const ConformanceRun run = run_hosts(GetParam(), world_of(kRanks), cohorts, [&](Host& host) {
      Call send = host.call(
          message(CollectiveKind::send, ring, 3),
          host.keep(filled(host.lanes, DType::f32, 3,
                           [](int64_t r, int64_t i) { return 10.0 * double(r) + double(i); })),
          nullptr);
      Call recv = host.call(message(CollectiveKind::recv, ring, 3), nullptr,
                            host.keep(promised(host.lanes, DType::f32, 3), "y"));
      for (int64_t lane = 0; lane < host.lanes.size(); ++lane) {
        const int64_t index = ring.index_of(host.lanes[lane]);
        send.peers.push_back((index + 1) % 3);
        recv.peers.push_back((index + 2) % 3);
      }
      host.submit({send, recv});
    });
    ASSERT_EQ(verdict_text(run.report), "");
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      if (!here(kRanks).contains(rank)) continue;
      const double from = 10.0 * double(rank / 3 * 3 + (rank + 2) % 3);
      EXPECT_EQ(run.values("y", rank), (std::vector<double>{from, from + 1, from + 2}));
    }
  }
}

TEST_P(Conformance, Messages_OfOnePair_StayInOrder_AndSelfSendNeedsGroup) {
  const Group world = Group::world(2);
  const ConformanceRun run = run_hosts(GetParam(), world_of(2), cohorts_of_one(2), [&](Host& host) {
    const int64_t me = host.lanes[0];
    for (int64_t k = 0; k < 3; ++k) {
      Call call;
      if (me == 0) {
        const auto value = [k](int64_t, int64_t) { return double(k + 1); };
        call = host.call(message(CollectiveKind::send, world, 1),
                         host.keep(filled(host.lanes, DType::f32, 1, value)), nullptr);
      } else {
        call = host.call(message(CollectiveKind::recv, world, 1), nullptr,
                         host.keep(promised(host.lanes, DType::f32, 1), "m" + std::to_string(k)));
      }
      call.collective.peer = 1 - me;
      host.submit({call});
    }
    Call to_self = host.call(message(CollectiveKind::send, world, 1),
                             host.keep(filled(host.lanes, DType::f32, 1,
                                              [](int64_t r, int64_t) { return double(40 + r); })),
                             nullptr);
    Call from_self = host.call(message(CollectiveKind::recv, world, 1), nullptr,
                               host.keep(promised(host.lanes, DType::f32, 1), "self"));
    to_self.collective.peer = from_self.collective.peer = me;
    host.submit({to_self, from_self});
  });
  ASSERT_EQ(verdict_text(run.report), "");
  for (int64_t k = 0; k < 3 && here(2).contains(1); ++k)
    EXPECT_EQ(run.values("m" + std::to_string(k), 1), std::vector<double>{double(k + 1)});
  for (int64_t rank = 0; rank < 2; ++rank)
    if (here(2).contains(rank)) {
      EXPECT_EQ(run.values("self", rank), std::vector<double>{double(40 + rank)});
    }
}

}  // namespace
}  // namespace shardproof::conformance_values
