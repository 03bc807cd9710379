// Implements product_gradients.h. With y = a @ b, the gradient by a is dy @ b.T and the gradient by
// b is a.T @ dy. If one input lacks dims that y has, an einsum sums over them in the product.
// Example: the weight of x @ w with x [b, s, k] has the gradient einsum('abk,abn->kn', x, dy).
//
// The gradient of an operand of an einsum is an einsum of dy with the other operands. A letter that
// occurs twice in the operand (a diagonal) is multiplied by an identity matrix. A letter that only
// the operand has is repeated. Example: 'iik->i' has the gradient einsum('i,iz->iz', dy, eye),
// repeated along k.
#include "shardproof/ops/contraction/product_gradients.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

FormulaTerm transposed(Gradient& g, const FormulaTerm& x) { return g.op("t", {x}); }
FormulaTerm product_of(Gradient& g, const FormulaTerm& a, const FormulaTerm& b) {
  return g.op("matmul", {a, b});
}
FormulaTerm einsum_of(Gradient& g, const std::string& equation, const FormulaTerm& a,
                      const FormulaTerm& b) {
  return g.op("einsum", {a, b}, {{"equation", equation}});
}

// The letters of the dims of a matmul's tensors.
struct MatmulLetters {
  std::string a, b, y;
};
MatmulLetters matmul_letters(int dims_a, int dims_b) {
  const int batch_a = std::max(dims_a - 2, 0), batch_b = std::max(dims_b - 2, 0);
  const int batch = std::max(batch_a, batch_b);
  const std::string all = letters(batch);
  MatmulLetters found;
  found.a = all.substr(static_cast<size_t>(batch - batch_a)) + (dims_a > 1 ? "mk" : "k");
  found.b = all.substr(static_cast<size_t>(batch - batch_b)) + (dims_b > 1 ? "kn" : "k");
  found.y = all + (dims_a > 1 ? "m" : "") + (dims_b > 1 ? "n" : "");
  return found;
}

FormulaTerm matmul_by_a(Gradient& g) {
  const FormulaTerm b = g.conj(g[1]);
  const int dims_a = g[0].dims(), dims_b = b.dims();
  if (dims_a == 1 && dims_b == 1) return g.dy() * b;
  if (dims_a > 1 && dims_b > 1 && dims_a >= dims_b) return product_of(g, g.dy(), transposed(g, b));
  const MatmulLetters names = matmul_letters(dims_a, dims_b);
  return einsum_of(g, names.y + "," + names.b + "->" + names.a, g.dy(), b);
}

FormulaTerm matmul_by_b(Gradient& g) {
  const FormulaTerm a = g.conj(g[0]);
  const int dims_a = a.dims(), dims_b = g[1].dims();
  if (dims_a == 1 && dims_b == 1) return g.dy() * a;
  if (dims_a > 1 && dims_b > 1 && dims_a <= dims_b) return product_of(g, transposed(g, a), g.dy());
  const MatmulLetters names = matmul_letters(dims_a, dims_b);
  return einsum_of(g, names.a + "," + names.y + "->" + names.b, a, g.dy());
}

FormulaTerm linear_by_weight(Gradient& g) {
  const FormulaTerm x = g.conj(g[0]);
  if (x.dims() == 2) return product_of(g, transposed(g, g.dy()), x);
  const std::string rows = letters(x.dims() - 1);
  return einsum_of(g, rows + "n," + rows + "k->nk", g.dy(), x);
}

// The factor of a product with a bias, which is 1 unless the call states it.
FormulaTerm times_factor(Gradient& g, const char* factor, const FormulaTerm& x) {
  const double value = g.call.attrs->has(factor) ? g.call.attrs->number(factor) : 1;
  return value == 1 ? x : x * value;
}

bool has_letter(const std::string& text, char letter) {
  return text.find(letter) != std::string::npos;
}

char unused_letter(const std::string& used) {
  for (const char first : {'a', 'A'})
    for (char letter = first; letter < first + 26; ++letter)
      if (!has_letter(used, letter)) return letter;
  SP_UNREACHABLE("all letters are used by {}", used);
}

// The gradient of one operand of an einsum.
class OperandGradient {
 public:
  OperandGradient(Gradient& g, const std::vector<std::string>& inputs, const std::string& output,
                  size_t operand)
      : g_(g), term_(inputs[operand]), output_(output), operand_(g[static_cast<int>(operand)]) {
    used_ = output;
    add(output, g.dy());
    for (size_t i = 0; i < inputs.size(); ++i) {
      used_ += inputs[i];
      if (i != operand) add(inputs[i], g.conj(g[static_cast<int>(i)]));
    }
  }

  FormulaTerm run() {
    separate_diagonals();
    std::string known;
    for (const char letter : term_)
      if (has_letter(terms_, letter)) known += letter;
    std::vector<Operand> operands(tensors_.begin(), tensors_.end());
    FormulaTerm x = g_.op("einsum", operands, {{"equation", terms_ + "->" + known}});
    for (size_t d = 0; d < term_.size(); ++d)
      if (!has_letter(known, term_[d]))
        x = g_.op("unsqueeze", {x}, {{"dim", static_cast<int64_t>(d)}});
    return is_repeated(known) ? repeated(x) : x;
  }

 private:
  void add(const std::string& letters, const FormulaTerm& x) {
    terms_ += (tensors_.empty() ? "" : ",") + letters;
    tensors_.push_back(x);
  }
  void separate_diagonals() {
    for (size_t d = 1; d < term_.size(); ++d) {
      if (!has_letter(term_.substr(0, d), term_[d])) continue;
      const char fresh = unused_letter(used_);
      used_ += fresh;
      const FormulaTerm one = g_.op(
          "eye", {}, {{"n", operand_.shape()[static_cast<int>(d)]}, {"dtype", g_.dy().dtype()}});
      add(std::string{term_[d], fresh}, one);
      term_[d] = fresh;
    }
  }
  // True if the operand may be longer than its gradient so far. Then it has a letter that the other
  // operands lack, or in which they all have size 1. dy has the full size of its letters.
  bool is_repeated(const std::string& known) const {
    if (known.size() < term_.size()) return true;
    return std::any_of(term_.begin(), term_.end(), [&](char letter) {
      return !has_letter(output_, letter) && !(g_.has_known_sizes() && is_cut(letter));
    });
  }
  // True if another operand has more or fewer than one element along the letter.
  bool is_cut(char letter) const {
    size_t tensor = 0;
    int dim = 0;
    for (const char c : terms_) {
      if (c == ',') {
        ++tensor;
        dim = 0;
        continue;
      }
      if (c == letter && tensors_[tensor].shape()[dim] != 1) return true;
      ++dim;
    }
    return false;
  }
  // Repeats x along the dims in which the operand is longer. Dims in which x is longer keep their
  // size, and the wrapper of a gradient sums over them.
  FormulaTerm repeated(const FormulaTerm& x) const {
    if (!g_.has_known_sizes()) return x + g_.op("zeros", {operand_});
    IntegerList sizes;
    for (int d = 0; d < x.dims(); ++d)
      sizes.push_back(x.shape()[d] == 1 ? operand_.shape()[d] : x.shape()[d]);
    if (x.shape() == Dims(sizes)) return x;
    return g_.op("expand", {x}, {{"size", sizes}});
  }

  Gradient& g_;
  std::string term_, output_;
  FormulaTerm operand_;
  std::string used_, terms_;
  FormulaTerms tensors_;
};

}  // namespace

FormulaTerms einsum_gradient(Gradient& g, const std::vector<std::string>& inputs,
                             const std::string& output) {
  FormulaTerms found;
  for (size_t i = 0; i < inputs.size(); ++i)
    found.push_back(g.wanted(static_cast<int>(i)) ? OperandGradient(g, inputs, output, i).run()
                                                  : g.none());
  return found;
}

GradientRule matmul_gradient() { return gradients({matmul_by_a, matmul_by_b}); }

GradientRule linear_gradient() {
  return gradients({[](Gradient& g) { return product_of(g, g.dy(), g.conj(g[1])); },
                    linear_by_weight, [](Gradient& g) { return g.dy(); }});
}

GradientRule addmm_gradient() {
  return gradients(
      {[](Gradient& g) { return times_factor(g, "beta", g.dy()); },
       [](Gradient& g) {
         return times_factor(g, "alpha", product_of(g, g.dy(), transposed(g, g.conj(g[2]))));
       },
       [](Gradient& g) {
         return times_factor(g, "alpha", product_of(g, transposed(g, g.conj(g[1])), g.dy()));
       }});
}

}  // namespace shardproof
