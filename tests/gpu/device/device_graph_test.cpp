// Tests of DeviceGraph: each launch has the effects of the recorded work, in streams that run as
// late as CUDA allows. Work that a graph cannot hold is refused and leaves the device usable.
#include <gtest/gtest.h>

#include "shardproof/backends/cuda/device_graph.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof::device_graph_test {
namespace {

constexpr int64_t kSize = 64;
constexpr int kStreams = 3;

// Replaces each byte of `to` by a sum that depends on the order of such steps.
void mix(Device& device, std::byte* to, const std::byte* from) {
  FakeGpu::enqueue(device.native_stream(), [=] {
    for (int64_t i = 0; i < kSize; ++i)
      to[i] = static_cast<std::byte>(3 * static_cast<int>(to[i]) + static_cast<int>(from[i]) + 1);
    return true;
  });
}

std::vector<std::byte> read(Device& device, const std::byte* memory) {
  std::vector<std::byte> contents(kSize);
  device.to_host(contents.data(), memory, kSize);
  return contents;
}

class Graph : public testing::TestWithParam<uint64_t> {
 protected:
  Graph() {
    FakeGpuOptions options;
    options.devices = 2;
    options.seed = GetParam();
    gpu_ = std::make_unique<FakeGpu>(options);
    device_ = open_device(gpu_->api(), 0);
    device_->start_clock();
    for (int stream = 0; stream < kStreams; ++stream) device_->use(stream);
    const std::vector<std::byte> zeros(kSize);
    for (int i = 0; i < kStreams; ++i) memory_.push_back(device_->upload(zeros.data(), kSize));
    device_->synchronize();
  }
  ~Graph() override {
    for (std::byte* const memory : memory_) device_->release(memory, kSize);
    device_->synchronize();
    EXPECT_EQ(gpu_->bytes_in_use(), 0);
  }

  // Random steps in several streams, ordered by events; some use memory of their own.
  void issue() {
    const Rng rng(GetParam(), 7);
    uint64_t draws = 0;
    const auto draw = [&] { return static_cast<int>(rng.integer(draws++, 0, kStreams - 1)); };
    for (int step = 0; step < 20; ++step) {
      const int stream = draw(), to = draw(), from = draw();
      device_->use(stream);
      device_->follow(std::vector<int>{0, 1, 2});
      if (step % 3 == 0) {
        std::byte* const own = device_->allocate(kSize);
        device_->copy(own, memory_[static_cast<size_t>(from)], kSize);
        mix(*device_, memory_[static_cast<size_t>(to)], own);
        device_->release(own, kSize);
      } else {
        mix(*device_, memory_[static_cast<size_t>(to)], memory_[static_cast<size_t>(from)]);
      }
    }
  }
  std::vector<std::vector<std::byte>> contents() {
    std::vector<std::vector<std::byte>> all;
    for (const std::byte* const memory : memory_) all.push_back(read(*device_, memory));
    return all;
  }
  void clear() {
    const std::vector<std::byte> zeros(kSize);
    for (std::byte* const memory : memory_) device_->to_device(memory, zeros.data(), kSize);
  }

  std::unique_ptr<FakeGpu> gpu_;
  std::shared_ptr<Device> device_;
  std::vector<std::byte*> memory_;
};

TEST_P(Graph, Launches_DoWhatTheRecordedWorkDoes) {
  std::vector<std::vector<std::vector<std::byte>>> direct;
  for (int i = 0; i < 3; ++i) {
    issue();
    device_->synchronize();
    direct.push_back(contents());
  }
  clear();
  DeviceGraph graph({device_}, [this] { issue(); });
  EXPECT_EQ(contents()[0], std::vector<std::byte>(kSize));  // recording runs nothing
  for (int i = 0; i < 3; ++i) {
    const auto [begin, end] = graph.launch();
    device_->synchronize();
    EXPECT_EQ(contents(), direct[static_cast<size_t>(i)]) << "launch " << i;
    EXPECT_GE(device_->between(begin, end).time, 0);
    device_->forget(begin);
    device_->forget(end);
  }
}

TEST_P(Graph, CopyWithTheHost_IsRefused_AndLeavesTheDeviceUsable) {
  std::vector<std::byte> host(kSize);
  for (const bool reads : {true, false}) {
    const auto copies = [&] {
      issue();
      if (reads) return device_->to_host(host.data(), memory_[0], kSize);
      device_->to_device(memory_[0], host.data(), kSize);
    };
    EXPECT_THROW(DeviceGraph({device_}, copies), Error);
    EXPECT_EQ(contents()[0], std::vector<std::byte>(kSize));
  }
  const int64_t copies = device_->host_copies();
  device_->to_host(host.data(), memory_[0], kSize);
  EXPECT_EQ(device_->host_copies(), copies + 1);
  issue();
  EXPECT_EQ(device_->host_copies(), copies + 1);
  device_->synchronize();
  EXPECT_NE(contents()[0], std::vector<std::byte>(kSize));
}

// A stream that is made during the recording is part of it, and so are those of a second device.
TEST_P(Graph, NewStreams_AndOtherDevices_AreRecorded) {
  const std::shared_ptr<Device> other = open_device(gpu_->api(), 1);
  const std::vector<std::byte> zeros(kSize);
  std::byte* const there = other->upload(zeros.data(), kSize);
  other->synchronize();
  {
    DeviceGraph graph({device_, other}, [&] {
      device_->use(9);
      mix(*device_, memory_[0], memory_[0]);
      other->select();
      mix(*other, there, there);
      device_->select();
    });
    EXPECT_EQ(read(*device_, memory_[0]), zeros);
    EXPECT_EQ(read(*other, there), zeros);
    graph.launch();
    device_->synchronize();
    EXPECT_EQ(read(*device_, memory_[0]), std::vector<std::byte>(kSize, std::byte{1}));
    EXPECT_EQ(read(*other, there), std::vector<std::byte>(kSize, std::byte{1}));
  }
  other->release(there, kSize);
  other->synchronize();
}

// Memory that the graph released may be used again within it, never what it was given.
TEST_P(Graph, MemoryOfInputs_IsNotUsedAgain) {
  const std::vector<std::byte> ones(kSize, std::byte{1});
  std::byte* const input = device_->upload(ones.data(), kSize);
  DeviceGraph graph({device_}, [&] {
    device_->use(0);
    mix(*device_, memory_[0], input);
    device_->release(input, kSize);
    std::byte* const own = device_->allocate(kSize);
    mix(*device_, own, own);
    device_->release(own, kSize);
    std::byte* const again = device_->allocate(kSize);
    EXPECT_EQ(again, own);
    EXPECT_NE(again, input);
    device_->release(again, kSize);
  });
  for (int i = 0; i < 2; ++i) {
    graph.launch();
    device_->synchronize();
  }
  EXPECT_EQ(contents()[0], std::vector<std::byte>(kSize, std::byte{8}));  // 3 * 2 + 1 + 1
}

INSTANTIATE_TEST_SUITE_P(Seeds, Graph, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace shardproof::device_graph_test
