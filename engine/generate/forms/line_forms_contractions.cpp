// Implements a table of line_forms.h: products of matrices, einsum, attention, complex transforms.
#include "shardproof/engine/generate/forms/line_forms.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

const DraftValue* matrix_with_rows(LineWriter& writer, const DraftValue& value, int64_t rows) {
  return writer.any_of([&](const DraftValue& other) {
    return other.dtype == value.dtype && other.shape.size() == 2 && other.shape[0] == rows;
  });
}

// Keeps the size of products near that of their inputs.
std::string scale_after(LineWriter& writer) {
  return writer.is_whole() || writer.draw().chance(0.5) ? "" : " * 0.3";
}

Lines write_matmul(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  if (x == nullptr) return {};
  const int64_t inner = x->shape[x->shape.size() - 1];
  const DraftValue* w = matrix_with_rows(writer, *x, inner);
  if (w == nullptr || writer.draw().chance(0.1))
    return {fmt::format("$0 = {} @ {}.T{}", x->name, x->name, scale_after(writer))};
  return {fmt::format("$0 = {} @ {}{}", x->name, w->name, scale_after(writer))};
}

Lines write_linear(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  if (x == nullptr) return {};
  const int64_t inner = x->shape[x->shape.size() - 1];
  const DraftValue* w = matrix_with_rows(writer, *x, inner);
  if (w == nullptr) return {};
  const DraftValue* b = writer.any_of([&](const DraftValue& other) {
    return other.dtype == x->dtype && other.shape.size() == 1 && other.shape[0] == w->shape[1];
  });
  const std::string product = fmt::format("{} @ {}", x->name, w->name);
  if (b == nullptr) return {fmt::format("$0 = tanh({})", product)};
  if (writer.is_whole() || writer.draw().chance(0.5))
    return {fmt::format("$0 = {} + {}", product, b->name)};
  return {fmt::format("$0 = gelu({} + {})", product, b->name)};
}

Lines write_einsum(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr || x->shape.size() > 3) return {};
  static const std::vector<std::string> kMatrices = {"ij,kj->ik", "ij,ij->i", "ij,ik->jk",
                                                     "ij,ij->ij", "ij,ij->",  "ij,kj->ki"};
  static const std::vector<std::string> kCubes = {"bij,bkj->bik", "bij,bij->b", "bij,bij->ij",
                                                  "bij,bik->jk"};
  const std::string& equation = writer.draw().from(x->shape.size() == 2 ? kMatrices : kCubes);
  return {fmt::format("$0 = einsum('{}', {}, {})", equation, x->name, y->name)};
}

Lines write_row_product(LineWriter& writer) {
  const DraftValue* x = writer.any_of([&](const DraftValue& value) {
    return value.dtype == writer.draft().dtype() && value.shape.size() == 1;
  });
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr) return {};
  const char* form = writer.draw().chance(0.5) ? "$0 = outer({}, {})" : "$0 = {} @ {}";
  return {fmt::format(fmt::runtime(form), x->name, y->name)};
}

Lines write_attention(LineWriter& writer) {
  const DraftValue* q = writer.any_of([&](const DraftValue& value) {
    return value.dtype == writer.draft().dtype() && value.shape.size() == 3;
  });
  const DraftValue* k = q == nullptr ? nullptr : writer.like(*q);
  const DraftValue* v = q == nullptr ? nullptr : writer.like(*q);
  if (v == nullptr) return {};
  if (writer.draw().chance(0.6))
    return {fmt::format("$0 = sdpa({}, {}, {}{})", q->name, k->name, v->name,
                        writer.draw().chance(0.4) ? ", causal=true" : "")};
  const std::string scores = writer.fresh();
  return {fmt::format("{} = {} @ {}.T * 0.4", scores, q->name, k->name),
          fmt::format("$a = softmax({}, dim=-1) @ {}", scores, v->name)};
}

Lines write_heads(LineWriter& writer) {
  const DraftValue* x = writer.any_of([&](const DraftValue& value) {
    return value.dtype == writer.draft().dtype() && value.shape.size() == 2 &&
           value.shape[1] % 2 == 0 && value.shape[1] > 0;
  });
  if (x == nullptr) return {};
  return {fmt::format("$a = transpose(reshape({}, [{}, 2, {}]), 0, 1)", x->name, x->shape[0],
                      x->shape[1] / 2)};
}

Lines write_complex(LineWriter& writer) {
  const DraftValue* z =
      writer.any_of([](const DraftValue& value) { return is_complex(value.dtype); });
  if (z == nullptr) {
    const DraftValue* x = writer.any_float(1);
    if (x == nullptr || x->dtype == DType::f64) return {};
    return {fmt::format("$a = cast({}, c64)", x->name)};
  }
  switch (writer.draw().below(6)) {
    case 0: return {fmt::format("$a = fft({})", z->name)};
    case 1: return {fmt::format("$a = ifft({})", z->name)};
    case 2: return {fmt::format("$a = {} * {} + 0.5", z->name, z->name)};
    case 3: return {fmt::format("$a = abs({})", z->name)};
    case 4: return {fmt::format("$a = sum({} * 0.3)", z->name)};
    default: return {fmt::format("$a = {} @ {}.T", z->name, z->name)};
  }
}

}  // namespace

void add_contraction_forms(std::vector<LineForm>& forms) {
  forms.push_back({"matmul", true, 4, write_matmul});
  forms.push_back({"linear", true, 2, write_linear});
  forms.push_back({"einsum", true, 1.5, write_einsum});
  forms.push_back({"row_product", true, 0.7, write_row_product});
  forms.push_back({"attention", false, 1, write_attention});
  forms.push_back({"heads", true, 0.5, write_heads});
  forms.push_back({"complex", false, 0.7, write_complex});
}

}  // namespace shardproof
