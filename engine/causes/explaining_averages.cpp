// Implements explaining.h: averages over ranks of sums that each rank divides by its own count.
#include <fmt/format.h>
#include <numeric>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

namespace {

// The averages over one group: the words avg of its calls, and the divisions by size(axis) before
// sums.
struct Averages {
  NumberedChanges to_sums = {};
  std::set<ListedLine> lines = {}, divisions = {};
};

// Returns them by the text of group=, and those over all axes together.
std::map<std::string, Averages> averages_in(const NumberedText& text, const Mesh& mesh) {
  std::map<std::string, Averages> found;
  for (const TextStatement& one : text.statements())
    visit_parts(*one.whole[0], [&](const Expr& part) {
      const ListedLine line{one.listing, one.statement->place.line};
      for (const MeshAxis& axis : mesh.axes()) {
        if (part.symbol != "/" || to_string(part.args[1]) != fmt::format("size({})", axis.name))
          continue;
        Averages& averages = found[axis.name];
        averages.divisions.insert(line);
        averages.to_sums.emplace(text.number_of(part),
                                 [](Expr& expr) { replace_expression(expr, Expr(expr.args[0])); });
      }
      if (part.kind != ExprKind::call || !parse_collective_kind(part.symbol)) return;
      const Expr* const group = argument_of(part, "group");
      const auto word = std::find_if(part.args.begin(), part.args.end(),
                                     [](const Expr& arg) { return to_string(arg) == "avg"; });
      if (word == part.args.end() || group == nullptr) return;
      Averages& averages = found[to_string(*group)];
      averages.lines.insert(line);
      averages.to_sums.emplace(text.number_of(*word), [](Expr& expr) {
        replace_expression(expr, parse_expression("sum"));
      });
    });
  if (found.size() < 2) return found;
  Averages all;
  for (const auto& [group, one] : found) {
    all.to_sums.insert(one.to_sums.begin(), one.to_sums.end());
    all.lines.insert(one.lines.begin(), one.lines.end());
    all.divisions.insert(one.divisions.begin(), one.divisions.end());
  }
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes())
    if (found.contains(axis.name)) axes.push_back(axis.name);
  if (axes.size() == found.size())
    found.emplace(fmt::format("[{}]", fmt::join(axes, ", ")), std::move(all));
  return found;
}

// True for the axis itself, and for a list of axes with it.
bool names_axis(const std::string& group, const std::string& axis) {
  bool found = false;
  visit_parts(parse_expression(group), [&](const Expr& part) {
    found = found || (part.kind == ExprKind::name && to_string(part) == axis);
  });
  return found;
}

// True for a call of mean, or of a loss that is one: mse_loss(y, t).
bool is_mean(const Expr& call, const RankCase& about) {
  if (call.kind != ExprKind::call) return false;
  if (call.symbol == "mean") return true;
  const OpRecord* const op = about.registries.ops.find(call.symbol);
  if (op == nullptr) return false;
  for (size_t i = 0; i < call.keys.size(); ++i)
    if (call.keys[i] == "reduction") return to_string(call.args[i]) == "'mean'";
  return std::any_of(op->params.begin(), op->params.end(), [](const Param& param) {
    return param.name == "reduction" && param.fallback == AttrValue(std::string("mean"));
  });
}

// True if an input has shards of several sizes over an axis.
bool has_uneven_shards(const RankCase& about, const Mesh& mesh, int axis) {
  return std::any_of(about.job.inputs.begin(), about.job.inputs.end(), [&](const JobInput& input) {
    if (!(input.spec.mesh() == mesh) || !input.spec.placement(axis).is_shard()) return false;
    const Shard& shard = input.spec.placement(axis).shard();
    return !shard.sizes.empty() || input.spec.shape()[shard.dim] % mesh.axis_size(axis) != 0;
  });
}

}  // namespace

// Tries sums of each rank's own part that each rank divides by, before an average over ranks. The
// sums must be reduced, and the averages become sums. Example: the mean of the tokens of a rank
// that count, where ranks have different numbers of them.
bool Explaining::averages_local_sums() {
  constexpr int kMostTries = 24;
  int tries = 0;
  const NumberedText& text = confirmation_.text();
  if (averages_local_means(false)) return true;
  for (const auto& [group, averages] : averages_in(text, mesh_))
    for (const TextStatement& one : text.statements()) {
      if (tries > kMostTries || confirmation_.is_spent()) break;
      if (one.statement->kind != StatementKind::assign) continue;
      std::vector<const Expr*> parts;
      visit_parts(*one.whole[0], [&](const Expr& part) {
        if ((part.kind == ExprKind::call && part.symbol == "sum") || is_mean(part, about_))
          parts.push_back(&part);
      });
      for (const Expr* part : parts)
        for (const std::string& reduced : whole_of_part(*part, group)) {
          if (++tries > kMostTries || confirmation_.is_spent()) break;
          NumberedChanges changes = averages.to_sums;
          changes[text.number_of(*part)] = [&](Expr& expr) {
            replace_expression(expr, parse_expression(reduced));
          };
          if (!confirmation_.confirms_job(change_of_all(changes))) continue;
          std::set<ListedLine> all = averages.lines;
          all.insert(averages.divisions.begin(), averages.divisions.end());
          const SpmdProgram& program = about_.ranks.program;
          const std::string own = lines_text(program, {{one.listing, one.statement->place.line}});
          std::vector<std::string> fixes{
              fmt::format("{} in place of {} on {}", reduced, to_string(*part), own)};
          if (!averages.lines.empty())
            fixes.push_back("sum in place of avg on " + lines_text(program, averages.lines));
          if (!averages.divisions.empty())
            fixes.push_back("no division by the size of the group on " +
                            lines_text(program, averages.divisions));
          settle(
              {fmt::format("{} of {} is each rank's own, and {} over {}, as if all ranks had the "
                           "same",
                           to_string(*part), own,
                           lines_with_verb(lines_text(program, all), "averages"), group),
               fmt::format("{}", fmt::join(fixes, ", and ")),
               {}});
          return true;
        }
    }
  return averages_local_means(true);
}

bool Explaining::is_right_with(const Expr& part, const std::string& whole) {
  const auto put = [&](Expr& expr) { replace_expression(expr, parse_expression(whole)); };
  return confirmation_.confirms_job(change_of({confirmation_.text().number_of(part)}, put));
}

// Adds means of columns that are right if they are divided by the ranks of the group over which a
// step takes a sum in place of an average: only one of the two is wrong. Means before the step may
// be its input, which leaves the step as the cause.
void Explaining::means_of_columns(const Step& step, std::vector<ConfirmedCause>& found) {
  constexpr int kMostMeans = 4;
  int tries = 0;
  const CallItem* const item = reduction_of(step);
  const auto axes =
      item == nullptr ? std::nullopt : axes_of(item->collective.group, mesh_, step.instr->lanes);
  if (!axes) return;
  std::vector<std::string> sizes;
  for (const int axis : *axes)
    sizes.push_back(fmt::format("size({})", mesh_.axes()[static_cast<size_t>(axis)].name));
  for (const TextStatement& one : confirmation_.text().statements())
    visit_parts(*one.whole[0], [&](const Expr& part) {
      const bool has_columns = part.kind == ExprKind::call && part.symbol == "mean" &&
                               argument_of(part, "dim") != nullptr;
      const bool is_later =
          one.listing == step.listing && one.statement->place.line > step.site.line;
      if (!has_columns || !is_later || ++tries > kMostMeans) return;
      const std::string was = to_string(part);
      const std::string now = fmt::format("{} / {}", was, fmt::join(sizes, " / "));
      if (!is_right_with(part, now)) return;
      const std::string line =
          lines_text(about_.ranks.program, {{one.listing, one.statement->place.line}});
      found.push_back({fmt::format("{} of {} is each rank's own mean", was, line),
                       fmt::format("{} in place of {} on {}", now, was, line),
                       {},
                       confirmation_.made_right()});
    });
}

// Returns an all_reduce that is right in place of a part. A word of backward= is tried if it is not
// right without one, or some wrong values are not. It is the one with which most are right.
Explaining::RightMean Explaining::right_mean(const Expr& part, const std::string& reduced,
                                             bool needs_word) {
  RightMean best;
  const auto offer = [&](const std::string& one) {
    if (is_right_with(part, one) && confirmation_.made_right().size() > best.made_right.size())
      best = {one, confirmation_.made_right()};
  };
  if (!needs_word) offer(reduced);
  const bool tries_words = needs_word || (!best.text.empty() && best.made_right != wrong_values());
  if (tries_words && calls_grad(about_.job))
    for (const std::string& word : backward_words(CollectiveKind::all_reduce))
      offer(fmt::format("{}, backward={})", reduced.substr(0, reduced.size() - 1), word));
  return best;
}

// True if the value is right with a mean of all ranks in place of one of each rank's own part. If
// `needs_word`, a call with backward= makes that mean.
bool Explaining::averages_local_means(bool needs_word) {
  constexpr int kMostMeans = 12;
  int tries = 0;
  for (const TextStatement& one : confirmation_.text().statements()) {
    std::vector<const Expr*> means;
    visit_parts(*one.whole[0], [&](const Expr& part) {
      if (is_mean(part, about_)) means.push_back(&part);
    });
    for (const Expr* mean : means)
      if (++tries <= kMostMeans && is_local_mean(one, *mean, needs_word)) return true;
  }
  return false;
}

// True if the mean of all ranks, whose parts have different sizes, is right in place of that of
// each rank's own part.
bool Explaining::is_local_mean(const TextStatement& one, const Expr& part, bool needs_word) {
  for (int number = 0; number < mesh_.axis_count(); ++number) {
    // With equal shares the weight is a factor like any other.
    const bool is_uneven = has_uneven_shards(about_, mesh_, number);
    if (needs_word && !is_uneven) continue;
    const MeshAxis& axis = mesh_.axes()[static_cast<size_t>(number)];
    for (const std::string& weighted : whole_of_part(part, axis.name)) {
      const std::string line =
          lines_text(about_.ranks.program, {{one.listing, one.statement->place.line}});
      const std::string reduced = fmt::format("all_reduce({}, sum, group={})", weighted, axis.name);
      const RightMean whole = right_mean(part, reduced, needs_word);
      const bool is_weighted =
          !needs_word && whole.text.empty() && is_uneven && is_right_with(part, weighted);
      if (whole.text.empty() && !is_weighted) continue;
      const std::string& over = axis.name;
      settle({fmt::format(
                  "{} of {} is each rank's own; {}", to_string(part), line,
                  is_weighted
                      ? fmt::format("the sum over {} needs it weighted by each rank's share", over)
                      : fmt::format("no call takes it over {}", over)),
              fmt::format("{} in place of {} on {}", is_weighted ? weighted : whole.text,
                          to_string(part), line),
              {},
              whole.made_right});
      return true;
    }
  }
  return false;
}

// Returns the texts by which a sum or mean of each rank's own part becomes that of all ranks.
std::vector<std::string> Explaining::whole_of_part(const Expr& part,
                                                   const std::string& group) const {
  const std::string text = to_string(part);
  if (part.symbol == "sum") return {fmt::format("all_reduce({}, sum, group={})", text, group)};
  if (const Expr* const ignored = argument_of(part, "ignore_index")) {
    Expr sum = part;
    sum.keys.push_back("reduction");
    sum.key_places.push_back(part.place);
    sum.args.push_back(parse_expression("'sum'"));
    return {fmt::format("{} / all_reduce(sum(cast({} != {}, f32)), sum, group={})", to_string(sum),
                        to_string(part.args[1]), to_string(*ignored), group)};
  }
  std::vector<std::string> texts;
  for (const JobInput& input : about_.job.inputs) {
    if (!(input.spec.mesh() == mesh_)) continue;
    std::string weights;
    std::set<int> dims;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (!input.spec.placement(axis).is_shard() ||
          !names_axis(group, mesh_.axes()[static_cast<size_t>(axis)].name))
        continue;
      const int dim = input.spec.placement(axis).shard().dim;
      if (dims.insert(dim).second)
        weights += fmt::format(" * (dim({}, {}) / {})", input.name, dim, input.spec.shape()[dim]);
    }
    if (!weights.empty() && std::count(texts.begin(), texts.end(), text + weights) == 0)
      texts.push_back(text + weights);
  }
  return texts;
}

namespace {

// Returns the terms of a sum: a, b and c of a + b + c.
std::vector<const Expr*> terms_of_sum(const Expr& expr) {
  if (expr.symbol != "+" || expr.kind != ExprKind::binary) return {&expr};
  std::vector<const Expr*> terms = terms_of_sum(expr.args[0]);
  for (const Expr* term : terms_of_sum(expr.args[1])) terms.push_back(term);
  return terms;
}

// Returns over how many elements the instructions of a line with an op take a mean, in their order.
std::vector<int64_t> counts_of_means(const SpmdProgram& program, const ListedLine& line,
                                     const std::string& op) {
  std::vector<int64_t> counts;
  const auto elements = [&](ValueId id) {
    return element_count(program.values[static_cast<size_t>(id)].shapes[0].shape);
  };
  for (const Instr& instr : program.listings[line.listing].instrs) {
    const auto* compute = std::get_if<Compute>(&instr.action);
    if (compute == nullptr || instr.origin.line != line.line || compute->op != op) continue;
    // A loss of scores and targets takes the mean over its targets.
    const bool has_targets = op != "mean" && compute->inputs.size() > 1;
    counts.push_back(elements(compute->inputs[has_targets ? 1 : 0]) /
                     std::max<int64_t>(1, elements(compute->outputs[0])));
  }
  return counts;
}

}  // namespace

// Returns over how many elements a term takes a mean: a call, or a name that one line binds to a
// call. 0 if it takes none.
int64_t Explaining::count_of_term(const TextStatement& one, const Expr& term) const {
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  const TextStatement* at = &one;
  const Expr* mean = &term;
  if (term.kind == ExprKind::name)
    for (const TextStatement& other : all)
      if (other.listing == one.listing && &other < &one &&
          other.statement->kind == StatementKind::assign &&
          to_string(other.statement->targets[0]) == to_string(term)) {
        at = &other;
        mean = other.whole[0];
      }
  if (!is_mean(*mean, about_)) return 0;
  const ListedLine line{at->listing, at->statement->place.line};
  const auto counts = counts_of_means(about_.ranks.program, line, mean->symbol);
  size_t place = 0, calls = 0;
  visit_parts(*at->whole[0], [&](const Expr& part) {
    if (part.kind != ExprKind::call || part.symbol != mean->symbol) return;
    if (&part == mean) place = calls;
    ++calls;
  });
  return calls == counts.size() ? counts[place] : 0;
}

// True if an average of means over several numbers of elements is right with each mean weighted by
// its number: (a * 3 + b * 4) / 7 for (a + b) / 2.
bool Explaining::averages_uneven_parts() {
  constexpr int kMostTries = 4;
  if (!confirmation_.can_change_job()) return false;
  int tries = 0;
  const NumberedText& text = confirmation_.text();
  for (const TextStatement& one : text.statements()) {
    std::vector<const Expr*> averages;
    visit_parts(*one.whole[0], [&](const Expr& part) {
      if (part.kind == ExprKind::binary && part.symbol == "/" &&
          to_string(part.args[1]) == std::to_string(terms_of_sum(part.args[0]).size()))
        averages.push_back(&part);
    });
    for (const Expr* average : averages) {
      const std::vector<const Expr*> terms = terms_of_sum(average->args[0]);
      std::vector<int64_t> counts;
      for (const Expr* term : terms) counts.push_back(count_of_term(one, *term));
      const bool are_equal =
          std::count(counts.begin(), counts.end(), counts[0]) == std::ssize(counts);
      if (are_equal || std::count(counts.begin(), counts.end(), 0) > 0) continue;
      int64_t common = 0, all = 0;
      for (const int64_t count : counts) common = std::gcd(common, count);
      std::vector<std::string> weighted, names;
      for (size_t i = 0; i < terms.size(); ++i) {
        weighted.push_back(fmt::format("{} * {}", to_string(*terms[i]), counts[i] / common));
        names.push_back(fmt::format("{} of {}", to_string(*terms[i]), counts[i]));
        all += counts[i] / common;
      }
      const std::string right = fmt::format("({}) / {}", fmt::join(weighted, " + "), all);
      if (++tries > kMostTries) return false;
      const auto put = [&](Expr& expr) { replace_expression(expr, parse_expression(right)); };
      if (!confirmation_.confirms_job(change_of({text.number_of(*average)}, put))) continue;
      const std::string line =
          lines_text(about_.ranks.program, {{one.listing, one.statement->place.line}});
      settle({fmt::format("{} gives means over different numbers of elements the same weight: {}",
                          line, joined_words(names, "and")),
              fmt::format("{} in place of {} on {}", right, to_string(*average), line),
              {}});
      return true;
    }
  }
  return false;
}

}  // namespace shardproof
