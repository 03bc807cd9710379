// Implements write_outputs.h.
#include "shardproof/sim/matching/write_outputs.h"

#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

int64_t bytes_in(const Tensor& tensor) { return tensor.elements() * size_of(tensor.dtype); }

// True if the block covers its buffer on all lanes.
bool is_whole_buffer(const Block& block) {
  const Buffer& buffer = *block.tensor.buffer;
  return block.tensor.offset == 0 && bytes_in(block.tensor) == buffer.bytes_per_lane &&
         block.lanes == buffer.lanes;
}

bool empty_of_contents(const Buffer& buffer) {
  return buffer.bytes.size() == 0 && buffer.bytes_per_lane != 0;
}

const std::byte* flat_data(const LocalTensor& tensor, int64_t rank) {
  const Block* block = tensor.find(rank);
  if (block == nullptr || block->tensor.buffer->bytes.size() == 0) return nullptr;
  return block->tensor.data(block->slot(block->lanes.index_of(rank)));
}

int64_t flat_bytes(const LocalTensor& tensor, int64_t rank) {
  const Block* block = tensor.find(rank);
  return block == nullptr ? 0 : bytes_in(block->tensor);
}

// Does not read the buffer: among thousands of ranks it is not in the cache.
void set_part(CallBuffer& part, const LocalTensor* tensor, int64_t rank) {
  if (tensor == nullptr) return;
  const std::vector<Block>& blocks = tensor->blocks();
  const Block* const block =
      blocks.size() == 1 && blocks[0].lanes.size() == 1 && blocks[0].lanes[0] == rank
          ? &blocks[0]
          : tensor->find(rank);
  if (block == nullptr) return;
  part.buffer = block->tensor.buffer;
  part.offset_bytes = block->tensor.offset * size_of(block->tensor.dtype);
  part.bytes = bytes_in(block->tensor);
}

// Gives each lane of the output a copy of its own, so that each can be written when it ends.
void separate_lanes(SubmittedCall& submitted) {
  if (submitted.separated) return;
  submitted.separated = true;
  for (Block& block : submitted.output.blocks()) {
    Buffer& buffer = *block.tensor.buffer;
    if (empty_of_contents(buffer)) {
      buffer.slots = Slots::each(buffer.lanes.size());
      buffer.bytes = Bytes::zeros(buffer.lanes.size() * buffer.bytes_per_lane);
    } else {
      separate(buffer, block.lanes);
    }
  }
}

void copy_lanes(const LocalTensor& result, Block& target) {
  Buffer& buffer = *target.tensor.buffer;
  const int64_t bytes = bytes_in(target.tensor);
  if (empty_of_contents(buffer)) {
    buffer.slots = Slots::each(buffer.lanes.size());
    buffer.bytes = Bytes::zeros(buffer.lanes.size() * buffer.bytes_per_lane);
  } else {
    separate(buffer, target.lanes);
  }
  for (int64_t i = 0; i < target.lanes.size(); ++i) {
    const int64_t rank = target.lanes[i];
    SP_CHECK(flat_bytes(result, rank) == bytes, "rank {} receives {} bytes into {}", rank,
             flat_bytes(result, rank), bytes);
    if (bytes == 0) continue;
    std::memcpy(target.tensor.mutate(target.slot(i)), flat_data(result, rank),
                static_cast<size_t>(bytes));
  }
}

}  // namespace

void copy_views(SubmittedCall& submitted, const Call& call) {
  submitted.lanes = call.lanes;
  submitted.one_lane = call.lanes.size() == 1;
  if (submitted.one_lane) {
    set_part(submitted.in, call.input, call.lanes[0]);
    set_part(submitted.out, call.output, call.lanes[0]);
    return;
  }
  if (call.input != nullptr) submitted.input = *call.input;
  if (call.output != nullptr) submitted.output = *call.output;
}

void release_views(SubmittedCall& submitted) {
  if (!submitted.one_lane) {
    submitted.input = LocalTensor();
    submitted.output = LocalTensor();
    return;
  }
  for (CallBuffer* view : {&submitted.in, &submitted.out}) {
    view->buffer.reset();
    view->bytes = 0;
  }
}

int64_t byte_offset(const CallBuffer& part, int64_t rank) {
  const Buffer& buffer = *part.buffer;
  if (buffer.lanes.size() == 1) return part.offset_bytes;
  return buffer.slots[buffer.lanes.index_of(rank)] * buffer.bytes_per_lane + part.offset_bytes;
}

const std::byte* input_data(const SubmittedCall& submitted, int64_t rank) {
  if (!submitted.one_lane) return flat_data(submitted.input, rank);
  const CallBuffer& in = submitted.in;
  if (in.buffer == nullptr || in.buffer->bytes.size() == 0) return nullptr;
  return in.buffer->bytes.data() + byte_offset(in, rank);
}

int64_t input_bytes(const SubmittedCall& submitted, int64_t rank) {
  return submitted.one_lane ? submitted.in.bytes : flat_bytes(submitted.input, rank);
}

bool has_input_contents(const SubmittedCall& submitted) {
  if (!submitted.one_lane) return has_contents_everywhere(submitted.input);
  return submitted.in.buffer == nullptr || !empty_of_contents(*submitted.in.buffer);
}

std::optional<std::span<const std::byte>> input_of(const SubmittedCall& submitted, int64_t rank) {
  if (!has_input_contents(submitted)) return std::nullopt;
  const std::byte* const data = input_data(submitted, rank);
  if (data == nullptr) return std::span<const std::byte>();
  return std::span(data, static_cast<size_t>(input_bytes(submitted, rank)));
}

bool has_contents_everywhere(const LocalTensor& tensor) {
  for (const Block& block : tensor.blocks())
    if (empty_of_contents(*block.tensor.buffer)) return false;
  return true;
}

void deliver(const LocalTensor& result, LocalTensor& output) {
  for (Block& target : output.blocks()) {
    const Block* source = result.find(target.lanes[0]);
    SP_CHECK(source != nullptr, "no result for rank {}", target.lanes[0]);
    if (is_whole_buffer(target) && is_whole_buffer(*source) && source->lanes == target.lanes &&
        bytes_in(source->tensor) == bytes_in(target.tensor)) {
      target.tensor.buffer->slots = source->tensor.buffer->slots;
      target.tensor.buffer->bytes = source->tensor.buffer->bytes;
    } else {
      copy_lanes(result, target);
    }
  }
}

namespace {

void deliver_one(const CallBuffer& out, int64_t rank, const std::byte* data, int64_t bytes,
                 const Bytes* whole) {
  if (out.buffer == nullptr) return;
  SP_CHECK(out.bytes == bytes, "rank {} receives {} bytes into {}", rank, bytes, out.bytes);
  Buffer& buffer = *out.buffer;
  if (buffer.lanes.size() == 1 && buffer.bytes_per_lane == bytes) {
    if (whole != nullptr) {
      buffer.bytes = *whole;
      return;
    }
    buffer.bytes = Bytes::uninitialized(bytes);
  } else if (empty_of_contents(buffer)) {
    buffer.slots = Slots::each(buffer.lanes.size());
    buffer.bytes = Bytes::zeros(buffer.lanes.size() * buffer.bytes_per_lane);
  } else {
    separate(buffer, Lanes::one(rank));
  }
  if (bytes != 0)
    std::memcpy(buffer.bytes.mutate() + byte_offset(out, rank), data, static_cast<size_t>(bytes));
}

}  // namespace

void deliver(SubmittedCall& submitted, int64_t rank, const std::byte* data, int64_t bytes,
             const Bytes* whole) {
  if (submitted.one_lane) return deliver_one(submitted.out, rank, data, bytes, whole);
  const Block* target = submitted.output.find(rank);
  if (target == nullptr) return;
  SP_CHECK(bytes_in(target->tensor) == bytes, "rank {} receives {} bytes into {}", rank, bytes,
           bytes_in(target->tensor));
  separate_lanes(submitted);
  if (bytes == 0) return;
  Tensor view = target->tensor;
  std::memcpy(view.mutate(target->slot(target->lanes.index_of(rank))), data,
              static_cast<size_t>(bytes));
}

void deliver(SubmittedCall& submitted, int64_t rank, const Bytes& whole) {
  Buffer* const buffer = submitted.one_lane ? submitted.out.buffer.get() : nullptr;
  if (buffer == nullptr || buffer->lanes.size() != 1 || buffer->bytes_per_lane != whole.size())
    return deliver(submitted, rank, whole.data(), whole.size(), &whole);
  SP_CHECK(submitted.out.bytes == whole.size(), "rank {} receives {} bytes into {}", rank,
           whole.size(), submitted.out.bytes);
  buffer->bytes = whole;
}

void deliver_windows(const std::function<const Bytes*(int64_t rank)>& window, LocalTensor& output) {
  for (Block& block : output.blocks()) {
    Buffer& buffer = *block.tensor.buffer;
    const int64_t bytes = block.tensor.elements() * size_of(block.tensor.dtype);
    if (buffer.bytes.size() == 0) {
      buffer.slots = Slots::each(buffer.lanes.size());
      buffer.bytes = Bytes::zeros(buffer.lanes.size() * buffer.bytes_per_lane);
    } else {
      separate(buffer, block.lanes);
    }
    for (int64_t i = 0; i < block.lanes.size() && bytes != 0; ++i) {
      const Bytes* put = window(block.lanes[i]);
      std::byte* target = block.tensor.mutate(block.slot(i));
      const int64_t known = put == nullptr ? 0 : std::min(bytes, put->size());
      if (known != 0) std::memcpy(target, put->data(), static_cast<size_t>(known));
      std::memset(target + known, 0, static_cast<size_t>(bytes - known));
    }
  }
}

}  // namespace shardproof
