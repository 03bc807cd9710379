// DeviceWorkQueue: the streams of a program as streams of a worker's devices, and what was launched
// in them: each stream of each cohort is one of the cohort's device, there is an event behind the
// work of each ticket, and an order of the coordinator has ended when all that it launched has.
// Without devices nothing is launched, and all has ended. Internal to the remote layer.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/sim/call/clock.h"

namespace shardproof {

class DeviceWorkQueue {
 public:
  using Place = TicketTable::Place;
  explicit DeviceWorkQueue(std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)) {}
  DeviceWorkQueue(const DeviceWorkQueue&) = delete;
  DeviceWorkQueue& operator=(const DeviceWorkQueue&) = delete;
  ~DeviceWorkQueue();

  const std::vector<std::shared_ptr<Device>>& devices() const { return devices_; }
  // Before anything is asked of it, a cohort gets that one of the devices: this one. Null: there
  // are none.
  std::shared_ptr<Device> settle_at(size_t device, int32_t cohort);
  std::shared_ptr<Device> device_of(int32_t cohort) const;
  // Makes the device's stream for this one of the program its current one, and says its number.
  int enter(Place place);
  // That stream of the first one's device waits for what these, of the same device, have been asked
  // for so far.
  void join(const std::vector<Place>& places);
  // All that was asked of the stream so far is done before the ticket has ended. In order of
  // ticket.
  void add(Ticket ticket, Place place);
  // The stream waits for the work of a ticket that was launched in another.
  void follow(Place place, Ticket ticket, Place from);

  // Asks the device; true when something has ended that had not when it was last asked.
  bool look();
  // As the device said when it was last asked.
  bool has_ended(Ticket ticket, Place place) const;
  bool all_ended() const;

  // An order is carried out: it ends with what has been added in these streams so far, behind all
  // orders before it.
  void end_order(const std::vector<Place>& places);
  int64_t orders_carried_out() const { return carried_out_; }
  int64_t orders_ended() const { return carried_out_ - static_cast<int64_t>(orders_.size()); }

 private:
  // Of this ticket, and of those behind it that asked nothing more of the stream.
  struct Mark {
    Ticket first = kDone;
    int64_t event = 0;
  };
  struct Queue {
    Device* device = nullptr;
    int stream = 0;
    std::deque<Mark> marks;         // not known to be reached
    int64_t covered = 0;            // of what the stream was asked for, by the last mark
    int64_t marked = 0, ended = 0;  // marks so far
  };
  using Key = std::pair<int32_t, StreamId>;
  struct Order {
    std::vector<std::pair<Key, int64_t>> until;  // so many marks of these streams
  };
  static Key key(Place place) { return {place.cohort, place.stream}; }
  Queue& queue(Place place);
  static bool drop_ended(Queue& queue);
  bool has_ended(const Order& order) const;

  std::vector<std::shared_ptr<Device>> devices_;
  std::map<int32_t, size_t> settled_;  // cohorts -> devices
  std::map<Key, Queue> queues_;
  std::deque<Order> orders_;  // carried out, not ended
  int64_t carried_out_ = 0;
};

}  // namespace shardproof
