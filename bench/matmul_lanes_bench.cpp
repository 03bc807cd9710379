// Measures the two products of a tensor-parallel MLP forward, cut over many lanes of one cohort,
// and the same products uncut. y = (x w1) w2 with x [16, 256], w1 [256, 1024] cut by columns,
// and w2 [1024, 256] cut by rows.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "shardproof/ops/core/op.h"

namespace {

using namespace shardproof;

struct Operand {
  Dims shape;
  int64_t copies = 1;
  std::vector<std::byte> bytes;
  LaneView view;
};

Operand operand(DType dtype, const Dims& shape, int64_t copies) {
  Operand made{shape, copies, {}, {}};
  int64_t count = element_count(shape) * copies, size = size_of(dtype);
  made.bytes.resize(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i)
    store_f64(made.bytes.data() + i * size, dtype, static_cast<double>(i % 7) - 3);
  made.view.base = made.bytes.data();
  made.view.lane_stride = copies > 1 ? element_count(shape) * size : 0;
  made.view.dtype = dtype;
  made.view.shape = shape;
  made.view.strides = contiguous_strides(shape);
  return made;
}

double best_seconds(const Kernel& kernel, const KernelCall& call) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const std::clock_t start = std::clock();  // of this process; other processes may share the CPU
    int runs = 0;
    while (std::clock() - start < CLOCKS_PER_SEC / 50 || runs == 0) {
      kernel.run(call);
      ++runs;
    }
    const auto took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = std::min(best, took / runs);
  }
  return best;
}

void measure(const char* what, DType dtype, const Dims& a_shape, int64_t a_copies,
             const Dims& b_shape, int64_t lanes) {
  const OpRegistry ops = builtin_ops();
  Operand a = operand(dtype, a_shape, a_copies), b = operand(dtype, b_shape, lanes);
  Operand c = operand(dtype, {a_shape[0], b_shape[1]}, lanes);
  OpCall shapes{nullptr, {{dtype, a_shape}, {dtype, b_shape}}};
  Kernel kernel = ops.at("matmul").prepare(shapes, {{dtype, c.shape}});
  Bytes workspace = Bytes::uninitialized(kernel.workspace_bytes);
  std::vector<LaneView> inputs = {a.view, b.view}, outputs = {c.view};
  KernelCall call;
  call.lanes = lanes;
  call.inputs = &inputs;
  call.outputs = &outputs;
  call.workspace = workspace.mutate();
  const double seconds = best_seconds(kernel, call);
  const double flops = 2.0 * static_cast<double>(lanes * a_shape[0] * a_shape[1] * b_shape[1]);
  std::printf("%-28s %-5s %5lld lanes  %8.3f ms  %7.2f GFlop/s\n", what,
              std::string(name(dtype)).c_str(), static_cast<long long>(lanes), seconds * 1e3,
              flops / seconds * 1e-9);
}

}  // namespace

int main() {
  for (DType dtype : {DType::f32, DType::bf16}) {
    measure("[16,256] x [256,1024]", dtype, {16, 256}, 1, {256, 1024}, 1);
    measure("[16,256] x [256,4]", dtype, {16, 256}, 1, {256, 4}, 256);
    measure("[16,256] x [256,1]", dtype, {16, 256}, 1, {256, 1}, 1024);
    measure("[16,1024] x [1024,256]", dtype, {16, 1024}, 1, {1024, 256}, 1);
    measure("[16,4] x [4,256]", dtype, {16, 4}, 256, {4, 256}, 256);
    measure("[16,1] x [1,256]", dtype, {16, 1}, 1024, {1, 256}, 1024);
  }
  measure("[512,512] x [512,512]", DType::f32, {512, 512}, 1, {512, 512}, 1);
  measure("[512,512] x [512,512]", DType::f64, {512, 512}, 1, {512, 512}, 1);
}
