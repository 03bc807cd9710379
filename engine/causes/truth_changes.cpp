// Implements truth_changes.h: compares each part of the ranks' lines with each part of the others
// (text_matcher.h).
#include "shardproof/engine/causes/truth_changes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "shardproof/engine/causes/text_matcher.h"

namespace shardproof {
namespace {

constexpr double kMostCost = 6;
constexpr size_t kMostPairs = 1 << 20;
constexpr size_t kMostChangesOfText = 4096;

// A line that the ranks' lines are compared with.
struct OtherLine {
  const Statement* statement = nullptr;
  std::string target;  // the name that it binds; "" if it binds none
  std::vector<const Expr*> parts;
  // Returns the expression of the line that has this part as its child; null if it is all of it.
  const Expr* parent_of(const Expr& part) const {
    for (const Expr* one : parts)
      for (const Expr* child : children_of(*one))
        if (child == &part) return one;
    return nullptr;
  }
};

std::string bound_name(const Statement& statement) {
  return statement.kind == StatementKind::assign ? to_string(statement.targets.at(0)) : "";
}

void add_line(const Statement& statement, std::vector<OtherLine>& to) {
  if (!statement.value) return;
  OtherLine& line = to.emplace_back();
  line.statement = &statement;
  line.target = bound_name(statement);
  visit_parts(*statement.value, [&](const Expr& part) { line.parts.push_back(&part); });
}

void add_lines(const std::vector<Statement>& statements, std::vector<OtherLine>& to) {
  for (const Statement& one : statements) {
    add_line(one, to);
    add_lines(one.body, to);
    add_lines(one.otherwise, to);
  }
}

struct SimilarParts {
  double score = 0;  // less is more similar
  size_t apart = 0;  // lines between the other line and the place where it is expected
  const Expr *ranks = nullptr, *other = nullptr;
  const TextStatement* own = nullptr;
  size_t line = 0;
};

struct LinesNear {
  size_t place = 0;            // the same share of the text
  size_t first = 0, last = 0;  // the last one excluded
};

// Returns the lines of the truth with which a statement of the ranks is compared. In long texts
// they are those at nearly the same place, because both sides have their layers in the same order.
LinesNear lines_near(size_t statement, size_t statements, size_t lines) {
  constexpr size_t kNear = 40;
  const size_t place = statement * lines / statements;
  if (lines <= 2 * kNear) return {place, 0, lines};
  return {place, place > kNear ? place - kNear : 0, std::min(lines, place + kNear)};
}

// True if a line binds the same names as a statement of the ranks.
bool has_same_target(const TextStatement& one, const OtherLine& line) {
  return line.statement != one.statement && !line.target.empty() &&
         line.target == bound_name(*one.statement) &&
         line.statement->targets.size() == one.statement->targets.size();
}

// Statements of the ranks that are equal to a line that binds the same name, and these lines, each
// with the listing of the statement.
struct EqualLines {
  std::set<const TextStatement*> statements;
  std::set<std::pair<size_t, const OtherLine*>> lines;
};

EqualLines equal_lines(TextMatcher& matcher, const NumberedText& ranks,
                       const std::vector<OtherLine>& lines) {
  EqualLines equal;
  for (const TextStatement& one : ranks.statements())
    for (const OtherLine& line : lines)
      if (!one.whole.empty() && has_same_target(one, line) &&
          matcher.match_whole(*one.whole[0], *line.statement->value).cost == 0) {
        equal.statements.insert(&one);
        equal.lines.emplace(one.listing, &line);
      }
  return equal;
}

// Returns pairs of similar, not equal parts, for a statement of the ranks. None if it is
// equal to a line. A line of the same target that another statement of the listing is equal to is
// left out.
std::vector<SimilarParts> similar_parts(TextMatcher& matcher, const TextStatement& one,
                                        const std::vector<OtherLine>& lines, const LinesNear& near,
                                        const EqualLines& equal, bool is_truth) {
  constexpr int kLeast = 3;          // nodes
  constexpr double kMostAround = 3;  // of what one line has around the other
  if (equal.statements.contains(&one)) return {};
  std::vector<SimilarParts> similar;
  std::vector<const Expr*> own;
  for (const Expr* whole : one.whole)
    visit_parts(*whole, [&](const Expr& part) { own.push_back(&part); });
  for (size_t i = near.first; i < near.last; ++i) {
    const OtherLine& line = lines[i];
    if (line.statement == one.statement) continue;
    const bool same_target = has_same_target(one, line);
    if (same_target && equal.lines.contains({one.listing, &line})) continue;
    const size_t apart = i > near.place ? i - near.place : near.place - i;
    for (const Expr* ranks : own)
      for (const Expr* part : line.parts) {
        if (ranks != one.whole[0] && &without_calls(*ranks) != ranks) continue;
        const bool is_line = ranks == one.whole[0];
        const bool is_twin = is_truth && is_line && part == &*line.statement->value && same_target;
        const int own_size = matcher.size(without_calls(*ranks));
        const int other_size = matcher.size(without_calls(*part));
        const int least = std::min(own_size, other_size), most = std::max(own_size, other_size);
        const bool are_lines = is_line && part == &*line.statement->value && !is_truth;
        if (least < kLeast && !is_twin && !are_lines) continue;
        const TextMatcher::Match found = matcher.match_whole(*ranks, *part);
        if (found.cost == 0) continue;
        // The truth has the same op around its part: E * sum(x) on both sides.
        const Expr* const around =
            found.step == TextMatcher::Step::unwrapped ? line.parent_of(*part) : nullptr;
        if (around != nullptr && around->kind == ranks->kind && around->symbol == ranks->symbol &&
            matcher.match(*ranks, *around).cost <= found.cost)
          continue;
        const bool is_around =
            found.step == TextMatcher::Step::wrapped && found.cost < most - least + 1;
        if (!is_twin && !is_around && (found.cost < 1 || found.cost > kMostCost)) continue;
        if (!is_twin && !is_around && found.cost > 0.75 * most) continue;
        if (least < kLeast && !is_twin && found.cost > kMostAround) continue;
        const double bonus = is_twin ? 0.25 : is_line ? 0.75 : 1;
        const double cost = is_around ? std::min(found.cost, kMostAround) : found.cost;
        similar.push_back({bonus * cost / (is_twin ? most : least), apart, ranks, part, &one,
                           static_cast<size_t>(line.statement->place.line)});
      }
  }
  return similar;
}

bool reads(const Expr& expr, const std::string& name) {
  bool found = false;
  visit_parts(expr, [&](const Expr& part) {
    found = found || (part.kind == ExprKind::name && to_string(part) == name);
  });
  return found;
}

// True if a change takes from a line of a loop what its earlier passes have added up.
bool drops_sum(const Expr& from, const Expr& to, const TextStatement& at) {
  const std::string target = bound_name(*at.statement);
  return !at.loops.empty() && reads(from, target) && !reads(to, target);
}

// Names that the ranks compute a name from, directly or not, each with the first statement that
// does so.
using Origins = std::map<std::string, std::map<std::string, const TextStatement*>>;

Origins origins_of(const NumberedText& ranks) {
  Origins origins;
  for (const TextStatement& one : ranks.statements()) {
    std::set<std::string> from;
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (part.kind != ExprKind::name) return;
        from.insert(to_string(part));
        for (const auto& [name, statement] : origins[to_string(part)]) from.insert(name);
      });
    for (const NameTemplate& target : one.statement->targets)
      for (const std::string& name : from) origins[to_string(target)].emplace(name, &one);
  }
  return origins;
}

// True if a change of a statement replaces a name by another one from which earlier statements
// compute it. These, of which one may be wrong, are then not used. The name that the statement
// binds is no such one: "b = b - g" updates it.
bool goes_around(const Expr& from, const Expr& to, const TextStatement& at,
                 const Origins& origins) {
  bool around = false;
  visit_parts(from, [&](const Expr& part) {
    const auto known = origins.find(to_string(part));
    if (part.kind != ExprKind::name || known == origins.end() || reads(to, known->first)) return;
    visit_parts(to, [&](const Expr& other) {
      const std::string name = to_string(other);
      const auto by = known->second.find(name);
      around = around ||
               (other.kind == ExprKind::name && !reads(from, name) &&
                name != bound_name(*at.statement) && by != known->second.end() && by->second < &at);
    });
  });
  return around;
}

// Returns the first operand of x * 1 and x / 1; else the expression.
const Expr& without_one(const Expr& expr) {
  const bool scales = expr.kind == ExprKind::binary && (expr.symbol == "*" || expr.symbol == "/");
  return scales && to_string(expr.args[1]) == "1" ? expr.args[0] : expr;
}

// True if a change removes a cast.
bool drops_cast(const Expr& from, const Expr& to) {
  return from.kind == ExprKind::call && from.symbol == "cast" && !from.args.empty() &&
         to_string(from.args[0]) == to_string(to);
}

// True if the ranks have all names of an expression where a statement stands.
bool has_names(const Expr& expr, const TextStatement& at, const std::set<std::string>& known) {
  bool has_all = true;
  visit_parts(expr, [&](const Expr& part) {
    if (part.kind != ExprKind::name) return;
    const std::string name = to_string(part);
    has_all = has_all &&
              (known.contains(name) || std::count(at.before.begin(), at.before.end(), name) > 0 ||
               std::count(at.loops.begin(), at.loops.end(), name) > 0 ||
               name.find('{') != std::string::npos);
  });
  return has_all;
}

void add_names(const std::vector<OtherLine>& lines, std::set<std::string>& names) {
  for (const OtherLine& line : lines)
    for (const Expr* part : line.parts)
      if (part->kind == ExprKind::name) names.insert(to_string(*part));
}

// Returns the names that the lines of the ranks read, or bind, and other lines read.
std::set<std::string> shared_names(const NumberedText& ranks, const std::vector<OtherLine>& lines) {
  std::set<std::string> own, others, shared;
  std::vector<OtherLine> of_ranks;
  for (const TextStatement& one : ranks.statements()) {
    add_line(*one.statement, of_ranks);
    for (const NameTemplate& name : one.statement->targets) own.insert(to_string(name));
  }
  add_names(of_ranks, own);
  add_names(lines, others);
  for (const OtherLine& line : lines)
    for (const NameTemplate& name : line.statement->targets) others.insert(to_string(name));
  std::set_intersection(own.begin(), own.end(), others.begin(), others.end(),
                        std::inserter(shared, shared.end()));
  return shared;
}

// Returns the names that lines may read anywhere.
std::set<std::string> names_of(const Job& job) {
  std::set<std::string> names{"rank", "world", "next", "prev"};
  for (const JobInput& input : job.inputs) names.insert(input.name);
  for (const auto& [name, number] : job.numbers) names.insert(name);
  for (const auto& [key, mesh] : job.meshes)
    for (const MeshAxis& axis : mesh.axes()) names.insert(axis.name);
  for (const char* word : {"sum", "avg", "max", "min", "prod", "identity"}) names.insert(word);
  for (const char* word : {"all_gather", "all_reduce", "reduce_scatter", "slice", "all_to_all"})
    names.insert(word);
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32})
    names.insert(std::string(name(dtype)));
  return names;
}

std::string kind_of_change(const TextChange& change) {
  return text_kind_of(to_string(change.was) + " -> " + to_string(change.to));
}

// Puts changes that many lines would need in the same way last, and leaves out most of them. Ranks
// differ from the truth in every layer where they compute on shards: 2 heads of 4. A bug is rare.
void put_frequent_last(std::vector<TextChange>& changes) {
  std::map<std::string, std::set<int>> places;  // by kind: the expressions that would change
  for (const TextChange& one : changes) places[kind_of_change(one)].insert(one.number);
  std::vector<TextChange> rare, frequent;
  std::map<std::string, size_t> kept;
  for (TextChange& one : changes) {
    const std::string kind = kind_of_change(one);
    if (places[kind].size() <= kRareLines)
      rare.push_back(std::move(one));
    else if (++kept[kind] <= kRareLines)
      frequent.push_back(std::move(one));
  }
  changes = std::move(rare);
  for (TextChange& one : frequent) changes.push_back(std::move(one));
}

std::vector<TextChange> changes_towards(const NumberedText& ranks, const Job& job,
                                        const std::vector<OtherLine>& lines, bool is_truth,
                                        SearchBudget& budget) {
  TextMatcher matcher(shared_names(ranks, lines));
  std::vector<SimilarParts> similar;
  const size_t count = ranks.statements().size();
  const EqualLines equal = equal_lines(matcher, ranks, lines);
  budget.charge_pairs(matcher.pairs());
  for (size_t i = 0; i < count; ++i) {
    const TextStatement& one = ranks.statements()[i];
    const StatementKind kind = one.statement->kind;
    if (kind == StatementKind::if_else || kind == StatementKind::for_range) continue;
    if (similar.size() > kMostPairs) return {};
    if (budget.is_spent()) break;
    const size_t pairs = matcher.pairs();
    const LinesNear near = lines_near(i, count, lines.size());
    for (SimilarParts& pair : similar_parts(matcher, one, lines, near, equal, is_truth))
      similar.push_back(pair);
    budget.charge_pairs(matcher.pairs() - pairs);
  }
  std::stable_sort(similar.begin(), similar.end(),
                   [](const SimilarParts& a, const SimilarParts& b) {
                     return std::tie(a.score, a.apart) < std::tie(b.score, b.apart);
                   });
  const std::set<std::string> names = names_of(job);
  const Origins origins = origins_of(ranks);
  std::vector<TextChange> changes;
  std::set<std::pair<int, std::string>> known;
  for (const SimilarParts& pair : similar) {
    if (changes.size() >= kMostChangesOfText) break;
    for (const TextMatcher::Replacement& one : matcher.replacements(*pair.ranks, *pair.other)) {
      const int number = ranks.number_of(*one.at);
      const Expr by = without_one(one.by);
      if (has_names(by, *pair.own, names) && !drops_sum(*one.at, by, *pair.own) &&
          !drops_cast(*one.at, by) && !goes_around(*one.at, by, *pair.own, origins) &&
          known.emplace(number, to_string(by)).second)
        changes.push_back({number, *one.at, by, is_truth ? pair.line : 0, pair.score});
    }
  }
  put_frequent_last(changes);
  return changes;
}

// Returns over how many elements an op takes a mean; 0 if it takes none.
int64_t count_of_mean(const GlobalInstr& instr, const GlobalProgram& program) {
  const bool is_mean = instr.op == "mean";
  const bool is_loss =
      instr.attrs.has("reduction") && instr.attrs.text("reduction") == "mean" && !is_mean;
  if ((!is_mean && !is_loss) || instr.inputs.empty() || instr.outputs.empty()) return 0;
  const auto elements = [&](ValueId id) {
    return element_count(program.values[static_cast<size_t>(id)].shape);
  };
  // A loss of scores and targets takes the mean over its targets.
  const size_t slot = is_loss && instr.inputs.size() > 1 ? 1 : 0;
  if (instr.inputs[slot] == kNoValue) return 0;
  return elements(instr.inputs[slot]) / std::max<int64_t>(1, elements(instr.outputs[0]));
}

bool has_sum(const Expr& expr) {
  bool found = false;
  visit_parts(expr, [&](const Expr& part) {
    found = found || (part.kind == ExprKind::call && part.symbol == "sum");
  });
  return found;
}

}  // namespace

std::vector<TextChange> changes_to_counts_of_truth(const NumberedText& ranks,
                                                   const GlobalProgram& truth) {
  std::map<int64_t, size_t> counts;  // with the line of the truth
  for (const GlobalInstr& instr : truth.instrs)
    if (const int64_t count = count_of_mean(instr, truth); count > 1)
      counts.emplace(count, static_cast<size_t>(instr.origin.line));
  std::vector<TextChange> changes;
  for (const TextStatement& one : ranks.statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (part.kind != ExprKind::binary || part.symbol != "/" || !has_sum(part.args[0])) return;
        const Expr& by = part.args[1];
        if (by.kind != ExprKind::number || !by.number.is_integer() ||
            counts.contains(by.number.integer()))
          return;
        for (const auto& [count, line] : counts) {
          Expr number = by;
          number.number = Number(count);
          changes.push_back({ranks.number_of(by), by, number, line, 0.5});
        }
      });
  return changes;
}

namespace {

// Returns changes that give a line of the ranks the name which the line of the truth with its
// target adds to all else: x + g for g, if the truth has x + h.
std::vector<TextChange> outer_names(const NumberedText& ranks, const std::vector<OtherLine>& truth,
                                    const std::set<std::string>& names) {
  constexpr double kDistance = 0.25;
  std::vector<TextChange> changes;
  for (const TextStatement& one : ranks.statements())
    for (const OtherLine& line : truth) {
      const Expr& other = *line.statement->value;
      if (!has_same_target(one, line) || other.kind != ExprKind::binary || other.symbol == "@")
        continue;
      for (size_t slot = 0; slot < 2; ++slot) {
        const Expr& name = other.args[slot];
        const Expr& own = *one.whole[0];
        // A call that moves a name has no term of its own to lack.
        if (name.kind != ExprKind::name || without_calls(own).kind == ExprKind::name ||
            reads(own, to_string(name)) || !has_names(name, one, names))
          continue;
        Expr outer = other;
        outer.args[1 - slot] = own;
        changes.push_back({ranks.number_of(own), own, std::move(outer),
                           static_cast<size_t>(line.statement->place.line), kDistance});
      }
    }
  return changes;
}

}  // namespace

std::vector<TextChange> changes_towards_truth(const NumberedText& ranks, const Job& job,
                                              SearchBudget& budget) {
  if (!job.truth) return {};
  std::vector<OtherLine> lines;
  add_lines(job.truth->statements, lines);
  std::vector<TextChange> changes = outer_names(ranks, lines, names_of(job));
  for (TextChange& one : changes_towards(ranks, job, lines, true, budget))
    changes.push_back(std::move(one));
  return changes;
}

std::vector<TextChange> changes_towards_own_lines(const NumberedText& ranks, const Job& job,
                                                  SearchBudget& budget) {
  std::vector<OtherLine> lines;
  for (const TextStatement& one : ranks.statements()) add_line(*one.statement, lines);
  return changes_towards(ranks, job, lines, false, budget);
}

}  // namespace shardproof
