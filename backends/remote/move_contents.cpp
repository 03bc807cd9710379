// Orders that move contents: a collective, a send with its receive, a put.
#include <algorithm>
#include <cstring>

#include "shardproof/backends/remote/detail/worker_world.h"
#include "shardproof/sim/deliver.h"

namespace shardproof {

bool start_meeting(Moving& moving, const RankBlocks& blocks, Transport& transport) {
  seat(moving, blocks);
  const Collective& c = moving.parts.front().party->call.collective;
  moving.unfolded = reduces(c.kind) && !transport.reduces_by(c.reduction, c.dtype);
  if (transport.memory() == nullptr || !can_stay_on_device(moving))
    return start_collective(moving, transport.self());
  start_on_device(moving, transport.memory());
  return true;
}

void finish_meeting(Moving& moving, int self) {
  if (moving.on_device) return finish_on_device(moving);
  finish_collective(moving, self);
}

void WorkerWorld::meet(WireReader& in) {
  Moving moving;
  const int64_t count = in.number();
  for (int64_t i = 0; i < count; ++i) moving.parts.push_back(read_part(in));
  const CallPart& first = moving.parts.front();
  const Group& group = first.party->call.collective.group;
  moving.members = group.members(group.sibling_of(first.rank()));
  for (CallPart& part : moving.parts) part.member = group.index_of(part.rank());
  std::sort(moving.parts.begin(), moving.parts.end(),
            [](const CallPart& a, const CallPart& b) { return a.member < b.member; });
  moving.exchange.stream = enter(moving.parts);
  if (!start_meeting(moving, blocks_, link_.transport())) {
    for (const CallPart& part : moving.parts) end_part(*part.party);
    return;
  }
  moving_.push_back(std::move(moving));
}

Exchange message_exchange(CollectiveKind kind, int self, int other, int64_t number) {
  Exchange exchange;
  exchange.kind = kind;
  exchange.dtype = DType::u8;
  exchange.team = {std::min(self, other), std::max(self, other)};
  exchange.root = other > self ? 1 : 0;
  exchange.number = number;
  return exchange;
}

// number, other process, whether the sender is here and its part, the same of the receiver.
void WorkerWorld::pair(WireReader& in) {
  const int64_t number = in.number();
  const int other = static_cast<int>(in.number()), self = link_.transport().self();
  CallPart sender, receiver;
  if (in.number() != 0) sender = read_part(in);
  if (in.number() != 0) receiver = read_part(in);
  if (sender.party != nullptr && receiver.party != nullptr) {
    enter({sender, receiver});
    const Brought own = brought(sender);
    deliver(*receiver.party, receiver.rank(), own.data, own.size);
    end_part(*sender.party);
    end_part(*receiver.party);
    return;
  }
  Moving moving;
  moving.message = true;
  const bool sends = sender.party != nullptr;
  moving.exchange =
      message_exchange(sends ? CollectiveKind::send : CollectiveKind::recv, self, other, number);
  moving.exchange.stream = enter({sends ? sender : receiver});
  if (sends) {
    moving.parts = {sender};
    send_piece(moving, sender, link_.transport().memory());
    moving.exchange.count = brought_bytes(*sender.party, sender.rank());
  } else {
    moving.parts = {receiver};
    const Collective& c = receiver.party->call.collective;
    receive_bytes(moving, c.count * size_of(c.dtype), link_.transport().memory());
    moving.exchange.count = moving.in.size();
  }
  moving_.push_back(std::move(moving));
}

namespace {

// What is put here lands in no stream of the program.
constexpr TicketBook::Place kLanding{-1, 0};

}  // namespace

// number, other process, whether the source is here and its part, whether the target is here, its
// rank, slot and bytes, and where in its window; -1: nowhere.
void WorkerWorld::put(WireReader& in) {
  const int64_t number = in.number();
  const int other = static_cast<int>(in.number()), self = link_.transport().self();
  CallPart source;
  if (in.number() != 0) source = read_part(in);
  const bool lands_here = in.number() != 0;
  const int64_t target = in.number(), slot = in.number(), bytes = in.number();
  const int64_t offset = in.number();
  const bool one_sided = offset >= 0 && link_.transport().has_window();
  Moving moving;
  moving.message = true;
  const int stream = source.party != nullptr ? enter({source}) : launched_.enter(kLanding);
  if (source.party != nullptr) {
    moving.parts = {source};
    if (lands_here) {
      const Brought own = brought(source);
      Bytes contents = Bytes::uninitialized(own.size);
      if (own.size != 0) std::memcpy(contents.mutate(), own.data, static_cast<size_t>(own.size));
      windows_[{target, slot}] = std::move(contents);
      end_part(*source.party);
      return;
    }
    moving.exchange = message_exchange(one_sided ? CollectiveKind::put : CollectiveKind::send, self,
                                       other, number);
    send_piece(moving, source, link_.transport().memory());
    moving.exchange.count = brought_bytes(*source.party, source.rank());
  } else {
    moving.exchange = message_exchange(
        one_sided ? CollectiveKind::wait_signal : CollectiveKind::recv, self, other, number);
    moving.target = target;
    moving.slot = slot;
    receive_bytes(moving, bytes, link_.transport().memory());
    moving.exchange.count = bytes;
  }
  moving.exchange.offset = offset;
  moving.exchange.stream = stream;
  moving_.push_back(std::move(moving));
}

namespace {

// As long as it may take where nobody is late; after that, waiting for it must not cost much.
std::chrono::nanoseconds eager_time(const std::vector<Moving>& moving) {
  constexpr int64_t kNanosecondsAByte = 10;
  int64_t bytes = 0;
  for (const Moving& one : moving) bytes += std::max(one.in.size(), one.out.size());
  return std::chrono::milliseconds(5) + std::chrono::nanoseconds(bytes * kNanosecondsAByte);
}

}  // namespace

void WorkerWorld::start_moving() {
  if (measures_ && moving_.size() == 1) ask_for_estimate();
  for (Moving& one : moving_) {
    if (!measures_ || one.exchange.side != Side::device || one.parts.empty()) continue;
    launched_.enter(place_of(one.parts.front()));
    one.begun = device_times_.begin();
  }
  eager_until_ = std::chrono::steady_clock::now() + eager_time(moving_);
  if (moving_.size() == 1) return link_.transport().start({&moving_.front().exchange, 1});
  std::vector<Exchange> exchanges;
  for (const Moving& one : moving_) exchanges.push_back(one.exchange);
  link_.transport().start(exchanges);
}

// Every member of the call asks here, before it starts.
void WorkerWorld::ask_for_estimate() {
  const Moving& moving = moving_.front();
  if (moving.exchange.side != Side::device || moving.parts.empty()) return;
  if (const std::optional<double> expected = link_.transport().estimate(moving.exchange))
    device_times_.expect(moving.parts.front().party->flight->ticket, *expected);
}

// What stays on the device has moved when it is in its stream. What a put leaves here is looked at
// by whoever asks for it, on any stream.
bool WorkerWorld::has_moved() {
  const bool stays = std::all_of(moving_.begin(), moving_.end(), [](const Moving& one) {
    return one.exchange.side == Side::device && one.target < 0;
  });
  return stays ? link_.transport().launched() : link_.transport().done();
}

void WorkerWorld::finish_moving() {
  std::vector<Moving> moved = std::exchange(moving_, {});
  std::vector<Place> places;
  for (Moving& one : moved) {
    const Place place = one.parts.empty() ? kLanding : place_of(one.parts.front());
    launched_.enter(place);
    if (one.exchange.side == Side::device && !one.parts.empty()) {
      const Ticket ticket = one.parts.front().party->flight->ticket;
      if (measures_) device_times_.end(ticket, one.begun);
      launched_.add(ticket, place);
      places.push_back(place);
    }
    finish(one);
  }
  end_order(places);
  settle();
}

void WorkerWorld::finish(Moving& moved) {
  if (moved.target >= 0) {
    windows_[{moved.target, moved.slot}] = std::move(moved.in);
  } else if (!moved.message) {
    finish_meeting(moved, link_.transport().self());
  } else if (moved.exchange.kind == CollectiveKind::recv) {
    const CallPart& part = moved.parts.front();
    deliver(*part.party, part.rank(), moved.in);
  }
  for (const CallPart& part : moved.parts) end_part(*part.party);
}

}  // namespace shardproof
