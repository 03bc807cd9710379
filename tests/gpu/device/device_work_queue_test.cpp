// Tests of DeviceWorkQueue. A ticket ends with its own work, a stream that waits for it waits for
// nothing else, and commands end in their order.
#include <gtest/gtest.h>

#include "shardproof/backends/remote/worker/device_times.h"
#include "shardproof/backends/remote/worker/device_work_queue.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {
namespace {

constexpr TicketTable::Place kMain{0, 0}, kComm{0, 1};

class Launched : public testing::Test {
 protected:
  Launched()
      : fake_gpu_(lazy()),
        device_(open_device(fake_gpu_.api(), 0)),
        launched_(std::vector{device_}) {
    launched_.assign_device(0, kMain.cohort);
  }

  // Launches work that ends when its gate is opened.
  void launch(TicketTable::Place place, Ticket ticket, const bool& gate) {
    launched_.enter(place);
    FakeGpu::enqueue_when(
        device_->native_stream(), [&gate] { return gate; }, [] { return true; });
    launched_.add(ticket, place);
  }
  // Polls often enough to be sure.
  void look() {
    for (int i = 0; i < 50; ++i) launched_.poll();
  }

  static FakeGpuOptions lazy() {
    FakeGpuOptions options;
    options.runs_ahead = 0;
    return options;
  }
  FakeGpu fake_gpu_;
  std::shared_ptr<Device> device_;
  DeviceWorkQueue launched_;
  bool open_ = true, first_ = false, second_ = false;
};

TEST_F(Launched, Ticket_EndsWithItsOwnWork) {
  launch(kMain, 1, first_);
  launch(kComm, 2, open_);
  launch(kMain, 3, second_);
  look();
  EXPECT_FALSE(launched_.has_ended(1, kMain));
  EXPECT_TRUE(launched_.has_ended(2, kComm));
  first_ = true;
  look();
  EXPECT_TRUE(launched_.has_ended(1, kMain));
  EXPECT_FALSE(launched_.has_ended(3, kMain));
  EXPECT_FALSE(launched_.all_ended());
  second_ = true;
  look();
  EXPECT_TRUE(launched_.all_ended());
}

TEST_F(Launched, Follow_WaitsForThatTicketOnly) {
  launch(kComm, 1, first_);
  launch(kComm, 2, second_);
  launched_.follow(kMain, 1, kComm);
  launch(kMain, 3, open_);
  look();
  EXPECT_FALSE(launched_.has_ended(3, kMain));
  first_ = true;
  look();
  EXPECT_TRUE(launched_.has_ended(3, kMain));
  EXPECT_FALSE(launched_.has_ended(2, kComm));
  second_ = true;
  device_->synchronize();
}

TEST_F(Launched, HostWork_EndsAfterEarlierStreamWork) {
  launch(kComm, 1, first_);
  launched_.add(2, kComm);
  launched_.follow(kMain, 2, kComm);
  launch(kMain, 3, open_);
  look();
  EXPECT_FALSE(launched_.has_ended(2, kComm));
  EXPECT_FALSE(launched_.has_ended(3, kMain));
  first_ = true;
  look();
  EXPECT_TRUE(launched_.has_ended(2, kComm));
  EXPECT_TRUE(launched_.all_ended());
  launched_.add(4, kComm);
  EXPECT_TRUE(launched_.has_ended(4, kComm));
}

TEST_F(Launched, CallInPieces_EndsWithLastPiece) {
  launch(kComm, 1, open_);
  launch(kComm, 1, first_);
  launched_.follow(kMain, 1, kComm);
  launch(kMain, 2, open_);
  look();
  EXPECT_FALSE(launched_.has_ended(1, kComm));
  EXPECT_FALSE(launched_.has_ended(2, kMain));
  first_ = true;
  look();
  EXPECT_TRUE(launched_.all_ended());
}

TEST_F(Launched, Commands_EndInOrder) {
  launch(kMain, 1, first_);
  launched_.end_command({kMain});
  launch(kComm, 2, open_);
  launched_.end_command({kComm});
  launched_.end_command({});
  look();
  EXPECT_EQ(launched_.commands_launched(), 3);
  EXPECT_EQ(launched_.commands_ended(), 0);
  first_ = true;
  look();
  EXPECT_EQ(launched_.commands_ended(), 3);
}

// The time between two events of an idle stream includes the time that the host takes to launch the
// work between them.
TEST_F(Launched, Time_StatesWhetherItIncludesLaunch) {
  DeviceTimes times;
  times.start(device_, {});
  const auto clock_of = [&](Ticket ticket) { return times.of(ticket, TicketTimes{}).clock; };
  launched_.enter(kMain);
  launch(kMain, 2, first_);
  times.end(2, times.begin());
  const int64_t begun = times.begin();
  first_ = true;
  device_->synchronize();
  times.end(3, begun);
  EXPECT_EQ(clock_of(2), TimedBy::device);
  EXPECT_EQ(clock_of(3), TimedBy::device_and_launch);
  EXPECT_EQ(clock_of(4), TimedBy::world);
}

// Only the device of its cohort determines the state of a ticket.
TEST(LaunchedOnTwo, Cohorts_HaveTheirOwnDevice) {
  FakeGpuOptions options;
  options.devices = 2;
  options.runs_ahead = 0;
  const FakeGpu machine(options);
  DeviceWorkQueue launched({open_device(machine.api(), 0), open_device(machine.api(), 1)});
  constexpr TicketTable::Place kPlaces[] = {{0, 0}, {1, 0}};
  bool gates[] = {false, false};
  for (size_t i = 0; i < 2; ++i) {
    const auto cohort = static_cast<int32_t>(i);
    EXPECT_EQ(launched.assign_device(i, cohort)->ordinal(), cohort);
    EXPECT_EQ(launched.device_of(cohort), launched.devices()[i]);
    launched.enter(kPlaces[i]);
    FakeGpu::enqueue_when(
        launched.device_of(cohort)->native_stream(), [gate = &gates[i]] { return *gate; },
        [] { return true; });
    launched.add(cohort + 1, kPlaces[i]);
  }
  launched.end_command({kPlaces[0], kPlaces[1]});
  const auto look = [&launched] {
    for (int i = 0; i < 50; ++i) launched.poll();
  };
  gates[1] = true;
  look();
  EXPECT_FALSE(launched.has_ended(1, kPlaces[0]));
  EXPECT_TRUE(launched.has_ended(2, kPlaces[1]));
  EXPECT_EQ(launched.commands_ended(), 0);
  gates[0] = true;
  look();
  EXPECT_TRUE(launched.all_ended());
  EXPECT_EQ(launched.commands_ended(), 1);
}

TEST(LaunchedNowhere, NoDevice_AllHasEnded) {
  DeviceWorkQueue launched(std::vector<std::shared_ptr<Device>>{});
  launched.enter(kMain);
  launched.add(1, kMain);
  launched.follow(kComm, 1, kMain);
  launched.end_command({kMain});
  EXPECT_TRUE(launched.has_ended(1, kMain));
  EXPECT_TRUE(launched.all_ended());
  EXPECT_EQ(launched.commands_ended(), 1);
}

}  // namespace
}  // namespace shardproof
