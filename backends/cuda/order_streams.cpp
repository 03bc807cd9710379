#include <chrono>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {

Device::Device(const CudaApi& api, int ordinal, CudaDeviceFacts facts)
    : api_(api), ordinal_(ordinal), facts_(std::move(facts)) {
  select();
  join_event_ = new_event();
  use(0);
}

// What is left of the work is waited for; a broken device can no longer be told anything.
Device::~Device() {
  api_.set_device(ordinal_);
  for (const auto& [number, stream] : streams_) api_.synchronize_stream(stream.handle);
  for (void* const stream : {release_stream_, upload_stream_})
    if (stream != nullptr) {
      api_.synchronize_stream(stream);
      api_.drop_stream(stream);
    }
  for (const auto& [number, event] : events_) api_.drop_event(event);
  for (void* event : idle_events_) api_.drop_event(event);
  api_.drop_event(join_event_);
  if (finish_event_ != nullptr) api_.drop_event(finish_event_);
  if (clock_event_ != nullptr) api_.drop_event(clock_event_);
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
  }
  return one;
}

void Device::use(int stream) {
  if (current_stream_ != nullptr && stream == current_) return;
  current_stream_ = &stream_numbered(stream);
  current_ = stream;
}

void* Device::ask() {
  select();
  ++current_stream_->asked;
  return current_stream_->handle;
}

void* Device::native_stream() { return ask(); }
int64_t Device::asked() const { return current_stream_->asked; }

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

void* Device::event(int64_t number) const {
  const auto found = events_.find(number);
  SP_CHECK(found != events_.end(), "no event {}", number);
  return found->second;
}

int64_t Device::record() {
  void* event = new_event();
  events_.emplace(++last_event_, event);
  check(api_.record_event(event, current_stream_->handle), "recording an event");
  return last_event_;
}

void Device::wait(int64_t number) {
  check(api_.wait_event(ask(), event(number)), "waiting for an event");
}

bool Device::reached(int64_t number) {
  bool reached = false;
  check(api_.query_event(event(number), &reached), "the work before an event");
  return reached;
}

void Device::start_clock() {
  synchronize();
  if (clock_event_ == nullptr) clock_event_ = new_event();
  check(api_.record_event(clock_event_, current_stream_->handle), "recording an event");
  check(api_.synchronize_stream(current_stream_->handle), "starting the clock");
}

DeviceSpan Device::between(int64_t from, int64_t to) {
  SP_CHECK(clock_event_ != nullptr, "the clock of GPU {} was not started", ordinal_);
  float before = 0, within = 0;
  check(api_.elapsed(&before, clock_event_, event(from)), "asking for a time");
  check(api_.elapsed(&within, event(from), event(to)), "asking for a time");
  return {static_cast<double>(before) * 1000, static_cast<double>(within) * 1000};
}

void Device::forget(int64_t number) {
  idle_events_.push_back(event(number));
  events_.erase(number);
}

void Device::synchronize() {
  select();
  for (const auto& [number, stream] : streams_) finish(stream.handle);
}

void Device::give_back() {
  synchronize();
  check(api_.trim_pool(ordinal_), "giving memory back");
}

void Device::finish(void* stream) {
  if (!look_) return check(api_.synchronize_stream(stream), "the work of a stream");
  if (finish_event_ == nullptr) finish_event_ = new_event();
  check(api_.record_event(finish_event_, stream), "recording an event");
  const auto began = std::chrono::steady_clock::now();
  for (bool reached = false;;) {
    check(api_.query_event(finish_event_, &reached), "the work of a stream");
    if (reached) return;
    look_(std::chrono::steady_clock::now() - began);
  }
}

void Device::come_behind(void* stream, int other) {
  check(api_.record_event(join_event_, stream_numbered(other).handle), "recording an event");
  check(api_.wait_event(stream, join_event_), "waiting for an event");
}

void Device::follow(std::span<const int> streams) {
  for (const int other : streams)
    if (other != current_) come_behind(ask(), other);
}

}  // namespace shardproof
