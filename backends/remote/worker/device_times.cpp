// Implements device_times.h. Spans wait as pairs of events until their number exceeds a limit, or
// until a time is read.
#include <algorithm>

#include "shardproof/backends/remote/worker/device_times.h"

namespace shardproof {
namespace {

constexpr size_t kMaxUnreadSpans = 1024;

Duration of_microseconds(double microseconds) { return duration_of_seconds(microseconds * 1e-6); }

}  // namespace

DeviceTimes::~DeviceTimes() {
  for (const Marks& marks : unread_)
    for (const int64_t event : {marks.from, marks.to}) device_->forget(event);
}

void DeviceTimes::start(std::shared_ptr<Device> device, Duration now) {
  device_ = std::move(device);
  started_ = now;
  if (device_ != nullptr) device_->start_clock();
}

void DeviceTimes::watch(Ticket ticket, const std::function<void()>& body) {
  if (device_ == nullptr) return body();
  const int64_t launches = device_->launches(), from = begin();
  body();
  if (device_->launches() == launches) return device_->forget(from);
  end(ticket, from);
}

void DeviceTimes::end(Ticket ticket, int64_t begun) {
  const bool was_idle = device_->event_completed(begun);
  unread_.push_back({ticket, begun, device_->record(), was_idle});
  while (unread_.size() > kMaxUnreadSpans && device_->event_completed(unread_.front().to))
    read_first();
}

void DeviceTimes::read_first() {
  const Marks marks = unread_.front();
  unread_.pop_front();
  add(marks, device_->between(marks.from, marks.to));
  device_->forget(marks.from);
  device_->forget(marks.to);
}

// A call that was carried out in pieces takes the time from the first start to the last end.
void DeviceTimes::add(const Marks& marks, const DeviceSpan& span) {
  const Duration start = started_ + of_microseconds(span.start);
  const Duration end = start + of_microseconds(span.time);
  const auto [at, first] = times_.try_emplace(marks.ticket, Times{start, end, marks.was_idle});
  if (first) return;
  Times& all = at->second;
  all.start = std::min(all.start, start);
  all.end = std::max(all.end, end);
  all.with_launch = all.with_launch || marks.was_idle;
}

void DeviceTimes::expect(Ticket ticket, std::optional<double> microseconds) {
  const auto [at, first] = expected_.try_emplace(ticket, Duration{});
  if (!microseconds || !at->second)
    at->second.reset();
  else
    *at->second += of_microseconds(*microseconds);
}

std::optional<double> DeviceTimes::expected(Ticket ticket) const {
  const auto own = expected_.find(ticket);
  if (own == expected_.end() || !own->second) return std::nullopt;
  return to_seconds(*own->second);
}

TicketTimes DeviceTimes::of(Ticket ticket, const TicketTimes& host) {
  if (!unread_.empty()) device_->synchronize();
  while (!unread_.empty()) read_first();
  TicketTimes times = host;
  if (const auto own = times_.find(ticket); own != times_.end()) {
    times.start = LaneTimes(own->second.start);
    times.end = LaneTimes(own->second.end);
    times.clock = own->second.with_launch ? TimedBy::device_and_launch : TimedBy::device;
  }
  if (const auto own = expected_.find(ticket); own != expected_.end())
    times.expected = own->second.value_or(Duration{});
  return times;
}

}  // namespace shardproof
