// Formulas: ops that are names for other ops, written as arithmetic on their inputs:
//
//   formula("softsign", "activation", "x / (1 + |x|)", {params::tensor("x")},
//           [](Formula& f) { return f[0] / (1 + f.op("abs", {f[0]})); }, samples)
//
// The results carry the rounding of each op they are made of, as a program with the ops written out
// would.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {

// A value of a builder.
struct FormulaTerm {
  OpBuilder* builder = nullptr;
  int handle = kAbsent;
  const Dims& shape() const {
    builder->reads_sizes();
    return builder->meta(handle).shape;
  }
  DType dtype() const { return builder->meta(handle).dtype; }
  int dims() const { return builder->meta(handle).shape.size(); }
};

// A term or a number, whichever an operator meets.
struct Operand {
  Operand(FormulaTerm t) : term(t) {}
  Operand(double v) : number(v), is_number(true) {}
  Operand(int v) : number(int64_t{v}), is_number(true) {}
  Operand(int64_t v) : number(v), is_number(true) {}
  Operand(Number v) : number(std::move(v)), is_number(true) {}
  FormulaTerm term;
  Number number;
  bool is_number = false;
};

FormulaTerm combine(const char* op, const Operand& a, const Operand& b);
inline FormulaTerm operator+(const Operand& a, const Operand& b) { return combine("add", a, b); }
inline FormulaTerm operator-(const Operand& a, const Operand& b) { return combine("sub", a, b); }
inline FormulaTerm operator*(const Operand& a, const Operand& b) { return combine("mul", a, b); }
inline FormulaTerm operator/(const Operand& a, const Operand& b) { return combine("div", a, b); }
inline FormulaTerm max_of(const Operand& a, const Operand& b) { return combine("maximum", a, b); }
inline FormulaTerm min_of(const Operand& a, const Operand& b) { return combine("minimum", a, b); }

class Formula {
 public:
  Formula(const char* name, const OpCall& call, OpBuilder& builder)
      : call(call), name_(name), builder_(builder) {}

  FormulaTerm operator[](int i) const { return {&builder_, builder_.input(i)}; }
  bool has(int i) const { return present(call, i); }
  FormulaTerm op(const char* name, const std::vector<Operand>& inputs, Attrs attrs = {}) const;
  std::vector<FormulaTerm> ops(const char* name, const std::vector<Operand>& inputs,
                               Attrs attrs = {}) const;
  FormulaTerm joined(const char* name, const std::vector<FormulaTerm>& inputs, int64_t dim) const;
  FormulaTerm where(const Operand& condition, const Operand& yes, const Operand& no) const {
    return op("where", {condition, yes, no});
  }
  FormulaTerm to(DType dtype, FormulaTerm x) const { return op("cast", {x}, {{"dtype", dtype}}); }
  // Whole numbers beside a float are of that float before they meet a number, as the result is.
  FormulaTerm to_result_dtype(const FormulaTerm& x) const;

  // Attributes: present, as a number that keeps its kind, and as what the reduction ops take.
  bool given(const char* attribute) const { return call.attrs->has(attribute); }
  Number number(const char* attribute) const;
  int64_t integer(const char* attribute) const { return call.attrs->integer(attribute); }
  bool flag(const char* attribute) const { return call.attrs->flag(attribute); }
  int dim(const char* attribute = "dim", int input = 0) const;
  Attrs over() const;  // this call's dim and keepdim, for a reduction op
  // 'none', 'sum' or 'mean' of a loss.
  FormulaTerm reduced(FormulaTerm loss) const;
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    shardproof::refuse(name_, call, text, std::forward<Args>(args)...);
  }

  const OpCall& call;

 private:
  const char* name_;
  OpBuilder& builder_;
};

using FormulaBody = std::function<std::vector<FormulaTerm>(Formula&)>;

struct OpDescription {
  const char* name;
  const char* family;
  const char* summary;
};
// A sample of these shapes.
Sample f32_sample(const std::vector<Dims>& shapes, Attrs attrs = {});
FormulaTerm reshaped(Formula& f, const FormulaTerm& x, const std::vector<int64_t>& shape);
OpRecord formula(const OpDescription& text, std::vector<Param> params, FormulaBody body,
                 std::vector<Sample> samples);
// A call for which `when` holds is written as others; any other stays what it was.
void decompose_when(OpRecord& record, std::function<bool(const OpCall&)> when, FormulaBody body);
// Of an op that torch has for floats alone: a program may not give it others.
void require_float_input(OpRecord& record);
// `dtype`: what the input is converted to first, and what the result has, as in torch.
void add_dtype_parameter(OpRecord& record);
// Of an op along a dim: a 0-d tensor counts as one of a single element, as in torch.
void accept_scalar_input(OpRecord& record);

}  // namespace shardproof
