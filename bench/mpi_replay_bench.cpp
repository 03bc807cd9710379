// Measures an all-reduce of two processes over the mpi backend beside the same call of MPI itself,
// in turn in the same processes. The backend's call goes from submit() through the coordinator to
// the result in its buffer. Also measures whole commands: a program in simulation and over MPI.
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/mpi/mpi_backend.h"
#include "shardproof/backends/mpi/mpirun.h"
#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/process/worker_monitor.h"
#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

constexpr int kProcesses = 2;
constexpr int kRounds = 25;
constexpr const char* kWorker = "--as-worker";
constexpr const char* kEnd = "end of the table\n";

WorldOptions world_options() {
  WorldOptions options;
  options.ranks = kProcesses;
  return options;
}

// Runs in a worker: makes the calls and measures them.
class Measuring {
 public:
  Measuring(World& world, ExecutionContext& context, int64_t rank, int64_t count)
      : world_(world),
        context_(context),
        lanes_(Lanes::one(static_cast<int32_t>(rank))),
        count_(count) {
    input_ = LocalTensor(Tensor::empty(DType::f32, Dims{count}, lanes_, Slots::shared(1)));
    fill(input_.blocks()[0].tensor.mutate());
    fill(reinterpret_cast<std::byte*>(bare_in_.data()));
  }

  double ours() {
    return slowest([&] {
      output_ = LocalTensor(Tensor::without_contents(DType::f32, Dims{count_}, lanes_));
      Call call;
      call.collective.kind = CollectiveKind::all_reduce;
      call.collective.reduction = {ReduceOp::sum, 0};
      call.collective.count = count_;
      call.collective.group = Group::world(kProcesses);
      call.lanes = lanes_;
      call.input = &input_;
      call.output = &output_;
      const Ticket ticket = context_.submit(std::span(&call, 1), kMainStream);
      while (context_.poll(ticket) == TicketState::pending) world_.progress();
    });
  }
  double started_and_awaited() {
    return slowest([&] {
      MPI_Request request;
      MPI_Iallreduce(bare_in_.data(), bare_out_.data(), static_cast<int>(count_), MPI_FLOAT,
                     MPI_SUM, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
  }
  double blocking() {
    return slowest([&] {
      MPI_Allreduce(bare_in_.data(), bare_out_.data(), static_cast<int>(count_), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
  }
  // Checks that both computed the same sums.
  void check() const {
    const auto* ours = reinterpret_cast<const float*>(output_.blocks()[0].tensor.data());
    SP_CHECK(std::equal(bare_out_.begin(), bare_out_.end(), ours), "the sums differ");
  }

 private:
  void fill(std::byte* data) const {
    auto* values = reinterpret_cast<float*>(data);
    for (int64_t i = 0; i < count_; ++i) values[i] = static_cast<float>(i * (lanes_[0] + 1) % 1009);
  }
  // Returns the seconds of the slower process.
  template <typename F>
  static double slowest(F&& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    work();
    double own = MPI_Wtime() - start, both = 0;
    MPI_Allreduce(&own, &both, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return both;
  }

  World& world_;
  ExecutionContext& context_;
  Lanes lanes_;
  int64_t count_;
  LocalTensor input_, output_;
  std::vector<float> bare_in_ = std::vector<float>(static_cast<size_t>(count_)),
                     bare_out_ = bare_in_;
};

void measure(World& world, ExecutionContext& context, int64_t rank, int64_t bytes) {
  Measuring measuring(world, context, rank, bytes / 4);
  std::vector<double> seconds[3];
  for (int round = -2; round < kRounds; ++round) {
    const double of_round[] = {measuring.started_and_awaited(), measuring.ours(),
                               measuring.blocking()};
    for (size_t i = 0; i < 3 && round >= 0; ++i) seconds[i].push_back(of_round[i]);
  }
  measuring.check();
  if (rank != 0) return;
  const double bare = median(seconds[0]), ours = median(seconds[1]), blocking = median(seconds[2]);
  print({fmt::format("mpi backend, all_reduce of {} KiB, 2 processes", bytes / 1024),
         milliseconds(ours), "MPI_Iallreduce, MPI_Wait: " + milliseconds(bare),
         fmt::format("{:.2f}", ours / bare), bytes >= 64 << 20 ? "1.2" : ""});
  print({fmt::format("MPI_Allreduce of {} KiB", bytes / 1024), milliseconds(blocking),
         "MPI_Iallreduce, MPI_Wait: " + milliseconds(bare), fmt::format("{:.2f}", blocking / bare),
         ""});
}

int work(const std::string& address) {
  const int process = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  fork_monitored_worker(address, process);
  WorkerPoolOptions options;
  options.join = address;
  options.process = process;
  options.processes = kProcesses;
  const std::shared_ptr<Backend> target = mpi_backend()->with_processes(options);
  while (target->pool()->next()) {
    const std::unique_ptr<World> world = target->start(world_options());
    ExecutionContext& context = world->open(Lanes::one(process));
    for (const int64_t bytes : {int64_t{64} << 10, int64_t{1} << 20, int64_t{64} << 20})
      measure(*world, context, process, bytes);
    if (process == 0) fmt::print("{}", kEnd);
    std::fflush(stdout);
    context.finish();
    world->close();
    target->pool()->done("");
  }
  return 0;
}

// Runs in the coordinator: starts the workers and prints the table that they write.
int lead() {
  WorkerPoolOptions options;
  options.processes = kProcesses;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), kWorker};
  Coordinator pool(options, mpirun_starter(options));
  pool.begin(0);
  const std::unique_ptr<World> world = pool.start(world_options());
  while (world->progress()) {
  }
  const bool broken = world->close().broken;
  // mpirun forwards the output of workers with a delay.
  std::string table;
  while (!broken && !table.ends_with(kEnd)) table = pool.output();
  if (!broken) fmt::print("{}", table.substr(0, table.size() - std::strlen(kEnd)));
  pool.end();
  return broken ? 1 : 0;
}

double wall_seconds(const std::string& file, const char* backend) {
  std::vector<std::string> words{SHARDPROOF_TOOL, "run", file, "--backend", backend};
  if (std::string_view(backend) == "mpi") words.insert(words.end(), {"--processes", "2"});
  const auto start = std::chrono::steady_clock::now();
  run_child(words);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print_program(const std::string& work, const std::string& file) {
  constexpr int kRuns = 5;
  std::vector<double> simulated, replayed;
  for (int run = 0; run < kRuns; ++run) {
    simulated.push_back(wall_seconds(file, "local"));
    replayed.push_back(wall_seconds(file, "mpi"));
  }
  const double ours = median(simulated), mpi = median(replayed);
  print({work + ", simulated", milliseconds(ours),
         "replayed over MPI, 2 processes: " + milliseconds(mpi), fmt::format("{:.2f}", ours / mpi),
         "1"});
}

void print_programs() {
  const std::string file = SHARDPROOF_BENCH_FOLDER "/twenty_calls.json";
  std::ofstream(file)
      << R"json({"version": 1, "mesh": "tp=2", "tensors": {"x": {"shape": [4194304]}},
    "ranks": {"all": ["y = x", "for i in range(0, 20):", "  y = all_reduce(x, sum)"]}})json";
  print_program("20 all_reduce of 16 MiB, 2 ranks", file);
  print_program("llama3_8b_block, 8 ranks",
                SHARDPROOF_SOURCE_DIR "/scenarios/demo/llama3_8b_block.json");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == kWorker) return work(argv[2]);
  print_head();
  const int code = lead();
  print_programs();
  return code;
}
