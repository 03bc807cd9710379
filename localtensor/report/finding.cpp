// Implements finding.h.
#include "shardproof/localtensor/report/finding.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/report/key_value_text.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, kVerdictCount> kNames = {"clean",
                                                                "wrong values",
                                                                "replicas differ",
                                                                "mismatch",
                                                                "deadlock",
                                                                "missing rank",
                                                                "not a member",
                                                                "race",
                                                                "leak",
                                                                "unwritten redistribution",
                                                                "out of memory",
                                                                "bad checkpoint",
                                                                "imprecise",
                                                                "backends differ",
                                                                "bad input"};

double number_of(const detail::Field& field) {
  double value = 0;
  const char* end = field.value.data() + field.value.size();
  const auto [stop, trouble] = std::from_chars(field.value.data(), end, value);
  if (trouble != std::errc{} || stop != end) detail::refuse(field);
  return value;
}

void set_field(Finding& finding, const detail::Field& field) {
  const auto& [key, value] = field;
  if (key == "verdict") {
    const auto verdict = parse_verdict(value);
    if (!verdict) detail::refuse(field);
    finding.verdict = *verdict;
  } else if (key == "line") {
    finding.line = static_cast<int>(detail::integer_of(field));
  } else if (key == "ranks") {
    const auto ranks = parse_lanes(value);
    if (!ranks) detail::refuse(field);
    finding.ranks = *ranks;
  } else if (key == "name") {
    finding.name = value;
  } else if (key == "ratio") {
    finding.ratio = number_of(field);
  } else if (key == "group") {
    finding.group = value;
  } else if (key == "call") {
    finding.call = detail::integer_of(field);
  } else if (key == "headline") {
    finding.headline = value;
  } else if (key == "detail") {
    finding.details.push_back(value);
  } else if (key == "fix") {
    finding.fix = value;
  } else if (key == "instance") {
    finding.instance = value;
  } else if (key == "element") {
    finding.element = value;
  } else if (key == "expected") {
    finding.expected = value;
  } else if (key == "got") {
    finding.got = value;
  } else {
    throw_bad_input("a finding has no field \"{}\"", key);
  }
}

}  // namespace

std::string_view name(Verdict verdict) { return kNames[static_cast<size_t>(verdict)]; }

std::optional<Verdict> parse_verdict(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Verdict>(i);
  return std::nullopt;
}

const Finding* leading_finding(const std::vector<Finding>& findings) {
  if (findings.empty()) return nullptr;
  const auto leading = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict != Verdict::imprecise;
  });
  return leading == findings.end() ? &findings.front() : &*leading;
}

std::string to_string(const Finding& finding) {
  detail::FieldWriter out;
  const auto add_text = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) out.add(key, text);
  };
  out.add("verdict", name(finding.verdict));
  if (finding.line != 0) out.add("line", finding.line);
  if (!finding.ranks.empty()) out.add("ranks", to_string(finding.ranks));
  add_text("name", finding.name);
  if (finding.ratio) out.add("ratio", fmt::format("{}", *finding.ratio));
  add_text("group", finding.group);
  if (finding.call != 0) out.add("call", finding.call);
  add_text("instance", finding.instance);
  add_text("element", finding.element);
  add_text("expected", finding.expected);
  add_text("got", finding.got);
  add_text("headline", finding.headline);
  for (const std::string& detail : finding.details) out.add("detail", detail);
  add_text("fix", finding.fix);
  return out.release();
}

Finding parse_finding(std::string_view text) {
  Finding finding;
  for (const detail::Field& field : detail::parse_fields(text)) set_field(finding, field);
  return finding;
}

}  // namespace shardproof
