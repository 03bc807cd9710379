// Implements read_recording and read_run of record_directory.h. Steps: read the manifest; check
// version, names and sizes of all files. For a run, read run.json, the flight records and both
// safetensors files, and join values with their tensors by name.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/json/json_reader.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/record/record_directory.h"
#include "shardproof/scenarios/record/record_file_names.h"
#include "shardproof/scenarios/record/safetensors.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_record(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::bad_input, what, {path, "", 0, 0});
}

std::string text_or_empty(const JsonReader& reader, std::string_view key) {
  return reader.has(key) ? reader.at(key).text() : "";
}

std::vector<std::string> read_texts(const JsonReader& list) {
  std::vector<std::string> result;
  for (const JsonReader& item : list.items()) result.push_back(item.text());
  return result;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Lanes ranks_at(const JsonReader& reader) {
  const std::optional<Lanes> lanes = parse_lanes(reader.at("ranks").text());
  if (!lanes) reader.at("ranks").expected("ranks such as 0-3");
  return *lanes;
}

// --- the manifest --------------------------------------------------------------------------------

// Refuses names with "/" and "..", so that a manifest cannot point outside its record.
std::string plain_name(const JsonReader& reader) {
  const std::string& name = reader.text();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    reader.expected("the name of a file");
  return name;
}

RecordEntry read_record_entry(const JsonReader& reader) {
  RecordEntry entry;
  entry.folder = plain_name(reader.at("folder"));
  entry.file = reader.at("file").text();
  entry.name = text_or_empty(reader, "case");
  entry.phase = static_cast<int>(reader.at("phase").integer());
  entry.backend = reader.at("backend").text();
  for (const auto& [name, bytes] : reader.at("files").members()) {
    plain_name(JsonReader(JsonTree::of(name), bytes.path()));
    entry.files.emplace_back(name, bytes.integer());
  }
  return entry;
}

void check_head(const JsonReader& manifest) {
  if (!manifest.has("format") || manifest.at("format").text() != kRecordFormat)
    throw_bad_input("expected the manifest of a recorded run, found another file");
  const int64_t version = manifest.at("version").integer();
  if (version > kRecordVersion)
    throw Error(ErrorKind::unsupported,
                fmt::format("recorded in format {} by a later shardproof; this one reads up to {}",
                            version, kRecordVersion));
  if (version < kRecordVersion)
    throw Error(ErrorKind::unsupported,
                fmt::format("expected a record of format {}, found format {}, which does not hold "
                            "the measured rounding of values; record the runs again: shardproof "
                            "run FILE --record DIR",
                            kRecordVersion, version));
}

void check_sizes(const Recording& recording) {
  for (const RecordEntry& entry : recording.entries)
    for (const auto& [name, bytes] : entry.files) {
      const std::string path = recording.path + "/" + entry.folder + "/" + name;
      std::error_code failed;
      const auto size = fs::file_size(path, failed);
      if (failed) refuse_record(path, "this file of the record is missing");
      if (static_cast<int64_t>(size) != bytes)
        refuse_record(path, fmt::format("expected {} bytes, found {}: the record is incomplete",
                                        bytes, size));
    }
}

// --- values --------------------------------------------------------------------------------------

using TensorsByName = std::map<std::string, Tensor>;

TensorsByName read_tensor_file(const std::string& path) {
  TensorsByName tensors;
  for (NamedTensor& tensor : parse_safetensors(read_file(path, path), path))
    tensors.emplace(std::move(tensor.name), std::move(tensor.tensor));
  return tensors;
}

const Tensor& tensor_named(const TensorsByName& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw_bad_input("{} has no tensor {}", kValuesFile, name);
  return found->second;
}

// Returns the tensor in its recorded dtype: pairs of reals become complex numbers.
Tensor as_recorded(const Tensor& tensor, DType dtype) {
  if (!is_complex(dtype)) return tensor;
  Dims shape = tensor.shape;
  if (shape.empty() || shape.back() != 2 || size_of(tensor.dtype) * 2 != size_of(dtype))
    throw_bad_input("expected pairs of reals, found {} {}", name(tensor.dtype), to_string(shape));
  shape.erase(shape.size() - 1);
  Tensor result = Tensor::empty(dtype, shape);
  const auto bytes = static_cast<size_t>(result.elements() * size_of(dtype));
  if (bytes != 0) std::memcpy(result.mutate(), tensor.data(), bytes);
  return result;
}

Spec read_spec(const JsonReader& reader, DType dtype) {
  Dims shape;
  for (const JsonReader& size : reader.at("shape").items()) shape.push_back(size.integer());
  return reader.inside([&] {
    return Spec::parse(reader.at("placements").text(), Mesh::parse(reader.at("mesh").text()), shape,
                       dtype);
  });
}

uint64_t read_digest(const JsonReader& reader) {
  const std::string& text = reader.text();
  uint64_t digest = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size())
    reader.expected("a hexadecimal number");
  return digest;
}

// Reads the rounding of a value. A part without a tensor in the file is exact.
void read_rounding(const JsonReader& reader, const TensorsByName& tensors, RecordedValue& value) {
  const std::string& known = reader.text();
  if (known != "exact" && known != "unknown" && known != "elements")
    reader.expected("exact, unknown or elements");
  value.measured = known != "unknown";
  for (RecordedShard& part : value.parts) {
    const auto found = tensors.find(tensor_name(value, part));
    if (known != "elements" || found == tensors.end()) continue;
    std::vector<double> rounding = values_of(found->second);
    if (std::ssize(rounding) != part.tensor.elements())
      reader.refuse(fmt::format("expected one number in {} for each element of {}, found {} for {}",
                                kRoundingFile, found->first, rounding.size(),
                                part.tensor.elements()));
    if (!std::all_of(rounding.begin(), rounding.end(), [](double own) { return own >= 0; }))
      reader.refuse(fmt::format("expected numbers that are not negative for {} in {}", found->first,
                                kRoundingFile));
    (value.whole ? value.rounding : part.rounding) = std::move(rounding);
  }
}

RecordedValue read_value(const JsonReader& reader, const TensorsByName& tensors,
                         const TensorsByName& rounding) {
  RecordedValue value;
  value.id = reader.at("id").text();
  value.bound = text_or_empty(reader, "name");
  value.line = static_cast<int>(reader.at("line").integer());
  value.instance = text_or_empty(reader, "instance");
  const std::optional<DType> dtype = parse_dtype(reader.at("dtype").text());
  if (!dtype) reader.at("dtype").expected("a dtype");
  value.dtype = *dtype;
  value.lanes = ranks_at(reader);
  if (reader.has("mesh")) value.spec = read_spec(reader, value.dtype);
  value.added = reader.at("added").flag();
  value.whole = reader.at("whole").flag();
  for (const JsonReader& part : reader.at("parts").items())
    value.parts.push_back(
        {ranks_at(part),
         as_recorded(tensor_named(tensors, part.at("tensor").text()), value.dtype)});
  if (value.whole && (!value.spec || value.parts.size() != 1 ||
                      !(value.parts[0].tensor.shape == value.spec->shape())))
    reader.refuse("expected a mesh, placements and one tensor of its shape for a whole value");
  std::vector<int32_t> digested;
  for (const JsonReader& digest : reader.at("digests").items()) {
    value.digests.push_back({ranks_at(digest), read_digest(digest.at("digest"))});
    const Lanes& lanes = value.digests.back().lanes;
    for (int64_t i = 0; i < lanes.size(); ++i) digested.push_back(lanes[i]);
  }
  std::sort(digested.begin(), digested.end());
  const bool twice = std::adjacent_find(digested.begin(), digested.end()) != digested.end();
  if (twice || !(Lanes::of(std::move(digested)) == value.lanes))
    reader.refuse("expected one digest for each rank of the value");
  read_rounding(reader.at("rounding"), rounding, value);
  return value;
}

// --- the run -------------------------------------------------------------------------------------

std::vector<Record> read_records(const std::string& path) {
  std::vector<Record> records;
  int number = 0;
  for (const std::string& line : split_lines(read_file(path, path))) {
    ++number;
    try {
      records.push_back(parse_record(line));
    } catch (const Error& error) {
      throw error.inside({path, "", number, 0});
    }
  }
  return records;
}

RecordedRun read_head(const JsonReader& reader) {
  RecordedRun run;
  run.file = reader.at("file").text();
  run.name = text_or_empty(reader, "case");
  run.phase = static_cast<int>(reader.at("phase").integer());
  run.backend = reader.at("backend").text();
  run.ranks = reader.at("ranks").integer();
  run.processes = static_cast<int>(reader.at("processes").integer());
  const std::string& seed = reader.at("seed").text();
  const auto read = std::from_chars(seed.data(), seed.data() + seed.size(), run.seed);
  if (read.ec != std::errc()) reader.at("seed").expected("a number");
  run.order = reader.at("order").text();
  run.pins = text_or_empty(reader, "pins");
  run.repeat = reader.at("repeat").text();
  for (const auto& [fact, value] : reader.at("environment").members())
    run.environment.emplace_back(fact, value.text());
  run.status = reader.at("status").text();
  run.verdict = reader.at("verdict").text();
  for (const std::string& finding : read_texts(reader.at("findings")))
    run.findings.push_back(parse_finding(finding));
  run.error = text_or_empty(reader, "error");
  run.tensors = read_texts(reader.at("tensors"));
  for (const JsonReader& listing : reader.at("source").items())
    run.source.push_back({ranks_at(listing), read_texts(listing.at("lines"))});
  run.timed = reader.at("timed").flag();
  run.prices_work = !reader.has("prices_work") || reader.at("prices_work").flag();
  return run;
}

}  // namespace

Recording read_recording(const std::string& path) {
  Recording recording;
  recording.path = path;
  std::error_code failed;
  if (!fs::exists(path, failed))
    refuse_record(path, "no such folder; shardproof run FILE --record DIR makes a record");
  if (!fs::is_directory(path, failed))
    refuse_record(path, "expected the folder of a record, found a file");
  const std::string file = path + "/" + kManifestFile;
  if (!fs::exists(file, failed))
    refuse_record(path, fs::exists(path + "/" + kUnfinishedFile, failed)
                            ? "the run that recorded this was stopped before its end"
                            : fmt::format("expected a recorded run, found a folder without {}",
                                          kManifestFile));
  try {
    const JsonTree tree = read_json(read_file(file, file));
    const JsonReader manifest(tree, "");
    check_head(manifest);
    for (const JsonReader& run : manifest.at("runs").items())
      recording.entries.push_back(read_record_entry(run));
  } catch (const Error& error) {
    throw error.inside({file, "", 0, 0});
  }
  check_sizes(recording);
  return recording;
}

RecordedRun read_run(const Recording& recording, const RecordEntry& entry) {
  const std::string folder = recording.path + "/" + entry.folder + "/", file = folder + kRunFile;
  try {
    const JsonTree tree = read_json(read_file(file, file));
    const JsonReader reader(tree, "");
    RecordedRun run = read_head(reader);
    run.scenario = read_file(folder + kScenarioFile, folder + kScenarioFile);
    run.program = split_lines(read_file(folder + kProgramFile, folder + kProgramFile));
    run.flight = read_records(folder + kFlightFile);
    const int64_t repetitions = reader.at("repetitions").integer();
    for (size_t i = 0; i < static_cast<size_t>(repetitions); ++i)
      run.measured.push_back(read_records(folder + measured_file(i)));
    const TensorsByName tensors = read_tensor_file(folder + kValuesFile);
    const TensorsByName rounding = read_tensor_file(folder + kRoundingFile);
    for (const JsonReader& value : reader.at("values").items())
      run.values.push_back(read_value(value, tensors, rounding));
    return run;
  } catch (const Error& error) {
    throw error.inside({file, "", 0, 0});
  }
}

}  // namespace shardproof
