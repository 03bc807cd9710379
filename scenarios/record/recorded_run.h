// RecordedRun: one phase of one case on one backend as a value, with all that another run of the
// same program is compared by and all that is needed to repeat it. What `run --record` writes
// (record_folder.h) and `compare` reads.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// Names and values, in order: "host", "cpu", "mpi", "gpu", "NCCL_ALGO", ...
using Environment = std::vector<std::pair<std::string, std::string>>;
std::optional<std::string> find_fact(const Environment& environment, std::string_view name);

// What was found, for laying beside another run: "mismatch (line 2, ranks 0 1)" one after the
// other, or "clean".
std::string findings_text(const std::vector<Finding>& findings);

struct SourceListing {
  Lanes lanes;
  std::vector<std::string> lines;
  bool operator==(const SourceListing&) const = default;
};

struct RecordedRun {
  std::string file, name;  // of the scenario, of the case
  int phase = 1;           // of the case, from 1
  std::string backend;
  int64_t ranks = 1;
  int processes = 0;   // 0: simulated in one
  std::string order;   // in which reductions add; "library": as the backend's library likes
  std::string pins;    // environment under which NCCL adds so
  std::string repeat;  // the command
  uint64_t seed = 0;
  Environment environment;

  std::string status;   // "as expected", "surprise", "refused"
  std::string verdict;  // of the case
  std::vector<Finding> findings;
  std::string error;  // of a refused case: then there is nothing below

  std::string scenario;                       // text of the file
  std::vector<SourceListing> source;          // lines that line numbers mean
  std::vector<std::string> tensors;           // "x bf16[16, 64] dp:S(0) on dp=2, tp=4"
  std::vector<std::string> program;           // what the ranks ran
  std::vector<RecordedValue> values;          // in program order
  std::vector<Record> flight;                 // calls and works; with predicted times on a topology
  bool timed = false;                         // there was a topology
  std::vector<std::vector<Record>> measured;  // of each repetition

  // Refused before it came to anything: nobody knows what program it would have run.
  bool is_empty() const { return !error.empty() && source.empty(); }
  // Whether two runs can be compared, and if not, why.
  std::optional<std::string> differs_from(const RecordedRun& other) const;
  std::string title() const;  // "mlp.json [tp=4]"
};

}  // namespace shardproof
