// Implements ops/convolution/conv_window.h.
#include "shardproof/ops/convolution/conv_window.h"

#include "shardproof/ops/core/shape_errors.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

constexpr int kWindowWeight = 1;

std::vector<int64_t> conv_numbers(const Conv& conv, const OpCall& call, const char* name,
                                  int64_t least) {
  auto list = integer_list(*call.attrs, name);
  if (list.size() == 1) list.assign(static_cast<size_t>(conv.spatial), list[0]);
  if (static_cast<int>(list.size()) != conv.spatial)
    refuse(conv.name, call, "{} needs 1 or {} numbers, found {}", name, conv.spatial, list.size());
  for (int64_t x : list)
    if (x < least || x > kMostEntries)
      refuse(conv.name, call, "{} must be from {} to {}, found {}", name, least, kMostEntries, x);
  return list;
}

}  // namespace

ConvWindow conv_window(const Conv& conv, const OpCall& call) {
  require_dims(conv.name, call, 0, conv.spatial + 2);
  require_dims(conv.name, call, kWindowWeight, conv.spatial + 2);
  const Dims &x = input_shape(call, 0), &w = input_shape(call, kWindowWeight);
  ConvWindow window{conv_numbers(conv, call, "stride", 1),
                    conv_numbers(conv, call, "padding", 0),
                    conv_numbers(conv, call, "dilation", 1),
                    call.attrs->integer("groups"),
                    {},
                    x};
  // A shard may hold no group.
  const bool nothing = window.groups == 0 && x[1] == 0 && w[0] == 0;
  if (window.groups < 1 && !nothing)
    refuse(conv.name, call, "groups must be at least 1, found {}", window.groups);
  if (x[1] != w[1] * window.groups)
    refuse(conv.name, call, "the input has {} channels, but the weight expects {} x {} groups",
           x[1], w[1], window.groups);
  if (!nothing && w[0] % window.groups != 0)
    refuse(conv.name, call, "{} output channels do not divide into {} groups", w[0], window.groups);
  window.out = {x[0], w[0]};
  for (int i = 0; i < conv.spatial; ++i) {
    auto at = static_cast<size_t>(i);
    window.padded[i + 2] += 2 * window.padding[at];
    int64_t reach = window.dilation[at] * (w[i + 2] - 1) + 1;
    if (w[i + 2] < 1 || window.padded[i + 2] < reach)
      refuse(conv.name, call, "the kernel covers {} entries, but dim {} has only {} with padding",
             reach, i + 2, window.padded[i + 2]);
    window.out.push_back((window.padded[i + 2] - reach) / window.stride[at] + 1);
  }
  return window;
}

}  // namespace shardproof
