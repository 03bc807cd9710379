// Implements kernel_equality.h. For each sample, dtype and draw: draw operands with random
// contents, layouts and sharing of copies. Then run the device kernel on all lanes and the host
// kernel on each lane, and let the judge compare both.
#include "shardproof/tests/gpu/kernels/kernel_equality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/tensor/copy_strided.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/run_single_device.h"
#include "shardproof/tests/gpu/kernels/long_samples.h"
#include "shardproof/tests/ops/agreement.h"

namespace shardproof::testing {
namespace {

constexpr int64_t kLanes = 3;
constexpr uint64_t kLibraryDraw = 1 << 20;  // separate from the draws for operands

// One input of all lanes: its contents by copy, and which copy each lane reads.
struct Operand {
  TensorMeta meta;
  std::vector<Tensor> copies;  // contiguous, each of one device
  Slots slots;
  Tensor laid_out;  // all copies in one buffer, perhaps strided

  int64_t lane_stride() const { return slots.is_shared() ? 0 : laid_out.buffer->bytes_per_lane; }
};

Slots random_slots(const Rng& rng, uint64_t draw) {
  switch (rng.integer(draw, 0, 3)) {
    case 0: return Slots::shared(kLanes);
    case 1: return Slots::each(kLanes);
    default: return Slots::table({1, 0, 1});
  }
}

// Returns space in which the last two dims are swapped and elements lie two apart, or dense space.
Tensor room_for(const TensorMeta& meta, const Slots& slots, bool strided) {
  const Lanes lanes = Lanes::range(0, kLanes);
  if (!strided || meta.shape.size() == 0)
    return Tensor::empty(meta.dtype, meta.shape, lanes, slots);
  Dims room = meta.shape;
  const int last = room.size() - 1;
  if (last > 0) std::swap(room[last], room[last - 1]);
  room[last] *= 2;
  Tensor tensor = Tensor::empty(meta.dtype, room, lanes, slots);
  tensor.shape = meta.shape;
  if (last > 0) std::swap(tensor.strides[last], tensor.strides[last - 1]);
  for (int d = 0; d < tensor.strides.size(); ++d)
    if (d == (last > 0 ? last - 1 : last)) tensor.strides[d] = 2;
  return tensor;
}

void lay_out(Operand& operand, bool strided) {
  operand.laid_out = room_for(operand.meta, operand.slots, strided);
  Tensor& to = operand.laid_out;
  for (int64_t slot = 0; slot < operand.slots.count(); ++slot) {
    const Tensor& from = operand.copies[static_cast<size_t>(slot)];
    copy_strided(from.data(0), from.strides, to.mutate(slot), to.strides, to.shape,
                 size_of(to.dtype));
  }
}

LaneView view_of(const Tensor& tensor, const Slots& slots, std::byte* base) {
  LaneView view;
  view.base = base + tensor.offset * size_of(tensor.dtype);
  view.lane_stride = slots.is_shared() ? 0 : tensor.buffer->bytes_per_lane;
  view.slots = slots.table_data();
  view.dtype = tensor.dtype;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  return view;
}

class Comparison {
 public:
  Comparison(const OpRecord& op, const Sample& sample, uint64_t seed)
      : rng_(seed, hash_text(op.name)), seed_(seed) {
    first_ = instance_of(op, sample, seed);
    outputs_ = op.infer(first_.call());
    host_ = op.prepare(first_.call(), outputs_);
  }

  const Kernel& host_kernel() const { return host_; }
  const OpInstance& instance() const { return first_; }
  const std::vector<TensorMeta>& outputs() const { return outputs_; }

  std::string run(const Kernel& on_device, const std::shared_ptr<Device>& device,
                  const Sample& sample, const Judge& judge) {
    draw_operands(sample, on_device.accepts_strides);
    const std::vector<Tensor> got = run_device(on_device, device);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const OpInstance exact = lane_instance(lane);
      KernelResults results{exact, run_host(exact), {}};
      for (const Tensor& all : got) {
        Tensor one = all;
        one.offset = lane * one.elements();
        results.device.push_back(contiguous_copy_of(one));
      }
      if (std::string text = judge(results); !text.empty())
        return fmt::format("lane {}: {}", lane, text);
    }
    return "";
  }

 private:
  void draw_operands(const Sample& sample, bool may_stride) {
    uint64_t draw = 0;
    for (size_t i = 0; i < first_.inputs.size(); ++i) {
      Operand& operand = operands_.emplace_back();
      operand.meta = first_.inputs[i];
      if (operand.meta.absent) continue;
      operand.slots = random_slots(rng_, draw++);
      for (int64_t c = 0; c < operand.slots.count(); ++c)
        operand.copies.push_back(
            instance_of(*first_.record, sample, seed_ + 100 * static_cast<uint64_t>(c)).tensors[i]);
      lay_out(operand, may_stride && rng_.integer(draw++, 0, 2) == 1);
    }
  }

  OpInstance lane_instance(int64_t lane) const {
    OpInstance instance = first_;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!operands_[i].meta.absent)
        instance.tensors[i] = operands_[i].copies[static_cast<size_t>(operands_[i].slots[lane])];
    return instance;
  }

  static Tensor contiguous_copy_of(const Tensor& view) {
    Tensor copy = Tensor::empty(view.dtype, view.shape);
    copy_strided(view.data(0), view.strides, copy.mutate(0), copy.strides, view.shape,
                 size_of(view.dtype));
    return copy;
  }

  std::vector<Tensor> run_host(const OpInstance& instance) const {
    std::vector<LaneView> ins, outs;
    const Slots one = Slots::shared(1);
    for (const Tensor& tensor : instance.tensors)
      ins.push_back(tensor.buffer ? view_of(tensor, one, const_cast<std::byte*>(tensor.data(0)))
                                  : LaneView());
    std::vector<Tensor> results;
    for (const TensorMeta& meta : outputs_)
      results.push_back(Tensor::empty(meta.dtype, meta.shape));
    for (Tensor& tensor : results) outs.push_back(view_of(tensor, one, tensor.mutate(0)));
    Bytes workspace = Bytes::uninitialized(host_.workspace_bytes);
    KernelCall call;
    call.inputs = &ins;
    call.outputs = &outs;
    call.workspace = workspace.mutate();
    host_.run(call);
    return results;
  }

  std::vector<Tensor> run_device(const Kernel& kernel, const std::shared_ptr<Device>& device) {
    std::vector<LaneView> ins, outs;
    for (const Operand& operand : operands_) {
      if (operand.meta.absent) {
        ins.emplace_back();
        continue;
      }
      const Bytes& bytes = operand.laid_out.buffer->bytes;
      ins.push_back(view_of(operand.laid_out, operand.slots,
                            const_cast<std::byte*>(bytes.device_data(device))));
    }
    std::vector<Tensor> results;
    const Slots each = Slots::each(kLanes);
    for (const TensorMeta& meta : outputs_) {
      Tensor& tensor = results.emplace_back(
          Tensor::without_contents(meta.dtype, meta.shape, Lanes::range(0, kLanes)));
      tensor.buffer->slots = each;
      tensor.buffer->bytes = Bytes::on_device(device, kLanes * tensor.buffer->bytes_per_lane);
      outs.push_back(view_of(tensor, each, tensor.buffer->bytes.device_mutate(device)));
    }
    Bytes workspace = Bytes::on_device(device, kernel.workspace_bytes);
    KernelCall call;
    call.lanes = kLanes;
    call.inputs = &ins;
    call.outputs = &outs;
    call.workspace = workspace.device_mutate(device);
    call.memory = device.get();
    call.stream = device->native_stream();
    if (rng_.integer(kLibraryDraw, 0, 2) == 1) call.gemm = device->gemm();
    kernel.run(call);
    device->check_launch();
    return results;
  }

  Rng rng_;
  uint64_t seed_;
  OpInstance first_;
  std::vector<TensorMeta> outputs_;
  Kernel host_;
  std::vector<Operand> operands_;
};

std::string dtypes_text(const Comparison& comparison) {
  std::string text;
  for (const TensorMeta& meta : comparison.instance().inputs)
    text += fmt::format("{}{} ", meta.absent ? "-" : name(meta.dtype), to_string(meta.shape));
  text += "->";
  for (const TensorMeta& meta : comparison.outputs()) text += fmt::format(" {}", name(meta.dtype));
  return text;
}

// True if the sample has indices below 0, which unsigned dtypes cannot hold.
bool counts_from_end(const Sample& sample) {
  return std::any_of(sample.fills.begin(), sample.fills.end(),
                     [](const std::string& fill) { return fill.starts_with("ints(-"); });
}

// Returns the sample in its own dtypes, and with all its floats or all its integers in another one.
std::vector<Sample> in_all_dtypes(const Sample& sample) {
  std::vector<Sample> samples{sample};
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i64,
        DType::i32, DType::i16, DType::i8, DType::u8}) {
    if (dtype == DType::u8 && counts_from_end(sample)) continue;
    Sample other = sample;
    bool changed = false;
    for (TensorMeta& meta : other.inputs) {
      const bool alike = is_floating(dtype) ? is_floating(meta.dtype) : is_integral(meta.dtype);
      if (meta.absent || !alike || meta.dtype == dtype) continue;
      meta.dtype = dtype;
      changed = true;
    }
    if (changed) samples.push_back(std::move(other));
  }
  return samples;
}

bool takes(const OpRecord& op, const Sample& sample) {
  try {
    const OpInstance instance = instance_of(op, sample, 1);
    if (op.is_composite(instance.call())) return false;
    op.prepare(instance.call(), op.infer(instance.call()));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// True if the device may compute other bits. Products may be made by NVIDIA's library in an order
// of its own. Other ops differ only in functions of the C library (ops/elementwise/double_math.h
// and the functors), which each device implements itself. All other arithmetic is IEEE 754's, in
// one order.
bool may_differ(const OpRecord& op) {
  static const std::set<std::string> kCallFunctions = {
      "acos",  "acosh",       "asin",          "asinh",      "atan",         "atan2",     "atanh",
      "cos",   "cosh",        "cross_entropy", "erf",        "erfc",         "exp",       "exp2",
      "expm1", "gelu",        "gelu_grad",     "hypot",      "log",          "log10",     "log1p",
      "log2",  "log_softmax", "logaddexp",     "logaddexp2", "logcumsumexp", "logsumexp", "norm",
      "pow",   "rope",        "sdpa",          "sigmoid",    "silu",         "silu_grad", "sin",
      "sinh",  "softmax",     "softplus",      "tan",        "tanh"};
  return op.family == "matmul" || op.name == "cross_entropy_grad" || op.name == "sdpa_grad" ||
         kCallFunctions.contains(op.name);
}

// Bounds the size of the terms of each number of a result. For an elementwise op these are the
// number and its operands there; for any other op, all numbers of inputs and outputs.
class Sizes {
 public:
  Sizes(const OpInstance& instance, const Tensor& want) : numbers_(numbers_of(want)) {
    const std::string& family = instance.record->family;
    const bool by_element = family == "elementwise" || family == "optimizer";
    if (!by_element) largest_ = largest_number(want);
    for (const Tensor& tensor : instance.tensors) {
      if (!tensor.buffer || !is_floating(tensor.dtype)) continue;
      if (by_element && tensor.shape == want.shape)
        operands_.push_back(numbers_of(tensor));
      else
        largest_ = std::max(largest_, largest_number(tensor));
    }
  }
  double at(size_t i) const {
    double size = largest_;
    for (const std::vector<double>& operand : operands_) size = larger(size, operand[i]);
    return larger(size, numbers_[i]);
  }

 private:
  static double larger(double size, double number) {
    return std::isfinite(number) ? std::max(size, std::fabs(number)) : size;
  }
  std::vector<double> numbers_;
  std::vector<std::vector<double>> operands_;
  double largest_ = 0;
};

// Returns the host's results in f64 from the same inputs; its own results if they are f64 already.
std::vector<Tensor> results_in_f64(const KernelResults& results) {
  const std::optional<OpInstance> wide = in_f64(results.exact);
  if (!wide) return results.host;
  return run_once(*wide->record, wide->call(), wide->pointers());
}

// Returns "" if each number of the device equals the host's or lies within `room` of `want`.
std::string compare_numbers(const KernelResults& results, size_t output, const Tensor& want,
                            const std::function<double(size_t)>& room) {
  const Tensor& device = results.device[output];
  const std::vector<double> host = numbers_of(results.host[output]), got = numbers_of(device);
  const std::vector<double> expected = numbers_of(want);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == host[i] || (std::isnan(got[i]) && std::isnan(host[i]))) continue;
    const double allowed = room(i);
    const bool overflows = std::fabs(expected[i]) + allowed > max_finite(device.dtype);
    if (allowed > 0 && (overflows || std::fabs(got[i] - expected[i]) <= allowed)) continue;
    return fmt::format("output {}, number {}: expected {} within {}, found {}; the host gives {}",
                       output, i, expected[i], allowed, got[i], host[i]);
  }
  return "";
}

// Returns the sums of the sizes of all terms of a product, which is linear in each input.
Tensor sizes_of_terms(const OpInstance& product) {
  OpInstance sizes = in_f64(product).value_or(product);
  for (Tensor& tensor : sizes.tensors) {
    if (!tensor.buffer) continue;
    std::vector<double> values = values_of(tensor);
    for (double& value : values) value = std::fabs(value);
    tensor = tensor_of(tensor.dtype, tensor.shape, values);
  }
  return run_once(*sizes.record, sizes.call(), sizes.pointers()).front();
}

// Bounds the error of a sum of `terms` products in fewer bits, relative to the sum of their sizes.
// TF32 has 10 bits after the point and may truncate the rest. Sums of 8-bit floats keep 14 bits on
// Hopper (DeepSeek-V3 Technical Report, section 3.3.2).
double share_of_few_bits(int64_t terms, DType dtype) {
  constexpr double kCutTo10Bits = 0x1p-10, kSumOf14Bits = 0x1p-13;
  if (dtype == DType::f32) return kCutTo10Bits * (2 + kCutTo10Bits);
  const bool has_8_bits = is_floating(dtype) && size_of(dtype) == 1;
  return has_8_bits ? static_cast<double>(terms) * kSumOf14Bits : 0;
}

}  // namespace

std::string within_units(const KernelResults& results) {
  const std::vector<Tensor> wide = results_in_f64(results);
  for (size_t o = 0; o < results.host.size(); ++o) {
    const DType dtype = results.host[o].dtype;
    const bool rounds =
        (is_floating(dtype) || is_complex(dtype)) && may_differ(*results.exact.record);
    const Tensor& want = rounds ? wide[o] : results.host[o];
    const Sizes sizes(results.exact, want);
    const std::string text = compare_numbers(results, o, want, [&](size_t i) {
      return rounds ? room_computed_in(dtype, sizes.at(i)) : 0.0;
    });
    if (!text.empty()) return text;
  }
  return "";
}

std::string within_units_of_few_bits(const KernelResults& results) {
  const std::vector<double> sizes = numbers_of(sizes_of_terms(results.exact));
  const DType dtype = results.host[0].dtype;
  const double share = share_of_few_bits(results.exact.inputs[0].shape.back(), dtype);
  return compare_numbers(results, 0, results_in_f64(results)[0], [&](size_t i) {
    return share * sizes[i] + room_computed_in(dtype, sizes[i]);
  });
}

KernelCases compare_kernels(const OpRecord& op, const DeviceKernels& kernels,
                            const std::shared_ptr<Device>& device, uint64_t seed,
                            const Judge& judge, std::string& failure) {
  KernelCases cases;
  if (!op.samples) return cases;
  for (const Sample& given : op.samples())
    for (const Sample& sample : in_all_dtypes(given)) {
      if (!takes(op, sample)) continue;
      Comparison comparison(op, sample, ++seed);
      const Kernel kernel = kernels.find(comparison.host_kernel(), comparison.instance().inputs,
                                         comparison.outputs());
      if (!kernel.run) {
        cases.on_host.push_back(dtypes_text(comparison));
        continue;
      }
      ++cases.on_device;
      const std::string text = comparison.run(kernel, device, sample, judge);
      if (text.empty()) continue;
      failure = fmt::format("{} {}, seed {}: {}", op.name, dtypes_text(comparison), seed, text);
      return cases;
    }
  return cases;
}

LawCounts check_all_ops(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                        uint64_t seed, const Judge& judge) {
  LawCounts counts;
  const OpRegistry registry = builtin_ops();
  for (const OpRecord* op : registry.all()) {
    if (!op->prepare) continue;
    std::string failure;
    const int64_t cases = compare_kernels(*op, kernels, device, seed, judge, failure).on_device;
    EXPECT_EQ(failure, "");
    counts.cases += cases;
    counts.ops += cases > 0 ? 1 : 0;
  }
  return counts;
}

LawCounts check_long_lines(const DeviceKernels& kernels, const std::shared_ptr<Device>& device,
                           uint64_t seed, const Judge& judge) {
  LawCounts counts;
  const OpRegistry registry = builtin_ops();
  for (const auto& [name, sample] : long_samples()) {
    OpRecord op = registry.at(name);
    op.samples = [sample = sample] { return std::vector<Sample>{sample}; };
    std::string failure;
    const int64_t cases = compare_kernels(op, kernels, device, seed, judge, failure).on_device;
    EXPECT_EQ(failure, "");
    EXPECT_GT(cases, 0) << name;
    counts.cases += cases;
    ++counts.ops;
  }
  return counts;
}

LawCounts check_products_in_few_bits(const DeviceKernels& kernels,
                                     const std::shared_ptr<Device>& device, uint64_t seed) {
  LawCounts counts;
  const OpRegistry registry = builtin_ops();
  OpRecord op = registry.at("linear");
  Sample without =
      sample_of({{{16, 32}, {32, 32}}, DType::f32, {"uniform(-2, 2)", "uniform(-2, 2)"}});
  without.inputs.push_back(absent_input());
  without.fills.push_back("");
  const Sample with = sample_of({{{16, 32}, {32, 32}, {32}},
                                 DType::f32,
                                 {"uniform(-2, 2)", "uniform(-2, 2)", "uniform(-2, 2)"}});
  op.samples = [samples = std::vector<Sample>{without, with}] { return samples; };
  for (uint64_t draw = 0; draw < 12; ++draw) {  // with strides and without, by the library or not
    std::string failure;
    counts.cases +=
        compare_kernels(op, kernels, device, seed + 100 * draw, within_units_of_few_bits, failure)
            .on_device;
    EXPECT_EQ(failure, "");
  }
  counts.ops = 1;
  return counts;
}

}  // namespace shardproof::testing
