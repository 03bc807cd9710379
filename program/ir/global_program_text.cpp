// Implements the text form of global_program.h, and global_text.h.
//
// A name that is bound again becomes w_1, w_2, ...; temporaries are _1, _2, ... (value_names.h).
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/global_text.h"
#include "shardproof/program/ir/name_lines.h"
#include "shardproof/program/ir/value_names.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/value/quantity.h"

namespace shardproof {
namespace {

// Prints instructions with marks in place of values (printed_line.h).
class GlobalPrinter {
 public:
  explicit GlobalPrinter(const GlobalProgram& program);
  std::string line(const GlobalInstr& instr) const;
  // True for a value that no line binds: a number, or one inside the expression that uses it.
  bool has_name(ValueId id) const {
    return !program_.values[static_cast<size_t>(id)].weak && !inside_.contains(id);
  }
  std::string targets(const GlobalInstr& instr) const;
  std::string op_call(const GlobalInstr& instr) const;

 private:
  std::string value(ValueId id) const;

  const GlobalProgram& program_;
  // Values computed on local shards and used once. They are printed inside the expression that uses
  // them, so that the `as` at its end applies to them too.
  std::map<ValueId, const GlobalInstr*> inside_;
};

GlobalPrinter::GlobalPrinter(const GlobalProgram& program) : program_(program) {
  std::vector<int> uses(program.values.size());
  for (const GlobalInstr& instr : program.instrs)
    for (const ValueId id : instr.inputs)
      if (id != kNoValue) ++uses[static_cast<size_t>(id)];
  for (const GlobalInstr& instr : program.instrs)
    if (instr.local && instr.outputs.size() == 1 &&
        uses[static_cast<size_t>(instr.outputs[0])] == 1)
      inside_.emplace(instr.outputs[0], &instr);
}

std::string GlobalPrinter::value(ValueId id) const {
  if (id == kNoValue) return "None";
  SP_CHECK(id >= 0 && static_cast<size_t>(id) < program_.values.size(), "value {} of {}", id,
           program_.values.size());
  const GlobalValue& value = program_.values[static_cast<size_t>(id)];
  if (const auto found = inside_.find(id); found != inside_.end()) return op_call(*found->second);
  return value.weak ? to_string(value.number) : mark_value(id, false);
}

std::string GlobalPrinter::targets(const GlobalInstr& instr) const {
  std::string text;
  for (const ValueId id : instr.outputs) text += (text.empty() ? "" : ", ") + mark_value(id, true);
  return text.empty() ? text : text + " = ";
}

std::string GlobalPrinter::op_call(const GlobalInstr& instr) const {
  std::vector<ValueId> inputs = instr.inputs;
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  std::string arguments;
  for (const ValueId id : inputs) arguments += (arguments.empty() ? "" : ", ") + value(id);
  const std::string attrs = to_string(instr.attrs);
  if (!attrs.empty()) arguments += (arguments.empty() ? "" : ", ") + attrs;
  return fmt::format("{}({})", instr.op, arguments);
}

std::string GlobalPrinter::line(const GlobalInstr& instr) const {
  if (instr.kind == GlobalKind::op) {
    if (!instr.outputs.empty() && inside_.contains(instr.outputs[0])) return "";
    return targets(instr) + op_call(instr) + (instr.local ? " as local" : "");
  }
  SP_CHECK(instr.inputs.size() == 1, "{} inputs of a redistribution", instr.inputs.size());
  const std::string input = value(instr.inputs.front());
  if (instr.kind == GlobalKind::redistribute && instr.like == kNoValue && instr.mesh.empty() &&
      instr.placements.empty())
    return targets(instr) + input;
  if (instr.kind == GlobalKind::claim && instr.like == kNoValue)
    return fmt::format("{}{} as {}", targets(instr), input, to_string(instr.placements));
  std::string arguments = input;
  if (!instr.mesh.empty()) arguments += ", mesh=" + instr.mesh;
  if (instr.like != kNoValue)
    arguments += fmt::format(", {}={}", instr.dual ? "dual" : "like", value(instr.like));
  else if (!instr.placements.empty())
    arguments += ", " + to_string(instr.placements);
  if (instr.peak_limit)
    arguments +=
        fmt::format(", peak_limit='{}'", to_string(Quantity{Unit::bytes, *instr.peak_limit}));
  std::string text = targets(instr);
  text.append(instr.kind == GlobalKind::claim ? "relabel(" : "redistribute(");
  return text.append(arguments).append(")");
}

LineValues line_values(const GlobalProgram& program, const GlobalPrinter& printer) {
  LineValues values;
  values.bound.reserve(program.values.size());
  for (size_t id = 0; id < program.values.size(); ++id)
    values.bound.push_back(printer.has_name(static_cast<ValueId>(id)) ? program.values[id].name
                                                                      : "");
  values.inputs = program.inputs;
  for (const auto& [name, id] : program.names) values.read_at_end.insert(id);
  return values;
}

class GlobalWriter {
 public:
  GlobalWriter(const GlobalProgram& program, const GlobalTextOptions& options)
      : program_(program), options_(options), printer_(program) {}
  std::vector<ListingLine> lines();

 private:
  void add(const GlobalInstr& instr);
  void add_states(const GlobalInstr& instr, PrintedLine line);
  std::string remarks(const GlobalInstr& instr) const;

  const GlobalProgram& program_;
  const GlobalTextOptions& options_;
  GlobalPrinter printer_;
  std::vector<PrintedLine> lines_;
  std::vector<ValueId> unplaced_;  // of states, as the op gives them
};

std::string GlobalWriter::remarks(const GlobalInstr& instr) const {
  std::string text;
  for (const ValueId id : instr.outputs) {
    const std::string remark = options_.remark ? options_.remark(id) : "";
    if (!remark.empty()) text += (text.empty() ? "" : "; ") + remark;
  }
  return text;
}

// "w = w - g" becomes "_1 = sub(w, g)" and "w_1 = redistribute(_1, like=w)".
void GlobalWriter::add_states(const GlobalInstr& instr, PrintedLine line) {
  const ValueId first = static_cast<ValueId>(program_.values.size() + unplaced_.size());
  std::string targets;
  std::vector<PrintedLine> moves;
  for (size_t o = 0; o < instr.outputs.size(); ++o) {
    const ValueId id = instr.outputs[o];
    const ValueId state = program_.values[static_cast<size_t>(id)].state_of;
    const ValueId made = state == kNoValue ? id : first + static_cast<ValueId>(moves.size());
    targets += (targets.empty() ? "" : ", ") + mark_value(made, true);
    if (state == kNoValue) continue;
    unplaced_.push_back(made);
    PrintedLine move = line;
    move.text = fmt::format("{} = redistribute({}, like={})", mark_value(id, true),
                            mark_value(made, false), mark_value(state, false));
    moves.push_back(std::move(move));
  }
  line.text = fmt::format("{} = {}", targets, printer_.op_call(instr));
  line.remarks.clear();
  lines_.push_back(std::move(line));
  lines_.insert(lines_.end(), moves.begin(), moves.end());
}

void GlobalWriter::add(const GlobalInstr& instr) {
  PrintedLine line;
  line.text = printer_.line(instr);
  line.remarks = remarks(instr);
  line.origin = instr.origin;
  if (line.text.empty()) return;
  const bool state = std::any_of(instr.outputs.begin(), instr.outputs.end(), [&](ValueId id) {
    return program_.values[static_cast<size_t>(id)].state_of != kNoValue;
  });
  if (state) return add_states(instr, std::move(line));
  lines_.push_back(std::move(line));
}

std::vector<ListingLine> GlobalWriter::lines() {
  lines_.reserve(program_.instrs.size());
  for (const GlobalInstr& instr : program_.instrs) add(instr);
  LineValues values = line_values(program_, printer_);
  values.bound.resize(values.bound.size() + unplaced_.size());
  values.reserved = options_.reserved;
  NamedLines named = name_lines(std::move(lines_), values);
  std::vector<NameAtEnd> ends;
  for (const auto& [name, id] : program_.names) ends.push_back({name, id});
  bind_names_at_end(ends, named);
  return std::move(named.lines);
}

}  // namespace

std::vector<ListingLine> global_text(const GlobalProgram& program,
                                     const GlobalTextOptions& options) {
  return GlobalWriter(program, options).lines();
}

std::vector<std::string> to_lines(const GlobalProgram& program) {
  const GlobalPrinter printer(program);
  const LineValues values = line_values(program, printer);
  ValueNames names;
  for (const std::string& name : values.bound) names.reserve(name);
  std::map<ValueId, std::string> known;
  for (const ValueId id : program.inputs)
    known[id] = names.next(program.values[static_cast<size_t>(id)].name);
  const auto name_of = [&](ValueId id, bool) {
    const auto [found, fresh] = known.try_emplace(id);
    if (fresh) found->second = names.next(values.bound[static_cast<size_t>(id)]);
    return found->second;
  };
  std::vector<std::string> lines;
  for (const GlobalInstr& instr : program.instrs) {
    const std::string line = named_text(printer.line(instr), name_of);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace shardproof
