// Registers pooling and transposed convolutions, which decompose: avg_pool, max_pool and their
// adaptive forms into reductions of windows of the last dims, conv_transpose into convolutions.
#include <algorithm>
#include <cmath>

#include "shardproof/ops/convolution/conv_padding.h"
#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/gradient.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

using params::integer;
using params::optional_tensor;
using params::tensor;

// Returns one number per spatial dim. An absent or empty list means the fallback, if there is one.
IntegerList window_numbers(Formula& f, const char* name, int spatial, const IntegerList& fallback) {
  if (!f.given(name)) return fallback;
  IntegerList list = integer_list(*f.call.attrs, name);
  if (list.empty() && !fallback.empty()) return fallback;
  if (list.size() == 1) list.assign(static_cast<size_t>(spatial), list[0]);
  if (static_cast<int>(list.size()) != spatial)
    f.refuse("{} needs 1 or {} numbers, found {}", name, spatial, list.size());
  return list;
}

// Windows of the last dims. `beyond` is the number of entries that the last window needs after the
// padded end (ceil_mode).
struct Windows {
  IntegerList size, stride, padding, dilation, beyond;
};

// Returns `beyond` for one dim. The last window must begin within the input or the padding before
// it, as in torch. A window larger than the padded input is allowed if it needs less than a stride
// beyond it.
int64_t reach_beyond(int64_t size, int64_t padding, int64_t reach, int64_t stride) {
  const int64_t padded_term = size + 2 * padding;
  if (padded_term < reach)
    return size > 0 && reach - padded_term < stride ? reach - padded_term : 0;
  int64_t last = (padded_term - reach + stride - 1) / stride * stride;
  if (last >= size + padding) last -= stride;
  return std::max<int64_t>(last + reach - padded_term, 0);
}

Windows windows_of(Formula& f, int spatial) {
  const IntegerList size = window_numbers(f, "kernel_size", spatial, {});
  const IntegerList none(static_cast<size_t>(spatial), 0), ones(static_cast<size_t>(spatial), 1);
  Windows w{size, window_numbers(f, "stride", spatial, size),
            window_numbers(f, "padding", spatial, none),
            window_numbers(f, "dilation", spatial, ones), none};
  if (f[0].dims() <= spatial) f.refuse("needs a dim of channels before {} dims", spatial);
  for (size_t i = 0; i < size.size(); ++i) {
    for (const int64_t x : {w.size[i], w.stride[i], w.dilation[i]})
      if (x < 1 || x > kMostEntries)
        f.refuse("sizes, strides and dilations of windows must be from 1 to {}", kMostEntries);
    if (w.padding[i] < 0 || w.padding[i] > w.size[i] / 2)
      f.refuse("padding must be from 0 to half the window of {}, found {}", w.size[i],
               w.padding[i]);
    const int64_t reach = w.dilation[i] * (w.size[i] - 1) + 1;
    const int64_t extent = f[0].shape()[f[0].dims() - spatial + static_cast<int>(i)];
    if (f.flag("ceil_mode")) w.beyond[i] = reach_beyond(extent, w.padding[i], reach, w.stride[i]);
  }
  return w;
}

FormulaTerm padded_term(Formula& f, const FormulaTerm& x, const IntegerList& before,
                        const IntegerList& after, double fill) {
  IntegerList pad;
  for (size_t i = before.size(); i-- > 0;) pad.insert(pad.end(), {before[i], after[i]});
  if (std::all_of(pad.begin(), pad.end(), [](int64_t p) { return p == 0; })) return x;
  return f.op("pad", {x}, {{"pad", pad}, {"value", fill}});
}

// Returns [.., windows.., window..]; `fill` is the value of the padding, `beyond` of the entries
// after it.
FormulaTerm windowed(Formula& f, FormulaTerm x, const Windows& w, double fill, double beyond) {
  const int spatial = static_cast<int>(w.size.size()), outer = x.dims() - spatial;
  x = padded_term(f, x, w.padding, w.padding, fill);
  x = padded_term(f, x, IntegerList(w.size.size(), 0), w.beyond, beyond);
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t reach = w.dilation[at] * (w.size[at] - 1) + 1;
    x = f.op("unfold", {x}, {{"dim", int64_t{outer + i}}, {"size", reach}, {"step", w.stride[at]}});
    if (w.dilation[at] == 1) continue;
    IntegerList entries;
    for (int64_t e = 0; e < reach; e += w.dilation[at]) entries.push_back(e);
    x = f.op("index_select", {x, FormulaTerm{}},
             {{"dim", int64_t{x.dims() - 1}}, {"index", entries}});
  }
  return x;
}

Attrs last_dims(int count) {
  IntegerList dims;
  for (int d = -count; d < 0; ++d) dims.push_back(d);
  return {{"dim", dims}, {"keepdim", false}};
}

FormulaTerms mean_of_windows(Formula& f, int spatial) {
  const Windows windows = windows_of(f, spatial);
  const Attrs over_windows = last_dims(spatial);
  const FormulaTerm cells = windowed(f, f[0], windows, 0, 0);
  if (f.given("divisor_override")) {
    const int64_t divisor = f.integer("divisor_override");
    if (divisor == 0) f.refuse("divisor_override must not be 0");
    return {f.op("sum", {cells}, over_windows) / static_cast<double>(divisor)};
  }
  const FormulaTerm mean = f.op("mean", {cells}, over_windows);
  const bool beyond = std::any_of(windows.beyond.begin(), windows.beyond.end(),
                                  [](int64_t reach) { return reach > 0; });
  const bool counts_padding = f.flag("count_include_pad");
  if (counts_padding && !beyond) return {mean};
  // Divides by the share of each window's entries that count.
  IntegerList shape = {1};
  for (int i = 0; i < spatial; ++i) shape.push_back(f[0].shape()[f[0].dims() - spatial + i]);
  const FormulaTerm ones =
      f.op("ones", {FormulaTerm{}}, {{"shape", shape}, {"dtype", f[0].dtype()}});
  const FormulaTerm counted = windowed(f, ones, windows, counts_padding ? 1 : 0, 0);
  return {mean / f.op("mean", {counted}, over_windows)};
}

// Reduces output_size windows of each of the last dims, one dim after the other.
FormulaTerms adaptive(Formula& f, int spatial, const char* reduction) {
  FormulaTerm x = f[0];
  const IntegerList out = window_numbers(f, "output_size", spatial, {});
  if (x.dims() <= spatial) f.refuse("needs a dim of channels before {} dims", spatial);
  for (int i = 0; i < spatial; ++i) {
    const int dim = x.dims() - spatial + i;
    const int64_t size = x.shape()[dim], cells = out[static_cast<size_t>(i)];
    if (cells < 1 || cells > kMostPieces)
      f.refuse("output_size must be from 1 to {}, found {}", kMostPieces, cells);
    // Cell c covers floor(c size / cells) to ceil((c + 1) size / cells).
    const int64_t each = size / cells, rest = size % cells;
    FormulaTerms parts;
    for (int64_t c = 0; c < cells; ++c) {
      const int64_t from = c * each + c * rest / cells;
      const int64_t to = (c + 1) * each + ((c + 1) * rest + cells - 1) / cells;
      const FormulaTerm cell =
          f.op("narrow", {x}, {{"dim", int64_t{dim}}, {"start", from}, {"length", to - from}});
      parts.push_back(f.op(reduction, {cell}, {{"dim", IntegerList{dim}}, {"keepdim", true}}));
    }
    x = cells == 1 ? parts[0] : f.joined("cat", parts, dim);
  }
  return {x};
}

struct PoolNames {
  const char *average, *largest, *adaptive_average, *adaptive_largest;
};
constexpr PoolNames kPools[] = {
    {"avg_pool1d", "max_pool1d", "adaptive_avg_pool1d", "adaptive_max_pool1d"},
    {"avg_pool2d", "max_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d"},
    {"avg_pool3d", "max_pool3d", "adaptive_avg_pool3d", "adaptive_max_pool3d"},
};

Dims pool_shape(int spatial) {
  if (spatial == 1) return {3, 2, 7};
  return spatial == 2 ? Dims{2, 3, 5, 4} : Dims{1, 2, 5, 3, 4};
}

void add_pools(OpRegistry& ops, int spatial) {
  const PoolNames& names = kPools[spatial - 1];
  const std::vector<Param> pool = {tensor("x"), params::integers("kernel_size"),
                                   params::optional("stride", ParamKind::integers),
                                   params::optional("padding", ParamKind::integers)};
  const Param ceil = params::boolean("ceil_mode", false);
  const Dims shape = pool_shape(spatial);
  const Attrs strided{
      {"kernel_size", IntegerList{3}}, {"stride", IntegerList{2}}, {"padding", IntegerList{1}}};
  Attrs upwards = strided, dilated{{"kernel_size", IntegerList{2}},
                                   {"stride", IntegerList{1}},
                                   {"dilation", IntegerList{2}}};
  upwards.set("kernel_size", IntegerList{2});
  upwards.set("ceil_mode", true);
  std::vector<Sample> averages = {f32_sample({shape}, {{"kernel_size", IntegerList{2}}}),
                                  f32_sample({shape}, strided)};
  std::vector<Sample> largest = averages;
  averages.push_back(averages[1]);
  averages.back().attrs.set("count_include_pad", false);
  for (std::vector<Sample>* samples : {&averages, &largest})
    samples->push_back(f32_sample({shape}, upwards));
  // The window is larger than the input.
  Attrs beyond{{"kernel_size", IntegerList{3}}, {"stride", IntegerList{2}}, {"ceil_mode", true}};
  for (std::vector<Sample>* samples : {&averages, &largest})
    samples->push_back(f32_sample({Dims::filled(spatial + 1, 2)}, beyond));
  largest.push_back(f32_sample({shape}, dilated));
  std::vector<Param> average = pool;
  average.insert(average.end(), {ceil, params::boolean("count_include_pad", true),
                                 params::optional("divisor_override", ParamKind::integer)});
  ops.add(formula(
      {names.average, "conv", "means of windows; padding counts as 0, or not at all"}, average,
      [spatial](Formula& f) { return mean_of_windows(f, spatial); }, averages));
  std::vector<Param> most = pool;
  most.insert(most.end(), {params::optional("dilation", ParamKind::integers), ceil});
  ops.add(with_kinks(
      formula(
          {names.largest, "conv", "largest of windows"}, most,
          [spatial](Formula& f) {
            // f8e4m3 has no infinity.
            const DType dtype = f[0].dtype();
            const double least = dtype == DType::f8e4m3 ? -max_finite(dtype) : -INFINITY;
            const FormulaTerm cells = windowed(f, f[0], windows_of(f, spatial), least, least);
            // max gives its gradient to the first of equal elements, as torch does.
            const Attrs joined{{"start_dim", int64_t{-spatial}}, {"end_dim", int64_t{-1}}};
            const FormulaTerm rows = spatial == 1 ? cells : f.op("flatten", {cells}, joined);
            return FormulaTerms{f.op("max", {rows}, {{"dim", int64_t{-1}}})};
          },
          largest),
      "equal elements"));
}

void add_adaptive_pools(OpRegistry& ops, int spatial) {
  const PoolNames& names = kPools[spatial - 1];
  const std::vector<Param> all = {tensor("x"), params::integers("output_size")};
  const std::vector<Sample> samples = {
      f32_sample({pool_shape(spatial)}, {{"output_size", IntegerList{3}}}),
      f32_sample({pool_shape(spatial)}, {{"output_size", IntegerList{1}}})};
  ops.add(in_f32(formula(
      {names.adaptive_average, "conv", "means of output_size windows that cover the dim"}, all,
      [spatial](Formula& f) { return adaptive(f, spatial, "mean"); }, samples)));
  ops.add(with_kinks(
      formula(
          {names.adaptive_largest, "conv", "largest of output_size windows that cover the dim"},
          all, [spatial](Formula& f) { return adaptive(f, spatial, "max"); }, samples),
      "equal elements"));
}

// Turns [C, O, K..] with `groups` into [groups O, C / groups, K..], with the kernel reversed.
FormulaTerm turned_kernel(Formula& f, const FormulaTerm& weight, int64_t groups) {
  const Dims shape = weight.shape();
  if (groups < 1 || shape[0] % groups != 0)
    f.refuse("{} channels do not divide into {} groups", shape[0], groups);
  const int64_t channels = shape[0] / groups;
  const IntegerList sizes(shape.begin() + 2, shape.end());
  IntegerList apart{groups, channels, shape[1]}, joined{groups * shape[1], channels}, dims;
  apart.insert(apart.end(), sizes.begin(), sizes.end());
  joined.insert(joined.end(), sizes.begin(), sizes.end());
  for (int d = 2; d < shape.size(); ++d) dims.push_back(d);
  FormulaTerm turned = reshaped(f, weight, apart);
  turned = f.op("transpose", {turned}, {{"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  return f.op("flip", {reshaped(f, turned, joined)}, {{"dims", dims}});
}

// Inserts stride - 1 zeros between neighbours of a dim.
FormulaTerm spread_by_stride(Formula& f, FormulaTerm x, int dim, int64_t stride) {
  const int64_t length = x.shape()[dim];
  if (stride == 1 || length == 0) return x;
  IntegerList shape(x.shape().begin(), x.shape().end());
  shape[static_cast<size_t>(dim)] = length * stride;
  IntegerList pad(2 * static_cast<size_t>(x.dims() - 1 - dim), 0);
  pad.insert(pad.end(), {0, stride - 1});
  x = f.op("unsqueeze", {x}, {{"dim", int64_t{dim + 1}}});
  x = reshaped(f, f.op("pad", {x}, {{"pad", pad}, {"value", 0.0}}), shape);
  return f.op(
      "narrow", {x},
      {{"dim", int64_t{dim}}, {"start", int64_t{0}}, {"length", (length - 1) * stride + 1}});
}

// Each input element adds the kernel to the output. This equals a cross-correlation of the input,
// with zeros inserted by the stride, with the reversed kernel.
FormulaTerms conv_transpose(Formula& f, int spatial) {
  FormulaTerm x = f[0];
  const IntegerList stride = window_numbers(f, "stride", spatial, {}),
                    padding = window_numbers(f, "padding", spatial, {}),
                    more = window_numbers(f, "output_padding", spatial, {}),
                    dilation = window_numbers(f, "dilation", spatial, {});
  if (x.dims() != spatial + 2 || f[1].dims() != spatial + 2)
    f.refuse("expected an input {} and a weight {}", spatial == 1 ? "[N, C, L]" : "[N, C, H, W]",
             spatial == 1 ? "[C, O, K]" : "[C, O, K, K]");
  IntegerList before, after;
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    for (const int64_t x : {stride[at], dilation[at]})
      if (x < 1 || x > kMostEntries)
        f.refuse("stride and dilation must be from 1 to {}", kMostEntries);
    for (const int64_t x : {padding[at], more[at]})
      if (x < 0 || x > kMostEntries)
        f.refuse("padding and output_padding must be from 0 to {}", kMostEntries);
    x = spread_by_stride(f, x, i + 2, stride[at]);
    before.push_back(dilation[at] * (f[1].shape()[i + 2] - 1) - padding[at]);
    after.push_back(before[at] + more[at]);
  }
  const int64_t groups = f.integer("groups");
  return {f.op(spatial == 1 ? "conv1d" : "conv2d",
               {padded_term(f, x, before, after, 0), turned_kernel(f, f[1], groups), f[2]},
               {{"groups", groups}, {"dilation", dilation}})};
}

void add_transposed(OpRegistry& ops) {
  Sample plain = f32_sample({{2, 2, 5}, {2, 3, 3}, {3}});
  Sample strided =
      f32_sample({{2, 2, 4}, {2, 3, 3}}, {{"stride", IntegerList{2}}, {"padding", IntegerList{1}}});
  Sample grouped =
      f32_sample({{2, 4, 5}, {4, 3, 2}}, {{"groups", int64_t{2}}, {"dilation", IntegerList{2}}});
  Sample flat = f32_sample({{2, 2, 3, 4}, {2, 3, 2, 3}, {3}});
  Sample uneven = f32_sample({{1, 2, 4, 3}, {2, 2, 3, 2}}, {{"stride", IntegerList{2, 3}},
                                                            {"padding", IntegerList{1, 0}},
                                                            {"output_padding", IntegerList{1}}});
  for (Sample* sample : {&strided, &grouped, &uneven}) sample->inputs.push_back(absent_input());
  const auto list = [](const char* name, int64_t fallback) {
    return params::with_default(name, ParamKind::integers, IntegerList{fallback});
  };
  const std::vector<Param> all = {
      tensor("x"),        tensor("weight"),          optional_tensor("bias"), list("stride", 1),
      list("padding", 0), list("output_padding", 0), integer("groups", 1),    list("dilation", 1)};
  Sample alone = f32_sample({{2, 5}, {2, 3, 3}, {3}});  // no batch
  const auto add = [&](int spatial, const char* name, const char* summary,
                       const std::vector<Sample>& samples) {
    OpRecord op = formula(
        {name, "conv", summary}, all, [spatial](Formula& f) { return conv_transpose(f, spatial); },
        samples);
    accept_one_entry(op, spatial + 1);
    ops.add(std::move(op));
  };
  add(1, "conv_transpose1d", "transposed convolution over one dim",
      {plain, strided, grouped, alone});
  add(2, "conv_transpose2d", "transposed convolution over two dims", {flat, uneven});
}

}  // namespace

void add_pool_formulas(OpRegistry& ops) {
  for (const int spatial : {1, 2, 3}) add_pools(ops, spatial);
  for (const int spatial : {1, 2, 3}) add_adaptive_pools(ops, spatial);
  add_transposed(ops);
}

}  // namespace shardproof
