// Implements ops/cuda/gemm_from_contraction.h:
//
//   1. Each letter gets a role: batch, rows, columns or depth. Any other letter means: no product.
//   2. The letters of a role are merged to one range, if their strides allow it.
//   3. The result must be a column-major matrix of the library; swapping the operands transposes
//   it.
#include "shardproof/ops/cuda/gemm_from_contraction.h"

#include <algorithm>

#include "shardproof/localtensor/dtype/dtype.h"

namespace shardproof {
namespace {

// Steps of one letter, or of several merged letters, in elements.
struct Range {
  int64_t size = 1, a = 0, b = 0, result = 0, bias = 0;
};

enum Part { batch, rows, columns, depth, kParts };

std::optional<Part> part_of(const ContractionLetter& letter) {
  const bool in_a = !letter.a.empty(), in_b = !letter.b.empty(), stays = letter.result >= 0;
  if (in_a && in_b) return stays ? batch : depth;
  if (!stays || in_a == in_b) return std::nullopt;
  return in_a ? rows : columns;
}

// Merges ranges into one if each is a step of the one before it; otherwise returns nullopt.
std::optional<Range> merged(const std::vector<Range>& ranges) {
  Range whole;
  for (const Range& range : ranges) {
    if (range.size == 1) continue;
    if (whole.size != 1 &&
        (whole.a != range.a * range.size || whole.b != range.b * range.size ||
         whole.result != range.result * range.size || whole.bias != range.bias * range.size))
      return std::nullopt;
    const int64_t size = whole.size * range.size;
    whole = range;
    whole.size = size;
  }
  return whole;
}

// Returns `down` by `across` elements as a column-major matrix, plain or transposed.
std::optional<GemmMatrix> matrix_of(const std::byte* start, int64_t down, int64_t down_step,
                                    int64_t across, int64_t across_step) {
  GemmMatrix matrix;
  matrix.start = start;
  if ((down == 1 || down_step == 1) && (across == 1 || across_step >= down)) {
    matrix.leading = across == 1 ? down : across_step;
    return matrix;
  }
  if ((across == 1 || across_step == 1) && (down == 1 || down_step >= across)) {
    matrix.transposed = true;
    matrix.leading = down == 1 ? across : down_step;
    return matrix;
  }
  return std::nullopt;
}

class Planner {
 public:
  Planner(const ContractionPlan& plan, const KernelCall& call, int64_t lane)
      : plan_(plan),
        a_((*call.inputs)[static_cast<size_t>(plan.a)]),
        b_((*call.inputs)[static_cast<size_t>(plan.b)]),
        out_(call.outputs->front()),
        lane_(lane) {
    if (plan.bias.present) bias_ = &(*call.inputs)[static_cast<size_t>(plan.bias_input)];
  }

  std::optional<GemmCall> plan() {
    if (!has_dtypes() || !sort_letters()) return std::nullopt;
    // The result is usually row-major, so the library computes its transpose.
    if (std::optional<GemmCall> call = as_product(parts_[columns], parts_[rows], true)) return call;
    return as_product(parts_[rows], parts_[columns], false);
  }

 private:
  bool has_dtypes() const {
    return is_floating(out_.dtype) && plan_.compute == compute_dtype(out_.dtype) &&
           a_.dtype == out_.dtype && b_.dtype == out_.dtype &&
           (bias_ == nullptr || (bias_->dtype == out_.dtype && plan_.bias.beta == 1 &&
                                 plan_.bias.alpha != 0));  // with alpha 0 a library ignores NaN
  }

  int64_t bias_step(int d) const {
    const int lead = out_.shape.size() - plan_.bias.shape.size();
    if (bias_ == nullptr || d < lead || plan_.bias.shape[d - lead] == 1) return 0;
    return bias_->strides[d - lead];
  }

  bool sort_letters() {
    std::vector<ContractionLetter> letters = plan_.letters;
    std::stable_sort(letters.begin(), letters.end(),
                     [](const auto& x, const auto& y) { return x.result < y.result; });
    const Dims strides = contiguous_strides(out_.shape);
    std::vector<Range> ranges[kParts];
    for (const ContractionLetter& letter : letters) {
      if (letter.size == 0) return false;
      if (letter.size == 1) continue;
      const std::optional<Part> part = part_of(letter);
      if (!part) return false;
      Range range{letter.size, step_over(letter.a, a_.strides), step_over(letter.b, b_.strides)};
      if (letter.result >= 0) {
        range.result = strides[letter.result];
        range.bias = bias_step(letter.result);
      }
      ranges[*part].push_back(range);
    }
    for (int part = 0; part < kParts; ++part) {
      const std::optional<Range> whole = merged(ranges[part]);
      if (!whole) return false;
      parts_[part] = *whole;
    }
    return true;
  }

  // `swapped`: the columns of the contraction are the library's rows, and b is the first operand.
  std::optional<GemmCall> as_product(const Range& down, const Range& across, bool swapped) const {
    const Range& terms = parts_[depth];
    const std::byte *at_a = a_.at(lane_), *at_b = b_.at(lane_);
    std::optional<GemmMatrix> first = swapped
                                          ? matrix_of(at_b, down.size, down.b, terms.size, terms.b)
                                          : matrix_of(at_a, down.size, down.a, terms.size, terms.a);
    std::optional<GemmMatrix> second =
        swapped ? matrix_of(at_a, terms.size, terms.a, across.size, across.a)
                : matrix_of(at_b, terms.size, terms.b, across.size, across.b);
    const std::optional<GemmMatrix> result =
        matrix_of(out_.at(lane_), down.size, down.result, across.size, across.result);
    if (!first || !second || !result || result->transposed || !has_bias_of(down, across))
      return std::nullopt;
    const Range& products = parts_[batch];
    first->batch_stride = swapped ? products.b : products.a;
    second->batch_stride = swapped ? products.a : products.b;
    GemmCall call;
    call.rows = down.size;
    call.columns = across.size;
    call.depth = terms.size;
    call.batch = products.size;
    call.a = *first;
    call.b = *second;
    call.result = out_.at(lane_);
    call.leading = result->leading;
    call.batch_stride = products.result;
    call.dtype = out_.dtype;
    call.compute = plan_.compute;
    // The library rounds large numbers to 8-bit floats differently from the host.
    call.leaves_sums = size_of(out_.dtype) == 1;
    if (bias_ != nullptr) {
      call.alpha = plan_.bias.alpha;
      call.bias = bias_->at(lane_);
    }
    return call;
  }

  // True if the bias is one dense number per row of the library, the same in every column and
  // product.
  bool has_bias_of(const Range& down, const Range& across) const {
    if (bias_ == nullptr) return true;
    return (down.size == 1 || down.bias == 1) && across.bias == 0 && parts_[batch].bias == 0;
  }

  const ContractionPlan& plan_;
  const LaneView &a_, &b_, &out_;
  const LaneView* bias_ = nullptr;
  int64_t lane_;
  Range parts_[kParts];
};

}  // namespace

std::optional<GemmCall> plan_gemm(const ContractionPlan& plan, const KernelCall& call,
                                  int64_t lane) {
  return Planner(plan, call, lane).plan();
}

}  // namespace shardproof
