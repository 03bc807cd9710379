// Implements two tables of line_forms.h: masks, orders, indices and integers; and casts.
#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

Lines write_compare(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  const DraftValue* y = x == nullptr ? nullptr : writer.broadcast_with(*x);
  if (y == nullptr) return {};
  const std::string op = writer.draw().from({">", "<", ">=", "<=", "=="});
  if (writer.draw().chance(0.4)) return {fmt::format("$a = {} {} 0.1", x->name, op)};
  return {fmt::format("$a = {} {} {}", x->name, op, y->name)};
}

Lines write_where(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr) return {};
  const DraftValue* mask = writer.any_bool_like(*x);
  const std::string other = writer.draw().chance(0.5) ? y->name : "0";
  if (mask != nullptr && writer.draw().chance(0.7))
    return {fmt::format("$0 = where({}, {}, {})", mask->name, x->name, other)};
  return {fmt::format("$0 = where({} > 0, {}, {})", y->name, x->name, other)};
}

Lines write_mask(LineWriter& writer) {
  const DraftValue* mask =
      writer.any_of([](const DraftValue& value) { return value.dtype == DType::boolean; });
  if (mask == nullptr) return {};
  const DraftValue* other = writer.like(*mask);
  switch (writer.draw().below(4)) {
    case 0: return {fmt::format("$a = logical_not({})", mask->name)};
    case 1: return {fmt::format("$a = logical_and({}, {})", mask->name, other->name)};
    case 2: return {fmt::format("$a = any({})", mask->name)};
    default: return {fmt::format("$a = cast({}, {})", mask->name, name(writer.draft().dtype()))};
  }
}

Lines write_order(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const int64_t dim = writer.dim_of(*x), size = x->shape[static_cast<size_t>(dim)];
  if (size < 1) return {};
  const std::string first = writer.fresh(), second = writer.fresh();
  switch (writer.draw().below(6)) {
    case 0: return {fmt::format("{}, {} = sort({}, dim={})", first, second, x->name, dim)};
    case 1:
      return {fmt::format("{}, {} = topk({}, {}, dim={})", first, second, x->name,
                          writer.draw().between(1, size), dim)};
    case 2: return {fmt::format("{} = argmax({}, dim={})", first, x->name, dim)};
    case 3: return {fmt::format("{} = argmin({}, dim={})", first, x->name, dim)};
    case 4:
      return {fmt::format("{} = argmax({}, dim={}, keepdim=true)", first, x->name, dim),
              fmt::format("{} = take_along_dim({}, {}, dim={})", second, x->name, first, dim)};
    default: return {fmt::format("{}, {} = max({}, dim={})", first, second, x->name, dim)};
  }
}

Lines write_lookup(LineWriter& writer) {
  const DraftValue* ids = writer.any_of([](const DraftValue& value) {
    return value.dtype == DType::i64 && value.shape.size() < 3 && value.shape.size() > 0;
  });
  const DraftValue* table = writer.any_float(2);
  if (ids == nullptr || table == nullptr || table->shape[0] < 1) return {};
  const std::string index = fmt::format("{} % {}", ids->name, table->shape[0]);
  switch (writer.draw().below(4)) {
    case 0: return {fmt::format("$a = one_hot({} % 3, 3)", ids->name)};
    case 1:
      return {fmt::format("$a = {}", index),
              fmt::format("$b = index_select({}, 0, $a)", table->name)};
    default:
      if (table->shape.size() != 2) return {};
      return {fmt::format("$a = embedding({}, {})", index, table->name)};
  }
}

Lines write_integers(LineWriter& writer) {
  const DraftValue* x = writer.any_of([](const DraftValue& value) {
    return value.dtype == DType::i64 || value.dtype == DType::i32;
  });
  if (x == nullptr) return {};
  switch (writer.draw().below(6)) {
    case 0: return {fmt::format("$a = {} * 3 - 1", x->name)};
    case 1: return {fmt::format("$a = {} // 2", x->name)};
    case 2: return {fmt::format("$a = sum({})", x->name)};
    case 3: return {fmt::format("$a = {} % 5 + 2", x->name)};
    case 4: return {fmt::format("$a = cast({}, {})", x->name, name(writer.draft().dtype()))};
    default: return {fmt::format("$a = maximum({}, 1)", x->name)};
  }
}

// Writes a cast to another dtype and back, or storage in a narrow one.
Lines write_cast(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  if (x == nullptr) return {};
  const std::string own(name(writer.draft().dtype()));
  const std::string other = writer.draw().from({"bf16", "f16", "f32", "f64"});
  const std::string narrow = writer.draw().from({"f8e4m3", "f8e5m2", "bf16", "f16"});
  switch (writer.draw().below(5)) {
    case 0: return {fmt::format("$0 = cast(cast({}, {}), {})", x->name, narrow, own)};
    case 1: {
      const std::string stored = writer.fresh();
      return {fmt::format("{} = cast({}, {})", stored, x->name, narrow),
              fmt::format("$a = cast({}, {}) * 2", stored, own)};
    }
    case 2: return {fmt::format("$a = cast({}, {})", x->name, other)};
    default: break;
  }
  const DraftValue* stored = writer.any_of([&](const DraftValue& value) {
    return is_floating(value.dtype) && value.dtype != writer.draft().dtype();
  });
  if (stored == nullptr) return {};
  return {fmt::format("$a = cast({}, {})", stored->name, own)};
}

Lines write_cast_to_integer(LineWriter& writer) {
  const DraftValue* x = writer.any_float();
  if (x == nullptr) return {};
  const std::string integer = writer.draw().from({"i32", "i64", "i64", "u8"});
  if (writer.is_whole() || writer.draw().chance(0.5))
    return {fmt::format("$a = cast({}, {})", x->name, writer.is_whole() ? "i64" : integer)};
  return {fmt::format("$a = cast(floor({} * 4), {})", x->name, integer)};
}

}  // namespace

void add_choice_forms(std::vector<LineForm>& forms) {
  forms.push_back({"compare", true, 1, write_compare});
  forms.push_back({"where", true, 1.5, write_where});
  forms.push_back({"mask", true, 0.6, write_mask});
  forms.push_back({"order", true, 1, write_order});
  forms.push_back({"lookup", true, 1.2, write_lookup});
  forms.push_back({"integers", true, 0.7, write_integers});
}

void add_cast_forms(std::vector<LineForm>& forms) {
  forms.push_back({"cast", false, 1, write_cast});
  forms.push_back({"cast_to_integer", true, 0.7, write_cast_to_integer});
}

}  // namespace shardproof
