// Registers cumprod, cummax, cummin along a dim. cummax and cummin also give the index of the
// extreme (the last of equal ones, as in torch). The dim is never sharded.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/row/cumulative_item.h"
#include "shardproof/ops/row/row_gradients.h"

namespace shardproof {
namespace {

struct CumulativeRow {
  const char* name;
  const char* summary;
  CumulativeKind kind;
};
const CumulativeRow kCumulativeRows[] = {
    {"cumprod", "running product along dim; integers give i64", CumulativeKind::product},
    {"cummax", "running largest along dim, and its index", CumulativeKind::largest},
    {"cummin", "running smallest along dim, and its index", CumulativeKind::smallest},
};

// A dim inside [outer, size, inner].
struct CumulativeLine {
  int64_t outer = 1, size = 0, inner = 1;
};
CumulativeLine cumulative_line(const Dims& shape, int dim) {
  CumulativeLine line{1, shape.empty() ? 1 : shape[dim], 1};
  for (int d = 0; d < dim; ++d) line.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) line.inner *= shape[d];
  return line;
}
int cumulative_dim(const CumulativeRow& row, const OpCall& call) {
  return dim_of(row.name, call, call.attrs->integer("dim"));
}

std::vector<TensorMeta> infer_cumulative(const CumulativeRow& row, const OpCall& call) {
  const TensorMeta& x = input_meta(call, 0);
  cumulative_dim(row, call);
  if (is_complex(x.dtype) && row.kind != CumulativeKind::product)
    refuse(row.name, call, "not defined for {}", name(x.dtype));
  const bool whole = is_integral(x.dtype) || x.dtype == DType::boolean;
  if (row.kind == CumulativeKind::product) return {{whole ? DType::i64 : x.dtype, x.shape}};
  return {{x.dtype, x.shape}, {DType::i64, x.shape}};
}

Kernel prepare_cumulative(const CumulativeRow& row, const OpCall& call,
                          const std::vector<TensorMeta>& outputs) {
  const DType compute = compute_dtype(outputs[0].dtype);
  const CumulativeLine line = cumulative_line(input_shape(call, 0), cumulative_dim(row, call));
  const CumulativeKind kind = row.kind;
  LanePlan plan{{compute}, {compute}, 0, {}};
  if (kind != CumulativeKind::product) plan.outputs.push_back(DType::i64);
  const auto set = [&](auto zero) {
    set_items(plan, RunningItem<decltype(zero)>{kind, line.size, line.inner},
              line.size == 0 ? 0 : line.outer * line.inner);
  };
  if (compute == DType::c64)
    set(C64{});
  else if (compute == DType::c128)
    set(C128{});
  else if (compute == DType::i64)
    set(int64_t{0});
  else
    with_float(compute, set);
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> cumulative_strategies(const CumulativeRow& row, const OpCall& call,
                                            const std::vector<TensorMeta>&) {
  std::string names = letters(input_shape(call, 0).size());
  if (!names.empty()) names[static_cast<size_t>(cumulative_dim(row, call))] = '1';
  std::string notation = notation_of(names, names);
  if (row.kind != CumulativeKind::product) notation += "," + names;
  return factor_strategies(notation, {});
}

void complete_cumulative(const CumulativeRow& row, OpRecord& op) {
  op.gradient = gradients(
      {row.kind == CumulativeKind::product ? cumprod_gradient : cumulative_extreme_gradient});
  accept_scalar_input(op);
  if (row.kind == CumulativeKind::product) add_dtype_parameter(op);
}

const OpTable<CumulativeRow> kCumulativeTable = {
    "reduction",
    [](const CumulativeRow&) -> std::vector<Param> {
      return {params::tensor("x"), params::integer("dim")};
    },
    infer_cumulative,
    prepare_cumulative,
    cumulative_strategies,
    [](const CumulativeRow& row) {
      const Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
      std::vector<Sample> samples = {sample_of({{{5, 3}}, DType::f32, {"uniform(-2, 2)"}}, rows),
                                     sample_of({{{2, 6}}, DType::i32, {"ints(1, 4)"}}, last),
                                     sample_of({{{4, 2}}, DType::bf16, {"uniform(0.5, 2)"}}, rows)};
      if (row.kind == CumulativeKind::product)
        for (const DType dtype : {DType::f64, DType::c64})
          samples.push_back(sample_of({{{2, 4}}, dtype, {"ints(-1, 1)"}}, last));
      return samples;
    },
    complete_cumulative};

}  // namespace

void add_cumulative_ops(OpRegistry& ops) { add_rows(ops, kCumulativeTable, kCumulativeRows); }

}  // namespace shardproof
