// What is told when a process was lost: who, how, and who waited for its ranks.
#include <algorithm>
#include <set>
#include <sstream>

#include "shardproof/backends/remote/detail/judging_world.h"
#include "shardproof/sim/deadlock.h"
#include "shardproof/sim/mismatch.h"

namespace shardproof {
namespace {

constexpr std::chrono::milliseconds kGrace{2000};
constexpr std::chrono::milliseconds kSilence{150};
constexpr std::chrono::milliseconds kTurn{20};
constexpr std::chrono::milliseconds kBetweenLooks{25};

// What processes printed; mpirun's own words among it are of no use.
std::vector<std::string> last_words(const std::string& output) {
  constexpr size_t kShown = 12;
  std::vector<std::string> lines;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line.find("PMIX ERROR") == std::string::npos) lines.push_back(line);
  if (lines.size() > kShown) lines.erase(lines.begin(), lines.end() - kShown);
  return lines;
}

}  // namespace

// Nothing has come from anybody, and somebody is in an exchange that does not end.
void JudgingWorld::watch() {
  if (loss_ || Clock::now() < looked_ + kBetweenLooks) return;
  looked_ = Clock::now();
  if ((loss_ = crew_.find_loss())) return;
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (crew_.members()[i].activity == Activity::computes && hosts_[i].under_way.empty())
      moved_ = Clock::now();
  if (!crew_.waits_too_long(moved_)) return;
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (!hosts_[i].under_way.empty()) {
      loss_ = Loss{static_cast<int>(i), crew_.members()[i].pid,
                   "does not come to the end of an exchange"};
      return;
    }
}

// The others go on for as long as they can without it, so that it is known who waits.
void JudgingWorld::wait_for_survivors() {
  const Clock::time_point limit = Clock::now() + kGrace;
  const auto computes = [&] {
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const CrewMember& member = crew_.members()[i];
      if (static_cast<int>(i) != loss_->process && !member.pipe->closed() &&
          member.activity == Activity::computes && hosts_[i].phase == Phase::running)
        return true;
    }
    return false;
  };
  moved_ = Clock::now();
  while ((computes() || Clock::now() < moved_ + kSilence) && Clock::now() < limit) take_in(kTurn);
}

// Calls that were let through and never came to their end, because the lost process is in them.
std::vector<Finding> JudgingWorld::calls_under_way() {
  const Lanes lost = blocks_.of(loss_->process);
  Standstill still;
  still.world = options_.ranks;
  std::set<const GateEvent*> seen;
  for (size_t i = 0; i < hosts_.size(); ++i)
    for (const std::shared_ptr<const GateEvent>& event : hosts_[i].under_way) {
      if (static_cast<int>(i) == loss_->process) break;  // nobody knows how far it came
      if (!event || event->kind == Order::run || !seen.insert(event.get()).second) continue;
      Awaiting awaiting;
      const Group& group = event->collective.group;
      const int64_t sibling = group.sibling_of(event->parts[0].rank);
      awaiting.group = group.name() + " " + member_list(group.members(sibling));
      awaiting.call = event->call;
      std::vector<Blocked> waiting;
      for (const EventPart& part : event->parts) {
        if (lost.contains(part.rank)) {
          awaiting.ranks.push_back(part.rank);
          still.gone[part.rank] = loss_->words;
          continue;
        }
        Blocked& call = waiting.emplace_back();
        call.ranks = Lanes::one(part.rank);
        call.line = part.site.line;
        call.instance = part.site.instance;
        call.text = event->text;
        call.awaiting = static_cast<int32_t>(still.awaiting.size());
      }
      if (awaiting.ranks.empty() || waiting.empty()) continue;
      std::sort(awaiting.ranks.begin(), awaiting.ranks.end());
      awaiting.missing = awaiting.ranks;
      still.awaiting.push_back(std::move(awaiting));
      still.blocked.insert(still.blocked.end(), waiting.begin(), waiting.end());
      break;  // what comes after it waits for it
    }
  return explain(still);
}

std::vector<Finding> JudgingWorld::findings_of_loss(std::vector<Finding> known) {
  const Lanes lost = blocks_.of(loss_->process);
  std::vector<Finding> findings = calls_under_way();
  if (findings.empty())
    for (Finding& finding : known)
      if (finding.verdict == Verdict::missing_rank && lost.contains(finding.ranks))
        findings.push_back(std::move(finding));
  if (findings.empty()) {
    Finding& finding = findings.emplace_back();
    finding.verdict = Verdict::missing_rank;
    finding.ranks = lost.empty() ? Lanes::range(0, options_.ranks) : lost;
    finding.headline = fmt::format("missing rank: process {} {}", loss_->process, loss_->words);
  }
  for (Finding& finding : findings) {
    std::erase_if(finding.details, [](const std::string& detail) {
      return detail.ends_with("  has died") || detail.ends_with("  was never started");
    });
    finding.details.push_back(
        fmt::format("process {} of {} (pid {}, {}) {}", loss_->process, crew_.processes(),
                    loss_->pid, lost.empty() ? "no ranks" : ranks_text(lost), loss_->words));
    for (std::string& line : last_words(crew_.output())) finding.details.push_back(std::move(line));
    finding.fix = "look at why that process ended; run the case again";
  }
  return findings;
}

}  // namespace shardproof
