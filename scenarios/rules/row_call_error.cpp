// Implements row_call_error.h. The dtypes that a call takes are found by trying each one in place
// of the dtype that most inputs have.
#include "shardproof/scenarios/rules/row_call_error.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "shardproof/localtensor/base/join_text.h"

namespace shardproof {
namespace {

constexpr const char* kPathOfCall = "/program";  // of lines that are lowered

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool has_word(const std::string& text, const std::string& word) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end])))
      return true;
  }
  return false;
}

// Returns the names of the dtypes with which the call is legal in place of that of input `changed`;
// inputs of the same dtype change with it.
std::vector<std::string> accepted_dtypes(const std::vector<TensorMeta>& inputs, size_t changed,
                                         const IsLegalCall& is_legal) {
  std::vector<std::string> accepted;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    std::vector<TensorMeta> other = inputs;
    for (TensorMeta& meta : other)
      if (meta.dtype == inputs[changed].dtype) meta.dtype = dtype;
    if (is_legal(other)) accepted.emplace_back(name(dtype));
  }
  return accepted;
}

std::optional<Error> error_of_dtype(const Error& error, const JsonReader& row,
                                    const std::vector<TensorMeta>& inputs,
                                    const IsLegalCall& is_legal) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!has_word(error.message(), std::string(name(inputs[i].dtype)))) continue;
    const std::vector<std::string> accepted = accepted_dtypes(inputs, i, is_legal);
    if (accepted.empty()) continue;
    const JsonReader input = row.at("inputs").items().at(i);
    return Error(ErrorKind::bad_input,
                 fmt::format("{}; expected {}", error.message(), join_text(accepted, ", ")),
                 {"", input.has("dtype") ? input.at("dtype").path() : input.path(), 0, 0});
  }
  return std::nullopt;
}

}  // namespace

Error row_call_error(const Error& error, const JsonReader& row,
                     const std::vector<TensorMeta>& inputs, const IsLegalCall& is_legal) {
  const Where where = error.where();
  const bool is_line_of_row = where.path.empty() && where.line > 0 && row.has("call");
  if (where.path != kPathOfCall && !is_line_of_row) return error;
  if (const auto by_dtype = error_of_dtype(error, row, inputs, is_legal)) return *by_dtype;
  std::string path = row.at("inputs").path();
  if (row.has("call")) {
    const size_t line = error.where().line > 0 ? static_cast<size_t>(error.where().line) - 1 : 0;
    path = fmt::format("{}/{}", row.at("call").path(), line);
  } else if (row.has("attrs")) {
    for (const auto& [key, value] : row.at("attrs").members())
      if (has_word(error.message(), key)) path = value.path();
  }
  return Error(ErrorKind::bad_input, error.message(), {"", std::move(path), 0, 0});
}

}  // namespace shardproof
