// Implements parse_safetensors of safetensors.h and safetensors_dtypes.h. Steps: read the
// header length and header, sort tensors by offset, require that they follow each other without
// holes, copy their bytes.
#include "shardproof/scenarios/record/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_reader.h"
#include "shardproof/scenarios/record/safetensors_dtypes.h"

namespace shardproof {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 12> kDtypeNames = {{
    {DType::f64, "F64"},
    {DType::f32, "F32"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::f8e4m3, "F8_E4M3"},
    {DType::f8e5m2, "F8_E5M2"},
    {DType::i64, "I64"},
    {DType::i32, "I32"},
    {DType::i16, "I16"},
    {DType::i8, "I8"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
}};

// One tensor of the header, not yet checked against the size of the data.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  int64_t first = 0, last = 0;
};

TensorEntry read_tensor_entry(const std::string& name, const JsonReader& reader) {
  TensorEntry entry;
  entry.name = name;
  const std::string& dtype = reader.at("dtype").text();
  const std::optional<DType> known = parse_safetensors_dtype(dtype);
  if (!known)
    throw Error(ErrorKind::unsupported,
                fmt::format("tensor {} has the unknown dtype {}", name, dtype));
  entry.dtype = *known;
  const std::vector<JsonReader> sizes = reader.at("shape").items();
  if (sizes.size() > Dims::kCapacity)
    throw Error(ErrorKind::unsupported, fmt::format("tensor {} has {} dims, the limit is {}", name,
                                                    sizes.size(), Dims::kCapacity));
  int64_t bytes = size_of(entry.dtype);
  for (const JsonReader& size : sizes) {
    const int64_t extent = size.integer();
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      size.expected("a size of 0 or more that fits 64 bits");
    entry.shape.push_back(extent);
  }
  const std::vector<JsonReader> offsets = reader.at("data_offsets").items();
  if (offsets.size() != 2) reader.at("data_offsets").expected("two offsets");
  entry.first = offsets[0].integer();
  entry.last = offsets[1].integer();
  if (entry.first < 0 || entry.last < entry.first || entry.last - entry.first != bytes)
    throw_bad_input("expected offsets of {1} bytes for tensor {0}, found {2} .. {3}", name, bytes,
                    entry.first, entry.last);
  return entry;
}

std::vector<TensorEntry> read_header(std::string_view text) {
  const JsonTree tree = read_json(text);
  std::vector<TensorEntry> entries;
  for (const auto& [name, reader] : JsonReader(tree, "").members())
    if (name != "__metadata__") entries.push_back(read_tensor_entry(name, reader));
  std::sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(a.first, a.last, a.name) < std::tuple(b.first, b.last, b.name);
  });
  return entries;
}

std::vector<NamedTensor> parse_bytes(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    throw_bad_input("expected at least 8 bytes, found {}", bytes.size());
  for (size_t i = 0; i < sizeof(length); ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  bytes.remove_prefix(sizeof(length));
  if (length > bytes.size())
    throw_bad_input("expected a header of {} bytes, found {}", length, bytes.size());
  const std::string_view data = bytes.substr(length);
  std::vector<NamedTensor> tensors;
  int64_t at = 0;
  for (const TensorEntry& entry : read_header(bytes.substr(0, length))) {
    if (entry.first != at)
      throw_bad_input("expected tensor {} directly after the one before it", entry.name);
    at = entry.last;
    if (at > static_cast<int64_t>(data.size()))
      throw_bad_input("tensor {} ends at byte {}, the file has {}", entry.name, at, data.size());
    Tensor tensor = Tensor::empty(entry.dtype, entry.shape);
    if (entry.last > entry.first)
      std::memcpy(tensor.mutate(), data.data() + entry.first,
                  static_cast<size_t>(entry.last - entry.first));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  if (at != static_cast<int64_t>(data.size()))
    throw_bad_input("{} bytes belong to no tensor", static_cast<int64_t>(data.size()) - at);
  return tensors;
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, name] : kDtypeNames)
    if (known == dtype) return name;
  SP_UNREACHABLE("safetensors has no dtype {}", name(dtype));
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const auto& [dtype, known] : kDtypeNames)
    if (known == name) return dtype;
  return std::nullopt;
}

std::vector<NamedTensor> parse_safetensors(std::string_view bytes, const std::string& file) {
  try {
    return parse_bytes(bytes);
  } catch (const Error& error) {
    throw error.inside({file, "", 0, 0});
  }
}

}  // namespace shardproof
