// Reads the recorded cases of PyTorch and converts their notation. SS(d,k) is S(d, split=k) and
// P(product) is P(prod). Meshes are row-major with axes a, b, c ... in the given order.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof::conformance {

using Json = nlohmann::json;

inline std::vector<Json> read_cases(const std::string& file) {
  std::ifstream in(std::string(SHARDPROOF_SOURCE_DIR) + "/tests/conformance/" + file);
  std::vector<Json> cases;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) cases.push_back(Json::parse(line));
  EXPECT_FALSE(cases.empty()) << file << " is missing or empty";
  return cases;
}

// Returns the facts by their id.
inline std::map<std::string, Json> cases() {
  std::map<std::string, Json> by_id;
  for (const Json& row : read_cases("pytorch_cases.jsonl")) by_id[row["id"]] = row;
  return by_id;
}

inline Mesh mesh_of(const Json& sizes) {
  std::vector<std::pair<std::string, int64_t>> axes;
  for (const Json& size : sizes)
    axes.emplace_back(std::string(1, static_cast<char>('a' + axes.size())), size.get<int64_t>());
  return Mesh::make(axes);
}

inline Placement placement_of(const std::string& text) {
  if (text == "R") return R();
  const std::string inside = text.substr(text.find('(') + 1, text.size() - text.find('(') - 2);
  if (text.starts_with("SS")) {
    const size_t comma = inside.find(',');
    return S(std::stoi(inside.substr(0, comma)), std::stoll(inside.substr(comma + 1)));
  }
  if (text.starts_with("S")) return S(std::stoi(inside));
  return Partial{parse_reduction(inside == "product" ? "prod" : inside)};
}

inline std::vector<Placement> placements_of(const Json& list) {
  std::vector<Placement> placements;
  for (const Json& text : list) placements.push_back(placement_of(text.get<std::string>()));
  return placements;
}

inline Dims dims_of(const Json& list) {
  Dims dims;
  for (const Json& size : list) dims.push_back(size.get<int64_t>());
  return dims;
}

// Reads {"0": [1, 0]}: axes that cut dim 0, in order of cutting. Axes of other dims keep their
// place.
inline std::vector<int> order_of(const Json& by_dim, int axes) {
  std::vector<int> order;
  if (by_dim.is_object())
    for (const auto& [dim, list] : by_dim.items())
      for (const Json& axis : list) order.push_back(axis.get<int>());
  for (int axis = 0; axis < axes; ++axis)
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  return order;
}

// Global row-major indices that a rank owns, in local order.
inline std::vector<int64_t> owned_indices(const Spec& spec, const Dims& coordinate) {
  std::vector<int64_t> indices = {0};
  for (int dim = 0; dim < spec.shape().size(); ++dim) {
    std::vector<int64_t> next;
    for (int64_t outer : indices)
      for (const Run& run : spec.owned_at(coordinate, dim))
        for (int64_t i = 0; i < run.length; ++i)
          next.push_back(outer * spec.shape()[dim] + run.start + i);
    indices = std::move(next);
  }
  return indices;
}

// Counts the cases that ran. Cases that differ on purpose are listed with their reason.
class Tally {
 public:
  explicit Tally(std::string what) : what_(std::move(what)) {}
  void ran() { ++ran_; }
  void differs(const std::string& id, const std::string& why) { differs_[why].push_back(id); }
  int64_t count() const { return ran_; }
  ~Tally() {
    std::printf("%s: %lld cases ran\n", what_.c_str(), static_cast<long long>(ran_));
    for (const auto& [why, ids] : differs_) {
      std::printf("  %zu differ on purpose: %s\n   ", ids.size(), why.c_str());
      for (const std::string& id : ids) std::printf(" %s", id.c_str());
      std::printf("\n");
    }
  }

 private:
  std::string what_;
  int64_t ran_ = 0;
  std::map<std::string, std::vector<std::string>> differs_;
};

}  // namespace shardproof::conformance
