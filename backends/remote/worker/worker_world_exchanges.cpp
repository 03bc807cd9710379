// Implements the part of worker_world.h that carries out commands that move contents, and the
// choice of host or device of exchange.h.
//
// 1. A command is decoded; its parts in this process become operations in moving_. An
//    operation between ranks of one endpoint is completed at once.
// 2. start_moving() starts all of them as one group of the transport.
// 3. When the transport is done, finish_moving() writes the outputs and ends the parts.
#include <algorithm>
#include <cstring>
#include <map>

#include "shardproof/backends/remote/worker/worker_world.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {

std::vector<ExchangeOperation> by_endpoint(std::vector<CallShare> parts,
                                           std::vector<int32_t> members, const RankBlocks& blocks) {
  std::map<int, ExchangeOperation> found;
  for (CallShare& part : parts)
    found[blocks.endpoint_of(part.rank())].parts.push_back(std::move(part));
  std::vector<ExchangeOperation> all;
  for (auto& [endpoint, moving] : found) {
    moving.members = members;
    moving.exchange.self = endpoint;
    all.push_back(std::move(moving));
  }
  return all;
}

bool start_instance(ExchangeOperation& moving, const RankBlocks& blocks, Transport& transport) {
  place_members(moving, blocks);
  const Collective& c = moving.parts.front().submitted->terms->collective;
  if (reduces(c.kind) && !transport.can_reduce(c.reduction, c.dtype)) moving.unfolded = true;
  const std::shared_ptr<DeviceMemory> memory = transport.memory(moving.exchange.self);
  // Groups within one endpoint have no communicator; a single rank has that of its world.
  const bool has_communicator = moving.held.size() > 1 || blocks.ranks() == 1;
  if (memory == nullptr || !has_communicator || !can_stay_on_device(moving))
    return start_collective(moving);
  start_on_device(moving, memory);
  return true;
}

void restart(ExchangeOperation& moving, Transport& transport) {
  moving.exchange.send_counts.clear();
  moving.exchange.recv_counts.clear();
  if (moving.on_device) return start_on_device(moving, transport.memory(moving.exchange.self));
  pack_collective(moving);
}

void finish_instance(ExchangeOperation& moving) {
  if (moving.on_device) return finish_on_device(moving);
  finish_collective(moving);
}

bool WorkerWorld::is_uniform(const Group& group) {
  const auto [at, is_new] = uniform_.try_emplace(group.key());
  if (is_new) at->second = is_uniform_over_endpoints(group, blocks_);
  return at->second;
}

void WorkerWorld::execute_collective(WireReader& in) {
  std::vector<CallShare> parts;
  for (int64_t count = in.number(); count > 0; --count) parts.push_back(read_part(in));
  const CallShare& first = parts.front();
  const Group& group = first.submitted->terms->collective.group;
  const std::vector<int32_t> members = group.members(group.sibling_of(first.rank()));
  for (CallShare& part : parts) part.member = group.index_of(part.rank());
  std::sort(parts.begin(), parts.end(),
            [](const CallShare& a, const CallShare& b) { return a.member < b.member; });
  const size_t collective_index = moving_.size();
  const bool unfolded =
      depends_on_association(first.submitted->terms->collective) && !is_uniform(group);
  for (ExchangeOperation& moving : by_endpoint(std::move(parts), members, blocks_)) {
    moving.collective_index = collective_index;
    moving.unfolded = unfolded;
    moving.exchange.stream = enter(moving.parts);
    if (start_instance(moving, blocks_, link_.transport())) {
      moving_.push_back(std::move(moving));
      continue;
    }
    if (recording_)
      sequence_->command().local.push_back([this, moving]() mutable {
        enter(moving.parts);
        start_collective(moving);
      });
    for (const CallShare& part : moving.parts) end_part(*part.submitted);
  }
}

void WorkerWorld::run_locally(std::function<void()> part) {
  part();
  if (recording_) sequence_->command().local.push_back(std::move(part));
}

Exchange message_exchange(CollectiveKind kind, int self, int other, int64_t number) {
  Exchange exchange;
  exchange.kind = kind;
  exchange.dtype = DType::u8;
  exchange.team = {std::min(self, other), std::max(self, other)};
  exchange.self = self;
  exchange.root = other > self ? 1 : 0;
  exchange.number = number;
  return exchange;
}

void WorkerWorld::send(const CallShare& part, Exchange exchange) {
  ExchangeOperation moving;
  moving.message = true;
  moving.parts = {part};
  moving.exchange = std::move(exchange);
  moving.exchange.stream = enter({part});
  send_piece(moving, part, link_.transport().memory(moving.exchange.self));
  moving.exchange.count = input_bytes(*part.submitted, part.rank());
  moving_.push_back(std::move(moving));
}

void WorkerWorld::receive(const CallShare& part, Exchange exchange) {
  ExchangeOperation moving;
  moving.message = true;
  moving.parts = {part};
  moving.exchange = std::move(exchange);
  moving.exchange.stream = enter({part});
  const Collective& c = part.submitted->terms->collective;
  receive_bytes(moving, c.count * size_of(c.dtype), link_.transport().memory(moving.exchange.self));
  moving.exchange.count = moving.in.size();
  moving_.push_back(std::move(moving));
}

// A message. Fields: messages.h, CoordinatorCommand::message.
void WorkerWorld::execute_message(WireReader& in) {
  const int64_t number = in.number();
  const int other = static_cast<int>(in.number());
  CallShare sender, receiver;
  if (in.number() != 0) sender = read_part(in);
  if (in.number() != 0) receiver = read_part(in);
  const int from = sender.submitted != nullptr ? blocks_.endpoint_of(sender.rank()) : other;
  const int to = receiver.submitted != nullptr ? blocks_.endpoint_of(receiver.rank()) : other;
  if (from == to) {
    run_locally([this, sender, receiver] {
      enter({sender, receiver});
      const SendContents own = contents_to_send(sender);
      deliver(*receiver.submitted, receiver.rank(), own.data, own.size);
    });
    end_part(*sender.submitted);
    end_part(*receiver.submitted);
    return;
  }
  if (sender.submitted != nullptr)
    send(sender, message_exchange(CollectiveKind::send, from, to, number));
  if (receiver.submitted != nullptr)
    receive(receiver, message_exchange(CollectiveKind::recv, to, from, number));
}

// Puts to ranks of this process have streams of their own, one for each endpoint.
TicketTable::Place WorkerWorld::landed_puts_at(int endpoint) const {
  return {-1 - (endpoint - link_.transport().first_endpoint()), 0};
}

void WorkerWorld::put_within_process(const CallShare& source, std::pair<int64_t, int64_t> window) {
  run_locally([this, source, window] {
    enter({source});
    const SendContents own = contents_to_send(source);
    Bytes contents = Bytes::uninitialized(own.size);
    if (own.size != 0) std::memcpy(contents.mutate(), own.data, static_cast<size_t>(own.size));
    windows_[window] = std::move(contents);
  });
  end_part(*source.submitted);
}

// A put. Fields: messages.h, CoordinatorCommand::put. Without a window it is a send and a receive.
void WorkerWorld::execute_put(WireReader& in) {
  const int64_t number = in.number();
  const int other = static_cast<int>(in.number());
  CallShare source;
  if (in.number() != 0) source = read_part(in);
  const bool is_target_local = in.number() != 0;
  const int64_t target = in.number(), slot = in.number(), bytes = in.number();
  const int64_t offset = in.number();
  const bool one_sided = offset >= 0 && link_.transport().has_window();
  const int from = source.submitted != nullptr ? blocks_.endpoint_of(source.rank()) : other;
  const int to = blocks_.endpoint_of(target);
  if (from == to) return put_within_process(source, {target, slot});
  if (source.submitted != nullptr) {
    Exchange exchange =
        message_exchange(one_sided ? CollectiveKind::put : CollectiveKind::send, from, to, number);
    exchange.offset = offset;
    send(source, std::move(exchange));
  }
  if (!is_target_local) return;
  ExchangeOperation moving;
  moving.message = true;
  moving.exchange = message_exchange(one_sided ? CollectiveKind::wait_signal : CollectiveKind::recv,
                                     to, from, number);
  moving.exchange.stream = launched_.enter(landed_puts_at(to));
  moving.exchange.offset = offset;
  moving.target = target;
  moving.slot = slot;
  receive_bytes(moving, bytes, link_.transport().memory(to));
  moving.exchange.count = bytes;
  moving_.push_back(std::move(moving));
}

namespace {

// Returns how long to poll without pauses: as long as the exchange takes if no process is late.
std::chrono::nanoseconds eager_time(const std::vector<ExchangeOperation>& moving) {
  constexpr int64_t kNanosecondsAByte = 10;
  int64_t bytes = 0;
  for (const ExchangeOperation& one : moving) bytes += std::max(one.in.size(), one.out.size());
  return std::chrono::milliseconds(5) + std::chrono::nanoseconds(bytes * kNanosecondsAByte);
}

}  // namespace

void WorkerWorld::start_moving() {
  for (ExchangeOperation& one : moving_) {
    if (!measures_ || one.exchange.side != Side::device || one.parts.empty()) continue;
    launched_.enter(place_of(one.parts.front()));
    one.begun = times_at(one.exchange.self).begin();
  }
  eager_until_ = Clock::now() + eager_time(moving_);
  if (moving_.size() == 1) return link_.transport().start({&moving_.front().exchange, 1});
  std::vector<Exchange> exchanges;
  for (const ExchangeOperation& one : moving_) exchanges.push_back(one.exchange);
  link_.transport().start(exchanges);
}

// Each collective of a group is estimated by itself: for a group NCCL returns the time of its last
// call only. Messages have no estimate.
void WorkerWorld::request_estimates() {
  if (!measures_) return;
  for (size_t first = 0, next = 0; first < moving_.size(); first = next) {
    std::vector<Exchange> parts;
    for (; next < moving_.size() && moving_[next].message == moving_[first].message &&
           moving_[next].collective_index == moving_[first].collective_index;
         ++next)
      parts.push_back(moving_[next].exchange);
    const bool estimates = !moving_[first].message && parts.front().side == Side::device;
    const std::optional<double> expected =
        estimates ? link_.transport().estimate(parts) : std::optional<double>();
    for (size_t i = first; i < next; ++i)
      if (const ExchangeOperation& own = moving_[i]; !own.parts.empty())
        times_at(own.exchange.self)
            .expect(own.parts.front().submitted->submission->ticket, expected);
  }
}

// Contents that stay on a device count as moved once the exchange is in its stream.
bool WorkerWorld::has_moved() {
  const bool stays = std::all_of(moving_.begin(), moving_.end(), [](const ExchangeOperation& one) {
    return one.exchange.side == Side::device;
  });
  return stays ? link_.transport().launched() : link_.transport().done();
}

std::vector<TicketTable::Place> WorkerWorld::write_results(std::vector<ExchangeOperation>& moved) {
  std::vector<Place> places;
  for (ExchangeOperation& one : moved) {
    const Place place =
        one.parts.empty() ? landed_puts_at(one.exchange.self) : place_of(one.parts.front());
    launched_.enter(place);
    if (one.exchange.side == Side::device) {
      const bool lands = one.parts.empty();
      const Ticket ticket =
          lands ? ++landed_puts_ : one.parts.front().submitted->submission->ticket;
      if (measures_ && !lands) times_at(one.exchange.self).end(ticket, one.begun);
      launched_.add(ticket, place);
      places.push_back(place);
    }
    write_result(one);
  }
  return places;
}

void WorkerWorld::finish_moving() {
  std::vector<ExchangeOperation> moved = std::exchange(moving_, {});
  const std::vector<Place> places = write_results(moved);
  for (const ExchangeOperation& one : moved)
    for (const CallShare& part : one.parts) end_part(*part.submitted);
  if (recording_) sequence_->command().moving = std::move(moved);
  end_command(places);
  settle();
}

void WorkerWorld::write_result(ExchangeOperation& moved) {
  if (moved.target >= 0) {
    windows_[{moved.target, moved.slot}] = std::move(moved.in);
  } else if (!moved.message) {
    finish_instance(moved);
  } else if (moved.exchange.kind == CollectiveKind::recv) {
    const CallShare& part = moved.parts.front();
    deliver(*part.submitted, part.rank(), moved.in);
  }
  moved.in = moved.out = Bytes();
}

}  // namespace shardproof
