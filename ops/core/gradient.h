// Gradients: the derivative of an op, written as other ops (PyTorch: derivatives.yaml).
//
//   op.gradient = gradients({[](Gradient& g) { return g.dy() * g[1]; },    // mul: by x
//                            [](Gradient& g) { return g.dy() * g[0]; }});  // by y
//
// Rules, costs and device kernels of a backward pass are those of the ops used. Complex inputs get
// the conjugate Wirtinger derivative, as in torch: a descent direction of a real loss.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "shardproof/ops/core/decomposition.h"

namespace shardproof {

// A formula that also reads results and their cotangents.
class Gradient : public Formula {
 public:
  Gradient(const OpCall& call, GradientBuilder& builder)
      : Formula("gradient", call, builder), builder_(builder) {}

  FormulaTerm y(int o = 0) const { return {&builder_, builder_.output(o)}; }
  // Returns the cotangent of result o; emits zeros if it is absent.
  FormulaTerm dy(int o = 0) const;
  bool has_dy(int o) const { return builder_.cotangent(o) != kAbsent; }
  bool wanted(int i) const { return builder_.wanted(i); }
  bool has_known_sizes() const { return builder_.has_known_sizes(); }
  FormulaTerm none() const { return {&builder_, kAbsent}; }
  // Repeats a term to the shape of input i.
  FormulaTerm expanded(const FormulaTerm& x, int i = 0) const;
  // Returns x, conjugated if it is complex.
  FormulaTerm conj(const FormulaTerm& x) const;

 private:
  GradientBuilder& builder_;
};

// Returns the gradient by one input. Its shape may be one to which the input broadcasts, and its
// dtype a wider one: the caller applies sum_to.
using InputGradient = std::function<FormulaTerm(Gradient&)>;
// Returns one term for each input; those left out at the end are 0.
using GradientBody = std::function<FormulaTerms(Gradient&)>;

// Return the rule of an op. `gradients` calls the function of input i only if it is wanted; null:
// the gradient by this input is 0. `gradient_together` is for gradients that share work.
GradientRule gradients(std::vector<InputGradient> by_input);
GradientRule gradient_together(GradientBody body);

// Undoes broadcasting and promotion: sums `value` over the dims along which input i was repeated,
// and casts it to the dtype of input i.
int sum_to(GradientBuilder& builder, int value, int input);

// One line of a table of gradients. A function returns the gradient by one input; null: it is 0.
struct GradientRow {
  std::string_view op;
  FormulaTerm (*by_first)(Gradient&) = nullptr;
  FormulaTerm (*by_second)(Gradient&) = nullptr;
  Differentiable differentiable = Differentiable::yes;
  FormulaTerm (*by_third)(Gradient&) = nullptr;
  const char* kinks = "";  // named in the samples
};
// Set `differentiable` and the gradient from the row of this op, if there is one. The first sets
// the gradient of calls with a kernel, the second that of a composite op.
void set_gradient(OpRecord& record, const std::vector<GradientRow>& rows);
void set_decomposition_gradient(OpRecord& record, const std::vector<GradientRow>& rows);
// Returns a composite op that has this gradient in place of that of its decomposition.
OpRecord with_gradient(OpRecord record, GradientRule rule);
// Names a kink in all samples of an op.
OpRecord with_kinks(OpRecord record, const char* kinks);
// Returns the record of an op without a gradient (Differentiable::no).
OpRecord without_gradient(OpRecord record);

}  // namespace shardproof
