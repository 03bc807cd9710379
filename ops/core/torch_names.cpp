// Implements the hints of ops/core/torch_names.h: tables of torch's names for ops and dtypes, with
// the text to write here.
#include <array>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/torch_names.h"

namespace shardproof {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr auto kOps = std::to_array<Pair>({
    {"_scaled_dot_product_flash_attention", "o, lse = sdpa(q, k, v, causal=true)"},
    {"_scaled_dot_product_flash_attention_backward", "sdpa_grad(dy, q, k, v, y, lse)"},
    {"absolute", "abs(x)"},
    {"all_gather_into_tensor", "all_gather(x, dim=0, group=g)"},
    {"all_gather_tensor", "all_gather(x, dim=0, group=g)"},
    {"all_to_all_single", "all_to_all_v(x, send=[..], recv=[..], group=g)"},
    {"allgather", "all_gather(x, dim=0, group=g)"},
    {"allreduce", "all_reduce(x, sum, group=g)"},
    {"alltoall", "all_to_all(x, split=1, concat=0, group=g)"},
    {"batch_isend_irecv", "a group: block of send and recv"},
    {"bfloat16", "cast(x, bf16)"},
    {"broadcast_to", "expand(x, size)"},
    {"chain_matmul", "a @ b @ c"},
    {"clip", "clamp(x, min, max)"},
    {"clone", "x itself, or x * 1 for a buffer of its own"},
    {"concat", "cat([x, y], dim=0)"},
    {"concatenate", "cat([x, y], dim=0)"},
    {"contiguous", "x itself"},
    {"detach", "x itself"},
    {"distribute_tensor", "redistribute(x, tp:S(0))"},
    {"divide", "x / y"},
    {"embedding_dense_backward", "index_sum(dy, dim=0, size=rows, indices=ids)"},
    {"empty_like", "empty(like=x)"},
    {"expand_as", "expand(x, size)"},
    {"expit", "sigmoid(x)"},
    {"fix", "trunc(x)"},
    {"fliplr", "flip(x, [1])"},
    {"flipud", "flip(x, [0])"},
    {"float", "cast(x, f32)"},
    {"floor_divide", "x // y"},
    {"from_local", "y = x as tp:S(0)"},
    {"full_like", "full(like=x, value=v)"},
    {"full_tensor", "redistribute(x, R)"},
    {"gelu_backward", "gelu_grad(dy, x)"},
    {"ger", "outer(x, y)"},
    {"greater", "x > y"},
    {"half", "cast(x, f16)"},
    {"inner", "x @ t(y)"},
    {"inv", "inverse(x)"},
    {"irecv", "recv(like=x, from=r)"},
    {"isend", "send(x, to=r)"},
    {"less", "x < y"},
    {"log_sigmoid", "logsigmoid(x)"},
    {"long", "cast(x, i64)"},
    {"moveaxis", "movedim(x, source, destination)"},
    {"msort", "sort(x, dim=0)"},
    {"multi_dot", "a @ b @ c"},
    {"multiply", "x * y"},
    {"native_layer_norm_backward", "layer_norm_grad(dy, x, weight)"},
    {"negative", "-x"},
    {"new_zeros", "zeros([..])"},
    {"ones_like", "ones(like=x)"},
    {"positive", "x itself"},
    {"ppermute", "send and recv in a group: block"},
    {"psum", "all_reduce(x, sum, group=axis)"},
    {"rand", "uniform([..], 0, 1)"},
    {"rand_like", "uniform(like=x)"},
    {"randn", "normal([..], 0, 1)"},
    {"randn_like", "normal(like=x)"},
    {"ravel", "flatten(x)"},
    {"reduce_scatter_tensor", "reduce_scatter(x, sum, dim=0, group=g)"},
    {"reducescatter", "reduce_scatter(x, sum, dim=0, group=g)"},
    {"scaled_dot_product_attention", "sdpa(q, k, v, causal=true, mask=m)"},
    {"scatter_add", "scatter_along_dim(x, dim, index, src=s, reduce='add')"},
    {"searchsorted", "bucketize(x, boundaries)"},
    {"silu_backward", "silu_grad(dy, x)"},
    {"softmin", "softmax(-x, dim=d)"},
    {"subtract", "x - y"},
    {"swapaxes", "transpose(x, a, b)"},
    {"swapdims", "transpose(x, a, b)"},
    {"tensordot", "einsum('..', x, y)"},
    {"tile", "repeat(x, repeats)"},
    {"to", "cast(x, dtype)"},
    {"to_local", "the tensor's name in a rank program"},
    {"true_divide", "x / y"},
    {"type_as", "cast(x, dtype)"},
    {"vecdot", "sum(x * y, dim=-1)"},
    {"view_as", "view(x, shape)"},
    {"zeros_like", "zeros(like=x)"},
});

constexpr auto kDTypes = std::to_array<std::pair<std::string_view, DType>>({
    {"double", DType::f64},         {"float64", DType::f64},
    {"float", DType::f32},          {"float32", DType::f32},
    {"fp32", DType::f32},           {"float16", DType::f16},
    {"fp16", DType::f16},           {"half", DType::f16},
    {"bfloat16", DType::bf16},      {"float8_e4m3fn", DType::f8e4m3},
    {"float8_e5m2", DType::f8e5m2}, {"int64", DType::i64},
    {"long", DType::i64},           {"int", DType::i32},
    {"int32", DType::i32},          {"int16", DType::i16},
    {"short", DType::i16},          {"int8", DType::i8},
    {"uint8", DType::u8},           {"boolean", DType::boolean},
    {"complex64", DType::c64},      {"complex128", DType::c128},
});

}  // namespace

std::string other_name_hint(std::string_view op) {
  for (const auto& [word, here] : kOps)
    if (word == op) return fmt::format("; here it is {}", here);
  return "";
}

std::string namesake_hint(std::string_view verb) {
  if (verb == "gather") return "; torch.gather is take_along_dim";
  if (verb == "scatter") return "; torch.scatter is scatter_along_dim";
  return "";
}

DType parse_dtype_name(std::string_view text) {
  if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
  if (text == "fp8" || text == "float8" || text == "f8")
    throw_bad_input("unknown dtype \"{}\"; write f8e4m3 (float8_e4m3fn) or f8e5m2 (float8_e5m2)",
                    text);
  const size_t dot = text.rfind('.');
  const std::string_view plain = dot == std::string_view::npos ? text : text.substr(dot + 1);
  if (const std::optional<DType> dtype = parse_dtype(plain); dtype && plain != text)
    throw_bad_input("unknown dtype \"{}\"; write \"{}\"", text, plain);
  for (const auto& [word, here] : kDTypes)
    if (word == plain)
      throw_bad_input("unknown dtype \"{}\"; did you mean \"{}\"?", text, name(here));
  NearestName nearest(text);
  for (int i = 0; i < kDTypeCount; ++i) nearest.offer(name(static_cast<DType>(i)));
  std::string known;
  for (int i = 0; i < kDTypeCount && nearest.best().empty(); ++i)
    known += fmt::format("{} {}", i == 0 ? "; expected one of" : "", name(static_cast<DType>(i)));
  throw_bad_input("unknown dtype \"{}\"{}{}", text, nearest.hint(), known);
}

}  // namespace shardproof
