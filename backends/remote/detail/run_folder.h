// RunFolder: a folder for files of a run's processes while they run. It goes with its owner, also
// when that is killed. Internal to the remote layer and to backends of real processes.
#pragma once

#include <string>
#include <vector>

#include "shardproof/backends/assembly.h"

namespace shardproof {

class RunFolder {
 public:
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  const std::string& path() const { return path_; }
  // The words that make a worker, with the input kept here if there is one.
  std::vector<std::string> worker_words(const CrewOptions& options) const;

 private:
  std::string path_;
  int janitor_ = -1, line_ = -1;  // the process that waits for the owner's end, and the way to it
};

}  // namespace shardproof
