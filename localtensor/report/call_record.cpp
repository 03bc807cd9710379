// Implements call_record.h: a table of setters, one for each field of the text.
#include "shardproof/localtensor/report/call_record.h"

#include <algorithm>
#include <array>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/report/key_value_text.h"

namespace shardproof {
namespace {

using detail::Field;

constexpr std::string_view kDevice = "device", kDeviceAndLaunch = "device+launch";
constexpr std::array<std::string_view, 4> kStates = {"issued", "started", "done", "failed"};

std::string without_spaces(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

template <typename T>
T value_or_refuse(std::optional<T> value, const Field& field) {
  if (!value) detail::refuse(field);
  return *std::move(value);
}

std::vector<int64_t> sizes_of(const Field& field) {
  std::vector<int64_t> sizes;
  std::string_view rest = field.value;
  while (true) {
    const std::string_view word = rest.substr(0, rest.find(','));
    sizes.push_back(detail::integer_of({field.key, std::string(word)}));
    if (word.size() == rest.size()) return sizes;
    rest.remove_prefix(word.size() + 1);
  }
}

RecordState state_of(const Field& field) {
  const auto at = std::find(kStates.begin(), kStates.end(), field.value);
  if (at == kStates.end()) detail::refuse(field);
  return static_cast<RecordState>(at - kStates.begin());
}

struct Setter {
  std::string_view key;
  void (*set)(Record&, const Field&);
};

constexpr std::array<Setter, 19> kSetters = {{
    {"kind", [](Record& r, const Field& f) { r.kind = f.value; }},
    {"ranks",
     [](Record& r, const Field& f) { r.ranks = value_or_refuse(parse_lanes(f.value), f); }},
    {"sequence", [](Record& r, const Field& f) { r.sequence = detail::integer_of(f); }},
    {"group", [](Record& r, const Field& f) { r.group = f.value; }},
    {"call", [](Record& r, const Field& f) { r.call = detail::integer_of(f); }},
    {"members", [](Record& r, const Field& f) { r.members = detail::integer_of(f); }},
    {"reduction", [](Record& r, const Field& f) { r.reduction = f.value; }},
    {"dtype",
     [](Record& r, const Field& f) { r.dtype = value_or_refuse(parse_dtype(f.value), f); }},
    {"sizes", [](Record& r, const Field& f) { r.sizes = sizes_of(f); }},
    {"root", [](Record& r, const Field& f) { r.root = detail::integer_of(f); }},
    {"stream", [](Record& r, const Field& f) { r.stream = f.value; }},
    {"state", [](Record& r, const Field& f) { r.state = state_of(f); }},
    {"start",
     [](Record& r, const Field& f) { r.start = value_or_refuse(parse_duration(f.value), f); }},
    {"end", [](Record& r, const Field& f) { r.end = value_or_refuse(parse_duration(f.value), f); }},
    {"clock",
     [](Record& r, const Field& f) {
       if (f.value != kDevice && f.value != kDeviceAndLaunch) detail::refuse(f);
       r.clock = f.value == kDevice ? TimedBy::device : TimedBy::device_and_launch;
     }},
    {"expected",
     [](Record& r, const Field& f) { r.expected = value_or_refuse(parse_duration(f.value), f); }},
    {"bytes",
     [](Record& r, const Field& f) { r.bytes_sent = value_or_refuse(parse_fraction(f.value), f); }},
    {"line", [](Record& r, const Field& f) { r.line = static_cast<int>(detail::integer_of(f)); }},
    {"instance", [](Record& r, const Field& f) { r.instance = f.value; }},
}};

}  // namespace

std::string_view name(RecordState state) { return kStates[static_cast<size_t>(state)]; }

std::string to_string(const Record& record) {
  detail::FieldWriter out;
  const auto add_text = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) out.add(key, text);
  };
  add_text("kind", record.kind);
  if (!record.ranks.empty()) out.add("ranks", to_string(record.ranks));
  out.add("sequence", record.sequence);
  add_text("group", record.group);
  if (record.call != 0) out.add("call", record.call);
  if (record.members != 0) out.add("members", record.members);
  add_text("reduction", record.reduction);
  if (record.dtype) out.add("dtype", name(*record.dtype));
  add_text("sizes", sizes_text(record.sizes));
  if (record.root != -1) out.add("root", record.root);
  add_text("stream", record.stream);
  out.add("state", name(record.state));
  if (record.start != Duration{}) out.add("start", without_spaces(to_string(record.start)));
  if (record.end != Duration{}) out.add("end", without_spaces(to_string(record.end)));
  if (record.clock != TimedBy::world)
    out.add("clock", record.clock == TimedBy::device ? kDevice : kDeviceAndLaunch);
  if (record.expected != Duration{})
    out.add("expected", without_spaces(to_string(record.expected)));
  if (record.bytes_sent != Fraction{}) out.add("bytes", to_string(record.bytes_sent));
  if (record.line != 0) out.add("line", record.line);
  add_text("instance", record.instance);
  return out.release();
}

Record parse_record(std::string_view text) {
  Record record;
  for (const Field& field : detail::parse_fields(text)) {
    const auto setter = std::find_if(kSetters.begin(), kSetters.end(),
                                     [&](const Setter& s) { return s.key == field.key; });
    if (setter == kSetters.end()) throw_bad_input("a record has no field \"{}\"", field.key);
    setter->set(record, field);
  }
  return record;
}

}  // namespace shardproof
