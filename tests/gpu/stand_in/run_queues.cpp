#include <algorithm>

#include <chrono>
#include <thread>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/gpu/stand_in/machine.h"

namespace shardproof {
namespace {

// A queue this long starts to run although nobody waits for it.
constexpr size_t kLongest = 512;

}  // namespace

StandIn::Machine::Machine(const StandInOptions& given)
    : options(given), arena(given.device_bytes * std::max(given.devices, 1)), rng(given.seed, 0) {}

void StandIn::Machine::enqueue(StandInStream& stream, StandIn::Work work) {
  stream.queue.push_back(std::move(work));
  if (stream.queue.size() > kLongest) advance(stream, kLongest / 2);
}

bool StandIn::Machine::advance(StandInStream& stream, int64_t most) {
  if (stream.running) return false;  // work that polls does not start itself again
  stream.running = true;
  const Arena::Open open(arena);
  int64_t done = 0;
  while (done < most && !stream.queue.empty() && stream.queue.front()()) {
    stream.queue.pop_front();
    clock += 0.001;
    ++done;
  }
  stream.running = false;
  return done > 0;
}

void StandIn::Machine::drain(StandInStream& stream) {
  using Clock = std::chrono::steady_clock;
  auto moved_at = Clock::now();
  while (!stream.queue.empty()) {
    if (advance(stream, 1)) {
      moved_at = Clock::now();
      continue;
    }
    // It waits for another stream: whichever can go on does a little.
    bool moved = false;
    for (size_t i = 0; i < streams.size() && !moved; ++i) moved = advance(*streams[i], 1);
    const bool may_wait = Clock::now() < moved_at + std::chrono::seconds(options.patience_seconds);
    SP_CHECK(moved || may_wait, "a stream waits for work that nobody has asked for");
    if (moved)
      moved_at = Clock::now();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void StandIn::Machine::stir() {
  for (size_t i = 0; i < streams.size(); ++i) advance(*streams[i], rng.integer(draws++, 0, 3));
}

void StandIn::enqueue(void* stream, Work work) {
  auto& its = *static_cast<StandInStream*>(stream);
  const std::lock_guard guard(its.machine->lock);
  its.machine->enqueue(its, std::move(work));
}

int StandIn::device_of(void* stream) { return static_cast<StandInStream*>(stream)->device; }

}  // namespace shardproof
