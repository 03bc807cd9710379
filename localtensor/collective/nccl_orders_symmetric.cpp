// Who adds which elements in NCCL's symmetric kernels. In all_reduce, tiles go round the members,
// and each member adds its own, then the next member's and so on; the sizes of the tiles are those
// of allreduceDeep and allreduceEnds in src/device/symmetric/all_reduce.cuh. The LL kernels have
// every member add all, in group order.
#include <algorithm>

#include "shardproof/localtensor/collective/nccl_orders.h"

namespace shardproof {
namespace {

constexpr int64_t kWarp = 32, kWarpsPerBlock = 4, kPacks = 4;

std::vector<FoldStep> round_from(int64_t first, int64_t members) {
  std::vector<FoldStep> steps;
  for (int64_t i = 0; i < members; ++i)
    steps.push_back({i == 0 ? FoldStep::Kind::push : FoldStep::Kind::own, (first + i) % members});
  return steps;
}

class Tiles {
 public:
  explicit Tiles(const Collective& call)
      : members_(call.group.size()),
        blocks_(call.schedule.channels),
        size_(size_of(call.dtype)),
        count_(call.count) {}

  std::vector<FoldRange> dealt() {
    deal(16);
    if (size_ <= 4) deal(4);
    // What is left goes by single elements, a warp of them to each member in turn.
    while (at_ < count_) add(kWarp);
    return std::move(ranges_);
  }

 private:
  // Loads of so many bytes, as far as they fill every warp of every block of every member.
  void deal(int64_t pack) {
    const int64_t tile = kPacks * kWarp * pack, chunk = kWarpsPerBlock * tile;
    int64_t chunks = (count_ - at_) * size_ / chunk;
    chunks -= chunks % (members_ * blocks_);
    for (int64_t i = 0; i < chunks * kWarpsPerBlock; ++i) add(tile / size_);
    turn_ = 0;
  }

  void add(int64_t elements) {
    const int64_t length = std::min(elements, count_ - at_);
    ranges_.push_back({at_, length, round_from(turn_++ % members_, members_)});
    at_ += length;
  }

  int64_t members_, blocks_, size_, count_;
  int64_t at_ = 0, turn_ = 0;
  std::vector<FoldRange> ranges_;
};

}  // namespace

std::vector<FoldRange> symmetric_ranges(const Collective& call) {
  const int64_t n = call.group.size();
  const bool ll = call.schedule.protocol == NcclProtocol::ll;
  if (call.kind == CollectiveKind::all_reduce)
    return ll ? std::vector<FoldRange>{{0, call.count, round_from(0, n)}} : Tiles(call).dealt();
  std::vector<FoldRange> ranges;
  for (int64_t member = 0; member < n; ++member)
    ranges.push_back({member * call.count, call.count, round_from(ll ? 0 : member, n)});
  return ranges;
}

}  // namespace shardproof
