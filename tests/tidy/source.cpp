// Implements source.h. One scanner finds comments and literals. It reads C++20 literal forms (raw
// strings, digit separators), so that a quote inside a number or a raw string opens no literal.
#include "shardproof/tests/tidy/source.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

namespace shardproof::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> kRoomOrder = {
    "localtensor", "sim", "backends", "program", "ops", "engine", "scenarios", "cli"};

// True if the quote at `at` separates digits (1'000) and opens no character literal.
bool is_digit_separator(std::string_view text, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '\'')) --begin;
  return begin < at && std::isdigit(static_cast<unsigned char>(text[begin]));
}

bool starts_raw_string(std::string_view text, std::size_t quote) {
  if (quote == 0 || text[quote - 1] != 'R') return false;
  std::size_t begin = quote - 1;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  std::string_view prefix = text.substr(begin, quote - begin);
  return prefix == "R" || prefix == "u8R" || prefix == "uR" || prefix == "UR" || prefix == "LR";
}

std::size_t end_of_raw_string(std::string_view text, std::size_t quote) {
  std::size_t open = text.find('(', quote);
  if (open == std::string_view::npos) return text.size();
  std::string close = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

std::size_t end_of_quoted(std::string_view text, std::size_t quote) {
  std::size_t at = quote + 1;
  while (at < text.size() && text[at] != text[quote] && text[at] != '\n') {
    at += text[at] == '\\' ? 2 : 1;
  }
  return std::min(at + 1, text.size());
}

// Returns the end of the comment or literal that begins at `at`, or `at` if none begins there.
std::size_t end_of_skipped(std::string_view text, std::size_t at) {
  std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) {
    std::size_t end = text.find("*/", at + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  if (rest[0] == '"') {
    return starts_raw_string(text, at) ? end_of_raw_string(text, at) : end_of_quoted(text, at);
  }
  if (rest[0] == '\'' && !is_digit_separator(text, at)) return end_of_quoted(text, at);
  return at;
}

bool is_text_file(const fs::path& path) {
  static constexpr std::array<std::string_view, 13> kEndings = {
      ".h",  ".cpp",  ".cu", ".cuh", ".cmake", ".txt",  ".md",
      ".in", ".json", ".sh", ".yml", ".html",  ".jsonl"};
  std::string ending = path.extension().string();
  std::string name = path.filename().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end() || name == "dev" ||
         name == "run";
}

bool is_skipped_folder(const fs::path& path) {
  std::string name = path.filename().string();
  bool fuzz_corpus = name == "corpus" && path.parent_path().filename() == "fuzz";
  return name.starts_with(".") || name == "build" || name.starts_with("build-") || fuzz_corpus;
}

}  // namespace

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool Source::is_header() const { return path.ends_with(".h") || path.ends_with(".cuh"); }

bool Source::is_code() const {
  return is_header() || path.ends_with(".cpp") || path.ends_with(".cu");
}

bool Source::is_cmake() const {
  return path.ends_with(".cmake") || fs::path(path).filename() == "CMakeLists.txt";
}

std::string Source::room() const {
  std::size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string Source::folder() const {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

int room_position(std::string_view folder) {
  auto found = std::find(kRoomOrder.begin(), kRoomOrder.end(), folder);
  return found == kRoomOrder.end() ? -1 : static_cast<int>(found - kRoomOrder.begin());
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string code(text);
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = end_of_skipped(text, at);
    for (std::size_t i = at; i < end; ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    at = std::max(end, at + 1);
  }
  return code;
}

std::vector<std::size_t> comment_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.substr(at).starts_with("//")) offsets.push_back(at);
    at = std::max(end_of_skipped(text, at), at + 1);
  }
  return offsets;
}

Source make_source(std::string path, std::string text) {
  Source source;
  source.path = std::move(path);
  source.text = std::move(text);
  if (source.is_code()) source.code = blank_comments_and_literals(source.text);
  std::istringstream in(source.text);
  for (std::string line; std::getline(in, line);) source.lines.push_back(line);
  return source;
}

std::vector<Source> load_tree(const fs::path& root) {
  std::vector<Source> tree;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::end(it); ++it) {
    if (it->is_symlink()) continue;
    if (it->is_directory()) {
      if (is_skipped_folder(it->path())) it.disable_recursion_pending();
    } else if (is_text_file(it->path())) {
      std::ifstream in(it->path(), std::ios::binary);
      std::string text(std::istreambuf_iterator<char>(in), {});
      tree.push_back(make_source(it->path().lexically_relative(root).generic_string(), text));
    }
  }
  std::sort(tree.begin(), tree.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return tree;
}

}  // namespace shardproof::tidy
