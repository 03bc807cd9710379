// Streams of a program on a device: who waits for whom, and what has ended.
#include <algorithm>

#include "shardproof/backends/remote/detail/launched_work.h"

namespace shardproof {
namespace {

constexpr int kFirstStream = 1;  // of the device, for programs

}  // namespace

LaunchedWork::~LaunchedWork() {
  for (const auto& [key, queue] : queues_)
    for (const Mark& mark : queue.marks) device_->forget(mark.event);
}

// What an earlier world has asked of the stream is nothing to this one.
LaunchedWork::Queue& LaunchedWork::queue(Place place) {
  const auto [at, first] = queues_.try_emplace(key(place));
  Queue& queue = at->second;
  if (!first) return queue;
  queue.stream = kFirstStream + static_cast<int>(queues_.size()) - 1;
  device_->use(queue.stream);
  queue.covered = device_->asked();
  return queue;
}

int LaunchedWork::enter(Place place) {
  if (device_ == nullptr) return 0;
  const int stream = queue(place).stream;
  device_->use(stream);
  return stream;
}

void LaunchedWork::join(const std::vector<Place>& places) {
  if (device_ == nullptr) return;
  const int current = device_->current();
  std::vector<int> streams;
  for (const Place place : places) streams.push_back(queue(place).stream);
  device_->use(current);
  device_->follow(streams);
}

void LaunchedWork::add(Ticket ticket, Place place) {
  if (device_ == nullptr) return;
  Queue& queue = this->queue(place);
  device_->use(queue.stream);
  const int64_t asked = device_->asked();
  if (asked != queue.covered) {
    queue.marks.push_back({ticket, device_->record()});
    queue.covered = asked;
    ++queue.marked;
  }
}

// The last mark that is not of later tickets; a call that went in pieces has several.
void LaunchedWork::follow(Place place, Ticket ticket, Place from) {
  if (device_ == nullptr || key(place) == key(from)) return;
  const std::deque<Mark>& marks = queue(from).marks;
  const auto behind = std::upper_bound(marks.begin(), marks.end(), ticket,
                                       [](Ticket of, const Mark& one) { return of < one.first; });
  if (behind == marks.begin()) return;  // it has ended
  enter(place);
  device_->wait(std::prev(behind)->event);
}

bool LaunchedWork::drop_ended(Queue& queue) {
  bool any = false;
  for (; !queue.marks.empty() && device_->reached(queue.marks.front().event); any = true) {
    device_->forget(queue.marks.front().event);
    queue.marks.pop_front();
    ++queue.ended;
  }
  return any;
}

bool LaunchedWork::look() {
  bool any = false;
  for (auto& [key, queue] : queues_) any = drop_ended(queue) || any;
  while (!orders_.empty() && has_ended(orders_.front())) orders_.pop_front();
  return any;
}

bool LaunchedWork::has_ended(Ticket ticket, Place place) const {
  const auto at = queues_.find(key(place));
  return at == queues_.end() || at->second.marks.empty() || ticket < at->second.marks.front().first;
}

bool LaunchedWork::all_ended() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& each) { return each.second.marks.empty(); });
}

bool LaunchedWork::has_ended(const Order& order) const {
  return std::all_of(order.until.begin(), order.until.end(), [this](const auto& each) {
    return queues_.at(each.first).ended >= each.second;
  });
}

void LaunchedWork::end_order(const std::vector<Place>& places) {
  ++carried_out_;
  Order order;
  for (const Place place : places)
    if (device_ != nullptr) order.until.emplace_back(key(place), queue(place).marked);
  if (!orders_.empty() || !has_ended(order)) orders_.push_back(std::move(order));
}

}  // namespace shardproof
