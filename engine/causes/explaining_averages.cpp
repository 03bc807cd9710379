// Implements explaining.h: averages over ranks of sums that each rank divides by its own count.
#include <fmt/format.h>

#include "shardproof/engine/causes/explaining.h"
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

}  // namespace

// Tries sums of each rank's own part that each rank divides by, before an average over ranks. The
// sums must be reduced, and the averages become sums. Example: the mean of the tokens of a rank
// that count, where ranks have different numbers of them.
bool Explaining::averages_local_sums() {
  constexpr int kMostTries = 24;
  int tries = 0;
  const NumberedText& text = confirmation_.text();
  for (const TextStatement& one : text.statements()) {
    std::vector<const Expr*> means;
    visit_parts(*one.whole[0], [&](const Expr& part) {
      if (is_mean(part)) means.push_back(&part);
    });
    for (const Expr* mean : means)
      if (++tries <= kMostTries / 2 && averages_local_means(text, one, *mean)) return true;
  }
  for (const auto& [group, averages] : averages_in(text, mesh_))
    for (const TextStatement& one : text.statements()) {
      if (one.statement->kind != StatementKind::assign) continue;
      std::vector<const Expr*> parts;
      visit_parts(*one.whole[0], [&](const Expr& part) {
        if ((part.kind == ExprKind::call && part.symbol == "sum") || is_mean(part))
          parts.push_back(&part);
      });
      for (const Expr* part : parts)
        for (const std::string& reduced : whole_of_part(*part, group)) {
          if (++tries > kMostTries || confirmation_.is_spent()) return false;
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
  return false;
}

// True for a call of mean, or of a loss that is one: mse_loss(y, t).
bool Explaining::is_mean(const Expr& call) const {
  if (call.kind != ExprKind::call) return false;
  if (call.symbol == "mean") return true;
  const OpRecord* const op = about_.registries.ops.find(call.symbol);
  if (op == nullptr) return false;
  for (size_t i = 0; i < call.keys.size(); ++i)
    if (call.keys[i] == "reduction") return to_string(call.args[i]) == "'mean'";
  return std::any_of(op->params.begin(), op->params.end(), [](const Param& param) {
    return param.name == "reduction" && param.fallback == AttrValue(std::string("mean"));
  });
}

// True if an input has shards of several sizes over an axis.
bool Explaining::has_uneven_shards(int axis) const {
  return std::any_of(
      about_.job.inputs.begin(), about_.job.inputs.end(), [&](const JobInput& input) {
        if (!(input.spec.mesh() == mesh_) || !input.spec.placement(axis).is_shard()) return false;
        const Shard& shard = input.spec.placement(axis).shard();
        return !shard.sizes.empty() || input.spec.shape()[shard.dim] % mesh_.axis_size(axis) != 0;
      });
}

// True if the mean of all ranks, whose parts have different sizes, is right in place of that of
// each rank's own part.
bool Explaining::averages_local_means(const NumberedText& text, const TextStatement& one,
                                      const Expr& part) {
  for (int number = 0; number < mesh_.axis_count(); ++number) {
    const MeshAxis& axis = mesh_.axes()[static_cast<size_t>(number)];
    for (const std::string& weighted : whole_of_part(part, axis.name)) {
      const std::string line =
          lines_text(about_.ranks.program, {{one.listing, one.statement->place.line}});
      const std::string reduced = fmt::format("all_reduce({}, sum, group={})", weighted, axis.name);
      for (const std::string& whole : {reduced, weighted}) {
        // With equal shares the weight is a factor like any other.
        if (whole == weighted && !has_uneven_shards(number)) continue;
        const auto put = [&](Expr& expr) { replace_expression(expr, parse_expression(whole)); };
        if (!confirmation_.confirms_job(change_of({text.number_of(part)}, put))) continue;
        const std::string why =
            whole == reduced
                ? fmt::format("no call takes it over {}", axis.name)
                : fmt::format("the sum over {} needs it weighted by each rank's share", axis.name);
        settle({fmt::format("{} of {} is each rank's own; {}", to_string(part), line, why),
                fmt::format("{} in place of {} on {}", whole, to_string(part), line),
                {}});
        return true;
      }
    }
  }
  return false;
}

// Returns the texts by which a sum or mean of each rank's own part becomes that of all ranks.
std::vector<std::string> Explaining::whole_of_part(const Expr& part,
                                                   const std::string& group) const {
  const std::string text = to_string(part);
  if (part.symbol == "sum") return {fmt::format("all_reduce({}, sum, group={})", text, group)};
  std::vector<std::string> texts;
  for (const JobInput& input : about_.job.inputs)
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (!(input.spec.mesh() == mesh_) || mesh_.axes()[static_cast<size_t>(axis)].name != group ||
          !input.spec.placement(axis).is_shard())
        continue;
      const int dim = input.spec.placement(axis).shard().dim;
      const std::string weight =
          fmt::format("{} * (dim({}, {}) / {})", text, input.name, dim, input.spec.shape()[dim]);
      if (std::count(texts.begin(), texts.end(), weight) == 0) texts.push_back(weight);
    }
  return texts;
}

}  // namespace shardproof
