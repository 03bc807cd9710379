// Implements the calls of rank_statement.h.
//
// Items with equal texts are one statement. Example: a reduce_scatter has items of [4, 6] on ranks
// 0-1 and [3, 6] on ranks 2-3. The statement is "y = reduce_scatter(x, sum, dim=1, group=tp)" on
// ranks 0-3. If a rank still has more than one statement, they are a group.
#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/printed_line.h"
#include "shardproof/program/ir/rank_choice.h"
#include "shardproof/program/ir/rank_statement.h"
#include "shardproof/program/ir/step_text.h"

namespace shardproof {
namespace {

std::string integers_text(const std::vector<int64_t>& items) {
  std::vector<std::string> parts;
  for (const int64_t item : items) parts.push_back(std::to_string(item));
  return "[" + comma_list(parts) + "]";
}

// Returns "tp" for one axis and "[dp, tp]" for several.
std::string group_text(std::string name) {
  if (name.find('+') == std::string::npos) return name;
  for (size_t at = 0; (at = name.find('+', at)) != std::string::npos; at += 2)
    name.replace(at, 1, ", ");
  return "[" + name + "]";
}

// True if the group index of every peer is that of its rank plus `distance`, modulo the size of the
// group.
bool all_peers_at(const CallItem& item, int64_t distance) {
  const Group& group = item.collective.group;
  for (int64_t lane = 0; lane < item.lanes.size(); ++lane) {
    const int64_t index = group.index_of(item.lanes[lane]);
    const int64_t peer = item.peers[static_cast<size_t>(lane)];
    if (index < 0 || (index + distance + group.size()) % group.size() != peer) return false;
  }
  return true;
}

std::string counts_text(const Lanes& lanes, const std::vector<std::vector<int64_t>>& by_lane,
                        const std::vector<int64_t>& of_call, const NamedMeshes& meshes) {
  if (by_lane.empty()) return integers_text(of_call);
  std::vector<std::string> texts;
  for (const std::vector<int64_t>& counts : by_lane) texts.push_back(integers_text(counts));
  return choice_text(lanes, texts, meshes);
}

}  // namespace

// Returns "next" or "prev" if every rank of the call names that neighbour, else the numbers.
std::string RankStatementWriter::peers(const CallItem& item) const {
  if (item.peers.empty()) return std::to_string(item.collective.peer);
  std::vector<std::string> texts;
  for (const int64_t peer : item.peers) texts.push_back(std::to_string(peer));
  if (std::all_of(texts.begin(), texts.end(), [&](const auto& t) { return t == texts[0]; }))
    return texts[0];
  const bool sends =
      item.collective.kind == CollectiveKind::send || item.collective.kind == CollectiveKind::put;
  // With two members both words are right; the usual one for the verb is printed.
  if (all_peers_at(item, sends ? 1 : -1)) return sends ? "next" : "prev";
  if (all_peers_at(item, sends ? -1 : 1)) return sends ? "prev" : "next";
  return choice_text(item.lanes, texts, meshes_);
}

std::string RankStatementWriter::received(ValueId id, const Lanes& lanes) const {
  const SpmdValue& made = value(id);
  for (const LocalShape& local : made.shapes)
    if (!local.lanes.intersect(lanes).empty())
      return fmt::format("shape={}, dtype={}", to_string(local.shape), name(made.dtype));
  SP_UNREACHABLE("{} has no shape on ranks {}", made.name, to_string(lanes));
}

std::vector<std::string> RankStatementWriter::own_arguments(const CallItem& item,
                                                            PlainDims dims) const {
  const Collective& call = item.collective;
  switch (call.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::gather:
    case CollectiveKind::scatter: return {"dim=" + std::to_string(dims.dim)};
    case CollectiveKind::all_to_all:
      return {"split=" + std::to_string(dims.dim), "concat=" + std::to_string(dims.concat)};
    case CollectiveKind::all_to_all_v:
      return {"send=" + counts_text(item.lanes, item.send_counts, call.send_counts, meshes_),
              "recv=" + counts_text(item.lanes, item.recv_counts, call.recv_counts, meshes_)};
    case CollectiveKind::send: return {"to=" + peers(item)};
    case CollectiveKind::recv: return {"from=" + peers(item)};
    case CollectiveKind::put:
    case CollectiveKind::signal: return {"to=" + peers(item), fmt::format("slot={}", call.slot)};
    case CollectiveKind::wait_signal:
      return {"from=" + peers(item), fmt::format("slot={}", call.slot),
              fmt::format("count={}", call.repeat)};
    default: return {};
  }
}

const RankStatementWriter::StepText& RankStatementWriter::text_of(const PlanStep& step) const {
  const auto [known, fresh] = step_texts_.try_emplace(&step);
  StepText& text = known->second;
  if (!fresh) return text;
  if (step.kind == StepKind::local) text.verb = local_verb(step);
  if (step.pieces == 1) text.dims = plain_dims(step);
  if (!text.dims) text.shards = "shards='" + shards_text({step.from}, {step.to}, meshes_) + "'";
  return text;
}

std::string RankStatementWriter::call_text(const CallItem& item, const Lanes& lanes) const {
  PlainDims dims{item.dim, item.dim2};
  std::string_view shards;
  if (item.step) {
    const StepText& step = text_of(*item.step);
    dims = step.dims.value_or(dims);
    shards = step.shards;
  }
  const Collective& call = item.collective;
  std::string text;
  if (item.output != kNoValue && !item.in_place) text = bind(item.output) + " = ";
  text.append(shardproof::name(call.kind)).append(item.in_place ? "_(" : "(");
  const size_t start = text.size();
  const auto add = [&](std::string_view argument) {
    text.append(text.size() == start ? "" : ", ").append(argument);
  };
  if (item.input != kNoValue) add(read(item.input));
  if (call.kind == CollectiveKind::recv && item.output != kNoValue)
    add(received(item.output, lanes));
  if (shards.empty()) {
    if (reduces(call.kind)) add(to_string(call.reduction));
    for (const std::string& own : own_arguments(item, dims)) add(own);
    if (has_root(call.kind)) add(fmt::format("root={}", call.root));
  } else {
    add(shards);
  }
  const std::string& group = call.group.name();
  if (!group.empty() && group != "world") add("group=" + group_text(group));
  if (item.step && item.step->pieces > 1) add(fmt::format("pieces={}", item.step->pieces));
  return text + ")";
}

// Ranks that only send have no result, and ranks that only receive have no input.
RankStatements RankStatementWriter::transfer(const CallItem& item) const {
  const Lanes from = item.step->from.mesh().ranks(), to = item.step->to.mesh().ranks();
  const std::string shards =
      text_of(*item.step).shards +
      (item.step->pieces > 1 ? fmt::format(", pieces={}", item.step->pieces) : "");
  const std::string input = read(item.input) + ", ", target = bind(item.output) + " = ";
  RankStatements statements;
  const auto add = [&](const Lanes& lanes, const std::string& text, std::vector<ValueId> binds) {
    if (!lanes.empty()) statements.list.push_back({lanes, text, std::move(binds)});
  };
  add(from.minus(to), fmt::format("transfer({}{})", input, shards), {});
  add(from.intersect(to), fmt::format("{}transfer({}{})", target, input, shards), {item.output});
  add(to.minus(from),
      fmt::format("{}transfer({}, dtype={})", target, shards, name(item.step->to.dtype())),
      {item.output});
  return statements;
}

RankStatements RankStatementWriter::calls(const Communicate& call, const Lanes&) const {
  RankStatements statements;
  for (const CallItem& item : call.items) {
    if (item.step && item.step->kind == StepKind::transfer) return transfer(item);
    std::string text = call_text(item, item.lanes);
    // The order of the calls of a rank must stay.
    auto& list = statements.list;
    size_t at = list.size();
    while (at > 0 && list[at - 1].lanes.intersect(item.lanes).empty() && list[at - 1].text != text)
      --at;
    if (at > 0 && list[at - 1].lanes.intersect(item.lanes).empty()) {
      list[at - 1].lanes = list[at - 1].lanes.unite(item.lanes);
      continue;
    }
    const bool target = item.output != kNoValue && !item.in_place;
    list.push_back({item.lanes, std::move(text),
                    target ? std::vector<ValueId>{item.output} : std::vector<ValueId>{},
                    item.origin});
  }
  for (size_t i = 0; i < statements.list.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      statements.group =
          statements.group || !statements.list[i].lanes.intersect(statements.list[k].lanes).empty();
  return statements;
}

}  // namespace shardproof
