// Implements measure_machine.h.
//
// Each measurement is one case of the worker pool, numbered by Measurement. The coordinator and
// the workers call the same function for it: run_benchmark() for a link, check() with timed
// repetitions for work. Work runs on all ranks at once, as in a step of a program. Other processes
// of the machine only lengthen a time, so the least of several counts.
//
// Example: 2 ranks, 8 B in 2 us, 16 MiB in 4,002 us. The latency is 1 us, and the bandwidth
// 16 MiB / 4 ms = 4.19 GB/s.
#include "shardproof/cli/commands/measure_machine.h"

#include <algorithm>
#include <limits>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/duration.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int64_t kSmallBytes = 8, kLargeBytes = 16 << 20;
constexpr int64_t kProductSize = 512, kSumSize = 4 << 20;  // elements
constexpr int64_t kFloatBytes = 4;
constexpr int kRounds = 7;  // of each call

enum Measurement : int64_t { small_call, large_call, work };

Backend& backend_of(const std::string& name, const Registries& registries) {
  for (const std::shared_ptr<Backend>& backend : registries.backends)
    if (backend->name() == name) return *backend;
  SP_UNREACHABLE("backend {} is not registered", name);
}

CollectiveBenchmark call_of(Measurement measurement, int64_t ranks) {
  const bool small = measurement == Measurement::small_call;
  CollectiveBenchmark benchmark;
  benchmark.collective.kind = CollectiveKind::all_reduce;
  benchmark.collective.group = Group::world(ranks);
  benchmark.collective.count = (small ? kSmallBytes : kLargeBytes) / kFloatBytes;
  benchmark.checking = ResultCheck::none;
  benchmark.warmup = small ? 100 : 1;
  benchmark.times = small ? 300 : 2;
  return benchmark;
}

// Every rank multiplies matrices and adds vectors of its own.
Job work_of(const std::string& backend, int64_t ranks) {
  Job job;
  job.world = ranks;
  job.backend = backend;
  const Mesh mesh = Mesh::make({{"r", ranks}});
  job.meshes = {{"", mesh}};
  const auto add_input = [&](const char* name, const Dims& shape) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) / 8;
    job.inputs.push_back({name, Spec::parse("R", mesh, shape, DType::f32), mesh.ranks(),
                          tensor_of(DType::f32, shape, values)});
  };
  add_input("x", {kProductSize, kProductSize});
  add_input("a", {kSumSize});
  job.ranks = {{mesh.ranks(), parse_listing({"y = x @ x", "b = a + a"}), "/ranks/all"}};
  job.compared = CompareScope::outputs;
  job.timing = {2, 10};
  return job;
}

double least_seconds_of(const std::vector<std::vector<Record>>& repetitions,
                        const std::string& kind) {
  std::vector<Duration> times;
  for (const std::vector<Record>& records : repetitions)
    for (const Record& record : records)
      if (record.kind == kind) times.push_back(record.end - record.start);
  SP_CHECK(!times.empty(), "no {} was measured", kind);
  return to_seconds(*std::min_element(times.begin(), times.end()));
}

// Runs one measurement in the coordinator, between `begin` and `end` of its case.
template <typename Measure>
auto measure_case(WorkerPool& pool, Measurement measurement, Measure measure) {
  pool.begin(measurement);
  auto result = measure();
  pool.end();
  return result;
}

double mean_seconds(const std::vector<BenchmarkResult>& results) {
  double sum = 0;
  for (const BenchmarkResult& result : results) sum += result.seconds;
  return sum / static_cast<double>(results.size());
}

std::string rate_text(double rate, const char* unit) {
  constexpr double kGiga = 1e9, kMega = 1e6;
  return rate >= kGiga ? fmt::format("{:.3f} G{}", rate / kGiga, unit)
                       : fmt::format("{:.3f} M{}", rate / kMega, unit);
}

}  // namespace

std::string measure_machine(const std::string& backend, int64_t ranks,
                            const Registries& registries) {
  SP_CHECK(ranks >= 2, "a link of {} ranks is measured", ranks);
  Backend& target = backend_of(backend, registries);
  WorkerPool& pool = *target.pool();
  double seconds[2] = {std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::infinity()};
  for (int round = 0; round < kRounds; ++round)
    for (const Measurement one : {Measurement::small_call, Measurement::large_call})
      seconds[one] = std::min(seconds[one], mean_seconds(measure_case(pool, one, [&] {
                                return run_benchmark(target, call_of(one, ranks));
                              })));
  const Outcome outcome = measure_case(pool, Measurement::work,
                                       [&] { return check(work_of(backend, ranks), registries); });
  if (!outcome.findings.empty()) throw Error(ErrorKind::io, outcome.findings.front().headline);
  const double n = static_cast<double>(ranks), hops = 2 * (n - 1);
  const double transfer = seconds[large_call] - seconds[small_call];
  if (!(transfer > 0))
    throw Error(ErrorKind::io,
                "the machine is too busy to measure a link: 16 MiB took no longer than 8 B; run it "
                "again");
  const Duration latency{static_cast<int64_t>(seconds[small_call] / hops * 1e9) * 1000};
  const double bandwidth = hops * static_cast<double>(kLargeBytes) / n / transfer;
  const double side = static_cast<double>(kProductSize);
  const double compute = 2 * side * side * side / least_seconds_of(outcome.timed, "matmul");
  const double memory =
      3.0 * static_cast<double>(kSumSize * kFloatBytes) / least_seconds_of(outcome.timed, "add");
  return fmt::format(
      "{{\"latency\": \"{}\", \"bandwidth\": \"{}\",\n \"compute\": \"{}\", \"memory\": \"{}\"}}\n",
      to_string(latency), rate_text(bandwidth, "B/s"), rate_text(compute, "FLOP/s"),
      rate_text(memory, "B/s"));
}

void help_to_measure_machine(const std::string& backend, int64_t ranks,
                             const Registries& registries) {
  Backend& target = backend_of(backend, registries);
  WorkerPool& pool = *target.pool();
  while (const std::optional<int64_t> index = pool.next()) {
    const Measurement one = static_cast<Measurement>(*index);
    try {
      if (one == Measurement::work)
        check(work_of(backend, ranks), registries);
      else
        run_benchmark(target, call_of(one, ranks));
      pool.done("");
    } catch (const Error& error) {
      pool.done(error.what());
    }
  }
}

}  // namespace shardproof
