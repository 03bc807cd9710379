#include <algorithm>
#include <array>
#include <regex>

#include "shardproof/tests/tidy/rules.h"

namespace shardproof::tidy {
namespace {

// A room may use fewer rooms than stand to its left.
struct Blind {
  std::string_view room;
  std::string_view other;
};
constexpr std::array<Blind, 4> kBlind = {
    {{"program", "sim"}, {"program", "backends"}, {"ops", "sim"}, {"ops", "backends"}}};

// A library, by how its headers begin, and the one place in the tower that may include it.
struct Library {
  std::string_view name;
  std::string_view pattern;
  std::string_view where;
};
constexpr std::array<Library, 9> kLibraries = {{
    {"nlohmann-json", "^nlohmann/", "^scenarios/"},
    {"Boost.Program_options", "^boost/program_options", "^cli/"},
    {"Boost", "^boost/(?!program_options)", "^sim/"},
    {"Eigen", "^(unsupported/)?Eigen/", "^ops/.*\\.cpp$"},
    {"MPI", "^mpi\\.h", "^backends/"},
    {"CUDA", "^(cuda|cublas|curand|nccl|cooperative_groups|thrust/|cub/)", "^(backends|ops/cuda)/"},
    {"fibers", "^(thread|future|condition_variable)$", "^(sim|backends|engine|scenarios|cli)/"},
    {"time", "^chrono$", "^(sim|backends|engine|scenarios|cli)/"},
    {"files", "^(fstream|filesystem)$", "^(sim|backends|engine|scenarios|cli)/"},
}};

// The first six are kept out of public headers as well.
constexpr std::size_t kHiddenLibraries = 6;

bool matches(std::string_view text, std::string_view pattern) {
  return std::regex_search(std::string(text), std::regex(std::string(pattern)));
}

bool is_blind(std::string_view room, std::string_view other) {
  return std::any_of(kBlind.begin(), kBlind.end(),
                     [&](const Blind& b) { return b.room == room && b.other == other; });
}

std::string judge_library(const Source& source, const std::string& header) {
  for (std::size_t i = 0; i < kLibraries.size(); ++i) {
    const Library& library = kLibraries[i];
    if (!matches(header, library.pattern)) continue;
    if (!matches(source.path, library.where)) {
      return "<" + header + ">: " + source.room() + " must not know " + std::string(library.name);
    }
    if (i < kHiddenLibraries && source.is_header() && !source.is_private()) {
      return "<" + header + ">: a public header must not show " + std::string(library.name) +
             " (a private one lives in " + source.room() + "/detail/)";
    }
  }
  return "";
}

std::string judge_room(const Source& source, const std::string& header) {
  std::string own = source.room();
  std::string rest = header.substr(std::string_view("shardproof/").size());
  std::string other = rest.substr(0, rest.find('/'));
  if (place_in_tower(other) < 0) return "\"" + header + "\": " + other + " is not a room";
  if (place_in_tower(other) > place_in_tower(own)) {
    return "\"" + header + "\": " + other + " stands to the right of " + own;
  }
  if (is_blind(own, other)) return "\"" + header + "\": " + own + " must not know " + other;
  if (own != other && rest.find("/detail/") != std::string::npos) {
    return "\"" + header + "\": detail/ belongs to " + other + " alone";
  }
  bool physics = matches(rest, "^sim/(gate|clock|topology)");
  if (own == "backends" && physics && !matches(source.path, "^backends/(local|remote)")) {
    return "\"" + header +
           "\": of the backends only local and remote know gate, clock and topology";
  }
  return "";
}

}  // namespace

Violations check_includes(const Source& source) {
  Violations found;
  if (!source.is_code() || place_in_tower(source.room()) < 0) return found;
  static const std::regex kInclude("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  for (std::size_t i = 0; i < source.lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(source.lines[i], match, kInclude)) continue;
    std::string header = match[2];
    std::string message;
    if (header.starts_with("shardproof/")) {
      message = judge_room(source, header);
    } else {
      message = judge_library(source, header);
      if (message.empty() && match[1] == "\"") {
        message = "\"" + header + "\": write the path from the root, \"shardproof/" +
                  source.room() + "/...\"";
      }
    }
    if (!message.empty()) found.push_back({source.path, i + 1, message});
  }
  return found;
}

}  // namespace shardproof::tidy
