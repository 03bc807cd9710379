#include <algorithm>
#include <chrono>
#include <thread>

#include "shardproof/backends/nccl/detail/nccl_session.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kBetweenLooks{200};
constexpr std::chrono::seconds kLastLook{5};  // for communicators to come to their end
constexpr int kSystemError = 2, kRemoteError = 6;

NcclConfig config_of(int blocking) {
  NcclConfig config;
  config.blocking = blocking;
  return config;
}
constexpr int kWaits = 1, kGoesOn = 0;

}  // namespace

std::string nccl_name(const NcclApi& api) { return "NCCL " + nccl_version_text(api.version); }

NcclSession::NcclSession(const NcclApi& api, const NcclId& id, int rank, int ranks)
    : api_(api), rank_(rank), ranks_(ranks) {
  NcclConfig config = config_of(kGoesOn);
  await(nullptr, api_.comm_init(&world_, ranks_, id, rank_, &config));
  await(world_, nccl::kInProgress);
}

// Peers that are gone must not hold this one up.
NcclSession::~NcclSession() {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (aborted_) return;
  const Clock::time_point limit = Clock::now() + kLastLook;
  const auto end = [&](NcclComm comm) {
    int state = nccl::kInProgress;
    api_.comm_finalize(comm);
    while (api_.async_error(comm, &state) == nccl::kSuccess && state == nccl::kInProgress &&
           Clock::now() < limit)
      std::this_thread::sleep_for(kBetweenLooks);
    if (state == nccl::kSuccess)
      api_.comm_destroy(comm);
    else
      api_.comm_abort(comm);
  };
  if (one_sided_ != nullptr) end(one_sided_);
  for (const auto& [processes, comm] : simulated_) end(comm);
  for (const auto& [processes, comm] : teams_) end(comm);
  if (world_ != nullptr) end(world_);
}

std::string NcclSession::words_for(int code) const {
  const std::string detail = api_.last_error(nullptr) == nullptr ? "" : api_.last_error(nullptr);
  return fmt::format("{} says: {}{}{}", nccl_name(api_), api_.error_text(code),
                     detail.empty() ? "" : ": ", detail);
}

int NcclSession::state_of(NcclComm comm) const {
  int state = nccl::kSuccess;
  const int code = api_.async_error(comm, &state);
  return code == nccl::kSuccess ? state : code;
}

// Until a communicator is ready.
void NcclSession::await(NcclComm comm, int code) {
  while (code == nccl::kInProgress && comm != nullptr) {
    code = state_of(comm);
    if (code == nccl::kInProgress) std::this_thread::sleep_for(kBetweenLooks);
  }
  if (code != nccl::kSuccess && code != nccl::kInProgress)
    throw Error(ErrorKind::unsupported, words_for(code));
}

void NcclSession::form(const std::vector<std::vector<int>>& teams) {
  int color = nccl::kNoColor;
  for (size_t i = 0; i < teams.size(); ++i)
    if (std::find(teams[i].begin(), teams[i].end(), rank_) != teams[i].end())
      color = static_cast<int>(i);
  NcclConfig config = config_of(kGoesOn);
  NcclComm comm = nullptr;
  await(world_, api_.comm_split(world_, color, rank_, &comm, &config));
  if (color == nccl::kNoColor) return;
  await(comm, nccl::kInProgress);
  const std::lock_guard<std::mutex> lock(aborting_);
  teams_[teams[static_cast<size_t>(color)]] = comm;
}

NcclComm NcclSession::team(const std::vector<int>& processes) const {
  if (static_cast<int>(processes.size()) == ranks_) return world_;
  const auto found = teams_.find(processes);
  SP_CHECK(found != teams_.end(), "no communicator was formed for these {} processes",
           processes.size());
  return found->second;
}

NcclComm NcclSession::to_simulate(const std::vector<int>& processes) {
  if (const auto found = simulated_.find(processes); found != simulated_.end())
    return found->second;
  const NcclComm parent = team(processes);
  NcclConfig config = config_of(kWaits);
  NcclComm comm = nullptr;
  await(parent, api_.comm_split(parent, 0, rank_, &comm, &config));
  await(comm, nccl::kInProgress);
  const std::lock_guard<std::mutex> lock(aborting_);
  return simulated_[processes] = comm;
}

NcclComm NcclSession::to_put() {
  NcclConfig config = config_of(kGoesOn);
  NcclComm comm = nullptr;
  await(world_, api_.comm_split(world_, 0, rank_, &comm, &config));
  await(comm, nccl::kInProgress);
  const std::lock_guard<std::mutex> lock(aborting_);
  return one_sided_ = comm;
}

void NcclSession::give_up_putting() noexcept {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (!aborted_ && one_sided_ != nullptr) api_.comm_abort(one_sided_);
  one_sided_ = nullptr;
}

// The calls of one group are under way until those of each communicator are launched.
NcclSession::State NcclSession::look_at(const std::vector<NcclComm>& comms, int code) {
  if (aborted_) return State::lost;
  bool under_way = false;
  for (const NcclComm comm : comms) {
    if (code != nccl::kSuccess && code != nccl::kInProgress) break;
    code = state_of(comm);
    under_way = under_way || code == nccl::kInProgress;
  }
  if (code == nccl::kSuccess || code == nccl::kInProgress)
    return under_way ? State::under_way : State::ready;
  if (code != kRemoteError && code != kSystemError) throw Error(ErrorKind::io, words_for(code));
  trouble_ = words_for(code);
  abort();
  return State::lost;
}

NcclSession::State NcclSession::look_at_all() {
  std::vector<NcclComm> comms{world_};
  for (const auto& [processes, comm] : teams_) comms.push_back(comm);
  if (one_sided_ != nullptr) comms.push_back(one_sided_);
  return look_at(comms, nccl::kSuccess);
}

void NcclSession::abort() noexcept {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (aborted_.exchange(true)) return;
  if (one_sided_ != nullptr) api_.comm_abort(one_sided_);
  for (const auto& [processes, comm] : simulated_) api_.comm_abort(comm);
  for (const auto& [processes, comm] : teams_) api_.comm_abort(comm);
  if (world_ != nullptr) api_.comm_abort(world_);
}

}  // namespace shardproof
