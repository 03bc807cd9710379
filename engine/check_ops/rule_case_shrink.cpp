// Implements smallest_wrong_case of rule_case.h: tries one simpler case after the other and keeps
// the first that is still wrong, until none is. Simpler means one axis less, a smaller axis, an
// input or output that is R on all axes, or a smaller size.
//
// A case in which a rank fails stays wrong if a rank fails in the same way, or if values differ.
// Example: "index 5 is out of range for 4 rows" and "index 1 is out of range for 1 rows" are one
// way, because they differ in their numbers alone.
#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

#include "shardproof/engine/check_ops/rule_case.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kMostSteps = 60;

Mesh mesh_of_sizes(const Dims& sizes) {
  std::vector<std::pair<std::string, int64_t>> axes;
  for (int i = 0; i < sizes.size(); ++i)
    axes.emplace_back(std::string(1, static_cast<char>('a' + i)), sizes[i]);
  return Mesh::make(std::move(axes));
}

bool has_sizes(const RuleCase& rule, size_t axis) {
  for (const auto* tensors : {&rule.in, &rule.out})
    for (const std::vector<Placement>& by_axis : *tensors)
      if (by_axis[axis].is_shard() && !by_axis[axis].shard().sizes.empty()) return true;
  return false;
}

std::vector<RuleCase> simpler_meshes(const RuleCase& rule) {
  std::vector<RuleCase> list;
  const Dims sizes = rule.mesh.shape();
  for (int axis = 0; axis < sizes.size() && sizes.size() > 1; ++axis) {
    RuleCase one = rule;
    Dims fewer = sizes;
    fewer.erase(axis);
    one.mesh = mesh_of_sizes(fewer);
    for (auto* tensors : {&one.in, &one.out, &one.buffers})
      for (std::vector<Placement>& by_axis : *tensors) by_axis.erase(by_axis.begin() + axis);
    list.push_back(std::move(one));
  }
  for (int axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] <= 2 || has_sizes(rule, static_cast<size_t>(axis))) continue;
    RuleCase one = rule;
    Dims fewer = sizes;
    --fewer[axis];
    one.mesh = mesh_of_sizes(fewer);
    list.push_back(std::move(one));
  }
  return list;
}

// True if another input has a dim of this size. The dims may belong together: a loss of [1] and [2]
// is a broadcast, and no smaller case of the loss of [2] and [2].
bool another_has(const RuleCase& rule, size_t input, int64_t size) {
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    const Dims& shape = rule.inputs[i].shape;
    if (i != input && std::find(shape.begin(), shape.end(), size) != shape.end()) return true;
  }
  return false;
}

std::vector<RuleCase> simpler_sizes(const RuleCase& rule) {
  std::vector<RuleCase> list;
  std::set<int64_t, std::greater<>> sizes;
  for (const TensorMeta& meta : rule.inputs)
    for (const int64_t size : meta.shape)
      if (size > 1) sizes.insert(size);
  for (const int64_t size : sizes)
    for (const int64_t smaller : {int64_t{1}, int64_t{2}, size / 2, size - 1}) {
      if (smaller >= size || smaller < 1) continue;
      RuleCase one = rule;
      for (TensorMeta& meta : one.inputs)
        for (int64_t& each : meta.shape)
          if (each == size) each = smaller;
      list.push_back(std::move(one));
    }
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    for (int dim = 0; dim < rule.inputs[i].shape.size(); ++dim) {
      const int64_t size = rule.inputs[i].shape[dim];
      if (size < 2 || another_has(rule, i, size)) continue;
      RuleCase one = rule;
      --one.inputs[i].shape[dim];
      list.push_back(std::move(one));
    }
  return list;
}

// Returns the text with one # for each number.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  return out;
}

// Returns the answer about a wrong case, whose lines are updated to its sizes; nullopt for others.
std::optional<ClaimAnswer> wrong_answer(RuleCase& rule, const OpRegistry& ops) {
  try {
    update_lines(rule);
    ClaimAnswer answer = check_case(rule, ops);
    if (answer.kind == ClaimAnswer::Kind::wrong) return answer;
  } catch (const Error&) {
    // The call is not legal.
  }
  return std::nullopt;
}

// True if a rank has no element of an input.
bool has_empty_shards(const RuleCase& rule) {
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    if (rule.inputs[i].absent) continue;
    const Spec spec(rule.mesh, rule.in[i], rule.inputs[i].shape, rule.inputs[i].dtype);
    for (int64_t rank = 0; rank < rule.mesh.size(); ++rank)
      if (element_count(spec.local_shape(rank)) == 0) return true;
  }
  return false;
}

// The way in which a case is wrong.
struct WrongWay {
  std::string trouble;  // without numbers; "": its values differ
  bool has_empty_shards = false;
};

// True if a simpler case is wrong in its values, or in the same way. A rank may fail because a call
// is no longer legal, which is another way, or because its shard is empty, which hides the reason.
bool is_wrong_alike(RuleCase& rule, const OpRegistry& ops, const WrongWay& way) {
  const std::optional<ClaimAnswer> answer = wrong_answer(rule, ops);
  if (!answer) return false;
  if (way.trouble.empty()) return answer->trouble.empty();
  const bool is_alike = answer->trouble.empty() || without_numbers(answer->trouble) == way.trouble;
  return is_alike && (way.has_empty_shards || !has_empty_shards(rule));
}

}  // namespace

RuleCase smallest_wrong_case(const RuleCase& rule, const OpRegistry& ops) {
  RuleCase best = rule;
  const std::optional<ClaimAnswer> answer = wrong_answer(best, ops);
  if (!answer) return best;
  const WrongWay way{without_numbers(answer->trouble), has_empty_shards(best)};
  for (int step = 0; step < kMostSteps; ++step) {
    bool found = false;
    for (const auto simpler : {simpler_meshes, simpler_sizes})
      for (RuleCase& one : simpler(best)) {
        if (found || !is_wrong_alike(one, ops, way)) continue;
        best = std::move(one);
        found = true;
      }
    if (!found) break;
  }
  return best;
}

}  // namespace shardproof
