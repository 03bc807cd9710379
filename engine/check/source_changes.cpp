// Implements source_changes.h: counts the expressions of the listings in the order of their text,
// and changes one of them, or several, in a copy of the syntax tree.
#include "shardproof/engine/check/source_changes.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "shardproof/engine/lower/rank_lowerer.h"

namespace shardproof {
namespace {

constexpr size_t kMostChanges = 12;  // of one kind; each costs a lowering and a run

using Visit = std::function<void(Expr&)>;

void visit_expressions(Expr& expr, const Visit& visit) {
  for (Expr& argument : expr.args) visit_expressions(argument, visit);
  for (IndexItem& item : expr.items)
    for (std::vector<Expr>* part : {&item.at, &item.low, &item.high, &item.step})
      for (Expr& one : *part) visit_expressions(one, visit);
  visit(expr);
}

void visit_expressions(std::vector<Statement>& statements, const Visit& visit) {
  for (Statement& statement : statements) {
    if (statement.value) visit_expressions(*statement.value, visit);
    visit_expressions(statement.body, visit);
    visit_expressions(statement.otherwise, visit);
  }
}

void visit_all(std::vector<Statement>& statements, const std::function<void(Statement&)>& visit) {
  for (Statement& statement : statements) {
    visit(statement);
    visit_all(statement.body, visit);
    visit_all(statement.otherwise, visit);
  }
}

// Calls visit(number, statement) for the statements of all listings, and writes changes back.
void visit_statements(Job& job, const std::function<void(int, Statement&)>& visit) {
  int number = 0;
  for (JobListing& one : job.ranks) {
    std::vector<Statement> statements = one.listing.statements;
    visit_all(statements, [&](Statement& statement) { visit(number++, statement); });
    one.listing.statements = Statements(std::move(statements));
  }
}

// Calls visit(number, expression) for the expressions of all listings, and writes changes back.
void visit_job(Job& job, const std::function<void(int, Expr&)>& visit) {
  int number = 0;
  for (JobListing& one : job.ranks) {
    std::vector<Statement> statements = one.listing.statements;
    visit_expressions(statements, [&](Expr& expr) { visit(number++, expr); });
    one.listing.statements = Statements(std::move(statements));
  }
}

// Returns a change of the expressions of these numbers.
Confirmation::ChangeOfJob change_of(std::set<int> numbers, Visit change) {
  return [numbers = std::move(numbers), change = std::move(change)](const Job& job) {
    Job result = job;
    visit_job(result, [&](int number, Expr& expr) {
      if (numbers.contains(number)) change(expr);
    });
    return result;
  };
}

// Returns the argument of a key; null if the call has none.
Expr* argument_of(Expr& call, const std::string& key) {
  for (size_t i = 0; i < call.keys.size(); ++i)
    if (call.keys[i] == key) return &call.args[i];
  return nullptr;
}

std::optional<CollectiveKind> kind_of(const std::string& verb) {
  const bool in_place = !verb.empty() && verb.back() == '_';
  return parse_collective_kind(in_place ? verb.substr(0, verb.size() - 1) : verb);
}

// A call with a word that could be another one.
struct WordedCall {
  int number = 0, line = 0;
  std::string verb, word, other;
};

std::vector<WordedCall> worded_calls(const Job& job) {
  std::vector<WordedCall> calls;
  Job copy = job;
  visit_job(copy, [&](int number, Expr& call) {
    Expr* const word = call.kind == ExprKind::call ? argument_of(call, "backward") : nullptr;
    const std::optional<CollectiveKind> kind = word ? kind_of(call.symbol) : std::nullopt;
    if (!kind || calls.size() >= kMostChanges) return;
    for (const std::string& other : backward_words(*kind))
      if (to_string(*word) != other)
        calls.push_back({number, call.place.line, call.symbol, to_string(*word), other});
  });
  return calls;
}

Confirmation::ChangeOfJob with_word(std::set<int> numbers, const std::string& word) {
  return change_of(std::move(numbers), [word](Expr& call) {
    if (Expr* const written = argument_of(call, "backward")) written->name.texts = {word};
  });
}

bool takes_gradient(const Job& job) {
  for (const JobListing& one : job.ranks)
    for (const std::string& line : one.listing.lines)
      if (line.find("grad(") != std::string::npos) return true;
  return false;
}

// True if a value may be a part of a sum. What is added to a shard is added to its elements alone.
bool may_be_part(AxisKind kind) { return kind != AxisKind::replicated && kind != AxisKind::cut; }

// Returns "(expr) / size".
Expr scaled_expression(Expr expr, const char* symbol, const Number& size) {
  Expr scaled;
  scaled.kind = ExprKind::binary;
  scaled.symbol = symbol;
  scaled.place = expr.place;
  Expr number;
  number.number = size;
  number.place = expr.place;
  scaled.args = {std::move(expr), std::move(number)};
  return scaled;
}

// Returns "all_reduce(expr, arguments)".
Expr reduced_expression(Expr expr, const std::string& arguments) {
  Expr reduced = parse_expression(fmt::format("all_reduce(x, {})", arguments));
  reduced.place = expr.place;
  reduced.args[0] = std::move(expr);
  return reduced;
}

class ForwardChanges {
 public:
  ForwardChanges(const RankCase& about, const std::string& target, const Provenance& provenance,
                 Confirmation& confirmation)
      : about_(about), target_(target), provenance_(provenance), confirmation_(confirmation) {}

  std::vector<SourceCause> run() {
    Job copy = about_.job;
    visit_job(copy, [&](int number, Expr& expr) {
      if (expr.kind == ExprKind::call) reduction(number, expr);
      if (expr.kind != ExprKind::binary) return;
      if (expr.symbol == "*") factor(number, expr, 0);
      if (expr.symbol == "*" || expr.symbol == "/") factor(number, expr, 1);
      if (expr.symbol == "+" || expr.symbol == "-")
        for (size_t slot = 0; slot < 2; ++slot) term(number, expr, slot);
    });
    return std::move(found_);
  }

  // True if the value is right without one of the factors that a line writes; nullopt if it writes
  // none.
  std::optional<bool> is_right_without_factor(int line) {
    Job copy = about_.job;
    bool any = false;
    visit_job(copy, [&](int number, Expr& expr) {
      if (expr.kind != ExprKind::binary || expr.place.line != line || !found_.empty()) return;
      for (size_t slot = expr.symbol == "*" ? 0 : 1; slot < 2; ++slot) {
        if ((expr.symbol != "*" && expr.symbol != "/") || !is_factor(expr, slot)) continue;
        any = true;
        factor(number, expr, slot);
      }
    });
    return any ? std::optional(!found_.empty()) : std::nullopt;
  }

 private:
  bool is_number(const Expr& expr) const {
    if (expr.kind == ExprKind::number || (expr.kind == ExprKind::call && expr.symbol == "size"))
      return true;
    if (expr.kind == ExprKind::name && expr.name.plain())
      return std::any_of(about_.job.numbers.begin(), about_.job.numbers.end(),
                         [&](const auto& one) { return one.first == expr.name.texts[0]; });
    return (expr.kind == ExprKind::unary || expr.kind == ExprKind::binary) &&
           std::all_of(expr.args.begin(), expr.args.end(),
                       [&](const Expr& one) { return is_number(one); });
  }
  void add(int line, std::string text, std::string fix) {
    found_.push_back({std::move(text), std::move(fix), line, confirmation_.made_right()});
  }

  void reduction(int number, Expr& call) {
    const std::optional<CollectiveKind> kind = kind_of(call.symbol);
    if (!kind || !reduces(*kind) || argument_of(call, "backward") == nullptr) return;
    const Expr* word = argument_of(call, "op");
    if (word == nullptr && call.args.size() > 1 && call.keys[1].empty()) word = &call.args[1];
    if (word == nullptr || word->kind != ExprKind::name) return;
    const std::string now = to_string(*word), other = now == "sum" ? "avg" : "sum";
    if ((now != "sum" && now != "avg") || ++reductions_ > kMostChanges) return;
    const auto change = [other](Expr& one) {
      Expr* written = argument_of(one, "op");
      (written != nullptr ? written : &one.args[1])->name.texts = {other};
    };
    if (confirmation_.confirms_job(change_of({number}, change)))
      add(call.place.line,
          fmt::format("the {} of line {} takes the {}, and {} is right with the {}", call.symbol,
                      call.place.line, now == "sum" ? "sum" : "average", target_,
                      now == "sum" ? "average" : "sum"),
          fmt::format("{} in place of {} on line {}", other, now, call.place.line));
  }

  bool is_factor(const Expr& product, size_t slot) const {
    const std::string text = to_string(product.args[slot]);
    return is_number(product.args[slot]) && !is_number(product.args[1 - slot]) && text != "1" &&
           text != "0";
  }

  void factor(int number, const Expr& product, size_t slot) {
    const std::string text = to_string(product.args[slot]);
    if (!is_factor(product, slot) || ++factors_ > kMostChanges) return;
    const auto change = [slot](Expr& one) { one = Expr(one.args[1 - slot]); };
    const int line = product.place.line;
    if (confirmation_.confirms_job(change_of({number}, change)))
      add(line,
          fmt::format("line {} {} by {}, and {} is right without this factor", line,
                      product.symbol == "/" ? "divides" : "multiplies", text, target_),
          fmt::format("remove the factor {}{} on line {}", product.symbol == "/" ? "1 / " : "",
                      text, line));
  }

  // True if ranks of the axis hold the same term, and add it to what differs between them.
  bool is_term_of_each_rank(int line, const std::string& name, int axis) const {
    const SpmdProgram& program = about_.ranks.program;
    for (size_t l = 0; l < program.listings.size(); ++l) {
      const Instrs& instrs = program.listings[l].instrs;
      for (size_t i = 0; i < instrs.size(); ++i) {
        const auto* compute = std::get_if<Compute>(&instrs[i].action);
        if (compute == nullptr || instrs[i].origin.line != line || compute->inputs.size() != 2 ||
            (compute->op != "add" && compute->op != "sub"))
          continue;
        for (size_t slot = 0; slot < 2; ++slot) {
          const SpmdValue& value = program.values[static_cast<size_t>(compute->inputs[slot])];
          const std::string known = value.bound.empty() ? value.name : value.bound.str();
          if (known == name &&
              provenance_.state_read(l, i, slot, axis).kind == AxisKind::replicated &&
              may_be_part(provenance_.state_read(l, i, 1 - slot, axis).kind))
            return true;
        }
      }
    }
    return false;
  }

  void term(int number, const Expr& sum, size_t slot) {
    const Expr& written = sum.args[slot];
    if (written.kind != ExprKind::name || is_number(written)) return;
    const std::string text = to_string(written);
    const int line = sum.place.line;
    const Mesh& mesh = provenance_.mesh();
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      const int64_t size = mesh.axis_size(axis);
      if (size == 1 || !is_term_of_each_rank(line, text, axis) || ++terms_ > kMostChanges) continue;
      const auto change = [slot, size](Expr& one) {
        one.args[slot] = scaled_expression(one.args[slot], "/", Number(size));
      };
      if (!confirmation_.confirms_job(change_of({number}, change), {axis})) continue;
      const std::string& over = mesh.axes()[static_cast<size_t>(axis)].name;
      add(line,
          fmt::format("{0}, added on line {1}, is the same on all {2} ranks of {3}, and each adds "
                      "it before a sum over {3}: it counts {2} times",
                      text, line, size, over),
          fmt::format("add {} after the sum, or on one rank of {}", text, over));
    }
  }

  const RankCase& about_;
  const std::string& target_;
  const Provenance& provenance_;
  Confirmation& confirmation_;
  std::vector<SourceCause> found_;
  size_t reductions_ = 0, factors_ = 0, terms_ = 0;
};

}  // namespace

std::vector<SourceCause> right_backward_words(const RankCase& about, const std::string& target,
                                              Confirmation& confirmation) {
  std::vector<SourceCause> found;
  if (!takes_gradient(about.job)) return found;
  const std::vector<WordedCall> calls = worded_calls(about.job);
  const auto add = [&](const std::string& lines, bool several, const WordedCall& call) {
    found.push_back(
        {fmt::format("the {} of {} {} backward={}, and {} is right with backward={}", call.verb,
                     lines, several ? "have" : "has", call.word, target, call.other),
         fmt::format("backward={} on {}", call.other, lines), call.line,
         confirmation.made_right()});
  };
  for (const WordedCall& call : calls)
    if (confirmation.confirms_job(with_word({call.number}, call.other)))
      add(fmt::format("line {}", call.line), false, call);
  std::set<std::pair<std::string, std::string>> tried;
  for (const WordedCall& call : calls) {
    std::set<int> numbers, lines;
    for (const WordedCall& other : calls)
      if (other.verb == call.verb && other.word == call.word && other.other == call.other) {
        numbers.insert(other.number);
        lines.insert(other.line);
      }
    if (!found.empty() || numbers.size() < 2 || !tried.emplace(call.verb, call.other).second)
      continue;
    if (confirmation.confirms_job(with_word(numbers, call.other)))
      add(fmt::format("line{} {}", lines.size() == 1 ? "" : "s", fmt::join(lines, ", ")), true,
          call);
  }
  return found;
}

std::vector<SourceCause> right_forward_changes(const RankCase& about, const std::string& target,
                                               const Provenance& provenance,
                                               Confirmation& confirmation) {
  if (!takes_gradient(about.job)) return {};
  return ForwardChanges(about, target, provenance, confirmation).run();
}

std::optional<bool> is_right_without_factor(const RankCase& about, int line,
                                            const Provenance& provenance,
                                            Confirmation& confirmation) {
  if (!takes_gradient(about.job) || !confirmation.can_change_job()) return std::nullopt;
  return ForwardChanges(about, "", provenance, confirmation).is_right_without_factor(line);
}

namespace {

// A loss and where it is made and differentiated.
struct LossPlace {
  std::string name;
  int grad = 0, grad_line = 0;   // number of the call grad(..) among the expressions
  int statement = -1, line = 0;  // number of the assignment among the statements; -1: none
};

std::vector<LossPlace> losses_of(const Job& job) {
  std::vector<LossPlace> losses;
  Job copy = job;
  visit_job(copy, [&](int number, Expr& call) {
    if (call.kind != ExprKind::call || call.symbol != "grad" || call.args.empty()) return;
    const Expr& loss = call.args[0];
    if (loss.kind != ExprKind::name || !loss.name.plain()) return;
    if (losses.size() < kMostChanges)
      losses.push_back({loss.name.texts[0], number, call.place.line, -1, 0});
  });
  visit_statements(copy, [&](int number, Statement& statement) {
    if (statement.kind != StatementKind::assign || statement.targets.size() != 1) return;
    for (LossPlace& loss : losses)
      if (statement.targets[0].plain() && statement.targets[0].texts[0] == loss.name &&
          statement.place.line < loss.grad_line) {
        loss.statement = number;
        loss.line = statement.place.line;
      }
  });
  return losses;
}

class LossScale {
 public:
  LossScale(const RankCase& about, const Provenance& provenance, std::optional<double> ratio,
            Confirmation& confirmation)
      : about_(about),
        mesh_(provenance.mesh()),
        provenance_(provenance),
        ratio_(ratio),
        confirmation_(confirmation) {}

  std::optional<SourceCause> find() {
    for (const LossPlace& loss : losses_of(about_.job)) {
      const std::vector<int> means = axes_of_means(loss.line);
      if (!means.empty())
        if (auto cause = divided_mean(loss, means)) return cause;
      if (auto cause = followed_axis(loss)) return cause;
      if (auto cause = constant_factor(loss)) return cause;
    }
    return std::nullopt;
  }

 private:
  std::string axis_name(int axis) const { return mesh_.axes()[static_cast<size_t>(axis)].name; }

  // Returns the axes over which a value of the line is the mean of each rank's own part.
  std::vector<int> axes_of_means(int line) const {
    std::set<int> axes;
    const SpmdProgram& program = about_.ranks.program;
    for (size_t l = 0; l < program.listings.size(); ++l) {
      const Instrs& instrs = program.listings[l].instrs;
      for (size_t i = 0; i < instrs.size(); ++i) {
        const auto* compute = std::get_if<Compute>(&instrs[i].action);
        if (compute == nullptr || instrs[i].origin.line != line || compute->op != "mean") continue;
        for (int axis = 0; axis < mesh_.axis_count(); ++axis)
          if (provenance_.state_read(l, i, 0, axis).kind == AxisKind::cut &&
              provenance_.state(compute->outputs.at(0), axis).kind == AxisKind::varying)
            axes.insert(axis);
      }
    }
    return {axes.begin(), axes.end()};
  }

  Confirmation::ChangeOfJob changed_loss(const LossPlace& loss, const char* symbol,
                                         const Number& size, bool inside_grad) const {
    if (inside_grad)
      return change_of({loss.grad}, [symbol, size](Expr& call) {
        call.args[0] = scaled_expression(call.args[0], symbol, size);
      });
    return [number = loss.statement, symbol, size](const Job& job) {
      Job result = job;
      visit_statements(result, [&](int at, Statement& statement) {
        if (at == number) statement.value = scaled_expression(*statement.value, symbol, size);
      });
      return result;
    };
  }

  // Returns "divide l by size(dp) on line 6".
  std::string fix_of(const LossPlace& loss, bool divides, const std::string& sizes,
                     bool inside_grad) const {
    if (inside_grad)
      return fmt::format("grad({} {} {}, ..) on line {}", loss.name, divides ? "/" : "*", sizes,
                         loss.grad_line);
    return fmt::format("{} {} by {} on line {}", divides ? "divide" : "multiply", loss.name, sizes,
                       loss.line);
  }

  std::optional<SourceCause> divided_mean(const LossPlace& loss, const std::vector<int>& axes) {
    int64_t size = 1;
    std::vector<std::string> names, sizes;
    for (const int axis : axes) {
      size *= mesh_.axis_size(axis);
      names.push_back(axis_name(axis));
      sizes.push_back(fmt::format("size({})", names.back()));
    }
    for (const bool inside : {false, true}) {
      if (!inside && loss.statement < 0) continue;
      if (!confirmation_.confirms_job(changed_loss(loss, "/", Number(size), inside), axes))
        continue;
      const std::string over = fmt::format("{}", fmt::join(names, " and "));
      const std::string by =
          sizes.size() == 1 ? sizes[0] : fmt::format("({})", fmt::join(sizes, " * "));
      return SourceCause{
          fmt::format(
              "{} of line {} is the mean of each rank's own part over {}, and gradients add "
              "it up over {}: it counts {} times",
              loss.name, loss.line, over, over, size),
          fix_of(loss, true, by, inside), loss.line, confirmation_.made_right()};
    }
    return std::nullopt;
  }

  // Tests each axis. It is the cause if the value is right with one rank along this axis alone.
  std::optional<SourceCause> followed_axis(const LossPlace& loss) {
    std::set<std::pair<int64_t, bool>> wrong;
    for (const bool inside : {false, true})
      for (const bool divides : {true, false}) {
        std::optional<SourceCause> found;
        for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
          const int64_t size = mesh_.axis_size(axis);
          if (size == 1 || (!inside && loss.statement < 0)) continue;
          if (!confirmation_.confirms_job(
                  changed_loss(loss, divides ? "/" : "*", Number(size), inside), {axis}) ||
              confirmation_.is_right_without(axis) != true)
            continue;
          if (found) return std::nullopt;
          const std::string name = axis_name(axis), by = fmt::format("size({})", name);
          found = SourceCause{
              fmt::format("{} of line {} is {}{} times what grad needs: {} is the size of {}, and "
                          "with {} = 1 it is right",
                          loss.name, loss.line, divides ? "" : "1 / ", size, size, name, name),
              fix_of(loss, divides, by, inside), loss.line, confirmation_.made_right()};
        }
        if (found) return found;
      }
    return std::nullopt;
  }

  // Tests the ratio of the value as a factor of the loss. Other inputs must have the same one.
  std::optional<SourceCause> constant_factor(const LossPlace& loss) {
    if (!ratio_ || !(std::fabs(*ratio_) > 0) || std::fabs(*ratio_ - 1) < 1e-6) return std::nullopt;
    const bool divides = std::fabs(*ratio_) > 1;
    const double wanted = divides ? *ratio_ : 1 / *ratio_, whole = std::round(wanted);
    if (std::fabs(wanted - whole) > 1e-5 * std::fabs(wanted)) return std::nullopt;
    for (const bool inside : {false, true}) {
      if (!inside && loss.statement < 0) continue;
      const auto size = Number(static_cast<int64_t>(whole));
      if (!confirmation_.confirms_job(changed_loss(loss, divides ? "/" : "*", size, inside)))
        continue;
      const std::string by = fmt::format("{:.0f}", whole);
      return SourceCause{fmt::format("{} of line {} is {}{} times what grad needs", loss.name,
                                     loss.line, divides ? "" : "1 / ", by),
                         fix_of(loss, divides, by, inside), loss.line, confirmation_.made_right()};
    }
    return std::nullopt;
  }

  const RankCase& about_;
  const Mesh mesh_;
  const Provenance& provenance_;
  const std::optional<double> ratio_;
  Confirmation& confirmation_;
};

}  // namespace

std::optional<SourceCause> right_loss_scale(const RankCase& about, const Provenance& provenance,
                                            std::optional<double> ratio,
                                            Confirmation& confirmation) {
  if (!takes_gradient(about.job)) return std::nullopt;
  return LossScale(about, provenance, ratio, confirmation).find();
}

std::string group_argument(const Mesh& mesh, const std::vector<int>& axes) {
  std::vector<std::string> names;
  for (const int axis : axes) names.push_back(mesh.axes()[static_cast<size_t>(axis)].name);
  return names.size() == 1 ? names[0] : fmt::format("[{}]", fmt::join(names, ", "));
}

std::optional<SourceCause> right_backward_group(const RankCase& about, const Group& wrong,
                                                const std::vector<int>& axes,
                                                Confirmation& confirmation) {
  struct GroupedCall {
    int number, line;
    std::string verb;
  };
  std::vector<GroupedCall> calls;
  Job copy = about.job;
  visit_job(copy, [&](int number, Expr& call) {
    if (call.kind != ExprKind::call || calls.size() >= kMostChanges) return;
    Expr* const group = argument_of(call, "group");
    const bool has_backward = call.symbol == "enter" || argument_of(call, "backward") != nullptr;
    if (group == nullptr || !has_backward) return;
    std::vector<std::string> words;
    if (group->kind == ExprKind::list)
      for (const Expr& word : group->args) words.push_back(to_string(word));
    else
      words.push_back(to_string(*group));
    if (fmt::format("{}", fmt::join(words, "+")) == wrong.name())
      calls.push_back({number, call.place.line, call.symbol});
  });
  const std::string over = group_argument(about.job.meshes[0].second, axes);
  const auto confirms = [&](std::set<int> numbers) {
    return confirmation.confirms_job(change_of(std::move(numbers), [&](Expr& call) {
      Expr* const group = argument_of(call, "group");
      const SourceLocation place = group->place;
      *group = parse_expression(over);
      group->place = place;
    }));
  };
  for (const GroupedCall& call : calls)
    if (confirms({call.number}))
      return SourceCause{
          fmt::format("the {} of line {} is over {}", call.verb, call.line, wrong.name()),
          fmt::format("group={} on line {}", over, call.line), call.line,
          confirmation.made_right()};
  std::set<int> numbers, lines;
  for (const GroupedCall& call : calls) {
    numbers.insert(call.number);
    lines.insert(call.line);
  }
  if (numbers.size() < 2 || !confirms(numbers)) return std::nullopt;
  return SourceCause{
      fmt::format("the calls of lines {} are over {}", fmt::join(lines, ", "), wrong.name()),
      fmt::format("group={} on lines {}", over, fmt::join(lines, ", ")), *lines.begin(),
      confirmation.made_right()};
}

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

std::optional<SourceCause> right_reduction_of_grad(const RankCase& about, int line, ReduceOp op,
                                                   const std::string& group,
                                                   Confirmation& confirmation) {
  std::set<int> numbers;
  std::string text;
  Job copy = about.job;
  visit_job(copy, [&](int number, Expr& call) {
    if (call.kind != ExprKind::call || call.symbol != "grad" || call.place.line != line) return;
    numbers.insert(number);
    text = to_string(call);
  });
  if (numbers.size() != 1) return std::nullopt;
  const std::string call = fmt::format("{}, group={}", name(op), group);
  const auto change = [&](Expr& grad) { grad = reduced_expression(std::move(grad), call); };
  if (!confirmation.confirms_job(change_of(numbers, change))) return std::nullopt;
  return SourceCause{
      "", fmt::format("all_reduce({}, {}) in place of {} on line {}", text, call, text, line), line,
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
};

std::string fix_by(const WrittenReduction& one) {
  if (!one.name.empty())
    return fmt::format("add all_reduce({}, {}) after line {}", one.name, one.arguments, one.line);
  return fmt::format("all_reduce({0}, {1}) in place of {0} on line {2}", one.expression,
                     one.arguments, one.line);
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

Confirmation::ChangeOfJob with_reduction(const WrittenReduction& one) {
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

bool is_refused(const WrittenReduction& one, const RankCase& about) {
  try {
    lower_lifted_ranks(with_reduction(one)(about.job), about);
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
  const WrittenReduction here{added.step.listing, added.step.site.line,
                              about.ranks.program.values[static_cast<size_t>(made)].bound.str(),
                              expression_at(about, added.step, added.slot), arguments};
  if (here.name.empty() && here.expression.empty())
    return {fmt::format("all_reduce(.., {}) of that value inside line {}", arguments, here.line)};
  if (!takes_gradient(about.job)) return {fix_by(here)};
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
      best = {fix_by(one), confirmation.made_right()};
  if (best) return *best;
  return {refused ? fmt::format("{}, in a value that grad does not take", fix_by(here))
                  : fix_by(here)};
}

}  // namespace shardproof
