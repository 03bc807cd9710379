// Implements ops/core/gradient.h.
#include "shardproof/ops/core/gradient.h"

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

FormulaTerm Gradient::dy(int o) const {
  const int given = builder_.cotangent(o);
  return given == kAbsent ? op("zeros", {y(o)}) : FormulaTerm{&builder_, given};
}

FormulaTerm Gradient::expanded(const FormulaTerm& x, int i) const {
  const FormulaTerm like = (*this)[i];
  if (!builder_.has_known_sizes()) return x + op("zeros", {like});
  const Dims& shape = like.shape();
  if (x.shape() == shape) return x;
  return op("expand", {x}, {{"size", std::vector<int64_t>(shape.begin(), shape.end())}});
}

FormulaTerm Gradient::conj(const FormulaTerm& x) const {
  return is_complex(x.dtype()) ? op("conj", {x}) : x;
}

int sum_to(GradientBuilder& builder, int value, int input) {
  const int target = builder.input(input);
  const DType dtype = builder.meta(target).dtype;
  const Dims wanted = builder.meta(target).shape, given = builder.meta(value).shape;
  if (given != wanted) {
    const int more = given.size() - wanted.size();
    std::vector<int64_t> leading, repeated;
    for (int d = 0; d < more; ++d) leading.push_back(d);
    if (more > 0) value = builder.op("sum", {{"dim", leading}}, {value});
    for (int d = 0; d < wanted.size(); ++d)
      if (wanted[d] != given[d + more]) repeated.push_back(d);
    if (!repeated.empty())
      value = builder.op("sum", {{"dim", repeated}, {"keepdim", true}}, {value});
    SP_CHECK(!builder.has_known_sizes() || builder.meta(value).shape == wanted,
             "a gradient of shape {} belongs to a value of shape {}", to_string(given),
             to_string(wanted));
  }
  if (builder.meta(value).dtype == dtype) return value;
  return builder.op("cast", {{"dtype", dtype}}, {value});
}

GradientRule gradient_together(GradientBody body) {
  return [body = std::move(body)](const OpCall& call, GradientBuilder& builder) {
    Gradient gradient(call, builder);
    const FormulaTerms terms = body(gradient);
    std::vector<int> handles(call.inputs.size(), kAbsent);
    SP_CHECK(terms.size() <= handles.size(), "{} gradients of {} inputs", terms.size(),
             handles.size());
    for (size_t i = 0; i < terms.size(); ++i)
      if (terms[i].handle != kAbsent && builder.wanted(static_cast<int>(i)))
        handles[i] = sum_to(builder, terms[i].handle, static_cast<int>(i));
    return handles;
  };
}

GradientRule gradients(std::vector<InputGradient> by_input) {
  return gradient_together([by_input = std::move(by_input)](Gradient& g) {
    FormulaTerms terms;
    for (size_t i = 0; i < g.call.inputs.size() && i < by_input.size(); ++i)
      terms.push_back(by_input[i] && g.wanted(static_cast<int>(i)) ? by_input[i](g) : g.none());
    return terms;
  });
}

namespace {

// Returns null if the op has no row or no gradient.
GradientRule rule_of_row(OpRecord& record, const std::vector<GradientRow>& rows) {
  for (const GradientRow& row : rows) {
    if (row.op != record.name) continue;
    record.differentiable = row.differentiable;
    if (*row.kinks) record = with_kinks(std::move(record), row.kinks);
    if (row.differentiable != Differentiable::yes) return nullptr;
    return gradients({row.by_first, row.by_second, row.by_third});
  }
  return nullptr;
}

}  // namespace

void set_gradient(OpRecord& record, const std::vector<GradientRow>& rows) {
  record.gradient = rule_of_row(record, rows);
}

void set_decomposition_gradient(OpRecord& record, const std::vector<GradientRow>& rows) {
  record.decompositions.back().gradient = rule_of_row(record, rows);
}

OpRecord with_gradient(OpRecord record, GradientRule rule) {
  record.decompositions.back().gradient = std::move(rule);
  return record;
}

OpRecord with_kinks(OpRecord record, const char* kinks) {
  record.samples = [plain = std::move(record.samples), kinks] {
    std::vector<Sample> samples = plain();
    for (Sample& sample : samples) sample.kinks = kinks;
    return samples;
  };
  return record;
}

OpRecord without_gradient(OpRecord record) {
  record.differentiable = Differentiable::no;
  return record;
}

}  // namespace shardproof
