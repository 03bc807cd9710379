// Implements argument_names.h by a table.
#include <array>

#include "shardproof/ops/core/argument_names.h"

namespace shardproof {
namespace {

struct Word {
  std::string_view op, torch, here;  // op "": any op that has an argument of this name
};

constexpr auto kArguments = std::to_array<Word>({
    {"pow", "exponent", "y"},
    {"pow", "self", "x"},
    {"zeta", "self", "s"},
    {"zeta", "other", "q"},
    {"igamma", "self", "a"},
    {"igamma", "input", "a"},
    {"igamma", "other", "x"},
    {"igammac", "self", "a"},
    {"igammac", "input", "a"},
    {"igammac", "other", "x"},
    {"heaviside", "values", "y"},
    {"addcmul", "tensor1", "a"},
    {"addcmul", "tensor2", "b"},
    {"addcdiv", "tensor1", "a"},
    {"addcdiv", "tensor2", "b"},
    {"baddbmm", "batch1", "a"},
    {"baddbmm", "batch2", "b"},
    {"addmv", "mat", "a"},
    {"addmv", "vec", "b"},
    {"mm", "mat2", "y"},
    {"mv", "vec", "y"},
    {"dot", "tensor", "y"},
    {"outer", "vec2", "y"},
    {"cosine_similarity", "x1", "x"},
    {"cosine_similarity", "x2", "y"},
    {"pairwise_distance", "x1", "x"},
    {"pairwise_distance", "x2", "y"},
    {"cdist", "x1", "x"},
    {"cdist", "x2", "y"},
    {"cosine_embedding_loss", "input1", "x1"},
    {"cosine_embedding_loss", "input2", "x2"},
    {"margin_ranking_loss", "input1", "x1"},
    {"margin_ranking_loss", "input2", "x2"},
    {"split", "tensor", "input"},
    {"split", "split_size_or_sections", "sizes"},
    {"split", "split_size", "sizes"},
    {"one_hot", "tensor", "input"},
    {"unfold", "dimension", "dim"},
    {"index_copy", "source", "src"},
    {"index_add", "source", "src"},
    {"einsum", "subscripts", "equation"},
    {"zeros", "size", "shape"},
    {"ones", "size", "shape"},
    {"empty", "size", "shape"},
    {"full", "size", "shape"},
    {"full", "fill_value", "value"},
    {"uniform", "size", "shape"},
    {"normal", "size", "shape"},
    {"randint", "size", "shape"},
    {"sdpa", "is_causal", "causal"},
    {"sdpa", "attn_mask", "mask"},
    // Names that torch accepts from NumPy, and its names for the first two tensors.
    {"", "axis", "dim"},
    {"", "keepdims", "keepdim"},
    {"", "input", "x"},
    {"", "self", "x"},
    {"", "other", "y"},
});

}  // namespace

std::string_view argument_name(std::string_view op, std::string_view key) {
  for (const Word& word : kArguments)
    if (word.torch == key && (word.op.empty() || word.op == op)) return word.here;
  return key;
}

}  // namespace shardproof
