// Implements rule_report.h.
#include "shardproof/scenarios/rules/rule_report.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/localtensor/base/number_text.h"
#include "shardproof/scenarios/json/json_tree.h"
#include "shardproof/scenarios/report/svg.h"
#include "shardproof/scenarios/rules/rule_table.h"

namespace shardproof {
namespace {

constexpr size_t kShownWrong = 20;
constexpr size_t kShownMissing = 4;  // of one call

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string rule_repeat_command(const WrongRule& wrong) {
  // A gradient that central differences refute is wrong on one rank too.
  if (wrong.line == 0 && wrong.smallest.kind == RuleKind::backward &&
      wrong.smallest.mesh.size() == 1)
    return fmt::format("shardproof check-ops --backward --op {}", wrong.smallest.op);
  return "shardproof check-ops --row " + shell_quoted(rule_row_text(wrong.smallest));
}

std::string placed_text(const std::vector<Placement>& by_axis) {
  std::string out;
  for (const Placement& p : by_axis) out += (out.empty() ? "" : " ") + to_string(p);
  return out;
}

std::string value_line(const WrongRule& wrong) {
  const ClaimAnswer& answer = wrong.answer;
  if (!answer.trouble.empty()) return answer.trouble;
  const Disagreement& first = answer.first;
  const std::string result = wrong.smallest.results.size() > answer.output
                                 ? wrong.smallest.results[answer.output]
                                 : fmt::format("result {}", answer.output);
  if (first.got.starts_with("shape"))
    return fmt::format("{} on rank {}: {}, its placement needs {}", result,
                       fmt::join(first.ranks, ", "), first.got, first.want);
  if (first.ranks.size() > 1)
    return fmt::format("{}[{}]: ranks {} have {}, together {}; one device has {}", result,
                       first.position, fmt::join(first.ranks, ", "), first.parts, first.got,
                       first.want);
  return fmt::format("{}[{}]: rank {} has {}; one device has {}", result, first.position,
                     fmt::join(first.ranks, ", "), first.got, first.want);
}

std::string wrong_text(const WrongRule& wrong, const RuleReport& report) {
  const RuleCase& rule = wrong.smallest;
  std::string out = fmt::format("WRONG {}", rule.op);
  if (wrong.line > 0) out += fmt::format("   {}:{}", report.table, wrong.line);
  out += "\n";
  for (const std::string& line : rule.lines) out += fmt::format("  {}\n", line);
  out += fmt::format("  mesh     {}\n", to_string(rule.mesh));
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    out += fmt::format("  x{:<8}{}{} {}\n", i, name(rule.inputs[i].dtype),
                       to_string(rule.inputs[i].shape), placed_text(rule.in[i]));
  for (size_t i = 0; i < rule.out.size(); ++i)
    out += fmt::format("  {:<9}claimed {}\n", rule.results[i], placed_text(rule.out[i]));
  return out + fmt::format("  finding  {}\n  repeat   {}\n", value_line(wrong),
                           rule_repeat_command(wrong));
}

// Returns "line 3" or "lines 3, 5".
std::string lines_text(const std::vector<int>& lines) {
  return (lines.size() == 1 ? "line " : "lines ") + join_text(lines, ", ");
}

std::string undecided_text(const std::vector<OpRuleCounts>& ops) {
  std::string out;
  for (const OpRuleCounts& op : ops) {
    for (const auto& [reason, count] : op.reasons)
      out += fmt::format("    {}: {}, because {}\n", op.op, count, reason);
    if (!op.undecided_lines.empty())
      out += fmt::format("    {}: {} of the table\n", op.op, lines_text(op.undecided_lines));
  }
  return out.empty() ? "" : "  undecided:\n" + out;
}

std::string refused_rules_text(const std::vector<OpRuleCounts>& ops) {
  std::string out;
  for (const OpRuleCounts& op : ops)
    for (const auto& [reason, count] : op.refused_reasons)
      out += fmt::format("    {}: {}, because {}\n", op.op, count, reason);
  if (out.empty()) return "";
  return "  refused, because the steps by which an op runs take no such cuts on two axes:\n" + out;
}

std::string refused_text(const std::vector<RefusedCalls>& list) {
  std::string out;
  for (const RefusedCalls& calls : list)
    out += fmt::format("  not checked: {} row{} of {} (first: line {}): {}\n", calls.lines.size(),
                       calls.lines.size() == 1 ? "" : "s", calls.op, calls.lines.front(),
                       calls.reason);
  return out;
}

std::string refused_json(const std::vector<RefusedCalls>& list) {
  std::string out;
  for (const RefusedCalls& calls : list)
    out +=
        fmt::format("{}{{\"op\": {}, \"reason\": {}, \"lines\": [{}]}}", out.empty() ? "" : ", ",
                    quoted_json(calls.op), quoted_json(calls.reason), fmt::join(calls.lines, ", "));
  return "[" + out + "]";
}

std::string not_judged_text(const std::vector<UnjudgedResults>& list) {
  std::string out;
  for (const UnjudgedResults& one : list)
    out += fmt::format("    {}: {} ({} row{})\n", one.op, join_text(one.results, ", "), one.rows,
                       one.rows == 1 ? "" : "s");
  return out.empty() ? "" : "  results that are not judged:\n" + out;
}

std::string not_judged_json(const std::vector<UnjudgedResults>& list) {
  std::vector<std::string> items;
  for (const UnjudgedResults& one : list) {
    std::vector<std::string> results;
    for (const std::string& result : one.results) results.push_back(quoted_json(result));
    items.push_back(fmt::format("{{\"op\": {}, \"results\": [{}], \"rows\": {}}}",
                                quoted_json(one.op), join_text(results, ", "), one.rows));
  }
  return "[" + join_text(items, ", ") + "]";
}

// Returns the text about the wrong rules that are not shown.
std::string more_wrong_text(const RuleReport& report) {
  std::vector<int> lines;
  for (size_t i = kShownWrong; i < report.wrong.size(); ++i)
    if (report.wrong[i].line > 0) lines.push_back(report.wrong[i].line);
  return fmt::format("... and {} more{}; --json FILE writes all of them\n",
                     report.wrong.size() - kShownWrong,
                     lines.empty() ? "" : ", on " + lines_text(lines));
}

std::string reason_counts_json(const std::map<std::string, int64_t>& reasons) {
  std::string out;
  for (const auto& [reason, count] : reasons)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quoted_json(reason), count);
  return out;
}

std::string reasons_json(const OpRuleCounts& op) {
  const std::string refused =
      op.refused_reasons.empty()
          ? ""
          : ", \"refused_because\": {" + reason_counts_json(op.refused_reasons) + "}";
  if (op.reasons.empty()) return refused;
  const std::string lines =
      op.undecided_lines.empty()
          ? ""
          : fmt::format(", \"undecided_lines\": [{}]", join_text(op.undecided_lines, ", "));
  return ", \"undecided_because\": {" + reason_counts_json(op.reasons) + "}" + lines + refused;
}

std::string missing_text(const std::vector<MissingRules>& missing) {
  if (missing.empty()) return "";
  std::string out = "  right on an axis of 2 ranks, but not claimed (no errors):\n";
  size_t width = 0;
  for (const MissingRules& of : missing) width = std::max(width, of.call.size());
  for (const MissingRules& of : missing) {
    std::string rules;
    for (size_t i = 0; i < std::min(kShownMissing, of.rules.size()); ++i)
      rules += (i == 0 ? "" : ", ") + of.rules[i];
    if (of.rules.size() > kShownMissing)
      rules += fmt::format(", and {} more", of.rules.size() - kShownMissing);
    out += fmt::format("    {:<{}}  {}\n", of.call, width, rules);
  }
  return out;
}

std::string missing_json(const std::vector<MissingRules>& missing) {
  std::string out;
  for (const MissingRules& of : missing) {
    std::string rules;
    for (const std::string& rule : of.rules)
      rules += (rules.empty() ? "" : ", ") + quoted_json(rule);
    out += fmt::format("{}\n    {{\"op\": {}, \"call\": {}, \"rules\": [{}]}}",
                       out.empty() ? "" : ",", quoted_json(of.op), quoted_json(of.call), rules);
  }
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

}  // namespace

std::string rule_report_text(const RuleReport& report) {
  std::string out;
  for (size_t i = 0; i < std::min(kShownWrong, report.wrong.size()); ++i)
    out += wrong_text(report.wrong[i], report);
  if (report.wrong.size() > kShownWrong) out += more_wrong_text(report);
  size_t width = 5;
  for (const OpRuleCounts& op : report.ops) width = std::max(width, op.op.size());
  out += fmt::format("  {:<{}}  {:>10}  {:>6}  {:>9}  {:>7}\n", "op", width, "rules", "wrong",
                     "undecided", "refused");
  OpRuleCounts all{"total"};
  const auto row = [&](const OpRuleCounts& op) {
    out += fmt::format("  {:<{}}  {:>10}  {:>6}  {:>9}  {:>7}\n", op.op, width,
                       grouped_number(op.checked), op.wrong, op.undecided, op.refused);
  };
  for (const OpRuleCounts& op : report.ops) {
    row(op);
    all.checked += op.checked;
    all.wrong += op.wrong;
    all.undecided += op.undecided;
    all.refused += op.refused;
  }
  row(all);
  int64_t unknown = 0;
  std::string names;
  for (const auto& [op, count] : report.unknown) {
    unknown += count;
    if (names.size() < 60) names += (names.empty() ? "" : ", ") + op;
  }
  if (unknown > 0)
    out += fmt::format("  not checked: {} rows of {} unknown ops ({}{})\n", unknown,
                       report.unknown.size(), names, names.size() < 60 ? "" : ", ..");
  return out + refused_text(report.refused) + refused_rules_text(report.ops) +
         undecided_text(report.ops) + not_judged_text(report.not_judged) +
         missing_text(report.missing);
}

std::string rule_report_json(const RuleReport& report, const std::string& version) {
  std::string out = fmt::format("{{\n  \"tool\": \"shardproof\",\n  \"version\": {},\n  \"ops\": [",
                                quoted_json(version));
  for (size_t i = 0; i < report.ops.size(); ++i) {
    const OpRuleCounts& op = report.ops[i];
    out += fmt::format(
        "{}\n    {{\"op\": {}, \"checked\": {}, \"wrong\": {}, \"undecided\": {}, \"refused\": "
        "{}{}}}",
        i == 0 ? "" : ",", quoted_json(op.op), op.checked, op.wrong, op.undecided, op.refused,
        reasons_json(op));
  }
  out += "\n  ],\n  \"wrong\": [";
  for (size_t i = 0; i < report.wrong.size(); ++i) {
    const WrongRule& wrong = report.wrong[i];
    const Disagreement& first = wrong.answer.first;
    out += fmt::format(
        "{}\n    {{\"op\": {}, \"line\": {}, \"output\": {}, \"position\": {}, \"ranks\": [{}], "
        "\"parts\": {}, \"got\": {}, \"expected\": {}, \"trouble\": {},\n     \"rule\": {},\n     "
        "\"smallest\": {},\n     \"repeat\": {}}}",
        i == 0 ? "" : ",", quoted_json(wrong.rule.op), wrong.line, wrong.answer.output,
        first.position, fmt::join(first.ranks, ", "), quoted_json(first.parts),
        quoted_json(first.got), quoted_json(first.want), quoted_json(wrong.answer.trouble),
        rule_row_text(wrong.rule), rule_row_text(wrong.smallest),
        quoted_json(rule_repeat_command(wrong)));
  }
  out += "\n  ],\n  \"unknown\": {";
  bool first = true;
  for (const auto& [op, count] : report.unknown) {
    out += fmt::format("{}{}: {}", first ? "" : ", ", quoted_json(op), count);
    first = false;
  }
  return out +
         fmt::format("}},\n  \"refused\": {},\n  \"not_judged\": {},\n  \"missing\": {}\n}}\n",
                     refused_json(report.refused), not_judged_json(report.not_judged),
                     missing_json(report.missing));
}

std::string rule_report_junit(const RuleReport& report) {
  int64_t failures = 0;
  std::string cases;
  for (const OpRuleCounts& op : report.ops) {
    std::string failed;
    for (const WrongRule& wrong : report.wrong)
      if (wrong.rule.op == op.op)
        failed +=
            fmt::format("\n      <failure message=\"{}\">{}</failure>",
                        escaped_xml(value_line(wrong)), escaped_xml(wrong_text(wrong, report)));
    failures += failed.empty() ? 0 : 1;
    cases +=
        fmt::format("    <testcase classname=\"check-ops\" name=\"{}\"{}\n", escaped_xml(op.op),
                    failed.empty() ? "/>" : ">" + failed + "\n    </testcase>");
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"{}\" "
      "tests=\"{}\" failures=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      report.table.empty() ? "rules of the registry" : escaped_xml(report.table), report.ops.size(),
      failures, cases);
}

}  // namespace shardproof
