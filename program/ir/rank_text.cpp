// Implements rank_text.h.
//
// 1. Each listing is cut by mesh.
// 2. Its instructions become statements (rank_statement.h), each with the blocks around it: the
//    ranks that run it, its stream, its group.
// 3. Loops are found and values named (name_lines.h).
#include "shardproof/program/ir/rank_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/program/ir/name_lines.h"
#include "shardproof/program/ir/rank_choice.h"
#include "shardproof/program/ir/rank_statement.h"

namespace shardproof {
namespace {

constexpr size_t kMostShapes = 4;  // of a value; more are counted

std::set<std::string> reserved_names(const SpmdListing& listing, const RankTextOptions& options) {
  std::set<std::string> names = options.reserved;
  for (const auto& [key, mesh] : options.meshes) {
    names.insert(key);
    for (const MeshAxis& axis : mesh.axes()) names.insert(axis.name);
  }
  for (const Instr& instr : listing.instrs) {
    names.insert(instr.stream);
    if (const auto* record = std::get_if<RecordEvent>(&instr.action)) names.insert(record->event);
    if (const auto* call = std::get_if<Communicate>(&instr.action))
      for (const CallItem& item : call->items) names.insert(item.collective.group.name());
  }
  return names;
}

// Returns disjoint sets of a listing's ranks such that each instruction runs on whole sets: the
// ranks of each mesh. If some instruction does not, returns all ranks as one set.
std::vector<Lanes> parts_of(const SpmdListing& listing, const NamedMeshes& meshes) {
  std::vector<Lanes> parts{listing.lanes};
  for (const auto& [key, mesh] : meshes) {
    std::vector<Lanes> finer;
    for (const Lanes& part : parts)
      for (const Lanes& cut : {part.intersect(mesh.ranks()), part.minus(mesh.ranks())})
        if (!cut.empty()) finer.push_back(cut);
    parts = std::move(finer);
  }
  for (const Instr& instr : listing.instrs)
    for (const Lanes& part : parts)
      if (const Lanes cut = part.intersect(instr.lanes); !cut.empty() && !(cut == part))
        return {listing.lanes};
  return parts;
}

class ListingWriter {
 public:
  ListingWriter(const SpmdProgram& program, const SpmdListing& listing, Lanes lanes,
                const RankTextOptions& options)
      : program_(program),
        listing_(listing),
        lanes_(std::move(lanes)),
        options_(options),
        writer_(program, options.meshes, listing.instrs) {}
  RankText text();

 private:
  void add(const Instr& instr);
  Lanes held_at_end(const Lanes& lanes, ValueId id) const;
  std::string remark_of(const RankStatement& statement, const Lanes& here) const;
  LineValues line_values() const;
  std::vector<NameAtEnd> names_at_end() const;

  const SpmdProgram& program_;
  const SpmdListing& listing_;
  Lanes lanes_;
  const RankTextOptions& options_;
  RankStatementWriter writer_;
  std::vector<PrintedLine> lines_;
  std::set<ValueId> bound_here_;
  std::map<ValueId, Lanes> freed_;  // ranks that have freed the value
  size_t groups_ = 0;
};

std::string ListingWriter::remark_of(const RankStatement& statement, const Lanes& here) const {
  std::string remark;
  for (const ValueId id : statement.binds)
    remark +=
        (remark.empty() ? "" : "; ") + value_remark(program_.values[static_cast<size_t>(id)], here);
  return remark;
}

void ListingWriter::add(const Instr& instr) {
  if (const auto* free = std::get_if<Free>(&instr.action))
    freed_[free->value] = freed_[free->value].unite(instr.lanes);
  RankStatements statements = writer_.statements(instr);
  Lanes all;
  for (const RankStatement& statement : statements.list)
    all = all.unite(statement.lanes.intersect(lanes_));
  if (all.empty()) return;
  std::vector<std::string> blocks;
  if (statements.group && !(all == lanes_))
    blocks.push_back("if " + condition_text(all, lanes_, options_.meshes));
  if (instr.stream != "main") blocks.push_back("on " + instr.stream.str());
  if (statements.group) blocks.push_back(begin_block("group", groups_++));
  for (RankStatement& statement : statements.list) {
    const Lanes here = statement.lanes.intersect(lanes_);
    if (here.empty()) continue;
    const Lanes& around = statements.group ? all : lanes_;
    PrintedLine line{blocks, std::move(statement.text), remark_of(statement, here),
                     statement.origin.line > 0 ? statement.origin : instr.origin};
    if (!(here == around)) {
      const std::string block = "if " + condition_text(here, around, options_.meshes);
      // A stream cannot begin inside a group, so that an `if` around all its calls is outside it.
      line.blocks.insert(statements.group ? line.blocks.end() : line.blocks.begin(), block);
    }
    bound_here_.insert(statement.binds.begin(), statement.binds.end());
    lines_.push_back(std::move(line));
  }
}

LineValues ListingWriter::line_values() const {
  LineValues values;
  values.reserved = reserved_names(listing_, options_);
  values.inputs = program_.inputs;
  values.bound.resize(program_.values.size());
  for (const ValueId id : program_.inputs) {
    const size_t at = static_cast<size_t>(id);
    values.bound[at] = program_.values[at].bound;
  }
  for (const ValueId id : bound_here_) {
    const size_t at = static_cast<size_t>(id);
    values.bound[at] = program_.values[at].bound;
  }
  for (const auto& [name, parts] : options_.at_end)
    for (const auto& [lanes, id] : parts)
      if (!held_at_end(lanes, id).empty()) values.read_at_end.insert(id);
  return values;
}

Lanes ListingWriter::held_at_end(const Lanes& lanes, ValueId id) const {
  const Lanes here = lanes.intersect(lanes_);
  const auto freed = freed_.find(id);
  return freed == freed_.end() ? here : here.minus(freed->second);
}

std::vector<NameAtEnd> ListingWriter::names_at_end() const {
  std::vector<NameAtEnd> names;
  for (const auto& [name, parts] : options_.at_end)
    for (const auto& [lanes, id] : parts) {
      const Lanes here = held_at_end(lanes, id);
      const bool bound =
          bound_here_.contains(id) ||
          std::find(program_.inputs.begin(), program_.inputs.end(), id) != program_.inputs.end();
      if (here.empty() || !bound) continue;
      const std::string condition =
          here == lanes_ ? "" : "if " + condition_text(here, lanes_, options_.meshes) + ": ";
      names.push_back({name, id, condition});
    }
  return names;
}

RankText ListingWriter::text() {
  lines_.reserve(listing_.instrs.size());
  for (const Instr& instr : listing_.instrs) {
    add(instr);
    for (const ValueId id : instr.releases)
      if (!program_.values[static_cast<size_t>(id)].bound.empty())
        add({instr.lanes, instr.stream, Free{id}, {}, instr.origin});
  }
  NamedLines named = name_lines(std::move(lines_), line_values());
  bind_names_at_end(names_at_end(), named);
  return {lanes_, std::move(named.lines)};
}

}  // namespace

std::string value_remark(const SpmdValue& value, const Lanes& lanes) {
  std::string text;
  if (value.spec) text.append(placements_text(*value.spec)).append("  ");
  text += name(value.dtype);
  if (value.shapes.size() == 1 && !value.shapes[0].lanes.intersect(lanes).empty())
    return text.append(" ").append(to_string(value.shapes[0].shape));
  std::vector<LocalShape> shapes;
  for (const LocalShape& local : value.shapes) {
    const Lanes here = local.lanes.intersect(lanes);
    if (here.empty()) continue;
    const auto same = std::find_if(shapes.begin(), shapes.end(),
                                   [&](const LocalShape& s) { return s.shape == local.shape; });
    if (same == shapes.end())
      shapes.push_back({here, local.shape});
    else
      same->lanes = same->lanes.unite(here);
  }
  if (shapes.size() == 1) return text + " " + to_string(shapes[0].shape);
  const size_t shown = shapes.size() <= kMostShapes + 1 ? shapes.size() : kMostShapes;
  for (size_t i = 0; i < shown; ++i)
    text += fmt::format("{} {} on {}", i == 0 ? "" : ",", to_string(shapes[i].shape),
                        to_string(shapes[i].lanes));
  if (shapes.size() > shown) text += fmt::format(", {} more shapes", shapes.size() - shown);
  return text;
}

std::vector<RankText> rank_texts(const SpmdProgram& program, const RankTextOptions& options) {
  std::vector<RankText> texts;
  for (const SpmdListing& listing : program.listings) {
    if (listing.lanes.empty()) continue;
    for (const Lanes& part : parts_of(listing, options.meshes))
      texts.push_back(ListingWriter(program, listing, part, options).text());
  }
  return texts;
}

}  // namespace shardproof
