// uniform, normal, randint, dropout. Draw i of (seed, stream) belongs to global element i, so that
// any sharding draws what one device draws.
#include <algorithm>

#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/formula.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/shard_index.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/elementwise/elementwise_rule.h"
#include "shardproof/ops/random/creation.h"
#include "shardproof/ops/random/random_items.h"

namespace shardproof {
namespace {

constexpr int64_t kTile = 256;

double number_or(const OpCall& call, const char* name, double fallback) {
  return call.attrs && call.attrs->has(name) ? call.attrs->number(name) : fallback;
}
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
struct Row {
  const char* name;
  const char* summary;
  Draw draw;
  const char* first;
  const char* second;
  double first_default, second_default;
  DType dtype;
};
const Row kRows[] = {
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
  double reals[kTile];
  int64_t wholes[kTile];
  const int64_t bytes = size_of(dtype);
  for (int64_t start = 0; start < count; start += kTile) {
    const int64_t part = std::min(kTile, count - start);
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

// The block of a tensor that a lane holds, none when it is several; without a spec, all of it.
std::optional<GlobalBlock> block_of(const Dims& local, const Spec* spec, int64_t rank) {
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

// An item for each element of the output; a tensor input lies as the output does.
template <typename Item>
LanePlan plan_of_items(Item item, const Dims& shape, std::vector<DType> inputs, DType computed) {
  LanePlan plan{std::move(inputs), {computed}, 0, {}};
  item.block = *block_of(shape, nullptr, 0);
  plan.item = item;
  plan.items = element_count(shape);
  plan.item_of_part = [item, shape](const LaneCall& lane) mutable -> std::any {
    const Spec& spec = lane.shard->outputs->front();
    const std::optional<GlobalBlock> block =
        block_of(shape, &spec, lane.shard->ranks[static_cast<size_t>(lane.lane)]);
    if (!block) return {};
    item.block = *block;
    return item;
  };
  return plan;
}

Kernel prepare_draw(const Row& row, const OpCall& call, const Dims& output) {
  const DrawPlan plan{row.draw, number_or(call, row.first, row.first_default),
                      number_or(call, row.second, row.second_default), rng_of(call)};
  Kernel kernel;
  kernel.accepts_strides = true;
  if (row.draw != Draw::normal) {
    const bool whole = row.draw == Draw::integer;
    const DrawItem item{{}, plan.rng, whole, plan.first, plan.second};
    std::vector<DType> inputs;  // whose shape is taken; nothing reads them
    for (const TensorMeta& input : call.inputs) inputs.push_back(input.dtype);
    kernel.plan = plan_of_items(item, output, std::move(inputs), whole ? DType::i64 : DType::f64);
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

std::vector<TensorMeta> infer_draw(const Row& row, const OpCall& call) {
  std::vector<TensorMeta> metas = infer_creation(row.name, call, row.dtype);
  const bool whole = is_integral(metas[0].dtype);
  if (is_complex(metas[0].dtype) || metas[0].dtype == DType::boolean ||
      (row.draw != Draw::integer && whole))
    refuse(row.name, call, "not defined for {}", name(metas[0].dtype));
  const double first = number_or(call, row.first, row.first_default),
               second = number_or(call, row.second, row.second_default);
  if (row.draw == Draw::integer && !(first < second))
    refuse(row.name, call, "low must be below high");
  if (row.draw == Draw::integer && (first < -0x1p62 || second > 0x1p62))
    refuse(row.name, call, "low and high must be from -2^62 to 2^62");
  return metas;
}

OpRecord draw_record(const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = "random";
  op.summary = row.summary;
  op.params = creation_params();
  op.params.insert(op.params.begin() + 1,
                   {{row.first, ParamKind::number, false, row.first_default},
                    {row.second, ParamKind::number, false, row.second_default}});
  for (const Param& param : seed_params()) op.params.push_back(param);
  op.infer = [&row](const OpCall& call) { return infer_draw(row, call); };
  op.prepare = [&row](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_draw(row, call, outputs[0].shape);
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return creation_strategies(call, outputs[0], LocalExecution::needs_shard_index);
  };
  op.rule.local_attrs = [](const OpCall& call, const std::vector<Spec>&,
                           const std::vector<Spec>& outputs,
                           int64_t rank) { return creation_local_attrs(call, outputs, rank); };
  op.samples = [] {
    using List = std::vector<int64_t>;
    const TensorMeta none{DType::f32, {}, false, true};
    return std::vector<Sample>{
        {{{"shape", List{5, 3}}, {"seed", int64_t{7}}}, {none}, {"ints"}},
        {{{"shape", List{2, 3, 4}}, {"dtype", DType::f64}}, {none}, {"ints"}},
        {{{"stream", int64_t{2}}}, {{DType::bf16, {7}}}, {"ints"}}};
  };
  return op;
}

// ---- dropout ----

struct DropoutPlan {
  double probability = 0.5, scale = 2;
  Rng rng{0, 0};
};

void drop_stretch(const DropoutPlan& plan, uint64_t from, int64_t count, const std::byte* x,
                  std::byte* out, DType dtype) {
  double tile[kTile];
  auto* raw = reinterpret_cast<std::byte*>(tile);
  const int64_t bytes = size_of(dtype);
  for (int64_t start = 0; start < count; start += kTile) {
    const int64_t part = std::min(kTile, count - start);
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
  kernel.plan = plan_of_items(item, input_shape(call, 0), {DType::f64}, DType::f64);
  kernel.run = [plan](const KernelCall& run) {
    const LaneView& x = run.inputs->front();
    const LaneView& out = run.outputs->front();
    const int64_t bytes = size_of(x.dtype);
    for (int64_t lane = 0; lane < run.lanes; ++lane)
      for_each_stretch(
          place_of_input(run, 0, lane), x.shape, [&](int64_t local, int64_t global, int64_t count) {
            drop_stretch(plan, static_cast<uint64_t>(global), count, x.at(lane) + local * bytes,
                         out.at(lane) + local * bytes, x.dtype);
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
  decompose_when(
      op,
      [](const OpCall& call) {
        return call.attrs->has("training") && !call.attrs->flag("training");
      },
      [](Formula& f) { return std::vector<FormulaTerm>{f[0]}; });
  op.infer = [](const OpCall& call) -> std::vector<TensorMeta> {
    require_floating("dropout", call, 0);
    const double p = number_or(call, "p", 0.5);
    if (!(p >= 0 && p <= 1)) refuse("dropout", call, "p is within 0 .. 1, found {}", p);
    return {{call.inputs[0].dtype, call.inputs[0].shape}};
  };
  op.prepare = [](const OpCall& call, const std::vector<TensorMeta>&) {
    return prepare_dropout(call);
  };
  op.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    const std::vector<Pass> passes = {{{ReduceOp::sum}, ReduceOp::sum},
                                      {{ReduceOp::avg}, ReduceOp::avg},
                                      {{ReduceOp::max}, ReduceOp::max},
                                      {{ReduceOp::min}, ReduceOp::min}};
    return elementwise_strategies(call, outputs, passes, LocalExecution::needs_shard_index);
  };
  op.samples = [] {
    return std::vector<Sample>{
        {{{"p", 0.5}}, {{DType::f32, {5, 3}}}, {"ints"}},
        {{{"p", 0.1}, {"seed", int64_t{3}}}, {{DType::bf16, {7, 2}}}, {"uniform(-1, 1)"}},
        {{{"p", 1.0}}, {{DType::f64, {4}}}, {"ints"}}};
  };
  return op;
}

}  // namespace

void add_random_ops(OpRegistry& ops) {
  for (const Row& row : kRows) ops.add(draw_record(row));
  ops.add(dropout_record());
}

}  // namespace shardproof
