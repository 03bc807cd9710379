#include <algorithm>

#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/backends/remote/coordinator/coordinator_world.h"
#include "shardproof/sim/analysis/record_order.h"

namespace shardproof {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTurn{50};
constexpr milliseconds kDrain{10000};

WireWriter message_of(Order kind) {
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  return message;
}

}  // namespace

std::unique_ptr<World> Coordinator::start(const WorldOptions& options) {
  if (members_.empty())
    throw Error(ErrorKind::io, "the processes of this case have ended before its end");
  return std::make_unique<JudgingWorld>(*this, options);
}

JudgingWorld::JudgingWorld(Coordinator& crew, const WorldOptions& options)
    : crew_(crew),
      options_(options),
      blocks_(options.ranks, crew.processes(), crew.endpoints_each()),
      physics_(recorded(local_world(options, this), options.max_records)),
      hosts_(crew.members().size()) {
  for (size_t i = 0; i < hosts_.size(); ++i) {
    crew_.members()[i].executed = 0;
    crew_.send(static_cast<int>(i), message_of(Order::start));
  }
}

// A world that is left before its end: what is under way has to come to its end all the same, or
// the next world would meet it. Who has left the case by itself ends nothing more of it.
JudgingWorld::~JudgingWorld() {
  const auto has_ended_all = [&](size_t i) {
    return hosts_[i].sent == crew_.members()[i].executed;
  };
  const auto at_rest = [&] {
    for (size_t i = 0; i < hosts_.size(); ++i)
      if (!has_ended_all(i) && !crew_.members()[i].case_done) return false;
    return true;
  };
  if (closed_ || loss_) return;
  try {
    send_events();
    break_groups();
    const Clock::time_point limit = Clock::now() + kDrain;
    while (!at_rest() && Clock::now() < limit && !crew_.find_loss() && crew_.troubles().empty())
      crew_.listen(kTurn, [&](int process, WireReader& in) {
        const Announce kind = static_cast<Announce>(in.number());
        if (kind == Announce::idle || kind == Announce::at || kind == Announce::conclude ||
            kind == Announce::close)
          crew_.members()[static_cast<size_t>(process)].executed = in.number();
      });
    bool all_ended = true;
    for (size_t i = 0; i < hosts_.size(); ++i) all_ended = all_ended && has_ended_all(i);
    if (!all_ended) crew_.give_up();
  } catch (const Error&) {
    crew_.give_up();
  }
}

Door& JudgingWorld::open(const Lanes&) { SP_UNREACHABLE("no host runs in this process"); }

// --- one turn
// -------------------------------------------------------------------------------------

bool JudgingWorld::all_are(Phase phase) const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [phase](const Host& host) { return host.phase == phase; });
}

// No host can go on, and all orders are carried out.
bool JudgingWorld::quiet() {
  if (!events_.empty()) return false;
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].phase == Phase::running || crew_.members()[i].executed != hosts_[i].sent)
      return false;
  return true;
}

void JudgingWorld::take_in(milliseconds time) {
  crew_.listen(time, [this](int process, WireReader& in) { hear(process, in); });
  for (size_t i = 0; i < hosts_.size(); ++i) {
    std::deque<std::shared_ptr<const GateEvent>>& under_way = hosts_[i].under_way;
    const int64_t left = hosts_[i].sent - crew_.members()[i].executed;
    while (static_cast<int64_t>(under_way.size()) > left) under_way.pop_front();
  }
  send_events();
}

void JudgingWorld::listen() {
  take_in(kTurn);
  watch();
}

bool JudgingWorld::progress() {
  while (!loss_) {
    if (!quiet()) {
      listen();
      continue;
    }
    if (break_groups()) continue;
    if (physics_->progress()) {
      send_events();
      continue;
    }
    if (tell_failures()) continue;
    if (all_are(Phase::concluding) || all_are(Phase::closing)) return false;
    for (size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i].phase != Phase::idle) continue;
      hosts_[i].phase = Phase::running;
      crew_.send(static_cast<int>(i), message_of(Order::still));
    }
    listen();
  }
  return false;
}

// Hosts learn from their tickets that a call has failed.
bool JudgingWorld::tell_failures() {
  bool told = false;
  std::erase_if(open_, [&](const std::pair<Ticket, Door*>& open) {
    const TicketState state = open.second->poll(open.first);
    if (state != TicketState::failed) return state == TicketState::done;
    const Origin origin = origins_[static_cast<size_t>(open.first)];
    WireWriter message = message_of(Order::fail);
    message.add(origin.ticket);
    order(origin.process, message, nullptr);
    told = true;
    return true;
  });
  return told;
}

// --- the end
// --------------------------------------------------------------------------------------

Conclusion JudgingWorld::conclude(Conclusion) {
  Conclusion agreed;
  if (loss_) {
    agreed.finished = false;
    return agreed;
  }
  std::stable_sort(conclusions_.begin(), conclusions_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [process, own] : conclusions_) {
    agreed.finished = agreed.finished && own.finished;
    for (const Error& error : own.errors) agreed.errors.push_back(error);
    for (const std::string& fault : own.unfired_faults) agreed.unfired_faults.push_back(fault);
  }
  std::stable_sort(agreed.errors.begin(), agreed.errors.end(), [](const Error& a, const Error& b) {
    return std::pair(a.where().line, a.where().column) <
           std::pair(b.where().line, b.where().column);
  });
  WireWriter message = message_of(Order::concluded);
  write_conclusion(message, agreed);
  for (size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].phase = Phase::running;
    crew_.send(static_cast<int>(i), message);
  }
  return agreed;
}

WorldReport JudgingWorld::close() {
  while (!loss_ && !(all_are(Phase::closing) && quiet())) listen();
  closed_ = true;
  if (loss_) {
    wait_for_survivors();
    if (!hosts_.empty())
      for (Door* door : hosts_[static_cast<size_t>(loss_->process)].doors)
        door->stop(CohortState::dead);
  }
  WorldReport report = physics_->close();
  report.measured = in_order(std::move(measured_));
  report.broken = loss_.has_value();
  if (loss_) {
    report.findings = findings_of_loss(std::move(report.findings));
    crew_.give_up();
    return report;
  }
  WireWriter message = message_of(Order::report);
  write_report(message, report);
  for (CrewMember& member : crew_.members()) {
    member.pipe->send(message);
    member.pipe->flush();
  }
  return report;
}

}  // namespace shardproof
