// Implements a table of line_forms.h: lines that move elements, such as views, joins and slices.
#include <fmt/ranges.h>

#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns another shape with the same number of elements.
std::string other_shape(LineWriter& writer, const DraftValue& value) {
  int64_t rest = value.value.elements();
  std::vector<int64_t> sizes;
  for (const int64_t factor : {2, 3, 2, 5, 7}) {
    if (rest % factor != 0 || rest == 0 || !writer.draw().chance(0.6)) continue;
    sizes.push_back(factor);
    rest /= factor;
  }
  sizes.insert(sizes.begin() + writer.draw().below(std::ssize(sizes) + 1), rest);
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

Lines write_reshape(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  if (x == nullptr || x->value.elements() == 0) return {};
  if (x->shape.size() > 1 && writer.draw().chance(0.3))
    return {fmt::format("$0 = flatten({})", x->name)};
  return {fmt::format("$0 = reshape({}, {})", x->name, other_shape(writer, *x))};
}

Lines write_transpose(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  if (x == nullptr) return {};
  if (writer.draw().chance(0.5)) return {fmt::format("$0 = {}.T", x->name)};
  const std::string first = writer.dim_text(*x, writer.dim_of(*x));
  const std::string second = writer.dim_text(*x, writer.dim_of(*x));
  return {fmt::format("$0 = transpose({}, {}, {})", x->name, first, second)};
}

Lines write_join(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr) return {};
  const int64_t dim = writer.dim_of(*x);
  const char* verb = writer.draw().chance(0.8) ? "cat" : "stack";
  return {fmt::format("$0 = {}([{}, {}], dim={})", verb, x->name, y->name, dim)};
}

Lines write_split(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t dim = writer.dim_of(*x), size = x->shape[static_cast<size_t>(dim)];
  if (size < 2) return {};
  const int64_t first = writer.draw().between(1, size - 1);
  if (size % 2 == 0 && writer.draw().chance(0.5))
    return {fmt::format("$a, $b = chunk({}, 2, dim={})", x->name, dim)};
  return {fmt::format("$a, $b = split({}, [{}, {}], dim={})", x->name, first, size - first, dim)};
}

Lines write_slice(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t dim = writer.dim_of(*x), size = x->shape[static_cast<size_t>(dim)];
  if (size < 1) return {};
  std::string items;
  for (int64_t i = 0; i < dim; ++i) items += ":, ";
  const int64_t low = writer.draw().below(size), high = writer.draw().between(low + 1, size);
  switch (writer.draw().below(5)) {
    case 0: items += fmt::format("{}", low); break;
    case 1: items += "::2"; break;
    case 2: items += "None"; break;
    default: items += fmt::format("{}:{}", low, high);
  }
  return {fmt::format("$0 = {}[{}]", x->name, items)};
}

Lines write_shift(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t dim = writer.dim_of(*x);
  switch (writer.draw().below(4)) {
    case 0: return {fmt::format("$0 = flip({}, [{}])", x->name, dim)};
    case 1:
      return {fmt::format("$0 = roll({}, {}, {})", x->name, writer.draw().between(1, 3), dim)};
    case 2: return {fmt::format("$0 = pad({}, [1, 0])", x->name)};
    default: return {fmt::format("$0 = diff({}, dim={})", x->name, dim)};
  }
}

Lines write_into_slice(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr || x->shape[0] < 2) return {};
  const int64_t low = writer.draw().below(x->shape[0] - 1);
  return {fmt::format("$0 = slice_scatter({0}, {0}[{1}:{2}] * 2, 0, {3}, {1})", x->name, low + 1,
                      low + 2, low)};
}

Lines write_repeat(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t dim = writer.dim_of(*x);
  if (x->shape.size() == 2 && writer.draw().chance(0.4))
    return {fmt::format("$0 = {}({})", writer.draw().chance(0.5) ? "tril" : "triu", x->name)};
  return {fmt::format("$0 = repeat_interleave({}, 2, dim={})", x->name, dim)};
}

}  // namespace

void add_move_forms(std::vector<LineForm>& forms) {
  forms.push_back({"reshape", true, 2, write_reshape});
  forms.push_back({"transpose", true, 2, write_transpose});
  forms.push_back({"join", true, 1.5, write_join});
  forms.push_back({"split", true, 1, write_split});
  forms.push_back({"slice", true, 2, write_slice});
  forms.push_back({"shift", true, 1, write_shift});
  forms.push_back({"into_slice", true, 0.5, write_into_slice});
  forms.push_back({"repeat", true, 0.5, write_repeat});
}

}  // namespace shardproof
