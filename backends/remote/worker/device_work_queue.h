// DeviceWorkQueue: the work that a worker has put into the streams of its devices, and how much of
// it has ended. Internal to backends/remote.
//
// Each stream of each cohort of the program has a stream of its own on the cohort's device. An
// event is recorded after the work of each ticket: the ticket ends when the device has reached it.
// A command of the coordinator ends when everything that it launched has ended and all commands
// before it have. Without devices nothing is launched, so everything has ended.
//
// Not thread-safe. Owns the events; shares the devices.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/sim/call/ticket_table.h"

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
  // Assigns a cohort to the device with this index and returns that device; null if there are none.
  // Requires that the cohort has launched nothing yet.
  std::shared_ptr<Device> assign_device(size_t device, int32_t cohort);
  std::shared_ptr<Device> device_of(int32_t cohort) const;
  // Makes the stream of `place` the current one of its device. Returns its number; 0 without
  // devices.
  int enter(Place place);
  // Makes the stream of the first place wait for all work so far in the streams of all places.
  // Requires that all of them are of one device.
  void join(const std::vector<Place>& places);
  // Records an event: the ticket ends when all that the stream holds so far has ended. Requires
  // ascending tickets on each stream.
  void add(Ticket ticket, Place place);
  // Makes the stream of `place` wait for the work of a ticket that was launched in the stream
  // `from`.
  void follow(Place place, Ticket ticket, Place from);

  // Drops all marks: their events belong to a graph, and are never reached.
  void drop_marks();
  // Polls the devices. Returns true if something has ended since the last call.
  bool poll();
  // Both return the state at the last poll.
  bool has_ended(Ticket ticket, Place place) const;
  bool all_ended() const;

  // Ends the launch phase of a command. The command ends when all work so far in these streams has
  // ended.
  void end_command(const std::vector<Place>& places);
  // Number of commands whose launch phase has ended.
  int64_t commands_launched() const { return launched_; }
  int64_t commands_ended() const { return launched_ - static_cast<int64_t>(commands_.size()); }

 private:
  // An event after the work of ticket `first`, and of later tickets that added nothing.
  struct Mark {
    Ticket first = kDone;
    int64_t event = 0;
  };
  struct Queue {
    Device* device = nullptr;
    int stream = 0;
    std::deque<Mark> marks;         // not known to be reached
    int64_t covered = 0;            // operations_enqueued of the stream at the last mark
    int64_t marked = 0, ended = 0;  // marks made, marks reached
  };
  using Key = std::pair<int32_t, StreamId>;
  struct LaunchedCommand {
    std::vector<std::pair<Key, int64_t>> until;  // the command ends at this mark of each stream
  };
  static Key key(Place place) { return {place.cohort, place.stream}; }
  Queue& queue(Place place);
  static bool drop_ended(Queue& queue);
  bool has_ended(const LaunchedCommand& command) const;

  std::vector<std::shared_ptr<Device>> devices_;
  std::map<int32_t, size_t> settled_;  // cohort -> index of its device
  std::map<Key, Queue> queues_;
  std::deque<LaunchedCommand> commands_;  // launched, not ended
  int64_t launched_ = 0;
};

}  // namespace shardproof
