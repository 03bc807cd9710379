// KernelPlan: the computation of a kernel as plain data of its family, from which a device kernel
// is made (ops/cuda/device_kernels.h). A plan names no op: all ops of a family share its struct.
//
// The list of families is closed. A new family of kernels adds its plan here.
#pragma once

#include <memory>
#include <utility>
#include <variant>

namespace shardproof {

struct BoxCopyPlan;      // layout/copy_boxes.h: boxes copied from inputs to outputs
struct ContractionPlan;  // contraction/contraction.h: products summed over letters
struct ConvPlan;         // convolution/conv_plan.h: a contraction of windows
struct ElementwisePlan;  // elementwise/elementwise_kernel.h: one loop over broadcast elements
struct FillPlan;         // layout/copy_boxes.h: one element everywhere
struct LanePlan;         // core/item_kernel.h: items of one lane, in any order
struct OrderPlan;        // sort/sort_order.h: elements of lines in order
struct ReducePlan;       // reduction/reduce_kernel.h: a state for each row, folded over elements
struct RowPlan;          // row/row_kernel.h: each row along one dim separately
struct ViewCopyPlan;     // layout/copy_boxes.h: a strided view made dense

template <typename... Plans>
using OneOfPlans = std::variant<std::monostate, std::shared_ptr<const Plans>...>;

// The monostate means: the kernel runs on the host only.
using KernelPlan = OneOfPlans<BoxCopyPlan, ContractionPlan, ConvPlan, ElementwisePlan, FillPlan,
                              LanePlan, OrderPlan, ReducePlan, RowPlan, ViewCopyPlan>;

// Copies of a kernel share its plan.
template <typename Plan>
KernelPlan share_plan(Plan plan) {
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace shardproof
