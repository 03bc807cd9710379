// Measures the local backend alone, with and without virtual time. It times a launch, a call of
// whole groups, and a call of cohorts of one, beyond the work itself.
#include <deque>

#include "shardproof/backends/local/local_backend.h"
#include "shardproof/bench/measure.h"
#include "shardproof/sim/cost/cost_model.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

LocalTensor flat(const Lanes& lanes, const Slots& slots) {
  Tensor tensor = Tensor::empty(DType::f32, {1}, lanes, slots);
  for (int64_t slot = 0; slot < slots.count(); ++slot)
    store_f64(tensor.mutate(slot), DType::f32, 1.0);
  return LocalTensor(std::move(tensor));
}

WorldOptions options_of(int64_t ranks, bool timed) {
  WorldOptions options;
  options.ranks = ranks;
  if (timed) options.cost = flat_machine({{5'000'000}, 50e9});
  return options;
}

Collective all_reduce(const Group& group) {
  Collective c;
  c.kind = CollectiveKind::all_reduce;
  c.group = group;
  c.count = 1;
  return c;
}

enum class Clock { off, on };

// Returns the seconds per launch of trivial work on an idle stream.
double launch_seconds(Clock clock) {
  constexpr int64_t kWorks = 200'000;
  const std::unique_ptr<World> world = local_world(options_of(1, clock == Clock::on));
  ExecutionContext& context = world->open(Lanes::one(0));
  int64_t ran = 0;
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < kWorks; ++i) {
      Work work;
      work.lanes = Lanes::one(0);
      work.body = [&ran] { ++ran; };
      context.launch(std::move(work));
    }
  });
  SP_CHECK(ran == kWorks, "{} of {} works ran", ran, kWorks);
  return seconds / kWorks;
}

// Returns the seconds per call and rank of one cohort of all ranks, with a clock.
double whole_group_seconds(int64_t ranks) {
  constexpr int kCalls = 16;
  const std::unique_ptr<World> world = local_world(options_of(ranks, true));
  const Lanes all = Lanes::range(0, ranks);
  ExecutionContext& context = world->open(all);
  const Group group = Group::world(ranks);
  std::deque<LocalTensor> values{flat(all, Slots::each(ranks))};
  const double seconds = seconds_of([&] {
    for (size_t i = 0; i < kCalls; ++i) {
      values.push_back(flat(all, Slots::shared(ranks)));
      Call call;
      call.collective = all_reduce(group);
      call.lanes = all;
      call.input = &values[i];
      call.output = &values.back();
      context.submit({&call, 1}, kMainStream);
    }
  });
  return seconds / static_cast<double>(kCalls * ranks);
}

// Returns the seconds per call and rank of cohorts of one rank.
double single_seconds(int64_t ranks, Clock clock) {
  const int64_t calls = std::max<int64_t>(8, 65'536 / ranks);
  const std::unique_ptr<World> world = local_world(options_of(ranks, clock == Clock::on));
  const Group group = Group::world(ranks);
  std::vector<ExecutionContext*> contexts;
  std::deque<LocalTensor> inputs, outputs;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    contexts.push_back(&world->open(Lanes::one(rank)));
    inputs.push_back(flat(Lanes::one(rank), Slots::shared(1)));
    outputs.push_back(flat(Lanes::one(rank), Slots::shared(1)));
  }
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < calls; ++i)
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Call call;
        call.collective = all_reduce(group);
        call.lanes = Lanes::one(rank);
        call.input = &inputs[static_cast<size_t>(rank)];
        call.output = &outputs[static_cast<size_t>(rank)];
        contexts[static_cast<size_t>(rank)]->submit({&call, 1}, kMainStream);
      }
  });
  return seconds / static_cast<double>(ranks * calls);
}

double median_of(const std::function<double()>& measure) {
  measure();
  std::vector<double> seconds;
  for (int round = 0; round < 7; ++round) seconds.push_back(measure());
  return median(std::move(seconds));
}

std::string nanoseconds(double seconds) { return fmt::format("{:.1f} ns", seconds * 1e9); }

}  // namespace

int main() {
  print_head();
  const double launch = median_of([] { return launch_seconds(Clock::off); });
  const auto row = [&](const std::string& what, double seconds, const char* target) {
    print({what, nanoseconds(seconds), "a launch: " + nanoseconds(launch),
           fmt::format("{:.1f}", seconds / launch), target});
  };
  row("launch, with a clock", median_of([] { return launch_seconds(Clock::on); }), "");
  for (const int64_t ranks : {4096, 65536})
    row(fmt::format("all_reduce of one f32, one cohort of {} ranks, a rank", ranks),
        median_of([&] { return whole_group_seconds(ranks); }), "");
  for (const Clock clock : {Clock::off, Clock::on})
    for (const int64_t ranks : {8, 1024, 16384})
      row(fmt::format("all_reduce of one f32, cohorts of one, {} ranks, {} clock, a call", ranks,
                      clock == Clock::on ? "with a" : "no"),
          median_of([&] { return single_seconds(ranks, clock); }), "250 ns");
}
