// Compares every device kernel, compiled for the host as a loop, with the host's kernel. Code and
// functions of the C library are the same, so results must be bit-equal.
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/dtype/matmul_precision.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/cuda/gemm_from_contraction.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_kernels.h"
#include "shardproof/tests/gpu/kernels/kernel_equality.h"

namespace shardproof::testing {
namespace {

std::string same_bits(const KernelResults& results) {
  for (size_t o = 0; o < results.host.size(); ++o) {
    const Tensor &host = results.host[o], &device = results.device[o];
    if (bit_equal(host, 0, device, 0)) continue;
    const std::vector<double> expected = values_of(host), got = values_of(device);
    for (size_t i = 0; i < expected.size(); ++i)
      if (!(expected[i] == got[i]) && (expected[i] == expected[i] || got[i] == got[i]))
        return fmt::format("output {}, element {}: expected {}, found {}", o, i, expected[i],
                           got[i]);
    return fmt::format("output {}: a zero has another sign", o);
  }
  return "";
}

TEST(DeviceKernels, EveryKernel_GivesHostBits) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const DeviceKernels kernels = fake_kernels();
  const LawCounts counts = check_all_ops(kernels, device, 1000, same_bits);
  RecordProperty("cases", std::to_string(counts.cases));
  EXPECT_GT(counts.ops, 70);
  EXPECT_GT(fake_gpu.products(), 20);
  EXPECT_GT(fake_gpu.products_of_widened(), 20);
  EXPECT_EQ(fake_gpu.products_of_8_bits(), 0);
}

// A fake library for products that takes a bias only if it is aligned as cuBLASLt needs it.
class ReadsManyAtOnce : public Gemm {
 public:
  ReadsManyAtOnce(std::shared_ptr<Gemm> library, int64_t& biases)
      : Gemm(library->precision()), library_(std::move(library)), biases_(biases) {}
  bool open() override { return library_->open(); }
  bool multiply(const GemmCall& call, DeviceMemory& memory, void* stream) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(call.bias) % kBiasAlignment, 0u);
    biases_ += call.bias != nullptr;
    return library_->multiply(call, memory, stream);
  }

 private:
  std::shared_ptr<Gemm> library_;
  int64_t& biases_;
};

// The biases of the second and the third lane may lie at any address.
TEST(DeviceKernels, Bias_GoesToLibraryIfAligned) {
  const FakeGpu fake_gpu;
  CudaApi api = fake_gpu.api();
  int64_t biases = 0;
  api.open_gemm = [&biases, open = api.open_gemm](MatmulPrecision precision) {
    return std::make_shared<ReadsManyAtOnce>(open(precision), biases);
  };
  const std::shared_ptr<Device> device = open_device(api, 0);
  OpRecord op = builtin_ops().at("linear");
  op.samples = [] { return std::vector<Sample>{sample_of({{{5, 3}, {7, 3}, {7}}, DType::f32})}; };
  for (uint64_t seed = 0; seed < 2000; seed += 20) {  // strided and dense
    std::string failure;
    compare_kernels(op, fake_kernels(), device, seed, same_bits, failure);
    EXPECT_EQ(failure, "");
  }
  EXPECT_GT(biases, 40);
}

// Many threads that share a line give the result of one thread.
TEST(DeviceKernels, LongLines_GiveHostBits) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  check_long_lines(fake_kernels(), device, 3000, same_bits);
}

// A library with lower precision multiplies in fewer bits what the host rounds to f32 or to 8 bits.
TEST(DeviceKernels, LowPrecisionProducts_AreUsed) {
  const FakeGpu fake_gpu;
  CudaApi api = fake_gpu.api();
  api.matmul = MatmulPrecision::high;
  const std::shared_ptr<Device> device = open_device(api, 0);
  const DeviceKernels kernels = fake_kernels();
  EXPECT_GT(check_products_in_few_bits(kernels, device, 7000).cases, 2 * 12 * 5);
  EXPECT_GT(fake_gpu.products_of_8_bits(), 6);
  EXPECT_GT(fake_gpu.products_of_widened(), 6);

  OpRecord op = builtin_ops().at("matmul");
  op.samples = [] {
    return std::vector<Sample>{
        sample_of({{{32, 48}, {48, 64}}, DType::f32, {"uniform(-2, 2)", "uniform(-2, 2)"}})};
  };
  std::string failure;
  for (uint64_t seed = 0; seed < 600 && failure.empty(); seed += 100)
    compare_kernels(op, kernels, device, seed, within_units, failure);
  EXPECT_NE(failure.find("f32"), std::string::npos) << "TF32 is within the units of f32";
}

std::string error_of(const OpRecord& op, const Kernel& kernel, const std::vector<Tensor>& inputs,
                     const std::shared_ptr<Device>& device) {
  const std::vector<TensorMeta> outputs =
      op.infer({nullptr, {{inputs[0].dtype, inputs[0].shape}, {inputs[1].dtype, inputs[1].shape}}});
  std::vector<LaneView> views;
  for (const Tensor& tensor : inputs) {
    const Bytes& bytes = tensor.buffer->bytes;
    LaneView& view = views.emplace_back();
    view.base = const_cast<std::byte*>(device ? bytes.device_data(device) : bytes.data());
    view.dtype = tensor.dtype;
    view.shape = tensor.shape;
    view.strides = tensor.strides;
  }
  Tensor result = Tensor::empty(outputs[0].dtype, outputs[0].shape);
  Bytes& bytes = result.buffer->bytes;
  std::vector<LaneView> out(1, views[1]);
  out[0].base = device ? bytes.device_mutate(device) : bytes.mutate();
  out[0].shape = result.shape;
  out[0].strides = result.strides;
  Bytes workspace = Bytes::zeros(kernel.workspace_bytes);
  KernelCall call;
  call.inputs = &views;
  call.outputs = &out;
  call.workspace = device ? workspace.device_mutate(device) : workspace.mutate();
  call.memory = device.get();
  if (device) call.stream = device->native_stream();
  try {
    kernel.run(call);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(DeviceKernels, DataErrors_HaveHostTexts) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const OpRegistry registry = builtin_ops();
  const OpRecord& op = registry.at("embedding");
  const Tensor table = tensor_of(DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6});
  for (const double last : {2.0, 3.0, -1.0}) {
    const std::vector<Tensor> inputs{tensor_of(DType::i32, {3}, {0, 1, last}), table};
    const std::vector<TensorMeta> metas{{DType::i32, {3}}, {DType::f32, {3, 2}}};
    const OpCall call{nullptr, metas};
    const Kernel host = op.prepare(call, op.infer(call));
    const Kernel on_device = fake_kernels().find(host, metas, op.infer(call));
    const std::string expected = error_of(op, host, inputs, nullptr);
    EXPECT_EQ(expected == "no error", last == 2);
    EXPECT_EQ(error_of(op, on_device, inputs, device), expected);
  }
}

// A family without a loop in a list would silently run on the host, as complex numbers do.
TEST(DeviceKernels, ElementwiseOps_HaveKernels) {
  const FakeGpu fake_gpu;
  const std::shared_ptr<Device> device = open_device(fake_gpu.api(), 0);
  const DeviceKernels kernels = fake_kernels();
  const OpRegistry registry = builtin_ops();
  for (const OpRecord* op : registry.all()) {
    if (op->family != "elementwise" && op->family != "optimizer") continue;
    if (!op->prepare) continue;
    std::string failure;
    const KernelCases cases = compare_kernels(
        *op, kernels, device, 1, [](const KernelResults&) { return std::string(); }, failure);
    for (const std::string& text : cases.on_host)
      EXPECT_TRUE(text.find("c64") != text.npos || text.find("c128") != text.npos)
          << op->name << " " << text;
  }
}

}  // namespace
}  // namespace shardproof::testing
