// Implements ops/core/exact_ops.h. An op that is missing from the list costs a conversion, not
// digits.
#include "shardproof/ops/core/exact_ops.h"

#include <algorithm>
#include <array>

namespace shardproof {
namespace {

constexpr auto kExact = std::to_array<std::string_view>({
    "abs",
    "aminmax",
    "amax",
    "amin",
    "cast",
    "cat",
    "ceil",
    "channel_shuffle",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "conj",
    "convert_element_type",
    "cummax",
    "cummin",
    "diag",
    "diag_embed",
    "diagonal",
    "empty",
    "expand",
    "flatten",
    "flip",
    "floor",
    "fmax",
    "fmin",
    "full",
    "hstack",
    "index_at",
    "index_copy",
    "index_fill",
    "index_select",
    "kthvalue",
    "masked_fill",
    "max",
    "maximum",
    "median",
    "min",
    "minimum",
    "movedim",
    "narrow",
    "neg",
    "ones",
    "pad",
    "permute",
    "pixel_shuffle",
    "pixel_unshuffle",
    "relu",
    "repeat",
    "repeat_interleave",
    "reshape",
    "roll",
    "rot90",
    "select",
    "sgn",
    "sign",
    "slice",
    "slice_scatter",
    "sort",
    "split",
    "squeeze",
    "stack",
    "stop",
    "t",
    "take",
    "take_along_dim",
    "topk",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unbind",
    "unflatten",
    "unfold",
    "unsqueeze",
    "view",
    "vstack",
    "where",
    "zeros",
});

}  // namespace

bool rounds_nothing(std::string_view op) {
  return std::find(kExact.begin(), kExact.end(), op) != kExact.end();
}

}  // namespace shardproof
