#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "shardproof/backends/nccl/detail/nccl_calls.h"
#include "shardproof/backends/nccl/detail/nccl_types.h"
#include "shardproof/backends/nccl/detail/put_window.h"
#include "shardproof/backends/nccl/nccl_transport.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

constexpr int kWindowStream = -1;  // of the device: programs count theirs from 0
constexpr int64_t kScratchBytes = 256;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks{1};

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
}

bool is_one_sided(const Exchange& e) {
  return e.kind == CollectiveKind::put || e.kind == CollectiveKind::wait_signal;
}

// Elements on each side of an exchange, of process `self` of the team.
struct Sides {
  int64_t sent = 0, received = 0;
};
Sides sides_of(const Exchange& e, size_t self) {
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
    case CollectiveKind::all_to_all_v: return {total(e.send_counts), total(e.recv_counts)};
    default: return {};
  }
}

// Device memory for as long as an exchange needs it, of the stream that is the current one when it
// is taken.
class Room {
 public:
  Room() = default;
  Room(std::shared_ptr<Device> device, int64_t bytes)
      : device_(std::move(device)), bytes_(bytes), stream_(device_->current()) {
    if (bytes_ != 0) start_ = device_->allocate(bytes_);
  }
  Room(Room&& other) noexcept { *this = std::move(other); }
  Room& operator=(Room&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(stream_, other.stream_);
    std::swap(start_, other.start_);
    return *this;
  }
  ~Room() {
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

// One exchange between its start and its end.
struct UnderWay {
  Exchange exchange;
  NcclPlace place;
  std::byte* host = nullptr;  // where the answer goes when it is staged
  Room sent, received;
};

class Exchanges : public Transport {
 public:
  Exchanges(const NcclMachine& machine, const NcclSeat& seat) : machine_(machine), seat_(seat) {}
  int processes() const override { return seat_.processes; }
  int self() const override { return seat_.process; }

  std::string invitation() override;
  void join(std::string_view invitation) override;
  void form(const std::vector<std::vector<int>>& teams) override;
  void abort() noexcept override;
  std::shared_ptr<DeviceMemory> memory() override { return device_; }
  bool reduces_by(const Reduction& reduction, DType dtype) const override {
    return nccl_reduces(reduction, dtype);
  }
  std::string open_window(int64_t bytes) override;
  bool has_window() const override { return window_ != nullptr; }
  void start(std::span<const Exchange> exchanges) override;
  bool launched() override;
  bool done() override;
  bool goes_on() override;
  std::optional<DeviceSpan> span() const override { return span_; }
  std::optional<double> estimate(const Exchange& exchange) override;

 private:
  std::optional<double> simulate(const Exchange& exchange);
  size_t index_in(const std::vector<int>& team) const;
  void add(const Exchange& exchange);
  void stage(UnderWay& it);
  int issue(const UnderWay& it);
  int issue_all();
  void mark_ends();
  bool heed(NcclSession::State state);
  void finish();
  void forget_events();

  NcclMachine machine_;
  NcclSeat seat_;
  std::shared_ptr<Device> device_;
  std::mutex opening_;  // of the session, which another thread may abort
  std::unique_ptr<NcclSession> session_;

  std::unique_ptr<PutWindow> window_;  // before the session goes, its own

  std::vector<UnderWay> under_way_;  // the group that was started last
  std::vector<NcclComm> comms_;      // its own, each once
  Room scratch_;
  int64_t begun_ = 0;           // event in the first one's stream; 0: not yet
  std::vector<int64_t> ended_;  // one in the stream of each; none: not launched
  bool lost_ = false;
  Clock::time_point next_look_;  // at all communicators
  std::optional<DeviceSpan> span_;
  std::map<std::string, std::optional<double>> estimates_;
};

std::string Exchanges::invitation() {
  if (seat_.process != 0) return {};
  const NcclApi api = machine_.open_nccl();
  NcclId id{};
  if (const int code = api.get_unique_id(&id); code != nccl::kSuccess)
    throw Error(ErrorKind::unsupported,
                fmt::format("{} gives no id: {}", nccl_name(api), api.error_text(code)));
  return {id.bytes, sizeof(id.bytes)};
}

void Exchanges::join(std::string_view invitation) {
  NcclId id{};
  if (invitation.size() != sizeof(id.bytes))
    throw Error(ErrorKind::io, fmt::format("an NCCL id has {} bytes, {} came", sizeof(id.bytes),
                                           invitation.size()));
  std::memcpy(id.bytes, invitation.data(), sizeof(id.bytes));
  device_ = machine_.open_device();
  device_->start_clock();
  scratch_ = Room(device_, kScratchBytes);
  auto session =
      std::make_unique<NcclSession>(machine_.open_nccl(), id, seat_.process, seat_.processes);
  const std::lock_guard<std::mutex> lock(opening_);
  session_ = std::move(session);
}

void Exchanges::abort() noexcept {
  const std::lock_guard<std::mutex> lock(opening_);
  if (session_ != nullptr) session_->abort();
}

// Host contents go through the device.
void Exchanges::stage(UnderWay& it) {
  Exchange& e = it.exchange;
  const Sides sides = sides_of(e, it.place.self);
  const int64_t size = size_of(e.dtype);
  it.sent = Room(device_, sides.sent * size);
  it.received = Room(device_, sides.received * size);
  it.host = e.recv;
  // A broadcast's root finds its contents where the others get them.
  const std::byte* const from = e.kind == CollectiveKind::broadcast ? e.recv : e.send;
  if (it.sent.bytes() != 0) device_->to_device(it.sent.start(), from, it.sent.bytes());
  e.send = it.sent.start();
  e.recv = it.received.start();
}

size_t Exchanges::index_in(const std::vector<int>& team) const {
  const auto own = std::find(team.begin(), team.end(), seat_.process);
  SP_CHECK(own != team.end(), "process {} is not of the team", seat_.process);
  return static_cast<size_t>(own - team.begin());
}

void Exchanges::add(const Exchange& exchange) {
  UnderWay& it = under_way_.emplace_back();
  it.exchange = exchange;
  it.place.self = index_in(exchange.team);
  if (exchange.kind == CollectiveKind::barrier)
    it.exchange.recv = scratch_.start();
  else if (exchange.side == Side::host)
    stage(it);
  it.place.comm = is_one_sided(exchange) ? window_->comm() : comm_of(*session_, exchange);
  if (std::find(comms_.begin(), comms_.end(), it.place.comm) == comms_.end())
    comms_.push_back(it.place.comm);
}

void Exchanges::start(std::span<const Exchange> exchanges) {
  SP_CHECK(under_way_.empty() || !ended_.empty(),
           "an exchange is started while another is being launched");
  forget_events();
  under_way_.clear();
  comms_.clear();
  const int before = device_->current();
  for (const Exchange& exchange : exchanges) {
    device_->use(exchange.stream);
    add(exchange);
  }
  device_->use(exchanges.front().stream);
  begun_ = device_->record();
  if (heed(session_->look_at(comms_, issue_all()))) mark_ends();
  device_->use(before);
}

// What is put goes through one window, which streams have in turn.
int Exchanges::issue(const UnderWay& it) {
  if (!is_one_sided(it.exchange)) return issue_exchange(session_->api(), it.exchange, it.place);
  device_->use(kWindowStream);
  device_->follow({&it.exchange.stream, 1});
  return window_->issue(it.exchange);
}

// Calls of one group may be in several streams: NCCL starts them when all of these have come to
// them, and holds all of them until they have ended.
int Exchanges::issue_all() {
  const NcclApi& api = session_->api();
  for (UnderWay& it : under_way_) {
    device_->use(it.exchange.stream);
    it.place.stream = device_->native_stream();
  }
  if (under_way_.size() == 1) return issue(under_way_.front());
  int code = api.group_start();
  for (const UnderWay& it : under_way_) {
    const int said = issue(it);
    if (code == nccl::kSuccess || code == nccl::kInProgress) code = said;
  }
  const int end = api.group_end();
  return code == nccl::kSuccess || code == nccl::kInProgress ? end : code;
}

bool Exchanges::heed(NcclSession::State state) {
  if (state == NcclSession::State::lost && !lost_) {
    // Who lost it is told by the coordinator; this is for whoever reads what processes print.
    fmt::print(stderr, "process {}: {}\n", seat_.process, session_->trouble());
    lost_ = true;
  }
  return state == NcclSession::State::ready;
}

// Asked between any two looks at the device, and of every communicator there is.
bool Exchanges::goes_on() {
  const Clock::time_point now = Clock::now();
  if (lost_ || now < next_look_) return !lost_;
  next_look_ = now + kBetweenLooks;
  heed(session_->look_at_all());
  return !lost_;
}

void Exchanges::mark_ends() {
  const int before = device_->current();
  const int window[] = {kWindowStream};
  for (const UnderWay& it : under_way_) {
    if (is_one_sided(it.exchange)) {
      device_->use(kWindowStream);
      window_->take_out(it.exchange);
    }
    device_->use(it.exchange.stream);
    if (is_one_sided(it.exchange)) device_->follow(window);
    ended_.push_back(device_->record());
  }
  device_->use(before);
}

bool Exchanges::launched() {
  if (!ended_.empty()) return true;
  if (lost_ || !heed(session_->look_at(comms_, nccl::kSuccess))) {
    ::sched_yield();
    return false;
  }
  mark_ends();
  return true;
}

bool Exchanges::done() {
  const auto reached = [this](int64_t event) { return device_->reached(event); };
  if (!launched()) return false;
  if (lost_ || !heed(session_->look_at(comms_, nccl::kSuccess)) ||
      !std::all_of(ended_.begin(), ended_.end(), reached)) {
    ::sched_yield();
    return false;
  }
  finish();
  return true;
}

void Exchanges::finish() {
  const int before = device_->current();
  span_ = device_->between(begun_, ended_.front());
  for (const UnderWay& it : under_way_)
    if (it.host != nullptr && it.received.bytes() != 0) {
      device_->use(it.exchange.stream);
      device_->to_host(it.host, it.received.start(), it.received.bytes());
    }
  device_->use(before);
  under_way_.clear();
}

void Exchanges::forget_events() {
  if (begun_ != 0) device_->forget(begun_);
  for (const int64_t event : ended_) device_->forget(event);
  begun_ = 0;
  ended_.clear();
}

// A communicator is split while nothing is under way on it.
void Exchanges::form(const std::vector<std::vector<int>>& teams) {
  device_->synchronize();
  session_->form(teams);
}

// What differs in nothing that NCCL looks at is asked for once.
std::optional<double> Exchanges::estimate(const Exchange& e) {
  const std::string key =
      fmt::format("{} {} {} {} {} {}", name(e.kind), to_string(e.reduction), name(e.dtype), e.count,
                  fmt::join(e.team, ","), fmt::join(e.recv_counts, ","));
  const auto [known, first] = estimates_.try_emplace(key);
  if (first) known->second = simulate(e);
  return known->second;
}

std::string Exchanges::open_window(int64_t bytes) {
  device_->synchronize();
  const int before = device_->current();
  device_->use(kWindowStream);
  auto window = std::make_unique<PutWindow>(*session_, device_, bytes);
  device_->use(before);
  const std::string& trouble = window->trouble();
  if (!trouble.empty()) return "puts by ncclSend and ncclRecv (" + trouble + ")";
  window_ = std::move(window);
  return "puts by ncclPutSignal";
}

std::optional<double> Exchanges::simulate(const Exchange& exchange) {
  const NcclApi& api = session_->api();
  if (api.group_simulate_end == nullptr || !is_one_collective(exchange)) return std::nullopt;
  device_->synchronize();
  const NcclPlace place{session_->to_simulate(exchange.team), device_->native_stream(),
                        index_in(exchange.team)};
  NcclSimulation simulation;
  api.group_start();
  const int code = issue_exchange(api, exchange, place);
  const int end = api.group_simulate_end(&simulation);
  if (code != nccl::kSuccess || end != nccl::kSuccess || simulation.microseconds < 0)
    return std::nullopt;
  return simulation.microseconds;
}

}  // namespace

std::unique_ptr<Transport> nccl_transport(const NcclMachine& machine, const NcclSeat& seat) {
  return std::make_unique<Exchanges>(machine, seat);
}

}  // namespace shardproof
