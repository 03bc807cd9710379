// Registers fft and ifft: discrete Fourier transforms along a dim, which is never sharded. The sums
// follow the definition, in f64 with one table of roots of unity, and are rounded once:
//
//   y[k] = scale * sum over j of x[j] * exp(-2 pi i j k / n)    (ifft: exp(+2 pi i j k / n))
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/linalg/linalg_gradients.h"

namespace shardproof {
namespace {

struct FftRow {
  const char* name;
  const char* summary;
  bool inverse;
};
const FftRow kFftRows[] = {
    {"fft", "discrete Fourier transform along dim; complex", false},
    {"ifft", "inverse discrete Fourier transform along dim; complex", true},
};

// The input as [outer, size, inner], and the factor of every sum.
struct TransformLine {
  int64_t outer = 1, size = 0, inner = 1;
  double scale = 1;
};

int transform_dim(const FftRow& row, const OpCall& call) {
  return dim_of(row.name, call, call.attrs->integer("dim"));
}

TransformLine transform_line(const FftRow& row, const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  const int dim = transform_dim(row, call);
  TransformLine line{1, shape[dim], 1, 1};
  for (int d = 0; d < dim; ++d) line.outer *= shape[d];
  for (int d = dim + 1; d < shape.size(); ++d) line.inner *= shape[d];
  const std::string norm = call.attrs->has("norm") ? call.attrs->text("norm") : "backward";
  if (norm != "backward" && norm != "ortho" && norm != "forward")
    refuse(row.name, call, "norm must be 'backward', 'ortho' or 'forward', found '{}'", norm);
  const auto size = static_cast<double>(line.size);
  if (norm == "ortho") line.scale = 1 / std::sqrt(size);
  if ((norm == "forward") != row.inverse && norm != "ortho") line.scale = 1 / size;
  return line;
}

std::vector<TensorMeta> infer_fft(const FftRow& row, const OpCall& call) {
  const TensorMeta& x = input_meta(call, 0);
  if (transform_line(row, call).size < 1)
    refuse(row.name, call, "expected at least one element along the dim, found none");
  if (is_floating(x.dtype) && x.dtype != DType::f32 && x.dtype != DType::f64)
    refuse(row.name, call, "not defined for {}; cast it to f32", name(x.dtype));
  const bool wide = x.dtype == DType::f64 || x.dtype == DType::c128;
  return {{wide ? DType::c128 : DType::c64, x.shape}};
}

std::vector<C128> roots_of_unity(int64_t size, bool inverse) {
  std::vector<C128> roots(static_cast<size_t>(size));
  for (int64_t k = 0; k < size; ++k) {
    const double angle = 2 * M_PI * static_cast<double>(k) / static_cast<double>(size);
    roots[static_cast<size_t>(k)] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  return roots;
}

void transform(const TransformLine& line, const std::vector<C128>& roots, const C128* x, C128* y) {
  const int64_t n = line.size, step = line.inner;
  for (int64_t o = 0; o < line.outer; ++o)
    for (int64_t i = 0; i < step; ++i) {
      const int64_t first = o * n * step + i;
      for (int64_t k = 0; k < n; ++k) {
        double re = 0, im = 0;
        for (int64_t j = 0, turn = 0; j < n; ++j, turn = (turn + k) % n) {
          const C128 a = x[first + j * step], b = roots[static_cast<size_t>(turn)];
          re += a.real() * b.real() - a.imag() * b.imag();
          im += a.real() * b.imag() + a.imag() * b.real();
        }
        y[first + k * step] = {re * line.scale, im * line.scale};
      }
    }
}

Kernel prepare_fft(const FftRow& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const TransformLine line = transform_line(row, call);
  LanePlan plan{{DType::c128}, {DType::c128}, 0, {}};
  plan.body = [line, roots = roots_of_unity(line.size, row.inverse)](const LaneCall& lane) {
    transform(line, roots, lane.in<C128>(0), lane.out<C128>(0));
  };
  return lane_kernel(plan, call, outputs);
}

// Adds the parameter `n`: the op takes the first n entries, or all entries followed by zeros.
void add_length_parameter(OpRecord& op) {
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("n"); },
      [name = op.name](Formula& f) {
        const int dim = f.dim();
        const int64_t n = f.integer("n"), size = f[0].shape()[dim];
        if (n < 1) f.refuse("n must be at least 1, found {}", n);
        std::vector<int64_t> pad(static_cast<size_t>(2 * (f[0].dims() - dim)), 0);
        pad.back() = n - size;
        Attrs rest = *f.call.attrs;
        rest.set("n", std::monostate{});
        const FormulaTerm x =
            n == size ? f[0] : f.op("pad", {f[0]}, {{"pad", pad}, {"value", 0.0}});
        return std::vector<FormulaTerm>{f.op(name.c_str(), {x}, std::move(rest))};
      });
}

std::vector<Strategy> fft_strategies(const FftRow& row, const OpCall& call,
                                     const std::vector<TensorMeta>&) {
  std::string names = letters(input_shape(call, 0).size());
  names[static_cast<size_t>(transform_dim(row, call))] = '1';
  FactorOptions options;
  options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {0});
  if (!is_floating(input_meta(call, 0).dtype) && !is_complex(input_meta(call, 0).dtype))
    options.partials.clear();
  return factor_strategies(notation_of(names, names), options);
}

std::vector<Sample> fft_samples(const FftRow&) {
  const Attrs first{{"dim", int64_t{0}}};
  const Attrs last{{"dim", int64_t{-1}}, {"norm", std::string("ortho")}};
  return {sample_of({{{5, 3}}}, first), sample_of({{{2, 4, 6}}, DType::c64}, last),
          sample_of({{{7, 2}}, DType::f64, {"uniform(-1, 1)"}}, first)};
}

void complete_fft(const FftRow& row, OpRecord& op) {
  op.cost = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const TransformLine line = transform_line(row, call);
    const auto elements = static_cast<double>(element_count(outputs[0].shape));
    const auto width = static_cast<double>(size_of(outputs[0].dtype));
    return OpCost{8 * elements * static_cast<double>(line.size), 2 * elements * width};
  };
  op.gradient =
      gradients({[inverse = row.inverse](Gradient& g) { return fft_gradient(g, inverse); }});
  add_length_parameter(op);
}

const OpTable<FftRow> kFftTable = {
    "linalg",
    [](const FftRow&) -> std::vector<Param> {
      return {params::tensor("x"), params::optional("n", ParamKind::integer),
              params::integer("dim", -1), params::optional("norm", ParamKind::text)};
    },
    infer_fft,
    prepare_fft,
    fft_strategies,
    fft_samples,
    complete_fft};

}  // namespace

void add_fourier_ops(OpRegistry& ops) { add_rows(ops, kFftTable, kFftRows); }

}  // namespace shardproof
