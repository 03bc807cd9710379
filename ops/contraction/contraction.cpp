// Implements ops/contraction/contraction.h: letters are sorted by role (batch, rows, columns,
// depth), and the workspace is laid out. The products run in ops/contraction/contraction_run.h.
#include "shardproof/ops/contraction/contraction.h"

#include <algorithm>
#include <complex>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/contraction/contraction_run.h"

namespace shardproof {
namespace {

constexpr int64_t kWorkspaceAlignment = 64;
constexpr int64_t kChunkBytes = int64_t{1} << 18;  // the converted lanes of a chunk stay in cache

int64_t aligned(int64_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

void add_letter(Contraction::Loops& loops, const ContractionLetter& letter) {
  loops.letters.push_back(letter);
  loops.count *= letter.size;
}

// Orders the letters by the result's dims, so that neighbours in a loop are neighbours in memory.
void sort_by_result(Contraction::Loops& loops) {
  std::stable_sort(loops.letters.begin(), loops.letters.end(),
                   [](const auto& x, const auto& y) { return x.result < y.result; });
}

Contraction::Operand operand_of(const TensorMeta& meta, DType compute) {
  Contraction::Operand operand;
  operand.dtype = meta.dtype;
  operand.elements = element_count(meta.shape);
  operand.converts = meta.dtype != compute;
  return operand;
}

template <typename Use>
void with_compute_type(DType compute, const Use& use) {
  switch (compute) {
    case DType::f32: return use(float{});
    case DType::f64: return use(double{});
    case DType::i64: return use(uint64_t{});
    case DType::c64: return use(std::complex<float>{});
    case DType::c128: return use(std::complex<double>{});
    default: SP_UNREACHABLE("no contraction computes in {}", name(compute));
  }
}

}  // namespace

DType contraction_dtype(DType dtype) {
  if (is_integral(dtype) || dtype == DType::boolean) return DType::i64;
  if (is_floating(dtype) && dtype != DType::f64) return DType::f32;
  return dtype;
}

Contraction::Contraction(std::vector<ContractionLetter> letters, const TensorMeta& a,
                         const TensorMeta& b, const TensorMeta& result, ContractionBias bias)
    : compute_(contraction_dtype(result.dtype)),
      a_(operand_of(a, compute_)),
      b_(operand_of(b, compute_)),
      result_(operand_of(result, compute_)),
      result_shape_(result.shape),
      a_shape_(a.shape),
      b_shape_(b.shape),
      bias_(bias) {
  for (const ContractionLetter& letter : letters) {
    if (letter.result < 0)
      add_letter(depth_, letter);
    else if (!letter.a.empty() && !letter.b.empty())
      add_letter(batch_, letter);
    else if (!letter.b.empty())
      add_letter(columns_, letter);
    else
      add_letter(rows_, letter);
  }
  sort_by_result(batch_);
  sort_by_result(rows_);
  sort_by_result(columns_);
  bias_operand_ = operand_of({bias.dtype, bias.shape}, compute_);
  with_compute_type(compute_, [&](auto zero) {
    lay_out_workspace(sizeof(zero), micro_gemm<decltype(zero)>().columns);
  });
}

void Contraction::lay_out_workspace(int64_t compute_bytes, int columns) {
  int64_t top = 0;
  auto take = [&](int64_t bytes) {
    int64_t at = top;
    top = aligned(top + bytes);
    return at;
  };
  for (Loops* loops : {&batch_, &rows_, &columns_, &depth_}) {
    auto table_bytes = loops->count * static_cast<int64_t>(sizeof(int64_t));
    loops->table_a = take(table_bytes);
    loops->table_b = take(table_bytes);
    loops->table_result = take(table_bytes);
  }
  int64_t lane_bytes = 0;
  for (Operand* operand : {&a_, &b_, &result_})
    if (operand->converts) lane_bytes += operand->elements * compute_bytes;
  if (lane_bytes > 0) chunk_ = std::clamp<int64_t>(kChunkBytes / lane_bytes, 1, 64);
  for (Operand* operand : {&a_, &b_, &result_})
    if (operand->converts) operand->buffer = take(chunk_ * operand->elements * compute_bytes);
  if (bias_.present) bias_operand_.buffer = take(bias_operand_.elements * compute_bytes);
  const int64_t rows = rows_at_once(depth_.count);
  row_sources_ = take(rows * static_cast<int64_t>(sizeof(const void*)));
  row_targets_ = take(rows * static_cast<int64_t>(sizeof(int64_t)));
  packed_rows_ = take(rows * depth_.count * compute_bytes);
  packed_columns_ = take(kPackedPanels * columns * depth_.count * compute_bytes);
  workspace_bytes_ = top;
}

void Contraction::run(const ContractionCall& call) const {
  if (result_.elements == 0) return;
  with_compute_type(compute_,
                    [&](auto zero) { ContractionRun<decltype(zero)>(*this, call).run(); });
}

}  // namespace shardproof
