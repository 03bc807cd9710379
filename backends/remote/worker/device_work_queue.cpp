// Implements device_work_queue.h with one queue of events for each stream. Function add() records
// an event after the work of a ticket; poll() polls the oldest events and drops those reached.
#include <algorithm>

#include "shardproof/backends/remote/worker/device_work_queue.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kFirstProgramStream = 1;  // number of the first device stream that programs use

}  // namespace

DeviceWorkQueue::~DeviceWorkQueue() {
  for (const auto& [key, queue] : queues_)
    for (const Mark& mark : queue.marks) queue.device->forget(mark.event);
}

std::shared_ptr<Device> DeviceWorkQueue::assign_device(size_t device, int32_t cohort) {
  if (devices_.empty()) return nullptr;
  settled_[cohort] = device;
  return devices_.at(device);
}

std::shared_ptr<Device> DeviceWorkQueue::device_of(int32_t cohort) const {
  return devices_.empty() ? nullptr : devices_[settled_.at(cohort)];
}

// Operations that an earlier world enqueued do not count as work of this one.
DeviceWorkQueue::Queue& DeviceWorkQueue::queue(Place place) {
  const auto [at, first] = queues_.try_emplace(key(place));
  Queue& queue = at->second;
  if (!first) return queue;
  queue.device = device_of(place.cohort).get();
  queue.stream = kFirstProgramStream + static_cast<int>(queues_.size()) - 1;
  queue.device->use(queue.stream);
  queue.covered = queue.device->operations_enqueued();
  return queue;
}

int DeviceWorkQueue::enter(Place place) {
  if (devices_.empty()) return 0;
  const Queue& entered = queue(place);
  entered.device->use(entered.stream);
  return entered.stream;
}

void DeviceWorkQueue::join(const std::vector<Place>& places) {
  if (devices_.empty()) return;
  Device& device = *device_of(places.front().cohort);
  const int current = device.current();
  std::vector<int> streams;
  for (const Place place : places) {
    SP_CHECK(queue(place).device == &device, "streams of several devices are joined");
    streams.push_back(queue(place).stream);
  }
  device.use(current);
  device.follow(streams);
}

void DeviceWorkQueue::add(Ticket ticket, Place place) {
  if (devices_.empty()) return;
  Queue& queue = this->queue(place);
  queue.device->use(queue.stream);
  const int64_t operations_enqueued = queue.device->operations_enqueued();
  if (operations_enqueued != queue.covered) {
    queue.marks.push_back({ticket, queue.device->record()});
    queue.covered = operations_enqueued;
    ++queue.marked;
  }
}

// Waits for the last mark whose ticket is not later; a call carried out in pieces has several
// marks.
void DeviceWorkQueue::follow(Place place, Ticket ticket, Place from) {
  if (devices_.empty() || key(place) == key(from)) return;
  const Queue& source = queue(from);
  const std::deque<Mark>& marks = source.marks;
  const auto behind = std::upper_bound(marks.begin(), marks.end(), ticket,
                                       [](Ticket of, const Mark& one) { return of < one.first; });
  if (behind == marks.begin()) return;  // its event was reached and dropped
  enter(place);
  SP_CHECK(queue(place).device == source.device, "a stream waits for one of another device");
  source.device->wait(std::prev(behind)->event);
}

bool DeviceWorkQueue::drop_ended(Queue& queue) {
  bool any = false;
  for (; !queue.marks.empty() && queue.device->event_completed(queue.marks.front().event);
       any = true) {
    queue.device->forget(queue.marks.front().event);
    queue.marks.pop_front();
    ++queue.ended;
  }
  return any;
}

void DeviceWorkQueue::drop_marks() {
  for (auto& [key, queue] : queues_) {
    for (const Mark& mark : queue.marks) queue.device->forget(mark.event);
    queue.marks.clear();
    queue.ended = queue.marked;
  }
  commands_.clear();
}

bool DeviceWorkQueue::poll() {
  bool any = false;
  for (auto& [key, queue] : queues_) any = drop_ended(queue) || any;
  while (!commands_.empty() && has_ended(commands_.front())) commands_.pop_front();
  return any;
}

bool DeviceWorkQueue::has_ended(Ticket ticket, Place place) const {
  const auto at = queues_.find(key(place));
  return at == queues_.end() || at->second.marks.empty() || ticket < at->second.marks.front().first;
}

bool DeviceWorkQueue::all_ended() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const auto& each) { return each.second.marks.empty(); });
}

bool DeviceWorkQueue::has_ended(const LaunchedCommand& command) const {
  return std::all_of(command.until.begin(), command.until.end(), [this](const auto& each) {
    return queues_.at(each.first).ended >= each.second;
  });
}

void DeviceWorkQueue::end_command(const std::vector<Place>& places) {
  ++launched_;
  LaunchedCommand command;
  for (const Place place : places)
    if (!devices_.empty()) command.until.emplace_back(key(place), queue(place).marked);
  if (!commands_.empty() || !has_ended(command)) commands_.push_back(std::move(command));
}

}  // namespace shardproof
