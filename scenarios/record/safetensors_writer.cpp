// Implements to_safetensors of safetensors.h. Tensors are sorted by size of element, largest first,
// and the header is padded to a multiple of 8, so that every element is aligned.
#include "shardproof/scenarios/record/safetensors.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_tree.h"
#include "shardproof/scenarios/record/safetensors_dtypes.h"

namespace shardproof {
namespace {

constexpr size_t kAlignment = 8;

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.shape)
    text += fmt::format("{}{}", text.empty() ? "" : ",", size);
  if (is_complex(tensor.dtype)) text += text.empty() ? "2" : ",2";
  return "[" + text + "]";
}

size_t bytes_of(const Tensor& tensor) {
  return static_cast<size_t>(tensor.elements() * size_of(tensor.dtype));
}

}  // namespace

std::string to_safetensors(const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const int64_t left = size_of(component_dtype(a->tensor.dtype)),
                  right = size_of(component_dtype(b->tensor.dtype));
    return left != right ? left > right : a->name < b->name;
  });
  std::string header, data;
  for (const NamedTensor* named : order) {
    const Tensor& tensor = named->tensor;
    SP_CHECK(tensor.contiguous(), "tensor {} is not dense", named->name);
    const size_t bytes = bytes_of(tensor);
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          header.empty() ? "" : ",", quoted_json(named->name),
                          safetensors_name(component_dtype(tensor.dtype)), shape_text(tensor),
                          data.size(), data.size() + bytes);
    if (bytes != 0) data.append(reinterpret_cast<const char*>(tensor.data()), bytes);
  }
  header = "{" + header + "}";
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  std::string out;
  for (size_t i = 0; i < sizeof(uint64_t); ++i)
    out += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return out + header + data;
}

}  // namespace shardproof
