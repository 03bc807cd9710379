// Implements library_paths.h.
#include "shardproof/cli/options/library_paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// Adds nvidia/*/lib. Most packages have their own folder (nvidia/nccl/lib); those of a CUDA toolkit
// may share one (nvidia/cu13/lib).
void add_libraries_in(const fs::path& packages, std::vector<std::string>& folders) {
  std::error_code ignored;
  for (fs::directory_iterator at(packages, ignored), end; at != end; at.increment(ignored))
    if (fs::is_directory(at->path() / "lib", ignored))
      folders.push_back((at->path() / "lib").string());
}

// Adds the packages of a Python below PREFIX, such as PREFIX/lib/python3.12/site-packages.
void add_packages_of(const fs::path& prefix, std::vector<std::string>& folders) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (fs::directory_iterator at(prefix / "lib", ignored), end; at != end; at.increment(ignored)) {
    if (!at->path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})
      add_libraries_in(at->path() / packages / "nvidia", found);
  }
  std::sort(found.begin(), found.end());
  for (const std::string& folder : found)
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
}

// Adds the packages of PREFIX/bin/python3 and of the Pythons it links to, such as another
// environment.
void add_packages_of_python(fs::path python, std::vector<std::string>& folders) {
  constexpr int kMaxLinks = 8;
  std::error_code failed;
  if (!fs::exists(python, failed)) return;
  add_packages_of(python.parent_path().parent_path(), folders);
  for (int i = 0; i < kMaxLinks && fs::is_symlink(python, failed); ++i) {
    const fs::path to = fs::read_symlink(python, failed);
    if (failed) return;
    python = (python.parent_path() / to).lexically_normal();
    add_packages_of(python.parent_path().parent_path(), folders);
  }
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  const char* const path = std::getenv("PATH");
  std::istringstream in(path == nullptr ? "" : path);
  for (std::string folder; std::getline(in, folder, ':');)
    add_packages_of_python(fs::path(folder) / "python3", folders);
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* const prefix = std::getenv(environment)) add_packages_of(prefix, folders);
  const char* const home = std::getenv("HOME");
  if (home != nullptr) add_packages_of(fs::path(home) / ".local", folders);
  for (const char* prefix : {"/usr/local", "/usr"}) add_packages_of(prefix, folders);
  return folders;
}

}  // namespace shardproof
