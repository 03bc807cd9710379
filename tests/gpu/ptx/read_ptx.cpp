// Implements Module of ptx.h: splits a source file into functions and variables.
#include <cstring>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/ptx/decode.h"
#include "shardproof/tests/gpu/ptx/ptx.h"
#include "shardproof/tests/gpu/ptx/statements.h"

namespace shardproof::ptx {
namespace {

// Forms: ".param .align 8 .b8 name[112]", ".param .u64 name".
Parameter parameter_of(std::string_view text) {
  const std::vector<std::string_view> words = split(text, " \t\n[]");
  const bool is_array = text.find('[') != std::string_view::npos;
  const std::string_view name = words[words.size() - (is_array ? 2 : 1)];
  const std::string_view type = words[words.size() - (is_array ? 3 : 2)];
  const int64_t count = is_array ? number_of(words.back()) : 1;
  return {std::string(name), bytes_of_type(type) * count};
}

std::vector<Parameter> parameters_of(std::string_view list) {
  std::vector<Parameter> parameters;
  for (const std::string_view text : split(list, ",")) {
    if (!trimmed(text).empty()) parameters.push_back(parameter_of(trimmed(text)));
  }
  return parameters;
}

std::string_view within(std::string_view text, size_t open, char close) {
  return text.substr(open + 1, text.find(close, open) - open - 1);
}

// Forms: ".visible .entry name(..)", ".func (results) name (parameters)".
Function head_of(std::string_view header) {
  Function function;
  size_t at = header.find(".entry");
  const bool is_kernel = at != std::string_view::npos;
  at = is_kernel ? at + 6 : header.find(".func") + 5;
  at = header.find_first_not_of(" \t\n", at);
  if (header[at] == '(') {
    function.results = parameters_of(within(header, at, ')'));
    at = header.find_first_not_of(" \t\n", header.find(')', at) + 1);
  }
  const size_t end = header.find_first_of(" \t\n(", at);
  function.name = header.substr(at, end - at);
  const size_t open = header.find('(', at);
  if (open != std::string_view::npos)
    function.parameters = parameters_of(within(header, open, ')'));
  return function;
}

}  // namespace

Module::Module(std::string text) : text_(without_comments(std::move(text))) {
  std::string_view left = text_;
  while (!(left = trimmed(left)).empty()) {
    const size_t stop = left.find_first_of(";{\n");
    if (left.starts_with(".version") || left.starts_with(".target") ||
        left.starts_with(".address_size")) {
      left.remove_prefix(left.find('\n'));
      continue;
    }
    const size_t end = left.find_first_of(";{=");
    if (end == std::string_view::npos || stop == std::string_view::npos)
      throw_bad_input("PTX ends in \"{}\"", left.substr(0, 60));
    const std::string_view head = left.substr(0, end);
    if (left[end] == '{') {
      const size_t close = end_of_scope(left, end);
      read_function(head, left.substr(end + 1, close - end - 1));
      left.remove_prefix(close + 1);
      continue;
    }
    const size_t close = left.find(';');
    if (head.starts_with(".global") || head.starts_with(".const"))
      read_variable(left.substr(0, close));
    left.remove_prefix(close + 1);  // also skips declarations, whose functions come later
  }
}

void Module::read_function(std::string_view header, std::string_view body) {
  Function function = head_of(header);
  function.body = body;
  const std::string name = function.name;
  functions_[name] = std::move(function);
}

// Form: ".global .align 8 .b8 name[144] = {8, 93, ..}", in bytes or in numbers of 64 bits.
void Module::read_variable(std::string_view statement) {
  const size_t sets = statement.find('=');
  const std::string_view declared = statement.substr(0, sets);
  const Parameter shape = parameter_of(trimmed(declared));
  std::vector<uint64_t> words(static_cast<size_t>(shape.bytes + 7) / 8);
  if (sets != std::string_view::npos) {
    const size_t width = declared.find(".b8") != std::string_view::npos ? 1 : 8;
    if (width == 8 && declared.find("64") == std::string_view::npos)
      throw_bad_input("a PTX variable of another type than b8 and b64: {}", declared);
    size_t at = 0;
    for (const std::string_view number : split(within(statement, statement.find('{'), '}'), ",")) {
      const int64_t value = number_of(trimmed(number));
      std::memcpy(reinterpret_cast<std::byte*>(words.data()) + at, &value, width);
      at += width;
    }
  }
  variables_[shape.name] = std::move(words);
}

const Function* Module::find(const std::string& name) {
  const auto found = functions_.find(name);
  if (found == functions_.end()) return nullptr;
  Function& function = found->second;
  if (!function.body.empty()) {
    const std::string_view body = std::exchange(function.body, {});
    decode(function, body, *this);
  }
  return &function;
}

uint64_t Module::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? 0 : reinterpret_cast<uint64_t>(found->second.data());
}

std::pair<const void*, const void*> Module::variable_at(const void* address) const {
  for (const auto& [name, words] : variables_)
    if (address >= words.data() && address < words.data() + words.size())
      return {words.data(), words.data() + words.size()};
  return {};
}

}  // namespace shardproof::ptx
