// Implements stream_order.h with a vector clock for each stream.
//
// Example:                      clock when it ends
//   on ag: f = all_gather(w)    {ag: 1}
//   a = x + 1                   {main: 1}
//   wait(f)                     {main: 2, ag: 1}
//   y = a @ f                   {main: 3, ag: 1}   the all_gather is ordered before it
#include "shardproof/engine/races/stream_order.h"

#include <algorithm>

namespace shardproof {
namespace {

void raise(std::map<std::string, int64_t>& clock, const std::map<std::string, int64_t>& to) {
  for (const auto& [stream, ended] : to) clock[stream] = std::max(clock[stream], ended);
}

}  // namespace

StreamOrder::StreamOrder(const SpmdListing& listing, int32_t rank)
    : clocks_(listing.instrs.size()), streams_(listing.instrs.size()) {
  std::map<std::string, Clock> now;  // by stream
  std::map<ValueId, Clock> values;
  std::map<std::string, Clock> events;
  Clock host;
  for (size_t i = 0; i < listing.instrs.size(); ++i) {
    const Instr& instr = listing.instrs[i];
    if (!instr.lanes.contains(rank)) continue;
    Clock& clock = now[instr.stream];
    raise(clock, host);
    if (const auto* wait = std::get_if<Wait>(&instr.action)) {
      Clock& target = wait->who == Wait::Waiter::host ? host : clock;
      if (wait->value != kNoValue) raise(target, values[wait->value]);
      if (!wait->event.empty()) raise(target, events[wait->event]);
      if (!wait->stream.empty()) raise(target, Clock(now[wait->stream]));
    }
    ++clock[instr.stream];
    if (const auto* record = std::get_if<RecordEvent>(&instr.action)) events[record->event] = clock;
    if (const auto* merge = std::get_if<Merge>(&instr.action))
      for (const auto& [lanes, part] : merge->parts)
        if (lanes.contains(rank)) values[merge->output] = values[part];
    for (const ValueId id : effects_of(instr).writes) values[id] = clock;
    clocks_[i] = clock;
    streams_[i] = instr.stream;
  }
}

bool StreamOrder::are_ordered(size_t a, size_t b) const {
  const auto [first, second] = std::minmax(a, b);
  const auto ended = clocks_[second].find(streams_[first]);
  return ended != clocks_[second].end() && ended->second >= clocks_[first].at(streams_[first]);
}

}  // namespace shardproof
