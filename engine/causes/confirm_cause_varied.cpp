// Implements the varied cases of confirm_cause.h: a coincidence of the scenario's sizes, whole
// numbers or clips does not repeat in them.
//
// Example: dp=2, tp=2 and a gradient that is 2 times too large. The average in place of a sum over
// tp makes it right. With tp=1 it is still 2 times too large, so the sum over tp is not the cause.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "shardproof/engine/causes/confirm_cause.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/way_to_value.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr double kStillRight = 0x1p-20;  // of the largest element, as kRight of confirm_cause.cpp
constexpr double kAsWrong = 0x1p-20;     // share by which equal distances may differ

// Returns the ranks of `smaller` that stand for ranks of `mesh`; `smaller` has one rank along the
// axis. Returns nullopt if the ranks are not whole groups of the axis.
std::optional<Lanes> without_axis(const Lanes& ranks, const Mesh& mesh, const Mesh& smaller,
                                  int axis) {
  std::vector<int32_t> found;
  for (int64_t i = 0; i < ranks.size(); ++i) {
    const std::optional<Dims> place = mesh.coordinate_of(ranks[i]);
    if (!place) return std::nullopt;
    Dims other = *place;
    for (other[axis] = 0; other[axis] < mesh.axis_size(axis); ++other[axis])
      if (!ranks.contains(mesh.rank_at(other))) return std::nullopt;
    other[axis] = 0;
    found.push_back(smaller.rank_at(other));
  }
  return Lanes::of(std::move(found));
}

// Cuts an input to the shards of the first rank along an axis; leaves one that the axis does not
// cut. Returns false if its shards are uneven or strided, or if another axis cuts the same dim.
bool keep_first_shard(JobInput& input, int axis) {
  const Spec& spec = input.spec;
  if (!spec.placement(axis).is_shard()) return true;
  const Shard& shard = spec.placement(axis).shard();
  const int64_t size = spec.mesh().axis_size(axis);
  if (shard.split != 1 || !shard.sizes.empty() || spec.shape()[shard.dim] % size != 0) return false;
  for (int other = 0; other < spec.mesh().axis_count(); ++other)
    if (other != axis && spec.placement(other).is_shard(shard.dim)) return false;
  input.data.shape[shard.dim] /= size;
  input.data = contiguous_copy(input.data);
  return true;
}

// Returns the job with one rank along an axis. Throws Error(bad_input) if its shards do not allow
// it.
std::optional<Job> without_axis(const Job& job, int axis, VariedShards shards) {
  if (job.meshes.size() != 1 || !job.functions.empty() || !job.groups.empty() ||
      !job.faults.empty())
    return std::nullopt;
  const Mesh& mesh = job.meshes[0].second;
  const Lanes all = Lanes::range(0, job.world);
  if (mesh.is_mapped() || mesh.is_sliced() || !(mesh.ranks() == all)) return std::nullopt;
  std::vector<std::pair<std::string, int64_t>> axes;
  for (int i = 0; i < mesh.axis_count(); ++i)
    axes.emplace_back(mesh.axes()[static_cast<size_t>(i)].name, i == axis ? 1 : mesh.axis_size(i));
  Job result = job;
  const Mesh smaller = Mesh::make(std::move(axes));
  result.meshes[0].second = smaller;
  result.world = smaller.size();
  const auto shrink = [&](Lanes& ranks) {
    const std::optional<Lanes> fewer = without_axis(ranks, mesh, smaller, axis);
    if (fewer) ranks = *fewer;
    return fewer.has_value();
  };
  for (JobListing& one : result.ranks)
    if (!shrink(one.lanes)) return std::nullopt;
  for (JobInput& input : result.inputs) {
    if (!(input.spec.mesh() == mesh) || !shrink(input.on)) return std::nullopt;
    if (shards == VariedShards::same && !keep_first_shard(input, axis)) return std::nullopt;
    input.spec = Spec(smaller, input.spec.placements(), input.data.shape, input.spec.dtype(),
                      input.spec.order());
  }
  for (JobOutput& output : result.outputs)
    if (!shrink(output.on)) return std::nullopt;
  return result;
}

// Lines of the ranks and of the truth whose numbers are not sizes of an axis. A value that is right
// on both meshes is computed from them, or ranks and truth multiply by the same numbers.
struct ProvenLines {
  std::set<ListedLine> of_ranks = {};
  std::set<int> of_truth = {};
};

// Returns the lines of the truth from which values of these names are computed.
// Lines to the `given` ones are left out.
std::set<int> truth_lines_to(const GlobalProgram& truth, const std::set<std::string>& names,
                             const std::set<std::string>& given) {
  std::set<ValueId> needed, stops;
  for (const std::string& name : given)
    if (const auto found = truth.names.find(name); found != truth.names.end())
      stops.insert(found->second);
  for (const std::string& name : names)
    if (const auto found = truth.names.find(name); found != truth.names.end())
      needed.insert(found->second);
  std::set<int> lines;
  for (auto instr = truth.instrs.rbegin(); instr != truth.instrs.rend(); ++instr) {
    if (std::none_of(instr->outputs.begin(), instr->outputs.end(),
                     [&](ValueId id) { return needed.contains(id); }))
      continue;
    lines.insert(instr->origin.line);
    for (const ValueId id : instr->inputs)
      if (!stops.contains(id)) needed.insert(id);
  }
  return lines;
}

// Return the numbers by which the author's lines multiply or divide, but for proven lines. Those of
// a gradient follow from other lines.
std::set<double> factors_of(const SpmdProgram& program, const std::set<ListedLine>& proven) {
  std::map<ValueId, double> numbers;
  std::set<double> factors;
  for (size_t l = 0; l < program.listings.size(); ++l)
    for (const Instr& instr : program.listings[l].instrs) {
      if (const auto* number = std::get_if<NumberValue>(&instr.action)) {
        if (number->values.size() == 1) numbers[number->output] = std::fabs(number->values[0]);
        if (number->integers.size() == 1)
          numbers[number->output] = std::fabs(static_cast<double>(number->integers[0]));
      }
      const auto* compute = std::get_if<Compute>(&instr.action);
      if (compute == nullptr || (compute->op != "mul" && compute->op != "div") ||
          proven.contains({l, instr.origin.line}) ||
          is_gradient_line(program.listings[l].lines, instr.origin.line))
        continue;
      for (const ValueId id : compute->inputs)
        if (const auto known = numbers.find(id); known != numbers.end())
          factors.insert(known->second);
    }
  return factors;
}

std::set<double> factors_of(const GlobalProgram& program, const std::set<int>& proven) {
  std::set<double> factors;
  for (const GlobalInstr& instr : program.instrs) {
    if ((instr.op != "mul" && instr.op != "div") || proven.contains(instr.origin.line) ||
        is_gradient_line(program.lines, instr.origin.line))
      continue;
    for (const ValueId id : instr.inputs)
      if (const GlobalValue& value = program.values[static_cast<size_t>(id)];
          value.weak && (value.number.is_integer() || value.number.is_double()))
        factors.insert(std::fabs(value.number.real()));
  }
  return factors;
}

// True for 4, and for 0.25.
bool may_be_size(double factor) {
  if (factor > 1) return factor == std::floor(factor);
  return factor > 0 && factor < 1 && std::exp2(std::floor(std::log2(factor))) == factor;
}

// True if both sides have other constants than the other one: 0.1 in the ranks, 0.05 in the truth.
bool has_other_constants(const std::set<double>& ranks, const GlobalProgram& truth) {
  std::set<double> numbers;
  for (const GlobalValue& value : truth.values)
    if (value.weak && (value.number.is_integer() || value.number.is_double()))
      numbers.insert(std::fabs(value.number.real()));
  const auto any_missing = [](const std::set<double>& from, const std::set<double>& in) {
    return std::any_of(from.begin(), from.end(), [&](double number) {
      return number != std::floor(number) && !in.contains(number);
    });
  };
  return any_missing(ranks, numbers) && any_missing(numbers, ranks);
}

// True if a line takes the same rows of a larger shard: x[0:2] of each rank's part of x. Ranks with
// the larger parts leave rows out.
bool slices_by_constants(const RankCase& own, const RankProgram& varied) {
  const OpRecord* const slice = own.registries.ops.find_infix("[:]");
  SP_CHECK(slice, "no op means x[a:b]");
  const auto shapes_of = [](const SpmdProgram& program, ValueId id) {
    std::set<std::vector<int64_t>> shapes;
    for (const LocalShape& one : program.values[static_cast<size_t>(id)].shapes)
      shapes.emplace(one.shape.begin(), one.shape.end());
    return shapes;
  };
  for (size_t l = 0; l < own.ranks.program.listings.size(); ++l) {
    const Instrs &before = own.ranks.program.listings[l].instrs,
                 &after = varied.program.listings[l].instrs;
    for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
      const auto *a = std::get_if<Compute>(&before[i].action),
                 *b = std::get_if<Compute>(&after[i].action);
      if (a == nullptr || b == nullptr || a->op != slice->name || b->op != slice->name) continue;
      const auto same = [&](ValueId x, ValueId y) {
        return shapes_of(own.ranks.program, x) == shapes_of(varied.program, y);
      };
      if (!same(a->inputs[0], b->inputs[0]) && same(a->outputs[0], b->outputs[0])) return true;
    }
  }
  return false;
}

// True if the program is right for its own mesh alone, by one of these signs:
// - a line of the ranks has a factor that no size of the program gives;
// - a line takes the same rows of larger shards;
// - the truth has the size of the axis as a factor on the other mesh, too.
// Lines are left out if they are proven.
bool is_made_for_its_mesh(const RankCase& own, const RankProgram& varied,
                          const GlobalProgram& truth, int64_t size, const ProvenLines& proven) {
  const std::set<double> before = factors_of(own.ranks.program, proven.of_ranks);
  const std::set<double> after = factors_of(varied.program, proven.of_ranks);
  const std::set<double> of_truth = factors_of(truth, {});
  for (const double factor : before)
    if (may_be_size(factor) && after.contains(factor) && !of_truth.contains(factor)) return true;
  if (has_other_constants(factors_of(own.ranks.program, {}), own.truth) ||
      slices_by_constants(own, varied))
    return true;
  const auto share = static_cast<double>(size);
  return factors_of(own.truth, proven.of_truth).contains(share) && of_truth.contains(share);
}

enum class IntegerOrder { ascending, shuffled };

// Puts the elements of a tensor into another order. In ascending order equal numbers, such as the
// labels that a loss ignores, lie on few ranks.
void reorder(Tensor& tensor, IntegerOrder order) {
  tensor = contiguous_copy(tensor);
  const std::vector<double> values = values_of(tensor);
  std::vector<size_t> from(values.size());
  std::iota(from.begin(), from.end(), size_t{0});
  if (order == IntegerOrder::ascending) {
    std::stable_sort(from.begin(), from.end(),
                     [&](size_t a, size_t b) { return values[a] < values[b]; });
  } else {
    uint64_t bits = 0x9e3779b97f4a7c15ULL;
    for (size_t i = from.size(); i > 1; --i) {
      bits = bits * 0x5851f42d4c957f2dULL + 0x14057b7ef767814fULL;
      std::swap(from[(bits >> 33) % i], from[i - 1]);
    }
  }
  const auto size = static_cast<size_t>(size_of(tensor.dtype));
  const std::vector<std::byte> old(tensor.data(), tensor.data() + from.size() * size);
  std::byte* const data = tensor.mutate();
  for (size_t i = 0; i < from.size(); ++i)
    std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(from[i] * size), size, data + i * size);
}

// True if the values that are right are right in the varied case, too. Otherwise the program fits
// its own case alone. Example: ranks that keep at most 2 of their tokens for each expert.
bool stays_right(const Distances& own, const Distances& varied) {
  return std::all_of(own.begin(), own.end(), [&](const auto& value) {
    const auto& [key, distance] = value;
    const auto now = varied.find(key);
    return now != varied.end() &&
           (distance.share > kStillRight || now->second.share <= kStillRight);
  });
}

bool is_scaled(const Expr& expr) {
  return expr.kind == ExprKind::binary && (expr.symbol == "*" || expr.symbol == "/") &&
         (expr.args[0].kind == ExprKind::number || expr.args[1].kind == ExprKind::number);
}

// Adds the lines of the truth whose products with numbers the ranks write, too: "x @ w / 2".
void add_shared_products(const std::vector<Statement>& truth, const NumberedText& ranks,
                         std::set<int>& lines) {
  std::set<std::string> known;
  for (const TextStatement& one : ranks.statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (is_scaled(part)) known.insert(to_string(part));
      });
  for (const Statement& one : truth) {
    bool all = one.value.has_value();
    if (all)
      visit_parts(*one.value, [&](const Expr& part) {
        all = all && (!is_scaled(part) || known.contains(to_string(part)));
      });
    if (all) lines.insert(one.place.line);
    add_shared_products(one.body, ranks, lines);
    add_shared_products(one.otherwise, ranks, lines);
  }
}

// True if a line multiplies index(axis) by a number: the size of a shard in the program's own case.
bool has_place_of_shard(const NumberedText& ranks, const std::string& axis, const Job& job,
                        const std::set<ListedLine>& proven) {
  const auto is_number = [&](const Expr& expr) {
    return expr.kind == ExprKind::number ||
           std::any_of(job.numbers.begin(), job.numbers.end(),
                       [&](const auto& let) { return let.first == to_string(expr); });
  };
  const std::string index = fmt::format("index({})", axis);
  bool found = false;
  for (const TextStatement& one : ranks.statements())
    for (const Expr* whole : one.whole)
      visit_parts(*whole, [&](const Expr& part) {
        if (part.symbol != "*" || proven.contains({one.listing, one.statement->place.line})) return;
        for (const size_t slot : {size_t{0}, size_t{1}})
          found = found || (to_string(part.args[slot]) == index && is_number(part.args[1 - slot]));
      });
  return found;
}

// True if a value is as far from one device in one case as in another. A step function (sign) has
// errors of one size: then the number of wrong elements is compared.
bool is_as_wrong(const Distance& a, const Distance& b) {
  return std::fabs(a.share - b.share) <= kAsWrong * b.share &&
         std::fabs(a.sum - b.sum) <= kAsWrong * b.sum;
}

std::set<std::string> right_values(const Distances& own) {
  std::set<std::string> names;
  for (const auto& [key, distance] : own)
    if (distance.share <= kStillRight) names.insert(key);
  return names;
}

bool sends_by_counts(const RankProgram& ranks) {
  for (const SpmdListing& listing : ranks.program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* call = std::get_if<Communicate>(&instr.action))
        for (const CallItem& item : call->items)
          if (has_counts(item.collective.kind)) return true;
  return false;
}

// Returns the number from which a clip such as minimum(0.5 / norm, 1.0) starts; null for another
// expression.
Expr* limit_of_clip(Expr& expr) {
  if (expr.kind != ExprKind::call || expr.symbol != "minimum" || expr.args.size() != 2)
    return nullptr;
  for (const size_t slot : {size_t{0}, size_t{1}})
    if (Expr& ratio = expr.args[slot]; ratio.symbol == "/" &&
                                       expr.args[1 - slot].kind == ExprKind::number &&
                                       ratio.args[0].kind == ExprKind::number)
      return &ratio.args[0];
  return nullptr;
}

// Raises the limits of clips, so that none is active. True if there is one.
bool raise_limits(Listing& listing) {
  bool any = false;
  std::vector<Statement> statements = listing.statements;
  visit_expressions(statements, [&](Expr& expr) {
    Expr* const limit = limit_of_clip(expr);
    if (limit == nullptr) return;
    limit->number = Number(std::ldexp(limit->number.real(), 40));
    any = true;
  });
  listing.statements = Statements(std::move(statements));
  return any;
}

}  // namespace

RankCase Confirmation::case_of(const VariedCase& varied) const {
  return {varied.job, varied.inputs, varied.ranks, varied.truth, about_.registries, about_.dtypes};
}

void Confirmation::vary() {
  if (std::exchange(is_varied_, true)) return;
  if (about_.integers != nullptr && !about_.integers->of_ranks.empty()) return;
  vary_clip();
  for (const int order : {0, 1}) vary_integers(order);
  const Mesh& mesh = about_.job.meshes[0].second;
  for (int axis = 0; axis < mesh.axis_count(); ++axis)
    if (mesh.axis_size(axis) > 1 && !vary_axis(axis, VariedShards::larger))
      vary_axis(axis, VariedShards::same);
}

// Returns true if the program has a case with one rank along the axis.
bool Confirmation::vary_axis(int axis, VariedShards shards) {
  if (is_spent()) return false;
  try {
    std::optional<Job> job = without_axis(about_.job, axis, shards);
    if (!job) return false;
    auto varied = std::make_unique<VariedCase>();
    varied->axis = axis;
    varied->shards = shards;
    varied->job = std::move(*job);
    varied->inputs = split_inputs(varied->job);
    varied->ranks = lower_ranks_of(varied->job, about_);
    varied->truth = lower_truth_of(varied->job, about_);
    varied->before = distances(case_of(*varied), varied->ranks);
    if (!varied->before.contains(key_) || !stays_right(before_, varied->before)) return false;
    const std::set<std::string> right = right_values(before_), wrong = wrong_values();
    ProvenLines proven{lines_to(about_.ranks, right, wrong),
                       truth_lines_to(about_.truth, right, wrong)};
    if (about_.job.truth)
      add_shared_products(about_.job.truth->statements, text(), proven.of_truth);
    const MeshAxis& of_mesh = about_.job.meshes[0].second.axes()[static_cast<size_t>(axis)];
    if (shards == VariedShards::larger &&
        has_place_of_shard(text(), of_mesh.name, about_.job, proven.of_ranks))
      return false;
    const int64_t size = of_mesh.size;
    if (is_made_for_its_mesh(about_, varied->ranks, varied->truth, size, proven)) return false;
    varied_.push_back(std::move(varied));
    return true;
  } catch (const Error&) {
    return false;  // the program does not allow this size, so it shows nothing
  }
}

// A clip that is active hides by how many times all gradients are too large.
void Confirmation::vary_clip() {
  if (is_spent() || !about_.job.truth) return;
  Job job = about_.job;
  bool any = false;
  for (JobListing& one : job.ranks) any = raise_limits(one.listing) || any;
  if (!raise_limits(*job.truth) || !any) return;
  try {
    auto varied = std::make_unique<VariedCase>();
    varied->job = std::move(job);
    varied->inputs = about_.inputs;
    varied->ranks = lower_ranks_of(varied->job, about_);
    varied->truth = lower_truth_of(varied->job, about_);
    varied->before = distances(case_of(*varied), varied->ranks);
    if (stays_right(before_, varied->before) && varied->before[key_].share > kStillRight)
      varied_.push_back(std::move(varied));
  } catch (const Error&) {
    // Without the clip a number leaves its range.
  }
}

// Programs that send by counts fit the whole numbers of their scenario alone.
void Confirmation::vary_integers(int order) {
  if (is_spent() || sends_by_counts(about_.ranks)) return;
  Job job = about_.job;
  bool any = false;
  for (JobInput& input : job.inputs)
    if (is_integral(input.data.dtype) && input.data.elements() > 1) {
      reorder(input.data, order == 0 ? IntegerOrder::ascending : IntegerOrder::shuffled);
      any = true;
    }
  if (!any) return;
  try {
    auto varied = std::make_unique<VariedCase>();
    varied->job = std::move(job);
    varied->inputs = split_inputs(varied->job);
    varied->ranks = about_.ranks;
    varied->truth = about_.truth;
    varied->before = distances(case_of(*varied), varied->ranks);
    if (!stays_right(before_, varied->before)) return;
    if (varied->before[key_].share > kStillRight) varied_.push_back(std::move(varied));
  } catch (const Error&) {
    // A number is out of range at its new place.
  }
}

bool Confirmation::refutes(const VariedCase& varied, const Change& change,
                           const std::vector<int>& axes) {
  const Distance& was = varied.before.at(key_);
  const double before = was.share;
  if (varied.axis < 0) return !improved(case_of(varied), varied.before, change);
  const bool is_own = std::find(axes.begin(), axes.end(), varied.axis) != axes.end();
  // Without one of several axes the change still corrects what the others make wrong.
  const bool is_one_of_several = axes.size() > 1 && varied.shards == VariedShards::same;
  if (is_own && !is_one_of_several && varied.shards == VariedShards::same)
    return before > kStillRight;
  if (is_own && !is_one_of_several) return is_as_wrong(was, before_.at(key_));
  if (is_spent()) return false;
  try {
    const std::optional<RankProgram> changed = change(case_of(varied));
    if (!changed) return false;
    const Distances after = distances(case_of(varied), *changed);
    const auto found = after.find(key_);
    if (found == after.end() || found->second.share <= kStillRight) return false;
    // An error that the change leaves as it is has another cause.
    return before <= kStillRight || std::fabs(found->second.sum - was.sum) <= kAsWrong * was.sum;
  } catch (const Error&) {
    return false;
  }
}

bool Confirmation::is_right_on_other_meshes(const ChangeOfJob& change,
                                            const std::vector<int>& axes) {
  const Mesh& mesh = about_.job.meshes[0].second;
  std::set<int> untested(axes.begin(), axes.end());
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    if (mesh.axis_size(axis) == 1) continue;
    if (is_spent()) return false;
    try {
      const std::optional<Job> job = without_axis(about_.job, axis, VariedShards::larger);
      if (!job) continue;
      const Job changed = change(*job);
      const std::vector<LocalTensor> inputs = split_inputs(changed);
      const RankProgram ranks = lower_ranks_of(changed, about_);
      const GlobalProgram truth = lower_truth_of(changed, about_);
      const RankCase smaller{changed, inputs, ranks, truth, about_.registries, about_.dtypes};
      const Distances found = distances(smaller, ranks);
      const auto own = found.find(key_);
      if (own == found.end()) continue;
      if (!(own->second.share <= kStillRight)) return false;
      untested.erase(axis);
    } catch (const Error&) {
      // The program does not allow this size, so it shows nothing.
    }
  }
  return untested.empty();
}

std::optional<bool> Confirmation::is_right_without(int axis) {
  vary();
  for (const std::unique_ptr<VariedCase>& varied : varied_)
    if (varied->axis == axis) return varied->before.at(key_).share <= kStillRight;
  return std::nullopt;
}

bool Confirmation::is_varied() {
  vary();
  return moved_ || std::any_of(varied_.begin(), varied_.end(),
                               [](const auto& varied) { return varied->axis < 0; });
}

}  // namespace shardproof
