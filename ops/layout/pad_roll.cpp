// Registers pad, flip, roll, repeat: ops that shift or repeat elements. pad with a mode (reflect,
// replicate, circular) decomposes into index_select.
#include <algorithm>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/layout/layout_gradients.h"

namespace shardproof {
namespace {

// Returns the strategies of an op that keeps its shape but mixes the elements of some dims: those
// stay whole.
std::vector<Strategy> keep_dims(int dims, const std::vector<bool>& mixed,
                                const std::vector<PartialPropagation>& linear) {
  std::string names = letters(dims);
  for (int d = 0; d < dims; ++d)
    if (mixed[static_cast<size_t>(d)]) names[static_cast<size_t>(d)] = '1';
  FactorOptions options;
  options.partials = linear;
  return factor_strategies(notation_of(names, names), options);
}

constexpr int64_t kMostPadding = int64_t{1} << 40;

// Numbers of entries before and after each dim. The attribute lists pairs from the last dim on, as
// in torch.
struct Padding {
  Dims before, after;
};

Padding padding_of(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  auto pad = integer_list(*call.attrs, "pad");
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size()) > 2 * shape.size())
    refuse("pad", call, "expected two numbers per padded dim, {} dims at most, found {} numbers",
           shape.size(), pad.size());
  Padding padding{zeros(shape.size()), zeros(shape.size())};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int d = shape.size() - 1 - static_cast<int>(i);
    padding.before[d] = pad[2 * i];
    padding.after[d] = pad[2 * i + 1];
    for (const int64_t entries : {pad[2 * i], pad[2 * i + 1]})
      if (entries > kMostPadding || entries < -kMostPadding)
        refuse("pad", call, "at most 2^40 entries per side, found {}", entries);
    const int64_t removed =
        -std::min<int64_t>(0, pad[2 * i]) - std::min<int64_t>(0, pad[2 * i + 1]);
    if (removed > shape[d])
      refuse("pad", call, "[{}, {}] removes {} entries of dim {}, which has {}", pad[2 * i],
             pad[2 * i + 1], removed, d, shape[d]);
  }
  return padding;
}

Dims padded_shape(const OpCall& call) {
  Padding padding = padding_of(call);
  Dims shape = input_shape(call, 0);
  for (int d = 0; d < shape.size(); ++d) shape[d] += padding.before[d] + padding.after[d];
  return shape;
}

Kernel prepare_pad(const OpCall& call, const std::vector<TensorMeta>& outputs, double fill) {
  Padding padding = padding_of(call);
  const Dims& shape = input_shape(call, 0);
  BoxCopy move{0, 0, zeros(shape.size()), ones(shape.size()), zeros(shape.size()), shape};
  for (int d = 0; d < shape.size(); ++d) {  // negative padding removes entries
    move.from[d] = std::max<int64_t>(0, -padding.before[d]);
    move.to[d] = std::max<int64_t>(0, padding.before[d]);
    int64_t end = shape[d] + std::min<int64_t>(0, padding.after[d]);
    move.extent[d] = std::max<int64_t>(0, end - move.from[d]);
  }
  BoxCopyPlan plan{{move}, {shape}, {outputs[0].shape}, true, fill};
  return move_kernel(plan, outputs[0].dtype);
}

std::vector<Strategy> pad_strategies(const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
  Padding padding = padding_of(call);
  std::vector<bool> mixed;
  for (int d = 0; d < padding.before.size(); ++d)
    mixed.push_back(padding.before[d] != 0 || padding.after[d] != 0);
  // Every rank adds the fill, so the fill must reduce to itself.
  double value = call.attrs->number("value");
  std::vector<ReduceOp> ops = {ReduceOp::min, ReduceOp::max, ReduceOp::band, ReduceOp::bor};
  if (value == 0)
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod, ReduceOp::bxor})
      ops.push_back(op);
  if (value == 1) ops.push_back(ReduceOp::prod);
  return keep_dims(padding.before.size(), mixed, joint_partial_rules(ops, {0}));
}

// Returns, for each entry of a padded dim, the input entry that the mode repeats there. Like torch,
// 'circular' first removes the entries of a negative padding.
std::vector<int64_t> sources(Formula& f, const std::string& mode, int64_t size, int64_t before,
                             int64_t after) {
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t rest =
      size - first - std::max<int64_t>(0, -after);  // entries that 'circular' wraps
  const int64_t most = mode == "reflect" ? size - 1 : mode == "circular" ? rest : size;
  if (size < 1 || (mode != "replicate" && std::max(before, after) > most))
    f.refuse("padding of {} and {} by '{}' needs more than {} entries", before, after, mode, size);
  std::vector<int64_t> index;
  for (int64_t i = -before; i < size + after; ++i) {
    if (mode == "replicate") index.push_back(std::clamp<int64_t>(i, 0, size - 1));
    if (mode == "circular") index.push_back(first + (i - first + 2 * rest) % rest);
    if (mode == "reflect") index.push_back(i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i);
  }
  return index;
}

// Adds the parameter `mode`: pad(x, [1, 1], 'reflect'); 'constant' is the plain pad.
void take_modes(OpRecord& pad) {
  pad.params.insert(pad.params.begin() + 2, params::optional("mode", ParamKind::number_or_text));
  decompose_when(
      pad, [](const OpCall& call) { return call.attrs->has("mode"); },
      [](Formula& f) {
        const AttrValue given = f.call.attrs->values().find("mode")->second;
        Attrs plain = *f.call.attrs;
        plain.set("mode", std::monostate{});
        const auto* mode = std::get_if<std::string>(&given);
        if (!mode) plain.set("value", given);  // pad(x, [1, 1], 2.5)
        FormulaTerm x = f[0];
        if (!mode || *mode == "constant") return std::vector<FormulaTerm>{f.op("pad", {x}, plain)};
        if (*mode != "reflect" && *mode != "replicate" && *mode != "circular")
          f.refuse("mode must be 'constant', 'reflect', 'replicate' or 'circular', found '{}'",
                   *mode);
        const Padding padding = padding_of(f.call);
        for (int d = 0; d < x.dims(); ++d) {
          if (padding.before[d] == 0 && padding.after[d] == 0) continue;
          const auto index = sources(f, *mode, x.shape()[d], padding.before[d], padding.after[d]);
          x = f.op("index_select", {x, FormulaTerm{}}, {{"dim", int64_t{d}}, {"index", index}});
        }
        return std::vector<FormulaTerm>{x};
      });
}

void add_pad(OpRegistry& ops) {
  OpRecord pad;
  pad.name = "pad";
  pad.family = "view";
  pad.summary =
      "adds a value around the edges: two numbers per dim from the last dim on; negative ones "
      "remove";
  pad.params = {params::tensor("input"), params::integers("pad"), params::number("value", 0.0)};
  pad.infer = [](const OpCall& call) {
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, padded_shape(call)}};
  };
  pad.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_pad(call, outputs, call.attrs->number("value"));
  };
  pad.rule.strategies = pad_strategies;
  pad.gradient = gradients({pad_gradient});
  pad.samples = [] {
    using L = std::vector<int64_t>;
    Attrs last{{"pad", L{1, 2}}, {"value", 0.0}}, both{{"pad", L{-1, 1, 0, 3}}, {"value", 1.5}};
    Attrs wrapped{{"pad", L{-1, 2, 1, 0}}, {"mode", std::string("circular")}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, last), sample_of({{{2, 3}}}, both),
                               sample_of({{{4, 2}}, DType::bf16}, last),
                               sample_of({{{2, 3}}}, wrapped)};
  };
  take_modes(pad);
  ops.add(std::move(pad));
}

std::vector<bool> flipped_dims(const OpCall& call) {
  std::vector<bool> flipped(static_cast<size_t>(input_shape(call, 0).size()));
  for (int64_t d : integer_list(*call.attrs, "dims"))
    flipped[static_cast<size_t>(dim_of("flip", call, d))] = true;
  return flipped;
}

void same_shape_infer(OpRecord& record, std::function<void(const OpCall&)> check) {
  record.infer = [check](const OpCall& call) {
    check(call);
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, input_shape(call, 0)}};
  };
}

void add_flip(OpRegistry& ops) {
  OpRecord flip;
  flip.name = "flip";
  flip.family = "view";
  flip.summary = "reverses the order along dims";
  flip.params = {params::tensor("input"), params::integers("dims")};
  same_shape_infer(flip, [](const OpCall& call) { flipped_dims(call); });
  flip.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const Dims& shape = input_shape(call, 0);
    BoxCopy move{0, 0, zeros(shape.size()), ones(shape.size()), zeros(shape.size()), shape};
    auto flipped = flipped_dims(call);
    for (int d = 0; d < shape.size(); ++d) {
      if (!flipped[static_cast<size_t>(d)] || shape[d] == 0) continue;
      move.from[d] = shape[d] - 1;
      move.step[d] = -1;
    }
    return move_kernel({{move}, {shape}, {shape}, false, 0}, outputs[0].dtype);
  };
  flip.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return keep_dims(input_shape(call, 0).size(), flipped_dims(call), mover_partial_rules({0}));
  };
  flip.gradient = gradients({[](Gradient& g) { return g.op("flip", {g.dy()}, *g.call.attrs); }});
  flip.samples = [] {
    Attrs rows{{"dims", std::vector<int64_t>{0}}}, all{{"dims", std::vector<int64_t>{0, -1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, rows), sample_of({{{2, 3}}}, all)};
  };
  accept_scalar_input(flip);
  ops.add(std::move(flip));
}

// Number of positions that each dim is rolled by, from 0 to its size. Without dims the flat tensor
// is rolled: the shape is then a single dim.
struct Roll {
  Dims shape, by;
};

Roll roll_of(const OpCall& call) {
  const Dims& shape = input_shape(call, 0);
  auto shifts = integer_list(*call.attrs, "shifts");
  bool flat = !call.attrs->has("dims") || integer_list(*call.attrs, "dims").empty();
  auto dims = flat ? std::vector<int64_t>{0} : integer_list(*call.attrs, "dims");
  if (shifts.size() != dims.size())
    refuse("roll", call, "expected one shift per dim, found {} for {} dims", shifts.size(),
           dims.size());
  Roll roll{flat ? Dims{element_count(shape)} : shape, {}};
  roll.by = zeros(roll.shape.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    int d = flat ? 0 : dim_of("roll", call, dims[i]);
    int64_t size = roll.shape[d];
    if (size > 0) roll.by[d] = ((roll.by[d] + shifts[i] % size) % size + size) % size;
  }
  return roll;
}

Kernel prepare_roll(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  Roll roll = roll_of(call);
  int dims = roll.shape.size();
  BoxCopyPlan plan{{}, {roll.shape}, {roll.shape}, false, 0};
  for (int64_t corner = 0; corner < (int64_t{1} << dims); ++corner) {
    BoxCopy move{0, 0, zeros(dims), ones(dims), zeros(dims), roll.shape};
    bool empty = false;
    for (int d = 0; d < dims; ++d) {
      bool wraps = (corner >> d) & 1;
      int64_t by = roll.by[d];
      move.from[d] = wraps ? roll.shape[d] - by : 0;
      move.to[d] = wraps ? 0 : by;
      move.extent[d] = wraps ? by : roll.shape[d] - by;
      empty = empty || move.extent[d] == 0;
    }
    if (!empty) plan.moves.push_back(move);
  }
  return move_kernel(plan, outputs[0].dtype);
}

void add_roll(OpRegistry& ops) {
  OpRecord roll;
  roll.name = "roll";
  roll.family = "view";
  roll.summary = "shifts the elements along dims, wrapping around; without dims the flat tensor";
  roll.params = {params::tensor("input"), params::integers("shifts"),
                 params::optional("dims", ParamKind::integers)};
  same_shape_infer(roll, [](const OpCall& call) { roll_of(call); });
  roll.prepare = prepare_roll;
  roll.gradient = gradients({roll_gradient});
  roll.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    int dims = input_shape(call, 0).size();
    roll_of(call);
    bool flat = !call.attrs->has("dims") || integer_list(*call.attrs, "dims").empty();
    std::vector<bool> mixed(static_cast<size_t>(dims), flat);
    if (!flat) {
      // A full roll of the dim is not a full roll of a shard, so only shifts of 0 let a dim be
      // sharded.
      auto shifts = integer_list(*call.attrs, "shifts"), turned = integer_list(*call.attrs, "dims");
      for (size_t i = 0; i < turned.size(); ++i)
        if (shifts[i] != 0) mixed[static_cast<size_t>(dim_of("roll", call, turned[i]))] = true;
    }
    return keep_dims(dims, mixed, mover_partial_rules({0}));
  };
  roll.samples = [] {
    Attrs flat{{"shifts", int64_t{2}}};
    Attrs dims{{"shifts", std::vector<int64_t>{1, -1}}, {"dims", std::vector<int64_t>{0, 1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, flat), sample_of({{{2, 3, 4}}}, dims)};
  };
  accept_scalar_input(roll);
  ops.add(std::move(roll));
}

// The input's shape with leading 1s, and the number of copies of each dim.
struct Repeat {
  Dims shape, times;
};

Repeat repeat_of(const OpCall& call) {
  auto repeats = integer_list(*call.attrs, "repeats");
  Repeat repeat{input_shape(call, 0), {}};
  if (static_cast<int>(repeats.size()) < repeat.shape.size())
    refuse("repeat", call, "expected at least one repeat per dim, found {} for {} dims",
           repeats.size(), repeat.shape.size());
  if (repeats.size() > kMaxDims)
    refuse("repeat", call, "the result would have more than {} dims", kMaxDims);
  while (repeat.shape.size() < static_cast<int>(repeats.size())) repeat.shape.insert(0, 1);
  constexpr double kMostCopies = 1 << 22;
  double copies = 1;
  for (int64_t times : repeats) {
    if (times < 0) refuse("repeat", call, "repeats must not be negative, found {}", times);
    repeat.times.push_back(times);
    copies *= static_cast<double>(times);
  }
  if (copies > kMostCopies)
    refuse("repeat", call, "expected at most {:.0f} copies of the input, found {:.0f}", kMostCopies,
           copies);
  return repeat;
}

void add_repeat(OpRegistry& ops) {
  OpRecord repeat;
  repeat.name = "repeat";
  repeat.family = "view";
  repeat.summary = "repeats the tensor along each dim";
  repeat.params = {params::tensor("input"), params::integers("repeats")};
  repeat.infer = [](const OpCall& call) {
    Repeat how = repeat_of(call);
    for (int d = 0; d < how.shape.size(); ++d) how.shape[d] *= how.times[d];
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, how.shape}};
  };
  repeat.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    Repeat how = repeat_of(call);
    int dims = how.shape.size();
    BoxCopyPlan plan{{}, {how.shape}, {outputs[0].shape}, false, 0};
    for (int64_t copy = 0; copy < element_count(how.times); ++copy) {
      Dims to = unravel(copy, how.times);
      for (int d = 0; d < dims; ++d) to[d] *= how.shape[d];
      plan.moves.push_back({0, 0, zeros(dims), ones(dims), to, how.shape});
    }
    return move_kernel(plan, outputs[0].dtype);
  };
  repeat.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    Repeat how = repeat_of(call);
    int dims = input_shape(call, 0).size();
    std::string names = letters(dims);
    std::string out(static_cast<size_t>(how.shape.size() - dims), '1');
    for (int d = 0; d < dims; ++d) {
      if (how.times[how.shape.size() - dims + d] != 1) names[static_cast<size_t>(d)] = '1';
      out += names[static_cast<size_t>(d)];
    }
    FactorOptions options;
    options.partials = mover_partial_rules({0});
    return factor_strategies(notation_of(names, out), options);
  };
  repeat.gradient = gradients({repeat_gradient});
  repeat.samples = [] {
    Attrs rows{{"repeats", std::vector<int64_t>{2, 1}}};
    Attrs deep{{"repeats", std::vector<int64_t>{2, 1, 3}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, rows), sample_of({{{4, 2}}}, deep)};
  };
  ops.add(std::move(repeat));
}

}  // namespace

void add_pad_roll_ops(OpRegistry& ops) {
  add_pad(ops);
  add_flip(ops);
  add_roll(ops);
  add_repeat(ops);
}

}  // namespace shardproof
