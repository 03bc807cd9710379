// Tests the laws of provenance (engine/explain/provenance.h) on random rank programs. Values that
// are stated to be replicated have the same bits. An op applied to the whole values of its inputs
// (shards joined, parts added up) gives the whole value of its result.
#include <gtest/gtest.h>

#include <cmath>

#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/engine/check_ops/run_local.h"
#include "shardproof/engine/compare/elements.h"
#include "shardproof/engine/execute/run_program.h"
#include "shardproof/engine/explain/provenance.h"
#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/lower/rank_lowering.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::provenance_law_test {
namespace {

struct Counts {
  int64_t replicated = 0, whole = 0, partial = 0, unknown = 0, wrong = 0;
};

class ProvenanceLaws {
 public:
  ProvenanceLaws(const Job& job, Counts& counts)
      : job_(job),
        ranks_(lower_ranks(job, builtin_registries().ops)),
        mesh_(job.meshes.at(0).second),
        provenance_(ranks_.program, mesh_, builtin_registries().ops),
        counts_(counts) {}

  void check() {
    find_written();
    run();
    for (size_t id = 0; id < ranks_.program.values.size(); ++id)
      for (int axis = 0; axis < mesh_.axis_count(); ++axis)
        check_copies(static_cast<ValueId>(id), axis);
    for (const SpmdListing& listing : ranks_.program.listings)
      for (const Instr& instr : listing.instrs)
        if (const auto* compute = std::get_if<Compute>(&instr.action))
          for (int axis = 0; axis < mesh_.axis_count(); ++axis) check_op(instr, *compute, axis);
  }
  std::string trouble;

 private:
  void find_written() {
    for (const SpmdListing& listing : ranks_.program.listings)
      for (const Instr& instr : listing.instrs) {
        if (const auto* compute = std::get_if<Compute>(&instr.action))
          if (compute->into != kNoValue) written_.insert(compute->into);
        if (const auto* call = std::get_if<Communicate>(&instr.action))
          for (const CallItem& item : call->items)
            if (item.in_place) written_.insert(item.output);
      }
  }

  void run() {
    const std::vector<LocalTensor> inputs = split_inputs(job_);
    for (size_t i = 0; i < inputs.size(); ++i) held_[ranks_.program.inputs[i]] = inputs[i];
    const ValueFilter watched{[](ValueId) { return true; }, {}};
    const auto probe = [&]() -> ProbeFunction {
      return [&](ValueId id, const LocalTensor& value) {
        std::vector<Block> blocks = held_[id].blocks();
        for (const Block& block : value.blocks()) {
          std::erase_if(blocks, [&](const Block& known) {
            return !known.lanes.intersect(block.lanes).empty();
          });
          blocks.push_back(block);
        }
        held_[id] = LocalTensor(std::move(blocks));
      };
    };
    run_program(ranks_.program, job_, builtin_registries(), watched, probe, &inputs);
  }

  bool is_usable(ValueId id) const {
    return id != kNoValue && !written_.contains(id) && held_.contains(id);
  }

  // Returns the whole value of one group of the axis; nullopt if a rank of it has none.
  std::optional<Tensor> whole(ValueId id, const AxisState& state,
                              const std::vector<int32_t>& members) const {
    const LocalTensor value = held_.at(id).restrict_to(Lanes::of(members));
    if (value.lanes().size() != std::ssize(members)) return std::nullopt;
    const auto shape_on = [&](int32_t rank) -> Dims {
      for (const Block& block : value.blocks())
        if (block.lanes.contains(rank)) return block.tensor.shape;
      return {};
    };
    Dims shape = shape_on(members[0]);
    Placement placement = state.kind == AxisKind::replicated ? R() : state.placement;
    if (placement.is_shard()) {
      Shard shard = placement.shard();
      shard.split = 1;
      shape[shard.dim] = 0;
      for (const int32_t rank : members) {
        shard.sizes.push_back(shape_on(rank)[shard.dim]);
        shape[shard.dim] += shard.sizes.back();
      }
      placement = shard;
    }
    const DType dtype = value.blocks()[0].tensor.dtype;
    const Mesh axis = Mesh::make({{"a", std::ssize(members)}}, members);
    return whole_value(value, Spec(axis, {placement}, shape, dtype));
  }

  void check_copies(ValueId id, int axis) {
    const AxisState& state = provenance_.state(id, axis);
    if (mesh_.axis_size(axis) == 1 || !is_usable(id)) return;
    if (state.kind == AxisKind::unknown || state.kind == AxisKind::varying) ++counts_.unknown;
    if (state.kind != AxisKind::replicated) return;
    const Group group = Group::of_axes(mesh_, {axis});
    const LocalTensor& value = held_.at(id);
    std::map<int64_t, std::pair<const Block*, int64_t>> first;
    for (const Block& block : value.blocks())
      for (int64_t i = 0; i < block.lanes.size(); ++i) {
        const auto [known, fresh] =
            first.emplace(group.sibling_of(block.lanes[i]), std::pair(&block, i));
        if (fresh) continue;
        ++counts_.replicated;
        const auto& [other, lane] = known->second;
        if (other->tensor.shape == block.tensor.shape &&
            bit_equal(other->tensor, other->slot(lane), block.tensor, block.slot(i)))
          continue;
        report(fmt::format("{} is not the same over {}", name_of(id), axis_name(axis)));
      }
  }

  void check_op(const Instr& instr, const Compute& compute, int axis) {
    if (mesh_.axis_size(axis) == 1 || compute.into != kNoValue || compute.attrs.size() != 1) return;
    bool usable = is_usable(compute.outputs.at(0)), all_same = true;
    for (const ValueId id : compute.inputs) {
      usable = usable && is_usable(id);
      if (!usable) return;
      const AxisKind kind = state_read(instr, id, axis).kind;
      usable = kind != AxisKind::varying && kind != AxisKind::unknown;
      all_same = all_same && kind == AxisKind::replicated;
    }
    const AxisState& result = provenance_.state(compute.outputs[0], axis);
    if (!usable || all_same || result.kind == AxisKind::varying || result.kind == AxisKind::unknown)
      return;
    const Group group = Group::of_axes(mesh_, {axis});
    for (int64_t sibling = 0; sibling < group.count(); ++sibling)
      if (const std::vector<int32_t> members = group.members(sibling);
          instr.lanes.contains(Lanes::of(members)))
        check_on(instr, compute, axis, members);
  }

  // Returns the state in which an instruction reads a value.
  const AxisState& state_read(const Instr& instr, ValueId id, int axis) const {
    const std::vector<ValueId>& inputs = std::get<Compute>(instr.action).inputs;
    const auto slot = std::find(inputs.begin(), inputs.end(), id) - inputs.begin();
    for (size_t l = 0; l < ranks_.program.listings.size(); ++l) {
      const Instrs& instrs = ranks_.program.listings[l].instrs;
      for (size_t i = 0; i < instrs.size(); ++i)
        if (&instrs[i] == &instr)
          return provenance_.state_read(l, i, static_cast<size_t>(slot), axis);
    }
    return provenance_.state(id, axis);
  }

  void check_on(const Instr& instr, const Compute& compute, int axis,
                const std::vector<int32_t>& members) {
    const Mesh one = Mesh::make({{"one", 1}});
    LocalCall call;
    call.record = &builtin_registries().ops.at(compute.op.str());
    call.attrs = &compute.attrs[0].attrs;
    std::vector<LocalTensor> inputs;
    for (const ValueId id : compute.inputs) {
      const std::optional<Tensor> input = whole(id, state_read(instr, id, axis), members);
      if (!input) return;
      call.metas.push_back(
          {input->dtype, input->shape, ranks_.program.values[static_cast<size_t>(id)].weak, false});
      call.input_specs.push_back(Spec::replicated(one, input->shape, input->dtype));
      inputs.emplace_back(*input);
    }
    for (const LocalTensor& input : inputs) call.inputs.push_back(&input);
    const std::optional<Tensor> held =
        whole(compute.outputs[0], provenance_.state(compute.outputs[0], axis), members);
    if (!held) return;
    call.output_specs = {Spec::replicated(one, held->shape, held->dtype)};
    const Attrs whole_attrs = attrs_of_whole(compute, members[0], *held);
    if (call.record->view) call.attrs = &whole_attrs;
    const Tensor expected = run_local(call).at(0).blocks()[0].tensor;
    ++counts_.whole;
    counts_.partial += provenance_.state(compute.outputs[0], axis).kind == AxisKind::partial;
    if (!(expected.shape == held->shape))
      return report(fmt::format("{} of {} has another shape as a whole", compute.op,
                                name_of(compute.outputs[0])));
    const Tensor dense = contiguous_copy(expected), got = contiguous_copy(*held);
    const double allowed = 1e-9 * std::max(1.0, largest_element(dense));
    for (int64_t i = 0; i < dense.elements(); ++i)
      if (std::isfinite(magnitude_at(dense, i)) && !(distance_at(dense, got, i) <= allowed))
        return report(fmt::format(
            "{} = {}(..) is not {} over {}", name_of(compute.outputs[0]), compute.op,
            to_string(provenance_.state(compute.outputs[0], axis).placement), axis_name(axis)));
  }

  // Returns the attributes with the sizes of the whole result in place of those of a shard.
  Attrs attrs_of_whole(const Compute& compute, int32_t rank, const Tensor& whole) const {
    Attrs attrs = compute.attrs[0].attrs;
    const Dims shard = held_.at(compute.outputs[0]).find(rank)->tensor.shape;
    for (const auto& [name, value] : compute.attrs[0].attrs.values()) {
      const auto* sizes = std::get_if<std::vector<int64_t>>(&value);
      if (sizes == nullptr || std::ssize(*sizes) != shard.size()) continue;
      std::vector<int64_t> all = *sizes;
      for (int d = 0; d < shard.size(); ++d)
        if (all[static_cast<size_t>(d)] == shard[d]) all[static_cast<size_t>(d)] = whole.shape[d];
      attrs.set(name, all);
    }
    return attrs;
  }

  std::string name_of(ValueId id) const {
    return ranks_.program.values[static_cast<size_t>(id)].name;
  }
  std::string axis_name(int axis) const { return mesh_.axes()[static_cast<size_t>(axis)].name; }
  void report(const std::string& text) {
    ++counts_.wrong;
    if (trouble.size() < 2000) trouble += text + "\n";
  }

  const Job& job_;
  RankProgram ranks_;
  const Mesh mesh_;
  Provenance provenance_;
  Counts& counts_;
  std::set<ValueId> written_;
  std::map<ValueId, LocalTensor> held_;
};

ValueId value_named(const RankProgram& ranks, const std::string& name) {
  return ranks.names.at(name).front().value;
}

// Each part over 0 is infinite or NaN: the parts no longer add up to the whole value.
TEST(Provenance, QuotientByZero_IsNoPartialSum) {
  Job job = job_of("tp=2", {});
  add_input(job, "x", {4}, "P(sum)");
  add_ranks(job, "all", Lanes::range(0, 2), {"h = x / 2", "q = x / 0", "z = x / 0.0"});
  const RankProgram ranks = lower_ranks(job, builtin_registries().ops);
  const Provenance provenance(ranks.program, job.meshes.at(0).second, builtin_registries().ops);
  EXPECT_EQ(provenance.state(value_named(ranks, "h"), 0).kind, AxisKind::partial);
  EXPECT_EQ(provenance.state(value_named(ranks, "q"), 0).kind, AxisKind::varying);
  EXPECT_EQ(provenance.state(value_named(ranks, "z"), 0).kind, AxisKind::varying);
}

TEST(Provenance, Statements_AboutRandomRankPrograms_Hold) {
  Counts counts;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ProgramOptions options;
    options.kind = ProgramKind::ranks;
    options.dtype = DType::f64;
    options.conditioning = Conditioning::well;
    options.max_lines = 40;
    const RandomProgram program = random_program(seed, options, builtin_registries().ops);
    const Job job = job_of(program.text);
    ProvenanceLaws laws(job, counts);
    laws.check();
    std::string text;
    for (const std::string& line : program.text.ranks) text += line + "\n";
    ASSERT_EQ(laws.trouble, "") << "seed " << seed << ", mesh " << program.text.mesh << "\n"
                                << text;
  }
  EXPECT_EQ(counts.wrong, 0);
  EXPECT_GT(counts.replicated, 10000);
  EXPECT_GT(counts.whole, 1000);
  EXPECT_GT(counts.partial, 100);
  fmt::print("{} copies, {} whole values, {} of them partial, {} unknown\n", counts.replicated,
             counts.whole, counts.partial, counts.unknown);
}

// The gradient of a sum repeats one number, which is cut beside shards. 7 rows are uneven shards,
// and of 2 rows the last rank has none. A mean over uneven shards divides by other counts.
TEST(Provenance, Gradients_OfSumsOverShards_AreKnown) {
  const std::vector<std::string> losses = {"sum(square(x @ w))",
                                           "mean(square(x @ w))",
                                           "sum(relu(x @ w) * (x @ w)) / 7",
                                           "sum(square(x @ w) * y[:, None])",
                                           "sum(square(sum(x @ w, dim=1)))",
                                           "sum(square(softmax(x @ w, dim=1)))",
                                           "sum(square(layer_norm(x @ w, [4])))"};
  for (const int64_t rows : {9, 7, 2})
    for (const std::string& loss : losses) {
      SCOPED_TRACE(fmt::format("{} of {} rows", loss, rows));
      Job job = job_of("dp=3", {});
      add_input(job, "x", {rows, 6}, "dp:S(0)", DType::f64);
      add_input(job, "y", {rows}, "dp:S(0)", DType::f64);
      add_input(job, "w", {6, 4}, "", DType::f64);
      add_ranks(job, "all", Lanes::range(0, 3),
                {"l = " + loss, "gx, gw = grad(l, [x, w])",
                 "s = reduce_scatter(gw, sum, dim=0, group=dp)", "n = sum(s * s)"});
      Counts counts;
      ProvenanceLaws laws(job, counts);
      laws.check();
      EXPECT_EQ(laws.trouble, "");
      const RankProgram ranks = lower_ranks(job, builtin_registries().ops);
      const Provenance provenance(ranks.program, job.meshes.at(0).second, builtin_registries().ops);
      const auto kind_of = [&](const char* name) {
        return provenance.state(value_named(ranks, name), 0).kind;
      };
      const bool differs = loss.starts_with("mean") && rows != 9;
      EXPECT_EQ(kind_of("gx"), differs ? AxisKind::varying : AxisKind::cut);
      EXPECT_EQ(kind_of("gw"), differs ? AxisKind::varying : AxisKind::partial);
      EXPECT_EQ(kind_of("s"), AxisKind::cut);
      EXPECT_EQ(kind_of("n"), AxisKind::partial);
    }
}

}  // namespace
}  // namespace shardproof::testing::provenance_law_test
