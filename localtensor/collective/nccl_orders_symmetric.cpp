// Implements symmetric_ranges of nccl_orders.h: the order in which NCCL's symmetric kernels add.
//
//   all_reduce       tiles are assigned to the members in turn; the member of a tile adds its own
//                    elements, then those of the next member, and so on. Tile sizes are those of
//                    allreduceDeep and allreduceEnds in src/device/symmetric/all_reduce.cuh.
//   reduce_scatter   each member folds its block, from its own elements on.
//   protocol LL      every member folds all elements in group order.
//
// Example: all_reduce of 8,292 f32 over 4 members, one thread block. 16-byte loads: a tile is 4
// packs x 32 lanes x 16 bytes = 512 elements. 16 tiles cover 8,192 elements; tile t is folded from
// member t % 4 on. The remaining 100 elements do not fill all warps with 4-byte loads. They are
// tiles of 32, 32, 32 and 4 elements, for members 0 to 3.
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
    // The rest is loaded by single elements, one warp of them for each member in turn.
    while (at_ < count_) add(kWarp);
    return std::move(ranges_);
  }

 private:
  // Adds tiles of loads of `pack` bytes, as many as fill every warp of every block of every member.
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
