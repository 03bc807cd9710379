// Implements the queues of machine.h: when work runs, and what runs ahead.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/machine.h"

namespace shardproof {
namespace {

// A longer queue starts to run without a wait.
constexpr size_t kLongest = 512;

}  // namespace

FakeGpu::Machine::Machine(const FakeGpuOptions& given) : options(given), rng(given.seed, 0) {
  for (int device = 0; device < std::max(given.devices, 1); ++device)
    arenas.push_back(std::make_unique<Arena>(given.device_bytes));
}

int FakeGpu::Machine::selected_by_this_thread() const {
  const auto found = selected.find(std::this_thread::get_id());
  return found == selected.end() ? 0 : found->second;
}

FakeGpuEvent& FakeGpu::Machine::make_event(int device) {
  auto made = std::make_unique<FakeGpuEvent>();
  made->number = static_cast<int>(events.size()) + 1;
  made->device = device;
  return **events.insert(std::move(made)).first;
}

void FakeGpu::Machine::enqueue(FakeGpuStream& stream, FakeGpuWork work) {
  SP_CHECK(stream.recorded_by == nullptr, "work that no graph can hold, in a recorded stream");
  stream.queue.push_back(std::move(work));
  if (stream.queue.size() > kLongest) advance(stream, kLongest / 2);
  if (options.runs_ahead == 0 || rng.integer(draws++, 0, options.runs_ahead) != 0) return;
  const auto ahead = rng.integer(draws++, 0, static_cast<int64_t>(streams.size()));
  advance(*streams[static_cast<size_t>(ahead)], kLongest);
}

bool FakeGpu::Machine::advance(FakeGpuStream& stream, int64_t most) {
  if (stream.running) return false;  // work that polls must not start itself again
  stream.running = true;
  std::optional<Arena::Open> open;  // opening takes longer than most work
  int64_t done = 0;
  while (done < most && !stream.queue.empty()) {
    const FakeGpuWork& next = stream.queue.front();
    if (next.ready && !next.ready()) break;
    if (next.run && !open) open.emplace(arena_of(stream));
    if (next.run && !next.run()) break;
    if (next.is_call) --calls;
    stream.queue.pop_front();
    clock += 0.001;
    ++done;
  }
  stream.running = false;
  return done > 0;
}

void FakeGpu::Machine::drain(FakeGpuStream& stream) {
  using Clock = std::chrono::steady_clock;
  auto moved_at = Clock::now();
  while (!stream.queue.empty()) {
    if (advance(stream, 1)) {
      moved_at = Clock::now();
      continue;
    }
    // It waits for another stream: any stream that can continue runs one operation.
    bool moved = false;
    for (size_t i = 0; i < streams.size() && !moved; ++i) moved = advance(*streams[i], 1);
    const bool may_wait = Clock::now() < moved_at + std::chrono::seconds(options.timeout_seconds);
    SP_CHECK(moved || may_wait, "a stream waits for work that was never issued");
    if (moved)
      moved_at = Clock::now();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void FakeGpu::Machine::advance_by_chance(FakeGpuStream* stream) {
  if (stream == nullptr || stream->queue.empty()) return;
  const int64_t most = rng.integer(draws++, 0, 3);
  if (most == 0 || advance(*stream, most)) return;
  for (size_t i = 0; i < streams.size(); ++i) advance(*streams[i], rng.integer(draws++, 0, 3));
}

void FakeGpu::Machine::write_trace(const FakeGpuStream& stream, const std::string& what) {
  if (options.trace.empty()) return;
  const std::string line =
      fmt::format("gpu {} stream {}: {}\n", stream.device, stream.number, what);
  const int file = ::open(options.trace.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  SP_CHECK(::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
           "no trace is written");
  ::close(file);
}

void FakeGpu::enqueue(void* stream, Work work) {
  FakeGpuStream& target = stream_of(stream);
  const std::lock_guard guard(target.machine->lock);
  SP_CHECK(target.device == target.machine->selected_by_this_thread(),
           "a kernel is started in a stream of GPU {} while GPU {} is the thread's", target.device,
           target.machine->selected_by_this_thread());
  if (target.machine->record(target, [stream, work] { enqueue(stream, work); })) return;
  target.machine->write_trace(target, "kernel");
  target.machine->enqueue(target, {{}, std::move(work)});
}

void FakeGpu::enqueue_when(void* stream, Work until, Work work) {
  FakeGpuStream& target = stream_of(stream);
  const std::lock_guard guard(target.machine->lock);
  ++target.machine->calls;
  target.machine->write_trace(target, "nccl");
  target.machine->enqueue(target, {std::move(until), std::move(work), true});
}

int FakeGpu::device_of(void* stream) { return stream_of(stream).device; }

std::pair<const std::byte*, const std::byte*> FakeGpu::allocation_at(void* stream,
                                                                     const void* memory) {
  const FakeGpuStream& target = stream_of(stream);
  const std::lock_guard guard(target.machine->lock);
  return target.machine->arena_of(target).allocation_of(memory);
}

int FakeGpu::selected_on_machine_of(void* stream) {
  const FakeGpuStream& target = stream_of(stream);
  const std::lock_guard guard(target.machine->lock);
  return target.machine->selected_by_this_thread();
}

}  // namespace shardproof
