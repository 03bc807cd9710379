// Implements fault.h.
#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/trim_text.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof {
namespace {

constexpr std::string_view kFaultNames[] = {"hang", "die", "skip", "delay", "corrupt", "slow"};

using FaultArguments = std::map<std::string, std::string, std::less<>>;

// Splits "rank=3, by='2 ms'" into keys and values, without quotes.
FaultArguments split_arguments(std::string_view text, std::string_view whole) {
  FaultArguments arguments;
  while (!trimmed(text).empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      throw_bad_input("fault \"{}\": expected key=value, found \"{}\"", whole, part);
    const std::string key(trimmed(part.substr(0, equals)));
    std::string_view value = trimmed(part.substr(equals + 1));
    if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'')
      value = value.substr(1, value.size() - 2);
    if (!arguments.emplace(key, value).second)
      throw_bad_input("fault \"{}\": {} is given twice", whole, key);
  }
  return arguments;
}

template <class T>
T number(std::string_view text, std::string_view key, std::string_view whole) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw_bad_input("fault \"{}\": {} must be a number, found \"{}\"", whole, key, text);
  return value;
}

class FaultReader {
 public:
  FaultReader(FaultArguments arguments, std::string_view whole)
      : arguments_(std::move(arguments)), whole_(whole) {}

  std::optional<std::string> take(std::string_view key) {
    const auto it = arguments_.find(key);
    if (it == arguments_.end()) return std::nullopt;
    std::string value = it->second;
    arguments_.erase(it);
    return value;
  }
  std::string need(std::string_view key) {
    std::optional<std::string> value = take(key);
    if (!value) throw_bad_input("fault \"{}\" needs {}=", whole_, key);
    return *value;
  }
  int64_t integer(std::string_view key, const std::string& text, int64_t least) {
    const int64_t value = number<int64_t>(text, key, whole_);
    if (value < least)
      throw_bad_input("fault \"{}\": {} must be at least {}, found {}", whole_, key, least, value);
    return value;
  }
  void end() const {
    if (!arguments_.empty())
      throw_bad_input("fault \"{}\": unknown argument {}=", whole_, arguments_.begin()->first);
  }

 private:
  FaultArguments arguments_;
  std::string_view whole_;
};

FaultKind kind_named(std::string_view verb, std::string_view whole) {
  if (verb == "link" || verb == "crash")
    throw Error(ErrorKind::unsupported,
                fmt::format("fault \"{}\": {} is not supported by this version; shardproof help "
                            "language lists what it refuses in part 2",
                            whole, verb));
  NearestName nearest(verb);
  for (size_t i = 0; i < std::size(kFaultNames); ++i) {
    if (kFaultNames[i] == verb) return static_cast<FaultKind>(i);
    nearest.offer(kFaultNames[i]);
  }
  throw_bad_input("unknown fault \"{}\"{}", whole,
                  nearest.best().empty()
                      ? fmt::format("; expected one of {}", fmt::join(kFaultNames, " "))
                      : nearest.hint());
}

void read_place(Fault& fault, FaultReader& reader, std::string_view whole) {
  const std::optional<std::string> call = reader.take("call"), line = reader.take("line");
  if (call.has_value() == line.has_value())
    throw_bad_input("fault \"{}\" needs either call= or line=", whole);
  if (call) fault.call = reader.integer("call", *call, 1);
  if (line) fault.line = static_cast<int>(reader.integer("line", *line, 1));
}

}  // namespace

std::string to_string(const Fault& fault) {
  std::string text =
      fmt::format("{}(rank={}", kFaultNames[static_cast<size_t>(fault.kind)], fault.rank);
  if (fault.call != 0) text += fmt::format(", call={}", fault.call);
  if (fault.line != 0) text += fmt::format(", line={}", fault.line);
  if (fault.kind == FaultKind::delay) text += fmt::format(", by='{}'", to_string(fault.by));
  if (fault.kind == FaultKind::corrupt) text += fmt::format(", element={}", fault.element);
  if (fault.kind == FaultKind::slow) text += fmt::format(", by={}", fault.factor);
  return text + ")";
}

Fault parse_fault(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const size_t open = whole.find('(');
  if (open == std::string_view::npos || whole.back() != ')')
    throw_bad_input("fault \"{}\": expected verb(key=value, ...)", whole);
  Fault fault;
  fault.kind = kind_named(trimmed(whole.substr(0, open)), whole);
  FaultReader reader(split_arguments(whole.substr(open + 1, whole.size() - open - 2), whole),
                     whole);
  fault.rank = reader.integer("rank", reader.need("rank"), 0);
  if (fault.kind == FaultKind::slow) {
    fault.factor = number<double>(reader.need("by"), "by", whole);
    if (!(fault.factor > 0) || !std::isfinite(fault.factor))
      throw_bad_input("fault \"{}\": by must be above 0 and finite", whole);
  } else {
    read_place(fault, reader, whole);
  }
  if (fault.kind == FaultKind::delay) {
    const std::string by = reader.need("by");
    const std::optional<Duration> duration = parse_duration(by);
    if (!duration || *duration < Duration{})
      throw_bad_input("fault \"{}\": by must be a time such as '2 ms', found '{}'", whole, by);
    fault.by = *duration;
  }
  if (fault.kind == FaultKind::corrupt) {
    if (const std::optional<std::string> element = reader.take("element"))
      fault.element = reader.integer("element", *element, 0);
  }
  reader.end();
  return fault;
}

std::vector<Fault> parse_faults(const std::vector<std::string>& texts) {
  std::vector<Fault> faults;
  for (const std::string& text : texts) faults.push_back(parse_fault(text));
  return faults;
}

}  // namespace shardproof
