// Compares repetitions over MPI with bare loops of the same calls, in turn in the same processes:
// - each collective from 8 B to 64 MiB, as `shardproof bench` repeats it, and MPI's blocking
//   call;
// - whole programs, as `run --iters` repeats them, and the same kernels and calls without
//   shardproof.
// Times are medians of 20 pairs; of each, the slower process counts. Programs are repeated with the
// defaults of nccl-tests: 5 iterations to warm up, 20 timed ones. Also measures whole commands: a
// program in simulation and over MPI. An argument N limits collectives to N bytes.
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
#include "shardproof/engine/check/check.h"
#include "shardproof/engine/execute/executor.h"
#include "shardproof/localtensor/split/split.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

constexpr int kPairs = 20;
constexpr int kWarmup = 5, kIterations = 20;  // of programs
constexpr const char* kWorker = "--as-worker";
constexpr const char* kEnd = "end of the table\n";
constexpr double kAllowedSeconds = 2e-6;  // beyond MPI's time, or 10 %
constexpr CollectiveKind kKinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::reduce,
    CollectiveKind::gather,     CollectiveKind::scatter,    CollectiveKind::send};
constexpr int64_t kSizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 64 << 20};  // bytes

// Both print tables; only process 0 of the workers prints.
bool prints() {
  int rank = 0, started = 0;
  MPI_Initialized(&started);
  if (started != 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return started != 0 && rank == 0;
}

double slowest(double own) {
  double all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

struct Pair {
  std::vector<double> ours, bare;
};

double spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 3 / 4] / values[values.size() / 4];
}

void print_pair(const std::string& work, const Pair& pair, int processes) {
  if (!prints()) return;
  const double ours = median(pair.ours), bare = median(pair.bare);
  std::string target = "10 % or 2 us";
  if (ours > std::max(bare * 1.1, bare + kAllowedSeconds)) target += ": missed";
  if (processes > 2)
    target = fmt::format("none; quartiles apart {:.2f} and {:.2f}", spread(pair.ours),
                         spread(pair.bare));
  print({fmt::format("{}, {} processes", work, processes), fmt::format("{:.2f} us", ours * 1e6),
         fmt::format("bare loop: {:.2f} us", bare * 1e6), fmt::format("{:.2f}", ours / bare),
         target});
}

// --- collectives ---------------------------------------------------------------------------------

// A loop of MPI's own calls, over the buffers of one process. They lie in the blocks of the memory
// pool that the repetitions before have released, so both loops copy between the same addresses.
// Other addresses would change the time of MPI. Example: on Zen 3, glibc 2.36 copies 2 KiB and more
// 15 times slower if the target lies 1 to 31 bytes after the source, modulo 4 KiB.
class BareLoop {
 public:
  explicit BareLoop(const CollectiveBenchmark& benchmark) : c_(benchmark.collective) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    in_ = ones(input_elements(c_));
    out_ = ones(std::max(output_elements(c_, c_.root), c_.count));
    // Repetitions of a send release the output after the input, all others before it.
    if (c_.kind == CollectiveKind::send) std::swap(in_, out_);
  }
  double seconds(int warmup, int times) {
    for (int i = 0; i < warmup; ++i) call();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < times; ++i) call();
    return (MPI_Wtime() - start) / times;
  }

 private:
  static Bytes ones(int64_t count) {
    Bytes bytes = Bytes::uninitialized(count * int64_t{sizeof(float)});
    std::fill_n(reinterpret_cast<float*>(bytes.mutate()), count, 1.0F);
    return bytes;
  }

  void call() {
    const int n = static_cast<int>(c_.count), each = n / size_;
    const MPI_Datatype f = MPI_FLOAT;
    const MPI_Comm all = MPI_COMM_WORLD;
    std::byte *const in = in_.mutate(), *const out = out_.mutate();
    switch (c_.kind) {
      case CollectiveKind::all_reduce: MPI_Allreduce(in, out, n, f, MPI_SUM, all); return;
      case CollectiveKind::all_gather: MPI_Allgather(in, n, f, out, n, f, all); return;
      case CollectiveKind::reduce_scatter:
        MPI_Reduce_scatter_block(in, out, n, f, MPI_SUM, all);
        return;
      case CollectiveKind::all_to_all: MPI_Alltoall(in, each, f, out, each, f, all); return;
      case CollectiveKind::broadcast: MPI_Bcast(rank_ == 0 ? in : out, n, f, 0, all); return;
      case CollectiveKind::reduce: MPI_Reduce(in, out, n, f, MPI_SUM, 0, all); return;
      case CollectiveKind::gather: MPI_Gather(in, n, f, out, n, f, 0, all); return;
      case CollectiveKind::scatter: MPI_Scatter(in, n, f, out, n, f, 0, all); return;
      default:
        MPI_Sendrecv(in, n, f, (rank_ + 1) % size_, 0, out, n, f, (rank_ + size_ - 1) % size_, 0,
                     all, MPI_STATUS_IGNORE);
    }
  }

  const Collective& c_;
  int rank_ = 0, size_ = 0;
  Bytes in_, out_;
};

// `bytes` is the larger of the bytes that a rank sends and receives.
CollectiveBenchmark benchmark_of(CollectiveKind kind, int64_t bytes, int processes) {
  CollectiveBenchmark benchmark;
  Collective& c = benchmark.collective;
  c.kind = kind;
  c.group = Group::world(processes);
  const bool in_parts = kind == CollectiveKind::all_gather || kind == CollectiveKind::gather ||
                        kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter;
  const int64_t elements = std::max<int64_t>(bytes / 4, processes);
  c.count = in_parts ? elements / processes : elements / processes * processes;
  benchmark.checking = ResultCheck::none;
  benchmark.warmup = bytes > (1 << 20) ? 1 : 5;
  benchmark.times = bytes > (1 << 20) ? 1 : bytes > (64 << 10) ? 5 : 100;
  return benchmark;
}

// The coordinator and all workers call it.
void measure_collectives(Backend& target, int processes, int64_t most_bytes) {
  for (const CollectiveKind kind : kKinds)
    for (const int64_t bytes : kSizes) {
      if (bytes > most_bytes) continue;
      const CollectiveBenchmark benchmark = benchmark_of(kind, bytes, processes);
      Pair pair;
      for (int i = 0; i < kPairs; ++i) {
        const double ours = run_benchmark(target, benchmark).front().seconds;
        int started = 0;
        MPI_Initialized(&started);
        if (started == 0) continue;
        pair.ours.push_back(slowest(ours));
        BareLoop loop(benchmark);
        pair.bare.push_back(slowest(loop.seconds(benchmark.warmup, benchmark.times)));
      }
      print_pair(fmt::format("{} of {} B", name(kind), bytes), pair, processes);
    }
}

// --- programs ------------------------------------------------------------------------------------

struct Program {
  std::string name;
  Registries registries{builtin_ops(), {}};
  int64_t ranks = 0;
  Job job;
  LoweredJob lowered;
  std::vector<LocalTensor> inputs;

  Program(std::string name, int64_t ranks) : name(std::move(name)), ranks(ranks) {
    job.world = ranks;
    job.meshes = {{"", Mesh::make({{"tp", ranks}})}};
  }
  void add_input(const std::string& tensor, const Dims& shape, const std::string& placements) {
    const Mesh& mesh = job.meshes.front().second;
    const Spec spec = Spec::parse(placements, mesh, shape, DType::f32);
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 9) / 64;
    const Tensor data = tensor_of(DType::f32, shape, values);
    job.inputs.push_back({tensor, spec, mesh.ranks(), data});
    inputs.push_back(split(data, spec));
  }
  void add_listing(const Lanes& lanes, const std::vector<std::string>& lines) {
    job.ranks.push_back({lanes, parse_listing(lines), "/ranks"});
  }
};

Program mlp(int64_t ranks) {
  Program program("MLP forward", ranks);
  program.add_input("x", {64, 256}, "tp:R");
  program.add_input("w1", {256, 1024}, "tp:S(1)");
  program.add_input("w2", {1024, 256}, "tp:S(0)");
  program.add_listing(Lanes::range(0, ranks),
                      {"h = gelu(x @ w1)", "y = h @ w2", "z = all_reduce(y, sum)"});
  program.lowered = lower_job(program.job, program.registries);
  return program;
}

// Rank r sends each of four microbatches to rank r + 1.
Program pipeline(int64_t ranks) {
  Program program("pipeline of 4 microbatches", ranks);
  program.add_input("x", {32, 128}, "tp:R");
  program.add_input("w", {128, 128}, "tp:R");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> lines;
    for (int m = 0; m < 4; ++m) {
      if (rank != 0) lines.push_back(fmt::format("i{} = recv(like=x, from={})", m, rank - 1));
      lines.push_back(fmt::format("h{0} = gelu({1} @ w)", m,
                                  rank == 0 ? std::string("x") : fmt::format("i{}", m)));
      if (rank + 1 != ranks) lines.push_back(fmt::format("send(h{}, to={})", m, rank + 1));
    }
    program.add_listing(Lanes::one(static_cast<int32_t>(rank)), lines);
  }
  program.lowered = lower_job(program.job, program.registries);
  return program;
}

// The instructions of one rank as calls of kernels and of MPI on buffers of their own.
class ByHand {
 public:
  ByHand(const Program& program, int32_t rank) : program_(program), rank_(rank) {
    const SpmdProgram& spmd = program.lowered.program;
    tensors_.resize(spmd.values.size());
    for (size_t i = 0; i < spmd.inputs.size(); ++i)
      tensors_[static_cast<size_t>(spmd.inputs[i])] = program.inputs[i].of_rank(rank);
    for (const SpmdListing& listing : spmd.listings)
      if (listing.lanes.contains(rank))
        for (const Instr& instr : listing.instrs) add(instr);
  }
  // Returns the mean of the timed iterations. Each begins at a barrier.
  double seconds() {
    double sum = 0;
    for (int i = 0; i < kWarmup + kIterations; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (const std::function<void()>& step : steps_) step();
      if (i >= kWarmup) sum += MPI_Wtime() - start;
    }
    return sum / kIterations;
  }

 private:
  Tensor& tensor(ValueId id) { return tensors_[static_cast<size_t>(id)]; }
  static LaneView view(Tensor& tensor) {
    return {tensor.mutate(), 0, nullptr, tensor.dtype, tensor.shape, tensor.strides};
  }
  void add(const Instr& instr) {
    if (const auto* compute = std::get_if<Compute>(&instr.action)) add_kernel(*compute);
    if (const auto* calls = std::get_if<Communicate>(&instr.action)) add_call(calls->items.front());
  }
  void add_kernel(const Compute& compute) {
    const OpRecord& op = program_.registries.ops.at(compute.op.str());
    std::vector<TensorMeta> metas;
    for (const ValueId id : compute.inputs)
      metas.push_back({tensor(id).dtype, tensor(id).shape, false, false});
    const OpCall call{&compute.attrs.front().attrs, metas};
    const std::vector<TensorMeta> outputs = op.infer(call);
    const Kernel kernel = op.prepare(call, outputs);
    std::vector<LaneView> in, out;
    for (const ValueId id : compute.inputs) in.push_back(view(tensor(id)));
    for (size_t o = 0; o < outputs.size(); ++o) {
      tensor(compute.outputs[o]) = Tensor::empty(outputs[o].dtype, outputs[o].shape);
      out.push_back(view(tensor(compute.outputs[o])));
    }
    Bytes workspace = Bytes::uninitialized(kernel.workspace_bytes);
    steps_.push_back([kernel, in, out, workspace]() mutable {
      KernelCall run;
      run.inputs = &in;
      run.outputs = &out;
      run.workspace = workspace.mutate();
      kernel.run(run);
    });
  }
  void add_call(const CallItem& item) {
    const int count = static_cast<int>(item.collective.count);
    const int peer = static_cast<int>(item.peers.empty() ? item.collective.peer : item.peers[0]);
    std::byte* in = item.input == kNoValue ? nullptr : tensor(item.input).mutate();
    std::byte* out = nullptr;
    if (item.output != kNoValue) {
      const SpmdValue& value = program_.lowered.program.values[static_cast<size_t>(item.output)];
      for (const LocalShape& shape : value.shapes)
        if (shape.lanes.contains(rank_))
          tensor(item.output) = Tensor::empty(value.dtype, shape.shape);
      out = tensor(item.output).mutate();
    }
    steps_.push_back([kind = item.collective.kind, in, out, count, peer] {
      if (kind == CollectiveKind::send) MPI_Send(in, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
      if (kind == CollectiveKind::recv)
        MPI_Recv(out, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (kind == CollectiveKind::all_reduce)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
  }

  const Program& program_;
  int32_t rank_;
  std::vector<Tensor> tensors_;
  std::vector<std::function<void()>> steps_;
};

// Runs a program once and repeats it, as `run --iters` does. Returns the seconds of a repetition;
// the coordinator those of process 0.
double repeat(Backend& target, const Program& program) {
  WorldOptions options;
  options.ranks = program.ranks;
  options.measures = options.repeats = true;
  const std::unique_ptr<World> world = target.start(options);
  WorldProcesses& processes = *world->processes();
  ExecutorOptions executing;
  executing.repeats = true;
  Executor executor(program.lowered.program, program.registries.ops, *world, executing);
  std::vector<Lanes> cohorts;
  const Lanes here = processes.local_ranks();
  for (int64_t i = 0; i < here.size(); ++i) cohorts.push_back(Lanes::one(here[i]));
  executor.start(cohorts, program.inputs);
  executor.run();
  processes.conclude({});
  Repetitions repetitions;
  repetitions.warmup = kWarmup;
  repetitions.iterations = kIterations;
  const double seconds = processes.repeat(repetitions).front().seconds;
  world->close();
  return seconds;
}

void measure_program(Backend& target, const Program& program) {
  Pair pair;
  for (int i = 0; i < kPairs; ++i) {
    const double ours = repeat(target, program);
    int started = 0, rank = 0;
    MPI_Initialized(&started);
    if (started == 0) continue;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pair.ours.push_back(slowest(ours));
    pair.bare.push_back(slowest(ByHand(program, rank).seconds()));
  }
  print_pair(program.name, pair, static_cast<int>(program.ranks));
}

void measure_all(Backend& target, int processes, int64_t most_bytes) {
  measure_program(target, mlp(processes));
  measure_program(target, pipeline(processes));
  measure_collectives(target, processes, most_bytes);
}

// --- processes -----------------------------------------------------------------------------------

int work(int64_t most_bytes, const std::string& address) {
  const int process = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  fork_monitored_worker(address, process);
  WorkerPoolOptions options;
  options.join = address;
  options.process = process;
  options.processes = std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
  const std::shared_ptr<Backend> target = mpi_backend()->with_processes(options);
  while (target->pool()->next()) {
    measure_all(*target, options.processes, most_bytes);
    if (process == 0) fmt::print("{}", kEnd);
    std::fflush(stdout);
    target->pool()->done("");
  }
  return 0;
}

// The coordinator as a backend.
class Coordinating : public Backend {
 public:
  Coordinating(const WorkerPoolOptions& options) : pool_(options, mpirun_starter(options)) {}
  std::string name() const override { return "mpi"; }
  std::string summary() const override { return ""; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return pool_.start(options);
  }
  WorkerPool* pool() override { return &pool_; }
  std::string output() { return pool_.output(); }

 private:
  Coordinator pool_;
};

// Runs in the coordinator: starts the workers and prints the table that they write.
void lead(int processes, int64_t most_bytes) {
  WorkerPoolOptions options;
  options.processes = processes;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                     std::to_string(most_bytes), kWorker};
  Coordinating target(options);
  target.pool()->begin(0);
  measure_all(target, processes, most_bytes);
  // mpirun forwards the output of workers with a delay.
  std::string table;
  while (!table.ends_with(kEnd)) table = target.output();
  fmt::print("{}", table.substr(0, table.size() - std::strlen(kEnd)));
  std::fflush(stdout);
  target.pool()->end();
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
  const int64_t most_bytes = argc > 1 ? std::atoll(argv[1]) : kSizes[std::size(kSizes) - 1];
  if (argc == 4 && std::string(argv[2]) == kWorker) return work(most_bytes, argv[3]);
  print_head();
  for (const int processes : {2, 4}) lead(processes, most_bytes);
  if (argc == 1) print_programs();
}
