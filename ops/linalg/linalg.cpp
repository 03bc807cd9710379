// Registers inverse, solve, cholesky, det of the matrices in the last two dims. Eigen computes each
// matrix in f64 (LU with partial pivoting, LLT), and the result is rounded once. Only batch dims
// are sharded, and columns of solve's b.
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <complex>
#include <span>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/linalg/linalg_gradients.h"

namespace shardproof {
namespace {

template <class Number>
using Matrix = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
enum class LinalgKind { inverse, solve, cholesky, det };
struct LinalgRow {
  const char* name;
  const char* summary;
  LinalgKind kind;
};
const LinalgRow kLinalgRows[] = {
    {"inverse", "the inverse of square matrices", LinalgKind::inverse},
    {"solve", "x with a @ x = b, of square matrices a", LinalgKind::solve},
    {"cholesky", "the lower l with l @ l.T = x, of positive definite matrices",
     LinalgKind::cholesky},
    {"det", "determinants of square matrices", LinalgKind::det},
};

struct Batch {
  int64_t matrices = 1, n = 0, columns = 0;  // columns: of b
};

Batch batch_of(const OpCall& call) {
  const Dims& a = input_shape(call, 0);
  Batch batch{1, a[a.size() - 1], a[a.size() - 1]};
  for (int d = 0; d + 2 < a.size(); ++d) batch.matrices *= a[d];
  if (call.inputs.size() > 1) {
    const Dims& b = input_shape(call, 1);
    batch.columns = b.size() == a.size() ? b[b.size() - 1] : 1;
  }
  return batch;
}

std::vector<TensorMeta> infer_linalg(const LinalgRow& row, const OpCall& call) {
  const Dims& a = input_shape(call, 0);
  const DType dtype = input_meta(call, 0).dtype;
  if (component_dtype(dtype) != DType::f32 && component_dtype(dtype) != DType::f64)
    refuse(row.name, call, "expected f32, f64, c64 or c128, found {}", name(dtype));
  if (a.size() < 2 || a[a.size() - 1] != a[a.size() - 2])
    refuse(row.name, call, "the last two dims must be square matrices");
  if (row.kind == LinalgKind::inverse || row.kind == LinalgKind::cholesky) return {{dtype, a}};
  Dims batch = a;
  batch.erase(a.size() - 1);
  if (row.kind == LinalgKind::det) {
    batch.erase(a.size() - 2);
    return {{dtype, batch}};
  }
  same_dtype(row.name, call, {0, 1});
  const Dims& b = input_shape(call, 1);
  Dims rows = b;
  if (b.size() == a.size()) rows.erase(b.size() - 1);
  if (!(rows == batch)) refuse(row.name, call, "b must have the batch dims and the rows of a");
  return {{dtype, b}};
}

template <class Number>
Matrix<Number> matrix_at(const Number* values, int64_t index, int64_t rows, int64_t columns) {
  return Eigen::Map<const Matrix<Number>>(values + index * rows * columns, rows, columns);
}

template <class Number>
Eigen::PartialPivLU<Matrix<Number>> eliminated(const LinalgRow& row, const Matrix<Number>& a) {
  Eigen::PartialPivLU<Matrix<Number>> lu(a);
  if (row.kind != LinalgKind::det)
    for (int64_t i = 0; i < a.rows(); ++i)
      if (lu.matrixLU()(i, i) == Number(0))
        throw_bad_input("{}: a matrix is singular (pivot {} is 0)", row.name, i);
  return lu;
}

template <class Number>
Matrix<Number> linalg_result(const LinalgRow& row, const Matrix<Number>& a,
                             const Matrix<Number>& b) {
  switch (row.kind) {
    case LinalgKind::inverse: return eliminated(row, a).inverse();
    case LinalgKind::solve: return eliminated(row, a).solve(b);
    case LinalgKind::det: return Matrix<Number>::Constant(1, 1, eliminated(row, a).determinant());
    case LinalgKind::cholesky: {
      const Eigen::LLT<Matrix<Number>> factor(a);
      if (factor.info() != Eigen::Success)
        throw_bad_input("cholesky: a matrix is not positive definite");
      return factor.matrixL();
    }
  }
  SP_UNREACHABLE("kind {}", static_cast<int>(row.kind));
}

template <class Number>
void run_linalg_lane(const LinalgRow& row, const Batch& batch, const LaneCall& lane) {
  const int64_t n = batch.n;
  Number* out = lane.out<Number>(0);
  for (int64_t m = 0; m < batch.matrices; ++m) {
    Matrix<Number> b;
    if (row.kind == LinalgKind::solve) b = matrix_at(lane.in<Number>(1), m, n, batch.columns);
    // Eigen rejects empty matrices; the determinant of one is 1. A shard of b may have no columns.
    Matrix<Number> made(0, 0);
    if (row.kind == LinalgKind::det) made = Matrix<Number>::Ones(1, 1);
    if (n > 0 && (row.kind != LinalgKind::solve || batch.columns > 0))
      made = linalg_result(row, matrix_at(lane.in<Number>(0), m, n, n), b);
    out = std::copy(made.data(), made.data() + made.size(), out);
  }
}

Kernel prepare_linalg(const LinalgRow& row, const OpCall& call,
                      const std::vector<TensorMeta>& outputs) {
  const bool is_pair = is_complex(call.inputs[0].dtype);
  const DType wide = is_pair ? DType::c128 : DType::f64;
  LanePlan plan{std::vector<DType>(call.inputs.size(), wide), {wide}, 0, {}};
  plan.body = [&row, is_pair, batch = batch_of(call)](const LaneCall& lane) {
    if (is_pair)
      run_linalg_lane<std::complex<double>>(row, batch, lane);
    else
      run_linalg_lane<double>(row, batch, lane);
  };
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> linalg_strategies(const LinalgRow& row, const OpCall& call,
                                        const std::vector<TensorMeta>&) {
  const int batch = input_shape(call, 0).size() - 2;
  const std::string names = letters(batch), matrix = names + "11";
  if (row.kind == LinalgKind::det) return factor_strategies(matrix + "->" + names, {});
  if (row.kind != LinalgKind::solve) return factor_strategies(matrix + "->" + matrix, {});
  std::string b = names + "1";
  FactorOptions options;
  options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {1});
  // Columns of b are independent.
  if (input_shape(call, 1).size() == input_shape(call, 0).size()) b += 'z';
  return factor_strategies(matrix + "," + b + "->" + b, options);
}

// Random matrices are rarely singular. Samples of cholesky have small matrices: if one element of a
// larger matrix moves alone, the matrix is no longer symmetric.
std::vector<Sample> linalg_samples(const LinalgRow& row) {
  const std::string fill = row.kind == LinalgKind::cholesky ? "definite" : "uniform(0.5, 2)";
  const auto sample = [&](const std::vector<Dims>& shapes, DType dtype) {
    return sample_of({shapes, dtype, std::vector<std::string>(shapes.size(), fill)});
  };
  if (row.kind == LinalgKind::solve)
    return {sample({{4, 1, 1}, {4, 1, 3}}, DType::f32), sample({{2, 2}, {2}}, DType::f64),
            sample({{3, 2, 2}, {3, 2, 5}}, DType::f64), sample({{2, 1, 1}, {1, 3}}, DType::f64),
            sample({{2, 2}, {3, 2, 1}}, DType::f64),    sample({{3, 2, 2}, {2}}, DType::f64),
            sample({{3, 2, 2}, {3, 2, 1}}, DType::c128)};
  if (row.kind == LinalgKind::cholesky) {
    std::vector<Sample> found = {sample({{5, 1, 1}}, DType::f32), sample({{1, 1}}, DType::f64)};
    // Only the lower triangle is read, and the gradient is that of both, as in torch.
    for (Sample& one : found) one.kinks = "changes that are not symmetric";
    return found;
  }
  return {sample({{5, 2, 2}}, DType::f64), sample({{4, 1, 1}}, DType::f32),
          sample({{3, 3}}, DType::f64), sample({{3, 2, 2}}, DType::c64)};
}

OpCost linalg_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Batch batch = batch_of(call);
  const auto n = static_cast<double>(batch.n);
  OpCost cost{static_cast<double>(batch.matrices) * n * n * n, 0};
  for (const TensorMeta& meta : {input_meta(call, 0), outputs[0]})
    cost.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  return cost;
}

GradientRule linalg_gradient(LinalgKind kind) {
  switch (kind) {
    case LinalgKind::inverse: return gradients({inverse_gradient});
    case LinalgKind::solve: return gradient_together(solve_gradient);
    case LinalgKind::cholesky: return gradients({cholesky_gradient});
    case LinalgKind::det: return gradients({det_gradient});
  }
  SP_UNREACHABLE("kind {}", static_cast<int>(kind));
}

// True if b is one row for each matrix, as torch decides: it has one dim, or the shape of a without
// the last dim.
bool solves_rows(const OpCall& call) {
  const Dims &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  Dims rows = a;
  if (!rows.empty()) rows.erase(rows.size() - 1);
  return b.size() == 1 || b == rows;
}
Dims batch_dims(const Dims& shape, int of_matrix) {
  const int count = std::max(0, shape.size() - of_matrix);
  return Dims(std::span<const int64_t>(shape.begin(), static_cast<size_t>(count)));
}

// Repeats a and b to common batch dims, as torch does.
void broadcast_batches(OpRecord& op) {
  const auto batches = [](const OpCall& call) {
    return std::pair{batch_dims(call.inputs[0].shape, 2),
                     batch_dims(call.inputs[1].shape, solves_rows(call) ? 1 : 2)};
  };
  decompose_when(
      op,
      [batches](const OpCall& call) {
        const auto [a, b] = batches(call);
        return call.inputs[0].shape.size() >= 2 && !call.inputs[1].shape.empty() && a != b;
      },
      [batches](Formula& f) {
        const auto [a, b] = batches(f.call);
        const Dims batch = broadcast_shapes(a, b);
        const auto repeated = [&](const FormulaTerm& x, const Dims& before) {
          IntegerList size(batch.begin(), batch.end());
          size.insert(size.end(), x.shape().begin() + before.size(), x.shape().end());
          return f.op("expand", {x}, {{"size", size}});
        };
        return FormulaTerms{f.op("solve", {repeated(f[0], a), repeated(f[1], b)})};
      });
}

const OpTable<LinalgRow> kLinalgTable = {"linalg",
                                         [](const LinalgRow& row) -> std::vector<Param> {
                                           if (row.kind == LinalgKind::solve)
                                             return {params::tensor("a"), params::tensor("b")};
                                           return {params::tensor("x")};
                                         },
                                         infer_linalg,
                                         prepare_linalg,
                                         linalg_strategies,
                                         linalg_samples,
                                         [](const LinalgRow& row, OpRecord& op) {
                                           op.cost = linalg_cost;
                                           if (row.kind == LinalgKind::solve) broadcast_batches(op);
                                           op.gradient = linalg_gradient(row.kind);
                                         }};

}  // namespace

void add_linalg_ops(OpRegistry& ops) { add_rows(ops, kLinalgTable, kLinalgRows); }

}  // namespace shardproof
