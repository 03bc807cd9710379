// Implements explaining.h: values that the listings of a pipeline's stages compute each for
// themselves. Provenance follows one listing at a time, so it states nothing over an axis whose
// ranks run different listings. An edit of the same line in all of them is the test.
//
// Example: each stage has "n = sqrt(sum(g * g))" and clips by its own norm. An all_reduce of
// sum(g * g) over pp in every listing makes the weights of all stages right.
#include <algorithm>
#include <set>

#include "shardproof/engine/causes/explaining.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// True if the lanes consist of whole groups.
bool has_whole_groups(const Lanes& lanes, const Group& group) {
  for (int64_t i = 0; i < lanes.size(); ++i) {
    const int64_t sibling = group.sibling_of(lanes[i]);
    if (sibling < 0) return false;
    for (int64_t k = 0; k < group.size(); ++k)
      if (!lanes.contains(group.member(sibling, k))) return false;
  }
  return true;
}

// Returns the instruction of a site in the first pass of its line; null if there is none.
const Instr* instr_at(const SpmdProgram& program, const Site& site) {
  const std::vector<Site> sites = sites_of(program, site.listing);
  const auto found = std::find(sites.begin(), sites.end(), site);
  return found == sites.end()
             ? nullptr
             : &program.listings[site.listing].instrs[static_cast<size_t>(found - sites.begin())];
}

}  // namespace

// Returns the axes whose ranks run different listings.
std::vector<int> Explaining::axes_between_listings() const {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const Group group = Group::of_axes(mesh_, {axis});
    const auto& listings = about_.ranks.program.listings;
    if (mesh_.axis_size(axis) > 1 &&
        std::any_of(listings.begin(), listings.end(), [&](const SpmdListing& listing) {
          return !has_whole_groups(listing.lanes, group);
        }))
      axes.push_back(axis);
  }
  return axes;
}

// Returns the same instruction of the listings that run on the other ranks of the axis. Returns
// none if one of them has no such instruction, or if its value has another shape.
std::vector<Site> Explaining::sites_over_axis(const Step& step, int axis) const {
  const SpmdProgram& program = about_.ranks.program;
  const auto shape_of = [&](const Instr& instr) {
    const ValueId id = made_by(instr, 0);
    return id == kNoValue || info(id).shapes.size() != 1 ? std::nullopt
                                                         : std::optional(info(id).shapes[0].shape);
  };
  const std::optional<Dims> shape = shape_of(*step.instr);
  if (!shape) return {};
  std::vector<Site> sites;
  Lanes lanes = program.listings[step.listing].lanes;
  std::vector<Site> others = sites_in_other_listings(program, step.site);
  const auto computes = [](const Instr&, const Instr& other) {
    return std::holds_alternative<Compute>(other.action);
  };
  add_sites_with_name(program, step.site, computes, others);
  for (const Site& site : others) {
    const Instr* const instr = instr_at(program, site);
    if (instr == nullptr || shape_of(*instr) != shape) continue;
    sites.push_back(site);
    lanes = lanes.unite(program.listings[site.listing].lanes);
  }
  const bool is_whole = has_whole_groups(lanes, Group::of_axes(mesh_, {axis}));
  return is_whole ? sites : std::vector<Site>();
}

bool Explaining::differs_between_listings() {
  for (const int axis : axes_between_listings())
    if (reduced_over_listings(axis) || regrouped_over_listings(axis)) return true;
  return false;
}

// Returns the results of collectives over the axis, and what is computed from these alone: the
// ranks of all stages hold the same.
std::set<ValueId> Explaining::joined_over(int axis) const {
  std::set<ValueId> joined;
  const std::vector<ValueId>& inputs = about_.ranks.program.inputs;
  for (const Step& step : way_.steps) {
    const ValueId made = made_by(*step.instr, 0);
    if (made == kNoValue) continue;
    if (const CallItem* const item = collective_of(step)) {
      if (is_over_axis(item->collective.group, mesh_, axis, item->lanes) ||
          joined.contains(item->input))
        joined.insert(made);
      continue;
    }
    const std::vector<ValueId> reads = effects_of(*step.instr).reads;
    const auto is_joined = [&](ValueId id) { return joined.contains(id); };
    if (std::any_of(reads.begin(), reads.end(), is_joined) &&
        std::all_of(reads.begin(), reads.end(), [&](ValueId id) {
          return is_joined(id) || info(id).weak || std::count(inputs.begin(), inputs.end(), id) > 0;
        }))
      joined.insert(made);
  }
  return joined;
}

// Tries an all_reduce over the axis after a value of every listing, the smallest values first.
bool Explaining::reduced_over_listings(int axis) {
  std::vector<std::pair<int64_t, const Step*>> places;
  const std::set<ValueId> joined = joined_over(axis);
  const auto is_collective = [](const Collective& call) { return !is_point_to_point(call.kind); };
  for (size_t i = 0; i < way_.steps.size(); ++i) {
    const Step& step = way_.steps[i];
    const ValueId id = made_by(*step.instr, 0);
    if (id == kNoValue || !is_float(id) || info(id).weak || joined.contains(id) ||
        is_called_later(i, axis, is_collective) || sites_over_axis(step, axis).empty())
      continue;
    places.emplace_back(element_count(info(id).shapes[0].shape), &step);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr size_t kMostPlaces = 8;
  if (places.size() > kMostPlaces) places.resize(kMostPlaces);
  for (const auto& [elements, step] : places)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      std::vector<int> axes{axis};
      const ValueId id = made_by(*step->instr, 0);
      for (int other = 0; other < mesh_.axis_count(); ++other)
        if (other != axis && provenance_.state(id, other).kind == AxisKind::partial)
          axes.push_back(other);
      std::sort(axes.begin(), axes.end());
      Edit edit{Edit::Kind::reduce, step->site, 0, Group::of_axes(mesh_, axes), {op, 0}, 1};
      edit.also = sites_over_axis(*step, axis);
      if (!confirmation_.confirms(edit)) continue;
      const std::string lines = text_of(edit), over = axes_text(axes);
      const std::string text = expression_at(about_, *step, 0);
      ConfirmedCause cause{
          fmt::format("{} of {} is each rank's own part over {}; no call over {} {}",
                      text.empty() ? shown(id, line_of(*step)) : text, lines, over, over,
                      op == ReduceOp::sum ? "adds the parts up" : "takes their maximum"),
          "", edit, confirmation_.made_right()};
      cause.fix = reduction_fix({about_, *step, 0, op, group_text(axes), edit.also}, value_.label,
                                confirmation_)
                      .text;
      settle(cause);
      return true;
    }
  return false;
}

// Tries the calls of every listing over another group: that of the axis, or with it.
bool Explaining::regrouped_over_listings(int axis) {
  for (const Step& step : way_.steps) {
    const CallItem* const item = reduction_of(step);
    if (item == nullptr || item->collective.kind != CollectiveKind::all_reduce) continue;
    const auto have = axes_of(item->collective.group, mesh_, step.instr->lanes);
    if (!have || std::count(have->begin(), have->end(), axis) > 0) continue;
    std::vector<int> with_axis = *have;
    with_axis.push_back(axis);
    std::sort(with_axis.begin(), with_axis.end());
    for (const std::vector<int>& axes : {std::vector<int>{axis}, with_axis}) {
      Edit edit{Edit::Kind::regroup,        step.site, 0, Group::of_axes(mesh_, axes),
                item->collective.reduction, 1};
      edit.also = sites_over_axis(step, axis);
      if (edit.also.empty() || !confirmation_.confirms(edit)) continue;
      const std::string lines = text_of(edit);
      settle({fmt::format("{} over {}, but its input is each rank's own part over {}",
                          lines_with_verb(lines, "reduces"), item->collective.group.name(),
                          axes_text({axis})),
              fmt::format("group={} on {}", group_text(axes, *item), lines), edit,
              confirmation_.made_right()});
      return true;
    }
  }
  return false;
}

// --- lines that are missing

// A line that changes the name that it binds: "g = all_reduce(g, avg, group=dp)", "h = c * h".
struct OwnLine {
  const TextStatement* at = nullptr;
  std::string group = {};  // over which it reduces; "": it scales
};

namespace {

// True if a line of the listing reduces the name over the group.
bool is_reduced_over(const std::vector<TextStatement>& all, size_t listing, const std::string& name,
                     const std::string& group) {
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    return one.listing == listing && group_of_own_reduction(one) == group &&
           to_string(one.statement->targets[0]) == name;
  });
}

// Returns the axes that the text of a group names.
std::vector<int> axes_named(const std::string& group, const Mesh& mesh) {
  std::vector<int> axes;
  if (group.empty()) return axes;
  visit_parts(parse_expression(group), [&](const Expr& part) {
    if (part.kind != ExprKind::name) return;
    if (const std::optional<int> axis = mesh.find_axis(to_string(part))) axes.push_back(*axis);
  });
  return axes;
}

// True if a line multiplies or divides the name that it binds by another tensor: "h = c * h".
bool scales_its_name(const TextStatement& one, const Job& job) {
  const Statement& line = *one.statement;
  const Expr& value = *one.whole[0];
  if (line.kind != StatementKind::assign || line.targets.size() != 1 ||
      value.kind != ExprKind::binary || (value.symbol != "*" && value.symbol != "/"))
    return false;
  const std::string name = to_string(line.targets[0]);
  const size_t slot = to_string(value.args[0]) == name ? 0 : 1;
  if (to_string(value.args[slot]) != name || (slot == 1 && value.symbol == "/")) return false;
  bool has_tensor = false, reads_itself = false;
  visit_parts(value.args[1 - slot], [&](const Expr& part) {
    const std::string text = to_string(part);
    const bool is_let = std::any_of(job.numbers.begin(), job.numbers.end(),
                                    [&](const auto& let) { return let.first == text; });
    reads_itself = reads_itself || text == name;
    has_tensor = has_tensor || (part.kind == ExprKind::name && !is_let);
  });
  return has_tensor && !reads_itself;
}

bool is_input(const Job& job, const std::string& name) {
  return std::any_of(job.inputs.begin(), job.inputs.end(),
                     [&](const JobInput& input) { return input.name == name; });
}

// Returns the names that a line binds. If another line may scale it, also those that it reads.
std::vector<NameTemplate> names_of_line(const TextStatement& one, const OwnLine& like) {
  std::vector<NameTemplate> names = one.statement->targets;
  if (!like.group.empty()) return names;
  visit_parts(*one.whole[0], [&](const Expr& part) {
    if (part.kind == ExprKind::name) names.push_back(part.name);
  });
  return names;
}

// Returns the lines that reduce or scale the name that they bind.
std::vector<OwnLine> own_lines(const std::vector<TextStatement>& all, const Job& job) {
  std::vector<OwnLine> lines;
  for (const TextStatement& one : all)
    if (std::string group = group_of_own_reduction(one);
        !group.empty() || scales_its_name(one, job))
      lines.push_back({&one, std::move(group)});
  return lines;
}

// True if a line of the listing reduces the name over the group; without a group, if one scales it.
bool has_own_line(const std::vector<TextStatement>& all, size_t listing, const std::string& name,
                  const std::string& group) {
  if (!group.empty()) return is_reduced_over(all, listing, name, group);
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    const Expr& value = *one.whole[0];
    return one.listing == listing && one.statement->kind == StatementKind::assign &&
           to_string(one.statement->targets[0]) == name && value.kind == ExprKind::binary &&
           (value.symbol == "*" || value.symbol == "/");
  });
}

// Returns the name as a line of a loop writes it: gb{i} for gb0 in a line of gu{i}.
NameTemplate in_each_pass(const NameTemplate& name, const NameTemplate& like) {
  const std::string text = to_string(name), own = to_string(like);
  const size_t hole = own.find('{'), digits = text.find_last_not_of("0123456789") + 1;
  if (!name.plain() || hole == std::string::npos || own.back() != '}' || digits == text.size())
    return name;
  return parse_expression(text.substr(0, digits) + own.substr(hole)).name;
}

void rename(Expr& expr, const std::string& from, const std::string& to) {
  for (Expr* child : children_of(expr)) rename(*child, from, to);
  if (expr.kind == ExprKind::name && to_string(expr) == from)
    replace_expression(expr, parse_expression(to));
}

std::string text_of_line(const Statement& line) {
  return to_string(line.targets[0]) + " = " + to_string(*line.value);
}

// Returns the place of a line in another listing: before or after the line of the kind that follows
// or precedes it in its own listing. 0 if there is none.
std::pair<int, InsertPosition> place_in(size_t listing, const std::vector<TextStatement>& all,
                                        size_t own) {
  const auto kind = [](const TextStatement& one) { return text_kind_of(to_string(*one.whole[0])); };
  for (const InsertPosition position : {InsertPosition::before, InsertPosition::after}) {
    const size_t next = position == InsertPosition::before ? own + 1 : own - 1;
    if (next >= all.size() || all[next].listing != all[own].listing) continue;
    for (const TextStatement& one : all)
      if (one.listing == listing && one.loops == all[own].loops && kind(one) == kind(all[next]) &&
          one.statement->targets.size() == all[next].statement->targets.size())
        return {one.statement->place.line, position};
  }
  return {0, InsertPosition::before};
}

// True if a line of the listing is of the same kind.
bool has_line_like(const std::vector<TextStatement>& all, const TextStatement& like,
                   size_t listing) {
  const std::string kind = text_kind_of(to_string(*like.whole[0]));
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    return one.listing == listing && text_kind_of(to_string(*one.whole[0])) == kind;
  });
}

}  // namespace

bool Explaining::is_right_with_line(const OwnLine& like, const NameTemplate& name, ListedLine at,
                                    InsertPosition position) {
  Statement line = *like.at->statement;
  rename(*line.value, to_string(line.targets[0]), to_string(name));
  line.targets[0].texts = name.texts;
  line.targets[0].holes = name.holes;
  const std::string text = text_of_line(line);
  for (const TextStatement& one : confirmation_.text().statements())
    if (one.listing == at.listing && one.statement->kind == StatementKind::assign &&
        text_of_line(*one.statement) == text)
      return false;
  const std::vector<int> axes = axes_named(like.group, mesh_);
  if (!confirmation_.confirms_job(with_inserted_line(at.listing, at.line, position, line), axes))
    return false;
  const SpmdProgram& program = about_.ranks.program;
  const char* const verb = like.group.empty() ? "scales" : "reduces";
  settle({fmt::format("no line {0} {1} as {2} {0} {3}", verb, to_string(name),
                      line_text(program, {like.at->listing, like.at->statement->place.line}),
                      to_string(like.at->statement->targets[0])),
          fmt::format("add {} {} {}", text, position == InsertPosition::before ? "before" : "after",
                      line_text(program, at)),
          {}});
  return true;
}

// True if all ranks of an axis of the group hold the same in the name.
bool Explaining::is_copied_over(const std::string& group, size_t listing,
                                const std::string& name) const {
  for (const int axis : axes_named(group, mesh_)) {
    bool any = false, all = true;
    for (const Step& step : way_.steps) {
      const ValueId id = step.listing == listing ? made_by(*step.instr, 0) : kNoValue;
      if (id == kNoValue || info(id).bound.str() != name) continue;
      any = true;
      all = all && provenance_.state(id, axis).kind == AxisKind::replicated;
    }
    if (any && all) return true;
  }
  return false;
}

// True if the value is right with one more line that reduces or scales a name as another line does.
// The other line is in the same listing, or in another one, and this one has no such line. Example:
// "g3 = all_reduce(g3, avg, group=dp)" after "g2 = all_reduce(g2, avg, group=dp)".
bool Explaining::misses_a_line() {
  constexpr int kMostRunsOfLines = 24;
  if (!confirmation_.can_change_job()) return false;
  for (const bool reduces : {true, false}) {
    confirmation_.allow_more_runs(kMostRunsOfLines);
    for (const bool is_same_kind : {true, false})
      for (const OwnLine& like : own_lines(confirmation_.text().statements(), about_.job))
        if (reduces == !like.group.empty() && misses_a_line_like(like, is_same_kind)) return true;
  }
  return false;
}

// Tries such a line for each name that is computed on a suspect line.
bool Explaining::misses_a_line_like(const OwnLine& like, bool is_same_kind) {
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  const NameTemplate& own = like.at->statement->targets[0];
  std::set<std::pair<size_t, std::string>> tried;
  for (const TextStatement& other : all) {
    if (other.statement->kind != StatementKind::assign ||
        !suspects().contains({other.listing, other.statement->place.line}))
      continue;
    const bool is_same_listing = other.listing == like.at->listing;
    if (!is_same_listing && has_line_like(all, *like.at, other.listing)) continue;
    const auto [line, position] =
        is_same_listing ? std::pair(like.at->statement->place.line, InsertPosition::after)
                        : place_in(other.listing, all, static_cast<size_t>(like.at - all.data()));
    for (const NameTemplate& target : names_of_line(other, like)) {
      const NameTemplate name = in_each_pass(target, own);
      const std::string text = to_string(name);
      const bool is_kind = text_kind_of(text) == text_kind_of(to_string(own));
      const std::vector<std::string>& before = like.at->before;
      const bool is_bound = !is_same_listing || is_input(about_.job, to_string(target)) ||
                            std::count(before.begin(), before.end(), to_string(target)) > 0;
      if (line == 0 || !is_bound || is_kind != is_same_kind || (!is_same_listing && !is_kind) ||
          has_own_line(all, other.listing, text, like.group) ||
          is_copied_over(like.group, other.listing, to_string(target)) ||
          !tried.emplace(other.listing, text).second)
        continue;
      if (confirmation_.is_spent()) return false;
      if (is_right_with_line(like, name, {other.listing, line}, position)) return true;
    }
  }
  return false;
}

namespace {

// A gradient of a weight, with the line that takes it.
struct TakenGradient {
  ListedLine line;
  std::string name;
};

bool is_received_name(const std::vector<TextStatement>& all, size_t listing,
                      const std::string& name) {
  return std::any_of(all.begin(), all.end(), [&](const TextStatement& one) {
    return one.listing == listing && one.whole[0]->symbol == "recv" &&
           one.statement->kind == StatementKind::assign &&
           to_string(one.statement->targets[0]) == name;
  });
}

// Returns the gradients that lines take of names which no other rank has sent.
std::vector<TakenGradient> gradients_of_weights(const std::vector<TextStatement>& all) {
  std::vector<TakenGradient> found;
  for (const TextStatement& one : all) {
    const Expr& value = *one.whole[0];
    const bool is_grad = value.kind == ExprKind::call && value.symbol == "grad";
    if (one.statement->kind != StatementKind::assign || !is_grad || value.args.size() < 2) continue;
    const std::vector<NameTemplate>& targets = one.statement->targets;
    const Expr& of = value.args[1];
    for (size_t i = 0; i < targets.size(); ++i) {
      const Expr& weight = of.kind == ExprKind::list && i < of.args.size() ? of.args[i] : of;
      if (!is_received_name(all, one.listing, to_string(weight)))
        found.push_back({{one.listing, one.statement->place.line}, to_string(targets[i])});
    }
  }
  return found;
}

// Returns the last line of a listing at or after `from` that sends or receives. A stage that adds
// up gradients before it would make the next stage wait for ever.
int last_message_line(const std::vector<TextStatement>& all, ListedLine from) {
  int line = from.line;
  for (const TextStatement& one : all) {
    const auto kind = parse_collective_kind(one.whole[0]->symbol);
    if (one.listing == from.listing && kind && is_point_to_point(*kind))
      line = std::max(line, one.statement->place.line);
  }
  return line;
}

std::string reducing_line(const std::string& name, const std::string& call) {
  return fmt::format("{0} = all_reduce({0}, {1})", name, call);
}

// Returns the job with an all_reduce of each gradient after a line of its listing.
Job with_reduced_gradients(const Job& job, const std::vector<TakenGradient>& gradients,
                           const std::vector<ListedLine>& after, const std::string& call) {
  Job changed = job;
  for (size_t i = 0; i < gradients.size(); ++i) {
    Statement line = parse_listing({reducing_line(gradients[i].name, call)}).statements[0];
    line.place.line = after[i].line;
    changed = with_inserted_line(after[i].listing, after[i].line, InsertPosition::after,
                                 std::move(line))(changed);
  }
  return changed;
}

bool are_of_one_name(const std::vector<TakenGradient>& gradients) {
  return std::all_of(gradients.begin(), gradients.end(),
                     [&](const TakenGradient& one) { return one.name == gradients[0].name; });
}

}  // namespace

// True if the value is right with an all_reduce of each gradient over axes over which no line
// reduces any. A norm of all gradients is right only then. Weights that several stages share are
// added up after the last message.
bool Explaining::reduces_no_gradient() {
  if (!confirmation_.can_change_job()) return false;
  const std::vector<TextStatement>& all = confirmation_.text().statements();
  const std::vector<TakenGradient> gradients = gradients_of_weights(all);
  if (gradients.size() < 2) return false;
  std::vector<std::vector<int>> groups;
  std::vector<int> open;
  for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
    const std::string& name = mesh_.axes()[static_cast<size_t>(axis)].name;
    const bool is_reduced = std::any_of(gradients.begin(), gradients.end(), [&](const auto& one) {
      return is_reduced_over(all, one.line.listing, one.name, name);
    });
    if (mesh_.axis_size(axis) == 1 || is_reduced) continue;
    groups.push_back({axis});
    open.push_back(axis);
  }
  if (open.size() > 1) groups.push_back(open);
  std::vector<ListedLine> taken, sent;
  for (const TakenGradient& one : gradients) {
    taken.push_back(one.line);
    sent.push_back({one.line.listing, last_message_line(all, one.line)});
  }
  std::vector<std::vector<ListedLine>> places{taken};
  if (sent != taken) places.push_back(sent);
  for (const std::vector<int>& axes : groups)
    for (const char* op : {"sum", "avg"})
      for (const std::vector<ListedLine>& after : places) {
        if (confirmation_.is_spent()) return false;
        const std::string call = fmt::format("{}, group={}", op, group_text(axes));
        const auto put = [&](const Job& job) {
          return with_reduced_gradients(job, gradients, after, call);
        };
        if (!confirmation_.confirms_job(put, axes)) continue;
        const SpmdProgram& program = about_.ranks.program;
        settle({fmt::format("no line reduces the gradients of {} over {}, and {} is right if all "
                            "are reduced",
                            lines_text(program, {taken.begin(), taken.end()}), axes_text(axes),
                            target()),
                fmt::format(
                    "add {} after {}{}", reducing_line(gradients[0].name, call),
                    lines_text(program, {after.begin(), after.end()}),
                    are_of_one_name(gradients) ? "" : ", and the same for its other gradients"),
                {}});
        return true;
      }
  return false;
}

}  // namespace shardproof
