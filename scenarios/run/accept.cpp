// Implements accept.h. Steps: find the "expect" object of each phase in the text. Make the JSON
// text of its two keys from the calls of the phase; refuse if cases that share the object differ.
// Replace the values, or insert missing keys after the last one of their object.
#include "shardproof/scenarios/run/accept.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "shardproof/localtensor/base/fraction.h"
#include "shardproof/scenarios/json/json_spans.h"
#include "shardproof/scenarios/json/json_tree.h"

namespace shardproof {
namespace {

using RankCounts = std::vector<Fraction>;  // one for each rank

// A number for all ranks, or an object from rank selector to number.
std::string counts_json(const RankCounts& counts) {
  const auto number = [](const Fraction& value) {
    return value.den() == 1 ? to_string(value) : quoted_json(to_string(value));
  };
  std::map<Fraction, std::vector<int32_t>> ranks;
  for (size_t i = 0; i < counts.size(); ++i) ranks[counts[i]].push_back(static_cast<int32_t>(i));
  if (ranks.size() == 1) return number(counts[0]);
  std::string out;
  for (auto& [value, list] : ranks)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ",
                       quoted_json(to_string(Lanes::of(std::move(list)))), number(value));
  return "{" + out + "}";
}

std::string object_json(const std::map<std::string, RankCounts>& entries) {
  std::string out;
  for (const auto& [key, counts] : entries)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quoted_json(key), counts_json(counts));
  return "{" + out + "}";
}

// The two values of an `expect` as JSON text.
struct MeasuredCounts {
  std::string collectives, bytes;
  bool operator==(const MeasuredCounts&) const = default;
};

MeasuredCounts counts_of(const Outcome& outcome, int64_t world) {
  std::map<std::string, RankCounts> calls, bytes;
  const auto add = [&](std::map<std::string, RankCounts>& to, const std::string& key,
                       const CallCount& call, const Fraction& value) {
    RankCounts& counts = to[key];
    counts.resize(static_cast<size_t>(world));
    for (int64_t i = 0; i < call.lanes.size(); ++i) {
      Fraction& sum = counts[static_cast<size_t>(call.lanes[i])];
      sum = sum + value;
    }
  };
  for (const CallCount& call : outcome.calls) {
    if (call.count == 0) continue;
    add(calls, call.kind + " " + call.group, call, Fraction(call.count));
    add(bytes, call.group, call, call.bytes);
  }
  return {object_json(calls), object_json(bytes)};
}

bool concerns_counts(const ExpectationFailure& miss) {
  return miss.what.starts_with("calls of ") || miss.what.starts_with("bytes sent ");
}

bool misses(const PhaseResult& phase, std::string_view what) {
  return std::any_of(phase.missed.begin(), phase.missed.end(),
                     [&](const ExpectationFailure& miss) { return miss.what.starts_with(what); });
}

// Returns why the counts of a case are not accepted, or "".
std::string refusal_reason(const CaseResult& one) {
  if (one.error) return "it is bad input";
  if (one.expected != Verdict::clean) return fmt::format("it expects {}", name(one.expected));
  for (const PhaseResult& phase : one.phases) {
    if (!phase.outcome.findings.empty())
      return fmt::format("it is not clean: {}", name(phase.outcome.findings[0].verdict));
    for (const ExpectationFailure& miss : phase.missed)
      if (!concerns_counts(miss)) return fmt::format("{} is not as expected", miss.what);
  }
  return "";
}

// New values for one `expect` object of the text.
struct NewCounts {
  MeasuredCounts counts;
  bool calls = false, bytes = false;  // which of the two values a case misses
  bool differ = false;                // cases that share the object have different counts
};

// Replaces and inserts values of one object after the other.
class TextEdit {
 public:
  explicit TextEdit(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

  // Sets the value at the pointer. An object that is missing is added, too.
  void set(const std::string& pointer, const std::string& value) {
    const JsonSpans spans(text_);
    if (const auto span = spans.find(pointer)) {
      text_.replace(span->begin, span->end - span->begin, value);
      return;
    }
    const size_t slash = pointer.rfind('/');
    const std::string above = pointer.substr(0, slash), key = pointer.substr(slash + 1);
    const auto object = spans.find(above);
    if (object)
      insert(*object, fmt::format("\"{}\": {}", key, value), spans);
    else
      set(above, fmt::format("{{\"{}\": {}}}", key, value));
  }

 private:
  // Inserts a member after the last one: on a line of its own if the closing brace is on a line of
  // its own.
  void insert(const JsonSpan& object, const std::string& member, const JsonSpans& spans) {
    const size_t brace = object.end - 1;
    const std::optional<JsonSpan> last = spans.last_member(object);
    const size_t line = text_.find_last_not_of(" \t", brace - 1);
    const bool own_line = line != std::string::npos && text_[line] == '\n';
    if (!own_line) {
      const size_t end = last ? last->end : object.begin + 1;
      text_.insert(end, (last ? ", " : "") + member);
      return;
    }
    const size_t begin = last ? text_.rfind('\n', last->key) + 1 : line + 1;
    std::string indent = last ? text_.substr(begin, last->key - begin) : "  ";
    indent = indent.substr(0, std::min(indent.find_first_not_of(" \t"), indent.size()));
    const bool carriage = line > 0 && text_[line - 1] == '\r';
    text_.insert(carriage ? line - 1 : line, (carriage ? "\r\n" : "\n") + indent + member);
    if (last) text_.insert(last->end, ",");
  }

  std::string text_;
};

// Returns the JSON pointer in the text of the `expect` of a phase.
std::string expect_pointer(const Case& one, size_t phase, const JsonSpans& spans) {
  for (const auto& [target, setting] : one.settings)
    if (target == "/expect") return setting;
  const std::string own = fmt::format("/phases/{}", phase);
  if (spans.find(own + "/expect")) return own + "/expect";
  return spans.find(own) && !spans.find("/expect") ? own + "/expect" : "/expect";
}

int64_t world_of(const Case& one, size_t phase) { return one.phases[phase].job.world; }

}  // namespace

Accepted accept_counts(const Scenario& scenario, const std::vector<CaseResult>& results) {
  Accepted out;
  const JsonSpans spans(scenario.text);
  std::map<std::string, NewCounts> objects;
  std::set<std::string> blocked;  // objects of cases that are not accepted
  for (size_t i = 0; i < results.size(); ++i) {
    const CaseResult& result = results[i];
    const Case& one = scenario.cases[i];
    const std::string title = one.name.empty() ? "" : fmt::format("case {}: ", one.name);
    if (const std::string reason = refusal_reason(result); !reason.empty()) {
      out.refused.push_back(title + reason);
      for (size_t phase = 0; phase < std::max<size_t>(one.phases.size(), 1); ++phase)
        blocked.insert(expect_pointer(one, phase, spans));
      continue;
    }
    for (size_t phase = 0; phase < result.phases.size(); ++phase) {
      const PhaseResult& found = result.phases[phase];
      const MeasuredCounts counts = counts_of(found.outcome, world_of(one, phase));
      const std::string pointer = expect_pointer(one, phase, spans);
      const auto [entry, fresh] = objects.emplace(pointer, NewCounts{counts, false, false, false});
      NewCounts& into = entry->second;
      into.differ = into.differ || !(into.counts == counts);
      into.calls =
          into.calls || misses(found, "calls of ") || !spans.find(pointer + "/collectives");
      into.bytes = into.bytes || misses(found, "bytes sent ") || !spans.find(pointer + "/bytes");
    }
  }
  TextEdit edit(scenario.text);
  for (const auto& [pointer, object] : objects) {
    if (blocked.contains(pointer)) continue;
    if (object.differ && (object.calls || object.bytes)) {
      out.refused.push_back(fmt::format(
          "{} is shared by cases with different counts; give each case its own \"expect\"",
          pointer));
      continue;
    }
    const auto set = [&, at = pointer](bool wanted, const char* key, const std::string& value) {
      if (!wanted) return;
      edit.set(at + key, value);
      out.written.push_back(at + key);
    };
    set(object.calls, "/collectives", object.counts.collectives);
    set(object.bytes, "/bytes", object.counts.bytes);
  }
  out.text = edit.text();
  return out;
}

void drop_missed_counts(CaseResult& result) {
  bool met = true;
  for (PhaseResult& phase : result.phases) {
    std::erase_if(phase.missed, concerns_counts);
    met = met && phase.missed.empty();
  }
  if (met && result.status == CaseStatus::unexpected) result.status = CaseStatus::as_expected;
}

}  // namespace shardproof
