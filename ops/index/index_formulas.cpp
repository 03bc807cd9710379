// Registers index_at: the entries that tensors of indices select, x[ids] and x[i, j].
#include "shardproof/ops/core/decomposition.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/ops/core/families.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

using params::tensor;

IntegerList list_of(const Dims& shape) { return {shape.begin(), shape.end()}; }

// Selects along one dim; the dims of the index replace it.
FormulaTerm taken(Formula& f, const FormulaTerm& x, int64_t dim, FormulaTerm index) {
  const int dims = index.dims();
  const FormulaTerm whole = index;
  if (dims == 0) index = f.op("unsqueeze", {index}, {{"dim", int64_t{0}}});
  if (dims > 1)
    index = f.op("flatten", {index}, {{"start_dim", int64_t{0}}, {"end_dim", int64_t{-1}}});
  const FormulaTerm rows = f.op("index_select", {x, index}, {{"dim", dim}, {"from_end", true}});
  if (dims == 1) return rows;
  if (dims == 0) return f.op("squeeze", {rows}, {{"dim", IntegerList{dim}}});
  return f.op("unflatten", {rows}, {{"dim", dim}, {"sizes", list_of(whole.shape())}});
}

// Returns the index counted from 0. The selection from arange checks its range.
FormulaTerm checked(Formula& f, const FormulaTerm& index, int64_t size) {
  const FormulaTerm places = f.op("arange", {}, {{"start", int64_t{0}}, {"end", size}});
  return taken(f, places, 0, index);
}

// Selects at the 0-d indices and removes their dims: torch takes a 0-d tensor as a position. If all
// indices are 0-d, it leaves the dims as they are, because joining them selects once.
void take_positions(Formula& f, FormulaTerm& x, IntegerList& dims, FormulaTerms& indices) {
  const bool only = std::all_of(indices.begin(), indices.end(),
                                [](const FormulaTerm& index) { return index.dims() == 0; });
  if (only) return;
  for (size_t k = 0; k < dims.size();) {
    if (indices[k].dims() > 0) {
      ++k;
      continue;
    }
    x = taken(f, x, dims[k], indices[k]);
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(k));
    indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(k));
    for (size_t later = k; later < dims.size(); ++later) --dims[later];
  }
}

// Joins several indexed dims to one and selects at the joined index. The dims of the indices
// replace those of x, or come first if those are not adjacent, as in torch.
FormulaTerms index_at(Formula& f) {
  IntegerList dims;
  for (const int64_t d : integer_list(*f.call.attrs, "dims"))
    dims.push_back(dim_of("index_at", f.call, d));
  if (dims.empty() || dims.size() + 1 != f.call.inputs.size())
    f.refuse("expected one tensor of indices per dim, found {} for {} dims",
             f.call.inputs.size() - 1, dims.size());
  for (size_t k = 1; k < dims.size(); ++k)
    if (dims[k] <= dims[k - 1]) f.refuse("the dims must ascend, found {}", fmt::join(dims, ", "));
  FormulaTerm x = f[0];
  FormulaTerms indices;
  for (size_t k = 0; k < dims.size(); ++k) indices.push_back(f[static_cast<int>(k) + 1]);
  take_positions(f, x, dims, indices);
  if (dims.empty()) return {x};
  if (dims.size() == 1) return {taken(f, x, dims[0], indices[0])};
  const Dims shape = x.shape();
  bool apart = false;
  IntegerList order, joined;
  FormulaTerm place;
  for (size_t k = 0; k < dims.size(); ++k) {
    apart = apart || (k > 0 && dims[k] != dims[k - 1] + 1);
    const int64_t size = shape[static_cast<int>(dims[k])];
    const FormulaTerm index = checked(f, indices[k], size);
    place = k == 0 ? index : place * size + index;
  }
  const int64_t at = apart ? 0 : dims[0];
  for (int64_t d = 0; d < shape.size(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  order.insert(order.begin() + at, dims.begin(), dims.end());
  const FormulaTerm near = apart ? f.op("permute", {x}, {{"dims", order}}) : x;
  const Attrs run{{"start_dim", at}, {"end_dim", at + static_cast<int64_t>(dims.size()) - 1}};
  return {taken(f, f.op("flatten", {near}, run), at, place)};
}

Sample index_at_sample(const Dims& x, const std::vector<Dims>& indices, const IntegerList& dims) {
  Sample made = sample_of({{x}, DType::f32, {"ints"}}, {{"dims", dims}});
  for (size_t k = 0; k < indices.size(); ++k) {
    const int64_t size = x[static_cast<int>(dims[k])];
    made.inputs.push_back({DType::i64, indices[k]});
    made.fills.push_back(fmt::format("ints({}, {})", -size, size));
  }
  return made;
}

}  // namespace

void add_index_formulas(OpRegistry& ops) {
  OpRecord at =
      formula({"index_at", "index", "x[ids], x[i, j]: the entries at tensors of indices"},
              {tensor("x"), params::tensors("indices"), params::integers("dims")}, index_at,
              {index_at_sample({5, 3}, {{4}}, {0}), index_at_sample({2, 5}, {{2, 3}}, {1}),
               index_at_sample({4, 3}, {{}}, {0}), index_at_sample({5, 4, 3}, {{2}, {2}}, {0, 1}),
               index_at_sample({3, 2, 4}, {{3, 1}, {2}}, {0, 2}),
               index_at_sample({2, 1, 3}, {{}, {2}}, {0, 2}),
               index_at_sample({3, 2, 2, 4}, {{2}, {}, {2}}, {0, 1, 3}),
               index_at_sample({3, 4}, {{}, {}}, {0, 1})});
  at.infix = "[ids]";
  ops.add(std::move(at));
}

}  // namespace shardproof
