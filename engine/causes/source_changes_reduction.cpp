// Implements the functions of source_changes.h that reduce a value over ranks, and the texts of the
// expressions that they reduce.
#include <fmt/format.h>
#include <set>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/source_changes.h"
#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns the place of a site's instruction among those of its op in the line, and their number.
std::pair<size_t, size_t> place_among(const RankCase& about, const Site& site,
                                      const std::string& op) {
  const Instrs& instrs = about.ranks.program.listings.at(site.listing).instrs;
  const std::vector<Site> sites = sites_of(about.ranks.program, site.listing);
  std::set<int> ordinals;
  for (size_t i = 0; i < instrs.size(); ++i)
    if (const auto* compute = std::get_if<Compute>(&instrs[i].action))
      if (sites[i].line == site.line && compute->op == op) ordinals.insert(sites[i].ordinal);
  return {std::distance(ordinals.begin(), ordinals.find(site.ordinal)), ordinals.size()};
}

}  // namespace

std::string expression_of(const RankCase& about, const Site& site, const std::string& op) {
  const OpRecord& record = about.registries.ops.at(op);
  std::vector<std::string> texts;
  std::vector<Statement> statements = about.job.ranks.at(site.listing).listing.statements;
  visit_expressions(statements, [&](Expr& expr) {
    if (expr.place.line != site.line) return;
    const bool is_call = expr.kind == ExprKind::call && expr.symbol == op;
    const bool is_infix =
        expr.kind == ExprKind::binary && !record.infix.empty() && expr.symbol == record.infix;
    if (is_call || is_infix) texts.push_back(to_string(expr));
  });
  if (texts.size() == 1) return texts[0];
  const auto [before, count] = place_among(about, site, op);
  return count == texts.size() && before < count ? texts[before] : "";
}

std::optional<SourceCause> right_reduction_of_grad(const RankCase& about, const ListedLine& line,
                                                   ReduceOp op, const std::string& group,
                                                   Confirmation& confirmation) {
  std::set<int> numbers;
  std::string text;
  Job copy = about.job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    if (call.kind != ExprKind::call || call.symbol != "grad" || call.place.line != line.line ||
        place.listing != line.listing)
      return;
    numbers.insert(place.number);
    text = to_string(call);
  });
  if (numbers.size() != 1) return std::nullopt;
  const std::string call = fmt::format("{}, group={}", name(op), group);
  const auto change = [&](Expr& grad) { grad = reduced_expression(std::move(grad), call); };
  if (!confirmation.confirms_job(change_of(numbers, change))) return std::nullopt;
  return SourceCause{"",
                     fmt::format("all_reduce({}, {}) in place of {} on {}", text, call, text,
                                 line_text(about.ranks.program, line)),
                     {line},
                     confirmation.made_right()};
}

std::string expression_at(const RankCase& about, const Step& step, size_t slot) {
  const auto* compute = std::get_if<Compute>(&step.instr->action);
  const ValueId made = made_by(*step.instr, slot);
  if (compute == nullptr || !about.ranks.program.values[static_cast<size_t>(made)].bound.empty())
    return "";
  return expression_of(about, step.site, compute->op.str());
}

namespace {

// An all_reduce as a fix writes it: of a name, after a line, or in place of an expression.
struct WrittenReduction {
  size_t listing = 0;
  int line = 0;
  std::string name, expression, arguments;  // arguments: "sum, group=dp"
  std::vector<Site> also = {};              // of the same line in other listings
};

// Returns the lines of the reduction, with those of other listings that have the same text, and the
// other ones.
std::pair<std::set<ListedLine>, std::set<ListedLine>> lines_by_text(const WrittenReduction& one,
                                                                    const SpmdProgram& program) {
  const auto text = [&](size_t listing, int line) {
    return program.listings[listing].lines.at(static_cast<size_t>(line) - 1);
  };
  std::set<ListedLine> same{{one.listing, one.line}}, others;
  for (const Site& site : one.also)
    (text(site.listing, site.line) == text(one.listing, one.line) ? same : others)
        .insert({site.listing, site.line});
  return {same, others};
}

std::string fix_by(const WrittenReduction& one, const RankCase& about) {
  const SpmdProgram& program = about.ranks.program;
  const auto [same, others] = lines_by_text(one, program);
  const std::string line = lines_text(program, same);
  std::string text = one.name.empty() ? fmt::format("all_reduce({0}, {1}) in place of {0} on {2}",
                                                    one.expression, one.arguments, line)
                                      : fmt::format("add all_reduce({}, {}) after {}", one.name,
                                                    one.arguments, line);
  if (!others.empty()) text += ", and the same on " + lines_text(program, others);
  return text;
}

// Inserts a statement after the first one of a line, or after the `group:` block around it. True if
// there is such a line.
bool insert_after(std::vector<Statement>& statements, int line, const Statement& added) {
  for (size_t i = 0; i < statements.size(); ++i) {
    Statement& one = statements[i];
    const bool is_group = one.kind == StatementKind::group;
    std::vector<Statement> calls = is_group ? one.body : std::vector<Statement>();
    if (is_group ? insert_after(calls, line, added) : one.place.line == line && one.body.empty()) {
      statements.insert(statements.begin() + static_cast<long>(i) + 1, added);
      return true;
    }
    if (!is_group &&
        (insert_after(one.body, line, added) || insert_after(one.otherwise, line, added)))
      return true;
  }
  return false;
}

ChangeOfJob with_reduction(const WrittenReduction& one) {
  return [one](const Job& job) {
    Job result = job;
    Listing& listing = result.ranks.at(one.listing).listing;
    std::vector<Statement> statements = listing.statements;
    if (!one.name.empty()) {
      Statement added =
          parse_listing({fmt::format("{0} = all_reduce({0}, {1})", one.name, one.arguments)})
              .statements[0];
      added.place.line = one.line;
      insert_after(statements, one.line, added);
    } else {
      visit_expressions(statements, [&](Expr& expr) {
        if (expr.place.line == one.line && to_string(expr) == one.expression)
          expr = reduced_expression(std::move(expr), one.arguments);
      });
    }
    listing.statements = Statements(std::move(statements));
    return result;
  };
}

// Returns the name of a value as the only target of its line writes it: a{i} for a1.
std::string written_name(const NumberedText& text, const ListedLine& line, std::string bound) {
  for (const TextStatement& one : text.statements()) {
    const std::vector<NameTemplate>& targets = one.statement->targets;
    if (one.listing == line.listing && one.statement->place.line == line.line &&
        one.statement->kind == StatementKind::assign && targets.size() == 1 && !targets[0].plain())
      return to_string(targets[0]);
  }
  return bound;
}

bool is_refused(const WrittenReduction& one, const RankCase& about) {
  try {
    lower_ranks_of(with_reduction(one)(about.job), about);
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

ReductionFix reduction_fix(const AddedReduction& added, const ValueLabel& target,
                           Confirmation& confirmation) {
  const RankCase& about = added.about;
  const ValueId made = made_by(*added.step.instr, added.slot);
  const std::string arguments = fmt::format("{}, group={}", name(added.op), added.group);
  std::string bound = about.ranks.program.values[static_cast<size_t>(made)].bound.str();
  if (!bound.empty())
    bound = written_name(confirmation.text(), {added.step.listing, added.step.site.line}, bound);
  const WrittenReduction here{added.step.listing, added.step.site.line,
                              std::move(bound),   expression_at(about, added.step, added.slot),
                              arguments,          added.also};
  if (here.name.empty() && here.expression.empty())
    return {fmt::format("all_reduce(.., {}) of that value inside {}", arguments,
                        line_text(about.ranks.program, {here.listing, here.line}))};
  if (!calls_grad(about.job) || !added.also.empty()) return {fix_by(here, about)};
  const bool refused = is_refused(here, about);
  std::vector<WrittenReduction> written;
  if (refused)
    written.push_back({here.listing, target.line, target.name, "", arguments});
  else
    written.push_back(here);
  for (const std::string& word : backward_words(CollectiveKind::all_reduce)) {
    written.push_back(here);
    written.back().arguments += ", backward=" + word;
  }
  // The gradient of a value may be wrong for want of the same call: grad passes it only with a
  // word.
  std::optional<ReductionFix> best;
  for (const WrittenReduction& one : written)
    if (confirmation.confirms_job(with_reduction(one)) &&
        (!best || confirmation.made_right().size() > best->made_right.size()))
      best = {fix_by(one, about), confirmation.made_right()};
  if (best) return *best;
  return {refused ? fmt::format("{}, in a value that grad does not take", fix_by(here, about))
                  : fix_by(here, about)};
}

}  // namespace shardproof
