// Tests of benchmarks of one collective: inputs are exact, outputs are compared with the reference,
// and every wrong element is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "shardproof/backends/bench/exact_inputs.h"
#include "shardproof/backends/local/local_backend.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof::benchmark_test {
namespace {

constexpr CollectiveKind kKinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::reduce,
    CollectiveKind::gather,     CollectiveKind::scatter,    CollectiveKind::send};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg,  ReduceOp::prod, ReduceOp::min,
                             ReduceOp::max, ReduceOp::band, ReduceOp::bxor};

CollectiveBenchmark repetition(CollectiveKind kind, int64_t ranks, int64_t count) {
  CollectiveBenchmark r;
  r.collective.kind = kind;
  r.collective.group = Group::world(ranks);
  r.collective.count = count;
  r.collective.root = has_root(kind) ? ranks - 1 : 0;
  r.times = 2;
  return r;
}

bool can_reduce(const Reduction& reduction, DType dtype) {
  try {
    check_reduction(reduction, dtype);
  } catch (const Error&) {
    return false;
  }
  return true;
}

// Returns all members' inputs in the order of the group.
std::vector<Tensor> inputs_of(const Collective& c) {
  std::vector<Tensor> inputs;
  for (int64_t member = 0; member < c.group.size(); ++member) {
    inputs.push_back(Tensor::empty(c.dtype, Dims{input_elements(c)}));
    write_exact_inputs(c, member, 0, input_elements(c), inputs.back().mutate());
  }
  return inputs;
}

TEST(CollectiveBenchmark, ReferenceOutputs_CountNoWrongElements) {
  for (const CollectiveKind kind : kKinds)
    for (const int64_t ranks : {1, 2, 3, 8, 13}) {
      const Collective c = repetition(kind, ranks, 4 * ranks).collective;
      if (kind == CollectiveKind::send) continue;
      const std::vector<std::optional<Tensor>> outputs = reference(c, inputs_of(c));
      for (int64_t member = 0; member < ranks; ++member) {
        const std::optional<Tensor>& output = outputs[static_cast<size_t>(member)];
        ASSERT_EQ(output.has_value() ? output->elements() : 0, output_elements(c, member));
        if (!output) continue;
        Tensor placed = *output;
        placed.buffer = std::make_shared<Buffer>(*output->buffer);
        placed.buffer->lanes = Lanes::one(member);
        EXPECT_EQ(count_wrong(c, LocalTensor(placed)), 0) << to_string(c) << " member " << member;
      }
    }
}

TEST(CollectiveBenchmark, ChangedElements_AreCounted) {
  for (const CollectiveKind kind : kKinds) {
    const Collective c = repetition(kind, 4, 40000).collective;
    BenchmarkTensors tensors = exact_tensors(repetition(kind, 4, 40000), Lanes::one(3));
    Tensor answer =
        Tensor::empty(c.dtype, Dims{output_elements(c, 3)}, Lanes::one(3), Slots::shared(1));
    std::memset(answer.mutate(), 0xFF, static_cast<size_t>(answer.elements()) * 4);
    EXPECT_EQ(count_wrong(c, LocalTensor(answer)), answer.elements()) << to_string(c);
  }
}

// Inputs and partial results have few bits: adding from the other end gives equal bits.
TEST(CollectiveBenchmark, Reductions_InAnyOrder_AreExact) {
  for (int d = 0; d < kDTypeCount; ++d)
    for (const ReduceOp op : kOps) {
      Collective c = repetition(CollectiveKind::all_reduce, 13, 64).collective;
      c.dtype = static_cast<DType>(d);
      c.reduction = {op, 0};
      if (!can_reduce(c.reduction, c.dtype)) continue;
      std::vector<Tensor> inputs = inputs_of(c);
      const Tensor forward = *reference(c, inputs).front();
      std::reverse(inputs.begin(), inputs.end());
      EXPECT_TRUE(bit_equal(forward, 0, *reference(c, inputs).front(), 0)) << to_string(c);
    }
}

TEST(CollectiveBenchmark, EveryKind_LocalBackend_IsRight) {
  const std::shared_ptr<Backend> local = local_backend();
  for (const CollectiveKind kind : kKinds)
    for (const OutputBuffer output_buffer : {OutputBuffer::out_of_place, OutputBuffer::in_place})
      for (const int64_t ranks : {1, 2, 5}) {
        if (!can_be_checked(kind, output_buffer)) continue;
        CollectiveBenchmark r = repetition(kind, ranks, 8 * ranks);
        r.output_buffer = output_buffer;
        const BenchmarkResult result = run_benchmark(*local, r).front();
        EXPECT_EQ(result.wrong, 0)
            << to_string(r.collective) << " " << static_cast<int>(output_buffer);
        EXPECT_GT(result.seconds, 0);
      }
}

TEST(CollectiveBenchmark, NoElements_CountNoWrongElements) {
  const std::shared_ptr<Backend> local = local_backend();
  for (const CollectiveKind kind : kKinds)
    EXPECT_EQ(run_benchmark(*local, repetition(kind, 3, 0)).front().wrong, 0);
}

}  // namespace
}  // namespace shardproof::benchmark_test
