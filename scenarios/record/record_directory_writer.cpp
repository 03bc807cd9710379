// Implements RecordFolder of record_directory.h, whose header lists the files and keys. Steps:
// create and claim the folder; for each run write its files and store their sizes. finish() writes
// the manifest, which makes the folder a record.
#include "shardproof/scenarios/record/record_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/record/record_file_names.h"
#include "shardproof/scenarios/record/safetensors.h"
#include "shardproof/scenarios/record/write_file.h"
#include "shardproof/sim/analysis/line_times.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string json_text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string records_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_string(record) + "\n";
  return text;
}

// --- values --------------------------------------------------------------------------------------

std::string rounding_text(const RecordedValue& value) {
  if (!value.measured) return "unknown";
  const bool exact = value.rounding.empty() &&
                     std::all_of(value.parts.begin(), value.parts.end(),
                                 [](const RecordedShard& part) { return part.rounding.empty(); });
  return exact ? "exact" : "elements";
}

Json value_json(const RecordedValue& value) {
  Json out;
  out["id"] = value.id;
  if (!value.bound.empty()) out["name"] = value.bound;
  out["line"] = value.line;
  if (!value.instance.empty()) out["instance"] = value.instance;
  out["dtype"] = name(value.dtype);
  out["ranks"] = to_string(value.lanes);
  if (value.spec) {
    out["mesh"] = to_string(value.spec->mesh());
    out["placements"] = placements_text(*value.spec);
    out["shape"] = std::vector<int64_t>(value.spec->shape().begin(), value.spec->shape().end());
  }
  out["rounding"] = rounding_text(value);
  out["added"] = value.added;
  out["whole"] = value.whole;
  out["parts"] = Json::array();
  for (const RecordedShard& part : value.parts)
    out["parts"].push_back(
        {{"ranks", to_string(part.lanes)}, {"tensor", tensor_name(value, part)}});
  out["digests"] = Json::array();
  for (const ShardDigest& digest : value.digests)
    out["digests"].push_back(
        {{"ranks", to_string(digest.lanes)}, {"digest", fmt::format("{:016x}", digest.digest)}});
  return out;
}

std::vector<NamedTensor> tensors_of(const RecordedRun& run) {
  std::vector<NamedTensor> tensors;
  for (const RecordedValue& value : run.values)
    for (const RecordedShard& part : value.parts)
      tensors.push_back({tensor_name(value, part), part.tensor});
  return tensors;
}

std::vector<NamedTensor> roundings_of(const RecordedRun& run) {
  std::vector<NamedTensor> tensors;
  for (const RecordedValue& value : run.values)
    for (const RecordedShard& part : value.parts) {
      const std::vector<double>& rounding = value.whole ? value.rounding : part.rounding;
      if (!rounding.empty())
        tensors.push_back(
            {tensor_name(value, part), tensor_of(DType::f64, part.tensor.shape, rounding)});
    }
  return tensors;
}

// --- times ---------------------------------------------------------------------------------------

Json steps_json(const std::map<int32_t, StepTime>& steps) {
  Json out;
  const StepTime whole = slowest(steps);
  out["step"] = to_string(whole.step);
  out["exposed"] = to_string(whole.exposed);
  out["ranks"] = Json::object();
  for (const auto& [rank, own] : steps)
    out["ranks"][std::to_string(rank)] = {{"step", to_string(own.step)},
                                          {"exposed", to_string(own.exposed)}};
  return out;
}

// Returns the times of a line: for each rank the median, and the time in each repetition.
Json line_times_json(const LineTime& line, const std::vector<std::vector<LineTime>>& repetitions) {
  Json out;
  out["line"] = line.line;
  if (line.is_call()) out["call"] = line.kind + " " + line.group;
  out["ranks"] = Json::object();
  for (const auto& [rank, own] : line.ranks) {
    Json one;
    one["time"] = to_string(own.time);
    if (repetitions.size() > 1) one["each"] = Json::array();
    for (const std::vector<LineTime>& repetition : repetitions)
      if (const LineTime* other = find_line(repetition, line);
          repetitions.size() > 1 && other != nullptr && other->ranks.contains(rank))
        one["each"].push_back(to_string(other->ranks.at(rank).time));
    one["count"] = own.count;
    if (own.by_device == own.count)
      one["clock"] = own.with_launch == 0 ? "device" : "device+launch";
    if (own.expected != Duration{}) one["expected"] = to_string(own.expected);
    if (line.is_call()) one["bytes"] = static_cast<int64_t>(own.bytes);
    out["ranks"][std::to_string(rank)] = std::move(one);
  }
  return out;
}

// Without prices of work, there are times of calls only.
Json times_json(const std::vector<std::vector<Record>>& repetitions, bool prices_work = true) {
  Json out;
  out["steps"] = Json::array();
  std::vector<std::vector<LineTime>> lines;
  for (const std::vector<Record>& records : repetitions) {
    if (prices_work) out["steps"].push_back(steps_json(step_times(records)));
    lines.push_back(line_times(records));
  }
  out["lines"] = Json::array();
  for (const LineTime& line : median_of(lines))
    if (prices_work || line.is_call()) out["lines"].push_back(line_times_json(line, lines));
  return out;
}

// --- the run -------------------------------------------------------------------------------------

Json source_json(const RecordedRun& run) {
  Json out = Json::array();
  for (const SourceListing& listing : run.source)
    out.push_back({{"ranks", to_string(listing.lanes)}, {"lines", listing.lines}});
  return out;
}

Json run_json(const RecordedRun& run) {
  Json out;
  out["file"] = run.file;
  if (!run.name.empty()) out["case"] = run.name;
  out["phase"] = run.phase;
  out["backend"] = run.backend;
  out["ranks"] = run.ranks;
  out["processes"] = run.processes;
  out["seed"] = std::to_string(run.seed);
  out["order"] = run.order;
  if (!run.pins.empty()) out["pins"] = run.pins;
  out["repeat"] = run.repeat;
  out["environment"] = Json::object();
  for (const auto& [fact, value] : run.environment) out["environment"][fact] = value;
  out["status"] = run.status;
  out["verdict"] = run.verdict;
  out["findings"] = Json::array();
  for (const Finding& finding : run.findings) out["findings"].push_back(to_string(finding));
  if (!run.error.empty()) out["error"] = run.error;
  out["tensors"] = run.tensors;
  out["source"] = source_json(run);
  out["repetitions"] = run.measured.size();
  out["timed"] = run.timed;
  out["prices_work"] = run.prices_work;
  if (run.timed) out["predicted"] = times_json({run.flight}, run.prices_work);
  if (!run.measured.empty()) out["measured"] = times_json(run.measured);
  out["values"] = Json::array();
  for (const RecordedValue& value : run.values) out["values"].push_back(value_json(value));
  return out;
}

std::string folder_name(const RecordedRun& run, size_t number) {
  std::string stem = fs::path(run.file).stem().string();
  for (char& c : stem)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '_';
  constexpr size_t kLongest = 60;
  return fmt::format("{:04}-{}-{}", number, stem.substr(0, kLongest), run.backend);
}

[[noreturn]] void refuse_folder(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::io, what, {path, "", 0, 0});
}

// Creates the folder. Returns true if it did not exist.
bool make_folder(const std::string& path) {
  if (path.empty()) throw_bad_input("expected a folder to record into, found \"\"");
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::exists(status) && !fs::is_directory(status))
    throw Error(ErrorKind::bad_input, "expected a folder to record into, found a file",
                {path, "", 0, 0});
  if (fs::exists(status)) return false;
  fs::create_directories(path, failed);
  if (failed) refuse_folder(path, "cannot be made: " + failed.message());
  return true;
}

[[noreturn]] void refuse_full(const std::string& path) {
  throw Error(ErrorKind::bad_input,
              "expected a new or empty folder to record into, found one with files",
              {path, "", 0, 0});
}

// Claims an empty folder by creating the unfinished manifest exclusively. If several runs find the
// folder empty at the same time, one of them succeeds.
void claim_folder(const std::string& path) {
  const std::string file = path + "/" + kUnfinishedFile;
  std::FILE* const claim = std::fopen(file.c_str(), "wbx");
  if (claim == nullptr && errno == EEXIST) refuse_full(path);
  if (claim == nullptr)
    refuse_folder(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  std::fclose(claim);
  std::error_code failed;
  fs::directory_iterator entry(path, failed);
  if (!failed) entry.increment(failed);
  if (!failed && entry == fs::directory_iterator()) return;
  std::remove(file.c_str());
  if (failed) refuse_folder(path, "cannot be read: " + failed.message());
  refuse_full(path);
}

}  // namespace

RecordFolder::RecordFolder(std::string path, std::string tool_version)
    : path_(std::move(path)), tool_version_(std::move(tool_version)) {
  made_ = make_folder(path_);
  // Fails before the run if the folder cannot be written.
  try {
    claim_folder(path_);
  } catch (const Error&) {
    std::error_code ignored;
    if (made_) fs::remove(path_, ignored);
    throw;
  }
}

RecordFolder::~RecordFolder() {
  if (finished_) return;
  std::error_code ignored;
  for (const RecordEntry& entry : entries_) fs::remove_all(path_ + "/" + entry.folder, ignored);
  fs::remove(path_ + "/" + kManifestFile, ignored);
  fs::remove(path_ + "/" + kUnfinishedFile, ignored);
  if (made_) fs::remove(path_, ignored);
}

void RecordFolder::write(RecordEntry& entry, const std::string& name, const std::string& text) {
  write_whole_file(path_ + "/" + entry.folder + "/" + name, text);
  entry.files.emplace_back(name, static_cast<int64_t>(text.size()));
}

void RecordFolder::add(const RecordedRun& run) {
  RecordEntry& entry = entries_.emplace_back();
  entry.folder = folder_name(run, entries_.size());
  entry.file = run.file;
  entry.name = run.name;
  entry.phase = run.phase;
  entry.backend = run.backend;
  std::error_code failed;
  fs::create_directory(path_ + "/" + entry.folder, failed);
  if (failed) refuse_folder(path_ + "/" + entry.folder, "cannot be made: " + failed.message());
  write(entry, kScenarioFile, run.scenario);
  write(entry, kProgramFile, joined(run.program));
  write(entry, kFlightFile, records_text(run.flight));
  for (size_t i = 0; i < run.measured.size(); ++i)
    write(entry, measured_file(i), records_text(run.measured[i]));
  write(entry, kValuesFile, to_safetensors(tensors_of(run)));
  write(entry, kRoundingFile, to_safetensors(roundings_of(run)));
  write(entry, kRunFile, json_text(run_json(run)));
}

void RecordFolder::finish() {
  Json out;
  out["format"] = kRecordFormat;
  out["version"] = kRecordVersion;
  out["tool"] = tool_version_;
  out["runs"] = Json::array();
  for (const RecordEntry& entry : entries_) {
    Json one;
    one["folder"] = entry.folder;
    one["file"] = entry.file;
    if (!entry.name.empty()) one["case"] = entry.name;
    one["phase"] = entry.phase;
    one["backend"] = entry.backend;
    one["files"] = Json::object();
    for (const auto& [name, bytes] : entry.files) one["files"][name] = bytes;
    out["runs"].push_back(std::move(one));
  }
  write_whole_file(path_ + "/" + kManifestFile, json_text(out));
  finished_ = true;
  std::error_code ignored;
  fs::remove(path_ + "/" + kUnfinishedFile, ignored);
}

}  // namespace shardproof
