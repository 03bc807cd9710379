// Products as cuBLASLt defines them, by three loops that add the terms in their order, as the
// host's engine does: results are equal to the bit.
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/gemm.h"
#include "shardproof/tests/gpu/stand_in/machine.h"

namespace shardproof {
namespace {

// Stored rows and columns may not overlap.
void check_layout(const GemmMatrix& matrix, int64_t rows, int64_t columns) {
  const int64_t stored = matrix.transposed ? columns : rows;
  SP_CHECK(matrix.leading >= stored, "a matrix of {} stored rows has a leading dimension of {}",
           stored, matrix.leading);
}

template <typename C>
C element(const GemmMatrix& matrix, DType dtype, int64_t product, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  const int64_t offset = product * matrix.batch_stride + row + column * matrix.leading;
  return static_cast<C>(load_f64(matrix.start + offset * size_of(dtype), dtype));
}

template <typename C>
void multiply_all(const GemmCall& call) {
  const C alpha = static_cast<C>(call.alpha);
  for (int64_t p = 0; p < call.batch; ++p)
    for (int64_t j = 0; j < call.columns; ++j)
      for (int64_t i = 0; i < call.rows; ++i) {
        C sum{0};
        for (int64_t k = 0; k < call.depth; ++k)
          sum += element<C>(call.a, call.dtype, p, i, k) * element<C>(call.b, call.dtype, p, k, j);
        sum *= alpha;
        const int64_t bytes = size_of(call.dtype);
        if (call.bias != nullptr)
          sum += static_cast<C>(load_f64(call.bias + i * bytes, call.dtype));
        const int64_t offset = p * call.batch_stride + i + j * call.leading;
        store_f64(call.result + offset * bytes, call.dtype, sum);
      }
}

class StandInGemm : public Gemm {
 public:
  explicit StandInGemm(std::shared_ptr<StandIn::Machine> machine) : machine_(std::move(machine)) {}

  bool multiply(const GemmCall& call, DeviceMemory&, void* stream) override {
    check_layout(call.a, call.rows, call.depth);
    check_layout(call.b, call.depth, call.columns);
    check_layout({call.result, false, call.leading, 0}, call.rows, call.columns);
    {
      const std::lock_guard guard(machine_->lock);
      ++machine_->products;
    }
    StandIn::enqueue(stream, [call] {
      if (call.compute == DType::f64)
        multiply_all<double>(call);
      else
        multiply_all<float>(call);
      return true;
    });
    return true;
  }

 private:
  std::shared_ptr<StandIn::Machine> machine_;
};

}  // namespace

void multiply_matrices(CudaApi& api, const std::shared_ptr<StandIn::Machine>& machine) {
  api.open_gemm = [machine] { return std::make_shared<StandInGemm>(machine); };
}

}  // namespace shardproof
