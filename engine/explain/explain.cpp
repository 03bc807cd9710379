// Implements explain.h.
//
// A cause is stated only if the numbers prove it:
// - placements under which the value is right (Difference::find_matching_spec);
// - an error that is k times another value of the program, where k + 1 is the size of a partial
//   axis: the value was added on each rank before the sum. Example: y is tp:P(sum) on tp=4 and
//   every element is off by 3 * b, so b is counted 4 times.
// A constant ratio that equals the size of an axis is a hint, because it may be a coincidence.
#include "shardproof/engine/explain/explain.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// A ratio of narrow floats has six digits.
std::string ratio_text(double ratio) { return fmt::format("{:.6g}", ratio); }

std::string index_text(const std::string& name, int64_t flat, const Dims& shape) {
  if (shape.empty()) return name;
  const Dims index = unravel(flat, shape);
  std::string text = name + "[";
  for (int d = 0; d < index.size(); ++d) text += fmt::format("{}{}", d ? ", " : "", index[d]);
  return text + "]";
}

std::string owners_text(const Lanes& owners, const Spec& spec) {
  if (owners == spec.mesh().ranks()) return "all ranks";
  if (owners.size() == 1) return fmt::format("rank {}", owners[0]);
  return fmt::format("ranks {}", to_string(owners));
}

// True if no rank holds the right value of the first wrong element.
bool is_wrong_everywhere(const Difference& difference, const Spec& spec) {
  int64_t copies = 1;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_replicate()) copies *= spec.mesh().axis_size(axis);
  return spec.has_partial() || difference.first_owners.size() >= copies;
}

// Returns each value at the first wrong element with the ranks that hold it.
std::vector<std::pair<std::string, std::vector<int32_t>>> got_values(const Difference& difference,
                                                                     int digits = kDigitsOfF32) {
  std::vector<std::pair<std::string, std::vector<int32_t>>> values;
  for (const auto& [rank, got] : difference.got_by_rank) {
    const std::string text = element_text(got, digits);
    const auto known = std::find_if(values.begin(), values.end(),
                                    [&](const auto& entry) { return entry.first == text; });
    if (known != values.end())
      known->second.push_back(rank);
    else
      values.push_back({text, {rank}});
  }
  return values;
}

// Returns one number if all owners hold the same, else the first few with their ranks.
std::string got_text(const Difference& difference, int digits) {
  const auto values = got_values(difference, digits);
  if (values.size() < 2) return element_text(element_of(difference.got, difference.first), digits);
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i) {
    const Lanes ranks = Lanes::of(values[i].second);
    text += fmt::format("{}{} on {} {}", i == 0 ? "" : ", ", values[i].first,
                        ranks.size() == 1 ? "rank" : "ranks", to_string(ranks));
  }
  return values.size() > kShown ? text + ", ..." : text;
}

// Returns the axes whose size is this number, joined by "or of". If the value is partial over some
// of them, the others are left out.
std::string axes_of_size(const Spec& spec, double size) {
  std::string all, partial;
  for (int i = 0; i < spec.mesh().axis_count(); ++i) {
    const MeshAxis& axis = spec.mesh().axes()[static_cast<size_t>(i)];
    if (axis.size < 2 || std::abs(size - static_cast<double>(axis.size)) >= 1e-6 * size) continue;
    all += (all.empty() ? "" : " or of ") + axis.name;
    if (spec.placement(i).is_partial()) partial += (partial.empty() ? "" : " or of ") + axis.name;
  }
  return partial.empty() ? all : partial;
}

// Returns a possible origin of a ratio; "" if no axis has this size.
std::string ratio_hint(double ratio, const Spec& spec) {
  if (const std::string axes = axes_of_size(spec, ratio); !axes.empty())
    return fmt::format(
        "the ratio is the size of {}: a sum over it may count each rank, or be made twice", axes);
  if (const std::string axes = axes_of_size(spec, 1 / ratio); !axes.empty())
    return fmt::format(
        "the ratio is 1 / the size of {}: a sum over it may be missing, or an average be taken "
        "twice",
        axes);
  return "";
}

// A multiple of another value of the program.
struct Multiple {
  std::string of;
  double factor = 0;
};

std::optional<Multiple> multiple_among_values(const WrongValue& wrong,
                                              const std::optional<TensorNumbers>& numbers,
                                              const ReferenceRun& reference) {
  if (!numbers || numbers->values.size() > 1 << 20) return std::nullopt;
  const bool complex = is_complex(reference.plan().info(wrong.global).dtype);
  for (ValueId other = 0; other < wrong.global; ++other) {
    const GlobalValue& value = reference.plan().info(other);
    if (value.weak || value.name.empty()) continue;
    const Tensor* held = reference.find(other);
    if (held == nullptr || is_complex(held->dtype) != complex) continue;
    const std::optional<TensorNumbers> others = exact_numbers_of(*held);
    if (!others) continue;
    const std::optional<double> k = multiple_of(*numbers, *others);
    if (k && std::abs(*k) <= 1e6) return Multiple{value.name, *k};
  }
  return std::nullopt;
}

bool is_others_of(const Multiple& off, const MeshAxis& axis) {
  const double others = static_cast<double>(axis.size - 1);
  return std::abs(off.factor - others) <= 1e-6 * others;
}

// Adds the hint for a reduced value that holds another value once for each rank.
void explain_repeated(const WrongValue& wrong, const Multiple& off, Finding& finding) {
  std::string axes;
  for (int axis = 0; axis < wrong.spec.mesh().axis_count(); ++axis) {
    const MeshAxis& a = wrong.spec.mesh().axes()[static_cast<size_t>(axis)];
    if (a.size > 1 && wrong.spec.placement(axis).is_replicate() && is_others_of(off, a))
      axes += (axes.empty() ? "" : " or ") + a.name;
  }
  if (axes.empty()) return;
  finding.details.push_back(fmt::format(
      "hint    {} is in the result {} times, as if each rank of {} had added it before the sum",
      off.of, float_text(off.factor + 1), axes));
}

// True if some error is a share of the largest number that multiple_of resolves.
bool are_large(const std::optional<TensorNumbers>& errors, const Tensor& got) {
  constexpr double kResolved = 1e-3;
  if (!errors) return true;
  double largest = 0;
  for (const double error : errors->values) largest = std::max(largest, std::abs(error));
  return largest > kResolved * largest_element(got);
}

void explain_multiple(const WrongValue& wrong, const Difference& difference,
                      const ReferenceRun& reference, Finding& finding) {
  const std::optional<TensorNumbers> errors = errors_of(difference);
  // The value itself is a multiple of what it should be if the errors are small.
  const std::optional<Multiple> held =
      are_large(errors, difference.got)
          ? multiple_among_values(wrong, exact_numbers_of(difference.got), reference)
          : std::nullopt;
  if (held) {
    const std::string times =
        held->factor == 1 ? "" : fmt::format("{} x ", float_text(held->factor));
    finding.details.push_back(fmt::format("the ranks hold {}{} instead", times, held->of));
    return;
  }
  const std::optional<Multiple> off = multiple_among_values(wrong, errors, reference);
  if (!off) return;
  finding.details.push_back(
      fmt::format("every element is off by {} x {}", float_text(off->factor), off->of));
  std::vector<int> axes;
  for (const int axis : wrong.spec.partial_axes())
    if (is_others_of(*off, wrong.spec.mesh().axes()[static_cast<size_t>(axis)]))
      axes.push_back(axis);
  if (axes.size() == 1) {
    const MeshAxis& a = wrong.spec.mesh().axes()[static_cast<size_t>(axes.front())];
    finding.details.push_back(
        fmt::format("cause   {} is added on each of the {} ranks of {} to a {}", off->of, a.size,
                    a.name, to_string(wrong.spec.placement(axes.front()))));
    finding.fix = fmt::format("add {} after the reduction, or on one rank of {}", off->of, a.name);
    return;
  }
  explain_repeated(wrong, *off, finding);
}

// Adds the cause and the fix if other placements would make the value right.
void explain_placements(const WrongValue& wrong, const Spec& right, Finding& finding) {
  std::string axes;
  int first = -1;
  for (int axis = 0; axis < right.mesh().axis_count(); ++axis) {
    if (right.placement(axis) == wrong.spec.placement(axis)) continue;
    if (first < 0) first = axis;
    axes += fmt::format("{}{}", axes.empty() ? "" : " and ",
                        right.mesh().axes()[static_cast<size_t>(axis)].name);
  }
  if (first < 0) return;
  if (!right.placement(first).is_partial()) {
    finding.details.push_back(
        fmt::format("cause   each rank of {} holds the whole value, and {} counts it {} times",
                    axes, to_string(wrong.spec.placement(first)),
                    right.mesh().axes()[static_cast<size_t>(first)].size));
    finding.fix = fmt::format("declare it as {}", placements_text(right));
    return;
  }
  const bool sum = right.placement(first).partial().reduction.op == ReduceOp::sum;
  finding.details.push_back(fmt::format(
      "cause   the {} of the values on the ranks of {} is right: it was never reduced over {}",
      sum ? "sum" : "average", axes, axes));
  finding.fix = fmt::format("reduce it over {}, or declare it as {}", axes, placements_text(right));
}

std::string expected_text(const Difference& difference, int digits) {
  return element_text(element_of(difference.truth, difference.first), digits);
}

// The numbers that a finding shows: those in the program's own dtypes if these show the difference.
struct Shown {
  const Difference& difference;
  bool in_f64 = false;  // the program's own dtypes are others
};

Shown shown_numbers(const Difference& difference, const Difference* own) {
  if (own == nullptr) return {difference, false};
  const std::string expected = expected_text(*own, kDigitsOfF32);
  const bool differs = std::any_of(
      own->got_by_rank.begin(), own->got_by_rank.end(),
      [&](const auto& entry) { return element_text(entry.second, kDigitsOfF32) != expected; });
  if (differs) return {*own, false};
  return {difference, !(own->truth.dtype == difference.truth.dtype)};
}

// Returns the digits that distinguish the expected number from those that ranks hold.
int digits_of(const Difference& difference) {
  const Element expected = element_of(difference.truth, difference.first);
  const std::string text = expected_text(difference, kDigitsOfF32);
  const auto looks_right = [&](const Element& got) {
    return differ(got, expected) && element_text(got, kDigitsOfF32) == text;
  };
  const bool hides = looks_right(element_of(difference.got, difference.first)) ||
                     std::any_of(difference.got_by_rank.begin(), difference.got_by_rank.end(),
                                 [&](const auto& entry) { return looks_right(entry.second); });
  return hides ? kDigitsOfF64 : kDigitsOfF32;
}

std::string name_of_wrong_value(const WrongValue& wrong) {
  return wrong.label.name.empty() ? "a value inside the line" : wrong.label.name;
}

// Returns "y[0, 2]", or "element [0, 2] of a value inside the line".
std::string shown_element(const WrongValue& wrong, int64_t flat, const Dims& shape) {
  if (!wrong.label.name.empty() || shape.empty())
    return index_text(name_of_wrong_value(wrong), flat, shape);
  return fmt::format("element {} of {}", index_text("", flat, shape), name_of_wrong_value(wrong));
}

// Returns the replicated axes: "dp", "dp and cp".
std::string replicated_axes(const Spec& spec) {
  std::string axes;
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis) {
    const MeshAxis& a = spec.mesh().axes()[static_cast<size_t>(axis)];
    if (a.size > 1 && spec.placement(axis).is_replicate())
      axes += (axes.empty() ? "" : " and ") + a.name;
  }
  return axes;
}

std::string replicas_text(const std::string& name, const DifferingElement& element,
                          const Spec& spec) {
  constexpr size_t kShown = 3;
  std::string held;
  for (size_t i = 0; i < std::min(element.held.size(), kShown); ++i) {
    const auto& [text, ranks] = element.held[i];
    held += fmt::format("{}{} on {} {}", i == 0 ? "" : ", ", text,
                        ranks.size() == 1 ? "rank" : "ranks", to_string(ranks));
  }
  if (element.held.size() > kShown) held += ", ...";
  const int64_t all = element_count(spec.shape());
  return fmt::format("{} should be the same on all ranks of {}: {}; {} of {} element{} differ{}",
                     index_text(name, element.first, spec.shape()), replicated_axes(spec), held,
                     element.count, all, all == 1 ? "" : "s", element.count == 1 ? "s" : "");
}

// Returns a finding with the place of the value, and no text.
Finding finding_about(const WrongValue& wrong, Verdict verdict, const Lanes& ranks) {
  Finding finding;
  finding.verdict = verdict;
  finding.line = wrong.label.line;
  finding.name = wrong.label.name;
  finding.instance = wrong.label.instance;
  finding.ranks = ranks;
  return finding;
}

}  // namespace

Finding explain_difference(const WrongValue& wrong, const Difference& difference,
                           const Difference* own, const ReferenceRun& reference) {
  const Tensor& expected = difference.truth;
  Finding finding = finding_about(wrong, Verdict::wrong_values, difference.ranks);
  finding.ratio = constant_ratio(difference);
  const std::string shown = name_of_wrong_value(wrong);
  const Shown numbers = shown_numbers(difference, own);
  finding.element = shown_element(wrong, numbers.difference.first, expected.shape);
  const int digits = digits_of(numbers.difference);
  finding.expected = expected_text(numbers.difference, digits);
  finding.got = got_text(numbers.difference, digits);
  finding.headline = fmt::format("{} on {}: expected {}, got {}", finding.element,
                                 owners_text(numbers.difference.first_owners, wrong.spec),
                                 finding.expected, finding.got);
  finding.details.push_back(
      wrong.label.line > 0
          ? fmt::format("first wrong line   {}   {}", wrong.label.line, wrong.label.text)
          : fmt::format("no line of the ranks binds {}: they hold the tensor of the file", shown));
  const DType dtype = own != nullptr ? own->truth.dtype : expected.dtype;
  finding.details.push_back(fmt::format(
      "{} of {} element{} {} wrong; {} is {} {}", difference.elements, expected.elements(),
      expected.elements() == 1 ? "" : "s", difference.elements == 1 ? "is" : "are", shown,
      name(dtype), placements_text(wrong.spec)));
  if (numbers.in_f64)
    finding.details.push_back(fmt::format(
        "these are numbers of a run with all floats in f64; in {} both round to the same",
        name(dtype)));
  std::string hint;
  if (finding.ratio) {
    if (*finding.ratio != 0) hint = ratio_hint(*finding.ratio, wrong.spec);
    // One number is a multiple of any other, and copies that differ have no common ratio.
    const bool meaningful = expected.elements() > 1 && got_values(difference).size() == 1;
    if (*finding.ratio == 0)
      finding.details.push_back(is_wrong_everywhere(difference, wrong.spec)
                                    ? "every element is 0"
                                    : "every wrong element is 0");
    else if (meaningful || !hint.empty())
      finding.details.push_back(
          fmt::format("every element is {} x what it should be", ratio_text(*finding.ratio)));
  } else if (wrong.label.line > 0) {
    explain_multiple(wrong, difference, reference, finding);
  }
  if (wrong.spec.has_partial() && !std::isfinite(magnitude_at(expected, difference.first))) {
    finding.details.push_back(
        "cause   the product is not finite there, and the parts of a sum do not add up to it");
    finding.fix = "reduce the sum before this line";
  }
  if (difference.find_matching_spec && finding.fix.empty())
    explain_placements(wrong, *difference.find_matching_spec, finding);
  if (!hint.empty() && finding.fix.empty()) finding.details.push_back(kHintLabel + hint);
  return finding;
}

Finding explain_replicas(const WrongValue& wrong, const ReplicaDifference& difference) {
  Finding finding = finding_about(wrong, Verdict::replicas_differ, difference.ranks);
  const std::string shown = name_of_wrong_value(wrong);
  finding.headline =
      difference.element
          ? replicas_text(shown, *difference.element, wrong.spec)
          : fmt::format("{} should be the same on ranks {} and {}, but its bits differ", shown,
                        difference.first, difference.other);
  finding.details.push_back(fmt::format("line {}   {}", wrong.label.line, wrong.label.text));
  finding.details.push_back(fmt::format("declared {}", placements_text(wrong.spec)));
  return finding;
}

}  // namespace shardproof
