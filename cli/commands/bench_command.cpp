// shardproof bench: measures one collective at several sizes. Steps: read the options and start the
// worker processes; measure each size out of place and in place, and print its row at once; write
// the JSON report.
#include <algorithm>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/measure_machine.h"
#include "shardproof/cli/commands/write_reports.h"
#include "shardproof/cli/options/bench_options.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr OutputBuffer kOutputBuffers[] = {OutputBuffer::out_of_place, OutputBuffer::in_place};
constexpr int64_t kOutputBufferCount = std::size(kOutputBuffers);

CollectiveBenchmark repetition_of(const BenchPlan& plan, int64_t index) {
  CollectiveBenchmark repetition;
  repetition.collective = plan.sizes.at(static_cast<size_t>(index / kOutputBufferCount));
  repetition.checking = ResultCheck::none;
  repetition.output_buffer = kOutputBuffers[index % kOutputBufferCount];
  repetition.warmup = plan.warmup;
  repetition.times = plan.times;
  if (can_be_checked(repetition.collective.kind, repetition.output_buffer))
    repetition.checking = plan.checking;
  return repetition;
}

// Runs in a worker: repeats each collective that the coordinator starts.
void run_bench_as_worker(Backend& target, const BenchPlan& plan) {
  WorkerPool& pool = *target.pool();
  while (const std::optional<int64_t> index = pool.next()) {
    try {
      run_benchmark(target, repetition_of(plan, *index));
      pool.done("");
    } catch (const Error& error) {
      pool.done(error.what());
    } catch (const std::bad_alloc&) {
      pool.done("the machine has too little memory for this");
    }
  }
}

std::vector<BenchmarkResult> measure(Backend& target, const BenchPlan& plan, int64_t index) {
  WorkerPool* const pool = target.pool();
  if (pool != nullptr) pool->begin(index);
  std::vector<BenchmarkResult> measurements = run_benchmark(target, repetition_of(plan, index));
  if (pool != nullptr) pool->end();
  return measurements;
}

double average(const std::vector<BenchmarkResult>& measurements, Averaging averaging) {
  double sum = 0, least = measurements.front().seconds, most = least;
  for (const BenchmarkResult& one : measurements) {
    sum += one.seconds;
    least = std::min(least, one.seconds);
    most = std::max(most, one.seconds);
  }
  switch (averaging) {
    case Averaging::first: return measurements.front().seconds;
    case Averaging::average: return sum / static_cast<double>(measurements.size());
    case Averaging::least: return least;
    case Averaging::most: return most;
  }
  return sum;
}

// Returns the least precise clock of all processes: if one time may include a launch, the average
// may.
TimedBy clock_of(const std::vector<BenchmarkResult>& measurements) {
  const auto any = [&measurements](TimedBy clock) {
    return std::any_of(measurements.begin(), measurements.end(),
                       [clock](const BenchmarkResult& one) { return one.clock == clock; });
  };
  if (any(TimedBy::world)) return TimedBy::world;
  return any(TimedBy::device_and_launch) ? TimedBy::device_and_launch : TimedBy::device;
}

BenchSide bench_side_of(const std::vector<BenchmarkResult>& measurements, const BenchPlan& plan,
                        int64_t index) {
  BenchSide side;
  side.seconds = average(measurements, plan.averaging);
  side.clock = clock_of(measurements);
  if (repetition_of(plan, index).checking == ResultCheck::none) return side;
  side.wrong = 0;
  for (const BenchmarkResult& one : measurements) *side.wrong += one.wrong;
  return side;
}

BenchRow measure_row(Backend& target, const BenchPlan& plan, int64_t row) {
  BenchRow measured;
  measured.collective = plan.sizes[static_cast<size_t>(row)];
  const std::vector<BenchmarkResult> out_of_place = measure(target, plan, row * kOutputBufferCount);
  measured.out_of_place = bench_side_of(out_of_place, plan, row * kOutputBufferCount);
  measured.expected_seconds = out_of_place.front().expected_seconds;
  const int64_t in_place = row * kOutputBufferCount + 1;
  measured.in_place = bench_side_of(measure(target, plan, in_place), plan, in_place);
  if (plan.machine != nullptr)
    measured.predicted_seconds = to_seconds(
        plan.machine->collective(measured.collective, whole_bytes_of(measured.collective)));
  return measured;
}

BenchHead head_of(const Backend& target, const BenchPlan& plan, int processes) {
  BenchHead head;
  head.version = SHARDPROOF_VERSION;
  head.backend = plan.backend;
  head.collective = plan.sizes.front();
  head.processes = std::max(processes, 1);
  head.simulated = processes == 0;
  head.warmup = plan.warmup;
  head.times = plan.times;
  head.averaging = plan.averaging;
  head.machine = plan.machine_text;
  for (const auto& [fact, value] : target.environment())
    if (fact == kEstimateFact) head.estimator = value;
  return head;
}

std::vector<BenchRow> measure_all(Backend& target, const BenchPlan& plan, const BenchHead& head,
                                  bool measurements) {
  const auto send_result = [&](const std::string& text) {
    if (measurements) print_out(text);
  };
  send_result(bench_head_text(head));
  std::vector<BenchRow> rows;
  for (size_t row = 0; row < plan.sizes.size(); ++row) {
    rows.push_back(measure_row(target, plan, static_cast<int64_t>(row)));
    send_result(bench_row_text(head, rows.back()));
  }
  send_result(bench_foot_text(rows));
  return rows;
}

Backend& backend_named(const Registries& registries, const std::string& backend) {
  for (const auto& target : registries.backends)
    if (target->name() == backend) return *target;
  SP_UNREACHABLE("backend {} is not registered", backend);
}

bool is_wrong(const BenchRow& row) {
  return row.out_of_place.wrong.value_or(0) + row.in_place.wrong.value_or(0) != 0;
}

int machine_as_worker(const po::variables_map& given, const BenchPlan& plan,
                      const Registries& registries, PoolRole role) {
  const int64_t ranks = plan.sizes.front().group.size();
  if (role == PoolRole::follows) {
    help_to_measure_machine(plan.backend, ranks, registries);
    return 0;
  }
  if (backend_named(registries, plan.backend).pool() == nullptr)
    throw_bad_input("--machine measures real processes; choose --backend mpi or nccl, found {}",
                    plan.backend);
  if (ranks < 2) throw_bad_input("--machine measures a link: expected at least 2 ranks, found 1");
  check_reports(given);
  const std::string text = measure_machine(plan.backend, ranks, registries);
  if (prints_for_terminal(given)) print_out(text);
  write_report(given, "machine", [&] { return text; });
  return 0;
}

// Throws for options of a table of collectives: a machine is measured without them.
void refuse_options_of_table(const po::variables_map& given) {
  for (const char* name :
       {"collective", "minbytes", "maxbytes", "stepbytes", "stepfactor", "iters", "warmup", "check",
        "op", "datatype", "root", "average", "topology", "json"})
    if (given.count(name) && !given[name].defaulted())
      throw_bad_input(
          "--machine chooses what it measures, and writes a topology file; leave --{} out", name);
}

// A machine is measured in processes of MPI unless another backend is named.
CommandArguments with_backend(CommandArguments words) {
  const auto is_option = [&](std::string_view name) {
    return std::any_of(words.begin(), words.end(),
                       [name](const std::string& word) { return word.starts_with(name); });
  };
  if (is_option("--machine") && !is_option("--backend"))
    words.insert(words.end(), {"--backend", "mpi"});
  return words;
}

int bench_as_worker(const CommandArguments& words, const po::variables_map& given,
                    Registries registries, const ProcessRole& process_role) {
  if (given.count("machine")) refuse_options_of_table(given);
  use_libraries(registries, given);
  RunOptions options;
  options.backends =
      read_backends(given["backend"].as<std::string>(), registries, process_role.viability());
  if (options.backends.size() != 1)
    throw_bad_input("--backend: expected one backend, found {}", options.backends.size());
  const BenchPlan plan = read_bench_plan(given);
  const int64_t ranks = plan.sizes.front().group.size();
  WorkerPoolRequest request{"bench", words, given, process_role, ranks};
  request.terms = agreed_options(given);
  const PoolRole role = attach_processes(registries, options, request);
  Backend& target = backend_named(registries, plan.backend);
  if (given.count("machine")) return machine_as_worker(given, plan, registries, role);
  if (role == PoolRole::follows) {
    run_bench_as_worker(target, plan);
    return 0;
  }
  const int gpus = gpus_per_process(given);
  if (options.processes * gpus > ranks && gpus > 1)
    throw_bad_input(
        "--processes {} with {} GPUs each: expected at most one GPU for each of --ranks {}",
        options.processes, gpus, ranks);
  check_reports(given);
  const BenchHead head = head_of(target, plan, options.processes);
  const std::vector<BenchRow> rows = measure_all(target, plan, head, prints_for_terminal(given));
  write_report(given, "json", [&] { return bench_json(head, rows); });
  return std::any_of(rows.begin(), rows.end(), is_wrong) ? 1 : 0;
}

}  // namespace

int bench_command(const CommandArguments& arguments, const Registries& registries) {
  const CommandArguments words = with_backend(arguments);
  const po::variables_map given = parse_words(words, bench_options(), "word");
  return run_in_role(
      given, given["backend"].as<std::string>(), registries,
      [&](const ProcessRole& role) { return bench_as_worker(words, given, registries, role); });
}

std::string bench_help() {
  return R"text(shardproof bench [options]

Measures one collective at several sizes, with the options and the table of nccl-tests, and compares its
results with the reference. With a backend of real processes every process repeats the exchange of a run.
With local the time is that of the simulator itself. --topology adds a predicted time.

  shardproof bench --backend mpi --collective all_reduce -b 8 -e 128M -f 2
  shardproof bench --backend mpi -b 64M -e 64M --topology "flat(latency='5 us', bandwidth='2 GB/s')"

  --backend NAME         local (default), or another of shardproof list backends
  --collective NAME      all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast, reduce,
                         gather, scatter, sendrecv (each rank to the next one)
  --ranks N              default: one for each process (or each GPU of a process), or 2
  --processes N, --timeout TIME, --hosts FILE, --ranks-per-gpu N, -g, --gpus-per-process G,
  --nccl-library PATH, --rendezvous WHERE, --process I
                         see shardproof help run
  -b, --minbytes SIZE    first size: 8, 128K, 32M (default), 1G; bytes that a rank sends or receives,
                         whichever is more
  -e, --maxbytes SIZE    last size (default 32M)
  -f, --stepfactor N     factor from one size to the next
  -i, --stepbytes SIZE   or bytes from one size to the next (default 1M)
  -n, --iters N          timed repetitions (default 20)
  -w, --warmup N         untimed repetitions before them (default 1)
  -c, --check N          0: do not compare with the reference
  -o, --op NAME          sum (default), prod, min, max, avg, band, bor, bxor
  -d, --datatype NAME    f32 (default); NCCL's names, such as float, half, bfloat16, int32, work too
  -r, --root N           root of broadcast, reduce, gather, scatter (default 0)
  -a, --average N        time of process 0 (0), average (1, default), least (2) or most (3) of processes
  --topology TEXT        machine, as in scenario files: adds the predicted time there, and the ratio
  --machine FILE         measure this machine instead, with --backend mpi (default) or nccl: latency and
                         bandwidth between processes, rates of a matrix product and of memory; writes a
                         topology file; "-": to standard output
  --json FILE            write the table as JSON, as nccl-tests does; "-": to standard output
  --max-bytes SIZE       refuse more memory, such as 8GB (default: half of the machine's)

Exit code: 0 all values right; 1 some values wrong; 2 bad input or a refused operation.
)text";
}

}  // namespace shardproof
