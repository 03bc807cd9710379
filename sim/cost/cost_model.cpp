// Implements cost_model.h.
#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {
namespace {

// The part of a machine that runs kernels.
class PricedDevice : public CostModel {
 public:
  explicit PricedDevice(std::optional<Roofline> device) : device_(device) {
    if (device && !(device->flops_per_second > 0 && device->bytes_per_second > 0))
      throw_bad_input("a device needs rates above 0, found {} FLOP/s and {} B/s",
                      device->flops_per_second, device->bytes_per_second);
  }
  Duration kernel(double flops, double bytes) const override {
    return device_ ? roofline_time(*device_, flops, bytes) : Duration{};
  }
  bool has_rates() const override { return device_.has_value(); }

 private:
  std::optional<Roofline> device_;
};

class IdealMachine : public PricedDevice {
 public:
  using PricedDevice::PricedDevice;
  std::string name() const override { return "ideal"; }
  Duration collective(const Collective&, int64_t) const override { return {}; }
  Duration messages(int64_t, int64_t) const override { return {}; }
};

class FlatMachine : public PricedDevice {
 public:
  FlatMachine(Link link, std::optional<Roofline> device) : PricedDevice(device), link_(link) {}
  std::string name() const override { return "flat"; }
  Duration collective(const Collective& collective, int64_t whole_bytes) const override;
  Duration messages(int64_t count, int64_t bytes) const override {
    return link_.latency * count + transfer(static_cast<double>(bytes));
  }

 private:
  Duration transfer(double bytes) const {
    return duration_of_seconds(bytes / link_.bytes_per_second);
  }
  // The time of `steps` hops that each move `bytes`.
  Duration hops(int64_t steps, double bytes) const {
    return link_.latency * steps + transfer(static_cast<double>(steps) * bytes);
  }

  Link link_;
};

Duration FlatMachine::collective(const Collective& collective, int64_t whole_bytes) const {
  using K = CollectiveKind;
  const int64_t n = std::max<int64_t>(collective.group.size(), 1);
  const double whole = static_cast<double>(whole_bytes);
  const double part = whole / static_cast<double>(n);
  switch (collective.kind) {
    case K::all_reduce: return hops(2 * (n - 1), part);
    case K::all_gather:
    case K::reduce_scatter:
    case K::gather:
    case K::scatter: return hops(n - 1, part);
    case K::all_to_all:
    case K::all_to_all_v:
    case K::exchange: return hops(n - 1, part / static_cast<double>(n));
    case K::broadcast:
    case K::reduce: return n == 1 ? Duration{} : link_.latency * (n - 1) + transfer(whole);
    case K::barrier: return link_.latency * (2 * (n - 1));
    case K::send:
    case K::recv:
    case K::put: return link_.latency + transfer(whole);
    case K::signal: return link_.latency;
    case K::wait_signal: return {};
  }
  SP_UNREACHABLE("collective kind {}", static_cast<int>(collective.kind));
}

}  // namespace

Duration roofline_time(const Roofline& device, double flops, double bytes) {
  return duration_of_seconds(
      std::max(flops / device.flops_per_second, bytes / device.bytes_per_second));
}

std::shared_ptr<const CostModel> ideal_machine(std::optional<Roofline> device) {
  return std::make_shared<IdealMachine>(device);
}

std::shared_ptr<const CostModel> flat_machine(Link link, std::optional<Roofline> device) {
  if (!(link.bytes_per_second > 0) || link.latency < Duration{}) {
    throw_bad_input(
        "a link needs a latency of at least 0 and a bandwidth above 0, found {} and {} B/s",
        to_string(link.latency), link.bytes_per_second);
  }
  return std::make_shared<FlatMachine>(link, device);
}

Duration time_of_counts(const CostModel& model, std::span<const int64_t> counts, int64_t self,
                        int64_t element_bytes) {
  int64_t messages = 0, elements = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (static_cast<int64_t>(i) == self || counts[i] == 0) continue;
    ++messages;
    elements += counts[i];
  }
  return model.messages(messages, elements * element_bytes);
}

Duration time_of_call(const CostModel& model, const Collective& call) {
  if (!has_counts(call.kind)) return model.collective(call, whole_bytes_of(call));
  Duration longest;
  const Lanes lanes = call.group.lanes();
  const auto n = static_cast<size_t>(call.group.size());
  for (const std::vector<int64_t>* counts : {&call.send_counts, &call.recv_counts})
    for (int64_t i = 0; i < lanes.size(); ++i)
      longest = std::max(
          longest, time_of_counts(model, std::span(*counts).subspan(static_cast<size_t>(i) * n, n),
                                  call.group.index_of(lanes[i]), size_of(call.dtype)));
  return longest;
}

}  // namespace shardproof
