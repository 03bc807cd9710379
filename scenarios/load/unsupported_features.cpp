// Implements unsupported_features.h. To support a feature, delete its word from a list below.
#include "shardproof/scenarios/load/unsupported_features.h"

#include <algorithm>
#include <array>

#include "shardproof/scenarios/load/listing_names.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 4> kUnsupportedKeys = {"model", "parallel", "data",
                                                              "resident"};
constexpr std::array<std::string_view, 3> kUnsupportedExpectKeys = {"exposed", "bubble",
                                                                    "slowdown"};
constexpr std::array<Verdict, 3> kUnsupportedVerdicts = {Verdict::leak, Verdict::out_of_memory,
                                                         Verdict::bad_checkpoint};
constexpr std::array<std::string_view, 8> kUnsupportedVerbs = {"save", "load", "write", "rename",
                                                               "read", "d2h",  "h2d",   "newest"};

template <typename List, typename Value>
bool contains(const List& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

void refuse_unsupported(std::string_view what, const Where& where) {
  throw Error(
      ErrorKind::unsupported,
      fmt::format("{} is not supported by this version; shardproof help language lists what it "
                  "refuses in part 2",
                  what),
      where);
}

void refuse_unsupported_keys(const JsonReader& root) {
  for (const std::string& key : root.tree().keys)
    if (contains(kUnsupportedKeys, key))
      refuse_unsupported(fmt::format("key \"{}\"", key),
                         {"", root.path() + pointer_step(key), 0, 0});
}

void refuse_unsupported_expect_keys(const JsonReader& expect) {
  for (const std::string& key : expect.tree().keys)
    if (contains(kUnsupportedExpectKeys, key))
      refuse_unsupported(fmt::format("key \"{}\"", key),
                         {"", expect.path() + pointer_step(key), 0, 0});
}

bool is_unsupported(Verdict verdict) { return contains(kUnsupportedVerdicts, verdict); }

void refuse_unsupported_verdict(Verdict verdict, const JsonReader& reader) {
  if (is_unsupported(verdict))
    refuse_unsupported(fmt::format("verdict \"{}\"", name(verdict)), {"", reader.path(), 0, 0});
}

void refuse_unsupported_verbs(const Listing& listing, const std::string& path) {
  for (const auto& [verb, place] : verbs_called(listing))
    if (contains(kUnsupportedVerbs, verb))
      refuse_unsupported(fmt::format("verb {}", verb), {"", path, place.line, place.column});
}

}  // namespace shardproof
