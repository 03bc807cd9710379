// Implements ops/core/decomposition.h: operators and helpers emit ops through the builder of the
// call.
#include "shardproof/ops/core/decomposition.h"

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {
namespace {

int handle_of(OpBuilder& builder, const Operand& operand) {
  return operand.is_number ? builder.number(operand.number) : operand.term.handle;
}

std::vector<FormulaTerm> terms_of(OpBuilder& builder, const std::vector<int>& handles) {
  std::vector<FormulaTerm> terms;
  for (const int handle : handles) terms.push_back({&builder, handle});
  return terms;
}

Decomposition decomposition(std::string name, std::function<bool(const OpCall&)> when,
                            FormulaBody body) {
  return {std::move(when),
          [name = std::move(name), body = std::move(body)](const OpCall& call, OpBuilder& builder) {
            Formula formula(name.c_str(), call, builder);
            std::vector<int> handles;
            for (const FormulaTerm& term : body(formula)) handles.push_back(term.handle);
            return handles;
          }};
}

bool is_narrow_float(DType dtype) { return is_floating(dtype) && dtype != compute_dtype(dtype); }

}  // namespace

FormulaTerm combine(const char* op, const Operand& a, const Operand& b) {
  OpBuilder* builder = a.is_number ? b.term.builder : a.term.builder;
  SP_CHECK(builder, "{} of two numbers", op);
  const int left = handle_of(*builder, a), right = handle_of(*builder, b);
  return {builder, builder->op(op, {}, {left, right})};
}

std::vector<FormulaTerm> Formula::ops(const char* name, const std::vector<Operand>& inputs,
                                      Attrs attrs) const {
  std::vector<int> handles;
  for (const Operand& input : inputs) handles.push_back(handle_of(builder_, input));
  return terms_of(builder_, builder_.ops(name, std::move(attrs), std::move(handles)));
}

FormulaTerm Formula::op(const char* name, const std::vector<Operand>& inputs, Attrs attrs) const {
  return ops(name, inputs, std::move(attrs)).front();
}

FormulaTerm Formula::joined(const char* name, const std::vector<FormulaTerm>& inputs,
                            int64_t dim) const {
  std::vector<int> handles;
  for (const FormulaTerm& input : inputs) handles.push_back(input.handle);
  return {&builder_, builder_.op(name, {{"dim", dim}}, std::move(handles))};
}

FormulaTerm Formula::to_result_dtype(const FormulaTerm& x) const {
  const DType result = result_dtype(call);
  return is_floating(result) && !is_floating(x.dtype()) ? to(result, x) : x;
}

Number Formula::number(const char* attribute) const {
  const AttrValue& value = call.attrs->values().find(attribute)->second;
  if (const auto* whole = std::get_if<int64_t>(&value)) return Number(*whole);
  return Number(call.attrs->number(attribute));
}

int Formula::dim(const char* attribute, int input) const {
  return dim_of(name_, call, integer(attribute), input);
}

Attrs Formula::over() const {
  Attrs attrs;
  for (const char* name : {"dim", "keepdim"})
    if (given(name)) attrs.set(name, call.attrs->values().find(name)->second);
  return attrs;
}

FormulaTerm Formula::reduced(FormulaTerm loss) const {
  const std::string& kind = call.attrs->text("reduction");
  if (kind == "none") return loss;
  if (kind != "sum" && kind != "mean")
    refuse("reduction must be 'mean', 'sum' or 'none', found '{}'", kind);
  return op(kind.c_str(), {loss});
}

Sample f32_sample(const std::vector<Dims>& shapes, Attrs attrs) {
  return sample_of({shapes, DType::f32, {}}, std::move(attrs));
}

FormulaTerm reshaped(Formula& f, const FormulaTerm& x, const std::vector<int64_t>& shape) {
  return f.op("reshape", {x}, {{"shape", shape}});
}

OpRecord formula(const OpDescription& text, std::vector<Param> params, FormulaBody body,
                 std::vector<Sample> samples) {
  OpRecord record;
  record.name = text.name;
  record.family = text.family;
  record.summary = text.summary;
  record.params = std::move(params);
  record.decompositions.push_back(decomposition(text.name, nullptr, std::move(body)));
  record.samples = [samples = std::move(samples)] { return samples; };
  return record;
}

void decompose_when(OpRecord& record, std::function<bool(const OpCall&)> when, FormulaBody body) {
  record.decompositions.insert(record.decompositions.begin(),
                               decomposition(record.name, std::move(when), std::move(body)));
}

void compute_in_f32(OpRecord& record, std::function<bool(const OpCall&)> when) {
  decompose_when(
      record,
      [when = std::move(when)](const OpCall& call) {
        return is_narrow_float(result_dtype(call)) && (!when || when(call));
      },
      [name = record.name](Formula& f) {
        std::vector<Operand> wide;
        for (size_t i = 0; i < f.call.inputs.size(); ++i) {
          const FormulaTerm x = f[static_cast<int>(i)];
          const TensorMeta& meta = f.call.inputs[i];
          const bool narrow = !meta.absent && !meta.weak && is_narrow_float(meta.dtype);
          wide.emplace_back(narrow ? f.to(DType::f32, x) : x);
        }
        const DType dtype = result_dtype(f.call);
        FormulaTerms results;
        for (const FormulaTerm& result : f.ops(name.c_str(), wide, *f.call.attrs))
          results.push_back(result.dtype() == DType::f32 ? f.to(dtype, result) : result);
        return results;
      });
}

OpRecord in_f32(OpRecord record) {
  compute_in_f32(record);
  return record;
}

void require_float_input(OpRecord& record) {
  record.check = [name = record.name](const OpCall& call, const std::vector<const Number*>&) {
    for (const TensorMeta& input : call.inputs)
      if (is_floating(input.dtype) || is_complex(input.dtype)) return;
    refuse(name, call, "not defined for {}; cast it to a float first",
           shardproof::name(call.inputs.at(0).dtype));
  };
}

void add_dtype_parameter(OpRecord& record) {
  record.params.push_back(params::optional("dtype", ParamKind::dtype));
  decompose_when(
      record, [](const OpCall& call) { return call.attrs->has("dtype"); },
      [name = record.name](Formula& f) {
        const DType dtype = f.call.attrs->dtype("dtype");
        Attrs attrs = *f.call.attrs;
        attrs.set("dtype", std::monostate{});
        const FormulaTerm x = f[0].dtype() == dtype ? f[0] : f.to(dtype, f[0]);
        const FormulaTerm result = f.op(name.c_str(), {x}, std::move(attrs));
        return std::vector<FormulaTerm>{result.dtype() == dtype ? result : f.to(dtype, result)};
      });
}

void accept_scalar_input(OpRecord& record) {
  decompose_when(
      record, [](const OpCall& call) { return present(call, 0) && input_shape(call, 0).empty(); },
      [name = record.name](Formula& f) {
        const Attrs first{{"dim", int64_t{0}}};
        std::vector<Operand> lifted;
        for (size_t i = 0; i < f.call.inputs.size(); ++i) {
          const FormulaTerm x = f[static_cast<int>(i)];
          const bool scalar = x.handle != kAbsent && x.dims() == 0;
          lifted.emplace_back(scalar ? f.op("unsqueeze", {x}, first) : x);
        }
        std::vector<FormulaTerm> results;
        const Attrs dropped{{"dim", std::vector<int64_t>{0}}};
        for (const FormulaTerm& result : f.ops(name.c_str(), lifted, *f.call.attrs))
          results.push_back(result.dims() == 0 ? result : f.op("squeeze", {result}, dropped));
        return results;
      });
}

}  // namespace shardproof
