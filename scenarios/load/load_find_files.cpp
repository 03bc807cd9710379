// Implements find_scenarios and read_file of load.h.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_tree.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/model/own_formats.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// Returns the name of a file in reports: relative to the working directory if it lies below it,
// else its last part. Equal runs on two machines then write equal reports.
std::string shown_path(const fs::path& path) {
  if (path.is_relative()) return path.lexically_normal().generic_string();
  std::error_code error;
  const fs::path relative = path.lexically_relative(fs::current_path(error));
  if (!error && !relative.empty() && !relative.generic_string().starts_with(".."))
    return relative.generic_string();
  return path.filename().generic_string();
}

// Returns the row of a file in the table of a folder: the first folder below it, or the file.
std::string row_of(const fs::path& below, const std::string& shown) {
  return below.has_parent_path() ? below.begin()->generic_string()
                                 : fs::path(shown).filename().generic_string();
}

enum class FileKind { scenario, own, other };

constexpr std::array<std::string_view, 6> kScenarioKeys = {"version", "mesh",   "program",
                                                           "ranks",   "phases", "model"};

// A malformed file counts as a scenario in three cases: it is empty, its text has a key of
// scenarios, or it has a zero byte (a text in UTF-16).
FileKind kind_of_text(const std::string& text) {
  try {
    const JsonTree tree = read_json(text);
    if (is_own_format(tree)) return FileKind::own;
    const bool scenario =
        std::any_of(kScenarioKeys.begin(), kScenarioKeys.end(),
                    [&](std::string_view key) { return tree.find(key) != nullptr; });
    return scenario ? FileKind::scenario : FileKind::other;
  } catch (const Error&) {
    const bool scenario =
        text.find_first_not_of(" \t\r\n") == std::string::npos ||
        text.find('\0') != std::string::npos ||
        std::any_of(kScenarioKeys.begin(), kScenarioKeys.end(), [&](std::string_view key) {
          return text.find(fmt::format("\"{}\"", key)) != std::string::npos;
        });
    return scenario ? FileKind::scenario : FileKind::other;
  }
}

// A file that cannot be read is taken for a scenario, so that its error is reported.
FileKind kind_of_file(const fs::path& path, const std::string& shown) {
  try {
    return kind_of_text(read_file(path.string(), shown));
  } catch (const Error&) {
    return FileKind::scenario;
  }
}

bool is_record(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kUnfinishedFile, error)) return true;
  const fs::path manifest = folder / kManifestFile;
  return fs::is_regular_file(manifest, error) &&
         kind_of_file(manifest, kManifestFile) == FileKind::own;
}

[[noreturn]] void refuse_path(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::io, why, {path.generic_string(), "", 0, 0});
}

}  // namespace

FoundScenarios find_scenarios(const std::string& path) {
  if (path.empty()) throw_bad_input("expected a file or a folder, found \"\"");
  if (path == "-") return {{{"-", "-", "", read_file("/dev/stdin", "-")}}, {}};
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const bool lacks_extension = fs::is_regular_file(path + ".json", error);
    refuse_path(path, "no such file or folder" +
                          (lacks_extension ? "; did you mean \"" + path + ".json\"?" : ""));
  }
  if (status.type() == fs::file_type::none) refuse_path(path, error.message());
  if (!fs::is_directory(status)) return {{{path, shown_path(path), "", std::nullopt}}, {}};
  FoundScenarios found;
  // Files below an absolute path are shown below the last part of that path.
  const fs::path root(path);
  const std::string shown = shown_path(root.has_filename() ? root : root.parent_path());
  if (is_record(root))
    refuse_path(path, "expected scenarios, found a record; shardproof compare reads records");
  auto it = fs::recursive_directory_iterator(root, error);
  if (error) refuse_path(path, error.message());
  for (; it != fs::end(it); it.increment(error)) {
    if (error) refuse_path(path, error.message());
    const fs::path below = it->path().lexically_relative(root);
    const std::string file = (shown == "." ? below : fs::path(shown) / below).generic_string();
    if (it->is_directory(error) && is_record(it->path())) {
      it.disable_recursion_pending();
      found.skipped.push_back({file, true});
    }
    if (it->path().extension() != ".json" || !it->is_regular_file(error)) continue;
    const FileKind kind = kind_of_file(it->path(), file);
    if (kind != FileKind::scenario)
      found.skipped.push_back({file, kind == FileKind::own});
    else
      found.paths.push_back({it->path().string(), file, row_of(below, shown), std::nullopt});
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.file < b.file; };
  std::sort(found.paths.begin(), found.paths.end(), by_name);
  std::sort(found.skipped.begin(), found.skipped.end(), by_name);
  if (found.paths.empty()) refuse_path(path, "no scenario (*.json) in this folder");
  return found;
}

std::string read_file(const std::string& path, const std::string& file) {
  const auto fail = [&](const std::string& why) -> std::string {
    throw Error(ErrorKind::io, why, {file, "", 0, 0});
  };
  std::error_code error;
  if (fs::is_directory(path, error)) return fail("a folder, expected a file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string text;
  std::array<char, 65536> block;
  while (in.read(block.data(), block.size()) || in.gcount() > 0)
    text.append(block.data(), static_cast<size_t>(in.gcount()));
  if (in.bad()) return fail("cannot be read");
  return text;
}

}  // namespace shardproof
