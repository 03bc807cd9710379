// RecordFolder: recorded runs on disk, as docs/record.md says. A folder is a record when its
// manifest is there: it is written last, in one step, and names every file with its size, so that
// what was left half-written is never taken for whole.
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/record/recorded_run.h"

namespace shardproof {

inline constexpr int kRecordVersion = 2;

// One run of a record, before its files are read.
struct RecordEntry {
  std::string folder;  // below the record's
  std::string file, name, backend;
  int phase = 1;
  std::vector<std::pair<std::string, int64_t>> files;  // and their bytes
};

class RecordFolder {
 public:
  // Makes the folder, or takes an empty one. Throws Error(bad_input) when there is something in it,
  // Error(io) when it cannot be written.
  RecordFolder(std::string path, std::string tool_version);
  // Without finish: takes away what was written.
  ~RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;

  void add(const RecordedRun& run);  // Error(io)
  void finish();                     // Error(io)

 private:
  void write(RecordEntry& entry, const std::string& name, const std::string& text);

  std::string path_, tool_version_;
  bool made_ = false, finished_ = false;
  std::vector<RecordEntry> entries_;
};

struct Recording {
  std::string path;
  std::vector<RecordEntry> entries;
};
// Throw Error(bad_input) for what is no whole record, and Error(unsupported) for one of another
// version.
Recording read_recording(const std::string& path);
RecordedRun read_run(const Recording& recording, const RecordEntry& entry);

}  // namespace shardproof
