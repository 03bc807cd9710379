// Implements source_changes.h. Counts the expressions of the listings in the order of their text.
// Changes one or several of them in a copy of the syntax tree.
#include "shardproof/engine/causes/source_changes.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/lower/rank_lowerer.h"

namespace shardproof {
namespace {

std::optional<CollectiveKind> kind_of(const std::string& verb) {
  const bool in_place = !verb.empty() && verb.back() == '_';
  return parse_collective_kind(in_place ? verb.substr(0, verb.size() - 1) : verb);
}

// A call with a word that could be another one.
struct WordedCall {
  int number = 0;
  ListedLine line;
  std::string verb, word, other;
};

// Returns the calls with a word for their gradient, and those without one before the last grad of
// their listing, where the gradient stops.
std::vector<WordedCall> worded_calls(const Job& job) {
  std::vector<WordedCall> calls;
  Job copy = job;
  std::map<size_t, int> last;  // line of the last grad, by listing
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    if (call.kind == ExprKind::call && call.symbol == "grad")
      last[place.listing] = std::max(last[place.listing], call.place.line);
  });
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    if (call.kind != ExprKind::call) return;
    const ListedLine line{place.listing, call.place.line};
    Expr* const word = argument_of(call, "backward");
    const bool may_lack = last.contains(place.listing) && line.line < last.at(place.listing);
    const std::optional<CollectiveKind> kind =
        word != nullptr || may_lack ? kind_of(call.symbol) : std::nullopt;
    if (!kind || calls.size() >= kMostChanges) return;
    const std::string own = word == nullptr ? "" : to_string(*word);
    for (const std::string& other : backward_words(*kind))
      if (own != other) calls.push_back({place.number, line, call.symbol, own, other});
  });
  // A word that is missing is less likely than a wrong one.
  std::stable_partition(calls.begin(), calls.end(),
                        [](const WordedCall& call) { return !call.word.empty(); });
  return calls;
}

ChangeOfJob with_word(std::set<int> numbers, const std::string& word) {
  return change_of(std::move(numbers), [word](Expr& call) {
    if (Expr* const written = argument_of(call, "backward")) {
      written->name.texts = {word};
      return;
    }
    call.args.push_back(parse_expression(word));
    call.keys.push_back("backward");
    call.key_places.push_back(call.place);
  });
}

// True if a value may be a part of a sum. A term added to a shard is added to its elements alone.
bool may_be_part(AxisKind kind) { return kind != AxisKind::replicated && kind != AxisKind::cut; }

class ForwardChanges {
 public:
  ForwardChanges(const RankCase& about, const std::string& target, const Provenance& provenance,
                 Confirmation& confirmation)
      : about_(about), target_(target), provenance_(provenance), confirmation_(confirmation) {}

  // Changes the lines first that differ from those of other layers.
  std::vector<SourceCause> run() {
    for (const bool is_rare : {true, false}) change_lines(is_rare);
    return std::move(found_);
  }

  void change_lines(bool is_rare) {
    Job copy = about_.job;
    visit_expressions(copy, [&](const TextPlace& place, Expr& expr) {
      if (confirmation_.text().is_rare({place.listing, expr.place.line}) != is_rare) return;
      if (expr.kind == ExprKind::call) reduction(place, expr);
      if (expr.kind != ExprKind::binary) return;
      if (expr.symbol == "*") factor(place, expr, 0);
      if (expr.symbol == "*" || expr.symbol == "/") factor(place, expr, 1);
      if (expr.symbol == "+" || expr.symbol == "-")
        for (size_t slot = 0; slot < 2; ++slot) term(place, expr, slot);
    });
  }

  // True if the value is right without one of the factors that a line writes; nullopt if it writes
  // none.
  std::optional<bool> is_right_without_factor(const ListedLine& line) {
    Job copy = about_.job;
    bool any = false;
    visit_expressions(copy, [&](const TextPlace& place, Expr& expr) {
      const bool here = place.listing == line.listing && expr.place.line == line.line;
      if (expr.kind != ExprKind::binary || !here || !found_.empty()) return;
      for (size_t slot = expr.symbol == "*" ? 0 : 1; slot < 2; ++slot) {
        if ((expr.symbol != "*" && expr.symbol != "/") || !is_factor(expr, slot)) continue;
        any = true;
        factor(place, expr, slot);
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
  void add(const RightChange& right, std::string text, std::string fix) {
    found_.push_back({std::move(text), std::move(fix), right.lines, right.made_right});
  }
  std::string text_of(const RightChange& right) const {
    return lines_text(about_.ranks.program, right.lines);
  }
  RightChange find_right(const TextPlace& place, const std::function<void(Expr&)>& change,
                         const std::vector<int>& axes = {}) {
    return right_change(about_, place.number, change, axes, confirmation_);
  }

  void reduction(const TextPlace& place, Expr& call) {
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
    const RightChange right = find_right(place, change);
    if (!right.lines.empty())
      add(right,
          fmt::format("the {} of {} takes the {}, and {} is right with the {}", call.symbol,
                      text_of(right), now == "sum" ? "sum" : "average", target_,
                      now == "sum" ? "average" : "sum"),
          fmt::format("{} in place of {} on {}", other, now, text_of(right)));
  }

  // Among numbers, only a size is a factor of its own: `0.1 * size(dp) * g`.
  bool is_factor(const Expr& product, size_t slot) const {
    const Expr &one = product.args[slot], &other = product.args[1 - slot];
    const std::string text = to_string(one);
    const bool is_size = one.kind == ExprKind::call && other.kind != ExprKind::call;
    return is_number(one) && (is_size || !is_number(other)) && text != "1" && text != "0";
  }

  void factor(const TextPlace& place, const Expr& product, size_t slot) {
    const std::string text = to_string(product.args[slot]);
    if (!is_factor(product, slot) || ++factors_ > kMostChanges) return;
    const auto change = [slot](Expr& one) { one = Expr(one.args[1 - slot]); };
    const RightChange right = find_right(place, change);
    const char* verb = product.symbol == "/" ? "divides" : "multiplies";
    if (!right.lines.empty())
      add(right,
          fmt::format("{} by {}, and {} is right without this factor",
                      lines_with_verb(text_of(right), verb), text, target_),
          fmt::format("remove the factor {}{} on {}", product.symbol == "/" ? "1 / " : "", text,
                      text_of(right)));
  }

  // True if the first call that adds up what is computed from an instruction's results is over the
  // axis.
  bool is_first_summed_over(size_t listing, size_t index, int axis) const {
    const Instrs& instrs = about_.ranks.program.listings[listing].instrs;
    const std::vector<ValueId> made = effects_of(instrs[index]).writes;
    std::set<ValueId> reached(made.begin(), made.end());
    for (size_t i = index + 1; i < instrs.size(); ++i) {
      if (const auto* call = std::get_if<Communicate>(&instrs[i].action))
        for (const CallItem& item : call->items)
          if (reached.contains(item.input) && reduces(item.collective.kind))
            return is_over_axis(item.collective.group, provenance_.mesh(), axis, item.lanes);
      const Effects effects = effects_of(instrs[i]);
      if (std::any_of(effects.reads.begin(), effects.reads.end(),
                      [&](ValueId id) { return reached.contains(id); }))
        reached.insert(effects.writes.begin(), effects.writes.end());
    }
    return false;
  }

  // True if ranks of the axis hold the same term and add it to values that differ between them.
  bool is_term_of_each_rank(const ListedLine& line, const std::string& name, int axis) const {
    const SpmdProgram& program = about_.ranks.program;
    const Instrs& instrs = program.listings[line.listing].instrs;
    for (size_t i = 0; i < instrs.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&instrs[i].action);
      if (compute == nullptr || instrs[i].origin.line != line.line || compute->inputs.size() != 2 ||
          (compute->op != "add" && compute->op != "sub"))
        continue;
      const auto state = [&](size_t slot) {
        return provenance_.state_read(line.listing, i, slot, axis).kind;
      };
      for (size_t slot = 0; slot < 2; ++slot) {
        const SpmdValue& value = program.values[static_cast<size_t>(compute->inputs[slot])];
        const std::string known = value.bound.empty() ? value.name : value.bound.str();
        if (known == name && state(slot) == AxisKind::replicated && may_be_part(state(1 - slot)) &&
            is_first_summed_over(line.listing, i, axis))
          return true;
      }
    }
    return false;
  }

  void term(const TextPlace& place, const Expr& sum, size_t slot) {
    const Expr& written = sum.args[slot];
    if (written.kind != ExprKind::name || is_number(written)) return;
    const std::string text = to_string(written);
    const ListedLine line{place.listing, sum.place.line};
    const Mesh& mesh = provenance_.mesh();
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      const int64_t size = mesh.axis_size(axis);
      if (size == 1 || !is_term_of_each_rank(line, text, axis) || ++terms_ > kMostChanges) continue;
      const auto change = [slot, size](Expr& one) {
        one.args[slot] = scaled_expression(one.args[slot], "/", Number(size));
      };
      const RightChange right = find_right(place, change, {axis});
      if (right.lines.empty()) continue;
      const std::string& over = mesh.axes()[static_cast<size_t>(axis)].name;
      add(right,
          fmt::format("{0}, added on {1}, is the same on all {2} ranks of {3}, and each adds "
                      "it before a sum over {3}: it counts {2} times",
                      text, text_of(right), size, over),
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
  if (!calls_grad(about.job)) return found;
  std::vector<WordedCall> calls = worded_calls(about.job);
  std::stable_partition(calls.begin(), calls.end(), [&](const WordedCall& call) {
    return confirmation.text().is_rare(call.line);
  });
  const auto add = [&](const std::set<ListedLine>& lines, bool several, const WordedCall& call) {
    const std::string text = lines_text(about.ranks.program, lines);
    found.push_back({fmt::format("the {} of {} {} {}, and {} is right with backward={}", call.verb,
                                 text, several ? "have" : "has",
                                 call.word.empty() ? "no backward=" : "backward=" + call.word,
                                 target, call.other),
                     call.word.empty() ? fmt::format("add backward={} to the {} on {}", call.other,
                                                     call.verb, text)
                                       : fmt::format("backward={} on {}", call.other, text),
                     lines, confirmation.made_right()});
  };
  for (const WordedCall& call : calls)
    if (confirmation.confirms_job(with_word({call.number}, call.other)))
      add({call.line}, false, call);
  std::set<std::pair<std::string, std::string>> tried;
  for (const WordedCall& call : calls) {
    std::set<int> numbers;
    std::set<ListedLine> lines;
    for (const WordedCall& other : calls)
      if (other.verb == call.verb && other.word == call.word && other.other == call.other) {
        numbers.insert(other.number);
        lines.insert(other.line);
      }
    if (!found.empty() || numbers.size() < 2 || !tried.emplace(call.verb, call.other).second)
      continue;
    if (confirmation.confirms_job(with_word(numbers, call.other))) add(lines, true, call);
  }
  return found;
}

std::vector<SourceCause> right_forward_changes(const RankCase& about, const std::string& target,
                                               const Provenance& provenance,
                                               Confirmation& confirmation) {
  if (!calls_grad(about.job)) return {};
  return ForwardChanges(about, target, provenance, confirmation).run();
}

std::optional<bool> is_right_without_factor(const RankCase& about, const ListedLine& line,
                                            const Provenance& provenance,
                                            Confirmation& confirmation) {
  if (!calls_grad(about.job) || !confirmation.can_change_job()) return std::nullopt;
  return ForwardChanges(about, "", provenance, confirmation).is_right_without_factor(line);
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
    int number;
    ListedLine line;
    std::string verb;
  };
  std::vector<GroupedCall> calls;
  Job copy = about.job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
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
      calls.push_back({place.number, {place.listing, call.place.line}, call.symbol});
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
    if (confirms({call.number})) {
      const std::string line = line_text(about.ranks.program, call.line);
      return SourceCause{fmt::format("the {} of {} is over {}", call.verb, line, wrong.name()),
                         fmt::format("group={} on {}", over, line),
                         {call.line},
                         confirmation.made_right()};
    }
  std::set<int> numbers;
  std::set<ListedLine> lines;
  for (const GroupedCall& call : calls) {
    numbers.insert(call.number);
    lines.insert(call.line);
  }
  if (numbers.size() < 2 || !confirms(numbers)) return std::nullopt;
  const std::string text = lines_text(about.ranks.program, lines);
  return SourceCause{fmt::format("the calls of {} are over {}", text, wrong.name()),
                     fmt::format("group={} on {}", over, text), lines, confirmation.made_right()};
}

}  // namespace shardproof
