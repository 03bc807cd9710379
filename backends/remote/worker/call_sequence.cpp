// Implements call_sequence.h.
//
// A provided buffer shares its contents with a copy made at provide(). The first write to either
// gives the buffer contents of its own, so a buffer that still shares them at the end was not
// overwritten.
#include "shardproof/backends/remote/worker/call_sequence.h"

#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/base/rng.h"

namespace shardproof {
namespace {

Bytes copy_of(const Bytes& contents, const std::shared_ptr<DeviceMemory>& memory) {
  const int64_t size = contents.size();
  if (size == 0) return {};
  if (memory != nullptr) {
    Bytes copy = Bytes::on_device(memory, size);
    memory->copy(copy.device_mutate(memory), contents.device_data(memory), size);
    return copy;
  }
  Bytes copy = Bytes::uninitialized(size);
  std::memcpy(copy.mutate(), contents.data(), static_cast<size_t>(size));
  return copy;
}

}  // namespace

CallSequence::Buffers buffers_of(const Submission& submission) {
  CallSequence::Buffers buffers;
  for (const SubmittedCall& call : submission.calls) {
    for (const CallBuffer* view : {&call.in, &call.out})
      if (view->buffer != nullptr) buffers.push_back(view->buffer);
    for (const LocalTensor* tensor : {&call.input, &call.output})
      for (const Block& block : tensor->blocks()) buffers.push_back(block.tensor.buffer);
  }
  return buffers;
}

CallSequence::Usage& CallSequence::usage_of(const std::shared_ptr<Buffer>& buffer) {
  Usage& usage = usages_[buffer.get()];
  usage.buffer = buffer;  // also keeps the address from being used again
  return usage;
}

void CallSequence::provide(const LocalTensor& value, std::shared_ptr<DeviceMemory> memory) {
  for (const Block& block : value.blocks()) {
    Usage& usage = usage_of(block.tensor.buffer);
    if (std::exchange(usage.is_provided, true)) continue;
    provided_.push_back({usage.buffer, usage.buffer->slots, usage.buffer->bytes, memory});
  }
}

void CallSequence::drop(Usage& usage) {
  if (usage.is_provided || steps_.empty()) return;
  usage.buffer->bytes = Bytes();
  steps_[usage.last_step].dropped.push_back(usage.buffer);
}

void CallSequence::discard(const LocalTensor& value) {
  for (const Block& block : value.blocks()) {
    Usage& usage = usage_of(block.tensor.buffer);
    if (!std::exchange(usage.is_discarded, true) && usage.pending == 0) drop(usage);
  }
}

void CallSequence::issue(const Buffers& buffers) {
  for (const std::shared_ptr<Buffer>& buffer : buffers) ++usage_of(buffer).pending;
}

void CallSequence::add_use(const Buffers& buffers) {
  if (steps_.empty()) add_step();
  for (const std::shared_ptr<Buffer>& buffer : buffers) {
    Usage& usage = usage_of(buffer);
    usage.last_step = steps_.size() - 1;
    if (--usage.pending == 0 && usage.is_discarded) drop(usage);
  }
}

CallSequence::Step& CallSequence::add_step() { return steps_.emplace_back(); }

CallSequence::Step& CallSequence::add_command() {
  command_ = steps_.size();
  Step& step = steps_.emplace_back();
  step.is_command = true;
  return step;
}

void CallSequence::end_recording() {
  for (const auto& [address, usage] : usages_)
    if (!usage.is_provided && !usage.is_discarded) results_.push_back(usage.buffer);
  usages_.clear();
  std::erase_if(provided_, [](const ProvidedBuffer& one) {
    return one.buffer->bytes.size() == 0 || one.buffer->bytes.shares_with(one.contents);
  });
}

void CallSequence::restore() {
  drop_results();
  for (ProvidedBuffer& one : provided_) {
    one.buffer->bytes = Bytes();
    one.buffer->slots = one.slots;
    one.buffer->bytes = copy_of(one.contents, one.memory);
  }
}

std::vector<CallSequence::InputCopy> CallSequence::copies_to_restore() const {
  std::vector<InputCopy> copies;
  for (const ProvidedBuffer& one : provided_)
    if (one.memory != nullptr && one.contents.size() != 0)
      copies.push_back({one.memory.get(), one.buffer->bytes.device_mutate(one.memory),
                        one.contents.device_data(one.memory), one.contents.size()});
  return copies;
}

std::vector<uint64_t> CallSequence::hash_results() const {
  std::vector<uint64_t> hashes;
  const auto add = [&hashes](const Bytes& bytes) {
    const std::string_view contents(reinterpret_cast<const char*>(bytes.data()),
                                    static_cast<size_t>(bytes.size()));
    hashes.push_back(hash_text(contents));
  };
  for (const std::shared_ptr<Buffer>& buffer : results_) add(buffer->bytes);
  for (const ProvidedBuffer& one : provided_) add(one.buffer->bytes);
  return hashes;
}

void CallSequence::drop_results() {
  for (const std::shared_ptr<Buffer>& buffer : results_) buffer->bytes = Bytes();
}

}  // namespace shardproof
