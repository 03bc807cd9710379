// Implements the stream and event part of device.h.
//
// Time: CUDA gives the time between two events as a float of milliseconds, whose resolution falls
// as the time grows. So a new reference event is recorded every few seconds. Once it is reached,
// its own time is measured from the reference before it. Later events are measured from it.
#include <chrono>
#include <utility>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/cuda/device_graph.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {

Device::Device(const CudaApi& api, int ordinal, CudaDeviceFacts facts)
    : api_(api), ordinal_(ordinal), facts_(std::move(facts)) {
  select();
  join_event_ = new_event();
  use(0);
}

// Waits for all work. Ignores errors: a failed device cannot be used any more.
Device::~Device() {
  api_.set_device(ordinal_);
  for (const auto& [number, stream] : streams_) api_.synchronize_stream(stream.handle);
  for (void* const stream : {release_stream_, upload_stream_})
    if (stream != nullptr) {
      api_.synchronize_stream(stream);
      api_.drop_stream(stream);
    }
  for (const auto& [number, event] : events_) api_.drop_event(event.handle);
  for (const Event& epoch : epochs_) api_.drop_event(epoch.handle);
  if (next_epoch_ != nullptr) api_.drop_event(next_epoch_);
  for (void* event : idle_events_) api_.drop_event(event);
  api_.drop_event(join_event_);
  if (finish_event_ != nullptr) api_.drop_event(finish_event_);
  for (const auto& [number, stream] : streams_) api_.drop_stream(stream.handle);
}

std::string Device::description() const {
  return fmt::format("{}, {} GB, compute capability {}.{}", facts_.name,
                     (facts_.bytes + 500'000'000) / 1'000'000'000, facts_.major, facts_.minor);
}

void Device::check(int status, std::string_view doing) const {
  if (status != 0)
    throw Error(ErrorKind::unsupported,
                fmt::format("GPU {}: {} failed: {}", ordinal_, doing, api_.error_text(status)));
}

void Device::select() const { check(api_.set_device(ordinal_), "selecting it"); }

Device::OneStream& Device::stream_numbered(int stream) {
  OneStream& one = streams_[stream];
  if (one.handle == nullptr) {
    select();
    check(api_.make_stream(&one.handle), "making a stream");
    if (recording_ != nullptr) recording_->include(*this, one.handle);
  }
  return one;
}

void Device::use(int stream) {
  if (current_stream_ != nullptr && stream == current_) return;
  current_stream_ = &stream_numbered(stream);
  current_ = stream;
}

void* Device::begin_operation() {
  select();
  ++current_stream_->operations_enqueued;
  return current_stream_->handle;
}

void* Device::native_stream() { return begin_operation(); }
int64_t Device::operations_enqueued() const { return current_stream_->operations_enqueued; }

void Device::check_launch() {
  check(api_.last_error(), "starting a kernel");
  ++launches_;
}

void* Device::new_event() {
  void* event = nullptr;
  if (idle_events_.empty()) {
    select();
    check(api_.make_event(&event), "making an event");
    return event;
  }
  event = idle_events_.back();
  idle_events_.pop_back();
  return event;
}

const Device::Event& Device::event(int64_t number) const {
  const auto found = events_.find(number);
  SP_CHECK(found != events_.end(), "no event {}", number);
  return found->second;
}

int64_t Device::record() {
  renew_clock();
  void* event = new_event();
  events_.emplace(++last_event_, Event{event, epochs_.empty() ? 0 : epochs_.size() - 1});
  check(api_.record_event(event, current_stream_->handle), "recording an event");
  return last_event_;
}

void Device::wait(int64_t number) {
  check(api_.wait_event(begin_operation(), event(number).handle), "waiting for an event");
}

bool Device::event_completed(int64_t number) {
  bool event_completed = false;
  check(api_.query_event(event(number).handle, &event_completed), "the work before an event");
  return event_completed;
}

void Device::start_clock(std::chrono::nanoseconds renewed_after) {
  synchronize();
  for (const Event& epoch : epochs_) idle_events_.push_back(epoch.handle);
  if (next_epoch_ != nullptr) idle_events_.push_back(std::exchange(next_epoch_, nullptr));
  for (auto& [number, event] : events_) event.epoch = 0;
  epochs_ = {{new_event(), 0}};
  renewed_ = std::chrono::steady_clock::now();
  renewed_after_ = renewed_after;
  check(api_.record_event(epochs_[0].handle, current_stream_->handle), "recording an event");
  check(api_.synchronize_stream(current_stream_->handle), "starting the clock");
}

// Events are measured from a reference event that was reached before they were recorded. Events in
// a graph have no time.
void Device::renew_clock() {
  if (recording_ != nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (epochs_.empty() || (next_epoch_ == nullptr && now < renewed_ + renewed_after_)) return;
  if (next_epoch_ == nullptr) {
    next_epoch_ = new_event();
    renewed_ = now;
    return check(api_.record_event(next_epoch_, current_stream_->handle), "recording an event");
  }
  bool event_completed = false;
  float since = 0;
  check(api_.query_event(next_epoch_, &event_completed), "the work before an event");
  if (!event_completed) return;
  check(api_.elapsed(&since, epochs_.back().handle, next_epoch_), "reading a time");
  const double at = epochs_.back().at + static_cast<double>(since);
  epochs_.push_back({std::exchange(next_epoch_, nullptr), epochs_.size(), at});
}

DeviceSpan Device::between(int64_t from, int64_t to) {
  SP_CHECK(!epochs_.empty(), "the clock of GPU {} was not started", ordinal_);
  const Event& first = event(from);
  const Event& epoch = epochs_[first.epoch];
  float before = 0, within = 0;
  check(api_.elapsed(&before, epoch.handle, first.handle), "reading a time");
  check(api_.elapsed(&within, first.handle, event(to).handle), "reading a time");
  return {(epoch.at + static_cast<double>(before)) * 1000, static_cast<double>(within) * 1000};
}

void Device::forget(int64_t number) {
  idle_events_.push_back(event(number).handle);
  events_.erase(number);
}

void Device::synchronize() {
  select();
  for (const auto& [number, stream] : streams_) finish(stream.handle);
  if (release_stream_ != nullptr) finish(release_stream_);
}

void Device::trim_memory_pool() {
  synchronize();
  check(api_.trim_pool(ordinal_), "giving memory back");
}

void Device::finish(void* stream) {
  if (recording_ != nullptr && stream != upload_stream_)
    throw Error(ErrorKind::unsupported, "a graph cannot wait for the host");
  if (!during_wait_ || recording_ != nullptr)
    return check(api_.synchronize_stream(stream), "the work of a stream");
  if (finish_event_ == nullptr) finish_event_ = new_event();
  check(api_.record_event(finish_event_, stream), "recording an event");
  const auto began = std::chrono::steady_clock::now();
  const auto has_reached = [this] {
    bool event_completed = false;
    check(api_.query_event(finish_event_, &event_completed), "the work of a stream");
    return event_completed;
  };
  if (has_reached()) return;
  do during_wait_(std::chrono::steady_clock::now() - began);
  while (!has_reached());
  if (after_wait_) after_wait_();
}

void Device::wait_for_stream(void* stream, int other) {
  check(api_.record_event(join_event_, stream_numbered(other).handle), "recording an event");
  check(api_.wait_event(stream, join_event_), "waiting for an event");
}

void Device::follow(std::span<const int> streams) {
  for (const int other : streams)
    if (other != current_) wait_for_stream(begin_operation(), other);
}

}  // namespace shardproof
