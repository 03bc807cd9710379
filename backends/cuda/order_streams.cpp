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
  for (const auto& [number, stream] : streams_) api_.synchronize_stream(stream);
  if (release_stream_ != nullptr) {
    api_.synchronize_stream(release_stream_);
    api_.drop_stream(release_stream_);
  }
  for (const auto& [number, event] : events_) api_.drop_event(event);
  for (void* event : idle_events_) api_.drop_event(event);
  api_.drop_event(join_event_);
  for (const auto& [number, stream] : streams_) api_.drop_stream(stream);
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

void* Device::stream_numbered(int stream) {
  void*& handle = streams_[stream];
  if (handle == nullptr) {
    select();
    check(api_.make_stream(&handle), "making a stream");
  }
  return handle;
}

void Device::use(int stream) {
  current_stream_ = stream_numbered(stream);
  current_ = stream;
}

void* Device::native_stream() {
  select();
  return current_stream_;
}

void Device::check_launch() { check(api_.last_error(), "starting a kernel"); }

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
  check(api_.record_event(event, current_stream_), "recording an event");
  return last_event_;
}

void Device::wait(int64_t number) {
  check(api_.wait_event(current_stream_, event(number)), "waiting for an event");
}

bool Device::reached(int64_t number) {
  bool reached = false;
  check(api_.query_event(event(number), &reached), "the work before an event");
  return reached;
}

double Device::microseconds_between(int64_t from, int64_t to) {
  float milliseconds = 0;
  check(api_.elapsed(&milliseconds, event(from), event(to)), "asking for a time");
  return static_cast<double>(milliseconds) * 1000;
}

void Device::forget(int64_t number) {
  idle_events_.push_back(event(number));
  events_.erase(number);
}

void Device::synchronize() {
  for (const auto& [number, stream] : streams_)
    check(api_.synchronize_stream(stream), "the work of a stream");
}

void Device::await_all(void* stream) {
  for (const auto& [number, other] : streams_) {
    check(api_.record_event(join_event_, other), "recording an event");
    check(api_.wait_event(stream, join_event_), "waiting for an event");
  }
}

}  // namespace shardproof
