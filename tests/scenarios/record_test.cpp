// Tests recorded runs: writing, reading back and comparison.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <new>
#include <set>
#include <thread>

#include "shardproof/engine/compare/record_value.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/split/split.h"
#include "shardproof/scenarios/record/record_directory.h"
#include "shardproof/scenarios/report/comparison_report.h"
#include "shardproof/tests/approval.h"
#include "shardproof/tests/few_draws.h"
#include "shardproof/tests/scenarios/recorded_runs.h"

namespace shardproof::record_test {
namespace {

namespace fs = std::filesystem;

class Record : public testing::Test {
 protected:
  Record() : path_(testing::TempDir() + "/shardproof_record_" + std::to_string(getpid())) {
    fs::remove_all(path_);
  }
  ~Record() override { fs::remove_all(path_); }
  Recording write(const std::vector<RecordedRun>& runs) const {
    RecordFolder folder(path_, "test");
    for (const RecordedRun& run : runs) folder.add(run);
    folder.finish();
    return read_recording(path_);
  }
  RecordedRun read_back(const RecordedRun& run) const {
    const Recording recording = write({run});
    RecordedRun back = read_run(recording, recording.entries.at(0));
    fs::remove_all(path_);
    return back;
  }
  void expect_refused(const std::string& message) const {
    try {
      read_recording(path_);
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::string path_;
};

// --- written and read ----------------------------------------------------------------------------

void expect_same(const RecordedValue& a, const RecordedValue& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.line, b.line);
  EXPECT_EQ(a.instance, b.instance);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.spec, b.spec);
  EXPECT_EQ(a.digests, b.digests);
  EXPECT_EQ(a.whole, b.whole);
  EXPECT_EQ(a.measured, b.measured);
  EXPECT_EQ(a.added, b.added);
  EXPECT_EQ(a.rounding, b.rounding);
  ASSERT_EQ(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < a.parts.size(); ++i) {
    EXPECT_EQ(a.parts[i].lanes, b.parts[i].lanes);
    EXPECT_TRUE(bit_equal(a.parts[i].tensor, 0, b.parts[i].tensor, 0)) << a.id;
    EXPECT_EQ(a.parts[i].rounding, b.parts[i].rounding) << a.id;
  }
}

TEST_F(Record, WrittenRun_IsReadBack) {
  RecordedRun run = runs_of(mlp()).at(0);
  run.measured = {run.flight, {}};
  run.environment = {{"host", "h\"1"}, {"gpu", "none"}};
  run.pins = "NCCL_ALGO=Ring";
  run.seed = ~uint64_t{0};
  const RecordedRun back = read_back(run);
  EXPECT_EQ(back.environment, run.environment);
  EXPECT_EQ(back.scenario, run.scenario);
  EXPECT_EQ(back.program, run.program);
  EXPECT_EQ(back.source, run.source);
  EXPECT_EQ(back.tensors, run.tensors);
  EXPECT_EQ(back.flight, run.flight);
  EXPECT_EQ(back.measured, run.measured);
  EXPECT_EQ(back.pins, run.pins);
  EXPECT_EQ(back.seed, run.seed);
  EXPECT_EQ(back.verdict, "clean");
  EXPECT_TRUE(back.timed);
  ASSERT_EQ(back.values.size(), run.values.size());
  ASSERT_GE(run.values.size(), 4u);
  for (size_t i = 0; i < run.values.size(); ++i) expect_same(back.values[i], run.values[i]);
}

TEST_F(Record, CorpusCases_AreReadBack_AndEqualThemselves) {
  int64_t values = 0, files = 0;
  for (const ScenarioPath& path :
       find_scenarios(std::string(SHARDPROOF_SOURCE_DIR) + "/scenarios/corpus").paths) {
    if (files++ % (kFewDraws ? 6 : 1) != 0) continue;
    for (const RecordedRun& run : runs_of(load_file(path.path, path.file))) {
      const RecordedRun back = read_back(run);
      ASSERT_EQ(back.values.size(), run.values.size());
      for (size_t i = 0; i < run.values.size(); ++i) {
        expect_same(back.values[i], run.values[i]);
        EXPECT_TRUE(run.values[i].measured || run.values[i].parts.empty() ||
                    has_unfinished_ranks(run.findings))
            << run.title() << " " << run.values[i].id;
      }
      const RunComparison comparison = compare_runs(run, back);
      EXPECT_EQ(comparison.count(ValueMatch::bit_equal), comparison.count(std::nullopt))
          << run.title();
      EXPECT_TRUE(comparison.agrees()) << run.title();
      values += comparison.count(std::nullopt);
    }
  }
  EXPECT_GT(values, kFewDraws ? 60 : 400);
}

// --- digests -------------------------------------------------------------------------------------

uint64_t sum_of_digests(const Spec& spec, const Tensor& whole) {
  SpmdValue info;
  info.name = info.bound = "x";
  info.dtype = whole.dtype;
  const RecordedValue seen = record_value(info, spec, split(whole, spec));
  uint64_t sum = 0;
  std::set<Dims> places;
  for (const ShardDigest& digest : seen.digests)
    for (int64_t i = 0; i < digest.lanes.size(); ++i)
      if (places.insert(spec.start(digest.lanes[i])).second) sum += digest.digest;
  return sum;
}

TEST_F(Record, DigestsOfShards_AddUpToTheDigestOfTheWhole) {
  const Mesh mesh = Mesh::parse("dp=2, tp=3");
  const Dims shape{6, 6};
  std::vector<double> numbers;
  for (int i = 0; i < 36; ++i) numbers.push_back(i % 7 - 3);
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8, DType::c128}) {
    const Tensor whole = tensor_of(dtype, shape, numbers);
    const uint64_t one = sum_of_digests(Spec::replicated(mesh, shape, dtype), whole);
    for (const char* placements : {"tp:S(0)", "dp:S(1)", "dp:S(0) tp:S(1)", "dp:S(1) tp:S(1)"})
      EXPECT_EQ(sum_of_digests(Spec::parse(placements, mesh, shape, dtype), whole), one)
          << placements << " " << name(dtype);
    numbers[17] += 1;
    EXPECT_NE(
        sum_of_digests(Spec::replicated(mesh, shape, dtype), tensor_of(dtype, shape, numbers)),
        one);
    numbers[17] -= 1;
    std::swap(numbers[3], numbers[4]);
    EXPECT_NE(
        sum_of_digests(Spec::replicated(mesh, shape, dtype), tensor_of(dtype, shape, numbers)),
        one);
    std::swap(numbers[3], numbers[4]);
  }
}

// --- comparisons ---------------------------------------------------------------------------------

TEST_F(Record, RunsOfDifferentPrograms_AreRefused) {
  const RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun other = run;
  other.seed = 3;
  EXPECT_THROW(compare_runs(run, other), Error);
  other = run;
  other.source[0].lines[0] += " ";
  EXPECT_THROW(compare_runs(run, other), Error);
}

TEST_F(Record, RefusedRun_IsComparedByItsHead) {
  const RecordedRun ran = runs_of(mlp()).at(0);
  const RecordedRun refused = read_back(runs_of(load_text(
      R"json({"version": 1, "mesh": "dp=2", "tensors": {}, "program": ["y = nothing"]})json",
      "mlp.json"))[0]);
  for (const auto& [a, b] : {std::pair(ran, refused), std::pair(refused, ran)}) {
    const RunComparison comparison = compare_runs(a, b);
    EXPECT_FALSE(comparison.agrees());
    EXPECT_EQ(comparison.count(std::nullopt), 0);
    const std::string text = comparison_text(comparison, {});
    for (const std::string& told :
         {std::string("local, refused"), std::string(" ran\n"), refused.error})
      EXPECT_NE(text.find(told), std::string::npos) << text;
  }
  EXPECT_TRUE(compare_runs(refused, refused).agrees());
}

TEST_F(Record, Table_IsApproved) {
  const RecordedRun a = runs_of(mlp(), "rank").at(0), b = runs_of(mlp(), "tree").at(0);
  RecordedRun wrong = b;
  RecordedValue& h = value_of(wrong, "h");
  h.parts[0].tensor = contiguous_copy(h.parts[0].tensor);
  set_element(h, 9 * 32 + 17, 1000);
  wrong.backend = "mpi";
  wrong.processes = 4;
  wrong.measured = {wrong.flight, wrong.flight, wrong.flight};
  const std::string text =
      comparison_text(compare_runs(a, b), {}) + "\n" + comparison_text(compare_runs(a, wrong), {});
  expect_approved("report/comparison", text);
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
    EXPECT_LE(end - start, 100u) << text.substr(start, end - start);
    start = end + 1;
  }
}

// Returns the records one after another, with a time for each work and for each call.
std::vector<shardproof::Record> in_sequence(std::vector<shardproof::Record> records, Duration work,
                                            Duration call) {
  Duration now;
  for (shardproof::Record& record : records) {
    record.start = now;
    now += record.group.empty() ? work : call;
    record.end = now;
  }
  return records;
}

TEST_F(Record, TimesOfRepetitions_AreOfTheOneWithTheMedianStep) {
  const RecordedRun a = runs_of(mlp(), "rank").at(0);
  RecordedRun b = a;
  constexpr Duration kShort{1}, kMiddle{5}, kLong{50};
  b.measured = {in_sequence(a.flight, kMiddle, kLong), in_sequence(a.flight, kShort, {60}),
                in_sequence(a.flight, {10}, kShort)};
  const RunComparison comparison = compare_runs(a, b);
  const StepTime step = slowest(comparison.b.steps);
  Duration lines;
  for (const LineComparison& line : comparison.listings.at(0).lines)
    for (const TimePair& pair : line.times)
      if (!pair.b.ranks.empty()) lines += pair.b.ranks.at(0).time;
  EXPECT_EQ(step.exposed, Duration{60});
  EXPECT_EQ(lines + step.waiting + step.outside, step.step);
  EXPECT_EQ(step.work + step.exposed + step.outside, step.step);
}

// --- folders -------------------------------------------------------------------------------------

TEST_F(Record, FolderWithFiles_IsRefused) {
  fs::create_directories(path_);
  put(path_ + "/mine", "mine");
  EXPECT_THROW(RecordFolder(path_, "test"), Error);
  EXPECT_EQ(read(path_ + "/mine"), "mine");
}

// Two runs that are started together both find it empty.
TEST_F(Record, FolderClaimedByManyRuns_BelongsToOne) {
  constexpr int kRuns = 4;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> taken = 0, refused = 0;
    std::latch start(kRuns), end(kRuns);
    const auto take = [&] {
      start.arrive_and_wait();
      std::optional<RecordFolder> folder;
      try {
        folder.emplace(path_, "test");
        ++taken;
      } catch (const Error& error) {
        refused +=
            error.message() == "expected a new or empty folder to record into, found one with files"
                ? 1
                : 0;
      }
      end.arrive_and_wait();
    };
    {
      std::vector<std::jthread> runs;
      for (int i = 0; i < kRuns; ++i) runs.emplace_back(take);
    }
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(refused, kRuns - 1);
    fs::remove_all(path_);
  }
}

// An exception on any thread ends all threads and leaves no record.
TEST_F(Record, ExceptionWhileRecording_EndsTheRun) {
  const Scenario scenario = load_text(
      R"json({"version": 1, "let": {"n": 1}, "mesh": "dp=2", "tensors": {"x": {"shape": ["n"]}},
        "program": ["y = x * 2"], "sweep": {"n": [1, 2, 3, 4, 5, 6]}})json",
      "f.json");
  RunOptions options;
  options.records_values = true;
  options.jobs = 3;
  for (int last = 1; last <= 6; ++last) {
    RecordFolder folder(path_, "test");
    int count = 0;
    RunObserver watch;
    watch.done = [&](CaseResult& result) {
      folder.add(result.runs.at(0));
      if (++count == last) throw std::bad_alloc();
    };
    EXPECT_THROW(run_scenarios({scenario}, {""}, options, registries(), watch), std::bad_alloc);
    EXPECT_EQ(count, last);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Record, UnfinishedRecord_IsRemoved) {
  fs::create_directories(path_);
  {
    RecordFolder folder(path_, "test");
    folder.add(runs_of(mlp()).at(0));
    expect_refused("stopped before its end");
  }
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(Record, IncompleteRecord_IsRefused) {
  expect_refused("no such folder");
  const Recording whole = write({runs_of(mlp()).at(0)});
  const std::string values = path_ + "/" + whole.entries[0].folder + "/values.safetensors";
  const std::string good = read(values), manifest = read(path_ + "/manifest.json");
  put(values, good.substr(0, good.size() - 3));
  expect_refused("the record is incomplete");
  fs::remove(values);
  expect_refused("this file of the record is missing");
  put(values, good);
  put(path_ + "/manifest.json", manifest.substr(0, manifest.size() / 2));
  expect_refused("manifest.json");
  put(path_ + "/manifest.json", "{}");
  expect_refused("expected the manifest of a recorded run");
  const auto with_version = [&](const char* version) {
    std::string other = manifest;
    other.replace(other.find("\"version\": 2"), 12, std::string("\"version\": ") + version);
    return other;
  };
  put(path_ + "/manifest.json", with_version("3"));
  expect_refused("recorded in format 3 by a later shardproof; this one reads up to 2");
  put(path_ + "/manifest.json", with_version("1"));
  expect_refused("expected a record of format 2, found format 1");
  expect_refused("record the runs again: shardproof run FILE --record DIR");
  std::string outside = manifest;
  outside.replace(outside.find(whole.entries[0].folder), whole.entries[0].folder.size(), "..");
  put(path_ + "/manifest.json", outside);
  expect_refused("expected the name of a file");
  fs::remove(path_ + "/manifest.json");
  expect_refused("expected a recorded run, found a folder without manifest.json");
  put(path_ + "/manifest.json", manifest);
  EXPECT_EQ(read_recording(path_).entries.size(), 1u);
}

// Reading corrupt files gives a value or an Error, never a crash.
TEST_F(Record, CorruptFiles_AreErrors) {
  const Recording whole = write({runs_of(mlp()).at(0)});
  const std::string folder = path_ + "/" + whole.entries[0].folder + "/";
  uint64_t draw = 1;
  for (const char* file :
       {"run.json", "values.safetensors", "rounding.safetensors", "flight.txt"}) {
    const std::string good = read(folder + file);
    for (int i = 0; i < 150; ++i) {
      std::string bad = good;
      draw = draw * 6364136223846793005ull + 1442695040888963407ull;
      bad[(draw >> 20) % std::min<size_t>(bad.size(), 4000)] = static_cast<char>(draw >> 56);
      put(folder + file, bad);
      try {
        const RecordedRun run = read_run(whole, whole.entries[0]);
        comparison_text(compare_runs(run, run), {});
      } catch (const Error&) {
      }
    }
    put(folder + file, good);
  }
}

}  // namespace
}  // namespace shardproof::record_test
