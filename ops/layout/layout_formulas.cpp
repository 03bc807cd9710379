// Registers ops that decompose into views, slices and index_select: tril, diagonal, eye, linspace,
// movedim, rot90, pixel_shuffle, narrow, diff, unfold, take, index_copy and others.
#include <algorithm>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

using params::integer;
using params::tensor;

struct SliceRange {
  int64_t start = 0, stop = 0, step = 1;
};
FormulaTerm sliced(Formula& f, const FormulaTerm& x, int dim, const SliceRange& range) {
  IntegerList start(static_cast<size_t>(dim), 0), stop, step(static_cast<size_t>(dim), 1);
  for (int d = 0; d < dim; ++d) stop.push_back(x.shape()[d]);
  start.push_back(range.start);
  stop.push_back(range.stop);
  step.push_back(range.step);
  return f.op("slice", {x}, {{"start", start}, {"stop", stop}, {"step", step}});
}
FormulaTerm reshaped_to(Formula& f, const FormulaTerm& x, const Dims& shape) {
  return f.op("reshape", {x}, {{"shape", IntegerList(shape.begin(), shape.end())}});
}
FormulaTerm permuted(Formula& f, const FormulaTerm& x, const IntegerList& dims) {
  return f.op("permute", {x}, {{"dims", dims}});
}
FormulaTerm counted(Formula& f, int64_t count) {
  return f.op("arange", {}, {{"start", int64_t{0}}, {"end", count}});
}

// Returns the order of dims that moves the dims `from` to the positions `to`; the others keep their
// order.
IntegerList moved_dims(int dims, const IntegerList& from, const IntegerList& to) {
  IntegerList order(static_cast<size_t>(dims), -1), rest;
  for (int64_t d = 0; d < dims; ++d)
    if (std::find(from.begin(), from.end(), d) == from.end()) rest.push_back(d);
  for (size_t i = 0; i < from.size(); ++i) order[static_cast<size_t>(to[i])] = from[i];
  size_t next = 0;
  for (int64_t& d : order)
    if (d < 0) d = rest[next++];
  return order;
}

FormulaTerm kept_where(Formula& f, const FormulaTerm& x, const FormulaTerm& keep) {
  if (x.dtype() == DType::boolean) return f.op("logical_and", {x, keep});
  return f.where(keep, x, 0);
}

FormulaTerms triangle(Formula& f, const char* order) {
  const FormulaTerm x = f[0];
  if (x.dims() < 2) f.refuse("needs at least 2 dims");
  const int64_t rows = x.shape()[x.dims() - 2], columns = x.shape()[x.dims() - 1];
  const FormulaTerm row = f.op("unsqueeze", {counted(f, rows)}, {{"dim", int64_t{1}}});
  const FormulaTerm keep = f.op(order, {counted(f, columns) - row, f.integer("diagonal")});
  return {kept_where(f, x, keep)};
}

// Returns the diagonal: every (columns + 1)-th element of the flat matrix.
FormulaTerm diagonal_of(Formula& f, FormulaTerm x, int64_t offset) {
  const int64_t rows = x.shape()[x.dims() - 2], columns = x.shape()[x.dims() - 1];
  const int64_t count = std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  const int64_t start = count == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  Dims flat = x.shape();
  flat.erase(x.dims() - 1);
  flat[x.dims() - 2] = rows * columns;
  x = reshaped_to(f, x, flat);
  const int64_t stop = count == 0 ? 0 : start + (count - 1) * (columns + 1) + 1;
  return sliced(f, x, x.dims() - 1, {start, stop, columns + 1});
}

FormulaTerms diagonal(Formula& f) {
  const int dims = f[0].dims(), first = f.dim("dim1"), second = f.dim("dim2");
  if (first == second) f.refuse("dim1 and dim2 must differ, both are dim {}", first);
  const FormulaTerm turned =
      permuted(f, f[0], moved_dims(dims, {first, second}, {dims - 2, dims - 1}));
  return {diagonal_of(f, turned, f.integer("offset"))};
}

// Returns zeros with x on the diagonal.
FormulaTerm spread_on_diagonal(Formula& f, const FormulaTerm& x, int64_t offset) {
  const int64_t count = x.shape()[x.dims() - 1], size = count + std::abs(offset);
  const FormulaTerm row = f.op("unsqueeze", {counted(f, size)}, {{"dim", int64_t{1}}});
  const FormulaTerm on = f.op("eq", {counted(f, size) - row, offset});
  FormulaTerm wide =
      f.op("pad", {x},
           {{"pad", IntegerList{std::max<int64_t>(offset, 0), std::max<int64_t>(-offset, 0)}},
            {"value", 0.0}});
  wide = f.op("unsqueeze", {wide}, {{"dim", int64_t{-2}}});
  return kept_where(f, wide, on);
}

FormulaTerms diag(Formula& f) {
  if (f[0].dims() == 1) return {spread_on_diagonal(f, f[0], f.integer("diagonal"))};
  if (f[0].dims() != 2) f.refuse("needs 1 or 2 dims");
  return {diagonal_of(f, f[0], f.integer("diagonal"))};
}

// The arange ends half a step after the last number, so rounding cannot drop it.
FormulaTerms linspace(Formula& f) {
  const double start = f.number("start").real(), end = f.number("end").real();
  const int64_t steps = f.integer("steps");
  const DType dtype = f.given("dtype") ? f.call.attrs->dtype("dtype") : DType::f32;
  if (steps < 0) f.refuse("steps must not be negative, found {}", steps);
  if (steps < 2 || start == end)
    return {f.op("full", {FormulaTerm{}},
                 {{"shape", IntegerList{steps}}, {"value", start}, {"dtype", dtype}})};
  const double step = (end - start) / static_cast<double>(steps - 1);
  return {f.op("arange", {},
               {{"start", start}, {"end", end + step / 2}, {"step", step}, {"dtype", dtype}})};
}

void add_diagonals(OpRegistry& ops) {
  const std::vector<Param> triangular = {tensor("x"), integer("diagonal", 0)};
  const std::vector<Sample> matrices = {f32_sample({{5, 3}}, {{"diagonal", int64_t{1}}}),
                                        f32_sample({{2, 3, 4}}, {{"diagonal", int64_t{-1}}})};
  ops.add(formula(
      {"tril", "view", "x on and below a diagonal, else 0"}, triangular,
      [](Formula& f) { return triangle(f, "le"); }, matrices));
  ops.add(formula(
      {"triu", "view", "x on and above a diagonal, else 0"}, triangular,
      [](Formula& f) { return triangle(f, "ge"); }, matrices));
  ops.add(formula(
      {"diagonal", "view", "the diagonal of two dims, as a last dim"},
      {tensor("x"), integer("offset", 0), integer("dim1", 0), integer("dim2", 1)}, diagonal,
      {f32_sample({{5, 4}}),
       f32_sample({{3, 2, 5}},
                  {{"offset", int64_t{-1}}, {"dim1", int64_t{-1}}, {"dim2", int64_t{0}}})}));
  ops.add(formula({"diag", "view", "a row as a diagonal matrix, or the diagonal of a matrix"},
                  triangular, diag,
                  {f32_sample({{5}}, {{"diagonal", int64_t{-1}}}), f32_sample({{4, 3}})}));
  ops.add(formula({"diag_embed", "view", "rows of the last dim as diagonal matrices"},
                  {tensor("x"), integer("offset", 0)},
                  [](Formula& f) {
                    if (f[0].dims() == 0) f.refuse("needs at least 1 dim");
                    return FormulaTerms{spread_on_diagonal(f, f[0], f.integer("offset"))};
                  },
                  {f32_sample({{2, 3}}, {{"offset", int64_t{1}}})}));
  ops.add(formula(
      {"eye", "creation", "ones on the diagonal, else 0"},
      {integer("n"), params::optional("m", ParamKind::integer),
       params::optional("dtype", ParamKind::dtype)},
      [](Formula& f) {
        const int64_t rows = f.integer("n"), columns = f.given("m") ? f.integer("m") : rows;
        if (rows < 0 || columns < 0)
          f.refuse("sizes must not be negative, found {} and {}", rows, columns);
        const FormulaTerm row = f.op("unsqueeze", {counted(f, rows)}, {{"dim", int64_t{1}}});
        const DType dtype = f.given("dtype") ? f.call.attrs->dtype("dtype") : DType::f32;
        return FormulaTerms{f.to(dtype, f.op("eq", {row, counted(f, columns)}))};
      },
      {f32_sample({}, {{"n", int64_t{4}}}),
       f32_sample({}, {{"n", int64_t{3}}, {"m", int64_t{5}}, {"dtype", DType::i64}})}));
  ops.add(formula(
      {"linspace", "creation", "`steps` numbers from start to end, equally far apart"},
      {params::required("start", ParamKind::number), params::required("end", ParamKind::number),
       integer("steps"), params::optional("dtype", ParamKind::dtype)},
      linspace,
      {f32_sample({}, {{"start", int64_t{0}}, {"end", int64_t{3}}, {"steps", int64_t{7}}}),
       f32_sample({}, {{"start", 2.5}, {"end", -1.0}, {"steps", int64_t{4}}}),
       f32_sample({}, {{"start", 1.5}, {"end", 4.0}, {"steps", int64_t{1}}})}));
  ops.add(formula({"trace", "reduction", "sum of the diagonal of a matrix"}, {tensor("x")},
                  [](Formula& f) {
                    if (f[0].dims() != 2) f.refuse("needs 2 dims");
                    return FormulaTerms{f.op("sum", {diagonal_of(f, f[0], 0)})};
                  },
                  {f32_sample({{5, 4}})}));
}

IntegerList given_dims(Formula& f, const char* name) {
  IntegerList dims;
  for (const int64_t given : integer_list(*f.call.attrs, name)) {
    const int64_t d = dim_of(name, f.call, given);
    if (std::count(dims.begin(), dims.end(), d) > 0) f.refuse("dim {} occurs twice in {}", d, name);
    dims.push_back(d);
  }
  return dims;
}

FormulaTerms movedim(Formula& f) {
  const IntegerList from = given_dims(f, "source"), to = given_dims(f, "destination");
  if (from.size() != to.size())
    f.refuse("source and destination must name equally many dims, found {} and {}", from.size(),
             to.size());
  return {permuted(f, f[0], moved_dims(f[0].dims(), from, to))};
}

FormulaTerms rot90(Formula& f) {
  const IntegerList dims = given_dims(f, "dims");
  if (dims.size() != 2) f.refuse("dims must name two dims, found {}", dims.size());
  const int64_t turns = ((f.integer("k") % 4) + 4) % 4;
  const IntegerList over_dims = turns == 1   ? IntegerList{dims[1]}
                                : turns == 3 ? IntegerList{dims[0]}
                                             : dims;
  FormulaTerm x = turns == 0 ? f[0] : f.op("flip", {f[0]}, {{"dims", over_dims}});
  if (turns % 2 == 1) x = f.op("transpose", {x}, {{"dim0", dims[0]}, {"dim1", dims[1]}});
  return {x};
}

FormulaTerms unbind(Formula& f) {
  const int dim = f.dim();
  const int64_t count = f[0].shape()[dim];
  if (count > kMostPieces) f.refuse("would give more than {} pieces", kMostPieces);
  FormulaTerms parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(f.op("select", {f[0]}, {{"dim", int64_t{dim}}, {"index", i}}));
  return parts;
}

// Turns [.., C r r, H, W] into [.., C, H r, W r].
FormulaTerms pixel_shuffle(Formula& f) {
  const Dims& shape = f[0].shape();
  const int64_t r = f.integer("upscale_factor");
  const int dims = shape.size(), c = dims - 3;
  if (dims < 3 || r < 1 || r > kMostPieces || shape[c] % (r * r) != 0)
    f.refuse("the channels before height and width must be a multiple of the square of {}", r);
  Dims split = shape, whole = shape;
  split[c] = shape[c] / (r * r);
  split.insert(c + 1, r);
  split.insert(c + 2, r);
  IntegerList order;
  for (int d = 0; d <= c; ++d) order.push_back(d);
  for (const int d : {3, 1, 4, 2}) order.push_back(c + d);
  whole[c] = split[c];
  whole[c + 1] *= r;
  whole[c + 2] *= r;
  return {reshaped_to(f, permuted(f, reshaped_to(f, f[0], split), order), whole)};
}

FormulaTerms pixel_unshuffle(Formula& f) {
  const Dims& shape = f[0].shape();
  const int64_t r = f.integer("downscale_factor");
  const int dims = shape.size(), c = dims - 3;
  if (dims < 3 || r < 1 || r > kMostPieces || shape[c + 1] % r != 0 || shape[c + 2] % r != 0)
    f.refuse("height and width must be multiples of {}", r);
  Dims split = shape, whole = shape;
  split[c + 1] /= r;
  split.insert(c + 2, r);
  split[c + 3] /= r;
  split.push_back(r);
  IntegerList order;
  for (int d = 0; d <= c; ++d) order.push_back(d);
  for (const int d : {2, 4, 1, 3}) order.push_back(c + d);
  whole[c] *= r * r;
  whole[c + 1] /= r;
  whole[c + 2] /= r;
  return {reshaped_to(f, permuted(f, reshaped_to(f, f[0], split), order), whole)};
}

FormulaTerms channel_shuffle(Formula& f) {
  const int64_t groups = f.integer("groups");
  const Dims& shape = f[0].shape();
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    f.refuse("the channels of dim 1 do not divide into {} groups", groups);
  Dims split = shape;
  split[1] = groups;
  split.insert(2, shape[1] / groups);
  const FormulaTerm turned = f.op("transpose", {reshaped_to(f, f[0], split)},
                                  {{"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  return {reshaped_to(f, turned, shape)};
}

void add_turns(OpRegistry& ops) {
  ops.add(
      formula({"movedim", "view", "moves the dims of source to the positions of destination"},
              {tensor("x"), params::integers("source"), params::integers("destination")}, movedim,
              {f32_sample({{5, 3, 2}},
                          {{"source", IntegerList{0, -1}}, {"destination", IntegerList{-1, 0}}})}));
  ops.add(formula({"rot90", "view", "rotates by k quarter turns in the plane of two dims"},
                  {tensor("x"), integer("k", 1),
                   params::with_default("dims", ParamKind::integers, IntegerList{0, 1})},
                  rot90,
                  {f32_sample({{5, 3}}),
                   f32_sample({{2, 3, 4}}, {{"k", int64_t{-1}}, {"dims", IntegerList{1, 2}}})}));
  ops.add(formula({"unbind", "view", "the entries of a dim, as one tensor each"},
                  {tensor("x"), integer("dim", 0)}, unbind,
                  {f32_sample({{3, 5}}), f32_sample({{4, 2}}, {{"dim", int64_t{-1}}})}));
  ops.add(formula({"pixel_shuffle", "view", "[.., C r r, H, W] as [.., C, H r, W r]"},
                  {tensor("x"), integer("upscale_factor")}, pixel_shuffle,
                  {f32_sample({{3, 8, 3, 2}}, {{"upscale_factor", int64_t{2}}})}));
  ops.add(formula({"pixel_unshuffle", "view", "[.., C, H r, W r] as [.., C r r, H, W]"},
                  {tensor("x"), integer("downscale_factor")}, pixel_unshuffle,
                  {f32_sample({{2, 2, 6, 4}}, {{"downscale_factor", int64_t{2}}})}));
  ops.add(formula({"channel_shuffle", "view", "channels (dim 1) interleaved over groups"},
                  {tensor("x"), integer("groups")}, channel_shuffle,
                  {f32_sample({{2, 6, 3}}, {{"groups", int64_t{2}}})}));
}

FormulaTerms narrow(Formula& f) {
  const int dim = f.dim();
  const int64_t size = f[0].shape()[dim], length = f.integer("length");
  const int64_t start = f.integer("start") + (f.integer("start") < 0 ? size : 0);
  if (start < 0 || start > size || length < 0 || length > size - start)
    f.refuse("start {} and length {} do not fit dim {} of size {}", start, length, dim, size);
  return {sliced(f, f[0], dim, {start, start + length})};
}

FormulaTerms diff(Formula& f) {
  const int dim = f.dim();
  FormulaTerms joined;
  for (const int part : {1, 0, 2})
    if (f.has(part)) joined.push_back(f[part]);
  FormulaTerm x = joined.size() > 1 ? f.joined("cat", joined, dim) : f[0];
  // After one difference per entry nothing is left.
  const int64_t times = std::min(f.integer("n"), std::max<int64_t>(x.shape()[dim], 1));
  if (times < 0 || times > kMostPieces)
    f.refuse("n must be from 0 to {}, found {}", kMostPieces, times);
  for (int64_t i = 0; i < times; ++i) {
    const int64_t size = x.shape()[dim];
    const FormulaTerm later = sliced(f, x, dim, {1, std::max<int64_t>(size, 1)});
    const FormulaTerm before = sliced(f, x, dim, {0, std::max<int64_t>(size - 1, 0)});
    const bool truth = x.dtype() == DType::boolean;
    x = truth ? f.op("logical_xor", {later, before}) : later - before;
  }
  return {x};
}

// Returns windows of `size` elements, `step` apart, in a new last dim.
FormulaTerms unfold(Formula& f) {
  const int dim = f.dim(), dims = f[0].dims();
  const int64_t whole = f[0].shape()[dim], size = f.integer("size"), step = f.integer("step");
  if (size < 0 || size > whole || step < 1)
    f.refuse("windows of size {} with step {} do not fit dim {} of size {}", size, step, dim,
             whole);
  const int64_t windows = (whole - size) / step + 1;
  if (size > 0 && windows > kMostEntries / size)
    f.refuse("{} windows of {} are too many", windows, size);
  IntegerList index;
  for (int64_t w = 0; w < windows; ++w)
    for (int64_t i = 0; i < size; ++i) index.push_back(w * step + i);
  const FormulaTerm taken =
      f.op("index_select", {f[0], FormulaTerm{}}, {{"dim", int64_t{dim}}, {"index", index}});
  const FormulaTerm split =
      f.op("unflatten", {taken}, {{"dim", int64_t{dim}}, {"sizes", IntegerList{windows, size}}});
  return {permuted(f, split, moved_dims(dims + 1, {dim + 1}, {dims}))};
}

FormulaTerms repeat_interleave(Formula& f) {
  const bool flat = !f.given("dim");
  const int64_t repeats = f.integer("repeats");
  if (repeats < 0) f.refuse("repeats must not be negative, found {}", repeats);
  const FormulaTerm x = !flat             ? f[0]
                        : f[0].dims() > 0 ? f.op("flatten", {f[0]})
                                          : f.op("unsqueeze", {f[0]}, {{"dim", int64_t{0}}});
  const int dim = flat ? 0 : f.dim();
  // Repeats x along a new dim and joins that to `dim`: this needs no sizes and keeps its shards.
  if (x.dims() < kMaxDims && repeats <= kMostEntries) {
    const int64_t copy = dim + 1;
    IntegerList sizes(static_cast<size_t>(x.dims()) + 1, -1);
    sizes[static_cast<size_t>(copy)] = repeats;
    const FormulaTerm copies =
        f.op("expand", {f.op("unsqueeze", {x}, {{"dim", copy}})}, {{"size", sizes}});
    return {f.op("flatten", {copies}, {{"start_dim", int64_t{dim}}, {"end_dim", copy}})};
  }
  if (x.shape()[dim] > 0 && repeats > kMostEntries / x.shape()[dim])
    f.refuse("{} repeats of dim {} of size {} are too many", repeats, dim, x.shape()[dim]);
  IntegerList index;
  for (int64_t i = 0; i < x.shape()[dim] * repeats; ++i) index.push_back(i / repeats);
  return {f.op("index_select", {x, FormulaTerm{}}, {{"dim", int64_t{dim}}, {"index", index}})};
}

FormulaTerms slice_scatter(Formula& f) {
  const int dim = f.dim();
  const int64_t size = f[0].shape()[dim];
  const auto bound = [&](const char* name, int64_t fallback) {
    const int64_t at = f.given(name) ? f.integer(name) : fallback;
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const int64_t start = bound("start", 0), end = std::max(bound("end", size), start);
  const int64_t step = f.integer("step");
  if (step < 1) f.refuse("a step must be at least 1, found {}", step);
  const int64_t count = end == start ? 0 : (end - start - 1) / step + 1;
  if (f[1].dims() != f[0].dims() || f[1].shape()[dim] != count)
    f.refuse("src must have {} entries in dim {}", count, dim);
  // The source of each entry of the result: x, or src, which is joined after x.
  IntegerList index;
  for (int64_t i = 0; i < size; ++i) {
    const bool written = i >= start && i < end && (i - start) % step == 0;
    index.push_back(written ? size + (i - start) / step : i);
  }
  const DType dtype = f[0].dtype();
  const FormulaTerm src = f[1].dtype() == dtype ? f[1] : f.to(dtype, f[1]);
  const FormulaTerm both = f.joined("cat", {f[0], src}, dim);
  return {f.op("index_select", {both, FormulaTerm{}}, {{"dim", int64_t{dim}}, {"index", index}})};
}

FormulaTerms take(Formula& f) {
  const FormulaTerm flat = reshaped_to(f, f[0], Dims{element_count(f[0].shape())});
  const FormulaTerm index = reshaped_to(f, f[1], Dims{element_count(f[1].shape())});
  const FormulaTerm taken =
      f.op("index_select", {flat, index}, {{"dim", int64_t{0}}, {"from_end", true}});
  return {reshaped_to(f, taken, f[1].shape())};
}

// Expands a list of indices of a dim to one index for every element of src.
FormulaTerm spread_index(Formula& f, const FormulaTerm& index, int dim, const Dims& src) {
  Dims shape = Dims::filled(src.size(), 1);
  shape[dim] = element_count(index.shape());
  return f.op("expand", {reshaped_to(f, index, shape)},
              {{"size", IntegerList(src.begin(), src.end())}});
}

FormulaTerms written(Formula& f, const char* reduce) {
  const int dim = f.dim();
  FormulaTerm src = f[2];
  if (std::string_view(reduce) == "add" && f.given("alpha")) src = src * f.number("alpha");
  const FormulaTerm index = spread_index(f, f[1], dim, src.shape());
  return {f.op("scatter_along_dim", {f[0], index, src},
               {{"dim", int64_t{dim}}, {"reduce", std::string(reduce)}})};
}

FormulaTerms index_fill(Formula& f) {
  const int dim = f.dim();
  Dims part = f[0].shape();
  part[dim] = element_count(f[1].shape());
  const FormulaTerm value =
      f.op("expand", {f.to(f[0].dtype(), f[2])}, {{"size", IntegerList(part.begin(), part.end())}});
  return {f.op("scatter_along_dim", {f[0], spread_index(f, f[1], dim, part), value},
               {{"dim", int64_t{dim}}})};
}

void add_writes(OpRegistry& ops) {
  const auto sample = [](const std::vector<Dims>& shapes, Attrs attrs) {
    Sample made = f32_sample(shapes, std::move(attrs));
    made.inputs[1].dtype = DType::i64;
    made.fills = {"ints", "iota", "ints"};
    made.fills.resize(shapes.size());
    return made;
  };
  const Attrs columns{{"dim", int64_t{1}}};
  OpRecord copy = formula(
      {"index_copy", "index", "x with the entries of src at the indices of a dim"},
      {tensor("x"), integer("dim"), tensor("index"), tensor("src")},
      [](Formula& f) { return written(f, "none"); }, {sample({{3, 5}, {2}, {3, 2}}, columns)});
  OpRecord add =
      formula({"index_add", "index", "x with alpha * src added at the indices of a dim"},
              {tensor("x"), integer("dim"), tensor("index"), tensor("src"),
               params::optional("alpha", ParamKind::number)},
              [](Formula& f) { return written(f, "add"); },
              {sample({{3, 5}, {2}, {3, 2}}, columns),
               sample({{4, 3}, {3}, {3, 3}}, {{"dim", int64_t{0}}, {"alpha", int64_t{2}}})});
  for (OpRecord* record : {&copy, &add}) {
    accept_scalar_input(*record);
    ops.add(std::move(*record));
  }
  OpRecord fill = formula({"index_fill", "index", "x with a value at the indices of a dim"},
                          {tensor("x"), integer("dim"), tensor("index"), tensor("value")},
                          index_fill, {sample({{3, 5}, {2}, {}}, {{"dim", int64_t{-1}}})});
  accept_scalar_input(fill);
  ops.add(std::move(fill));
}

void add_pieces(OpRegistry& ops) {
  const Param dim = integer("dim", -1);
  ops.add(
      formula({"narrow", "view", "`length` entries of a dim from start"},
              {tensor("x"), integer("dim"), integer("start"), integer("length")}, narrow,
              {f32_sample({{5, 3}},
                          {{"dim", int64_t{0}}, {"start", int64_t{1}}, {"length", int64_t{3}}})}));
  ops.add(formula(
      {"diff", "view", "n times the difference to the entry before"},
      {tensor("x"), integer("n", 1), dim, params::optional_tensor("prepend"),
       params::optional_tensor("append")},
      diff,
      {f32_sample({{5, 3}}, {{"dim", int64_t{0}}}), f32_sample({{2, 6}}, {{"n", int64_t{2}}})}));
  ops.add(formula(
      {"unfold", "view", "windows of a dim, `step` apart, in a new last dim"},
      {tensor("x"), integer("dim"), integer("size"), integer("step")}, unfold,
      {f32_sample({{7, 2}}, {{"dim", int64_t{0}}, {"size", int64_t{3}}, {"step", int64_t{2}}})}));
  ops.add(formula({"repeat_interleave", "view", "each entry of a dim `repeats` times"},
                  {tensor("x"), integer("repeats"), params::optional("dim", ParamKind::integer)},
                  repeat_interleave,
                  {f32_sample({{5, 3}}, {{"repeats", int64_t{2}}, {"dim", int64_t{0}}}),
                   f32_sample({{2, 3}}, {{"repeats", int64_t{3}}})}));
  ops.add(formula(
      {"slice_scatter", "view", "x with src in place of a slice of a dim"},
      {tensor("x"), tensor("src"), integer("dim", 0), params::optional("start", ParamKind::integer),
       params::optional("end", ParamKind::integer), integer("step", 1)},
      slice_scatter,
      {f32_sample({{5, 3}, {2, 3}}, {{"start", int64_t{1}}, {"end", int64_t{3}}}),
       f32_sample({{4, 5}, {4, 3}}, {{"dim", int64_t{1}}, {"step", int64_t{2}}})}));
  Sample taken = f32_sample({{5, 3}, {4}});
  taken.inputs[1].dtype = DType::i64;
  taken.fills = {"ints", "ints(-15, 15)"};
  ops.add(formula({"take", "index", "elements of the flat tensor by their positions"},
                  {tensor("x"), tensor("index")}, take, {taken}));
}

}  // namespace

void add_layout_formulas(OpRegistry& ops) {
  add_diagonals(ops);
  add_turns(ops);
  add_pieces(ops);
  add_writes(ops);
}

}  // namespace shardproof
