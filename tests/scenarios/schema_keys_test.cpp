// Compares schemas/scenario.json with the loader: both must list the same keys and verbs. A new key
// or verb is added to both.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/localtensor/dtype/dtype.h"
#include "shardproof/scenarios/load/scenario_keys.h"
#include "shardproof/scenarios/run/run.h"

namespace shardproof::schema_keys_test {
namespace {

using Names = std::set<std::string>;

const nlohmann::json& schema() {
  static const nlohmann::json kSchema = [] {
    std::ifstream in(std::string(SHARDPROOF_SOURCE_DIR) + "/schemas/scenario.json");
    return nlohmann::json::parse(in);
  }();
  return kSchema;
}

Names keys_of(const nlohmann::json& object) {
  Names names;
  for (const auto& [key, value] : object.at("properties").items()) names.insert(key);
  EXPECT_EQ(object.at("additionalProperties"), false);
  return names;
}

Names names_of(const std::vector<std::string_view>& keys) { return {keys.begin(), keys.end()}; }

TEST(Schema, Keys_AreThoseOfTheLoader) {
  const nlohmann::json& parts = schema().at("definitions");
  EXPECT_EQ(keys_of(schema()), names_of(root_keys()));
  EXPECT_EQ(keys_of(parts.at("phase")), names_of(phase_keys()));
  EXPECT_EQ(keys_of(parts.at("tensor")), names_of(tensor_keys()));
  EXPECT_EQ(keys_of(parts.at("train")), names_of(train_keys()));
  EXPECT_EQ(keys_of(parts.at("expect")), names_of(expect_keys()));
}

TEST(Schema, Verbs_AreThoseOfTheLanguage) {
  Names verbs(special_verbs().begin(), special_verbs().end());
  const OpRegistry ops = builtin_ops();
  for (const OpRecord* op : ops.all()) verbs.insert(op->name);
  Names listed;
  for (const auto& verb : schema().at("definitions").at("verb").at("enum")) listed.insert(verb);
  EXPECT_EQ(listed, verbs);
}

TEST(Schema, Words_AreThoseOfTheLanguage) {
  const nlohmann::json& parts = schema().at("definitions");
  Names dtypes, verdicts;
  for (int i = 0; i < kDTypeCount; ++i) dtypes.insert(std::string(name(static_cast<DType>(i))));
  for (int i = 0; i < kVerdictCount; ++i)
    if (static_cast<Verdict>(i) != Verdict::backends_differ)
      verdicts.insert(std::string(name(static_cast<Verdict>(i))));
  EXPECT_EQ(parts.at("dtype").at("anyOf").at(0).at("enum").get<Names>(), dtypes);
  EXPECT_EQ(parts.at("expect").at("properties").at("verdict").at("enum").get<Names>(), verdicts);
  const std::string kinds =
      parts.at("expect").at("properties").at("collectives").at("propertyNames").dump();
  for (int i = 0; i <= static_cast<int>(CollectiveKind::wait_signal); ++i) {
    const std::string kind(name(static_cast<CollectiveKind>(i)));
    EXPECT_NE(kinds.find(kind), std::string::npos) << kind;
  }
}

}  // namespace
}  // namespace shardproof::schema_keys_test
