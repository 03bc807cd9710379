// RecordFolder: recorded runs on disk. docs/record.md describes the format, version 2.
//
//   file                        contents
//   manifest.json               format, version, tool, runs; written last: makes it a record
//   manifest.json.part          present while a run records; claims the folder
//   NNNN-FILE-BACKEND/run.json  head, findings, source, times and values of one run
//     scenario.json             the scenario file as it was read
//     program.txt               program of the ranks, as `shardproof show` prints it
//     flight.txt                one line of key=value for each call or work, in simulated time
//     measured-N.txt            the same with the measured times of repetition N
//     values.safetensors        contents of values, by tensor name
//     rounding.safetensors      measured rounding of their elements, f64, by the same names
//
//   keys of manifest runs[]   folder, file, case, phase, backend, files (name to bytes)
//   keys of run.json          file, case, phase, backend, ranks, processes, seed, order, pins,
//                             repeat, environment, status, verdict, findings, error, tensors,
//                             source, repetitions, timed, predicted, measured, values
//   keys of values[]          id, name, line, instance, dtype, ranks, mesh, placements, shape,
//                             rounding (exact, elements or unknown), added, whole, parts, digests
#pragma once

#include <string>
#include <vector>

#include "shardproof/scenarios/record/recorded_run.h"

namespace shardproof {

inline constexpr int kRecordVersion = 2;

// One run of a record, before its files are read.
struct RecordEntry {
  std::string folder;  // name below the folder of the record
  std::string file, name, backend;
  int phase = 1;
  std::vector<std::pair<std::string, int64_t>> files;  // names and sizes in bytes
};

class RecordFolder {
 public:
  // Creates the folder, or claims an empty one. Throws Error(bad_input) if it has files and
  // Error(io) if it cannot be written.
  RecordFolder(std::string path, std::string tool_version);
  // Removes everything that was written, unless finish has been called.
  ~RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;

  // Writes the files of one run. Throws Error(io).
  void add(const RecordedRun& run);
  // Writes the manifest, which makes the folder a record. Throws Error(io).
  void finish();

 private:
  void write(RecordEntry& entry, const std::string& name, const std::string& text);

  std::string path_, tool_version_;
  bool made_ = false, finished_ = false;
  std::vector<RecordEntry> entries_;
};

// A record that was opened for reading.
struct Recording {
  std::string path;
  std::vector<RecordEntry> entries;
};
// Reads the manifest and checks that all its files are complete. Throws Error(bad_input) for an
// incomplete record and Error(unsupported) for another version.
Recording read_recording(const std::string& path);
// Reads one run. Throws Error(bad_input) with the file.
RecordedRun read_run(const Recording& recording, const RecordEntry& entry);

}  // namespace shardproof
