// Implements the part of coordinator_world.h that finds a lost worker and reports the calls that
// wait for it.
//
// 1. watch() looks for a lost worker, an unexplained transport error, or an exchange that does not
//    end within the timeout.
// 2. run_survivors() lets the other workers run on until they are silent. Then the ranks that wait
//    for lost ranks are known.
// 3. findings_of_loss() names the missing ranks of each call that survivors wait in. It adds how
//    the process ended, its last reported progress (ProgressPage), and its last output.
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

constexpr std::chrono::milliseconds kSurvivorTimeout{2000};
constexpr std::chrono::milliseconds kSurvivorSilence{150};
constexpr std::chrono::milliseconds kSurvivorPoll{20};
constexpr int64_t kBeatsOfSurvivors = 2;  // the first may have been written before the loss
constexpr std::chrono::milliseconds kLossSearchInterval{25};

// Returns the last lines that the processes printed, without those of mpirun's own runtime (PMIX).
std::vector<std::string> last_output_lines(const std::string& output) {
  constexpr size_t kShown = 12;
  std::vector<std::string> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line.find("PMIX ERROR") == std::string::npos) lines.push_back(line);
  if (lines.size() > kShown) lines.erase(lines.begin(), lines.end() - kShown);
  return lines;
}

bool shared_memory_is_full() {
  constexpr uint64_t kRoom = 1 << 20;
  std::error_code failed;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(failed);
  for (const std::string& folder : {std::string("/dev/shm"), temporary.string()}) {
    struct statvfs room {};
    if (::statvfs(folder.c_str(), &room) == 0 && room.f_bavail * room.f_frsize < kRoom) return true;
  }
  return false;
}

}  // namespace

// The timeout counts only while no worker computes: a worker may compute for long. If it has ended
// without a report, find_lost_worker() finds it.
void CoordinatorWorld::watch() {
  if (loss_ || Clock::now() < looked_ + kLossSearchInterval) return;
  looked_ = Clock::now();
  if ((loss_ = pool_.find_lost_worker())) {
    if (loss_->words.ends_with("(SIGBUS)") && shared_memory_is_full()) {
      pool_.terminate_workers();
      throw Error(ErrorKind::io,
                  fmt::format("process {} {}: shared memory is full; free space in /dev/shm and in "
                              "the folder that TMPDIR names",
                              loss_->process, loss_->words));
    }
    return;
  }
  if (const auto words = pool_.unattributed_transport_error()) throw Error(ErrorKind::io, *words);
  for (const WorkerHandle& member : pool_.members())
    if (member.activity == HeartbeatActivity::computes) moved_ = pool_.now();
  if (repeating_ && has_moved_in_repetitions()) moved_ = pool_.now();
  if (pool_.timed_out(moved_)) loss_ = unending_exchange();
}

// A worker that is known to be stopped is the cause, even if its last message is recent.
std::optional<WorkerLoss> CoordinatorWorld::unending_exchange() const {
  std::optional<WorkerLoss> found;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].under_way.empty() && !repeating_) continue;
    const WorkerHandle& member = pool_.members()[i];
    if (!member.state.empty()) return WorkerLoss{static_cast<int>(i), member.pid, member.state};
    if (!found)
      found = WorkerLoss{static_cast<int>(i), member.pid, "does not complete an exchange"};
  }
  return found;
}

// True if the lost process and its monitor have ended, without a report.
bool CoordinatorWorld::ended_without_report() const {
  const size_t process = static_cast<size_t>(loss_->process);
  return process < pool_.members().size() && pool_.members()[process].state.empty() &&
         is_exit_description(loss_->words);
}

// Returns the last known progress of a process.
ProgressState CoordinatorWorld::progress_of(size_t process) const {
  const WorkerHandle& member = pool_.members()[process];
  return member.state.empty() ? member.last_heartbeat : member.progress;
}

bool CoordinatorWorld::has_moved_in_repetitions() {
  int64_t ended = 0;
  for (const WorkerHandle& member : pool_.members()) ended += member.last_heartbeat.done;
  return std::exchange(commands_ended_, ended) != ended;
}

// In repetitions, each process carries out its sequence again and again, and counts on. The lost
// process is in one repetition; a survivor that is in another one waits in none of its calls. If
// the lost process ended without a report, its repetition at its last heartbeat may be an earlier
// one, so no survivor counts.
void CoordinatorWorld::locate_in_repetitions() {
  const auto repetition_of = [this](size_t i) {
    const int64_t each = std::ssize(hosts_[i].sequence);
    return each == 0 ? 0 : std::max<int64_t>(progress_of(i).done / each, 1);
  };
  const size_t lost = static_cast<size_t>(loss_->process);
  repetition_ = repetition_of(lost);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    const int64_t each = std::ssize(host.sequence);
    if (each == 0 || repetition_of(i) != repetition_) continue;
    if (ended_without_report() && i != lost) continue;
    const int64_t ended = std::max<int64_t>(progress_of(i).done - repetition_ * each, 0);
    host.under_way.assign(host.sequence.begin() + ended, host.sequence.end());
    host.sent = (repetition_ + 1) * each;
  }
}

// Runs the world on for up to 2 s, until nothing computes and 150 ms brought no message.
void CoordinatorWorld::run_survivors() {
  const Clock::time_point limit = Clock::now() + kSurvivorTimeout;
  const auto computes = [&] {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const WorkerHandle& member = pool_.members()[i];
      if (static_cast<int>(i) != loss_->process && !member.pipe->closed() &&
          member.activity == HeartbeatActivity::computes && hosts_[i].phase == Phase::running)
        return true;
    }
    return false;
  };
  // In repetitions, survivors report where they wait by heartbeats only.
  std::vector<int64_t> heartbeats;
  for (const WorkerHandle& member : pool_.members()) heartbeats.push_back(member.heartbeats);
  const auto awaits_beats = [&] {
    for (size_t i = 0; i < heartbeats.size() && repeating_; ++i)
      if (static_cast<int>(i) != loss_->process && pool_.members()[i].state.empty() &&
          !pool_.members()[i].pipe->closed() &&
          pool_.members()[i].heartbeats < heartbeats[i] + kBeatsOfSurvivors)
        return true;
    return false;
  };
  while (awaits_beats() && Clock::now() < limit) receive_messages(kSurvivorPoll);
  if (repeating_) return locate_in_repetitions();
  moved_ = pool_.now();
  send_pending_groups();
  while ((computes() || pool_.now() < moved_ + kSurvivorSilence) && Clock::now() < limit)
    receive_messages(kSurvivorPoll);
}

// True if ranks of `process` wait in this call for ranks of the lost process.
bool CoordinatorWorld::awaits_loss(const MatchedCall& event, int process) const {
  if (event.kind == CoordinatorCommand::run) return false;
  bool lost = false, waits = false;
  for (const MatchedCallPart& part : event.parts) {
    lost = lost || blocks_.process_of(part.rank) == loss_->process;
    waits = waits || blocks_.process_of(part.rank) == process;
  }
  return (lost && waits) ||
         std::any_of(event.together.begin(), event.together.end(),
                     [&](const auto& inner) { return awaits_loss(*inner, process); });
}

// Adds the call to `graph`: the lost ranks as missing, the ranks of `processes` as waiting.
void CoordinatorWorld::describe_waiting(const MatchedCall& event, const std::set<int>& processes,
                                        WaitForGraph& graph) const {
  if (event.kind == CoordinatorCommand::run) return;
  for (const auto& inner : event.together) describe_waiting(*inner, processes, graph);
  if (event.parts.empty()) return;
  const Lanes lost = blocks_.of(loss_->process);
  const Group& group = event.collective.group;
  WaitEdge edge;
  edge.group = sibling_text(group, group.sibling_of(event.parts[0].rank));
  edge.call = event.call;
  std::vector<BlockedCall> waiting;
  for (const MatchedCallPart& part : event.parts) {
    if (lost.contains(part.rank)) {
      edge.ranks.push_back(part.rank);
      continue;
    }
    if (!processes.contains(blocks_.process_of(part.rank))) continue;
    BlockedCall& call = waiting.emplace_back();
    call.ranks = Lanes::one(part.rank);
    call.line = part.site.line;
    call.instance = part.site.instance;
    call.text = event.text;
    call.edge = static_cast<int32_t>(graph.edges.size());
  }
  if (edge.ranks.empty() || waiting.empty()) return;
  for (const int32_t rank : edge.ranks) graph.gone[rank] = loss_->words;
  std::sort(edge.ranks.begin(), edge.ranks.end());
  edge.missing = edge.ranks;
  graph.edges.push_back(std::move(edge));
  graph.blocked.insert(graph.blocked.end(), waiting.begin(), waiting.end());
}

// Returns the commands that the lost process has not completed; the one it was in comes first.
// Without a report of its monitor, some of them may have been completed since its last heartbeat.
std::vector<const MatchedCall*> CoordinatorWorld::commands_of_loss() const {
  const size_t process = static_cast<size_t>(loss_->process);
  if (process >= hosts_.size()) return {};
  const Host& host = hosts_[process];
  size_t done = 0;
  if (!pool_.members()[process].state.empty() || ended_without_report()) {
    const int64_t first = host.sent - static_cast<int64_t>(host.under_way.size());
    const int64_t ended = progress_of(process).done - first;
    done = static_cast<size_t>(std::clamp<int64_t>(ended, 0, std::ssize(host.under_way)));
  }
  std::vector<const MatchedCall*> commands;
  for (size_t i = done; i < host.under_way.size(); ++i) commands.push_back(host.under_way[i].get());
  return commands;
}

// Explains the calls that survivors wait in because the lost process takes part. Only the first
// such call of each worker counts: later ones wait for it. Workers report progress only when they
// wait, so a call is skipped if the lost process is known to have completed it.
std::vector<Finding> CoordinatorWorld::calls_under_way() {
  std::vector<const MatchedCall*> events;
  std::map<const MatchedCall*, std::set<int>> processes;
  const std::vector<const MatchedCall*> lost = commands_of_loss();
  const std::set<const MatchedCall*> open(lost.begin(), lost.end());
  for (int process = 0; process < static_cast<int>(hosts_.size()); ++process) {
    if (process == loss_->process) continue;
    for (const std::shared_ptr<const MatchedCall>& event :
         hosts_[static_cast<size_t>(process)].under_way) {
      if (!event || !open.contains(event.get()) || !awaits_loss(*event, process)) continue;
      if (processes[event.get()].empty()) events.push_back(event.get());
      processes[event.get()].insert(process);
      break;
    }
  }
  WaitForGraph graph;
  graph.world = options_.ranks;
  for (const MatchedCall* event : events) describe_waiting(*event, processes[event], graph);
  return diagnose_deadlock(graph);
}

namespace {

struct CallOfLoss {
  const MatchedCall* event;
  const MatchedCallPart* part;  // the share of one of the lost ranks
};

// Returns the first call of a command with the share of one of these ranks.
std::optional<CallOfLoss> call_in(const MatchedCall* event, const Lanes& ranks) {
  while (event != nullptr && event->parts.empty() && !event->together.empty())
    event = event->together.front().get();
  if (event == nullptr) return std::nullopt;
  for (const MatchedCallPart& part : event->parts)
    if (ranks.contains(part.rank)) return CallOfLoss{event, &part};
  return std::nullopt;
}

std::string group_text(const MatchedCall& event) {
  const Group& group = event.collective.group;
  return sibling_text(group, group.sibling_of(event.parts.front().rank));
}

// Renames the finding after the call that the lost process was in: survivors may wait in later
// ones.
void name_call(Finding& finding, const CallOfLoss& lost) {
  if (lost.event->kind != CoordinatorCommand::collective) return;
  finding.line = lost.part->site.line;
  finding.instance = lost.part->site.instance;
  finding.group = group_text(*lost.event);
  finding.call = lost.event->call;
  finding.headline =
      fmt::format("{} never {} call {} of group {}", ranks_text(finding.ranks),
                  finding.ranks.size() == 1 ? "makes" : "make", finding.call, finding.group);
}

}  // namespace

// Describes where the lost process was last seen, as its monitor reported. If both have ended, its
// last heartbeat is known.
std::string CoordinatorWorld::last_progress() const {
  const size_t process = static_cast<size_t>(loss_->process);
  const bool by_heartbeat = ended_without_report();
  if (process >= pool_.members().size() ||
      (pool_.members()[process].state.empty() && !by_heartbeat))
    return {};
  const char* const seen = by_heartbeat ? "at its last heartbeat" : "last seen";
  const ProgressState progress = progress_of(process);
  const bool begun = progress.begun > progress.done;
  const std::vector<const MatchedCall*> commands = commands_of_loss();
  std::string call;
  if (const std::optional<CallOfLoss> lost =
          commands.empty() ? std::nullopt : call_in(commands.front(), blocks_.of(loss_->process)))
    call =
        fmt::format("{} ({}, call {})", lost->event->text,
                    line_text(lost->part->site.line, lost->part->site.instance), lost->event->call);
  const std::string where =
      repetition_ == 0 ? "" : fmt::format(", in repetition {} of its calls", repetition_);
  if (!call.empty() && begun)
    return fmt::format("{} in {}, begun and not ended{}", seen, call, where);
  if (!call.empty()) return fmt::format("{} before {}, not begun{}", seen, call, where);
  if (progress.line == 0) return fmt::format("{} before its first line", seen);
  return fmt::format("{} after line {}, in no call that others wait for", seen, progress.line);
}

std::vector<Finding> CoordinatorWorld::findings_of_loss(std::vector<Finding> known) {
  const Lanes lost = blocks_.of(loss_->process);
  std::vector<Finding> findings = calls_under_way();
  const std::vector<const MatchedCall*> commands = commands_of_loss();
  const std::optional<CallOfLoss> call =
      commands.empty() ? std::nullopt : call_in(commands.front(), lost);
  if (call && findings.size() == 1 && !ended_without_report()) name_call(findings.front(), *call);
  if (findings.empty())
    for (Finding& finding : known)
      if (finding.verdict == Verdict::missing_rank && lost.contains(finding.ranks))
        findings.push_back(std::move(finding));
  if (findings.empty()) {
    Finding& finding = findings.emplace_back();
    finding.verdict = Verdict::missing_rank;
    finding.ranks = lost.empty() ? Lanes::range(0, options_.ranks) : lost;
    finding.headline = fmt::format("missing rank: process {} {}", loss_->process, loss_->words);
    // If the survivors failed before their next heartbeat, the calls that they wait in are not
    // known. The call that the lost process was in is known from its monitor.
    if (call && repeating_ && !pool_.members()[static_cast<size_t>(loss_->process)].state.empty())
      name_call(finding, *call);
  }
  for (Finding& finding : findings) {
    std::erase_if(finding.details, [](const std::string& detail) {
      return detail.ends_with("  has died") || detail.ends_with("  was never started");
    });
    finding.details.push_back(
        fmt::format("process {} of {} (pid {}, {}) {}", loss_->process, pool_.processes(),
                    loss_->pid, lost.empty() ? "no ranks" : ranks_text(lost), loss_->words));
    if (std::string progress = last_progress(); !progress.empty())
      finding.details.push_back(std::move(progress));
    for (std::string& line : pool_.transport_errors()) finding.details.push_back(std::move(line));
    for (std::string& line : last_output_lines(pool_.output()))
      finding.details.push_back(std::move(line));
    finding.fix = fmt::format("find out why that process {}; run the case again",
                              is_exit_description(loss_->words) ? "ended" : "makes no progress");
  }
  return findings;
}

}  // namespace shardproof
