// Implements let_table.h. Names are pasted as text first ("$name"), then evaluated as
// expressions in order of writing. An Error of evaluation is stored and thrown where the name is
// used, because a let that is only pasted may hold any text.
#include "shardproof/scenarios/load/let_table.h"

#include <cstdlib>

#include "shardproof/program/value/names.h"
#include "shardproof/scenarios/load/listing_names.h"

namespace shardproof {
namespace {

constexpr size_t kMaxPastedBytes = 1 << 20;

std::string pasted_text(const JsonTree& tree) {
  if (tree.kind == JsonKind::text) return tree.text;
  if (tree.kind != JsonKind::list) return to_string(tree);
  std::string out;
  for (const JsonTree& item : tree.items) out += (out.empty() ? "" : ", ") + pasted_text(item);
  return "[" + out + "]";
}

std::string expected_list_text(int64_t size) {
  return fmt::format("a list of {} entries, as in the lists before it", size);
}

struct NestedReader {
  const NumberScope& scope;
  const std::function<void(const Number&, bool is_complex)>& check;
  NestedNumbers out;

  void add(const JsonReader& reader) {
    const auto parts =
        reader.kind() == JsonKind::text ? parse_complex(reader.text()) : std::nullopt;
    const Number number = parts ? Number(parts->first) : read_number(reader, scope);
    if (check)
      reader.inside([&] {
        check(number, parts.has_value());
        return 0;
      });
    if (parts || !out.imaginary.empty()) {
      out.imaginary.resize(out.elements.size(), 0);
      out.imaginary.push_back(parts ? parts->second : 0);
    }
    out.elements.push_back(number);
  }

  // `first`: all lists around are the first of their lists; their lengths become the shape.
  void read(const JsonReader& reader, int depth, bool first) {
    Dims& shape = out.shape;
    if (reader.kind() != JsonKind::list) {
      if (depth != shape.size()) reader.expected(expected_list_text(shape[depth]));
      add(reader);
      return;
    }
    if (depth >= kMaxDims) reader.refuse(fmt::format("a tensor has at most {} dims", kMaxDims));
    const std::vector<JsonReader> items = reader.items();
    const auto size = static_cast<int64_t>(items.size());
    if (first) shape.push_back(size);
    if (depth >= shape.size()) reader.expected("a number");
    if (shape[depth] != size) reader.expected(expected_list_text(shape[depth]));
    for (size_t i = 0; i < items.size(); ++i) read(items[i], depth + 1, first && i == 0);
  }
};

void check_let_kinds(const JsonReader& reader) {
  if (reader.kind() == JsonKind::null || reader.kind() == JsonKind::object)
    reader.expected("a number, an expression, a list or text");
  if (reader.kind() == JsonKind::list)
    for (const JsonReader& item : reader.items()) check_let_kinds(item);
}

}  // namespace

LetTable::LetTable(const JsonReader& let) {
  for (const auto& [name, reader] : let.members()) {
    check_let_kinds(reader);
    Let entry;
    entry.tree = reader.tree();
    entry.path = reader.path();
    paste(entry.tree, entry.path);
    entry.text = pasted_text(entry.tree);
    names_.push_back(name);
    lets_[name] = std::move(entry);
  }
}

std::string LetTable::paste_text(const std::string& text, const std::string& path) const {
  if (text.find('$') == std::string::npos) return text;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] != '$' || end >= text.size() || !is_name_start(text[end])) {
      out += text[i++];
      continue;
    }
    while (end < text.size() && is_name_character(text[end])) ++end;
    const std::string name = text.substr(i + 1, end - i - 1);
    const auto found = lets_.find(name);
    if (found == lets_.end()) {
      NearestName nearest(name);
      for (const std::string& known : names_) nearest.offer(known);
      throw Error(
          ErrorKind::bad_input,
          fmt::format("unknown name ${}{}", name,
                      nearest.best().empty() ? ": no let before it has this name; add it to \"let\""
                                             : nearest.hint()),
          {"", path, 0, static_cast<int>(i) + 1});
    }
    if (out.size() + found->second.text.size() > kMaxPastedBytes)
      throw Error(ErrorKind::limit, "more than 1 MiB of text after pasting",
                  {"", path, 0, static_cast<int>(i) + 1});
    out += found->second.text;
    i = end;
  }
  return out;
}

void LetTable::paste(JsonTree& tree, const std::string& path) const {
  if (tree.kind == JsonKind::text) {
    tree.text = paste_text(tree.text, path);
    return;
  }
  for (size_t i = 0; i < tree.items.size(); ++i) {
    if (tree.kind == JsonKind::list) {
      paste(tree.items[i], path + "/" + std::to_string(i));
      continue;
    }
    const std::string step = path + pointer_step(tree.keys[i]);
    std::string key = paste_text(tree.keys[i], step);
    if (key != tree.keys[i] && tree.find(key) != nullptr)
      throw Error(ErrorKind::bad_input,
                  fmt::format("key {} occurs twice after pasting", quoted_json(key)),
                  {"", step, 0, 0});
    tree.keys[i] = std::move(key);
    paste(tree.items[i], step);
  }
}

void LetTable::evaluate_all(const NamedMeshes& meshes) {
  meshes_ = meshes;
  for (const std::string& name : names_) {
    Let& let = lets_.at(name);
    try {
      let.value = read_number(JsonReader(let.tree, let.path), scope());
    } catch (const Error& error) {
      let.error = error.inside({"", let.path, 0, 0});
    }
  }
}

std::optional<Number> LetTable::number_of(const std::string& name) const {
  const auto found = lets_.find(name);
  if (found == lets_.end()) {
    NearestName nearest(name);
    for (const std::string& known : names_) nearest.offer(known);
    throw_bad_input("unknown name \"{}\"{}", name,
                    nearest.best().empty() ? "; \"let\" defines names of numbers" : nearest.hint());
  }
  const Let& let = found->second;
  if (let.error) throw *let.error;
  if (!let.value) throw_bad_input("{} has no value yet: a let may use only lets before it", name);
  return let.value;
}

std::optional<Number> LetTable::axis_size(const std::string& axis) const {
  std::optional<int64_t> size;
  for (const auto& [name, mesh] : meshes_) {
    const std::optional<int> index = mesh.find_axis(axis);
    if (!index) continue;
    const int64_t here = mesh.axes()[static_cast<size_t>(*index)].size;
    if (size && *size != here)
      throw_bad_input("size({}) is {} on one mesh and {} on another", axis, *size, here);
    size = here;
  }
  if (size) return Number(*size);
  NearestName nearest(axis);
  for (const auto& [name, mesh] : meshes_)
    for (const MeshAxis& known : mesh.axes()) nearest.offer(known.name);
  throw_bad_input("unknown axis {}{}", axis, nearest.hint());
}

NumberScope LetTable::scope() const {
  NumberScope scope;
  scope.name = [this](const std::string& name) { return number_of(name); };
  scope.function = [this](const std::string& verb,
                          const std::string& argument) -> std::optional<Number> {
    if (verb != "size") return std::nullopt;
    return axis_size(argument);
  };
  return scope;
}

std::vector<std::pair<std::string, Number>> LetTable::numbers() const {
  std::vector<std::pair<std::string, Number>> out;
  for (const std::string& name : names_)
    if (const Let& let = lets_.at(name); let.value) out.emplace_back(name, *let.value);
  return out;
}

void LetTable::check_uses(const Listing& listing) const {
  for (const auto& [name, place] : names_read(listing)) {
    const auto found = lets_.find(name);
    if (found != lets_.end() && found->second.error) throw *found->second.error;
  }
}

Number read_number(const JsonReader& reader, const NumberScope& scope) {
  const JsonTree& tree = reader.tree();
  switch (tree.kind) {
    case JsonKind::integer: return tree.integer;
    case JsonKind::real: return tree.real;
    case JsonKind::boolean: return tree.boolean;
    case JsonKind::text:
      return reader.inside([&] { return evaluate(parse_expression(tree.text), scope); });
    case JsonKind::list: {
      Number::List list;
      for (const JsonReader& item : reader.items()) list.push_back(read_number(item, scope));
      return list;
    }
    case JsonKind::null:
    case JsonKind::object: break;
  }
  reader.expected("a number or an expression");
}

int64_t read_integer(const JsonReader& reader, const NumberScope& scope) {
  const Number number = read_number(reader, scope);
  return reader.inside([&] { return number.integer(); });
}

std::optional<std::pair<double, double>> parse_complex(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != ' ') plain += c;
  if (plain.size() < 2 || plain.back() != 'j') return std::nullopt;
  plain.pop_back();
  const auto number = [](const std::string& part) -> std::optional<double> {
    if (part.empty() || part.find_first_not_of("+-0123456789.e") != std::string::npos)
      return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(part.c_str(), &end);
    return *end == '\0' ? std::optional<double>(value) : std::nullopt;
  };
  // The sign before the imaginary part: the last one that does not belong to an exponent.
  size_t sign = plain.find_last_of("+-");
  while (sign != std::string::npos && sign > 0 && plain[sign - 1] == 'e')
    sign = plain.find_last_of("+-", sign - 1);
  const bool both = sign != std::string::npos && sign > 0;
  const std::optional<double> real = both ? number(plain.substr(0, sign)) : 0;
  const std::optional<double> imaginary = number(both ? plain.substr(sign) : plain);
  if (!real || !imaginary) return std::nullopt;
  return std::pair(*real, *imaginary);
}

NestedNumbers read_nested(const JsonReader& reader, const NumberScope& scope,
                          const std::function<void(const Number&, bool is_complex)>& check) {
  NestedReader nested{scope, check, {}};
  nested.read(reader, 0, true);
  return std::move(nested.out);
}

}  // namespace shardproof
