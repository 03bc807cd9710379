// Implements claim_forms.h. For each kind of expression, these placements of the inputs give these
// placements of the result if each rank computes it on its own shards:
//   elementwise      all inputs and the result have the same placements
//   x @ w            an axis cuts the rows of x, the columns of w, or the inner dim of both, which
//                    gives P(sum)
//   sum over a dim   an axis that cuts the dim gives P(sum), other cuts stay
//   rows             an op along the last dim, which no axis cuts
//   batch            an op on matrices of a batch dim, which an axis may cut
//   linear           an op that distributes over the parts of a P(sum)
#include "shardproof/engine/generate/forms/claim_forms.h"

#include <fmt/format.h>
#include <algorithm>

#include "shardproof/engine/generate/forms/draw_placements.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

using Placements = std::vector<Placement>;

class ClaimWriter {
 public:
  explicit ClaimWriter(LineWriter& writer)
      : writer_(writer), draw_(writer.draw()), mesh_(writer.draft().mesh()) {}

  std::optional<Claim> elementwise() {
    const DraftValue* x = writer_.any_float();
    const DraftValue* y = x == nullptr ? nullptr : writer_.like(*x);
    if (y == nullptr) return std::nullopt;
    const std::string form = draw_.from(forms_of_elements());
    const Placements placements = cut(*x);
    const std::string a = placed(*x, placements), b = placed(*y, placements);
    return claim(fmt::format(fmt::runtime(form), a, b), placements);
  }

  std::optional<Claim> matmul() {
    const DraftValue* x = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == writer_.draft().dtype() && value.shape.size() == 2;
    });
    if (x == nullptr) return std::nullopt;
    const DraftValue* w = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == x->dtype && value.shape.size() == 2 && value.shape[0] == x->shape[1];
    });
    if (w == nullptr) return std::nullopt;
    Placements of_x, of_w, of_y;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const int64_t role = draw_.below(4);
      of_x.push_back(role == 0 ? S(0) : role == 1 ? S(1) : R());
      of_w.push_back(role == 1 ? S(0) : role == 2 ? S(1) : R());
      of_y.push_back(role == 0 ? S(0) : role == 1 ? P() : role == 2 ? S(1) : R());
    }
    const std::string a = placed(*x, of_x), b = placed(*w, of_w);
    const bool has_partial = std::count(of_y.begin(), of_y.end(), P()) > 0;
    const std::string form =
        draw_.from({"gelu({} @ {})", "tanh({} @ {}) - 0.2", "relu({} @ {}) / 3"});
    if (writer_.is_whole() || has_partial || draw_.chance(0.5))
      return claim(fmt::format("{} @ {}", a, b), of_y);
    return claim(fmt::format(fmt::runtime(form), a, b), of_y);
  }

  std::optional<Claim> reduction() {
    const DraftValue* x = writer_.any_float(1);
    if (x == nullptr) return std::nullopt;
    const int64_t dim = writer_.dim_of(*x);
    const Placements of_x = cut(*x);
    const bool keep = draw_.chance(0.5);
    std::string verb = draw_.from({"sum", "sum", "mean", "amax"});
    if (writer_.is_whole() && verb == "mean") verb = "sum";
    Placements of_y;
    for (const Placement& placement : of_x) {
      const int of = placement.is_shard() ? placement.shard().dim : -1;
      if (of == dim && verb != "sum") return std::nullopt;  // uneven means, empty maxima
      if (of < 0)
        of_y.push_back(R());
      else if (of == dim)
        of_y.push_back(P());
      else
        of_y.push_back(S(keep || of < dim ? of : of - 1));
    }
    const std::string a = placed(*x, of_x);
    return claim(fmt::format("{}({}, dim={}{})", verb, a, dim, keep ? ", keepdim=true" : ""), of_y);
  }

  std::optional<Claim> rows() {
    const DraftValue* x = writer_.any_float(2);
    if (x == nullptr || writer_.is_whole()) return std::nullopt;
    Placements placements = cut(*x);
    const int last = static_cast<int>(x->shape.size()) - 1;
    for (Placement& placement : placements)
      if (placement.is_shard(last)) placement = draw_.chance(0.5) ? S(0) : R();
    const std::string form = draw_.from(forms_of_rows());
    const std::string a = placed(*x, placements);
    return claim(fmt::format(fmt::runtime(form), a), placements);
  }

  std::optional<Claim> batch() {
    const DraftValue* x = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == writer_.draft().dtype() && value.shape.size() == 3;
    });
    if (x == nullptr || writer_.is_whole()) return std::nullopt;
    Placements placements;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      placements.push_back(draw_.chance(0.6) ? S(0) : R());
    const std::string form =
        draw_.from({"sdpa({0}, {0}, {0})", "softmax({0} @ {0}.T * 0.4, dim=-1) @ {0}",
                    "einsum('bij,bkj->bik', {0}, {0})", "cumsum({0}, dim=1) * 0.5"});
    const std::string a = placed(*x, placements);
    return claim(fmt::format(fmt::runtime(form), a), placements);
  }

  std::optional<Claim> linear() {
    const DraftValue* x = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == writer_.draft().dtype() && value.is_finite && value.placements &&
             value.placements->find("P(sum)") != std::string::npos &&
             value.placements->find("split") == std::string::npos &&
             value.placements->find("P(avg)") == std::string::npos;
    });
    if (x == nullptr) return std::nullopt;
    Placements placements;
    for (const PlacementText& text : parse_placements(*x->placements))
      placements.push_back(text.placement);
    const DraftValue* y = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == x->dtype && value.shape == x->shape && value.is_finite &&
             value.placements == x->placements;
    });
    switch (draw_.below(writer_.is_whole() ? 3 : 4)) {
      case 0: return claim(fmt::format("{} + {}", x->name, y->name), placements);
      case 1: return claim(fmt::format("-{}", x->name), placements);
      case 2: return claim(fmt::format("{} * 2 - {}", x->name, y->name), placements);
      default: return claim(fmt::format("{} * 0.37", x->name), placements);
    }
  }

  std::optional<Claim> lookup() {
    const DraftValue* ids = writer_.any_of([](const DraftValue& value) {
      return value.dtype == DType::i64 && value.shape.size() == 1;
    });
    const DraftValue* table = writer_.any_of([&](const DraftValue& value) {
      return value.dtype == writer_.draft().dtype() && value.shape.size() == 2 &&
             value.shape[0] > 0;
    });
    if (ids == nullptr || table == nullptr) return std::nullopt;
    const Placements of_ids = cut(*ids);
    const std::string a = placed(*ids, of_ids);
    const std::string b = placed(*table, Placements(of_ids.size(), R()));
    return claim(fmt::format("embedding({} % {}, {})", a, table->shape[0], b), of_ids);
  }

 private:
  std::vector<std::string> forms_of_elements() {
    std::vector<std::string> forms = {"{} + {}", "{} - {}", "relu({}) + {}", "maximum({}, {})",
                                      "{} * {}"};
    if (writer_.is_whole()) return forms;
    for (const char* form :
         {"gelu({})", "tanh({}) * {}", "{} * 0.37 + {}", "exp({} * 0.1)", "sigmoid({}) - {}",
          "{} / (abs({}) + 0.5)", "silu({})", "log(abs({}) + 0.3)", "sqrt(abs({})) * {}",
          "hypot({}, {})", "where({0} > 0, {0}, {1} * 0.1)"})
      forms.emplace_back(form);
    if (writer_.is_well_conditioned()) return forms;
    for (const char* form : {"({} + 1000) - 1000", "{0} * 1.0001 - {0}", "{0} * 1e-6 + {1}",
                             "{0} * {0} - {1} * {1}", "1 / {}"})
      forms.emplace_back(form);
    return forms;
  }

  std::vector<std::string> forms_of_rows() {
    std::vector<std::string> forms = {"softmax({}, dim=-1)",
                                      "layer_norm({})",
                                      "rms_norm({}, eps=0.01)",
                                      "cumsum({}, dim=-1)",
                                      "log_softmax({}, dim=-1)",
                                      "flip({}, [-1])",
                                      "{0} / (amax(abs({0}), dim=-1, keepdim=true) + 0.1)"};
    if (writer_.is_well_conditioned()) return forms;
    for (const char* form :
         {"{0} - mean({0}, dim=-1, keepdim=true)", "{0} / sum({0}, dim=-1, keepdim=true)",
          "softmax(where({0} > 0.1, {0}, -1e9), dim=-1)"})
      forms.emplace_back(form);
    return forms;
  }

  Placements cut(const DraftValue& value) {
    return draw_placements(draw_, mesh_, value.shape, value.dtype, PlacementChoice::cut);
  }

  // Returns a name of the value with these placements, and adds a redistribution if it needs one.
  std::string placed(const DraftValue& value, const Placements& placements) {
    const std::string text = all_axes_text(mesh_, placements);
    if (value.placements == text) return value.name;
    for (const auto& [from, name] : moved_)
      if (from == value.name + " " + text) return name;
    const std::string name = writer_.fresh();
    claim_.before.push_back(fmt::format("{} = redistribute({}, {})", name, value.name, text));
    claim_.placed.emplace_back(name, text);
    moved_.emplace_back(value.name + " " + text, name);
    return name;
  }

  Claim claim(const std::string& expression, const Placements& placements) {
    claim_.name = writer_.fresh();
    claim_.expression = expression;
    claim_.placements = placements;
    return std::move(claim_);
  }

  LineWriter& writer_;
  Draw& draw_;
  const Mesh& mesh_;
  Claim claim_;
  std::vector<std::pair<std::string, std::string>> moved_;
};

}  // namespace

std::optional<Claim> draw_claim(LineWriter& writer) {
  ClaimWriter claims(writer);
  switch (writer.draw().below(10)) {
    case 0:
    case 1: return claims.elementwise();
    case 2:
    case 3:
    case 4: return claims.matmul();
    case 5: return claims.reduction();
    case 6: return claims.rows();
    case 7: return claims.linear();
    case 8: return claims.batch();
    default: return claims.lookup();
  }
}

}  // namespace shardproof
