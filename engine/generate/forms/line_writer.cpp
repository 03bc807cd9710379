// Implements line_writer.h. Half of the operands come from the last six values that fit, so that
// long programs depend on their recent lines.
#include "shardproof/engine/generate/forms/line_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool is_broadcast(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  for (size_t back = 1; back <= static_cast<size_t>(from.size()); ++back) {
    const int64_t size = from[static_cast<size_t>(from.size()) - back];
    if (size != 1 && size != to[static_cast<size_t>(to.size()) - back]) return false;
  }
  return true;
}

}  // namespace

bool is_plain_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

const DraftValue* LineWriter::any_of(const std::function<bool(const DraftValue&)>& fits) {
  std::vector<const DraftValue*> fitting;
  for (const DraftValue& value : draft_.values())
    if (fits(value)) fitting.push_back(&value);
  if (fitting.empty()) return nullptr;
  const int64_t count = std::ssize(fitting);
  const int64_t from = draw_.chance(0.5) ? std::max<int64_t>(0, count - 6) : 0;
  return fitting[static_cast<size_t>(draw_.between(from, count - 1))];
}

const DraftValue* LineWriter::any_float(int64_t least_dims) {
  const DType dtype = draft_.dtype();
  const bool own = draw_.chance(0.9);
  const DraftValue* found = any_of([&](const DraftValue& value) {
    return value.dtype == dtype && own && value.shape.size() >= least_dims;
  });
  if (found != nullptr) return found;
  return any_of([&](const DraftValue& value) {
    return is_plain_float(value.dtype) && value.shape.size() >= least_dims;
  });
}

const DraftValue* LineWriter::like(const DraftValue& value) {
  return any_of([&](const DraftValue& other) {
    return other.dtype == value.dtype && other.shape == value.shape;
  });
}

const DraftValue* LineWriter::broadcast_with(const DraftValue& value) {
  return any_of([&](const DraftValue& other) {
    return is_plain_float(other.dtype) && is_broadcast(other.shape, value.shape);
  });
}

const DraftValue* LineWriter::any_bool_like(const DraftValue& value) {
  return any_of([&](const DraftValue& other) {
    return other.dtype == DType::boolean && is_broadcast(other.shape, value.shape);
  });
}

int64_t LineWriter::dim_of(const DraftValue& value) {
  return draw_.below(static_cast<int64_t>(value.shape.size()));
}

std::string LineWriter::dim_text(const DraftValue& value, int64_t dim) {
  const auto dims = static_cast<int64_t>(value.shape.size());
  return fmt::to_string(draw_.chance(0.3) ? dim - dims : dim);
}

std::string LineWriter::number() {
  if (is_whole()) return draw_.from({"2", "-1", "3"});
  return draw_.from({"0.37", "1.5", "-0.81", "0.1", "2", "3.3", "0.35355339"});
}

std::string LineWriter::target() {
  if (draft_.values().size() > 6 && draw_.chance(0.04)) {
    const DraftValue* value = any_of([](const DraftValue& other) { return other.name[0] == 'v'; });
    if (value != nullptr) return value->name;
  }
  return fresh();
}

}  // namespace shardproof
