// Implements elements.h.
//
// A shard of a value that is cut by rows, or not cut, is one run (ShardRuns). Runs are compared by
// memcmp, and only runs whose bytes differ are compared element by element.
#include "shardproof/engine/compare/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "shardproof/engine/compare/owned_elements.h"
#include "shardproof/engine/execute/buffer_contents.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/split/split.h"

namespace shardproof {
namespace {

// Deviations of one run; `a` and `b` point at its first elements.
void add_deviations(const std::byte* a, const std::byte* b, DType dtype, int64_t length,
                    double share, Deviation at, std::vector<Deviation>& found) {
  const int64_t size = size_of(dtype);
  for (int64_t i = 0; i < length; ++i, a += size, b += size, ++at.global, ++at.local) {
    at.distance = distance(a, b, dtype);
    if (at.distance == 0) continue;
    const double expected = magnitude(b, dtype);
    if (share > 0 && std::isfinite(expected) && at.distance <= share * expected) continue;
    found.push_back(at);
  }
}

// Does what add_deviations does for f64 and f32, the dtypes of nearly all elements.
template <typename Float>
void add_float_deviations(const std::byte* from, const std::byte* to, int64_t length, double share,
                          const Deviation& at, std::vector<Deviation>& found) {
  const auto *a = reinterpret_cast<const Float*>(from), *b = reinterpret_cast<const Float*>(to);
  for (int64_t i = 0; i < length; ++i) {
    const double held = a[i], expected = b[i], size = std::fabs(expected);
    if (std::fabs(held - expected) <= share * size && size < kInfinity) continue;
    const double apart = distance(held, expected);
    if (apart == 0) continue;
    found.push_back({at.copy, at.local + i, at.global + i, apart});
  }
}

// The call that reduces all partials of a value. Redistributions make the same call, so the
// reference gets the bits of the ranks.
struct PartialReduction {
  Reduction reduction;
  int64_t divisor = 1;  // of the result, if sum and avg axes are added together
};

PartialReduction partial_reduction(const Spec& spec) {
  std::optional<PartialReduction> call;
  bool mixed = false;
  int64_t averaged = 1;
  for (const int axis : spec.partial_axes()) {
    const Reduction& own = spec.placement(axis).partial().reduction;
    if (!call) call = {own, 1};
    mixed = mixed || !(own == call->reduction);
    if (own.op == ReduceOp::avg) averaged *= spec.mesh().axis_size(axis);
  }
  SP_CHECK(call, "no axis is partial");
  return mixed ? PartialReduction{{ReduceOp::sum, 0}, averaged} : *call;
}

void divide_elements(Tensor& tensor, int64_t divisor) {
  const DType part = component_dtype(tensor.dtype);
  const int64_t bytes = size_of(part), parts = tensor.elements() * size_of(tensor.dtype) / bytes;
  for (int64_t slot = 0; slot < tensor.buffer->slots.count(); ++slot) {
    std::byte* at = tensor.mutate(slot);
    for (int64_t i = 0; i < parts; ++i, at += bytes) {
      if (is_floating(part))
        store_f64(at, part, load_f64(at, part) / static_cast<double>(divisor));
      else
        store_i64(at, part, load_i64(at, part) / divisor);
    }
  }
}

LocalTensor all_reduced(const LocalTensor& value, Collective call) {
  std::map<Dims, Lanes> by_shape;
  for (const Block& block : value.blocks()) {
    Lanes& lanes = by_shape[block.tensor.shape];
    lanes = lanes.unite(block.lanes);
  }
  std::vector<Block> reduced;
  for (const auto& [shape, lanes] : by_shape) {
    LocalTensor flat(block_without_contents(call.dtype, Dims{element_count(shape)}, lanes));
    adopt(flat, value.restrict_to(lanes));
    call.count = element_count(shape);
    LocalTensor one = reference(call, flat);
    for (Block& block : one.blocks()) {
      block.tensor.shape = shape;
      block.tensor.strides = contiguous_strides(shape);
      reduced.push_back(block);
    }
  }
  return LocalTensor(std::move(reduced));
}

}  // namespace

std::vector<StoredCopy> stored_copies(const LocalTensor& value, const Spec& spec) {
  std::vector<StoredCopy> copies;
  const bool cut = std::any_of(spec.placements().begin(), spec.placements().end(),
                               [](const Placement& p) { return p.is_shard(); });
  for (const Block& block : value.blocks()) {
    if (block.tensor.buffer->slots.is_each()) {
      for (int64_t i = 0; i < block.lanes.size(); ++i)
        copies.push_back({&block, block.slot(i), Lanes::one(block.lanes[i])});
      continue;
    }
    if (!cut && block.tensor.buffer->slots.is_shared() && !block.lanes.empty()) {
      copies.push_back({&block, 0, block.lanes});
      continue;
    }
    // Ranks may share one copy because their different shards have equal contents.
    std::map<std::pair<int64_t, Dims>, size_t> known;
    std::vector<std::vector<int32_t>> readers;
    const size_t first = copies.size();
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const int64_t slot = block.slot(i);
      const Dims place = cut ? place_of_shard(spec, block.lanes[i]) : Dims();
      const auto [entry, fresh] = known.emplace(std::pair(slot, place), readers.size());
      if (fresh) {
        copies.push_back({&block, slot, {}});
        readers.emplace_back();
      }
      readers[entry->second].push_back(block.lanes[i]);
    }
    for (size_t i = 0; i < readers.size(); ++i)
      copies[first + i].ranks = Lanes::of(std::move(readers[i]));
  }
  return copies;
}

ShardRuns::ShardRuns(const Spec& spec) : spec_(spec) {
  const Dims& shape = spec.shape();
  const Dims strides = contiguous_strides(shape);
  const auto is_cut = [&](int d) {
    return std::any_of(spec.placements().begin(), spec.placements().end(),
                       [&](const Placement& placement) { return placement.is_shard(d); });
  };
  int last = shape.size();
  while (last > 0 && !is_cut(last - 1)) uncut_ *= shape[--last];
  dims_.reserve(static_cast<size_t>(last));
  for (int d = 0; d < last; ++d) {
    Dim& dim = dims_.emplace_back();
    dim.stride = strides[d];
    dim.is_cut = is_cut(d);
    if (dim.is_cut) continue;
    dim.length = shape[d];
    if (shape[d] > 0) dim.runs.push_back({0, 0, shape[d]});
  }
}

void ShardRuns::move_to(int64_t rank) {
  const Dims place = *spec_.mesh().coordinate_of(rank);
  for (size_t d = 0; d < dims_.size(); ++d) {
    Dim& dim = dims_[d];
    if (!dim.is_cut) continue;
    dim.runs.clear();
    dim.length = 0;
    for (const Run& run : spec_.owned_at(place, static_cast<int>(d))) {
      dim.runs.push_back({dim.length, run.start, run.length});
      dim.length += run.length;
    }
  }
  depth_ = dims_.size();
  inner_ = uncut_;
  for (; depth_ > 0; --depth_) {
    const Dim& dim = dims_[depth_ - 1];
    const int64_t size = spec_.shape()[static_cast<int>(depth_) - 1];
    if (dim.runs.size() != 1 || dim.length != size) break;
    inner_ *= size;
  }
}

bool is_exact(DType dtype) { return !is_floating(dtype) && !is_complex(dtype); }

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::fabs(a - b);
  return std::isnan(apart) ? kInfinity : apart;
}

Tensor dense(const Tensor& tensor) {
  return tensor.contiguous() ? tensor : contiguous_copy(tensor);
}

double distance(const std::byte* a, const std::byte* b, DType dtype) {
  if (is_floating(dtype)) return distance(load_f64(a, dtype), load_f64(b, dtype));
  if (is_complex(dtype)) {
    const DType part = component_dtype(dtype);
    const int64_t half = size_of(part);
    return std::max(distance(load_f64(a, part), load_f64(b, part)),
                    distance(load_f64(a + half, part), load_f64(b + half, part)));
  }
  if (std::memcmp(a, b, static_cast<size_t>(size_of(dtype))) == 0) return 0;
  return std::max(1.0, std::fabs(load_f64(a, dtype) - load_f64(b, dtype)));
}

double magnitude(const std::byte* element, DType dtype) {
  if (!is_complex(dtype)) return std::fabs(load_f64(element, dtype));
  const DType part = component_dtype(dtype);
  const double real = std::fabs(load_f64(element, part));
  const double imaginary = std::fabs(load_f64(element + size_of(part), part));
  return std::isnan(imaginary) ? imaginary : std::max(real, imaginary);
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor all = dense(tensor);
  const bool complex = is_complex(all.dtype);
  std::vector<double> numbers(static_cast<size_t>(all.elements() * (complex ? 2 : 1)));
  convert(all.data(), all.dtype, reinterpret_cast<std::byte*>(numbers.data()),
          complex ? DType::c128 : DType::f64, all.elements());
  return numbers;
}

double distance_at(const Tensor& a, const Tensor& b, int64_t i) {
  const int64_t at = i * size_of(a.dtype);
  return distance(a.data() + at, b.data() + at, a.dtype);
}

double magnitude_at(const Tensor& tensor, int64_t i) {
  return magnitude(tensor.data() + i * size_of(tensor.dtype), tensor.dtype);
}

bool uses_last_bits(const Tensor& tensor) {
  // A cache line of numbers; compilers split it into registers.
  typedef uint32_t NumberLine __attribute__((vector_size(64), aligned(4), may_alias));
  constexpr uint32_t kLastBits = 0xf;
  constexpr int64_t kBlock = 1024, kLine = 16;  // numbers looked at together
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::c64) return false;
  const Tensor own = dense(tensor);
  const int64_t count = own.elements() * (own.dtype == DType::c64 ? 2 : 1);
  const auto* bits = reinterpret_cast<const uint32_t*>(own.data());
  int64_t at = 0;
  for (; at + kBlock <= count; at += kBlock) {
    NumberLine line = {};
    for (int64_t i = 0; i < kBlock; i += kLine)
      line |= *reinterpret_cast<const NumberLine*>(bits + at + i);
    uint32_t any = 0;
    for (int64_t i = 0; i < kLine; ++i) any |= line[i];
    if ((any & kLastBits) != 0) return true;
  }
  return std::any_of(bits + at, bits + count,
                     [](uint32_t each) { return (each & kLastBits) != 0; });
}

std::vector<double> distances(const Tensor& a, const Tensor& b) {
  std::vector<double> all(static_cast<size_t>(a.elements()));
  if (a.dtype == DType::f64) {
    const auto *x = reinterpret_cast<const double*>(a.data()),
               *y = reinterpret_cast<const double*>(b.data());
    for (size_t i = 0; i < all.size(); ++i) all[i] = distance(x[i], y[i]);
    return all;
  }
  for (size_t i = 0; i < all.size(); ++i) all[i] = distance_at(a, b, static_cast<int64_t>(i));
  return all;
}

template <typename T>
static double largest_real(const T* values, int64_t count) {
  T largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T size = std::fabs(values[i]);
    if (size > largest && size <= std::numeric_limits<T>::max()) largest = size;
  }
  return largest;
}

double largest_element(const Tensor& tensor) {
  const Tensor own = dense(tensor);
  if (own.dtype == DType::f32)
    return largest_real(reinterpret_cast<const float*>(own.data()), own.elements());
  if (own.dtype == DType::f64)
    return largest_real(reinterpret_cast<const double*>(own.data()), own.elements());
  double largest = 0;
  for (int64_t i = 0; i < own.elements(); ++i) {
    const double size = magnitude_at(own, i);
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  return largest;
}

const std::byte* element_at(const StoredCopy& copy, int64_t local) {
  const Tensor& tensor = copy.block->tensor;
  if (tensor.contiguous()) return tensor.data(copy.slot) + local * size_of(tensor.dtype);
  const Dims index = unravel(local, tensor.shape);
  int64_t at = 0;
  for (int d = 0; d < index.size(); ++d) at += index[d] * tensor.strides[d];
  return tensor.data(copy.slot) + at * size_of(tensor.dtype);
}

namespace {

// A shard of columns has many short runs, for which a call of memcmp costs more than the
// comparison.
inline bool are_equal_bytes(const std::byte* a, const std::byte* b, int64_t bytes) {
  constexpr int64_t kShort = 64, kWord = 8;
  if (bytes > kShort || bytes % kWord != 0)
    return std::memcmp(a, b, static_cast<size_t>(bytes)) == 0;
  uint64_t differing = 0;
  for (int64_t at = 0; at < bytes; at += kWord) {
    uint64_t left = 0, right = 0;
    std::memcpy(&left, a + at, kWord);
    std::memcpy(&right, b + at, kWord);
    differing |= left ^ right;
  }
  return differing == 0;
}

// Calls visit(copy, a, b, local, global, length) for each run of each copy whose bytes differ from
// those of `expected`, until it returns false.
template <typename Visit>
void for_each_differing_run(const std::vector<StoredCopy>& copies, const Spec& spec,
                            const Tensor& expected, const Visit& visit) {
  const int64_t size = size_of(expected.dtype);
  if (expected.elements() == 0) return;
  const std::byte* right = expected.data();
  std::map<const Block*, Tensor> of_views;
  ShardRuns runs(spec);
  bool continues = true;
  for (size_t c = 0; c < copies.size() && continues; ++c) {
    const Block& block = *copies[c].block;
    const Tensor* tensor = &block.tensor;
    if (!tensor->contiguous())
      tensor = &of_views.try_emplace(&block, contiguous_copy(*tensor)).first->second;
    const std::byte* a = tensor->data(copies[c].slot);
    runs.move_to(copies[c].ranks[0]);
    runs.for_each([&](int64_t local, int64_t global, int64_t length) {
      const std::byte *from = a + local * size, *to = right + global * size;
      if (!continues || are_equal_bytes(from, to, length * size)) return;
      continues = visit(c, from, to, local, global, length);
    });
  }
}

}  // namespace

bool are_identical(const std::vector<StoredCopy>& copies, const Spec& spec,
                   const Tensor& expected) {
  bool identical = true;
  for_each_differing_run(copies, spec, expected, [&](auto&&...) { return identical = false; });
  return identical;
}

std::vector<Deviation> deviations(const std::vector<StoredCopy>& copies, const Spec& spec,
                                  const Tensor& expected, double share) {
  std::vector<Deviation> found;
  for_each_differing_run(copies, spec, expected,
                         [&](size_t copy, const std::byte* from, const std::byte* to, int64_t local,
                             int64_t global, int64_t length) {
                           const Deviation at{copy, local, global, 0};
                           if (expected.dtype == DType::f64)
                             add_float_deviations<double>(from, to, length, share, at, found);
                           else if (expected.dtype == DType::f32)
                             add_float_deviations<float>(from, to, length, share, at, found);
                           else
                             add_deviations(from, to, expected.dtype, length, share, at, found);
                           return true;
                         });
  return found;
}

LocalTensor reduced_over_partials(const LocalTensor& value, const Spec& spec, DType dtype) {
  std::vector<Block> blocks;
  for (const Block& block : value.blocks()) {
    if (!has_contents(block.tensor)) poison(*block.tensor.buffer, block.tensor.dtype);
    blocks.push_back({block.lanes, as_dtype(block.tensor, dtype)});
  }
  LocalTensor parts(std::move(blocks));
  if (!spec.has_partial()) return parts;
  const auto [reduction, divisor] = partial_reduction(spec);
  Collective call;
  call.kind = CollectiveKind::all_reduce;
  call.reduction = reduction;
  call.dtype = dtype;
  call.group = Group::of_axes(spec.mesh(), spec.partial_axes());
  LocalTensor reduced = all_reduced(parts, std::move(call));
  if (divisor != 1)
    for (Block& block : reduced.blocks()) divide_elements(block.tensor, divisor);
  return reduced;
}

namespace {

// Returns `base` with the elements that ranks hold, each from the first rank that has it.
Tensor overlaid(const Tensor& base, const LocalTensor& reduced, const Spec& spec) {
  Tensor whole = contiguous_copy(base);
  const int64_t size = size_of(whole.dtype);
  std::byte* to = whole.mutate();
  const std::vector<StoredCopy> copies = stored_copies(reduced, spec);
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    const Tensor& tensor = copy->block->tensor;
    const Tensor own = dense(tensor);
    const std::byte* from = own.data(copy->slot);
    ShardRuns(spec, copy->ranks[0]).for_each([&](int64_t local, int64_t global, int64_t length) {
      std::memcpy(to + global * size, from + local * size, static_cast<size_t>(length * size));
    });
  }
  return whole;
}

Tensor zeros(DType dtype, const Dims& shape) {
  return tensor_of(dtype, shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 0));
}

}  // namespace

Tensor assembled(const LocalTensor& reduced, const Spec& spec, const Tensor* base) {
  Spec whole = spec.with_dtype(reduced.dtype());
  for (const int axis : spec.partial_axes()) whole = whole.with_placement(axis, R());
  if (reduced.lanes().contains(spec.mesh().ranks()))
    return as_dtype(assemble(reduced, whole), spec.dtype());
  const Tensor under =
      base != nullptr ? as_dtype(*base, reduced.dtype()) : zeros(reduced.dtype(), spec.shape());
  return as_dtype(overlaid(under, reduced, whole), spec.dtype());
}

Tensor whole_value(const LocalTensor& value, const Spec& spec, const Tensor* base) {
  if (!spec.has_partial()) return assembled(value, spec, base);
  const DType wide = is_floating(spec.dtype())  ? DType::f64
                     : is_complex(spec.dtype()) ? DType::c128
                                                : spec.dtype();
  return assembled(reduced_over_partials(value, spec, wide), spec, base);
}

namespace {

// Returns the weight of each part in the reduced value; nullopt if partial axes do not add.
std::optional<double> weight_of_parts(const Spec& spec) {
  double weight = 1;
  for (const int axis : spec.partial_axes()) {
    const ReduceOp op = spec.placement(axis).partial().reduction.op;
    if (op != ReduceOp::sum && op != ReduceOp::avg) return std::nullopt;
    if (op == ReduceOp::avg) weight /= static_cast<double>(spec.mesh().axis_size(axis));
  }
  return weight;
}

// True for exactly one of the ranks that hold the same part of the same shard.
bool is_first_replica(const Spec& spec, int32_t rank) {
  const Dims place = *spec.mesh().coordinate_of(rank);
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate() && place[axis] != 0) return false;
  return true;
}

}  // namespace

std::vector<double> part_sizes(const LocalTensor& value, const Spec& spec,
                               const std::vector<int64_t>& elements) {
  std::vector<double> sizes(elements.size(), 0);
  const std::optional<double> weight = weight_of_parts(spec);
  if (!spec.has_partial() || !weight) {
    const Tensor whole = whole_value(value, spec);
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = magnitude_at(whole, elements[i]);
    return sizes;
  }
  for (const Block& block : value.blocks()) {
    const Tensor own = dense(block.tensor);
    const int64_t size = size_of(own.dtype);
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      if (!is_first_replica(spec, block.lanes[i])) continue;
      const std::byte* data = own.data(block.slot(i));
      ShardRuns(spec, block.lanes[i]).for_each([&](int64_t local, int64_t global, int64_t length) {
        auto at = std::lower_bound(elements.begin(), elements.end(), global);
        for (; at != elements.end() && *at < global + length; ++at)
          sizes[static_cast<size_t>(at - elements.begin())] +=
              *weight * magnitude(data + (local + *at - global) * size, own.dtype);
      });
    }
  }
  return sizes;
}

std::vector<double> part_sizes(const LocalTensor& value, const Spec& spec) {
  std::vector<int64_t> all(static_cast<size_t>(element_count(spec.shape())));
  std::iota(all.begin(), all.end(), int64_t{0});
  return part_sizes(value, spec, all);
}

namespace {

// Returns by element the exponent of the lowest bit that is set in one of its parts, in f64.
std::vector<int> lowest_bits(const LocalTensor& value, const Spec& spec) {
  std::vector<int> lowest(static_cast<size_t>(element_count(spec.shape())),
                          std::numeric_limits<int>::max());
  for (const Block& block : value.blocks()) {
    const Tensor own = dense(block.tensor);
    for (int64_t i = 0; i < block.lanes.size(); ++i) {
      const std::byte* data = own.data(block.slot(i));
      ShardRuns(spec, block.lanes[i]).for_each([&](int64_t local, int64_t global, int64_t length) {
        for (int64_t k = 0; k < length; ++k) {
          const double part = load_f64(data + (local + k) * 8, DType::f64);
          if (part == 0 || !std::isfinite(part)) continue;
          int exponent = 0;
          const double significand = std::ldexp(std::frexp(std::fabs(part), &exponent), 53);
          const int bit = exponent - 53 + std::countr_zero(static_cast<uint64_t>(significand));
          int& known = lowest[static_cast<size_t>(global + k)];
          known = std::min(known, bit);
        }
      });
    }
  }
  return lowest;
}

}  // namespace

std::vector<double> rounding_part_sizes(const LocalTensor& value, const Spec& spec) {
  const std::optional<double> weight = weight_of_parts(spec);
  if (!spec.has_partial() || !weight) return {};
  std::vector<double> sizes = part_sizes(value, spec);
  int exponent = 0;
  if (value.dtype() != DType::f64 || std::frexp(*weight, &exponent) != 0.5) return sizes;
  const std::vector<int> lowest = lowest_bits(value, spec);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] / *weight < std::ldexp(1.0, 53 + std::min(lowest[i], 900))) sizes[i] = 0;
  return sizes;
}

bool are_apart(const std::vector<Deviation>& found, const std::vector<StoredCopy>& copies,
               const Spec& spec, const Tensor& expected, double share) {
  const double allowed = share * largest_element(expected);
  if (std::all_of(found.begin(), found.end(),
                  [&](const Deviation& one) { return 2 * one.distance <= allowed; }))
    return false;
  std::map<Dims, size_t> copies_at;  // of the shard that begins there
  for (const StoredCopy& copy : copies) ++copies_at[spec.start(copy.ranks[0])];
  std::vector<size_t> owners;  // by copy: copies of the same shard
  for (const StoredCopy& copy : copies) owners.push_back(copies_at[spec.start(copy.ranks[0])]);
  const auto held = [&](const Deviation& one) { return element_at(copies[one.copy], one.local); };
  const auto elements = static_cast<size_t>(expected.elements());
  std::vector<const Deviation*> first(elements, nullptr);  // by element
  std::vector<size_t> differing(elements, 0);
  for (const Deviation& one : found) {
    const auto at = static_cast<size_t>(one.global);
    if (differing[at]++ == 0) first[at] = &one;
    if (!(distance(held(one), held(*first[at]), expected.dtype) <= allowed)) return true;
  }
  for (size_t at = 0; at < elements; ++at)
    if (first[at] != nullptr && differing[at] < owners[first[at]->copy] &&
        !(first[at]->distance <= allowed))
      return true;
  return false;
}

}  // namespace shardproof
