// Recorded runs: written, read back, and laid side by side.
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

#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/reduction_schedule.h"
#include "shardproof/localtensor/split.h"
#include "shardproof/scenarios/comparison_report.h"
#include "shardproof/scenarios/load.h"
#include "shardproof/scenarios/record_folder.h"
#include "shardproof/scenarios/run.h"
#include "shardproof/tests/approval.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

const Registries& registries() {
  static const Registries kRegistries{builtin_ops(), builtin_backends()};
  return kRegistries;
}

std::vector<RecordedRun> runs_of(const Scenario& scenario, const std::string& order = "rank") {
  RunOptions options;
  options.sees = true;
  options.order = parse_reduction_schedule(order);
  const RunResult result = run_scenarios({scenario}, {""}, options, registries());
  std::vector<RecordedRun> runs;
  for (const CaseResult& one : result.scenarios[0].cases)
    for (const RecordedRun& run : one.runs) runs.push_back(run);
  return runs;
}

// Values that are no whole numbers, so that the order of a sum shows.
Scenario mlp() {
  return load_text(R"json({"version": 1, "mesh": "dp=2, tp=4",
    "topology": "flat(latency='5 us', bandwidth='50 GB/s')",
    "tensors": {
      "x": {"shape": [16, 8], "placements": "dp:S(0)", "fill": "normal(0, 1)"},
      "w1": {"shape": [8, 32], "placements": "tp:S(1)", "fill": "normal(0, 1)"},
      "w2": {"shape": [32, 8], "placements": "tp:S(0)", "fill": "normal(0, 1)"}},
    "program": ["h = gelu(x @ w1)", "p = h @ w2", "y = redistribute(p, tp:R)", "z = y * 2"]})json",
                   "mlp.json");
}

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

// --- there and back
// -------------------------------------------------------------------------------

void expect_same(const SeenValue& a, const SeenValue& b) {
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

TEST_F(Record, ReadsBackWhatItWrote) {
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

TEST_F(Record, EveryCaseOfTheCorpusComesBackAndIsLikeItself) {
  int64_t values = 0;
  for (const ScenarioPath& path :
       find_scenarios(std::string(SHARDPROOF_SOURCE_DIR) + "/scenarios/corpus")) {
    for (const RecordedRun& run : runs_of(load_file(path.path, path.file))) {
      const RecordedRun back = read_back(run);
      ASSERT_EQ(back.values.size(), run.values.size());
      for (size_t i = 0; i < run.values.size(); ++i) {
        expect_same(back.values[i], run.values[i]);
        EXPECT_TRUE(run.values[i].measured || run.values[i].parts.empty() ||
                    stands_still(run.findings))
            << run.title() << " " << run.values[i].id;
      }
      const RunComparison comparison = compare_runs(run, back);
      EXPECT_EQ(comparison.count(ValueMatch::bit_equal), comparison.count(std::nullopt))
          << run.title();
      EXPECT_TRUE(comparison.agrees()) << run.title();
      values += comparison.count(std::nullopt);
    }
  }
  EXPECT_GT(values, 400);
}

// --- digests
// -------------------------------------------------------------------------------------

uint64_t sum_of_digests(const Spec& spec, const Tensor& whole) {
  SpmdValue info;
  info.name = info.bound = "x";
  info.dtype = whole.dtype;
  const SeenValue seen = see_value(info, spec, split(whole, spec));
  uint64_t sum = 0;
  std::set<Dims> places;
  for (const SeenDigest& digest : seen.digests)
    for (int64_t i = 0; i < digest.lanes.size(); ++i)
      if (places.insert(spec.start(digest.lanes[i])).second) sum += digest.digest;
  return sum;
}

TEST_F(Record, DigestsOfShardsAddUpToThatOfTheWhole) {
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

// --- causes
// --------------------------------------------------------------------------------------

const ValueDifference& worst(const RunComparison& comparison, int line) {
  for (const ListingComparison& listing : comparison.listings)
    for (const LineComparison& own : listing.lines)
      if (own.line == line && !own.differences.empty()) return own.differences.front();
  throw std::out_of_range("nothing differs in line " + std::to_string(line));
}

SeenValue& value_of(RecordedRun& run, const std::string& name) {
  for (SeenValue& value : run.values)
    if (value.id == name) return value;
  throw std::out_of_range(name);
}

void set_element(SeenValue& value, int64_t at, double to) {
  Tensor& tensor = value.parts.at(0).tensor;
  store_f64(tensor.mutate() + at * size_of(tensor.dtype), tensor.dtype, to);
}

double element(const SeenValue& value, int64_t at) {
  return values_of(value.parts.at(0).tensor).at(static_cast<size_t>(at));
}

TEST_F(Record, AnotherOrderOfAReductionIsOneAndItsDescendantsAreToo) {
  const RunComparison comparison =
      compare_runs(runs_of(mlp(), "rank").at(0), runs_of(mlp(), "tree").at(0));
  EXPECT_TRUE(comparison.agrees());
  EXPECT_GT(comparison.count(Cause::reduction_order), 0);
  EXPECT_EQ(comparison.count(ValueMatch::wrong), 0);
  for (const int line : {3, 4}) {
    EXPECT_EQ(worst(comparison, line).match, ValueMatch::within_rounding);
    EXPECT_EQ(worst(comparison, line).cause, Cause::reduction_order);
  }
  EXPECT_THROW(worst(comparison, 1), std::out_of_range);
}

// The same run but for the last bit of an element of y.
RecordedRun with_another_bit(RecordedRun run) {
  SeenValue& y = value_of(run, "y");
  y.parts[0].tensor = contiguous_copy(y.parts[0].tensor);
  set_element(y, 9, std::nextafter(static_cast<float>(element(y, 9)), 1e9F));
  return run;
}

TEST_F(Record, OfOneOrderOtherBitsAreABug) {
  const RecordedRun run = runs_of(mlp()).at(0);
  const RunComparison comparison = compare_runs(run, with_another_bit(run));
  EXPECT_FALSE(comparison.agrees());
  EXPECT_EQ(worst(comparison, 3).match, ValueMatch::within_rounding);
  EXPECT_EQ(worst(comparison, 3).cause, Cause::bug);
}

TEST_F(Record, AWrongElementIsNamedWithItsOwners) {
  RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun other = run;
  SeenValue& h = value_of(other, "h");
  h.parts[0].tensor = contiguous_copy(h.parts[0].tensor);
  set_element(h, 9 * 32 + 17, 1000);
  const RunComparison comparison = compare_runs(run, other);
  const ValueDifference& difference = worst(comparison, 1);
  EXPECT_EQ(difference.match, ValueMatch::wrong);
  EXPECT_EQ(difference.cause, Cause::bug);
  EXPECT_EQ(difference.index, (Dims{9, 17}));
  EXPECT_EQ(difference.owners, Lanes::one(6));  // dp=1 has rows 8-15, tp=2 columns 16-23
  EXPECT_EQ(difference.elements, 1);
}

TEST_F(Record, ProductsInFewerBitsAreToldFromABug) {
  RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun rounded = run;
  SeenValue& h = value_of(rounded, "h");
  h.parts[0].tensor = contiguous_copy(h.parts[0].tensor);
  int64_t at = 0;
  while (std::abs(element(h, at)) < 1) ++at;
  set_element(h, at, element(h, at) * (1 + std::ldexp(1.0, -11)));
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::bug);
  rounded.environment = {{"matmul", "tf32"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::precision);
  set_element(h, at, element(h, at) * 100);
  EXPECT_EQ(worst(compare_runs(run, rounded), 1).cause, Cause::bug);
}

TEST_F(Record, ARunThatSaysItHasFewerBitsMayBeAsFarApart) {
  const RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun rounded = with_another_bit(run);
  rounded.environment = {{"gpu", "one"}, {"matmul", "full"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).cause, Cause::reduction_order);
  rounded.environment = {{"gpu", "one"}, {"matmul", "tf32"}};
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).match, ValueMatch::within_rounding);
  EXPECT_EQ(worst(compare_runs(run, rounded), 3).cause, Cause::precision);
}

Scenario sum_of_ranks(const char* dtype, int size) {
  constexpr const char* kText = R"json({{"version": 1, "mesh": "tp=4", "dtype": "{}",
    "tensors": {{"x": {{"shape": [64], "fill": "normal(0, {})"}}}},
    "ranks": {{"all": ["y = all_reduce(x * (1.3 - rank), sum)"]}}}})json";
  return load_text(fmt::format(kText, dtype, size), "r.json");
}

TEST_F(Record, Rounding_OfARankProgramWithoutATruth_IsMeasured) {
  const Scenario scenario = sum_of_ranks("f32", 1);
  const RecordedRun run = runs_of(scenario, "rank").at(0);
  RecordedRun other = runs_of(scenario, "tree(nodes=2)").at(0);
  const RunComparison comparison = compare_runs(run, read_back(other));
  const ValueDifference& difference = worst(comparison, 1);
  EXPECT_EQ(difference.match, ValueMatch::within_rounding);
  EXPECT_EQ(difference.cause, Cause::reduction_order);
  EXPECT_TRUE(difference.local);
  ASSERT_TRUE(difference.rounding);
  EXPECT_LT(*difference.rounding, 1e-5);
  EXPECT_LE(difference.ulps, 64);
  const double apart = std::abs(std::stod(difference.got_a) - std::stod(difference.got_b));
  EXPECT_NEAR(difference.rounding_factor, apart / *difference.rounding, 0.05);

  SeenValue& y = value_of(other, "y");
  set_element(y, 7, element(y, 7) + 1e-4);
  const RunComparison wrong = compare_runs(run, other);
  EXPECT_EQ(worst(wrong, 1).match, ValueMatch::wrong);
  EXPECT_EQ(worst(wrong, 1).cause, Cause::bug);
  EXPECT_EQ(worst(wrong, 1).index, Dims{7});
}

// A sum that overflows in one order may be small in another.
TEST_F(Record, ASumThatOverflowsInOneOrder_IsNotDecided) {
  const Scenario scenario = sum_of_ranks("f16", 20000);
  const RecordedRun a = runs_of(scenario, "rank").at(0);
  const RecordedRun b = runs_of(scenario, "tree(nodes=2)").at(0);
  for (const auto& [first, second] : {std::pair(a, b), std::pair(b, a)}) {
    const RunComparison comparison = compare_runs(first, second);
    EXPECT_EQ(worst(comparison, 1).match, ValueMatch::not_decided);
    EXPECT_EQ(worst(comparison, 1).cause, Cause::unknown);
  }
}

// --- measured rounding
// -------------------------------------------------------------------------------

// The law of kWithinRounding and kNotDecided, element by element.
TEST_F(Record, Match_IsDecidedByTheDistanceOfItsRounding) {
  RecordedRun a = runs_of(mlp(), "rank").at(0);
  const SeenValue known = value_of(a, "y");
  const double rounding = known.rounding.at(9), before = element(known, 9);
  ASSERT_GT(rounding, 0);
  const std::vector<std::pair<double, ValueMatch>> cases = {{1.5, ValueMatch::within_rounding},
                                                            {7, ValueMatch::within_rounding},
                                                            {10, ValueMatch::not_decided},
                                                            {60, ValueMatch::not_decided},
                                                            {70, ValueMatch::wrong},
                                                            {1e9, ValueMatch::wrong}};
  for (const auto& [times, match] : cases) {
    RecordedRun b = a;
    b.order = "tree";
    SeenValue& y = value_of(b, "y");
    y.parts[0].tensor = contiguous_copy(y.parts[0].tensor);
    set_element(y, 9, before + times * rounding);
    const ValueDifference& difference = worst(compare_runs(a, b), 3);
    EXPECT_EQ(difference.match, match) << times;
    EXPECT_NEAR(difference.rounding_factor, times, 0.6 + 1e-6 * times);
    EXPECT_EQ(difference.cause, match == ValueMatch::within_rounding ? Cause::reduction_order
                                : match == ValueMatch::not_decided   ? Cause::unknown
                                                                     : Cause::bug);
    EXPECT_EQ(difference.elements, 1);
    // The larger of both roundings counts.
    y.rounding.assign(y.rounding.size(), 0);
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, match) << times;
    EXPECT_EQ(worst(compare_runs(b, a), 3).match, match) << times;
    y.rounding.assign(y.rounding.size(), 1e30);
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, ValueMatch::within_rounding) << times;
    // One that has not been measured says nothing, and two decide nothing.
    y.measured = false;
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, match) << times;
    value_of(a, "y").measured = false;
    EXPECT_EQ(worst(compare_runs(a, b), 3).match, ValueMatch::not_decided) << times;
    value_of(a, "y").measured = true;
  }
}

TEST_F(Record, AValueThatNoRoundingMoves_HasNone) {
  RecordedRun a = runs_of(load_text(R"json({"version": 1, "mesh": "tp=2",
      "tensors": {"x": {"shape": [4, 4], "placements": "tp:S(0)"},
                  "i": {"shape": [4], "dtype": "i64"}},
      "program": ["y = sum(x, dim=0)", "n = i * 3", "h = x * 0.1"]})json",
                                    "exact.json"))
                      .at(0);
  for (const char* name : {"y", "n"}) {
    EXPECT_TRUE(value_of(a, name).measured) << name;
    EXPECT_TRUE(value_of(a, name).rounding.empty()) << name;
    RecordedRun b = a;
    b.order = "tree";
    SeenValue& value = value_of(b, name);
    value.parts[0].tensor = contiguous_copy(value.parts[0].tensor);
    value.parts[0].tensor.mutate()[0] ^= std::byte{1};
    const ValueDifference& difference = worst(compare_runs(a, b), name[0] == 'y' ? 1 : 2);
    EXPECT_EQ(difference.match, ValueMatch::wrong) << name;
    EXPECT_EQ(difference.rounding, 0.0) << name;
    EXPECT_TRUE(std::isinf(difference.rounding_factor)) << name;
  }
  EXPECT_FALSE(value_of(a, "h").rounding.empty());
}

// An index that lies beyond its range in f64 only.
TEST_F(Record, AProgramThatCannotRunInF64_IsMeasuredInItsOwnDtypes) {
  RecordedRun a = runs_of(load_text(R"json({"version": 1, "mesh": "tp=2", "dtype": "bf16",
      "tensors": {"w": {"shape": [257, 4], "fill": "normal(0, 1)"},
                  "x": {"shape": [1], "fill": "zeros"}},
      "program": ["i = cast(x + 257, i64)", "y = embedding(i, w)", "z = y * 0.3 + 0.1"]})json",
                                    "index.json"))
                      .at(0);
  for (const char* name : {"y", "z"}) EXPECT_TRUE(value_of(a, name).measured) << name;
  EXPECT_LT(value_of(a, "y").rounding.empty() ? 0 : value_of(a, "y").rounding.at(0), 0.1);
}

TEST_F(Record, RunsOfDifferentProgramsAreRefused) {
  const RecordedRun run = runs_of(mlp()).at(0);
  RecordedRun other = run;
  other.seed = 3;
  EXPECT_THROW(compare_runs(run, other), Error);
  other = run;
  other.source[0].lines[0] += " ";
  EXPECT_THROW(compare_runs(run, other), Error);
}

TEST_F(Record, ARefusedRunIsComparedByItsHead) {
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

TEST_F(Record, TheTableIsTheApprovedOne) {
  const RecordedRun a = runs_of(mlp(), "rank").at(0), b = runs_of(mlp(), "tree").at(0);
  RecordedRun wrong = b;
  SeenValue& h = value_of(wrong, "h");
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

// --- folders
// -------------------------------------------------------------------------------------

TEST_F(Record, AFolderWithSomethingInItIsNotTaken) {
  fs::create_directories(path_);
  put(path_ + "/mine", "mine");
  EXPECT_THROW(RecordFolder(path_, "test"), Error);
  EXPECT_EQ(read(path_ + "/mine"), "mine");
}

// Two runs that are started together both find it empty.
TEST_F(Record, OfManyWhoWantAFolderOneHasIt) {
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
        refused += error.message() == "expected an empty or a new folder to record into" ? 1 : 0;
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

// On whichever thread it comes up, the others are waited for and nothing is left.
TEST_F(Record, WhatEndsARecordingLeavesTheRun) {
  const Scenario scenario = load_text(
      R"json({"version": 1, "let": {"n": 1}, "mesh": "dp=2", "tensors": {"x": {"shape": ["n"]}},
        "program": ["y = x * 2"], "sweep": {"n": [1, 2, 3, 4, 5, 6]}})json",
      "f.json");
  RunOptions options;
  options.sees = true;
  options.jobs = 3;
  for (int last = 1; last <= 6; ++last) {
    RecordFolder folder(path_, "test");
    int count = 0;
    RunWatch watch;
    watch.done = [&](CaseResult& result) {
      folder.add(result.runs.at(0));
      if (++count == last) throw std::bad_alloc();
    };
    EXPECT_THROW(run_scenarios({scenario}, {""}, options, registries(), watch), std::bad_alloc);
    EXPECT_EQ(count, last);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Record, WhatIsNotFinishedIsTakenAway) {
  fs::create_directories(path_);
  {
    RecordFolder folder(path_, "test");
    folder.add(runs_of(mlp()).at(0));
    expect_refused("the recording did not come to its end");
  }
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(Record, OnlyAWholeRecordIsRead) {
  expect_refused("there is no such record");
  const Recording whole = write({runs_of(mlp()).at(0)});
  const std::string values = path_ + "/" + whole.entries[0].folder + "/values.safetensors";
  const std::string good = read(values), manifest = read(path_ + "/manifest.json");
  put(values, good.substr(0, good.size() - 3));
  expect_refused("the record is not whole");
  fs::remove(values);
  expect_refused("is missing from the record");
  put(values, good);
  put(path_ + "/manifest.json", manifest.substr(0, manifest.size() / 2));
  expect_refused("manifest.json");
  put(path_ + "/manifest.json", "{}");
  expect_refused("no manifest of a recorded run");
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
  expect_refused("no recorded run: there is no manifest.json in it");
  put(path_ + "/manifest.json", manifest);
  EXPECT_EQ(read_recording(path_).entries.size(), 1u);
}

// Whatever is in the files, reading them ends in a value or in an Error.
TEST_F(Record, NonsenseInTheFilesIsAnError) {
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
}  // namespace shardproof
