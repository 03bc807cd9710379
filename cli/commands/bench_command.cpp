#include <algorithm>
#include <cmath>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/options/bench_options.h"
#include "shardproof/cli/processes/process_options.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/report/report.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

constexpr Placing kPlacings[] = {Placing::apart, Placing::in_place};
constexpr int64_t kPlacingCount = std::size(kPlacings);

Repetition repetition_of(const BenchPlan& plan, int64_t index) {
  Repetition repetition;
  repetition.collective = plan.sizes.at(static_cast<size_t>(index / kPlacingCount));
  repetition.checking = Checking::none;
  repetition.placing = kPlacings[index % kPlacingCount];
  repetition.warmup = plan.warmup;
  repetition.times = plan.times;
  if (can_be_checked(repetition.collective.kind, repetition.placing))
    repetition.checking = plan.checking;
  return repetition;
}

// As one of the crew: what the process that leads says is next.
void follow(Backend& target, const BenchPlan& plan) {
  WorkerPool& pool = *target.pool();
  while (const std::optional<int64_t> index = pool.next()) {
    try {
      pool.tell(repeat(target, repetition_of(plan, *index)));
      pool.done("");
    } catch (const Error& error) {
      pool.done(error.what());
    } catch (const std::bad_alloc&) {
      pool.done("the machine has too little memory for this");
    }
  }
}

std::vector<Repeated> measure(Backend& target, const BenchPlan& plan, int64_t index) {
  WorkerPool* const pool = target.pool();
  if (pool == nullptr) return {repeat(target, repetition_of(plan, index))};
  pool->begin(index);
  std::vector<Repeated> told = pool->told();
  pool->end();
  return told;
}

double average(const std::vector<Repeated>& told, Averaging averaging) {
  double sum = 0, least = told.front().seconds, most = least;
  for (const Repeated& one : told) {
    sum += one.seconds;
    least = std::min(least, one.seconds);
    most = std::max(most, one.seconds);
  }
  switch (averaging) {
    case Averaging::first: return told.front().seconds;
    case Averaging::average: return sum / static_cast<double>(told.size());
    case Averaging::least: return least;
    case Averaging::most: return most;
  }
  return sum;
}

// Of all: a time that may hold a launch makes the average one that may.
TimedBy clock_of(const std::vector<Repeated>& told) {
  const auto any = [&told](TimedBy clock) {
    return std::any_of(told.begin(), told.end(),
                       [clock](const Repeated& one) { return one.clock == clock; });
  };
  if (any(TimedBy::world)) return TimedBy::world;
  return any(TimedBy::device_and_launch) ? TimedBy::device_and_launch : TimedBy::device;
}

BenchSide side_of(const std::vector<Repeated>& told, const BenchPlan& plan, int64_t index) {
  BenchSide side;
  side.seconds = average(told, plan.averaging);
  side.clock = clock_of(told);
  if (repetition_of(plan, index).checking == Checking::none) return side;
  side.wrong = 0;
  for (const Repeated& one : told) *side.wrong += one.wrong;
  return side;
}

BenchRow measure_row(Backend& target, const BenchPlan& plan, int64_t row) {
  BenchRow measured;
  measured.collective = plan.sizes[static_cast<size_t>(row)];
  const std::vector<Repeated> apart = measure(target, plan, row * kPlacingCount);
  measured.apart = side_of(apart, plan, row * kPlacingCount);
  measured.expected_seconds = apart.front().expected_seconds;
  const int64_t in_place = row * kPlacingCount + 1;
  measured.in_place = side_of(measure(target, plan, in_place), plan, in_place);
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
                                  bool told) {
  const auto tell = [&](const std::string& text) {
    if (told) print_out(text);
  };
  tell(bench_head_text(head));
  std::vector<BenchRow> rows;
  for (size_t row = 0; row < plan.sizes.size(); ++row) {
    rows.push_back(measure_row(target, plan, static_cast<int64_t>(row)));
    tell(bench_row_text(head, rows.back()));
  }
  tell(bench_foot_text(rows));
  return rows;
}

Backend& backend_named(const Registries& registries, const std::string& backend) {
  for (const auto& target : registries.backends)
    if (target->name() == backend) return *target;
  SP_UNREACHABLE("backend {} was there a moment ago", backend);
}

bool is_wrong(const BenchRow& row) {
  return row.apart.wrong.value_or(0) + row.in_place.wrong.value_or(0) != 0;
}

}  // namespace

namespace {

int bench_as_worker(const CommandArguments& words, const po::variables_map& given,
                    Registries registries, const ProcessRole& seat) {
  use_libraries(registries, given);
  RunOptions options;
  options.backends =
      read_backends(given["backend"].as<std::string>(), registries, seat.viability());
  if (options.backends.size() != 1) throw_bad_input("--backend: bench measures one at a time");
  const BenchPlan plan = read_bench_plan(given);
  const int64_t ranks = plan.sizes.front().group.size();
  WorkerPoolRequest request{"bench", words, given, seat, ranks};
  request.terms = terms_of(given);
  const PoolRole role = attach_processes(registries, options, request);
  Backend& target = backend_named(registries, plan.backend);
  if (role == PoolRole::follows) {
    follow(target, plan);
    return 0;
  }
  const int gpus = gpus_per_process(given);
  if (options.processes * gpus > ranks && gpus > 1)
    throw_bad_input("--processes {} with {} GPUs each are more than --ranks {}", options.processes,
                    gpus, ranks);
  if (options.processes > ranks)
    throw_bad_input("--processes {} are more than --ranks {}", options.processes, ranks);
  check_reports(given);
  const BenchHead head = head_of(target, plan, options.processes);
  const std::vector<BenchRow> rows = measure_all(target, plan, head, prints_for_terminal(given));
  write_report(given, "json", [&] { return bench_json(head, rows); });
  return std::any_of(rows.begin(), rows.end(), is_wrong) ? 1 : 0;
}

}  // namespace

int bench_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, bench_options(), "word");
  return run_in_role(
      given, given["backend"].as<std::string>(), registries,
      [&](const ProcessRole& seat) { return bench_as_worker(words, given, registries, seat); });
}

std::string bench_help() {
  return R"text(shardproof bench [options]

Measures one collective at several sizes, with the options and the table of nccl-tests, and compares what
it gives with the reference. On a backend of real processes every process repeats the exchange of a run;
on local the time is what the simulator itself takes. --topology puts a prediction beside it.

  shardproof bench --backend mpi --collective all_reduce -b 8 -e 128M -f 2
  shardproof bench --backend mpi -b 64M -e 64M --topology "flat(latency='5 us', bandwidth='2 GB/s')"

  --backend NAME         local (default), or another of shardproof list backends
  --collective NAME      all_reduce (default), all_gather, reduce_scatter, all_to_all, broadcast, reduce,
                         gather, scatter, sendrecv (each rank to the next one)
  --ranks N              default: one a process (one a GPU where processes have several), or 2
  --processes N, --timeout TIME, --hosts FILE, --ranks-per-gpu N, -g, --gpus-per-process G,
  --nccl-library PATH, --rendezvous WHERE, --process I
                         as of shardproof run
  -b, --minbytes SIZE    first size: 8, 128K, 32M (default), 1G; of the larger of what a rank sends and gets
  -e, --maxbytes SIZE    last size (default 32M)
  -f, --stepfactor N     from one size to the next by this factor
  -i, --stepbytes SIZE   or by so many bytes more (default 1M)
  -n, --iters N          timed repetitions (default 20)
  -w, --warmup N         repetitions before them (default 1)
  -c, --check N          0: do not compare with the reference
  -o, --op NAME          sum (default), prod, min, max, avg, band, bor, bxor
  -d, --datatype NAME    f32 (default); also NCCL's names such as float, half, bfloat16, int32
  -r, --root N           of broadcast, reduce, gather, scatter (default 0)
  -a, --average N        time of process 0 (0), average (1, default), least (2) or most (3) of processes
  --topology TEXT        a machine as in scenarios: adds the time it should take there, and the ratio
  --json FILE            write the table for programs, as nccl-tests does; "-": to standard output
  --max-bytes SIZE       refuse more memory, such as 8GB (default: half of the machine's)

Exit code: 0 all values right; 1 some wrong; 2 bad input, or something that was refused.
)text";
}

}  // namespace shardproof
