// RecordedRun: one phase of one case on one backend as a value: its program, values, times and the
// command that repeats it. `run --record` writes it (record_directory.h), `compare` reads it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/engine/job/outcome.h"

namespace shardproof {

// Facts about machine and libraries in order of names such as "host", "cpu", "mpi", "NCCL_ALGO".
using Environment = std::vector<std::pair<std::string, std::string>>;
// Returns the value of a fact, or nothing if it is absent.
std::optional<std::string> find_fact(const Environment& environment, std::string_view name);

// Returns all findings in one line, such as "mismatch (line 2, ranks 0 1)", or "clean".
std::string findings_text(const std::vector<Finding>& findings);

// The lines that line numbers refer to, and the ranks that run them.
struct SourceListing {
  Lanes lanes;
  std::vector<std::string> lines;
  bool operator==(const SourceListing&) const = default;
};

struct RecordedRun {
  std::string file, name;  // scenario file, name of the case
  int phase = 1;           // counts from 1
  std::string backend;
  int64_t ranks = 1;
  int processes = 0;   // 0: all ranks are simulated in one process
  std::string order;   // order in which reductions add; "library": chosen by the library
  std::string pins;    // environment variables under which NCCL adds in this order
  std::string repeat;  // command that repeats the run
  uint64_t seed = 0;
  Environment environment;

  std::string status;   // "as expected", "unexpected" or "refused"
  std::string verdict;  // of the whole case
  std::vector<Finding> findings;
  std::string error;  // message of a refused case, which has none of the members below

  std::string scenario;                       // text of the scenario file
  std::vector<SourceListing> source;          // lines that line numbers refer to
  std::vector<std::string> tensors;           // "x bf16[16, 64] dp:S(0) on dp=2, tp=4"
  std::vector<std::string> program;           // program of the ranks
  std::vector<RecordedValue> values;          // in program order
  std::vector<Record> flight;                 // calls and works, in simulated time
  bool timed = false;                         // true: the times of `flight` are predicted
  bool prices_work = true;                    // false: no times of work are predicted
  std::vector<std::vector<Record>> measured;  // one list for each repetition

  // True for a case that was refused before its program was known.
  bool is_empty() const { return !error.empty() && source.empty(); }
  // Returns why two runs cannot be compared (seed, ranks, tensors, lines), or nothing if they can.
  std::optional<std::string> differs_from(const RecordedRun& other) const;
  // Returns "mlp.json [tp=4]", with ", phase 2" from the second phase on.
  std::string title() const;
};

}  // namespace shardproof
