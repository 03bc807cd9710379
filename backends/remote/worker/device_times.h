// DeviceTimes: measured start and end of kernels and exchanges on one device of a worker, and the
// times that the library (NCCL) predicts for them. Internal to backends/remote.
//
// Times are differences of the device's own events, shifted to the clock of the world. Not
// thread-safe; holds at most about 1,024 unread pairs of events.
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

  // Starts the clock of `device` at `now`, the time of the world. Null: no device, nothing is
  // measured.
  void start(std::shared_ptr<Device> device, Duration now);
  // Runs `body` and measures it, unless it launches no kernel.
  void watch(Ticket ticket, const std::function<void()>& body);
  // Measures the work put into the current stream between the two calls. `begin` returns the event
  // that `end` takes. Several spans of one ticket merge into one from first to last.
  int64_t begin() { return device_->record(); }
  void end(Ticket ticket, int64_t begun);
  // Adds the predicted time of one call of the ticket. If one of them has none, the ticket has
  // none.
  void expect(Ticket ticket, std::optional<double> microseconds);
  // Returns `host` with the times of the device in place of the host's where there are any. May
  // block until the device is idle.
  TicketTimes of(Ticket ticket, const TicketTimes& host);
  // Returns the predicted seconds of the ticket; nullopt if it has none.
  std::optional<double> expected(Ticket ticket) const;
  // Deletes the measured times, but not the predictions. The tickets are measured again.
  void forget_measured() { times_.clear(); }

 private:
  struct Marks {  // the two events of a span
    Ticket ticket = kDone;
    int64_t from = 0, to = 0;
    bool was_idle = false;  // the device had reached `from` before the host had launched everything
  };
  struct Times {
    Duration start, end;
    bool with_launch = false;  // the span includes time in which the device waited for the host
  };
  void read_first();
  void add(const Marks& marks, const DeviceSpan& span);

  std::shared_ptr<Device> device_;
  Duration started_;
  std::deque<Marks> unread_;
  std::map<Ticket, Times> times_;
  std::map<Ticket, std::optional<Duration>> expected_;  // nullopt: a call has no prediction
};

}  // namespace shardproof
