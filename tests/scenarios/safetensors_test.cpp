// Tests writing and reading of safetensors files, also with an independent reader.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/safetensors.h"

namespace shardproof::safetensors_test {
namespace {

Tensor random_tensor(DType dtype, const Dims& shape, uint64_t seed) {
  Tensor tensor = Tensor::empty(dtype, shape);
  std::byte* data = tensor.elements() == 0 ? nullptr : tensor.mutate();
  for (int64_t i = 0; i < tensor.elements() * size_of(dtype); ++i)
    data[i] = static_cast<std::byte>((seed * 2654435761u + static_cast<uint64_t>(i) * 40503u) >> 7);
  return tensor;
}

std::vector<NamedTensor> one_of_each() {
  std::vector<NamedTensor> tensors;
  for (int d = 0; d < kDTypeCount; ++d) {
    const DType dtype = static_cast<DType>(d);
    const std::string name(shardproof::name(dtype));
    tensors.push_back({name, random_tensor(dtype, {3, 5}, static_cast<uint64_t>(d))});
    tensors.push_back(
        {"scalar of " + name, random_tensor(dtype, {}, static_cast<uint64_t>(d) + 99)});
    tensors.push_back({"empty \"" + name, random_tensor(dtype, {2, 0, 4}, 1)});
  }
  return tensors;
}

const NamedTensor& named(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw std::out_of_range(name);
}

TEST(Safetensors, WrittenTensors_AreReadBack) {
  const std::vector<NamedTensor> written = one_of_each();
  const std::vector<NamedTensor> read = parse_safetensors(to_safetensors(written), "f");
  ASSERT_EQ(read.size(), written.size());
  for (const NamedTensor& own : written) {
    const Tensor& other = named(read, own.name).tensor;
    if (is_complex(own.tensor.dtype)) {
      Dims pairs = own.tensor.shape;
      pairs.push_back(2);
      EXPECT_EQ(other.shape, pairs);
    } else {
      EXPECT_EQ(other.shape, own.tensor.shape);
      EXPECT_EQ(other.dtype, own.tensor.dtype);
    }
    const int64_t bytes = own.tensor.elements() * size_of(own.tensor.dtype);
    ASSERT_EQ(other.elements() * size_of(other.dtype), bytes);
    if (bytes == 0) continue;
    EXPECT_EQ(std::memcmp(other.data(), own.tensor.data(), static_cast<size_t>(bytes)), 0);
  }
}

// An independent reader, written from the description of the format.
TEST(Safetensors, WrittenFile_FollowsThePublicFormat) {
  const std::string file = to_safetensors(one_of_each());
  uint64_t length = 0;
  ASSERT_GE(file.size(), 8u);
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(file[static_cast<size_t>(i)]);
  EXPECT_EQ((8 + length) % 8, 0u);
  ASSERT_EQ(file[8], '{');
  const nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
  const std::map<std::string, uint64_t> sizes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U8", 1},      {"BOOL", 1}};
  std::map<uint64_t, uint64_t> spans;
  for (const auto& [name, entry] : header.items()) {
    uint64_t bytes = sizes.at(entry.at("dtype"));
    for (const uint64_t size : entry.at("shape")) bytes *= size;
    const uint64_t first = entry.at("data_offsets").at(0), last = entry.at("data_offsets").at(1);
    EXPECT_EQ(last - first, bytes) << name;
    EXPECT_EQ(first % sizes.at(entry.at("dtype")), 0u) << name;
    if (bytes != 0) {
      EXPECT_TRUE(spans.emplace(first, last).second) << name;
    }
  }
  uint64_t at = 0;
  for (const auto& [first, last] : spans) {
    EXPECT_EQ(first, at);
    at = last;
  }
  EXPECT_EQ(at, file.size() - 8 - length);
  EXPECT_EQ(header.at("bf16").at("shape"), nlohmann::json({3, 5}));
  EXPECT_EQ(header.at("c64").at("dtype"), "F32");
  EXPECT_EQ(header.at("c64").at("shape"), nlohmann::json({3, 5, 2}));
}

std::string file_of(const std::string& header, const std::string& data) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

TEST(Safetensors, FileOfAnotherWriter_IsRead) {
  const std::string header =
      R"json({"__metadata__": {"format": "pt"}, "b": {"dtype": "I16", "shape": [2], "data_offsets": [0, 4]}}   )json";
  const auto tensors = parse_safetensors(file_of(header, std::string("\1\0\377\377", 4)), "f");
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(values_of(tensors[0].tensor), (std::vector<double>{1, -1}));
}

TEST(Safetensors, MalformedFile_IsRefused) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return "{\"x\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + at +
           "}}";
  };
  const std::string good = file_of(entry("U8", "[4]", "[0,4]"), "abcd");
  EXPECT_EQ(parse_safetensors(good, "f").size(), 1u);
  const std::vector<std::string> bad = {
      "",
      "abc",
      good.substr(0, good.size() - 1),
      good + "x",
      file_of("{", ""),
      file_of("[]", ""),
      std::string(8, '\377'),
      file_of(entry("U8", "[4]", "[0,3]"), "abc"),
      file_of(entry("U8", "[3]", "[1,4]"), "abcd"),
      file_of(entry("U8", "[-4]", "[0,4]"), "abcd"),
      file_of(entry("F32", "[4611686018427387904,4]", "[0,0]"), ""),
      file_of(entry("U8", "[4]", "[0]"), "abcd"),
      file_of(entry("F4", "[4]", "[0,2]"), "ab"),
      file_of(entry("U8", "4", "[0,4]"), "abcd"),
  };
  for (const std::string& file : bad) {
    try {
      parse_safetensors(file, "v.safetensors");
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.where().file, "v.safetensors");
    }
  }
}

}  // namespace
}  // namespace shardproof::safetensors_test
