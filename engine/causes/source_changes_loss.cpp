// Implements right_loss_scale of source_changes.h: divides or multiplies a loss where it is
// assigned or where grad(..) takes it.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <set>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/source_changes.h"

namespace shardproof {
namespace {

// A loss and where it is made and differentiated.
struct LossPlace {
  std::string name;  // "l", or "l{i}" of micro-batch i
  size_t listing = 0;
  int grad = 0, grad_line = 0;   // number of the call grad(..) among the expressions
  int statement = -1, line = 0;  // number of the assignment among the statements; -1: none
};

std::vector<LossPlace> losses_of(const Job& job) {
  std::vector<LossPlace> losses;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& call) {
    if (call.kind != ExprKind::call || call.symbol != "grad" || call.args.empty() ||
        argument_of(call, "with") != nullptr)
      return;
    const Expr& loss = call.args[0];
    if (loss.kind == ExprKind::name && losses.size() < kMostChanges)
      losses.push_back({to_string(loss), place.listing, place.number, call.place.line, -1, 0});
  });
  visit_statements(copy, [&](const TextPlace& place, Statement& statement) {
    if (statement.kind != StatementKind::assign || statement.targets.size() != 1) return;
    for (LossPlace& loss : losses)
      if (to_string(statement.targets[0]) == loss.name && place.listing == loss.listing &&
          statement.place.line < loss.grad_line) {
        loss.statement = place.number;
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
      const std::vector<int> means = axes_of_means({loss.listing, loss.line});
      if (!means.empty())
        if (auto cause = divided_mean(loss, means)) return cause;
      if (auto cause = followed_axis(loss)) return cause;
      if (auto cause = uncounted(loss)) return cause;
      if (auto cause = constant_factor(loss)) return cause;
    }
    return std::nullopt;
  }

 private:
  std::string axis_name(int axis) const { return mesh_.axes()[static_cast<size_t>(axis)].name; }

  // True if a call takes an average over the axis: gradients need not add up over it.
  bool has_average(int axis) const {
    for (const SpmdListing& listing : about_.ranks.program.listings)
      for (const Instr& instr : listing.instrs)
        if (const auto* call = std::get_if<Communicate>(&instr.action))
          for (const CallItem& item : call->items)
            if (item.collective.reduction.op == ReduceOp::avg && reduces(item.collective.kind) &&
                is_over_axis(item.collective.group, mesh_, axis, item.lanes))
              return true;
    return false;
  }

  // Returns the axes over which a value of the line is the mean of each rank's own part.
  std::vector<int> axes_of_means(const ListedLine& line) const {
    std::set<int> axes;
    const Instrs& instrs = about_.ranks.program.listings[line.listing].instrs;
    for (size_t i = 0; i < instrs.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&instrs[i].action);
      if (compute == nullptr || instrs[i].origin.line != line.line || compute->op != "mean")
        continue;
      for (int axis = 0; axis < mesh_.axis_count(); ++axis)
        if (!has_average(axis) &&
            provenance_.state_read(line.listing, i, 0, axis).kind == AxisKind::cut &&
            provenance_.state(compute->outputs.at(0), axis).kind == AxisKind::varying)
          axes.insert(axis);
    }
    return {axes.begin(), axes.end()};
  }

  std::string line_of(const LossPlace& loss) const {
    return line_text(about_.ranks.program, {loss.listing, loss.line});
  }

  // `by`: a number, or an expression.
  template <typename By>
  ChangeOfJob changed_loss(const LossPlace& loss, const char* symbol, const By& by,
                           bool inside_grad) const {
    if (inside_grad)
      return change_of({loss.grad}, [symbol, by](Expr& call) {
        call.args[0] = scaled_expression(call.args[0], symbol, by);
      });
    return [number = loss.statement, symbol, by](const Job& job) {
      Job result = job;
      visit_statements(result, [&](const TextPlace& at, Statement& statement) {
        if (at.number == number) statement.value = scaled_expression(*statement.value, symbol, by);
      });
      return result;
    };
  }

  std::set<ListedLine> lines_of(const LossPlace& loss) const { return {{loss.listing, loss.line}}; }

  // Returns "divide l by size(dp) on line 6".
  std::string fix_of(const LossPlace& loss, bool divides, const std::string& sizes,
                     bool inside_grad) const {
    if (inside_grad)
      return fmt::format("grad({} {} {}, ..) on {}", loss.name, divides ? "/" : "*", sizes,
                         line_text(about_.ranks.program, {loss.listing, loss.grad_line}));
    return fmt::format("{} {} by {} on {}", divides ? "divide" : "multiply", loss.name, sizes,
                       line_of(loss));
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
          fmt::format("{} of {} is the mean of each rank's own part over {}, and gradients add "
                      "it up over {}: it counts {} times",
                      loss.name, line_of(loss), over, over, size),
          fix_of(loss, true, by, inside), lines_of(loss), confirmation_.made_right()};
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
              fmt::format("{} of {} is {}{} times what grad needs: {} is the size of {}, and "
                          "with {} = 1 it is right",
                          loss.name, line_of(loss), divides ? "" : "1 / ", size, size, name, name),
              fix_of(loss, divides, by, inside), lines_of(loss), confirmation_.made_right()};
        }
        if (found) return found;
      }
    return std::nullopt;
  }

  // Returns the names of counts, such as that of labels, that lines before the loss bind.
  std::vector<std::string> counts_before(const LossPlace& loss) const {
    constexpr size_t kMostNames = 4;
    const SpmdProgram& program = about_.ranks.program;
    std::set<std::string> counts;
    for (const SpmdValue& value : program.values)
      if (is_integral(value.dtype) && !value.shapes.empty() && value.shapes[0].shape.size() == 0)
        counts.insert(value.bound.str());
    std::vector<std::string> names;
    for (const TextStatement& one : confirmation_.text().statements()) {
      const Statement& line = *one.statement;
      if (one.listing != loss.listing || line.place.line >= loss.line ||
          line.kind != StatementKind::assign || line.targets.size() != 1)
        continue;
      const std::string name = to_string(line.targets[0]);
      if (counts.contains(name) && names.size() < kMostNames) names.push_back(name);
    }
    return names;
  }

  // Tests counts of the program as divisors of a loss that is a sum.
  std::optional<SourceCause> uncounted(const LossPlace& loss) {
    if (loss.statement < 0) return std::nullopt;
    for (const std::string& name : counts_before(loss)) {
      if (!confirmation_.confirms_job(changed_loss(loss, "/", parse_expression(name), false)))
        continue;
      return SourceCause{fmt::format("{} of {} is a sum that is not divided by {}", loss.name,
                                     line_of(loss), name),
                         fix_of(loss, true, name, false), lines_of(loss),
                         confirmation_.made_right()};
    }
    return std::nullopt;
  }

  // True if the file has the number: as a `let`, a size, or in the text. Another one, such as a
  // count of labels, belongs to this data.
  bool is_number_of_job(int64_t number) const {
    const auto is_it = [number](const Number& one) {
      return one.is_integer() && one.integer() == number;
    };
    for (const auto& [name, value] : about_.job.numbers)
      if (is_it(value)) return true;
    for (const JobInput& input : about_.job.inputs)
      for (const int64_t size : input.spec.shape())
        if (size == number) return true;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis)
      if (mesh_.axis_size(axis) == number) return true;
    bool found = mesh_.size() == number;
    for (const TextStatement& one : confirmation_.text().statements())
      for (const Expr* whole : one.whole)
        visit_parts(*whole, [&](const Expr& part) {
          found = found || (part.kind == ExprKind::number && is_it(part.number));
        });
    return found;
  }

  // Returns the `let` that is this number, if the file has no other one; "" if there is none.
  std::string only_let_of(int64_t number) const {
    std::string found;
    for (const auto& [name, value] : about_.job.numbers) {
      if (!value.is_integer() || value.integer() != number) continue;
      if (!found.empty()) return "";
      found = name;
    }
    for (const MeshAxis& axis : mesh_.axes())
      if (axis.size == number) return "";
    return found;
  }

  // Tests the ratio of the value as a factor of the loss. Other inputs must have the same one.
  std::optional<SourceCause> constant_factor(const LossPlace& loss) {
    if (!ratio_ || !(*ratio_ > 0) || std::fabs(*ratio_ - 1) < 1e-6) return std::nullopt;
    const bool divides = *ratio_ > 1;
    const double wanted = divides ? *ratio_ : 1 / *ratio_, whole = std::round(wanted);
    if (std::fabs(wanted - whole) > 1e-5 * std::fabs(wanted)) return std::nullopt;
    for (const bool inside : {false, true}) {
      if (!inside && loss.statement < 0) continue;
      const auto size = Number(static_cast<int64_t>(whole));
      if (!confirmation_.confirms_job(changed_loss(loss, divides ? "/" : "*", size, inside)))
        continue;
      const std::string times = fmt::format("{:.0f}", whole);
      const std::string let = only_let_of(static_cast<int64_t>(whole));
      const std::string& by = let.empty() ? times : let;
      const bool is_known = is_number_of_job(static_cast<int64_t>(whole));
      return SourceCause{fmt::format("{} of {} is {}{} times what grad needs{}", loss.name,
                                     line_of(loss), divides ? "" : "1 / ", times,
                                     let.empty() ? "" : fmt::format(": {} is {}", times, let)),
                         is_known ? fix_of(loss, divides, by, inside) : "", lines_of(loss),
                         confirmation_.made_right()};
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
  if (!calls_grad(about.job)) return std::nullopt;
  return LossScale(about, provenance, ratio, confirmation).find();
}

}  // namespace shardproof
