// The processes of a run over several: how the command line asks for them, and what makes this
// process one of them.
#pragma once

#include <string>

#include "shardproof/cli/detail/command.h"
#include "shardproof/scenarios/run.h"

namespace shardproof {

inline constexpr const char* kJoinOption = "join-crew";  // not for people

// Before anything else is done in this process.
void become_worker(const std::string& address);

struct CrewRequest {
  const Words& words;  // of the command
  const boost::program_options::variables_map& given;
  const std::vector<Scenario>& scenarios;
};
// Puts the backend that `options` name into the registries with its processes, if it has any. True
// when this process is one of them.
bool man_backend(Registries& registries, RunOptions& options, const CrewRequest& request);

}  // namespace shardproof
