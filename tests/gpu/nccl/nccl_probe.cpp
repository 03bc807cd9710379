// Implements nccl_probe.h: the parent starts one process for each rank, passes their output on, and
// ends all when one fails.
#include "shardproof/tests/gpu/nccl/nccl_probe.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "shardproof/backends/nccl/gpu_sharing.h"
#include "shardproof/backends/nccl/nccl_transport.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/localtensor/collective/reduction_order.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{150};  // for all ranks of one group
constexpr int64_t kBitSizes[] = {1, 1000, 4099, 65536, 100003, 1048577};
constexpr int64_t kTimeBytes[] = {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 26};

struct Options {
  std::string mode;  // "bits" or "times"
  int ranks = 2, ranks_per_gpu = 1;
  std::string order = "ring";
  std::string library;
  // For times: this many exchanges are timed together, as nccl-tests and `bench` do, because
  // waiting for each would time the launch of the next. Before the timed ones, a quarter of their
  // number runs untimed.
  int64_t most_bytes = int64_t{1} << 26;
  int repetitions = 20, in_a_row = 10;
  int rank = -1;  // set in a child
  std::string id;
};

Options read_options(int argc, char** argv) {
  Options options;
  options.mode = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks") options.ranks = std::stoi(value);
    if (name == "--ranks-per-gpu") options.ranks_per_gpu = std::stoi(value);
    if (name == "--nccl-library") options.library = value;
    if (name == "--order") options.order = value;
    if (name == "--most") options.most_bytes = std::stoll(value);
    if (name == "--repetitions") options.repetitions = std::max(std::stoi(value), 1);
    if (name == "--in-a-row") options.in_a_row = std::max(std::stoi(value), 1);
    if (name == "--rank") options.rank = std::stoi(value);
    if (name == "--id") options.id = value;
  }
  return options;
}

std::string hex_of(const NcclId& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

WorkerPoolOptions pool_of(const Options& options, const std::string& order) {
  WorkerPoolOptions pool;
  pool.processes = options.ranks;
  pool.ranks_per_gpu = options.ranks_per_gpu;
  if (!order.empty()) pool.order = parse_reduction_schedule(order);
  return pool;
}

// --- a rank

class Rank {
 public:
  Rank(const Options& options, const NcclDependencies& parts) : options_(options), parts_(parts) {
    NcclHardware machine;
    machine.open_nccl = [this] { return parts_.load(parts_.places); };
    machine.open_device = [this](int) {
      device_ = open_device(parts_.cuda, options_.rank / options_.ranks_per_gpu);
      return device_;
    };
    transport_ = nccl_transport(machine, {options_.rank, options_.ranks});
    transport_->when_lost([this](const std::string& words) {
      fmt::print(stderr, "rank {}: {}\n", options_.rank, words);
      ::_exit(1);
    });
    transport_->join(bytes_of(options_.id));
    for (int rank = 0; rank < options_.ranks; ++rank) team_.push_back(rank);
  }

  // Returns lines that name the differences; empty: all bits are equal.
  int compare_bits() {
    int different = 0;
    const bool one_channel = parse_reduction_schedule(options_.order).channels == 1;
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int64_t count : kBitSizes)
        if (one_channel || (count > 4000 && count < 1000000))
          different += compare_one(CollectiveKind::all_reduce, dtype, count);
    if (!one_channel) return different;  // the checks below do not depend on channels
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      // Scales by 0.1, because a mean over 2 or 4 ranks would be exact.
      const Reduction scaled{ReduceOp::premul_sum, as_stored(0.1, dtype)};
      if (multiplies_and_adds(dtype))
        different += compare_one(CollectiveKind::all_reduce, dtype, 4099, scaled);
    }
    for (const CollectiveKind kind : {CollectiveKind::reduce_scatter, CollectiveKind::reduce})
      for (const int64_t count : {1000, 100003}) different += compare_one(kind, DType::bf16, count);
    return different;
  }

  void measure() {
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
          CollectiveKind::broadcast, CollectiveKind::all_to_all})
      for (const int64_t bytes : kTimeBytes)
        if (bytes <= options_.most_bytes) measure_one(kind, bytes);
  }

 private:
  static double as_stored(double value, DType dtype) {
    std::byte element[8] = {};
    store_f64(element, dtype, value);
    return load_f64(element, dtype);
  }

  // True if the GPU multiplies and adds with one rounding, as the orders state. For bf16 only newer
  // GPUs have that instruction.
  bool multiplies_and_adds(DType dtype) const {
    CudaDeviceFacts facts;
    parts_.cuda.device_facts(device_->ordinal(), &facts);
    return dtype != DType::bf16 || facts.major >= 9;
  }

  Tensor input_of(int rank, DType dtype, int64_t count) const {
    Tensor tensor = Tensor::empty(dtype, Dims{count});
    const Rng rng(static_cast<uint64_t>(rank) + 17, static_cast<uint64_t>(count));
    for (int64_t i = 0; i < count; ++i)
      store_f64(tensor.mutate() + i * size_of(dtype), dtype, rng.normal(static_cast<uint64_t>(i)));
    return tensor;
  }

  // The mean over exchanges that run one after the other.
  struct Timed {
    double microseconds = 0;
    bool with_launch = false;  // the GPU had finished one before the next was launched
    bool operator<(const Timed& other) const { return microseconds < other.microseconds; }
  };
  Timed run(Exchange& e, Bytes& in, Bytes& out, int times = 1) {
    Timed timed;
    e.send = in.device_data(device_);
    e.recv = out.device_mutate(device_);
    device_->use(e.stream);
    const int64_t begun = device_->record();
    for (int i = 0; i < times; ++i) {
      const int64_t before = device_->record();
      transport_->start({&e, 1});
      while (!transport_->launched()) {
      }
      if (i > 0 || times == 1)
        timed.with_launch = device_->event_completed(before) || timed.with_launch;
      device_->forget(before);
    }
    const int64_t ended = device_->record();
    while (!transport_->done() || !device_->event_completed(ended)) {
    }
    timed.microseconds = device_->between(begun, ended).time / times;
    device_->forget(begun);
    device_->forget(ended);
    return timed;
  }

  // Returns the microseconds in which the host launches one of `times` exchanges in a row, by the
  // transport's launch() or by start().
  double launch_time(Exchange& e, Bytes& in, Bytes& out, int times, bool by_start) {
    e.send = in.device_data(device_);
    e.recv = out.device_mutate(device_);
    const auto launch = [&] {
      if (!by_start) return transport_->launch({&e, 1});
      transport_->start({&e, 1});
      while (!transport_->launched()) {
      }
    };
    transport_->repeat(!by_start);
    launch();
    device_->synchronize();
    const Clock::time_point begun = Clock::now();
    for (int i = 0; i < times; ++i) launch();
    const double all = std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
    device_->synchronize();
    transport_->repeat(false);
    return all / times;
  }

  Exchange exchange(CollectiveKind kind, DType dtype, int64_t count) const {
    Exchange e;
    e.kind = kind;
    e.part = FoldPart::whole;
    e.dtype = dtype;
    e.team = team_;
    e.self = options_.rank;
    e.count = count;
    e.side = Side::device;
    return e;
  }

  // The first element whose bits differ, as further fields of the line.
  static std::string difference_at(int64_t index, DType dtype, const Bytes& out,
                                   const Tensor& expected) {
    const int64_t at = index * size_of(dtype);
    return fmt::format(", \"first\": {}, \"nccl\": {:.17g}, \"expected\": {:.17g}", index,
                       load_f64(out.data() + at, dtype), load_f64(expected.data() + at, dtype));
  }

  // `count` is that of Collective.
  int compare_one(CollectiveKind kind, DType dtype, int64_t count, Reduction reduction = {}) {
    const size_t self = static_cast<size_t>(options_.rank);
    const bool scatters = kind == CollectiveKind::reduce_scatter;
    Collective c;
    c.kind = kind;
    c.dtype = dtype;
    c.group = Group::world(options_.ranks);
    c.count = count;
    c.reduction = reduction;
    c.schedule = parse_reduction_schedule(options_.order);
    if (!transport_->can_reduce(reduction, dtype)) return 0;
    std::vector<Tensor> inputs;
    for (int rank = 0; rank < options_.ranks; ++rank)
      inputs.push_back(input_of(rank, dtype, scatters ? options_.ranks * count : count));
    const std::optional<Tensor> reduced = reference(c, inputs)[self];
    c.schedule = {};
    const std::optional<Tensor> in_group_order = reference(c, inputs)[self];
    Exchange e = exchange(kind, dtype, count);
    e.reduction = reduction;
    if (scatters) e.recv_counts.assign(inputs.size(), count);
    Bytes in = inputs[self].buffer->bytes;
    Bytes out = Bytes::on_device(device_, count * size_of(dtype));
    run(e, in, out);
    if (!reduced) return 0;
    const Tensor &expected = *reduced, &plain = *in_group_order;
    int64_t different = 0, from_plain = 0, first = -1;
    const size_t size = static_cast<size_t>(size_of(dtype));
    for (size_t at = 0; at < static_cast<size_t>(out.size()); at += size) {
      const bool differs = std::memcmp(out.data() + at, expected.data() + at, size) != 0;
      if (differs && first < 0) first = static_cast<int64_t>(at / size);
      different += differs;
      from_plain += std::memcmp(expected.data() + at, plain.data() + at, size) != 0;
    }
    const std::string where = first < 0 ? "" : difference_at(first, dtype, out, expected);
    if (options_.rank == 0)
      fmt::print(
          "{{\"order\": \"{}\", \"kind\": \"{}\", \"reduction\": \"{}\", \"ranks\": {}, \"dtype\": "
          "\"{}\", \"count\": {}, \"different\": {}, \"apart_from_group_order\": {}{}}}\n",
          options_.order, name(kind), to_string(reduction), options_.ranks, name(dtype), count,
          different, from_plain, where);
    std::fflush(stdout);
    return different != 0;
  }

  void measure_one(CollectiveKind kind, int64_t bytes) {
    const int64_t n = options_.ranks, count = std::max<int64_t>(bytes / 4 / n, 1) * n,
                  part = count / n;
    const bool gathers = kind == CollectiveKind::all_gather;
    const bool scatters = kind == CollectiveKind::reduce_scatter;
    Exchange e = exchange(kind, DType::f32, gathers || scatters ? part : count);
    const std::vector<int64_t> even(static_cast<size_t>(n), part);
    if (gathers || scatters) e.recv_counts = even;
    if (kind == CollectiveKind::all_to_all) e.send_counts = e.recv_counts = even;
    Bytes in = Bytes::zeros(4 * (gathers ? part : count));
    Bytes out = Bytes::on_device(device_, 4 * (scatters ? part : count));
    for (int i = 0; i < (options_.repetitions + 3) / 4; ++i) run(e, in, out);
    std::vector<Timed> times;
    for (int i = 0; i < options_.repetitions; ++i)
      times.push_back(run(e, in, out, options_.in_a_row));
    std::sort(times.begin(), times.end());
    const bool with_launch =
        std::any_of(times.begin(), times.end(), [](const Timed& one) { return one.with_launch; });
    const std::optional<double> estimate = transport_->estimate({&e, 1});
    const double start = launch_time(e, in, out, options_.in_a_row, true);
    const double launch = launch_time(e, in, out, options_.in_a_row, false);
    if (options_.rank != 0) return;
    const double median = times[times.size() / 2].microseconds;
    const double total = static_cast<double>(4 * count);
    const double algbw = total / median / 1000;
    fmt::print(
        "{{\"kind\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"repetitions\": {}, \"in_a_row\": {}, "
        "\"clock\": \"{}\", \"us_median\": {:.2f}, \"us_least\": {:.2f}, \"us_most\": {:.2f}, "
        "\"us_to_start\": {:.2f}, \"us_to_launch\": {:.2f}, \"algbw_GBps\": {:.3f}, "
        "\"busbw_GBps\": {:.3f}, "
        "\"us_by_nccls_model\": {}}}\n",
        name(kind), n, 4 * count, times.size(), options_.in_a_row,
        with_launch ? "device+launch" : "device", median, times.front().microseconds,
        times.back().microseconds, start, launch, algbw, algbw * bus_factor(kind),
        estimate ? fmt::format("{:.2f}", *estimate) : "null");
    std::fflush(stdout);
  }

  double bus_factor(CollectiveKind kind) const {
    const double n = options_.ranks;
    if (kind == CollectiveKind::all_reduce) return 2 * (n - 1) / n;
    if (kind == CollectiveKind::broadcast) return 1;
    return (n - 1) / n;
  }

  Options options_;
  NcclDependencies parts_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Transport> transport_;
  std::vector<int> team_;
};

int be_rank(const Options& options, const NcclDependencies& parts) {
  WorkerPoolOptions pool = pool_of(options, options.order == "rank" ? "" : options.order);
  pool.process = options.rank;
  set_nccl_environment(pool, gpu_sharing(pool, parts.load(parts.places).version));
  Rank rank(options, parts);
  if (options.mode == "bits") return rank.compare_bits() == 0 ? 0 : 1;
  rank.measure();
  return 0;
}

// --- all ranks

// Forwards the output of ranks line by line, so that the lines of a killed rank are not lost.
class Lines {
 public:
  void read(const Child& child) {
    std::string& text = texts_[child.output];
    read_output(child.output, text);
    const size_t end = text.rfind('\n');
    if (end == std::string::npos) return;
    fmt::print("{}", text.substr(0, end + 1));
    std::fflush(stdout);
    text.erase(0, end + 1);
  }
  void end(const Child& child) {
    read(child);
    if (!texts_[child.output].empty()) fmt::print("{}\n", texts_[child.output]);
  }

 private:
  std::map<int, std::string> texts_;  // incomplete lines, by rank
};

// Starts the ranks with the environment for their order and sharing of GPUs, and waits for all.
int run_ranks(const Options& options, const NcclDependencies& parts, const std::string& order) {
  const NcclApi api = parts.load(parts.places);
  const WorkerPoolOptions pool = pool_of(options, order);
  const GpuSharing sharing = gpu_sharing(pool, api.version);
  // The id holds an address of the network that the ranks use.
  for (const auto& [name, value] : nccl_preferences(pool, sharing))
    ::setenv(name.c_str(), value.c_str(), 0);
  NcclId id{};
  if (api.get_unique_id(&id) != nccl::kSuccess)
    throw Error(ErrorKind::unsupported, "NCCL gives no id");
  std::vector<Child> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(),
                                   options.mode,
                                   "--ranks",
                                   fmt::format("{}", options.ranks),
                                   "--ranks-per-gpu",
                                   fmt::format("{}", options.ranks_per_gpu),
                                   "--rank",
                                   fmt::format("{}", rank),
                                   "--most",
                                   fmt::format("{}", options.most_bytes),
                                   "--repetitions",
                                   fmt::format("{}", options.repetitions),
                                   "--in-a-row",
                                   fmt::format("{}", options.in_a_row),
                                   "--id",
                                   hex_of(id),
                                   "--order",
                                   order.empty() ? "rank" : order};
    if (!options.library.empty()) words.insert(words.end(), {"--nccl-library", options.library});
    ranks.push_back(start_child(words, nccl_environment(pool, sharing, rank)));
  }
  int code = 0;
  Lines output;
  const Clock::time_point limit = Clock::now() + kLimit;
  // If one ends with an error, all are killed: the others would wait for it.
  std::vector<Child> running = ranks;
  while (!running.empty()) {
    std::erase_if(running, [&](const Child& child) {
      output.read(child);
      if (Clock::now() > limit || code != 0) ::kill(-child.pid, SIGKILL);
      int status = 0;
      if (::waitpid(child.pid, &status, WNOHANG) == 0) return false;
      output.read(child);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) code = 1;
      return true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const Child& child : ranks) {
    output.end(child);
    ::close(child.output);
  }
  if (code != 0) fmt::print("FAILED: order {}, {} ranks\n", order, options.ranks);
  return code;
}

// A rank that is a machine of its own is a node of the tree.
std::string tree_text(const Options& options, int version) {
  const bool as_hosts = gpu_sharing(pool_of(options, ""), version) == GpuSharing::as_hosts;
  return as_hosts ? fmt::format("tree(nodes={})", options.ranks) : "tree";
}

// Returns the orders that this NCCL can use, also with several channels. One rank adds nothing.
std::vector<std::string> orders_of_bits(const Options& options, int version) {
  std::vector<std::string> orders{"ring", tree_text(options, version)};
  if (options.ranks == 1) return orders;
  for (const char* const order : {"ring(channels=2)", "ring(channels=2, protocol=ll)"}) {
    const ReductionSchedule its = with_nccl(parse_reduction_schedule(order), version);
    if (is_order_of_nccl(its, version)) orders.push_back(to_string(its));
  }
  return orders;
}

}  // namespace

int probe_main(int argc, char** argv, const NcclDependencies& given) {
  try {
    const Options options = read_options(argc, argv);
    NcclDependencies parts = given;
    if (!options.library.empty()) parts.places.library = options.library;
    if (options.mode != "bits" && options.mode != "times")
      throw_bad_input(
          "usage: {} bits|times [--ranks N] [--ranks-per-gpu N] "
          "[--nccl-library PATH] [--most BYTES] [--repetitions N] [--in-a-row N]",
          argv[0]);
    if (options.rank >= 0) return be_rank(options, parts);
    if (const auto reason = why_no_device(parts.cuda)) throw Error(ErrorKind::unsupported, *reason);
    int gpus = 0;
    parts.cuda.device_count(&gpus);
    check_gpu_count(pool_of(options, ""), gpus);
    const int version = parts.load(parts.places).version;
    fmt::print("{{\"nccl\": \"{}\", \"ranks\": {}, \"note\": \"{}\"}}\n",
               nccl_version_text(version), options.ranks,
               sharing_note(pool_of(options, ""), gpu_sharing(pool_of(options, ""), version)));
    if (options.mode == "times") return run_ranks(options, parts, "");
    int code = 0;
    for (const std::string& order : orders_of_bits(options, version))
      code = std::max(code, run_ranks(options, parts, order));
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "nccl_probe: {}\n", error.what());
    return 2;
  }
}

}  // namespace shardproof
