// Implements torch_names.h by two tables: foreign names of calls and attributes, with the text to
// write here, and names of dtypes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

// `here` is the text of a line or of a value. It may begin with a target ("y = "), its x stands for
// the first argument, and (..) for all arguments.
struct Row {
  std::string_view word, here;
};

constexpr auto kCalls = std::to_array<Row>({
    {"_scaled_dot_product_flash_attention", "o, lse = sdpa(q, k, v, causal=true)"},
    {"_scaled_dot_product_flash_attention_backward", "sdpa_grad(dy, q, k, v, y, lse)"},
    {"absolute", "abs(..)"},
    {"all_gather", "y = all_gather(x, dim=0, group=tp)"},
    {"all_gather_into_tensor", "y = all_gather(x, dim=0, group=tp)"},
    {"all_gather_tensor", "y = all_gather(x, dim=0, group=tp)"},
    {"all_reduce", "x = all_reduce(x, sum, group=tp)"},
    {"all_to_all",
     "y = all_to_all(x, split=0, concat=0, group=tp); with split sizes "
     "all_to_all_v(x, send=[..], recv=[..], group=tp)"},
    {"all_to_all_single",
     "y = all_to_all(x, split=0, concat=0, group=tp); with split sizes "
     "all_to_all_v(x, send=[..], recv=[..], group=tp)"},
    {"allclose", "a \"truth\", or \"expect\": {\"values\": {..}}"},
    {"allgather", "y = all_gather(x, dim=0, group=tp)"},
    {"allreduce", "x = all_reduce(x, sum, group=tp)"},
    {"alltoall",
     "y = all_to_all(x, split=0, concat=0, group=tp); with split sizes "
     "all_to_all_v(x, send=[..], recv=[..], group=tp)"},
    {"assert_close", "a \"truth\", or \"expect\": {\"values\": {..}}"},
    {"axis_index", "index(tp)"},
    {"axis_size", "size(tp)"},
    {"backward", "g = grad(x, w)"},
    {"barrier", "barrier(group=dp)"},
    {"batch_isend_irecv", "a group: block of send and recv"},
    {"block_until_ready", "x itself"},
    {"broadcast", "x = broadcast(x, root=0, group=tp)"},
    {"broadcast_to", "expand(..)"},
    {"chain_matmul", "a @ b @ c"},
    {"clip", "clamp(..)"},
    {"clone", "x itself, or x * 1 for a buffer of its own"},
    {"ColumnParallelLinear", "x @ w with tp:S(1) as placements of w"},
    {"concat", "cat(..)"},
    {"concatenate", "cat(..)"},
    {"contiguous", "x itself"},
    {"copy_to_tensor_model_parallel_region", "enter(x, group=tp)"},
    {"cpu", "x itself"},
    {"CrossEntropyLoss", "cross_entropy(x, target)"},
    {"cuda", "x itself"},
    {"detach", "stop(x)"},
    {"distribute_tensor", "redistribute(x, tp:S(0))"},
    {"divide", "x / y"},
    {"embedding_dense_backward", "index_sum(dy, dim=0, size=rows, indices=ids)"},
    {"empty_like", "empty(like=x)"},
    {"expand_as", "expand(x, size)"},
    {"expit", "sigmoid(..)"},
    {"fix", "trunc(..)"},
    {"flash_attention", "sdpa(q, k, v, causal=true)"},
    {"flash_attn_func", "sdpa(q, k, v, causal=true)"},
    {"fliplr", "flip(x, [1])"},
    {"flipud", "flip(x, [0])"},
    {"floor_divide", "x // y"},
    {"from_local", "y = x as tp:S(0), with the placements of the list"},
    {"full_like", "full(like=x, value=v)"},
    {"full_tensor", "redistribute(x, R)"},
    {"gather",
     "take_along_dim(x, index, dim=0); the collective is gather(x, dim=0, root=0, group=tp)"},
    {"gather_from_sequence_parallel_region",
     "all_gather(x, dim=0, group=tp, backward=reduce_scatter)"},
    {"gather_from_tensor_model_parallel_region", "all_gather(x, dim=-1, group=tp, backward=slice)"},
    {"gelu_backward", "gelu_grad(dy, x)"},
    {"ger", "outer(..)"},
    {"get_data_parallel_group", "dp, the name of the axis"},
    {"get_data_parallel_rank", "index(dp)"},
    {"get_data_parallel_world_size", "size(dp)"},
    {"get_group", "tp, the name of the axis"},
    {"get_local_rank", "index(tp)"},
    {"get_pipeline_model_parallel_group", "pp, the name of the axis"},
    {"get_pipeline_model_parallel_rank", "index(pp)"},
    {"get_pipeline_model_parallel_world_size", "size(pp)"},
    {"get_rank", "rank"},
    {"get_tensor_model_parallel_group", "tp, the name of the axis"},
    {"get_tensor_model_parallel_rank", "index(tp)"},
    {"get_tensor_model_parallel_world_size", "size(tp)"},
    {"get_world_size", "world"},
    {"grad", "g = grad(loss, x)"},
    {"greater", "x > y"},
    {"inference_mode", "stop(x)"},
    {"inner", "x @ t(y)"},
    {"inv", "inverse(..)"},
    {"irecv", "y = recv(like=x, from=0, group=pp)"},
    {"isend", "send(x, to=1, group=pp)"},
    {"item", "x itself"},
    {"len", "dim(x, 0) in a rank program, a name of \"let\" in a global program"},
    {"less", "x < y"},
    {"Linear", "x @ w"},
    {"local_map", "y = h @ w as tp:P(sum), or a program of \"ranks\""},
    {"log_sigmoid", "logsigmoid(..)"},
    {"mH", "conj(x.T)"},
    {"moveaxis", "movedim(..)"},
    {"msort", "sort(x, dim=0)"},
    {"mT", "x.T"},
    {"multi_dot", "a @ b @ c"},
    {"multiply", "x * y"},
    {"native_layer_norm_backward", "layer_norm_grad(dy, x, weight)"},
    {"negative", "-x"},
    {"new_group", "\"groups\": {\"g\": \"0 1\"} in the file, and group=g"},
    {"new_zeros", "zeros([..])"},
    {"no_grad", "stop(x)"},
    {"argwhere", "where(mask, x, 0); no shape depends on data"},
    {"masked_select", "where(mask, x, 0); no shape depends on data"},
    {"nonzero", "where(mask, x, 0); no shape depends on data"},
    {"numel", "dim(x, 0) * dim(x, 1) in a rank program, names of \"let\" in a global program"},
    {"numpy", "x itself"},
    {"ones_like", "ones(like=x)"},
    {"pmax", "x = all_reduce(x, max, group=tp)"},
    {"pmean", "x = all_reduce(x, avg, group=tp)"},
    {"pmin", "x = all_reduce(x, min, group=tp)"},
    {"positive", "x itself"},
    {"ppermute", "send and recv in a group: block"},
    {"print", "nothing, and run the file with --print x"},
    {"psum", "x = all_reduce(x, sum, group=tp)"},
    {"psum_scatter", "y = reduce_scatter(x, sum, dim=0, group=tp)"},
    {"rand", "uniform([..], 0, 1)"},
    {"rand_like", "uniform(like=x)"},
    {"randn", "normal([..], 0, 1)"},
    {"randn_like", "normal(like=x)"},
    {"ravel", "flatten(..)"},
    {"rearrange", "permute(x, dims) or reshape(x, shape)"},
    {"record", "x = record()"},
    {"record_stream", "keep(..)"},
    {"recv", "y = recv(like=x, from=0, group=pp)"},
    {"reduce", "y = reduce(x, sum, root=0, group=tp)"},
    {"reduce_from_tensor_model_parallel_region", "all_reduce(x, sum, group=tp, backward=identity)"},
    {"reduce_scatter", "y = reduce_scatter(x, sum, dim=0, group=tp)"},
    {"reduce_scatter_tensor", "y = reduce_scatter(x, sum, dim=0, group=tp)"},
    {"reduce_scatter_to_sequence_parallel_region",
     "reduce_scatter(x, sum, dim=0, group=tp, backward=all_gather)"},
    {"reducescatter", "y = reduce_scatter(x, sum, dim=0, group=tp)"},
    {"requires_grad_", "x itself"},
    {"RowParallelLinear", "redistribute(x @ w, tp:R) with tp:S(0) as placements of w"},
    {"scaled_dot_product_attention", "sdpa(q, k, v, causal=true, mask=m)"},
    {"scatter",
     "scatter_along_dim(x, 0, index, src); the collective is scatter(x, dim=0, root=0, group=tp)"},
    {"scatter_add", "scatter_along_dim(x, dim, index, src=s, reduce='add')"},
    {"searchsorted", "bucketize(x, boundaries)"},
    {"send", "send(x, to=1, group=pp)"},
    {"shape", "dim(x, 0) in a rank program, a name of \"let\" in a global program"},
    {"shard_map", "y = h @ w as tp:P(sum), or a program of \"ranks\""},
    {"silu_backward", "silu_grad(dy, x)"},
    {"size", "dim(x, 0) in a rank program, a name of \"let\" in a global program"},
    {"softmin", "softmax(-x, dim=d)"},
    {"stop_gradient", "stop(x)"},
    {"subtract", "x - y"},
    {"swapaxes", "transpose(..)"},
    {"swapdims", "transpose(..)"},
    {"swiglu", "silu(x) * y"},
    {"synchronize", "sync(x)"},
    {"t", "x.T"},
    {"tensordot", "einsum('..', x, y)"},
    {"tile", "repeat(..)"},
    {"to", "cast(x, bf16)"},
    {"to_local", "the tensor's name in a rank program"},
    {"tolist", "x itself"},
    {"true_divide", "x / y"},
    {"type", "cast(x, bf16)"},
    {"type_as", "cast(x, bf16)"},
    {"value_and_grad", "g = grad(loss, x)"},
    {"vecdot", "sum(x * y, dim=-1)"},
    {"view_as", "view(x, shape)"},
    {"wait", "wait(x)"},
    {"wait_event", "wait(y)"},
    {"wait_stream", "wait(y)"},
    {"with_sharding_constraint", "redistribute(..)"},
    {"WORLD", "no group=, which means all ranks"},
    {"zero_grad", "nothing: grad makes new gradients"},
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

std::string_view text_here(std::string_view word) {
  for (const Row& row : kCalls)
    if (row.word == word) return row.here;
  return "";
}

// Returns `all_gather(x, dim=0)` of `y = all_gather(x, dim=0)`.
std::string_view without_target(std::string_view line) {
  const size_t sign = line.find(" = ");
  return sign == 1 ? line.substr(sign + 3) : line;
}

// Returns the text with each word x replaced by the operand.
std::string with_operand(std::string_view text, std::string_view operand) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_word = text[i] == 'x' && (i == 0 || !is_name_character(text[i - 1])) &&
                         (i + 1 == text.size() || !is_name_character(text[i + 1]));
    if (is_word)
      out += operand;
    else
      out += text[i];
  }
  return out;
}

}  // namespace

std::string text_for_foreign_call(const Expr& call, bool whole_line) {
  const auto is_of_dtensor = [](const std::string& key) {
    return key == "placements" || key == "device_mesh";
  };
  if (call.symbol == "redistribute" &&
      std::any_of(call.keys.begin(), call.keys.end(), is_of_dtensor))
    return fmt::format("redistribute({}, dp:R tp:S(0))",
                       call.keys.front().empty() ? to_string(call.args.front()) : "x");
  const std::string_view here = text_here(call.symbol);
  if (here.empty()) {
    const std::optional<DType> dtype = dtype_meant(call.symbol);
    const std::string x = call.args.empty() ? "x" : to_string(call.args.front());
    return dtype ? fmt::format("cast({}, {})", x, name(*dtype)) : "";
  }
  if (here.ends_with("(..)") && !call.args.empty()) {
    Expr renamed = call;
    renamed.symbol = here.substr(0, here.size() - 4);
    return to_string(renamed);
  }
  std::string text(whole_line ? here : without_target(here));
  // The row is about a call like ours, so its arguments stay.
  if (call.symbol == "grad" && call.args.size() > 1) return to_string(call);
  // x.to(f16): the dtype that the call names.
  if (here.starts_with("cast("))
    for (const Expr& arg : call.args)
      if (const std::optional<DType> dtype = dtype_meant(to_string(arg)))
        text = fmt::format("cast(x, {})", name(*dtype));
  // Calls of torch.distributed have their result before their input: all_gather(list, x).
  const bool result_first = here.starts_with("y = ") && here.find("group=") != here.npos &&
                            call.args.size() > 1 && call.keys[1].empty();
  const size_t operand = result_first ? 1 : 0;
  if (call.args.size() <= operand || call.args[operand].kind != ExprKind::name) return text;
  return with_operand(text, to_string(call.args[operand]));
}

std::string other_name_hint(std::string_view op) {
  Expr call;
  call.kind = ExprKind::call;
  call.symbol = op;
  const std::string text = text_for_foreign_call(call, false);
  return text.empty() ? "" : "; write " + text;
}

std::string namesake_hint(std::string_view verb) {
  if (verb == "gather") return "; torch.gather is take_along_dim";
  if (verb == "scatter") return "; torch.scatter is scatter_along_dim";
  return "";
}

std::optional<DType> dtype_meant(std::string_view word) {
  if (const std::optional<DType> dtype = parse_dtype(word)) return dtype;
  for (const auto& [torch, here] : kDTypes)
    if (torch == word) return here;
  return std::nullopt;
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
  if (const std::optional<DType> dtype = dtype_meant(plain))
    throw_bad_input("unknown dtype \"{}\"; did you mean \"{}\"?", text, name(*dtype));
  NearestName nearest(text);
  for (int i = 0; i < kDTypeCount; ++i) nearest.offer(name(static_cast<DType>(i)));
  std::string known;
  for (int i = 0; i < kDTypeCount && nearest.best().empty(); ++i)
    known += fmt::format("{} {}", i == 0 ? "; expected one of" : "", name(static_cast<DType>(i)));
  throw_bad_input("unknown dtype \"{}\"{}{}", text, nearest.hint(), known);
}

}  // namespace shardproof
