// inverse, solve, cholesky, det of the matrices in the last two dims. Each matrix is worked on
// whole, in f64, and rounded once; batches may be cut.
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
enum class Kind { inverse, solve, cholesky, det };
struct Row {
  const char* name;
  const char* summary;
  Kind kind;
};
const Row kRows[] = {
    {"inverse", "the inverse of square matrices", Kind::inverse},
    {"solve", "x with a @ x = b, of square matrices a", Kind::solve},
    {"cholesky", "the lower l with l @ l.T = x, of positive definite matrices", Kind::cholesky},
    {"det", "determinants of square matrices", Kind::det},
};

struct Batch {
  int64_t matrices = 1, n = 0, columns = 0;  // columns of b
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

std::vector<TensorMeta> infer(const Row& row, const OpCall& call) {
  const Dims& a = input_shape(call, 0);
  const DType dtype = input_meta(call, 0).dtype;
  if (dtype != DType::f32 && dtype != DType::f64)
    refuse(row.name, call, "expected f32 or f64, found {}", name(dtype));
  if (a.size() < 2 || a[a.size() - 1] != a[a.size() - 2])
    refuse(row.name, call, "needs square matrices in the last two dims");
  if (row.kind == Kind::inverse || row.kind == Kind::cholesky) return {{dtype, a}};
  Dims batch = a;
  batch.erase(a.size() - 1);
  if (row.kind == Kind::det) {
    batch.erase(a.size() - 2);
    return {{dtype, batch}};
  }
  same_dtype(row.name, call, {0, 1});
  const Dims& b = input_shape(call, 1);
  Dims rows = b;
  if (b.size() == a.size()) rows.erase(b.size() - 1);
  if (!(rows == batch)) refuse(row.name, call, "b must have the batch and the rows of a");
  return {{dtype, b}};
}

Matrix matrix_at(const double* values, int64_t index, int64_t rows, int64_t columns) {
  return Eigen::Map<const Matrix>(values + index * rows * columns, rows, columns);
}

Eigen::PartialPivLU<Matrix> eliminated(const Row& row, const Matrix& a) {
  Eigen::PartialPivLU<Matrix> lu(a);
  if (row.kind != Kind::det)
    for (int64_t i = 0; i < a.rows(); ++i)
      if (lu.matrixLU()(i, i) == 0)
        throw_bad_input("{}: a matrix is singular (pivot {} is 0)", row.name, i);
  return lu;
}

Matrix result_of(const Row& row, const Matrix& a, const Matrix& b) {
  switch (row.kind) {
    case Kind::inverse: return eliminated(row, a).inverse();
    case Kind::solve: return eliminated(row, a).solve(b);
    case Kind::det: return Matrix::Constant(1, 1, eliminated(row, a).determinant());
    case Kind::cholesky: {
      const Eigen::LLT<Matrix> factor(a);
      if (factor.info() != Eigen::Success)
        throw_bad_input("cholesky: a matrix is not positive definite");
      return factor.matrixL();
    }
  }
  SP_UNREACHABLE("kind {}", static_cast<int>(row.kind));
}

void run_lane(const Row& row, const Batch& batch, const LaneCall& lane) {
  const int64_t n = batch.n;
  double* out = lane.out<double>(0);
  for (int64_t m = 0; m < batch.matrices; ++m) {
    Matrix b;
    if (row.kind == Kind::solve) b = matrix_at(lane.in<double>(1), m, n, batch.columns);
    // Eigen takes no empty matrix; its determinant is 1. A shard of b may have no columns.
    Matrix made = row.kind == Kind::det ? Matrix::Ones(1, 1) : Matrix(0, 0);
    if (n > 0 && (row.kind != Kind::solve || batch.columns > 0))
      made = result_of(row, matrix_at(lane.in<double>(0), m, n, n), b);
    out = std::copy(made.data(), made.data() + made.size(), out);
  }
}

Kernel prepare(const Row& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  LanePlan plan{std::vector<DType>(call.inputs.size(), DType::f64), {DType::f64}, 0, {}};
  plan.body = [&row, batch = batch_of(call)](const LaneCall& lane) { run_lane(row, batch, lane); };
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> strategies(const Row& row, const OpCall& call) {
  const int batch = input_shape(call, 0).size() - 2;
  const std::string names = letters(batch), matrix = names + "11";
  if (row.kind == Kind::det) return factor_strategies(matrix + "->" + names, {});
  if (row.kind != Kind::solve) return factor_strategies(matrix + "->" + matrix, {});
  std::string b = names + "1";
  FactorOptions options;
  options.linear = {{{ReduceOp::sum, ReduceOp::avg}, {1}}};
  // Columns of b are solved for by themselves.
  if (input_shape(call, 1).size() == input_shape(call, 0).size()) b += 'z';
  return factor_strategies(matrix + "," + b + "->" + b, options);
}

// Fills know no diagonals: matrices of size 1 are positive definite, larger ones of random numbers
// are seldom singular.
std::vector<Sample> samples(const Row& row) {
  const auto sample = [&](const std::vector<Dims>& shapes, DType dtype) {
    return sample_of({shapes, dtype, std::vector<std::string>(shapes.size(), "uniform(0.5, 2)")});
  };
  if (row.kind == Kind::solve)
    return {sample({{4, 1, 1}, {4, 1, 3}}, DType::f32), sample({{2, 2}, {2}}, DType::f64),
            sample({{3, 2, 2}, {3, 2, 5}}, DType::f64)};
  if (row.kind == Kind::cholesky)
    return {sample({{5, 1, 1}}, DType::f32), sample({{1, 1}}, DType::f64)};
  return {sample({{5, 2, 2}}, DType::f64), sample({{4, 1, 1}}, DType::f32),
          sample({{3, 3}}, DType::f64)};
}

}  // namespace

void add_linalg_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op;
    op.name = row.name;
    op.family = "linalg";
    op.summary = row.summary;
    op.params = {params::tensor(row.kind == Kind::solve ? "a" : "x")};
    if (row.kind == Kind::solve) op.params.push_back(params::tensor("b"));
    op.infer = [&row](const OpCall& call) { return infer(row, call); };
    op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return prepare(row, call, outputs);
    };
    op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
      return strategies(row, call);
    };
    op.cost = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
      const Batch batch = batch_of(call);
      const auto n = static_cast<double>(batch.n);
      OpCost cost{static_cast<double>(batch.matrices) * n * n * n, 0};
      for (const TensorMeta& meta : {input_meta(call, 0), outputs[0]})
        cost.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
      return cost;
    };
    op.samples = [&row] { return samples(row); };
    ops.add(std::move(op));
  }
}

}  // namespace shardproof
