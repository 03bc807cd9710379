// Implements layout_gradients.h. Padding with zeros is the backward of a slice, a slice that of
// padding, and a sum that of a repetition.
#include "shardproof/ops/layout/layout_gradients.h"

#include <algorithm>
#include <limits>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

IntegerList list_of_sizes(const Dims& shape) { return {shape.begin(), shape.end()}; }

FormulaTerm with_shape(Gradient& g, const FormulaTerm& x, const IntegerList& shape) {
  return g.op("reshape", {x}, {{"shape", shape}});
}

// A stop that means the end of every dim.
constexpr int64_t kWholeDim = std::numeric_limits<int64_t>::max();

int64_t clamped_index(int64_t at, int64_t size) {
  return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
}

// Adds zeros before and after each dim (negative: removes entries).
FormulaTerm padded(Gradient& g, const FormulaTerm& x, const IntegerList& before,
                   const IntegerList& after) {
  IntegerList pad;
  for (size_t d = before.size(); d-- > 0;) {
    pad.push_back(before[d]);
    pad.push_back(after[d]);
  }
  while (!pad.empty() && pad.back() == 0 && pad[pad.size() - 2] == 0) pad.resize(pad.size() - 2);
  if (pad.empty()) return x;
  return g.op("pad", {x}, {{"pad", pad}, {"value", 0.0}});
}

}  // namespace

std::vector<SlicedDim> slice_ranges(const Attrs& attrs, const Dims& shape) {
  const auto list = [&](const char* name) {
    return attrs.has(name) ? integer_list(attrs, name) : IntegerList{};
  };
  const IntegerList start = list("start"), stop = list("stop"), step = list("step");
  for (const IntegerList* given : {&start, &stop, &step})
    if (static_cast<int>(given->size()) > shape.size())
      throw_bad_input("slice of {}: found {} ranges for {} dims", to_string(shape), given->size(),
                      shape.size());
  std::vector<SlicedDim> ranges;
  for (int d = 0; d < shape.size(); ++d) {
    const auto at = static_cast<size_t>(d);
    SlicedDim range;
    range.start = at < start.size() ? clamped_index(start[at], shape[d]) : 0;
    const int64_t end = at < stop.size() ? clamped_index(stop[at], shape[d]) : shape[d];
    range.step = at < step.size() ? step[at] : 1;
    if (range.step < 1)
      throw_bad_input("slice of {}: expected a step of 1 or more, found {}{}", to_string(shape),
                      range.step, range.step == -1 ? fmt::format("; write flip(x, [{}])", d) : "");
    range.count = end <= range.start ? 0 : (end - range.start - 1) / range.step + 1;
    ranges.push_back(range);
  }
  return ranges;
}

SplitRepeats split_of_repeats(const IntegerList& repeats, int dims) {
  const int lead = static_cast<int>(repeats.size()) - dims;
  SplitRepeats split;
  for (int d = 0; d < static_cast<int>(repeats.size()); ++d) {
    if (repeats[static_cast<size_t>(d)] != 1 || d < lead) {
      split.summed.push_back(std::ssize(split.parts));
      split.parts.push_back({true, d});
    }
    if (d >= lead) split.parts.push_back({false, d - lead});
  }
  return split;
}

FormulaTerm permute_gradient(Gradient& g) {
  const IntegerList dims = integer_list(*g.call.attrs, "dims");
  IntegerList back(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t from = dims[d] < 0 ? dims[d] + static_cast<int64_t>(dims.size()) : dims[d];
    back[static_cast<size_t>(from)] = static_cast<int64_t>(d);
  }
  return g.op("permute", {g.dy()}, {{"dims", back}});
}

FormulaTerm squeeze_gradient(Gradient& g) {
  if (!g.has_known_sizes()) return g.op("reshape_as", {g.dy(), g[0]});
  const Dims &from = g[0].shape(), &to = g.dy().shape();
  std::vector<bool> named(static_cast<size_t>(from.size()), !g.given("dim"));
  if (g.given("dim"))
    for (const int64_t d : integer_list(*g.call.attrs, "dim"))
      if (!from.empty()) named[static_cast<size_t>(d < 0 ? d + from.size() : d)] = true;
  FormulaTerm x = g.dy();
  if (from.size() == to.size()) return x;
  for (int d = 0; d < from.size(); ++d)
    if (from[d] == 1 && named[static_cast<size_t>(d)])
      x = g.op("unsqueeze", {x}, {{"dim", int64_t{d}}});
  return x;
}

FormulaTerm unsqueeze_gradient(Gradient& g) {
  const int64_t dim = g.integer("dim");
  return g.op("squeeze", {g.dy()}, {{"dim", IntegerList{dim < 0 ? dim + g.dy().dims() : dim}}});
}

// The wrapper of a gradient sums over the dims along which the input was repeated.
FormulaTerm expand_gradient(Gradient& g) { return g.dy(); }

FormulaTerm reshape_gradient(Gradient& g) {
  if (!g.has_known_sizes()) return g.op("reshape_as", {g.dy(), g[0]});
  return with_shape(g, g.dy(), list_of_sizes(g[0].shape()));
}

FormulaTerm slice_gradient(Gradient& g) {
  if (!g.has_known_sizes()) return g.op("slice_grad", {g.dy(), g[0]}, *g.call.attrs);
  const Dims& shape = g[0].shape();
  const std::vector<SlicedDim> ranges = slice_ranges(*g.call.attrs, shape);
  FormulaTerm x = g.dy();
  IntegerList before, after;
  for (int d = 0; d < shape.size(); ++d) {
    const SlicedDim& range = ranges[static_cast<size_t>(d)];
    const bool spread = range.step != 1 && range.count > 1;
    before.push_back(spread ? 0 : range.count == 0 ? shape[d] : range.start);
    after.push_back(spread || range.count == 0 ? 0 : shape[d] - range.start - range.count);
    if (!spread) continue;
    IntegerList index;
    for (int64_t i = 0; i < range.count; ++i) index.push_back(range.start + i * range.step);
    x = g.op("index_sum", {x, g.none()},
             {{"dim", int64_t{d}}, {"index", index}, {"size", shape[d]}});
  }
  return padded(g, x, before, after);
}

FormulaTerm select_gradient(Gradient& g) {
  if (!g.has_known_sizes()) {
    const auto dim = static_cast<size_t>(g.dim());
    const int64_t index = g.integer("index");
    IntegerList start(dim + 1, 0), stop(dim + 1, kWholeDim);
    start[dim] = index;
    if (index != -1) stop[dim] = index + 1;
    const FormulaTerm row = g.op("unsqueeze", {g.dy()}, {{"dim", static_cast<int64_t>(dim)}});
    return g.op("slice_grad", {row, g[0]}, {{"start", start}, {"stop", stop}});
  }
  const Dims& shape = g[0].shape();
  const int dim = g.dim();
  const int64_t index = g.integer("index") + (g.integer("index") < 0 ? shape[dim] : 0);
  IntegerList before(static_cast<size_t>(shape.size()), 0), after = before;
  before[static_cast<size_t>(dim)] = index;
  after[static_cast<size_t>(dim)] = shape[dim] - index - 1;
  return padded(g, g.op("unsqueeze", {g.dy()}, {{"dim", int64_t{dim}}}), before, after);
}

FormulaTerm pieces_gradient(Gradient& g, int count) {
  FormulaTerms pieces;
  for (int o = 0; o < count; ++o) pieces.push_back(g.dy(o));
  return pieces.size() == 1 ? pieces[0] : g.joined("cat", pieces, g.dim());
}

FormulaTerm pad_gradient(Gradient& g) {
  IntegerList pad = integer_list(*g.call.attrs, "pad");
  for (int64_t& entries : pad) entries = -entries;
  return g.op("pad", {g.dy()}, {{"pad", pad}, {"value", 0.0}});
}

FormulaTerm roll_gradient(Gradient& g) {
  Attrs attrs = *g.call.attrs;
  IntegerList shifts = integer_list(attrs, "shifts");
  for (int64_t& shift : shifts) shift = -shift;
  attrs.set("shifts", shifts);
  return g.op("roll", {g.dy()}, attrs);
}

// Splits each repeated dim into [times, size] and sums over the times.
FormulaTerm repeat_gradient(Gradient& g) {
  const IntegerList repeats = integer_list(*g.call.attrs, "repeats");
  const SplitRepeats split = split_of_repeats(repeats, g[0].dims());
  if (split.summed.empty()) return g.dy();
  if (!g.has_known_sizes())
    return g.op("sum", {g.op("split_repeats", {g.dy(), g[0]}, *g.call.attrs)},
                {{"dim", split.summed}});
  IntegerList sizes;
  for (const SplitRepeats::Part& part : split.parts)
    sizes.push_back(part.is_count ? repeats[static_cast<size_t>(part.at)] : g[0].shape()[part.at]);
  return g.op("sum", {with_shape(g, g.dy(), sizes)}, {{"dim", split.summed}});
}

FormulaTerms cat_gradient(Gradient& g) {
  const int dim = g.dim();
  if (!g.has_known_sizes()) {
    std::vector<FormulaTerm> tensors = {g.dy()};
    for (size_t i = 0; i < g.call.inputs.size(); ++i) tensors.push_back(g[static_cast<int>(i)]);
    return g.ops("cat_grad", {tensors.begin(), tensors.end()}, {{"dim", int64_t{dim}}});
  }
  IntegerList sizes;
  for (size_t i = 0; i < g.call.inputs.size(); ++i)
    sizes.push_back(g[static_cast<int>(i)].shape()[dim]);
  return g.ops("split", {g.dy()}, {{"sizes", sizes}, {"dim", int64_t{dim}}});
}

FormulaTerms stack_gradient(Gradient& g) {
  const int64_t given = g.integer("dim"), dim = given < 0 ? given + g.dy().dims() : given;
  FormulaTerms parts;
  for (size_t i = 0; i < g.call.inputs.size(); ++i)
    parts.push_back(
        g.wanted(static_cast<int>(i))
            ? g.op("select", {g.dy()}, {{"dim", dim}, {"index", static_cast<int64_t>(i)}})
            : g.none());
  return parts;
}

}  // namespace shardproof
