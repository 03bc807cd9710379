// Implements check_expectations.h. Steps: compare the verdicts; if they are equal, compare the
// place of the leading finding. Then compare numbers of calls and bytes by rank, local shapes,
// placements, elements of values, time and memory. Each check adds entries {what, expected, got}.
#include "shardproof/scenarios/run/check_expectations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "shardproof/scenarios/model/fill.h"

namespace shardproof {
namespace {

using Misses = std::vector<ExpectationFailure>;

// Names of all verdicts found, joined by commas. `imprecise` is listed only if it is the only one.
std::string verdicts_text(const std::vector<Finding>& findings) {
  std::string out;
  for (int i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (verdict == Verdict::imprecise && !out.empty()) continue;
    const bool found = std::any_of(findings.begin(), findings.end(),
                                   [&](const Finding& f) { return f.verdict == verdict; });
    if (found) out += (out.empty() ? "" : ", ") + std::string(name(verdict));
  }
  return out.empty() ? "clean" : out;
}

std::string found_number_text(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : to_string(Number(value));
}

std::string found_number_text(int64_t value) { return std::to_string(value); }

Misses missed_place(const Expect& expect, const Finding& finding) {
  Misses out;
  const auto number = [&](const char* what, const std::optional<Condition>& wanted, auto got,
                          const std::string& shown) {
    if (wanted && !wanted->holds(got)) out.push_back({what, to_string(*wanted), shown});
  };
  number("line", expect.line, finding.line, std::to_string(finding.line));
  number("call", expect.call, finding.call, std::to_string(finding.call));
  if (expect.ratio && !finding.ratio)
    out.push_back({"ratio", to_string(*expect.ratio), "none"});
  else if (finding.ratio)
    number("ratio", expect.ratio, *finding.ratio, found_number_text(*finding.ratio));
  if (expect.ranks && !(*expect.ranks == finding.ranks))
    out.push_back({"ranks", to_string(*expect.ranks), to_string(finding.ranks)});
  if (!expect.name.empty() && expect.name != finding.name)
    out.push_back({"name", expect.name, finding.name.empty() ? "none" : finding.name});
  return out;
}

void check_finding_count(const char* what, const std::optional<Condition>& wanted, size_t count,
                         Misses& out) {
  const auto got = static_cast<int64_t>(count);
  if (wanted && !wanted->holds(got)) out.push_back({what, to_string(*wanted), std::to_string(got)});
}

// Compares line, ranks, name, ratio and call with the finding that gives the verdict.
void check_place(const Expect& expect, const std::vector<Finding>& findings, Misses& out) {
  const Finding* leading = leading_finding(findings);
  if (leading == nullptr) return;
  Misses of_leading = missed_place(expect, *leading);
  if (of_leading.empty()) return;
  // `line` means the first wrong line for findings of values, and any finding for the others.
  const bool ordered = expect.verdict == Verdict::wrong_values ||
                       expect.verdict == Verdict::replicas_differ ||
                       expect.verdict == Verdict::imprecise;
  if (!ordered)
    for (const Finding& finding : findings)
      if (finding.verdict == expect.verdict && missed_place(expect, finding).empty()) return;
  out.insert(out.end(), of_leading.begin(), of_leading.end());
}

void check_findings(const Expect& expect, const Outcome& outcome, Misses& out) {
  const std::vector<Finding>& findings = outcome.findings;
  const std::string wanted(name(expect.verdict));
  std::string got = verdicts_text(findings);
  // The loss of a process is not a property of the program.
  if (outcome.world.broken) got += ", because a process was lost";
  if (wanted != got) {
    out.push_back({"verdict", wanted, got});
    return;
  }
  check_finding_count("findings", expect.findings, findings.size(), out);
  check_place(expect, findings, out);
}

// A quantity by rank.
using PerRank = std::vector<Fraction>;

// Adds one entry for each value that does not meet its condition, with the ranks that have it.
void check_ranks(const std::string& what, const std::vector<RankCondition>& wanted,
                 const PerRank& got, Misses& out) {
  for (const RankCondition& condition : wanted) {
    std::map<Fraction, std::vector<int32_t>> wrong;
    for (int64_t i = 0; i < condition.lanes.size(); ++i) {
      const int32_t rank = condition.lanes[i];
      const Fraction value = got[static_cast<size_t>(rank)];
      if (!condition.condition.holds(value)) wrong[value].push_back(rank);
    }
    for (auto& [value, ranks] : wrong)
      out.push_back({fmt::format("{} of ranks {}", what, to_string(Lanes::of(std::move(ranks)))),
                     to_string(condition.condition), to_string(value)});
  }
}

PerRank sum_over_calls(const Outcome& outcome, int64_t world,
                       const std::function<Fraction(const CallCount&)>& value_of) {
  PerRank sums(static_cast<size_t>(world));
  for (const CallCount& call : outcome.calls) {
    const Fraction value = value_of(call);
    if (value == Fraction(0)) continue;
    for (int64_t i = 0; i < call.lanes.size(); ++i) {
      Fraction& sum = sums[static_cast<size_t>(call.lanes[i])];
      sum = sum + value;
    }
  }
  return sums;
}

std::string calls_text(const std::string& kind, const std::string& group) {
  return group.empty() ? fmt::format("calls of {}", kind)
                       : fmt::format("calls of {} over {}", kind, group);
}

bool covers(const ExpectCalls& expected, const CallCount& call) {
  return expected.kind == call.kind && (expected.group.empty() || expected.group == call.group);
}

void check_collectives(const Expect& expect, const Outcome& outcome, int64_t world, Misses& out) {
  for (const ExpectCalls& wanted : expect.collectives) {
    const PerRank counts = sum_over_calls(outcome, world, [&](const CallCount& call) {
      return Fraction(covers(wanted, call) ? call.count : 0);
    });
    check_ranks(calls_text(wanted.kind, wanted.group), wanted.counts, counts, out);
  }
  if (expect.any_collectives) return;
  for (const CallCount& call : outcome.calls) {
    const bool named = std::any_of(expect.collectives.begin(), expect.collectives.end(),
                                   [&](const ExpectCalls& wanted) { return covers(wanted, call); });
    if (!named && call.count > 0)
      out.push_back(
          {fmt::format("{} of ranks {}", calls_text(call.kind, call.group), to_string(call.lanes)),
           "none", std::to_string(call.count)});
  }
}

const ValueInfo* find_value(const Outcome& outcome, const std::string& name, const char* what,
                            Misses& out) {
  const auto found = outcome.values.find(name);
  if (found != outcome.values.end()) return &found->second;
  NearestName nearest(name);
  for (const auto& [known, value] : outcome.values) nearest.offer(known);
  out.push_back(
      {fmt::format("{} of {}", what, name), "a value of this name", "none" + nearest.hint()});
  return nullptr;
}

std::string shape_on(const ValueInfo& value, const Lanes& lanes, const Dims& wanted) {
  Lanes covered;
  for (const LocalShape& local : value.shapes) {
    const Lanes both = local.lanes.intersect(lanes);
    if (both.empty()) continue;
    if (!(local.shape == wanted))
      return fmt::format("{} on ranks {}", to_string(local.shape), to_string(both));
    covered = covered.unite(both);
  }
  const Lanes without = lanes.minus(covered);
  return without.empty() ? "" : fmt::format("nothing on ranks {}", to_string(without));
}

void check_local(const Expect& expect, const Outcome& outcome, Misses& out) {
  for (const ExpectShapes& wanted : expect.local) {
    const ValueInfo* value = find_value(outcome, wanted.name, "local shape", out);
    if (value == nullptr) continue;
    for (const LocalShape& local : wanted.shapes) {
      const std::string got = shape_on(*value, local.lanes, local.shape);
      if (!got.empty())
        out.push_back(
            {fmt::format("local shape of {} on ranks {}", wanted.name, to_string(local.lanes)),
             to_string(local.shape), got});
    }
  }
}

void check_placements(const Expect& expect, const Outcome& outcome, Misses& out) {
  for (const ExpectPlacements& wanted : expect.placements) {
    const ValueInfo* value = find_value(outcome, wanted.name, "placements", out);
    if (value == nullptr) continue;
    const std::string what = fmt::format("placements of {}", wanted.name);
    if (!value->spec) {
      out.push_back({what, wanted.text, "not known"});
      continue;
    }
    const Spec& got = *value->spec;
    const Spec spec = Spec::parse(wanted.text, got.mesh(), got.shape(), got.dtype());
    if (!(spec == got)) out.push_back({what, placements_text(spec), placements_text(got)});
  }
}

// A decimal number of a file cannot state the bits of a rounded result, so 4 units in the last
// place are allowed. Whole numbers must be equal.
bool element_equals(const Number& wanted, double got, DType dtype) {
  const double value =
      rounded_to(wanted.is_bool() ? (wanted.truth() ? 1 : 0) : wanted.real(), dtype);
  if (value == got || (std::isnan(value) && std::isnan(got))) return true;
  if (!is_floating(dtype) || value == std::floor(value)) return false;
  return std::abs(value - got) <= 4 * std::ldexp(std::abs(value), 1 - precision_bits(dtype));
}

// Compares elements of integer dtypes as integers, because a double does not hold every integer of
// 64 bits.
bool element_equals(const Number& wanted, int64_t got, DType dtype) {
  const bool whole =
      wanted.is_integer() || (wanted.is_double() && std::trunc(wanted.real()) == wanted.real());
  if (whole) return Condition::equal_to(wanted).holds(got);
  return element_equals(wanted, static_cast<double>(got), dtype);
}

std::string element_index_text(const Dims& index) { return index.empty() ? "" : to_string(index); }

const Number& wanted_element(const ExpectValues& wanted, size_t i) {
  return wanted.all ? *wanted.all : wanted.elements[i];
}

template <typename Element>
bool is_as_wanted(const ExpectValues& wanted, size_t i, Element got, DType dtype) {
  return wanted.each ? wanted.each->holds(got)
                     : element_equals(wanted_element(wanted, i), got, dtype);
}

std::vector<int64_t> integers_of(const Tensor& value) {
  const Tensor dense = contiguous_copy(value);
  std::vector<int64_t> out(static_cast<size_t>(value.elements()));
  convert(dense.data(), value.dtype, reinterpret_cast<std::byte*>(out.data()), DType::i64,
          value.elements());
  return out;
}

template <typename Element>
void check_each(const ExpectValues& wanted, const Tensor& value, const std::vector<Element>& got,
                const std::string& holder, Misses& out) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (is_as_wanted(wanted, i, got[i], value.dtype)) continue;
    const Dims index = unravel(static_cast<int64_t>(i), value.shape);
    out.push_back({fmt::format("{}{}{}", wanted.name, element_index_text(index), holder),
                   wanted.each ? to_string(*wanted.each) : to_string(wanted_element(wanted, i)),
                   found_number_text(got[i])});
    return;  // one element is enough for a report
  }
}

std::string complex_text(const std::string& real, double imaginary) {
  const std::string text = found_number_text(imaginary);
  return fmt::format("{}{}{}j", real, text.starts_with('-') ? "" : "+", text);
}

// A number without an imaginary part means a real one.
void check_complex(const ExpectValues& wanted, const Tensor& value, const std::string& holder,
                   Misses& out) {
  const Tensor dense = contiguous_copy(value);
  const DType part = component_dtype(value.dtype);
  const int64_t bytes = size_of(part);
  for (int64_t i = 0; i < value.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double real = load_f64(dense.data() + 2 * i * bytes, part);
    const double imaginary = load_f64(dense.data() + (2 * i + 1) * bytes, part);
    const double wanted_imaginary =
        wanted.imaginary.empty() ? 0 : wanted.imaginary[wanted.all ? 0 : at];
    if (is_as_wanted(wanted, at, real, part) &&
        element_equals(Number(wanted_imaginary), imaginary, part))
      continue;
    const Dims index = unravel(i, value.shape);
    const std::string text =
        wanted.each ? to_string(*wanted.each) : to_string(wanted_element(wanted, at));
    out.push_back({fmt::format("{}{}{}", wanted.name, element_index_text(index), holder),
                   wanted.imaginary.empty() ? text : complex_text(text, wanted_imaginary),
                   complex_text(found_number_text(real), imaginary)});
    return;  // one element is enough for a report
  }
}

// `holder` is " on rank 1" if ranks hold different values, else empty.
void check_elements(const ExpectValues& wanted, const Tensor& value, const std::string& holder,
                    Misses& out) {
  const std::string what = fmt::format("values of {}{}", wanted.name, holder);
  if (!wanted.each && !wanted.all && !(wanted.shape == value.shape)) {
    out.push_back({what, "shape " + to_string(wanted.shape), "shape " + to_string(value.shape)});
    return;
  }
  if (!wanted.imaginary.empty() && !is_complex(value.dtype)) {
    out.push_back({what, "complex numbers", fmt::format("real ones of {}", name(value.dtype))});
    return;
  }
  if (is_complex(value.dtype))
    check_complex(wanted, value, holder, out);
  else if (is_integral(value.dtype))
    check_each(wanted, value, integers_of(value), holder, out);
  else
    check_each(wanted, value, values_of(value), holder, out);
}

void check_values(const Expect& expect, const Outcome& outcome, Misses& out) {
  for (const ExpectValues& wanted : expect.values) {
    const ValueInfo* value = find_value(outcome, wanted.name, "values", out);
    if (value == nullptr) continue;
    if (value->value) {
      check_elements(wanted, *value->value, "", out);
    } else if (!value->copies.empty()) {
      const size_t before = out.size();
      for (const RecordedShard& copy : value->copies)
        if (out.size() == before)  // one rank is enough for a report
          check_elements(wanted, copy.tensor, fmt::format(" on rank {}", copy.lanes[0]), out);
    } else {
      out.push_back({fmt::format("values of {}", wanted.name), "known elements",
                     "unknown ones: no truth or placement defines the whole value"});
    }
  }
}

void check_machine(const Expect& expect, const Outcome& outcome, Misses& out) {
  const WorldReport& world = outcome.world;
  if (expect.time && !expect.time->holds(world.time.ps))
    out.push_back({"time", to_string(*expect.time), to_string(world.time)});
  if (expect.peak && !expect.peak->holds(world.peak_bytes))
    out.push_back({"peak", to_string(*expect.peak), fmt::format("{} bytes", world.peak_bytes)});
}

}  // namespace

std::vector<ExpectationFailure> unmet_expectations(const Expect& expect, const Outcome& outcome,
                                                   const Job& job) {
  Misses out;
  check_findings(expect, outcome, out);
  check_finding_count("values not decided", expect.undecided, outcome.undecided.size(), out);
  check_collectives(expect, outcome, job.world, out);
  for (const ExpectBytes& wanted : expect.bytes) {
    const PerRank bytes = sum_over_calls(outcome, job.world, [&](const CallCount& call) {
      return call.group == wanted.group ? call.bytes : Fraction(0);
    });
    check_ranks(fmt::format("bytes sent over {}", wanted.group), wanted.bytes, bytes, out);
  }
  check_local(expect, outcome, out);
  check_placements(expect, outcome, out);
  check_values(expect, outcome, out);
  check_machine(expect, outcome, out);
  return out;
}

std::vector<ExpectationFailure> unmet_expectations(const Expect& expect, const Error& error) {
  Misses out;
  if (expect.verdict != Verdict::bad_input)
    out.push_back({"verdict", std::string(name(expect.verdict)), "bad input"});
  if (error.message().find(expect.error) == std::string::npos)
    out.push_back({"error", expect.error, error.message()});
  if (expect.line && !expect.line->holds(error.where().line))
    out.push_back({"line", to_string(*expect.line), std::to_string(error.where().line)});
  return out;
}

}  // namespace shardproof
