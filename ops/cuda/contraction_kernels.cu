// Device kernels of contractions. If a contraction is a matrix product and the device has a library
// for it (cuBLAS), the library computes it. Otherwise one thread adds the terms of one element in
// the host's order, which gives the same bits.
#include "shardproof/ops/contraction/contraction.h"

#include <utility>

#include "shardproof/localtensor/tensor/scoped_device_memory.h"
#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/gemm_from_contraction.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/elementwise/binary_functors.h"

namespace shardproof {
namespace {

constexpr int kMostLetters = 2 * Dims::kCapacity;

// A letter's size and the distance of one step, in elements.
struct StridedStep {
  int64_t size, a, b, bias;
};

struct StridedSteps {
  int count = 0;
  StridedStep steps[kMostLetters];

  void add(const StridedStep& step) { steps[count++] = step; }
  int64_t product() const {
    int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= steps[i].size;
    return product;
  }
};

struct Source {
  const std::byte* base;
  DType dtype;
  int64_t bytes;
};

template <typename C>
constexpr C load(const Source& source, int64_t offset) {
  return load_as<C>(source.base + offset * source.bytes, source.dtype);
}

// Integers wrap, as unsigned ones do.
template <typename C>
constexpr C multiply(C x, C y) {
  return functor::Mul::apply(x, y);
}
template <typename C>
constexpr C multiply_add(C sum, C x, C y) {
  return functor::Add::apply(sum, multiply(x, y));
}

template <typename C>
struct ContractionBody {
  StridedSteps result,
      depth;  // steps of the result's dims; of the summed letters, the first slowest
  int64_t terms;
  Source a, b, bias;
  bool has_bias;
  C alpha, beta;
  std::byte* out;
  DType out_dtype;
  int64_t out_bytes;

  constexpr void operator()(int64_t index) const {
    int64_t at_a = 0, at_b = 0, at_bias = 0, rest = index;
    for (int d = result.count - 1; d >= 0; --d) {
      const StridedStep& step = result.steps[d];
      const int64_t here = rest % step.size;
      rest /= step.size;
      at_a += here * step.a;
      at_b += here * step.b;
      at_bias += here * step.bias;
    }
    C value = sum(at_a, at_b);
    if (has_bias) {
      value = multiply(alpha, value);
      if (beta != C{0}) value = multiply_add(value, beta, load<C>(bias, at_bias));
    }
    store_as(out + index * out_bytes, out_dtype, value);
  }

  constexpr C sum(int64_t at_a, int64_t at_b) const {
    C sum{0};
    if (depth.count == 1) {
      for (int64_t k = 0; k < terms; ++k, at_a += depth.steps[0].a, at_b += depth.steps[0].b)
        sum = multiply_add(sum, load<C>(a, at_a), load<C>(b, at_b));
      return sum;
    }
    for (int64_t k = 0; k < terms; ++k) {
      int64_t rest = k, x = at_a, y = at_b;
      for (int d = depth.count - 1; d >= 0; --d) {
        const StridedStep& step = depth.steps[d];
        x += rest % step.size * step.a;
        y += rest % step.size * step.b;
        rest /= step.size;
      }
      sum = multiply_add(sum, load<C>(a, x), load<C>(b, y));
    }
    return sum;
  }
};

Source source_of(const LaneView& view, int64_t lane) {
  return {view.at(lane), view.dtype, size_of(view.dtype)};
}

template <typename C>
ContractionBody<C> body_of(const ContractionPlan& plan, const KernelCall& call) {
  const LaneView& a = (*call.inputs)[static_cast<size_t>(plan.a)];
  const LaneView& b = (*call.inputs)[static_cast<size_t>(plan.b)];
  const LaneView& out = call.outputs->front();
  ContractionBody<C> body{};
  body.has_bias = plan.bias.present;
  body.alpha = static_cast<C>(plan.bias.alpha);
  body.beta = static_cast<C>(plan.bias.beta);
  body.out_dtype = out.dtype;
  body.out_bytes = size_of(out.dtype);
  const int lead = out.shape.size() - plan.bias.shape.size();
  for (int d = 0; d < out.shape.size(); ++d) {
    StridedStep step{out.shape[d], 0, 0, 0};
    for (const ContractionLetter& letter : plan.letters)
      if (letter.result == d) {
        step.a += step_over(letter.a, a.strides);
        step.b += step_over(letter.b, b.strides);
      }
    if (plan.bias.present && d >= lead && plan.bias.shape[d - lead] != 1)
      step.bias = (*call.inputs)[static_cast<size_t>(plan.bias_input)].strides[d - lead];
    body.result.add(step);
  }
  for (const ContractionLetter& letter : plan.letters)
    if (letter.result < 0)
      body.depth.add(
          {letter.size, step_over(letter.a, a.strides), step_over(letter.b, b.strides), 0});
  body.terms = body.depth.product();
  return body;
}

// Adds the bias of each row of the library's result, and rounds to the stored dtype.
struct RoundBody {
  const float* sums;
  Source bias;  // without a base: no bias
  int64_t rows;
  std::byte* out;
  DType dtype;
  int64_t bytes;
  constexpr void operator()(int64_t i) const {
    float sum = sums[i];
    if (bias.base != nullptr) sum = functor::Add::apply(sum, load<float>(bias, i % rows));
    store_as(out + i * bytes, dtype, sum);
  }
};

// Copies a matrix as a dense one of f16, which holds every 8-bit float.
struct WidenBody {
  Source from;
  int64_t rows, columns, leading, batch_stride;
  std::byte* to;
  constexpr void operator()(int64_t i) const {
    const int64_t column = i / rows, product = column / columns;
    const int64_t at = product * batch_stride + column % columns * leading + i % rows;
    store_as(to + i * int64_t{sizeof(F16)}, DType::f16, load<float>(from, at));
  }
};

// A matrix of a product, copied to f16.
class Widened {
 public:
  Widened(const GemmMatrix& matrix, int64_t rows, int64_t columns, const GemmCall& product,
          const KernelCall& call)
      : matrix_(matrix),
        elements_(rows * columns * (matrix.batch_stride == 0 ? 1 : product.batch)),
        copy_(*call.memory, elements_ * int64_t{sizeof(F16)}) {
    if (matrix.transposed) std::swap(rows, columns);
    matrix_.start = copy_.start();
    matrix_.leading = rows;
    if (matrix.batch_stride != 0) matrix_.batch_stride = rows * columns;
    const Source from{matrix.start, product.dtype, size_of(product.dtype)};
    launch(call.stream, elements_,
           WidenBody{from, rows, columns, matrix.leading, matrix.batch_stride, copy_.start()});
  }
  const GemmMatrix& matrix() const { return matrix_; }

 private:
  GemmMatrix matrix_;
  int64_t elements_;
  ScopedDeviceMemory copy_;
};

// Tensor cores accept few layouts of 8-bit floats and add with few bits; for f16 they accept all
// layouts.
bool multiply_widened(GemmCall product, const KernelCall& call) {
  const Widened a(product.a, product.rows, product.depth, product, call);
  const Widened b(product.b, product.depth, product.columns, product, call);
  product.a = a.matrix();
  product.b = b.matrix();
  product.dtype = DType::f16;
  return call.gemm->multiply(product, *call.memory, call.stream);
}

bool by_library_with_sums(GemmCall product, const KernelCall& call, std::byte* out) {
  if (!call.gemm->open()) return false;
  const int64_t elements = element_count(call.outputs->front().shape);
  const Source bias{std::exchange(product.bias, nullptr), product.dtype, size_of(product.dtype)};
  const ScopedDeviceMemory sums(*call.memory, elements * size_of(product.compute));
  product.result = sums.start();
  const bool done = (call.gemm->precision() == MatmulPrecision::high &&
                     call.gemm->multiply(product, *call.memory, call.stream)) ||
                    multiply_widened(product, call);
  if (done)
    launch(call.stream, elements,
           RoundBody{reinterpret_cast<const float*>(sums.start()), bias, product.rows, out,
                     product.dtype, size_of(product.dtype)});
  return done;
}

bool is_aligned(const std::byte* bias) {
  return reinterpret_cast<uintptr_t>(bias) % kBiasAlignment == 0;
}

// Copies the bias first, to memory whose alignment the library's kernels require.
bool by_library_with_bias(GemmCall product, const KernelCall& call) {
  if (!call.gemm->open()) return false;
  const int64_t bytes = product.rows * size_of(product.dtype);
  const ScopedDeviceMemory bias(*call.memory, bytes);
  call.memory->copy(bias.start(), product.bias, bytes);
  product.bias = bias.start();
  return call.gemm->multiply(product, *call.memory, call.stream);
}

bool by_library(const ContractionPlan& plan, const KernelCall& call, int64_t lane) {
  if (call.gemm == nullptr) return false;
  const std::optional<GemmCall> product = plan_gemm(plan, call, lane);
  if (!product) return false;
  if (product->leaves_sums)
    return by_library_with_sums(*product, call, call.outputs->front().at(lane));
  if (!is_aligned(product->bias)) return by_library_with_bias(*product, call);
  return call.gemm->multiply(*product, *call.memory, call.stream);
}

template <typename C>
Kernel contraction_on_device(const ContractionPlan& plan) {
  Kernel kernel;
  kernel.accepts_strides = true;
  kernel.run = [plan](const KernelCall& call) {
    ContractionBody<C> body = body_of<C>(plan, call);
    for (int64_t lane = 0; lane < call.lanes; ++lane) {
      body.a = source_of((*call.inputs)[static_cast<size_t>(plan.a)], lane);
      body.b = source_of((*call.inputs)[static_cast<size_t>(plan.b)], lane);
      if (plan.bias.present)
        body.bias = source_of((*call.inputs)[static_cast<size_t>(plan.bias_input)], lane);
      body.out = call.outputs->front().at(lane);
      if (by_library(plan, call, lane)) continue;
      launch(call.stream, element_count(call.outputs->front().shape), body);
    }
  };
  return kernel;
}

}  // namespace

template <>
void KernelFamilies<Target>::add_contractions(DeviceKernels& kernels) {
  kernels.add<ContractionPlan>([](const ContractionPlan& plan) {
    if (plan.compute == DType::f32) return contraction_on_device<float>(plan);
    if (plan.compute == DType::f64) return contraction_on_device<double>(plan);
    return plan.compute == DType::i64 ? contraction_on_device<int64_t>(plan) : Kernel();
  });
}

}  // namespace shardproof
