// Implements the fake GPU's library for products, as cuBLASLt defines them, by three loops. They
// add terms in order as the host does, so results are bit-equal, except f32 computed as TF32.
#include <bit>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/gemm.h"
#include "shardproof/tests/gpu/fake_gpu/machine.h"

namespace shardproof {
namespace {

// Throws if stored rows or columns overlap.
void check_layout(const GemmMatrix& matrix, int64_t rows, int64_t columns) {
  const int64_t stored = matrix.transposed ? columns : rows;
  SP_CHECK(matrix.leading >= stored, "a matrix of {} stored rows has a leading dimension of {}",
           stored, matrix.leading);
}

// Keeps 10 bits after the point and truncates the rest.
float as_tf32(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000U);
}

template <typename C>
C element(const GemmMatrix& matrix, DType dtype, int64_t product, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  const int64_t offset = product * matrix.batch_stride + row + column * matrix.leading;
  return static_cast<C>(load_f64(matrix.start + offset * size_of(dtype), dtype));
}

template <typename C>
void multiply_all(const GemmCall& call, MatmulPrecision precision) {
  const C alpha = static_cast<C>(call.alpha);
  const bool cuts = precision == MatmulPrecision::high && call.dtype == DType::f32;
  const auto term = [&](const GemmMatrix& matrix, int64_t p, int64_t row, int64_t column) {
    const C value = element<C>(matrix, call.dtype, p, row, column);
    return cuts ? static_cast<C>(as_tf32(static_cast<float>(value))) : value;
  };
  const DType result = call.leaves_sums ? call.compute : call.dtype;
  for (int64_t p = 0; p < call.batch; ++p)
    for (int64_t j = 0; j < call.columns; ++j)
      for (int64_t i = 0; i < call.rows; ++i) {
        C sum{0};
        for (int64_t k = 0; k < call.depth; ++k)
          sum += term(call.a, p, i, k) * term(call.b, p, k, j);
        sum *= alpha;
        if (call.bias != nullptr)
          sum += static_cast<C>(load_f64(call.bias + i * size_of(call.dtype), call.dtype));
        const int64_t offset = p * call.batch_stride + i + j * call.leading;
        store_f64(call.result + offset * size_of(result), result, sum);
      }
}

// Requirements of Hopper's tensor cores for 8-bit floats (cuBLAS documentation,
// "cublasLtMatmul()"): both inputs by columns, sizes and addresses multiples of 16.
bool supports_8_bits(const GemmCall& call) {
  const auto is_even = [](int64_t size) { return size % 16 == 0; };
  const auto is_aligned = [&](const GemmMatrix& matrix) {
    return is_even(matrix.leading) && is_even(matrix.batch_stride) &&
           is_even(static_cast<int64_t>(reinterpret_cast<uintptr_t>(matrix.start)));
  };
  return call.dtype == DType::f8e4m3 && call.leaves_sums && call.a.transposed &&
         !call.b.transposed && is_aligned(call.a) && is_aligned(call.b) && is_even(call.rows) &&
         is_even(call.depth) && is_even(call.leading);
}

class FakeGpuGemm : public Gemm {
 public:
  FakeGpuGemm(std::shared_ptr<FakeGpu::Machine> machine, MatmulPrecision precision)
      : Gemm(precision), machine_(std::move(machine)) {}

  // The real library loads code when it is opened, which may wait until nothing runs on the GPU.
  bool open() override {
    const std::lock_guard guard(machine_->lock);
    SP_CHECK(is_open_ || machine_->calls == 0, "cuBLASLt is opened beside a call of NCCL");
    return is_open_ = true;
  }
  bool multiply(const GemmCall& call, DeviceMemory&, void* stream) override {
    check_layout(call.a, call.rows, call.depth);
    check_layout(call.b, call.depth, call.columns);
    check_layout({call.result, false, call.leading, 0}, call.rows, call.columns);
    SP_CHECK(reinterpret_cast<uintptr_t>(call.bias) % kBiasAlignment == 0,
             "a bias begins where kernels cannot read 16 bytes of it");
    SP_CHECK(!call.leaves_sums || call.bias == nullptr, "sums have no bias of their own");
    if (size_of(call.dtype) == 1 && !supports_8_bits(call)) return false;
    {
      const std::lock_guard guard(machine_->lock);
      ++machine_->products;
      if (size_of(call.dtype) == 1) ++machine_->products_of_8_bits;
      if (size_of(call.dtype) == 2 && call.leaves_sums) ++machine_->products_of_widened;
    }
    FakeGpu::enqueue(stream, [call, precision = precision()] {
      if (call.compute == DType::f64)
        multiply_all<double>(call, precision);
      else
        multiply_all<float>(call, precision);
      return true;
    });
    return true;
  }

 private:
  std::shared_ptr<FakeGpu::Machine> machine_;
  bool is_open_ = false;
};

}  // namespace

void multiply_matrices(CudaApi& api, const std::shared_ptr<FakeGpu::Machine>& machine) {
  api.open_gemm = [machine](MatmulPrecision precision) {
    return std::make_shared<FakeGpuGemm>(machine, precision);
  };
}

}  // namespace shardproof
