// Implements sweep.h. Steps: an object of lists is expanded to its product, the first key varying
// slowest. A list gives one case for each entry. Names are made from the settings. Example:
// {"mesh": ["tp=2", "tp=3"], "n": [7]} gives the cases "mesh=tp=2 n=7" and "mesh=tp=3 n=7".
#include "shardproof/scenarios/load/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>

#include "shardproof/program/value/names.h"
#include "shardproof/scenarios/load/scenario_keys.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 3> kSweepKeys = {"mesh", "dtype", "topology"};
// Keys of a scenario file that a sweep sets by a pointer only, for the hint "/world".
constexpr std::array<std::string_view, 18> kFileKeys = {
    "about",    "world",  "let",     "tensors",  "program", "ranks",
    "model",    "truth",  "outputs", "explicit", "groups",  "train",
    "parallel", "faults", "data",    "resident", "moves",   "peak_limit"};

bool is_sweep_key(const std::string& key) {
  return std::find(kSweepKeys.begin(), kSweepKeys.end(), key) != kSweepKeys.end();
}

std::string unescaped(std::string step) {
  for (size_t at = 0; (at = step.find('~', at)) != std::string::npos; ++at) {
    if (at + 1 < step.size() && step[at + 1] == '1')
      step.replace(at, 2, "/");
    else if (at + 1 < step.size() && step[at + 1] == '0')
      step.replace(at, 2, "~");
  }
  return step;
}

// Returns the key of the root object that a sweep key sets: "version" for "/version/0".
std::string first_key(const std::string& key) {
  const size_t begin = key.starts_with("/") ? 1 : 0;
  return unescaped(key.substr(begin, begin == 0 ? std::string::npos : key.find('/', 1) - begin));
}

bool is_word_of(const std::string& text, const std::string& word) {
  const auto is_part = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
  return false;
}

// True if a text below `tree` contains the name as a word, or a key if `in_keys` ("$name" in a
// key).
bool reads(const JsonTree& tree, const std::string& name, bool in_keys) {
  if (tree.kind == JsonKind::text) return is_word_of(tree.text, name);
  const auto names_it = [&](const std::string& key) { return is_word_of(key, name); };
  return (in_keys && std::any_of(tree.keys.begin(), tree.keys.end(), names_it)) ||
         std::any_of(tree.items.begin(), tree.items.end(),
                     [&](const JsonTree& item) { return reads(item, name, in_keys); });
}

// True if anything but the keys of the sweep contains the name.
bool reads_let(const JsonTree& root, const std::string& name) {
  for (size_t i = 0; i < root.keys.size(); ++i)
    if (root.keys[i] != "about" && reads(root.items[i], name, root.keys[i] != "sweep")) return true;
  return false;
}

// Refuses a key that sets nothing. `labels`: a name that nothing reads is allowed, because it
// distinguishes cases.
void check_key(const std::string& key, const JsonReader& value, const JsonTree& root, bool labels) {
  const JsonTree* let = root.find("let");
  if (is_sweep_key(key) || (let != nullptr && let->find(key) != nullptr)) return;
  const std::string first = first_key(key);
  if (first == "version" || first == "sweep")
    value.refuse(fmt::format("a sweep cannot set \"{}\", which is the same for all cases", first));
  if (key.starts_with("/")) {
    NearestName nearest(first);
    for (const std::string_view known : root_keys()) nearest.offer(known);
    if (std::find(root_keys().begin(), root_keys().end(), first) == root_keys().end())
      value.refuse(fmt::format("a scenario file has no key \"{}\"{}", first, nearest.hint()));
    return;
  }
  if (std::find(kFileKeys.begin(), kFileKeys.end(), key) != kFileKeys.end())
    value.refuse(fmt::format("a sweep sets this key by its JSON pointer; write \"/{}\"", key));
  NearestName nearest(key);
  for (const std::string_view known : kSweepKeys) nearest.offer(known);
  nearest.offer("expect");
  if (let != nullptr)
    for (const std::string& known : let->keys) nearest.offer(known);
  // An unknown name defines a let, unless it is close to a known key and so probably misspelt.
  if (!is_name(key) || !nearest.best().empty() || (!labels && !reads_let(root, key)))
    value.refuse(
        fmt::format("expected mesh, dtype, topology, a let that the file reads, or a JSON pointer "
                    "such as \"/world\", found {}{}",
                    quoted_json(key), nearest.hint()));
}

std::string shown(const JsonTree& value) {
  return value.kind == JsonKind::text ? without_controls(value.text) : to_string(value);
}

std::vector<std::string> case_labels(const SweepCase& one) {
  std::vector<std::string> labels;
  for (const SweepSetting& setting : one.settings)
    if (setting.key != "/expect")
      labels.push_back(without_controls(setting.key) + "=" + shown(setting.value));
  return labels;
}

std::vector<SweepCase> expand_product(const JsonReader& sweep, const JsonTree& root,
                                      int64_t max_cases) {
  std::vector<std::pair<std::string, std::vector<JsonReader>>> factors;
  int64_t count = 1;
  for (const auto& [key, values] : sweep.members()) {
    check_key(key, values, root, false);
    factors.emplace_back(key, values.items("a list of values"));
    if (factors.back().second.empty())
      values.refuse("expected a list with at least one value, found an empty one");
    const auto size = static_cast<int64_t>(factors.back().second.size());
    if (size > max_cases || count * size > max_cases)
      sweep.refuse(fmt::format("expected at most {} cases, found more", max_cases));
    count *= size;
  }
  std::vector<SweepCase> cases;
  for (int64_t i = 0; i < count; ++i) {
    SweepCase one;
    one.path = sweep.path();
    int64_t rest = i, block = count;
    for (const auto& [key, values] : factors) {  // the first key varies slowest
      block /= static_cast<int64_t>(values.size());
      const JsonReader& value = values[static_cast<size_t>(rest / block)];
      one.settings.push_back({key, value.tree(), value.path()});
      rest %= block;
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<SweepCase> expand_list(const JsonReader& sweep, const JsonTree& root,
                                   int64_t max_cases) {
  std::vector<SweepCase> cases;
  const std::vector<JsonReader> items = sweep.items();
  if (items.empty()) sweep.refuse("expected a list with at least one case, found an empty one");
  if (static_cast<int64_t>(items.size()) > max_cases)
    sweep.refuse(fmt::format("expected at most {} cases, found more", max_cases));
  for (const JsonReader& item : items) {
    SweepCase one;
    one.path = item.path();
    for (const auto& [key, value] : item.members()) {
      if (key != "expect") check_key(key, value, root, true);
      one.settings.push_back({key == "expect" ? "/expect" : key, value.tree(), value.path()});
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

void set_pointer(JsonTree& root, const std::string& pointer, const JsonTree& value,
                 const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: {}", quoted_json(pointer), why),
                {"", path, 0, 0});
  };
  JsonTree* at = &root;
  int depth = 0;
  for (size_t begin = 1; begin <= pointer.size(); ++depth) {
    if (depth >= kMaxJsonDepth) refuse("too deep");
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string step = unescaped(pointer.substr(begin, end - begin));
    begin = end + 1;
    if (at->kind == JsonKind::null) at->kind = JsonKind::object;  // missing objects are created
    if (at->kind == JsonKind::list) {
      size_t index = 0;
      const auto read = std::from_chars(step.data(), step.data() + step.size(), index);
      if (read.ec != std::errc() || read.ptr != step.data() + step.size() ||
          index >= at->items.size())
        refuse(fmt::format("the list has no item {}", quoted_json(step)));
      at = &at->items[index];
    } else if (at->kind == JsonKind::object) {
      at = &at->at_or_add(step);
    } else {
      refuse(fmt::format("expected a list or an object above {}, found {}", quoted_json(step),
                         name(at->kind)));
    }
  }
  *at = value;
}

// Cases of a list may have equal settings; the later ones get " #2", " #3".
void make_unique(std::vector<SweepCase>& cases) {
  std::set<std::string> taken;
  for (SweepCase& one : cases) {
    const std::string plain = one.name;
    for (int i = 2; !taken.insert(one.name).second; ++i) one.name = fmt::format("{} #{}", plain, i);
  }
}

}  // namespace

std::string SweepSetting::target() const {
  if (key.starts_with("/")) return key;
  return (is_sweep_key(key) ? "" : "/let") + pointer_step(key);
}

std::vector<SweepCase> expand_sweep(const JsonReader& root, int64_t max_cases) {
  if (!root.has("sweep")) return {SweepCase{}};
  const JsonReader sweep = root.at("sweep");
  std::vector<SweepCase> cases;
  if (sweep.kind() == JsonKind::object) {
    cases = expand_product(sweep, root.tree(), max_cases);
  } else if (sweep.kind() == JsonKind::list) {
    cases = expand_list(sweep, root.tree(), max_cases);
  } else {
    sweep.expected("an object of lists or a list of cases");
  }
  for (SweepCase& one : cases) {
    one.labels = case_labels(one);
    one.name = fmt::format("{}", fmt::join(one.labels, " "));
  }
  make_unique(cases);
  return cases;
}

namespace {

// Sets a let. A number that the file does not define is inserted before the lets of the file, which
// may use it. A text may use the lets of the file, so it is added after them.
void set_let(JsonTree& let, const std::string& name, const JsonTree& value) {
  if (let.kind == JsonKind::null) let.kind = JsonKind::object;
  if (let.find(name) != nullptr || value.kind == JsonKind::text) {
    let.at_or_add(name) = value;
    return;
  }
  let.keys.insert(let.keys.begin(), name);
  let.items.insert(let.items.begin(), value);
}

}  // namespace

JsonTree apply_case(const JsonTree& root, const SweepCase& sweep_case) {
  JsonTree tree = root;
  tree.erase("sweep");
  for (const auto& [key, value, path] : sweep_case.settings) {
    if (key.starts_with("/")) {
      set_pointer(tree, key, value, sweep_case.path);
    } else if (is_sweep_key(key)) {
      tree.at_or_add(key) = value;
    } else {
      set_let(tree.at_or_add("let"), key, value);
    }
  }
  return tree;
}

void override_let(JsonTree& root, const std::string& name, const std::string& text) {
  JsonTree* let = root.find("let") == nullptr ? nullptr : &root.at_or_add("let");
  if (let == nullptr || let->find(name) == nullptr) {
    NearestName nearest(name);
    if (let != nullptr)
      for (const std::string& known : let->keys) nearest.offer(known);
    const bool has_some = let != nullptr && !let->keys.empty();
    const std::string hint = !nearest.best().empty() ? nearest.hint()
                             : has_some
                                 ? fmt::format("; its lets are {}", fmt::join(let->keys, ", "))
                                 : "; it has no let";
    throw_bad_input("--set {}: the file has no let of this name{}", name, hint);
  }
  JsonTree& value = let->at_or_add(name);
  value = JsonTree::of(text);
  int64_t integer = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), integer);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && !text.empty()) {
    value.kind = JsonKind::integer;
    value.integer = integer;
    value.text.clear();
  }
}

}  // namespace shardproof
