// DeviceTimes: when works and exchanges began and ended on a worker's device, by the device's own
// events, in the time of a world; and how long the library expected them to take. Internal to the
// remote layer.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/sim/call/call.h"
#include "shardproof/sim/call/ticket_times.h"

namespace shardproof {

class DeviceTimes {
 public:
  DeviceTimes() = default;
  DeviceTimes(const DeviceTimes&) = delete;
  DeviceTimes& operator=(const DeviceTimes&) = delete;
  ~DeviceTimes();

  // From here on; null: no device, nothing is told. `now` is the world's time.
  void start(std::shared_ptr<Device> device, Duration now);
  // Runs the work. What launches nothing is none of the device's.
  void watch(Ticket ticket, const std::function<void()>& body);
  // Of what the ticket asks of the current stream in between.
  int64_t begin() { return device_->record(); }
  void end(Ticket ticket, int64_t begun);
  // Of one of the ticket's calls; nothing: the library does not say.
  void expect(Ticket ticket, std::optional<double> microseconds);
  // `host`, or what the device says in its place.
  TicketTimes of(Ticket ticket, const TicketTimes& host);

 private:
  struct Marks {  // events
    Ticket ticket = kDone;
    int64_t from = 0, to = 0;
    bool was_idle = false;  // the device, before all of it was launched
  };
  struct Times {
    Duration start, end;
    bool with_launch = false;
  };
  void read_first();
  void add(const Marks& marks, const DeviceSpan& span);

  std::shared_ptr<Device> device_;
  Duration started_;
  std::deque<Marks> unread_;
  std::map<Ticket, Times> times_;
  std::map<Ticket, std::optional<Duration>> expected_;  // nothing: not of all of it
};

}  // namespace shardproof
