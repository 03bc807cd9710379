// Registers the elementwise ops of two operands (add, div, pow, maximum, lt, bitwise_and, ...), one
// table row each with the rule for partials. add and sub with alpha, and div with rounding_mode,
// decompose into plain ops.

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/binary_functors.h"
#include "shardproof/ops/elementwise/compare_functors.h"
#include "shardproof/ops/elementwise/elementwise_gradients.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/elementwise/float_pair_functors.h"
#include "shardproof/ops/elementwise/partial_propagation.h"

namespace shardproof {
namespace {

enum class BinaryResult { same, floating, boolean };
enum class BinaryAccepts { all, reals, no_bool, no_bool_reals, integers, whole };

using Passes = std::vector<PartialPropagation> (*)(const OpCall& call);

// Inputs that an op rejects in a program, beyond `accepts`.
enum BinaryTrait : unsigned {
  kPlainPair = 0,
  kDivides = 1,      // an integer divided by 0 is an error
  kPowers = 2,       // an integer to a negative power is an error
  kNoBoolInput = 4,  // not even one input may be bool
  kFloatPairs = 8,   // one input at least must be a float
  kByLibrary = 16,   // functions that do not round once in the direction of this thread
};

struct BinaryRow {
  const char* name;
  const char* infix;
  const char* summary;
  TypedLoop (*loop)(DType compute);
  BinaryResult result;
  BinaryAccepts accepts;
  Passes passes;
  const char* second_fill;
  unsigned traits = kPlainPair;
  void (*add_forms)(OpRecord&) = nullptr;  // adds parameters and decompositions
};

template <typename F>
TypedLoop binary(DType compute) {
  return loop_for<Binary, F>(compute);
}

using functor::Add;

// Adds alpha: x + alpha * y, x - alpha * y.
void take_alpha(OpRecord& op) {
  op.params.push_back(params::optional("alpha", ParamKind::number));
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("alpha"); },
      [name = op.name](Formula& f) {
        FormulaTerm more = f.to_result_dtype(f[1]) * f.number("alpha");
        if (result_dtype(f.call) == DType::boolean) more = f.to(DType::boolean, more);
        return std::vector<FormulaTerm>{combine(name.c_str(), f[0], more)};
      });
  compute_in_f32(op, [](const OpCall& call) { return call.attrs->has("alpha"); });
}

void take_rounding_mode(OpRecord& op) {
  op.params.push_back(params::optional("rounding_mode", ParamKind::text));
  decompose_when(
      op, [](const OpCall& call) { return call.attrs->has("rounding_mode"); },
      [](Formula& f) {
        const std::string& mode = f.call.attrs->text("rounding_mode");
        if (mode == "floor") return std::vector<FormulaTerm>{combine("floordiv", f[0], f[1])};
        if (mode != "trunc") f.refuse("rounding_mode must be 'floor' or 'trunc', found '{}'", mode);
        if (!is_integral(f[0].dtype()) || !is_integral(f[1].dtype()))
          return std::vector<FormulaTerm>{f.op("trunc", {f[0] / f[1]})};
        // For integers, x minus its remainder divides exactly, so floordiv truncates.
        return std::vector<FormulaTerm>{
            combine("floordiv", f[0] - f.op("fmod", {f[0], f[1]}), f[1])};
      });
}

// Rounds a number to the dtype of a narrow float before the op, as torch's kernels do. A small
// change of a divisor can change the quotient of a remainder by 1.
void round_numbers(OpRecord& op) {
  const auto is_number = [](const OpCall& call, size_t i) {
    return call.inputs[i].weak && is_floating(call.inputs[i].dtype);
  };
  decompose_when(
      op,
      [is_number](const OpCall& call) {
        const DType dtype = result_dtype(call);
        return is_floating(dtype) && dtype != compute_dtype(dtype) &&
               (is_number(call, 0) || is_number(call, 1));
      },
      [name = op.name, is_number](Formula& f) {
        const DType dtype = result_dtype(f.call);
        const auto rounded = [&](int i) {
          return is_number(f.call, static_cast<size_t>(i)) ? f.to(dtype, f[i]) : f[i];
        };
        return FormulaTerms{f.op(name.c_str(), {rounded(0), rounded(1)})};
      });
}

// True if an input is a 0-d tensor of integers that the dtype of the other input may not hold.
bool is_wide_scalar(const OpCall& call, size_t input) {
  const TensorMeta& meta = call.inputs[input];
  if (meta.weak || !meta.shape.empty() || !is_integral(meta.dtype)) return false;
  const DType common = result_dtype(call);
  return is_integral(common) && !can_widen(meta.dtype, common);
}

// Converts a 0-d tensor of integers to the dtype of the other operand, where it wraps.
void convert_whole_scalars(OpRecord& op) {
  decompose_when(
      op,
      [](const OpCall& call) {
        return call.inputs.size() == 2 && (is_wide_scalar(call, 0) || is_wide_scalar(call, 1));
      },
      [name = op.name](Formula& f) {
        const DType common = result_dtype(f.call);
        const auto in_common = [&](int i) {
          return is_wide_scalar(f.call, static_cast<size_t>(i)) ? f.to(common, f[i]) : f[i];
        };
        return FormulaTerms{f.op(name.c_str(), {in_common(0), in_common(1)}, *f.call.attrs)};
      });
}

const BinaryRow kBinaryRows[] = {
    {"add", "+", "x + y", binary<Add>, BinaryResult::same, BinaryAccepts::all, add_passes, "",
     kPlainPair, take_alpha},
    {"sub", "-", "x - y", binary<functor::Sub>, BinaryResult::same, BinaryAccepts::no_bool,
     sub_passes, "", kNoBoolInput, take_alpha},
    {"mul", "*", "x * y", binary<functor::Mul>, BinaryResult::same, BinaryAccepts::all, mul_passes,
     ""},
    {"div", "/", "x / y; integers give floats", binary<functor::Div>, BinaryResult::floating,
     BinaryAccepts::all, div_passes, "ints(1, 5)", kPlainPair, take_rounding_mode},
    {"floordiv", "//", "floor(x / y)", binary<functor::FloorDiv>, BinaryResult::same,
     BinaryAccepts::no_bool_reals, no_passes, "ints(1, 5)", kDivides},
    {"remainder", "%", "x - y * floor(x / y)", binary<functor::Remainder>, BinaryResult::same,
     BinaryAccepts::no_bool_reals, no_passes, "ints(1, 5)", kDivides, round_numbers},
    {"pow", "**", "x to the y", binary<functor::Pow>, BinaryResult::same, BinaryAccepts::no_bool,
     no_passes, "ints(0, 4)", kPowers | kByLibrary},
    {"maximum", "", "the larger, NaN if either is", binary<functor::Maximum>, BinaryResult::same,
     BinaryAccepts::reals, maximum_passes, ""},
    {"minimum", "", "the smaller, NaN if either is", binary<functor::Minimum>, BinaryResult::same,
     BinaryAccepts::reals, minimum_passes, ""},
    {"fmax", "", "the larger, NaN only if both are", binary<functor::Fmax>, BinaryResult::same,
     BinaryAccepts::reals, no_passes, ""},
    {"fmin", "", "the smaller, NaN only if both are", binary<functor::Fmin>, BinaryResult::same,
     BinaryAccepts::reals, no_passes, ""},
    {"fmod", "", "x - y * trunc(x / y)", binary<functor::Fmod>, BinaryResult::same,
     BinaryAccepts::no_bool_reals, no_passes, "ints(1, 5)", kDivides, round_numbers},
    {"copysign", "", "x with the sign of y", binary<functor::CopySign>, BinaryResult::floating,
     BinaryAccepts::reals, no_passes, ""},
    {"atan2", "", "angle of the point (y, x)", binary<functor::Atan2>, BinaryResult::floating,
     BinaryAccepts::reals, no_passes, "ints(1, 5)", kByLibrary},
    {"hypot", "", "sqrt(x^2 + y^2)", binary<functor::Hypot>, BinaryResult::floating,
     BinaryAccepts::reals, no_passes, "", kFloatPairs | kByLibrary},
    {"logaddexp", "", "log(exp(x) + exp(y))", binary<functor::LogAddExp>, BinaryResult::floating,
     BinaryAccepts::reals, growing_passes, "", kFloatPairs | kByLibrary},
    {"logaddexp2", "", "log2(2^x + 2^y)", binary<functor::LogAddExp2>, BinaryResult::floating,
     BinaryAccepts::reals, growing_passes, "", kFloatPairs | kByLibrary},
    {"eq", "==", "x == y", binary<functor::Eq>, BinaryResult::boolean, BinaryAccepts::all,
     no_passes, ""},
    {"ne", "!=", "x != y", binary<functor::Ne>, BinaryResult::boolean, BinaryAccepts::all,
     no_passes, ""},
    {"lt", "<", "x < y", binary<functor::Lt>, BinaryResult::boolean, BinaryAccepts::reals,
     no_passes, ""},
    {"le", "<=", "x <= y", binary<functor::Le>, BinaryResult::boolean, BinaryAccepts::reals,
     no_passes, ""},
    {"gt", ">", "x > y", binary<functor::Gt>, BinaryResult::boolean, BinaryAccepts::reals,
     no_passes, ""},
    {"ge", ">=", "x >= y", binary<functor::Ge>, BinaryResult::boolean, BinaryAccepts::reals,
     no_passes, ""},
    {"logical_and", "", "x != 0 and y != 0", binary<functor::LogicalAnd>, BinaryResult::boolean,
     BinaryAccepts::all, and_passes, ""},
    {"logical_or", "", "x != 0 or y != 0", binary<functor::LogicalOr>, BinaryResult::boolean,
     BinaryAccepts::all, or_passes, ""},
    {"logical_xor", "", "one of x, y is not 0", binary<functor::LogicalXor>, BinaryResult::boolean,
     BinaryAccepts::all, no_passes, ""},
    {"bitwise_and", "", "bits of both", binary<functor::BitAnd>, BinaryResult::same,
     BinaryAccepts::integers, band_passes, ""},
    {"bitwise_or", "", "bits of either", binary<functor::BitOr>, BinaryResult::same,
     BinaryAccepts::integers, bor_passes, ""},
    {"bitwise_xor", "", "bits of one", binary<functor::BitXor>, BinaryResult::same,
     BinaryAccepts::integers, bxor_passes, ""},
    {"gcd", "", "greatest common divisor", binary<functor::Gcd>, BinaryResult::same,
     BinaryAccepts::whole, no_passes, "ints", kNoBoolInput},
    {"bitwise_left_shift", "", "x * 2^y, modulo 2^bits", binary<functor::ShiftLeft>,
     BinaryResult::same, BinaryAccepts::whole, left_shift_passes, "ints(0, 5)", kNoBoolInput},
    {"bitwise_right_shift", "", "floor(x / 2^y)", binary<functor::ShiftRight>, BinaryResult::same,
     BinaryAccepts::whole, right_shift_passes, "ints(0, 5)", kNoBoolInput},
};

bool accepted(BinaryAccepts accepts, DType dtype) {
  switch (accepts) {
    case BinaryAccepts::all: return true;
    case BinaryAccepts::reals: return !is_complex(dtype);
    case BinaryAccepts::no_bool: return dtype != DType::boolean;
    case BinaryAccepts::no_bool_reals: return dtype != DType::boolean && !is_complex(dtype);
    case BinaryAccepts::integers: return is_integral(dtype) || dtype == DType::boolean;
    case BinaryAccepts::whole: return is_integral(dtype);
  }
  return false;
}

DType common_dtype(const BinaryRow& row, const OpCall& call) {
  return row.result == BinaryResult::floating ? float_result_dtype(call) : result_dtype(call);
}

std::vector<TensorMeta> infer_binary(const BinaryRow& row, const OpCall& call) {
  const DType common = common_dtype(row, call);
  if (!accepted(row.accepts, common)) refuse(row.name, call, "not defined for {}", name(common));
  const DType result = row.result == BinaryResult::boolean ? DType::boolean : common;
  return {{result, broadcast_shape_of(row.name, call)}};
}

Kernel prepare_binary(const BinaryRow& row, const OpCall& call) {
  const TypedLoop loop = row.loop(compute_dtype(common_dtype(row, call)));
  ElementwisePlan plan{loop.run, loop.type, {loop.input, loop.input}, {loop.output}};
  plan.by_library = (row.traits & kByLibrary) != 0;
  return elementwise_kernel(plan);
}

using Shapes = std::pair<Dims, Dims>;

std::vector<Sample> binary_samples(const BinaryRow& row) {
  std::vector<Sample> samples;
  const std::string second = *row.second_fill ? row.second_fill : "ints";
  auto add = [&](DType a, DType b, const Shapes& shapes, const std::string& fa,
                 const std::string& fb) {
    samples.push_back({{}, {{a, shapes.first}, {b, shapes.second}}, {fa, fb}});
  };
  if (row.accepts == BinaryAccepts::whole) {
    add(DType::i32, DType::i32, {{5, 4}, {5, 4}}, "ints", second);
    add(DType::u8, DType::i16, {{3, 4}, {4}}, "ints", second);
    add(DType::i64, DType::i64, {{7}, {}}, "ints", "ints(-2, 70)");
    return samples;
  }
  if (row.accepts == BinaryAccepts::integers) {
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
  if (row.accepts == BinaryAccepts::all || row.accepts == BinaryAccepts::reals)
    add(DType::boolean, DType::boolean, {{5}, {5}}, "bools",
        row.result == BinaryResult::floating ? "ones" : "bools");
  if (row.accepts == BinaryAccepts::all)
    add(DType::c64, DType::c64, {{3, 4}, {3, 4}}, "ints", second);
  if (row.traits & kPowers) {
    add(DType::c64, DType::c64, {{3, 4}, {4}}, "uniform(0.5, 2)", "uniform(-1, 2)");
    add(DType::c128, DType::f64, {{5}, {}}, "uniform(0.5, 2)", "uniform(-1, 2)");
  }
  return samples;
}

// Rejects a comparison with a number that the dtype of the tensor does not hold, as torch does. A
// negative number wraps if the dtype is unsigned.
void refuse_beyond(const BinaryRow& row, const OpCall& call, const Number* number, DType dtype) {
  if (!number || !number->is_integer() || dtype == DType::i64) return;
  const auto most = static_cast<int64_t>(max_finite(dtype));
  const int64_t least = is_signed(dtype) ? -most - 1 : -most;
  if (number->integer() < least || number->integer() > most)
    refuse(row.name, call, "{} is compared with {}, which it does not hold; cast the tensor to i64",
           name(dtype), number->integer());
}

// Rejects integer calls for which torch raises an error, where the program's text shows it.
void check_numbers(const BinaryRow& row, const OpCall& call,
                   const std::vector<const Number*>& numbers) {
  const bool bools =
      call.inputs[0].dtype == DType::boolean || call.inputs[1].dtype == DType::boolean;
  if ((row.traits & kNoBoolInput) && bools)
    refuse(row.name, call, "not defined for bool; use logical_xor, or cast it first");
  const DType common = result_dtype(call);
  if (row.result == BinaryResult::boolean && is_integral(common))
    for (const Number* number : numbers) refuse_beyond(row, call, number, common);
  const Number* second = numbers.at(1);
  if (!second || !second->is_integer() || is_floating(common) || is_complex(common)) return;
  if ((row.traits & kDivides) && wrapped(*second, common).integer() == 0)
    refuse(row.name, call, "an integer is divided by {}",
           second->integer() == 0
               ? "0"
               : fmt::format("{}, which is 0 in {}", second->integer(), name(common)));
  if ((row.traits & kPowers) && second->integer() < 0)
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

// Wraps a kernel: an integer divided by 0 has no value, so the kernel throws Error(bad_input).
Kernel refusing_zeros(const BinaryRow& row, const OpCall& call, Kernel kernel) {
  const bool any = element_count(broadcast_shape_of(row.name, call)) > 0;
  kernel.run = [=, name = std::string(row.name),
                run = std::move(kernel.run)](const KernelCall& call) {
    for (int64_t lane = 0; any && lane < call.lanes; ++lane)
      if (holds_zero((*call.inputs)[1], lane))
        throw_bad_input("{}: an integer is divided by 0", name);
    run(call);
  };
  return kernel;
}

Kernel prepare_checked(const BinaryRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  Kernel kernel = prepare_binary(row, call);
  const bool whole = is_integral(common_dtype(row, call));
  return whole && (row.traits & kDivides) ? refusing_zeros(row, call, std::move(kernel)) : kernel;
}

void complete_binary(const BinaryRow& row, OpRecord& op) {
  op.infix = row.infix;
  op.wraps_numbers = row.result != BinaryResult::floating;  // floats hold the number as it is
  if ((row.traits & (kDivides | kPowers | kNoBoolInput)) || row.result == BinaryResult::boolean)
    op.check = [&row](const OpCall& call, const std::vector<const Number*>& numbers) {
      check_numbers(row, call, numbers);
    };
  if (row.traits & kFloatPairs) require_float_input(op);
  if (row.add_forms) row.add_forms(op);
  convert_whole_scalars(op);
  set_binary_gradient(op);
}

const OpTable<BinaryRow> kBinaryTable = {
    "elementwise",
    [](const BinaryRow&) -> std::vector<Param> {
      return {params::tensor("x"), params::tensor("y")};
    },
    infer_binary,
    prepare_checked,
    [](const BinaryRow& row, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return elementwise_strategies(call, outputs, row.passes(call));
    },
    binary_samples,
    complete_binary};

}  // namespace

void add_binary_ops(OpRegistry& ops) { add_rows(ops, kBinaryTable, kBinaryRows); }

}  // namespace shardproof
