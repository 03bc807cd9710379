// RunDirectory: a folder for files of a run's processes while they run, and another one for the
// memory that they share. Both go with their owner, also when that is killed. Internal to the
// remote layer and to backends of real processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardproof/backends/api/worker_pool.h"

namespace shardproof {

class RunDirectory {
 public:
  struct Needs {
    uint64_t bytes = 0;         // of files
    uint64_t shared_bytes = 0;  // of memory, with room to spare; 0: nothing is shared
    uint64_t least_shared = 0;  // of which no less may be there
  };
  // Error(io) when there can be none, or one with too little room.
  explicit RunDirectory(const Needs& needs);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  const std::string& path() const { return path_; }
  // In memory, where the machine has so much of it for this; else where the files are.
  const std::string& shared_path() const { return shared_path_.empty() ? path_ : shared_path_; }
  // The words that make a worker, with the input kept here if there is one.
  std::vector<std::string> worker_words(const WorkerPoolOptions& options) const;

 private:
  void keep_janitor();

  std::string path_, shared_path_;
  int janitor_ = -1, line_ = -1;  // the process that waits for the owner's end, and the way to it
};

}  // namespace shardproof
