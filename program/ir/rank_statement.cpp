// Implements rank_statement.h; the calls are in rank_statement_calls.cpp.
#include "shardproof/program/ir/rank_statement.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/printed_line.h"
#include "shardproof/program/ir/rank_choice.h"
#include "shardproof/program/ir/step_text.h"

namespace shardproof {
namespace {

std::vector<std::string> number_texts(const NumberValue& number, DType dtype) {
  std::vector<std::string> texts;
  for (const int64_t value : number.integers)
    texts.push_back(dtype == DType::boolean ? to_string(Number(value != 0))
                                            : to_string(Number(value)));
  for (const double value : number.values)
    if (number.integers.empty()) texts.push_back(to_string(Number(value)));
  return texts;
}

bool all_equal(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const auto& text) { return text == texts[0]; });
}

}  // namespace

RankStatementWriter::RankStatementWriter(const SpmdProgram& program, const NamedMeshes& meshes,
                                         const Instrs& instrs)
    : program_(program), meshes_(meshes) {
  for (const Instr& instr : instrs)
    if (const NumberValue* number = std::get_if<NumberValue>(&instr.action)) {
      const std::vector<std::string> texts = number_texts(*number, value(number->output).dtype);
      SP_CHECK(!texts.empty(), "number {} has no value", value(number->output).name);
      if (all_equal(texts)) inline_numbers_[number->output] = texts[0];
    }
}

const SpmdValue& RankStatementWriter::value(ValueId id) const {
  SP_CHECK(id >= 0 && static_cast<size_t>(id) < program_.values.size(), "value {} of {}", id,
           program_.values.size());
  return program_.values[static_cast<size_t>(id)];
}

std::string RankStatementWriter::read(ValueId id) const {
  if (id == kNoValue) return "None";
  const auto number = inline_numbers_.find(id);
  return number != inline_numbers_.end() ? number->second : mark_value(id, false);
}

std::string RankStatementWriter::bind(ValueId id) const { return mark_value(id, true); }

RankStatements RankStatementWriter::number(const NumberValue& number, const Lanes& lanes) const {
  if (is_written_inline(number.output)) return {};
  const std::vector<std::string> texts = number_texts(number, value(number.output).dtype);
  const std::string text =
      fmt::format("{} = {}", bind(number.output), choice_text(lanes, texts, meshes_));
  return {{{lanes, text, {}}}};
}

RankStatements RankStatementWriter::compute(const Compute& compute, const Lanes& lanes) const {
  std::vector<ValueId> inputs = compute.inputs;
  while (!inputs.empty() && inputs.back() == kNoValue) inputs.pop_back();
  std::vector<std::string> reads, targets;
  for (const ValueId id : inputs) reads.push_back(read(id));
  for (const ValueId id : compute.outputs) targets.push_back(bind(id));
  std::string shards;
  if (compute.specs)
    shards = fmt::format("shards='{}'",
                         shards_text(compute.specs->inputs, compute.specs->outputs, meshes_));
  RankStatements statements;
  const auto add = [&](const Lanes& here, const Attrs& attrs) {
    std::vector<std::string> arguments = reads;
    if (const std::string text = to_string(attrs); !text.empty()) arguments.push_back(text);
    if (!shards.empty()) arguments.push_back(shards);
    std::string call = fmt::format("{}({})", compute.op, comma_list(arguments));
    if (compute.into == kNoValue) {
      statements.list.push_back({here, comma_list(targets) + " = " + call, compute.outputs});
      return;
    }
    // A write in place casts to the dtype of its target.
    if (compute.op == "cast") call = reads.at(0);
    if (compute.inputs.at(0) == compute.into && shards.empty())
      call = fmt::format("{}_({})", compute.op, comma_list(arguments));
    else
      call = fmt::format("copy_({}, {})", read(compute.into), call);
    statements.list.push_back({here, std::move(call), {}});
  };
  for (const LaneAttrs& entry : compute.attrs)
    if (const Lanes here = entry.lanes.intersect(lanes); !here.empty()) add(here, entry.attrs);
  if (compute.attrs.empty()) add(lanes, {});
  return statements;
}

struct RankStatementWriter::Writer {
  const RankStatementWriter& self;
  const Lanes& lanes;

  RankStatements one(std::string text, std::vector<ValueId> binds = {}) const {
    return {{{lanes, std::move(text), std::move(binds)}}};
  }
  RankStatements operator()(const Compute& action) const { return self.compute(action, lanes); }
  RankStatements operator()(const NumberValue& action) const { return self.number(action, lanes); }
  RankStatements operator()(const Communicate& action) const { return self.calls(action, lanes); }
  RankStatements operator()(const Reshuffle& action) const {
    const StepText& step = self.text_of(*action.step);
    return one(fmt::format("{} = {}({}, {})", self.bind(action.output), step.verb,
                           self.read(action.input), step.shards),
               {action.output});
  }
  RankStatements operator()(const Merge& action) const {
    RankStatements statements;
    for (const auto& [ranks, id] : action.parts)
      if (const Lanes here = ranks.intersect(lanes); !here.empty())
        statements.list.push_back({here,
                                   fmt::format("{} = {}", self.bind(action.output), self.read(id)),
                                   {action.output}});
    return statements;
  }
  RankStatements operator()(const SlotRead& action) const {
    return one(fmt::format("{} = slot({}, {})", self.bind(action.output), action.slot,
                           self.received(action.output, lanes)),
               {action.output});
  }
  RankStatements operator()(const Snapshot& action) const {
    const std::string placed = action.placed.empty() ? "" : ", " + action.placed;
    return one(fmt::format("check({}, '{}'{})", self.read(action.input), action.name, placed));
  }
  RankStatements operator()(const RecordEvent& action) const {
    return one(action.event + " = record()");
  }
  RankStatements operator()(const Wait& action) const {
    if (self.is_written_inline(action.value)) return {};
    const std::string what =
        action.value != kNoValue ? self.read(action.value) : action.event + action.stream;
    return one(fmt::format("{}({})", action.who == Wait::Waiter::host ? "sync" : "wait", what));
  }
  RankStatements operator()(const Free& action) const {
    if (self.is_written_inline(action.value)) return {};
    return one(fmt::format("free({})", self.read(action.value)));
  }
  RankStatements operator()(const Keep& action) const {
    if (self.is_written_inline(action.value)) return {};
    return one(fmt::format("keep({}, {})", self.read(action.value), action.stream));
  }
};

RankStatements RankStatementWriter::statements(const Instr& instr) const {
  return std::visit(Writer{*this, instr.lanes}, instr.action);
}

}  // namespace shardproof
