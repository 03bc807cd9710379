// Implements exact_inputs.h.
//
// Inputs are small whole numbers (0 to 7) drawn by a hash of member and index. A sum has at most
// four members other than 0, a product at most two other than 1. So every partial result is exact
// in every dtype, whatever the order. Outputs are compared slice by slice with `reference`.
#include <algorithm>
#include <array>
#include <cstring>

#include "shardproof/backends/bench/exact_inputs.h"

namespace shardproof {
namespace {

constexpr int64_t kValueCount = 8;         // 0..7: exact in every dtype
constexpr int64_t kSliceElements = 16384;  // elements compared at a time

uint64_t mixed(int64_t member, int64_t index) {
  uint64_t x = static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(member);
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 29);
}

// Sums have at most four members other than 0, products two other than 1: partial results have few
// bits.
int64_t value_of(const Collective& c, int64_t member, int64_t index) {
  const uint64_t random = mixed(member, index);
  if (!reduces(c.kind) || c.reduction.op == ReduceOp::min || c.reduction.op == ReduceOp::max)
    return static_cast<int64_t>(random % kValueCount);
  const int64_t turn = (index + member) % c.group.size();
  if (c.reduction.op == ReduceOp::prod) return turn < 2 ? 1 + static_cast<int64_t>(random % 2) : 1;
  return turn < 4 ? 1 + static_cast<int64_t>(random % 2) : 0;
}

// The input element that an output element is a copy of, and how many elements follow it there.
struct Source {
  int64_t member, index, length;
};
Source source_of(const Collective& c, int64_t member, int64_t index) {
  const int64_t n = c.group.size();
  switch (c.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::gather:
      return {index / c.count, index % c.count, c.count - index % c.count};
    case CollectiveKind::broadcast: return {c.root, index, c.count - index};
    case CollectiveKind::scatter: return {c.root, member * c.count + index, c.count - index};
    case CollectiveKind::all_to_all: {
      const int64_t piece = c.count / n;
      return {index / piece, member * piece + index % piece, piece - index % piece};
    }
    case CollectiveKind::send: return {(member + n - 1) % n, index, c.count - index};
    default: SP_UNREACHABLE("{} copies nothing", name(c.kind));
  }
}

// Returns elements `from`, ... of a member's output.
Tensor expected_slice(const Collective& c, int64_t member, int64_t from, int64_t count) {
  if (!reduces(c.kind)) {
    Tensor slice = Tensor::empty(c.dtype, Dims{count});
    std::byte* const to = slice.mutate();
    for (int64_t i = 0; i < count;) {
      const Source source = source_of(c, member, from + i);
      const int64_t length = std::min(source.length, count - i);
      write_exact_inputs(c, source.member, source.index, length, to + i * size_of(c.dtype));
      i += length;
    }
    return slice;
  }
  const int64_t start = c.kind == CollectiveKind::reduce_scatter ? member * c.count + from : from;
  Collective whole = c;
  whole.kind = CollectiveKind::all_reduce;
  whole.count = count;
  std::vector<Tensor> inputs;
  for (int64_t other = 0; other < c.group.size(); ++other) {
    inputs.push_back(Tensor::empty(c.dtype, Dims{count}));
    write_exact_inputs(c, other, start, count, inputs.back().mutate());
  }
  return *reference(whole, inputs).front();
}

int64_t wrong_of(const Collective& c, int64_t member, const std::byte* answer, int64_t count) {
  const int64_t size = size_of(c.dtype);
  int64_t wrong = 0;
  for (int64_t from = 0; from < count; from += kSliceElements) {
    const int64_t length = std::min(kSliceElements, count - from);
    const Tensor right = expected_slice(c, member, from, length);
    const std::byte* const got = answer + from * size;
    const std::byte* const want = right.data();
    if (std::memcmp(got, want, static_cast<size_t>(length * size)) == 0) continue;
    for (int64_t i = 0; i < length; ++i)
      wrong += std::memcmp(got + i * size, want + i * size, static_cast<size_t>(size)) != 0;
  }
  return wrong;
}

bool is_for_root_alone(CollectiveKind kind) {
  return kind == CollectiveKind::reduce || kind == CollectiveKind::gather;
}

// Returns views of `count` elements for each lane, from element `at(rank)` on.
template <typename F>
LocalTensor views(const Tensor& base, const Lanes& lanes, int64_t count, F&& at) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < lanes.size(); ++i) {
    Tensor view = base;
    view.shape = Dims{count};
    view.offset = at(lanes[i]);
    blocks.push_back({Lanes::one(lanes[i]), view});
  }
  return blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks));
}

void fill(const Collective& c, LocalTensor& input) {
  for (Block& block : input.blocks())
    for (int64_t i = 0; i < block.lanes.size(); ++i)
      write_exact_inputs(c, block.lanes[i], 0, block.tensor.elements(),
                         block.tensor.mutate(block.slot(i)));
}

}  // namespace

bool can_be_checked(CollectiveKind kind, OutputBuffer output_buffer) {
  return kind != CollectiveKind::send || output_buffer == OutputBuffer::out_of_place;
}

int64_t input_elements(const Collective& c) {
  const bool whole = c.kind == CollectiveKind::reduce_scatter || c.kind == CollectiveKind::scatter;
  return whole ? c.group.size() * c.count : c.count;
}

int64_t output_elements(const Collective& c, int64_t member) {
  if (is_for_root_alone(c.kind) && member != c.root) return 0;
  const bool whole = c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::gather;
  return whole ? c.group.size() * c.count : c.count;
}

void write_exact_inputs(const Collective& c, int64_t member, int64_t from, int64_t count,
                        std::byte* to) {
  const int64_t size = size_of(c.dtype);
  std::array<std::byte, kValueCount * 16> known{};  // the widest element has 16 bytes
  for (int64_t value = 0; value < kValueCount; ++value)
    store_f64(known.data() + value * size, c.dtype, static_cast<double>(value));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * size, known.data() + value_of(c, member, from + i) * size,
                static_cast<size_t>(size));
}

BenchmarkTensors exact_tensors(const CollectiveBenchmark& repetition, const Lanes& lanes) {
  const Collective& c = repetition.collective;
  const int64_t brought = input_elements(c), taken = output_elements(c, c.root);
  const bool one = is_for_root_alone(c.kind);
  const Lanes takers = one ? lanes.intersect(Lanes::one(c.root)) : lanes;
  const bool out_of_place = repetition.output_buffer == OutputBuffer::out_of_place;
  const int64_t room = out_of_place ? brought : std::max(brought, taken);
  const Tensor base = Tensor::empty(c.dtype, Dims{room}, lanes, Slots::each(lanes.size()));
  const auto own = [](int64_t count) { return [count](int64_t rank) { return rank * count; }; };
  BenchmarkTensors tensors;
  tensors.input = brought == room ? LocalTensor(base) : views(base, lanes, brought, own(brought));
  fill(c, tensors.input);
  if (takers.empty()) return tensors;
  if (out_of_place) {
    tensors.output = LocalTensor(Tensor::without_contents(c.dtype, Dims{taken}, takers));
  } else if (taken == room) {
    tensors.output = LocalTensor(base).restrict_to(takers);
  } else {
    tensors.output = views(base, takers, taken, own(taken));
  }
  return tensors;
}

int64_t count_wrong(const Collective& c, const LocalTensor& results) {
  int64_t wrong = 0;
  for (const Block& block : results.blocks()) {
    // Shared outputs are stored once and checked once.
    const bool equal = block.tensor.buffer->slots.is_shared();
    for (int64_t i = 0; i < (equal ? 1 : block.lanes.size()); ++i)
      wrong +=
          wrong_of(c, block.lanes[i], block.tensor.data(block.slot(i)), block.tensor.elements()) *
          (equal ? block.lanes.size() : 1);
  }
  return wrong;
}

}  // namespace shardproof
