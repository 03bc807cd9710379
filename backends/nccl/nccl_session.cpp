// Implements nccl_session.h. All communicators are non-blocking: after each call they are polled
// until NCCL is ready (handle_init_result). An error that is not the caller's counts as a lost
// peer: all communicators are then aborted together.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "shardproof/backends/nccl/nccl_group.h"
#include "shardproof/backends/nccl/nccl_session.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr std::chrono::microseconds kPollInterval{200};
constexpr std::chrono::seconds kFinalizeTimeout{5};  // for communicators to finish at the end
constexpr int kGroupAbortVersion = 22200;            // oldest version that aborts in a group

NcclConfig config_of(int blocking) {
  NcclConfig config;
  config.blocking = blocking;
  return config;
}
constexpr int kBlocking = 1, kNonBlocking = 0;

// True for errors of the caller. All others count as a lost peer: NCCL reports one as a remote, a
// system or an internal error, depending on where it notices.
bool is_refusal(int code) { return code == nccl::kInvalidArgument || code == nccl::kInvalidUsage; }

}  // namespace

std::string nccl_name(const NcclApi& api) { return "NCCL " + nccl_version_text(api.version); }

// Calls `call` for each of these ranks, in one group if there are several.
template <typename Call>
int NcclSession::call_each(const std::vector<int>& ranks, Call call) {
  std::optional<NcclGroup> group;
  if (ranks.size() > 1) group.emplace(api_);
  int code = nccl::kSuccess;
  for (size_t i = 0; i < ranks.size(); ++i) {
    select(ranks[i]);
    const int next = call(i);
    if (code == nccl::kSuccess || code == nccl::kInProgress) code = next;
  }
  const int end = group ? group->end() : code;
  return code == nccl::kSuccess || code == nccl::kInProgress ? end : code;
}

std::vector<int> NcclSession::local_ranks() const {
  std::vector<int> here;
  for (int i = 0; i < ranks_.here; ++i) here.push_back(ranks_.first + i);
  return here;
}

NcclSession::NcclSession(const NcclApi& api, const NcclId& id, NcclRanks ranks, Select select)
    : api_(api),
      ranks_(ranks),
      select_(std::move(select)),
      worlds_(static_cast<size_t>(ranks.here), nullptr) {
  NcclConfig config = config_of(kNonBlocking);
  await(nullptr, call_each(local_ranks(), [&](size_t i) {
          return api_.comm_init(&worlds_[i], ranks_.all, id, ranks_.first + static_cast<int>(i),
                                &config);
        }));
  for (const NcclComm world : worlds_) await(world, nccl::kInProgress);
}

// Returns the communicators in the order in which they must end: a communicator before the parent
// from which it was split. The communicators of one entry end together.
std::vector<std::vector<NcclComm>> NcclSession::in_end_order() const {
  std::vector<std::vector<NcclComm>> all;
  if (one_sided_ != nullptr) all.push_back({one_sided_});
  for (const auto& [team, comms] : blocking_) all.push_back(comms);
  std::vector<NcclComm> teams;
  for (const auto& [team, comm] : teams_) teams.push_back(comm);
  if (ranks_.here > 1) all.push_back(std::move(teams));
  if (ranks_.here == 1)
    for (const NcclComm comm : teams) all.push_back({comm});
  all.push_back(worlds_);
  return all;
}

bool NcclSession::end(const std::vector<NcclComm>& comms, Clock::time_point limit) const {
  const bool grouped = comms.size() > 1;
  if (grouped) api_.group_start();
  for (const NcclComm comm : comms) api_.comm_finalize(comm);
  if (grouped) api_.group_end();
  for (const NcclComm comm : comms) {
    int state = nccl::kInProgress;
    while (api_.async_error(comm, &state) == nccl::kSuccess && state == nccl::kInProgress &&
           Clock::now() < limit)
      std::this_thread::sleep_for(kPollInterval);
    if (state != nccl::kSuccess) return false;
  }
  for (const NcclComm comm : comms) api_.comm_destroy(comm);
  return true;
}

// Waits a limited time: a lost peer must not delay the end of this process.
NcclSession::~NcclSession() {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (aborted_) return;
  const Clock::time_point limit = Clock::now() + kFinalizeTimeout;
  std::vector<std::vector<NcclComm>> left = in_end_order();
  while (!left.empty() && end(left.front(), limit)) left.erase(left.begin());
  abort_together(left);
}

std::string NcclSession::error_text(int code) const {
  const std::string detail = api_.last_error(nullptr) == nullptr ? "" : api_.last_error(nullptr);
  return fmt::format("{} reports: {}{}{}", nccl_name(api_), api_.error_text(code),
                     detail.empty() ? "" : ": ", detail);
}

int NcclSession::state_of(NcclComm comm) const {
  int state = nccl::kSuccess;
  const int code = api_.async_error(comm, &state);
  return code == nccl::kSuccess ? state : code;
}

// Waits for a new communicator.
void NcclSession::await(NcclComm comm, int code) {
  while (code == nccl::kInProgress && comm != nullptr) {
    code = state_of(comm);
    if (code == nccl::kInProgress) std::this_thread::sleep_for(kPollInterval);
  }
  if (code != nccl::kSuccess && code != nccl::kInProgress)
    throw Error(ErrorKind::unsupported, error_text(code));
}

// A communicator itself reports when it is ready: ncclCommSplit returns success at once, and the
// new one is valid when the old one is ready. Returns false if a peer is lost.
bool NcclSession::handle_init_result(NcclComm comm, int code) {
  for (;; code = nccl::kSuccess) {
    const State state = poll_communicators({comm}, code);
    if (state != State::under_way) return state == State::ready;
    std::this_thread::sleep_for(kPollInterval);
  }
}

// NCCL's threads write the new communicators until every old one is ready.
bool NcclSession::await_all_ready(const std::vector<NcclComm>& comms, int code) {
  try {
    return std::all_of(comms.begin(), comms.end(),
                       [&](NcclComm comm) { return handle_init_result(comm, code); });
  } catch (const Error&) {
    if (comms.size() > 1) abort();
    throw;
  }
}

int NcclSession::color_of(const std::vector<std::vector<int>>& teams, int rank) const {
  for (size_t i = 0; i < teams.size(); ++i)
    if (std::find(teams[i].begin(), teams[i].end(), rank) != teams[i].end())
      return static_cast<int>(i);
  return nccl::kNoColor;
}

void NcclSession::form(const std::vector<std::vector<int>>& teams) {
  if (aborted_) return;
  NcclConfig config = config_of(kNonBlocking);
  std::vector<NcclComm> comms(worlds_.size(), nullptr);
  const std::vector<int> local = local_ranks();
  const int code = call_each(local, [&](size_t i) {
    return api_.comm_split(world(local[i]), color_of(teams, local[i]), local[i], &comms[i],
                           &config);
  });
  if (!await_all_ready(worlds_, code)) return;
  for (int i = 0; i < ranks_.here; ++i) {
    const int rank = ranks_.first + i, color = color_of(teams, rank);
    if (color == nccl::kNoColor) continue;
    const NcclComm comm = comms[static_cast<size_t>(i)];
    if (!handle_init_result(comm, nccl::kSuccess)) return;
    const std::lock_guard<std::mutex> lock(aborting_);
    teams_[{teams[static_cast<size_t>(color)], rank}] = comm;
  }
}

NcclComm NcclSession::team(const std::vector<int>& ranks, int own) const {
  if (static_cast<int>(ranks.size()) == ranks_.all) return world(own);
  const auto found = teams_.find({ranks, own});
  SP_CHECK(found != teams_.end(), "no communicator was formed for these {} ranks", ranks.size());
  return found->second;
}

std::vector<NcclComm> NcclSession::make_blocking_communicators(const std::vector<int>& ranks) {
  if (const auto found = blocking_.find(ranks); found != blocking_.end()) return found->second;
  if (aborted_) return {};
  std::vector<int> here;
  for (const int rank : ranks)
    if (rank >= ranks_.first && rank < ranks_.first + ranks_.here) here.push_back(rank);
  NcclConfig config = config_of(kBlocking);
  std::vector<NcclComm> comms(here.size(), nullptr);
  const int code = call_each(here, [&](size_t i) {
    return api_.comm_split(team(ranks, here[i]), 0, here[i], &comms[i], &config);
  });
  std::vector<NcclComm> parents;
  for (const int rank : here) parents.push_back(team(ranks, rank));
  if (!await_all_ready(parents, code) || !await_all_ready(comms, nccl::kSuccess)) return {};
  const std::lock_guard<std::mutex> lock(aborting_);
  return blocking_[ranks] = std::move(comms);
}

NcclComm NcclSession::make_put_communicator() {
  SP_CHECK(ranks_.here == 1, "a process with {} GPUs puts", ranks_.here);
  if (aborted_) return nullptr;
  select(rank());
  NcclConfig config = config_of(kNonBlocking);
  NcclComm comm = nullptr;
  const NcclComm parent = world(rank());
  const int code = api_.comm_split(parent, 0, rank(), &comm, &config);
  if (!handle_init_result(parent, code)) return nullptr;
  const std::lock_guard<std::mutex> lock(aborting_);
  return one_sided_ = comm;
}

// Limits the wait, because peers that stopped waiting never join.
std::string NcclSession::await_put_communicator(int code) {
  const Clock::time_point limit = Clock::now() + kPuttingPatience;
  while (code == nccl::kSuccess || code == nccl::kInProgress) {
    {
      const std::lock_guard<std::mutex> lock(aborting_);
      if (!aborted_) code = state_of(one_sided_);
    }
    if (aborted_ || poll_communicators(worlds_, nccl::kSuccess) == State::lost) return kPeerLost;
    if (code == nccl::kSuccess) return {};
    if (Clock::now() > limit) return kPutHasNoEnd;
    std::this_thread::sleep_for(kPollInterval);
  }
  const char* const detail = api_.last_error(nullptr);
  return detail == nullptr || *detail == 0 ? api_.error_text(code) : detail;
}

void NcclSession::abort_put_communicator() noexcept {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (!aborted_ && one_sided_ != nullptr) api_.comm_abort(one_sided_);
  one_sided_ = nullptr;
}

// The calls of a group are in progress until those of each communicator are launched. The lock
// keeps another thread's abort from freeing communicators that are polled here.
NcclSession::State NcclSession::poll_communicators(const std::vector<NcclComm>& comms, int code) {
  bool under_way = false;
  {
    const std::lock_guard<std::mutex> lock(aborting_);
    if (aborted_) return State::lost;
    for (const NcclComm comm : comms) {
      if (code != nccl::kSuccess && code != nccl::kInProgress) break;
      code = state_of(comm);
      under_way = under_way || code == nccl::kInProgress;
    }
  }
  if (code == nccl::kSuccess || code == nccl::kInProgress)
    return under_way ? State::under_way : State::ready;
  if (is_refusal(code)) throw Error(ErrorKind::io, error_text(code));
  error_ = error_text(code);
  if (report_loss_) report_loss_(error_);
  abort();
  return State::lost;
}

NcclSession::State NcclSession::poll_all_communicators() {
  std::vector<NcclComm> comms = worlds_;
  for (const auto& [team, comm] : teams_) comms.push_back(comm);
  for (const auto& [team, blocking] : blocking_)
    comms.insert(comms.end(), blocking.begin(), blocking.end());
  if (relies_on_putting_) comms.push_back(one_sided_);
  return poll_communicators(comms, nccl::kSuccess);
}

void NcclSession::abort() noexcept {
  const std::lock_guard<std::mutex> lock(aborting_);
  if (!aborted_.exchange(true)) abort_together(in_end_order());
}

// An abort waits for the communicator's work in streams, which may wait behind that of another one.
// In a group, NCCL stops all of them before it waits for any.
void NcclSession::abort_together(const std::vector<std::vector<NcclComm>>& all) const noexcept {
  const bool grouped = ranks_.here > 1 || api_.version >= kGroupAbortVersion;
  if (grouped) api_.group_start();
  for (const std::vector<NcclComm>& comms : all)
    for (const NcclComm comm : comms) api_.comm_abort(comm);
  if (grouped) api_.group_end();
}

}  // namespace shardproof
