// The functors of the elementwise ops as lists of types, for the device kernels that compile all of
// them. A test checks that no op's functor is missing.
#pragma once

#include "shardproof/ops/elementwise/activation_functors.h"
#include "shardproof/ops/elementwise/binary_functors.h"
#include "shardproof/ops/elementwise/compare_functors.h"
#include "shardproof/ops/elementwise/double_functors.h"
#include "shardproof/ops/elementwise/float_pair_functors.h"
#include "shardproof/ops/elementwise/rounding_functors.h"
#include "shardproof/ops/elementwise/unary_functors.h"

namespace shardproof::functor {

template <typename... F>
struct List {};

using PlainUnary =
    List<Neg, Identity, Conj, Abs, Sqrt, Rsqrt, Square, Reciprocal, Relu, Floor, Ceil, Round, Trunc,
         SaturateF8E4M3, Sign, IsNan, IsInf, Frac, SignBit, LogicalNot, BitwiseNot>;
using CurvedUnary =
    List<Exp, Log, Tanh, Erf, Sigmoid, Gelu, GeluTanh, Silu, Softplus, Expm1, Exp2, Log1p, Log2,
         Log10, Erfc, Sin, Cos, Tan, Sinh, Cosh, Asin, Acos, Atan, Asinh, Acosh, Atanh>;
using PlainPairs =
    List<Add, Sub, Mul, Maximum, Minimum, Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr, LogicalXor,
         BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, Gcd, CopySign, Fmax, Fmin>;
using CurvedPairs = List<Div, Remainder, FloorDiv, Pow, Atan2, Hypot, LogAddExp, LogAddExp2, Fmod,
                         GeluGrad, GeluTanhGrad, SiluGrad>;

}  // namespace shardproof::functor
