// Tests of Bytes on the host and on devices, and of Device's streams. The fake GPU's
// streams run as late as CUDA allows.
#include <gtest/gtest.h>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/tensor/tensor.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {
namespace {

constexpr int64_t kSize = 96;

// Adds a number to each byte, in the current stream of a device.
void add_on(Device& device, std::byte* memory, int64_t size, int number) {
  FakeGpu::enqueue(device.native_stream(), [=] {
    for (int64_t i = 0; i < size; ++i)
      memory[i] = static_cast<std::byte>(static_cast<int>(memory[i]) + number);
    return true;
  });
}

std::vector<std::byte> read(const Bytes& bytes) {
  return {bytes.data(), bytes.data() + bytes.size()};
}

// Makes random reads, writes and copies of Bytes that share contents, and the same on plain arrays.
class Interleaving {
 public:
  Interleaving(uint64_t seed, int devices) : rng_(seed, 1) {
    FakeGpuOptions options;
    options.devices = devices;
    options.seed = seed;
    fake_gpu_ = std::make_unique<FakeGpu>(options);
    for (int d = 0; d < devices; ++d) devices_.push_back(open_device(fake_gpu_->api(), d));
    for (int i = 0; i < 4; ++i) {
      bytes_.push_back(Bytes::zeros(kSize));
      expected_.emplace_back(kSize, std::byte{0});
    }
  }

  void step() {
    const size_t at = draw(bytes_.size()), other = draw(bytes_.size());
    Device& device = *devices_[draw(devices_.size())];
    const std::shared_ptr<DeviceMemory> memory = devices_[static_cast<size_t>(device.ordinal())];
    const int number = static_cast<int>(draw(255)) + 1;
    switch (draw(7)) {
      case 0: return share(at, other);
      case 1: return write(at, bytes_[at].mutate(), number);
      case 2:
        add_on(device, bytes_[at].device_mutate(memory), kSize, number);
        return expect_added(at, number);
      case 3: return copy_through(device, memory, at, other, number);
      case 4: ASSERT_EQ(read(bytes_[at]), expected_[at]); return;
      case 5:
        bytes_[at] = Bytes::zeros(kSize);
        expected_[at].assign(kSize, std::byte{0});
        return;
      default: device.synchronize(); return;
    }
  }

  void finish() {
    for (size_t i = 0; i < bytes_.size(); ++i) ASSERT_EQ(read(bytes_[i]), expected_[i]);
    bytes_.clear();
    for (const auto& device : devices_) device->synchronize();
    ASSERT_EQ(fake_gpu_->bytes_in_use(), 0);
  }

 private:
  size_t draw(size_t below) {
    return static_cast<size_t>(rng_.integer(draws_++, 0, static_cast<int64_t>(below)));
  }
  void share(size_t at, size_t other) {
    bytes_[at] = bytes_[other];
    expected_[at] = expected_[other];
  }
  void expect_added(size_t at, int number) {
    for (std::byte& each : expected_[at])
      each = static_cast<std::byte>(static_cast<int>(each) + number);
  }
  void write(size_t at, std::byte* host, int number) {
    for (int64_t i = 0; i < kSize; ++i)
      host[i] = static_cast<std::byte>(static_cast<int>(host[i]) + number);
    expect_added(at, number);
  }
  // Acts as a kernel: reads one tensor on the device and makes another one there.
  void copy_through(Device& device, const std::shared_ptr<DeviceMemory>& memory, size_t at,
                    size_t from, int number) {
    Bytes made = Bytes::on_device(memory, kSize);
    const std::byte* source = bytes_[from].device_data(memory);
    device.copy(made.device_mutate(memory), source, kSize);
    add_on(device, made.device_mutate(memory), kSize, number);
    bytes_[at] = std::move(made);
    expected_[at] = expected_[from];
    expect_added(at, number);
  }

  Rng rng_;
  uint64_t draws_ = 0;
  std::unique_ptr<FakeGpu> fake_gpu_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<Bytes> bytes_;
  std::vector<std::vector<std::byte>> expected_;
};

TEST(BytesOnDevices, RandomAccesses_AnywhereGiveEqualContents) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Interleaving run(seed, seed % 3 == 0 ? 2 : 1);
    for (int i = 0; i < 120; ++i) {
      run.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    run.finish();
  }
}

TEST(BytesOnDevices, NoBytes_AreValid) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<DeviceMemory> memory = open_device(fake_gpu.api(), 0);
  EXPECT_EQ(Bytes::on_device(memory, 0).size(), 0);
  EXPECT_NE(Bytes().device_mutate(memory), nullptr);
  EXPECT_EQ(fake_gpu.bytes_in_use(), 0);
}

TEST(Device, Wait_OrdersStreams_AndMissingWaitShows) {
  for (const bool waits : {true, false}) {
    FakeGpuOptions options;
    options.runs_ahead = 0;
    const FakeGpu fake_gpu(options);
    const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
    Bytes bytes = Bytes::on_device(device, kSize);
    std::byte* memory = bytes.device_mutate(device);
    const std::vector<std::byte> zeros(kSize), twos(kSize, std::byte{2});
    device->to_device(memory, zeros.data(), kSize);
    add_on(*device, memory, kSize, 2);
    const int64_t event = device->record();
    device->use(1);
    if (waits) device->wait(event);
    std::vector<std::byte> got(kSize);
    device->to_host(got.data(), memory, kSize);
    EXPECT_EQ(got == twos, waits);
    device->use(0);
  }
}

// Reads one of two buffers that share contents in a stream of its own, late, and frees it; writes
// the other one at once. The program does not order them, so Bytes must.
void write_what_another_stream_reads(uint64_t seed, bool on_device) {
  FakeGpuOptions options;
  options.seed = seed;
  const FakeGpu fake_gpu(options);
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  Bytes written = Bytes::zeros(kSize);
  written.device_data(device);
  Bytes shared = written;
  device->use(1);
  Bytes copy = Bytes::on_device(device, kSize);
  device->copy(copy.device_mutate(device), shared.device_data(device), kSize);
  shared = Bytes();
  device->use(0);
  if (on_device) {
    add_on(*device, written.device_mutate(device), kSize, 5);
  } else {
    written.mutate()[0] = std::byte{5};
    add_on(*device, written.device_mutate(device), kSize, 0);
  }
  EXPECT_EQ(read(written)[0], std::byte{5});
  device->use(1);
  EXPECT_EQ(read(copy), std::vector<std::byte>(kSize)) << "seed " << seed;
}

TEST(BytesOnDevices, SharedContents_WriteNeverOvertakesRead) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    write_what_another_stream_reads(seed, true);
    write_what_another_stream_reads(seed, false);
  }
}

// A stream that uses memory must be ordered after its allocation.
TEST(Device, Allocation_IsUsableAfterItsStream) {
  for (const bool follows : {true, false}) {
    FakeGpuOptions options;
    options.runs_ahead = 0;
    const FakeGpu fake_gpu(options);
    const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
    const int allocating = device->current();
    std::byte* const memory = device->allocate(kSize);
    device->use(1);
    if (follows) device->follow({&allocating, 1});
    const std::vector<std::byte> twos(kSize, std::byte{2});
    device->to_device(memory, twos.data(), kSize);
    device->synchronize();
    std::vector<std::byte> got(kSize);
    device->to_host(got.data(), memory, kSize);
    EXPECT_EQ(got == twos, follows);
    const int both[] = {0, 1};
    device->release(memory, kSize, both);
  }
}

TEST(Device, WaitForStream_CallsLook) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  int looks = 0, ends = 0;
  std::chrono::nanoseconds longest{-1};
  const auto look = [&](std::chrono::nanoseconds waited) {
    ++looks;
    EXPECT_GE(waited, longest);
    longest = waited;
  };
  device->call_while_waiting(look, [&] { ++ends; });
  FakeGpu::enqueue_when(
      device->native_stream(), [&looks] { return looks > 3; }, [] { return true; });
  device->synchronize();
  EXPECT_GT(looks, 3);
  EXPECT_GT(longest.count(), 0);
  EXPECT_EQ(ends, 1);
  device->synchronize();  // nothing to wait for
  EXPECT_EQ(ends, 1);
}

// A copy of pageable memory may block until its stream reaches it.
TEST(Device, Copy_CallsFunctionBefore) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  Bytes bytes = Bytes::on_device(device, kSize);
  std::byte* const memory = bytes.device_mutate(device);
  std::vector<std::byte> host(kSize);
  int looks = 0;
  device->call_while_waiting([&looks](std::chrono::nanoseconds) { ++looks; });
  const auto gate = [&] {
    looks = 0;
    FakeGpu::enqueue_when(
        device->native_stream(), [&looks] { return looks > 3; }, [] { return true; });
  };
  gate();
  device->to_device(memory, host.data(), kSize);
  gate();
  device->to_host(host.data(), memory, kSize);
  EXPECT_GT(looks, 3);
}

TEST(Device, Events_AreReachedInOrder_AndHaveTimes) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  device->start_clock();
  const int64_t before = device->record();
  Bytes bytes = Bytes::on_device(device, kSize);
  add_on(*device, bytes.device_mutate(device), kSize, 1);
  const int64_t after = device->record();
  while (!device->event_completed(after))
    EXPECT_FALSE(device->event_completed(after) && !device->event_completed(before));
  EXPECT_TRUE(device->event_completed(before));
  const DeviceSpan whole = device->between(before, after), none = device->between(after, after);
  EXPECT_GT(whole.start, 0);
  EXPECT_GT(whole.time, 0);
  EXPECT_EQ(none.time, 0);
  EXPECT_NEAR(none.start, whole.start + whole.time, 1e-3);
  device->forget(before);
  EXPECT_GT(device->record(), after);
}

// Imitates a slow machine: the resolution of a float falls with the time since the start.
TEST(Device, Times_AfterLongRun_StayExact) {
  constexpr float kSlower = 1000;
  const FakeGpu fake_gpu;
  CudaApi api = fake_gpu.api();
  float furthest = 0;
  api.elapsed = [&furthest, exact = api.elapsed](float* milliseconds, void* from, void* to) {
    const int status = exact(milliseconds, from, to);
    *milliseconds *= kSlower;
    furthest = std::max(furthest, *milliseconds);
    return status;
  };
  const std::shared_ptr<Device> device = open_device(api, 0);
  device->start_clock(std::chrono::nanoseconds(0));
  Bytes bytes = Bytes::on_device(device, kSize);
  std::vector<int64_t> events;
  for (int i = 0; i < 200; ++i) {
    add_on(*device, bytes.device_mutate(device), kSize, 1);
    events.push_back(device->record());
    if (i % 3 == 0) device->synchronize();
  }
  device->synchronize();
  double start = device->between(events[0], events[0]).start;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const DeviceSpan step = device->between(events[i], events[i + 1]);
    EXPECT_NEAR(step.start, start, 1e-3 * kSlower);
    start += step.time;
  }
  EXPECT_GT(start, 10 * 1000 * static_cast<double>(furthest));
  for (const int64_t event : events) device->forget(event);
}

TEST(Device, Release_WaitsForAllStreamsThatUsedIt) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  Bytes kept = Bytes::on_device(device, kSize);
  {
    const Bytes source = Bytes::zeros(kSize);
    device->use(1);
    const std::byte* from = source.device_data(device);
    device->copy(kept.device_mutate(device), from, kSize);
    device->use(0);
  }
  device->synchronize();
  device->use(1);
  EXPECT_EQ(read(kept), std::vector<std::byte>(kSize));
}

std::string refusal(const CudaApi& api, int ordinal = 0) {
  try {
    open_device(api, ordinal);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.message();
  }
  return "";
}

TEST(Device, Open_Impossible_GivesReason) {
  FakeGpuOptions options;
  options.driver_version = 0;
  EXPECT_EQ(refusal(FakeGpu(options).api()),
            "no NVIDIA driver on this machine (libcuda.so.1 was not found)");
  options.driver_version = 12040;
  EXPECT_EQ(refusal(FakeGpu(options).api()),
            "the driver is for CUDA 12.4 and this build needs 13.0");
  options.driver_version = 13020;
  options.devices = 0;
  EXPECT_EQ(refusal(FakeGpu(options).api()), "no GPU is visible");
  options.devices = 2;
  EXPECT_EQ(refusal(FakeGpu(options).api(), 2), "GPU 2 is not visible: 2 are");
  options.capability = 75;
  EXPECT_EQ(refusal(FakeGpu(options).api()),
            "fake GPU has compute capability 7.5 and this build needs 8.0");
  options.capability = 100;
  EXPECT_EQ(refusal(FakeGpu(options).api()), "");
  EXPECT_FALSE(why_no_device(FakeGpu(options).api()));
}

TEST(Device, CudaStartError_IsReported_WithHint) {
  CudaApi api = FakeGpu().api();
  int status = 999;
  api.device_count = [&status](int*) { return status; };
  EXPECT_EQ(refusal(api), "CUDA does not start: status 999");
  status = 802;
  EXPECT_EQ(refusal(api),
            "CUDA does not start: status 802 (GPUs that are joined by NVSwitch need the service "
            "nvidia-fabricmanager)");
}

TEST(Device, RealRuntime_Opens_OrGivesReason) {
  const CudaApi api = runtime_cuda_api();
  const std::optional<std::string> reason = why_no_device(api);
  EXPECT_EQ(refusal(api), reason.value_or(""));
  if (reason) {
    GTEST_SKIP() << "no GPU: " << *reason;
  }
  const std::shared_ptr<Device> device = open_device(api, 0);
  Bytes bytes = Bytes::zeros(kSize);
  Bytes made = Bytes::on_device(device, kSize);
  device->copy(made.device_mutate(device), bytes.device_data(device), kSize);
  EXPECT_EQ(read(made), read(bytes));
}

// Memory was freed in streams that were not synchronized, and in the device's own stream.
TEST(Device, FreedMemory_IsFoundByNextAllocation) {
  FakeGpuOptions options;
  options.device_bytes = 1 << 20;
  options.runs_ahead = 0;
  const FakeGpu fake_gpu(options);
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const int both[] = {0, 1};
  for (int i = 0; i < 8; ++i) {
    device->use(i % 2);
    std::byte* const memory = device->allocate(3 << 18);
    add_on(*device, memory, kSize, 1);
    if (i % 4 == 3)
      device->release(memory, 3 << 18, both);
    else
      device->release(memory, 3 << 18);
  }
}

TEST(Device, FullMemory_IsError) {
  FakeGpuOptions options;
  options.device_bytes = 1 << 20;
  const FakeGpu fake_gpu(options);
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const Bytes half = Bytes::on_device(device, 1 << 19);
  EXPECT_THROW(Bytes::on_device(device, 1 << 20), Error);
  Bytes rest = Bytes::on_device(device, 1 << 19);
  rest = Bytes();
  EXPECT_NO_THROW(Bytes::on_device(device, 1 << 19));
}

}  // namespace
}  // namespace shardproof
