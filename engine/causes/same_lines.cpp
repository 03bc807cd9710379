// Implements same_lines.h. The signature of a line is the list of what the instructions of its
// first pass do, without the names of values.
#include "shardproof/engine/causes/same_lines.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <optional>

namespace shardproof {
namespace {

std::string signature_of(const Instr& instr) {
  if (const auto* compute = std::get_if<Compute>(&instr.action)) return compute->op.str();
  if (const auto* number = std::get_if<NumberValue>(&instr.action))
    return fmt::format("{}{}", fmt::join(number->values, " "), fmt::join(number->integers, " "));
  const auto* call = std::get_if<Communicate>(&instr.action);
  if (call == nullptr) return "";
  std::string text;
  for (const CallItem& item : call->items)
    text += fmt::format("{} {} {},", name(item.collective.kind), name(item.collective.reduction.op),
                        item.collective.group.name());
  return text;
}

// Returns the signatures of the lines of a listing.
std::map<int, std::string> signatures_of(const SpmdProgram& program, size_t listing) {
  std::map<int, std::string> lines;
  std::map<int, int> next;  // ordinal of the next instruction of the first pass
  const std::vector<Site> sites = sites_of(program, listing);
  const Instrs& instrs = program.listings[listing].instrs;
  for (size_t i = 0; i < instrs.size(); ++i)
    if (sites[i].ordinal == next[sites[i].line]) {
      ++next[sites[i].line];
      lines[sites[i].line] += signature_of(instrs[i]) + ";";
    }
  return lines;
}

// Returns the lines of a listing with a text.
std::vector<int> lines_with(const SpmdListing& listing, const std::string& text) {
  std::vector<int> lines;
  for (size_t i = 0; i < listing.lines.size(); ++i)
    if (listing.lines[i] == text) lines.push_back(static_cast<int>(i) + 1);
  return lines;
}

std::vector<int> lines_with(const std::map<int, std::string>& signatures, const std::string& text) {
  std::vector<int> lines;
  for (const auto& [line, signature] : signatures)
    if (signature == text) lines.push_back(line);
  return lines;
}

std::optional<int> same_line(const SpmdProgram& program, const Site& site, size_t other) {
  const SpmdListing &own = program.listings[site.listing], &in = program.listings[other];
  if (site.line < 1 || static_cast<size_t>(site.line) > own.lines.size()) return std::nullopt;
  const std::string& text = own.lines[static_cast<size_t>(site.line) - 1];
  const std::vector<int> here = lines_with(own, text), there = lines_with(in, text);
  const auto before = std::find(here.begin(), here.end(), site.line) - here.begin();
  if (static_cast<size_t>(before) < there.size()) return there[static_cast<size_t>(before)];
  const std::map<int, std::string> signatures = signatures_of(program, site.listing);
  const auto signature = signatures.find(site.line);
  if (signature == signatures.end() || lines_with(signatures, signature->second).size() != 1)
    return std::nullopt;
  const std::vector<int> alike = lines_with(signatures_of(program, other), signature->second);
  return alike.size() == 1 ? std::optional(alike[0]) : std::nullopt;
}

const CallItem* single_call_of(const Instr& instr) {
  const auto* call = std::get_if<Communicate>(&instr.action);
  return call != nullptr && call->items.size() == 1 ? &call->items[0] : nullptr;
}

// True if two instructions are calls of one kind, reduction and group.
bool are_like_calls(const Instr& a, const Instr& b) {
  const CallItem *one = single_call_of(a), *other = single_call_of(b);
  return one != nullptr && other != nullptr && signature_of(a) == signature_of(b);
}

}  // namespace

void add_sites_with_name(const SpmdProgram& program, const Site& site,
                         const std::function<bool(const Instr&, const Instr&)>& fits,
                         std::vector<Site>& to) {
  const auto name_of = [&](const Instr& instr) {
    const ValueId id = made_by(instr, 0);
    return id == kNoValue ? "" : program.values[static_cast<size_t>(id)].bound.str();
  };
  const Instr* own = nullptr;
  const std::vector<Site> here = sites_of(program, site.listing);
  if (const auto at = std::find(here.begin(), here.end(), site); at != here.end())
    own = &program.listings[site.listing].instrs[static_cast<size_t>(at - here.begin())];
  if (own == nullptr || name_of(*own).empty()) return;
  for (size_t other = 0; other < program.listings.size(); ++other) {
    const auto is_known = [&](const Site& one) { return one.listing == other; };
    if (other == site.listing || std::any_of(to.begin(), to.end(), is_known)) continue;
    const std::vector<Site> there = sites_of(program, other);
    std::vector<Site> alike;
    for (size_t i = 0; i < there.size(); ++i) {
      const Instr& instr = program.listings[other].instrs[i];
      if (name_of(instr) == name_of(*own) && fits(*own, instr) &&
          std::count(alike.begin(), alike.end(), there[i]) == 0)
        alike.push_back(there[i]);
    }
    if (alike.size() == 1) to.push_back(alike[0]);
  }
}

std::vector<Site> sites_in_other_listings(const SpmdProgram& program, const Site& site) {
  std::vector<Site> found;
  for (size_t other = 0; other < program.listings.size(); ++other)
    if (other != site.listing)
      if (const std::optional<int> line = same_line(program, site, other))
        found.push_back({other, *line, site.ordinal});
  add_sites_with_name(program, site, are_like_calls, found);
  return found;
}

RightChange right_change(const RankCase& about, int number,
                         const std::function<void(Expr&)>& change, const std::vector<int>& axes,
                         Confirmation& confirmation) {
  const std::vector<ListedLine>& line_of = confirmation.text().lines();
  const ListedLine own = line_of.at(static_cast<size_t>(number));
  RightChange right;
  if (confirmation.confirms_job(change_of({number}, change), axes))
    right = {{number}, {own}, confirmation.made_right()};
  if (about.ranks.program.listings.size() == 1) return right;
  std::map<ListedLine, std::vector<int>> numbers;  // of the expressions of a line
  for (size_t i = 0; i < line_of.size(); ++i) numbers[line_of[i]].push_back(static_cast<int>(i));
  const auto index = static_cast<size_t>(
      std::find(numbers[own].begin(), numbers[own].end(), number) - numbers[own].begin());
  std::set<int> all{number};
  std::set<ListedLine> lines{own};
  for (const Site& site :
       sites_in_other_listings(about.ranks.program, {own.listing, own.line, 0})) {
    const ListedLine other{site.listing, site.line};
    if (numbers[other].size() != numbers[own].size()) continue;
    all.insert(numbers[other][index]);
    lines.insert(other);
  }
  if (all.size() > 1 && confirmation.confirms_job(change_of(all, change), axes) &&
      confirmation.made_right().size() > right.made_right.size())
    right = {std::move(all), std::move(lines), confirmation.made_right()};
  return right;
}

RightChange right_changes(const std::set<int>& numbers, const std::function<void(Expr&)>& change,
                          const std::vector<int>& axes, Confirmation& confirmation) {
  if (!confirmation.confirms_job(change_of(numbers, change), axes)) return {};
  RightChange right{numbers, {}, confirmation.made_right()};
  for (const int number : numbers)
    right.lines.insert(confirmation.text().lines().at(static_cast<size_t>(number)));
  return right;
}

std::set<ListedLine> lines_of(const Edit& edit) {
  std::set<ListedLine> lines{{edit.site.listing, edit.site.line}};
  for (const Site& site : edit.also) lines.insert({site.listing, site.line});
  return lines;
}

}  // namespace shardproof
