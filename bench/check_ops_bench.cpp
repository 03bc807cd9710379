// Measures the brute force of check-ops on one core: combinations of placements a second that the
// search of all right rules judges.
//
// A combination is one placement of each input and one of a result. Example: add on [4, 6] and an
// axis of 2 ranks has 13 placements for each of three tensors, 2,197 combinations. Each is judged
// on every draw until one refutes it.
//
// The time of a search has the parts of partial inputs, the shards, all kernel calls and all
// comparisons. Three things are made before it: the tables of placements, the draws with their
// results on one device, and the kernels for local shapes. All searches of an op with tensors of
// these shapes share the tables; all draws share the kernels. The second number includes all three.
// The baseline judges combinations of the same call one by one, as the rules that an op claims are
// judged; kernels and shards are shared there as well.
#include "shardproof/bench/measure.h"
#include "shardproof/engine/check_ops/candidates.h"
#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/engine/check_ops/rule_case.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

constexpr uint64_t kSeed = 5;
constexpr DrawCounts kDraws{2};
constexpr size_t kBaselineCases = 200;

struct Work {
  std::string op, call;  // the call in the language, over x0 and x1
  std::vector<Dims> shapes;
  std::string mesh;
  int64_t target = 0;  // combinations a second
  DType dtype = DType::i64;
  Attrs attrs = {};
};

// The placements of all tensors of a call, and how it is judged.
class Search {
 public:
  explicit Search(const Work& work) : work_(work), mesh_(Mesh::parse(work.mesh)) {
    Sample sample;
    sample.attrs = work.attrs;
    for (const Dims& shape : work.shapes) sample.inputs.push_back({work.dtype, shape});
    instance_ = instance_of(ops_.at(work.op), sample, kSeed);
    for (const TensorMeta& meta : instance_.inputs)
      inputs_.push_back(all_placements(meta, mesh_, {}));
    for (const TensorMeta& meta : instance_.record->infer(instance_.call()))
      outputs_.push_back(all_placements(meta, mesh_, {}));
    prepare();
  }

  // Makes what searches share or take.
  void prepare() {
    tables_ = {};
    for (const auto* tensors : {&inputs_, &outputs_})
      for (const std::vector<Spec>& specs : *tensors) tables_.table(specs);
    draws_ = draws_of_op(instance_, kDraws, kSeed);
  }
  int64_t combinations() {
    return search_candidates(draws_, inputs_, outputs_, tables_).combinations;
  }
  void judge_one_by_one() const {
    RuleCase rule;
    rule.op = work_.op;
    rule.lines = {"y0 = " + work_.call};
    rule.results = {"y0"};
    rule.inputs = instance_.inputs;
    rule.mesh = mesh_;
    std::vector<CasePlacements> list;
    for (size_t k = 0; k < kBaselineCases; ++k) {
      CasePlacements& on = list.emplace_back();
      on.mesh = mesh_;
      for (size_t i = 0; i < inputs_.size(); ++i)
        on.in.push_back(inputs_[i][(k * 7 + i * 3) % inputs_[i].size()].placements());
      on.out = {outputs_[0][k % outputs_[0].size()].placements()};
    }
    SP_CHECK(check_cases(rule, list, ops_, kDraws).size() == kBaselineCases, "a case is missing");
  }

 private:
  Work work_;
  OpRegistry ops_ = builtin_ops();
  Mesh mesh_;
  OpInstance instance_;
  std::vector<std::vector<Spec>> inputs_, outputs_;
  PlacementTables tables_;
  std::vector<RuleDraw> draws_;
};

void print_work(const Work& work) {
  Search search(work), fresh(work);
  const auto count = static_cast<double>(search.combinations());
  const int times = count > 1e6 ? 3 : 100;
  const std::vector<double> s = race({{[&] { search.judge_one_by_one(); }, 20},
                                      {[&] { search.combinations(); }, times},
                                      {[&] {
                                         fresh.prepare();
                                         fresh.combinations();
                                       },
                                       times}},
                                     7);
  const double alone = static_cast<double>(kBaselineCases) / s[0], all = count / s[1];
  print({fmt::format("{} on {}: {:.0f} combinations", work.call, work.mesh, count),
         fmt::format("{:.2f} M a second; {:.2f} with tables and draws", all * 1e-6,
                     count / s[2] * 1e-6),
         fmt::format("one by one: {:.0f} a second", alone), fmt::format("{:.0f}", all / alone),
         fmt::format("{} M a second", work.target / 1'000'000)});
}

}  // namespace

int main() {
  print_head();
  const Dims square{4, 6};
  print_work({"add", "add(x0, x1)", {square, square}, "a=2", 8'000'000});
  print_work({"mul", "mul(x0, x1)", {square, square}, "a=2", 8'000'000});
  print_work({"matmul", "matmul(x0, x1)", {square, {6, 4}}, "a=2", 4'000'000});
  print_work({"softmax",
              "softmax(x0, -1)",
              {square},
              "a=2",
              4'000'000,
              DType::f64,
              Attrs{{"dim", int64_t{-1}}}});
  print_work({"neg", "neg(x0)", {square}, "a=2, b=2", 1'000'000});
  print_work({"add", "add(x0, x1)", {square, square}, "a=2, b=2", 1'000'000});
}
