// Implements attention_gradients.h. With p = softmax(scale q k^T): dv = p^T dy, dp = dy v^T,
// ds = p (dp - sum(dp p)), dq = scale ds k, dk = scale ds^T q. Query heads that share a kv head
// stand in a dim of their own (g), over which dk and dv are summed.
#include "shardproof/ops/attention/attention_gradients.h"

namespace shardproof {
namespace {

using F = FormulaTerm;

class AttentionGradient {
 public:
  AttentionGradient(Gradient& g, const Attention& attention)
      : g_(g), a_(attention), wide_(compute_dtype(g[0].dtype())) {
    groups_ = a_.heads != a_.kv_heads && a_.kv_heads > 0;
    const int batch = g[0].dims() - 2 - (groups_ ? 1 : 0);
    batch_ = letters(batch);  // up to the kv heads, if heads are grouped
    if (groups_) batch_ += 'k';
    group_ = groups_ ? "g" : "";
    q_ = grouped(widened(g[0]));
    dy_ = grouped(widened(g.dy()));
    k_ = widened(g[1]);
    v_ = widened(g[2]);
  }

  FormulaTerms run() {
    const F chances = g_.op("softmax", {scores()}, {{"dim", int64_t{-1}}});
    FormulaTerms found(g_.call.inputs.size(), g_.none());
    if (g_.wanted(2)) found[2] = product(chances, queries('t'), dy_, queries('x'), keys('x'));
    if (!g_.wanted(0) && !g_.wanted(1)) return found;
    const F slope = product(dy_, queries('x'), v_, keys('x'), queries('t'));
    const F sum = g_.op("sum", {slope * chances}, {{"dim", IntegerList{-1}}, {"keepdim", true}});
    const F moved = chances * (slope - sum) * a_.scale;
    if (g_.wanted(0))
      found[0] = joined_heads(product(moved, queries('t'), k_, keys('d'), queries('d')));
    if (g_.wanted(1)) found[1] = product(moved, queries('t'), q_, queries('d'), keys('d'));
    return found;
  }

 private:
  // Letters of a tensor [.., heads, queries, last], and of one [.., kv heads, keys, last].
  std::string queries(char last) const { return batch_ + group_ + 's' + last; }
  std::string keys(char last) const { return batch_ + 't' + last; }

  F widened(const F& x) const { return x.dtype() == wide_ ? x : g_.to(wide_, x); }
  F product(const F& a, const std::string& of_a, const F& b, const std::string& of_b,
            const std::string& result) const {
    return g_.op("einsum", {a, b}, {{"equation", of_a + "," + of_b + "->" + result}});
  }
  F grouped(const F& x) const {
    if (!groups_) return x;
    return g_.op(
        "unflatten", {x},
        {{"dim", int64_t{-3}}, {"sizes", IntegerList{a_.kv_heads, a_.heads / a_.kv_heads}}});
  }
  F joined_heads(const F& x) const {
    if (!groups_) return x;
    return g_.op("flatten", {x}, {{"start_dim", int64_t{-4}}, {"end_dim", int64_t{-3}}});
  }
  F scores() const {
    const F all = product(q_, queries('d'), k_, keys('d'), queries('t')) * a_.scale;
    if (!a_.causal) return all;
    const F past = g_.op(
        "tril", {g_.op("ones", {g_.none()},
                       {{"shape", IntegerList{a_.queries, a_.keys}}, {"dtype", DType::boolean}})});
    return g_.where(past, all, -params::kInfinity);
  }

  Gradient& g_;
  Attention a_;
  DType wide_;
  bool groups_ = false;
  std::string batch_, group_;
  F q_, k_, v_, dy_;
};

}  // namespace

FormulaTerms sdpa_gradient(Gradient& g, const Attention& attention) {
  return AttentionGradient(g, attention).run();
}

}  // namespace shardproof
