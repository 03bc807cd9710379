// Implements reduction_order.h: NCCL's split of a call over channels and chunks, and the order of
// additions in each chunk for rings and trees.
//
//   1. deal: the call is cut into cells of fixed size, which are assigned to channels. The first
//      channel gets `low` cells, the following ones `middle` each, the last one `high`.
//   2. Ring: a channel's part is processed in loops of n chunks. Chunk c ends at member c, so it is
//      folded in the order c+1, c+2, ..., c.
//   3. Tree: the whole part of a channel is folded up one of the two trees over the nodes. The
//      members of a node are a chain.
//
// Example of 1: all_reduce of 2^20 f32 over 4 members, ring(channels=4). A cell is 16 KiB (4096
// elements): 32 KiB of traffic at 2 bytes moved for each byte. 256 cells over 4 channels: low =
// middle = 64, middles = 3, high = 0; each channel has 262,144 elements.
//
// Example of 2: 64 f32 over 4 members, one channel, chunks of 16 elements. [0, 16) is folded in the
// order 1 2 3 0, [16, 32) in the order 2 3 0 1, and so on.
//
// Example of 3: 4 members on 2 nodes. Node 1 is the child of node 0: push 1, own 0, push 3, own 2,
// merge, which is (x0 + x1) + (x2 + x3).
#include <algorithm>
#include <array>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/nccl_orders.h"

namespace shardproof {
namespace {

constexpr int64_t kKib = 1024;
constexpr int64_t kSimpleStep = 4096 * kKib / 8;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t align_up(int64_t a, int64_t to) { return divide_up(a, to) * to; }

bool uses_tree(const Collective& call) { return order_of(call) == FoldOrder::tree; }

// Returns the bytes of one chunk of a channel (calcCollChunking).
int64_t chunk_bytes(const Collective& call) {
  const bool tree = uses_tree(call);
  const bool reduces_to_one = call.kind == CollectiveKind::reduce;
  switch (call.schedule.protocol) {
    case NcclProtocol::simple: return tree || reduces_to_one ? kSimpleStep : 4 * kSimpleStep;
    case NcclProtocol::ll: return 512 * kKib / 8 / 2;
    case NcclProtocol::ll128: return 120 * 640 * 8 * 8 / 8 * 15 / 16 / 1920 * 1920;
  }
  SP_UNREACHABLE("protocol {}", static_cast<int>(call.schedule.protocol));
}

// Returns the number of channels that NCCL uses for a call of `bytes` bytes (topoGetAlgoInfo).
int64_t channels_worth(const Collective& call, int64_t bytes) {
  // NCCL sets no thread count for PAT, so its loop that lowers the channels does nothing.
  if (order_of(call) == FoldOrder::pat) return call.schedule.channels;
  const NcclProtocol protocol = call.schedule.protocol;
  const bool ll = protocol == NcclProtocol::ll;
  const int64_t threads = protocol == NcclProtocol::ll128 ? 640 : 512;
  int64_t threshold = protocol == NcclProtocol::simple ? 64 : 8;
  if (ll && !uses_tree(call)) threshold *= call.group.size();
  int64_t channels = call.schedule.channels;
  while (channels >= 2 && bytes < channels * threads * threshold) --channels;
  return channels;
}

// The cells of a call and their assignment to channels (scheduleCollTasksToPlan).
struct Cells {
  int64_t elements = 0;  // elements of one cell
  int64_t low = 0, middle = 0, middles = 0, high = 0;
};

// Constants of the assignment that differ between versions of NCCL.
struct Dealing {
  int64_t least_traffic, aligns_to;  // bytes
  int ll_weight;                     // factor for traffic by the protocol LL
};

Dealing dealing_of(const ReductionSchedule& schedule) {
  if (schedule.nccl == 0) return {32768, 16, 4};
  return {16384, 1, schedule.nccl < 26 ? 1 : 4};
}

Cells deal(const Collective& call) {
  const Dealing dealing = dealing_of(call.schedule);
  const int64_t size = size_of(call.dtype), n = call.group.size();
  const bool ll = call.schedule.protocol == NcclProtocol::ll;
  const int64_t share = call.kind == CollectiveKind::all_reduce       ? 2
                        : call.kind == CollectiveKind::reduce_scatter ? n
                                                                      : 1;
  const int64_t per_byte = share * (ll ? dealing.ll_weight : 1);
  const int64_t bytes = call.count * size;
  const int64_t moved = call.kind == CollectiveKind::reduce_scatter ? bytes * n : bytes;
  const int64_t channels = call.schedule.channels;
  const int64_t cell = align_up(divide_up(dealing.least_traffic, per_byte), 16);
  const int64_t cells = divide_up(bytes, cell);
  const int64_t traffic = std::max(dealing.least_traffic, bytes * per_byte);
  int64_t per_channel = align_up(traffic / channels_worth(call, moved), dealing.aligns_to);
  if (call.schedule.nccl != 0) per_channel = std::max(per_channel, dealing.least_traffic);
  Cells dealt;
  dealt.elements = cell / size;
  dealt.middle = std::min(cells, divide_up(per_channel, cell * per_byte));
  dealt.low = channels == 1 ? cells : dealt.middle;
  dealt.middles = (cells - dealt.low) / dealt.middle;
  dealt.high = (cells - dealt.low) % dealt.middle;
  if (1 + dealt.middles + (dealt.high != 0 ? 1 : 0) > channels) {
    dealt.middles = channels - 2;
    dealt.middle = (cells - dealt.low) / (dealt.middles + 1);
    dealt.high = dealt.middle + (cells - dealt.low) % (dealt.middles + 1);
  }
  return dealt;
}

// Returns the steps of the ring: from the member after `last`, around to `last`.
std::vector<FoldStep> ring_to(int64_t last, int64_t n) {
  std::vector<FoldStep> steps;
  for (int64_t i = 1; i <= n; ++i)
    steps.push_back({i == 1 ? FoldStep::Kind::push : FoldStep::Kind::own, (last + i) % n});
  return steps;
}

// Appends the steps of the subtree of a node. The members of a node are a chain. The second child
// node is a child of the chain's head. The first child node is a child of the member after the
// head, if there is one (balanced tree: NCCL's connectTrees).
void add_node(const std::vector<TreeNode>& tree, int64_t node, int64_t per_node,
              std::vector<FoldStep>& steps) {
  const int64_t head = node * per_node;
  const std::array<int64_t, 2>& below = tree[static_cast<size_t>(node)].down;
  const auto merge_child = [&](size_t child) {
    if (below[child] < 0) return;
    add_node(tree, below[child], per_node, steps);
    steps.push_back({FoldStep::Kind::merge, 0});
  };
  if (per_node == 1) {
    // The member's own elements are added to the result of its first child.
    const size_t first = below[0] >= 0 ? 0 : 1;
    const bool leaf = below[first] < 0;
    if (!leaf) add_node(tree, below[first], per_node, steps);
    steps.push_back({leaf ? FoldStep::Kind::push : FoldStep::Kind::own, head});
    if (first == 0) merge_child(1);
    return;
  }
  for (int64_t at = per_node - 1; at >= 0; --at) {
    steps.push_back({at == per_node - 1 ? FoldStep::Kind::push : FoldStep::Kind::own, head + at});
    if (at == 1) merge_child(0);
    if (at == 0) merge_child(1);
  }
}

std::vector<FoldStep> tree_steps(const Collective& call, int64_t channel) {
  const int64_t nodes = call.schedule.nodes, per_node = call.group.size() / nodes;
  if (call.group.size() % nodes != 0)
    throw_bad_input("order tree: {} members do not lie evenly on {} nodes", call.group.size(),
                    nodes);
  // The first half of the channels has one tree, the second half the other.
  const int64_t which = channel < divide_up(call.schedule.channels, 2) ? 0 : 1;
  const std::vector<TreeNode> tree = double_binary_tree(nodes, which);
  std::vector<FoldStep> steps;
  for (int64_t node = 0; node < nodes; ++node)
    if (tree[static_cast<size_t>(node)].up < 0) add_node(tree, node, per_node, steps);
  return steps;
}

// Appends the ranges of one channel's part: loops of n chunks, where chunk c ends at member c.
void add_ring_part(const Collective& call, int64_t first, int64_t count,
                   std::vector<FoldRange>& ranges) {
  const int64_t n = call.group.size(), size = size_of(call.dtype);
  for (int64_t at = 0; at < count;) {
    int64_t chunk = chunk_bytes(call) / size;
    const int64_t left = count - at;
    if (left < n * chunk) chunk = align_up(divide_up(left, n), std::max<int64_t>(16 / size, 1));
    for (int64_t c = 0; c < n && at < count; ++c) {
      const int64_t length = std::min(chunk, count - at);
      ranges.push_back({first + at, length, ring_to(c, n)});
      at += length;
    }
  }
}

// Each member's block is cut over the channels, and each part has trees of its own.
std::vector<FoldRange> pat_ranges(const Collective& call) {
  const int64_t n = call.group.size(), size = size_of(call.dtype);
  const std::vector<int64_t> counts = channel_counts(call);
  std::vector<FoldRange> ranges;
  for (int64_t member = 0; member < n; ++member) {
    int64_t at = member * call.count;
    for (const int64_t count : counts) {
      int64_t chunk = kSimpleStep;
      while (chunk * 16 > count * size * n && chunk > 64 * kKib) chunk /= 2;
      ranges.push_back({at, count, pat_steps(n, member, chunk / size, count)});
      at += count;
    }
  }
  return ranges;
}

}  // namespace

FoldOrder order_of(const Collective& call) {
  const FoldOrder order = call.schedule.order;
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  const ReduceOp op = call.reduction.op;
  const bool means = op == ReduceOp::avg || op == ReduceOp::sum;
  switch (order) {
    case FoldOrder::tree: return call.kind == CollectiveKind::all_reduce ? order : FoldOrder::ring;
    case FoldOrder::pat:
      return scatters && op != ReduceOp::avg && op != ReduceOp::premul_sum ? order
                                                                           : FoldOrder::ring;
    case FoldOrder::symmetric: {
      const bool both = scatters || call.kind == CollectiveKind::all_reduce;
      const bool narrow = is_floating(call.dtype) && call.dtype != DType::f64;
      return both && means && narrow ? order : FoldOrder::ring;
    }
    default: return order;
  }
}

std::vector<int64_t> channel_counts(const Collective& call) {
  if (call.count == 0) return {};
  const Cells cells = deal(call);
  std::vector<int64_t> counts;
  if (cells.low > 0) counts.push_back(cells.low * cells.elements);
  for (int64_t i = 0; i < cells.middles; ++i) counts.push_back(cells.middle * cells.elements);
  if (cells.high > 0) counts.push_back(cells.high * cells.elements);
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  counts.back() -= sum - call.count;  // the last cell may not be full
  return counts;
}

std::vector<FoldRange> fold_ranges(const Collective& call) {
  const int64_t n = call.group.size();
  const FoldOrder order = order_of(call);
  if (order == FoldOrder::pat && n > 1) return pat_ranges(call);
  if (order == FoldOrder::symmetric) return symmetric_ranges(call);
  std::vector<FoldRange> ranges;
  if (call.kind == CollectiveKind::reduce_scatter) {
    for (int64_t member = 0; member < n; ++member)
      ranges.push_back({member * call.count, call.count, ring_to(member, n)});
    return ranges;
  }
  if (call.kind == CollectiveKind::reduce) return {{0, call.count, ring_to(call.root, n)}};
  int64_t at = 0, channel = 0;
  for (const int64_t count : channel_counts(call)) {
    if (uses_tree(call))
      ranges.push_back({at, count, tree_steps(call, channel)});
    else
      add_ring_part(call, at, count, ranges);
    at += count;
    ++channel;
  }
  return ranges;
}

namespace {

// Returns a node of the first tree (ncclGetBtree). The position of its lowest set bit is its
// height.
TreeNode binary_tree_node(int64_t nodes, int64_t node) {
  TreeNode result;
  int64_t bit = 1;
  while (bit < nodes && (bit & node) == 0) bit <<= 1;
  if (node == 0) {
    if (nodes > 1) result.down[1] = bit >> 1;
    return result;
  }
  result.up = (node ^ bit) | (bit << 1);
  if (result.up >= nodes) result.up = node ^ bit;
  int64_t low = bit >> 1;
  if (low == 0) return result;
  result.down[0] = node - low;
  int64_t other = node + low;
  while (other >= nodes && low != 0) {
    low >>= 1;
    other = low == 0 ? -1 : node + low;
  }
  if (other >= 0 && other < nodes) result.down[1] = other;
  return result;
}

}  // namespace

std::vector<TreeNode> double_binary_tree(int64_t nodes, int64_t which) {
  std::vector<TreeNode> tree(static_cast<size_t>(nodes));
  const bool mirrors = nodes % 2 == 0;
  for (int64_t node = 0; node < nodes; ++node) {
    const auto there = [&](int64_t i) {
      if (which == 0) return i;
      return mirrors ? nodes - 1 - i : (i + 1) % nodes;
    };
    TreeNode made = binary_tree_node(nodes, node);
    if (made.up >= 0) made.up = there(made.up);
    for (int64_t& down : made.down)
      if (down >= 0) down = there(down);
    tree[static_cast<size_t>(there(node))] = std::move(made);
  }
  return tree;
}

}  // namespace shardproof
