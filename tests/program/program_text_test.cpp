// Tests the text of global and SPMD programs against approved files, and effects_of.
#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/syntax/ast.h"
#include "shardproof/tests/approval.h"

namespace shardproof::program_text_test {
namespace {

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

ValueId add(GlobalProgram& program, const std::string& name) {
  program.values.push_back({name, DType::f32, Dims{4, 4}, false, Number(), {}});
  return static_cast<ValueId>(program.values.size()) - 1;
}

ValueId add_op(GlobalProgram& program, const std::string& name, const std::string& op, Attrs attrs,
               std::vector<ValueId> inputs) {
  GlobalInstr instr;
  instr.op = op;
  instr.attrs = std::move(attrs);
  instr.inputs = std::move(inputs);
  instr.outputs = {add(program, name)};
  program.instrs.push_back(std::move(instr));
  return program.instrs.back().outputs[0];
}

GlobalProgram sample_global_program() {
  GlobalProgram program;
  const ValueId x = add(program, "x"), w = add(program, "w");
  const ValueId two = add(program, "");
  program.values.back().weak = true;
  program.values.back().number = Number(0.5);
  const ValueId product = add_op(program, "", "matmul", {}, {x, w});
  program.instrs.back().local = true;
  GlobalInstr claim;
  claim.kind = GlobalKind::claim;
  claim.inputs = {product};
  claim.outputs = {add(program, "p")};
  claim.placements = parse_placements("tp:P(sum)");
  program.instrs.push_back(claim);
  GlobalInstr move;
  move.kind = GlobalKind::redistribute;
  move.inputs = claim.outputs;
  move.outputs = {add(program, "p")};
  move.placements = parse_placements("dp:S(0, after=tp) tp:R");
  move.mesh = "dec";
  program.instrs.push_back(move);
  const ValueId scaled = add_op(program, "p_2", "mul", {}, {move.outputs[0], two});
  add_op(program, "w", "rms_norm", {{"eps", 1e-5}, {"shape", std::vector<int64_t>{4, -1}}},
         {scaled, kNoValue});
  add_op(program, "", "cross_entropy",
         {{"ignore_index", int64_t{-100}},
          {"reduction", std::string("mean")},
          {"to", DType::bf16},
          {"keepdim", true},
          {"dim", std::monostate()}},
         {scaled, kNoValue, w});
  GlobalInstr pair;
  pair.op = "topk";
  pair.inputs = {scaled};
  pair.outputs = {add(program, "v"), add(program, "w")};
  program.instrs.push_back(pair);
  return program;
}

TEST(PrintGlobal, Approved) {
  const std::vector<std::string> lines = to_lines(sample_global_program());
  expect_approved("program/global_program", joined(lines));
  const Listing parsed = parse_listing(lines);
  // An op on local shards is printed in the line of its claim.
  EXPECT_EQ(parsed.statements.size() + 1, lines.size());
  EXPECT_EQ(lines[0], "");
  EXPECT_TRUE(without_positions(parse_listing(to_lines(parsed))) == without_positions(parsed));
}

class SpmdSample {
 public:
  SpmdProgram program;
  Lanes all = Lanes::range(0, 4);
  Mesh mesh = Mesh::parse("dp=2, tp=2");
  Group tp = Group::of_axes(mesh, {1});

  SpmdSample() {
    program.world = 4;
    program.listings.push_back({all, {}, {}, ""});
  }
  ValueId value(const std::string& name, DType dtype = DType::f32) {
    SpmdValue value;
    value.name = name;
    value.bound = name[0] == '_' ? "" : name;
    value.dtype = dtype;
    value.shapes = {{all, Dims{2, 8}}};
    program.values.push_back(std::move(value));
    return static_cast<ValueId>(program.values.size()) - 1;
  }
  void add(Action action, const std::string& stream = "main", Lanes lanes = Lanes::range(0, 4)) {
    Instr instr;
    instr.lanes = std::move(lanes);
    instr.stream = stream;
    instr.action = std::move(action);
    program.listings[0].instrs.push_back(std::move(instr));
  }
  CallItem item(CollectiveKind kind, ValueId input, ValueId output) const {
    CallItem item;
    item.lanes = all;
    item.collective.kind = kind;
    item.collective.group = tp;
    item.input = input;
    item.output = output;
    return item;
  }
  void add_call(CallItem item, const std::string& stream = "main") {
    add(Communicate{{std::move(item)}}, stream);
  }
};

void add_calls(SpmdSample& sample, ValueId x, ValueId y) {
  using Kind = CollectiveKind;
  sample.add_call(sample.item(Kind::all_gather, x, y));
  sample.add_call(sample.item(Kind::all_reduce, x, y), "comm");
  CallItem in_place = sample.item(Kind::all_reduce, x, x);
  in_place.in_place = true;
  in_place.collective.reduction = {ReduceOp::premul_sum, 0.5};
  in_place.collective.group = Group::world(4);
  sample.add_call(in_place);
  CallItem exchange = sample.item(Kind::all_to_all, x, y);
  exchange.dim = 1;
  sample.add_call(exchange);
  CallItem uneven = sample.item(Kind::all_to_all_v, x, y);
  uneven.send_counts = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
  uneven.recv_counts = {{1, 1}, {2, 2}, {1, 1}, {2, 2}};
  sample.add_call(uneven);
  CallItem root = sample.item(Kind::reduce, x, kNoValue);
  root.collective.root = 1;
  sample.add_call(root);
  sample.add_call(sample.item(Kind::barrier, kNoValue, kNoValue));
  CallItem send = sample.item(Kind::send, x, kNoValue), recv = sample.item(Kind::recv, kNoValue, y);
  send.peers = recv.peers = {1, 0, 1, 0};
  sample.add(Communicate{{send, recv}}, "comm");
  recv.peers = {0, 0, 1, 1};
  sample.add_call(recv);
  CallItem put = sample.item(Kind::put, x, kNoValue);
  put.collective.slot = 2;
  sample.add_call(put);
  CallItem signal = sample.item(Kind::wait_signal, kNoValue, kNoValue);
  signal.collective.peer = 1;
  sample.add_call(signal);
}

SpmdSample sample_spmd_program() {
  SpmdSample sample;
  const ValueId x = sample.value("x"), y = sample.value("y"), h = sample.value("h");
  sample.program.inputs = {x, y};
  const ValueId n = sample.value("n", DType::i64), z = sample.value("_1");
  Compute plain{"softmax", {{sample.all, {{"dim", int64_t{-1}}}}}, {x, kNoValue}, {h}, {}};
  sample.add(plain);
  Compute by_lane{"reshape",
                  {{Lanes::range(0, 2), {{"shape", std::vector<int64_t>{2, 8}}}},
                   {Lanes::range(2, 4), {{"shape", std::vector<int64_t>{1, 8}}}}},
                  {x},
                  {y},
                  {}};
  sample.add(by_lane, "main", Lanes::range(1, 3));
  sample.add(Compute{"add", {}, {x, y}, {h}, {}, x});
  sample.add(Compute{"add", {}, {y, h}, {z}, {}, x});
  sample.add(NumberValue{n, {}, {3, 3, 3, 3}});
  sample.add(NumberValue{h, {0.5, 1.5, 2.5, 3.5}, {}});
  add_calls(sample, x, y);
  const Spec whole = Spec::parse("R", sample.mesh, Dims{4, 8}, DType::f32);
  const Spec cut = Spec::parse("tp:S(0)", sample.mesh, Dims{4, 8}, DType::f32);
  const Spec part = Spec::parse("dp:P(sum)", sample.mesh, Dims{4, 8}, DType::f32);
  sample.add(
      Reshuffle{x, z, std::make_shared<PlanStep>(PlanStep{StepKind::local, {1}, whole, cut})});
  sample.add(
      Reshuffle{x, z, std::make_shared<PlanStep>(PlanStep{StepKind::local, {0}, whole, part})});
  sample.add(Merge{h, {{Lanes::range(0, 2), x}, {Lanes::range(2, 4), y}}});
  sample.add(SlotRead{2, z});
  sample.add(Snapshot{x, z, "h_0", "dp:S(0)"});
  sample.add(Snapshot{x, z, "s", "R on pp=0"}, "comm");
  sample.add(Snapshot{y, z, "h", ""});
  sample.add(RecordEvent{"e"}, "comm");
  sample.add(Wait{Wait::Waiter::stream, kNoValue, "e", ""});
  sample.add(Wait{Wait::Waiter::stream, kNoValue, "", "comm"});
  sample.add(Wait{Wait::Waiter::host, y, "", ""});
  sample.add(Keep{x, "comm"});
  sample.add(Free{x}, "main", Lanes::one(3));
  return sample;
}

TEST(PrintSpmd, Approved) {
  const SpmdSample sample = sample_spmd_program();
  std::string text = joined(to_lines(sample.program)) + "\nEach instruction on one line:\n";
  for (const Instr& instr : sample.program.listings[0].instrs)
    text += to_string(instr, sample.program) + "\n";
  expect_approved("program/spmd_program", text);
}

TEST(PrintSpmd, GroupOfSeveralAxes_IsAList) {
  SpmdSample sample;
  CallItem item = sample.item(CollectiveKind::barrier, kNoValue, kNoValue);
  item.collective.group = Group::of_axes(sample.mesh, {0, 1});
  const Instr instr{item.lanes, "main", Communicate{{item}}, {}, {}};
  EXPECT_EQ(to_string(instr, sample.program), "barrier(group=[dp, tp])");
}

TEST(PrintSpmd, Checks_ParseBack) {
  SpmdSample sample;
  const ValueId x = sample.value("x"), copy = sample.value("_1");
  for (const char* placed : {"", "dp:S(0)", "dp:S(0, after=tp) tp:P(sum) on pp=0 tp=1"}) {
    const Instr instr{sample.all, "main", Snapshot{x, copy, "h_0", placed}, {}, {}};
    const std::string line = to_string(instr, sample.program);
    EXPECT_EQ(to_lines(parse_listing({line})), std::vector<std::string>{line});
  }
}

TEST(PrintSpmd, PeersInARing_AreNextAndPrev) {
  for (const int64_t size : {3, 4, 7}) {
    SpmdSample sample;
    sample.program.world = size;
    CallItem item = sample.item(CollectiveKind::send, sample.value("x"), kNoValue);
    item.lanes = Lanes::range(0, size);
    item.collective.group = Group::world(size);
    for (int64_t i = 0; i < size; ++i) item.peers.push_back((i + 1) % size);
    Instr instr{item.lanes, "main", Communicate{{item}}, {}, {}};
    EXPECT_EQ(to_string(instr, sample.program), "send(x, to=next)");
    for (int64_t i = 0; i < size; ++i) item.peers[static_cast<size_t>(i)] = (i + size - 1) % size;
    instr.action = Communicate{{item}};
    EXPECT_EQ(to_string(instr, sample.program), "send(x, to=prev)");
  }
}

Instr with(Action action) {
  Instr instr;
  instr.action = std::move(action);
  return instr;
}

TEST(Effects, EachAction_ListsItsReadsAndWrites) {
  const Effects compute = effects_of(with(Compute{"add_", {}, {1, kNoValue, 2, 1}, {3}, {}, 4}));
  EXPECT_EQ(compute.reads, (std::vector<ValueId>{1, 2}));
  EXPECT_EQ(compute.writes, (std::vector<ValueId>{3, 4}));

  CallItem send, in_place;
  send.input = 5;
  in_place.input = 6;
  in_place.output = 7;
  in_place.in_place = true;
  const Effects call = effects_of(with(Communicate{{send, in_place}}));
  EXPECT_EQ(call.reads, (std::vector<ValueId>{5, 6}));
  EXPECT_EQ(call.writes, (std::vector<ValueId>{7, 6}));

  EXPECT_EQ(effects_of(with(RecordEvent{"e"})).signals, std::vector<std::string>{"e"});
  const Effects wait = effects_of(with(Wait{Wait::Waiter::host, 3, "", ""}));
  EXPECT_TRUE(wait.reads.empty() && wait.writes.empty());
  const Effects check = effects_of(with(Snapshot{3, 4, "h", "dp:S(0)"}));
  EXPECT_EQ(check.reads, std::vector<ValueId>{3});
  EXPECT_EQ(check.writes, std::vector<ValueId>{4});
  const Effects merge = effects_of(with(Merge{3, {{Lanes::one(0), 1}}}));
  EXPECT_TRUE(merge.reads.empty() && merge.writes.empty());
}

TEST(Attrs, TypedAccess) {
  const Attrs attrs{
      {"dim", int64_t{-1}}, {"keepdim", true}, {"eps", 1e-5}, {"none", std::monostate()}};
  EXPECT_EQ(attrs.integer("dim"), -1);
  EXPECT_EQ(attrs.integer("keepdim"), 1);
  EXPECT_EQ(attrs.number("dim"), -1.0);
  EXPECT_TRUE(attrs.has("eps"));
  EXPECT_FALSE(attrs.has("none"));
  EXPECT_FALSE(attrs.has("absent"));
  EXPECT_EQ(to_string(attrs), "dim=-1, eps=1e-05, keepdim=true");
  EXPECT_EXIT(attrs.flag("absent"), testing::ExitedWithCode(3), "no attribute absent");
  EXPECT_EXIT(attrs.text("dim"), testing::ExitedWithCode(3), "attribute dim=-1 is not a text");
}

}  // namespace
}  // namespace shardproof::program_text_test
