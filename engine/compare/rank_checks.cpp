// Implements rank_checks.h. The constructor visits the checks once and counts how often each rank
// reaches a series. A rank's count before a check is the number of the value of which its copy is a
// part. If the ranks of one check are at different numbers, its copy is cut.
//
// Example: rank 0 reaches 'w' in passes 0 and 1 of its loop, rank 1 in passes 1 and 2.
//   value 0   pass 0 of rank 0, pass 1 of rank 1
//   value 1   pass 1 of rank 0, pass 2 of rank 1
#include "shardproof/engine/compare/rank_checks.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/analysis/mismatch.h"

namespace shardproof {
namespace {

std::string times_text(int64_t times) {
  return times == 1 ? "once" : fmt::format("{} times", times);
}

Lanes owners_of(const Job& job, const RankCheck& check) {
  if (!check.on.empty()) return check.on;
  for (const auto& [key, mesh] : job.meshes)
    if (key == check.mesh) return mesh.ranks();
  SP_UNREACHABLE("a check on the mesh {}, which does not exist", check.mesh);
}

// Returns the reason why a series has no values: the ranks that reach it least and most often.
std::string unevenness(const Lanes& owners, const std::map<int32_t, int64_t>& times) {
  std::map<int64_t, std::vector<int32_t>> by_times;
  for (int64_t i = 0; i < owners.size(); ++i) {
    const auto reached = times.find(owners[i]);
    by_times[reached == times.end() ? 0 : reached->second].push_back(owners[i]);
  }
  const auto& [least, seldom] = *by_times.begin();
  const auto& [most, often] = *by_times.rbegin();
  if (least == most && least > 0) return "";
  const auto reaching = [](const std::vector<int32_t>& ranks) {
    return ranks_text(Lanes::of(ranks)) + (ranks.size() == 1 ? " reaches" : " reach");
  };
  if (most == 0)
    return "no rank that has to hold it reaches the check; name those that do with a last \"on\"";
  if (least == 0)
    return fmt::format("{} the check {}, {} never does; name those that hold it with a last \"on\"",
                       reaching(often), times_text(most), ranks_text(Lanes::of(seldom)));
  return fmt::format("{} the check {}, {} it {}; let all reach it equally often", reaching(often),
                     times_text(most), reaching(seldom), times_text(least));
}

UndecidedValue undecided_value(const RankCheck& check, std::string reason,
                               const GlobalProgram& truth) {
  UndecidedValue value;
  value.name = check.name;
  value.line = check.origin.line;
  value.instance = check.origin.instance;
  const ValueId global = truth.names.at(check.name);
  value.elements = value.of = element_count(truth.values[static_cast<size_t>(global)].shape);
  value.reason = std::move(reason);
  return value;
}

}  // namespace

RankChecks::RankChecks(const Job& job, const RankProgram& ranks, Complete complete)
    : complete_(std::move(complete)) {
  for (const RankCheck& check : ranks.checks) enter(series_of(job, check), check, ranks);
  states_.resize(values_.size(), State::open);
  collected_.resize(values_.size());
  for (Series& series : series_) {
    series.uneven = unevenness(series.owners, series.times);
    if (series.uneven.empty()) continue;
    for (const size_t value : series.values) states_[value] = State::undecided;
  }
}

RankChecks::Series& RankChecks::series_of(const Job& job, const RankCheck& check) {
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}", check.name, check.placements, check.mesh, to_string(check.on));
  const auto [known, fresh] = keys_.emplace(key, series_.size());
  if (fresh) series_.push_back({&check, owners_of(job, check), {}, {}, ""});
  return series_[known->second];
}

void RankChecks::enter(Series& series, const RankCheck& check, const RankProgram& ranks) {
  std::map<int64_t, std::vector<int32_t>> by_number;
  for (int64_t i = 0; i < check.lanes.size(); ++i)
    by_number[series.times[check.lanes[i]]++].push_back(check.lanes[i]);
  for (auto& [number, held_by] : by_number) {
    if (number == std::ssize(series.values)) {
      series.values.push_back(values_.size());
      const SpmdValue& copy = ranks.program.values[static_cast<size_t>(check.value)];
      values_.push_back({values_.size(), {}, *copy.spec, series.owners, {}});
    }
    const size_t value = series.values[static_cast<size_t>(number)];
    const Lanes lanes = Lanes::of(std::move(held_by));
    values_[value].entries.emplace_back(&check, lanes);
    routes_[check.value].push_back({value, lanes});
  }
}

void RankChecks::add(ValueId id, const LocalTensor& part) {
  const auto routes = routes_.find(id);
  if (routes == routes_.end()) return;
  for (const Route& route : routes->second) {
    CheckedValue& value = values_[route.value];
    const Lanes here = part.lanes().intersect(route.lanes);
    if (here.empty() || states_[route.value] != State::open) continue;
    const LocalTensor own = part.restrict_to(here);
    CollectedParts& parts = collected_[route.value];
    parts.add(own);
    if (parts.most_lanes() < value.owners.size() || !parts.whole().lanes().contains(value.owners))
      continue;
    states_[route.value] = State::complete;
    value.parts = parts.whole();
    complete_(value);
    value.parts = {};
    parts = {};
  }
}

std::vector<UndecidedValue> RankChecks::undecided(const GlobalProgram& truth) const {
  std::vector<UndecidedValue> all;
  for (const Series& series : series_) {
    if (!series.uneven.empty()) all.push_back(undecided_value(*series.first, series.uneven, truth));
    for (const size_t at : series.values) {
      if (states_[at] != State::open) continue;
      const Lanes missing = values_[at].owners.minus(collected_[at].whole().lanes());
      all.push_back(undecided_value(
          *values_[at].entries.front().first,
          fmt::format("the run ended before {} reached the check; correct the error that ended it",
                      ranks_text(missing)),
          truth));
    }
  }
  return all;
}

ValueLabel label_of(const CheckedValue& value, const SpmdProgram& program, const Lanes& ranks) {
  const RankCheck* first = value.entries.front().first;
  for (const auto& [check, lanes] : value.entries)
    if (!lanes.intersect(ranks).empty()) {
      first = check;
      break;
    }
  ValueLabel label{first->name, first->origin.line, "", first->origin.instance};
  for (const SpmdListing& listing : program.listings)
    if (listing.lanes.contains(first->lanes) && label.line <= std::ssize(listing.lines))
      label.text = listing.lines[static_cast<size_t>(label.line - 1)];
  return label;
}

}  // namespace shardproof
