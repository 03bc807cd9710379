// Tests of NcclSession on a fake NCCL that completes calls as late as NCCL may. The process has one
// GPU and is alone in its world.
#include "shardproof/backends/nccl/nccl_session.h"

#include <gtest/gtest.h>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"

namespace shardproof {
namespace {

constexpr int kRepetitions = 20;  // each with other delays

FakeGpuOptions with_timeout() {
  FakeGpuOptions options;
  options.timeout_seconds = 10;
  return options;
}

class Session : public testing::Test {
 protected:
  Session() : machine_(with_timeout()), device_(open_device(machine_.api(), 0)) {
    options_.memory = machine_.api();
    options_.enqueue = FakeGpu::enqueue_when;
    options_.version = 23007;
    reopen();
  }
  void reopen() {
    api_ = fake_gpu::nccl_api(options_);
    EXPECT_EQ(api_.get_unique_id(&id_), nccl::kSuccess);
  }
  std::unique_ptr<NcclSession> alone() {
    return std::make_unique<NcclSession>(api_, id_, NcclRanks{},
                                         [this](int) { device_->select(); });
  }
  int add_up(NcclComm comm) {
    std::byte* const at = memory_ != nullptr ? memory_ : memory_ = device_->allocate(4);
    return api_.all_reduce(at, at, 1, nccl::f32, nccl::sum, comm, device_->native_stream());
  }
  FakeGpu machine_;
  std::shared_ptr<Device> device_;
  std::byte* memory_ = nullptr;
  fake_gpu::NcclOptions options_;
  NcclApi api_;
  NcclId id_{};
  bool released_ = false;  // releases the stream that was stopped
};

TEST_F(Session, Split_ReturnsSuccessBeforeItIsMade) {
  const auto session = alone();
  const NcclComm world = session->world(0);
  NcclConfig config;
  config.blocking = 0;
  NcclComm child = nullptr;
  EXPECT_EQ(api_.comm_split(world, 0, 0, &child, &config), nccl::kSuccess);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(add_up(world), nccl::kInvalidArgument);
  int state = nccl::kInProgress;
  while (state == nccl::kInProgress) {
    EXPECT_EQ(child, nullptr);
    ASSERT_EQ(api_.async_error(world, &state), nccl::kSuccess);
  }
  EXPECT_NE(child, nullptr);
}

TEST_F(Session, FormedTeam_IsReadyForCalls) {
  const auto session = alone();
  const auto expect_ready = [&](NcclComm comm, int code) {
    ASSERT_NE(comm, nullptr);
    for (const NcclComm each : {comm, session->world(0)}) {
      EXPECT_EQ(add_up(each), code);
      while (session->poll_communicators({each}, code) != NcclSession::State::ready) {
      }
    }
    device_->synchronize();
  };
  for (int i = 0; i < kRepetitions; ++i) {
    session->form({{0}});
    expect_ready(session->world(0), nccl::kInProgress);
    const NcclComm one_sided = session->make_put_communicator();
    EXPECT_EQ(session->await_put_communicator(nccl::kSuccess), "");
    expect_ready(one_sided, nccl::kInProgress);
    session->abort_put_communicator();
  }
  EXPECT_EQ(session->make_blocking_communicators({0}).size(), 1u);
}

// Calls of two communicators in one stream; the first communicator never reaches its call.
TEST_F(Session, Abort_WaitsOnlyForCallsThatItEnds) {
  const auto session = alone();
  const NcclComm world = session->world(0), other = session->make_put_communicator();
  EXPECT_EQ(session->await_put_communicator(nccl::kSuccess), "");
  FakeGpu::enqueue_when(
      device_->native_stream(), [this] { return released_; }, [] { return true; });
  for (const NcclComm comm : {world, other}) {
    EXPECT_EQ(add_up(comm), nccl::kInProgress);
    while (session->poll_communicators({comm}, nccl::kInProgress) != NcclSession::State::ready) {
    }
  }
  EXPECT_EQ(api_.comm_abort(other), nccl::kInvalidUsage);
  EXPECT_STREQ(api_.last_error(nullptr),
               "communicators with calls in streams that are aborted one by one wait for each "
               "other");
  session->abort();
  int state = 0;
  for (const NcclComm comm : {world, other})
    EXPECT_EQ(api_.async_error(comm, &state), nccl::kInvalidArgument);
  released_ = true;
  device_->synchronize();
}

TEST_F(Session, NcclAlgo_MustNameAnAlgorithmForEachCall) {
  const auto call = [&](const char* algorithms, bool gathers) {
    options_.algorithms = algorithms;
    reopen();
    const auto session = alone();
    const NcclComm world = session->world(0);
    const int code =
        gathers ? api_.all_gather(memory_, memory_, 1, nccl::f32, world, device_->native_stream())
                : add_up(world);
    if (code == nccl::kInProgress) {
      while (session->poll_communicators({world}, code) != NcclSession::State::ready) {
      }
      device_->synchronize();
    }
    return code;
  };
  EXPECT_EQ(call("Tree", false), nccl::kInProgress);
  EXPECT_EQ(call("Tree", true), nccl::kInvalidUsage);
  EXPECT_STREQ(api_.last_error(nullptr),
               "no algorithm/protocol available for function allgather. NCCL_ALGO was set to "
               "Tree.");
  EXPECT_EQ(call("Ring;allreduce:Tree", true), nccl::kInProgress);
  EXPECT_EQ(call("Ring;allreduce:PAT", false), nccl::kInvalidUsage);
  EXPECT_EQ(call("Ring", false), nccl::kInProgress);
}

}  // namespace
}  // namespace shardproof
