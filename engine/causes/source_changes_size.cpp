// Implements right_size_for_number of source_changes.h: puts the size of an axis or a `let` in
// place of a factor that the text writes.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "shardproof/engine/causes/change_listings.h"
#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/causes/source_changes.h"

namespace shardproof {
namespace {

// Returns the value of a factor: a number, a `let`, the size of an axis, or a product of these.
std::optional<double> number_of_factor(const Expr& expr, const Job& job, const Mesh& mesh) {
  if (expr.kind == ExprKind::number)
    return expr.number.is_integer() || expr.number.is_double() ? std::optional(expr.number.real())
                                                               : std::nullopt;
  if (expr.kind == ExprKind::name && expr.name.plain()) {
    for (const auto& [name, number] : job.numbers)
      if (name == expr.name.texts[0] && (number.is_integer() || number.is_double()))
        return number.real();
    return std::nullopt;
  }
  if (expr.kind == ExprKind::call && expr.symbol == "size" && expr.args.size() == 1) {
    const std::optional<int> axis = mesh.find_axis(to_string(expr.args[0]));
    return axis ? std::optional(static_cast<double>(mesh.axis_size(*axis))) : std::nullopt;
  }
  if (expr.kind != ExprKind::binary || expr.symbol != "*") return std::nullopt;
  const auto left = number_of_factor(expr.args[0], job, mesh);
  const auto right = number_of_factor(expr.args[1], job, mesh);
  return left && right ? std::optional(*left * *right) : std::nullopt;
}

struct FactorPlace {
  int number = 0;
  size_t slot = 0;
  bool divides = false;
  std::string text;
  double value = 1;
  std::vector<int> axes = {};    // of the sizes in the text
  std::vector<int> summed = {};  // axes of the groups of calls in the other operand
};

// Adds the axes whose sizes an expression has.
void add_axes(const Expr& expr, const Mesh& mesh, std::vector<int>& axes) {
  if (expr.kind == ExprKind::call && expr.symbol == "size" && expr.args.size() == 1)
    if (const std::optional<int> axis = mesh.find_axis(to_string(expr.args[0])))
      axes.push_back(*axis);
  for (const Expr& argument : expr.args) add_axes(argument, mesh, axes);
}

// Adds the axes that groups of calls in an expression name.
void add_axes_of_groups(const Expr& expr, const Mesh& mesh, std::vector<int>& axes) {
  for (size_t i = 0; i < expr.args.size(); ++i) {
    const bool is_group = expr.kind == ExprKind::call && expr.keys[i] == "group";
    if (!is_group) add_axes_of_groups(expr.args[i], mesh, axes);
    if (is_group)
      visit_parts(expr.args[i], [&](const Expr& name) {
        if (const std::optional<int> axis = mesh.find_axis(to_string(name))) axes.push_back(*axis);
      });
  }
}

bool has_all(const std::vector<int>& axes, const std::vector<int>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](int axis) { return std::count(axes.begin(), axes.end(), axis) > 0; });
}

// Returns the factors of products with tensors.
std::vector<FactorPlace> written_factors(const Job& job, const Mesh& mesh) {
  std::vector<FactorPlace> factors;
  Job copy = job;
  visit_expressions(copy, [&](const TextPlace& place, Expr& expr) {
    if (expr.kind != ExprKind::binary || (expr.symbol != "*" && expr.symbol != "/")) return;
    for (size_t slot = expr.symbol == "*" ? 0 : 1; slot < 2; ++slot) {
      const std::optional<double> value = number_of_factor(expr.args[slot], job, mesh);
      if (!value || *value == 0 || number_of_factor(expr.args[1 - slot], job, mesh)) continue;
      factors.push_back(
          {place.number, slot, expr.symbol == "/", to_string(expr.args[slot]), *value});
      add_axes(expr.args[slot], mesh, factors.back().axes);
      add_axes_of_groups(expr.args[1 - slot], mesh, factors.back().summed);
    }
  });
  return factors;
}

// The size of an axis, the product of two, or a `let`.
struct SizeOfAxes {
  std::string text;
  std::vector<int> axes;
  double size = 1;
};

std::vector<SizeOfAxes> sizes_of(const Job& job, const Mesh& mesh) {
  std::vector<SizeOfAxes> sizes, products;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.axis_size(axis) == 1) continue;
    const SizeOfAxes own{fmt::format("size({})", mesh.axes()[static_cast<size_t>(axis)].name),
                         {axis},
                         static_cast<double>(mesh.axis_size(axis))};
    for (const SizeOfAxes& other : sizes)
      products.push_back({fmt::format("({} * {})", other.text, own.text),
                          {other.axes[0], axis},
                          other.size * own.size});
    sizes.push_back(own);
  }
  sizes.insert(sizes.end(), products.begin(), products.end());
  for (const auto& [name, number] : job.numbers)
    if (number.is_integer() && number.integer() > 1) sizes.push_back({name, {}, number.real()});
  return sizes;
}

}  // namespace

std::optional<SourceCause> right_size_for_number(const RankCase& about, const std::string& target,
                                                 std::optional<double> ratio,
                                                 Confirmation& confirmation) {
  const Mesh& mesh = about.job.meshes[0].second;
  size_t tried = 0;
  for (const FactorPlace& factor : written_factors(about.job, mesh))
    for (const SizeOfAxes& size : sizes_of(about.job, mesh)) {
      const double change = factor.divides ? factor.value / size.size : size.size / factor.value;
      std::vector<int> axes = size.axes;
      axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
      const bool is_one = factor.axes.empty() && factor.value == 1;  // no author means a size by it
      if (axes.empty() || is_one || change == 1 || (ratio && std::fabs(change * *ratio - 1) > 1e-5))
        continue;
      if (++tried > kMostChanges) return std::nullopt;
      const auto put_size = [&](Expr& product) {
        const SourceLocation place = product.args[factor.slot].place;
        product.args[factor.slot] = parse_expression(size.text);
        product.args[factor.slot].place = place;
      };
      // A sum over dp and cp that is divided by the size of dp is wrong with dp = 1, too.
      std::vector<int> added = size.axes;
      if (has_all(factor.summed, size.axes))
        std::erase_if(added, [&](int axis) { return has_all(factor.axes, {axis}); });
      const RightChange right = right_change(about, factor.number, put_size, added, confirmation);
      if (right.lines.empty() ||
          !confirmation.is_right_on_other_meshes(change_of(right.numbers, put_size), axes))
        continue;
      const std::string lines = lines_text(about.ranks.program, right.lines);
      return SourceCause{
          fmt::format("{} by {}, and {} is right with {}, which is {}",
                      lines_with_verb(lines, factor.divides ? "divides" : "multiplies"),
                      factor.text, target, size.text, size.size),
          fmt::format("{} in place of {} on {}", size.text, factor.text, lines), right.lines,
          right.made_right};
    }
  return std::nullopt;
}

}  // namespace shardproof
