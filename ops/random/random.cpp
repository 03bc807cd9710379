// Registers uniform, normal, randint, dropout. Draw i of (seed, stream) belongs to global element
// i, so every sharding draws the numbers that one device draws.
#include <algorithm>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/op_table.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/random/creation.h"
#include "shardproof/ops/random/random_items.h"

namespace shardproof {
namespace {

constexpr int64_t kDrawTile = 256;

uint64_t counter_or_zero(const OpCall& call, const char* name) {
  return call.attrs && call.attrs->has(name) ? static_cast<uint64_t>(call.attrs->integer(name)) : 0;
}
Rng rng_of(const OpCall& call) {
  return {counter_or_zero(call, "seed"), counter_or_zero(call, "stream")};
}
std::vector<Param> seed_params() {
  return {{"seed", ParamKind::integer, false, int64_t{0}},
          {"stream", ParamKind::integer, false, int64_t{0}}};
}

enum class Draw { uniform, normal, integer };
struct DrawRow {
  const char* name;
  const char* summary;
  Draw draw;
  const char* first;
  const char* second;
  double first_default, second_default;
  DType dtype;
};
const DrawRow kDrawRows[] = {
    {"uniform", "uniform([4, n], 0, 1): in [low, high)", Draw::uniform, "low", "high", 0, 1,
     kDefaultFloat},
    {"normal", "normal([4, n], 0, 1): Gaussian", Draw::normal, "mean", "std", 0, 1, kDefaultFloat},
    {"randint", "randint([4, n], 0, 10): whole numbers low .. high - 1", Draw::integer, "low",
     "high", 0, 2, DType::i64},
};

struct DrawPlan {
  Draw draw = Draw::uniform;
  double first = 0, second = 1;
  Rng rng{0, 0};
};

void draw_stretch(const DrawPlan& plan, uint64_t from, int64_t count, std::byte* to, DType dtype) {
  double reals[kDrawTile];
  int64_t wholes[kDrawTile];
  const int64_t bytes = size_of(dtype);
  for (int64_t start = 0; start < count; start += kDrawTile) {
    const int64_t part = std::min(kDrawTile, count - start);
    for (int64_t i = 0; i < part; ++i) {
      const uint64_t index = from + static_cast<uint64_t>(start + i);
      if (plan.draw == Draw::integer) {
        wholes[i] = plan.rng.integer(index, static_cast<int64_t>(plan.first),
                                     static_cast<int64_t>(plan.second));
      } else if (plan.draw == Draw::uniform) {
        reals[i] = plan.first + (plan.second - plan.first) * plan.rng.uniform(index);
      } else {
        reals[i] = plan.first + plan.second * plan.rng.normal(index);
      }
    }
    std::byte* at = to + start * bytes;
    if (plan.draw == Draw::integer) {
      convert(reinterpret_cast<const std::byte*>(wholes), DType::i64, at, dtype, part);
    } else {
      convert(reinterpret_cast<const std::byte*>(reals), DType::f64, at, dtype, part);
    }
  }
}

// Returns the block of a tensor that a lane holds; nullopt if it holds several. Without a spec it
// is the whole tensor.
std::optional<GlobalBlock> lane_block(const Dims& local, const Spec* spec, int64_t rank) {
  GlobalBlock block;
  block.dims = local.size();
  const Dims strides = contiguous_strides(spec != nullptr ? spec->shape() : local);
  for (int d = 0; d < local.size(); ++d) {
    const std::optional<Run> run =
        spec != nullptr ? single_run(spec->owned(rank, d)) : Run{0, local[d]};
    if (!run) return std::nullopt;
    block.size[d] = local[d];
    block.start[d] = run->start;
    block.strides[d] = strides[d];
  }
  return block;
}

// Returns a plan with one item per element of the output; tensor inputs are laid out like the
// output.
template <typename Item>
LanePlan plan_of_items(Item item, const Dims& shape, std::vector<DType> inputs, DType computed) {
  LanePlan plan{std::move(inputs), {computed}, 0, {}};
  item.block = *lane_block(shape, nullptr, 0);
  plan.item = share_item(item);
  plan.items = element_count(shape);
  plan.item_of_part = [item, shape](const LaneCall& lane) mutable -> LaneItem {
    if (lane.shard->outputs->empty()) return {};
    const Spec& spec = lane.shard->outputs->front();
    const std::optional<GlobalBlock> block =
        lane_block(shape, &spec, lane.shard->ranks[static_cast<size_t>(lane.lane)]);
    if (!block) return {};
    item.block = *block;
    return share_item(item);
  };
  return plan;
}

Kernel prepare_draw(const DrawRow& row, const OpCall& call,
                    const std::vector<TensorMeta>& outputs) {
  const DrawPlan plan{row.draw, number_or(call, row.first, row.first_default),
                      number_or(call, row.second, row.second_default), rng_of(call)};
  Kernel kernel;
  kernel.accepts_strides = true;
  if (row.draw != Draw::normal) {
    const bool whole = row.draw == Draw::integer;
    const DrawItem item{{}, plan.rng, whole, plan.first, plan.second};
    std::vector<DType> inputs;  // read for their shapes only
    for (const TensorMeta& input : call.inputs) inputs.push_back(input.dtype);
    kernel.plan = share_plan(
        plan_of_items(item, outputs[0].shape, std::move(inputs), whole ? DType::i64 : DType::f64));
  }
  kernel.run = [plan](const KernelCall& run) {
    const LaneView& out = run.outputs->front();
    const int64_t bytes = size_of(out.dtype);
    for (int64_t lane = 0; lane < run.lanes; ++lane)
      for_each_stretch(place_of_output(run, 0, lane), out.shape,
                       [&](int64_t local, int64_t global, int64_t count) {
                         draw_stretch(plan, static_cast<uint64_t>(global), count,
                                      out.at(lane) + local * bytes, out.dtype);
                       });
  };
  return kernel;
}

std::vector<TensorMeta> infer_draw(const DrawRow& row, const OpCall& call) {
  std::vector<TensorMeta> metas = infer_creation(row.name, call, row.dtype);
  const bool whole = is_integral(metas[0].dtype);
  if (is_complex(metas[0].dtype) || metas[0].dtype == DType::boolean ||
      (row.draw != Draw::integer && whole))
    refuse(row.name, call, "not defined for {}", name(metas[0].dtype));
  const double first = number_or(call, row.first, row.first_default),
               second = number_or(call, row.second, row.second_default);
  if (row.draw == Draw::integer && !(first < second))
    refuse(row.name, call, "low must be below high, found {} and {}", first, second);
  if (row.draw == Draw::integer && (first < -0x1p62 || second > 0x1p62))
    refuse(row.name, call, "low and high must be from -2^62 to 2^62");
  return metas;
}

std::vector<Param> draw_params(const DrawRow& row) {
  std::vector<Param> params = creation_params();
  params.insert(params.begin() + 1, {{row.first, ParamKind::number, false, row.first_default},
                                     {row.second, ParamKind::number, false, row.second_default}});
  for (const Param& param : seed_params()) params.push_back(param);
  return params;
}

std::vector<Sample> draw_samples(const DrawRow&) {
  using List = std::vector<int64_t>;
  const TensorMeta none{DType::f32, {}, false, true};
  return {{{{"shape", List{5, 3}}, {"seed", int64_t{7}}}, {none}, {"ints"}},
          {{{"shape", List{2, 3, 4}}, {"dtype", DType::f64}}, {none}, {"ints"}},
          {{{"stream", int64_t{2}}}, {{DType::bf16, {7}}}, {"ints"}}};
}

const OpTable<DrawRow> kDrawTable = {
    "random",
    draw_params,
    infer_draw,
    prepare_draw,
    [](const DrawRow&, const OpCall& call, const std::vector<TensorMeta>& outputs) {
      return creation_strategies(call, outputs[0], LocalExecution::needs_shard_index);
    },
    draw_samples,
    [](const DrawRow&, OpRecord& op) {
      op.rule.local_attrs = creation_local_attrs;
      op.differentiable = Differentiable::no;
    }};

// Number of the input whose placement states which elements of the whole this rank has. With it a
// gradient inside `as` drops the elements that the forward call dropped.
constexpr int kDropoutLike = 1;

struct DropoutPlan {
  double probability = 0.5, scale = 2;
  Rng rng{0, 0};
};

void drop_stretch(const DropoutPlan& plan, uint64_t from, int64_t count, const std::byte* x,
                  std::byte* out, DType dtype) {
  double tile[kDrawTile];
  auto* raw = reinterpret_cast<std::byte*>(tile);
  const int64_t bytes = size_of(dtype);
  for (int64_t start = 0; start < count; start += kDrawTile) {
    const int64_t part = std::min(kDrawTile, count - start);
    convert(x + start * bytes, dtype, raw, DType::f64, part);
    for (int64_t i = 0; i < part; ++i) {
      const bool kept =
          plan.rng.uniform(from + static_cast<uint64_t>(start + i)) >= plan.probability;
      tile[i] = kept ? tile[i] * plan.scale : 0.0;
    }
    convert(raw, DType::f64, out + start * bytes, dtype, part);
  }
}

Kernel prepare_dropout(const OpCall& call) {
  const double p = number_or(call, "p", 0.5);
  const DropoutPlan plan{p, p < 1 ? 1 / (1 - p) : 0, rng_of(call)};
  Kernel kernel;
  const DropoutItem item{{}, plan.rng, plan.probability, plan.scale};
  // Only the position of `like` in the global tensor is read.
  const size_t counted = present(call, kDropoutLike) ? kDropoutLike : 0;
  std::vector<DType> inputs{DType::f64};
  for (size_t i = 1; i < call.inputs.size(); ++i) inputs.push_back(call.inputs[i].dtype);
  kernel.plan =
      share_plan(plan_of_items(item, input_shape(call, 0), std::move(inputs), DType::f64));
  kernel.run = [plan, counted](const KernelCall& run) {
    const LaneView& x = run.inputs->front();
    const LaneView& out = run.outputs->front();
    const int64_t bytes = size_of(x.dtype);
    for (int64_t lane = 0; lane < run.lanes; ++lane)
      for_each_stretch(place_of_input(run, counted, lane), x.shape,
                       [&](int64_t local, int64_t global, int64_t count) {
                         drop_stretch(plan, static_cast<uint64_t>(global), count,
                                      x.at(lane) + local * bytes, out.at(lane) + local * bytes,
                                      x.dtype);
                       });
  };
  return kernel;
}

OpRecord dropout_record() {
  OpRecord op;
  op.name = "dropout";
  op.family = "random";
  op.summary = "each element is 0 with probability p, else x / (1 - p)";
  op.params = {{"x", ParamKind::tensor, true, {}}, {"p", ParamKind::number, false, 0.5}};
  for (const Param& param : seed_params()) op.params.push_back(param);
  op.params.push_back(params::boolean("training", true));
  op.params.push_back(params::optional_tensor("like"));
  decompose_when(
      op,
      [](const OpCall& call) {
        return call.attrs->has("training") && !call.attrs->flag("training");
      },
      [](Formula& f) { return std::vector<FormulaTerm>{f[0]}; });
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    require_floating("dropout", call, 0);
    const double p = number_or(call, "p", 0.5);
    if (!(p >= 0 && p <= 1)) refuse("dropout", call, "p must be from 0 to 1, found {}", p);
    if (present(call, kDropoutLike) && !(input_shape(call, kDropoutLike) == call.inputs[0].shape))
      refuse("dropout", call, "like must have the shape of the input");
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_dropout(call);
  };
  op.gradient = gradients({[](Gradient& g) {
    const FormulaTerm like = g.has(kDropoutLike) ? g[kDropoutLike] : g[0];
    return g.op("dropout", {g.dy(), g.has_known_sizes() ? g.none() : like}, *g.call.attrs);
  }});
  op.rule.indexed_inputs = {kDropoutLike};
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    const std::vector<PartialPropagation> passes = {{{ReduceOp::sum}, ReduceOp::sum},
                                                    {{ReduceOp::avg}, ReduceOp::avg},
                                                    {{ReduceOp::max}, ReduceOp::max},
                                                    {{ReduceOp::min}, ReduceOp::min}};
    return elementwise_strategies(call, outputs, passes, LocalExecution::needs_shard_index);
  };
  op.samples = [] {
    return std::vector<Sample>{
        {{{"p", 0.5}}, {{DType::f32, {5, 3}}}, {"ints"}},
        {{{"p", 0.1}, {"seed", int64_t{3}}}, {{DType::bf16, {7, 2}}}, {"uniform(-1, 1)"}},
        {{{"p", 1.0}}, {{DType::f64, {4}}}, {"ints"}},
        {{{"p", 0.3}}, {{DType::f32, {5, 3}}, {DType::f32, {5, 3}}}, {"ints", "ints"}}};
  };
  return op;
}

}  // namespace

void add_random_ops(OpRegistry& ops) {
  add_rows(ops, kDrawTable, kDrawRows);
  ops.add(dropout_record());
}

}  // namespace shardproof
