// Implements check_folder_order and check_folder_sizes. The table below lists the sub-folders of
// each room in include order. A file includes files of its own sub-folder and of those to the left.
// "." is the folder of the room itself.
#include <algorithm>
#include <map>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

using Folders = std::vector<std::string>;

// The files of one folder fit one screen.
constexpr std::size_t kFolderFiles = 36;

const std::map<std::string, Folders>& folders_of_rooms() {
  static const std::map<std::string, Folders> kFolders = {
      {"localtensor",
       {"base", "mesh", "dtype", "report", "tensor", "placement", "collective", "split", "plan"}},
      {"sim", {"call", "cost", "fiber", "analysis", "matching"}},
      {"backends",
       {"api", "decorators", "local", "cuda", "remote/wire", "remote/rendezvous", "remote/process",
        "remote/exchange", "remote/worker", "remote/coordinator", "bench", "mpi", "nccl", "."}},
      {"program", {"value", "syntax", "ir"}},
      {"ops",
       {"core", "elementwise", "layout", "reduction", "contraction", "convolution", "optimizer",
        "random", "index", "sort", "row", "attention", "loss", "norm", "linalg", "cuda", "."}},
      {"engine",
       {"job", "lower", "execute", "partition", "reference", "check_ops", "compare", "explain",
        "races", "judging", "causes", "check", "generate/forms", "generate"}},
      {"scenarios", {"json", "model", "load", "record", "run", "report", "rules"}},
      {"cli", {"base", "processes", "options", "commands", "."}},
  };
  return kFolders;
}

// Returns the folder of a file relative to its room, "." for the room itself.
std::string folder_in_room(const std::string& path, const std::string& room) {
  std::string rest = path.substr(room.size() + 1);
  std::size_t slash = rest.rfind('/');
  return slash == std::string::npos ? "." : rest.substr(0, slash);
}

std::string joined(const Folders& folders) {
  std::string text;
  for (const std::string& folder : folders) text += (text.empty() ? "" : ", ") + folder;
  return text;
}

std::size_t position(const Folders& folders, const std::string& folder) {
  return static_cast<std::size_t>(std::find(folders.begin(), folders.end(), folder) -
                                  folders.begin());
}

}  // namespace

Violations check_folder_order(const Source& source) {
  Violations found;
  auto room = folders_of_rooms().find(source.room());
  if (!source.is_code() || room == folders_of_rooms().end()) return found;
  const Folders& folders = room->second;
  std::string own = folder_in_room(source.path, room->first);
  std::size_t place = position(folders, own);
  if (place == folders.size()) {
    return {{source.path, 1,
             "sub-folder " + own + " of " + room->first + " is not listed; use one of " +
                 joined(folders) + " (tests/tidy/folder_order.cpp)",
             ""}};
  }
  static const std::regex kInclude("^\\s*#\\s*include\\s*\"shardproof/([^\"]+)\"");
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (source.lines[i].find("include") == std::string::npos ||
        !std::regex_search(source.lines[i], match, kInclude))
      continue;
    std::string header = match[1];
    if (!header.starts_with(room->first + "/")) continue;
    std::string other = folder_in_room(header, room->first);
    std::size_t other_place = position(folders, other);
    // A header in a folder that is not listed is reported once, at the header.
    if (other_place <= place || other_place == folders.size()) continue;
    found.push_back({source.path, i + 1,
                     "\"shardproof/" + header + "\": " + other + " stands to the right of " + own +
                         " in " + room->first + "; move what both need into a folder to the left",
                     ""});
  }
  return found;
}

Violations check_folder_sizes(const std::vector<Source>& tree) {
  std::map<std::string, std::size_t> files;
  for (const Source& source : tree) {
    if (source.is_code() && room_position(source.room()) >= 0) ++files[source.folder()];
  }
  Violations found;
  for (const auto& [folder, count] : files) {
    if (count <= kFolderFiles) continue;
    found.push_back({folder, 1,
                     std::to_string(count) + " files; the limit of a sub-folder is " +
                         std::to_string(kFolderFiles) + ": split it by purpose",
                     ""});
  }
  return found;
}

}  // namespace shardproof::tidy
