// Rows along a dim, each transformed by itself: a thread converts its row, transforms it with the
// host's function and rounds it once.
#include "shardproof/ops/cuda/elements.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/row_kernel.h"
#include "shardproof/ops/row_transforms.h"

namespace shardproof {
namespace {

template <typename Transform, typename C>
struct RowBody {
  int64_t count, inner;
  const std::byte* in;
  std::byte* out;
  DType in_dtype, out_dtype;
  int64_t in_bytes, out_bytes;
  C* work;  // a row for each thread

  constexpr void operator()(int64_t index) const {
    const int64_t start = index / inner * count * inner + index % inner;
    C* row = work + index * count;
    for (int64_t i = 0; i < count; ++i)
      row[i] = load_as<C>(in + (start + i * inner) * in_bytes, in_dtype);
    Transform::template run<C>(row, count);
    for (int64_t i = 0; i < count; ++i)
      store_as(out + (start + i * inner) * out_bytes, out_dtype, row[i]);
  }
};

template <typename Transform, typename C>
Kernel rows_on_device(const RowPlan& plan) {
  Kernel kernel;
  const int64_t rows = plan.outer * plan.inner;
  kernel.workspace_bytes = rows * plan.count * static_cast<int64_t>(sizeof(C));
  kernel.run = [plan, rows](const KernelCall& call) {
    const LaneView& in = call.inputs->front();
    const LaneView& out = call.outputs->front();
    if (plan.count == 0) return;
    for (int64_t lane = 0; lane < call.lanes; ++lane)
      launch(call.stream, rows,
             RowBody<Transform, C>{plan.count, plan.inner, in.at(lane), out.at(lane), in.dtype,
                                   out.dtype, size_of(in.dtype), size_of(out.dtype),
                                   reinterpret_cast<C*>(call.workspace)});
  };
  return kernel;
}

using RowTable = std::map<std::type_index, std::function<Kernel(const RowPlan&)>>;

template <typename Transform>
void add_transform(RowTable& table) {
  table[typeid(Transform)] = [](const RowPlan& plan) {
    if (plan.compute == DType::f32) return rows_on_device<Transform, float>(plan);
    if (plan.compute == DType::f64) return rows_on_device<Transform, double>(plan);
    if constexpr (std::is_same_v<Transform, CumsumRow>)
      if (plan.compute == DType::i64) return rows_on_device<Transform, int64_t>(plan);
    return Kernel();
  };
}

}  // namespace

template <>
void KernelFamilies<Target>::add_rows(DeviceKernels& kernels) {
  RowTable table;
  add_transform<SoftmaxRow>(table);
  add_transform<LogSoftmaxRow>(table);
  add_transform<CumsumRow>(table);
  kernels.add<RowPlan>([table](const RowPlan& plan) {
    const auto found = plan.type == nullptr ? table.end() : table.find(*plan.type);
    return found == table.end() ? Kernel() : found->second(plan);
  });
}

}  // namespace shardproof
