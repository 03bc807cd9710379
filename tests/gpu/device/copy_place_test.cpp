// Tests of copies between layouts on a device: the elements are those of the same copy on the host,
// and nothing passes through the host.
#include "shardproof/localtensor/tensor/copy_place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

namespace shardproof {
namespace {

class Draws {
 public:
  explicit Draws(uint64_t seed) : rng_(seed, 3) {}
  int64_t operator()(int64_t from, int64_t below) { return rng_.integer(at_++, from, below); }

 private:
  Rng rng_;
  uint64_t at_ = 0;
};

// Returns a tensor of two lanes with copies of their own.
Tensor random_tensor(Draws& draw) {
  constexpr DType kDTypes[] = {DType::u8, DType::bf16, DType::f32, DType::f64, DType::c128};
  Dims shape;
  for (int64_t d = draw(0, 5); d > 0; --d) shape.push_back(draw(1, 6));
  const DType dtype = kDTypes[draw(0, 5)];
  Tensor tensor = Tensor::empty(dtype, shape, Lanes::range(0, 2), Slots::each(2));
  std::byte* const data = tensor.buffer->bytes.mutate();
  for (int64_t i = 0; i < tensor.buffer->bytes.size(); ++i)
    data[i] = static_cast<std::byte>(draw(0, 256));
  return tensor;
}

// Returns a view of some elements, with dims in another order and some of them repeated.
Tensor random_view(Tensor tensor, Draws& draw) {
  for (int d = 0; d < tensor.shape.size(); ++d) {
    const int64_t first = draw(0, tensor.shape[d]), step = draw(1, 3);
    tensor.offset += first * tensor.strides[d];
    tensor.shape[d] = (tensor.shape[d] - first + step - 1) / step;
    tensor.strides[d] *= step;
    if (draw(0, 8) == 0) tensor.strides[d] = 0;
  }
  for (int d = 1; d < tensor.shape.size(); ++d) {
    const int other = static_cast<int>(draw(0, d + 1));
    std::swap(tensor.shape[d], tensor.shape[other]);
    std::swap(tensor.strides[d], tensor.strides[other]);
  }
  return tensor;
}

Tensor on_device(Tensor tensor, const std::shared_ptr<Device>& device) {
  auto own = std::make_shared<Buffer>(*tensor.buffer);
  tensor.buffer = std::move(own);
  tensor.buffer->bytes.device_mutate(device);
  return tensor;
}

TEST(CopyPlace, RandomViews_AreCopiedOnTheDevice) {
  FakeGpuOptions options;
  options.seed = 5;
  const FakeGpu fake_gpu(options);
  {
    const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
    Draws draw(1);
    for (int i = 0; i < 2000; ++i) {
      const Tensor whole = random_tensor(draw), view = random_view(whole, draw);
      Tensor there = on_device(view, device);
      const int64_t before = device->host_copies();
      const Tensor copy = contiguous_copy(there);
      ASSERT_EQ(device->host_copies(), before);
      const Tensor expected = contiguous_copy(view);
      for (const int64_t slot : {0, 1})
        ASSERT_TRUE(bit_equal(copy, slot, expected, slot))
            << to_string(view.shape) << " strides " << to_string(view.strides);
    }
  }
  EXPECT_EQ(fake_gpu.bytes_in_use(), 0);
}

TEST(CopyPlace, SharedCopy_IsSeparatedOnTheDevice) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const Tensor one = tensor_of(DType::f32, {3}, {1, 2, 3});
  Tensor shared = Tensor::empty(DType::f32, {3}, Lanes::range(0, 3), Slots::shared(3));
  shared.buffer->bytes = one.buffer->bytes;
  shared.buffer->bytes.device_mutate(device);
  const int64_t before = device->host_copies();
  separate(*shared.buffer, Lanes::range(1, 2));
  EXPECT_EQ(device->host_copies(), before);
  EXPECT_EQ(shared.buffer->slots.count(), 2);
  for (const int64_t slot : {0, 1}) EXPECT_TRUE(bit_equal(shared, slot, one, 0));
}

TEST(CopyPlace, ClearedBytes_AreZero) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  Tensor tensor = on_device(tensor_of(DType::f32, {4}, {1, 2, 3, 4}), device);
  const CopyPlace place = CopyPlace::of(tensor);
  ASSERT_FALSE(place.is_host());
  place.clear(place.write(tensor, 0) + 4, 8);
  EXPECT_EQ(values_of(tensor), (std::vector<double>{1, 0, 0, 4}));
}

// Contents that are valid on the host are copied on the host, even if a device has them too.
TEST(CopyPlace, ContentsOfTheHost_StayThere) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  Tensor tensor = tensor_of(DType::f32, {2}, {1, 2});
  EXPECT_TRUE(CopyPlace::of(tensor).is_host());
  static_cast<void>(tensor.buffer->bytes.device_data(device));
  EXPECT_TRUE(CopyPlace::of(tensor).is_host());
  tensor = on_device(tensor, device);
  EXPECT_FALSE(CopyPlace::of(tensor).is_host());
  EXPECT_EQ(values_of(tensor), (std::vector<double>{1, 2}));
  EXPECT_TRUE(CopyPlace::of(tensor).is_host());
}

}  // namespace
}  // namespace shardproof
