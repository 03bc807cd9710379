// Registers rope: rotary position embedding of [..., heads, seq, head_dim] (Su et al., arXiv
// 2104.09864), in the "rotate half" form of Llama. With angle(p, i) = p * base^(-2 i / head_dim),
// element i of the first half is rotated with element i of the second:
//   y[i]        = x[i] cos - x[i + half] sin
//   y[i + half] = x[i + half] cos + x[i] sin
// Position p is the global index in the sequence plus `offset`, or comes from `positions` [seq].
// The tensor `like` has the shape of x. Its position in the global tensor states the positions, so
// that a gradient inside `as` counts them as the forward call did.
#include <cmath>

#include "shardproof/ops/attention/rope_item.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/item_kernel.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

constexpr int kPositions = 1, kLike = 2;

struct Rope {
  int64_t outer = 1, seq = 0, half = 0, offset = 0;
  int seq_dim = 0;
  size_t counted = 0;             // the input whose place states the positions
  bool inverse = false;           // rotates by the negative angles
  std::vector<double> frequency;  // for each i
};

Rope rope_of(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  Rope rope;
  rope.seq_dim = shape.size() - 2;
  rope.seq = shape[rope.seq_dim];
  rope.half = shape.back() / 2;
  rope.counted = present(call, kLike) ? kLike : 0;
  rope.offset = call.attrs->integer("offset");
  rope.inverse = call.attrs->has("inverse") && call.attrs->flag("inverse");
  for (int d = 0; d < rope.seq_dim; ++d) rope.outer *= shape[d];
  for (int64_t i = 0; i < rope.half; ++i)
    rope.frequency.push_back(
        std::pow(call.attrs->number("base"),
                 -2.0 * static_cast<double>(i) / static_cast<double>(shape.back())));
  return rope;
}

std::vector<TensorMeta> infer_rope(const OpCall& call) {
  require_floating("rope", call, 0);
  const Dims& shape = input_shape(call, 0);
  if (shape.size() < 2) refuse("rope", call, "needs [..., seq, head_dim]");
  if (shape.back() % 2 != 0) refuse("rope", call, "head_dim must be even, found {}", shape.back());
  if (!(call.attrs->number("base") > 0))
    refuse("rope", call, "base must be positive, found {}", call.attrs->number("base"));
  if (present(call, kLike) && !(input_shape(call, kLike) == shape))
    refuse("rope", call, "like must have the shape of the input");
  if (present(call, kPositions)) {
    require_integral("rope", call, 1);
    require_dims("rope", call, 1, 1);
    int64_t seq = shape[shape.size() - 2];
    if (input_shape(call, 1)[0] != seq)
      refuse("rope", call, "expected one position per entry of the sequence, found {} for {}",
             input_shape(call, 1)[0], seq);
  }
  return {{input_meta(call, 0).dtype, shape}};
}

// Fills cos and sin of every (position, i) of a lane.
template <typename T>
void fill_table(const Rope& rope, const LaneCall& lane, T* table) {
  auto row = [&](int64_t s, int64_t position) {
    for (int64_t i = 0; i < rope.half; ++i) {
      double angle = static_cast<double>(position) * rope.frequency[static_cast<size_t>(i)];
      table[(s * rope.half + i) * 2] = static_cast<T>(std::cos(angle));
      table[(s * rope.half + i) * 2 + 1] =
          static_cast<T>(rope.inverse ? -std::sin(angle) : std::sin(angle));
    }
  };
  if (lane.inputs[1]) {
    for (int64_t s = 0; s < rope.seq; ++s) row(s, lane.in<int64_t>(1)[s]);
  } else if (lane.shard) {
    int64_t s = 0;
    for (const Run& run : lane.owned_input(rope.counted, rope.seq_dim))
      for (int64_t i = 0; i < run.length; ++i) row(s++, run.start + i + rope.offset);
  } else {
    for (int64_t s = 0; s < rope.seq; ++s) row(s, s + rope.offset);
  }
}

template <typename T>
void turn(const Rope& rope, const LaneCall& lane) {
  T* table = reinterpret_cast<T*>(lane.scratch);
  // Without a shard or positions, all lanes use the table of the first.
  if (lane.lane == 0 || lane.shard || lane.inputs[1]) fill_table(rope, lane, table);
  const T* x = lane.in<T>(0);
  T* y = lane.out<T>(0);
  for (int64_t o = 0; o < rope.outer; ++o) {
    for (int64_t s = 0; s < rope.seq; ++s, x += 2 * rope.half, y += 2 * rope.half) {
      const T* angles = table + s * rope.half * 2;
      for (int64_t i = 0; i < rope.half; ++i) {
        T cosine = angles[2 * i], sine = angles[2 * i + 1];
        T first = x[i], second = x[i + rope.half];
        y[i] = first * cosine - second * sine;
        y[i + rope.half] = second * cosine + first * sine;
      }
    }
  }
}

Kernel prepare_rope(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  DType compute = compute_dtype(outputs[0].dtype);
  Rope rope = rope_of(call);
  LanePlan plan{{compute, DType::i64, compute}, {compute}, 0, {}};
  plan.inputs.resize(call.inputs.size());
  plan.scratch_bytes = rope.seq * rope.half * 2 * size_of(compute);
  plan.body = [rope, compute](const LaneCall& lane) {
    with_float(compute, [&](auto zero) { turn<decltype(zero)>(rope, lane); });
  };
  with_float(compute, [&](auto zero) {
    using Item = RopeItem<decltype(zero)>;
    const Item item{rope.seq, rope.half, rope.offset, call.attrs->number("base"), rope.inverse};
    plan.item = share_item(item);
    plan.item_of_part = [item, dim = rope.seq_dim,
                         counted = rope.counted](const LaneCall& lane) -> LaneItem {
      const std::optional<Run> own = single_run(lane.owned_input(counted, dim));
      if (!own) return {};
      return share_item(
          Item{item.seq, item.half, item.offset + own->start, item.base, item.inverse});
    };
    plan.items = rope.outer * rope.seq * rope.half;
  });
  return lane_kernel(plan, call, outputs);
}

std::vector<Strategy> rope_strategies(const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
  std::string names = letters(input_shape(call, 0).size());
  auto seq = names.size() - 2;
  FactorOptions options;
  options.whole = names.back();
  options.partials = joint_partial_rules({ReduceOp::sum, ReduceOp::avg}, {0});
  std::string positions = present(call, 1) ? names.substr(seq, 1) : "";
  if (positions.empty()) options.form_of[names[seq]] = LocalExecution::needs_shard_index;
  std::string notation = names + (call.inputs.size() > 1 ? "," + positions : "") +
                         (call.inputs.size() > 2 ? (present(call, kLike) ? "," + names : ",") : "");
  return factor_strategies(notation + "->" + names, options);
}

}  // namespace

void add_rope_ops(OpRegistry& ops) {
  OpRecord rope;
  rope.name = "rope";
  rope.family = "attention";
  rope.summary = "rotary position embedding of [..., heads, seq, head_dim], by halves";
  rope.params = {params::tensor("input"),           params::optional_tensor("positions"),
                 params::number("base", 10000.0),   params::integer("offset", 0),
                 params::boolean("inverse", false), params::optional_tensor("like")};
  rope.infer = infer_rope;
  rope.prepare = prepare_rope;
  // A rotation is undone by the opposite one.
  rope.gradient = gradients({[](Gradient& g) {
    Attrs attrs = *g.call.attrs;
    attrs.set("inverse", !g.flag("inverse"));
    const FormulaTerm like = g.has(kLike) ? g[kLike] : g[0];
    return g.op("rope", {g.dy(), g.has(1) ? g[1] : g.none(), g.has_known_sizes() ? g.none() : like},
                std::move(attrs));
  }});
  rope.rule.indexed_inputs = {kLike};
  rope.rule.strategies = rope_strategies;
  rope.cost = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    auto elements = static_cast<double>(element_count(outputs[0].shape));
    auto width = static_cast<double>(size_of(input_meta(call, 0).dtype));
    return OpCost{3 * elements, 2 * elements * width};
  };
  rope.samples = [] {
    auto sample = [](Dims shape, DType dtype, int64_t offset) {
      Sample made = sample_of({{shape}, dtype}, {{"base", 10000.0}, {"offset", offset}});
      made.inputs.push_back(absent_input());
      return made;
    };
    Sample placed = sample({2, 4, 4}, DType::f32, 0);
    placed.inputs[1] = {DType::i64, {4}};
    placed.fills = {"ints", "ints(0, 9)"};
    Sample placed_alike = sample({2, 4, 6}, DType::f32, 2);
    placed_alike.inputs.push_back({DType::f32, {2, 4, 6}});
    Sample turned_back = sample({3, 5, 4}, DType::f32, 1);
    turned_back.attrs.set("inverse", true);
    return std::vector<Sample>{sample({2, 3, 5, 4}, DType::f32, 0),
                               sample({4, 6, 2}, DType::bf16, 3),
                               sample({1, 1, 2}, DType::f64, 0),
                               placed,
                               placed_alike,
                               turned_back};
  };
  ops.add(std::move(rope));
}

}  // namespace shardproof
