// RunDirectory: a folder for files of a run's processes, and a second one for memory that they
// share. Both are removed with this object. If the owner is killed, a helper process removes them.
// Internal to backends/remote and to backends of real processes. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardproof/backends/api/worker_pool.h"

namespace shardproof {

class RunDirectory {
 public:
  struct Needs {
    uint64_t bytes = 0;         // space for files
    uint64_t shared_bytes = 0;  // space for shared memory, with a reserve; 0: none is shared
    uint64_t least_shared = 0;  // least space for shared memory with which a run can work
  };
  // Throws Error(io) if a folder cannot be made or has too little room.
  explicit RunDirectory(const Needs& needs);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  const std::string& path() const { return path_; }
  // The folder for shared memory: in /dev/shm if that has room, else path().
  const std::string& shared_path() const { return shared_path_.empty() ? path_ : shared_path_; }
  // Returns the words that start a worker. Writes the input, if there is one, into the folder and
  // replaces the word "-" by its path. Throws Error(io) if it cannot be written.
  std::vector<std::string> worker_words(const WorkerPoolOptions& options) const;

 private:
  void start_cleanup_process();

  std::string path_, shared_path_;
  int cleanup_process_ = -1, line_ = -1;  // helper process, and our end of the socket that it reads
};

}  // namespace shardproof
