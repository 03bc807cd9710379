// Reports of `shardproof check-ops`: a table by op, details of wrong rules, JSON, JUnit.
//
//   key of the JSON report   value
//   tool, version            "shardproof" and its version
//   ops[]                    op, checked, wrong, undecided, refused; undecided_because: for each
//                            reason the number of rules, left out if none is undecided;
//                            undecided_lines: their lines in the table; refused_because: for each
//                            reason the number of rules, left out if none is refused
//   wrong[]                  op, line (of a table), rule (a row), smallest (a row), output,
//                            position, ranks, parts, got, expected, trouble, repeat
//   unknown                  rows by op that is not known here
//   refused[]                op, reason, lines (of the table): calls without a counterpart here
//   not_judged[]             op, results (torch's names), rows: results that rows leave out or that
//                            have no counterpart here
//   missing[]                op, call, rules (texts "S(0) R -> S(0)") that the op does not claim
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardproof/engine/check_ops/rule_case.h"
#include "shardproof/scenarios/rules/rule_table.h"

namespace shardproof {

struct OpRuleCounts {
  std::string op;
  int64_t checked = 0, wrong = 0, undecided = 0, refused = 0;
  std::map<std::string, int64_t> reasons = {};          // number of undecided rules by reason
  std::vector<int> undecided_lines = {};                // of a table
  std::map<std::string, int64_t> refused_reasons = {};  // number of refused rules by reason
};

struct WrongRule {
  RuleCase rule, smallest;
  int line = 0;        // of the table; 0: a rule of the registry
  ClaimAnswer answer;  // about `smallest`
};

// Right rules of a call that the op does not claim.
struct MissingRules {
  std::string op, call;
  std::vector<std::string> rules;
};

// Results of an op that are not judged, and the number of such rows.
struct UnjudgedResults {
  std::string op;
  std::vector<std::string> results;
  int64_t rows = 0;
};

struct RuleReport {
  std::vector<OpRuleCounts> ops;
  std::vector<WrongRule> wrong;
  std::map<std::string, int64_t> unknown;
  std::vector<RefusedCalls> refused = {};
  std::vector<UnjudgedResults> not_judged = {};
  std::vector<MissingRules> missing;  // if they were requested
  std::string table;                  // file; "": the registry
};

std::string rule_report_text(const RuleReport& report);
std::string rule_report_json(const RuleReport& report, const std::string& version);
std::string rule_report_junit(const RuleReport& report);

}  // namespace shardproof
