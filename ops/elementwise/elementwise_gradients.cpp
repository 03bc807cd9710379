// Implements elementwise_gradients.h. At a kink the value is torch's: relu and abs have 0 at 0,
// maximum and minimum of equal operands give half to each.
#include "shardproof/ops/elementwise/elementwise_gradients.h"

namespace shardproof {
namespace {

// g.dy() times the derivative, which is conjugated if it is complex.
FormulaTerm times(Gradient& g, const FormulaTerm& derivative) {
  return g.dy() * g.conj(derivative);
}

const std::vector<GradientRow>& unary_gradients() {
  static const std::vector<GradientRow> rows = {
      {"neg", [](Gradient& g) { return -g.dy(); }},
      {"exp", [](Gradient& g) { return times(g, g.y()); }},
      {"relu",
       [](Gradient& g) {
         return g.where(g.op("le", {g.y(), 0}), 0, g.dy());
       }},
  };
  return rows;
}

const std::vector<GradientRow>& binary_gradients() {
  static const std::vector<GradientRow> rows = {
      {"add", [](Gradient& g) { return g.dy(); }, [](Gradient& g) { return g.dy(); }},
      {"sub", [](Gradient& g) { return g.dy(); }, [](Gradient& g) { return -g.dy(); }},
      {"mul", [](Gradient& g) { return times(g, g[1]); },
       [](Gradient& g) { return times(g, g[0]); }},
      {"div", [](Gradient& g) { return g.dy() / g.conj(g[1]); },
       [](Gradient& g) { return -times(g, g.y()) / g.conj(g[1]); }},
  };
  return rows;
}

}  // namespace

void set_unary_gradient(OpRecord& record) { set_gradient(record, unary_gradients()); }
void set_binary_gradient(OpRecord& record) { set_gradient(record, binary_gradients()); }

}  // namespace shardproof
