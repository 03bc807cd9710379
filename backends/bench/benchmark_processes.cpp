// Implements the part of exact_inputs.h that measures in real processes: each runs the shares of
// its own ranks over the transport.
#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "shardproof/backends/bench/exact_inputs.h"
#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

// The ranks of this process, each with a call of its own.
class ProcessBenchmark {
 public:
  ProcessBenchmark(Transport& transport, const CollectiveBenchmark& repetition)
      : transport_(transport),
        c_(repetition.collective),
        blocks_(c_.group.size(), transport.processes(), transport.endpoints_each()) {
    const Lanes here = blocks_.of(transport.self());
    for (int64_t i = 0; i < here.size(); ++i) add(repetition, here[i]);
  }

  // Returns the time on the device's clock from the first timed call to the end of the last.
  // Nullopt if a call was not made on a device. Returns the longest time of several devices.
  std::optional<double> device_seconds();
  void start_clock() { is_timed_ = true; }
  // True if that time includes launches: a device was idle before one of the calls.
  bool holds_launches() const { return timed_ == 1 || was_idle_; }
  std::optional<double> expected_seconds() const { return expected_seconds_; }

  void once() {
    if (c_.kind == CollectiveKind::send) return run_ring();
    if (parts_.empty()) return;
    std::vector<ExchangeOperation> moving = by_endpoint(parts_, c_.group.members(0), blocks_);
    for (ExchangeOperation& one : moving)
      if (!start_instance(one, blocks_, transport_)) {
        all_on_device_ = false;
        return;
      }
    const std::vector<Exchange> exchanges = exchanges_of(moving);
    ask_for_estimate(exchanges);
    run_exchanges(exchanges);
    for (ExchangeOperation& one : moving) finish_instance(one);
  }

  void run_barrier() {
    Exchange barrier;
    const int each = transport_.endpoints_each(), first = transport_.first_endpoint();
    for (int endpoint = 0; endpoint < transport_.processes() * each; ++endpoint)
      barrier.team.push_back(endpoint);
    std::vector<Exchange> all(static_cast<size_t>(each), barrier);
    for (int i = 0; i < each; ++i) all[static_cast<size_t>(i)].self = first + i;
    run_exchanges(all);
  }

  // Waits for the exchanges launched last.
  void await_end() {
    while (ends_later_ && !transport_.done()) {
    }
    ends_later_ = false;
  }

  int64_t count_wrong() const {
    int64_t wrong = 0;
    for (const BenchmarkTensors& tensors : tensors_)
      wrong += shardproof::count_wrong(c_, tensors.output);
    return wrong;
  }

 private:
  void add(const CollectiveBenchmark& repetition, int64_t rank) {
    BenchmarkTensors& tensors = tensors_.emplace_back(exact_tensors(repetition, Lanes::one(rank)));
    Submission& submission = submissions_.emplace_back();
    submission.parties.resize(1);
    SubmittedCall& submitted = submission.parties.front();
    submitted.submission = &submission;
    submitted.call.collective = c_;
    submitted.call.lanes = Lanes::one(rank);
    submitted.call.input = &tensors.input;
    if (!tensors.output.empty()) submitted.call.output = &tensors.output;
    copy_views(submitted);
    parts_.push_back({&submitted, 0, rank});
  }

  void ask_for_estimate(std::span<const Exchange> parts) {
    if (parts.front().side != Side::device || std::exchange(asked_, true)) return;
    if (const std::optional<double> expected = transport_.estimate(parts))
      expected_seconds_ = *expected * 1e-6;
  }

  static std::vector<Exchange> exchanges_of(const std::vector<ExchangeOperation>& moving) {
    std::vector<Exchange> exchanges;
    for (const ExchangeOperation& one : moving) exchanges.push_back(one.exchange);
    return exchanges;
  }

  // On a device, an exchange is not awaited before the next is launched, as in nccl-tests: waiting
  // would measure the launches.
  void run_exchanges(std::span<const Exchange> exchanges) {
    const bool on_device = std::all_of(exchanges.begin(), exchanges.end(),
                                       [](const Exchange& e) { return e.side == Side::device; });
    all_on_device_ = all_on_device_ && (on_device || !is_timed_);
    const std::vector<Mark> before = is_timed_ && on_device ? ask_for_time() : std::vector<Mark>();
    transport_.start(exchanges);
    while (!(on_device ? transport_.launched() : transport_.done())) {
    }
    for (const Mark& mark : before) {
      was_idle_ = mark.device->event_completed(mark.event) || was_idle_;
      mark.device->forget(mark.event);
    }
    ends_later_ = on_device;
  }

  // An event in the stream of a device.
  struct Mark {
    std::shared_ptr<Device> device;
    int64_t event = 0;
  };
  // Marks the end of the calls so far: if a mark is reached before the next call is launched, the
  // device was idle.
  std::vector<Mark> ask_for_time() {
    if (timed_++ != 0) return mark();
    begun_ = mark();
    return {};
  }
  std::vector<Mark> mark() {
    std::vector<Mark> marks;
    for (int i = 0; i < transport_.endpoints_each(); ++i) {
      auto device =
          std::dynamic_pointer_cast<Device>(transport_.memory(transport_.first_endpoint() + i));
      SP_CHECK(device != nullptr, "contents on what is no device");
      device->use(Exchange().stream);
      const int64_t event = device->record();
      marks.push_back({std::move(device), event});
    }
    return marks;
  }

  // Sends all messages of the ring in one group, as nccl-tests' sendrecv does.
  void run_ring() {
    ++round_;
    std::vector<ExchangeOperation> moving;
    for (int64_t from = 0; from < c_.group.size(); ++from) {
      const int64_t to = (from + 1) % c_.group.size();
      const CallShare* const sender = part_of(from);
      const CallShare* const taker = part_of(to);
      const int source = blocks_.endpoint_of(from), sink = blocks_.endpoint_of(to);
      const int64_t number = round_ * c_.group.size() + from;
      if (sender != nullptr && source == sink) {
        const SendContents own = brought(*sender);
        deliver(*taker->submitted, taker->rank(), own.data, own.size);
        continue;
      }
      if (sender != nullptr)
        moving.push_back(
            message(*sender, message_exchange(CollectiveKind::send, source, sink, number)));
      if (taker != nullptr)
        moving.push_back(
            message(*taker, message_exchange(CollectiveKind::recv, sink, source, number)));
    }
    if (moving.empty()) return;
    run_exchanges(exchanges_of(moving));
    for (const ExchangeOperation& one : moving)
      if (one.exchange.kind == CollectiveKind::recv)
        deliver(*one.parts.front().submitted, one.parts.front().rank(), one.in);
  }

  // Requires that the ranks of a process are neighbours.
  const CallShare* part_of(int64_t rank) const {
    const int64_t at = parts_.empty() ? -1 : rank - parts_.front().rank();
    return at < 0 || at >= std::ssize(parts_) ? nullptr : &parts_[static_cast<size_t>(at)];
  }

  // Returns the operation of one end of a message.
  ExchangeOperation message(const CallShare& part, Exchange exchange) {
    ExchangeOperation moving;
    moving.parts = {part};
    moving.exchange = std::move(exchange);
    moving.exchange.count = c_.count * size_of(c_.dtype);
    const std::shared_ptr<DeviceMemory> memory = transport_.memory(moving.exchange.self);
    if (moving.exchange.kind == CollectiveKind::send)
      send_piece(moving, part, memory);
    else
      receive_bytes(moving, moving.exchange.count, memory);
    return moving;
  }

  Transport& transport_;
  const Collective& c_;
  RankBlocks blocks_;
  std::deque<BenchmarkTensors> tensors_;
  std::deque<Submission> submissions_;
  std::vector<CallShare> parts_;
  int64_t round_ = 0;
  std::optional<double> expected_seconds_;
  bool asked_ = false, is_timed_ = false, all_on_device_ = true, ends_later_ = false;
  bool was_idle_ = false;
  int64_t timed_ = 0;  // calls timed so far
  std::vector<Mark> begun_;
};

std::optional<double> ProcessBenchmark::device_seconds() {
  if (!all_on_device_ || begun_.empty()) return std::nullopt;
  const std::vector<Mark> ended = mark();
  await_end();
  double longest = 0;
  for (size_t i = 0; i < ended.size(); ++i) {
    Device& device = *ended[i].device;
    while (!device.event_completed(ended[i].event)) {
    }
    longest = std::max(longest, device.between(begun_[i].event, ended[i].event).time * 1e-6);
    device.forget(begun_[i].event);
    device.forget(ended[i].event);
  }
  begun_.clear();
  return longest;
}

}  // namespace

BenchmarkResult run_process_benchmark(Transport& transport, const CollectiveBenchmark& repetition) {
  using Clock = std::chrono::steady_clock;
  BenchmarkResult result;
  {
    ProcessBenchmark parts(transport, repetition);
    for (int i = 0; i < repetition.warmup; ++i) parts.once();
    parts.run_barrier();
    parts.start_clock();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < repetition.times; ++i) parts.once();
    const std::optional<double> on_device = parts.device_seconds();
    parts.await_end();
    const TimedBy by_device = parts.holds_launches() ? TimedBy::device_and_launch : TimedBy::device;
    result.clock = on_device ? by_device : TimedBy::world;
    result.seconds =
        on_device.value_or(std::chrono::duration<double>(Clock::now() - start).count()) /
        repetition.times;
    result.expected_seconds = parts.expected_seconds();
  }
  if (repetition.checking == Checking::none) return result;
  ProcessBenchmark parts(transport, repetition);
  parts.once();
  parts.await_end();
  result.wrong = parts.count_wrong();
  return result;
}

}  // namespace shardproof
