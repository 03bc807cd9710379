// The local door, bare: what a launch, a call of whole groups and a call of cohorts of one cost
// beyond the work itself; and four all-reduces of one f32 in one cohort with virtual time.
#include <cstdio>
#include <ctime>
#include <deque>

#include "shardproof/backends/local.h"
#include "shardproof/sim/cost_model.h"

namespace {

using namespace shardproof;

// Processor time: the program has one thread, and the machine may be shared.
double seconds_of(const std::function<void()>& run) {
  const std::clock_t start = std::clock();
  run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

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

void launches(bool timed) {
  constexpr int64_t kWorks = 1'000'000;
  const std::unique_ptr<World> world = local_world(options_of(1, timed));
  Door& door = world->open(Lanes::one(0));
  int64_t ran = 0;
  const double seconds = seconds_of([&] {
    for (int64_t i = 0; i < kWorks; ++i) {
      Work work;
      work.lanes = Lanes::one(0);
      work.body = [&ran] { ++ran; };
      door.launch(std::move(work));
    }
  });
  std::printf("launch %-8s   %6.1f ns\n", timed ? "timed" : "untimed", seconds * 1e9 / kWorks);
}

void one_cohort(int64_t ranks) {
  double inner = 0;
  const double seconds = seconds_of([&] {
    const std::unique_ptr<World> world = local_world(options_of(ranks, true));
    const Lanes all = Lanes::range(0, ranks);
    Door& door = world->open(all);
    const Group group = Group::world(ranks);
    std::deque<LocalTensor> values{flat(all, Slots::each(ranks))};
    inner = seconds_of([&] {
      for (int i = 0; i < 4; ++i) {
        values.push_back(flat(all, Slots::shared(ranks)));
        Call call;
        call.collective = all_reduce(group);
        call.lanes = all;
        call.input = &values[static_cast<size_t>(i)];
        call.output = &values.back();
        door.submit({&call, 1}, kMainStream);
      }
    });
    door.finish();
    world->close();
  });
  std::printf("one cohort of %6ld   4 all_reduce   %8.5f s, calls alone %8.5f s\n",
              static_cast<long>(ranks), seconds, inner);
}

void cohorts_of_one(int64_t ranks, bool timed) {
  constexpr int kCalls = 16;
  const std::unique_ptr<World> world = local_world(options_of(ranks, timed));
  const Group group = Group::world(ranks);
  std::vector<Door*> doors;
  std::deque<LocalTensor> inputs, outputs;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    doors.push_back(&world->open(Lanes::one(rank)));
    inputs.push_back(flat(Lanes::one(rank), Slots::shared(1)));
    outputs.push_back(flat(Lanes::one(rank), Slots::shared(1)));
  }
  const double seconds = seconds_of([&] {
    for (int i = 0; i < kCalls; ++i)
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Call call;
        call.collective = all_reduce(group);
        call.lanes = Lanes::one(rank);
        call.input = &inputs[static_cast<size_t>(rank)];
        call.output = &outputs[static_cast<size_t>(rank)];
        doors[static_cast<size_t>(rank)]->submit({&call, 1}, kMainStream);
      }
  });
  std::printf("cohorts of one, %6ld ranks %-8s   %6.1f ns a call\n", static_cast<long>(ranks),
              timed ? "timed" : "untimed", seconds * 1e9 / static_cast<double>(ranks * kCalls));
}

}  // namespace

int main() {
  for (const bool timed : {false, true}) launches(timed);
  for (const int64_t ranks : {4096, 16384, 65536}) one_cohort(ranks);
  for (const bool timed : {false, true})
    for (const int64_t ranks : {8, 1024, 16384}) cohorts_of_one(ranks, timed);
}
