// Tests the data that instructions of an unrolled loop share, so that a pass takes little memory.
// Tests that a program lowered before the check runs like one that the check lowers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "shardproof/engine/check/check.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::unrolled_program_test {
namespace {

Job loop_on_ranks(const std::vector<std::string>& lines) {
  Job job = job_of("dp=4", {});
  add_input(job, "x", Dims{4}, "dp:S(0)");
  add_input(job, "w", Dims{1});
  add_ranks(job, "all", Lanes::range(0, 4), lines);
  return job;
}

RankProgram lowered(const std::vector<std::string>& lines) {
  return lower_ranks(loop_on_ranks(lines), builtin_registries().ops);
}

std::vector<const Compute*> computes_of(const SpmdProgram& program) {
  std::vector<const Compute*> all;
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (const auto* compute = std::get_if<Compute>(&instr.action)) all.push_back(compute);
  return all;
}

TEST(UnrolledLoop, Passes_ShareTextsAttributesAndShapes) {
  const RankProgram ranks = lowered({"for k in range(5):", "  x = x + w"});
  std::set<const void*> ops, attrs, streams, shapes, names;
  for (const Compute* compute : computes_of(ranks.program)) {
    ops.insert(&compute->op.str());
    attrs.insert(compute->attrs.at(0).attrs.identity());
    for (const ValueId id : compute->outputs) {
      const SpmdValue& value = ranks.program.values[static_cast<size_t>(id)];
      shapes.insert(&value.shapes.list());
      names.insert(&value.bound.str());
    }
  }
  for (const Instr& instr : ranks.program.listings.at(0).instrs)
    streams.insert(&instr.stream.str());
  for (const std::set<const void*>* shared : {&ops, &attrs, &streams, &shapes, &names})
    EXPECT_EQ(shared->size(), 1u);
}

TEST(UnrolledLoop, EverythingOfOnePass_SharesItsText) {
  const RankProgram ranks = lowered({"for k in range(5):", "  y = x + w", "  x = y * w"});
  std::map<std::string, std::set<const void*>> texts;
  for (const Instr& instr : ranks.program.listings.at(0).instrs)
    texts[instr.origin.instance].insert(&instr.origin.instance.str());
  for (const SpmdValue& value : ranks.program.values)
    if (value.origin.line != 0) texts[value.origin.instance].insert(&value.origin.instance.str());
  EXPECT_EQ(texts.size(), 5u);
  for (const auto& [text, places] : texts) EXPECT_EQ(places.size(), 1u) << text;
}

TEST(UnrolledLoop, Pass_IsOneInstruction_ThatFreesTheOldValue) {
  const RankProgram ranks = lowered({"for k in range(5):", "  x = x + w"});
  const Instrs& instrs = ranks.program.listings.at(0).instrs;
  ASSERT_EQ(instrs.size(), 5u);
  for (const Instr& instr : instrs)
    EXPECT_EQ(instr.releases, std::vector{std::get<Compute>(instr.action).inputs.at(0)});
  EXPECT_NE(fmt::format("{}", fmt::join(to_lines(ranks.program), "\n")).find("free(x"),
            std::string::npos);
}

TEST(UnrolledLoop, KeptValue_IsFreedByAnInstructionOfItsOwn) {
  const RankProgram ranks = lowered({"on side:", "  y = x + w", "keep(x, side)", "x = x * w"});
  const Instrs& instrs = ranks.program.listings.at(0).instrs;
  EXPECT_EQ(
      std::count_if(instrs.begin(), instrs.end(),
                    [](const Instr& instr) { return std::holds_alternative<Free>(instr.action); }),
      1);
}

// Bytes of one pass: a Compute, which also frees the old value, and the new value.
TEST(UnrolledLoop, Pass_TakesFewBytes) {
  EXPECT_LE(sizeof(Instr), 216u);
  EXPECT_LE(sizeof(SpmdValue), 144u);
}

TEST(UnrolledLoop, AttributesThatDifferInTheSignOfZero_AreNotShared) {
  const RankProgram ranks =
      lowered({"a = pad(x, [1, 1], value=0.0)", "b = pad(x, [1, 1], value=-0.0)"});
  const std::vector<const Compute*> computes = computes_of(ranks.program);
  ASSERT_EQ(computes.size(), 2u);
  EXPECT_NE(to_string(computes[0]->attrs.at(0).attrs), to_string(computes[1]->attrs.at(0).attrs));
}

std::string text_of(const Outcome& outcome) {
  std::string text = fmt::format("compared {}\n", outcome.values_compared);
  for (const Finding& finding : outcome.findings) text += to_string(finding) + "\n";
  for (const CallCount& call : outcome.calls)
    text += fmt::format("{} {} {} {}\n", call.kind, to_string(call.lanes), call.count,
                        to_string(call.bytes));
  for (const auto& [name, info] : outcome.values)
    for (const auto& copy : info.copies)
      text += fmt::format("{} {}\n", name, fmt::join(values_of(copy.tensor), " "));
  return text;
}

TEST(LoweredBefore, Check_FindsTheSame_InEveryOrderOfReduction) {
  const std::vector<std::vector<std::string>> programs = {
      {"for k in range(3):", "  x = all_reduce(x + w, sum, group=dp)"},
      {"y = all_reduce(x, sum, group=dp)", "if rank > 0:", "  z = all_reduce(y, max, group=dp)"}};
  for (const std::vector<std::string>& lines : programs)
    for (const char* order : {"rank", "ring"}) {
      Job job = loop_on_ranks(lines);
      job.keep = {"x", "y"};
      job.order = parse_reduction_schedule(order);
      const auto before = lower_rank_programs(job, builtin_registries());
      ASSERT_NE(before, nullptr);
      EXPECT_EQ(text_of(check(job, builtin_registries(), before)),
                text_of(check(job, builtin_registries())));
      EXPECT_EQ(to_lines(before->program),
                to_lines(lower_ranks(job, builtin_registries().ops).program));
    }
}

TEST(LoweredBefore, GlobalProgram_IsNone) {
  Job job = job_of("dp=4", {"y = x + 1"});
  add_input(job, "x", Dims{4}, "dp:S(0)");
  EXPECT_EQ(lower_rank_programs(job, builtin_registries()), nullptr);
}

}  // namespace
}  // namespace shardproof::testing::unrolled_program_test
