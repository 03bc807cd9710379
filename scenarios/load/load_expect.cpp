// Implements the functions of load_context.h that read an `expect`. Keys are read in groups: the
// verdict and its message, the place of the finding, counts, then quantities by rank and values by
// name.
#include <cmath>

#include "shardproof/program/value/quantity.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/load/scenario_keys.h"
#include "shardproof/scenarios/load/unsupported_features.h"

namespace shardproof {
namespace {

// Names of all verdicts that this version can find.
std::string known_verdicts() {
  std::string out;
  for (int i = 0; i < kVerdictCount; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    if (is_unsupported(verdict) || verdict == Verdict::backends_differ) continue;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", name(verdict));
  }
  return out;
}

Verdict read_verdict(const JsonReader& reader) {
  const std::optional<Verdict> verdict = parse_verdict(reader.text("a verdict such as \"clean\""));
  if (verdict) {
    refuse_unsupported_verdict(*verdict, reader);
    if (*verdict == Verdict::backends_differ)
      reader.refuse(
          "a scenario cannot expect \"backends differ\": a run with several backends finds it");
    return *verdict;
  }
  NearestName nearest(reader.text());
  for (int i = 0; i < kVerdictCount; ++i) nearest.offer(name(static_cast<Verdict>(i)));
  const std::string hint = nearest.hint();
  reader.refuse(fmt::format("unknown verdict {}{} verdicts are {}", quoted_json(reader.text()),
                            hint.empty() ? "; the" : hint + " The", known_verdicts()));
}

// Reads a condition on a number with a unit. A number without a unit may be bytes, but not a time.
Condition read_condition(const JsonReader& reader, const NumberScope& scope,
                         Unit unit = Unit::none) {
  if (reader.kind() == JsonKind::real || reader.kind() == JsonKind::integer)
    if (unit != Unit::time) return Condition::equal_to(read_number(reader, scope));
  const std::string wanted = fmt::format("{} such as \"<= {}\"", name(unit), example(unit));
  if (reader.kind() != JsonKind::text)
    reader.expected(unit == Unit::time ? wanted : "a number or a condition such as \"<= 4\"");
  const Condition condition = reader.inside([&] { return Condition::parse(reader.text(), scope); });
  const bool bare_bytes = unit == Unit::bytes && condition.unit() == Unit::none;
  if (condition.unit() != unit && !bare_bytes) reader.expected(wanted);
  return condition;
}

// Refuses a condition that no number from `least` upwards meets.
Condition require_reachable(Condition condition, int64_t least, const JsonReader& reader) {
  using Form = Condition::Form;
  const Form form = condition.form();
  if (form == Form::greater || form == Form::at_least) return condition;
  const Number& most = form == Form::between ? condition.high() : condition.low();
  const double bound = most.real(), first = static_cast<double>(least);
  if (form == Form::less ? bound <= first : bound < first)
    reader.expected(fmt::format("a condition that a number from {} upwards can meet", least));
  return condition;
}

// Reads a condition on a count: a whole number of 0 or more.
Condition read_count_condition(const JsonReader& reader, const LoadContext& context) {
  const Condition condition = read_condition(reader, context.scope());
  const bool one = condition.form() == Condition::Form::equal;
  if (one && condition.low().real() != std::floor(condition.low().real()))
    reader.expected("a whole number or a condition such as \"<= 4\"");
  return require_reachable(condition, 0, reader);
}

void read_counts(const JsonReader& object, const LoadContext& context, Expect& expect) {
  if (object.has("undecided"))
    expect.undecided = read_count_condition(object.at("undecided"), context);
  if (!object.has("findings")) return;
  const JsonReader reader = object.at("findings");
  expect.findings = read_count_condition(reader, context);
  const bool clean = expect.verdict == Verdict::clean;
  if (clean && !expect.findings->holds(0))
    reader.refuse(
        "\"findings\" counts findings; add the \"verdict\" that is expected, which is clean here");
  if (!clean && expect.verdict != Verdict::bad_input)
    require_reachable(*expect.findings, 1, reader);
}

// Reads a condition for all ranks, or an object from rank selector to condition.
std::vector<RankCondition> read_rank_conditions(const JsonReader& reader,
                                                const LoadContext& context,
                                                Unit unit = Unit::none) {
  if (reader.kind() != JsonKind::object)
    return {{Lanes::range(0, context.world),
             require_reachable(read_condition(reader, context.scope(), unit), 0, reader)}};
  std::vector<RankCondition> out;
  for (const SelectedEntry& entry : select_entries(reader, context.meshes, context.world))
    out.push_back(
        {entry.lanes,
         require_reachable(read_condition(entry.reader, context.scope(), unit), 0, entry.reader)});
  return out;
}

std::vector<ExpectCalls> read_collectives(const JsonReader& object, const LoadContext& context) {
  std::vector<ExpectCalls> out;
  for (const auto& [key, reader] : object.members("calls such as {\"all_reduce tp\": 1}")) {
    ExpectCalls calls;
    const size_t space = key.find(' ');
    calls.kind = key.substr(0, space);
    if (space != std::string::npos) calls.group = key.substr(space + 1);
    if (!parse_collective_kind(calls.kind)) {
      NearestName nearest(calls.kind);
      for (int i = 0; i <= static_cast<int>(CollectiveKind::wait_signal); ++i)
        nearest.offer(name(static_cast<CollectiveKind>(i)));
      reader.refuse(
          fmt::format("unknown kind of call {}{}", quoted_json(calls.kind), nearest.hint()));
    }
    if (!calls.group.empty())
      calls.group = reader.inside([&] { return context.group_name(calls.group); });
    calls.counts = read_rank_conditions(reader, context);
    out.push_back(std::move(calls));
  }
  return out;
}

std::vector<ExpectBytes> read_bytes(const JsonReader& object, const LoadContext& context) {
  std::vector<ExpectBytes> out;
  for (const auto& [key, reader] : object.members("bytes of a group such as {\"tp\": 384}")) {
    const std::string group = reader.inside([&, &key = key] { return context.group_name(key); });
    out.push_back({group, read_rank_conditions(reader, context, Unit::bytes)});
  }
  return out;
}

std::vector<ExpectShapes> read_local(const JsonReader& object, const LoadContext& context) {
  std::vector<ExpectShapes> out;
  for (const auto& [name, ranks] :
       object.members("local shapes such as {\"y\": {\"all\": [4, 8]}}")) {
    ExpectShapes shapes{name, {}, {}};
    for (const SelectedEntry& entry : select_entries(ranks, context.meshes, context.world)) {
      Dims shape;
      if (entry.reader.items().size() > static_cast<size_t>(kMaxDims))
        entry.reader.refuse(fmt::format("a tensor has at most {} dims", kMaxDims));
      for (const JsonReader& item : entry.reader.items())
        shape.push_back(read_integer(item, context.scope()));
      shapes.shapes.push_back({entry.lanes, shape});
      shapes.paths.push_back(entry.reader.path());
    }
    out.push_back(std::move(shapes));
  }
  return out;
}

bool is_comparison(const JsonReader& reader) {
  if (reader.kind() != JsonKind::text) return false;
  const std::string& text = reader.text();
  return text.find_first_of("<>") != std::string::npos || text.find("..") != std::string::npos;
}

// Reads one number for all elements. nan, inf, true and false are numbers here.
Number read_element(const JsonReader& reader, const NumberScope& scope) {
  constexpr const char* kWanted = "a number, a list of them, or a condition such as \"<= 4\"";
  if (reader.kind() == JsonKind::object || reader.kind() == JsonKind::null)
    reader.expected(kWanted);
  Number number = read_number(reader, scope);
  if (!number.is_integer() && !number.is_double() && !number.is_bool())
    reader.refuse(fmt::format("expected {}, found {}", kWanted, to_string(number)));
  return number;
}

// Reads nested lists, or {"shape": [0, 3], "values": []} for shapes that lists cannot state.
void read_expected_elements(const JsonReader& reader, const LoadContext& context,
                            ExpectValues& values) {
  const bool shaped = reader.kind() == JsonKind::object;
  if (shaped) {
    context.errors->add_all(reader.unknown_keys({"shape", "values"}));
    for (const char* key : {"shape", "values"})
      if (!reader.has(key))
        reader.refuse(fmt::format("expected \"shape\" and \"values\", found no \"{}\"", key));
  }
  const JsonReader list = shaped ? reader.at("values") : reader;
  NestedNumbers nested = read_nested(list, context.scope(), {});
  values.shape = nested.shape;
  values.elements = std::move(nested.elements);
  values.imaginary = std::move(nested.imaginary);
  if (!shaped) return;
  const Dims shape = read_shape(reader.at("shape"), context);
  const bool empty = element_count(shape) == 0 && values.elements.empty();
  if (!empty && !(shape == values.shape))
    list.refuse(fmt::format("expected values of \"shape\" {}, found shape {}", to_string(shape),
                            to_string(values.shape)));
  values.shape = shape;
}

std::vector<ExpectValues> read_expected_values(const JsonReader& object,
                                               const LoadContext& context) {
  std::vector<ExpectValues> out;
  for (const auto& [name, reader] : object.members("values such as {\"y\": [1, 2]}")) {
    ExpectValues values;
    values.name = name;
    values.path = reader.path();
    if (reader.kind() == JsonKind::list || reader.kind() == JsonKind::object) {
      read_expected_elements(reader, context, values);
    } else if (is_comparison(reader)) {
      values.each = read_condition(reader, context.scope());
    } else if (const auto parts =
                   reader.kind() == JsonKind::text ? parse_complex(reader.text()) : std::nullopt) {
      values.all = Number(parts->first);
      values.imaginary = {parts->second};
    } else {
      values.all = read_element(reader, context.scope());
    }
    out.push_back(std::move(values));
  }
  return out;
}

void read_place(const JsonReader& object, const LoadContext& context, Expect& expect) {
  const auto condition = [&](std::string_view key, std::optional<Condition>& into,
                             Unit unit = Unit::none) {
    if (object.has(key)) into = read_condition(object.at(key), context.scope(), unit);
  };
  condition("line", expect.line);
  condition("ratio", expect.ratio);
  condition("call", expect.call);
  if (expect.call) require_reachable(*expect.call, 1, object.at("call"));
  condition("peak", expect.peak, Unit::bytes);
  if (expect.peak) require_reachable(*expect.peak, 0, object.at("peak"));
  condition("time", expect.time, Unit::time);
  if (expect.time) require_reachable(*expect.time, 0, object.at("time"));
  if (expect.time && !context.timed)
    object.at("time").refuse("\"time\" needs a \"topology\" in the file, such as \"ideal\"");
  if (expect.time) expect.time_path = object.at("time").path();
  if (object.has("ranks")) expect.ranks = context.ranks(object.at("ranks"));
}

}  // namespace

Expect read_refusal(const JsonReader& object) {
  Expect expect;
  if (object.kind() != JsonKind::object) return expect;
  if (object.has("verdict")) expect.verdict = read_verdict(object.at("verdict"));
  if (object.has("error")) expect.error = object.at("error").text();
  if (object.has("name")) expect.name = object.at("name").text();
  const bool plain_line = object.has("line") && object.at("line").kind() == JsonKind::integer;
  if (plain_line) expect.line = read_condition(object.at("line"), {});
  return expect;
}

std::vector<PrecisionLimit> read_precision_limits(const JsonReader& object,
                                                  const LoadContext& context) {
  std::vector<PrecisionLimit> out;
  const auto add = [&](const std::string& name, const JsonReader& reader) {
    Condition condition;
    if (reader.kind() == JsonKind::text) condition = read_condition(reader, context.scope());
    if (condition.form() == Condition::Form::equal)
      reader.expected("a condition such as \"<= 1000\"");
    out.push_back({name, require_reachable(condition, 0, reader), reader.path()});
  };
  if (!object.has("precision")) return out;
  const JsonReader precision = object.at("precision");
  if (precision.kind() == JsonKind::text) {
    add("", precision);
  } else if (precision.kind() == JsonKind::object) {
    for (const auto& [name, reader] : precision.members()) add(name, reader);
  } else {
    precision.expected("a condition such as \"<= 1000\", or an object of names and conditions");
  }
  return out;
}

void check_expect_keys(const JsonReader& object) {
  object.check_keys(expect_keys());
  refuse_unsupported_expect_keys(object);
}

Expect read_expect(const JsonReader& object, const LoadContext& context) {
  ErrorList& errors = *context.errors;
  if (object.kind() != JsonKind::object)
    object.expected("an object such as {\"verdict\": \"clean\"}");
  errors.add_all(object.unknown_keys(expect_keys()));
  refuse_unsupported_expect_keys(object);
  Expect expect = read_refusal(object);
  errors.attempt([&] { read_place(object, context, expect); });
  errors.attempt([&] { read_counts(object, context, expect); });
  if (expect.verdict == Verdict::clean)
    for (const char* key : {"line", "ranks", "name", "ratio", "call"})
      if (object.has(key))
        object.at(key).refuse(fmt::format(
            "\"{}\" describes a finding; add the \"verdict\" that is expected, which is clean here",
            key));
  if (!expect.error.empty() && expect.verdict != Verdict::bad_input)
    object.at("error").refuse("\"error\" needs \"verdict\": \"bad input\"");
  if (object.has("collectives")) {
    expect.any_collectives = false;
    errors.attempt(
        [&] { expect.collectives = read_collectives(object.at("collectives"), context); });
  }
  const auto read_key = [&](const char* key, auto& into, auto read) {
    if (object.has(key)) errors.attempt([&] { into = read(object.at(key), context); });
  };
  read_key("bytes", expect.bytes, read_bytes);
  read_key("local", expect.local, read_local);
  read_key("values", expect.values, read_expected_values);
  if (object.has("placements"))
    for (const auto& [name, reader] : object.at("placements").members()) {
      reader.inside([&, &reader = reader] { return parse_placements(reader.text()); });
      expect.placements.push_back({name, reader.text(), reader.path()});
    }
  return expect;
}

}  // namespace shardproof
