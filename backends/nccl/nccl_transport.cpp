// Implements nccl_transport.h.
//
// First, start() issues all exchanges in the streams of their GPUs as one NCCL group and records an
// event after each. Then launched() polls the communicators until NCCL has put everything into the
// streams, and done() polls the events. Contents on the host are copied to the device before the
// exchange, and back after it.
#include <sched.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>

#include "shardproof/backends/nccl/nccl_calls.h"
#include "shardproof/backends/nccl/nccl_group.h"
#include "shardproof/backends/nccl/nccl_transport.h"
#include "shardproof/backends/nccl/nccl_types.h"
#include "shardproof/backends/nccl/put_window.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kWindowStream = -1;  // device stream of puts; programs count theirs from 0
constexpr int64_t kScratchBytes = 256;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSessionPollInterval{1};

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

bool is_one_sided(const Exchange& e) {
  return e.kind == CollectiveKind::put || e.kind == CollectiveKind::wait_signal;
}

// Elements that the `self`th endpoint of the team sends and receives.
struct ElementCounts {
  int64_t sent = 0, received = 0;
};
ElementCounts element_counts(const Exchange& e, size_t self) {
  const bool is_root = static_cast<size_t>(e.root) == self;
  switch (e.kind) {
    case CollectiveKind::all_reduce: return {e.count, e.count};
    case CollectiveKind::reduce: return {e.count, is_root ? e.count : 0};
    case CollectiveKind::reduce_scatter: return {total(e.recv_counts), e.recv_counts[self]};
    case CollectiveKind::all_gather: return {e.count, total(e.recv_counts)};
    case CollectiveKind::gather: return {e.count, is_root ? total(e.recv_counts) : 0};
    case CollectiveKind::scatter: return {is_root ? total(e.send_counts) : 0, e.count};
    case CollectiveKind::broadcast: return {is_root ? e.count : 0, e.count};
    case CollectiveKind::send: return {e.count, 0};
    case CollectiveKind::recv: return {0, e.count};
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::exchange: return {total(e.send_counts), total(e.recv_counts)};
    default: return {};
  }
}

// Device memory for the time of an exchange, allocated in the stream that was current then.
class StagingMemory {
 public:
  StagingMemory() = default;
  StagingMemory(std::shared_ptr<Device> device, int64_t bytes)
      : device_(std::move(device)), bytes_(bytes), stream_(device_->current()) {
    if (bytes_ != 0) start_ = device_->allocate(bytes_);
  }
  StagingMemory(StagingMemory&& other) noexcept { *this = std::move(other); }
  StagingMemory& operator=(StagingMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(stream_, other.stream_);
    std::swap(start_, other.start_);
    return *this;
  }
  ~StagingMemory() {
    if (start_ != nullptr) device_->release(start_, bytes_, {&stream_, 1});
  }
  std::byte* start() const { return start_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  int64_t bytes_ = 0;
  int stream_ = 0;
  std::byte* start_ = nullptr;
};

// One of this process's GPUs, with memory for the number that a barrier moves.
struct ProcessGpu {
  std::shared_ptr<Device> device;
  StagingMemory scratch;
};

// One exchange between its start and its end.
struct StartedExchange {
  Exchange exchange;
  ProcessGpu* gpu = nullptr;
  NcclPlace place;
  std::byte* host = nullptr;  // destination of the result if contents are staged
  StagingMemory sent, received;
};

// Restores each GPU's current stream when it is destroyed.
class StreamsBefore {
 public:
  explicit StreamsBefore(const std::vector<ProcessGpu>& gpus) {
    for (const ProcessGpu& own : gpus)
      before_.emplace_back(own.device.get(), own.device->current());
  }
  StreamsBefore(const StreamsBefore&) = delete;
  StreamsBefore& operator=(const StreamsBefore&) = delete;
  ~StreamsBefore() {
    for (const auto& [device, stream] : before_) device->use(stream);
  }

 private:
  std::vector<std::pair<Device*, int>> before_;
};

class NcclTransport : public Transport {
 public:
  NcclTransport(const NcclHardware& machine, const NcclRankConfig& rank_config)
      : machine_(machine), config_(rank_config) {}
  int processes() const override { return config_.processes; }
  int self() const override { return config_.process; }
  int endpoints_each() const override { return config_.gpus; }

  std::string invitation() override;
  void join(std::string_view invitation) override;
  void form(const std::vector<std::vector<int>>& teams) override;
  void abort() noexcept override;
  void when_lost(std::function<void(const std::string&)> report_loss) override {
    report_loss_ = std::move(report_loss);
  }
  std::shared_ptr<DeviceMemory> memory(int endpoint) override { return gpu(endpoint).device; }
  bool can_reduce(const Reduction& reduction, DType dtype) const override {
    return nccl_reduces(reduction, dtype) && has_algorithm(config_.order, reduction, dtype) &&
           (config_.processes * config_.gpus > 1 ||
            writes_single_rank(reduction, session_->api().version));
  }
  std::string open_window(int64_t bytes) override;
  bool has_window() const override { return window_ != nullptr; }
  void start(std::span<const Exchange> exchanges) override;
  bool launched() override;
  void launch(std::span<const Exchange> exchanges) override;
  void repeat(bool on) override { repeats_ = on; }
  bool done() override;
  bool can_complete() override;
  std::optional<DeviceSpan> span() const override { return span_; }
  std::optional<double> estimate(std::span<const Exchange> parts) override;

 private:
  std::optional<double> simulate(std::span<const Exchange> parts);
  ProcessGpu& gpu(int endpoint) {
    return gpus_.at(static_cast<size_t>(endpoint - first_endpoint()));
  }
  void synchronize();
  bool take(std::span<const Exchange> exchanges);
  bool await_launch();
  NcclComm blocking_communicator(const Exchange& exchange);
  void add(const Exchange& exchange);
  void stage(StartedExchange& it);
  int issue(const StartedExchange& it);
  int issue_all();
  void mark_begins();
  void mark_ends();
  void time_it();
  bool note_state(NcclSession::State state);
  void finish();
  void forget_events();

  NcclHardware machine_;
  NcclRankConfig config_;
  std::vector<ProcessGpu> gpus_;
  std::function<void(const std::string&)> report_loss_;
  std::mutex opening_;  // guards session_ against an abort by another thread
  std::unique_ptr<NcclSession> session_;

  std::unique_ptr<PutWindow> window_;  // must end before the session

  std::vector<StartedExchange> under_way_;  // the group that was started last
  std::vector<NcclComm> comms_;             // communicators of that group, each once
  struct Mark {
    ProcessGpu* gpu = nullptr;
    int64_t event = 0;
  };
  std::vector<Mark> begun_;  // for each GPU, in the stream of its first exchange
  std::vector<Mark> ended_;  // for each exchange; empty: not launched
  bool lost_ = false;
  bool repeats_ = false;         // repeat() is on
  Clock::time_point next_look_;  // next poll of all communicators
  std::optional<DeviceSpan> span_;
  std::map<std::string, std::optional<double>> estimates_;
};

std::string NcclTransport::invitation() {
  if (config_.process != 0) return {};
  const NcclApi api = machine_.open_nccl();
  NcclId id{};
  if (const int code = api.get_unique_id(&id); code != nccl::kSuccess)
    throw Error(ErrorKind::unsupported,
                fmt::format("{} cannot make an id: {}", nccl_name(api), api.error_text(code)));
  return {id.bytes, sizeof(id.bytes)};
}

void NcclTransport::join(std::string_view invitation) {
  NcclId id{};
  if (invitation.size() != sizeof(id.bytes))
    throw Error(ErrorKind::io, fmt::format("an NCCL id has {} bytes, received {}", sizeof(id.bytes),
                                           invitation.size()));
  std::memcpy(id.bytes, invitation.data(), sizeof(id.bytes));
  for (int i = 0; i < config_.gpus; ++i) {
    ProcessGpu& own = gpus_.emplace_back();
    own.device = machine_.open_device(i);
    own.scratch = StagingMemory(own.device, kScratchBytes);
    own.device->start_clock();  // synchronizes, so any stream may use the memory
  }
  const NcclRanks ranks{first_endpoint(), config_.gpus, config_.processes * config_.gpus};
  auto session = std::make_unique<NcclSession>(machine_.open_nccl(), id, ranks,
                                               [this](int rank) { gpu(rank).device->select(); });
  session->when_lost([this](const std::string& words) {
    if (report_loss_) report_loss_(words);
  });
  const std::lock_guard<std::mutex> lock(opening_);
  session_ = std::move(session);
}

void NcclTransport::abort() noexcept {
  const std::lock_guard<std::mutex> lock(opening_);
  if (session_ != nullptr) session_->abort();
}

// Copies contents of the host to the device.
void NcclTransport::stage(StartedExchange& it) {
  Exchange& e = it.exchange;
  const ElementCounts sides = element_counts(e, it.place.self);
  const int64_t size = size_of(e.dtype);
  const std::shared_ptr<Device>& device = it.gpu->device;
  it.sent = StagingMemory(device, sides.sent * size);
  it.received = StagingMemory(device, sides.received * size);
  // A broadcast's root has its contents in `recv`, which is read only.
  const bool broadcast = e.kind == CollectiveKind::broadcast;
  const bool reads_only = broadcast && it.place.self == static_cast<size_t>(e.root);
  it.host = reads_only ? nullptr : e.recv;
  const std::byte* const from = broadcast ? e.recv : e.send;
  if (it.sent.bytes() != 0) device->to_device(it.sent.start(), from, it.sent.bytes());
  e.send = it.sent.start();
  e.recv = it.received.start();
}

size_t index_in(const std::vector<int>& team, int self) {
  const auto own = std::find(team.begin(), team.end(), self);
  SP_CHECK(own != team.end(), "endpoint {} is not of the team", self);
  return static_cast<size_t>(own - team.begin());
}

void NcclTransport::add(const Exchange& exchange) {
  StartedExchange& it = under_way_.emplace_back();
  it.exchange = exchange;
  it.gpu = &gpu(exchange.self);
  it.gpu->device->use(exchange.stream);
  it.place.self = index_in(exchange.team, exchange.self);
  if (exchange.kind == CollectiveKind::barrier)
    it.exchange.recv = it.gpu->scratch.start();
  else if (exchange.side == Side::host)
    stage(it);
  it.place.comm = is_one_sided(exchange) ? window_->comm()
                  : repeats_             ? blocking_communicator(exchange)
                                         : comm_of(*session_, exchange);
  if (std::find(comms_.begin(), comms_.end(), it.place.comm) == comms_.end())
    comms_.push_back(it.place.comm);
}

// Prepares exchanges to be issued, as the group that is under way. Returns false if a process is
// lost.
bool NcclTransport::take(std::span<const Exchange> exchanges) {
  SP_CHECK(under_way_.empty() || !ended_.empty(),
           "an exchange is started while another is being launched");
  forget_events();
  under_way_.clear();
  comms_.clear();
  // A team that was to be formed when a peer was lost has no communicator.
  if (session_->is_aborted()) {
    note_state(NcclSession::State::lost);
    return false;
  }
  for (const Exchange& exchange : exchanges) add(exchange);
  if (!session_->is_aborted()) return true;
  under_way_.clear();
  note_state(NcclSession::State::lost);
  return false;
}

void NcclTransport::start(std::span<const Exchange> exchanges) {
  const StreamsBefore streams(gpus_);
  if (!take(exchanges)) return;
  mark_begins();
  if (note_state(session_->poll_communicators(comms_, issue_all()))) mark_ends();
}

void NcclTransport::launch(std::span<const Exchange> exchanges) {
  const StreamsBefore streams(gpus_);
  if (!take(exchanges)) return;
  const int code = issue_all();
  if (code != nccl::kSuccess && !note_state(session_->poll_communicators(comms_, code)))
    await_launch();
  under_way_.clear();
}

NcclComm NcclTransport::blocking_communicator(const Exchange& exchange) {
  std::vector<int> team = exchange.team;
  if (is_message(exchange)) {
    team.resize(static_cast<size_t>(processes() * endpoints_each()));
    std::iota(team.begin(), team.end(), 0);
  }
  if (!session_->has_blocking_communicators(team)) synchronize();
  const std::vector<NcclComm> comms = session_->make_blocking_communicators(team);
  if (comms.empty()) return comm_of(*session_, exchange);  // a peer is lost
  const auto here = [this](int endpoint) {
    return endpoint >= first_endpoint() && endpoint < first_endpoint() + endpoints_each();
  };
  const auto before = std::find(team.begin(), team.end(), exchange.self);
  return comms.at(static_cast<size_t>(std::count_if(team.begin(), before, here)));
}

// A communicator takes the next call when the one before is launched. Returns false if a process is
// lost.
bool NcclTransport::await_launch() {
  while (!lost_ && !note_state(session_->poll_communicators(comms_, nccl::kSuccess)))
    ::sched_yield();
  return !lost_;
}

void NcclTransport::mark_begins() {
  for (const StartedExchange& it : under_way_) {
    const auto same = [&it](const Mark& mark) { return mark.gpu == it.gpu; };
    if (std::any_of(begun_.begin(), begun_.end(), same)) continue;
    it.gpu->device->use(it.exchange.stream);
    begun_.push_back({it.gpu, it.gpu->device->record()});
  }
}

// All puts use one window, so they run in one stream.
int NcclTransport::issue(const StartedExchange& it) {
  it.gpu->device->select();
  if (!is_one_sided(it.exchange)) return issue_exchange(session_->api(), it.exchange, it.place);
  it.gpu->device->use(kWindowStream);
  it.gpu->device->follow({&it.exchange.stream, 1});
  return window_->issue(it.exchange);
}

// The exchanges of a group may be in several streams. NCCL starts them when all these streams have
// reached them, and blocks the streams until the exchanges have ended. It spreads grouped
// collectives over its channels one by one, so that equal ones can add in different orders.
int NcclTransport::issue_all() {
  bool grouped = false;
  for (StartedExchange& it : under_way_) {
    it.gpu->device->use(it.exchange.stream);
    it.place.stream = it.gpu->device->native_stream();
    grouped = grouped || !it.exchange.alone;
  }
  if (under_way_.size() == 1) return issue(under_way_.front());
  std::optional<NcclGroup> group;
  if (grouped || gpus_.size() > 1) group.emplace(session_->api());
  int code = nccl::kSuccess;
  for (const StartedExchange& it : under_way_) {
    if (!group && code == nccl::kInProgress && !await_launch()) return code;
    const int next = issue(it);
    if (code == nccl::kSuccess || code == nccl::kInProgress) code = next;
  }
  if (!group) return code;
  const int end = group->end();
  return code == nccl::kSuccess || code == nccl::kInProgress ? end : code;
}

bool NcclTransport::note_state(NcclSession::State state) {
  lost_ = lost_ || state == NcclSession::State::lost;
  return state == NcclSession::State::ready;
}

// Polls all communicators, at most once a millisecond.
bool NcclTransport::can_complete() {
  const Clock::time_point now = Clock::now();
  if (lost_ || now < next_look_) return !lost_;
  next_look_ = now + kSessionPollInterval;
  note_state(session_->poll_all_communicators());
  return !lost_;
}

void NcclTransport::mark_ends() {
  const StreamsBefore streams(gpus_);
  const int window[] = {kWindowStream};
  for (const StartedExchange& it : under_way_) {
    Device& device = *it.gpu->device;
    if (is_one_sided(it.exchange)) {
      device.use(kWindowStream);
      window_->copy_out(it.exchange);
    }
    device.use(it.exchange.stream);
    if (is_one_sided(it.exchange)) device.follow(window);
    ended_.push_back({it.gpu, device.record()});
  }
}

bool NcclTransport::launched() {
  if (!ended_.empty()) return true;
  if (lost_ || !note_state(session_->poll_communicators(comms_, nccl::kSuccess))) {
    ::sched_yield();
    return false;
  }
  mark_ends();
  return true;
}

bool NcclTransport::done() {
  const auto event_completed = [](const Mark& mark) {
    return mark.gpu->device->event_completed(mark.event);
  };
  if (!launched()) return false;
  if (lost_ || !note_state(session_->poll_communicators(comms_, nccl::kSuccess)) ||
      !std::all_of(ended_.begin(), ended_.end(), event_completed)) {
    ::sched_yield();
    return false;
  }
  finish();
  return true;
}

// Takes the first exchange of each GPU.
void NcclTransport::time_it() {
  span_.reset();
  for (const Mark& begun : begun_) {
    const auto end = std::find_if(ended_.begin(), ended_.end(),
                                  [&begun](const Mark& mark) { return mark.gpu == begun.gpu; });
    const DeviceSpan own = begun.gpu->device->between(begun.event, end->event);
    if (!span_ || own.time > span_->time) span_ = own;
  }
}

void NcclTransport::finish() {
  const StreamsBefore streams(gpus_);
  time_it();
  for (const StartedExchange& it : under_way_)
    if (it.host != nullptr && it.received.bytes() != 0) {
      it.gpu->device->use(it.exchange.stream);
      it.gpu->device->to_host(it.host, it.received.start(), it.received.bytes());
    }
  under_way_.clear();
}

void NcclTransport::forget_events() {
  for (const std::vector<Mark>* marks : {&begun_, &ended_})
    for (const Mark& mark : *marks) mark.gpu->device->forget(mark.event);
  begun_.clear();
  ended_.clear();
}

// Returns memory before NCCL allocates: NCCL cannot use memory that the pools keep.
void NcclTransport::synchronize() {
  for (const ProcessGpu& own : gpus_) own.device->trim_memory_pool();
}

// Requires that no exchange is in progress: a communicator is split only then.
void NcclTransport::form(const std::vector<std::vector<int>>& teams) {
  synchronize();
  session_->form(teams);
}

// Computes one prediction for each set of values that NCCL's prediction depends on.
std::optional<double> NcclTransport::estimate(std::span<const Exchange> parts) {
  const Exchange& e = parts.front();
  const std::string key =
      fmt::format("{} {} {} {} {} {}", name(e.kind), to_string(e.reduction), name(e.dtype), e.count,
                  fmt::join(e.team, ","), fmt::join(e.recv_counts, ","));
  const auto [known, first] = estimates_.try_emplace(key);
  if (first) known->second = simulate(parts);
  return known->second;
}

std::string NcclTransport::open_window(int64_t bytes) {
  if (gpus_.size() > 1) return "puts by ncclSend and ncclRecv (a process has several GPUs)";
  synchronize();
  const StreamsBefore streams(gpus_);
  const std::shared_ptr<Device>& device = gpus_.front().device;
  device->use(kWindowStream);
  auto window = std::make_unique<PutWindow>(*session_, device, bytes);
  const std::string& error = window->error();
  if (!error.empty()) return "puts by ncclSend and ncclRecv (" + error + ")";
  window_ = std::move(window);
  return "puts by ncclPutSignal";
}

// For a group NCCL predicts the time of its last call, on any of its communicators.
std::optional<double> NcclTransport::simulate(std::span<const Exchange> parts) {
  const NcclApi& api = session_->api();
  const std::vector<int>& team = parts.front().team;
  if (api.group_simulate_end == nullptr || !is_one_collective(parts.front())) return std::nullopt;
  if (!session_->has_blocking_communicators(team)) synchronize();
  const std::vector<NcclComm> comms = session_->make_blocking_communicators(team);
  if (comms.empty()) return std::nullopt;
  SP_CHECK(comms.size() == parts.size(), "{} of {} parts are simulated", parts.size(),
           comms.size());
  NcclSimulation simulation;
  int code = nccl::kSuccess;
  NcclGroup group(api, [&] { return api.group_simulate_end(&simulation); });
  for (size_t i = 0; i < parts.size() && code == nccl::kSuccess; ++i) {
    NcclStream const stream = gpu(parts[i].self).device->native_stream();
    code = issue_exchange(api, parts[i], {comms[i], stream, index_in(team, parts[i].self)});
  }
  const int end = group.end();
  if (code != nccl::kSuccess || end != nccl::kSuccess || simulation.microseconds < 0)
    return std::nullopt;
  return simulation.microseconds;
}

}  // namespace

std::unique_ptr<Transport> nccl_transport(const NcclHardware& machine,
                                          const NcclRankConfig& rank_config) {
  return std::make_unique<NcclTransport>(machine, rank_config);
}

}  // namespace shardproof
