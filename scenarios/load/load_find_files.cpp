// Implements find_scenarios and read_file of load.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "shardproof/scenarios/load/load.h"

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

[[noreturn]] void refuse_path(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::io, why, {shown_path(path), "", 0, 0});
}

}  // namespace

std::vector<ScenarioPath> find_scenarios(const std::string& path) {
  if (path == "-") return {{"-", "-", "", read_file("/dev/stdin", "-")}};
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) refuse_path(path, "no such file or folder");
  if (status.type() == fs::file_type::none) refuse_path(path, error.message());
  if (!fs::is_directory(status)) return {{path, shown_path(path), "", std::nullopt}};
  std::vector<ScenarioPath> found;
  // Files below an absolute path are shown below the last part of that path.
  const fs::path root(path);
  const std::string shown = shown_path(root.has_filename() ? root : root.parent_path());
  auto it = fs::recursive_directory_iterator(root, error);
  if (error) refuse_path(path, error.message());
  for (; it != fs::end(it); it.increment(error)) {
    if (error) refuse_path(path, error.message());
    if (it->path().extension() != ".json" || !it->is_regular_file(error)) continue;
    const fs::path below = it->path().lexically_relative(root);
    const fs::path file = shown == "." ? below : fs::path(shown) / below;
    found.push_back(
        {it->path().string(), file.generic_string(), row_of(below, shown), std::nullopt});
  }
  std::sort(found.begin(), found.end(),
            [](const ScenarioPath& a, const ScenarioPath& b) { return a.file < b.file; });
  if (found.empty()) refuse_path(path, "no scenario (*.json) in this folder");
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
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return fail("cannot be read");
  return text;
}

}  // namespace shardproof
