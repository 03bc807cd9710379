// Implements json_reader.h.
#include "shardproof/scenarios/json/json_reader.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

namespace shardproof {
namespace {

// Keys of other tools, and what to write in a scenario.
struct ForeignKey {
  std::string_view key, advice;
};
constexpr ForeignKey kForeignKeys[] = {
    {"mesh_dim_names", R"(write the names in "mesh": "dp=2, tp=4")"},
    {"mesh_shape", R"(write "mesh": "dp=2, tp=4")"},
    {"device_mesh", R"(write "mesh": "dp=2, tp=4")"},
    {"world_size", R"(the ranks follow from "mesh"; "world" adds ranks outside it)"},
    {"tensor_model_parallel_size", R"(write an axis of "mesh", such as tp=4)"},
    {"tensor_parallel_size", R"(write an axis of "mesh", such as tp=4)"},
    {"pipeline_model_parallel_size", R"(write an axis of "mesh", such as pp=4)"},
    {"inputs", R"(write "tensors")"},
    {"params", R"(write "tensors")"},
    {"steps", R"(write "program")"},
    {"seed", "shardproof run --seed N sets it"},
    {"tolerance", R"(rounding is measured; "expect": {"precision": ..} limits it)"},
    {"atol", R"(rounding is measured; "precision" limits it)"},
    {"rtol", R"(rounding is measured; "precision" limits it)"},
    {"device", "shardproof run --device cuda sets it"},
    {"backend", "shardproof run --backend nccl sets it"},
    {"requires_grad", "leave it out; g = grad(loss, x) differentiates by any tensor"},
    {"local_shape", R"("shape" is that of the global tensor; write "shape" and "placements")"},
    {"sharding", R"(write "placements")"},
    {"spec", R"(write "placements")"},
    {"partition_spec", R"(write "placements")"},
    {"init", R"-(write "fill", such as "normal(0, 1)")-"},
    {"data", R"(write "values")"},
    {"size", R"(write "shape")"}};

std::string advice_for_key(const std::string& key, const std::vector<std::string_view>& known) {
  for (const ForeignKey& foreign : kForeignKeys)
    if (foreign.key == key) return fmt::format("; {}", foreign.advice);
  NearestName nearest(key);
  for (const std::string_view candidate : known) nearest.offer(candidate);
  return nearest.best().empty() ? fmt::format("; known keys are {}", fmt::join(known, " "))
                                : nearest.hint();
}

}  // namespace

void JsonReader::refuse(const std::string& message) const {
  throw Error(ErrorKind::bad_input, message, {"", path_, 0, 0});
}

void JsonReader::expected(std::string_view what) const {
  std::string found = to_string(*tree_);
  if (found.size() > 60) found = std::string(name(tree_->kind));
  refuse(fmt::format("expected {}, found {}", what, found));
}

const std::string& JsonReader::text(std::string_view what) const {
  if (kind() != JsonKind::text) expected(what);
  return tree_->text;
}

int64_t JsonReader::integer() const {
  if (kind() == JsonKind::text && !tree_->text.empty() &&
      tree_->text.find_first_not_of("0123456789") == std::string::npos)
    refuse(fmt::format("expected an integer, found {}; write {} without quotes", to_string(*tree_),
                       tree_->text));
  if (kind() == JsonKind::real && tree_->real == std::floor(tree_->real))
    refuse(
        fmt::format("expected an integer, found a number with a fraction or an exponent; write {}",
                    to_string(*tree_)));
  if (kind() != JsonKind::integer) expected("an integer");
  return tree_->integer;
}

bool JsonReader::flag() const {
  if (kind() == JsonKind::text && (tree_->text == "true" || tree_->text == "false"))
    refuse(fmt::format("expected true or false, found {}; write {} without quotes",
                       to_string(*tree_), tree_->text));
  if (kind() != JsonKind::boolean) expected("true or false");
  return tree_->boolean;
}

std::vector<JsonReader> JsonReader::items(std::string_view what) const {
  if (kind() != JsonKind::list) expected(what);
  std::vector<JsonReader> out;
  for (size_t i = 0; i < tree_->items.size(); ++i)
    out.emplace_back(tree_->items[i], path_ + "/" + std::to_string(i));
  return out;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members(std::string_view what) const {
  if (kind() != JsonKind::object) expected(what);
  std::vector<std::pair<std::string, JsonReader>> out;
  for (size_t i = 0; i < tree_->items.size(); ++i)
    out.emplace_back(tree_->keys[i],
                     JsonReader(tree_->items[i], path_ + pointer_step(tree_->keys[i])));
  return out;
}

JsonReader JsonReader::at(std::string_view key, std::string_view example) const {
  if (kind() != JsonKind::object) expected("an object");
  const JsonTree* found = tree_->find(key);
  if (found == nullptr)
    refuse(
        fmt::format("key \"{}\" is missing{}{}", key, example.empty() ? "" : "; write ", example));
  return {*found, path_ + pointer_step(key)};
}

std::vector<Error> JsonReader::unknown_keys(const std::vector<std::string_view>& known) const {
  std::vector<Error> errors;
  if (kind() != JsonKind::object) expected("an object");
  for (const std::string& key : tree_->keys) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    errors.emplace_back(ErrorKind::bad_input, "unknown key" + advice_for_key(key, known),
                        Where{.path = path_ + pointer_step(key)});
  }
  return errors;
}

void JsonReader::check_keys(const std::vector<std::string_view>& known) const {
  const std::vector<Error> errors = unknown_keys(known);
  if (!errors.empty()) throw Error(errors.front());
}

}  // namespace shardproof
