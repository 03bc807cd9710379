// Implements attention_gradients.h. The gradient of sdpa is sdpa_grad. Gradients of dq, dk, dv =
// sdpa_grad(u, q, k, v, y, lse, t) by its inputs follow. a, b, c are the cotangents of its results,
// S the scores, P the weights. E = u v^T, r = t - D and M = scale (a k^T + q b^T).
//
//   by P: u c^T + M (E + r), by E: M P, by r: R = sum(M P) of each row
//   u: P c + (M P) v - R y; v: (M P)^T u; y: -R u; t: R
//   without y, in place of both terms with R u and R y: by P also -R E, by E also -R P
//   by S: P (by P), less P sum(P (by P)) without lse, which otherwise gets -sum(P (by P))
//   q: scale (by S) k + scale dS b; k: scale (by S)^T q + scale dS^T a
//
// Query heads that share a kv head are in a dim of their own (g), over which k's and v's terms are
// summed.
#include "shardproof/ops/attention/attention_gradients.h"

#include "shardproof/ops/attention/attention.h"

namespace shardproof {
namespace {

using F = FormulaTerm;
using GradInputs = AttentionGradItem<float>;

F in_wide(const Gradient& g, const F& x, DType wide) {
  return x.dtype() == wide ? x : g.to(wide, x);
}

class AttentionGradGradient {
 public:
  explicit AttentionGradGradient(Gradient& g)
      : g_(g),
        a_(attention_of(g.call, GradInputs::kQuery)),
        wide_(compute_dtype(g[GradInputs::kQuery].dtype())) {
    groups_ = a_.heads != a_.kv_heads && a_.kv_heads > 0;
    const int batch = g[GradInputs::kQuery].dims() - 2 - (groups_ ? 1 : 0);
    batch_ = letters(batch, 'A');  // up to the kv heads, if heads are grouped
    if (groups_) batch_ += 'k';
    group_ = groups_ ? "g" : "";
    u_ = rows_input(GradInputs::kGradient, -3);
    q_ = rows_input(GradInputs::kQuery, -3);
    k_ = in_wide(g, g[GradInputs::kKey], wide_);
    v_ = in_wide(g, g[GradInputs::kValue], wide_);
    has_y_ = g.has(GradInputs::kResult);
    has_lse_ = g.has(GradInputs::kLogSum);
    if (has_y_) y_ = rows_input(GradInputs::kResult, -3);
  }

  FormulaTerms run() {
    find_forward();
    found_.assign(g_.call.inputs.size(), g_.none());
    if (g_.has_dy(2)) add_from_dv(in_wide(g_, g_.dy(2), wide_));
    if (g_.has_dy(0) || g_.has_dy(1)) add_from_scores();
    if (by_weights_.handle != kAbsent) add_by_scores();
    for (const int i : {GradInputs::kGradient, GradInputs::kQuery, GradInputs::kResult})
      join_heads(i, -4);
    for (const int i : {GradInputs::kLogSum, GradInputs::kLogSumGradient}) join_heads(i, -3);
    return found_;
  }

 private:
  // Letters of a tensor [.., heads, queries, last], and of one [.., kv heads, keys, last].
  std::string queries(char last) const { return batch_ + group_ + 's' + last; }
  std::string keys(char last) const { return batch_ + 't' + last; }

  F product(const F& a, const std::string& of_a, const F& b, const std::string& of_b,
            const std::string& result) const {
    return g_.op("einsum", {a, b}, {{"equation", of_a + "," + of_b + "->" + result}});
  }
  F grouped(const F& x, int64_t head_dim) const {
    if (!groups_) return x;
    // Inside `as` the number of heads differs by rank; the number of heads in a group does not.
    IntegerList sizes{a_.kv_heads, a_.heads / a_.kv_heads};
    if (!g_.has_known_sizes()) sizes[a_.kv_heads == 1 ? 1 : 0] = -1;
    return g_.op("unflatten", {x}, {{"dim", head_dim}, {"sizes", sizes}});
  }
  // Returns an input that has a row for each query, in the compute dtype.
  F rows_input(int input, int64_t head_dim) const {
    return grouped(in_wide(g_, g_[input], wide_), head_dim);
  }
  // Returns one with a number for each query, as a column.
  F column_input(int input) const {
    return g_.op("unsqueeze", {rows_input(input, -2)}, {{"dim", int64_t{-1}}});
  }
  void join_heads(int input, int64_t head_dim) {
    F& x = found_.at(static_cast<size_t>(input));
    if (groups_ && x.handle != kAbsent)
      x = g_.op("flatten", {x}, {{"start_dim", head_dim}, {"end_dim", head_dim + 1}});
  }
  F row_sums(const F& x) const {
    return g_.op("sum", {x}, {{"dim", IntegerList{-1}}, {"keepdim", true}});
  }
  F without_column(const F& x) const { return g_.op("squeeze", {x}, {{"dim", IntegerList{-1}}}); }
  void add_to(F& sum, const F& term) const { sum = sum.handle == kAbsent ? term : sum + term; }
  void add_to(int input, const F& term) { add_to(found_.at(static_cast<size_t>(input)), term); }

  F scores() const {
    const F all = product(q_, queries('d'), k_, keys('d'), queries('t')) * a_.scale;
    if (!a_.causal) return all;
    const F past =
        g_.op("causal_mask", {g_[GradInputs::kQuery], g_[GradInputs::kKey],
                              g_.has_known_sizes() ? g_.none() : g_[GradInputs::kValue]});
    return g_.where(past, all, -params::kInfinity);
  }
  void find_forward() {
    weights_ = has_lse_ ? g_.op("exp", {scores() - column_input(GradInputs::kLogSum)})
                        : g_.op("softmax", {scores()}, {{"dim", int64_t{-1}}});
    slopes_ = product(u_, queries('x'), v_, keys('x'), queries('t'));
    shifted_ = slopes_ - row_sums(has_y_ ? u_ * y_ : weights_ * slopes_);
    if (g_.has(GradInputs::kLogSumGradient))
      shifted_ = shifted_ + column_input(GradInputs::kLogSumGradient);
    by_weights_ = g_.none();
  }
  void add_from_dv(const F& c) {
    add_to(GradInputs::kGradient, product(weights_, queries('t'), c, keys('x'), queries('x')));
    add_to(by_weights_, product(u_, queries('x'), c, keys('x'), queries('t')));
  }
  void add_from_scores() {
    const F moved = weights_ * shifted_ * a_.scale;
    F mixed = g_.none();
    if (g_.has_dy(0)) {
      const F a = grouped(g_.dy(0), -3);
      add_to(mixed, product(a, queries('d'), k_, keys('d'), queries('t')));
      add_to(GradInputs::kKey, product(moved, queries('t'), a, queries('d'), keys('d')));
    }
    if (g_.has_dy(1)) {
      const F b = g_.dy(1);
      add_to(mixed, product(q_, queries('d'), b, keys('d'), queries('t')));
      add_to(GradInputs::kQuery, product(moved, queries('t'), b, keys('d'), queries('d')));
    }
    mixed = mixed * a_.scale;
    F by_slopes = mixed * weights_;
    const F by_shift = row_sums(by_slopes);
    add_to(by_weights_, mixed * shifted_);
    if (g_.has(GradInputs::kLogSumGradient))
      add_to(GradInputs::kLogSumGradient, without_column(by_shift));
    if (has_y_) {
      add_to(GradInputs::kGradient, -(by_shift * y_));
      add_to(GradInputs::kResult, -(by_shift * u_));
    } else {
      by_weights_ = by_weights_ - by_shift * slopes_;
      by_slopes = by_slopes - by_shift * weights_;
    }
    add_to(GradInputs::kGradient, product(by_slopes, queries('t'), v_, keys('x'), queries('x')));
    add_to(GradInputs::kValue, product(by_slopes, queries('t'), u_, queries('x'), keys('x')));
  }
  void add_by_scores() {
    F by_scores = by_weights_ * weights_;
    const F sum = row_sums(by_scores);
    if (has_lse_)
      add_to(GradInputs::kLogSum, without_column(-sum));
    else
      by_scores = by_scores - weights_ * sum;
    by_scores = by_scores * a_.scale;
    add_to(GradInputs::kQuery, product(by_scores, queries('t'), k_, keys('d'), queries('d')));
    add_to(GradInputs::kKey, product(by_scores, queries('t'), q_, queries('d'), keys('d')));
  }

  Gradient& g_;
  Attention a_;
  DType wide_;
  bool groups_ = false, has_y_ = false, has_lse_ = false;
  std::string batch_, group_;
  F u_, q_, k_, v_, y_;
  F weights_, slopes_, shifted_;  // P, E, E + r
  F by_weights_;
  FormulaTerms found_;
};

}  // namespace

// Inside `as` the results have no placement, from which a causal sdpa_grad reads the positions of
// its queries. It then computes the sums of its rows itself.
FormulaTerms sdpa_gradient(Gradient& g) {
  const bool has_lse = g.given("return_lse") && g.flag("return_lse");
  const bool reads_results = has_lse && g.has_known_sizes();
  Attrs attrs{{"causal", g.flag("causal")}};
  if (g.given("scale")) attrs.set("scale", g.call.attrs->number("scale"));
  return g.ops("sdpa_grad",
               {g.dy(), g[0], g[1], g[2], reads_results ? g.y() : g.none(),
                reads_results ? g.y(1) : g.none(), has_lse && g.has_dy(1) ? g.dy(1) : g.none()},
               std::move(attrs));
}

FormulaTerms sdpa_grad_gradient(Gradient& g) { return AttentionGradGradient(g).run(); }

}  // namespace shardproof
