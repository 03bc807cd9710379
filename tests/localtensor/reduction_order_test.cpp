// Tests reduction_order.h. If every sum is exact, all orders give the same values. Otherwise bits
// are compared with additions written out here, and the split over channels with NCCL's.
#include "shardproof/localtensor/collective/reduction_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/localtensor/ordered_call.h"

namespace shardproof::reduction_order_test {
namespace {

// --- splits

TEST(ReductionOrder, ChannelCounts_AreThoseOfNccl) {
  const auto counts = [](int64_t elements, const char* protocol) {
    return channel_counts(all_reduce(8, DType::f32, elements,
                                     std::string("ring(channels=24, protocol=") + protocol + ")"));
  };
  EXPECT_EQ(counts(16384, "ll"), (std::vector<int64_t>{8192, 8192}));
  std::vector<int64_t> expected(23, 11264);
  expected.push_back(3072);
  EXPECT_EQ(counts(262144, "ll"), expected);
  expected.assign(21, 12288);
  expected.push_back(4096);
  EXPECT_EQ(counts(262144, "simple"), expected);
  expected.assign(23, 700416);
  expected.push_back(667648);
  EXPECT_EQ(counts(16777216, "simple"), expected);
  expected.assign(22, 45056);
  expected.push_back(8771);
  EXPECT_EQ(counts(1000003, "simple"), expected);
}

// Expected counts: computed with the arithmetic of each version's src/enqueue.cc.
TEST(ReductionOrder, ChannelCounts_OfOlderVersions_AreThoseOfNccl) {
  const auto counts = [](int64_t members, DType dtype, int64_t elements, const char* settings) {
    return channel_counts(
        all_reduce(members, dtype, elements, std::string("ring(") + settings + ")"));
  };
  const auto by_ll = [&](const char* version) {
    return counts(2, DType::f32, 50000, (std::string("channels=4, protocol=ll") + version).c_str());
  };
  EXPECT_EQ(by_ll(", nccl=2.23"), (std::vector<int64_t>{14336, 14336, 14336, 6992}));
  EXPECT_EQ(by_ll(", nccl=2.25"), by_ll(", nccl=2.23"));
  EXPECT_EQ(by_ll(", nccl=2.26"), (std::vector<int64_t>{12800, 12800, 12800, 11600}));
  EXPECT_EQ(by_ll(", nccl=2.28"), by_ll(", nccl=2.26"));
  EXPECT_EQ(by_ll(", nccl=2.29"), (std::vector<int64_t>{13312, 13312, 13312, 10064}));
  EXPECT_EQ(by_ll(""), by_ll(", nccl=2.29"));
  std::vector<int64_t> expected(23, 43008);
  expected.push_back(10819);
  EXPECT_EQ(counts(8, DType::f32, 1000003, "channels=24, nccl=2.28"), expected);
  // NCCL uses 18 channels, and one more for the rest, because the communicator has more.
  expected.assign(18, 32768);
  expected.push_back(1);
  EXPECT_EQ(counts(4, DType::u8, 589825, "channels=24"), expected);
  expected.assign(11, 49152);
  expected.push_back(49153);
  EXPECT_EQ(counts(4, DType::u8, 589825, "channels=12"), expected);
}

TEST(ReductionOrder, IsOrderOfNccl_DependsOnTheVersion) {
  const auto is = [](const char* order, int version) {
    return is_order_of_nccl(parse_reduction_schedule(order), version);
  };
  const std::vector<std::pair<const char*, int>> firsts = {
      {"rank", 20000}, {"ring", 22304},          {"ring(nccl=2.28)", 22304}, {"nvls", 22403},
      {"pat", 22602},  {"tree(nodes=2)", 22403}, {"exact", 20000},           {"symmetric", 22902}};
  for (const auto& [order, first] : firsts) {
    for (const int version : {first, first + 100, 22902, 23003})
      EXPECT_TRUE(is(order, version)) << order << " " << version;
    EXPECT_EQ(is(order, 23102), order != std::string("pat")) << order;
    EXPECT_EQ(is(order, first - 100), first == 20000) << order;
  }
  EXPECT_TRUE(is("ring(channels=2)", 22902));
  EXPECT_TRUE(is("ring(channels=2)", 30000));
  EXPECT_FALSE(is("ring(channels=2)", 22809));
  EXPECT_TRUE(is("tree(channels=2, nccl=2.28)", 22602));
  EXPECT_FALSE(is("tree(channels=2, nccl=2.28)", 22506));
  EXPECT_FALSE(is("tree(channels=2, nccl=2.28)", 22902));
  EXPECT_FALSE(is("ring(channels=2, nccl=2.23)", 22203));
  EXPECT_TRUE(is("tree(nodes=4)", 22902));
  EXPECT_TRUE(is("tree(nodes=2, channels=2)", 22902));
  EXPECT_FALSE(is("tree(nodes=3, channels=2)", 22902));
  EXPECT_EQ(to_string(with_nccl(parse_reduction_schedule("ring(channels=2)"), 22809)),
            "ring(channels=2, nccl=2.28)");
  EXPECT_EQ(to_string(with_nccl(parse_reduction_schedule("ring(nccl=2.28)"), 23003)), "ring");
}

// Returns the tree as text: "0( 1)" is a root whose only child is its second one.
std::string tree_text(const std::vector<TreeNode>& tree, int64_t node) {
  if (node < 0) return "";
  const auto [up, down] = tree[static_cast<size_t>(node)];
  for (const int64_t child : down)
    EXPECT_TRUE(child < 0 || tree[static_cast<size_t>(child)].up == node);
  if (down[0] < 0 && down[1] < 0) return std::to_string(node);
  return fmt::format("{}({} {})", node, tree_text(tree, down[0]), tree_text(tree, down[1]));
}

TEST(ReductionOrder, DoubleBinaryTrees_AreThoseOfNccl) {
  const auto text = [](int64_t nodes, int64_t which) {
    const std::vector<TreeNode> tree = double_binary_tree(nodes, which);
    for (int64_t node = 0; node < nodes; ++node)
      if (tree[static_cast<size_t>(node)].up < 0) return tree_text(tree, node);
    return std::string("no root");
  };
  EXPECT_EQ(text(1, 0), "0");
  EXPECT_EQ(text(2, 0), "0( 1)");
  EXPECT_EQ(text(2, 1), "1( 0)");
  EXPECT_EQ(text(3, 0), "0( 2(1 ))");
  EXPECT_EQ(text(3, 1), "1( 0(2 ))");
  EXPECT_EQ(text(4, 0), "0( 2(1 3))");
  EXPECT_EQ(text(4, 1), "3( 1(2 0))");
  EXPECT_EQ(text(5, 0), "0( 4(2(1 3) ))");
  EXPECT_EQ(text(5, 1), "1( 0(3(2 4) ))");
  EXPECT_EQ(text(8, 0), "0( 4(2(1 3) 6(5 7)))");
  EXPECT_EQ(text(8, 1), "7( 3(5(6 4) 1(2 0)))");
}

TEST(ReductionOrder, RangesCoverEveryElementAndEveryMemberOnce) {
  for (const char* order :
       {"ring", "tree", "ring(channels=24)", "tree(channels=4, protocol=ll)",
        "ring(channels=3, protocol=ll128)", "tree(nodes=2, channels=2)",
        "ring(channels=24, nccl=2.28)", "ring(channels=5, protocol=ll, nccl=2.24)", "pat",
        "pat(channels=5)", "symmetric", "symmetric(channels=7)", "symmetric(protocol=ll)"})
    for (const int64_t members : {2, 4, 6, 10, 18})
      for (const int64_t count : {1, 7, 1000, 70001, 3000000}) {
        Collective call = all_reduce(members, DType::bf16, count, order);
        if (call.schedule.order == FoldOrder::pat) call.kind = CollectiveKind::reduce_scatter;
        const int64_t all = call.kind == CollectiveKind::reduce_scatter ? members * count : count;
        int64_t at = 0;
        for (const FoldRange& range : fold_ranges(call)) {
          EXPECT_EQ(range.first, at);
          EXPECT_GT(range.count, 0);
          at += range.count;
          std::vector<int> times(static_cast<size_t>(members));
          int height = 0;
          for (const FoldStep& step : range.steps) {
            if (step.kind != FoldStep::Kind::merge) ++times[static_cast<size_t>(step.member)];
            if (step.kind == FoldStep::Kind::push) ++height;
            if (step.kind == FoldStep::Kind::merge) --height;
          }
          EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(members), 1));
          EXPECT_EQ(height, 1);
        }
        EXPECT_EQ(at, all) << order;
      }
}

// --- values

TEST(ReductionOrder, AllOrders_WithExactSums_Agree) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::u8})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::prod})
      for (const int64_t members : {1, 2, 3, 4, 8})
        for (const char* order : {"f32", "exact", "ring", "tree", "tree(channels=4, nodes=1)",
                                  "pat", "symmetric", "symmetric(protocol=ll)", "nvls"}) {
          Collective call = all_reduce(members, dtype, 2500, order, {op, 0});
          const bool scatters = call.schedule.order == FoldOrder::pat;
          if (scatters) call.kind = CollectiveKind::reduce_scatter;
          std::vector<Tensor> inputs;
          for (int64_t member = 0; member < members; ++member) {
            std::vector<double> values;
            for (int64_t i = 0; i < call.count * (scatters ? members : 1); ++i)
              values.push_back(double((member * 5 + i * 3) % 3));
            inputs.push_back(tensor(dtype, values));
          }
          const auto ordered = reference(call, inputs);
          call.schedule = {};
          const auto plain = reference(call, inputs);
          for (int64_t i = 0; i < call.count; ++i)
            ASSERT_EQ(at(*ordered[0], i), at(*plain[0], i)) << order << " " << name(dtype);
        }
}

// Chunk c of each channel's loop ends at member c.
TEST(ReductionOrder, Ring_AddsFromTheMemberAfterTheLast) {
  const int64_t members = 4, count = 1003;
  const Collective call = all_reduce(members, DType::f32, count, "ring");
  const std::vector<Tensor> inputs = noisy(call, count);
  const auto result = reference(call, inputs);
  const int64_t chunk = 252;  // ceil(1003 / 4), up to 16 bytes
  int64_t unlike_rank_order = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t last = i / chunk;
    const auto x = [&](int64_t step) {
      return static_cast<float>(at(inputs[static_cast<size_t>((last + step) % members)], i));
    };
    const float sum = ((x(1) + x(2)) + x(3)) + x(4);
    ASSERT_EQ(at(*result[2], i), sum) << i;
    const auto r = [&](size_t member) { return static_cast<float>(at(inputs[member], i)); };
    unlike_rank_order += sum != ((r(0) + r(1)) + r(2)) + r(3);
  }
  EXPECT_GT(unlike_rank_order, 50);
}

TEST(ReductionOrder, TreeOnOneNode_IsAChainToTheFirstMember) {
  const Collective call = all_reduce(3, DType::bf16, 500, "tree");
  const std::vector<Tensor> inputs = noisy(call, call.count);
  const auto result = reference(call, inputs);
  for (int64_t i = 0; i < call.count; ++i) {
    const auto narrow = [](double x) { return at(tensor(DType::bf16, {x}), 0); };
    const double sum = narrow(at(inputs[0], i) + narrow(at(inputs[1], i) + at(inputs[2], i)));
    ASSERT_EQ(at(*result[0], i), sum);
  }
}

// The root's only child is its second one, which is added to the head of the chain.
TEST(ReductionOrder, TreeOnSeveralNodes_AddsChildNodesToTheHead) {
  for (const size_t per_node : {2, 3}) {
    std::vector<Tensor> inputs(2 * per_node, tensor(DType::f32, {0}));
    inputs[0] = tensor(DType::f32, {1e8});
    inputs[1] = tensor(DType::f32, {-1e8});
    inputs[per_node] = tensor(DType::f32, {1});
    const Collective call = all_reduce(std::ssize(inputs), DType::f32, 1, "tree(nodes=2)");
    EXPECT_EQ(at(*reference(call, inputs)[0], 0), 1);
  }
}

TEST(ReductionOrder, RingOfReduceScatter_EndsAtTheOwner) {
  Collective call = all_reduce(3, DType::f32, 200, "ring");
  call.kind = CollectiveKind::reduce_scatter;
  const std::vector<Tensor> inputs = noisy(call, 600);
  const auto result = reference(call, inputs);
  for (size_t owner = 0; owner < 3; ++owner)
    for (int64_t i = 0; i < call.count; ++i) {
      const auto x = [&](size_t step) {
        const int64_t element = static_cast<int64_t>(owner) * call.count + i;
        return static_cast<float>(at(inputs[(owner + step) % 3], element));
      };
      ASSERT_EQ(at(*result[owner], i), (x(1) + x(2)) + x(3));
    }
}

// By distance from the destination: 0 adds 2, 4 and 1, in this order; 4 adds 6 and 5.
TEST(ReductionOrder, PatOfEightMembers_AddsAlongItsTree) {
  Collective call = all_reduce(8, DType::f32, 50, "pat");
  call.kind = CollectiveKind::reduce_scatter;
  const std::vector<Tensor> inputs = noisy(call, 400);
  const auto result = reference(call, inputs);
  int64_t unlike_the_ring = 0;
  for (size_t owner = 0; owner < 8; ++owner)
    for (int64_t i = 0; i < call.count; ++i) {
      const auto x = [&](size_t distance) {
        const int64_t element = static_cast<int64_t>(owner) * call.count + i;
        return static_cast<float>(at(inputs[(owner + 8 - distance) % 8], element));
      };
      const float far = ((x(7) + x(6)) + x(4)) + x(5);
      ASSERT_EQ(at(*result[owner], i), (((x(3) + x(2)) + x(0)) + far) + x(1));
      float ring = x(7);
      for (size_t step = 7; step-- > 0;) ring += x(step);
      unlike_the_ring += at(*result[owner], i) != ring;
    }
  EXPECT_GT(unlike_the_ring, 50);
}

// Tiles of 2 KiB, then of 512 bytes, as long as they fill a block of every member. Then each member
// in turn has one warp of elements.
TEST(ReductionOrder, Symmetric_AddsFromTheOwnerOn) {
  const int64_t count = 20000;
  const Collective call = all_reduce(4, DType::f32, count, "symmetric");
  const std::vector<Tensor> inputs = noisy(call, count);
  const auto result = reference(call, inputs);
  int64_t unlike_rank_order = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t tile = i < 16384 ? i / 512 : i < 18432 ? (i - 16384) / 128 : (i - 18432) / 32;
    const auto x = [&](int64_t step) {
      return static_cast<float>(at(inputs[static_cast<size_t>((tile + step) % 4)], i));
    };
    const float sum = ((x(0) + x(1)) + x(2)) + x(3);
    ASSERT_EQ(at(*result[1], i), sum) << i;
    const auto r = [&](size_t member) { return static_cast<float>(at(inputs[member], i)); };
    unlike_rank_order += sum != ((r(0) + r(1)) + r(2)) + r(3);
  }
  EXPECT_GT(unlike_rank_order, 1000);
}

TEST(ReductionOrder, Symmetric_RoundsOnce) {
  const Collective call = all_reduce(3, DType::bf16, 500, "symmetric(protocol=ll)");
  const std::vector<Tensor> inputs = noisy(call, call.count);
  const auto result = reference(call, inputs);
  const auto narrow = [](double x) { return at(tensor(DType::bf16, {x}), 0); };
  int64_t unlike_two_roundings = 0;
  for (int64_t i = 0; i < call.count; ++i) {
    const auto x = [&](size_t member) { return static_cast<float>(at(inputs[member], i)); };
    ASSERT_EQ(at(*result[2], i), narrow((x(0) + x(1)) + x(2)));
    unlike_two_roundings += at(*result[2], i) != narrow(narrow(x(0) + x(1)) + double(x(2)));
  }
  EXPECT_GT(unlike_two_roundings, 20);
}

TEST(ReductionOrder, Symmetric_ScalesTheWholeSum) {
  for (const char* order : {"symmetric", "symmetric(protocol=ll)"}) {
    Collective call = all_reduce(3, DType::bf16, 64, order, {ReduceOp::avg, 0});
    call.kind = CollectiveKind::reduce_scatter;
    const std::vector<Tensor> inputs = noisy(call, 192);
    const auto result = reference(call, inputs);
    const bool ll = call.schedule.protocol == NcclProtocol::ll;
    for (size_t owner = 0; owner < 3; ++owner)
      for (int64_t i = 0; i < call.count; ++i) {
        const auto x = [&](size_t step) {
          const int64_t element = static_cast<int64_t>(owner) * call.count + i;
          return static_cast<float>(at(inputs[((ll ? 0 : owner) + step) % 3], element));
        };
        const float mean = ((x(0) + x(1)) + x(2)) * (1.0f / 3);
        ASSERT_EQ(at(*result[owner], i), at(tensor(DType::bf16, {mean}), 0)) << order;
      }
  }
}

TEST(ReductionOrder, CallWithoutTheAlgorithm_UsesTheRing) {
  const auto order = [](CollectiveKind kind, DType dtype, ReduceOp op, const char* text) {
    Collective call = all_reduce(2, dtype, 4, text, {op, 0});
    call.kind = kind;
    return order_of(call);
  };
  constexpr auto kAllReduce = CollectiveKind::all_reduce;
  constexpr auto kScatter = CollectiveKind::reduce_scatter;
  EXPECT_EQ(order(kAllReduce, DType::f32, ReduceOp::sum, "pat"), FoldOrder::ring);
  EXPECT_EQ(order(kScatter, DType::f32, ReduceOp::sum, "pat"), FoldOrder::pat);
  EXPECT_EQ(order(kScatter, DType::f32, ReduceOp::avg, "pat"), FoldOrder::ring);
  EXPECT_EQ(order(kScatter, DType::f32, ReduceOp::sum, "tree"), FoldOrder::ring);
  EXPECT_EQ(order(kAllReduce, DType::f64, ReduceOp::sum, "symmetric"), FoldOrder::ring);
  EXPECT_EQ(order(kAllReduce, DType::i32, ReduceOp::sum, "symmetric"), FoldOrder::ring);
  EXPECT_EQ(order(kAllReduce, DType::f32, ReduceOp::max, "symmetric"), FoldOrder::ring);
  EXPECT_EQ(order(CollectiveKind::reduce, DType::f32, ReduceOp::sum, "symmetric"), FoldOrder::ring);
  EXPECT_EQ(order(kAllReduce, DType::f16, ReduceOp::avg, "symmetric"), FoldOrder::symmetric);
}

TEST(ReductionOrder, IntegerAverage_DividesTheWrappedSum) {
  const Collective call = all_reduce(2, DType::i8, 1, "ring", {ReduceOp::avg, 0});
  const auto result = reference(call, {tensor(DType::i8, {100}), tensor(DType::i8, {101})});
  EXPECT_EQ(at(*result[0], 0), (201 - 256) / 2);
}

// f8 sums are made in half precision: two roundings, and no infinity.
TEST(ReductionOrder, SmallFloatsAreAddedInHalf) {
  const Collective call = all_reduce(2, DType::f8e4m3, 1, "ring");
  const auto in = [](DType dtype, double x) { return at(tensor(dtype, {x}), 0); };
  int64_t twice = 0;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      Tensor x = tensor(DType::f8e4m3, {0}), y = x;
      y.buffer = tensor(DType::f8e4m3, {0}).buffer;
      *x.mutate() = static_cast<std::byte>(a);
      *y.mutate() = static_cast<std::byte>(b);
      const double sum = at(x, 0) + at(y, 0);
      if (std::isnan(sum)) continue;
      const double half = in(DType::f8e4m3, std::clamp(in(DType::f16, sum), -448.0, 448.0));
      ASSERT_EQ(at(*reference(call, {x, y})[0], 0), half) << at(x, 0) << " + " << at(y, 0);
      twice += half != in(DType::f8e4m3, sum);
    }
  EXPECT_GT(twice, 0);
}

TEST(ReductionOrder, MinAndMaxOfNccl_DropNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    Collective call = all_reduce(2, DType::f32, 1, "ring", {op, 0});
    EXPECT_EQ(at(*reference(call, {tensor(DType::f32, {nan}), tensor(DType::f32, {3})})[0], 0), 3);
    EXPECT_EQ(at(*reference(call, {tensor(DType::f32, {3}), tensor(DType::f32, {nan})})[0], 0), 3);
    for (const double zero : {0.0, -0.0}) {  // -0 is less than +0
      const auto one = reference(call, {tensor(DType::f32, {zero}), tensor(DType::f32, {-zero})});
      EXPECT_EQ(std::signbit(at(*one[0], 0)), op == ReduceOp::min);
    }
    call.schedule = {};
    EXPECT_TRUE(std::isnan(
        at(*reference(call, {tensor(DType::f32, {nan}), tensor(DType::f32, {3})})[0], 0)));
  }
}

TEST(ReductionOrder, ExactSum_RoundsOnce) {
  const auto sum = [](DType dtype, const char* order, const std::vector<double>& parts) {
    std::vector<Tensor> inputs;
    for (const double part : parts) inputs.push_back(tensor(dtype, {part}));
    const Collective call = all_reduce(static_cast<int64_t>(parts.size()), dtype, 1, order);
    return at(*reference(call, inputs)[0], 0);
  };
  EXPECT_EQ(sum(DType::f32, "exact", {1e8, 1, -1e8}), 1);
  EXPECT_EQ(sum(DType::f32, "rank", {1e8, 1, -1e8}), 0);
  EXPECT_EQ(sum(DType::f64, "exact", {1e300, 1, -1e300, 1e-300}), 1);
  EXPECT_EQ(sum(DType::bf16, "f32", {256, 1, 1}), 258);
  EXPECT_EQ(sum(DType::bf16, "rank", {256, 1, 1}), 256);
}

// --- text

TEST(ReductionOrder, PrintsAndParses) {
  for (const char* text :
       {"rank", "f32", "exact", "ring", "tree", "ring(channels=24)",
        "tree(channels=2, protocol=ll128, nodes=4)", "ring(protocol=ll)", "pat(channels=3)",
        "symmetric(channels=16, protocol=ll)", "nvls", "ring(channels=4, protocol=ll, nccl=2.28)"})
    EXPECT_EQ(to_string(parse_reduction_schedule(text)), text);
  // NCCL has neither trees nor sums in the switch for all kinds of calls.
  const std::string plain = " NCCL_NVLS_ENABLE=0 NCCL_COLLNET_ENABLE=0";
  const std::string one = " NCCL_MIN_CTAS=1 NCCL_MAX_CTAS=1" + plain;
  const std::string ctas = " NCCL_MIN_CTAS=2 NCCL_MAX_CTAS=2", two = ctas + plain;
  const std::string threads = " NCCL_NTHREADS=512 NCCL_LL128_NTHREADS=640";
  const std::vector<std::pair<const char*, std::string>> pins = {
      {"ring(channels=2)", "NCCL_ALGO=Ring NCCL_PROTO=Simple" + ctas + threads + plain},
      {"tree", "NCCL_ALGO=\"Ring;allreduce:Tree\" NCCL_PROTO=Simple" + one},
      {"nvls",
       "NCCL_ALGO=\"Ring;allreduce:NVLS;reducescatter:NVLS\" NCCL_PROTO=Simple "
       "NCCL_NVLS_ENABLE=1"},
      {"pat(channels=2)", "NCCL_ALGO=\"Ring;reducescatter:PAT\" NCCL_PROTO=Simple" + two},
      {"symmetric(channels=8)",
       "NCCL_SYM_NOWIN_ENABLE=1 NCCL_SYM_KERNEL=AllReduce_RSxLD_AGxST NCCL_SYM_CTAS=8" + plain},
  };
  for (const auto& [text, environment] : pins)
    EXPECT_EQ(nccl_environment(parse_reduction_schedule(text)), environment) << text;
  EXPECT_EQ(nccl_environment({}), "");
  EXPECT_EQ(to_string(parse_reduction_schedule("ring(channels=4, nccl=2.30)")), "ring(channels=4)");
}

TEST(ReductionOrder, WrongText_IsExplained) {
  const auto message = [](const char* text) {
    try {
      parse_reduction_schedule(text);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("was accepted");
  };
  EXPECT_NE(message("rign").find("did you mean \"ring\""), std::string::npos);
  EXPECT_NE(message("ring(chanels=2)").find("did you mean \"channels\""), std::string::npos);
  EXPECT_NE(message("ring(channels=0)").find("from 1 on"), std::string::npos);
  EXPECT_NE(message("ring(channels=2").find("\")\""), std::string::npos);
  EXPECT_NE(message("rank(channels=2)").find("no settings"), std::string::npos);
  EXPECT_NE(message("nvls(channels=2)").find("no settings"), std::string::npos);
  EXPECT_NE(message("pat(protocol=ll)").find("expected protocol simple, found ll"),
            std::string::npos);
  EXPECT_NE(message("symmetric(protocol=ll128)").find("simple or ll"), std::string::npos);
  EXPECT_NE(message("symmetric(nodes=2)").find("found nodes=2"), std::string::npos);
  for (const char* const version : {"2.22", "28", "2.28.9", "2.", "3.0", ""})
    EXPECT_NE(message(("ring(nccl=" + std::string(version) + ")").c_str())
                  .find("expected a version from 2.23 on, such as 2.28"),
              std::string::npos);
  EXPECT_NE(message("tree(nccl=2.23)").find("nccl=2.24 or newer"), std::string::npos);
  EXPECT_NE(message("pat(nccl=2.25)").find("nccl=2.26 or newer"), std::string::npos);
  EXPECT_NE(message("symmetric(nccl=2.28)").find("found nccl=2.28"), std::string::npos);
  EXPECT_THROW(reference(all_reduce(3, DType::f32, 4, "tree(nodes=2)"),
                         noisy(all_reduce(3, DType::f32, 4, "tree"), 4)),
               Error);
}

}  // namespace
}  // namespace shardproof::reduction_order_test
