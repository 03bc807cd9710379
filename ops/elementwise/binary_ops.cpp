// Elementwise ops of two operands: one row each, with the partials that pass. Rows of logical and
// bitwise ops stand beside the arithmetic.

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/binary_functors.h"
#include "shardproof/ops/elementwise/compare_functors.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/float_pair_functors.h"
#include "shardproof/ops/elementwise/partial_propagation.h"

namespace shardproof {
namespace {

enum class Result { same, floating, boolean };
enum class Accepts { all, reals, no_bool, no_bool_reals, integers };

using Passes = std::vector<Pass> (*)(const OpCall& call);

struct Row {
  const char* name;
  const char* infix;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  Result result;
  Accepts accepts;
  Passes passes;
  const char* second_fill;
};

template <typename F>
TypedLoop binary(DType compute) {
  return loop_for<Binary, F>(compute);
}

using functor::Add;

const Row kRows[] = {
    {"add", "+", "x + y", binary<Add>, Result::same, Accepts::all, add_passes, ""},
    {"sub", "-", "x - y", binary<functor::Sub>, Result::same, Accepts::no_bool, sub_passes, ""},
    {"mul", "*", "x * y", binary<functor::Mul>, Result::same, Accepts::all, mul_passes, ""},
    {"div", "/", "x / y; integers give floats", binary<functor::Div>, Result::floating,
     Accepts::all, div_passes, "ints(1, 5)"},
    {"floordiv", "//", "floor(x / y)", binary<functor::FloorDiv>, Result::same,
     Accepts::no_bool_reals, no_passes, "ints(1, 5)"},
    {"remainder", "%", "x - y * floor(x / y)", binary<functor::Remainder>, Result::same,
     Accepts::no_bool_reals, no_passes, "ints(1, 5)"},
    {"pow", "**", "x to the y", binary<functor::Pow>, Result::same, Accepts::no_bool_reals,
     no_passes, "ints(0, 4)"},
    {"maximum", "", "the larger, NaN if either is", binary<functor::Maximum>, Result::same,
     Accepts::reals, maximum_passes, ""},
    {"minimum", "", "the smaller, NaN if either is", binary<functor::Minimum>, Result::same,
     Accepts::reals, minimum_passes, ""},
    {"fmax", "", "the larger, NaN only if both are", binary<functor::Fmax>, Result::same,
     Accepts::reals, no_passes, ""},
    {"fmin", "", "the smaller, NaN only if both are", binary<functor::Fmin>, Result::same,
     Accepts::reals, no_passes, ""},
    {"fmod", "", "x - y * trunc(x / y)", binary<functor::Fmod>, Result::same,
     Accepts::no_bool_reals, no_passes, "ints(1, 5)"},
    {"copysign", "", "x with the sign of y", binary<functor::CopySign>, Result::floating,
     Accepts::reals, no_passes, ""},
    {"atan2", "", "angle of the point (y, x)", binary<functor::Atan2>, Result::floating,
     Accepts::reals, no_passes, "ints(1, 5)"},
    {"hypot", "", "sqrt(x^2 + y^2)", binary<functor::Hypot>, Result::floating, Accepts::reals,
     no_passes, ""},
    {"eq", "==", "x == y", binary<functor::Eq>, Result::boolean, Accepts::all, no_passes, ""},
    {"ne", "!=", "x != y", binary<functor::Ne>, Result::boolean, Accepts::all, no_passes, ""},
    {"lt", "<", "x < y", binary<functor::Lt>, Result::boolean, Accepts::reals, no_passes, ""},
    {"le", "<=", "x <= y", binary<functor::Le>, Result::boolean, Accepts::reals, no_passes, ""},
    {"gt", ">", "x > y", binary<functor::Gt>, Result::boolean, Accepts::reals, no_passes, ""},
    {"ge", ">=", "x >= y", binary<functor::Ge>, Result::boolean, Accepts::reals, no_passes, ""},
    {"logical_and", "", "x != 0 and y != 0", binary<functor::LogicalAnd>, Result::boolean,
     Accepts::all, and_passes, ""},
    {"logical_or", "", "x != 0 or y != 0", binary<functor::LogicalOr>, Result::boolean,
     Accepts::all, or_passes, ""},
    {"logical_xor", "", "one of x, y is not 0", binary<functor::LogicalXor>, Result::boolean,
     Accepts::all, no_passes, ""},
    {"bitwise_and", "", "bits of both", binary<functor::BitAnd>, Result::same, Accepts::integers,
     band_passes, ""},
    {"bitwise_or", "", "bits of either", binary<functor::BitOr>, Result::same, Accepts::integers,
     bor_passes, ""},
    {"bitwise_xor", "", "bits of one", binary<functor::BitXor>, Result::same, Accepts::integers,
     bxor_passes, ""},
};

// ---- the record ----

bool accepted(Accepts accepts, DType dtype) {
  switch (accepts) {
    case Accepts::all: return true;
    case Accepts::reals: return !is_complex(dtype);
    case Accepts::no_bool: return dtype != DType::boolean;
    case Accepts::no_bool_reals: return dtype != DType::boolean && !is_complex(dtype);
    case Accepts::integers: return is_integral(dtype) || dtype == DType::boolean;
  }
  return false;
}

DType common_dtype(const Row& row, const OpCall& call) {
  return row.result == Result::floating ? float_result_dtype(call) : result_dtype(call);
}

std::vector<TensorMeta> infer_binary(const Row& row, const OpCall& call) {
  const DType common = common_dtype(row, call);
  if (!accepted(row.accepts, common)) refuse(row.name, call, "not defined for {}", name(common));
  const DType result = row.result == Result::boolean ? DType::boolean : common;
  return {{result, broadcast_result(row.name, call)}};
}

Kernel prepare_binary(const Row& row, const OpCall& call) {
  const TypedLoop loop = row.loop(compute_dtype(common_dtype(row, call)));
  return elementwise_kernel({loop.run, loop.type, {loop.input, loop.input}, {loop.output}});
}

using Shapes = std::pair<Dims, Dims>;

std::vector<Sample> binary_samples(const Row& row) {
  std::vector<Sample> samples;
  const std::string second = *row.second_fill ? row.second_fill : "ints";
  auto add = [&](DType a, DType b, const Shapes& shapes, const std::string& fa,
                 const std::string& fb) {
    samples.push_back({{}, {{a, shapes.first}, {b, shapes.second}}, {fa, fb}});
  };
  if (row.accepts == Accepts::integers) {
    add(DType::i32, DType::i32, {{5, 4}, {5, 4}}, "ints", "ints");
    add(DType::u8, DType::i16, {{3, 4}, {4}}, "ints", "ints");
    add(DType::boolean, DType::boolean, {{7}, {7}}, "bools", "bools");
    return samples;
  }
  add(DType::f32, DType::f32, {{4, 6}, {4, 6}}, "ints", second);
  add(DType::f32, DType::f32, {{5, 1}, {1, 3}}, "uniform(0.5, 2)", "uniform(0.5, 2)");
  add(DType::bf16, DType::bf16, {{2, 3, 4}, {4}}, "uniform(0.5, 2)", second);
  add(DType::f64, DType::f64, {{7}, {}}, "uniform(0.5, 2)", "uniform(0.5, 2)");
  add(DType::i32, DType::i32, {{5, 2}, {2}}, "ints", second);
  add(DType::i64, DType::f32, {{3}, {5, 3}}, "ints", second);
  if (row.accepts == Accepts::all || row.accepts == Accepts::reals)
    add(DType::boolean, DType::boolean, {{5}, {5}}, "bools",
        row.result == Result::floating ? "ones" : "bools");
  if (row.accepts == Accepts::all) add(DType::c64, DType::c64, {{3, 4}, {3, 4}}, "ints", second);
  return samples;
}

bool divides(const Row& row) {
  const std::string_view name = row.name;
  return name == "floordiv" || name == "remainder" || name == "fmod";
}

// Of integers: what torch raises an error for, where it is plain from the text.
void check_numbers(const Row& row, const OpCall& call, const std::vector<const Number*>& numbers) {
  const bool bools =
      call.inputs[0].dtype == DType::boolean || call.inputs[1].dtype == DType::boolean;
  if (std::string_view(row.name) == "sub" && bools)
    refuse(row.name, call, "not defined for bool; use logical_xor, or cast it first");
  const Number* second = numbers.at(1);
  if (!second || !second->is_integer() || is_floating(result_dtype(call))) return;
  if (divides(row) && second->integer() == 0) refuse(row.name, call, "an integer is divided by 0");
  if (std::string_view(row.name) == "pow" && second->integer() < 0)
    refuse(row.name, call, "integers have no negative integer powers; cast the base to a float");
}

bool holds_zero(const LaneView& x, int64_t lane) {
  Dims index = Dims::filled(x.shape.size(), 0);
  for (int64_t i = element_count(x.shape), at = 0; i > 0; --i) {
    if (load_i64(x.at(lane) + at * size_of(x.dtype), x.dtype) == 0) return true;
    for (int d = x.shape.size() - 1; d >= 0; --d) {
      at += x.strides[d];
      if (++index[d] < x.shape[d]) break;
      at -= index[d] * x.strides[d];
      index[d] = 0;
    }
  }
  return false;
}

// An integer over 0 is the user's data at fault: it has no value.
Kernel refusing_zeros(const Row& row, const OpCall& call, Kernel kernel) {
  const bool any = element_count(broadcast_result(row.name, call)) > 0;
  kernel.run = [=, name = std::string(row.name),
                run = std::move(kernel.run)](const KernelCall& call) {
    for (int64_t lane = 0; any && lane < call.lanes; ++lane)
      if (holds_zero((*call.inputs)[1], lane))
        throw_bad_input("{}: an integer is divided by 0", name);
    run(call);
  };
  return kernel;
}

OpRecord binary_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "elementwise";
  op.summary = row.summary;
  op.infix = row.infix;
  op.params = {{"x", ParamKind::tensor, true, {}}, {"y", ParamKind::tensor, true, {}}};
  op.infer = [&row](const OpCall& call) { return infer_binary(row, call); };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel = prepare_binary(row, call);
    const bool whole = is_integral(common_dtype(row, call));
    return whole && divides(row) ? refusing_zeros(row, call, std::move(kernel)) : kernel;
  };
  if (divides(row) || std::string_view(row.name) == "pow" || std::string_view(row.name) == "sub")
    op.check = [&row](const OpCall& call, const std::vector<const Number*>& numbers) {
      check_numbers(row, call, numbers);
    };
  op.rule.strategies = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return elementwise_strategies(call, outputs, row.passes(call));
  };
  op.samples = [&row] { return binary_samples(row); };
  return op;
}

// x + alpha * y, x - alpha * y.
void take_alpha(OpRecord& op) {
  op.params.push_back(params::optional("alpha", ParamKind::number));
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("alpha"); },
      [name = op.name](Formula& f) {
        const FormulaTerm more = f.to_result_dtype(f[1]) * f.number("alpha");
        return std::vector<FormulaTerm>{combine(name.c_str(), f[0], more)};
      });
}

void take_rounding_mode(OpRecord& op) {
  op.params.push_back(params::optional("rounding_mode", ParamKind::text));
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("rounding_mode"); },
      [](Formula& f) {
        const std::string& mode = f.call.attrs->text("rounding_mode");
        if (mode == "floor") return std::vector<FormulaTerm>{combine("floordiv", f[0], f[1])};
        if (mode != "trunc") f.refuse("rounding_mode is 'floor' or 'trunc', found '{}'", mode);
        if (!is_integral(f[0].dtype()) || !is_integral(f[1].dtype()))
          return std::vector<FormulaTerm>{f.op("trunc", {f[0] / f[1]})};
        // Integers stay integers: without its remainder the division has nothing to round.
        return std::vector<FormulaTerm>{
            combine("floordiv", f[0] - f.op("fmod", {f[0], f[1]}), f[1])};
      });
}

}  // namespace

void add_binary_ops(OpRegistry& ops) {
  for (const Row& row : kRows) {
    OpRecord op = binary_record(row);
    const std::string_view name = row.name;
    if (name == "add" || name == "sub") take_alpha(op);
    if (name == "div") take_rounding_mode(op);
    if (name == "hypot") require_float_input(op);
    ops.add(std::move(op));
  }
}

}  // namespace shardproof
