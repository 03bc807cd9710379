// Device kernels of row transforms: a thread converts its row, transforms it with the host's
// function and rounds it once. Many threads share a long row of softmax, with the same bits.
#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/device_scratch.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/row/row_kernel.h"
#include "shardproof/ops/row/row_transforms.h"

namespace shardproof {
namespace {

template <typename Transform, typename C>
struct RowBody {
  int64_t count, inner;
  const std::byte* in;
  std::byte* out;
  DType in_dtype, out_dtype;
  int64_t in_bytes, out_bytes;
  C* work;  // all rows, converted

  // Returns the position in the tensors of element `index` of the work.
  constexpr int64_t place(int64_t index) const {
    const int64_t row = index / count;
    return row / inner * count * inner + row % inner + index % count * inner;
  }
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

// Transforms each row by one thread.
template <typename Transform, typename C>
void launch_rows(const KernelCall& call, const RowBody<Transform, C>& body, int64_t rows) {
  launch(call.stream, rows, body);
}

// Loads elements one by one into the memory of the rows.
template <typename Transform, typename C>
struct LoadBody {
  RowBody<Transform, C> row;
  constexpr void operator()(int64_t index) const {
    row.work[index] = load_as<C>(row.in + row.place(index) * row.in_bytes, row.in_dtype);
  }
};
template <typename C>
struct Element {
  const C* work;
  int64_t count;
  constexpr C operator()(int64_t line, int64_t i) const { return work[line * count + i]; }
};
template <typename C>
struct Exponential {
  const C* work;
  int64_t count;
  const C* most;
  constexpr C operator()(int64_t line, int64_t i) const {
    return exp_of(work[line * count + i] - most[line]);
  }
};
template <typename C>
struct ExponentialBody {
  C* work;
  int64_t count;
  const C* most;
  constexpr void operator()(int64_t index) const {
    work[index] = exp_of(work[index] - most[index / count]);
  }
};
template <typename Transform, typename C>
struct StoreBody {
  RowBody<Transform, C> row;
  const C *most, *sums;
  constexpr void operator()(int64_t index) const {
    const int64_t line = index / row.count;
    const C x = row.work[index];
    const C value = std::is_same_v<Transform, SoftmaxRow> ? x / sums[line]
                                                          : (x - most[line]) - log_of(sums[line]);
    store_as(row.out + row.place(index) * row.out_bytes, row.out_dtype, value);
  }
};

template <typename Transform, typename C>
void launch_softmax(const KernelCall& call, const RowBody<Transform, C>& body, int64_t rows) {
  if (body.count < kSharedLine) return launch(call.stream, rows, body);
  const int64_t count = body.count, elements = rows * count;
  const FoldShape shape{rows, 1, count, count};
  const DeviceScratch<C> most(call, rows), sums(call, rows), slots(call, shape.ways());
  const Element<C> element{body.work, count};
  launch(call.stream, elements, LoadBody<Transform, C>{body});
  fold_lines<MaxFold>(call.stream, shape, element, slots.get(), most.get());
  if constexpr (std::is_same_v<Transform, LogSoftmaxRow>) {
    fold_lines<SumFold>(call.stream, shape, Exponential<C>{body.work, count, most.get()},
                        slots.get(), sums.get());
  } else {
    launch(call.stream, elements, ExponentialBody<C>{body.work, count, most.get()});
    fold_lines<SumFold>(call.stream, shape, element, slots.get(), sums.get());
  }
  launch(call.stream, elements, StoreBody<Transform, C>{body, most.get(), sums.get()});
}
template <typename C>
void launch_rows(const KernelCall& call, const RowBody<SoftmaxRow, C>& body, int64_t rows) {
  launch_softmax(call, body, rows);
}
template <typename C>
void launch_rows(const KernelCall& call, const RowBody<LogSoftmaxRow, C>& body, int64_t rows) {
  launch_softmax(call, body, rows);
}

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
      launch_rows(call,
                  RowBody<Transform, C>{plan.count, plan.inner, in.at(lane), out.at(lane), in.dtype,
                                        out.dtype, size_of(in.dtype), size_of(out.dtype),
                                        reinterpret_cast<C*>(call.workspace)},
                  rows);
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
  add_transform<LogCumsumExpRow>(table);
  kernels.add<RowPlan>([table](const RowPlan& plan) {
    const auto found = plan.type == nullptr ? table.end() : table.find(*plan.type);
    return found == table.end() ? Kernel() : found->second(plan);
  });
}

}  // namespace shardproof
