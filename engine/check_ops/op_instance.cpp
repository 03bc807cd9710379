// Implements op_instance.h.
#include "shardproof/engine/check_ops/op_instance.h"

#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/ops/core/widen_op_call.h"

namespace shardproof {
namespace {

std::vector<double> fill_arguments(const std::string& fill) {
  std::vector<double> numbers;
  const size_t open = fill.find('(');
  if (open == std::string::npos) return numbers;
  size_t at = open + 1;
  while (at < fill.size() && fill[at] != ')') {
    size_t used = 0;
    numbers.push_back(std::stod(fill.substr(at), &used));
    at += used;
    while (at < fill.size() && (fill[at] == ',' || fill[at] == ' ')) ++at;
  }
  return numbers;
}

double fill_number(const std::string& kind, const std::vector<double>& numbers, DType dtype,
                   const Rng& rng, uint64_t i) {
  if (kind == "uniform") return numbers[0] + (numbers[1] - numbers[0]) * rng.uniform(i);
  if (kind == "normal") return numbers[0] + numbers[1] * rng.normal(i);
  if (kind == "ones") return 1;
  if (kind == "zeros") return 0;
  if (kind == "iota") return static_cast<double>(i);
  if (kind == "bools" || (kind == "ints" && dtype == DType::boolean))
    return static_cast<double>(rng.integer(i, 0, 2));
  SP_CHECK(kind == "ints", "fill {}", kind);
  const int64_t low = dtype == DType::u8 ? 0 : -4, high = dtype == DType::u8 ? 9 : 5;
  if (numbers.empty()) return static_cast<double>(rng.integer(i, low, high));
  return static_cast<double>(
      rng.integer(i, static_cast<int64_t>(numbers[0]), static_cast<int64_t>(numbers[1])));
}

// Returns I + b b^T / n, with numbers of -1..1 in b.
std::vector<double> definite_matrices(const Dims& shape, uint64_t seed) {
  const int dims = shape.size();
  if (dims < 2 || shape[dims - 1] != shape[dims - 2])
    throw_bad_input("fill {}: {} has no square matrices", kDefiniteFill, to_string(shape));
  const int64_t n = shape[dims - 1], count = element_count(shape);
  const Rng rng(seed, hash_text(kDefiniteFill));
  const auto b = [&](int64_t at) { return rng.uniform(static_cast<uint64_t>(at)) * 2 - 1; };
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t first = 0; first < count; first += n * n)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += b(first + i * n + k) * b(first + j * n + k);
        values[static_cast<size_t>(first + i * n + j)] =
            sum / static_cast<double>(n) + (i == j ? 1 : 0);
      }
  return values;
}

}  // namespace

Tensor filled_by(const std::string& fill, DType dtype, const Dims& shape, uint64_t seed) {
  if (fill == kDefiniteFill) return tensor_of(dtype, shape, definite_matrices(shape, seed));
  const std::string kind = fill.substr(0, fill.find('('));
  const std::vector<double> numbers = fill_arguments(fill);
  const Rng rng(seed, hash_text(kind));
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = fill_number(kind, numbers, dtype, rng, i);
  return tensor_of(dtype, shape, values);
}

std::vector<const Tensor*> OpInstance::pointers() const {
  std::vector<const Tensor*> list;
  for (const Tensor& tensor : tensors) list.push_back(tensor.buffer ? &tensor : nullptr);
  return list;
}

Attrs with_fallbacks(const OpRecord& record, Attrs attrs) {
  record.fill_fallbacks(attrs);
  return attrs;
}

OpInstance instance_of(const OpRecord& record, const Sample& sample, uint64_t seed) {
  OpInstance instance;
  instance.record = &record;
  instance.attrs = with_fallbacks(record, sample.attrs);
  instance.inputs = sample.inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorMeta& meta = sample.inputs[i];
    const std::string fill =
        i < sample.fills.size() && !sample.fills[i].empty() ? sample.fills[i] : "ints";
    instance.tensors.push_back(meta.absent ? Tensor{}
                                           : filled_by(fill, meta.dtype, meta.shape, seed + i));
    instance.fills.push_back(fill);
  }
  return instance;
}

namespace {

Tensor converted(const Tensor& tensor, DType to) {
  if (!tensor.buffer || tensor.dtype == to) return tensor;
  Tensor result = Tensor::empty(to, tensor.shape);
  convert(tensor.data(), tensor.dtype, result.mutate(), to, tensor.elements());
  return result;
}

void cast_input(OpInstance& instance, size_t input, DType to) {
  instance.inputs[input].dtype = to;
  instance.tensors[input] = converted(instance.tensors[input], to);
}

std::vector<DType> dtypes_of_metas(const std::vector<TensorMeta>& metas) {
  std::vector<DType> dtypes;
  for (const TensorMeta& meta : metas) dtypes.push_back(meta.dtype);
  return dtypes;
}

}  // namespace

std::optional<OpInstance> in_f64(const OpInstance& instance) {
  const OpRecord& op = *instance.record;
  const std::vector<DType> own = dtypes_of_metas(op.infer(instance.call()));
  std::vector<DType> wanted;
  for (const DType dtype : own) wanted.push_back(wider(dtype));
  if (own == wanted) return std::nullopt;
  OpInstance wide = instance;
  wide.attrs = in_wider_floats(op, instance.call());
  for (size_t i = 0; i < wide.inputs.size(); ++i)
    if (!wide.inputs[i].absent) cast_input(wide, i, wider(wide.inputs[i].dtype));
  const WideResult how = wide_result(op, wide.call(), wanted);
  if (how.outputs) return std::nullopt;
  if (!how.dtype.empty()) wide.attrs.set(how.dtype, DType::f64);
  for (size_t i = 0; i < how.inputs.size(); ++i)
    if (how.inputs[i]) cast_input(wide, i, DType::f64);
  return wide;
}

std::string call_text(const OpInstance& instance, const std::vector<std::string>& names) {
  std::string text = instance.record->name + "(";
  size_t next = 0;
  bool first = true;
  const auto add = [&](const std::string& argument) {
    text += (first ? "" : ", ") + argument;
    first = false;
  };
  for (const Param& param : instance.record->params) {
    if (param.kind == ParamKind::tensors) {
      std::string list;
      for (; next < instance.inputs.size(); ++next)
        list += (list.empty() ? "" : ", ") + names[next];
      add("[" + list + "]");
    } else if (param.kind == ParamKind::tensor || param.kind == ParamKind::optional_tensor) {
      const size_t i = next++;
      if (i < instance.inputs.size() && !instance.inputs[i].absent)
        add(param.required ? names[i] : param.name + "=" + names[i]);
    } else {
      const auto given = instance.attrs.values().find(param.name);
      if (given == instance.attrs.values().end() || given->second == param.fallback ||
          !instance.attrs.has(param.name))
        continue;
      add(fmt::format("{}={}", param.name, to_string(given->second)));
    }
  }
  return text + ")";
}

void mirror_lower_triangles(Tensor& tensor) {
  const int64_t n = tensor.shape[tensor.shape.size() - 1];
  std::byte* const at = tensor.mutate();
  for (int64_t first = 0; first < tensor.elements(); first += n * n)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < i; ++j)
        std::memcpy(at + 8 * (first + j * n + i), at + 8 * (first + i * n + j), 8);
}

bool are_symmetric(const Tensor& tensor) {
  const int dims = tensor.shape.size();
  if (dims < 2 || tensor.shape[dims - 1] != tensor.shape[dims - 2]) return false;
  Tensor mirrored = contiguous_copy(tensor);
  mirror_lower_triangles(mirrored);
  return bit_equal(mirrored, 0, tensor, 0);
}

}  // namespace shardproof
