#include <sched.h>

#include <algorithm>
#include <cstring>

#include "shardproof/backends/nccl/detail/nccl_calls.h"
#include "shardproof/backends/nccl/detail/nccl_types.h"
#include "shardproof/backends/nccl/nccl_transport.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

constexpr int kExchangeStream = -1;  // of the device: programs count theirs from 0
constexpr int64_t kScratchBytes = 256;

int64_t total(const std::vector<int64_t>& counts) {
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  return sum;
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

// Device memory for as long as an exchange needs it.
class Room {
 public:
  Room() = default;
  Room(std::shared_ptr<Device> device, int64_t bytes) : device_(std::move(device)), bytes_(bytes) {
    if (bytes_ != 0) start_ = device_->allocate(bytes_);
  }
  Room(Room&& other) noexcept { *this = std::move(other); }
  Room& operator=(Room&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(start_, other.start_);
    return *this;
  }
  ~Room() {
    if (start_ != nullptr) device_->release(start_, bytes_);
  }
  std::byte* start() const { return start_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  int64_t bytes_ = 0;
  std::byte* start_ = nullptr;
};

class Exchanges : public NcclTransport {
 public:
  Exchanges(const NcclMachine& machine, const NcclSeat& seat) : machine_(machine), seat_(seat) {}
  int processes() const override { return seat_.processes; }
  int self() const override { return seat_.process; }

  std::string invitation() override;
  void join(std::string_view invitation) override;
  void form(const std::vector<std::vector<int>>& teams) override { session_->form(teams); }
  void abort() noexcept override;
  std::shared_ptr<DeviceMemory> memory() override { return device_; }
  bool reduces_by(const Reduction& reduction, DType dtype) const override {
    return nccl_reduces(reduction, dtype);
  }
  void start(const Exchange& exchange) override;
  bool done() override;

  std::optional<ExchangeTime> last_time() const override { return time_; }
  std::optional<double> estimate(const Exchange& exchange) override;

 private:
  void stage();
  void launched();
  bool look(int code);
  void finish();

  NcclMachine machine_;
  NcclSeat seat_;
  std::shared_ptr<Device> device_;
  std::mutex opening_;  // of the session, which another thread may abort
  std::unique_ptr<NcclSession> session_;

  Exchange current_;
  size_t team_index_ = 0;
  std::byte* host_ = nullptr;  // where the answer goes when it is staged
  Room sent_, received_, scratch_;
  NcclComm comm_ = nullptr;
  int64_t begun_ = 0, ended_ = 0;  // events; 0: not yet
  bool lost_ = false;
  std::optional<ExchangeTime> time_;
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
void Exchanges::stage() {
  const Sides sides = sides_of(current_, team_index_);
  const int64_t size = size_of(current_.dtype);
  sent_ = Room(device_, sides.sent * size);
  received_ = Room(device_, sides.received * size);
  host_ = current_.recv;
  // A broadcast's root finds its contents where the others get them.
  const std::byte* const from =
      current_.kind == CollectiveKind::broadcast ? current_.recv : current_.send;
  if (sent_.bytes() != 0) device_->to_device(sent_.start(), from, sent_.bytes());
  current_.send = sent_.start();
  current_.recv = received_.start();
}

void Exchanges::start(const Exchange& exchange) {
  SP_CHECK(begun_ == 0, "an exchange is started while another is under way");
  current_ = exchange;
  const auto own = std::find(current_.team.begin(), current_.team.end(), seat_.process);
  SP_CHECK(own != current_.team.end(), "process {} is not of the team", seat_.process);
  team_index_ = static_cast<size_t>(own - current_.team.begin());
  host_ = nullptr;
  if (current_.kind == CollectiveKind::barrier)
    current_.recv = scratch_.start();
  else if (current_.side == Side::host)
    stage();
  comm_ = comm_of(*session_, current_);
  // After everything that was asked of the device before.
  const int before = device_->current();
  const int64_t earlier = device_->record();
  device_->use(kExchangeStream);
  device_->wait(earlier);
  begun_ = device_->record();
  device_->forget(earlier);
  const int code = issue_exchange(*session_, current_, team_index_, device_->native_stream());
  if (look(code)) launched();
  device_->use(before);
}

bool Exchanges::look(int code) {
  const NcclSession::State state = session_->look_at(comm_, code);
  if (state == NcclSession::State::lost && !lost_) {
    // Who lost it is told by the coordinator; this is for whoever reads what processes print.
    fmt::print(stderr, "process {}: {}\n", seat_.process, session_->trouble());
    lost_ = true;
  }
  return state == NcclSession::State::ready;
}

void Exchanges::launched() {
  const int before = device_->current();
  device_->use(kExchangeStream);
  ended_ = device_->record();
  device_->use(before);
}

bool Exchanges::done() {
  if (lost_ || !look(nccl::kSuccess)) {
    ::sched_yield();
    return false;
  }
  if (ended_ == 0) launched();
  if (!device_->reached(ended_)) {
    ::sched_yield();
    return false;
  }
  finish();
  return true;
}

void Exchanges::finish() {
  const Sides sides = sides_of(current_, team_index_);
  time_ = ExchangeTime{current_.kind, static_cast<int>(current_.team.size()),
                       std::max(sides.sent, sides.received) * size_of(current_.dtype),
                       device_->microseconds_between(begun_, ended_)};
  if (host_ != nullptr && received_.bytes() != 0)
    device_->to_host(host_, received_.start(), received_.bytes());
  sent_ = Room();
  received_ = Room();
  device_->forget(begun_);
  device_->forget(ended_);
  begun_ = ended_ = 0;
}

std::optional<double> Exchanges::estimate(const Exchange& exchange) {
  const NcclApi& api = session_->api();
  if (api.group_simulate_end == nullptr) return std::nullopt;
  const auto own = std::find(exchange.team.begin(), exchange.team.end(), seat_.process);
  NcclSimulation simulation;
  api.group_start();
  const int code =
      issue_exchange(*session_, exchange, static_cast<size_t>(own - exchange.team.begin()),
                     device_->native_stream());
  const int end = api.group_simulate_end(&simulation);
  if (code != nccl::kSuccess || end != nccl::kSuccess || simulation.microseconds < 0)
    return std::nullopt;
  return simulation.microseconds;
}

}  // namespace

std::unique_ptr<NcclTransport> nccl_transport(const NcclMachine& machine, const NcclSeat& seat) {
  return std::make_unique<Exchanges>(machine, seat);
}

}  // namespace shardproof
