// Tests of the fake NCCL's checks on a thread that drives several GPUs. Calls without a group, a
// GPU that was not selected, and memory of another GPU are errors.
#include <gtest/gtest.h>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl.h"

namespace shardproof {
namespace {

constexpr int kGpus = 2;
constexpr int64_t kBytes = 4 * static_cast<int64_t>(sizeof(float));

FakeGpuOptions two_gpus() {
  FakeGpuOptions options;
  options.devices = kGpus;
  options.timeout_seconds = 10;
  return options;
}

class SeveralGpus : public testing::Test {
 protected:
  SeveralGpus() : machine_(two_gpus()) {
    options_.memory = machine_.api();
    options_.enqueue = FakeGpu::enqueue_when;
    api_ = fake_gpu::nccl_api(options_);
    for (int i = 0; i < kGpus; ++i) {
      devices_[i] = open_device(machine_.api(), i);
      memory_[i] = devices_[i]->allocate(kBytes);
      const float own = static_cast<float>(i + 1);
      const float values[] = {own, 2 * own, 3 * own, 4 * own};
      devices_[i]->to_device(memory_[i], reinterpret_cast<const std::byte*>(values), kBytes);
    }
    EXPECT_EQ(api_.get_unique_id(&id_), nccl::kSuccess);
  }

  int init(int i) {
    NcclConfig config;
    config.blocking = 0;
    devices_[i]->select();
    return api_.comm_init(&comms_[i], kGpus, id_, i, &config);
  }
  void init_all() {
    api_.group_start();
    for (int i = 0; i < kGpus; ++i) init(i);
    api_.group_end();
    for (const NcclComm comm : comms_) await(comm);
  }
  void await(NcclComm comm) {
    int state = nccl::kInProgress;
    while (state == nccl::kInProgress) ASSERT_EQ(api_.async_error(comm, &state), nccl::kSuccess);
    EXPECT_EQ(state, nccl::kSuccess);
  }
  int add_up(int i) {
    devices_[i]->select();
    return api_.all_reduce(memory_[i], memory_[i], 4, nccl::f32, nccl::sum, comms_[i],
                           devices_[i]->native_stream());
  }
  // Expects that a call is refused with this text.
  void expect_misuse(int code, const std::string& words) {
    EXPECT_EQ(code, nccl::kInvalidUsage);
    EXPECT_NE(std::string(api_.last_error(nullptr)).find(words), std::string::npos)
        << api_.last_error(nullptr);
  }

  static constexpr const char* kOneByOne = "used one by one wait for each other";
  FakeGpu machine_;
  fake_gpu::NcclOptions options_;
  NcclApi api_;
  NcclId id_{};
  std::shared_ptr<Device> devices_[kGpus];
  std::byte* memory_[kGpus] = {};
  NcclComm comms_[kGpus] = {};
};

TEST_F(SeveralGpus, Communicators_OfAThread_NeedOneGroup) {
  EXPECT_EQ(init(0), nccl::kInProgress);
  expect_misuse(init(1), kOneByOne);
}

TEST_F(SeveralGpus, AddressOfAnotherGpu_EndsTheProgram) {
  options_.reads_directly = true;
  api_ = fake_gpu::nccl_api(options_);
  api_.group_start();
  EXPECT_EQ(init(0), nccl::kInProgress);
  expect_misuse(init(1), "illegal memory access");
  api_.group_end();
}

TEST_F(SeveralGpus, Splits_OfAThread_NeedOneGroup) {
  init_all();
  NcclConfig config;
  config.blocking = 0;
  NcclComm children[kGpus] = {};
  expect_misuse(api_.comm_split(comms_[0], 0, 0, &children[0], &config), kOneByOne);
  api_.group_start();
  EXPECT_EQ(api_.comm_split(comms_[0], 0, 0, &children[0], &config), nccl::kSuccess);
  expect_misuse(api_.group_end(), kOneByOne);
  api_.group_start();
  for (int i = 0; i < kGpus; ++i) api_.comm_split(comms_[i], 0, i, &children[i], &config);
  EXPECT_EQ(api_.group_end(), nccl::kInProgress);
  for (const NcclComm child : children) EXPECT_EQ(child, nullptr);
  for (const NcclComm comm : comms_) await(comm);
  for (const NcclComm child : children) await(child);
}

TEST_F(SeveralGpus, Calls_OfAThread_NeedOneGroup) {
  init_all();
  expect_misuse(add_up(0), kOneByOne);
  api_.group_start();
  for (int i = 0; i < kGpus; ++i) EXPECT_EQ(add_up(i), nccl::kSuccess);
  EXPECT_EQ(api_.group_end(), nccl::kInProgress);
  for (const NcclComm comm : comms_) await(comm);
  for (int i = 0; i < kGpus; ++i) {
    float sums[4] = {};
    devices_[i]->to_host(reinterpret_cast<std::byte*>(sums), memory_[i], kBytes);
    for (int at = 0; at < 4; ++at) EXPECT_EQ(sums[at], static_cast<float>(3 * (at + 1)));
  }
}

// If one call of a group is refused, no call is made, and the end of the group returns the reason.
TEST_F(SeveralGpus, Group_WithRefusedCall_IsRefused) {
  init_all();
  api_.group_start();
  for (int i = 0; i < kGpus; ++i) add_up(i);
  EXPECT_EQ(api_.group_end(), nccl::kInProgress);
  await(comms_[1]);  // the other one is not polled
  api_.group_start();
  EXPECT_EQ(add_up(1), nccl::kSuccess);
  EXPECT_EQ(add_up(0), nccl::kInvalidArgument);
  EXPECT_EQ(api_.group_end(), nccl::kInvalidArgument);
  EXPECT_STREQ(api_.last_error(nullptr), "comm is not ready");
  await(comms_[0]);
}

TEST_F(SeveralGpus, Send_MatchesReceiveInTheGroup) {
  init_all();
  api_.group_start();
  devices_[0]->select();
  api_.send(memory_[0], 4, nccl::f32, 1, comms_[0], devices_[0]->native_stream());
  expect_misuse(api_.group_end(), kOneByOne);
}

TEST_F(SeveralGpus, Call_NeedsItsGpuSelected) {
  init_all();
  NcclStream const streams[] = {devices_[0]->native_stream(), devices_[1]->native_stream()};
  const auto add_up_on = [&](int i, int stream) {
    return api_.all_reduce(memory_[i], memory_[i], 4, nccl::f32, nccl::sum, comms_[i],
                           streams[stream]);
  };
  api_.group_start();
  expect_misuse(add_up_on(0, 0), "the thread is at GPU 1, its communicator at GPU 0");
  expect_misuse(add_up_on(1, 0), "a stream of GPU 0 on a communicator of GPU 1");
  api_.group_end();
}

TEST_F(SeveralGpus, MemoryOfAnotherGpu_IsRefused) {
  EXPECT_DEATH(
      {
        devices_[1]->copy(memory_[1], memory_[0], kBytes);
        devices_[1]->synchronize();
      },
      "a copy from an address that is not device memory");
  void* const stream = devices_[1]->native_stream();
  EXPECT_DEATH(
      {
        FakeGpu::enqueue(stream, [at = memory_[0]] { return *at = std::byte{1}, true; });
        devices_[1]->synchronize();
      },
      "");
  devices_[0]->select();
  EXPECT_DEATH(FakeGpu::enqueue(stream, [] { return true; }),
               "a kernel is started in a stream of GPU 1 while GPU 0 is the thread's");
}

}  // namespace
}  // namespace shardproof
