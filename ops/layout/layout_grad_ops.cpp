// Registers reshape_as, slice_grad, cat_grad and split_repeats. They are the backward of reshape,
// slice, cat and repeat inside `as`, where sizes are not known before the ranks run. Each reads
// only the shapes of these inputs. If sizes are known, layout_gradients.h emits reshape, pad and
// split.
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"
#include "shardproof/ops/layout/layout_gradients.h"

namespace shardproof {
namespace {

OpRecord layout_record(const char* name, const char* summary, std::vector<Param> params) {
  OpRecord record;
  record.name = name;
  record.family = "view";
  record.summary = summary;
  record.params = std::move(params);
  return record;
}

// Copies the elements of the first input in row-major order.
Kernel copy_elements(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  const Dims flat{element_count(input_shape(call, 0))};
  BoxCopyPlan plan;
  plan.moves = {{0, 0, zeros(1), ones(1), zeros(1), flat}};
  plan.input_shapes = {flat, {element_count(input_shape(call, 1))}};
  plan.output_shapes = {flat};
  return move_kernel(plan, outputs[0].dtype);
}

OpRecord reshape_as_record() {
  OpRecord record = layout_record("reshape_as", "x with the shape of other",
                                  {params::tensor("x"), params::tensor("other")});
  record.infer = [](const OpCall& call) {
    const Dims &shape = input_shape(call, 0), &other = input_shape(call, 1);
    if (element_count(shape) != element_count(other))
      refuse("reshape_as", call, "{} elements do not fill the shape {}", element_count(shape),
             to_string(other));
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, other}};
  };
  record.prepare = copy_elements;
  record.gradient = gradients({[](Gradient& g) {
                                 return g.op("reshape_as", {g.dy(), g[0]});
                               },
                               nullptr});
  record.samples = [] {
    return std::vector<Sample>{sample_of({{{4, 6}, {3, 8}}}),
                               sample_of({{{6}, {2, 3}}, DType::bf16})};
  };
  return record;
}

OpRecord slice_grad_record() {
  OpRecord record = layout_record(
      "slice_grad", "dy in the range of a slice of x, 0 elsewhere",
      {params::tensor("dy"), params::tensor("x"), params::optional("start", ParamKind::integers),
       params::optional("stop", ParamKind::integers),
       params::optional("step", ParamKind::integers)});
  record.infer = [](const OpCall& call) {
    Dims sliced;
    for (const SlicedDim& range : slice_ranges(*call.attrs, input_shape(call, 1)))
      sliced.push_back(range.count);
    if (!(sliced == input_shape(call, 0)))
      refuse("slice_grad", call, "dy must have the shape of the slice, {}", to_string(sliced));
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, input_shape(call, 1)}};
  };
  record.prepare = [](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const Dims &dy = input_shape(call, 0), &x = input_shape(call, 1);
    Dims to, spread;
    for (const SlicedDim& range : slice_ranges(*call.attrs, x)) {
      to.push_back(range.count > 0 ? range.start : 0);
      spread.push_back(range.step);
    }
    BoxCopyPlan plan;
    plan.moves = {{0, 0, zeros(dy.size()), ones(dy.size()), to, dy, spread}};
    plan.input_shapes = {dy, x};
    plan.output_shapes = {x};
    plan.fills = true;
    return move_kernel(plan, outputs[0].dtype);
  };
  record.gradient =
      gradients({[](Gradient& g) { return g.op("slice", {g.dy()}, *g.call.attrs); }, nullptr});
  record.samples = [] {
    const Attrs rows{{"start", IntegerList{1}}, {"stop", IntegerList{4}}};
    const Attrs tail{{"start", IntegerList{0, -2}}, {"stop", IntegerList{100, 100}}};
    const Attrs steps{{"start", IntegerList{0, 1}}, {"step", IntegerList{2, 3}}};
    return std::vector<Sample>{sample_of({{{3, 3}, {5, 3}}}, rows),
                               sample_of({{{4, 2}, {4, 6}}, DType::bf16}, tail),
                               sample_of({{{3, 2}, {5, 7}}}, steps)};
  };
  return record;
}

// Example: y = repeat(x, [3, 2]) of x [4, 5] has dy [12, 10], which becomes [3, 4, 2, 5].
OpRecord split_repeats_record() {
  OpRecord record = layout_record(
      "split_repeats", "the result of repeat(x, repeats), with dims [repeats, size of x]",
      {params::tensor("y"), params::tensor("x"), params::integers("repeats")});
  record.infer = [](const OpCall& call) {
    const Dims& shape = input_shape(call, 1);
    const IntegerList repeats = integer_list(*call.attrs, "repeats");
    if (static_cast<int>(repeats.size()) < shape.size())
      refuse("split_repeats", call, "expected at least one repeat per dim, found {} for {} dims",
             repeats.size(), shape.size());
    const SplitRepeats split = split_of_repeats(repeats, shape.size());
    Dims result, whole = Dims(repeats);
    for (const SplitRepeats::Part& part : split.parts) {
      if (!part.is_count) whole[whole.size() - shape.size() + part.at] *= shape[part.at];
      result.push_back(part.is_count ? repeats[static_cast<size_t>(part.at)] : shape[part.at]);
    }
    if (!(whole == input_shape(call, 0)))
      refuse("split_repeats", call, "y must have the shape of repeat(x, repeats), {}",
             to_string(whole));
    return std::vector<TensorMeta>{{input_meta(call, 0).dtype, result}};
  };
  record.prepare = copy_elements;
  record.gradient = gradients({[](Gradient& g) {
                                 return g.op("reshape_as", {g.dy(), g[0]});
                               },
                               nullptr});
  record.samples = [] {
    const Attrs rows{{"repeats", IntegerList{2, 1}}}, deep{{"repeats", IntegerList{2, 1, 3}}};
    return std::vector<Sample>{sample_of({{{10, 3}, {5, 3}}}, rows),
                               sample_of({{{2, 4, 6}, {4, 2}}, DType::bf16}, deep)};
  };
  return record;
}

OpRecord cat_grad_record() {
  OpRecord record =
      layout_record("cat_grad", "the first tensor, cut into pieces shaped as the others",
                    {params::tensors("tensors"), params::integer("dim", 0)});
  const auto dim_of_call = [](const OpCall& call) {
    return dim_of("cat_grad", call, call.attrs->integer("dim"));
  };
  record.infer = [dim_of_call](const OpCall& call) {
    const int dim = dim_of_call(call);
    const Dims& whole = input_shape(call, 0);
    std::vector<TensorMeta> pieces;
    int64_t size = 0;
    bool fits = true;
    for (int i = 1; i < static_cast<int>(call.inputs.size()); ++i) {
      const Dims& piece = input_shape(call, i);
      Dims widened = piece;
      if (piece.size() == whole.size()) widened[dim] = whole[dim];
      fits = fits && widened == whole;
      size += fits ? piece[dim] : 0;
      pieces.push_back({input_meta(call, 0).dtype, piece});
    }
    if (pieces.empty() || !fits || size != whole[dim])
      refuse("cat_grad", call, "the first tensor must have the shape of the others joined");
    return pieces;
  };
  record.prepare = [dim_of_call](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    const int dim = dim_of_call(call);
    BoxCopyPlan plan;
    for (const TensorMeta& input : call.inputs) plan.input_shapes.push_back(input.shape);
    Dims from = zeros(plan.input_shapes[0].size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Dims& piece = outputs[i].shape;
      plan.moves.push_back(
          {0, static_cast<int>(i), from, ones(piece.size()), zeros(piece.size()), piece});
      plan.output_shapes.push_back(piece);
      from[dim] += piece[dim];
    }
    return move_kernel(plan, outputs[0].dtype);
  };
  record.gradient = gradient_together([](Gradient& g) {
    FormulaTerms pieces, results;
    for (size_t i = 1; i < g.call.inputs.size(); ++i)
      pieces.push_back(g.dy(static_cast<int>(i) - 1));
    results.push_back(g.joined("cat", pieces, g.dim()));
    results.resize(g.call.inputs.size(), g.none());
    return results;
  });
  record.samples = [] {
    const Attrs rows{{"dim", int64_t{0}}}, last{{"dim", int64_t{-1}}};
    return std::vector<Sample>{sample_of({{{7, 3}, {5, 3}, {2, 3}}}, rows),
                               sample_of({{{4, 6}, {4, 1}, {4, 5}}, DType::bf16}, last)};
  };
  return record;
}

}  // namespace

void add_layout_grad_ops(OpRegistry& ops) {
  ops.add(reshape_as_record());
  ops.add(slice_grad_record());
  ops.add(cat_grad_record());
  ops.add(split_repeats_record());
}

}  // namespace shardproof
