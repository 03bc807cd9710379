// Implements the text form of global_program.h.
#include <fmt/format.h>

#include <set>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/program/value/names.h"

namespace shardproof {
namespace {

// Gives each value a name of its own: a name that is bound again becomes w_2, w_3, ...; temporaries
// are _1, _2, ...
class GlobalPrinter {
 public:
  explicit GlobalPrinter(const GlobalProgram& program);
  std::string line(const GlobalInstr& instr) const;

 private:
  std::string value(ValueId id) const;
  std::string targets(const GlobalInstr& instr) const;
  std::string op_call(const GlobalInstr& instr) const;

  const GlobalProgram& program_;
  std::vector<std::string> names_;
  // Values computed on local shards and used once. They are printed inside the expression that uses
  // them, so that the `as` at its end applies to them too.
  std::map<ValueId, const GlobalInstr*> inside_;
};

GlobalPrinter::GlobalPrinter(const GlobalProgram& program) : program_(program) {
  std::map<ValueId, int> uses;
  for (const GlobalInstr& instr : program.instrs)
    for (const ValueId id : instr.inputs) ++uses[id];
  for (const GlobalInstr& instr : program.instrs)
    if (instr.local && instr.outputs.size() == 1 && uses[instr.outputs[0]] == 1)
      inside_.emplace(instr.outputs[0], &instr);
  std::set<std::string> taken;
  for (const GlobalValue& value : program.values) taken.insert(value.name);
  std::set<std::string> used;
  std::map<std::string, int> bindings;
  for (const GlobalValue& value : program.values) {
    std::string name = value.name;
    // A number is printed where it is used and needs no name.
    if (value.weak || inside_.contains(static_cast<ValueId>(names_.size()))) {
      names_.emplace_back();
      continue;
    }
    if (name.empty() || !used.insert(name).second) {
      int& count = bindings[value.name];
      // The first binding has the plain name, so the next one is number 2.
      if (!value.name.empty() && count == 0) count = 1;
      do {
        name = fmt::format("{}_{}", value.name, ++count);
      } while (!taken.insert(name).second);
    }
    names_.push_back(std::move(name));
  }
}

std::string GlobalPrinter::value(ValueId id) const {
  if (id == kNoValue) return "None";
  SP_CHECK(id >= 0 && static_cast<size_t>(id) < names_.size(), "value {} of {}", id, names_.size());
  const GlobalValue& value = program_.values[static_cast<size_t>(id)];
  if (const auto found = inside_.find(id); found != inside_.end()) return op_call(*found->second);
  return value.weak ? to_string(value.number) : names_[static_cast<size_t>(id)];
}

std::string GlobalPrinter::targets(const GlobalInstr& instr) const {
  std::string text;
  for (const ValueId id : instr.outputs) text += (text.empty() ? "" : ", ") + value(id);
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
    return targets(instr) + op_call(instr) + (instr.local ? "  # on local shards" : "");
  }
  SP_CHECK(instr.inputs.size() == 1, "{} inputs of a redistribution", instr.inputs.size());
  const std::string input = value(instr.inputs.front());
  std::string placements = to_string(instr.placements);
  if (instr.like != kNoValue)
    placements = fmt::format("{}={}", instr.dual ? "dual" : "like", value(instr.like));
  if (instr.kind == GlobalKind::redistribute && instr.mesh.empty() && placements.empty())
    return targets(instr) + input;
  if (instr.kind == GlobalKind::claim)
    return fmt::format("{}{} as {}", targets(instr), input, placements);
  std::string arguments = input;
  if (!instr.mesh.empty()) arguments += ", mesh=" + instr.mesh;
  if (!placements.empty()) arguments += ", " + placements;
  return fmt::format("{}redistribute({})", targets(instr), arguments);
}

}  // namespace

std::vector<std::string> to_lines(const GlobalProgram& program) {
  const GlobalPrinter printer(program);
  std::vector<std::string> lines;
  for (const GlobalInstr& instr : program.instrs) lines.push_back(printer.line(instr));
  return lines;
}

}  // namespace shardproof
