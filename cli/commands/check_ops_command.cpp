// shardproof check-ops: judges sharding rules by brute force, those of the registry or those of a
// table. Steps: read the options, list the work, judge it on several threads, shrink wrong rules,
// print the table and write the reports.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "shardproof/cli/base/work_progress.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/number_options.h"
#include "shardproof/engine/check_ops/candidates.h"
#include "shardproof/engine/check_ops/check_gradients.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/scenarios/rules/rule_report.h"
#include "shardproof/scenarios/rules/rule_table.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

// Wrong rules of one op that are shrunk and shown; others of the op are counted.
constexpr size_t kShrunkOfOneOp = 3;

po::options_description check_ops_options() {
  po::options_description options;
  options.add_options()                        //
      ("word", po::value<CommandArguments>())  //
      ("op", po::value<CommandArguments>())    //
      ("rules", po::value<std::string>())      //
      ("row", po::value<std::string>())        //
      ("skip-unknown", po::bool_switch())      //
      ("short", po::bool_switch())             //
      ("backward", po::bool_switch())          //
      ("missing", po::bool_switch())           //
      ("jobs", po::value<std::string>())       //
      ("seed", po::value<std::string>())       //
      ("json", po::value<std::string>())       //
      ("junit", po::value<std::string>());
  return options;
}

// Calls work(i) for each i of `order` on several threads, and shows progress. Throws the Error of
// the lowest i. Requires a permutation of 0..n-1.
void for_each_on_threads(const std::vector<size_t>& order, int threads, const char* unit,
                         const std::function<std::string(size_t)>& name_of,
                         const std::function<void(size_t)>& work) {
  WorkProgress progress("check-ops", unit, order.size());
  std::atomic<size_t> next = 0;
  std::vector<std::optional<Error>> errors(order.size());
  const auto loop = [&] {
    for (size_t at = next++; at < order.size(); at = next++) {
      const size_t i = order[at];
      progress.begin(name_of(i));
      try {
        work(i);
      } catch (const Error& error) {
        errors[i] = error;
      }
      progress.end(name_of(i));
    }
  };
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(loop);
  loop();
  for (std::thread& thread : pool) thread.join();
  for (const std::optional<Error>& error : errors)
    if (error) throw Error(*error);
}

WrongRule shrunk(RuleCase rule, int line, ClaimAnswer answer, const OpRegistry& ops) {
  WrongRule wrong{std::move(rule), {}, line, std::move(answer)};
  wrong.smallest = wrong.rule;
  try {
    wrong.smallest = smallest_wrong_case(wrong.rule, ops);
    const ClaimAnswer smaller = check_case(wrong.smallest, ops);
    if (smaller.kind == ClaimAnswer::Kind::wrong) wrong.answer = smaller;
  } catch (const Error&) {
    // The call has no text in the language: the case is shown as it was found.
  }
  return wrong;
}

std::vector<const OpRecord*> chosen_ops(const po::variables_map& given, const OpRegistry& ops) {
  if (!given.count("op")) return ops.all();
  std::vector<const OpRecord*> chosen;
  for (const std::string& name : given["op"].as<CommandArguments>())
    chosen.push_back(&ops.at(name));
  return chosen;
}

// Returns the positions of the ops, those with most work first, so that no thread is left alone
// with one of them. The number of placements grows as a power of the number of inputs.
std::vector<size_t> most_work_first(const std::vector<const OpRecord*>& ops) {
  constexpr double kPlacementsOfAnInput = 6;
  std::vector<double> work;
  for (const OpRecord* op : ops) {
    double sum = 0;
    for (const Sample& sample : op->samples())
      sum += std::pow(kPlacementsOfAnInput, static_cast<double>(sample.inputs.size()));
    work.push_back(sum);
  }
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work[a] > work[b]; });
  return order;
}

RuleOptions rule_options(const po::variables_map& given) {
  RuleOptions options;
  options.is_short = given["short"].as<bool>();
  options.seed = whole_option(given, "seed", options.seed, 0, UINT64_MAX / 2);
  return options;
}

RuleReport check_gradients(const po::variables_map& given, int threads, const OpRegistry& ops) {
  const std::vector<const OpRecord*> chosen = chosen_ops(given, ops);
  const RuleOptions options = rule_options(given);
  std::vector<GradientReport> reports(chosen.size());
  std::vector<std::vector<WrongRule>> wrong(chosen.size());
  const auto name_of = [&](size_t i) { return chosen[i]->name; };
  for_each_on_threads(most_work_first(chosen), threads, "ops", name_of, [&](size_t i) {
    reports[i] = check_gradient(*chosen[i], ops, options);
    for (const WrongGradient& gradient : reports[i].wrong)
      if (wrong[i].size() < kShrunkOfOneOp)
        wrong[i].push_back(shrunk(gradient.rule, 0, gradient.answer, ops));
  });
  RuleReport report;
  for (size_t i = 0; i < reports.size(); ++i) {
    const GradientReport& of = reports[i];
    if (of.combinations > 0)
      report.ops.push_back({of.op, of.combinations, static_cast<int64_t>(of.wrong.size()),
                            of.undecided, 0, of.reasons});
    report.wrong.insert(report.wrong.end(), wrong[i].begin(), wrong[i].end());
  }
  return report;
}

// Returns the right rules that an op does not claim, by sample; a sample without any is left out.
std::vector<MissingRules> missing_of(const OpRecord& record, uint64_t seed) {
  std::vector<MissingRules> found;
  if (!record.infer) return found;
  for (const Sample& sample : record.samples()) {
    const OpInstance instance = instance_of(record, sample, seed);
    // Any placement of nothing is right.
    const bool is_empty =
        std::any_of(instance.inputs.begin(), instance.inputs.end(),
                    [](const TensorMeta& meta) { return element_count(meta.shape) == 0; });
    if (is_empty || record.is_composite(instance.call())) continue;
    std::vector<std::string> names;
    for (size_t i = 0; i < instance.inputs.size(); ++i) names.push_back(fmt::format("x{}", i));
    MissingRules of{record.name, call_text(instance, names), {}};
    for (size_t i = 0; i < instance.inputs.size(); ++i)
      if (!instance.inputs[i].absent)
        of.call += fmt::format(" {}{}", name(instance.inputs[i].dtype),
                               to_string(instance.inputs[i].shape));
    int64_t combinations = 0;
    for (const MissingRule& rule :
         missing_rules(instance, draws_of_op(instance, {2, 5, 5, 48}, seed), combinations)) {
      std::string text;
      for (const Placement& placement : rule.inputs) text += to_string(placement) + " ";
      const std::string output = rule.output == 0 ? "" : fmt::format("result {} ", rule.output);
      of.rules.push_back(text + "-> " + output + to_string(rule.placement));
    }
    if (!of.rules.empty()) found.push_back(std::move(of));
  }
  return found;
}

RuleReport check_registry(const po::variables_map& given, int threads, const OpRegistry& ops) {
  const std::vector<const OpRecord*> chosen = chosen_ops(given, ops);
  const RuleOptions options = rule_options(given);
  std::vector<OpRuleReport> reports(chosen.size());
  std::vector<std::vector<WrongRule>> wrong(chosen.size());
  std::vector<std::vector<MissingRules>> missing(chosen.size());
  const auto name_of = [&](size_t i) { return chosen[i]->name; };
  for_each_on_threads(most_work_first(chosen), threads, "ops", name_of, [&](size_t i) {
    if (given["missing"].as<bool>()) missing[i] = missing_of(*chosen[i], options.seed);
    reports[i] = check_rule(*chosen[i], ops, options);
    for (const WrongClaim& claim : reports[i].wrong)
      if (wrong[i].size() < kShrunkOfOneOp)
        wrong[i].push_back(shrunk(case_of(claim), 0, claim.answer, ops));
  });
  RuleReport report;
  for (size_t i = 0; i < reports.size(); ++i) {
    const OpRuleReport& of = reports[i];
    if (of.combinations > 0)
      report.ops.push_back({of.op,
                            of.combinations,
                            static_cast<int64_t>(of.wrong.size()),
                            of.undecided,
                            of.refused,
                            of.reasons,
                            {},
                            of.refused_reasons});
    report.wrong.insert(report.wrong.end(), wrong[i].begin(), wrong[i].end());
    report.missing.insert(report.missing.end(), missing[i].begin(), missing[i].end());
  }
  return report;
}

// Returns the results that are not judged, by op.
std::vector<UnjudgedResults> unjudged_results(const RuleTable& table) {
  std::map<std::pair<std::string, std::vector<std::string>>, int64_t> rows;
  for (const RuleRow& row : table.rows)
    if (!row.unjudged.empty()) ++rows[{row.rule.op, row.unjudged}];
  std::vector<UnjudgedResults> list;
  for (const auto& [of, count] : rows) list.push_back({of.first, of.second, count});
  return list;
}

RuleReport check_rows(const RuleTable& table, int threads, const OpRegistry& ops) {
  std::vector<ClaimAnswer> answers(table.rows.size());
  std::vector<std::optional<WrongRule>> wrong(table.rows.size());
  const auto name_of = [&](size_t i) { return table.rows[i].rule.op; };
  std::vector<size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for_each_on_threads(order, threads, "rows", name_of, [&](size_t i) {
    const RuleRow& row = table.rows[i];
    answers[i] = check_case(row.rule, ops);
    if (answers[i].kind == ClaimAnswer::Kind::wrong)
      wrong[i] = shrunk(row.rule, row.line, answers[i], ops);
  });
  std::map<std::string, OpRuleCounts> counts;
  RuleReport report;
  for (size_t i = 0; i < answers.size(); ++i) {
    OpRuleCounts& op = counts[table.rows[i].rule.op];
    op.op = table.rows[i].rule.op;
    ++op.checked;
    op.wrong += answers[i].kind == ClaimAnswer::Kind::wrong;
    if (answers[i].kind == ClaimAnswer::Kind::undecided) {
      ++op.undecided;
      ++op.reasons[answers[i].reason];
      if (table.rows[i].line > 0) op.undecided_lines.push_back(table.rows[i].line);
    }
    if (wrong[i]) report.wrong.push_back(std::move(*wrong[i]));
  }
  for (const auto& [name, op] : counts) report.ops.push_back(op);
  report.unknown = table.unknown;
  report.refused = table.refused;
  report.not_judged = unjudged_results(table);
  return report;
}

}  // namespace

int check_ops_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, check_ops_options(), "word");
  if (given.count("word"))
    throw_bad_input("check-ops: expected options only, found \"{}\"",
                    given["word"].as<CommandArguments>().front());
  if (given.count("rules") + given.count("row") + given.count("op") > 1)
    throw_bad_input("check-ops: expected one of --op, --rules and --row");
  if (given["backward"].as<bool>() && given.count("rules") + given.count("row") > 0)
    throw_bad_input("check-ops: --backward is for the ops here; a row of a table has a key kind");
  if (given["skip-unknown"].as<bool>() && !given.count("rules"))
    throw_bad_input("check-ops: --skip-unknown is for a table of --rules");
  if (given["missing"].as<bool>() &&
      (given["backward"].as<bool>() || given.count("rules") + given.count("row") > 0))
    throw_bad_input("check-ops: --missing is for the rules of the ops here");
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const int threads = static_cast<int>(whole_option(given, "jobs", cores, 1, 1024));
  for (const char* option : {"json", "junit"})
    if (given.count(option)) check_writable(given[option].as<std::string>());
  RuleReport report;
  if (given.count("row")) {
    RuleTable table;
    table.rows = {read_rule_row(given["row"].as<std::string>(), registries.ops)};
    table.rows[0].line = 0;
    report = check_rows(table, threads, registries.ops);
  } else if (given.count("rules")) {
    const std::string file = given["rules"].as<std::string>();
    const UnknownOps unknown =
        given["skip-unknown"].as<bool>() ? UnknownOps::skip : UnknownOps::refuse;
    report = check_rows(read_rule_table(file, read_file(file, file), registries.ops, unknown),
                        threads, registries.ops);
    report.table = file;
  } else if (given["backward"].as<bool>()) {
    report = check_gradients(given, threads, registries.ops);
  } else {
    report = check_registry(given, threads, registries.ops);
  }
  if (given.count("json"))
    write_whole_file(given["json"].as<std::string>(), rule_report_json(report, SHARDPROOF_VERSION));
  if (given.count("junit"))
    write_whole_file(given["junit"].as<std::string>(), rule_report_junit(report));
  print_out(rule_report_text(report));
  for (const OpRuleCounts& op : report.ops)
    if (op.wrong > 0) return 1;
  return 0;
}

std::string check_ops_help() {
  return R"text(shardproof check-ops [options]

Judges sharding rules by brute force: does each rank, computing on its shards, have what the rule states?
Without --rules it judges the rules of all ops here, on samples of many sizes and on several meshes.

  shardproof check-ops --op matmul
  shardproof check-ops --rules torch_rules.jsonl --json report.json

  --op NAME           rules of this op only (may be given several times)
  --rules FILE        rules of a table: JSON lines, see docs/check_ops.md
  --row JSON          one rule of a table, as reports print it
  --skip-unknown      count rows of unknown ops and arguments in a table; without it they are errors
  --backward          judge the gradients of the ops, not their rules
  --missing           also list rules on an axis of 2 ranks that are right but not claimed
  --short             fewer meshes, no other sizes
  --seed S            seed of the numbers (default 17)
  --jobs N            ops or rows at the same time (default: one for each core)
  --json FILE         write the report as JSON
  --junit FILE        write the report as JUnit XML

Integer rules are exact. Floats are computed in f64: a result agrees within 2^-40 of its terms, or differs
beyond what moved inputs explain; a rule with neither on any draw counts as undecided.

Exit code: 0 if no rule is wrong, 1 if one is, 2 for bad input.
)text";
}

}  // namespace shardproof
