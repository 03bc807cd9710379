// Registers argmax, argmin and first_match. Over a sharded dim, argmax lowers to two steps. amax
// reduces the values over ranks. first_match takes the least global index of an element equal to
// the reduced value; its results are P(min).
#include <limits>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"
#include "shardproof/ops/reduction/argmax_state.h"
#include "shardproof/ops/reduction/reducers.h"

namespace shardproof {
namespace {

constexpr int64_t kUnreachedIndex = std::numeric_limits<int64_t>::max();

template <bool kLargest>
Reducer best_reducer(DType compute) {
  if (compute == DType::f32) return ReducerOf<ArgMaxState<float, kLargest>>::make();
  if (compute == DType::f64) return ReducerOf<ArgMaxState<double, kLargest>>::make();
  return ReducerOf<ArgMaxState<int64_t, kLargest>>::make();
}

struct ArgmaxRow {
  const char* name;
  const char* summary;
  const char* values;  // the op that reduces the values
  bool largest;
};
const ArgmaxRow kArgmaxRows[] = {
    {"argmax", "first index of the largest element; of the flat tensor without dim", "amax", true},
    {"argmin", "first index of the smallest element; of the flat tensor without dim", "amin",
     false},
};

std::vector<TensorMeta> infer_best(const ArgmaxRow& row, const OpCall& call) {
  const DimMask mask = reduced_dims(row.name, call);
  const auto reduced = std::count(mask.begin(), mask.end(), true);
  if (reduced != 1 && reduced != static_cast<int64_t>(mask.size()))
    refuse(row.name, call, "dim must be one dim; leave it out to search the flat tensor");
  if (is_complex(call.inputs[0].dtype) || call.inputs[0].dtype == DType::boolean)
    refuse(row.name, call, "not defined for {}", name(call.inputs[0].dtype));
  return {{DType::i64, reduced_shape(call.inputs[0].shape, mask, has_keepdim(call))}};
}

std::vector<Strategy> best_strategies(const ArgmaxRow& row, const OpCall& call,
                                      const std::vector<TensorMeta>&) {
  std::vector<Strategy> strategies =
      factor_strategies(reduction_notation(call, reduced_dims(row.name, call)), {});
  for (Strategy& s : strategies) {
    if (!s.outputs[0].is_partial()) continue;
    s.form = LocalExecution::lower_to_ops;
    s.outputs[0] = P(ReduceOp::min);
  }
  return strategies;
}

int lower_best(const ArgmaxRow& row, const OpCall& call, LowerBuilder& b) {
  const DimMask mask = reduced_dims(row.name, call);
  const int x = b.input(0);
  const int best = b.replicate_partials(b.op(row.values, reduction_attrs(mask, true), {x}));
  return b.op("first_match", reduction_attrs(mask, has_keepdim(call)), {x, best});
}

std::vector<Sample> best_samples(const ArgmaxRow&) {
  using List = std::vector<int64_t>;
  return {{{}, {{DType::f32, {4, 6}}}, {"ints"}},
          {{{"dim", int64_t{0}}}, {{DType::f32, {5, 3}}}, {"uniform(-1, 1)"}},
          {{{"dim", List{1}}, {"keepdim", true}}, {{DType::bf16, {3, 4, 2}}}, {"ints"}},
          {{{"dim", int64_t{-1}}}, {{DType::i32, {2, 5}}}, {"ints"}},
          {{{"keepdim", true}}, {{DType::f64, {7}}}, {"ints"}}};
}

Kernel prepare_best(const ArgmaxRow& row, const OpCall& call, const std::vector<TensorMeta>&) {
  const DType compute = compute_dtype(call.inputs[0].dtype);
  return reduce_kernel(row.largest ? best_reducer<true>(compute) : best_reducer<false>(compute), {},
                       call.inputs[0].shape, reduced_dims(row.name, call));
}

void complete_best(const ArgmaxRow& row, OpRecord& op) {
  op.differentiable = Differentiable::no;
  op.check = [&row](const OpCall& call, const std::vector<const Number*>&) {
    require_elements(row.name, call);
  };
  op.rule.lower = [&row](const OpCall& call, const std::vector<Spec>&, LowerBuilder& b) {
    return std::vector<int>{lower_best(row, call, b)};
  };
}

const OpTable<ArgmaxRow> kArgmaxTable = {
    "reduction",     [](const ArgmaxRow&) { return reduction_params(); },
    infer_best,      prepare_best,
    best_strategies, best_samples,
    complete_best};

bool matches(const std::byte* a, const std::byte* b, DType dtype) {
  if (!is_floating(dtype)) return load_i64(a, dtype) == load_i64(b, dtype);
  const double x = load_f64(a, dtype), y = load_f64(b, dtype);
  return x == y || (x != x && y != y);
}

// Global index of each element along the reduced dims: within one dim, or in the flat tensor.
class Positions {
 public:
  Positions(const GlobalPlace& place, const Dims& local, const DimMask& mask) {
    const Dims& global = global_shape(place, local);
    int64_t weight = 1;
    weights_.resize(mask.size());
    for (int d = local.size() - 1; d >= 0; --d) {
      const bool reduced = mask[static_cast<size_t>(d)];
      if (reduced) weights_[static_cast<size_t>(d)] = global_indices(place, local, d);
      for (int64_t& w : weights_[static_cast<size_t>(d)]) w *= weight;
      if (reduced) weight *= global[d];
    }
  }
  int64_t at(const Dims& index) const {
    int64_t position = 0;
    for (size_t d = 0; d < weights_.size(); ++d)
      if (!weights_[d].empty())
        position += weights_[d][static_cast<size_t>(index[static_cast<int>(d)])];
    return position;
  }

 private:
  std::vector<std::vector<int64_t>> weights_;
};

void match_lane(const KernelCall& call, int64_t lane, const DimMask& mask) {
  const LaneView& x = (*call.inputs)[0];
  const LaneView& value = (*call.inputs)[1];
  const LaneView& out = (*call.outputs)[0];
  auto* result = reinterpret_cast<int64_t*>(out.at(lane));
  std::fill_n(result, element_count(out.shape), kUnreachedIndex);
  const Positions positions(place_of_input(call, 0, lane), x.shape, mask);
  const Dims strides = contiguous_strides(reduced_shape(x.shape, mask, true));
  const int64_t count = element_count(x.shape), bytes = size_of(x.dtype);
  Dims index = Dims::filled(x.shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int d = 0; d < x.shape.size(); ++d)
      if (!mask[static_cast<size_t>(d)]) place += index[d] * strides[d];
    if (matches(x.at(lane) + i * bytes, value.at(lane) + place * bytes, x.dtype))
      result[place] = std::min(result[place], positions.at(index));
    for (int d = x.shape.size() - 1; d >= 0; --d) {
      if (++index[d] < x.shape[d]) break;
      index[d] = 0;
    }
  }
}

std::vector<Strategy> match_strategies(const OpCall& call) {
  const DimMask mask = reduced_dims("first_match", call);
  std::string x, value, out;
  for (size_t d = 0; d < mask.size(); ++d) {
    const char letter = static_cast<char>('a' + d);
    x.push_back(letter);
    value.push_back(mask[d] ? '1' : letter);
    if (!mask[d])
      out.push_back(letter);
    else if (has_keepdim(call))
      out.push_back('1');
  }
  FactorOptions options;
  options.reduction = {ReduceOp::min, 0};
  options.form = LocalExecution::needs_shard_index;
  return factor_strategies(x + "," + value + "->" + out, options);
}

OpRecord match_record() {
  OpRecord op;
  op.name = "first_match";
  op.differentiable = Differentiable::no;
  op.family = "reduction";
  op.summary = "first index along dim of the element equal to y (of x reduced with keepdim)";
  op.params = reduction_params();
  op.params.insert(op.params.begin() + 1, {"y", ParamKind::tensor, true, {}});
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    const DimMask mask = reduced_dims("first_match", call);
    const Dims& shape = call.inputs[0].shape;
    if (call.inputs[1].shape != reduced_shape(shape, mask, true))
      refuse("first_match", call, "expected y of shape {}",
             to_string(reduced_shape(shape, mask, true)));
    if (call.inputs[0].dtype != call.inputs[1].dtype)
      refuse("first_match", call, "x and y must have one dtype, found {} and {}; cast one",
             name(call.inputs[0].dtype), name(call.inputs[1].dtype));
    return {{DType::i64, reduced_shape(shape, mask, has_keepdim(call))}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    Kernel kernel;
    kernel.run = [mask = reduced_dims("first_match", call)](const KernelCall& run) {
      for (int64_t lane = 0; lane < run.lanes; ++lane) match_lane(run, lane, mask);
    };
    return kernel;
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return match_strategies(call);
  };
  op.samples = [] {
    return std::vector<Sample>{
        {{{"dim", int64_t{0}}},
         {{DType::f32, {5, 3}}, {DType::f32, {1, 3}}},
         {"ints(0, 3)", "ints(0, 3)"}},
        {{}, {{DType::i32, {4, 3}}, {DType::i32, {1, 1}}}, {"ints(0, 4)", "ints(0, 4)"}}};
  };
  return op;
}

}  // namespace

void add_argmax_ops(OpRegistry& ops) {
  add_rows(ops, kArgmaxTable, kArgmaxRows);
  ops.add(match_record());
}

}  // namespace shardproof
