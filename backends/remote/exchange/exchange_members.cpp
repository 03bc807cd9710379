// Implements the placement part of exchange.h: which members of a group lie on which endpoints.
#include <algorithm>
#include <map>

#include "shardproof/backends/remote/exchange/exchange.h"

namespace shardproof {
namespace {

// Returns for each member the index, within the team, of the endpoint that holds it.
std::vector<int> places_of(const std::vector<int32_t>& members, const RankBlocks& blocks) {
  std::vector<int> places;
  for (const int32_t member : members) places.push_back(blocks.endpoint_of(member));
  std::vector<int> team = places;
  std::sort(team.begin(), team.end());
  team.erase(std::unique(team.begin(), team.end()), team.end());
  for (int& place : places)
    place = static_cast<int>(std::lower_bound(team.begin(), team.end(), place) - team.begin());
  return places;
}

bool has_each_once(std::vector<int> places) {
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) == places.end();
}

}  // namespace

void place_members(ExchangeOperation& moving, const RankBlocks& blocks) {
  const Collective& c = moving.parts.front().submitted->terms->collective;
  const int64_t root = has_root(c.kind) ? c.root : 0;
  std::map<int, std::vector<int64_t>> held;
  for (size_t i = 0; i < moving.members.size(); ++i)
    held[blocks.endpoint_of(moving.members[i])].push_back(static_cast<int64_t>(i));
  const int at = blocks.endpoint_of(moving.members[static_cast<size_t>(root)]);
  for (auto& [endpoint, members] : held) {
    if (endpoint == at) moving.exchange.root = static_cast<int>(moving.exchange.team.size());
    moving.exchange.team.push_back(endpoint);
    moving.held.push_back(std::move(members));
  }
}

bool is_uniform_over_endpoints(const Group& group, const RankBlocks& blocks) {
  const std::vector<int> first = places_of(group.members(0), blocks);
  if (group.axes().empty() && group.size() < blocks.ranks()) return has_each_once(first);
  for (int64_t sibling = 1; sibling < group.count(); ++sibling)
    if (places_of(group.members(sibling), blocks) != first) return false;
  return true;
}

bool depends_on_association(const Collective& call) {
  if (!reduces(call.kind) || is_integral(call.dtype)) return false;
  switch (call.reduction.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::prod:
    case ReduceOp::premul_sum:
    case ReduceOp::norm: return true;
    default: return false;
  }
}

}  // namespace shardproof
