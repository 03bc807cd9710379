// Implements small_changes.h: changes of attention, of losses of labels, and of nested functions.
// They follow from names that no line reads, and from ops of the truth that do more than one thing.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>

#include "shardproof/engine/causes/small_changes.h"
#include "shardproof/engine/causes/source_changes.h"

namespace shardproof {
namespace {

bool is_call_of(const Expr& expr, const char* verb) {
  return expr.kind == ExprKind::call && expr.symbol == verb && !expr.args.empty();
}

class LossChanges {
 public:
  LossChanges(const NumberedText& ranks, const RankCase& about) : ranks_(ranks), about_(about) {
    for (const SpmdValue& value : about.ranks.program.values)
      if (!value.bound.empty()) values_.emplace(value.bound.str(), &value);
    for (const TextStatement& one : ranks.statements())
      for (const Expr* whole : one.whole)
        visit_parts(*whole, [&](const Expr& part) {
          if (part.kind == ExprKind::name) read_.emplace(one.listing, to_string(part));
        });
    if (about.job.truth) read_truth(about.job.truth->statements);
  }

  std::vector<TextChange> run() {
    for (const TextStatement& one : ranks_.statements()) {
      if (one.statement->kind != StatementKind::assign) continue;
      const std::vector<std::string> unread = unread_before(one);
      visit_parts(*one.whole[0], [&](const Expr& part) {
        for (const std::string& name : unread) count(name, part);
        if (is_call_of(part, "softmax")) scores(part.args[0], unread);
        nested(part);
        number_of_labels(part);
      });
    }
    return std::move(found_);
  }

 private:
  void add(const Expr& was, Expr to) {
    found_.push_back({ranks_.number_of(was), was, std::move(to)});
  }
  void add(const Expr& was, const std::string& to) { add(was, parse_expression(to)); }

  void read_truth(const std::vector<Statement>& truth) {
    for (const Statement& one : truth) {
      if (one.value)
        visit_parts(*one.value, [&](const Expr& part) {
          has_attention_ = has_attention_ || is_call_of(part, "sdpa");
          if (part.kind == ExprKind::call && !part.args.empty())
            nested_.emplace(part.symbol, part.args[0].symbol);
        });
      read_truth(one.body);
    }
  }

  // Returns the names that the listing binds before a statement, and that no line and no output
  // reads.
  std::vector<std::string> unread_before(const TextStatement& one) const {
    std::vector<std::string> unread;
    for (const std::string& name : one.before) {
      const auto is_name = [&](const JobOutput& output) { return output.name == name; };
      if (!read_.contains({one.listing, name}) && values_.contains(name) &&
          std::none_of(about_.job.outputs.begin(), about_.job.outputs.end(), is_name))
        unread.push_back(name);
    }
    return unread;
  }

  // Scores with a mask that no line reads, and divided by the root of the size of a head.
  void scores(const Expr& scores, const std::vector<std::string>& unread) {
    for (const std::string& name : unread)
      if (values_.at(name)->dtype == DType::boolean)
        add(scores, fmt::format("where({}, {}, -inf)", name, to_string(scores)));
    if (!has_attention_) return;
    visit_parts(scores, [&](const Expr& part) {
      if (part.symbol != "@" || part.args[0].kind != ExprKind::name) return;
      const auto left = values_.find(to_string(part.args[0]));
      if (left == values_.end() || left->second->shapes.empty()) return;
      const Dims& shape = left->second->shapes[0].shape;
      if (shape.size() == 0) return;
      const int64_t size = shape[shape.size() - 1];
      const auto root = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(size))));
      add(part, root * root == size ? fmt::format("{} / {}", to_string(part), root)
                                    : fmt::format("{} / {} ** 0.5", to_string(part), size));
    });
  }

  // A mean divided by other numbers, as the sum divided by a count that no line reads.
  void count(const std::string& name, const Expr& value) {
    const SpmdValue& known = *values_.at(name);
    const bool is_scalar = known.shapes.size() == 1 && element_count(known.shapes[0].shape) == 1;
    if (!is_scalar || known.dtype == DType::boolean) return;
    const Expr* mean = &value;
    while (mean->kind == ExprKind::binary && mean->symbol == "/") mean = &mean->args[0];
    Expr sum = *mean;
    if (is_call_of(sum, "mean"))
      sum.symbol = "sum";
    else if (Expr* const reduction =
                 is_call_of(sum, sum.symbol.c_str()) ? argument_of(sum, "reduction") : nullptr;
             reduction != nullptr && to_string(*reduction) == "'mean'")
      *reduction = parse_expression("'sum'");
    else
      return;
    Expr quotient = parse_expression("x / " + name);
    quotient.args[0] = std::move(sum);
    add(value, std::move(quotient));
  }

  // f(g(x), ..) in the other order, if the truth has g(f(..), ..).
  void nested(const Expr& outer) {
    if (outer.kind != ExprKind::call || outer.args.empty()) return;
    const Expr& inner = outer.args[0];
    if (inner.kind != ExprKind::call || inner.args.empty() ||
        !nested_.contains({inner.symbol, outer.symbol}))
      return;
    Expr first = outer, last = inner;
    first.args[0] = inner.args[0];
    last.args[0] = std::move(first);
    add(outer, std::move(last));
  }

  // The number of all labels, as the number of those that the loss does not ignore.
  void number_of_labels(const Expr& number) {
    if (number.kind != ExprKind::number || number.number.is_bool()) return;
    for (const JobInput& input : about_.job.inputs) {
      const bool has_ignored = is_integral(input.data.dtype) && has_label(input, -100);
      if (!has_ignored ||
          static_cast<double>(element_count(input.spec.shape())) != number.number.real())
        continue;
      const Mesh& mesh = input.spec.mesh();
      std::vector<int> axes;
      for (int axis = 0; axis < mesh.axis_count(); ++axis)
        if (mesh.axis_size(axis) > 1 && input.spec.placement(axis).is_shard()) axes.push_back(axis);
      const std::string own = fmt::format("sum(cast({} != -100, f32))", input.name);
      add(number, axes.empty() ? own
                               : fmt::format("all_reduce({}, sum, group={})", own,
                                             group_argument(mesh, axes)));
    }
  }

  static bool has_label(const JobInput& input, int64_t label) {
    if (input.data.dtype != DType::i64) return false;
    const Tensor data = contiguous_copy(input.data);
    const auto* first = reinterpret_cast<const int64_t*>(data.data());
    return std::find(first, first + data.elements(), label) != first + data.elements();
  }

  const NumberedText& ranks_;
  const RankCase& about_;
  std::map<std::string, const SpmdValue*> values_;  // by name
  std::set<std::pair<size_t, std::string>> read_;   // names that lines read, by listing
  bool has_attention_ = false;                      // the truth calls sdpa, which scales scores
  std::set<std::pair<std::string, std::string>>
      nested_;  // functions of the truth: f and g of f(g(x))
  std::vector<TextChange> found_;
};

}  // namespace

std::vector<TextChange> loss_changes(const NumberedText& ranks, const RankCase& about) {
  return LossChanges(ranks, about).run();
}

}  // namespace shardproof
