// Parts of the scenario language that this version does not support. They are refused, never
// ignored.
#pragma once

#include <string_view>

#include "shardproof/localtensor/report/finding.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/scenarios/json/json_reader.h"

namespace shardproof {

// Throw Error(unsupported) with the place of the first unsupported key, verdict or verb.
[[noreturn]] void refuse_unsupported(std::string_view what, const Where& where);

void refuse_unsupported_keys(const JsonReader& root);           // "model", "data", ...
void refuse_unsupported_expect_keys(const JsonReader& expect);  // "bubble", ...
bool is_unsupported(Verdict verdict);
void refuse_unsupported_verdict(Verdict verdict, const JsonReader& reader);
void refuse_unsupported_verbs(const Listing& listing, const std::string& path);

}  // namespace shardproof
