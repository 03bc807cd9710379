// Registers slice (x[1:5]), select (x[2]), split, chunk, cat, stack, hstack, vstack: ops that cut
// or join tensors.
#include <algorithm>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/core/type_promotion.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/layout/layout_gradients.h"

namespace shardproof {
namespace {

using DimRange = SlicedDim;

std::vector<DimRange> ranges_of(const OpCall& call) {
  return slice_ranges(*call.attrs, input_shape(call, 0));
}

bool is_whole(const DimRange& range, int64_t size) {
  return range.start == 0 && range.step == 1 && range.count == size;
}

ViewLayout slice_view(const OpCall& call, const Dims& strides) {
  ViewLayout view;
  auto ranges = ranges_of(call);
  for (int d = 0; d < strides.size(); ++d) {
    const DimRange& range = ranges[static_cast<size_t>(d)];
    view.shape.push_back(range.count);
    view.strides.push_back(strides[d] * range.step);
    if (range.count > 0) view.offset += strides[d] * range.start;
  }
  return view;
}

// True for x[:count] if equal shards stay as long as the chunk rule makes them and only the last
// ones get shorter.
bool cuts_the_end(const DimRange& range, int64_t size, int64_t axis_size) {
  const auto chunk = [&](int64_t of) { return (of + axis_size - 1) / axis_size; };
  return range.start == 0 && range.step == 1 && range.count > 0 && range.count < size &&
         size % axis_size == 0 && chunk(range.count) == chunk(size);
}

std::vector<Strategy> slice_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                       int64_t axis_size) {
  const Dims& shape = input_shape(call, 0);
  std::string names = letters(shape.size());
  auto ranges = ranges_of(call);
  FactorOptions options;
  options.partials = mover_partial_rules({0});
  // A sliced dim may not be sharded, because its elements would move between ranks.
  std::string out = names;
  for (int d = 0; d < shape.size(); ++d) {
    auto at = static_cast<size_t>(d);
    if (!is_whole(ranges[at], shape[d])) names[at] = out[at] = '1';
  }
  std::vector<Strategy> strategies = factor_strategies(notation_of(names, out), options);
  for (int d = 0; d < shape.size(); ++d)
    if (cuts_the_end(ranges[static_cast<size_t>(d)], shape[d], axis_size))
      strategies.push_back(
          {{S(d)}, {S(d)}, LocalExecution::local_attrs, ShardLayout::even, axis_size});
  return strategies;
}

// Returns the attributes of a local slice: each rank keeps the beginning of its part.
Attrs slice_locally(const OpCall& call, const std::vector<Spec>& inputs,
                    const std::vector<Spec>& outputs, int64_t rank) {
  OpCall whole = call;
  whole.inputs[0].shape = inputs[0].shape();
  const std::vector<DimRange> ranges = ranges_of(whole);
  const Dims local = outputs[0].local_shape(rank);
  std::vector<int64_t> start, stop, step;
  for (int d = 0; d < local.size(); ++d) {
    const DimRange& range = ranges[static_cast<size_t>(d)];
    start.push_back(range.start);
    step.push_back(range.step);
    stop.push_back(range.start + local[d] * range.step);
  }
  return {{"start", start}, {"stop", stop}, {"step", step}};
}

// Returns the index as a position, 0 or more. The message states the size of the dim in the
// program.
int64_t select_index(const OpCall& call, int dim) {
  int64_t size = input_shape(call, 0)[dim], index = call.attrs->integer("index");
  if (index < -size || index >= size)
    refuse("select", call, "index {} is out of range for dim {} of size {}", index, dim, size);
  return index < 0 ? index + size : index;
}

int select_dim_of(const OpCall& call) { return dim_of("select", call, call.attrs->integer("dim")); }

ViewLayout select_view(const OpCall& call, const Dims& strides) {
  int dim = select_dim_of(call);
  ViewLayout view{select_index(call, dim) * strides[dim], input_shape(call, 0), strides};
  view.shape.erase(dim);
  view.strides.erase(dim);
  return view;
}

void add_slices(OpRegistry& ops) {
  OpRecord slice;
  slice.name = "slice";
  slice.infix = "[:]";
  slice.family = "view";
  slice.summary = "x[a:b, ..]: per leading dim a range start, stop (beyond the end: the end), step";
  slice.params = {params::tensor("input"), params::optional("start", ParamKind::integers),
                  params::optional("stop", ParamKind::integers),
                  params::optional("step", ParamKind::integers)};
  slice.infer = [](const OpCall& call) {
    Dims shape;
    for (const DimRange& range : ranges_of(call)) shape.push_back(range.count);
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, shape}};
  };
  make_view(slice, slice_view);
  slice.gradient = gradients({slice_gradient});
  slice.rule.strategies = slice_strategies;
  slice.rule.local_attrs = slice_locally;
  slice.samples = [] {
    using L = std::vector<int64_t>;
    Attrs rows{{"start", L{1}}, {"stop", L{4}}}, steps{{"start", L{0, 1}}, {"step", L{1, 2}}};
    Attrs tail{{"start", L{-2}}, {"stop", L{100}}}, none{{"start", L{3}}, {"stop", L{2}}};
    Attrs head{{"start", L{0}}, {"stop", L{11}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, rows), sample_of({{{5, 7}}}, steps),
                               sample_of({{{6, 4}}, DType::bf16}, tail),
                               sample_of({{{5, 3}}, DType::i64}, none),
                               sample_of({{{12, 2}}}, head)};
  };
  ops.add(std::move(slice));

  OpRecord select;
  select.name = "select";
  select.infix = "[]";
  select.family = "view";
  select.summary = "x[i]: one index of a dim, which is dropped";
  select.params = {params::tensor("input"), params::integer("dim"), params::integer("index")};
  select.infer = [](const OpCall& call) {
    Dims shape = input_shape(call, 0);
    int dim = select_dim_of(call);
    select_index(call, dim);
    shape.erase(dim);
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, shape}};
  };
  make_view(select, select_view);
  select.gradient = gradients({select_gradient});
  select.rule.strategies = [](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    std::string names = letters(input_shape(call, 0).size());
    auto dim = static_cast<size_t>(select_dim_of(call));
    std::string out = names.substr(0, dim) + names.substr(dim + 1);
    FactorOptions options;
    options.whole = names[dim];
    options.partials = mover_partial_rules({0});
    return factor_strategies(names + "->" + out, options);
  };
  select.samples = [] {
    Attrs last{{"dim", int64_t{1}}, {"index", int64_t{-1}}};
    Attrs first{{"dim", int64_t{0}}, {"index", int64_t{2}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, last), sample_of({{{4}}}, first),
                               sample_of({{{5, 2, 3}}, DType::bf16}, last)};
  };
  ops.add(std::move(select));
}

// Returns the sizes of the pieces of a dim.
using SizesFunction = std::function<std::vector<int64_t>(const OpCall&, int dim)>;

int piece_dim(std::string_view name, const OpCall& call) {
  return dim_of(name, call, call.attrs->integer("dim"));
}

void refuse_many(std::string_view name, const OpCall& call, int64_t pieces) {
  if (pieces > kMostPieces) refuse(name, call, "would give more than {} pieces", kMostPieces);
}

std::vector<int64_t> equal_sizes(std::string_view name, const OpCall& call, int64_t size,
                                 int64_t piece) {
  std::vector<int64_t> sizes;
  refuse_many(name, call, size / piece);
  for (int64_t at = 0; at < size; at += piece) sizes.push_back(std::min(piece, size - at));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

std::vector<int64_t> split_sizes(const OpCall& call, int dim) {
  int64_t size = input_shape(call, 0)[dim];
  auto given = integer_list(*call.attrs, "sizes");
  const auto& attrs = call.attrs->values();
  if (std::holds_alternative<int64_t>(attrs.find("sizes")->second)) {
    if (given[0] < 1) refuse("split", call, "the size must be at least 1, found {}", given[0]);
    return equal_sizes("split", call, size, given[0]);
  }
  int64_t sum = 0;
  for (int64_t piece : given) {
    if (piece < 0) refuse("split", call, "sizes must not be negative, found {}", piece);
    if (piece > size - sum)
      refuse("split", call, "the sizes add up to more than dim {} has, {}", dim, size);
    sum += piece;
  }
  if (sum != size) refuse("split", call, "the sizes add up to {}, dim {} has {}", sum, dim, size);
  return given;
}

std::vector<int64_t> chunk_sizes(const OpCall& call, int dim) {
  int64_t chunks = call.attrs->integer("chunks"), size = input_shape(call, 0)[dim];
  if (chunks < 1) refuse("chunk", call, "chunks must be at least 1, found {}", chunks);
  // Follows torch: pieces have ceil(size / chunks) elements; an empty dim gives `chunks` empty
  // ones.
  if (size == 0) {
    refuse_many("chunk", call, chunks);
    return std::vector<int64_t>(static_cast<size_t>(chunks), 0);
  }
  return equal_sizes("chunk", call, size, size / chunks + (size % chunks != 0 ? 1 : 0));
}

Kernel prepare_pieces(const OpCall& call, const std::vector<TensorMeta>& outputs, int dim) {
  BoxCopyPlan plan;
  const Dims& shape = input_shape(call, 0);
  plan.input_shapes = {shape};
  int64_t at = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Dims& piece = outputs[i].shape;
    Dims from = Dims::filled(shape.size(), 0), zero = from;
    from[dim] = at;
    plan.moves.push_back(
        {0, static_cast<int>(i), from, Dims::filled(shape.size(), 1), zero, piece});
    plan.output_shapes.push_back(piece);
    at += piece[dim];
  }
  return move_kernel(plan, outputs[0].dtype);
}

OpRecord pieces_record(const std::string& name, const SizesFunction& sizes) {
  OpRecord record;
  record.name = name;
  record.family = "view";
  record.infer = [name, sizes](const OpCall& call) {
    int dim = piece_dim(name, call);
    std::vector<TensorMeta> outputs;
    for (int64_t size : sizes(call, dim)) {
      outputs.push_back({input_meta(call, 0).dtype, input_shape(call, 0)});
      outputs.back().shape[dim] = size;
    }
    return outputs;
  };
  record.prepare = [name](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_pieces(call, outputs, piece_dim(name, call));
  };
  record.gradient = gradients({[name, sizes](Gradient& g) {
    const int dim = piece_dim(name, g.call);
    return pieces_gradient(g, static_cast<int>(sizes(g.call, dim).size()));
  }});
  record.rule.strategies = [name](const OpCall& call, const std::vector<TensorMeta>& outputs,
                                  int64_t) {
    std::string names = letters(input_shape(call, 0).size());
    names[static_cast<size_t>(piece_dim(name, call))] = '1';
    std::string notation = names + "->";
    for (size_t i = 0; i < outputs.size(); ++i) notation += (i > 0 ? "," : "") + names;
    FactorOptions options;
    options.partials = mover_partial_rules({0});
    return factor_strategies(notation, options);
  };
  return record;
}

void add_splits(OpRegistry& ops) {
  OpRecord split = pieces_record("split", split_sizes);
  split.summary = "cuts a dim into pieces of a size, or of the sizes listed";
  split.params = {params::tensor("input"), params::integers("sizes"), params::integer("dim", 0)};
  split.samples = [] {
    Attrs even{{"sizes", int64_t{2}}, {"dim", int64_t{0}}};
    Attrs listed{{"sizes", std::vector<int64_t>{1, 0, 4}}, {"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{5, 3}}}, even), sample_of({{{3, 5}}}, listed),
                               sample_of({{{4, 2}}, DType::bf16}, even)};
  };
  ops.add(std::move(split));

  OpRecord chunk = pieces_record("chunk", chunk_sizes);
  chunk.summary = "cuts a dim into pieces of ceil(size / chunks)";
  chunk.params = {params::tensor("input"), params::integer("chunks"), params::integer("dim", 0)};
  chunk.samples = [] {
    Attrs three{{"chunks", int64_t{3}}, {"dim", int64_t{0}}};
    Attrs last{{"chunks", int64_t{2}}, {"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{7, 3}}}, three), sample_of({{{2, 6}}}, last)};
  };
  ops.add(std::move(chunk));
}

// Returns the joined dim of cat or stack in a tensor of `dims` dims.
int join_dim(std::string_view name, const OpCall& call, int dims) {
  int64_t dim = call.attrs->integer("dim");
  if (dim < -dims || dim >= dims)
    refuse(name, call, "dim {} is out of range for {} dims", dim, dims);
  return static_cast<int>(dim < 0 ? dim + dims : dim);
}

// cat joins along a dim of the inputs, stack along a new one.
struct JoinOp {
  const char* name;
  bool adds_dim;
};

std::vector<Dims> joined_inputs(const JoinOp& op, const OpCall& call, int* dim) {
  const char* name = op.name;
  if (call.inputs.empty()) refuse(name, call, "needs at least one tensor");
  *dim = join_dim(name, call, input_shape(call, 0).size() + (op.adds_dim ? 1 : 0));
  std::vector<Dims> shapes;
  std::vector<int> all;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    Dims shape = call.inputs[i].shape;
    if (op.adds_dim) shape.insert(*dim, 1);
    Dims rest = shape, first = i == 0 ? shape : shapes[0];
    if (rest.size() == first.size()) rest[*dim] = first[*dim];
    if (!(rest == first))
      refuse(name, call, "input {} must have the sizes of the first on every dim but {}", i + 1,
             *dim);
    shapes.push_back(shape);
    all.push_back(static_cast<int>(i));
  }
  same_dtype(name, call, all);
  return shapes;
}

OpRecord join_record(const JoinOp& op) {
  OpRecord record;
  record.name = op.name;
  record.family = "view";
  record.params = {params::tensors("tensors"), params::integer("dim", 0)};
  record.gradient = gradient_together(op.adds_dim ? stack_gradient : cat_gradient);
  record.infer = [op](const OpCall& call) {
    int dim = 0;
    auto shapes = joined_inputs(op, call, &dim);
    Dims shape = shapes[0];
    shape[dim] = 0;
    for (const Dims& part : shapes) shape[dim] += part[dim];
    return std::vector<TensorMeta>{{call.inputs[0].dtype, shape}};
  };
  record.prepare = [op](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    int dim = 0;
    BoxCopyPlan plan;
    plan.input_shapes = joined_inputs(op, call, &dim);
    plan.output_shapes = {outputs[0].shape};
    Dims zero = Dims::filled(outputs[0].shape.size(), 0), to = zero;
    for (size_t i = 0; i < plan.input_shapes.size(); ++i) {
      plan.moves.push_back(
          {static_cast<int>(i), 0, zero, Dims::filled(zero.size(), 1), to, plan.input_shapes[i]});
      to[dim] += plan.input_shapes[i][dim];
    }
    return move_kernel(plan, outputs[0].dtype);
  };
  record.rule.strategies = [op](const OpCall& call, const std::vector<TensorMeta>& outputs,
                                int64_t) {
    int dim = 0;
    joined_inputs(op, call, &dim);
    std::string out = letters(outputs[0].shape.size()), in = out;
    out[static_cast<size_t>(dim)] = '1';
    in = out;
    if (op.adds_dim) in.erase(static_cast<size_t>(dim), 1);
    std::string notation;
    std::vector<int> all;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      notation += (i > 0 ? "," : "") + in;
      all.push_back(static_cast<int>(i));
    }
    FactorOptions options;
    options.partials = mover_partial_rules(all);
    return factor_strategies(notation_of(notation, out), options);
  };
  return record;
}

// Casts tensors of several dtypes to the one that holds them all, before joining.
void promote_tensors(OpRecord& record) {
  decompose_when(
      record,
      [](const OpCall& call) {
        return std::any_of(call.inputs.begin(), call.inputs.end(), [&](const TensorMeta& input) {
          return input.dtype != call.inputs[0].dtype;
        });
      },
      [name = record.name](Formula& f) {
        const DType common = result_dtype(f.call);
        std::vector<FormulaTerm> tensors;
        for (size_t i = 0; i < f.call.inputs.size(); ++i) {
          const FormulaTerm x = f[static_cast<int>(i)];
          tensors.push_back(x.dtype() == common ? x : f.to(common, x));
        }
        return std::vector<FormulaTerm>{f.joined(name.c_str(), tensors, f.integer("dim"))};
      });
}

// Returns the tensors, with leading dims of size 1 added up to `dims`.
std::vector<FormulaTerm> with_dims(Formula& f, int dims) {
  if (f.call.inputs.empty()) f.refuse("needs at least one tensor");
  std::vector<FormulaTerm> parts;
  for (size_t i = 0; i < f.call.inputs.size(); ++i) {
    FormulaTerm x = f[static_cast<int>(i)];
    while (x.dims() < dims) x = f.op("unsqueeze", {x}, {{"dim", int64_t{0}}});
    parts.push_back(x);
  }
  return parts;
}

std::vector<FormulaTerm> hstack(Formula& f) {
  const auto parts = with_dims(f, 1);
  return {f.joined("cat", parts, parts[0].dims() == 1 ? 0 : 1)};
}

void add_joins(OpRegistry& ops) {
  OpRecord cat = join_record({"cat", false});
  cat.summary = "joins tensors along a dim";
  cat.samples = [] {
    Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
    Sample mixed = sample_of({{{5, 3}, {2, 3}}}, rows);
    mixed.inputs[1].dtype = DType::i64;
    return std::vector<Sample>{sample_of({{{5, 3}, {2, 3}}}, rows),
                               sample_of({{{4, 1}, {4, 5}, {4, 0}}}, last),
                               sample_of({{{3, 2}, {3, 4}}, DType::bf16}, last), mixed};
  };
  promote_tensors(cat);
  ops.add(std::move(cat));

  OpRecord stack = join_record({"stack", true});
  stack.summary = "joins tensors along a new dim";
  stack.samples = [] {
    Attrs first{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{5, 3}, {5, 3}}}, first),
                               sample_of({{{4}, {4}, {4}}}, last)};
  };
  promote_tensors(stack);
  ops.add(std::move(stack));
  ops.add(formula({"hstack", "view", "joins along dim 1; 1-d tensors along dim 0"},
                  {params::tensors("tensors")}, hstack,
                  {f32_sample({{5, 3}, {5, 2}}), f32_sample({{2}, {3}})}));
  ops.add(formula(
      {"vstack", "view", "joins along dim 0; 1-d tensors as rows"}, {params::tensors("tensors")},
      [](Formula& f) { return std::vector<FormulaTerm>{f.joined("cat", with_dims(f, 2), 0)}; },
      {f32_sample({{5, 3}, {2, 3}}), f32_sample({{3}, {3}})}));
}

}  // namespace

void add_slice_cat_ops(OpRegistry& ops) {
  add_slices(ops);
  add_splits(ops);
  add_joins(ops);
}

}  // namespace shardproof
