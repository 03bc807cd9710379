// Registers the ops that split and make complex numbers: real, imag, angle, complex, polar,
// view_as_real, view_as_complex. They run on the host, also in GPU runs.
#include <cmath>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof {
namespace {

struct RealPart {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static auto apply(C x) {
    if constexpr (kIsComplexType<C>)
      return x.real();
    else
      return x;
  }
};
struct ImaginaryPart {
  static constexpr unsigned kTypes = kComplexes;
  template <typename C>
  static auto apply(C x) {
    return x.imag();
  }
};
// A real number has the angle 0 or pi; NaN stays.
struct Angle {
  static constexpr unsigned kTypes = kFloats | kComplexes;
  template <typename C>
  static auto apply(C x) {
    if constexpr (kIsComplexType<C>)
      return std::atan2(x.imag(), x.real());
    else
      return x != x ? x : (x < 0 ? static_cast<C>(M_PI) : C{0});
  }
};
struct FromParts {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static std::complex<C> apply(C real, C imag) {
    return {real, imag};
  }
};
struct FromPolar {
  static constexpr unsigned kTypes = kFloats;
  template <typename C>
  static std::complex<C> apply(C size, C angle) {
    return {size * std::cos(angle), size * std::sin(angle)};
  }
};

struct ComplexRow {
  const char* name;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  const char* first;
  const char* second;  // "": one operand
  bool linear, raises, by_library;
};

const ComplexRow kComplexRows[] = {
    {"real", "real part; x itself if it is real", loop_for<Unary, RealPart>, "x", "", true, false,
     false},
    {"imag", "imaginary part", loop_for<Unary, ImaginaryPart>, "x", "", true, false, false},
    {"angle", "angle of a complex number, -pi .. pi", loop_for<Unary, Angle>, "x", "", false, true,
     true},
    {"complex", "real + 1j * imag", loop_for<Binary, FromParts>, "real", "imag", true, true, false},
    {"polar", "abs * exp(1j * angle)", loop_for<Binary, FromPolar>, "abs", "angle", false, true,
     true},
};

DType common_of(const ComplexRow& row, const OpCall& call) {
  return row.raises ? float_result_dtype(call) : result_dtype(call);
}

std::vector<TensorMeta> infer_complex(const ComplexRow& row, const OpCall& call) {
  const DType common = common_of(row, call);
  if (!row.loop(compute_dtype(common)).run)
    refuse(row.name, call, "not defined for {}", name(common));
  if (!*row.second) return {{component_dtype(common), call.inputs[0].shape}};
  if (size_of(common) < 4)
    refuse(row.name, call, "defined for f32 and f64, found {}; cast it first", name(common));
  return {{common == DType::f64 ? DType::c128 : DType::c64, broadcast_shape_of(row.name, call)}};
}

Kernel prepare_complex(const ComplexRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const TypedLoop loop = row.loop(compute_dtype(common_of(row, call)));
  ElementwisePlan plan{loop.run, nullptr, {loop.input}, {loop.output}};
  if (*row.second) plan.inputs.push_back(loop.input);
  plan.by_library = row.by_library;
  return elementwise_kernel(plan);
}

std::vector<Strategy> complex_strategies(const ComplexRow& row, const OpCall& call,
                                         const std::vector<TensorMeta>& outputs) {
  std::vector<PartialPropagation> passes;
  if (row.linear)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      const std::vector<std::optional<ReduceOp>> all(*row.second ? 2 : 1, op);
      passes.push_back({all, op});
    }
  // The size of a complex number is linear too.
  if (row.name == std::string_view("polar"))
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      passes.push_back({{op, std::nullopt}, op});
  // Inputs are converted to the common dtype. The parts of a complex number keep all its digits.
  std::vector<TensorMeta> converted = outputs;
  converted[0].dtype = common_of(row, call);
  return elementwise_strategies(call, converted, passes);
}

std::vector<Sample> complex_samples(const ComplexRow& row) {
  if (*row.second)
    return {sample_of({{{5, 3}, {3}}, DType::f32, {"uniform(-3, 3)", "uniform(-3, 3)"}}),
            sample_of({{{2, 1, 3}, {2, 2, 1}}, DType::f64, {"uniform(-3, 3)", "uniform(-3, 3)"}})};
  std::vector<Sample> samples = {sample_of({{{5, 3}}, DType::c64}),
                                 sample_of({{{2, 1, 3}}, DType::c128})};
  if (row.name != std::string_view("imag"))
    samples.push_back(sample_of({{{7}}, DType::f32, {"uniform(-3, 3)"}}));
  return samples;
}

using F = FormulaTerm;

F in_dtype_of(Gradient& g, const F& x) { return g.to(g[0].dtype(), x); }
// Returns 1j * x.
F times_i(Gradient& g, const F& x) {
  return g.op("complex", {-g.op("imag", {x}), g.op("real", {x})});
}
// The angle turns by a step across x, divided by |x|. The angle of a real number is constant.
F angle_gradient(Gradient& g) {
  if (!is_complex(g[0].dtype())) return g.none();
  const F size = g.op("abs", {g[0]}), zero = g.op("eq", {size, 0});
  const F across = times_i(g, g[0] / g.op("square", {g.where(zero, 1.0, size)}));
  return g.where(zero, 0.0, across * g.dy());
}
F polar_by_abs(Gradient& g) {
  const F one = g.op("polar", {g.op("ones", {g[0]}), g[1]});
  return g.op("real", {g.conj(g.dy()) * one});
}
F polar_by_angle(Gradient& g) { return g.op("real", {g.conj(g.dy()) * times_i(g, g.y())}); }

const std::vector<GradientRow>& complex_gradients() {
  static const std::vector<GradientRow> rows = {
      {"real", [](Gradient& g) { return in_dtype_of(g, g.dy()); }},
      {"imag", [](Gradient& g) { return times_i(g, in_dtype_of(g, g.dy())); }},
      {"angle", angle_gradient, nullptr, Differentiable::yes, nullptr, "x == 0"},
      {"complex", [](Gradient& g) { return g.op("real", {g.dy()}); },
       [](Gradient& g) { return g.op("imag", {g.dy()}); }},
      {"polar", polar_by_abs, polar_by_angle},
  };
  return rows;
}

const OpTable<ComplexRow> kComplexTable = {
    "complex",
    [](const ComplexRow& row) {
      std::vector<Param> params = {params::tensor(row.first)};
      if (*row.second) params.push_back(params::tensor(row.second));
      return params;
    },
    infer_complex,
    prepare_complex,
    complex_strategies,
    complex_samples,
    [](const ComplexRow&, OpRecord& op) { set_gradient(op, complex_gradients()); }};

void add_complex_formulas(OpRegistry& ops) {
  ops.add(formula(
      {"view_as_real", "complex", "real and imaginary part, along a last dim of 2"},
      {params::tensor("x")},
      [](Formula& f) {
        if (!is_complex(f[0].dtype()))
          f.refuse("the input must be complex, found {}", name(f[0].dtype()));
        return FormulaTerms{f.joined("stack", {f.op("real", {f[0]}), f.op("imag", {f[0]})}, -1)};
      },
      {sample_of({{{5, 3}}, DType::c64})}));
  ops.add(formula({"view_as_complex", "complex", "complex numbers of a last dim of 2"},
                  {params::tensor("x")},
                  [](Formula& f) {
                    if (f[0].dims() == 0 || f[0].shape()[f[0].dims() - 1] != 2)
                      f.refuse("the last dim must have size 2, found {}", to_string(f[0].shape()));
                    const auto part = [&](int64_t i) {
                      return f.op("select", {f[0]}, {{"dim", int64_t{-1}}, {"index", i}});
                    };
                    return FormulaTerms{f.op("complex", {part(0), part(1)})};
                  },
                  {sample_of({{{5, 2}}, DType::f32, {"uniform(-3, 3)"}})}));
}

}  // namespace

void add_complex_ops(OpRegistry& ops) {
  add_rows(ops, kComplexTable, kComplexRows);
  add_complex_formulas(ops);
}

}  // namespace shardproof
