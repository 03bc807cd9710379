// Implements ops/core/wide_decomposition.h.
//
// 1. Trace: run `emit` with a builder that infers dtypes and shapes only, and keep its ops.
// 2. Wide float: the compute type of the widest float among the results; if they have none, among
//    the inputs. A float narrower than it is called narrow.
// 3. From the last op to the first: the digits of a value matter if an op reads it that rounds, or
//    that has no narrow result (a comparison), or an exact op (exact_ops.h) whose result matters.
//    The last rounding of a result may come before an exact op, because a maximum of rounded values
//    is the rounded maximum.
// 4. From the first op to the last: an op runs in the wide float if an input is wide, or if it
//    rounds a result whose digits matter. All other ops run as they are traced.
// 5. Wide results are converted to the dtypes of the trace.
//
// A conversion states whether an op after it reads the value in a way that no sum of parts passes
// (|x|, sin x). The partitioner then reduces the parts before it widens them.
//
// An op that rounds nothing but the result thus stays as it is: mm of bf16 is one matmul of bf16.
// Values stay narrow as long as possible, so that a redistribution moves them narrow.
#include "shardproof/ops/core/wide_decomposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/exact_ops.h"
#include "shardproof/ops/core/type_promotion.h"

namespace shardproof {
namespace {

struct TracedOp {
  std::string name;
  Attrs attrs;
  std::vector<int> inputs, outputs;
};

struct TracedValue {
  TensorMeta meta;
  std::optional<Number> number;
};

// Infers the ops of a decomposition. Handles are indices into `values`; those of the inputs come
// first.
class Trace : public OpBuilder {
 public:
  Trace(OpBuilder& outer, const OpCall& call)
      : outer_(outer), inputs_(static_cast<int>(call.inputs.size())) {
    for (const TensorMeta& meta : call.inputs) values.push_back({meta, std::nullopt});
  }
  int input(int i) override { return i < inputs_ && !meta(i).absent ? i : kAbsent; }
  std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) override {
    const OpRecord& record = registry().at(name);
    record.fill_fallbacks(attrs);
    OpCall call{&attrs, {}};
    for (const int handle : inputs)
      call.inputs.push_back(handle == kAbsent ? TensorMeta{DType::f32, {}, false, true}
                                              : meta(handle));
    TracedOp op{name, attrs, std::move(inputs), {}};
    for (const TensorMeta& meta : results_of(record, call)) op.outputs.push_back(add({meta, {}}));
    traced.push_back(std::move(op));
    return traced.back().outputs;
  }
  int number(Number value) override {
    const DType dtype = value.is_bool()     ? DType::boolean
                        : value.is_double() ? DType::f64
                                            : DType::i64;
    return add({{dtype, {}, true, false}, std::move(value)});
  }
  const TensorMeta& meta(int value) override { return values[static_cast<size_t>(value)].meta; }
  void depend_on_sizes() override { outer_.depend_on_sizes(); }
  const OpRegistry& registry() const override { return outer_.registry(); }

  std::deque<TracedValue> values;  // a deque, because meta() returns references
  std::vector<TracedOp> traced;

 private:
  std::vector<TensorMeta> results_of(const OpRecord& record, const OpCall& call) {
    if (!record.is_composite(call)) return record.infer(call);
    Trace inner(outer_, call);
    std::vector<TensorMeta> metas;
    for (const int handle : record.emit_decomposition(call, inner))
      metas.push_back(inner.meta(handle));
    return metas;
  }
  int add(TracedValue value) {
    values.push_back(std::move(value));
    return static_cast<int>(values.size()) - 1;
  }

  OpBuilder& outer_;
  int inputs_;
};

bool holds(DType dtype, const Number& number) {
  if (number.is_bool()) return true;
  const double written = number.is_double() ? number.real() : static_cast<double>(number.integer());
  std::byte stored[sizeof(double)];
  store_f64(stored, dtype, written);
  const double kept = load_f64(stored, dtype);
  return kept == written || (std::isnan(kept) && std::isnan(written));
}

bool reads_positions(std::string_view op) {
  return op.starts_with("index_") || op.starts_with("take");
}

// True if a sum of parts may pass the op.
bool may_be_linear(std::string_view op) {
  constexpr auto kNonlinear = std::to_array<std::string_view>(
      {"abs",     "amax",    "amin",     "cos",   "erf",    "exp",   "exp2",    "expm1",
       "floor",   "gelu",    "isinf",    "isnan", "log",    "log1p", "log2",    "maximum",
       "minimum", "norm",    "pow",      "relu",  "round",  "rsqrt", "sigmoid", "silu",
       "sin",     "softmax", "softplus", "sqrt",  "square", "tanh",  "trunc"});
  return std::find(kNonlinear.begin(), kNonlinear.end(), op) == kNonlinear.end();
}

// Emits a trace in wide floats.
class WideEmission {
 public:
  WideEmission(Trace& trace, OpBuilder& builder, const OpCall& call, std::vector<int> results)
      : trace_(trace),
        builder_(builder),
        results_(std::move(results)),
        wide_dtype_(wide_dtype(call)),
        matters_(trace.values.size()),
        nonlinear_(trace.values.size()),
        made_(trace.values.size()) {}

  std::vector<int> run() {
    for (auto op = trace_.traced.rbegin(); op != trace_.traced.rend(); ++op) find_matters(*op);
    for (const TracedOp& op : trace_.traced) emit(op);
    std::vector<int> handles;
    for (const int result : results_) {
      const int made = handle_of(result);
      const DType dtype = trace_.meta(result).dtype;
      handles.push_back(builder_.meta(made).dtype == dtype ? made : converted(made, dtype));
    }
    return handles;
  }

 private:
  struct Made {
    int handle = kAbsent;  // as the op made it
    int wide = kAbsent;    // converted
  };

  DType wide_dtype(const OpCall& call) const {
    std::optional<DType> widest;
    const auto offer = [&](const TensorMeta& meta) {
      if (meta.absent || meta.weak || !is_floating(meta.dtype)) return;
      widest = widest ? promote(*widest, meta.dtype) : meta.dtype;
    };
    for (const int result : results_) offer(trace_.meta(result));
    if (!widest)
      for (const TensorMeta& meta : call.inputs) offer(meta);
    return widest ? compute_dtype(*widest) : kDefaultFloat;
  }

  const TensorMeta& meta(int value) const { return trace_.meta(value); }
  bool is_narrow(int value) const {
    if (value == kAbsent || meta(value).weak) return false;
    const DType dtype = meta(value).dtype;
    return is_floating(dtype) && dtype != wide_dtype_ && can_widen(dtype, wide_dtype_);
  }
  bool is_wide(int value) const {
    if (!is_narrow(value)) return false;
    const int handle = made_[static_cast<size_t>(value)].handle;
    return handle != kAbsent && builder_.meta(handle).dtype != meta(value).dtype;
  }
  bool any_of(const std::vector<int>& values, bool (WideEmission::*holds)(int) const) const {
    return std::any_of(values.begin(), values.end(), [&](int v) { return (this->*holds)(v); });
  }
  bool matters(int value) const { return matters_[static_cast<size_t>(value)]; }
  bool is_read_nonlinearly(int value) const { return nonlinear_[static_cast<size_t>(value)]; }

  // True if an input of an exact op converts to the dtype of its result without rounding. Whole
  // numbers beside an index op are positions.
  bool converts_exactly(const TracedOp& op, int input, DType result) const {
    if (input == kAbsent) return true;
    const TracedValue& value = trace_.values[static_cast<size_t>(input)];
    if (value.meta.weak) return value.number && holds(result, *value.number);
    if (is_integral(value.meta.dtype) && reads_positions(op.name)) return true;
    return can_widen(value.meta.dtype, result);
  }

  // True if an op that runs on narrow inputs may round.
  bool rounds(const TracedOp& op) const {
    if (!rounds_nothing(op.name)) return true;
    for (const int output : op.outputs) {
      if (!is_narrow(output)) continue;
      const DType result = meta(output).dtype;
      if (op.attrs.has("value") && !holds(result, Number(op.attrs.number("value")))) return true;
      for (const int input : op.inputs)
        if (!converts_exactly(op, input, result)) return true;
    }
    return false;
  }

  void find_matters(const TracedOp& op) {
    const bool passes = any_of(op.outputs, &WideEmission::is_narrow) && rounds_nothing(op.name);
    const bool of_results = any_of(op.outputs, &WideEmission::matters);
    const bool nonlinear =
        !may_be_linear(op.name) || any_of(op.outputs, &WideEmission::is_read_nonlinearly);
    for (const int input : op.inputs) {
      if (input == kAbsent) continue;
      if (is_narrow(input) && (!passes || of_results)) matters_[static_cast<size_t>(input)] = true;
      if (nonlinear) nonlinear_[static_cast<size_t>(input)] = true;
    }
  }

  int converted(int handle, DType dtype, bool nonlinear = false) {
    Attrs attrs{{"dtype", dtype}};
    if (nonlinear) attrs.set("linear", false);
    return builder_.op("convert_element_type", std::move(attrs), {handle});
  }

  // Returns the handle of a value as it was made.
  int handle_of(int value) {
    if (value == kAbsent) return kAbsent;
    Made& made = made_[static_cast<size_t>(value)];
    if (made.handle != kAbsent) return made.handle;
    const std::optional<Number>& number = trace_.values[static_cast<size_t>(value)].number;
    return made.handle = number ? builder_.number(*number) : builder_.input(value);
  }

  int wide_handle(int value) {
    const int handle = handle_of(value);
    if (!is_narrow(value) || builder_.meta(handle).dtype == wide_dtype_) return handle;
    Made& made = made_[static_cast<size_t>(value)];
    if (made.wide == kAbsent)
      made.wide = converted(handle, wide_dtype_, is_read_nonlinearly(value));
    return made.wide;
  }

  // Whole numbers give f32 where a float is needed. If the wide float is f64, they are widened too.
  std::vector<int> wide_inputs(const TracedOp& op) {
    std::vector<int> handles;
    bool floats = false;
    for (const int input : op.inputs) {
      handles.push_back(input == kAbsent ? kAbsent : wide_handle(input));
      floats = floats || (input != kAbsent && !meta(input).weak && !is_integral(meta(input).dtype));
    }
    if (floats || wide_dtype_ == kDefaultFloat || op.name == "cast") return handles;
    for (size_t i = 0; i < handles.size(); ++i)
      if (op.inputs[i] != kAbsent && !meta(op.inputs[i]).weak)
        handles[i] = converted(handles[i], wide_dtype_);
    return handles;
  }

  void emit(const TracedOp& op) {
    const bool has_narrow = any_of(op.outputs, &WideEmission::is_narrow);
    const bool wide = any_of(op.inputs, &WideEmission::is_wide) ||
                      (has_narrow && rounds(op) && any_of(op.outputs, &WideEmission::matters));
    Attrs attrs = op.attrs;
    std::vector<int> inputs;
    if (wide) {
      inputs = wide_inputs(op);
      for (const auto& [name, value] : op.attrs.values())
        if (const DType* dtype = std::get_if<DType>(&value);
            dtype && has_narrow && is_floating(*dtype) && can_widen(*dtype, wide_dtype_))
          attrs.set(name, wide_dtype_);
    } else {
      for (const int input : op.inputs) inputs.push_back(handle_of(input));
    }
    if (wide && has_narrow && op.name == "cast" &&
        builder_.meta(inputs.at(0)).dtype == wide_dtype_) {
      made_[static_cast<size_t>(op.outputs[0])].handle = inputs[0];
      return;
    }
    const std::vector<int> outputs = builder_.ops(op.name, std::move(attrs), std::move(inputs));
    for (size_t o = 0; o < op.outputs.size(); ++o)
      made_[static_cast<size_t>(op.outputs[o])].handle = outputs.at(o);
  }

  Trace& trace_;
  OpBuilder& builder_;
  const std::vector<int> results_;  // handles of the trace
  const DType wide_dtype_;
  std::vector<bool> matters_, nonlinear_;  // by value of the trace
  std::vector<Made> made_;                 // by value of the trace
};

// True if a value of the call, or one that it names a dtype for, is narrower than the float that
// its results may be computed in.
bool may_round(const OpCall& call) {
  bool narrow = false, widest = false, other = false;
  for (const TensorMeta& meta : call.inputs) {
    if (meta.absent || meta.weak) continue;
    narrow = narrow || (is_floating(meta.dtype) && compute_dtype(meta.dtype) != meta.dtype);
    widest = widest || meta.dtype == DType::f64;
    other = other || (meta.dtype != DType::f64 && meta.dtype != DType::boolean);
  }
  for (const auto& [name, value] : call.attrs->values())
    if (const DType* dtype = std::get_if<DType>(&value))
      narrow = narrow || (is_floating(*dtype) && compute_dtype(*dtype) != *dtype);
  return narrow || (widest && other);
}

}  // namespace

std::vector<int> emit_in_wide_floats(const OpCall& call, OpBuilder& builder, const EmitOps& emit) {
  if (!may_round(call)) return emit(call, builder);
  Trace trace(builder, call);
  std::vector<int> results = emit(call, trace);
  return WideEmission(trace, builder, call, std::move(results)).run();
}

}  // namespace shardproof
