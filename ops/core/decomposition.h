// Formulas: composite ops, written as arithmetic on their inputs (PyTorch: decompositions).
//
//   formula("softsign", "activation", "x / (1 + |x|)", {params::tensor("x")},
//           [](Formula& f) { return f[0] / (1 + f.op("abs", {f[0]})); }, samples)
//
// The results carry the rounding of each op that the formula emits, as if the program contained
// these ops.
#pragma once

#include <functional>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {

using IntegerList = std::vector<int64_t>;

// A value of an OpBuilder.
struct FormulaTerm {
  OpBuilder* builder = nullptr;
  int handle = kAbsent;
  const Dims& shape() const {
    builder->depend_on_sizes();
    return builder->meta(handle).shape;
  }
  DType dtype() const { return builder->meta(handle).dtype; }
  int dims() const { return builder->meta(handle).shape.size(); }
};

// An operand of a formula's operators: a term or a number.
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

// Emits a binary op. SP_CHECK: one of the operands is a term.
FormulaTerm combine(const char* op, const Operand& a, const Operand& b);
inline FormulaTerm operator+(const Operand& a, const Operand& b) { return combine("add", a, b); }
inline FormulaTerm operator-(const Operand& a, const Operand& b) { return combine("sub", a, b); }
inline FormulaTerm operator*(const Operand& a, const Operand& b) { return combine("mul", a, b); }
inline FormulaTerm operator/(const Operand& a, const Operand& b) { return combine("div", a, b); }
inline FormulaTerm operator-(const FormulaTerm& a) {
  return {a.builder, a.builder->op("neg", {}, {a.handle})};
}
inline FormulaTerm max_of(const Operand& a, const Operand& b) { return combine("maximum", a, b); }
inline FormulaTerm min_of(const Operand& a, const Operand& b) { return combine("minimum", a, b); }

class Formula {
 public:
  Formula(const char* name, const OpCall& call, OpBuilder& builder)
      : call(call), name_(name), builder_(builder) {}

  // Returns input i; its handle is kAbsent if the call leaves it out.
  FormulaTerm operator[](int i) const { return {&builder_, has(i) ? builder_.input(i) : kAbsent}; }
  bool has(int i) const { return present(call, i); }
  // Emit an op and return its first result (all results).
  FormulaTerm op(const char* name, const std::vector<Operand>& inputs, Attrs attrs = {}) const;
  std::vector<FormulaTerm> ops(const char* name, const std::vector<Operand>& inputs,
                               Attrs attrs = {}) const;
  // Emits cat or stack along `dim`.
  FormulaTerm joined(const char* name, const std::vector<FormulaTerm>& inputs, int64_t dim) const;
  FormulaTerm where(const Operand& condition, const Operand& yes, const Operand& no) const {
    return op("where", {condition, yes, no});
  }
  FormulaTerm to(DType dtype, FormulaTerm x) const { return op("cast", {x}, {{"dtype", dtype}}); }
  // Casts x to the result dtype of the call if that is a float and x is not. torch casts an integer
  // tensor in the same way before it multiplies it by a number.
  FormulaTerm to_result_dtype(const FormulaTerm& x) const;

  // Attributes of the call. `number` keeps the kind (integer or float); `dim` is resolved against
  // the input's dims and throws Error(bad_input) if it is out of range.
  bool given(const char* attribute) const { return call.attrs->has(attribute); }
  Number number(const char* attribute) const;
  int64_t integer(const char* attribute) const { return call.attrs->integer(attribute); }
  bool flag(const char* attribute) const { return call.attrs->flag(attribute); }
  int dim(const char* attribute = "dim", int input = 0) const;
  Attrs over() const;  // returns this call's dim and keepdim, for a reduction op
  // Applies the attribute `reduction` of a loss: 'none', 'sum' or 'mean'. Throws Error(bad_input)
  // for other values.
  FormulaTerm reduced(FormulaTerm loss) const;
  // Throws Error(bad_input) "<call>: <text>".
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    shardproof::refuse(name_, call, text, std::forward<Args>(args)...);
  }

  const OpCall& call;

 private:
  const char* name_;
  OpBuilder& builder_;
};

using FormulaTerms = std::vector<FormulaTerm>;
using FormulaBody = std::function<FormulaTerms(Formula&)>;

struct OpDescription {
  const char* name;
  const char* family;
  const char* summary;
};
// Returns a sample with f32 inputs of these shapes.
Sample f32_sample(const std::vector<Dims>& shapes, Attrs attrs = {});
// Emits a reshape.
FormulaTerm reshaped(Formula& f, const FormulaTerm& x, const std::vector<int64_t>& shape);
// Returns the record of a composite op: `body` emits the ops of every call.
OpRecord formula(const OpDescription& text, std::vector<Param> params, FormulaBody body,
                 std::vector<Sample> samples);
// Adds a decomposition to the front of the record: calls for which `when` is true are decomposed by
// `body`, all others stay as they were. The one added last is thus tested first; the earlier ones
// are applied to calls of the same name that it emits.
void decompose_when(OpRecord& record, std::function<bool(const OpCall&)> when, FormulaBody body);
// Computes calls whose result is a float narrower than f32 in f32, as torch's kernels do. It casts
// their floats, emits the op again and casts its results. Used for formulas that lose digits if
// each step is rounded. `when`: the calls concerned; null: all.
void compute_in_f32(OpRecord& record, std::function<bool(const OpCall&)> when = nullptr);
// Returns a record after compute_in_f32.
OpRecord in_f32(OpRecord record);
// Makes a program's call an Error(bad_input) if all inputs are integers or bools, for ops that
// torch defines for floats only.
void require_float_input(OpRecord& record);
// Adds the parameter `dtype` as in torch: the input is cast to it first, and the result has it.
void add_dtype_parameter(OpRecord& record);
// Accepts a 0-d input where the op takes a dim: it counts as a tensor of one element, as in torch.
void accept_scalar_input(OpRecord& record);

}  // namespace shardproof
